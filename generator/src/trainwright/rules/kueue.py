"""Kueue: labels and annotations that admit a job, or silently do not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.model import Severity
from trainwright.rules.rule import Rule, Sample
from trainwright.rules.subject import Hit, Subject, escape, mapping, text

_QUEUE = "kueue.x-k8s.io/queue-name"
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_CONSTANTS = "kubernetes-sigs/kueue@v0.19.2:pkg/controller/constants"


def _k01(subject: Subject) -> Iterator[Hit]:
    labels = mapping(subject.metadata.get("labels"))
    if _QUEUE not in labels:
        return
    pointer = f"/metadata/labels/{escape(_QUEUE)}"
    queue = text(labels[_QUEUE])
    known = subject.environment.queues
    if not _SUBDOMAIN.fullmatch(queue) or len(queue) > 253:
        yield Hit(pointer, f"{queue!r} is no valid queue name")
    elif known and queue not in known:
        yield Hit(pointer, f'the queue "{queue}" is none of {", ".join(sorted(known))}')


K01 = Rule(
    id="TW601",
    name="existing-queue",
    severity=Severity.ERROR,
    summary="The queue label names a queue that exists.",
    effect="The job stays suspended and is never admitted.",
    remedy="Use a queue of environment.yaml, or declare this one there.",
    spec="queue",
    source=_CONSTANTS,
    run=_k01,
    passing=Sample(
        "kind: PyTorchJob\nmetadata: {labels: {kueue.x-k8s.io/queue-name: team-a}}",
        environment="queues: {team-a: {}}",
    ),
    failing=Sample(
        "kind: PyTorchJob\nmetadata: {labels: {kueue.x-k8s.io/queue-name: team-b}}",
        environment="queues: {team-a: {}}",
    ),
)


def _k03(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for label in mapping(template.metadata.get("labels")):
            if label in (_QUEUE, "kueue.x-k8s.io/priority-class"):
                pointer = f"{template.pointer}/metadata/labels/{escape(label)}"
                yield Hit(pointer, f"{label} is on the pod template of {template.role}")


K03 = Rule(
    id="TW603",
    name="queue-label-on-the-job",
    severity=Severity.WARNING,
    summary="Kueue's labels are on the job object, not on its pods.",
    effect="The job is not queued, or each of its pods is admitted alone.",
    remedy="Set queue in the job spec instead of a label.",
    spec="labels",
    source=_CONSTANTS,
    run=_k03,
    passing=Sample("kind: PyTorchJob\nmetadata: {labels: {kueue.x-k8s.io/queue-name: team-a}}"),
    failing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: "
        "{metadata: {labels: {kueue.x-k8s.io/queue-name: team-a}}}}}}"
    ),
)

_TOPOLOGY = tuple(
    f"kueue.x-k8s.io/podset-{which}-topology"
    for which in ("required", "preferred", "unconstrained")
)
_SLICE = ("kueue.x-k8s.io/podset-slice-required-topology", "kueue.x-k8s.io/podset-slice-size")


def _k04(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        annotations = mapping(template.metadata.get("annotations"))
        pointer = f"{template.pointer}/metadata/annotations"
        asked = [name for name in _TOPOLOGY if name in annotations]
        if len(asked) > 1:
            yield Hit(pointer, f"{template.role} has {' and '.join(asked)}")
        if sum(name in annotations for name in _SLICE) == 1:
            yield Hit(pointer, f"{template.role} has only one of {' and '.join(_SLICE)}")


K04 = Rule(
    id="TW604",
    name="one-topology",
    severity=Severity.ERROR,
    summary="A pod template asks for at most one topology, and for slices completely.",
    effect="Kueue's webhook refuses the object.",
    remedy="Keep one topology annotation, and both slice annotations or neither.",
    source="kubernetes-sigs/kueue@v0.19.2:pkg/controller/jobframework/tas_validation.go",
    run=_k04,
    passing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {template: {metadata: "
        "{annotations: {kueue.x-k8s.io/podset-required-topology: rack}}}}}}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {template: {metadata: "
        "{annotations: {kueue.x-k8s.io/podset-required-topology: rack, "
        "kueue.x-k8s.io/podset-preferred-topology: rack}}}}}}"
    ),
)
RULES = (K01, K03, K04)
