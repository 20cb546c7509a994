"""Programs in front of another one that they start, such as `sudo`, `time` and `nohup`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.kinds.reading import Loss, NotImported, shown

_WATCHED = "it decides how the run is watched, not what runs"
_OF_NODES = "which CPUs and memory of a node a container has is the kubelet's decision"
_USER = "the user of the image runs it, unless security.runAsUser is another"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wrapper:
    """How one is read: its options that take a value, and how many words there are before the
    program. `why` it is left, or "" for one that changes nothing.
    """

    why: str = ""
    severity: Loss = Loss.COSMETIC
    valued: frozenset[str] = frozenset()
    operands: int = 0


def _wrapper(why: str, severity: Loss, valued: str = "", operands: int = 0) -> _Wrapper:
    return _Wrapper(why=why, severity=severity, valued=frozenset(valued.split()), operands=operands)


_WRAPPERS: Mapping[str, _Wrapper] = {
    **dict.fromkeys(("exec", "command", "builtin"), _Wrapper()),
    "env": _wrapper("", Loss.COSMETIC, "-u -C --unset --chdir"),
    **dict.fromkeys(("nohup", "setsid", "unbuffer"), _wrapper(_WATCHED, Loss.COSMETIC)),
    "time": _wrapper(_WATCHED, Loss.COSMETIC, "-f -o"),
    "stdbuf": _wrapper(_WATCHED, Loss.COSMETIC, "-i -o -e"),
    "sudo": _wrapper(_USER, Loss.BEHAVIOUR, "-u -g -h -p -C -D -R -T -U --user --group"),
    "timeout": _wrapper("use maxDuration", Loss.BEHAVIOUR, "-k -s --kill-after --signal", 1),
    "nice": _wrapper(_OF_NODES, Loss.BEHAVIOUR, "-n --adjustment"),
    "ionice": _wrapper(_OF_NODES, Loss.BEHAVIOUR, "-c -n --class --classdata"),
    "taskset": _wrapper(_OF_NODES, Loss.BEHAVIOUR, operands=1),
    "numactl": _wrapper(
        _OF_NODES,
        Loss.BEHAVIOUR,
        "-N -m -C -i -p --cpunodebind --membind --physcpubind --interleave --preferred",
    ),
}
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
                yield NotImported(name, place, value, wrapper.why, wrapper.severity)


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
        start, at = at, _behind(words, at + 1, _WRAPPERS[name])
        before.append((name, *words[start + 1 : at]))
    return Unwrapped(words=words[at:], variables=variables, before=tuple(before))


def _behind(words: tuple[str, ...], at: int, wrapper: _Wrapper) -> int:
    """Return the index behind the options and operands of a wrapper."""
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in wrapper.valued else 1
    return min(at + wrapper.operands, len(words))
