"""Values of specs and their changes, in words and as data, without credentials."""

from __future__ import annotations

import json

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import ValueChange
from trainwright.datatypes.pointer import Pointer
from trainwright.findings.credentials import HIDDEN, named, redact
from trainwright.findings.redaction import redact_words
from trainwright.reports.json import place_of

_MOST = 60  # characters of a value


def change_line(change: ValueChange) -> str:
    """Return a change as "image.tag: 1.0 → 1.1"."""
    if not change.path:
        return change.note
    before, after = (value_line(change.path, side) for side in (change.before, change.after))
    earlier = ", changed earlier" if change.earlier else ""
    return f"{redact(change.path.dotted)}: {before} → {after}{earlier}"


def value_line(path: Pointer, value: Data) -> str:
    """Return a value on one line, shortened; it is hidden if its key is that of a credential."""
    if value is None:
        return "(unset)"
    if named(path.last, str(value)):
        return HIDDEN
    text = redact(json.dumps(hidden(path, value), ensure_ascii=False))
    return text if len(text) <= _MOST else f"{text[: _MOST - 3]}..."


def change_data(change: ValueChange) -> Data:
    """Return a change as data; null is a value that is not there."""
    return {
        "path": change.path.dotted,
        "before": hidden(change.path, change.before),
        "after": hidden(change.path, change.after),
        "place": place_of(change.place),
    }


def hidden(path: Pointer, value: Data) -> Data:
    """Return a value with the credentials in it replaced."""
    if isinstance(value, dict):
        return {key: hidden(path / key, item) for key, item in value.items()}
    if isinstance(value, list):
        return [hidden(path, item) for item in redact_words(value)]
    if value is not None and named(path.last, str(value)):
        return HIDDEN
    return redact(value) if isinstance(value, str) else value
