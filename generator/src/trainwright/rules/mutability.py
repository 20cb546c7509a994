"""What may be changed on a live object, and what a change or a removal then does."""

from __future__ import annotations

from trainwright.groupkind import (
    JOB,
    PERSISTENTVOLUMECLAIM,
    PYTORCHJOB,
    RUNTIMES,
    TRAINING,
    TRAININGJOB,
    TRAINJOB,
)
from trainwright.model import Data, Manifest, Severity
from trainwright.rules.gitops import Leaving, leaving
from trainwright.rules.immutability import fixed, image, job
from trainwright.rules.tolerant import dig, mapping
from trainwright.rules.transition import Change, Field, Path, Step, Transition, Verdict

_OPERATOR = "kubeflow/trainer@v1.9.4:pkg/controller.v1/common/pod.go"
_PATCHES = "kubeflow/trainer@v2.3.0:pkg/runtime/framework/plugins/jobset/jobset.go"
_JOB = "kubernetes/kubernetes:pkg/apis/batch/validation/validation.go"
_LATTICE = "lattice-io/lattice:lattice-operator/pkg/controller.v1"
_PRUNE = "argoproj/argo-cd:docs/user-guide/sync-options.md"

# --- what is accepted, and does something else ---------------------------------------------------


def _role(change: Change, path: Path) -> Data:
    return dig(change.new, "pytorchReplicaSpecs", path[2] if len(path) > 2 else "")


def _never_again(change: Change, path: Path) -> bool:
    """Whether no pod is made after those that are there."""
    roles = [_role(change, path)] if path[1] == "pytorchReplicaSpecs" else []
    roles = roles or list(mapping(change.new.get("pytorchReplicaSpecs")).values())
    policies = [mapping(role).get("restartPolicy", "OnFailure") for role in roles]
    return not change.suspended and bool(policies) and set(map(str, policies)) == {"Never"}


def _made_again(change: Change, path: Path) -> bool:
    return not change.suspended and not _never_again(change, path)


def _fixed_world(change: Change, path: Path) -> bool:
    elastic = change.new.get("elasticPolicy") is not None and path[2:3] == ("Worker",)
    return not change.suspended and not elastic


_POD_FIELDS: tuple[Path, ...] = (
    ("spec", "pytorchReplicaSpecs", "*", "template"),
    ("spec", "pytorchReplicaSpecs", "*", "restartPolicy"),
    ("spec", "nprocPerNode"),
    ("spec", "elasticPolicy"),
)


def _pytorchjob(restart: str, rest: str) -> str:
    roles = f"pytorchReplicaSpecs: {{Worker: {{restartPolicy: {restart}, {rest}}}}}"
    head = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}"
    return f"{head}\nspec: {{{roles}}}"


SILENT = Transition(
    id="TW121",
    name="edit-that-never-runs",
    severity=Severity.WARNING,
    verdict=Verdict.IGNORED,
    summary="The pods of a live PyTorchJob are not edited: a change is a new run.",
    effect="Git and the cluster agree, and what runs to its end is the old version.",
    remedy="Give the run a new name: Trainwright's own names change with the spec.",
    source=_OPERATOR,
    fields=tuple(
        Field(
            path=path,
            kinds=(PYTORCHJOB,),
            why="accepted, but the pods that run stay as they are and no others are made",
            source=_OPERATOR,
            holds=_never_again,
        )
        for path in _POD_FIELDS
    ),
    passing=Step(
        "kind: PyTorchJob\nspec: {runPolicy: {backoffLimit: 1}}",
        "kind: PyTorchJob\nspec: {runPolicy: {backoffLimit: 2}}",
    ),
    failing=Step(_pytorchjob("Never", image("1")), _pytorchjob("Never", image("2"))),
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
    fields=(
        *(
            Field(
                path=path,
                kinds=(PYTORCHJOB,),
                why="pods that run keep the old version, one that is made again has the new one",
                source=_OPERATOR,
                holds=_made_again,
            )
            for path in _POD_FIELDS
        ),
        Field(
            path=("spec", "pytorchReplicaSpecs", "*", "replicas"),
            kinds=(PYTORCHJOB,),
            why="pods are added or deleted, and those that run keep the old WORLD_SIZE",
            source="kubeflow/trainer@v1.9.4:pkg/controller.v1/pytorch/envvar.go",
            holds=_fixed_world,
        ),
    ),
    passing=Step(_pytorchjob("Never", image("1")), _pytorchjob("Never", image("2"))),
    failing=Step(_pytorchjob("ExitCode", image("1")), _pytorchjob("ExitCode", image("2"))),
)


def _before_2_2(change: Change, path: Path) -> bool:
    return not fixed(change, path) and not change.suspended_around


_RUNTIME = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {%sname: a}"

RUNTIME = Transition(
    id="TW215",
    name="edit-of-a-runtime",
    severity=Severity.WARNING,
    verdict=Verdict.IGNORED,
    summary="A runtime is not edited for the sake of jobs that already refer to it.",
    effect="Those jobs keep the runtime that they began with; only later ones get the new one.",
    remedy="Make a runtime of another name, and a new run that refers to it.",
    source="kubeflow/trainer@v2.3.0:pkg/controller/trainjob_controller.go",
    fields=(
        Field(
            path=("spec",),
            kinds=RUNTIMES,
            why="accepted, but jobs that refer to it keep what they began with",
            source="kubeflow/trainer@v2.3.0:pkg/controller/trainjob_controller.go",
        ),
        *(
            Field(
                path=("spec", name),
                kinds=(TRAINJOB,),
                why="accepted before 2.2, but the JobSet that runs is not changed",
                source=_PATCHES,
                holds=_before_2_2,
            )
            for name in ("trainer", "initializer")
        ),
    ),
    passing=Step(_RUNTIME % "labels: {team: a}, ", _RUNTIME % "labels: {team: b}, "),
    failing=Step(
        f"{_RUNTIME % ''}\nspec: {{mlPolicy: {{numNodes: 2}}}}",
        f"{_RUNTIME % ''}\nspec: {{mlPolicy: {{numNodes: 4}}}}",
    ),
)


def _world_of_a_job(change: Change, path: Path) -> bool:
    indexed = change.new.get("completionMode") == "Indexed"
    return indexed and not change.suspended


RESIZED = Transition(
    id="TW310",
    name="resized-while-running",
    severity=Severity.ERROR,
    verdict=Verdict.MIXED,
    summary="The number of ranks of a Job stays what it was when they started.",
    effect="Pods are added or deleted, and the others wait for a world that is not there.",
    remedy="Start a new run, or suspend the Job before the change.",
    source=_JOB,
    fields=tuple(
        Field(
            path=("spec", name),
            kinds=(JOB,),
            why="pods are added or deleted, and those that run keep the old number of ranks",
            source=_JOB,
            holds=_world_of_a_job,
        )
        for name in ("parallelism", "completions")
    ),
    passing=Step(job("a", "parallelism: 2"), job("a", "parallelism: 4")),
    failing=Step(
        job("a", "completionMode: Indexed, parallelism: 2, completions: 2"),
        job("a", "completionMode: Indexed, parallelism: 4, completions: 4"),
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
    fields=tuple(
        Field(
            path=("spec", name),
            kinds=(TRAININGJOB,),
            why="workers that run keep the old version, those that are started later have the new",
            source=_LATTICE,
        )
        for name in ("replicaSpecs", "injectLattice", "framework")
    ),
    passing=Step(f"{_TRAININGJOB}{{priority: 1}}", f"{_TRAININGJOB}{{priority: 2}}"),
    failing=Step(
        f"{_TRAININGJOB}{{replicaSpecs: {{{image('1')}}}}}",
        f"{_TRAININGJOB}{{replicaSpecs: {{{image('2')}}}}}",
    ),
)

# --- what goes away ------------------------------------------------------------------------------

_LASTING = (*TRAINING, PERSISTENTVOLUMECLAIM)


_STAYS = {
    Leaving.KEPT: "it stays in the cluster, and nothing in git speaks of it any more",
    Leaving.CONFIRMED: "it stays until somebody confirms its deletion",
    Leaving.PRUNED: "",
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
    name="left-in-the-cluster",
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
    fields=(Field(path=(), why="accepted, and read by the controller", source=_OPERATOR),),
    passing=Step(job("a", "suspend: true"), job("a", "suspend: true")),
    failing=Step(job("a", "suspend: true"), job("a", "suspend: false")),
)

TRANSITIONS = (SILENT, MIXED, RUNTIME, RESIZED, LATTICE, DELETED, KEPT, IN_PLACE)
