"""`set --priority` and `set --queue`: when a run gets its turn. It trains on."""

from __future__ import annotations

from trainwright.datatypes.data import Data
from trainwright.documents import editing
from trainwright.kinds import NAMED
from trainwright.lifecycle.subject import Step, Subject

_OVER = "is over: git has nothing of it to"


def prioritize(subject: Subject, priority: str) -> Step:
    """Give a run another priority: in its queue, of its pods, or of Lattice."""
    field, wanted = _priority(subject, priority)
    if wanted is None:
        return Step(
            message=f'has a number for its priority, and "{priority}" is not one', refused=True
        )
    if subject.is_over:
        return Step(message=f"{_OVER} prioritize", refused=True)
    return _edited(subject, field, wanted, "priority")


def _priority(subject: Subject, priority: str) -> tuple[str, Data]:
    """Return the field that holds a job's priority, and the value, or None if it is invalid."""
    if NAMED[str(subject.value("/target"))].section == "lattice":
        number = priority.removeprefix("-")
        return "lattice.priority", int(priority) if number.isdecimal() else None
    return "queuePriority" if subject.value("/queue") else "priorityClass", priority


def move(subject: Subject, queue: str) -> Step:
    """Put a run into another queue, while it waits."""
    if not subject.value("/queue"):
        return Step(message="is in no queue: write `queue` for its next run", refused=True)
    if subject.is_over:
        return Step(message=f"{_OVER} move", refused=True)
    shown = f"`trainwright status --diff {subject.file}` looks whether the API server takes it"
    note = f"a queue is changed while the run waits in it, and not once it is admitted: {shown}"
    return _edited(subject, "queue", queue, "queue", (note,))


def _edited(
    subject: Subject, field: str, wanted: Data, called: str, notes: tuple[str, ...] = ()
) -> Step:
    pointer = f"/{field.replace('.', '/')}"
    was = subject.value(pointer)
    if was == wanted:
        return Step(message=f"has {called} {wanted} already")
    raw = editing.put(subject.file.path, subject.raw, pointer, wanted)
    message = f"has {called} {wanted}{f' instead of {was}' if was else ''}"
    return Step(message=message, files={subject.file.path: raw}, notes=notes, for_the_run=field)
