"""Amounts in text: Kubernetes quantities such as "500m" and "64Gi", durations such as "1h30m".

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from decimal import ROUND_UP, Decimal
from functools import lru_cache

_SYNTAX = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:(m|[kMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,2}))?"
)
_POWERS = {"m": Decimal("0.001"), "": Decimal(1)}
_POWERS |= {unit: Decimal(1000) ** (i + 1) for i, unit in enumerate("kMGTPE")}
_POWERS |= {f"{unit}i": Decimal(1024) ** (i + 1) for i, unit in enumerate("KMGTPE")}


@lru_cache(maxsize=4096)  # many objects ask for the same few amounts, and many rules for each
def parse(text: str) -> Decimal:
    """Return a quantity's value in cores, bytes or units. Raises ValueError if it is invalid."""
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a Kubernetes quantity")
    number, suffix, exponent = match.groups()
    return Decimal(number) * _POWERS[suffix or ""] * Decimal(10) ** int(exponent or 0)


def read(value: object) -> Decimal | None:
    """Return the quantity that a field of an object has, or None if its value is not one."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):  # a union is slower
        return None
    try:
        return parse(str(value))
    except ValueError:
        return None


def count(value: object) -> int | None:
    """Return a whole number, written as one or as a string ("8"), as amounts may be; or None."""
    if type(value) is int:
        return value
    return _whole(value) if isinstance(value, str) else None


@lru_cache(maxsize=4096)
def _whole(text: str) -> int | None:
    number = read(text)
    return int(number) if number is not None and number == int(number) else None


def cores(value: str | float) -> str:
    """Return cores as a quantity: those of a number are rounded up to thousandths, as Kubernetes
    does.
    """
    if isinstance(value, str):
        return value
    text = f"{Decimal(str(value)).quantize(_POWERS['m'], ROUND_UP):f}"
    return text.rstrip("0").rstrip(".")


def format_binary(size: int) -> str:
    """Bytes as the largest whole number of Gi, Mi or Ki that is not more."""
    for unit, power in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if size >= power and (size % power == 0 or size >= 64 * power or unit == "Ki"):
            return f"{size // power}{unit}"
    return str(size)
