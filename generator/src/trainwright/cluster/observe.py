"""The state that a run is in, from its own status, its pods and its queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainwright.cluster import kueue
from trainwright.cluster.pods import UNSCHEDULED, LivePod, Termination, clean
from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.kinds.kind import Kind
from trainwright.kinds.state import Phase, State
from trainwright.objects.kueue import QUEUE_LABEL

# Reasons that keep a pod from starting, the most telling first: one of several pods is shown.
_TELLING = (
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImagePullBackOff",
    "ErrImagePull",
    "CrashLoopBackOff",
    "Unschedulable",
    "SchedulingGated",
    "Init",
    "ContainerCreating",
    "PodInitializing",
)
# Stages that every pod goes through: the reason for a restart says more than these.
_STARTING = ("Init", "ContainerCreating", "PodInitializing", "Pending", "NotReady", "Terminating")
# Exit codes of pods that were told to stop: a consequence of the failure, not its cause.
_STOPPED = (130, 143)
POD_GROUP = "PodGroup"  # of a gang; it is named after the run
_NOT_MADE = "FailedCreate"  # of Jobs; the training operator says FailedCreatePod


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning of a controller about an object of a kind: its event's reason, and the sentence."""

    kind: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything that the cluster reports about one run's object."""

    body: Mapping[str, Data]
    pods: tuple[LivePod, ...] = ()
    workload: Mapping[str, Data] | None = None
    workloads: Sequence[Mapping[str, Data]] = ()  # all of the namespace
    notices: tuple[Notice, ...] = ()  # about it and what it makes, the newest last


def state_of(kind: Kind, observation: Observation) -> State:
    """Return the state of a run: its object's status, refined by its pods."""
    state = kind.status.state_of(observation.body)
    state = replace(state, message=clean(state.message))
    if state.over:
        state = replace(state, ready=0)  # operators leave the number of pods that ran last
    if state.phase is Phase.SUCCEEDED:
        return state
    if state.phase is Phase.FAILED:
        return _with_the_failure(state, observation.pods)
    if observation.body["metadata"].get("deletionTimestamp"):
        return replace(state, phase=Phase.DELETING, reason="", message="")
    if state.phase is Phase.SUSPENDED:
        return _queued(state, observation)
    return _by_its_pods(state, observation)


def _queued(state: State, observation: Observation) -> State:
    """Return the state of a suspended workload with a queue, which Kueue resumes."""
    queue = (observation.body["metadata"].get("labels") or {}).get(QUEUE_LABEL, "")
    if not queue:
        return replace(state, ready=0)
    reason, message = kueue.reason(observation.workload, queue, observation.workloads)
    waiting = replace(state, phase=Phase.QUEUED, ready=0)
    if not reason:
        return replace(waiting, reason="Admitted", message="Kueue lets it start")
    return replace(waiting, reason=reason, message=message)


def _by_its_pods(state: State, observation: Observation) -> State:
    pods = current(observation.pods)
    if not pods:
        return _without_pods(state, observation.notices)
    attempts = max(state.restarts, *(pod.attempt for pod in pods))
    seen = replace(
        state,
        ready=sum(pod.ready for pod in pods),
        total=max(len(pods), state.total or 0),
        restarts=attempts + sum(pod.restarts for pod in pods),
    )
    broken = tuple(pod for pod in pods if pod.reason == "CrashLoopBackOff" or _down(pod))
    again = state.phase is Phase.PENDING and any(pod.attempt for pod in pods)
    if broken or again or state.phase is Phase.RESTARTING:
        return _restarting(replace(seen, phase=Phase.RESTARTING), observation, broken)
    why = _delays(seen, observation)
    if all(pod.role for pod in pods):
        stuck = [reason for reason in why if not _is_starting(reason[0])]
        waiting = ("RolesNotReady", f"those that train wait for their roles: {_by_role(pods)}")
        return _explained(replace(seen, phase=Phase.PENDING), [waiting, *stuck])
    if not why:
        return replace(seen, phase=Phase.RUNNING if seen.ready else state.phase)
    return _explained(replace(seen, phase=Phase.RUNNING if seen.ready else Phase.PENDING), why)


def _by_role(pods: Sequence[LivePod]) -> str:
    """Return how many pods of how many are ready, role by role."""
    ready: dict[str, list[bool]] = {}
    for pod in pods:
        ready.setdefault(pod.role, []).append(pod.ready)
    return ", ".join(f"{role} {sum(of)}/{len(of)}" for role, of in sorted(ready.items()))


def _without_pods(state: State, notices: Sequence[Notice]) -> State:
    if not notices or state.phase not in (Phase.PENDING, Phase.RESTARTING):
        return state
    return replace(state, reason=notices[-1].reason, message=notices[-1].message)


def _restarting(seen: State, observation: Observation, broken: Sequence[LivePod]) -> State:
    """Return the state with why pods failed, and what keeps their replacements from starting."""
    pods = current(observation.pods)
    failing = first_failure(broken or pods) or _last_failure(observation.pods)
    cause = failure(*failing) if failing else (seen.reason, seen.message)
    causes = [cause] if any(cause) else []
    stuck = [why for why in _delays(seen, observation, broken) if not _is_starting(why[0])]
    why = [*causes, *stuck] if broken else [*stuck, *causes]
    return _explained(seen, why or _delays(seen, observation))


def _explained(state: State, why: Sequence[tuple[str, str]]) -> State:
    """Return a state with its reasons added: the word of the first, the sentences of all."""
    if not why:
        return state
    return replace(state, reason=why[0][0], message="; ".join(m for _, m in why if m))


def _delays(
    seen: State, observation: Observation, broken: Sequence[LivePod] = ()
) -> list[tuple[str, str]]:
    """Return why pods outside `broken` are not ready, and why others cannot be created."""
    pods = current(observation.pods)
    waiting = sorted((pod for pod in pods if pod.reason and pod not in broken), key=_weight)
    delays = [_held_up(waiting)] if waiting else []
    group = [notice for notice in observation.notices if notice.kind == POD_GROUP]
    if group and waiting and waiting[0].reason == UNSCHEDULED:
        delays = [(group[-1].reason, group[-1].message)]
    refused = [notice for notice in observation.notices if notice.reason.startswith(_NOT_MADE)]
    if refused and lacks_pods(seen.total, pods):
        delays.append((refused[-1].reason, refused[-1].message))
    return delays


def is_unexplained(total: int | None, pods: Sequence[LivePod]) -> bool:
    """Whether pods are missing, or wait without giving a reason; events may give one."""
    return lacks_pods(total, pods) or any(pod.reason == UNSCHEDULED for pod in pods)


def lacks_pods(total: int | None, pods: Sequence[LivePod]) -> bool:
    """Whether there are fewer pods than there should be; failed ones do not count."""
    alive = sum(not _down(pod) for pod in pods)
    return alive < (total or 1)


def _is_starting(reason: str) -> bool:
    return reason.removeprefix("Init:") in _STARTING


def current(pods: Sequence[LivePod]) -> tuple[LivePod, ...]:
    """Return the newest pod of each slot: Jobs keep failed pods beside their replacements."""
    newest = {pod.place: pod for pod in pods}
    return tuple(newest.values())


def _down(pod: LivePod) -> bool:
    return pod.ending is not None and pod.ending.failed


def _weight(pod: LivePod) -> int:
    reason = pod.reason.removeprefix("Init:")
    return _TELLING.index(reason) if reason in _TELLING else len(_TELLING)


def _held_up(pods: Sequence[LivePod]) -> tuple[str, str]:
    """Return what the first of waiting pods waits for, and how many others wait."""
    first = pods[0]
    others = f" (and {len(pods) - 1} more)" if len(pods) > 1 else ""
    message = first.message or first.reason
    return first.reason, f"{first.label}{others}: {message}"


# --- failures ------------------------------------------------------------------------------------


def _with_the_failure(state: State, pods: Sequence[LivePod]) -> State:
    """Return a state with the rank that failed: more telling than "1 Master replica(s) failed"."""
    failing = first_failure(pods)
    if failing is None:
        return state
    reason, message = failure(*failing)
    return replace(state, reason=reason, message=f"{message}; {state.message}".rstrip("; "))


def first_failure(pods: Sequence[LivePod]) -> tuple[LivePod, Termination] | None:
    """Return the pod that failed first, and so made the others fail, and how it ended; or None."""
    now = [(pod, pod.ending) for pod in pods if pod.ending and pod.ending.failed]
    # How a container ended before its restart no longer matters where one is down now.
    endings = now or [(pod, pod.before) for pod in pods if pod.before and pod.before.failed]
    return min(
        endings,
        key=lambda e: (e[1].code in _STOPPED, e[1].follows, e[1].failed_at),
        default=None,
    )


def _last_failure(pods: Sequence[LivePod]) -> tuple[LivePod, Termination] | None:
    """Return the last of the failed pods that have been replaced, and how it ended; or None."""
    endings = [(pod, pod.ending) for pod in pods if pod.ending and pod.ending.failed]
    return max(endings, key=lambda e: (e[1].code not in _STOPPED, e[1].at), default=None)


def failure(pod: LivePod, ending: Termination) -> tuple[str, str]:
    """Return the reason for a failed rank in a word, and a sentence about it."""
    reason = ending.reason or "Error"
    how = "was stopped" if ending.code < 0 else f"ended with exit code {ending.code}"
    word = "" if reason == "Error" else f" ({reason})"
    if ending.report is not None:  # it names the rank of several that the pod may hold
        return reason, f"{ending.report.message}{word}"
    message = f": {ending.last_words}" if ending.last_words else ""
    return reason, f"{pod.label} {how}{word}{message}"
