"""Programs in front of another one that they start, such as `sudo`, `time` and `nohup`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.kinds.reading import Loss, NotImported, shown, table


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """How a program of programs.yaml is read: its options that take a `value`, and how many words
    there are before what it starts. `why` it is left, or "" for one that changes nothing.
    """

    why: str = ""
    loss: str = Loss.BEHAVIOUR
    value: str = ""
    operands: int = 0

    def behind(self, words: tuple[str, ...], at: int) -> int:
        """Return the index behind the options and operands that begin at one."""
        while at < len(words) and words[at].startswith("-"):
            at += 2 if words[at] in self.value.split() else 1
        return min(at + self.operands, len(words))


PROGRAMS = table(__file__, "programs.yaml")


def by_name(rows: Iterable[Mapping[str, Data]]) -> dict[str, Wrapper]:
    """Return the rows of a table by each of their names."""
    return {
        name: Wrapper(**{key: value for key, value in row.items() if key != "names"})
        for row in rows
        for name in row["names"].split()
    }


_WRAPPERS = by_name(PROGRAMS["wrappers"])
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwrapped:
    """A command without what stands in front of its program, which is in `before`: the name of
    each wrapper with its words. `variables` are those that it is given there.
    """

    words: tuple[str, ...]
    variables: Mapping[str, str]
    before: tuple[tuple[str, ...], ...]

    def left(self, place: Location) -> Iterator[NotImported]:
        """Yield the wrappers without which the run is another one, or is watched otherwise."""
        for name, *rest in self.before:
            wrapper = _WRAPPERS[name]
            if wrapper.why:
                value = shown("", " ".join(rest))
                yield NotImported(name, place, value, wrapper.why, Loss(wrapper.loss))


def unwrapped(words: tuple[str, ...]) -> Unwrapped:
    """Return what a command starts in the end, as far as the wrappers are known."""
    variables: dict[str, str] = {}
    before: list[tuple[str, ...]] = []
    at = 0
    while at < len(words):
        if assigned := _ASSIGNED.fullmatch(words[at]):
            variables[assigned[1]] = assigned[2]
            at += 1
            continue
        name = PurePosixPath(words[at]).name
        if name not in _WRAPPERS:
            break
        start, at = at, _WRAPPERS[name].behind(words, at + 1)
        before.append((name, *words[start + 1 : at]))
    return Unwrapped(words=words[at:], variables=variables, before=tuple(before))
