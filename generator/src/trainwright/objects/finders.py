"""Where each kind keeps its pod templates, and what becomes of a pod there that is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trainwright.groupkind import (
    CLUSTERTRAININGRUNTIME,
    COMPOSE,
    JOB,
    JOBSET,
    PYTORCHJOB,
    TRAININGJOB,
    TRAININGRUNTIME,
    TRAINJOB,
    GroupKind,
)
from trainwright.model import Data, Manifest
from trainwright.objects.bundle import Bundle, runtime_of
from trainwright.objects.template import PodTemplate
from trainwright.objects.tolerant import dig, integer, mapping, mappings, sequence, text
from trainwright.pointer import token

_JOB_BACKOFF_LIMIT = 6  # batch/v1's default

Finder = Callable[[Manifest, Bundle], Iterator[PodTemplate]]


def templates(manifest: Manifest, around: Bundle) -> tuple[PodTemplate, ...]:
    """Every pod template of an object, whatever its kind; `around` are the objects beside it."""
    finder = _FINDERS.get(manifest.group_kind)
    return tuple(finder(manifest, around)) if finder else ()


def _spec(manifest: Manifest) -> Mapping[str, Data]:
    return mapping(manifest.body.get("spec"))


def _count(value: Data, default: int = 1) -> int:
    number = integer(value)
    return default if number is None else number


def _pytorchjob(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    spec = _spec(manifest)
    limit = dig(spec, "runPolicy", "backoffLimit")
    for role, replica in mapping(spec.get("pytorchReplicaSpecs")).items():
        if isinstance(replica, dict):
            yield PodTemplate(
                f"/spec/pytorchReplicaSpecs/{token(str(role))}/template",
                mapping(replica.get("template")),
                str(role),
                _count(replica.get("replicas")),
                retried=limit != 0 and replica.get("restartPolicy") != "Never",
            )


def _trainingjob(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    spec = _spec(manifest)
    replica = spec.get("replicaSpecs")
    if isinstance(replica, dict):
        # Lattice takes pods away and starts others whenever it resizes a job.
        resized = spec.get("minSize") != spec.get("maxSize")
        limit = dig(spec, "runPolicy", "backoffLimit")
        yield PodTemplate(
            "/spec/replicaSpecs/template",
            mapping(replica.get("template")),
            "Worker",
            _count(spec.get("maxSize")),
            retried=resized or bool(limit),
        )


def _job(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    spec = _spec(manifest)
    yield PodTemplate(
        "/spec/template",
        mapping(spec.get("template")),
        "Worker",
        _count(spec.get("parallelism")),
        retried=_count(spec.get("backoffLimit"), _JOB_BACKOFF_LIMIT) != 0,
    )


def _jobset(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    yield from replicated(_spec(manifest), "/spec")


def _runtime(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    """The pods of a runtime, unless a job here uses it: they are then looked at as its own."""
    if (manifest.group_kind, manifest.name) not in around.used_runtimes:
        jobset = mapping(dig(_spec(manifest), "template", "spec"))
        yield from replicated(jobset, "/spec/template/spec")


def replicated(jobset: Mapping[str, Data], pointer: str) -> Iterator[PodTemplate]:
    """The pods of a JobSet's specification, which a TrainingRuntime contains too."""
    restarts = _count(dig(jobset, "failurePolicy", "maxRestarts"), 0)
    for index, group in enumerate(mappings(jobset.get("replicatedJobs"))):
        job = mapping(dig(group, "template", "spec"))
        yield PodTemplate(
            f"{pointer}/replicatedJobs/{index}/template/spec/template",
            mapping(job.get("template")),
            text(group.get("name")),
            _count(group.get("replicas")) * _count(job.get("parallelism")),
            retried=restarts > 0 or _count(job.get("backoffLimit"), _JOB_BACKOFF_LIMIT) != 0,
        )


# --- TrainJob ------------------------------------------------------------------------------------


def _trainjob(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    """A runtime's pods with what the job runs in them, where the runtime is known.

    What the job says itself is in one place, so that is where all of it points.
    """
    spec = _spec(manifest)
    trainer = mapping(spec.get("trainer"))
    program = {k: v for k, v in trainer.items() if k in ("image", "command", "args", "env")}
    if "resourcesPerNode" in trainer:
        program["resources"] = mapping(trainer["resourcesPerNode"])
    runtime = around.named(*runtime_of(manifest), manifest.namespace)
    nodes = _count(trainer.get("numNodes"), _default_nodes(runtime))
    for template in _runtime_pods(runtime):
        if template.role in ("node", "") or runtime is None:
            pod = _running(_patched(template.body, spec), program)
            yield PodTemplate(
                "/spec/trainer" if trainer else "/spec",
                pod,
                "node",
                nodes,
                retried=template.retried,
                placed={"node": "/spec/trainer"} if trainer else {},
                partial=runtime is None,
            )


def _runtime_pods(runtime: Manifest | None) -> Iterator[PodTemplate]:
    if runtime is None:
        yield PodTemplate("", {"spec": {"containers": [{"name": "node"}]}})
    else:
        jobset = mapping(dig(_spec(runtime), "template", "spec"))
        yield from replicated(jobset, "")


def _default_nodes(runtime: Manifest | None) -> int:
    return _count(dig(_spec(runtime), "mlPolicy", "numNodes")) if runtime else 1


def patches(trainjob: Mapping[str, Data]) -> Iterator[tuple[str, str, Mapping[str, Data]]]:
    """What a TrainJob changes in its runtime's pods: pointer, replicated job ("" for all), pod.

    Each minor version of Kubeflow Trainer spells it in its own way: podSpecOverrides (2.0),
    podTemplateOverrides (2.1), runtimePatches (2.2).
    """
    for field, is_template in (("podSpecOverrides", False), ("podTemplateOverrides", True)):
        for index, override in enumerate(mappings(trainjob.get(field))):
            pointer = f"/spec/{field}/{index}"
            pod = override if is_template else {"spec": override}
            for name in _targets(override):
                yield pointer, name, pod
    for index, patch in enumerate(mappings(trainjob.get("runtimePatches"))):
        jobs = dig(patch, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        for at, group in enumerate(mappings(jobs)):
            inside = "trainingRuntimeSpec/template/spec/replicatedJobs"
            pointer = f"/spec/runtimePatches/{index}/{inside}/{at}"
            pod = mapping(dig(group, "template", "spec", "template"))
            yield pointer, text(group.get("name")), pod


def _targets(override: Mapping[str, Data]) -> list[str]:
    return [text(job.get("name")) for job in mappings(override.get("targetJobs"))] or [""]


def _patched(body: Mapping[str, Data], trainjob: Mapping[str, Data]) -> dict[str, Data]:
    """A pod template of the job `node` with the patches of a TrainJob: lists merge by name."""
    merged = dict(body)
    for _, name, patch in patches(trainjob):
        if name in ("", "node"):
            merged = _laid_over(merged, patch)
    return merged


_NAMED = frozenset({"containers", "initContainers", "volumes", "env", "imagePullSecrets"})


def _laid_over(below: Mapping[str, Data], above: Mapping[str, Data]) -> dict[str, Data]:
    merged = dict(below)
    for key, value in above.items():
        if isinstance(value, dict):
            merged[key] = _laid_over(mapping(merged.get(key)), value)
        elif key in _NAMED and isinstance(value, list):
            merged[key] = _by_name(mappings(merged.get(key)), mappings(value))
        elif isinstance(value, list):
            merged[key] = [*sequence(merged.get(key)), *value]
        else:
            merged[key] = value
    return merged


def _by_name(below: list[Mapping[str, Data]], above: list[Mapping[str, Data]]) -> list[Data]:
    merged = {text(item.get("name")): item for item in below}
    for item in above:
        name = text(item.get("name"))
        merged[name] = _laid_over(merged.get(name, {}), item)
    return list(merged.values())


def _running(template: Mapping[str, Data], program: Mapping[str, Data]) -> dict[str, Data]:
    """The pod template with a program in its container `node`."""
    spec = mapping(template.get("spec"))
    containers = [
        {**container, **program} if container.get("name") == "node" else container
        for container in mappings(spec.get("containers"))
    ]
    return {**template, "spec": {**spec, "containers": containers}}


# --- Compose -------------------------------------------------------------------------------------


def _compose(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    """The services of a Compose file as the pods they would be."""
    for name, service in mapping(_spec(manifest).get("services")).items():
        container, spec = _service(str(name), mapping(service))
        pod: dict[str, Data] = {**spec, "containers": [container]}
        pointer = f"/spec/services/{token(str(name))}"
        body = mapping(service)
        metadata = {"labels": body.get("labels"), "annotations": body.get("annotations")}
        # Docker starts a container again on the same machine, with the files that it has.
        yield PodTemplate(pointer, {"metadata": metadata, "spec": pod}, str(name), retried=False)


def _service(name: str, service: Mapping[str, Data]) -> tuple[dict[str, Data], dict[str, Data]]:
    """A service as a container and the rest of its pod's spec."""
    added, dropped = (list(sequence(service.get(f"cap_{w}"))) for w in ("add", "drop"))
    hardened = "no-new-privileges:true" in sequence(service.get("security_opt"))
    container: dict[str, Data] = {
        "name": name,
        "image": service.get("image"),
        "command": sequence(service.get("entrypoint")),
        "args": sequence(service.get("command")),
        "env": [
            {"name": key, **({} if text(value).startswith("${") else {"value": value})}
            for key, value in _environment(service.get("environment"))
        ],
        "securityContext": {
            "allowPrivilegeEscalation": not hardened,
            "capabilities": {"drop": dropped, "add": added},
            "runAsNonRoot": text(service.get("user")).partition(":")[0] not in ("", "0"),
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    grace = text(service.get("stop_grace_period")).removesuffix("s")
    return container, {"terminationGracePeriodSeconds": int(grace)} if grace.isdigit() else {}


def _environment(value: Data) -> Iterator[tuple[str, Data]]:
    """Compose knows variables as a mapping and as a list of NAME=value."""
    yield from mapping(value).items()
    for entry in sequence(value):
        name, _, given = text(entry).partition("=")
        yield name, given


_FINDERS: dict[GroupKind, Finder] = {
    PYTORCHJOB: _pytorchjob,
    TRAININGJOB: _trainingjob,
    TRAINJOB: _trainjob,
    TRAININGRUNTIME: _runtime,
    CLUSTERTRAININGRUNTIME: _runtime,
    JOBSET: _jobset,
    JOB: _job,
    COMPOSE: _compose,
}
WITH_PODS = tuple(_FINDERS)
