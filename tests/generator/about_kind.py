"""A pytest plugin for a product without a kind: tests that are about it are left out.

A test is about a kind if its parameters, its own lines or its golden case spell it, or if it holds
files of the repository against every kind there is. `ABOUT_KIND` are the words that spell it.
Minor versions of one operator are left out too: a kind has one column of features here.
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"
EVERY = (
    "test_the_page_is_that_of_the_table",
    "test_of_every_target_each_byte_is_expected_somewhere",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    words = os.environ["ABOUT_KIND"].split()
    about = [item for item in items if _is_of_a_minor(item) or _spells(item, words)]
    items[:] = [item for item in items if item not in set(about)]
    config.hook.pytest_deselected(items=about)


def _is_of_a_minor(item: pytest.Item) -> bool:
    return hasattr(item, "callspec") and item.callspec.params.get("columns") == "minors"


def _spells(item: pytest.Item, words: list[str]) -> bool:
    if item.name in EVERY or not isinstance(item, pytest.Function):
        return item.name in EVERY
    body = f"\n{inspect.getsource(item.function)}".partition("\ndef ")[2]  # not its other cases
    given = item.callspec.params if hasattr(item, "callspec") else {}
    case = GOLDEN / given["case"] if "case" in given else None
    paths = [path for path in case.rglob("*") if path.is_file()] if case else []
    files = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
    texts = " ".join((item.nodeid, str(given), body, *files)).lower()
    return any(word in texts for word in words)
