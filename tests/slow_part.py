"""`--slow-part 2/4`: of the slow tests every fourth one, from the second on; all others run as ever.

Neighbours are in different parts, so that each has some of every file: what a change breaks shows
in any part, and what only one case shows is found by one of the next commits. `.ci/run` takes the
part from the commit, `make test-slow` runs all. With `--last-failed` nothing is left out: what failed
in a part was in it, and few of its neighbours are collected again.
"""

from __future__ import annotations

import re
from typing import TypeVar

import pytest

T = TypeVar("T")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow-part", type=part, default=(1, 1), metavar="N/M", help="as in 2/4")


@pytest.hookimpl(tryfirst=True)  # in the order of collection, which each worker has
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("lf", False):
        return
    number, parts = config.getoption("slow_part")
    slow = [item for item in items if item.get_closest_marker("slow")]
    left = set(slow) - set(taken(slow, number, parts))
    if left:
        config.hook.pytest_deselected(items=[*left])
        items[:] = [item for item in items if item not in left]


def part(text: str) -> tuple[int, int]:
    """Return the number of a part, from 1, and how many there are; ValueError if it is not one."""
    numbers = re.fullmatch(r"(\d{1,3})/(\d{1,3})", text)
    number, parts = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= number <= parts:
        raise ValueError(f"{text} is not a part, such as 2/4")
    return number, parts


def taken(tests: list[T], number: int, parts: int) -> list[T]:
    return tests[number - 1 :: parts]
