"""Edits of what is beside a run: ConfigMaps, Secrets, claims."""

from __future__ import annotations

from trainwright import quantity
from trainwright.groupkind import CONFIGMAP, PERSISTENTVOLUMECLAIM, SECRET
from trainwright.rule_model.defaults import defaults
from trainwright.rule_model.edit import Verdict
from trainwright.rule_model.edit_row import Basis, Condition, Difference, rows
from trainwright.tolerant import dig

_CLAIMS = (PERSISTENTVOLUMECLAIM,)
_CORE = "kubernetes/kubernetes:pkg/apis/core/validation/validation.go"


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
    *rows(
        (CONFIGMAP, SECRET),
        ("data", "binaryData", "stringData", "immutable"),
        Verdict.REJECTED,
        "the API server refuses it: the object is marked immutable",
        Basis.READ,
        _CORE,
        when=(_SEALED,),
    ),
    *rows(
        _CLAIMS,
        ("spec.resources.requests.storage",),
        Verdict.REJECTED,
        "the API server refuses it: a claim grows only once it is bound",
        Basis.OBSERVED,
        _CORE,
        when=(_GROWS, Condition("it is not bound", _unbound)),
    ),
    *rows(
        _CLAIMS,
        ("spec.resources.requests.storage",),
        Verdict.IN_PLACE,
        "accepted if the claim is bound and its class lets volumes grow, and refused otherwise",
        Basis.OBSERVED,
        _CORE,
        when=(_GROWS,),
    ),
    *rows(
        _CLAIMS,
        ("spec.volumeAttributesClassName",),
        Verdict.IN_PLACE,
        "accepted, and the driver changes the volume",
        Basis.READ,
        _CORE,
    ),
    *rows(
        _CLAIMS,
        ("spec",),
        Verdict.REJECTED,
        "the API server refuses it: a claim may only grow",
        Basis.READ,
        _CORE,
    ),
)
DEFAULTS = defaults(**{"spec.volumeMode": "Filesystem"})
