"""The table upstream.yaml: what other projects do, since which version, and the source for it.

Rules, refusals and predictions take all versions, feature gates and sources from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.documents.yamlio import load_rendered

TABLE = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Something that another project does. `text`, in a line of `path` at `tag`, is the proof.

    `since` is empty if it was always so, `until` if it still is, and `on_since` if its gate is
    off by default. `value` is for the rules that depend on it.
    """

    name: str
    project: str
    repository: str
    tag: str
    summary: str
    path: str
    text: str
    kinds: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    gate: str = ""
    on_since: str = ""
    value: Data = None

    @property
    def source(self) -> str:
        return f"{self.repository}@{self.tag}:{self.path}"

    def holds(self, version: str) -> bool:
        """Whether a version of the project does it; False where the version is not given."""
        number = numbers(version)
        late = bool(self.until) and number >= numbers(self.until)
        return bool(number) and number >= numbers(self.since) and not late

    def is_on(self, version: str, gates: Mapping[str, bool]) -> bool:
        """Whether a version does it with these feature gates; others have their defaults."""
        return self.holds(version) and gates.get(self.gate, self.is_on_by_default(version))

    def is_on_by_default(self, version: str) -> bool:
        """Whether a version does it if its feature gate is not set."""
        on = bool(self.on_since) and numbers(version) >= numbers(self.on_since)
        return not self.gate or on


@cache
def numbers(version: str) -> tuple[int, ...]:
    """Return the major and minor number of a version, for comparison; () if there is no version."""
    return tuple(int(part) for part in version.removeprefix("v").split(".")[:2] if part.isdigit())


@cache
def table() -> Mapping[str, Behaviour]:
    """Every behaviour by the names of its project and itself: kueue/labels."""
    (projects,) = load_rendered(TABLE.read_text("utf-8"))
    return {
        f"{key}/{name}": _behaviour(f"{key}/{name}", project, row)
        for key, project in projects.items()
        for name, row in project["behaviours"].items()
    }


def _behaviour(name: str, project: Mapping[str, Data], row: Mapping[str, Data]) -> Behaviour:
    """Return a row of the table, with what it has of its project."""
    others = {key: row[key] for key in ("since", "until", "gate", "value") if key in row}
    return Behaviour(
        name=name,
        project=project["title"],
        repository=project["repository"],
        tag=row.get("tag", project["tag"]),
        summary=row["summary"],
        path=row["path"],
        text=row["text"],
        kinds=tuple(row.get("kinds", ())),
        on_since=row.get("onSince", ""),
        **others,
    )


def upstream(name: str) -> Behaviour:
    return table()[name]
