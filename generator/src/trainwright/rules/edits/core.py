"""Edits of what is beside a run: configuration, claims, services, queues, rights, quotas."""

from __future__ import annotations

from trainwright.datatypes import quantity
from trainwright.datatypes.data import dig, words
from trainwright.datatypes.groupkind import (
    CONFIGMAP,
    LOCALQUEUE,
    PERSISTENTVOLUMECLAIM,
    RESOURCEQUOTA,
    ROLEBINDING,
    SECRET,
    SERVICE,
    GroupKind,
)
from trainwright.rule_model.defaults import defaults
from trainwright.rule_model.edit import Verdict
from trainwright.rule_model.edit_row import (
    ADDED_OR_CHANGED,
    CHANGED,
    FIELD_IS_IMMUTABLE,
    Condition,
    Difference,
    EditSource,
)

_CORE = "kubernetes/kubernetes:pkg/apis/core/validation/validation.go"
_CONFIGS = EditSource((CONFIGMAP, SECRET), _CORE)
_CLAIM = EditSource((PERSISTENTVOLUMECLAIM,), _CORE)
_SERVICE = EditSource((SERVICE,), _CORE)
_QUOTA = EditSource((RESOURCEQUOTA,), _CORE)
_BINDINGS = EditSource(
    (ROLEBINDING, GroupKind(ROLEBINDING.group, "ClusterRoleBinding")),
    "kubernetes/kubernetes:pkg/apis/rbac/validation/validation.go",
)
_QUEUE = EditSource((LOCALQUEUE,), "kubernetes-sigs/kueue:apis/kueue/v1beta2/localqueue_types.go")
_DEVICES = EditSource(
    tuple(GroupKind("resource.k8s.io", it) for it in ("ResourceClaim", "ResourceClaimTemplate")),
    "kubernetes/kubernetes:pkg/apis/resource/validation/validation.go",
)
_APPS = "kubernetes/kubernetes:pkg/apis/apps/validation/validation.go"
_STATEFUL_SET = EditSource((GroupKind("apps", "StatefulSet"),), _APPS)


def _grows(difference: Difference) -> bool:
    old, new = quantity.read(difference.old), quantity.read(difference.new)
    return old is None or new is None or new > old


def _unbound(difference: Difference) -> bool:
    """Whether the status of the claim in the cluster says it is unbound; git has no status."""
    return dig(difference.edit.before.body, "status", "phase") in ("Pending", "Lost")


def _scoped_otherwise(difference: Difference) -> bool:
    return {*words(difference.old)} != {*words(difference.new)}


_SEALED = Condition(
    "it sets immutable: true", lambda d: d.edit.before.body.get("immutable") is True
)
_GROWS = Condition("it grows", _grows)

# All that an update of a StatefulSet may change.
_OF_STATEFUL_SETS = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)
_IS_SEALED = "the API server refuses it: the object is marked immutable"

EDITS = (
    *_CONFIGS.read(
        Verdict.REJECTED,
        _IS_SEALED,
        "/data",
        "/immutable",
        when=(_SEALED,),
    ),
    *EditSource((CONFIGMAP,), _CORE).read(
        Verdict.REJECTED, _IS_SEALED, "/binaryData", when=(_SEALED,)
    ),
    *EditSource((SECRET,), _CORE).read(
        Verdict.REJECTED, _IS_SEALED, "/stringData", when=(_SEALED,)
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
        when=(ADDED_OR_CHANGED,),
    ),
    *_CLAIM.read(
        Verdict.IN_PLACE,
        "accepted once: the claim has no volume yet",
        "/spec/volumeName",
        when=(ADDED_OR_CHANGED, Condition("it is not bound", _unbound)),
    ),
    *_CLAIM.read(
        Verdict.REJECTED, "the API server refuses it: a claim may only grow", "/spec/resources"
    ),
    *_CLAIM.read(Verdict.REJECTED, FIELD_IS_IMMUTABLE, "/spec"),
    *_SERVICE.read(
        Verdict.REJECTED,
        "the API server refuses it: the addresses of a Service are fixed when it is made",
        "/spec/clusterIP",
        "/spec/clusterIPs",
        when=(ADDED_OR_CHANGED,),
    ),
    *_QUOTA.read(
        Verdict.REJECTED,
        FIELD_IS_IMMUTABLE,
        "/spec/scopes",
        when=(Condition("it has other scopes", _scoped_otherwise),),
    ),
    *_BINDINGS.read(Verdict.REJECTED, FIELD_IS_IMMUTABLE, "/roleRef"),
    *_QUEUE.read(Verdict.REJECTED, FIELD_IS_IMMUTABLE, "/spec/clusterQueue", when=(CHANGED,)),
    *_DEVICES.read(Verdict.REJECTED, FIELD_IS_IMMUTABLE, "/spec"),
    *EditSource((GroupKind("apps", "Deployment"), GroupKind("apps", "DaemonSet")), _APPS).read(
        Verdict.REJECTED, FIELD_IS_IMMUTABLE, "/spec/selector"
    ),
    *_STATEFUL_SET.read(
        Verdict.IN_PLACE,
        "accepted, and read by the controller",
        *(f"/spec/{name}" for name in _OF_STATEFUL_SETS),
    ),
    *_STATEFUL_SET.read(Verdict.REJECTED, FIELD_IS_IMMUTABLE, "/spec"),
)
DEFAULTS = defaults({"/spec/volumeMode": "Filesystem"})
