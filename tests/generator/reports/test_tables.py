"""Tables of a terminal: what a cell holds neither moves the columns nor commands the terminal."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from trainwright.reports.terminal import table

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
rows = st.lists(st.tuples(words, words, words), max_size=5)


def test_columns_are_as_wide_as_they_need_to_be() -> None:
    assert table(
        ("job", "state"), [("prod/a", "rendered"), ("dev/a-long-name", "")], color=False
    ) == ("JOB              STATE\nprod/a           rendered\ndev/a-long-name\n")


def test_letters_that_take_two_columns_move_nothing() -> None:
    lines = table(("team", "x"), [("学習", "1"), ("a", "2")], color=False).splitlines()
    assert lines == ["TEAM  x".upper(), "学習  1", "a     2"]


def test_a_tab_moves_nothing() -> None:
    lines = table(("team", "x"), [("a\tb", "1"), ("", "2")], color=False).splitlines()
    assert lines == ["TEAM  X", "a b   1", "      2"]


def test_color_marks_the_headers_alone() -> None:
    plain, colored = (table(("a", "b"), [("1", "2")], color=color) for color in (False, True))
    assert colored != plain
    assert re.sub(r"\x1b\[\d+m", "", colored) == plain
    assert "\x1b" not in colored.split("\n", 1)[1]


@given(rows)
def test_a_row_is_a_line_and_columns_begin_where_their_headers_do(
    rows: list[tuple[str, str, str]],
) -> None:
    heading, *lines = table(("first", "second", "third"), rows, color=False).splitlines()
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", line)
        for header, cell in zip(("SECOND", "THIRD"), row[1:], strict=True):
            if cell.isascii() and cell.isalnum():
                widths = [cell_len(line[: found.start()]) for found in re.finditer(cell, line)]
                assert heading.index(header) in widths
