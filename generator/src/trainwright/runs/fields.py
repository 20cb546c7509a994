"""What an edit of a field does to the run that there is: a row for every field people can write.

docs/fields.md is this table. A row stands for all that is below its field.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from trainwright.frozen import dataclass
from trainwright.kinds import TARGETS
from trainwright.kinds.target import POOL
from trainwright.model import JOB_FIELDS

ANY = "*"  # in a path: whatever name people gave it


class Effect(enum.StrEnum):
    """What becomes of the run."""

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


@dataclass(frozen=True, slots=True)
class EnvironmentField:
    """A field of environment.yaml. Nothing that is written there starts a run by itself."""

    path: tuple[str, ...]
    effect: Effect = Effect.NONE
    note: str = ""

    def covers(self, path: tuple[str, ...]) -> bool:
        """Whether the row is that of a field, or of one around it."""
        return len(self.path) <= len(path) and all(
            mine in (ANY, theirs) for mine, theirs in zip(self.path, path, strict=False)
        )


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


def _facts() -> Iterator[EnvironmentField]:
    """What the kinds render of an environment, each in a row."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for target in TARGETS.values():
        for fact in target.facts:
            kinds.setdefault(fact.path, []).append(f"`{target.name}`")
    for path, names in kinds.items():
        written = tuple(ANY if key == POOL else key for key in path)
        yield EnvironmentField(written, Effect.HELD, f"In the names of {', '.join(names)}.")


_ELSEWHERE = "In no name: only where the object is."
_APPLYING = "In no name: who applies the run, and how."
_CHART = "In no name. With `mode: chart` a run keeps the chart that it began with."
_CHECKED = "Decides findings, about a job's next run."
_PLANNED = "Decides a plan's cost and capacity."

ENVIRONMENT = (
    *_facts(),
    EnvironmentField(("namespace",), Effect.HELD, _ELSEWHERE),
    EnvironmentField(("gitops", "engine"), Effect.HELD, _APPLYING),
    EnvironmentField(("gitops", "mode"), Effect.HELD, _APPLYING),
    EnvironmentField(("gitops", "prune"), Effect.HELD, _APPLYING),
    *(
        EnvironmentField(("gitops", "chart", key), Effect.HELD, _CHART)
        for key in ("oci", "version", "path", "url", "revision")
    ),
    EnvironmentField(("gitops", "chart", "secret")),
    *(
        EnvironmentField(("gitops", key), note="The engine's own objects, which `wire` writes.")
        for key in (
            "name",
            "namespace",
            "repository",
            "destination",
            "applications",
            "project",
            "serviceAccount",
            "notifications",
        )
    ),
    EnvironmentField(("apiVersion",)),
    EnvironmentField(("kind",)),
    EnvironmentField(("description",)),
    EnvironmentField(("kubernetes", "version"), note=_CHECKED),
    EnvironmentField(("kubernetes", "context"), note="Where `status` and others look."),
    EnvironmentField(("targets", ANY, "version"), note=f"Of a kind not named above. {_CHECKED}"),
    EnvironmentField(("targets", ANY, "restrictedInitContainer"), note=_CHECKED),
    EnvironmentField(("images", "requireDigest"), note=_CHECKED),
    EnvironmentField(("images", "registries"), note=_CHECKED),
    EnvironmentField(("pools", ANY, "description")),
    EnvironmentField(("pools", ANY, "gpusPerNode"), note=_CHECKED),
    EnvironmentField(("pools", ANY, "node"), note=_CHECKED),
    EnvironmentField(("pools", ANY, "capacity"), note=_PLANNED),
    EnvironmentField(("pools", ANY, "pricePerGpuHour"), note=_PLANNED),
    EnvironmentField(("pools", ANY, "spot"), note=_CHECKED),
    EnvironmentField(
        ("pools", ANY, "fabric"),
        Effect.HELD,
        "A shared layer of the pool's jobs, below the pool's defaults.",
    ),
    EnvironmentField(
        ("pools", ANY, "defaults"),
        Effect.HELD,
        "A shared layer of the pool's jobs: as *shared* above.",
    ),
    EnvironmentField(("kueue", "version"), note=_CHECKED),
    EnvironmentField(("queues",), note=_PLANNED),
    EnvironmentField(("secrets",), note=_CHECKED),
    EnvironmentField(
        ("sharedChanges",),
        note="With `start`, what is held starts new runs, but for `gitops` and `maxDuration`.",
    ),
    EnvironmentField(("allow",), note=_CHECKED),
    EnvironmentField(("budget",), note=_PLANNED),
    EnvironmentField(("severities",), note=_CHECKED),
    EnvironmentField(("waivers",), note=_CHECKED),
)


# What a file says about itself, or about its findings: nothing of it reaches a run.
ABOUT_THE_FILE = frozenset(row.name for row in JOB if row.own is Effect.NONE) | {"name"}
IN_PLACE = frozenset(row.name for row in JOB if row.own is Effect.IN_PLACE)
