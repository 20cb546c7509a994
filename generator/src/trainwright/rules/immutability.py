"""What may not be changed on a live object: the API server or a webhook refuses it."""

from __future__ import annotations

from trainwright.groupkind import (
    CONFIGMAP,
    JOB,
    JOBSET,
    PERSISTENTVOLUMECLAIM,
    PYTORCHJOB,
    SECRET,
    TRAINJOB,
    GroupKind,
)
from trainwright.model import Severity
from trainwright.rules.tolerant import dig, mapping
from trainwright.rules.trainjob import installed_minor
from trainwright.rules.transition import Change, Field, Path, Step, Transition, Verdict

_TRAINJOB = "kubeflow/trainer@v2.3.0:pkg/apis/trainer/v1alpha1/trainjob_types.go"
_PATCHES = "kubeflow/trainer@v2.3.0:pkg/runtime/framework/plugins/jobset/jobset.go"
_JOBSET = "kubernetes-sigs/jobset@v0.12.0:pkg/webhooks/jobset_webhook.go"
_JOB = "kubernetes/kubernetes:pkg/apis/batch/validation/validation.go"
_CORE = "kubernetes/kubernetes:pkg/apis/core/validation/validation.go"
_KUEUE = "kubernetes-sigs/kueue@v0.19.2:pkg/controller/jobframework/validation.go"
_CEL = "the API server refuses it: the field is immutable"


def fixed(change: Change, path: Path) -> bool:
    """Trainer made these fields immutable with 2.2; that is assumed where nothing is known."""
    minor = installed_minor(change.environment) if change.environment else None
    return minor is None or minor >= 2


def _running(change: Change, path: Path) -> bool:
    return not change.suspended_around


# What Kueue writes into the pod templates of a suspended object, and so anybody may.
_DIRECTIVES = frozenset({"labels", "annotations", "nodeSelector", "tolerations", "schedulingGates"})


def _no_directive(change: Change, path: Path) -> bool:
    return not (change.suspended and _DIRECTIVES & set(path[2:]))


def _no_job_directive(change: Change, path: Path) -> bool:
    return not (change.suspended and (_DIRECTIVES | {"affinity"}) & set(path[2:]))


def _not_resized(change: Change, path: Path) -> bool:
    """Completions of an Indexed Job change only together with its parallelism."""
    new = change.new
    return new.get("completionMode") != "Indexed" or new.get("completions") != new.get(
        "parallelism"
    )


def _sealed(change: Change, path: Path) -> bool:
    return change.before.body.get("immutable") is True


def _no_growth(change: Change, path: Path) -> bool:
    return path[:3] != ("spec", "resources", "requests")


def _fields(kind: GroupKind, source: str, why: str, *paths: str) -> tuple[Field, ...]:
    return tuple(
        Field(path=("spec", *path.split(".")), kinds=(kind,), why=why, source=source)
        for path in paths
    )


_IMMUTABLE = (
    *_fields(TRAINJOB, _TRAINJOB, _CEL, "runtimeRef", "managedBy"),
    *(
        Field(path=("spec", name), kinds=(TRAINJOB,), why=_CEL, source=_TRAINJOB, holds=fixed)
        for name in ("trainer", "initializer", "activeDeadlineSeconds")
    ),
    *(
        Field(
            path=("spec", name),
            kinds=(TRAINJOB,),
            why="Trainer's webhook refuses it while the job is not suspended",
            source=_PATCHES,
            holds=_running,
        )
        for name in ("runtimePatches", "podTemplateOverrides", "podSpecOverrides")
    ),
    *_fields(
        JOBSET,
        _JOBSET,
        _CEL,
        *("network", "successPolicy", "failurePolicy", "startupPolicy"),
        *("volumeClaimPolicies", "managedBy"),
    ),
    Field(
        path=("spec", "replicatedJobs"),
        kinds=(JOBSET,),
        why="JobSet's webhook refuses it: replicated jobs are immutable",
        source=_JOBSET,
        holds=_no_directive,
    ),
    *_fields(
        JOB,
        _JOB,
        _CEL,
        *("selector", "completionMode", "podFailurePolicy"),
        *("backoffLimitPerIndex", "managedBy", "successPolicy"),
    ),
    Field(path=("spec", "template"), kinds=(JOB,), why=_CEL, source=_JOB, holds=_no_job_directive),
    Field(path=("spec", "completions"), kinds=(JOB,), why=_CEL, source=_JOB, holds=_not_resized),
    *_fields(
        PYTORCHJOB,
        "kubeflow/trainer@v1.9.4:manifests/base/crds/kubeflow.org_pytorchjobs.yaml",
        _CEL,
        "runPolicy.schedulingPolicy.queue",
    ),
    *(
        Field(
            path=(name,),
            kinds=(CONFIGMAP, SECRET),
            why="the API server refuses it: the object says that it is immutable",
            source=_CORE,
            holds=_sealed,
        )
        for name in ("data", "binaryData", "stringData", "immutable")
    ),
    Field(
        path=("spec",),
        kinds=(PERSISTENTVOLUMECLAIM,),
        why="the API server refuses it: a claim may only grow",
        source=_CORE,
        holds=_no_growth,
    ),
)


def job(name: str, fields: str) -> str:
    """A Job for samples."""
    return f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{{fields}}}"


def image(tag: str) -> str:
    """A pod template of an image with a tag, for samples."""
    return f"template: {{spec: {{containers: [{{name: node, image: 'train:{tag}'}}]}}}}"


IMMUTABLE = Transition(
    id="TW504",
    name="immutable-field",
    severity=Severity.ERROR,
    verdict=Verdict.REJECTED,
    summary="Fields that the API server fixes at creation do not change under the same name.",
    effect="The sync fails until the change is taken back; a forced one starts training again.",
    remedy="Give the run a new name: Trainwright's own names change with the spec.",
    source=_JOB,
    fields=_IMMUTABLE,
    passing=Step(job("a", "backoffLimit: 1"), job("a", "backoffLimit: 2")),
    failing=Step(job("a", image("1")), job("a", image("2"))),
)

_LABELS = ("metadata", "labels")
_GROUP = "kueue.x-k8s.io"


def _added_or_removed(change: Change, path: Path) -> bool:
    labels = [
        mapping(dig(m.body, "metadata", "labels")) for m in (change.before, change.after) if m
    ]
    return change.suspended is False and sum(path[2] in found for found in labels) == 1


def _queued(label: str) -> str:
    return (
        f"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: a, labels: {{{label}}}}}"
    )


QUEUE = Transition(
    id="TW602",
    name="queue-of-a-live-job",
    severity=Severity.WARNING,
    verdict=Verdict.REJECTED,
    summary="A job keeps its queue, and whether it has a priority there, while it runs.",
    effect="Kueue's webhook refuses the object, and the sync fails while the job runs.",
    remedy="Start a new run in the other queue, or suspend the job first.",
    source=_KUEUE,
    fields=(
        Field(
            path=(*_LABELS, f"{_GROUP}/queue-name"),
            why="Kueue's webhook refuses another queue while the job runs",
            source=_KUEUE,
            holds=_running,
        ),
        Field(
            path=(*_LABELS, f"{_GROUP}/priority-class"),
            why="Kueue's webhook refuses to add a priority to a running job, or to take it away",
            source=_KUEUE,
            holds=_added_or_removed,
        ),
        Field(
            path=(*_LABELS, f"{_GROUP}/max-exec-time-seconds"),
            why="Kueue's webhook refuses another time while the job runs",
            source=_KUEUE,
            holds=_running,
        ),
    ),
    passing=Step(_queued("team: a"), _queued("team: b")),
    failing=Step(_queued("kueue.x-k8s.io/queue-name: a"), _queued("kueue.x-k8s.io/queue-name: b")),
)
TRANSITIONS = (IMMUTABLE, QUEUE)
