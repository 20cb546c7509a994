"""Every promise of the threat model is held by tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/threat-model.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_each_promise_names_tests_and_each_test_exists() -> None:
    table = PAGE.read_text().split("## What is promised")[1].split("## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 12
    for row in rows:
        named = NAMED.findall(row)
        assert named, row
        assert row.count("`tests/") == len(named), row
        for path, name in named:
            tree = ast.parse((ROOT / path).read_text())
            functions = (ast.FunctionDef, ast.AsyncFunctionDef)
            defined = {node.name for node in tree.body if isinstance(node, functions)}
            assert name in defined, f"{path}::{name}"
