"""How long the kubelet tries a container's probe."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.datatypes.data import Data
from trainwright.datatypes.quantity import count

# https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/#configure-probes
DEFAULTS: Mapping[str, int] = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}


def patience(probe: Mapping[str, Data]) -> int:
    """Return after how many seconds a probe has failed as often as it may."""
    delay = count(probe.get("initialDelaySeconds")) or 0
    period = count(probe.get("periodSeconds")) or DEFAULTS["periodSeconds"]
    return delay + period * (count(probe.get("failureThreshold")) or DEFAULTS["failureThreshold"])
