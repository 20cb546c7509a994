"""Edits of a job that are not rendered yet, and the verbs that they stand in the way of.

A verb acts on the run that is rendered. What it writes is rendered together with such an edit: one
that only means to stop a run, or to move it, must not begin another by that.
"""

from __future__ import annotations

from trainwright.lifecycle.subject import Step, Subject
from trainwright.reports.values import change_line
from trainwright.runs.decide import requesting
from trainwright.runs.decision import Step as Decided
from trainwright.runs.record import ENDED
from trainwright.runs.recorded_job import edited_operation
from trainwright.specs import ledger


def edit(subject: Subject, field: str = "") -> Step | None:
    """Return why a verb that keeps the run is refused: by rendering, the run would be replaced, or
    end, or a `field` of operation that the verb sets would change. None if nothing is against it.
    """
    if not subject.valid:
        return None
    return _another(subject) or end(subject) or _of_field(subject, field)


def end(subject: Subject) -> Step | None:
    """Return why nothing more can be done about a run that only has to be rendered to end."""
    present = subject.present
    if not subject.valid or present is None or present.state in ENDED:
        return None
    decision = subject.decision
    if decision.step is not Decided.END:
        return None
    path = ledger.path(subject.file.environment) if decision.finished else subject.file.path
    ends = f"`trainwright render {subject.file}` ends {present.object}"
    return _refused(f"is {decision.state}, by {path}, and that is not rendered: {ends}")


def no_run(subject: Subject) -> Step | None:
    """Return why there is no run yet that could end: it was not rendered, or no commit has it.

    Where an environment has no rendered folder, its runs are recorded elsewhere.
    """
    present, committed = subject.present, subject.committed
    if present is None:
        return never(subject)
    if committed is None or (subject.record is present and committed.object != present.object):
        return _refused(f"has not begun {present.object} yet, which no commit has: commit it first")
    return None


def never(subject: Subject) -> Step | None:
    """Return why a job has no run, where it was never rendered beside the others."""
    folder = subject.workspace.folder(subject.file.environment)
    there = subject.tree.kind(f"{folder.path}/{subject.file.name}")
    if not (folder.is_there and subject.valid and subject.record is None) or there:
        return None
    if subject.decision.step is not Decided.BEGIN:
        return None
    started = f"`trainwright render {subject.file}` starts it"
    return _refused(f"has no run yet, since it was never rendered: {started}")


def already(subject: Subject, message: str, field: str = "state") -> Step:
    """Return the step for a job whose file has what is asked for: there is nothing to do, unless
    its run does not have it.
    """
    record = subject.present
    if record is None or not subject.valid:
        return Step(message=message)
    if field in record.held:
        again = f"`trainwright rerun {subject.file}` begins that"
        return _refused(f"{message}, and {record.object} is kept without it: {again}")
    if field == "state" and record.state != subject.state:
        rendered = f"`trainwright render {subject.file}`, and commit what it writes"
        goes_on = f"{record.object} is {record.state}"
        return _refused(f"{message}, by its file, and {goes_on}: {rendered}")
    return Step(message=message)


def _another(subject: Subject) -> Step | None:
    decision, present = subject.decision, subject.present
    if present is None or decision.step is not Decided.BEGIN or decision.unasked:
        return None
    if decision.name == present.object:
        return None
    record = subject.record or present
    changes = requesting(subject.sources, record)
    what = next((f": {change_line(it)} ({it.place})" for it in changes), "")
    begins = f"with it {decision.name} begins instead of {record.object}"
    how = f"Take it back, or begin that run first: `trainwright render {subject.file}`"
    return _refused(f"has an edit that is not rendered{what}; {begins}. {how}")


def _of_field(subject: Subject, field: str) -> Step | None:
    record = subject.record
    if record is None or field not in edited_operation(record, subject.sources):
        return None
    if field in record.held:
        return None
    how = f"take it back, or first `trainwright render {subject.file}`"
    return _refused(f"has an edit of {field} that is not rendered: {how}")


def _refused(message: str) -> Step:
    return Step(message=message, refused=True)
