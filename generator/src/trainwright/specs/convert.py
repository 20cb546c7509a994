"""Schema-valid data as dataclasses: a key is the field of its name, if no field says otherwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from trainwright.datatypes.data import Data, dig
from trainwright.datatypes.fields import spelled

T = TypeVar("T")
Read: TypeAlias = Callable[[Data], Any] | None  # None where data is the value already


def value(kind: type[T], data: Mapping[str, Data], **given: Any) -> T:
    """Return a dataclass from data; `given` are the fields that the data does not decide."""
    return kind(**written(kind, data, given), **given)


def written(kind: type, data: Mapping[str, Data], without: Container[str] = ()) -> dict[str, Any]:
    """Return the fields of a dataclass for which data has a value; a null is none."""
    whole, by_key = _fields(kind)
    arguments = {name: read(data) for name, read in whole}
    for key, item in data.items():
        for name, inside, read in by_key.get(key, ()):
            value = dig(item, *inside) if inside else item
            if value is not None and name not in without:
                arguments[name] = read(value) if read else value
    return arguments


_Field: TypeAlias = tuple[str, tuple[str, ...], Read]  # its name, further keys, how it is read


@cache
def _fields(kind: type) -> tuple[list[tuple[str, Callable[[Data], Any]]], dict[str, list[_Field]]]:
    """Return the fields that are read from a whole mapping, and the others by their first key."""
    hints = get_type_hints(kind)
    whole, by_key = [], defaultdict(list)
    for field in fields(kind):
        how = field.metadata
        if how.get("keys") == ():
            whole.append((field.name, how["read"]))
        elif not how.get("unwritten"):
            first, *inside = how.get("keys") or (spelled(field.name),)
            read = how.get("read") or _read(hints[field.name], ordered=how.get("ordered", False))
            by_key[first].append((field.name, tuple(inside), read))
    return whole, by_key


def _read(hint: Any, *, ordered: bool = False) -> Read:
    """Return how to read a type from data (None: as it is); `ordered` mappings keep their order."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(value, hint)
    if origin in (Union, UnionType):
        (hint,) = (argument for argument in arguments if argument is not NoneType)
        return _read(hint)
    if origin is tuple:
        order = list if ordered else sorted
        return partial(_tuple, _named(arguments[0]), _read(arguments[0]), order)
    if origin is Mapping and (named := _named(arguments[1])):
        return lambda data: {key: named(item, name=key) for key, item in data.items()}
    if origin is Mapping and (read := _read(arguments[1])):
        return lambda data: {key: read(item) for key, item in data.items()}
    return None


def _tuple(
    named: Callable[..., Any] | None,
    read: Read,
    order: Callable[[Mapping[str, Data]], list[str]],
    data: Data,
) -> tuple[Any, ...]:
    if named and isinstance(data, Mapping):
        return tuple(named(data[key], name=key) for key in order(data))
    return tuple(map(read, data)) if read else tuple(data)


def _named(hint: Any) -> Callable[..., Any] | None:
    """Return what makes values named by their key in a mapping; None for a type without a name."""
    if (
        isinstance(hint, type)
        and is_dataclass(hint)
        and any(field.name == "name" and field.metadata.get("unwritten") for field in fields(hint))
    ):
        return partial(value, hint)
    return None
