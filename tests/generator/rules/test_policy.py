"""Severities and waivers: what still counts, and what is said about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import git_repository
from repository import Repository

LATEST = "image: {repository: registry.example.com/ml/train, tag: latest}\n"


def _job(repository: Repository, name: str, extra: str = "") -> None:
    path = repository.job(name)
    lines = [line for line in path.read_text().splitlines() if not line.startswith("image:")]
    path.write_text("\n".join(lines) + "\n" + LATEST + extra)


def _rules(repository: Repository, *arguments: str) -> list[str]:
    import json

    done = repository.run("check", "--no-cache", "-o", "json", *arguments)
    results = json.loads(done.stdout)["report"]["results"]
    return sorted(f"{r['rule']} {r['severity']} {r['subject']}" for r in results)


@pytest.mark.parametrize(
    ("severity", "expected"),
    [
        ("error", ["TW709 error prod/llm"]),
        ("warning", ["TW709 warning prod/llm"]),
        ("note", ["TW709 note prod/llm"]),
        ("off", []),
    ],
)
def test_severity_by_environment(
    severity: str, expected: list[str], repository: Repository
) -> None:
    repository.environment("prod", f"severities: {{TW709: {severity}}}\n")
    _job(repository, "prod/llm")
    assert _rules(repository, "prod") == expected


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        ("2026-06-01", []),  # the last day counts
        ("2026-05-31", ["TW030 error prod/llm", "TW709 error prod/llm"]),
    ],
)
def test_a_waiver_holds_until_its_date(
    until: str, expected: list[str], repository: Repository
) -> None:
    _job(repository, "prod/llm", f'waivers: {{TW709: {{reason: demo, until: "{until}"}}}}\n')
    assert _rules(repository, "prod") == expected


def test_the_day_is_a_variable_of_our_own(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Builds set SOURCE_DATE_EPOCH to the day of a commit, on which an expired waiver held."""
    _job(repository, "prod/llm", 'waivers: {TW709: {reason: demo, until: "2026-06-01"}}\n')
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2026-06-02")
    assert _rules(repository, "prod") == ["TW030 error prod/llm", "TW709 error prod/llm"]
    monkeypatch.delenv("TRAINWRIGHT_TODAY")  # whatever day it is, it is later than that
    assert _rules(repository, "prod") == ["TW030 error prod/llm", "TW709 error prod/llm"]


@pytest.mark.parametrize(("today", "waives"), [("2026-06-01", ["TW709"]), ("2026-06-02", [])])
def test_a_plan_names_the_waivers_of_a_new_run_that_still_hold(
    today: str, waives: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rendered while they held, it is merged as it is."""
    made = Repository(git_repository.init(tmp_path))
    made.environment("prod", "")
    git_repository.commit(made.root)
    _job(made, "prod/llm", 'waivers: {TW709: {reason: demo, until: "2026-06-01"}}\n')
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2026-06-01")
    assert made.run("render").exit_code == 0
    monkeypatch.setenv("TRAINWRIGHT_TODAY", today)
    done = made.run("plan", "--against", "HEAD", "-o", "json")
    (change,) = json.loads(done.stdout)["plan"]["changes"]
    assert change["action"] == "starts"
    assert [waiver["rule"] for waiver in change["waivers"]] == waives


@pytest.mark.parametrize("verb", ["check", "render", "plan"])
def test_a_day_that_is_not_one_is_one_line(
    verb: str, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "tomorrow")
    done = repository.run(verb)
    assert (done.exit_code, done.stderr) == (
        2,
        'trainwright: TRAINWRIGHT_TODAY is "tomorrow", expected a date such as 2026-06-01\n',
    )


def test_waivers_of_an_environment_name_jobs_by_glob(repository: Repository) -> None:
    repository.environment(
        "prod", 'waivers: [{rule: TW709, job: "ll*", reason: demo, until: "2027-01-01"}]\n'
    )
    _job(repository, "prod/llm")
    _job(repository, "prod/mnist")
    assert _rules(repository, "prod") == ["TW709 error prod/mnist"]
    # Looking at one job says nothing about the waivers that others use.
    assert _rules(repository, "prod/mnist") == ["TW709 error prod/mnist"]


def test_unused_and_unknown_waivers_are_findings(repository: Repository) -> None:
    extra = """\
waivers:
  TW709: {reason: the tag is fixed by now, until: "2027-01-01"}
  TW010: {reason: schemas cannot be waived, until: "2027-01-01"}
"""
    repository.job("prod/llm", extra)
    assert _rules(repository, "prod") == ["TW031 warning prod/llm", "TW032 error prod/llm"]


def test_a_finding_about_a_waiver_has_its_path(repository: Repository) -> None:
    old = '{reason: the tag is fixed, until: "2020-01-01"}'
    repository.environment("prod", 'waivers: [{rule: TW715, reason: demo, until: "2020-01-01"}]\n')
    repository.job("prod/llm", f"waivers: {{TW709: {old}, TW010: {old}}}\n")
    found = json.loads(repository.run("check", "-o", "json").stdout)["report"]["results"]
    assert {it["path"]: it["rule"] for it in found if "waiver" in it["message"] + it["name"]} == {
        "waivers.TW709": "TW030",
        "waivers.0": "TW030",
    }
    assert "waivers.TW010" in {it.get("path") for it in found}


def test_findings_about_a_shared_base_are_said_once(repository: Repository) -> None:
    base = (repository.root / "environments/prod/jobs/llm.yaml").read_text()
    repository.write("base/jobs/common.yaml", base.replace("name: llm", "name: common\nnodez: 3"))
    for job in ("prod/a", "prod/b"):
        name = job[-1]
        repository.write(
            f"prod/jobs/{name}.yaml",
            f"apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: {name}\nextends: base/common\n",
        )
    assert [rule.split()[0] for rule in _rules(repository, "prod")] == ["TW010"]


def test_a_required_rule_is_waived_by_its_environment_alone(repository: Repository) -> None:
    accepted = 'reason: demo, until: "2027-01-01"'
    required = "severities: {TW709: required}\n"
    repository.environment("prod", required)
    _job(repository, "prod/llm", f"waivers: {{TW709: {{{accepted}}}}}\n")
    assert _rules(repository, "prod") == ["TW032 error prod/llm", "TW709 error prod/llm"]
    done = repository.run("check", "--no-cache")
    place = "environments/prod/environment.yaml:6:14"
    assert f"no job of prod may waive TW709, which {place} requires" in done.stdout
    assert "environments/prod/jobs/llm.yaml:10:11" in done.stdout
    repository.environment("prod", f"{required}waivers: [{{rule: TW709, {accepted}}}]\n")
    _job(repository, "prod/llm", "description: waives nothing itself\n")
    assert _rules(repository, "prod") == []
