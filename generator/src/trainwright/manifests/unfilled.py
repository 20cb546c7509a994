"""Placeholders of a file as one note, in place of what each of them is not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainwright.datatypes.listing import listed, plural
from trainwright.datatypes.model import Finding, Severity
from trainwright.findings import diagnostics as dx
from trainwright.manifests.reading import Chunk
from trainwright.objects.placeholders import PLACEHOLDER, of_shell

_MOST = 5  # that are named
_QUOTED = re.compile(rf"""["'](?:{PLACEHOLDER.pattern})["']""")
# A scalar of its own: `replicas: $NODES`, `- "<IMAGE>"`.
_SCALAR = re.compile(
    rf"""[:-][ ]+["']?(?:{PLACEHOLDER.pattern})["']?[ ]*(?:\#.*)?$""", re.MULTILINE
)


def together(chunks: Sequence[Chunk], findings: Sequence[Finding]) -> Iterator[Finding]:
    """The findings, with one note per file for those whose value is yet to be filled in."""
    unfilled = {chunk.file: frozenset[str]() for chunk in chunks}
    for chunk in chunks:
        unfilled[chunk.file] |= _placeholders(chunk.raw)
    about: dict[str, list[Finding]] = {}
    for finding in findings:
        if _value(finding) in unfilled.get(finding.place.file, ()):
            about.setdefault(finding.place.file, []).append(finding)
        else:
            yield finding
    for group in about.values():
        yield _note(group)


def _placeholders(raw: bytes) -> frozenset[str]:
    if not any(mark in raw for mark in (b"$", b"<", b"V_")):
        return frozenset()
    text = raw.decode(errors="replace")
    return frozenset(match[0] for found in _SCALAR.finditer(text) for match in [_in(found)])


def _value(finding: Finding) -> str:
    """The placeholder that a finding quotes as the value; empty where it is about another."""
    found = _QUOTED.search(finding.message)
    return _in(found)[0] if found else ""


def _in(found: re.Match[str]) -> re.Match[str]:
    inner = PLACEHOLDER.search(found[0])
    assert inner is not None
    return inner


def _note(found: Sequence[Finding]) -> Finding:
    names = list(dict.fromkeys(map(_value, found)))
    message = f"not filled in: {listed(names, _MOST)}; {plural(len(found), 'finding')} left out"
    remedy = "Write the values, and check again."
    if all(map(of_shell, names)):
        remedy = "Check what is applied: `envsubst < FILE | trainwright check --manifests -`."
    first = min(found, key=lambda finding: (finding.place.line, finding.place.column))
    return replace(dx.SHAPE.at(first.place, message, remedy=remedy), severity=Severity.NOTE)
