"""Argo CD and Flux as they reconcile: what is applied, what is pruned, and what waits for whom.

What each does is what its sources do, with the settings that `wire` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sync_cluster import Body, Cluster, Identity, Refused

OPTIONS = "argocd.argoproj.io/sync-options"
PRUNE = "kustomize.toolkit.fluxcd.io/prune"

Desired = Mapping[Identity, tuple[str, Body]]  # what git has, with the job


def identity(body: Body) -> Identity:
    return (str(body["kind"]), str(body["metadata"]["name"]))


def _annotation(body: Body, name: str) -> str:
    return str((body["metadata"].get("annotations") or {}).get(name, ""))


@dataclass
class Operation:
    """A sync that has begun: the objects of its commit, whatever git has meanwhile.

    https://github.com/argoproj/argo-cd/blob/v3.5.1/controller/appcontroller.go#L1537
    """

    desired: Desired
    began: int


@dataclass
class Application:
    """What Argo CD knows of one job. `deleting` is when its deletion was asked for."""

    operation: Operation | None = None
    deleting: int = 0
    approved: int = 0


@dataclass
class Argo:
    """An Application for each job, with automated sync and self-heal.

    `immediate` is whether it is wired to prune, and to be deleted with what it applied. Otherwise
    it does neither, and is answered beforehand. Objects are of the Application that applied them,
    which is written into them, also when that is gone.
    """

    immediate: bool = False
    applications: dict[str, Application] = field(default_factory=dict)
    tracked: dict[Identity, str] = field(default_factory=dict)
    waiting: set[Identity] = field(default_factory=set)  # for people to confirm
    left: set[Identity] = field(default_factory=set)  # for people to delete
    clock: int = 0

    def sync(self, cluster: Cluster, desired: Desired) -> bool:
        """One reconciliation of all; whether anything was done."""
        self.clock += 1
        self.tracked = {i: job for i, job in self.tracked.items() if i in cluster.objects}
        self.waiting = set()
        there = {job for job, _ in desired.values()}
        acted = False
        for job in sorted(there | set(self.applications)):
            self.applications.setdefault(job, Application())
            own = {i: (job, body) for i, (of, body) in desired.items() if of == job}
            gone = job not in there or self.applications[job].deleting
            acted |= self._delete(cluster, job) if gone else self._sync(cluster, job, own)
        self.left = set(self.tracked) - set(desired) - self.waiting
        return acted

    def _sync(self, cluster: Cluster, job: str, desired: Desired) -> bool:
        application = self.applications[job]
        now = application.operation or Operation(desired, self.clock)
        extra = self._of(job) - set(now.desired)
        differs = any(cluster.differs(body) for _, body in now.desired.values())
        if not (differs or (extra and self.immediate)):
            return False
        asking = {i for i in extra if self._asks(cluster, i, "Prune")}
        if asking and not self._is_approved(application, now.began):
            # https://github.com/argoproj/argo-cd/blob/v3.5.1/gitops-engine/pkg/sync/sync_context.go
            application.operation, self.waiting = now, self.waiting | asking
            return False
        # One that fails is tried again with what git has then (retry.refresh).
        application.operation = None
        gone = {i for i in extra if self.immediate and not self._keeps(cluster, i)}
        for which in gone:
            cluster.delete(which)
        acted = _apply(cluster, now.desired)
        self.tracked |= dict.fromkeys(set(now.desired) & set(cluster.objects), job)
        return acted or bool(gone)

    def _delete(self, cluster: Cluster, job: str) -> bool:
        """The ApplicationSet takes the Application away; its finalizer what it applied."""
        application = self.applications[job]
        application.deleting = application.deleting or self.clock
        own = self._of(job) if self.immediate else set[Identity]()
        asking = {i for i in own if self._asks(cluster, i, "Delete")}
        if asking and not self._is_approved(application, application.deleting):
            self.waiting |= asking
            return False
        gone = {i for i in own if not self._keeps(cluster, i)}
        for which in gone:
            cluster.delete(which)
        del self.applications[job]
        return bool(gone)

    def _of(self, job: str) -> set[Identity]:
        return {i for i, of in self.tracked.items() if of == job}

    def _is_approved(self, application: Application, since: int) -> bool:
        return not self.immediate or application.approved >= since

    def answer(self) -> set[Identity]:
        """A user confirms every deletion that is asked for."""
        for which in self.waiting:
            self.applications[self.tracked[which]].approved = self.clock
        return set(self.waiting)

    @staticmethod
    def _asks(cluster: Cluster, found: Identity, option: str) -> bool:
        return f"{option}=confirm" in _annotation(cluster.objects[found].body, OPTIONS)

    @staticmethod
    def _keeps(cluster: Cluster, found: Identity) -> bool:
        return "=false" in _annotation(cluster.objects[found].body, OPTIONS)


@dataclass
class Flux:
    """A Kustomization, which applies again whatever differs at each interval.

    `immediate` is whether it is wired to prune.
    """

    immediate: bool = False
    tracked: set[Identity] = field(default_factory=set)
    left: set[Identity] = field(default_factory=set)  # for people to delete

    def sync(self, cluster: Cluster, desired: Desired) -> bool:
        acted = _apply(cluster, desired)
        for gone in (self.tracked - set(desired)) & set(cluster.objects):
            if not self.immediate or self._keeps(cluster, gone):
                self.left.add(gone)
            else:
                cluster.delete(gone)
                acted = True
        self.tracked = set(desired)
        self.left = (self.left & set(cluster.objects)) - set(desired)
        return acted

    def answer(self) -> set[Identity]:
        return set()

    @staticmethod
    def _keeps(cluster: Cluster, found: Identity) -> bool:
        return _annotation(cluster.objects[found].body, PRUNE) == "disabled"


def _apply(cluster: Cluster, desired: Desired) -> bool:
    acted = False
    for _, body in desired.values():
        if cluster.differs(body):
            try:
                cluster.apply(body)
                acted = True
            except Refused:
                continue  # reported on the Application; tried again at the next sync
    return acted
