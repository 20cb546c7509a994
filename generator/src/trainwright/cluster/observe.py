"""One run of a job as it is: its own status, its pods and its queue, into one state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trainwright.cluster import kueue
from trainwright.cluster.pods import Ending, LivePod, clean
from trainwright.cluster.states import Kind, Phase, State
from trainwright.model import Data

# What keeps a pod from starting, the most telling first: of several pods one is shown.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Everything that the cluster says of one object."""

    body: Mapping[str, Data]
    pods: tuple[LivePod, ...] = ()
    workload: Mapping[str, Data] | None = None
    warnings: tuple[str, ...] = ()  # messages of events, the newest last


def judge(kind: Kind, sight: Sight) -> State:
    """The state of a run: what its object says, made precise by its pods."""
    told = kind.judge(sight.body)
    told = replace(told, message=clean(told.message))
    if told.phase is Phase.SUCCEEDED:
        return told
    if told.phase is Phase.FAILED:
        return _with_the_failure(told, sight.pods)
    if sight.body["metadata"].get("deletionTimestamp"):
        return replace(told, phase=Phase.DELETING, reason="", message="")
    if told.phase is Phase.SUSPENDED:
        return _queued(told, sight)
    return _by_its_pods(told, sight)


def _queued(told: State, sight: Sight) -> State:
    """Whoever has a queue was suspended by Kueue, and goes on by itself."""
    queue = (sight.body["metadata"].get("labels") or {}).get(kueue.QUEUE_LABEL, "")
    if not queue:
        return replace(told, ready=0)
    reason, message = kueue.reason(sight.workload, queue)
    waiting = replace(told, phase=Phase.QUEUED, ready=0)
    if not reason:
        return replace(waiting, reason="Admitted", message="Kueue lets it start")
    return replace(waiting, reason=reason, message=message)


def _by_its_pods(told: State, sight: Sight) -> State:
    pods = current(sight.pods)
    if not pods:
        warning = sight.warnings[-1] if sight.warnings else ""
        if told.phase is Phase.PENDING and warning:
            return replace(told, reason="Warning", message=clean(warning))
        return told
    ready = sum(pod.ready for pod in pods)
    done = sum(pod.phase == "Succeeded" for pod in pods)
    seen = replace(
        told,
        ready=ready,
        total=max(len(pods), told.total or 0),
        restarts=told.restarts + sum(pod.restarts for pod in pods),
    )
    broken = [pod for pod in pods if pod.reason == "CrashLoopBackOff" or _down(pod)]
    if broken or told.phase is Phase.RESTARTING:
        failing = first_failure(broken or pods)
        if failing:
            why, message = failure(*failing)
            return replace(seen, phase=Phase.RESTARTING, reason=why, message=message)
        return replace(seen, phase=Phase.RESTARTING)
    held_up = sorted((pod for pod in pods if pod.reason), key=_weight)
    if held_up and ready + done < len(pods):
        phase = Phase.RUNNING if ready else Phase.PENDING
        why, message = _held_up(held_up)
        return replace(seen, phase=phase, reason=why, message=message)
    return replace(seen, phase=Phase.RUNNING if ready else told.phase)


def current(pods: Sequence[LivePod]) -> tuple[LivePod, ...]:
    """The newest pod of each seat: Jobs keep the failed ones beside those that replace them."""
    newest = {pod.seat.name if pod.seat else pod.name: pod for pod in pods}
    return tuple(newest.values())


def _down(pod: LivePod) -> bool:
    return pod.ending is not None and pod.ending.failed


def _weight(pod: LivePod) -> int:
    reason = pod.reason.removeprefix("Init:")
    return _TELLING.index(reason) if reason in _TELLING else len(_TELLING)


def _held_up(pods: Sequence[LivePod]) -> tuple[str, str]:
    """What the most telling of waiting pods waits for, and how many others wait."""
    first = pods[0]
    others = f" (and {len(pods) - 1} more)" if len(pods) > 1 else ""
    said = first.message or first.reason
    return first.reason, f"{first.label}{others}: {said}"


# --- failures ------------------------------------------------------------------------------------


def _with_the_failure(told: State, pods: Sequence[LivePod]) -> State:
    """The rank that failed says more than "1 Master replica(s) failed"."""
    failing = first_failure(pods)
    if failing is None:
        return told
    reason, message = failure(*failing)
    return replace(told, reason=reason, message=f"{message}; {told.message}".rstrip("; "))


def first_failure(pods: Sequence[LivePod]) -> tuple[LivePod, Ending] | None:
    """The pod that failed first, which took the others with it, and how it ended."""
    now = [(pod, pod.ending) for pod in pods if pod.ending and pod.ending.failed]
    # What a container ended with before it was started again is old news where one is down now.
    endings = now or [(pod, pod.before) for pod in pods if pod.before and pod.before.failed]
    # Pods that were only told to stop are the consequence, not the cause.
    stopped = (130, 143)
    return min(endings, key=lambda e: (e[1].code in stopped, e[1].at), default=None)


def failure(pod: LivePod, ending: Ending) -> tuple[str, str]:
    """A word and a sentence about one failed rank."""
    reason = ending.reason or "Error"
    how = "was stopped" if ending.code < 0 else f"ended with exit code {ending.code}"
    word = "" if reason == "Error" else f" ({reason})"
    last = ending.message.splitlines()[-1].strip() if ending.message else ""
    said = f": {last}" if last else ""
    return reason, f"{pod.label} {how}{word}{said}"
