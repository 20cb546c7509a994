"""Whole folders of specs against whole rendered trees, and against the words of their findings.

A case is a folder under tests/golden: `input/` holds what people write below environments/, and
either `expected/` every file that is rendered, or `findings.txt` what the check says (or both).
`pytest --update-golden` rewrites the expectations; the review is the git diff.

What is rendered is compared by what it says, and of one case for each target to the byte: a comment
in a template of the chart changes the expectations of that one.
"""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from trainwright import reports
from trainwright.files import filetree
from trainwright.kinds import TARGETS
from trainwright.render import build as plan
from trainwright.runs.record import RECORD_FILE

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())
TODAY = "2026-06-01"
# Of these every byte is expected.
EXACT = {
    "compose-one-machine",
    "job-many-nodes-with-retries",
    "jobset-gpu-many-nodes-in-a-kueue-queue",
    "pytorchjob-every-field",
    "rayjob-gpu-many-nodes-in-a-kueue-queue",
    "trainingjob-elastic-with-the-agent",
    "trainjob-2-3-with-own-runtime",
}


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
    findings = reports.write(
        planned.findings,
        planned.sources,
        "text",
        checked=tuple(str(job) for job in planned.jobs),
        command="trainwright check",
        color=False,
    )
    return tree, findings if planned.findings else ""


def _expected(case: str) -> tuple[dict[str, str], str]:
    folder = GOLDEN / case / "expected"
    paths = filetree.listing(folder)
    message = GOLDEN / case / "findings.txt"
    return (
        {path: (folder / path).read_text(encoding="utf-8") for path in paths},
        message.read_text(encoding="utf-8") if message.exists() else "",
    )


def _said(path: str, text: str) -> Any:
    """What a rendered file says, whatever its comments, layout and digests are."""
    if path.endswith(f"/{RECORD_FILE}"):
        record = json.loads(text)
        return {**record, "files": sorted(record["files"]), "digest": ""}
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def _is_expected(case: str, path: str, text: str, expected: str) -> bool:
    if text == expected:
        return True
    return case not in EXACT and _said(path, text) == _said(path, expected)


def _update(case: str, tree: dict[str, str], findings: str) -> None:
    """Rewrite the expectations that are not met, and leave the others as they are."""
    folder = GOLDEN / case / "expected"
    before, _ = _expected(case)
    for path in before.keys() - tree.keys():
        (folder / path).unlink()
    for path, text in tree.items():
        if path not in before or not _is_expected(case, path, text, before[path]):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    message = GOLDEN / case / "findings.txt"
    message.unlink(missing_ok=True)
    if findings:
        message.write_text(findings, encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    tree, findings = _render(case, tmp_path)
    if request.config.getoption("--update-golden"):
        _update(case, tree, findings)
    expected_tree, expected_findings = _expected(case)
    assert findings == expected_findings
    assert sorted(tree) == sorted(expected_tree)
    for path, text in tree.items():
        if not _is_expected(case, path, text, expected_tree[path]):
            assert text == expected_tree[path], path
    for path in (path for path in tree if path.endswith(f"/{RECORD_FILE}")):
        inside = PurePosixPath(path).parent
        for name, digest in json.loads(tree[path])["files"].items():
            assert digest == sha256(tree[str(inside / name)].encode()).hexdigest(), path
    assert expected_tree or expected_findings, "the case expects nothing at all"
    assert bool(expected_tree) != case.startswith("fails-"), "a failing case renders nothing"


def test_of_every_target_each_byte_is_expected_somewhere() -> None:
    records = [path for case in EXACT for path in (GOLDEN / case).rglob(RECORD_FILE)]
    assert {json.loads(path.read_text())["target"] for path in records} == set(TARGETS)
