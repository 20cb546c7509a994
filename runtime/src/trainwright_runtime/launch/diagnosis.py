"""Which process of a node failed first, and why: found out before the others are stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from trainwright_runtime.failures import causes, exit_codes, stacks
from trainwright_runtime.failures.causes import Evidence
from trainwright_runtime.failures.failure import Failure, Node
from trainwright_runtime.launch.processes import Process, first_failure


def diagnose(processes: Sequence[Process], node: Node) -> Failure | None:
    """Return the first failure of these processes, or None while all is well."""
    first = first_failure(processes)
    return None if first is None else failure_among(processes, first, node)


def failure_among(processes: Sequence[Process], first: Process, node: Node) -> Failure:
    """Return the failure of the `first` to fail, or of the rank that it waited for in vain."""
    failure = failure_of(first, node)
    timed_out = failure.cause is not None and failure.cause.name == "collective-timeout"
    if timed_out or failure.own_exit_code == exit_codes.STALLED:
        return _hanging(processes, node, failure) or failure
    return failure


def failure_of(process: Process, node: Node) -> Failure:
    """Return what is known about how one process ended."""
    record = process.record
    if record is not None and record.cause:
        cause = causes.BY_NAME.get(record.cause)
    else:
        cause = causes.recognise(
            Evidence(error=process.error, signal=process.signal, oom_killed=process.oom_killed)
        )
    rank = process.label.get("rank")
    lately = time.monotonic() - (process.failed_at or time.monotonic())
    return Failure(
        who=process.name,
        rank=rank if isinstance(rank, int) else None,
        worker=process.worker,
        node=node,
        time=time.time() - lately,
        how=process.how,
        error=process.error,
        own_exit_code=record.exit_code if record else process.exit_code,
        cause=cause,
    )


def _hanging(processes: Sequence[Process], node: Node, victim: Failure) -> Failure | None:
    """Return the failure of the rank that the others wait for in vain, if it is on this node.

    The first to run into a time-out is a victim: to blame is the rank that still runs and is not
    in a collective itself.
    """
    running = [p for p in processes if p.failed_at is None and not p.done.is_set()]
    for process in running:
        state = stacks.state(process.pid)
        frames = process.frames()
        if stacks.waits_for_peers(frames):
            continue
        return replace(
            victim,
            who=process.name,
            rank=rank if isinstance(rank := process.label.get("rank"), int) else None,
            worker=process.worker,
            how=_where(state, frames),
            error="",
            own_exit_code=victim.exit_code,
            cause=causes.HANG,
            detail=": ".join(filter(None, (f"while {victim.who} waited for it", victim.error))),
        )
    return None


_STATES = {
    "T": "stopped by a signal (state T)",
    "D": "in a system call that cannot be interrupted (state D: storage or a driver)",
}


def _where(state: str, frames: Sequence[stacks.Frame]) -> str:
    frame = stacks.own_frame(frames)
    return _STATES.get(state, f"at {frame}" if frame else "it does not answer")
