"""Training runtimes of Kubeflow Trainer v2, and what TrainJobs expect of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, dig, mapping, mappings, text
from trainwright.datatypes.groupkind import RUNTIMES, TRAININGRUNTIME
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.indexed_rules import about_jobs
from trainwright.kinds.set_rules import policies_agree
from trainwright.kinds.trainjob.layers import STEP, TRAINER, runtime_jobs, step_of
from trainwright.kinds.trainjob.runtime import JOB_SET, patches, runtime_of
from trainwright.kinds.trainjob.spec_rules import installed_minor, runtime
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rule_model.upstream import upstream

_JOBS = f"{JOB_SET}/replicatedJobs"


def _jobs(subject: Subject) -> list[Mapping[str, Data]]:
    return mappings(dig(subject.spec, "template", "spec", "replicatedJobs"))


def _pod(job: Mapping[str, Data]) -> Mapping[str, Data]:
    return mapping(dig(job, "template", "spec", "template"))


@error("TW208", kinds=RUNTIMES)
def missing_trainer_job(subject: Subject) -> Iterator[Hit]:
    trains = False
    for index, job in enumerate(_jobs(subject)):
        pointer = f"{_JOBS}/{index}"
        name = job.get("name")
        step = step_of(job)
        trains = trains or step == TRAINER
        if step in _CONTAINERS:
            yield from _step(job, pointer, _CONTAINERS[step])
        elif dig(_pod(job), "metadata", "labels", STEP) == TRAINER:
            trains = True
            yield Hit(
                pointer,
                f"the label {STEP} of {name!r} is on its pods, not on its template",
                form="label",
            )
    # MPI's launcher may reach its workers by itself, and the webhook asks for no such job.
    if not trains and _jobs(subject) and "mpi" not in mapping(subject.spec.get("mlPolicy")):
        yield Hit(_JOBS, f"no job has the label {STEP}: {TRAINER}", form="label")


# The container of each step's job.
_CONTAINERS = {
    TRAINER: "node",
    "dataset-initializer": "dataset-initializer",
    "model-initializer": "model-initializer",
}


def _step(job: Mapping[str, Data], pointer: str, container: str) -> Iterator[Hit]:
    """Yield a hit if a step of a runtime has several replicas, or lacks its container."""
    if job.get("replicas") not in (None, 1):
        yield Hit(
            f"{pointer}/replicas", f"replicas is {job['replicas']}, it must be 1", form="refused"
        )
    containers = [text(c.get("name")) for c in mappings(dig(_pod(job), "spec", "containers"))]
    if container not in containers:
        available = ", ".join(map(repr, containers)) or "none"
        yield Hit(
            pointer, f"there is no container named {container} (found: {available})", form="refused"
        )


_POLICIES = ("torch", "mpi", "jax", "xgboost", "flux")


@error("TW217", kinds=RUNTIMES)
def several_ml_policies(subject: Subject) -> Iterator[Hit]:
    policies = mapping(subject.spec.get("mlPolicy"))
    named = [name for name in _POLICIES if policies.get(name) is not None]
    if len(named) > 1:
        yield Hit("/spec/mlPolicy", f"{' and '.join(named)} exclude each other")


@error("TW218")
def initializer_without_job(subject: Subject) -> Iterator[Hit]:
    manifest = runtime(subject)
    jobs = mappings(dig(manifest.spec, "template", "spec", "replicatedJobs")) if manifest else []
    for source in ("dataset", "model") if manifest else ():
        name = f"{source}-initializer"
        if dig(subject.spec, "initializer", source) is None:
            continue
        pods = [_pod(job) for job in jobs if job.get("name") == name]
        containers = [c for pod in pods for c in mappings(dig(pod, "spec", "containers"))]
        if not any(c.get("name") == name for c in containers):
            why = f"no container {name} in its job {name}" if pods else f"no job named {name}"
            yield Hit(f"/spec/initializer/{source}", f"the runtime has {why}")


@warning("TW209", kinds=RUNTIMES)
def ttl_in_runtime(subject: Subject) -> Iterator[Hit]:
    job_set = mapping(dig(subject.spec, "template", "spec"))
    holders = [("/spec/template/spec", job_set)]
    for index, job in enumerate(_jobs(subject)):
        holders.append((f"{_JOBS}/{index}/template/spec", mapping(dig(job, "template", "spec"))))
    for pointer, holder in holders:
        ttl = holder.get("ttlSecondsAfterFinished")
        if ttl is not None:
            message = f"finished jobs delete themselves after {ttl} seconds"
            yield Hit(f"{pointer}/ttlSecondsAfterFinished", message)


@warning("TW211", kinds=RUNTIMES)
def removed_torch_field(subject: Subject) -> Iterator[Hit]:
    installed = installed_minor(subject.environment)
    if installed is not None and installed >= 2:
        for field in mapping(dig(subject.spec, "mlPolicy", "torch")):
            if field in ("numProcPerNode", "elasticPolicy"):
                message = f"torch.{field} is gone since Kubeflow Trainer 2.2"
                yield Hit(f"/spec/mlPolicy/torch/{field}", message)


@warning("TW212", kinds=RUNTIMES)
def missing_gang_scheduler(subject: Subject) -> Iterator[Hit]:
    group_policy = mapping(subject.spec.get("podGroupPolicy"))
    policy = [name for name in ("volcano", "coscheduling") if name in group_policy]
    for index, job in enumerate(_jobs(subject)):
        scheduler = dig(_pod(job), "spec", "schedulerName")
        if policy and scheduler in (None, "", "default-scheduler"):
            message = f"podGroupPolicy is {policy[0]}, but {job.get('name')!r} has no schedulerName"
            yield Hit(f"{_JOBS}/{index}", message)


@error("TW205")
def unknown_runtime(subject: Subject) -> Iterator[Hit]:
    """Yield a problem if runtimeRef must be wrong: the cluster may have runtimes in no file."""
    kind, name = runtime_of(subject.manifest)
    namespace = subject.manifest.namespace
    if not name:
        yield Hit("/spec", "runtimeRef names no runtime")
    elif kind not in RUNTIMES:
        message = f"runtimeRef.kind is {str(kind)!r}, it must be {' or '.join(map(str, RUNTIMES))}"
        yield Hit("/spec/runtimeRef/kind", message)
    elif subject.around.named(kind, name, namespace) is None:
        other = RUNTIMES[1 - RUNTIMES.index(kind)]
        if subject.around.named(other, name, namespace):
            left_out = "kind" not in mapping(subject.spec.get("runtimeRef"))
            meant = f"{kind} is meant when kind is left out" if left_out else f"not a {kind}"
            yield Hit("/spec/runtimeRef", f"{name} is a {other} here, {meant}")
        elif kind == TRAININGRUNTIME and _brings_runtimes(subject):
            message = f"no TrainingRuntime is named {name} in the namespace {namespace!r}"
            yield Hit("/spec/runtimeRef/name", message)


def _brings_runtimes(subject: Subject) -> bool:
    """Whether the namespace's runtimes are among the objects, so that others do not exist."""
    namespace = subject.manifest.namespace
    runtimes = subject.around.by_kind.get(TRAININGRUNTIME, ())
    return subject.job is not None or any(r.namespace == namespace for r in runtimes)


_MANAGER = re.compile(
    r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/[^\s/]\S*"
)
_KUEUE: str = upstream("kueue/trainjob-patch").value


@error("TW207")
def patch_without_target(subject: Subject) -> Iterator[Hit]:
    for index, patch in enumerate(mappings(subject.spec.get("runtimePatches"))):
        pointer = f"/spec/runtimePatches/{index}"
        manager = text(patch.get("manager"))
        if not _MANAGER.fullmatch(manager):
            yield Hit(
                pointer,
                f"the manager {manager!r} has no domain, as in example.com/team",
                form="refused",
            )
        elif manager == _KUEUE:
            yield Hit(f"{pointer}/manager", f"{_KUEUE} is the entry that Kueue writes itself")
    manifest = runtime(subject)
    if manifest is not None:
        yield from _unknown_targets(subject, manifest)


def _unknown_targets(subject: Subject, runtime: Manifest) -> Iterator[Hit]:
    """Yield a hit for each patch of a job or a container that its runtime does not have."""
    jobs = {
        text(job.get("name")): mapping(dig(job, "template", "spec", "template", "spec"))
        for job in mappings(dig(runtime.spec, "template", "spec", "replicatedJobs"))
    }
    for pointer, name, pod in patches(subject.spec):
        if name and name not in jobs:
            available = ", ".join(sorted(jobs)) or "none"
            message = f"{runtime.name} has no job {name!r} (found: {available})"
            yield Hit(pointer, message, form="lost")
            continue
        for field in ("containers", "initContainers"):
            container_names = {
                text(c.get("name")) for job in jobs.values() for c in mappings(job.get(field))
            }
            for container in mappings(dig(pod, "spec", field)):
                if text(container.get("name")) not in container_names:
                    what = f"{container.get('name')!r} among its {field}"
                    yield Hit(pointer, f"{runtime.name} has no {what}", form="lost")


def _set(subject: Subject) -> Mapping[str, Data]:
    return mapping(dig(subject.spec, "template", "spec"))


RULES = (
    *defined_in(globals()),
    *about_jobs(RUNTIMES, lambda subject: runtime_jobs(subject.manifest, JOB_SET)),
    policies_agree(RUNTIMES, lambda subject: ((_set(subject), JOB_SET),)),
)
