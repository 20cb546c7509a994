"""How anything is written for people and programs: a plan, an upgrade, an import, a status."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.findings.visibility import visible
from trainwright.reports.report import COLORS, dump

Paint: TypeAlias = Callable[[str, str], str]  # colours a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """What a format needs besides the plan, or another result, that it writes.

    `command` prints the same again; `against` is the branch as the user named it. `link` is an
    address to which a path and `#L<line>` are appended (empty: no links); `marker` tells the
    comment of this plan from those of others. `paint` colours words, `differing` a line of a diff.
    With `files`, the text format shows the diffs of rendered files, as other formats always do.
    """

    command: str
    against: str = ""
    link: str = ""
    marker: str = "trainwright-plan"
    paint: Paint = lambda text, _color: text
    differing: Callable[[str], str] = str
    color: bool = False
    files: bool = False


def written(room: str, output: str, what: object, style: Style) -> str:
    """Return something in a format of a package: that is `render` of its module of this name."""
    text: str = import_module(f"trainwright.{room}.{output}").render(what, style)
    return text


def document(kind: str, data: Data) -> str:
    """JSON with a version, which the schema of its kind describes."""
    name = kind.lower()
    schema = f"https://trainwright.io/schemas/v1alpha1/{name}.schema.json"
    return dump({"$schema": schema, **_versioned(kind), name: data})


def listing(kind: str, items: Data, **more: Data) -> str:
    """JSON with a version, and a list in it."""
    return dump({**_versioned(kind), "items": items, **more})


def _versioned(kind: str) -> dict[str, Data]:
    return {"apiVersion": "trainwright.io/v1alpha1", "kind": kind}


def finding_line(finding: Finding, paint: Paint, before: str = "", severity: str = "") -> str:
    """A finding on one line of a terminal: `error[TW010]: message  (file:line:column)`."""
    word = f"{before}{severity or finding.severity.value}[{finding.rule}]"
    label = paint(word, COLORS[finding.severity])
    return f"{label}: {visible(f'{finding.message}  ({finding.place})')}"
