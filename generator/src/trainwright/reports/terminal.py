"""Tables, values that outdate runs, and explanations, for a terminal or as data for `-o json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import click

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import ValueChange
from trainwright.datatypes.listing import listed
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.validation.violation import show
from trainwright.findings.credentials import redact
from trainwright.findings.visibility import visible
from trainwright.reports.report import cells
from trainwright.reports.values import change_data, hidden
from trainwright.specs.explain import Explanation, Setting


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, color: bool) -> str:
    """Aligned columns, as wide as they need to be, without lines or wrapping.

    Thousands of rows take a library of tables longer than it takes to find them out.
    """
    shown = [[visible(cell).replace("\t", " ") for cell in row] for row in rows]
    titles = [header.upper() for header in headers]
    widths = [max(map(cells, column)) for column in zip(titles, *shown, strict=True)]
    heading = _aligned(titles, widths)
    lines = [click.style(heading, bold=True) if color else heading]
    lines += [_aligned(row, widths) for row in shown]
    return "".join(f"{line}\n" for line in lines)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        f"{cell}{' ' * (width - cells(cell))}" for cell, width in zip(row, widths, strict=True)
    )
    return "  ".join(padded).rstrip()


Cell: TypeAlias = str | Sequence[ValueChange] | Mapping[str, str] | None


def cell(value: Cell) -> str:
    """Return a cell of a table: the text itself, a summary of the values that outdate a run, or an
    object and the command until which it stays.
    """
    if isinstance(value, Mapping):
        return f"{value['object']}, until `{value['command']}`"
    if value is None or isinstance(value, str):
        return value or ""
    return outdated(value)


def item(value: Cell) -> Data:
    """A value in a list, as data."""
    if isinstance(value, Mapping):
        return dict(value)
    if value is None or isinstance(value, str):
        return value
    return [change_data(held) for held in value]


def outdated(held: Sequence[ValueChange]) -> str:
    """The first value that outdates a run, at its line, and how many more there are."""
    return listed([f"{value.path.dotted} ({value.place})" for value in held], 1)


def explanation(explanations: Sequence[Explanation]) -> str:
    """Return the effective spec, one value per line, with where it was set and what it overrode."""
    lines = [(f"{e.pointer.dotted}: {_value(hidden(e.pointer, e.value))}", e) for e in explanations]
    width = min(max((len(line) for line, _ in lines), default=0), 60)
    text = []
    for line, e in lines:
        text.append(f"{line:<{width}}  # {_where(e.decided)}")
        for setting in e.overridden:
            value = hidden(e.pointer, setting.value)
            was = "removed" if setting.value is None else _value(value)
            text.append(f"{'':<{width}}  #   overrides {was} ({_where(setting)})")
    return "".join(f"{visible(redact(line))}\n" for line in text)


def _where(setting: Setting) -> str:
    at = "" if setting.place == setting.layer else f": {setting.place}"
    return f"{setting.layer}{at}"


def _value(value: Data) -> str:
    if value is None:
        return "(removed)"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return show(value)


def explanation_items(explanations: Sequence[Explanation]) -> list[Data]:
    """Explanations as data, with everything that looks like a credential hidden."""
    return [
        {
            "path": e.pointer.dotted,
            "value": hidden(e.pointer, e.value),
            "decided": _setting(e.pointer, e.decided),
            "overridden": [_setting(e.pointer, setting) for setting in e.overridden],
        }
        for e in explanations
    ]


def _setting(pointer: Pointer, setting: Setting) -> Data:
    return {
        "layer": setting.layer,
        "place": setting.place,
        "value": hidden(pointer, setting.value),
    }
