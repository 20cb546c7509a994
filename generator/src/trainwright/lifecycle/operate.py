"""`set --priority` and `set --queue`: when a run gets its turn. It trains on."""

from __future__ import annotations

import re

from trainwright.datatypes.data import Data
from trainwright.documents import editing
from trainwright.kinds import NAMED
from trainwright.lifecycle import unrendered
from trainwright.lifecycle.subject import Step, Subject

_NUMBER = re.compile(r"\A-?[0-9]+\Z")


def prioritize(subject: Subject, priority: str) -> Step:
    """Give a run another priority: in its queue, of its pods, or of Lattice."""
    if NAMED[str(subject.value("/target"))].section == "lattice":
        if not _NUMBER.fullmatch(priority):
            message = f'has a number for its priority, and "{priority}" is not one'
            return Step(message=message, refused=True)
        return _edited(subject, "lattice.priority", int(priority), "priority", "prioritize")
    if not subject.value("/queue"):
        message = (
            "is in no queue: its pods keep the PriorityClass that they were made with; write "
            "`priorityClass` for its next run"
        )
        return Step(message=message, refused=True)
    return _edited(subject, "queuePriority", priority, "priority", "prioritize")


def move(subject: Subject, queue: str) -> Step:
    """Put a run into another queue, while it waits."""
    if not subject.value("/queue"):
        return Step(message="is in no queue: write `queue` for its next run", refused=True)
    shown = f"`trainwright status --diff {subject.file}` looks whether the API server takes it"
    note = f"a queue is changed while the run waits in it, and not once it is admitted: {shown}"
    return _edited(subject, "queue", queue, "queue", "move", (note,))


def _edited(
    subject: Subject,
    field: str,
    wanted: Data,
    called: str,
    verb: str,
    notes: tuple[str, ...] = (),
) -> Step:
    if refused := unrendered.edit(subject, field) or unrendered.never(subject):
        return refused
    if subject.is_over:
        return Step(message=f"is over: git has nothing of it to {verb}", refused=True)
    pointer = f"/{field.replace('.', '/')}"
    was = subject.value(pointer)
    if was == wanted:
        return unrendered.already(subject, f"has {called} {wanted} already", field)
    raw = editing.put(subject.file.path, subject.raw, pointer, wanted)
    message = f"has {called} {wanted}{f' instead of {was}' if was else ''}"
    return Step(message=message, files={subject.file.path: raw}, notes=notes, for_the_run=field)
