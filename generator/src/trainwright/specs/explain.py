"""Where each value of a job comes from: what set it, and what that overrode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.errors import SelectionError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer, Step, leaves, lookup, typed
from trainwright.specs import layers
from trainwright.specs.merge import BUILT_IN, Layer, Layered

_META = frozenset({"apiVersion", "kind", "extends"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What one layer sets a value to; `value` is None if the layer removes what lies below."""

    layer: str
    place: str
    value: Data


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One effective value, the setting that decided it, and the ones it overrode."""

    pointer: Pointer
    value: Data
    decided: Setting
    overridden: tuple[Setting, ...]


def explain(spec: Layered, path: str = "") -> tuple[Explanation, ...]:
    """Return every leaf at or below a path as people type it, in the order of the merged spec.

    Raise SelectionError, with the nearest path that exists, if the job has nothing there. The
    leaves of a role are those that it sets itself, and those that it inherits.
    """
    roles, name, rest = (*path.split(".", 2), "", "")[:3]
    if roles == "roles" and name in mapping(spec.data.get("roles")) and not layers.is_serving(rest):
        at = Pointer.of(roles, name)
        inside = explain(layers.of_role(spec, name), rest)
        return tuple(
            replace(explanation, pointer=Pointer(at + explanation.pointer))
            for explanation in inside
        )
    start = named(spec, path)
    value = lookup(spec.data, start)
    pointers = [start] if value is None else [p for p, _ in leaves(value, start)]
    return tuple(
        _explanation(spec, pointer) for pointer in pointers if path or pointer.parts[0] not in _META
    )


def named(spec: Layered, path: str) -> Pointer:
    """Return the position that a typed path means in the layers of a spec.

    Keys may contain dots: labels["example.com/team"] always means a single key, and so does
    labels.example.com/team if the layers have nothing else that it could mean. Raise
    SelectionError if the path matches nothing, or several positions.
    """
    if not path:
        return Pointer()
    layers = tuple(layer.data for layer in spec.layers)
    matches: dict[Pointer, None] = {}
    for steps in typed(path):
        exact = Pointer.of(*(step.text for step in steps))
        here = dict.fromkeys(_matches(layers, steps, Pointer()))
        if exact in here:
            return exact
        matches |= here
    if len(matches) > 1:
        forms = " or ".join(pointer.dotted for pointer in matches)
        raise SelectionError(f'"{path}" may be {forms}: write one of them')
    if not matches:
        raise SelectionError(_nothing(spec, path))
    return next(iter(matches))


def _matches(layers: tuple[Data, ...], steps: tuple[Step, ...], at: Pointer) -> Iterator[Pointer]:
    """Yield the positions in any layer that steps match; inexact steps may together be one key."""
    if not steps:
        yield at
        return
    for count in range(1, len(steps) + 1):
        taken = steps[:count]
        if count > 1 and any(step.exact for step in taken):
            return
        key = ".".join(step.text for step in taken)
        inside = tuple(below for layer in layers for below in _below(layer, key))
        if inside:
            yield from _matches(inside, steps[count:], at / key)


def _below(data: Data, key: str) -> Iterator[Data]:
    if isinstance(data, Mapping) and key in data:
        yield data[key]
    elif isinstance(data, list) and (item := lookup(data, Pointer.of(key))) is not None:
        yield item


def _explanation(spec: Layered, pointer: Pointer) -> Explanation:
    """Return what decides a value, and what it overrides."""
    settings = list(_settings(spec, pointer))
    if not settings:  # inside a list: the list's own layer set it
        layer = spec.setter(pointer)
        settings = [_setting(layer, pointer, lookup(spec.data, pointer))]
    return Explanation(
        pointer=pointer,
        value=lookup(spec.data, pointer),
        decided=settings[0],
        overridden=tuple(settings[1:]),
    )


def _settings(spec: Layered, pointer: Pointer) -> Iterator[Setting]:
    """Yield what each layer sets a value to, topmost first, including one value that a mapping
    above replaced, as `image: a:1` below `image: {tag: 2}`.
    """
    decided = False
    for layer in reversed(spec.layers):
        at = pointer
        while at and not layer.wrote(at):
            at = at.parent
        value = lookup(layer.data, at)
        whole = at != pointer
        if at and not (whole and (not decided or value is None or isinstance(value, Mapping))):
            decided = True
            yield _setting(layer, at, value)


def _setting(layer: Layer, pointer: Pointer, value: Data) -> Setting:
    place = BUILT_IN if layer.label == BUILT_IN else str(layer.place(pointer))
    return Setting(layer=layer.label, place=place, value=value)


def _nothing(spec: Layered, path: str) -> str:
    known_paths = sorted(set(paths(spec)))
    near = get_close_matches(path, known_paths, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else "`trainwright explain job` lists all fields"
    return f'no layer sets "{path}"; {hint}'


def paths(spec: Layered) -> Iterator[str]:
    """Yield every path in a spec, as people type it; a mapping comes after what is inside it."""
    for pointer, _ in leaves(spec.data):
        for depth in range(len(pointer.parts), 0, -1):
            yield Pointer.of(*pointer.parts[:depth]).dotted
