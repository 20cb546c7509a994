"""What GitOps engines make of a run-to-completion object: re-created, retrained, out of sync."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.model import Severity
from trainwright.rules.rule import Rule, Sample
from trainwright.rules.subject import Hit, Subject, dig, mapping, sequence

_QUEUE = "kueue.x-k8s.io/queue-name"
_RUN_POLICY_KINDS = ("PyTorchJob", "TrainingJob")


def _g01(subject: Subject) -> Iterator[Hit]:
    if "generateName" in subject.metadata or not subject.metadata.get("name"):
        yield Hit("/metadata", "the object has no fixed name")


G01 = Rule(
    id="TW501",
    name="fixed-name",
    severity=Severity.ERROR,
    summary="Objects have a metadata.name, never a generateName.",
    effect="generateName can be created but not applied: the sync fails.",
    remedy="Set metadata.name.",
    source="argoproj/argo-cd:docs/user-guide/sync-waves.md",
    run=_g01,
    passing=Sample("kind: PyTorchJob\nmetadata: {name: mnist}"),
    failing=Sample("kind: PyTorchJob\nmetadata: {generateName: mnist-}"),
)


def _g02(subject: Subject) -> Iterator[Hit]:
    for pointer, value in (
        ("/spec/runPolicy/ttlSecondsAfterFinished", dig(subject.spec, "runPolicy")),
        ("/spec/ttlSecondsAfterFinished", subject.spec),
    ):
        ttl = mapping(value).get("ttlSecondsAfterFinished")
        if ttl is not None:
            yield Hit(pointer, f"the object deletes itself {ttl} seconds after it is finished")


G02 = Rule(
    id="TW502",
    name="no-ttl",
    severity=Severity.WARNING,
    summary="Objects that a GitOps engine applies do not delete themselves.",
    effect="The engine sees the object missing and creates it again: the model is trained again.",
    remedy="Remove ttlSecondsAfterFinished; retire finished runs in git.",
    kinds=("PyTorchJob", "TrainingJob", "Job", "JobSet"),
    source="https://github.com/argoproj/argo-cd/issues/8586",
    run=_g02,
    passing=Sample("kind: PyTorchJob\nspec: {runPolicy: {cleanPodPolicy: Running}}"),
    failing=Sample("kind: PyTorchJob\nspec: {runPolicy: {ttlSecondsAfterFinished: 600}}"),
)


def _g05(subject: Subject) -> Iterator[Hit]:
    if _QUEUE not in mapping(subject.metadata.get("labels")):
        return
    for pointer, holder in (
        ("/spec/runPolicy/suspend", mapping(subject.spec.get("runPolicy"))),
        ("/spec/suspend", subject.spec),
    ):
        if "suspend" in holder:
            yield Hit(pointer, f"suspend: {str(holder['suspend']).lower()} with a queue label")


G05 = Rule(
    id="TW505",
    name="suspend-under-a-queue",
    severity=Severity.WARNING,
    summary="An object with a Kueue queue label does not say whether it is suspended.",
    effect="true evicts the running job at each sync; false starts it past the queue.",
    remedy="Remove suspend: Kueue sets it.",
    spec="state",
    source="kubernetes-sigs/kueue@v0.19.2:pkg/controller/jobframework",
    run=_g05,
    passing=Sample(
        "kind: PyTorchJob\nmetadata: {labels: {kueue.x-k8s.io/queue-name: a}}\n"
        "spec: {runPolicy: {backoffLimit: 1}}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nmetadata: {labels: {kueue.x-k8s.io/queue-name: a}}\n"
        "spec: {runPolicy: {suspend: false}}"
    ),
)


def _g06(subject: Subject) -> Iterator[Hit]:
    for container in subject.containers:
        for index, port in enumerate(sequence(container.body.get("ports"))):
            if "protocol" not in mapping(port):
                yield Hit(f"{container.pointer}/ports/{index}", "the port has no protocol")


G06 = Rule(
    id="TW506",
    name="explicit-protocol",
    severity=Severity.WARNING,
    summary="Ports say their protocol.",
    effect="The server adds TCP to the list item, and Argo CD shows the object OutOfSync for ever.",
    remedy="Write protocol: TCP.",
    source="https://github.com/argoproj/argo-cd/issues/11074",
    run=_g06,
    passing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: "
        "[{ports: [{containerPort: 1, protocol: TCP}]}]}}}}}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: "
        "[{ports: [{containerPort: 1}]}]}}}}}"
    ),
)


def _g12(subject: Subject) -> Iterator[Hit]:
    identity = subject.manifest.identity
    same = sum(1 for sibling in subject.siblings if sibling.identity == identity)
    if same > 1:
        yield Hit("/metadata/name", f"{same} documents are {subject.kind}/{subject.manifest.name}")


G12 = Rule(
    id="TW512",
    name="one-document-an-object",
    severity=Severity.WARNING,
    summary="No two documents describe the same object.",
    effect="The last one wins, with a RepeatedResourceWarning at best.",
    remedy="Remove one of them, or give it another name.",
    source="argoproj/argo-cd:docs/user-guide",
    run=_g12,
    passing=Sample(
        "kind: PyTorchJob\nmetadata: {name: a}\n---\nkind: PyTorchJob\nmetadata: {name: b}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nmetadata: {name: a}\n---\nkind: PyTorchJob\nmetadata: {name: a}"
    ),
)
RULES = (G01, G02, G05, G06, G12)
