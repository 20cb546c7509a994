"""Two normal forms side by side, value by value."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass

from trainwright.datatypes.data import Data
from trainwright.datatypes.fields import spelled
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.same import Difference
from trainwright.importing.equivalence.form import NormalForm
from trainwright.kinds.reading import shown

_MOST = 200  # characters of a value in words
_POD = re.compile(r"^(/roles/[^/]+)?/pods/\d+/")  # of those that train, or of a role


def sentence(difference: Difference) -> str:
    """Return a difference in words; None is a value that is absent."""
    before, after = in_words(difference)
    place = " of ".join((_field(difference.path), *holders(difference.path)))
    return f"{place}: {before} → {after}"


def holders(path: Pointer) -> tuple[str, ...]:
    """Return whose value is at a path, from within: "init container 0", "pod 1", "role loader"."""
    found, parts = list[str](), path.parts
    if role := parts[:1] == ("roles",):
        found, parts = [f"role {parts[1]}"], parts[2:]
    if parts[:1] == ("pods",):
        number = "every pod" if parts[1] == "*" else f"pod {parts[1]}"
        found = [*((number,) if not role or parts[1] != "*" else ()), *found]
        if parts[2:3] and len(parts) > _INSIDE and parts[2] in _CONTAINERS:
            found = [f"{_CONTAINERS[parts[2]]} {parts[3]}", *found]
    return tuple(found)


def _field(path: Pointer) -> str:
    """Return the field at a path, without whose it is, in the spelling of a spec."""
    parts = path.parts[2:] if path.parts[0] == "roles" else path.parts
    if parts[:1] == ("pods",):
        inside = parts[2:3] and len(parts) > _INSIDE and parts[2] in _CONTAINERS
        parts = parts[4:] if inside else parts[2:]
    parts = parts[_UNNAMED.get(parts[:2], _UNNAMED.get(parts[:1], 0)) :]
    return Pointer.of(spelled(parts[0]), *parts[1:]).dotted


_INSIDE = 4  # parts of the path of a container
_CONTAINERS = {"init": "init container", "sidecars": "sidecar"}
# How many parts in front of a field are names of the normal form alone.
_UNNAMED = {("rest", "pod"): 2, ("rest", "container"): 2, ("program",): 1, ("placement",): 1}


def in_words(difference: Difference) -> tuple[str, str]:
    """Return both values in words, without credentials."""
    before, after = (
        "(unset)" if value is None else shown(difference.path.last, value, _MOST) or '""'
        for value in (difference.before, difference.after)
    )
    return before, after


def differences(
    left: NormalForm, right: NormalForm, without: frozenset[Pointer] = frozenset()
) -> tuple[Difference, ...]:
    """Return where two runs differ, sorted by path; () if they are the same training.

    A path has `*` for the number of a pod if all pods differ alike. Paths in `without` are left
    out, by the numbers of their pods.
    """
    differing = [
        difference
        for difference in _differing(left, right, Pointer())
        if difference.path not in without
    ]
    differing.sort(key=lambda difference: difference.path)
    return tuple(_together(differing, _sizes(left, right)))


def _sizes(*runs: NormalForm) -> Mapping[str | None, int]:
    """Return how many pods train, and how many each role has."""
    sizes: dict[str | None, int] = {}
    for run in runs:
        sizes[None] = max(sizes.get(None, 0), len(run.pods))
        for name, role in run.roles.items():
            group = str(Pointer.of("roles", name))
            sizes[group] = max(sizes.get(group, 0), len(role.pods))
    return sizes


def _together(differing: list[Difference], pods: Mapping[str | None, int]) -> Iterator[Difference]:
    """Yield the differences, with one in place of those that are alike in all pods of a group."""
    alike = Counter(map(_everywhere, differing))
    reported = set()
    for difference in differing:
        everywhere = _everywhere(difference)
        match = _POD.match(difference.path)
        if match and pods[match[1]] == alike[everywhere] > 1:
            if everywhere not in reported:
                reported.add(everywhere)
                yield everywhere
        else:
            yield difference


def _everywhere(difference: Difference) -> Difference:
    return difference._replace(path=in_every_pod(difference.path))


def in_every_pod(path: Pointer) -> Pointer:
    """Return a path in one pod as a path in any pod: with `*` for its number."""
    return Pointer(_POD.sub(r"\1/pods/*/", path, count=1))


def _canonical(annotation: str) -> str:
    """Return an annotation unchanged, or if it holds JSON, independent of the JSON's layout."""
    if not annotation.startswith(("[", "{")):
        return annotation
    try:
        return json.dumps(json.loads(annotation), sort_keys=True)
    except ValueError:
        return annotation


def values(run: NormalForm) -> dict[Pointer, Data]:
    """Return every scalar of a normal form by its path; empty values are left out."""
    return _taken(run, Pointer())


def _take(values_by_path: dict[Pointer, Data], value: Data, path: Pointer) -> None:
    """Add the scalars of a value: an import does it some hundred times."""
    if isinstance(value, str | int | float):
        if value is not False and value != "":
            values_by_path[path] = value
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _take(values_by_path, item, path / index)
    elif isinstance(value, Mapping):
        _take_items(values_by_path, value, path)
    elif is_dataclass(value):
        for name in value.__dataclass_fields__:
            _take(values_by_path, getattr(value, name), path / name)
    elif value is not None:
        values_by_path[path] = value


def value_at(run: NormalForm, path: Pointer) -> Data:
    """Return the value that `values` has for a run at a position; None if it has none."""
    holder: Data = run
    at = Pointer()
    for part in path.parts:
        if is_dataclass(holder):
            holder = getattr(holder, part, None)
        elif isinstance(holder, tuple) and part.isdecimal():
            holder = holder[int(part)] if int(part) < len(holder) else None
        else:
            break
        at = at / part
    return _taken(holder, at).get(path)


def is_same_run(before: NormalForm, after: NormalForm) -> bool:
    """Whether `values` of two forms are the same."""
    return before is after or next(_differing(before, after, Pointer()), None) is None


def changed(before: NormalForm, after: NormalForm) -> list[Pointer]:
    """Return the positions at which `values` of two forms differ, in order."""
    return sorted(difference.path for difference in _differing(before, after, Pointer()))


def _differing(before: Data, after: Data, path: Pointer) -> Iterator[Difference]:
    """Yield where two values differ. Equal parts, nearly all in an import, are skipped."""
    if before is after or before == after:
        return
    alike = type(before) is type(after)
    if alike and is_dataclass(before):
        for name in before.__dataclass_fields__:
            yield from _differing(getattr(before, name), getattr(after, name), path / name)
    elif alike and isinstance(before, tuple) and len(before) == len(after):
        for index, (was, now) in enumerate(zip(before, after, strict=True)):
            yield from _differing(was, now, path / index)
    elif alike and isinstance(before, dict) and before and after:
        for key in before.keys() | after.keys():
            was, now = before.get(key, _ABSENT), after.get(key, _ABSENT)
            if isinstance(was, dict) and was and isinstance(now, dict) and now:
                yield from _differing(was, now, path / str(key))
            elif was != now:
                yield from _unlike(_item(key, was, path), _item(key, now, path))
    else:
        yield from _unlike(*(_taken(form, path) for form in (before, after)))


_ABSENT = object()


def _item(key: Data, value: Data, path: Pointer) -> dict[Pointer, Data]:
    values_by_path: dict[Pointer, Data] = {}
    if value is not _ABSENT:
        _take_items(values_by_path, {key: value}, path)
    return values_by_path


def _taken(value: Data, path: Pointer) -> dict[Pointer, Data]:
    values_by_path: dict[Pointer, Data] = {}
    _take(values_by_path, value, path)
    return values_by_path


def _unlike(before: Mapping[Pointer, Data], after: Mapping[Pointer, Data]) -> Iterator[Difference]:
    for path in before.keys() | after.keys():
        if before.get(path) != after.get(path):
            yield Difference(path, before.get(path), after.get(path))


def _take_items(
    values_by_path: dict[Pointer, Data], value: Mapping[str, Data], path: Pointer
) -> None:
    annotations = path.endswith("/annotations")
    for key, written in value.items():
        item = _canonical(written) if annotations and isinstance(written, str) else written
        # An empty mapping has a meaning where only its key counts: `emptyDir: {}`, a flag.
        if item in ({}, ()):
            values_by_path[path / str(key)] = True
        else:
            _take(values_by_path, item, path / str(key))
