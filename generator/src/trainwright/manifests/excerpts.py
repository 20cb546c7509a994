"""The lines of manifests that findings point at, without the values of Secrets."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from trainwright.datatypes.finding import Finding
from trainwright.documents import yamlio
from trainwright.findings.credentials import redact
from trainwright.findings.redaction import redact_lines
from trainwright.findings.visibility import hidden
from trainwright.manifests import reading
from trainwright.manifests.reading import Chunk, Source

_SECRET = re.compile(rb"""["']?kind["']?:[ ]*["']?Secret\b""")
_BLOCK = 16_384  # bytes
_VALUE = re.compile(
    r"""^(\s*+(?:- )?["']?(?!apiVersion|kind|name|namespace|type)[^:]*+:)(?=.*\S).*$"""
)


def lines(
    sources: Sequence[Source], findings: Sequence[Finding]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield every file that a finding names, with the lines that are named there.

    The others are empty, as they are never shown and there may be a million.
    """
    named: dict[str, set[int]] = {}
    for finding in findings:
        for place in (finding.place, *(related.place for related in finding.related)):
            if place is not None:
                named.setdefault(place.file, set()).add(place.line)
    for source in sources:
        if source.file in named:
            yield source.file, tuple(_shown(source, named[source.file]))


def _shown(source: Source, numbers: set[int]) -> list[str]:
    """Return the lines of a file, with all lines empty except those with these numbers."""
    shown = [""] * max(numbers)
    for number, raw in _written(source.raw, sorted(numbers)):  # what is between documents, too
        shown[number - 1] = redact(raw.decode("utf-8", "replace").removesuffix("\r"))
    ordered = sorted(numbers)
    for chunk in reading.split(source):
        first, last = (bisect_right(ordered, number) for number in _span(chunk))
        if here := ordered[first:last]:
            lines = chunk.raw.decode("utf-8", "replace").split("\n")
            safe = redact_lines([line.removesuffix("\r") for line in lines])
            secret = _is_secret(chunk)
            for number in here:
                line = safe[number - chunk.above - 1]
                shown[number - 1] = _VALUE.sub(r"\1 …", line) if secret else line
    return shown


def unseen(source: Source) -> yamlio.Unseen:
    """Return the lines with invisible or misleading characters; of Secrets, only these."""
    if not (unseen_lines := yamlio.unseen(source.file, source.raw)):
        return ()
    secret = [_span(chunk) for chunk in reading.split(source) if _is_secret(chunk)]
    return tuple(
        (at, hidden(line) if any(above < at.line <= last for above, last in secret) else line)
        for at, line in unseen_lines
    )


def _span(chunk: Chunk) -> tuple[int, int]:
    """Return the number of the line above a text, and that of its last line."""
    length = chunk.raw.count(b"\n") + (not chunk.raw.endswith(b"\n"))
    return chunk.above, chunk.above + length


def _is_secret(chunk: Chunk) -> bool:
    return bool(_SECRET.search(chunk.raw))


def _written(raw: bytes, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Yield some lines of a text, in ascending order.

    Counting line breaks is faster than to split.
    """
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
