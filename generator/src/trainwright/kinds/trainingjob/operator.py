"""What the Lattice operator and its agent make of a TrainingJob.

Facts: lattice-io/lattice, lattice-operator/pkg/controller/breezeml.ai/v1/common/util/util.go
(WrapEntrypoint), its reconciler, and lattice-agent's README.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainwright.datatypes.data import Data, dig, integer, mapping
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.trainingjob.pod_templates import pod_template
from trainwright.objects.pods import build
from trainwright.objects.pods.groups import PodGroup, Pods
from trainwright.objects.pods.pod import (
    EnvVar,
    ManifestError,
    Operator,
    Pod,
    Restart,
    Workload,
)
from trainwright.objects.pods.template import Container, PodTemplate

# The agents agree on a free port at each rendezvous; no manifest shows it.
_AGENT_PORT = 29500


def _pods(manifest: Manifest, _: Sequence[Manifest], size: int | None) -> Workload:
    spec = manifest.spec
    low, high = integer(spec.get("minSize")), integer(spec.get("maxSize"))
    if low is None or high is None or not 1 <= low <= high:
        raise ManifestError(
            f"TrainingJob {manifest.name}: minSize {spec.get('minSize')} and maxSize "
            f"{spec.get('maxSize')} must be numbers with 1 <= minSize <= maxSize, or "
            "Lattice never schedules it (WrongConfiguration)"
        )
    chosen = high if size is None else size
    if not low <= chosen <= high:
        raise ManifestError(f"TrainingJob {manifest.name} runs on {low} to {high} pods, not {size}")
    template = pod_template(manifest)
    names = tuple(f"{manifest.name}-worker-{index}" for index in range(chosen))
    _container(manifest.name, spec, template)  # raises before there are pods

    def pod(index: int) -> Pod:
        return _pod(manifest.name, spec, template, index, chosen)

    return Workload(
        pods=Pods((PodGroup("worker", names, names, pod),)),
        deciding=names,
        sizes=None if low == high else (low, high),
        deadline=build.deadline(mapping(spec.get("runPolicy"))),
        own={
            field: spec[field]
            for field, default in _OWN.items()
            if spec.get(field, default) != default
        },
    )


_MOST_DIGITS = 6  # of a number of processes; more are a mistake
_OWN = {"framework": "pytorch", "priority": 0}


def _pod(job: str, spec: Mapping[str, Data], template: PodTemplate, index: int, size: int) -> Pod:
    """Return a pod of the run, with its agent if one is injected."""
    container, injects = _container(job, spec, template), bool(spec.get("injectLattice"))
    name = f"{job}-worker-{index}"
    pod = build.pod(
        template,
        container,
        name=name,
        role="worker",
        index=index,
        restart=_restart(spec, injects),
        fields={"metadata.name": name},
        injected=_for_the_agent(spec) if injects else (),
    )
    return replace(pod, agent=_by_the_agent(job, container, index, size)) if injects else pod


def _container(job: str, spec: Mapping[str, Data], template: PodTemplate) -> Container:
    """Return the container that the operator changes, containers[0] only.

    Raise ManifestError if it has no command that the agent could be put before.
    """
    container = build.main_container(template)
    if spec.get("injectLattice") and not container.body.get("command"):
        raise ManifestError(f"TrainingJob {job}: injectLattice needs an explicit command")
    return container


def _for_the_agent(spec: Mapping[str, Data]) -> tuple[EnvVar, ...]:
    """Return what is appended to the container's own variables for the agent.

    The rendezvous is the operator's own setting.
    """
    operator = "setting of the Lattice operator"
    framework = str(spec.get("framework", "pytorch"))
    return (
        EnvVar("LATTICE_JFROG_USER", source=operator),
        EnvVar("LATTICE_JFROG_KEY", source=operator),
        EnvVar("LATTICE_NNODES", f"{spec.get('minSize')}:{spec.get('maxSize')}"),
        EnvVar("LATTICE_RDZV_ID", source="field metadata.uid of the TrainingJob"),
        EnvVar("LATTICE_FRAMEWORK", framework),
        EnvVar("LATTICE_RDZV_BACKEND", source=operator),
        EnvVar("LATTICE_RDZV_CLIENT_SERVICE_HOST", source=operator),
        EnvVar("LATTICE_RDZV_CLIENT_SERVICE_PORT", source=operator),
        EnvVar("LATTICE_CHECKPOINT_TYPE", source=operator),
        EnvVar("LATTICE_CHECKPOINT_CONFIG", source=operator),
        EnvVar("LATTICE_AUTOPATCH", "torch" if framework == "pytorch" else ""),
    )


def _by_the_agent(
    job: str, container: Container, index: int, size: int
) -> tuple[tuple[EnvVar, ...], ...]:
    """Return what `python -m lattice.run` sets for each process, if the pods join in order."""
    own = container.variables
    written = own.get("LATTICE_NPROC_PER_NODE", "1")
    procs = int(written) if written.isdigit() and len(written) <= _MOST_DIGITS else 1
    threads = {"OMP_NUM_THREADS": "1"} if procs > 1 and "OMP_NUM_THREADS" not in own else {}
    return tuple(
        tuple(
            EnvVar(name, str(value))
            for name, value in {
                "LOCAL_RANK": local,
                "RANK": index * procs + local,
                "WORLD_SIZE": size * procs,
                "MASTER_ADDR": f"{job}-worker-0",
                "MASTER_PORT": _AGENT_PORT,
                "LATTICE_RUN_ID": job,  # the TrainingJob's uid, which no manifest shows
                "NCCL_ASYNC_ERROR_HANDLING": 1,
                **threads,
            }.items()
        )
        for local in range(procs)
    )


def _restart(spec: Mapping[str, Data], injects: bool) -> Restart:
    # Lattice forces Never with its agent, which is also the default without.
    policy = "Never" if injects else dig(spec, "replicaSpecs", "restartPolicy") or "Never"
    return build.restart_of_role(policy, mapping(spec.get("runPolicy")))


OPERATOR = Operator(
    name="BreezeML Lattice operator",
    pods=_pods,
)
