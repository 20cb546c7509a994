"""The kinds of objects in an environment, and the fields that Kueue sets in those it starts."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.environment import Environment
from trainwright.kinds import SERVED
from trainwright.kinds.kind import Kind

# Group and kind of what comes with a run of any target that is a Kubernetes object.
_SUPPORTING = (
    ("", "ConfigMap"),
    ("", "PersistentVolumeClaim"),
    ("", "ServiceAccount"),
    ("external-secrets.io", "ExternalSecret"),
    ("monitoring.coreos.com", "PodMonitor"),
    ("networking.k8s.io", "NetworkPolicy"),
)
PLACEMENT = ("nodeSelector", "tolerations", "schedulingGates")  # of a flavor and its topology


def training(*environments: Environment) -> tuple[Kind, ...]:
    """Return the kinds of the environments' runs that an engine applies, in registry order."""
    names = {name for environment in environments for name in environment.targets}
    return tuple(kind for kind in SERVED.values() if kind.name in names)


def rendered(*environments: Environment) -> tuple[tuple[str, str], ...]:
    """Return group and kind of everything that may be rendered in these environments, sorted."""
    jobs = (kind.group_kind for kind in training(*environments))
    return tuple(sorted({*jobs, *supporting(*environments)}))


def supporting(*environments: Environment) -> tuple[tuple[str, str], ...]:
    """Return group and kind of all objects that may accompany runs, sorted."""
    return tuple(sorted({kind for each in environments for kind in _supporting(each)}))


def _supporting(environment: Environment) -> Iterator[tuple[str, str]]:
    yield from _SUPPORTING
    for kind in training(environment):
        yield from kind.target.companions(environment)
