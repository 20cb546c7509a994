"""Tests that are marked as `long` begin first, one worker each: none is left with one at the end.

pytest-xdist gives each worker an equal part of the tests in their order (`--dist worksteal`), so
each part begins with its share of them.
https://pytest-xdist.readthedocs.io/en/stable/distribution.html
"""

from __future__ import annotations

from itertools import islice
from typing import TypeVar

import pytest

T = TypeVar("T")


@pytest.hookimpl(trylast=True)  # after those that are left out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    long = [item for item in items if item.get_closest_marker("long")]
    others = [item for item in items if not item.get_closest_marker("long")]
    workers = getattr(config, "workerinput", {"workercount": 1})["workercount"]
    items[:] = dealt(long, others, workers)


def dealt(long: list[T], others: list[T], workers: int) -> list[T]:
    """All in an order of which equal parts begin with the long ones, in turn."""
    total, rest, order = len(long) + len(others), iter(others), list[T]()
    for worker in range(workers):
        first = long[worker::workers]
        size = (total - len(order)) // (workers - worker)
        order += [*first, *islice(rest, max(0, size - len(first)))]
    return [*order, *rest]
