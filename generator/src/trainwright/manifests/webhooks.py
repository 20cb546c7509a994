"""Fields that a webhook fills in: what is missing there is no certain mistake.

JobSet: kubernetes-sigs/jobset v0.12.0, pkg/webhooks/jobset_webhook.go. Kueue v0.19.2:
pkg/controller/jobframework. Kubeflow Trainer v2.3.0: pkg/webhooks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

UNLESS = "unless the webhook fills it"

_QUEUE = "/metadata/labels/kueue.x-k8s.io~1queue-name"  # where a LocalQueue is named default
_FIELDS = {
    "JobSet": (
        _QUEUE,
        "/spec/suspend",
        "/spec/successPolicy",
        "/spec/successPolicy/operator",
        "/spec/startupPolicy",
        "/spec/startupPolicy/startupPolicyOrder",
        "/spec/network",
        "/spec/network/enableDNSHostnames",
        "/spec/network/publishNotReadyAddresses",
        "/spec/failurePolicy/rules/*/name",
        "/spec/replicatedJobs/*/template/spec/completionMode",
        "/spec/replicatedJobs/*/template/spec/template/spec/restartPolicy",
    ),
    "TrainJob": (_QUEUE, "/spec/suspend", "/spec/runtimePatches/*/time"),
    "PyTorchJob": (_QUEUE, "/spec/runPolicy/suspend"),
    "Job": (_QUEUE, "/spec/suspend"),
}


@cache
def _pattern(kind: str) -> re.Pattern[str]:
    fields = (re.escape(field).replace(r"\*", "[^/]+") for field in _FIELDS.get(kind, ()))
    return re.compile("|".join(fields) or r"(?!)")


def fills(kind: str, pointer: str) -> bool:
    """Whether a webhook gives the field at a pointer a value when it has none."""
    return _pattern(kind).fullmatch(pointer) is not None


def names(kind: str) -> Iterator[str]:
    """The name of every field that a webhook fills in an object of a kind."""
    return (field.rpartition("/")[2] for field in _FIELDS.get(kind, ()))
