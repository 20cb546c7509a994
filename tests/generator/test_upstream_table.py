"""The table of what other projects do: where rules, refusals and predictions read versions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from trainwright.kinds import KINDS
from trainwright.rule_model.upstream import Behaviour, numbers, table, upstream
from trainwright.rules.registry import RULES

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "generator/src/trainwright"


def test_there_are_enough_rows_and_each_is_complete() -> None:
    rows = table().values()
    assert len(rows) >= 90
    for row in rows:
        assert row.summary.endswith("."), row.name
        assert row.text, row.name
        assert not (row.on_since and not row.gate), row.name
        for version in (row.since, row.until, row.on_since):
            assert version == "" or re.fullmatch(r"\d+\.\d+", version), row.name
        if row.since and row.until:
            assert numbers(row.since) < numbers(row.until), row.name
        assert re.fullmatch(r"v\d+\.\d+\.\d+", row.tag), row.name


def test_no_module_has_a_tag_of_its_own() -> None:
    """What is true of a version stands in the table alone."""
    found = [
        f"{path.relative_to(SOURCES)}: {match.group()}"
        for path in sorted(SOURCES.rglob("*.py"))
        for match in re.finditer(r"[\w-]+/[\w.-]+@v?\d[\w.]*:\S+", path.read_text("utf-8"))
    ]
    assert found == []


def test_every_kind_of_a_row_is_one_that_is_known() -> None:
    known = {kind.kind for kind in KINDS.values()}
    known |= {"Pod", "Service", "TrainingRuntime", "ClusterTrainingRuntime"}
    for row in table().values():
        assert set(row.kinds) <= known, row.name


@pytest.mark.parametrize(
    ("version", "gates", "holds", "on"),
    [
        ("", {}, False, False),
        ("1.30", {}, False, False),
        ("1.31", {}, True, False),
        ("1.33", {"ImageVolume": True}, True, True),
        ("1.30", {"ImageVolume": True}, False, False),
        ("1.35.2", {}, True, True),
        ("1.36", {"ImageVolume": False}, True, False),
    ],
)
def test_a_gate_is_on_by_version_or_because_the_environment_says_so(
    version: str, gates: dict[str, bool], holds: bool, on: bool
) -> None:
    row = upstream("kubernetes/image-volumes")
    assert (row.holds(version), row.is_on(version, gates)) == (holds, on)


def test_what_ended_no_longer_holds() -> None:
    row = upstream("kueue/frameworks-pytorchjob")
    assert [row.holds(version) for version in ("0.18", "0.18.6", "0.19", "0.20", "1.0")] == [
        *(True, True),
        *(False, False, False),
    ]


def test_sources_of_rules_are_those_of_the_table() -> None:
    sources = {row.source for row in table().values()}
    cited = [rule.source for rule in RULES.values() if "@v" in rule.source]
    assert len(cited) >= 40
    assert set(cited) <= sources


def _checkout(folder: Path, rows: list[Behaviour], leave_out: str) -> None:
    """A repository with a tag in which every file has the texts of its rows, but for one row."""
    for row in rows:
        path = folder / row.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if row.name != leave_out:
            with path.open("a", encoding="utf-8") as file:
                file.write(row.text + "\n")
        else:
            path.touch()
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for command in (
        ("init", "--quiet"),
        ("add", "."),
        (*identity, "commit", "--quiet", "-m", "a"),
        (*identity, "tag", "v9.0.0"),
    ):
        subprocess.run(["git", "-C", str(folder), *command], check=True, capture_output=True)


@pytest.mark.parametrize("changed", ["", "flux/deletion-policy"])
def test_the_table_is_held_against_a_checkout(changed: str, tmp_path: Path) -> None:
    rows = [row for row in table().values() if row.name.startswith("flux/")]
    _checkout(tmp_path, rows, changed)
    script = ROOT / "scripts/upstream_page.py"
    options = ["--against", f"flux={tmp_path}", "--ref", "v9.0.0"]
    done = subprocess.run(
        [sys.executable, str(script), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == (1 if changed else 0), done.stdout + done.stderr
    if changed:
        assert f"{changed}: " in done.stdout
        assert "3 of 4 as in the table" in done.stdout
    else:
        assert "4 of 4 as in the table" in done.stdout


def test_an_unknown_project_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    script = ROOT / "scripts/upstream_page.py"
    done = subprocess.run(
        [sys.executable, str(script), "--against", f"kuewe={tmp_path}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (
        "it is one of kubernetes, training-operator, trainer, kuberay, jobset, kueue" in done.stderr
    )
