"""Kueue: labels and annotations that admit a job, or silently do not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.datatypes.data import amount, mapping, text
from trainwright.datatypes.environment import Kueue
from trainwright.datatypes.groupkind import CLUSTERQUEUE, LOCALQUEUE, RESOURCEFLAVOR, GroupKind
from trainwright.datatypes.listing import plural
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.kinds import SERVED
from trainwright.objects import forms
from trainwright.objects.kueue import (
    ELASTIC,
    EQUAL_COMPLETIONS,
    GROUP,
    LAYERS,
    MAX_SECONDS,
    MIN_PARALLELISM,
    PREBUILT,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    SLICE,
    TOPOLOGY,
)
from trainwright.objects.pods.template import PodTemplate
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rule_model.upstream import Behaviour, numbers, table, upstream

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_OBJECTS = (
    *(LOCALQUEUE, CLUSTERQUEUE, RESOURCEFLAVOR),
    *(
        GroupKind(LOCALQUEUE.group, kind)
        for kind in ("Workload", "WorkloadPriorityClass", "Topology", "AdmissionCheck", "Cohort")
    ),
)
_STORED = upstream("kueue/stored-version")
_LABEL = Pointer.of("metadata", "labels", QUEUE_LABEL)


@error("TW601", about=(QUEUE_LABEL,), spec=Pointer("/queue"))
def unknown_queue(subject: Subject) -> Iterator[Hit]:
    labels = subject.labels
    if QUEUE_LABEL not in labels:
        return
    queue = text(labels[QUEUE_LABEL])
    queues = subject.environment.queues
    if not _SUBDOMAIN.fullmatch(queue) or len(queue) > 253:
        yield Hit(_LABEL, f"{queue!r} is not a valid queue name")
    elif queues and queue not in queues:
        yield Hit(_LABEL, f'the queue "{queue}" is none of {", ".join(sorted(queues))}')


# Kueue's integration for each kind; some of them are not in Kueue's default configuration.
INTEGRATIONS = {
    kind.group_kind: upstream(kind.integration) for kind in SERVED.values() if kind.integration
}


@error("TW606", about=(QUEUE_LABEL,), kinds=tuple(INTEGRATIONS), spec=Pointer("/target"))
def kind_not_managed_by_kueue(subject: Subject) -> Iterator[Hit]:
    if QUEUE_LABEL in subject.labels and (
        why := unmanaged(subject.environment.kueue, INTEGRATIONS[subject.kind])
    ):
        yield Hit(_LABEL, why)


def unmanaged(kueue: Kueue, row: Behaviour) -> str:
    """Return why Kueue manages no objects of an integration; empty if it does, or if unknown."""
    if kueue.version and not _integrated(row, kueue.version):
        return f"Kueue {kueue.version} has no integration {row.value}"
    if kueue.frameworks:
        listed = row.value in kueue.frameworks
        return "" if listed else f"kueue.frameworks does not list {row.value}"
    if kueue.version and not row.holds(kueue.version):
        return f"Kueue {kueue.version} comes with the integration {row.value} switched off"
    return ""


def _integrated(row: Behaviour, version: str) -> bool:
    """Whether a version has an integration at all, on or off."""
    end = table().get(f"{row.name}-exists")
    return numbers(version) >= numbers(row.since) and (end is None or end.holds(version))


@warning(
    "TW603",
    about=(QUEUE_LABEL, PRIORITY_LABEL),
    spec=Pointer("/labels"),
    per_pod=True,
    special=True,
)
def queue_label_on_pods(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for label in mapping(template.metadata.get("labels")):
            if label in (QUEUE_LABEL, PRIORITY_LABEL):
                pointer = Pointer(f"{template.pointer}/metadata/labels") / label
                message = f"{label} is on the pod template of {template.role}"
                yield Hit(pointer, message, form="queue" if label == QUEUE_LABEL else "priority")


@error("TW604", about=(*TOPOLOGY, *SLICE, GROUP), per_pod=True)
def conflicting_topologies(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        annotations = template.annotations
        if not annotations:
            continue
        pointer = f"{template.pointer}/metadata/annotations"
        requested = [name for name in TOPOLOGY if name in annotations]
        if len(requested) > 1:
            yield Hit(pointer, f"{template.role} has {' and '.join(requested)}")
        if sum(name in annotations for name in SLICE) == 1:
            yield Hit(pointer, f"{template.role} has only one of {' and '.join(SLICE)}")
        yield from (Hit(pointer, message) for message in _unreadable(template))
        if GROUP in annotations:
            yield from (Hit(pointer, message) for message in _ungroupable(template))


def _unreadable(template: PodTemplate) -> Iterator[str]:
    """Values of a template's annotations that Kueue's webhook does not take."""
    given = {name: str(value) for name, value in template.annotations.items()}
    for name in (*TOPOLOGY[:2], SLICE[0]):
        if name in given and (problem := forms.key_problem(given[name])):
            yield f'{name}: "{given[name]}" {problem}'
    if (apart := given.get(TOPOLOGY[2])) is not None and apart not in _BOOLEANS:
        yield f'{TOPOLOGY[2]}: "{apart}" is neither true nor false'
    size = given.get(SLICE[1])
    if size is not None and (count(size) or 0) < 1:
        yield f'{SLICE[1]}: "{size}" is not a number of pods'
    elif size is not None and not template.partial and (count(size) or 0) > template.replicas:
        yield f"{SLICE[1]} is {size}, and the job has {plural(template.replicas, 'pod')}"


# As Go reads them.
_BOOLEANS = frozenset("1 t T TRUE true True 0 f F FALSE false False".split())
_TRUE = frozenset("1 t T TRUE true True".split())
_JOB = GroupKind("batch", "Job")


@error("TW625", about=(MIN_PARALLELISM, EQUAL_COMPLETIONS, ELASTIC, MAX_SECONDS, PREBUILT))
def invalid_kueue_setting(subject: Subject) -> Iterator[Hit]:
    labels = Pointer("/metadata/labels")
    seconds = subject.labels.get(MAX_SECONDS)
    if seconds is not None and (count(seconds) or 0) < 1:
        yield Hit(labels / MAX_SECONDS, f'"{seconds}" is not a number of seconds')
    workload = subject.labels.get(PREBUILT)
    if workload is not None and (problem := forms.SUBDOMAIN.problem(str(workload))):
        yield Hit(labels / PREBUILT, f'"{workload}" {problem}')
    for name, why in _unfit_for_job(subject) if subject.kind == _JOB else _unfit(subject):
        yield Hit(Pointer("/metadata/annotations") / name, why)


def _unfit(subject: Subject) -> Iterator[tuple[str, str]]:
    elastic = subject.annotations.get(ELASTIC) == "true"
    if elastic and subject.kind in SERVED and subject.kind.group != "ray.io":
        yield ELASTIC, f"no {subject.kind} is an elastic job: only Jobs and Ray's kinds are"


def _unfit_for_job(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield annotations that Kueue refuses of a Job, each with the reason."""
    given, spec = subject.annotations, subject.spec
    pods = min(amount(spec.get("parallelism")), amount(spec.get("completions"), 2**31))
    least = given.get(MIN_PARALLELISM)
    if least is not None and not 0 < (count(least) or 0) < pods:
        yield MIN_PARALLELISM, f'"{least}" is not a number from 1 to {pods - 1}'
    if least is not None and given.get(ELASTIC) == "true":
        yield MIN_PARALLELISM, f"{MIN_PARALLELISM} and {ELASTIC} exclude each other"
    equal = given.get(EQUAL_COMPLETIONS)
    if equal is not None and str(equal) not in _BOOLEANS:
        yield EQUAL_COMPLETIONS, f'"{equal}" is neither true nor false'
    elif str(equal) in _TRUE and spec.get("completionMode") != "Indexed":
        yield EQUAL_COMPLETIONS, "it needs completionMode: Indexed"
    elif str(equal) in _TRUE and amount(spec.get("parallelism")) != amount(spec.get("completions")):
        yield EQUAL_COMPLETIONS, "parallelism and completions differ"


def _ungroupable(template: PodTemplate) -> Iterator[str]:
    """Why the group that a template names is not a valid one."""
    annotations = template.annotations
    sliced = [name for name in (*SLICE, LAYERS) if name in annotations]
    if sliced:
        yield f"{template.role} has both {GROUP} and {sliced[0]}"
    if not any(name in annotations for name in TOPOLOGY[:2]):
        yield f"{template.role} has {GROUP}, but neither {' nor '.join(TOPOLOGY[:2])}"
    if str(annotations[GROUP]).isdecimal():
        yield f"{template.role} has {GROUP} {str(annotations[GROUP])!r}, which is a number"


@error("TW611", about=(GROUP,))
def invalid_pod_set_group(subject: Subject) -> Iterator[Hit]:
    groups: dict[str, list[PodTemplate]] = {}
    for template in subject.templates:
        if GROUP in template.annotations:
            groups.setdefault(str(template.annotations[GROUP]), []).append(template)
    for name, members in groups.items():
        why = _unfit_group(members)
        if why:
            yield Hit(f"{members[0].pointer}/metadata/annotations", f'the group "{name}" {why}')


def _unfit_group(members: list[PodTemplate]) -> str:
    """Return why pod sets cannot be placed as one group, or ""."""
    if len(members) != 2:
        return f"has {plural(len(members), 'pod set')}, not two"
    first, second = members
    if any(first.annotations.get(n) != second.annotations.get(n) for n in TOPOLOGY[:2]):
        return "requests two topologies"
    if 1 not in (first.replicas, second.replicas):
        return (
            f"has {first.replicas} and {second.replicas} pods, but one of the two must be one pod"
        )
    return ""


_LEFT = {k.group_kind: k.left_to_flavor for k in SERVED.values() if k.left_to_flavor}
_LATER = "which the flavor's replace in every attempt after the first, whose pods then stay Pending"


@warning(
    "TW612", about=(QUEUE_LABEL,), kinds=tuple(_LEFT), spec=Pointer("/nodeSelector"), per_pod=True
)
def placement_conflicts_with_flavor(subject: Subject) -> Iterator[Hit]:
    if QUEUE_LABEL not in subject.labels:
        return
    left = _LEFT[subject.kind]
    fixed = "nodeSelector" in left
    why = "which Kueue writes when it admits the job" if fixed else _LATER
    for template in subject.templates:
        for name in left:
            if template.spec.get(name):
                at = f"{template.pointer}/spec"
                message = f"{template.role} has {name}, {why}"
                yield Hit(f"{at}/{name}" if fixed else at, message)


@warning("TW607", kinds=_OBJECTS)
def outdated_kueue_version(subject: Subject) -> Iterator[Hit]:
    version = subject.environment.kueue.version
    stored = not version or _STORED.holds(version)
    if subject.manifest.api_version == "kueue.x-k8s.io/v1beta1" and stored:
        yield Hit("/apiVersion", "kueue.x-k8s.io/v1beta1 is deprecated")


RULES = defined_in(globals())
