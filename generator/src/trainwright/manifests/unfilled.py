"""Unfilled placeholders: one note per file, instead of a finding for each invalid value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from trainwright.datatypes.finding import Finding, Location, Severity
from trainwright.datatypes.listing import listed, plural
from trainwright.findings import diagnostics as dx
from trainwright.manifests.reading import Chunk
from trainwright.objects.placeholders import PLACEHOLDER, is_unfilled, of_shell

_MOST = 5  # that are named
_MARKS = (b"$", b"<", b"V_", b"YOUR_", b"PLACEHOLDER", b"://")  # each placeholder has one of them
_QUOTED = re.compile(rf"""["'](?:{PLACEHOLDER.pattern})["']""")
# A scalar of its own: `replicas: $NODES`, `- "<IMAGE>"`.
_SCALAR = re.compile(
    rf"""[:-][ ]+["']?(?:{PLACEHOLDER.pattern})["']?[ ]*(?:\#.*)?$""", re.MULTILINE
)


def together(chunks: Sequence[Chunk], findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings, with those about unfilled placeholders as one note per file."""
    marked = [chunk for chunk in chunks if any(mark in chunk.raw for mark in _MARKS)]
    unfilled: dict[str, set[str]] = {}
    for chunk in marked:
        unfilled.setdefault(chunk.file, set()).update(_placeholders(chunk.raw))
    about: dict[str, list[Finding]] = {}
    for finding in findings:
        if _value(finding) in unfilled.get(finding.place.file, ()):
            about.setdefault(finding.place.file, []).append(finding)
        else:
            yield finding
    variables: dict[str, list[Finding]] = {}
    for chunk in marked:
        variables.setdefault(chunk.file, []).extend(_variables(chunk))
    for file, named in variables.items():
        group = about.get(file, [])
        if group or named:
            yield _note(group, named)


# The value of a variable: `value: <TOKEN>`, `{name: HF_TOKEN, value: "<TOKEN>"}`.
_VARIABLE = re.compile(rf"""\bvalue:[ ]+["']?(?P<whole>{PLACEHOLDER.pattern})["']?[ ]*[}}#\n]""")


def _variables(chunk: Chunk) -> Iterator[Finding]:
    """Yield a finding for each variable or placeholder that was left unfilled."""
    if b"kind:" not in chunk.raw:
        return
    text = chunk.raw.decode(errors="replace")
    for match in _VARIABLE.finditer(text):
        if is_unfilled(match["whole"]):
            line = chunk.above + text.count("\n", 0, match.start()) + 1
            yield dx.SHAPE.at(Location(chunk.file, line), f'"{match["whole"]}" is a placeholder')


def _placeholders(raw: bytes) -> Iterator[str]:
    return (_in(scalar)[0] for scalar in _SCALAR.finditer(raw.decode(errors="replace")))


def _value(finding: Finding) -> str:
    """Return the placeholder that a finding quotes as the value, or "" if there is none."""
    quoted = _QUOTED.search(finding.message)
    return _in(quoted)[0] if quoted else ""


def _in(outer: re.Match[str]) -> re.Match[str]:
    inner = PLACEHOLDER.search(outer[0])
    assert inner is not None
    return inner


def _note(left_out: Sequence[Finding], variables: Sequence[Finding]) -> Finding:
    findings = (*left_out, *variables)
    names = list(dict.fromkeys(map(_value, findings)))
    message = f"not filled in: {listed(names, _MOST)}"
    message += f"; {plural(len(left_out), 'finding')} left out" if left_out else ""
    remedy = "Write the values, and check again."
    if all(map(of_shell, names)):
        remedy = "Check what is applied: `envsubst < FILE | trainwright validate -`."
    first = min(findings, key=lambda finding: (finding.place.line, finding.place.column))
    return dx.SHAPE.at(first.place, message, remedy=remedy, severity=Severity.NOTE)
