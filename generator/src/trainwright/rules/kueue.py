"""Kueue: labels and annotations that admit a job, or silently do not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.datatypes.groupkind import CLUSTERQUEUE, LOCALQUEUE, RESOURCEFLAVOR, GroupKind
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import mapping, text
from trainwright.kinds import SERVED
from trainwright.objects.kueue import (
    GROUP,
    LAYERS,
    PRIORITY_LABEL,
    QUEUE_LABEL,
    SLICE,
    TOPOLOGY,
    version_of,
)
from trainwright.pods.template import PodTemplate
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_OBJECTS = (
    *(LOCALQUEUE, CLUSTERQUEUE, RESOURCEFLAVOR),
    *(
        GroupKind(LOCALQUEUE.group, kind)
        for kind in ("Workload", "WorkloadPriorityClass", "Topology", "AdmissionCheck", "Cohort")
    ),
)
_CONSTANTS = "kubernetes-sigs/kueue@v0.19.2:pkg/controller/constants"


@error(
    id="TW601",
    summary="The queue label names a queue that exists.",
    effect="The job stays suspended and is never admitted.",
    remedy="Use a queue of environment.yaml, or declare this one there.",
    spec=Pointer("/queue"),
    source=_CONSTANTS,
    passes="kind: PyTorchJob\nmetadata: {labels: {kueue.x-k8s.io/queue-name: team-a}}",
    passes_in="queues: {team-a: {}}",
    fails="kind: PyTorchJob\nmetadata: {labels: {kueue.x-k8s.io/queue-name: team-b}}",
    fails_in="queues: {team-a: {}}",
)
def unknown_queue(subject: Subject) -> Iterator[Hit]:
    labels = mapping(subject.metadata.get("labels"))
    if QUEUE_LABEL not in labels:
        return
    pointer = Pointer.of("metadata", "labels", QUEUE_LABEL)
    queue = text(labels[QUEUE_LABEL])
    known = subject.environment.queues
    if not _SUBDOMAIN.fullmatch(queue) or len(queue) > 253:
        yield Hit(pointer, f"{queue!r} is not a valid queue name")
    elif known and queue not in known:
        yield Hit(pointer, f'the queue "{queue}" is none of {", ".join(sorted(known))}')


@warning(
    id="TW603",
    summary="Kueue's labels are on the job object, not on its pods.",
    effect="The job is not queued, or each of its pods is admitted alone.",
    remedy="Set queue in the job spec instead of a label.",
    by_hand="Move the label to the metadata of the job.",
    spec=Pointer("/labels"),
    source=_CONSTANTS,
    per_pod=True,
    passes="kind: PyTorchJob\nmetadata: {labels: {kueue.x-k8s.io/queue-name: team-a}}",
    fails="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {metadata: {labels: "
    "{kueue.x-k8s.io/queue-name: team-a}}}}}}",
)
def queue_label_on_pods(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for label in mapping(template.metadata.get("labels")):
            if label in (QUEUE_LABEL, PRIORITY_LABEL):
                pointer = Pointer(f"{template.pointer}/metadata/labels") / label
                yield Hit(pointer, f"{label} is on the pod template of {template.role}")


@error(
    id="TW604",
    summary="A pod template requests at most one topology, and slices completely.",
    effect="Kueue's webhook refuses the object.",
    remedy="Keep one topology annotation, and both slice annotations or neither.",
    source="kubernetes-sigs/kueue@v0.19.2:pkg/controller/jobframework/tas_validation.go",
    per_pod=True,
    passes="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {template: {metadata: "
    "{annotations: {kueue.x-k8s.io/podset-required-topology: rack}}}}}}",
    fails="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {template: {metadata: "
    "{annotations: {kueue.x-k8s.io/podset-required-topology: rack, "
    "kueue.x-k8s.io/podset-preferred-topology: rack}}}}}}",
)
def conflicting_topologies(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        annotations = template.annotations
        if not annotations:
            continue
        pointer = f"{template.pointer}/metadata/annotations"
        asked = [name for name in TOPOLOGY if name in annotations]
        if len(asked) > 1:
            yield Hit(pointer, f"{template.role} has {' and '.join(asked)}")
        if sum(name in annotations for name in SLICE) == 1:
            yield Hit(pointer, f"{template.role} has only one of {' and '.join(SLICE)}")
        if GROUP in annotations:
            yield from (Hit(pointer, message) for message in _ungroupable(template))


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


_PAIR = "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: %s, Worker: %s}}"


def _grouped(*annotations: str, replicas: int = 1) -> str:
    written = ", ".join(f"kueue.x-k8s.io/podset-{annotation}" for annotation in annotations)
    return f"{{replicas: {replicas}, template: {{metadata: {{annotations: {{{written}}}}}}}}}"


_RACK, _RANKS = "required-topology: rack", "group-name: ranks"


@error(
    id="TW611",
    summary="A group of pod sets is two of them, one of a single pod, with the same topology.",
    effect="Kueue refuses the object, or never admits it.",
    remedy=f"Give {GROUP} to exactly two pod templates, or remove it.",
    source="kubernetes-sigs/kueue@v0.19.2:pkg/controller/jobframework/tas_validation.go",
    passes=_PAIR % (_grouped(_RACK, _RANKS), _grouped(_RACK, _RANKS, replicas=3)),
    fails=_PAIR % (_grouped(_RACK), _grouped(_RACK, _RANKS, replicas=3)),
)
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
    if len(members) != 2:
        return f"has {len(members)} pod set{'' if len(members) == 1 else 's'}, not two"
    one, other = members
    if any(one.annotations.get(n) != other.annotations.get(n) for n in TOPOLOGY[:2]):
        return "requests two topologies"
    if 1 not in (one.replicas, other.replicas):
        return f"has {one.replicas} and {other.replicas} pods, but one of the two must be one pod"
    return ""


# Their API keeps the pod template of what has started.
_FIXED = tuple(k.group_kind for k in SERVED.values() if k.immutable_template)


_PLACED = (
    "kind: Job\nmetadata: {labels: {kueue.x-k8s.io/queue-name: a}}\nspec: {template: {spec: %s}}"
)


@warning(
    id="TW612",
    summary="A queued Job or JobSet leaves nodeSelector and tolerations to its ResourceFlavor.",
    effect="Once a flavor with node labels or tolerations has admitted the job, the API refuses to "
    "apply the same file again: Flux stops its whole Kustomization, and Argo CD cannot compare.",
    remedy="Leave them out: the ResourceFlavor has them, or another queue does.",
    kinds=_FIXED,
    spec=Pointer("/nodeSelector"),
    source="https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/",
    per_pod=True,
    passes=_PLACED % "{affinity: {podAntiAffinity: {}}}",
    fails=_PLACED % "{nodeSelector: {agentpool: h100}}",
)
def placement_conflicts_with_flavor(subject: Subject) -> Iterator[Hit]:
    if QUEUE_LABEL not in subject.labels:
        return
    for template in subject.templates:
        for name in ("nodeSelector", "tolerations"):
            if template.spec.get(name):
                message = f"{template.role} has {name}, which Kueue writes when it admits the job"
                yield Hit(f"{template.pointer}/spec/{name}", message)


@warning(
    id="TW607",
    summary="Objects of Kueue are of the version that it stores.",
    effect="A later Kueue no longer serves v1beta1, and the sync fails.",
    remedy="Write apiVersion: kueue.x-k8s.io/v1beta2.",
    kinds=_OBJECTS,
    source="kubernetes-sigs/kueue@v0.19.2:apis/kueue/v1beta2",
    passes="apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue",
    fails="apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue",
)
def outdated_kueue_version(subject: Subject) -> Iterator[Hit]:
    version = version_of(subject.environment)
    if subject.manifest.api_version == "kueue.x-k8s.io/v1beta1" and not (
        version and version < _BETA2
    ):
        yield Hit("/apiVersion", "kueue.x-k8s.io/v1beta1 is deprecated")


_BETA2 = (0, 19)  # the oldest version that was read, in which v1beta2 is what is stored

RULES = defined_in(globals())
