"""The structure of texts as they are typed: that of the parser, and of the rest where one is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.authoring.text import Position, read
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.yamlio import Document
from trainwright.specs.load import read_spec

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "environments").glob("**/*.yaml"))
SPECS = [path for path in SHIPPED if "rendered" not in path.parts]
WHOLE = "name: a\nlabels:\n  x: 1\n  y: 2\nflags: {lr: 0.1, list: [1, 2]}\nlast: |\n  text\n"


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_entries_are_where_the_parser_has_them(path: Path) -> None:
    raw = path.read_bytes()
    document, text = read_spec("a.yaml", raw), read("a.yaml", raw)
    assert isinstance(document, Document)
    for entry in text.entries:
        start = entry.value.start
        if entry.shape != "alias":
            assert document.places[entry.pointer] == (start.line, start.column)
        if entry.key is not None:
            assert document.keys[entry.pointer] == (entry.key.start.line, entry.key.start.column)
    assert set(text.by_pointer) == set(document.places) - {""}


@pytest.mark.parametrize(
    "broken",
    [
        "pool:h100",
        "- x",
        "'",
        "\tx: 1",
        "x: [1, ",
        "x: {a: ",
        "? y",
        "!!python/x y",
        "x: *none",
        "name: b",
        "%",
        "@",
        "}",
    ],
)
@pytest.mark.parametrize("line", [1, 4, 7])
def test_what_is_not_broken_is_still_understood(broken: str, line: int) -> None:
    lines = WHOLE.splitlines()
    lines.insert(line, broken)
    text = read("a.yaml", "\n".join(lines).encode())
    wanted = {
        Pointer("/name"),
        Pointer("/flags/lr"),
        Pointer("/flags/list/1"),
        Pointer("/labels/x"),
    }
    assert wanted <= set(text.by_pointer)
    at = text.by_pointer[Pointer("/flags/lr")].key
    assert at is not None
    assert text.written(at) == "lr"


def test_the_innermost_place_is_found() -> None:
    text = read("a.yaml", WHOLE.encode())
    column = WHOLE.splitlines()[4].index("0.1")
    found = text.at(Position(4, column + 1))
    assert found is not None
    assert found.pointer == "/flags/lr"
    assert text.at(Position(4, 6)) is None  # the brace itself
    around = text.around(Position(2, 3))
    assert around is not None
    assert around.pointer == "/labels/x"


@given(raw=st.binary(max_size=200))
def test_any_bytes_are_a_text(raw: bytes) -> None:
    text = read("a.yaml", raw)
    for number in range(len(text.lines) + 2):
        text.at(Position(number, 3))
        text.token(Position(number, 3))
