"""Plans, differences and explanations as text for a terminal, or as data for `-o json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from trainwright.findings import redaction
from trainwright.findings.credentials import HIDDEN, named, redact
from trainwright.model import Data
from trainwright.pointer import Pointer
from trainwright.render.build import Build, EnvironmentBuild
from trainwright.reports.json import place_of
from trainwright.reports.report import cells, visible
from trainwright.runs.decision import Held
from trainwright.specs import schema_errors
from trainwright.specs.explain import Explanation, Setting
from trainwright.specs.filetree import Changes


def as_json(kind: str, items: Sequence[Data]) -> str:
    """A versioned envelope around a list."""
    data = {"apiVersion": "trainwright.io/v1alpha1", "kind": kind, "items": items}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, color: bool) -> str:
    """Aligned columns, as wide as they need to be, without lines or wrapping.

    Thousands of rows take a library of tables longer than it takes to find them out.
    """
    shown = [[visible(cell) for cell in row] for row in rows]
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


def cell(value: str | Sequence[Held]) -> str:
    """What a table shows of a value in a list."""
    return value if isinstance(value, str) else behind(value)


def item(value: str | Sequence[Held]) -> Data:
    """The same value as data."""
    return value if isinstance(value, str) else behind_items(value)


def behind(held: Sequence[Held]) -> str:
    """The first value that a run is behind, at its line, and how many more there are."""
    if not held:
        return ""
    more = f" and {len(held) - 1} more" if len(held) > 1 else ""
    return f"{held[0].path.dotted} ({held[0].place}){more}"


def behind_lines(held: Sequence[Held]) -> Iterator[str]:
    """Each value that a run is behind: what it began with, what is written now, and where."""
    for one in held:
        before, after = (_shown(one.path, value) for value in (one.before, one.after))
        yield visible(f"{one.path.dotted}: {before} → {after} ({one.place})")


def _shown(path: Pointer, value: Data) -> str:
    hidden = _hidden(path, value)
    if hidden in (None, HIDDEN):
        return HIDDEN if hidden else "(unset)"
    return _value(hidden)


def behind_items(held: Sequence[Held]) -> list[Data]:
    """The same as data; null is a value that is not there."""
    return [
        {
            "path": one.path.dotted,
            "before": _hidden(one.path, one.before),
            "after": _hidden(one.path, one.after),
            "place": place_of(one.place),
        }
        for one in held
    ]


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def summary(plan: Build, verb: str) -> str:
    """One line an environment: how many jobs, and what happened to its files."""
    width = max((len(e.name) for e in plan.environments), default=0)
    return "".join(
        f"{e.name:<{width}}  {plural(len(e.jobs), 'job'):>9}  {counts(e, verb)}\n"
        for e in plan.environments
    )


def counts(environment: EnvironmentBuild, verb: str) -> str:
    """What happened to an environment's files."""
    changes = environment.changes
    if changes is None:
        return "not rendered: it has errors"
    if not changes:
        return f"up to date in {environment.folder}"
    counts = (
        (len(changes.added), "added"),
        (len(changes.changed), "changed"),
        (len(changes.removed), "removed"),
    )
    done = ", ".join(f"{count} {word}" for count, word in counts if count)
    return f"{verb} in {environment.folder}: {done}"


def drift(environment: EnvironmentBuild) -> Iterator[str]:
    """Each file that is not what it should be, and in which way."""
    changes = environment.changes or Changes({}, {}, ())
    for path in sorted({*changes.written, *changes.removed}):
        if path in environment.edited:
            state = "edited by hand"
        elif path in changes.added:
            state = "missing"
        elif path in changes.changed:
            state = "out of date"
        else:
            state = "left over"
        yield visible(f"{environment.folder}/{path}: {state}")


def diff(root: Path, environment: EnvironmentBuild, context: int) -> Iterator[str]:
    """A unified diff from what is on disk to what would be rendered, without credentials."""
    changes = environment.changes or Changes({}, {}, ())
    written = changes.written
    for path in sorted({*written, *changes.removed}):
        full = f"{environment.folder}/{path}"
        old = _lines(root / full) if path not in changes.added else []
        new = written[path].splitlines(keepends=True) if path in written else []
        yield from redaction.unified_diff(
            old,
            new,
            old=f"a/{full}" if path not in changes.added else "/dev/null",
            new=f"b/{full}" if path in written else "/dev/null",
            context=context,
        )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    except OSError:
        return []


def explanation(found: Sequence[Explanation]) -> str:
    """The effective spec, a value a line, each with where it was set and what it overrode."""
    lines = [(f"{e.pointer.dotted}: {_value(_hidden(e.pointer, e.value))}", e) for e in found]
    width = min(max((len(line) for line, _ in lines), default=0), 60)
    text = []
    for line, e in lines:
        text.append(f"{line:<{width}}  # {_where(e.decided)}")
        for setting in e.overridden:
            hidden = _hidden(e.pointer, setting.value)
            was = "removed" if setting.value is None else _value(hidden)
            text.append(f"{'':<{width}}  #   overrides {was} ({_where(setting)})")
    return "".join(f"{redact(line)}\n" for line in text)


def _where(setting: Setting) -> str:
    at = "" if setting.place == setting.layer else f": {setting.place}"
    return f"{setting.layer}{at}"


def _value(value: Data) -> str:
    if value is None:
        return "(removed)"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return schema_errors.show(value)


def explanation_items(found: Sequence[Explanation]) -> list[Data]:
    """Explanations as data, with everything that looks like a credential hidden."""
    return [
        {
            "path": e.pointer.dotted,
            "value": _hidden(e.pointer, e.value),
            "decided": _setting(e.pointer, e.decided),
            "overridden": [_setting(e.pointer, setting) for setting in e.overridden],
        }
        for e in found
    ]


def _setting(pointer: Pointer, setting: Setting) -> Data:
    return {
        "layer": setting.layer,
        "place": setting.place,
        "value": _hidden(pointer, setting.value),
    }


def _hidden(pointer: Pointer, value: Data) -> Data:
    if isinstance(value, dict):
        return {key: _hidden(pointer / key, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_hidden(pointer, item) for item in redaction.redact_words(value)]
    if value is not None and named(pointer.last, str(value)):
        return HIDDEN
    return redact(value) if isinstance(value, str) else value
