"""Argo CD and Flux as they reconcile: what is applied, what is pruned, and what waits for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sync_cluster import Body, Cluster, Identity, Refused

OPTIONS = "argocd.argoproj.io/sync-options"
PRUNE = "kustomize.toolkit.fluxcd.io/prune"

Desired = Mapping[Identity, Body]


def identity(body: Body) -> Identity:
    return (str(body["kind"]), str(body["metadata"]["name"]))


def _annotation(body: Body, name: str) -> str:
    return str((body["metadata"].get("annotations") or {}).get(name, ""))


@dataclass
class Argo:
    """An Application with automated sync, prune and self-heal."""

    tracked: set[Identity] = field(default_factory=set)
    approved: set[Identity] = field(default_factory=set)  # deletions that a user confirmed
    waiting: set[Identity] = field(default_factory=set)

    def sync(self, cluster: Cluster, desired: Desired) -> bool:
        """One reconciliation; whether anything was done."""
        self.tracked &= set(cluster.objects) | set(desired)
        extra = self.tracked - set(desired)
        self.waiting = {i for i in extra if self._asks(cluster, i)} - self.approved
        if self.waiting:
            # A sync that has to ask does nothing else until it is answered.
            # https://github.com/argoproj/argo-cd/blob/v3.1.0/gitops-engine/pkg/sync/sync_context.go
            return False
        acted = _apply(cluster, desired)
        self.tracked |= set(desired) & set(cluster.objects)
        for gone in extra & set(cluster.objects):
            cluster.delete(gone)
            acted = True
        self.tracked -= extra
        self.approved -= extra
        return acted

    def answer(self) -> set[Identity]:
        """A user confirms every deletion that is asked for."""
        answered = set(self.waiting)
        self.approved |= answered
        return answered

    @staticmethod
    def _asks(cluster: Cluster, found: Identity) -> bool:
        live = cluster.objects.get(found)
        return live is not None and "Prune=confirm" in _annotation(live.body, OPTIONS)


@dataclass
class Flux:
    """A Kustomization with prune, which applies again whatever differs at each interval."""

    tracked: set[Identity] = field(default_factory=set)
    waiting: set[Identity] = field(default_factory=set)  # left for people to delete

    def sync(self, cluster: Cluster, desired: Desired) -> bool:
        acted = _apply(cluster, desired)
        for gone in (self.tracked - set(desired)) & set(cluster.objects):
            if _annotation(cluster.objects[gone].body, PRUNE) == "disabled":
                self.waiting.add(gone)
            else:
                cluster.delete(gone)
                acted = True
        self.tracked = set(desired)
        self.waiting = (self.waiting & set(cluster.objects)) - set(desired)
        return acted

    def answer(self) -> set[Identity]:
        """A user deletes by hand what was left in the cluster."""
        return set(self.waiting)


def _apply(cluster: Cluster, desired: Desired) -> bool:
    acted = False
    for body in desired.values():
        if cluster.differs(body):
            try:
                cluster.apply(body)
                acted = True
            except Refused:
                continue  # reported on the Application; tried again at the next sync
    return acted
