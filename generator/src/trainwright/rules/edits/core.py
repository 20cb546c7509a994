"""Edits of what is beside a run: ConfigMaps, Secrets, claims."""

from __future__ import annotations

from trainwright.datatypes import quantity
from trainwright.datatypes.groupkind import CONFIGMAP, PERSISTENTVOLUMECLAIM, SECRET
from trainwright.datatypes.tolerant import dig
from trainwright.rule_model.defaults import defaults
from trainwright.rule_model.edit import Verdict
from trainwright.rule_model.edit_row import Condition, Difference, EditSource

_CORE = "kubernetes/kubernetes:pkg/apis/core/validation/validation.go"
_CONFIGS = EditSource((CONFIGMAP, SECRET), _CORE)
_CLAIM = EditSource((PERSISTENTVOLUMECLAIM,), _CORE)


def _grows(difference: Difference) -> bool:
    old, new = quantity.read(difference.old), quantity.read(difference.new)
    return old is None or new is None or new > old


def _unbound(difference: Difference) -> bool:
    """Whether the claim as the cluster has it says that it has no volume; git does not know."""
    return dig(difference.edit.before.body, "status", "phase") in ("Pending", "Lost")


_SEALED = Condition(
    "it sets immutable: true", lambda d: d.edit.before.body.get("immutable") is True
)
_GROWS = Condition("it grows", _grows)

EDITS = (
    *_CONFIGS.read(
        Verdict.REJECTED,
        "the API server refuses it: the object is marked immutable",
        "/data",
        "/binaryData",
        "/stringData",
        "/immutable",
        when=(_SEALED,),
    ),
    *_CLAIM.observed(
        Verdict.REJECTED,
        "the API server refuses it: a claim grows only once it is bound",
        "/spec/resources/requests/storage",
        when=(_GROWS, Condition("it is not bound", _unbound)),
    ),
    *_CLAIM.observed(
        Verdict.IN_PLACE,
        "accepted if the claim is bound and its class lets volumes grow, and refused otherwise",
        "/spec/resources/requests/storage",
        when=(_GROWS,),
    ),
    *_CLAIM.read(
        Verdict.IN_PLACE,
        "accepted, and the driver changes the volume",
        "/spec/volumeAttributesClassName",
    ),
    *_CLAIM.read(Verdict.REJECTED, "the API server refuses it: a claim may only grow", "/spec"),
)
DEFAULTS = defaults({"/spec/volumeMode": "Filesystem"})
