"""Each worker begins with its share of the long tests, and every test is run once."""

from __future__ import annotations

import pytest

from longest_first import dealt


@pytest.mark.parametrize(
    ("long", "others", "workers", "expected"),
    [
        ("", "abc", 2, "abc"),
        ("AB", "cdef", 1, "ABcdef"),
        ("AB", "cdef", 2, "AcdBef"),
        ("ABC", "defg", 2, "ACdBefg"),
        ("ABC", "defghi", 3, "AdeBfgChi"),
        ("ABCD", "", 3, "ADBC"),
    ],
)
def test_each_worker_begins_with_long_tests(
    long: str, others: str, workers: int, expected: str
) -> None:
    assert "".join(dealt(list(long), list(others), workers)) == expected
