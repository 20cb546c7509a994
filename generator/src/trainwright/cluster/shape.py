"""The shape that a Kubernetes object must have before anything is read from it."""

from __future__ import annotations

from trainwright.datatypes.data import Data

# Fields that every kind has, or that are the same in all kinds which have them, and their types.
_SHAPE: Data = {
    "apiVersion": str,
    "kind": str,
    "metadata": {
        "name": str,
        "namespace": str,
        "uid": str,
        "resourceVersion": str,
        "creationTimestamp": str,
        "deletionTimestamp": str,
        "labels": {"*": str},
        "annotations": {"*": str},
        "ownerReferences": [{"kind": str, "name": str, "controller": bool}],
    },
    "spec": {
        "nodeName": str,
        "containers": [{"name": str, "env": [{"name": str}]}],
        "initContainers": [{"name": str}],
    },
    "status": {
        "phase": str,
        "reason": str,
        "message": str,
        "startTime": str,
        "completionTime": str,
        "active": int,
        "ready": int,
        "succeeded": int,
        "failed": int,
        "restarts": int,
        "conditions": [
            {"type": str, "status": str, "reason": str, "message": str, "lastTransitionTime": str}
        ],
        "containerStatuses": [{"name": str, "restartCount": int, "state": {"*": {}}}],
        "initContainerStatuses": [{"name": str, "restartCount": int, "state": {"*": {}}}],
    },
    "involvedObject": {"kind": str, "name": str, "apiVersion": str},
    "type": str,
    "reason": str,
    "message": str,
    "lastTimestamp": str,
    "eventTime": str,
    "series": {"lastObservedTime": str},
}


def is_object(value: Data) -> bool:
    """Return whether a value is a Kubernetes object, with a name and fields of the right types."""
    if not _fits(value, _SHAPE) or not isinstance(value, dict):
        return False
    return bool((value.get("metadata") or {}).get("name"))


def _fits(data: Data, shape: Data) -> bool:
    """Whether data has the types of a shape; what the shape does not name may be anything."""
    if data is None:
        return True
    if isinstance(shape, list):
        return isinstance(data, list) and all(
            item is not None and _fits(item, shape[0]) for item in data
        )
    if isinstance(shape, dict):
        return isinstance(data, dict) and all(
            _fits(value, shape.get(key, shape.get("*")))
            for key, value in data.items()
            if key in shape or "*" in shape
        )
    return isinstance(data, shape)
