"""Positions in data: JSON pointers, and how people read and type them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

_MALFORMED = re.compile(r"~(?![01])")
# A key that reads as one step between dots. Anything else is quoted, as jq quotes it.
_BARE = re.compile(r"(?!/)[\w/@:+*~-]+")
# One step in brackets: what a shell leaves of ["a.b"] is ['a.b'] or [a.b].
_BRACKETS = re.compile(
    r"""\[(?:(?P<json>"(?:[^"\\]|\\.)*")|'(?P<single>[^']*)'|(?P<bare>[^]]*))\]"""
)


def _token(key: str) -> str:
    """A key as one reference token of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def _key(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~") if "~" in token else token


class Pointer(str):
    """An RFC 6901 JSON pointer: "" is the whole, "/a~1b" what is under the key "a/b".

    It is the text itself, so that it can be looked up among the positions of a document. Keys are
    escaped here alone: `Pointer.of("labels", key)`, or `Pointer.of("labels") / key`.
    https://www.rfc-editor.org/rfc/rfc6901
    """

    __slots__ = ()

    @classmethod
    def of(cls, *keys: str | int) -> Pointer:
        """The pointer that goes through these keys and indexes."""
        return cls("".join(f"/{_token(str(key))}" for key in keys))

    @classmethod
    def parse(cls, text: str) -> Pointer:
        """A pointer from its text; ValueError when the text is not one."""
        if (text and not text.startswith("/")) or _MALFORMED.search(text):
            raise ValueError(f"{text!r} is not a JSON pointer")
        return cls(text)

    def __truediv__(self, key: str | int) -> Pointer:
        return Pointer(f"{self}/{_token(str(key))}")

    @property
    def parts(self) -> tuple[str, ...]:
        """The keys and indexes on the way, as they are in the data."""
        return tuple(map(_key, self.split("/")[1:]))

    @property
    def parent(self) -> Pointer:
        """The pointer to the container that has the last key; the root is its own parent."""
        return Pointer(self.rpartition("/")[0])

    @property
    def last(self) -> str:
        """The last key, "" of the whole."""
        return _key(self.rpartition("/")[2])

    def within(self, above: str) -> bool:
        """Whether this is another pointer or below it."""
        return self == above or self.startswith(f"{above}/")

    def matches(self, pattern: str) -> bool:
        """Whether a pattern is of it: `*` is any part of a key, `**` any number of keys."""
        return _pattern(pattern).fullmatch(self) is not None

    @property
    def dotted(self) -> str:
        """As people read it: image.tag, labels["example.com/team"]."""
        return "".join(_spelled(self.parts))


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    """A pattern of pointers as a regular expression."""
    regex = re.escape(text).replace(r"\*\*/", "(?:.*/)?").replace(r"/\*\*", "(?:/.*)?")
    return re.compile(regex.replace(r"\*", "[^/]*"), re.DOTALL)


def _spelled(keys: tuple[str, ...]) -> Iterator[str]:
    for index, key in enumerate(keys):
        if _BARE.fullmatch(key):
            yield f".{key}" if index else key
        else:
            yield f"[{_quoted(key)}]"


def _quoted(key: str) -> str:
    text = json.dumps(key, ensure_ascii=False)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


class Step(NamedTuple):
    """A part of a path as it was typed; one that is not `exact` may be part of a key with dots."""

    text: str
    exact: bool = False


def typed(path: str) -> Iterator[tuple[Step, ...]]:
    """Yield the ways to read a path that people type, first as `Pointer.dotted` writes it.

    Only the data tells which keys the steps are: a.b.c may be three keys, or two.
    """
    if path.startswith("/") and not _MALFORMED.search(path):
        yield tuple(Step(key, exact=True) for key in Pointer(path).parts)
    if "[" in path:
        steps = _bracketed(path)
        if steps is not None:
            yield steps
    yield tuple(Step(part) for part in path.split("."))


def _bracketed(path: str) -> tuple[Step, ...] | None:
    """Return the steps of a path with brackets, or None if a bracket is not closed."""
    steps: list[Step] = []
    at = 0
    while at < len(path):
        if path[at] == "[":
            match = _BRACKETS.match(path, at)
            key = _in_brackets(match) if match else None
            if match is None or key is None:
                return None
            steps.append(Step(key, exact=True))
            at = match.end()
        else:
            start = at + (at > 0 and path[at] == ".")
            at = path.find("[", start) if "[" in path[start:] else len(path)
            steps.extend(Step(part) for part in path[start:at].split("."))
    return tuple(steps)


def _in_brackets(match: re.Match[str]) -> str | None:
    if match["json"] is None:
        return str(match["bare"] if match["single"] is None else match["single"])
    try:
        return str(json.loads(match["json"]))
    except ValueError:
        return None


# --- values at pointers --------------------------------------------------------------------------


def lookup(data: Any, pointer: str) -> Any:
    """The value under a JSON pointer, or None."""
    for key in Pointer(pointer).parts:
        if isinstance(data, (dict, Mapping)):  # nearly all are dicts, the faster check
            data = data.get(key)
        elif (index := _index(data, key)) is not None:
            data = data[index]
        else:
            return None
    return data


_INDEX = re.compile("0|[1-9][0-9]{0,8}")


def _index(data: Any, key: str) -> int | None:
    """Return the index of the item that a key stands for, or None if it stands for none."""
    if isinstance(data, list) and _INDEX.fullmatch(key) and int(key) < len(data):
        return int(key)
    return None


_ROOT = Pointer()


def leaves(data: Any, pointer: Pointer = _ROOT) -> Iterator[tuple[Pointer, Any]]:
    """Every scalar, list and empty mapping of merged data with its pointer, in order."""
    if data and isinstance(data, (dict, Mapping)):  # nearly all are dicts, the faster check
        for key, value in data.items():
            yield from leaves(value, pointer / key)
    else:
        yield pointer, data


def scalars(data: Any, pointer: Pointer = _ROOT) -> Iterator[tuple[Pointer, Any]]:
    """Every scalar and every empty collection with its pointer, lists item by item."""
    if isinstance(data, Mapping) and data:
        for key, item in data.items():
            yield from scalars(item, pointer / str(key))
    elif isinstance(data, list) and data:
        for index, item in enumerate(data):
            yield from scalars(item, pointer / index)
    else:
        yield pointer, data


def holders(data: Any, pointer: Pointer = _ROOT) -> Iterator[tuple[Pointer, Mapping[str, Any]]]:
    """Yield every mapping in data with its pointer, each before those inside of it."""
    if isinstance(data, Mapping):
        yield pointer, data
        for key, item in data.items():
            yield from holders(item, pointer / str(key))
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from holders(item, pointer / index)


def mapped(data: Any, change: Callable[[Any], Any]) -> Any:
    """Return the same data with each scalar changed."""
    if isinstance(data, Mapping):
        return {key: mapped(item, change) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(mapped(item, change) for item in data)
    return change(data)


def without(data: Any, is_left_out: Callable[[str, Any], bool]) -> Any:
    """Return the same data without some entries of its mappings, by their keys and values."""
    if isinstance(data, Mapping):
        return {
            key: without(item, is_left_out)
            for key, item in data.items()
            if not is_left_out(key, item)
        }
    return [without(item, is_left_out) for item in data] if isinstance(data, list) else data


def matching(data: Any, pattern: str) -> list[tuple[Pointer, Any]]:
    """Return every value that is at a pattern, with its pointer: `*` is any key or index."""
    found = [(_ROOT, data)]
    for key in Pointer(pattern).parts:
        found = [(at / name, item) for at, value in found for name, item in entries(value, key)]
    return found


def entries(value: Any, key: str) -> Iterable[tuple[str | int, Any]]:
    """Return the entries of a mapping or a list under a key, or all of them for `*`."""
    if isinstance(value, Mapping):
        return value.items() if key == "*" else [(key, value[key])] if key in value else ()
    return enumerate(value) if key == "*" and isinstance(value, list) else ()


def with_value(data: Any, pointer: Pointer, value: Any) -> Any:
    """The same data with another value at a pointer; mappings on the way there are added, and an
    item to a list by the index behind its last.
    """
    return _changed(data, pointer.parts, value)


def without_value(data: Any, pointer: Pointer, *, prune: bool = False) -> Any:
    """The same data without the value at a pointer, if there is one. With `prune` also without the
    mappings that this leaves empty: one that was empty before stays.
    """
    return _changed(data, pointer.parts, _GONE, prune=prune)


_GONE = object()


def _changed(data: Any, keys: Sequence[str], value: Any, *, prune: bool = False) -> Any:
    """Return the data with one value changed or removed, copying only the containers above it."""
    if not keys:
        return value
    key, *rest = keys
    index = _index(data, key)
    mapping = data if isinstance(data, Mapping) else {}
    if value is _GONE and index is None and key not in mapping:
        return data
    if isinstance(data, list) and key == str(len(data)):
        return [*data, _changed(None, rest, value)]
    copied: Any = dict(mapping) if index is None else list(data)
    at: Any = key if index is None else index
    before = mapping.get(key) if index is None else data[index]
    inner = _changed(before, rest, value, prune=prune)
    if inner is _GONE or (prune and inner == {} and inner is not before):
        del copied[at]
    else:
        copied[at] = inner
    return copied
