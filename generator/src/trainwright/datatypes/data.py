"""Plain data of any origin: where it is read, wrong types become empty values, never exceptions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

# Plain data as YAML and JSON know it. `Any` stops here: everything past `resolve` is typed.
Data: TypeAlias = Any

ACCELERATORS = ("gpu", "gaudi", "tpu", "neuron", "nvidia.com/mig")


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    # Parsers build dicts. Rules call this some hundred times per object, and isinstance with the
    # abstract class is slow.
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> Sequence[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, (list, tuple)) else ()  # a union is slower


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the items of a list, with an empty mapping for each that is none: indexes are kept."""
    return [mapping(item) for item in sequence(value)]


def text(value: Any) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def texts(value: Any) -> dict[str, str]:
    """Return a mapping of strings, as labels are: other scalars as strings, without nulls."""
    return {str(key): str(item) for key, item in mapping(value).items() if item is not None}


def stated(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that have a value: neither null nor empty."""
    return {key: value for key, value in entries.items() if value not in (None, "", {}, [])}


def words(value: Any, known: Collection[int] = ()) -> list[str]:
    """Every key, each once, and every text in a value, but for mappings whose `id` is known."""
    keys: dict[Any, Any] = {}
    strings: list[str] = []
    ahead = [value]
    for part in ahead:  # which grows: recursion takes three times as long
        kind = part.__class__  # nearly always one of three, and isinstance is slower
        if kind is str:
            strings.append(part)
        elif kind is dict or isinstance(part, dict):
            if id(part) not in known:
                keys.update(part)
                ahead += part.values()
        elif isinstance(part, (list, tuple)):
            ahead += part
        elif isinstance(part, str):
            strings.append(part)
    return [*map(str, keys), *strings]


def plain(text: str) -> str:
    """A text in small letters, with underscores for dashes and dots, as settings may be spelled."""
    return text.lower().replace("-", "_").replace(".", "_")


def dig(value: Any, *keys: str) -> Any:
    """The value under nested mapping keys, or None when any of them is absent."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def amount(value: Any, default: int = 1) -> int:
    """Return the value if it is a whole number, else the default for one that is left out."""
    number = integer(value)
    return default if number is None else number


def integer(value: Any) -> int | None:
    """The value if it is a whole number as YAML writes one."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def digits(text: str) -> int | None:
    """Return the number that a text of digits is; None for any other, or one that counts nothing:
    more than 18 digits, which no field holds.
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def extended(amounts: Mapping[str, Any]) -> dict[str, Any]:
    """The extended resources ("nvidia.com/gpu") among resource amounts."""
    return {
        name: amount
        for name, amount in amounts.items()
        if isinstance(name, str) and "/" in name and not name.startswith("kubernetes.io/")
    }


@lru_cache(maxsize=256)
def is_accelerator(resource: str) -> bool:
    """Whether an extended resource counts GPUs or their like."""
    return any(word in resource for word in ACCELERATORS)
