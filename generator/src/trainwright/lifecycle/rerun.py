"""`rerun`: another run of the job, with the changes made since."""

from __future__ import annotations

from dataclasses import replace

from trainwright.documents import editing
from trainwright.kinds import ADOPTED
from trainwright.lifecycle import removal, unrendered
from trainwright.lifecycle.states import in_state
from trainwright.lifecycle.subject import Step, Subject
from trainwright.runs.decide import begun_name
from trainwright.runs.decision import Step as Decided
from trainwright.runs.decision import awaiting


def rerun(subject: Subject, *, outdated: bool = False) -> Step:
    """Raise `run` to the next number that never began; a cancelled job becomes active.

    With `outdated`, only of a job whose run is outdated.
    """
    path = subject.file.path
    if unmoved := (_up_to_date(subject) if outdated else None) or _not_again(subject):
        return unmoved
    present = subject
    if subject.value("/state") == "cancelled":
        subject = subject.edited(in_state(subject, "active"))
    run = int(subject.value("/run"))
    while True:
        run += 1
        again = subject.edited(editing.put(path, subject.raw, "/run", run))
        if not (again.finished or again.has_begun):
            break
    # What was rendered since the last commit never ran: another run does not replace it.
    last = again.record or present.present
    replaced = replace(present, present=last, committed=last)
    before, name = replaced.object, again.decision.name
    # Who cancels a run with --orphan ends it by hand, and may not have done so.
    ran = last is None or again.record is not None
    notes = removal.note(replaced) if ran and not replaced.has_ended else ()
    if again.decision.step is Decided.ADOPT:
        if subject.workspace.folder(subject.file.environment).is_there:
            rendered = f"`trainwright render {subject.file}`, and commit what it writes"
            return Step(message=f"has not adopted {before} yet: first {rendered}", refused=True)
        name = begun_name(again.sources, before)  # of a run that is recorded elsewhere
    if again.value("/state") == "suspended":
        notes += (f"{subject.file} is suspended: `trainwright resume {subject.file}` lets it run",)
    message = f"runs again: {name} instead of {before}"
    return Step(message=message, files={path: again.raw}, notes=notes)


def _up_to_date(subject: Subject) -> Step | None:
    if refused := unrendered.edit(subject):
        return refused
    if any(awaiting(subject.decision.held)):
        return None
    return Step(message=f"stays {subject.object}: no change waits for its next run")


def _not_again(subject: Subject) -> Step | None:
    if subject.value("/target") == ADOPTED.name:
        return Step(message=_once(subject.object), refused=True)
    return unrendered.never(subject)


def _once(name: str) -> str:
    return (
        f"is not run again: {name} was adopted as it is, and no spec says what it is. Write the "
        "next run into its file: a target that is rendered, with its image, entrypoint and nodes"
    )
