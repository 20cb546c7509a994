"""The lines of manifests that findings point into, without what Secrets hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from trainwright.credentials import HIDDEN
from trainwright.manifests import reading
from trainwright.manifests.reading import Source
from trainwright.model import Finding, Place
from trainwright.rules.secrets import CREDENTIAL

_SECRET = re.compile(rb"""["']?kind["']?:[ ]*["']?Secret\b""")
_VALUE = re.compile(r"""^(\s*(?:- )?["']?(?!apiVersion|kind|name|namespace|type)[^:]*:).*\S.*$""")
_BLOCK = 16_384  # bytes


def lines(
    sources: Sequence[Source], findings: Sequence[Finding]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every file that a finding names, with the lines that are named there.

    The others are empty, as they are never shown and there may be a million.
    """
    named: dict[str, set[int]] = {}
    for finding in findings:
        for place in (finding.place, *(related.place for related in finding.related)):
            if place is not None:
                named.setdefault(place.file, set()).add(place.line)
    given: dict[str, list[Place]] = {}
    for finding in findings:
        if finding.rule == CREDENTIAL and finding.pointer.endswith("/value"):
            given.setdefault(finding.place.file, []).append(finding.place)
    for source in sources:
        if source.file in named:
            numbers = named[source.file]
            hidden = _secret_lines(source) if b"Secret" in source.raw else frozenset()
            shown = [""] * max(numbers)
            for number, raw in _written(source.raw, sorted(numbers)):
                line = raw.decode("utf-8", "replace").removesuffix("\r")
                shown[number - 1] = _VALUE.sub(r"\1 …", line) if number in hidden else line
            for place in given.get(source.file, ()):  # the name that gives it away is elsewhere
                before = shown[place.line - 1][: place.column - 1]
                shown[place.line - 1] = f"{before}{HIDDEN}"
            yield source.file, tuple(shown)


def _written(raw: bytes, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Some lines of a text, in ascending order. Counting line breaks is faster than to split."""
    begin, line = 0, 1
    for number in numbers:
        while breaks := raw.count(b"\n", begin, begin + _BLOCK):
            if line + breaks > number:
                break
            begin, line = raw.rindex(b"\n", begin, begin + _BLOCK) + 1, line + breaks
        while line < number and (end := raw.find(b"\n", begin)) >= 0:
            begin, line = end + 1, line + 1
        if line == number:
            end = raw.find(b"\n", begin)
            yield number, raw[begin : end if end >= 0 else None]


def _secret_lines(source: Source) -> frozenset[int]:
    """The numbers of the lines of every Secret in a file."""
    return frozenset(
        number
        for chunk in reading.split(source)
        if _SECRET.search(chunk.raw)
        for number in range(chunk.above + 1, chunk.above + chunk.raw.count(b"\n") + 2)
    )
