"""A way in which data is not valid, and how its values are shown to people."""

from __future__ import annotations

import json
from collections.abc import Mapping

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.findings import credentials


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which data breaks a schema.

    `pointer` is the offending value, or the mapping when something is missing from it; `key` is
    set when the key itself is what is wrong; `missing` when it is absent.
    """

    pointer: Pointer
    message: str
    remedy: str
    key: str = ""
    missing: str = ""


def show(value: Data) -> str:
    """Return a value as people wrote it, shortened to fit on one line."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = credentials.redact(json.dumps(value, ensure_ascii=False))  # a part may look harmless
    return text if len(text) <= 80 else f"{text[:77]}…"
