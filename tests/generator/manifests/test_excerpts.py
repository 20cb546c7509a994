"""Lines that findings point into, however far down a file they are."""

from __future__ import annotations

import random

from trainwright.datatypes.finding import Finding, Location
from trainwright.findings import diagnostics as dx
from trainwright.manifests import excerpts
from trainwright.manifests.reading import Source


def at(file: str, line: int) -> Finding:
    return dx.SHAPE.at(Location(file, line, 1), "something")


def test_the_lines_that_are_named_and_no_others() -> None:
    chance = random.Random(1)
    for size in (1, 2, 300, 5_000):
        written = ["x" * chance.choice((0, 1, 30, 20_000 // size)) for _ in range(size)]
        raw = "\n".join(written)
        numbers = {chance.randrange(1, size + 1) for _ in range(20)} | {1, size}
        findings = [at("a.yaml", number) for number in numbers]
        ((file, lines),) = excerpts.lines([Source("a.yaml", raw.encode())], findings)
        assert file == "a.yaml"
        assert len(lines) == size
        for number, line in enumerate(lines, 1):
            assert line == (written[number - 1] if number in numbers else "")


def test_a_line_behind_the_last() -> None:
    ((_, lines),) = excerpts.lines([Source("a.yaml", b"a\nb")], [at("a.yaml", 1), at("a.yaml", 9)])
    assert lines[0] == "a"
    assert not any(lines[1:])


def test_files_without_findings_are_left_out() -> None:
    assert list(excerpts.lines([Source("a.yaml", b"a")], [at("b.yaml", 1)])) == []


def test_values_of_secrets_are_not_shown() -> None:
    raw = b"kind: ConfigMap\ndata: {a: b}\n---\nkind: Secret\ndata:\n  password: aGVsbG8=\n"
    findings = [at("a.yaml", number) for number in (2, 4, 6)]
    ((_, lines),) = excerpts.lines([Source("a.yaml", raw)], findings)
    assert lines == ("", "data: {a: b}", "", "kind: Secret", "", "  password: …")
