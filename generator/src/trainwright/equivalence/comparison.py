"""Two normal forms side by side, value by value."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import is_dataclass, replace

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.model import Data
from trainwright.datatypes.pointer import Pointer
from trainwright.equivalence.form import NormalForm
from trainwright.findings.credentials import HIDDEN, kind, named, redact

_POD = re.compile(r"^(/roles/[^/]+)?/pods/\d+/")  # of those that train, or of a role


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One value that differs. `path` has `*` for the number of a pod where it is so in each.

    None stands for a value that is absent.
    """

    path: Pointer
    left: Data
    right: Data

    def __str__(self) -> str:
        left, right = self.shown
        return f"{self.path.dotted}: {left} became {right}"

    @property
    def shown(self) -> tuple[str, str]:
        """Both values in words, without credentials."""
        return _shown(self.path, self.left), _shown(self.path, self.right)


def _shown(path: Pointer, value: Data) -> str:
    if value is None:
        return "nothing"
    text = str(value)
    if kind(text) or named(path.last, text):
        return HIDDEN
    return redact(text) or '""'


def differences(
    left: NormalForm, right: NormalForm, without: frozenset[Pointer] = frozenset()
) -> tuple[Difference, ...]:
    """Where two runs differ, sorted by path; empty when they are the same training.

    Paths in `without` are left out, by the numbers of their pods.
    """
    before, after = values(left), values(right)
    found = [
        Difference(path, before.get(path), after.get(path))
        for path in sorted((before.keys() | after.keys()) - without)
        if before.get(path) != after.get(path)
    ]
    return tuple(_together(found, before.keys() | after.keys()))


def _together(found: list[Difference], known: Collection[Pointer]) -> Iterator[Difference]:
    """What differs alike in all pods of a group is said once; `known` are all paths of a form."""
    matches = filter(None, map(_POD.match, known))
    pods = Counter(group for _, group in {(match[0], match[1]) for match in matches})
    alike = Counter(replace(one, path=in_every_pod(one.path)) for one in found)
    reported = set()
    for difference in found:
        everywhere = replace(difference, path=in_every_pod(difference.path))
        match = _POD.match(difference.path)
        if match and pods[match[1]] == alike[everywhere] > 1:
            if everywhere not in reported:
                reported.add(everywhere)
                yield everywhere
        else:
            yield difference


def in_every_pod(path: Pointer) -> Pointer:
    """A position in a pod as one in any of them."""
    return Pointer(_POD.sub(r"\1/pods/*/", path, count=1))


def _canonical(annotation: str) -> str:
    """An annotation as it is; of one that holds JSON, what it says and not how it is laid out."""
    if not annotation.startswith(("[", "{")):
        return annotation
    try:
        return json.dumps(json.loads(annotation), sort_keys=True)
    except ValueError:
        return annotation


def values(run: NormalForm) -> dict[Pointer, Data]:
    """Every scalar of a normal form by its position; what is empty is not there."""
    return _taken(run, Pointer())


def _take(found: dict[Pointer, Data], value: Data, path: Pointer) -> None:
    """Add the scalars of a value: an import does it some hundred times."""
    if isinstance(value, str | int | float):
        if value is not False and value != "":
            found[path] = value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _take(found, item, path / index)
    elif isinstance(value, Mapping):
        _take_items(found, value, path)
    elif is_dataclass(value):
        for name in value.__dataclass_fields__:
            _take(found, getattr(value, name), path / name)
    elif value is not None:
        found[path] = value


def changed(before: NormalForm, after: NormalForm) -> list[Pointer]:
    """The positions at which `values` of two forms differ, in order."""
    return sorted(_changed(before, after, Pointer()))


def _changed(before: Data, after: Data, path: Pointer) -> Iterator[Pointer]:
    """Where two values differ. What is equal is not walked through: nearly all, in an import."""
    if before == after:
        return
    alike = type(before) is type(after)
    if alike and is_dataclass(before):
        for name in before.__dataclass_fields__:
            yield from _changed(getattr(before, name), getattr(after, name), path / name)
    elif alike and isinstance(before, tuple) and len(before) == len(after):
        for index, (was, now) in enumerate(zip(before, after, strict=True)):
            yield from _changed(was, now, path / index)
    elif alike and isinstance(before, dict) and before and after:
        for key in before.keys() | after.keys():
            was, now = before.get(key, _ABSENT), after.get(key, _ABSENT)
            if isinstance(was, dict) and was and isinstance(now, dict) and now:
                yield from _changed(was, now, path / str(key))
            elif was != now:
                yield from _unlike(_item(key, was, path), _item(key, now, path))
    else:
        yield from _unlike(*(_taken(form, path) for form in (before, after)))


_ABSENT = object()


def _item(key: Data, value: Data, path: Pointer) -> dict[Pointer, Data]:
    found: dict[Pointer, Data] = {}
    if value is not _ABSENT:
        _take_items(found, {key: value}, path)
    return found


def _taken(value: Data, path: Pointer) -> dict[Pointer, Data]:
    found: dict[Pointer, Data] = {}
    _take(found, value, path)
    return found


def _unlike(before: Mapping[Pointer, Data], after: Mapping[Pointer, Data]) -> Iterator[Pointer]:
    return (path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _take_items(found: dict[Pointer, Data], value: Mapping[str, Data], path: Pointer) -> None:
    annotations = path.endswith("/annotations")
    for key, written in value.items():
        item = _canonical(written) if annotations and isinstance(written, str) else written
        # An empty mapping says something where a key is what counts: `emptyDir: {}`, a flag.
        if item in ({}, ()):
            found[path / str(key)] = True
        else:
            _take(found, item, path / str(key))
