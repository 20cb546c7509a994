"""What an edit of a job's field does to its run: a row for every field that people can write.

docs/fields.md is this table. A row covers everything below its field.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, replace
from functools import reduce
from typing import Any

from trainwright.datatypes.fields import spelled
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import JOB_FIELDS, Job
from trainwright.datatypes.pointer import Pointer


class Effect(enum.StrEnum):
    """What happens to the run."""

    NEW_RUN = "new run"
    IN_PLACE = "in place"  # the same run, with that place of its manifest changed
    OPERATION = "operation"  # in place where the live object takes the edit, else held
    NEXT_RUN = "next run"  # the run stays as it is, and its next one has the edit
    NONE = "no effect"
    REFUSED = "refused"  # the field cannot be written there


@dataclass(frozen=True, slots=True)
class JobField:
    """A field of a job: its effect in the job's spec, and in a layer that jobs share.

    `name` is a key of the spec, or the path of one below another: "lattice.priority".
    """

    name: str
    own: Effect = Effect.NEW_RUN
    shared: Effect = Effect.NEXT_RUN
    note: str = ""


_NONE = (Effect.NONE, Effect.NONE)
_OF_THE_FILE = (
    JobField("apiVersion", *_NONE),
    JobField("kind", *_NONE),
    JobField("name", Effect.NEW_RUN, Effect.REFUSED, "It is that of the file: another job."),
    JobField("description", *_NONE),
    JobField(
        "extends", Effect.NEW_RUN, Effect.REFUSED, "Where what is inherited then means another run."
    ),
)
# Operational fields decide not what is trained, but when, for how long, and how people look it up.
_OPERATION = (
    JobField("queue", note="Kueue takes another one as long as the run waits in its queue."),
    JobField(
        "queuePriority",
        note="Kueue takes another one at any time; before 0.15 while the run waits.",
    ),
    JobField("priorityClass", note="Of pods, which keep the one that they were made with."),
    JobField("maxDuration", note="A lowered default ends nothing."),
    JobField("retries", note="Where there are some before and after."),
    JobField("gracePeriod", note="Of pods, which keep the one that they were made with."),
    JobField(
        "labels",
        note="Object and pods have the same: in place while suspended, else not.",
    ),
    JobField("annotations", note="Those of the object alone."),
    JobField("lattice.priority"),
)
# Exceptions: an edit of any other field begins a new run, or is held where the line is shared.
_UNLIKE_OTHERS = (
    *(JobField(row.name, Effect.OPERATION, Effect.NEXT_RUN, row.note) for row in _OPERATION),
    JobField("files", note="So does an edit of a file that is named there with `from`."),
    JobField("pool", note="By another name for the same nodes: no effect."),
    JobField("run", note="What `rerun` raises."),
    JobField(
        "state",
        Effect.IN_PLACE,
        Effect.IN_PLACE,
        "What was cancelled comes back by its spec only.",
    ),
    JobField("waivers", *_NONE),
)


def _job() -> Iterator[JobField]:
    unlike = {row.name: row for row in (*_OF_THE_FILE, *_UNLIKE_OTHERS)}
    for name in dict.fromkeys((*(row.name for row in _OF_THE_FILE), *JOB_FIELDS)):
        yield unlike.get(name, JobField(name))
        yield from (row for row in _UNLIKE_OTHERS if row.name.startswith(f"{name}."))


JOB = tuple(_job())


# What a file says about itself, or about its findings; none of it affects a run.
ABOUT_THE_FILE = frozenset(row.name for row in JOB if row.own is Effect.NONE) | {"name"}
STATE = "state"
OPERATION = {
    row.name: Pointer.of(*row.name.split(".")) for row in JOB if row.own is Effect.OPERATION
}


def operation(path: Pointer) -> str:
    """Return the operational field that a path is in, or "" if it decides what is trained."""
    return next((name for name, at in OPERATION.items() if path.within(at)), "")


def is_trained(path: Pointer) -> bool:
    """Return whether a path is in a field that decides what is trained."""
    return not path.within(f"/{STATE}") and not operation(path)


def operated(job: Job) -> dict[str, Any]:
    """Return the values of the fields of operation of a job, by name."""
    return {name: reduce(getattr, at, job) for name, at in _ATTRIBUTES.items()}


def with_operation(job: Job, values: Mapping[str, Any]) -> Job:
    """Return the job with other values of some operational fields."""
    changed: dict[str, Any] = {}
    for name, value in values.items():
        field, *below = _ATTRIBUTES[name]
        holder = changed.get(field, getattr(job, field))
        changed[field] = replace(holder, **{below[0]: value}) if below else value
    return replace(job, **changed)


_NAMES = {spelled(field.name): field.name for field in fields(Job)}
_ATTRIBUTES = {
    name: tuple(_NAMES.get(key, key) for key in at.parts) for name, at in OPERATION.items()
}


def _default(name: str) -> Any:
    at, *below = _ATTRIBUTES[name]
    made = next(field for field in fields(Job) if field.name == at)
    factory = made.default_factory
    default = made.default if factory is MISSING else factory()
    return reduce(getattr, below, default)


UNTOUCHED = {name: _default(name) for name in OPERATION}
# What has no part in a run's name: where its spec is, what that says of itself, and its state.
UNNAMED = frozenset(
    field.name
    for field in fields(Job)
    if field.metadata.get("unwritten") or spelled(field.name) in ABOUT_THE_FILE | {STATE}
)
