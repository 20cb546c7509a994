"""Whole folders of specs against whole rendered trees, and against the words of their findings.

A case is a folder under tests/golden: `input/` holds what people write below environments/, and
either `expected/` every file that is rendered, or `findings.txt` what the check says (or both).
`pytest --update-golden` rewrites the expectations; the review is the git diff.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from trainwright import reports
from trainwright.render import build as plan
from trainwright.specs import filetree

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
TODAY = "2026-06-01"


def _render(case: str, root: Path) -> tuple[dict[str, str], str]:
    shutil.copytree(GOLDEN / case / "input", root / "environments", symlinks=True)
    planned = plan.build(root, (), plan.BuildOptions(today=TODAY, use_cache=False))
    tree = {}
    for environment in planned.environments:
        if environment.changes:
            filetree.apply(root / environment.folder, environment.changes)
        for path in filetree.listing(root / environment.folder):
            text = (root / environment.folder / path).read_text(encoding="utf-8")
            tree[f"{environment.name}/rendered/{path}"] = text
    findings = reports.render(planned, "text", command="trainwright check", color=False)
    return tree, findings if planned.findings else ""


def _expected(case: str) -> tuple[dict[str, str], str]:
    folder = GOLDEN / case / "expected"
    paths = filetree.listing(folder)
    said = GOLDEN / case / "findings.txt"
    return (
        {path: (folder / path).read_text(encoding="utf-8") for path in paths},
        said.read_text(encoding="utf-8") if said.exists() else "",
    )


def _update(case: str, tree: dict[str, str], findings: str) -> None:
    shutil.rmtree(GOLDEN / case / "expected", ignore_errors=True)
    for path, text in tree.items():
        target = GOLDEN / case / "expected" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    said = GOLDEN / case / "findings.txt"
    said.unlink(missing_ok=True)
    if findings:
        said.write_text(findings, encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    tree, findings = _render(case, tmp_path)
    if request.config.getoption("--update-golden"):
        _update(case, tree, findings)
    expected_tree, expected_findings = _expected(case)
    assert findings == expected_findings
    assert sorted(tree) == sorted(expected_tree)
    for path, text in tree.items():
        assert text == expected_tree[path], path
    assert expected_tree or expected_findings, "the case expects nothing at all"
    assert bool(expected_tree) != case.startswith("fails-"), "a failing case renders nothing"
