"""The training objects in a namespace, applied by any tool: what `adopt` reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainwright.cluster.client import Cluster
from trainwright.cluster.errors import ClusterError, NoKind
from trainwright.cluster.status import resource_of
from trainwright.datatypes.data import Data
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import OTHERS, OWNERS, SERVED, trains
from trainwright.kinds.kind import Kind


def listed(cluster: Cluster, namespace: str) -> tuple[list[Data], list[str]]:
    """Return all objects that train and those they refer to; and why kinds could not be read.

    Raise ClusterError if a kind that jobs are rendered as cannot be read.
    """
    bodies: list[Data] = []
    problems: list[str] = []
    for kind in SERVED.values():
        bodies += _all(cluster, namespace, kind)
    for kind in (*OTHERS.values(), *_runtimes()):
        try:
            bodies += _all(cluster, namespace, kind)
        except ClusterError as error:
            problems.append(f"{kind.kind}s were not read: {error}")
    return bodies, problems


def live_object(cluster: Cluster, namespace: str, manifest: Manifest) -> Data | None:
    """Return the live object of a manifest, or None if the cluster has none."""
    kind = trains(manifest)
    assert kind is not None
    try:
        return cluster.get(resource_of(kind), manifest.namespace or namespace, manifest.name)
    except NoKind:
        return None


def _all(cluster: Cluster, namespace: str, kind: Kind) -> list[Data]:
    try:
        return cluster.all(resource_of(kind), namespace)
    except NoKind:
        return []


def _runtimes() -> Iterator[Kind]:
    """Yield the kinds of namespaced runtimes that TrainJobs refer to."""
    for group_kind, kind in OWNERS.items():
        if group_kind in kind.runtimes and not group_kind.kind.startswith("Cluster"):
            yield replace(kind, kind=group_kind.kind, plural=f"{group_kind.kind.lower()}s")
