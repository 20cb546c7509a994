"""What an edit of a field of a job does to its run: a row for every field people can write.

docs/fields.md is this table. A row stands for all that is below its field.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.model import JOB_FIELDS


class Effect(enum.StrEnum):
    """What happens to the run."""

    NEW_RUN = "new run"
    IN_PLACE = "in place"  # the same run, with that place of its manifest changed
    HELD = "held"  # the run stays as it is, and its next one takes the edit up
    NONE = "no effect"
    REFUSED = "refused"  # the field cannot be written there


@dataclass(frozen=True, slots=True)
class JobField:
    """A field of a job: its effect in the job's own file, and in a layer that jobs share."""

    name: str
    own: Effect = Effect.NEW_RUN
    shared: Effect = Effect.HELD
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
# What an edit of any other field does not do: begin a new run, and hold where the line is shared.
_UNLIKE_OTHERS = (
    JobField("files", note="So does an edit of a file that is named there with `from`."),
    JobField("pool", note="By another name for the same nodes: no effect."),
    JobField(
        "maxDuration",
        Effect.IN_PLACE,
        Effect.HELD,
        "Where the API takes another one: see [edits](edits.md). A lowered default ends nothing.",
    ),
    JobField("run", note="What `rerun` raises."),
    JobField(
        "state",
        Effect.IN_PLACE,
        Effect.IN_PLACE,
        "What was cancelled comes back by its own file only.",
    ),
    JobField("waivers", *_NONE),
)


def _job() -> Iterator[JobField]:
    unlike = {row.name: row for row in (*_OF_THE_FILE, *_UNLIKE_OTHERS)}
    for name in dict.fromkeys((*(row.name for row in _OF_THE_FILE), *JOB_FIELDS)):
        yield unlike.get(name, JobField(name))


JOB = tuple(_job())


# What a file says about itself, or about its findings: nothing of it reaches a run.
ABOUT_THE_FILE = frozenset(row.name for row in JOB if row.own is Effect.NONE) | {"name"}
IN_PLACE = frozenset(row.name for row in JOB if row.own is Effect.IN_PLACE)
