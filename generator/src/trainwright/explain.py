"""Where each value of a job comes from: what set it, and what that overrode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from trainwright.errors import SelectionError
from trainwright.load import BUILT_IN
from trainwright.merge import Layer, Layered, leaves, lookup, path_of, pointer_of
from trainwright.model import Data

_META = frozenset({"apiVersion", "kind", "extends"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One layer's say in a value; `value` is None where the layer removes what lies below."""

    layer: str
    place: str
    value: Data


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One effective value, the setting that decided it, and the ones it overrode."""

    path: str
    value: Data
    decided: Setting
    overridden: tuple[Setting, ...]


def explain(spec: Layered, path: str = "") -> tuple[Explanation, ...]:
    """Every leaf at or below a dotted path, in the order of the merged spec.

    Raises SelectionError when the job has nothing there, with the nearest path that it has.
    """
    start = pointer_of(path)
    found = lookup(spec.data, start)
    if found is None and not any(True for _ in spec.history(start)):
        raise SelectionError(_nothing(spec, path))
    pointers = [start] if found is None else [p for p, _ in leaves(found, start)]
    return tuple(
        _explanation(spec, pointer)
        for pointer in pointers
        if path or pointer.split("/")[1] not in _META
    )


def _explanation(spec: Layered, pointer: str) -> Explanation:
    settings = [_setting(layer, pointer, value) for layer, value in spec.history(pointer)]
    if not settings:  # inside a list: the list's own layer set it
        settings = [_setting(spec.setter(pointer), pointer, lookup(spec.data, pointer))]
    return Explanation(
        path=path_of(pointer),
        value=lookup(spec.data, pointer),
        decided=settings[0],
        overridden=tuple(settings[1:]),
    )


def _setting(layer: Layer, pointer: str, value: Data) -> Setting:
    place = BUILT_IN if layer.label == BUILT_IN else str(layer.place(pointer))
    return Setting(layer=layer.label, place=place, value=value)


def _nothing(spec: Layered, path: str) -> str:
    known = sorted(set(_paths(spec)))
    near = get_close_matches(path, known, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f'no layer sets "{path}"{hint}'


def _paths(spec: Layered) -> Iterator[str]:
    for pointer, _ in leaves(spec.data):
        path = path_of(pointer)
        while path:
            yield path
            path = path.rpartition(".")[0]
