"""`rerun`: another run of the job, with the changes made since."""

from __future__ import annotations

from trainwright.documents import editing
from trainwright.kinds import ADOPTED
from trainwright.lifecycle import removal
from trainwright.lifecycle.states import in_state
from trainwright.lifecycle.subject import Step, Subject
from trainwright.runs.decide import begun_name
from trainwright.runs.decision import Step as Decided
from trainwright.runs.decision import awaiting


def rerun(subject: Subject, *, outdated: bool = False) -> Step:
    """Raise `run` to the next number that has not finished; a cancelled job becomes active.

    With `outdated`, only of a job whose run is outdated.
    """
    before, path = subject.object, subject.file.path
    if outdated and not any(awaiting(subject.decision.held)):
        return Step(message=f"stays {before}: no change waits for its next run")
    if subject.value("/target") == ADOPTED.name:
        return Step(message=_once(before), refused=True)
    # Where an environment has no rendered folder, its runs are recorded elsewhere.
    folder = subject.workspace.folder(subject.file.environment)
    kept, there = folder.is_there, subject.tree.kind(f"{folder.path}/{subject.file.name}")
    begins = subject.record is None and subject.decision.step is Decided.BEGIN
    if kept and begins and not there:
        started = f"`trainwright render {subject.file}` starts it"
        return Step(message=f"has no run yet, since it was never rendered: {started}", refused=True)
    # Who cancels a run with --orphan ends it by hand, and may not have done so.
    notes = () if subject.finished else removal.note(subject)
    if subject.value("/state") == "cancelled":
        subject = subject.edited(in_state(subject, "active"))
    run = int(subject.value("/run"))
    while True:
        run += 1
        again = subject.edited(editing.put(path, subject.raw, "/run", run))
        if not again.finished:
            break
    name = again.object
    if again.decision.step is Decided.ADOPT:
        if kept:
            rendered = f"`trainwright render {subject.file}`, and commit what it writes"
            return Step(message=f"has not adopted {before} yet: first {rendered}", refused=True)
        name = begun_name(again.sources, before)  # of a run that is recorded elsewhere
    if again.value("/state") == "suspended":
        notes += (f"{subject.file} is suspended: `trainwright resume {subject.file}` lets it run",)
    message = f"runs again: {name} instead of {before}"
    return Step(message=message, files={path: again.raw}, notes=notes)


def _once(name: str) -> str:
    return (
        f"is not run again: {name} was adopted as it is, and no spec says what it is. Write the "
        "next run into its file: a target that is rendered, with its image, entrypoint and nodes"
    )
