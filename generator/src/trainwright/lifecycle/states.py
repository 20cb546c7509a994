"""`suspend`, `resume` and `cancel`: the state of a job."""

from __future__ import annotations

from trainwright.documents import editing
from trainwright.kinds.capabilities import unsupported
from trainwright.lifecycle import removal, unrendered
from trainwright.lifecycle.subject import Step, Subject
from trainwright.objects.departure import Departure, End

_STATE = "/state"
# Behind a line that was added, so that it is taken out again and not turned over: the file is then
# what it was, byte for byte.
NOTE = "set by trainwright"


def suspend(subject: Subject) -> Step:
    """Suspend the job: it has no pods, but the object stays."""
    if refused := unrendered.edit(subject):
        return refused
    state = subject.state
    if state == "suspended":
        return unrendered.already(subject, "is suspended already")
    if state == "cancelled":
        return Step(message="is cancelled: git has nothing of it to suspend", refused=True)
    if state == "finished":
        return Step(message=f"has finished: {subject.object} is in the ledger", refused=True)
    raw = in_state(subject, "suspended")
    held = subject.edited(raw)
    for refusal in unsupported(held.sources.job, held.environment) if held.valid else ():
        if refusal.path == _STATE:
            return Step(
                message=f"is not suspended: {refusal.message}. {refusal.remedy}", refused=True
            )
    return Step(message="suspended", files={subject.file.path: raw})


def resume(subject: Subject) -> Step:
    """Let a suspended job run."""
    if refused := unrendered.edit(subject):
        return refused
    state = subject.state
    if state in ("active", "finished"):
        return unrendered.already(subject, "is not suspended")
    if state == "cancelled":
        again = f"`trainwright rerun {subject.file}` starts a new run"
        return Step(message=f"is cancelled, and not suspended: {again}", refused=True)
    return Step(message="resumed", files={subject.file.path: in_state(subject, "active")})


def cancel(subject: Subject, *, orphan: bool = False) -> Step:
    """Remove the run from the cluster; the spec stays.

    If the GitOps engine deletes nothing, an active run would go on: that is refused unless `orphan`
    allows it. An edit that is not rendered does not begin anything then.
    """
    if refused := unrendered.end(subject):
        return refused
    if subject.state == "cancelled":
        return Step(message="is cancelled already")
    if subject.has_ended:
        return Step(message=f"has finished: {subject.object} is in the ledger")
    if refused := unrendered.no_run(subject):
        return refused
    end, rendered = removal.end_of(subject), subject.present
    runs = (rendered.state if rendered else subject.state) == "active"
    if runs and end.how is Departure.KEPT and not orphan:
        return Step(message=f"is not cancelled: {_would_go_on(subject, end)}", refused=True)
    files = {subject.file.path: in_state(subject, "cancelled")}
    return Step(message="cancelled", files=files, notes=removal.note(subject))


def _would_go_on(subject: Subject, end: End) -> str:
    goes_on = f"{subject.object} would go on, since its GitOps engine deletes nothing"
    by_hand = f"`trainwright cancel {subject.file} --orphan`, and then `{end.command}`"
    if suspend(subject).refused:
        return f"{goes_on}. Stop it by hand: {by_hand}"
    suspended = f"`trainwright suspend {subject.file}`, and cancel it when its pods are gone"
    return f"{goes_on}. First {suspended}; or {by_hand}"


def in_state(subject: Subject, state: str) -> bytes:
    """Return the job's file, edited so that its effective state is the given one."""
    path, raw = subject.file.path, subject.raw
    if subject.wrote(_STATE) and editing.note(raw, _STATE) == NOTE:
        without = editing.drop(path, raw, _STATE)
        if subject.edited(without).value(_STATE) == state:
            return without
    return editing.put(path, raw, _STATE, state, note=NOTE)
