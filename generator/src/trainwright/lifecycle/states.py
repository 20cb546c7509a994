"""`suspend`, `resume` and `cancel`: the state of a job."""

from __future__ import annotations

from trainwright import editing
from trainwright.lifecycle.subject import Step, Subject

_STATE = "/state"
# Behind a line that was added, so that it is taken out again and not turned over: the file is then
# what it was, byte for byte.
NOTE = "set by trainwright"


def suspend(subject: Subject) -> Step:
    """Hold the pods back; the object stays."""
    state = subject.value(_STATE)
    if state == "suspended":
        return Step(said="is suspended already")
    if state == "cancelled":
        return Step(said="is cancelled: nothing of it is left to suspend", refused=True)
    if subject.retired:
        return Step(said=f"has finished: {subject.object} is in the ledger", refused=True)
    return Step(said="suspended", files={subject.file.path: in_state(subject, "suspended")})


def resume(subject: Subject) -> Step:
    """Let a suspended job run."""
    state = subject.value(_STATE)
    if state == "active":
        return Step(said="is not suspended")
    if state == "cancelled":
        again = f"`trainwright rerun {subject.file}` starts a new run"
        return Step(said=f"is cancelled and its object gone; {again}", refused=True)
    return Step(said="resumed", files={subject.file.path: in_state(subject, "active")})


def cancel(subject: Subject) -> Step:
    """Remove the run from the cluster; the spec stays."""
    if subject.value(_STATE) == "cancelled":
        return Step(said="is cancelled already")
    if subject.retired:
        return Step(said=f"has finished: {subject.object} is in the ledger", refused=True)
    return Step(said="cancelled", files={subject.file.path: in_state(subject, "cancelled")})


def in_state(subject: Subject, state: str) -> bytes:
    """The job's file such that its effective state is the given one."""
    path, raw = subject.file.path, subject.raw
    if subject.wrote(_STATE) and editing.note(raw, _STATE) == NOTE:
        without = editing.drop(path, raw, _STATE)
        if subject.edited(without).value(_STATE) == state:
            return without
    return editing.put(path, raw, _STATE, state, note=NOTE)
