"""The part of a kubelet that controllers see, for clusters without nodes: statuses of pods.

A pod whose command is `true` ends well, `false` fails with exit code 1, anything else runs.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from live import Data, Live, Refused

_ENDINGS = {"true": 0, "false": 1}


class Kubelet:
    """Patches the statuses of the pods of one namespace, whenever `tick` is called."""

    def __init__(self, live: Live, namespace: str):
        self._live, self._namespace = live, namespace

    def tick(self) -> None:
        for pod in self._live.list("v1", "Pod", self._namespace):
            try:
                self._look_at(pod)
            except Refused as refused:
                if refused.code not in (404, 409):  # it went, or its controller was faster
                    raise

    def _look_at(self, pod: Data) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            self._live.delete(pod, grace=0)
        elif not pod["spec"].get("schedulingGates"):
            status = _next(pod)
            if status:
                self._live.merge(pod, {"status": status}, subresource="status")


def _next(pod: Data) -> Data | None:
    """The status that comes after the one that a pod has; None when it stays."""
    phase = pod["status"].get("phase", "Pending")
    if phase == "Pending":
        return _status(pod, "Running", {"running": {"startedAt": _now()}}, ready=True)
    (container,) = pod["spec"]["containers"]
    code = _ENDINGS.get((container.get("command") or [""])[0])
    if phase != "Running" or code is None:
        return None
    ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": _now()}
    ending = {"terminated": {**ended, "finishedAt": _now()}}
    policy = pod["spec"]["restartPolicy"]
    if policy == "Always" or (policy == "OnFailure" and code):
        before = pod["status"]["containerStatuses"][0]["restartCount"]
        waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
        return _status(pod, "Running", waiting, last=ending, restarts=before + 1)
    return _status(pod, "Failed" if code else "Succeeded", ending)


def _status(
    pod: Data,
    phase: str,
    state: Data,
    *,
    ready: bool = False,
    last: Data | None = None,
    restarts: int = 0,
) -> Data:
    (container,) = pod["spec"]["containers"]
    conditions = {
        "PodScheduled": True,
        "Initialized": True,
        "ContainersReady": ready,
        "Ready": ready,
    }
    return {
        "phase": phase,
        "podIP": "192.0.2.1",  # of a range for documentation: nothing is reached by it
        "podIPs": [{"ip": "192.0.2.1"}],
        "startTime": pod["status"].get("startTime") or _now(),
        "conditions": [_condition(name, holds) for name, holds in conditions.items()],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": container["image"],
                "ready": ready,
                "started": ready,
                "restartCount": restarts,
                "state": state,
                "lastState": last or {},
            }
        ],
    }


def _condition(name: str, holds: bool) -> dict[str, Any]:
    return {"type": name, "status": str(holds), "lastTransitionTime": _now()}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
