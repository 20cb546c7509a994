"""What may become of an edit of a live object: the rules that report it, and their words.

Of which fields of which kinds it is what, the table of edits says.
"""

from __future__ import annotations

from trainwright.datatypes.groupkind import PERSISTENTVOLUMECLAIM
from trainwright.datatypes.model import Environment, Manifest, Severity
from trainwright.kinds import TRAINING
from trainwright.rule_model.edit import EditRule, EditSample, Verdict, image, job
from trainwright.rules.gitops import stays_until
from trainwright.specs.upstream import upstream

_OPERATOR = upstream("training-operator/edits-reach-no-pod").source
_JOB = "kubernetes/kubernetes:pkg/apis/batch/validation/validation.go"
_KUEUE = upstream("kueue/edits-of-labels").source
_PRUNE = upstream("argocd/prune-confirm").source

# --- what is refused -----------------------------------------------------------------------------


IMMUTABLE = EditRule(
    id="TW504",
    name="immutable-field-changed",
    severity=Severity.ERROR,
    verdict=Verdict.REJECTED,
    summary="Fields that the API server fixes at creation do not change under the same name.",
    effect="The sync fails until the change is taken back; a forced one starts training again.",
    remedy="Give the run a new name: Trainwright's own names change with the spec.",
    source=_JOB,
    passing=EditSample(job("a", "backoffLimit: 1"), job("a", "backoffLimit: 2")),
    failing=EditSample(job("a", image("1")), job("a", image("2"))),
)


def _queued(label: str) -> str:
    return (
        f"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: a, labels: {{{label}}}}}"
    )


QUEUE = EditRule(
    id="TW602",
    name="queue-changed-while-running",
    severity=Severity.WARNING,
    verdict=Verdict.REJECTED,
    summary="A job keeps its queue, and whether it has a priority there, while it runs.",
    effect="Kueue's webhook refuses the object, and the sync fails while the job runs.",
    remedy="Start a new run in the other queue, or suspend the job first.",
    source=_KUEUE,
    passing=EditSample(_queued("team: a"), _queued("team: b")),
    failing=EditSample(_queued("team: a"), _queued("kueue.x-k8s.io/queue-name: b")),
)

UNTIL_ADMITTED = EditRule(
    id="TW613",
    name="edit-until-admitted",
    severity=Severity.WARNING,
    verdict=Verdict.UNTIL_ADMITTED,
    summary="What a job may change only while it waits in its queue is changed then.",
    effect="Once Kueue has admitted the job, the object is refused, and each sync fails until the "
    "edit is taken back.",
    remedy="Look whether it still waits (`trainwright status`), or ask the API server: "
    "`trainwright diff --live`.",
    source=_KUEUE,
    passing=EditSample(_queued("team: a"), _queued("team: b")),
    failing=EditSample(
        _queued("kueue.x-k8s.io/queue-name: a"), _queued("kueue.x-k8s.io/queue-name: b")
    ),
)


# --- what goes away ------------------------------------------------------------------------------

_LASTING = (*TRAINING, PERSISTENTVOLUMECLAIM)


def _kept(manifest: Manifest, environment: Environment | None) -> str:
    """Why an object stays in the cluster when it leaves git, or nothing."""
    if manifest.group_kind not in _LASTING:
        return ""
    end = stays_until(manifest, environment)
    return f"it stays in the cluster until {end}" if end else ""


def _deleted(manifest: Manifest, environment: Environment | None) -> str:
    if manifest.group_kind not in _LASTING or _kept(manifest, environment):
        return ""
    what = "the data in it" if manifest.group_kind == PERSISTENTVOLUMECLAIM else "what it runs"
    return f"the object is deleted at the next sync that prunes, and {what} with it"


def _annotated(option: str) -> str:
    annotations = f"annotations: {{argocd.argoproj.io/sync-options: {option}}}"
    return f"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: a, {annotations}}}"


DELETED = EditRule(
    id="TW511",
    name="deletion-stops-training",
    severity=Severity.WARNING,
    verdict=Verdict.DELETED,
    summary="What may still run, and what holds checkpoints, leaves git only on purpose.",
    effect="Pruning deletes the object: a running training ends at once, a claim loses its data.",
    remedy="Annotate it with argocd.argoproj.io/sync-options: Prune=false, or make sure that the "
    "run is over.",
    source=_PRUNE,
    removal=_deleted,
    passing=EditSample(_annotated("Prune=false")),
    failing=EditSample(_annotated("ServerSideApply=true")),
)

KEPT = EditRule(
    id="TW515",
    name="object-left-in-cluster",
    severity=Severity.NOTE,
    verdict=Verdict.IGNORED,
    summary="An object that leaves git leaves the cluster too.",
    effect="It goes on running and costing, and no change in git reaches it.",
    remedy="Delete it by hand, or confirm the deletion, when it is no longer needed.",
    source=_PRUNE,
    removal=_kept,
    passing=EditSample(_annotated("ServerSideApply=true")),
    failing=EditSample(_annotated("Prune=false")),
)

IN_PLACE = EditRule(
    id="TW514",
    name="edit-in-place",
    severity=Severity.NOTE,
    verdict=Verdict.IN_PLACE,
    summary="A change that may be made to a live object is made to it.",
    effect="It takes effect on the run that is there, which does not start again.",
    remedy="Nothing needs to be done.",
    source=_OPERATOR,
    passing=EditSample(job("a", "suspend: true"), job("a", "suspend: true")),
    failing=EditSample(job("a", "suspend: true"), job("a", "suspend: false")),
)

EDIT_RULES = (
    *(IMMUTABLE, QUEUE, UNTIL_ADMITTED),
    *(DELETED, KEPT, IN_PLACE),
)
