"""Pods as the cluster has them: which ranks each one holds, what it waits for, how it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainwright.cluster.termination import RankFailure, parse
from trainwright.datatypes.data import Data, amount, dig, mapping, mappings, text, texts
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.findings.credentials import redact
from trainwright.kinds.kind import Kind
from trainwright.kinds.operators import workload
from trainwright.objects import own_labels
from trainwright.objects.pods import rank_prediction
from trainwright.objects.pods.pod import ManifestError
from trainwright.objects.pods.template import ROLE_LABEL, PodTemplate

_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
UNSCHEDULED = "Unscheduled"  # of pods that no scheduler has said anything of
_MAIN_CONTAINER = "kubectl.kubernetes.io/default-container"  # mesh injectors set it
_SUFFIX = re.compile(r"-[a-z0-9]{5}$")  # what the Job controller appends to a pod's name


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSlot:
    """A pod that the operator is expected to make, and the ranks of the processes in it.

    `ranks` are empty where a rendezvous assigns them, or they are unknown.
    """

    name: str
    role: str
    index: int
    ranks: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """The seat as people name it: "rank 3", "ranks 8-15", "worker 2"."""
        if not self.ranks:
            return f"{self.role} {self.index}"
        low, high = self.ranks[0], self.ranks[-1]
        return f"rank {low}" if low == high else f"ranks {low}-{high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """How a container ended: exit code, the kubelet's reason, and its termination message."""

    code: int
    reason: str
    message: str
    at: str
    report: RankFailure | None = None  # where the message is one of the runtime

    @property
    def failed(self) -> bool:
        return self.code != 0

    @property
    def follows(self) -> bool:
        """Whether the failure of a rank elsewhere is the cause."""
        return self.report is not None and self.report.follows

    @property
    def failed_at(self) -> str:
        """When the rank failed; containers end later, and in another order."""
        return (self.report.time if self.report else "") or self.at

    @property
    def last_words(self) -> str:
        """The report, else the last line of the message."""
        if self.report is not None:
            return self.report.message
        return self.message.splitlines()[-1].strip() if self.message else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePod:
    """One pod. `reason` and `message` say what it waits for, `ending` how its container ended.

    `before` is how the container that this one replaces ended; `attempt` counts how often a JobSet
    has recreated all its pods. `origin` is the part of the name that a Job gives all pods of one
    index. `role` is empty for pods that train; `group` is what its controller calls them if it does
    not number them.
    """

    name: str
    run: str
    created: str
    node: str
    container: str
    phase: str
    ready: bool
    restarts: int
    reason: str = ""
    message: str = ""
    ending: Termination | None = None
    before: Termination | None = None
    index: int = 0
    attempt: int = 0
    origin: str = ""
    role: str = ""
    group: str = ""
    seat: PodSlot | None = None

    @property
    def label(self) -> str:
        if self.seat:
            return self.seat.label
        if self.group:
            return f"{self.group} {self.name.rpartition('-')[2]}"
        return f"{self.role or 'node'} {self.index}"

    @property
    def number(self) -> int:
        """The pod's number among those that train, or among those of its role."""
        return self.seat.index if self.seat else self.index

    @property
    def place(self) -> str:
        """An identity that a pod shares with its replacement."""
        return self.seat.name if self.seat else self.origin or self.name

    @property
    def order(self) -> tuple[str, int, str]:
        """A sort key: training pods, then each role's; of several in a slot the newest last."""
        return (self.role, self.number, self.created)


def pod_slots(
    kind: Kind, body: Mapping[str, Data], supporting: Sequence[Manifest]
) -> tuple[PodSlot, ...]:
    """Return the pods that the operator makes of an object, in order; empty if that is unknown.

    `supporting` are the objects that git has with it: a TrainJob needs its runtime.
    """
    own = Manifest(body=body)
    others = tuple(m for m in supporting if m.identity[:2] != own.identity[:2])
    try:
        expected = workload((own, *others), kind.status.size(body))
        foreseen = rank_prediction.predict(expected.training)
    except ManifestError:
        return ()
    held: dict[str, list[int | None]] = {}
    for process in foreseen:
        held.setdefault(process.pod, []).append(process.rank)
    return tuple(
        PodSlot(
            name=pod.name,
            role=pod.role,
            index=number,
            ranks=tuple(r for r in ranks if r is not None) if None not in ranks else (),
        )
        for pods in (expected.training, *map(expected.of_role, expected.serving))
        for number, pod in enumerate(pods)
        for ranks in [held.get(pod.name, [])]
    )


def assign_slots(pods: Sequence[LivePod], places: Sequence[PodSlot]) -> tuple[LivePod, ...]:
    """Return pods with their slots, sorted by slot; of several in a slot the newest last."""
    by_name = {seat.name: seat for seat in places}
    seated = (
        replace(pod, seat=by_name.get(pod.name) or by_name.get(_SUFFIX.sub("", pod.name)))
        for pod in pods
    )
    return tuple(sorted(seated, key=lambda pod: pod.order))


def read(body: Mapping[str, Data], kind: Kind) -> LivePod:
    """Return a pod from the API server's object."""
    pod, status = PodTemplate("", body), mapping(body.get("status"))
    labels = texts(pod.labels)
    name = _main_container(pod, kind)
    container = _named(status.get("containerStatuses"), name)
    reason, message = _waiting(pod, status, container, kind)
    origin = text(pod.metadata.get("generateName"))
    return LivePod(
        name=text(pod.metadata.get("name")),
        run=labels.get(own_labels.RUN) or labels.get(kind.carrier) or "",
        created=text(pod.metadata.get("creationTimestamp")),
        node=text(pod.spec.get("nodeName")),
        container=name,
        phase=text(status.get("phase")) or "Pending",
        ready=bool(container.get("ready")) and not pod.metadata.get("deletionTimestamp"),
        restarts=amount(container.get("restartCount"), 0),
        reason=reason,
        message=clean(message),
        ending=_ending(mapping(container.get("state")), status),
        before=_ending(mapping(container.get("lastState")), {}),
        index=_count(labels, _INDEX_LABEL),
        attempt=_count(labels, kind.attempt_label),
        origin=origin.rstrip("-") if _INDEX_LABEL in labels else "",
        role=labels.get(ROLE_LABEL, ""),
        group=labels.get(kind.group_label, ""),
    )


def _main_container(pod: PodTemplate, kind: Kind) -> str:
    """Return the name of the container that trains: the annotated one, the kind's, or the first."""
    marked = text(pod.annotations.get(_MAIN_CONTAINER))
    names = [container.name for container in pod.trains]
    return marked or (kind.container if kind.container in names else next(iter(names), ""))


def _named(statuses: Data, name: str) -> Mapping[str, Data]:
    return next((entry for entry in mappings(statuses) if entry.get("name") == name), {})


def _count(labels: Mapping[str, str], name: str) -> int:
    written = labels.get(name, "")
    return int(written) if written.isdigit() else 0


def clean(text: str) -> str:
    """Return a text from the cluster on one line, without credentials."""
    return redact(" ".join(text.split()))


def _ending(state: Mapping[str, Data], status: Mapping[str, Data]) -> Termination | None:
    """Return how a container ended, or why its pod failed before starting one; None if neither."""
    disrupted = _condition(status, "DisruptionTarget")
    if state.get("terminated") is None:
        if status.get("phase") != "Failed":
            return None
        reason, message = text(status.get("reason")), text(status.get("message"))
        return Termination(code=-1, reason=reason, message=clean(message), at="")
    ended = mapping(state["terminated"])
    reported = text(ended.get("message")) or text(disrupted.get("message"))
    reason = text(ended.get("reason"))
    if disrupted and reason in ("", "Error"):
        reason = text(disrupted.get("reason")) or reason
    report = parse(reported.strip())
    return Termination(
        code=amount(ended.get("exitCode"), 0),
        reason=reason,
        report=report,
        message=report.message if report else redact(reported.strip()),
        at=text(ended.get("finishedAt")),
    )


def _condition(status: Mapping[str, Data], name: str, holds: str = "True") -> Mapping[str, Data]:
    """Return the condition of this type, if it has this status; else an empty mapping."""
    for condition in mappings(status.get("conditions")):
        if condition.get("type") == name and condition.get("status") == holds:
            return condition
    return {}


def _waiting(
    pod: PodTemplate, status: Mapping[str, Data], container: Mapping[str, Data], kind: Kind
) -> tuple[str, str]:
    """Return the reason and message of a pod that waits; both empty if it is ready or done."""
    if status.get("phase") in ("Succeeded", "Failed"):
        return "", ""
    if pod.metadata.get("deletionTimestamp"):
        return "Terminating", ""
    unscheduled = _condition(status, "PodScheduled", "False")
    if unscheduled:
        reason = text(unscheduled.get("reason")) or "Unschedulable"
        return reason, text(unscheduled.get("message"))
    if not (pod.spec.get("nodeName") or status.get("conditions") or container):
        scheduler = text(pod.spec.get("schedulerName")) or "default-scheduler"
        return UNSCHEDULED, f"the scheduler {scheduler} has not considered it"
    sidecars = {container.name for container in pod.containers if container.sidecar}
    for init in mappings(status.get("initContainerStatuses")):
        name = text(init.get("name"))
        held = _held_up(init, kind.status.waits.get(name, "has not ended"))
        if held and name not in sidecars:
            return held
    return _not_ready(container)


def _not_ready(container: Mapping[str, Data]) -> tuple[str, str]:
    """Return why the training container is not ready: reason and message, both "" if it is."""
    waiting = mapping(dig(container, "state", "waiting"))
    if waiting:
        return text(waiting.get("reason")) or "Waiting", text(waiting.get("message"))
    if not container:
        return "Pending", ""
    return ("", "") if container.get("ready") else ("NotReady", "")


def _held_up(init: Mapping[str, Data], waits: str) -> tuple[str, str] | None:
    """Return why an init container still blocks its pod, or None once it has succeeded."""
    state, name = mapping(init.get("state")), text(init.get("name"))
    ended, waiting = mapping(state.get("terminated")), mapping(state.get("waiting"))
    if ended:
        code = amount(ended.get("exitCode"), 0)
        return ("Init:Error", f"init container {name} ended with {code}") if code else None
    again = f", started {init['restartCount']} times again" if init.get("restartCount") else ""
    if "running" in state:
        return "Init", f"init container {name} {waits}{again}"
    reason = text(waiting.get("reason")) or "PodInitializing"
    reported = text(waiting.get("message"))
    return f"Init:{reason}", f"init container {name}: {reported or reason}{again}"
