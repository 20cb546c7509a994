"""Objects of other operators that contain training, converted to objects of kinds that are read.

Each value keeps its position in the file. Other objects that contain training are not imported: an
error names them and what is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from trainwright.datatypes.data import Data, digits, mapping, mappings, sequence
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer, holders, lookup, scalars
from trainwright.importing import workflows
from trainwright.importing.reader import object_of
from trainwright.kinds import SERVED
from trainwright.kinds.pytorchjob import KIND as PYTORCHJOB
from trainwright.kinds.reading import (
    ImportingError,
    Loss,
    NotImported,
    Reason,
    SourceObject,
    as_reasons,
    shown,
    table,
)
from trainwright.kinds.roles import Role, described, roles
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.objects.pods.launching import launches
from trainwright.objects.pods.template import Container

# https://project-codeflare.github.io/appwrapper/
_APPWRAPPER = GroupKind("workload.codeflare.dev", "AppWrapper")
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-usage.html
_HYPERPOD = GroupKind("sagemaker.amazonaws.com", "HyperPodPyTorchJob")
# https://volcano.sh/en/docs/user-guide/how_to_use_pytorch_plugin/
_VOLCANO = GroupKind("batch.volcano.sh", "Job")
_OF_RUNTIMES = frozenset({"TrainingRuntime", "ClusterTrainingRuntime"})


def unwrapped(part: SourceObject) -> tuple[SourceObject, ...]:
    """Return the object itself, or those that it contains or is equivalent to.

    Raise ImportingError if it contains training that cannot be imported.
    """
    reader = _READERS.get(part.group_kind)
    return reader(part) if reader else (part,)


def refuse(part: SourceObject, *, servers: bool = False) -> None:
    """Raise ImportingError for an object that makes pods or contains a workload, and whose kind is
    not read; for a server, whose pods no launcher starts, only with `servers`.
    """
    kind = part.group_kind
    if kind in SERVED or kind.kind in _OF_RUNTIMES:
        return
    pod_roles = roles({**part.body, "kind": "pods"})
    trains = not part.metadata.get("ownerReferences") and any(map(_launches, pod_roles))
    if pod_roles and (kind.kind not in workflows.SERVERS or servers or trains):
        raise ImportingError(
            f"{part.place('')}: {_title(part)} is of a kind that is not read. It holds "
            f"{described(pod_roles)}. {_REMEDIES.get(kind.kind, _AS_ANOTHER)}, or keep applying it"
        )
    if not pod_roles and kind.kind.endswith("Job") and kind.group:
        raise ImportingError(
            f"{part.place('')}: {_title(part)} is of a kind that is not read, and its pods are not "
            "written in it. Keep applying it, or write what it runs as one of the kinds that are"
        )
    for at, held in () if pod_roles else holders(part.body):
        inner = Manifest(body=held).group_kind
        if at and (inner in SERVED or inner in workflows.KINDS):
            raise ImportingError(
                f"{part.place(at)}: {_title(part)} is of a kind that is not read. It holds a "
                f"{inner.kind}: import that from a file of its own, or keep applying it"
            )


_AS_ANOTHER = "Write it as one of the kinds that are, such as a JobSet that starts torchrun"
_REMEDIES = {
    "Pod": "Write its spec under spec.template of a Job, and import that",
    "CronJob": "Write its jobTemplate as a Job, and import that",
}


def _launches(role: Role) -> bool:
    """Whether a launcher of training starts in pods."""
    containers = [Container("", body) for body in mappings(role.spec.get("containers"))]
    return any(launches(container.command_line) for container in containers)


def _title(part: SourceObject) -> str:
    name = shown("", part.metadata.get("name"))
    group = part.group_kind.group
    kind = str(part.body.get("kind", "an object without a kind"))
    return f"{kind}/{name}{f' ({group})' if group else ''}"


# --- AppWrapper ----------------------------------------------------------------------------------


def _of_appwrapper(part: SourceObject) -> tuple[SourceObject, ...]:
    """Return what an AppWrapper contains; the first object gets the Kueue labels of the wrapper."""
    held_parts: list[SourceObject] = []
    for index, component in enumerate(mappings(part.spec.get("components"))):
        held = component.get("template")
        if isinstance(held, Mapping):
            at = f"/spec/components/{index}/template"
            held_parts.append(_inner(part, held, at, first=not held_parts))
    if not held_parts:
        raise ImportingError(
            f"{part.place('')}: {_title(part)} holds nothing: it has no components"
        )
    return tuple(inner_part for held in held_parts for inner_part in unwrapped(held))


def _inner(part: SourceObject, held: Mapping[str, Data], at: str, *, first: bool) -> SourceObject:
    queued = {k: v for k, v in part.labels.items() if k.startswith("kueue.x-k8s.io/")}
    metadata = mapping(held.get("metadata"))
    own = mapping(metadata.get("labels"))
    body = dict(held)
    if queued and first:
        body["metadata"] = {**metadata, "labels": {**queued, **own}}
    kept = [str(Pointer.of("metadata", "labels", key)) for key in queued if key not in own]
    moved = {"": at, **dict(zip(kept, kept, strict=True))}
    return _instead(part, body, moved, tuple(_of_wrapper(part, QUEUE_LABEL)) if first else ())


def _instead(
    part: SourceObject,
    body: Mapping[str, Data],
    moved: Mapping[str, str],
    left: tuple[NotImported, ...],
) -> SourceObject:
    """Return another object in place of one. `moved` maps its pointers to original ones."""

    def original(pointer: str) -> str:
        above = [new for new in moved if Pointer(pointer).within(new)]
        new = max(above, key=len, default="")
        return f"{moved.get(new, new)}{pointer[len(new) :]}"

    return replace(
        part,
        body=body,
        place=lambda pointer: part.place(original(pointer)),
        called=lambda pointer: part.called(original(pointer)),
        left=left,
    )


def _of_wrapper(part: SourceObject, *carried: str) -> Iterator[NotImported]:
    """Yield the values of an AppWrapper itself, which are not carried."""
    for pointer, value in scalars(part.body):
        parts = pointer.parts
        is_identity = parts[0] in ("apiVersion", "kind") or parts[:2] == ("metadata", "name")
        inside = parts[:2] == ("spec", "components") and parts[3:4] == ("template",)
        if is_identity or inside or parts[-1] in carried or parts[-1].startswith("kueue.x-k8s.io/"):
            continue
        cosmetic = "podSets" in parts or parts[0] == "status"
        severity = Loss.COSMETIC if cosmetic else Loss.BEHAVIOUR
        yield part.not_imported(
            pointer, value, "the wrapper's own: a run is what it holds", severity
        )


# --- what is a PyTorchJob by another name --------------------------------------------------------


def _pytorchjob(
    part: SourceObject,
    spec: Mapping[str, Data],
    moved: Mapping[str, str],
    left: tuple[NotImported, ...],
) -> SourceObject:
    """Return a PyTorchJob in place of an object. `moved` maps new pointers to original ones."""
    body = object_of(PYTORCHJOB, part.metadata, spec)
    return _instead(part, body, moved, (*part.left, *left))


_REPLICAS = "/spec/pytorchReplicaSpecs"
_REASONS = {kind: as_reasons(rows) for kind, rows in table(__file__, "foreign.yaml").items()}
_COMPLETES = Reason(
    "/spec/tasks/*/policies", "the run has succeeded once its first pod has", Loss.COSMETIC
)
_OTHER = Reason("/**", "a job spec has no field for it", Loss.BEHAVIOUR)


def _left_of(
    part: SourceObject, above: str, carried: Collection[str], *reasons: Reason
) -> Iterator[NotImported]:
    """Yield the fields below a pointer that are not carried, each with the first of the reasons."""
    known = (*reasons, *_REASONS[part.kind], _OTHER)
    for key, value in mapping(lookup(part.body, above)).items():
        at = Pointer(above) / key
        if key not in carried:
            reason = next(reason for reason in known if at.matches(reason.pattern))
            yield part.not_imported(at, value, reason.why, reason.severity or Loss.BEHAVIOUR)


def _of_hyperpod(part: SourceObject) -> tuple[SourceObject, ...]:
    spec = part.spec
    groups = sequence(spec.get("replicaSpecs"))
    if len(groups) != 1:
        raise ImportingError(
            f"{part.place('/spec/replicaSpecs')}: {_title(part)} has {len(groups)} roles, and a "
            f"job spec is one group of equal pods: {described(roles({'spec': {'g': groups}}))}"
        )
    group, policy = mapping(groups[0]), mapping(spec.get("runPolicy"))
    worker = {key: group[key] for key in ("replicas", "template") if key in group}
    kept = ("cleanPodPolicy", "activeDeadlineSeconds", "suspend", "ttlSecondsAfterFinished")
    run_policy = {key: policy[key] for key in kept if key in policy}
    if "jobMaxRetryCount" in policy:
        run_policy["backoffLimit"] = policy["jobMaxRetryCount"]
    made = {key: value for key, value in spec.items() if key == "nprocPerNode"}
    made["runPolicy"] = run_policy
    made["pytorchReplicaSpecs"] = {"Worker": worker}
    left = (
        *_left_of(part, "/spec", {*made, "replicaSpecs", "runPolicy"}),
        *_left_of(part, "/spec/runPolicy", {*kept, "jobMaxRetryCount"}),
        *_left_of(part, "/spec/replicaSpecs/0", {"name", *worker}),
        *_launched_by_operator(part),
    )
    moved = {
        f"{_REPLICAS}/Worker": "/spec/replicaSpecs/0",
        "/spec/runPolicy/backoffLimit": "/spec/runPolicy/jobMaxRetryCount",
    }
    return (_pytorchjob(part, made, moved, left),)


# An agent in the image, which the operator tells when to start the ranks.
# https://awslabs.github.io/ai-on-sagemaker-hyperpod/docs/add-ons/hp-training-operator/overview
_LAUNCHER = "hyperpodrun"


def _launched_by_operator(part: SourceObject) -> Iterator[NotImported]:
    for pointer, value in scalars(part.body):
        if isinstance(value, str) and _LAUNCHER in value and {"command", "args"} & {*pointer.parts}:
            why = (
                f"{_LAUNCHER} starts its ranks when the operator of SageMaker tells it: use "
                "torchrun, which takes the same options"
            )
            yield part.not_imported(pointer, value, why, Loss.CANNOT_RUN)


def _of_volcano(part: SourceObject) -> tuple[SourceObject, ...]:
    """Return a Volcano Job with the pytorch plugin as the PyTorchJob that it is equivalent to."""
    spec = part.spec
    plugins, tasks = mapping(spec.get("plugins")), mappings(spec.get("tasks"))
    groups = {str(task.get("name")): at for at, task in enumerate(tasks)}
    options = dict(
        str(word).removeprefix("--").partition("=")[::2]
        for word in sequence(plugins.get("pytorch"))
    )
    named = {"Master": options.get("master", "master"), "Worker": options.get("worker", "worker")}
    task_index = {role: groups[name] for role, name in named.items() if name in groups}
    if "pytorch" not in plugins or set(groups) - set(named.values()) or "Master" not in task_index:
        raise ImportingError(
            f"{part.place('')}: {_title(part)} is not read without the pytorch plugin, a master "
            f"and at most workers. It holds {described(roles({**part.body, 'kind': 'pods'}))}"
        )
    scheduler = {key: spec[key] for key in ("schedulerName",) if key in spec}
    replicas = {role: _task(tasks[at], options, scheduler) for role, at in task_index.items()}
    policy: dict[str, Data] = {}
    if "maxRetry" in spec:
        policy["backoffLimit"] = spec["maxRetry"]
    scheduling = {key: spec[key] for key in ("queue", "minAvailable") if key in spec}
    if scheduling != {"minAvailable": 1}:
        policy["schedulingPolicy"] = {"minAvailable": _pods(tasks), **scheduling}
    own = {"tasks", "maxRetry", "schedulerName", "queue"}
    carried = own | policy.get("schedulingPolicy", {}).keys()
    left = [*_left_of(part, "/spec", carried)]
    for index in task_index.values():
        policies = mappings(tasks[index].get("policies"))
        completes = all(policy.get("action") == "CompleteJob" for policy in policies)
        why = [_COMPLETES] if completes else []
        left += _left_of(part, f"/spec/tasks/{index}", ("name", "replicas", "template"), *why)
    moved = {
        "/spec/runPolicy/backoffLimit": "/spec/maxRetry",
        "/spec/runPolicy": "/spec/minAvailable",  # whatever else is in it is moved by itself
        "/spec/runPolicy/schedulingPolicy/minAvailable": "/spec/minAvailable",
        "/spec/runPolicy/schedulingPolicy/queue": "/spec/queue",
        "/spec/runPolicy/schedulingPolicy": "/spec/minAvailable",
    }
    for role, index in task_index.items():
        replica, task = f"{_REPLICAS}/{role}", f"/spec/tasks/{index}"
        moved |= {replica: task, f"{replica}/restartPolicy": f"{task}/template/spec/restartPolicy"}
        moved |= {f"{replica}/template/spec/{key}": f"/spec/{key}" for key in scheduler}
    made = {"runPolicy": policy, "pytorchReplicaSpecs": replicas}
    return (_pytorchjob(part, made, moved, tuple(left)),)


def _pods(tasks: Sequence[Mapping[str, Data]]) -> int:
    """Return the number of pods, which is how many Volcano waits for by default.

    https://volcano.sh/en/docs/vcjob/
    """
    counts = (task.get("replicas", 1) for task in tasks)
    return sum(count for count in counts if isinstance(count, int))


def _task(
    task: Mapping[str, Data], options: Mapping[str, str], scheduler: Mapping[str, Data]
) -> dict[str, Data]:
    """Return a PyTorchJob replica, whose operator requires certain names of container and port."""
    template = mapping(task.get("template"))
    spec = mapping(template.get("spec"))
    containers = [dict(container) for container in mappings(spec.get("containers"))]
    if containers:
        port = digits(options.get("port", "")) or 23456
        meets = {"name": "pytorchjob-port", "containerPort": port}
        ports = [*sequence(containers[0].get("ports")), meets]
        containers[0] |= {"name": PYTORCHJOB.container, "ports": ports}
    own = {key: value for key, value in spec.items() if key != "restartPolicy"}
    return {
        **({"replicas": task["replicas"]} if "replicas" in task else {}),
        "restartPolicy": spec.get("restartPolicy", "OnFailure"),
        "template": {**template, "spec": {**scheduler, **own, "containers": containers}},
    }


_READERS: Mapping[GroupKind, Callable[[SourceObject], tuple[SourceObject, ...]]] = {
    _APPWRAPPER: _of_appwrapper,
    _HYPERPOD: _of_hyperpod,
    _VOLCANO: _of_volcano,
    **dict.fromkeys(workflows.KINDS, workflows.refuse_training),
}
