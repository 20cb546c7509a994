"""What may become of a change to a live object: the rules that report it, and their words.

Of which fields of which kinds it is what, the table of edits says.
"""

from __future__ import annotations

from trainwright.groupkind import PERSISTENTVOLUMECLAIM, TRAINING
from trainwright.model import Manifest, Severity
from trainwright.objects.tolerant import mapping
from trainwright.objects.transition import Step, Transition, Verdict
from trainwright.rules.gitops import Departure, leaving

_OPERATOR = "kubeflow/trainer@v1.9.4:pkg/controller.v1/common/pod.go"
_PLUGIN = "kubeflow/trainer@v2.3.0:pkg/runtime/framework/plugins/jobset/jobset.go"
_JOBSET = "kubernetes-sigs/jobset@v0.12.0:pkg/webhooks/jobset_webhook.go"
_JOB = "kubernetes/kubernetes:pkg/apis/batch/validation/validation.go"
_KUEUE = "kubernetes-sigs/kueue@v0.19.2:pkg/controller/jobframework/validation.go"
_LATTICE = "lattice-io/lattice:lattice-operator/pkg/controller.v1"
_PRUNE = "argoproj/argo-cd:docs/user-guide/sync-options.md"

# --- what is refused -----------------------------------------------------------------------------


def _job(name: str, fields: str) -> str:
    """A Job for samples."""
    return f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec: {{{fields}}}"


def _image(tag: str) -> str:
    """A pod template of an image with a tag, for samples."""
    return f"template: {{spec: {{containers: [{{name: node, image: 'train:{tag}'}}]}}}}"


IMMUTABLE = Transition(
    id="TW504",
    name="immutable-field-changed",
    severity=Severity.ERROR,
    verdict=Verdict.REJECTED,
    summary="Fields that the API server fixes at creation do not change under the same name.",
    effect="The sync fails until the change is taken back; a forced one starts training again.",
    remedy="Give the run a new name: Trainwright's own names change with the spec.",
    source=_JOB,
    passing=Step(_job("a", "backoffLimit: 1"), _job("a", "backoffLimit: 2")),
    failing=Step(_job("a", _image("1")), _job("a", _image("2"))),
)


def _queued(label: str) -> str:
    return (
        f"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: a, labels: {{{label}}}}}"
    )


QUEUE = Transition(
    id="TW602",
    name="queue-changed-while-running",
    severity=Severity.WARNING,
    verdict=Verdict.REJECTED,
    summary="A job keeps its queue, and whether it has a priority there, while it runs.",
    effect="Kueue's webhook refuses the object, and the sync fails while the job runs.",
    remedy="Start a new run in the other queue, or suspend the job first.",
    source=_KUEUE,
    passing=Step(_queued("team: a"), _queued("team: b")),
    failing=Step(_queued("kueue.x-k8s.io/queue-name: a"), _queued("kueue.x-k8s.io/queue-name: b")),
)

_PATCHED = (
    "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\n"
    "spec: {suspend: true, runtimePatches: [{manager: example.com/team, trainingRuntimeSpec: "
    "{template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: "
    "{%s}}}}}]}}}}]}"
)

REFUSED_BELOW = Transition(
    id="TW216",
    name="edit-refused-by-jobset",
    severity=Severity.ERROR,
    verdict=Verdict.REFUSED_BELOW,
    summary="A suspended TrainJob is changed only where its JobSet may change, too.",
    effect="The TrainJob is accepted, its JobSet is not, and the job does not go on when resumed.",
    remedy="Give the run a new name, or take the change back.",
    source=_JOBSET,
    passing=Step(_PATCHED % "nodeSelector: {a: b}", _PATCHED % "nodeSelector: {a: c}"),
    failing=Step(_PATCHED % "nodeSelector: {a: b}", _PATCHED % "serviceAccountName: a"),
)

# --- what is accepted, and does something else ---------------------------------------------------


def _pytorchjob(restart: str, rest: str) -> str:
    roles = f"pytorchReplicaSpecs: {{Worker: {{restartPolicy: {restart}, {rest}}}}}"
    head = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}"
    return f"{head}\nspec: {{{roles}}}"


SILENT = Transition(
    id="TW121",
    name="ineffective-edit",
    severity=Severity.WARNING,
    verdict=Verdict.IGNORED,
    summary="The pods of a live PyTorchJob are not edited: a change is a new run.",
    effect="Git and the cluster agree, and what runs to its end is the old version.",
    remedy="Give the run a new name: Trainwright's own names change with the spec.",
    source=_OPERATOR,
    passing=Step(
        "kind: PyTorchJob\nspec: {runPolicy: {backoffLimit: 1}}",
        "kind: PyTorchJob\nspec: {runPolicy: {backoffLimit: 2}}",
    ),
    failing=Step(_pytorchjob("Never", _image("1")), _pytorchjob("Never", _image("2"))),
)

MIXED = Transition(
    id="TW122",
    name="mixed-version-ranks",
    severity=Severity.ERROR,
    verdict=Verdict.MIXED,
    summary="All ranks of a PyTorchJob run the same version, in a world of one size.",
    effect="A pod that is made again has the new version, or another world size, than the rest.",
    remedy="Give the run a new name, or suspend the job before the change.",
    source=_OPERATOR,
    passing=Step(_pytorchjob("Never", _image("1")), _pytorchjob("Never", _image("2"))),
    failing=Step(_pytorchjob("ExitCode", _image("1")), _pytorchjob("ExitCode", _image("2"))),
)

_RUNTIME = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {%sname: a}"

RUNTIME = Transition(
    id="TW215",
    name="runtime-edited-in-use",
    severity=Severity.WARNING,
    verdict=Verdict.IGNORED,
    summary="A runtime is not edited for the sake of jobs that already refer to it.",
    effect="Those jobs keep the runtime that they began with; only later ones get the new one.",
    remedy="Make a runtime of another name, and a new run that refers to it.",
    source="kubeflow/trainer@v2.3.0:pkg/controller/trainjob_controller.go",
    passing=Step(_RUNTIME % "labels: {team: a}, ", _RUNTIME % "labels: {team: b}, "),
    failing=Step(
        f"{_RUNTIME % ''}\nspec: {{mlPolicy: {{numNodes: 2}}}}",
        f"{_RUNTIME % ''}\nspec: {{mlPolicy: {{numNodes: 4}}}}",
    ),
)

RESIZED = Transition(
    id="TW310",
    name="resized-while-running",
    severity=Severity.ERROR,
    verdict=Verdict.MIXED,
    summary="The number of ranks of a Job stays what it was when they started.",
    effect="Pods are added or deleted, and the others wait for a world that is not there.",
    remedy="Start a new run, or suspend the Job before the change.",
    source=_JOB,
    passing=Step(_job("a", "parallelism: 2"), _job("a", "parallelism: 4")),
    failing=Step(
        _job("a", "completionMode: Indexed, parallelism: 2, completions: 2"),
        _job("a", "completionMode: Indexed, parallelism: 4, completions: 4"),
    ),
)

_TRAININGJOB = "apiVersion: breezeml.ai/v1\nkind: TrainingJob\nmetadata: {name: a}\nspec: "

LATTICE = Transition(
    id="TW406",
    name="mixed-version-workers",
    severity=Severity.ERROR,
    verdict=Verdict.MIXED,
    summary="All workers of a TrainingJob run the same version.",
    effect="Workers that Lattice starts at its next resize have the new version, the rest not.",
    remedy="Start a new run under another name.",
    source=_LATTICE,
    passing=Step(f"{_TRAININGJOB}{{priority: 1}}", f"{_TRAININGJOB}{{priority: 2}}"),
    failing=Step(
        f"{_TRAININGJOB}{{replicaSpecs: {{{_image('1')}}}}}",
        f"{_TRAININGJOB}{{replicaSpecs: {{{_image('2')}}}}}",
    ),
)

# --- what goes away ------------------------------------------------------------------------------

_LASTING = (*TRAINING, PERSISTENTVOLUMECLAIM)


_STAYS = {
    Departure.KEPT: "it stays in the cluster, and nothing in git speaks of it any more",
    Departure.CONFIRMED: "it stays until its deletion is confirmed",
    Departure.PRUNED: "",
}


def _kept(manifest: Manifest) -> str:
    """Why an object stays in the cluster when it leaves git, or nothing."""
    return _STAYS[leaving(mapping(manifest.body.get("metadata")))]


def _deleted(manifest: Manifest) -> str:
    if manifest.group_kind not in _LASTING or _kept(manifest):
        return ""
    what = "the data in it" if manifest.group_kind == PERSISTENTVOLUMECLAIM else "what it runs"
    return f"the object is deleted at the next sync that prunes, and {what} with it"


def _annotated(option: str) -> str:
    annotations = f"annotations: {{argocd.argoproj.io/sync-options: {option}}}"
    return f"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: a, {annotations}}}"


DELETED = Transition(
    id="TW511",
    name="deletion-stops-training",
    severity=Severity.WARNING,
    verdict=Verdict.DELETED,
    summary="What may still run, and what holds checkpoints, leaves git only on purpose.",
    effect="Pruning deletes the object: a running training ends at once, a claim loses its data.",
    remedy="Annotate it with argocd.argoproj.io/sync-options: Prune=confirm, or make sure that the "
    "run is over.",
    source=_PRUNE,
    removal=_deleted,
    passing=Step(_annotated("Prune=confirm")),
    failing=Step(_annotated("ServerSideApply=true")),
)

KEPT = Transition(
    id="TW515",
    name="object-left-in-cluster",
    severity=Severity.NOTE,
    verdict=Verdict.IGNORED,
    summary="An object that leaves git leaves the cluster too.",
    effect="It goes on running and costing, and no change in git reaches it.",
    remedy="Delete it by hand, or confirm the deletion, when it is no longer needed.",
    source=_PRUNE,
    removal=lambda manifest: _kept(manifest) if manifest.group_kind in _LASTING else "",
    passing=Step(_annotated("ServerSideApply=true")),
    failing=Step(_annotated("Prune=false")),
)

IN_PLACE = Transition(
    id="TW514",
    name="edit-in-place",
    severity=Severity.NOTE,
    verdict=Verdict.IN_PLACE,
    summary="A change that may be made to a live object is made to it.",
    effect="It takes effect on the run that is there, which does not start again.",
    remedy="Nothing needs to be done.",
    source=_OPERATOR,
    passing=Step(_job("a", "suspend: true"), _job("a", "suspend: true")),
    failing=Step(_job("a", "suspend: true"), _job("a", "suspend: false")),
)

TRANSITIONS = (
    *(IMMUTABLE, QUEUE, REFUSED_BELOW),
    *(SILENT, MIXED, RUNTIME, RESIZED, LATTICE),
    *(DELETED, KEPT, IN_PLACE),
)
