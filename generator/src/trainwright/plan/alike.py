"""Jobs of an environment that change in the same way for the same reason, shown as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.listing import listed
from trainwright.plan import words
from trainwright.plan.model import JobChange, worst_first
from trainwright.specs.demand import Demand, total


@dataclass(frozen=True, slots=True)
class Alike:
    """Changes that differ in the names of their jobs and objects alone."""

    changes: tuple[JobChange, ...]

    @property
    def first(self) -> JobChange:
        return self.changes[0]

    @property
    def name(self) -> str:
        """The first job, and how many more there are."""
        return listed([str(change.file) for change in self.changes], 1)

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(str(change.file) for change in self.changes[1:])

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands for the other jobs, where theirs are not those of the first job."""
        shown = dict.fromkeys(_quoted(self.first.why))
        quoted = (command for change in self.changes[1:] for command in _quoted(change.why))
        return _together(command for command in quoted if command not in shown)

    @property
    def asked(self) -> Demand:
        return total(change.asked for change in self.changes)


def alike(changes: Sequence[JobChange]) -> tuple[Alike, ...]:
    """Return the changes, grouped with those that differ in names alone, the worst first."""
    by_effect: dict[object, list[JobChange]] = {}
    for change in changes:
        by_effect.setdefault(_what(change), []).append(change)
    groups = (group for same in by_effect.values() for group in _split(same))
    return tuple(Alike(tuple(group)) for group in sorted(groups, key=worst_first))


def _quoted(why: str) -> Sequence[str]:
    return why.split("`")[1::2]


def _together(commands: Iterable[str]) -> tuple[str, ...]:
    """Return commands, each once; those of kubectl that differ in their objects alone are one."""
    objects: dict[str, list[str]] = {}
    for command in dict.fromkeys(commands):
        verb, delete, names = command.partition(" delete ")
        key = verb + delete.rstrip() if command.startswith("kubectl ") else command
        objects.setdefault(key, []).extend([names] if delete and key != command else [])
    return tuple(" ".join((key, *names)) for key, names in objects.items())


def _split(changes: Sequence[JobChange]) -> Iterator[list[JobChange]]:
    """Split several changes by what their runs execute, too, which takes reading manifests."""
    if len(changes) == 1:
        yield list(changes)
        return
    by_effect: dict[object, list[JobChange]] = {}
    for change in changes:
        started = ((what, item) for what, items in words.started(change) for item in items)
        unnamed = tuple((what, _unnamed(item, change)) for what, item in started)
        by_effect.setdefault((words.image(change), unnamed), []).append(change)
    yield from by_effect.values()


def _what(change: JobChange) -> object:
    """Return all that is said of a change, without the names in it, to compare it by."""
    causes = tuple(
        (cause.path, repr(cause.before), repr(cause.after), cause.note) for cause in change.causes
    )
    why = _unnamed(change.why, change)
    return (change.file.environment, change.action, why, causes, change.asked, change.unrendered)


def _unnamed(text: str, change: JobChange) -> str:
    """Return the text with the names of the job and its runs masked where they are whole words."""
    names = (run.object for run in (change.before, change.after) if run and run.object)
    for name in (*names, change.file.name):
        text = _word(name).sub("…", text) if name in text else text
    return text


@lru_cache
def _word(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])")
