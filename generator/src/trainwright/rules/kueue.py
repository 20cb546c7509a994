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
)
from trainwright.pods.template import PodTemplate
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.specs.upstream import Behaviour, numbers, table, upstream

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_OBJECTS = (
    *(LOCALQUEUE, CLUSTERQUEUE, RESOURCEFLAVOR),
    *(
        GroupKind(LOCALQUEUE.group, kind)
        for kind in ("Workload", "WorkloadPriorityClass", "Topology", "AdmissionCheck", "Cohort")
    ),
)
_CONSTANTS = upstream("kueue/labels").source
_TOPOLOGIES = upstream("kueue/topology-annotations").source
_STORED = upstream("kueue/stored-version")


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


# The integration of each kind, of which there are some that Kueue's own configuration leaves out.
INTEGRATIONS = {
    kind.group_kind: upstream(kind.integration) for kind in SERVED.values() if kind.integration
}
_QUEUED = "kind: PyTorchJob\nmetadata: {labels: {kueue.x-k8s.io/queue-name: a}}"


@error(
    id="TW606",
    summary="A queued job is of a kind that the cluster's Kueue manages.",
    effect="Nothing holds the job back: it starts at once, past every quota.",
    remedy="Use target trainjob or jobset; or turn the integration on, and list all that are on in "
    "kueue.frameworks of environment.yaml.",
    by_hand="Use a TrainJob or a JobSet, or turn the integration on.",
    kinds=tuple(INTEGRATIONS),
    spec=Pointer("/target"),
    source=_CONSTANTS,
    passes=_QUEUED,
    passes_in='kueue: {version: "0.19", frameworks: [kubeflow.org/pytorchjob, batch/job]}',
    fails=_QUEUED,
    fails_in='kueue: {version: "0.19"}',
    near_misses=(
        "kind: PyTorchJob",
        "kind: JobSet\nmetadata: {labels: {kueue.x-k8s.io/queue-name: a}}",
    ),
)
def kind_not_managed_by_kueue(subject: Subject) -> Iterator[Hit]:
    if QUEUE_LABEL in subject.labels and (why := _unmanaged(subject)):
        yield Hit(Pointer.of("metadata", "labels", QUEUE_LABEL), why)


def _unmanaged(subject: Subject) -> str:
    """Why Kueue does not manage an object's kind; empty where it does, or nothing says."""
    kueue, row = subject.environment.kueue, INTEGRATIONS[subject.kind]
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
    source=_TOPOLOGIES,
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
    source=_TOPOLOGIES,
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


_LEFT = {k.group_kind: k.left_to_flavor for k in SERVED.values() if k.left_to_flavor}
_LATER = "which the flavor's replace in every attempt after the first, whose pods then stay Pending"

_PATCHED = (
    "kind: TrainJob\nmetadata: {labels: {kueue.x-k8s.io/queue-name: a}}\n"
    "spec: {runtimePatches: [{manager: a.example.com/b, trainingRuntimeSpec: {template: {spec: "
    "{replicatedJobs: [{name: node, template: {spec: {template: {spec: {%s}}}}}]}}}}]}"
)
_PLACED = (
    "kind: Job\nmetadata: {labels: {kueue.x-k8s.io/queue-name: a}}\nspec: {template: {spec: %s}}"
)


@warning(
    id="TW612",
    summary="A queued job leaves to its ResourceFlavor what Kueue writes into its pods: a TrainJob "
    "the tolerations, a Job or JobSet the node selector as well.",
    effect="Once a flavor with node labels or tolerations has admitted a Job or JobSet, the API "
    "refuses to apply the same file again: Flux stops its whole Kustomization, and Argo CD cannot "
    "compare. A TrainJob never runs again after its first failure or preemption: its pods lack the "
    "tolerations of the file, and it keeps its quota.",
    remedy="Leave them out: the ResourceFlavor has them, or another queue does.",
    kinds=tuple(_LEFT),
    spec=Pointer("/nodeSelector"),
    source="https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/",
    per_pod=True,
    passes=_PLACED % "{affinity: {podAntiAffinity: {}}}",
    fails=_PLACED % "{nodeSelector: {agentpool: h100}}",
    near_misses=(
        _PLACED.replace("metadata: {labels: {kueue.x-k8s.io/queue-name: a}}", "metadata: {name: a}")
        % "{nodeSelector: {agentpool: h100}}",
        _PATCHED % "nodeSelector: {agentpool: h100}",
    ),
    variants=(_PATCHED % "tolerations: [{key: sku, operator: Exists}]",),
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


@warning(
    id="TW607",
    summary="Objects of Kueue are of the version that it stores.",
    effect="A later Kueue no longer serves v1beta1, and the sync fails.",
    remedy="Write apiVersion: kueue.x-k8s.io/v1beta2.",
    kinds=_OBJECTS,
    source=_STORED.source,
    passes="apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue",
    fails="apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue",
)
def outdated_kueue_version(subject: Subject) -> Iterator[Hit]:
    version = subject.environment.kueue.version
    stored = not version or _STORED.holds(version)
    if subject.manifest.api_version == "kueue.x-k8s.io/v1beta1" and stored:
        yield Hit("/apiVersion", "kueue.x-k8s.io/v1beta1 is deprecated")


RULES = defined_in(globals())
