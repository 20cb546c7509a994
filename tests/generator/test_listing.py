"""Many names in one line."""

from __future__ import annotations

import pytest

from trainwright.datatypes.listing import listed


@pytest.mark.parametrize(
    ("names", "most", "line"),
    [
        ([], 3, ""),
        (["a"], 1, "a"),
        (["a", "b"], 1, "a and 1 more"),
        (["a", "b", "c"], 3, "a, b, c"),
        (["a", "b", "c", "d"], 3, "a, b, c and 1 more"),
        (["a"] * 1235, 1, "a and 1,234 more"),
    ],
)
def test_the_first_names_are_listed_and_the_others_counted(
    names: list[str], most: int, line: str
) -> None:
    assert listed(names, most) == line
