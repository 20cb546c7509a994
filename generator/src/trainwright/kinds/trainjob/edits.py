"""Edits of a live TrainJob, by the minor version of Kubeflow Trainer."""

from __future__ import annotations

from trainwright.datatypes.data import mapping, sequence
from trainwright.datatypes.finding import Severity
from trainwright.datatypes.groupkind import RUNTIMES
from trainwright.kinds import indexed_edits
from trainwright.kinds.trainjob import KIND, runtime_edits
from trainwright.kinds.trainjob.runtime import patches
from trainwright.kinds.trainjob.spec_rules import installed_minor
from trainwright.rule_model.defaults import defaults
from trainwright.rule_model.edit import EditRule, Verdict
from trainwright.rule_model.edit_row import (
    ADDED_OR_REMOVED,
    AROUND,
    CHANGED,
    FIELD_IS_IMMUTABLE,
    RUNNING,
    Condition,
    Difference,
    EditSource,
)
from trainwright.rule_model.upstream import upstream

_KINDS = (KIND.group_kind,)

REFUSED_BELOW = EditRule(
    "TW216", "edit-refused-by-jobset", Severity.ERROR, __name__, Verdict.REFUSED_BELOW
)
EDIT_RULES = (REFUSED_BELOW, runtime_edits.IN_USE)

_TYPES = EditSource(_KINDS, upstream("trainer/immutable-fields").source)
_PLUGIN = EditSource(_KINDS, upstream("trainer/patches-name-what-is-there").source)
_CONTROLLER = EditSource(_KINDS, upstream("trainer/deadline-is-the-controllers").source)
_BELOW = EditSource(_KINDS, upstream("jobset/webhook").source)
_REFUSED_BELOW = "accepted, but JobSet's webhook refuses what Trainer makes of it"


def _since_2_2(difference: Difference) -> bool:
    """Whether Trainer is 2.2 or newer, which made its fields immutable; True if unknown."""
    environment = difference.edit.environment
    minor = installed_minor(environment) if environment else None
    return minor is None or minor >= 2


_2_2 = Condition("Kubeflow Trainer is 2.2 or later", _since_2_2)

# --- what a job changes in the pods of its runtime -----------------------------------------------

_PATCHES = ("/spec/runtimePatches", "/spec/podTemplateOverrides", "/spec/podSpecOverrides")
_PATCHED = (
    "/spec/runtimePatches/*/trainingRuntimeSpec/template/spec"
    "/replicatedJobs/*/template/spec/template"
)
_OVERRIDE = "/spec/podTemplateOverrides/*"
_PLACING = ("nodeSelector", "tolerations", "affinity")
_FIXED = (
    *("containers", "initContainers", "volumes", "imagePullSecrets", "securityContext"),
    *("serviceAccountName", "terminationGracePeriodSeconds"),
)
_MINE = (
    *(f"{_PATCHED}/metadata/{name}" for name in ("labels", "annotations")),
    *(f"{_PATCHED}/spec/{name}" for name in _PLACING),
)


def _places_only(difference: Difference) -> bool:
    """Whether the pod patches that differ set nothing but where pods are placed."""
    old, new = sequence(difference.old), sequence(difference.new)
    entries = [entry for entry in (*old, *new) if entry not in old or entry not in new]
    pods = (mapping(pod.get("spec")) for _, _, pod in patches({difference.field.last: entries}))
    names = {str(name) for pod in pods for name in pod} - {"targetJobs"}
    return names <= {*_PLACING, "schedulingGates"}


EDITS = (
    *_PLUGIN.read(
        Verdict.REJECTED,
        "Trainer's webhook refuses it while the job is not suspended",
        *_PATCHES,
        when=(RUNNING,),
    ),
    *_PLUGIN.observed(
        Verdict.IN_PLACE, "accepted while the job is suspended", *_MINE, when=(AROUND,)
    ),
    *_TYPES.read(
        Verdict.IN_PLACE,
        "accepted while the job is suspended",
        f"{_PATCHED}/spec/schedulingGates",
        "/spec/runtimePatches/*/time",
        when=(AROUND,),
    ),
    *_TYPES.observed(
        Verdict.REJECTED,
        "the API server refuses it, suspended or not: the field is immutable",
        *(f"{_PATCHED}/spec/{name}" for name in _FIXED),
        when=(CHANGED,),
    ),
    *_BELOW.inferred(
        REFUSED_BELOW,
        _REFUSED_BELOW,
        *(f"{_PATCHED}/spec/{name}" for name in _FIXED),
        when=(AROUND, ADDED_OR_REMOVED),
    ),
    *_PLUGIN.read(
        Verdict.IN_PLACE,
        "accepted while the job is suspended",
        *indexed_edits.placement(_OVERRIDE),  # of Trainer 2.1
        when=(AROUND,),
    ),
    *_BELOW.inferred(REFUSED_BELOW, _REFUSED_BELOW, f"{_OVERRIDE}/spec", when=(AROUND,)),
    *_PLUGIN.read(
        Verdict.IN_PLACE,
        "accepted while the job is suspended",
        *_PATCHES,
        when=(AROUND, Condition("what comes or goes only places pods", _places_only)),
    ),
    *_BELOW.inferred(REFUSED_BELOW, _REFUSED_BELOW, *_PATCHES, when=(AROUND,)),
    # --- what a job says itself -----------------------------------------------------------------
    *_TYPES.read(Verdict.REJECTED, FIELD_IS_IMMUTABLE, "/spec/runtimeRef", "/spec/managedBy"),
    *_TYPES.observed(
        Verdict.REJECTED, FIELD_IS_IMMUTABLE, "/spec/activeDeadlineSeconds", when=(_2_2, CHANGED)
    ),
    *_CONTROLLER.observed(
        Verdict.IN_PLACE,
        "accepted: only a change of it is refused",
        "/spec/activeDeadlineSeconds",
        when=(_2_2,),
    ),
    *_TYPES.read(
        Verdict.REJECTED,
        FIELD_IS_IMMUTABLE,
        "/spec/trainer",
        "/spec/initializer",
        when=(_2_2, CHANGED),
    ),
    *_BELOW.inferred(
        REFUSED_BELOW,
        _REFUSED_BELOW,
        "/spec/trainer",
        "/spec/initializer",
        when=(AROUND,),
    ),
    *_PLUGIN.read(
        runtime_edits.IN_USE,
        "accepted, but the JobSet that runs is not changed",
        "/spec/trainer",
        "/spec/initializer",
    ),
    *_PLUGIN.observed(Verdict.IN_PLACE, "accepted, and passed on to the JobSet", "/spec/suspend"),
    *runtime_edits.EDITS,
)
_WRITTEN = defaults(
    {
        "/spec/managedBy": "trainer.kubeflow.org/trainjob-controller",
        "/spec/runtimeRef/apiGroup": KIND.group,
        "/spec/runtimeRef/kind": "ClusterTrainingRuntime",
        "/spec/suspend": False,
    }
)
DEFAULTS = {
    KIND.group_kind: _WRITTEN,
    **dict.fromkeys(RUNTIMES, runtime_edits.DEFAULTS),
}
