"""MultiKueue: jobs that run on another cluster, to which nothing but the job itself is copied."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.groupkind import LOCALQUEUE, SERVICE, GroupKind
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import text
from trainwright.kinds import SERVED
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules.gitops import referred_objects
from trainwright.specs.upstream import upstream

_MIRRORED = upstream("kueue/mirrors-the-workload-alone").source
_ELSEWHERE = upstream("kueue/managed-by-multikueue").value
_KINDS = tuple(kind.group_kind for kind in SERVED.values() if kind.integration)
_IN = "queues: {a: {multiKueue: true}}"
_QUEUED = "metadata: {name: llm, labels: {kueue.x-k8s.io/queue-name: a}}"


def _mirrored(subject: Subject) -> bool:
    """Whether MultiKueue runs a job on another cluster."""
    queue = text(subject.labels.get(QUEUE_LABEL))
    return queue in subject.environment.multi_kueue_queues or (
        subject.spec.get("managedBy") == _ELSEWHERE
    )


def _referred(subject: Subject) -> Iterator[tuple[GroupKind, str, str]]:
    """Kind, name and place of each object that the pods of a job need."""
    for kind, name, pointer in referred_objects(subject):
        if name and kind != LOCALQUEUE:
            yield kind, name, pointer
    for template in subject.templates:
        if subdomain := text(template.spec.get("subdomain")):
            yield SERVICE, subdomain, f"{template.pointer}/spec"


def _split(subject: Subject) -> tuple[dict[str, str], dict[str, str]]:
    """What a job needs by title, and where it refers to it: applied beside it here, and not."""
    here: dict[str, str] = {}
    other: dict[str, str] = {}
    for kind, name, pointer in _referred(subject):
        there = subject.around.named(kind, name, subject.manifest.namespace)
        (here if there else other).setdefault(f"{kind} {name}", pointer)
    for sibling in subject.siblings if subject.job else ():
        if sibling.identity != subject.manifest.identity:
            here.setdefault(f"{sibling.kind} {sibling.name}", "")
    return here, other


def _sample(runtime: str, metadata: str = _QUEUED) -> str:
    return f"kind: TrainJob\n{metadata}\nspec: {{runtimeRef: {{name: torch, kind: {runtime}}}}}"


_RUNTIME = "\n---\nkind: TrainingRuntime\nmetadata: {name: torch}"


@error(
    id="TW623",
    summary="A job that MultiKueue runs on another cluster needs no object that is applied here.",
    effect="MultiKueue copies the job and its Workload, and nothing else: on the worker cluster "
    "the job is refused, or its pods wait for ever for what is missing.",
    remedy="Choose a queue of this cluster; or do without the object: a runtime that every worker "
    "cluster has (targets.trainjob.runtime), files and code in the image, network: open.",
    by_hand="Apply the object to every worker cluster as well, or choose a queue of this cluster.",
    kinds=_KINDS,
    spec=Pointer("/queue"),
    source=_MIRRORED,
    passes=_sample("ClusterTrainingRuntime"),
    passes_in=_IN,
    fails=_sample("TrainingRuntime") + _RUNTIME,
    fails_in=_IN,
    near_misses=(
        _sample("TrainingRuntime", _QUEUED.replace(": a}", ": b}")) + _RUNTIME,
        _sample("ClusterTrainingRuntime") + "\n---\nkind: ConfigMap\nmetadata: {name: other}",
    ),
    variants=(
        "kind: TrainJob\nspec: {managedBy: kueue.x-k8s.io/multikueue, runtimeRef: {name: torch, "
        f"kind: TrainingRuntime}}}}{_RUNTIME}",
        f"kind: Job\n{_QUEUED}\nspec: {{template: {{spec: {{subdomain: llm}}}}}}\n---\n"
        "apiVersion: v1\nkind: Service\nmetadata: {name: llm}",
    ),
)
def companion_not_mirrored(subject: Subject) -> Iterator[Hit]:
    if _mirrored(subject):
        here, _ = _split(subject)
        for title, pointer in here.items():
            yield Hit(pointer, f"{title} is applied here, and not on the worker clusters")


@warning(
    id="TW624",
    summary="What a job on another cluster refers to is on every worker cluster.",
    effect="MultiKueue copies the job alone, and its pods wait for ever for what is not there.",
    remedy="Make sure that every worker cluster has it under this name, and waive this.",
    kinds=_KINDS,
    spec=Pointer("/queue"),
    source=_MIRRORED,
    passes=f"kind: Job\n{_QUEUED}\nspec: {{template: {{spec: {{containers: [{{name: a}}]}}}}}}",
    passes_in=_IN,
    fails=f"kind: Job\n{_QUEUED}\nspec: {{template: {{spec: {{volumes: [{{name: d, "
    "persistentVolumeClaim: {claimName: data}}]}}}",
    fails_in=_IN,
    near_misses=(
        f"kind: Job\n{_QUEUED.replace(': a}', ': b}')}\nspec: {{template: {{spec: {{volumes: "
        "[{name: d, persistentVolumeClaim: {claimName: data}}]}}}",
    ),
)
def reference_on_worker_clusters(subject: Subject) -> Iterator[Hit]:
    if _mirrored(subject):
        _, other = _split(subject)
        for title, pointer in other.items():
            yield Hit(pointer, f"{title} has to be on every worker cluster")


RULES = defined_in(globals())
