"""Durations as specs have them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.datatypes.durations import clock, read


@given(st.integers(min_value=0, max_value=10**8), st.sampled_from(["dhms", "hms", "s"]))
def test_seconds_are_read_as_they_are_written(number: int, units: str) -> None:
    assert read(clock(number, units)) == number


@pytest.mark.parametrize("text", ["", "1", "1h 30m", "30m1h", "1.5h", "-1h", "h"])
def test_other_texts_are_no_durations(text: str) -> None:
    assert read(text) is None
