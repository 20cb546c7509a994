"""A cluster as far as a sync loop sees it: an object store, operators, Kueue, the TTL controller.

What each part does is what upstream does: fields that the API server refuses to change, edits that
an operator accepts and never looks at, queues that own `suspend`, a TTL that deletes the object
itself. Time is ticks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

Body = Mapping[str, Any]
Identity = tuple[str, str]  # kind and name: there is one namespace
Owner = tuple[str, int]  # a job, and the number of the request that its run answers

TRAINING = frozenset({"PyTorchJob", "TrainJob", "JobSet", "Job", "TrainingJob"})
# Below spec, what may change on a live object; "*" where the API server lets everything through
# (and the operator then does not look at it).
# https://github.com/kubeflow/trainer/blob/v2.1.0/pkg/apis/trainer/v1alpha1/trainjob_types.go
# https://github.com/kubernetes-sigs/jobset/blob/v0.10.1/pkg/webhooks/jobset_webhook.go
MUTABLE = {
    "PyTorchJob": frozenset({"*"}),
    "TrainingJob": frozenset({"*"}),
    "TrainJob": frozenset({"suspend"}),
    "JobSet": frozenset({"suspend"}),
    "Job": frozenset({"suspend", "activeDeadlineSeconds", "parallelism"}),
}
QUEUE = "kueue.x-k8s.io/queue-name"
LENGTH = 3  # ticks of training


class Refused(Exception):
    """The API server's answer to a change of an immutable field."""


@dataclass
class Live:
    """An object in the store, for whom it is, and how far its training is.

    `maker` is the request for which it was made, `owner` the one that it answers now.
    """

    body: Body
    suspended: bool
    owner: Owner = ("", 0)
    maker: Owner = ("", 0)
    progress: int = 0
    outcome: str = ""  # "succeeded" or "failed" once it is over
    age: int = 0  # ticks since it ended

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def trains(self) -> bool:
        return self.kind in TRAINING

    @property
    def running(self) -> bool:
        """Whether pods of it exist: work that a deletion would lose."""
        return self.trains and not self.suspended and not self.outcome and self.progress > 0

    @property
    def queued(self) -> bool:
        return QUEUE in (self.body["metadata"].get("labels") or {})


def suspend_of(body: Body) -> bool | None:
    """What git says about `suspend`, or None when it says nothing."""
    spec = body.get("spec") or {}
    found = (spec.get("runPolicy") or {}).get("suspend", spec.get("suspend"))
    return None if found is None else bool(found)


def ttl_of(body: Body) -> int | None:
    spec = body.get("spec") or {}
    found = (spec.get("runPolicy") or {}).get(
        "ttlSecondsAfterFinished", spec.get("ttlSecondsAfterFinished")
    )
    return None if found is None else int(found)


@dataclass
class Cluster:
    """An object store and its machines, and what has happened in it.

    `begun` counts, by what was asked for, how often a training began at its first step.
    """

    chance: Random
    objects: dict[Identity, Live] = field(default_factory=dict)
    begun: Counter[Owner] = field(default_factory=Counter)
    lost: list[Live] = field(default_factory=list)  # deleted while running
    refused: list[Identity] = field(default_factory=list)  # changes of immutable fields

    def apply(self, body: Body) -> None:
        """Server-side apply by the GitOps engine, whose fields are those that git has."""
        identity = (str(body["kind"]), str(body["metadata"]["name"]))
        live = self.objects.get(identity)
        if live is None:
            message = suspend_of(body)
            # Kueue's webhook suspends what it queues, whatever was asked for.
            self.objects[identity] = Live(body, suspended=bool(message))
            if self.objects[identity].queued:
                self.objects[identity].suspended = True
            return
        if live.trains and _refuses(live.body, body):
            self.refused.append(identity)
            raise Refused(identity)
        message = suspend_of(body)
        live.body = body
        if message is not None:
            live.suspended = message

    def differs(self, body: Body) -> bool:
        """Whether a field that git has is not in the store as git has it."""
        live = self.objects.get((str(body["kind"]), str(body["metadata"]["name"])))
        if live is None:
            return True
        message = suspend_of(body)
        return live.body != body or (message is not None and message != live.suspended)

    def delete(self, identity: Identity) -> None:
        live = self.objects.pop(identity)
        if live.running:
            self.lost.append(live)

    def tick(self, *, calm: bool = False) -> None:
        """Queues admit and evict, operators train, the TTL controller cleans up."""
        for identity, live in list(self.objects.items()):
            if not live.trains:
                continue
            if live.outcome:
                self._clean_up(identity, live)
                continue
            if live.queued:
                self._queue(live, calm)
            if not live.suspended:
                self._train(live, calm)

    def _clean_up(self, identity: Identity, live: Live) -> None:
        live.age += 1
        ttl = ttl_of(live.body)
        if ttl is not None and live.age > ttl:
            del self.objects[identity]

    def _queue(self, live: Live, calm: bool) -> None:
        if live.suspended:
            live.suspended = not (calm or self.chance.random() < 0.7)
        elif not calm and self.chance.random() < 0.1:
            live.suspended = True  # preempted; its checkpoint brings it back

    def _train(self, live: Live, calm: bool) -> None:
        if not live.progress:
            self.begun[live.owner] += 1
        live.progress += 1
        if live.progress > LENGTH:
            failed = not calm and self.chance.random() < 0.2
            live.outcome = "failed" if failed else "succeeded"


def _refuses(old: Body, new: Body) -> bool:
    """Whether the API server keeps what would change."""
    before, after = _fixed(old), _fixed(new)
    if old["kind"] == "TrainJob":  # `self == oldSelf` asks where there is a value before and after
        both = before.keys() & after.keys()
        return any(before[key] != after[key] for key in both)
    return before != after


def _fixed(body: Body) -> Body:
    """The part of the spec that the API server keeps as it is."""
    mutable = MUTABLE[str(body["kind"])]
    spec = body.get("spec") or {}
    return {} if "*" in mutable else {k: v for k, v in spec.items() if k not in mutable}
