"""The lines of job specs on the pages of rules: those that fail do so, and the others do not."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from repository import Repository
from trainwright.reports import rule_text
from trainwright.reports.report import every_rule
from trainwright.rule_model.spec_sample import (
    FOLDER,
    JOB,
    Mistake,
    SpecSample,
    spec_sample,
)

SCHEMA = json.loads((FOLDER.parent / "spec_sample.schema.json").read_text())
RULES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def _found(root: Path, files: dict[str, str]) -> set[str]:
    return {result["rule"] for result in _results(root, files)}


def _results(root: Path, files: dict[str, str]) -> list[dict[str, str]]:
    repository = Repository(root)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = repository.run("check", "--no-cache", "-o", "json")
    results: list[dict[str, str]] = json.loads(done.stdout)["report"]["results"]
    return results


@pytest.mark.parametrize("rule", RULES)
def test_the_lines_that_pass_stand_in_place_of_those_that_fail(rule: str) -> None:
    """Who copies them over those that fail has a job that still has what every job needs."""
    sample = spec_sample(rule)
    assert sample is not None
    if sample.file != JOB:
        return
    ordinary = yaml.safe_load(sample.files("")[JOB])
    for shown in (sample, *sample.mistakes):
        try:
            fails = yaml.safe_load(shown.fails)
        except yaml.YAMLError:
            continue
        if isinstance(fails, dict):
            assert ordinary.keys() & fails.keys() <= yaml.safe_load(shown.passes).keys()


@pytest.mark.parametrize("rule", RULES)
def test_one_fails_and_the_other_passes(rule: str, tmp_path: Path) -> None:
    sample = spec_sample(rule)
    assert sample is not None
    assert rule in _found(tmp_path / "fails", sample.files(sample.fails))
    assert _found(tmp_path / "passes", sample.files(sample.passes)) == set()


MISTAKES = [
    pytest.param(rule, sample, mistake, id=f"{rule} {mistake.of}")
    for rule in RULES
    if (sample := spec_sample(rule))
    for mistake in sample.mistakes
]


@pytest.mark.parametrize(("rule", "sample", "mistake"), MISTAKES)
def test_a_kind_of_mistake_is_reported_in_these_words(
    rule: str, sample: SpecSample, mistake: Mistake, tmp_path: Path
) -> None:
    found = _results(tmp_path / "fails", sample.files(mistake.fails))
    assert (rule, mistake.message, mistake.remedy) in {
        (result["rule"], result["message"], result["remedy"]) for result in found
    }
    assert _found(tmp_path / "passes", sample.files(mistake.passes)) == set()


def test_the_page_and_the_terminal_show_the_kinds_of_schema_errors() -> None:
    sample = spec_sample("TW010")
    assert sample is not None
    assert len(sample.mistakes) >= 15
    shown = rule_text.text(every_rule()["TW010"])
    page = (Path(__file__).parents[3] / "docs/rules/TW010.md").read_text("utf-8")
    for mistake in sample.mistakes:
        for part in (mistake.of, mistake.message, mistake.remedy):
            assert part in shown
            assert part in page


def test_a_file_is_of_a_rule_and_has_the_keys_of_the_schema() -> None:
    assert set(RULES) <= {*every_rule()}
    validator = jsonschema_rs.validator_for(SCHEMA)
    assert [
        (rule, error.message)
        for rule in RULES
        for error in validator.iter_errors(
            yaml.load((FOLDER / f"{rule}.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader)
        )
    ] == []


def test_the_rules_that_users_meet_have_one() -> None:
    assert len(RULES) >= 40
    assert spec_sample("TW011") is None
