"""What an edit of a field of an environment does to the runs in it: a row for every field.

docs/fields.md is this table. A row stands for all that is below its field.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.frozen import dataclass
from trainwright.kinds import TARGETS
from trainwright.kinds.target import POOL
from trainwright.runs.fields import Effect

ANY = "*"  # in a path: whatever name people gave it


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


def _facts() -> Iterator[EnvironmentField]:
    """What the kinds render of an environment, each in a row."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for target in TARGETS.values():
        for fact in target.facts:
            kinds.setdefault(fact.path, []).append(f"`{target.name}`")
    for path, names in kinds.items():
        written = tuple(ANY if key == POOL else key for key in path)
        yield EnvironmentField(written, Effect.NEXT_RUN, f"In the names of {', '.join(names)}.")


_ELSEWHERE = "In no name: only where the object is."
_APPLYING = "In no name: who applies the run, and how."
_CHART = "In no name. With `mode: chart` a run keeps the chart that it began with."
_CHECKED = "Decides findings, about a job's next run."
_PLANNED = "Decides a plan's cost and capacity."

ENVIRONMENT = (
    *_facts(),
    EnvironmentField(("namespace",), Effect.NEXT_RUN, _ELSEWHERE),
    EnvironmentField(("gitops", "engine"), Effect.NEXT_RUN, _APPLYING),
    EnvironmentField(("gitops", "mode"), Effect.NEXT_RUN, _APPLYING),
    EnvironmentField(("gitops", "prune"), Effect.NEXT_RUN, _APPLYING),
    *(
        EnvironmentField(("gitops", "chart", key), Effect.NEXT_RUN, _CHART)
        for key in ("oci", "version", "path", "url", "revision")
    ),
    EnvironmentField(("gitops", "chart", "secret")),
    EnvironmentField(("gitops", "chart", "verify")),
    *(
        EnvironmentField(("gitops", key), note="The engine's own objects, which `wire` writes.")
        for key in (
            "version",
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
    EnvironmentField(("kubernetes", "features"), note=_CHECKED),
    EnvironmentField(("kubernetes", "context"), note="Where `status` and others look."),
    EnvironmentField(("targets", ANY, "version"), note=f"Of a kind not named above. {_CHECKED}"),
    EnvironmentField(("targets", ANY, "featureGates"), note=_CHECKED),
    EnvironmentField(("targets", ANY, "restrictedInitContainer"), note=_CHECKED),
    EnvironmentField(("images", "requireDigest"), note=_CHECKED),
    EnvironmentField(("images", "registries"), note=_CHECKED),
    EnvironmentField(("pools", ANY, "description")),
    EnvironmentField(("pools", ANY, "gpusPerNode"), note=_CHECKED),
    EnvironmentField(("pools", ANY, "node"), note=_CHECKED),
    EnvironmentField(("pools", ANY, "capacity"), note=_PLANNED),
    EnvironmentField(("pools", ANY, "pricePerGpuHour"), note=_PLANNED),
    EnvironmentField(("currency",), note="What a plan writes costs in."),
    EnvironmentField(("pools", ANY, "spot"), note=_CHECKED),
    EnvironmentField(
        ("pools", ANY, "fabric"),
        Effect.NEXT_RUN,
        "A shared layer of the pool's jobs, below the pool's defaults.",
    ),
    EnvironmentField(
        ("pools", ANY, "defaults"),
        Effect.NEXT_RUN,
        "A shared layer of the pool's jobs: as *shared* above.",
    ),
    EnvironmentField(("kueue",), note=_CHECKED),
    EnvironmentField(("queues",), note=_PLANNED),
    EnvironmentField(("secrets",), note=_CHECKED),
    EnvironmentField(
        ("sharedChanges",),
        note="With `start`, what waits for a run begins one, but for `gitops` and `maxDuration`.",
    ),
    EnvironmentField(("allow",), note=_CHECKED),
    EnvironmentField(("budget",), note=_PLANNED),
    EnvironmentField(("severities",), note=_CHECKED),
    EnvironmentField(("waivers",), note=_CHECKED),
)
