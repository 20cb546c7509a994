"""What there is to know about a place: its value and what set it, its field, its findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainwright.authoring import names
from trainwright.authoring.place import Place, job_at
from trainwright.authoring.text import Position, Span
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile, job_of
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents.validation.violation import show
from trainwright.findings.visibility import visible
from trainwright.reports.report import help_uri, rule
from trainwright.specs.merge import BUILT_IN, Layer
from trainwright_editor.language_server.availability import availability

if TYPE_CHECKING:
    from trainwright.authoring.session import Link


@dataclass(frozen=True, slots=True)
class Hover:
    """An answer in Markdown, and the text that it is about."""

    markdown: str
    span: Span


def hover(place: Place, link: Link) -> Hover | None:
    """Return what is known about the key or value at `place`, or None if nothing is."""
    entry = place.entry
    if entry is None or not place.kind:
        return None
    parts = [
        _effective(place, link),
        _named(place),
        _described(place),
        *_findings(place, entry.span.start, entry.span.end),
    ]
    lines = "\n\n---\n\n".join(part for part in parts if part).split("\n")
    text = "\n".join(map(visible, lines))
    on_key = entry.key is not None and place.at in entry.key
    return Hover(text, entry.key if on_key and entry.key else entry.value) if text else None


def _effective(place: Place, link: Link) -> str:
    """Return the effective value of a job's field, what set it, and what that overrode."""
    spec, pointer = job_at(place), place.pointer
    if spec is None or not pointer:
        return ""
    value = lookup(spec.data, pointer)
    if isinstance(value, dict | list) and value:
        return ""
    history = list(spec.history(pointer)) or [(spec.setter(pointer), value)]
    (decides, _), *overridden = history
    lines = [
        f"**{_code(pointer.dotted)}: {_code(show(value))}**, set by {_by(decides, pointer, link)}"
    ]
    lines += [
        f"overrides {_code(show(was))} of {_by(layer, pointer, link)}" for layer, was in overridden
    ]
    return "  \n".join(lines)


def _by(layer: Layer, pointer: Pointer, link: Link) -> str:
    if layer.label == BUILT_IN:
        return "Trainwright's own defaults"
    at = layer.place(pointer)
    return f"{layer.label}, [{at.file}:{at.line}]({link(at.file, at.line)})"


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def _named(place: Place) -> str:
    """Return what is known about the thing that a value names; empty if nothing."""
    if identifier := names.rule_named(place):
        return next(
            (candidate.about for candidate in names.rules() if candidate.text == identifier), ""
        )
    value = place.value
    if place.in_spec == "/extends":
        folder, _, name = str(value).partition("/")
        return names.base(place.session, JobFile(folder, name)).about
    candidates = names.possible(place, place.pointer, place.in_spec)
    about = next((candidate.about for candidate in candidates if candidate.text == value), "")
    key = names.declared_as(place.in_spec)
    facts = availability(place.session, place.environment, key, job_of(place.path))
    return "\n\n".join(filter(None, (facts.get(str(value), ""), about)))


def _described(place: Place) -> str:
    """The description of the field in the schema."""
    field = place.field
    lines = [field.description]
    if field.default is not None:
        lines.append(f"Default: {_code(show(field.default))}")
    if field.choices:
        lines.append("One of " + ", ".join(_code(show(choice)) for choice in field.choices))
    return "\n\n".join(line for line in lines if line)


def _findings(place: Place, start: Position, end: Position) -> Iterator[str]:
    """Yield each finding between `start` and `end`, with the text of its rule."""
    for finding in place.session.findings(place.path):
        at = Position(finding.place.line - 1, finding.place.column - 1)
        if start <= at <= end:
            yield _finding(finding)


def _finding(finding: Finding) -> str:
    broken_rule = rule(finding)
    lines = [f"[{finding.rule}]({help_uri(finding.rule)}) {broken_rule.name}: {finding.message}"]
    lines += [f"The rule: {broken_rule.summary}", finding.effect]
    lines.append(finding.remedy)
    return "\n\n".join(line for line in lines if line)
