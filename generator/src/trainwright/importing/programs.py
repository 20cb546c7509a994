"""What the programs do that scripts start, by their names: the table programs.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.kinds.reading import Loss, NotImported, shown, table
from trainwright.objects.pods.command import is_python
from trainwright.objects.pods.launching import MPI


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


_PROGRAMS = table(__file__, "programs.yaml")


def _by_name(rows: Iterable[Mapping[str, Data]]) -> dict[str, Wrapper]:
    """Return the rows of a table by each of their names."""
    return {
        name: Wrapper(**{key: value for key, value in row.items() if key != "names"})
        for row in rows
        for name in row["names"].split()
    }


_WRAPPERS = _by_name(_PROGRAMS["wrappers"])
HARMLESS, OF_THE_IMAGE, CONTAINERS, STARTS_PROCESSES = (
    frozenset(_PROGRAMS[name].split())
    for name in ("harmless", "of_the_image", "containers", "starts_processes")
)
PREPARING = OF_THE_IMAGE.union(_PROGRAMS["prepares"].split())
LAUNCHERS = MPI.union(_PROGRAMS["launchers"].split())
RUNNERS = _by_name(_PROGRAMS["runners"])
_SET_UP = re.compile(r"\b(?:conda|mamba|micromamba|pyenv|pixi|spack|modulecmd)\b")
_SETS_UP_ENVIRONMENT = re.compile(
    r"activate|conda|mamba|modules?\.sh|lmod|profile|bashrc|setvars|spack|scl_source|venv|init"
)
_CHECKS = (["--version"], ["-V"], ["-m", "torch.utils.collect_env"], ["-m", "pip", "list"])
_PRINTS = re.compile(r"\bprint\(")
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


def program(words: Sequence[str]) -> str:
    """Return the name of the program that a command starts, without its folder."""
    return PurePosixPath(words[0]).name if words else ""


def sets_up(words: Sequence[str]) -> bool:
    """Whether a command makes the programs of a cluster available."""
    name = program(words)
    is_eval = name == "eval" and bool(_SET_UP.search(" ".join(words)))
    return is_eval or (name in OF_THE_IMAGE and not sourced(words))


def sourced(words: Sequence[str]) -> str:
    """Return the file that a script sources, or "" if there is none or it sets up programs."""
    if words[:1] not in (("source",), (".",), ["source"], ["."]) or len(words) < 2:
        return ""
    return "" if _SETS_UP_ENVIRONMENT.search(words[1].lower()) else words[1]


def is_check(words: Sequence[str]) -> bool:
    """Whether a Python command only prints information, such as versions."""
    if not words or not is_python(words[0]):
        return False
    rest = [word for word in words[1:] if word != "-u"]
    prints = rest[:1] == ["-c"] and len(rest) > 1 and _PRINTS.search(rest[1]) is not None
    return prints or any(rest[: len(check)] == check for check in _CHECKS)


_RAY = re.compile(r"\bray start\b")


def starts_ray(words: Sequence[str]) -> bool:
    """Whether a command starts a node of a Ray cluster."""
    return _RAY.search(" ".join(words)) is not None
