"""Drift of an object in the cluster: values in git that it does not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, dig
from trainwright.datatypes.pointer import Pointer

# Keys that identify the items of a list; items without any are compared by index.
_KEYS = ("name", "mountPath", "containerPort", "manager", "key")
_AMOUNTS = ("requests", "limits")


def drift(git: Mapping[str, Data], live: Mapping[str, Data]) -> tuple[str, ...]:
    """Return JSON pointers of values in git that the live object lacks or has otherwise.

    What only the live object has is no difference: the API server fills in defaults, Kueue adds
    node selectors, injectors add containers.
    """
    return tuple(_differences(git, live, Pointer()))


def _differences(git: Data, live: Data, pointer: Pointer) -> Iterator[Pointer]:
    if isinstance(git, Mapping) and isinstance(live, Mapping):
        for key, value in git.items():
            below = pointer / key
            if key in live:
                yield from _differences(value, live[key], below)
            elif value not in (None, False, 0, "", [], {}):  # Go leaves empty values out
                yield below
    elif isinstance(git, list) and isinstance(live, list):
        yield from _items(git, live, pointer)
    elif git != live and not _same_amount(git, live, pointer):
        yield pointer


def _items(git: list[Data], live: list[Data], pointer: Pointer) -> Iterator[Pointer]:
    for number, item in enumerate(git):
        below = pointer / number
        key = next((k for k in _KEYS if isinstance(item, Mapping) and k in item), None)
        if key is None:
            if item not in live:
                yield below
            continue
        partners = [other for other in live if dig(other, key) == item[key]]
        candidates = [list(_differences(item, other, below)) for other in partners]
        yield from min(candidates, key=len, default=[below])


def _same_amount(git: Data, live: Data, pointer: Pointer) -> bool:
    """Whether two resource amounts are equal: the API server writes "1000m" as "1"."""
    if not any(f"/{amounts}/" in pointer for amounts in _AMOUNTS):
        return False
    return quantity.read(git) is not None and quantity.read(git) == quantity.read(live)
