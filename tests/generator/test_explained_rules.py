"""`explain TW718`: what the page of a rule has, in the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from documentation import ROOT
from repository import Repository
from trainwright.cli import main
from trainwright.findings.diagnostics import DIAGNOSTICS
from trainwright.kinds import TARGETS
from trainwright.reports import rule_text
from trainwright.rules.edits.outcomes import EDIT_RULES
from trainwright.rules.registry import RULES


def test_explain_of_a_rule_is_its_page(repository: Repository) -> None:
    shown = repository.run("explain", "tw760").stdout
    assert shown == repository.run("explain", "misspelt-library-variable").stdout
    rule = RULES["TW760"]
    words = " ".join(shown.split())
    for part in (rule.summary, rule.effect, rule.remedy, rule.source, "Field env"):
        assert part in words
    fails, passes = shown.split("A manifest that fails:\n")[1].split("A manifest that passes:\n")
    assert list(yaml.safe_load_all(fails)) == list(rule.failing.objects)
    assert list(yaml.safe_load_all(passes.split("Page ")[0])) == list(rule.passing.objects)
    (item,) = json.loads(repository.run("explain", "TW760", "-o", "json").stdout)["items"]
    assert (item["id"], item["remedy"]) == ("TW760", rule.remedy)


# Of what an environment has beside its runs, which no job spec may waive.
NOT_OF_JOBS = {"TW508", "TW509", "TW510", "TW518", "TW607"}


def test_the_page_of_a_rule_has_the_waivers_that_work() -> None:
    for rule in RULES:
        page = (ROOT / f"docs/rules/{rule}.md").read_text(encoding="utf-8")
        assert ("For one job, in its spec:" in page) != (rule in NOT_OF_JOBS), rule
        assert f"severities: {{{rule}: off}}" in page


def test_the_readme_counts_the_rules_that_are_listed(repository: Repository) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = json.loads(repository.run("list", "rules", "-o", "json").stdout)["items"]
    assert f"[{len(listed)} rules](docs/rules.md)" in readme


def test_every_rule_is_explained() -> None:
    for rule in (*DIAGNOSTICS, *RULES, *EDIT_RULES):
        found = rule_text.named(rule)
        assert found is not None
        shown = rule_text.text(found)
        assert shown.startswith(f"{rule}: ")
        assert f"docs/rules/{rule}.md" in shown
        words = " ".join(shown.split())
        cannot = "It cannot be waived" in words or rule in NOT_OF_JOBS
        assert cannot != (f"`waivers: {{{rule}: " in words), rule
        assert ("It cannot be waived" in words) != (f"`severities: {{{rule}: off}}`" in words), rule
        assert ("A manifest that fails:" in shown) == (rule in RULES), rule
        assert ("A change that is not:" in shown) == (rule in EDIT_RULES), rule


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("TW7l8", "TW718 (spot-without-checkpoints)"),
        ("tw7180", "TW718 (spot-without-checkpoints)"),
        ("TW71", "TW711 (short-grace-period)"),
    ],
)
def test_an_unknown_rule_names_the_nearest(repository: Repository, word: str, near: str) -> None:
    done = repository.run("explain", word)
    assert done.exit_code == 2
    assert done.stderr.startswith(f'trainwright: there is no rule "{word}". The nearest are ')
    assert near in done.stderr


def test_a_job_without_its_environment_is_not_taken_for_a_rule(repository: Repository) -> None:
    done = repository.run("explain", "prod-llm")
    assert done.exit_code == 2
    assert "rule" not in done.stderr


def test_a_rule_has_no_paths(repository: Repository) -> None:
    done = repository.run("explain", "TW718", "image")
    assert done.exit_code == 2
    assert "leave out 'image'" in done.stderr


def test_several_rules_paths_and_fields_are_explained_at_once(repository: Repository) -> None:
    repository.environment("prod")
    repository.job("prod/llm")
    for words in (
        ("TW718", "TW754", "redundant-value"),
        ("prod/llm", "image.tag", "nodes"),
        ("job", "checkpoint", "nodes"),
    ):
        rule = words[0].startswith("TW")
        each = [(word,) for word in words] if rule else [(words[0], word) for word in words[1:]]
        alone = [repository.run("explain", *words) for words in each]
        together = repository.run("explain", *words)
        assert together.exit_code == 0, together.output
        for one in alone:
            assert {*one.stdout.split()} <= {*together.stdout.split()}
        items = json.loads(repository.run("explain", *words, "-o", "json").stdout)["items"]
        data = [repository.run("explain", *words, "-o", "json").stdout for words in each]
        assert items == [item for text in data for item in json.loads(text)["items"]]
    done = repository.run("explain", "TW718", "TW7544")
    assert done.exit_code == 2
    assert 'there is no rule "TW7544"' in done.stderr


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["job"], "procsPerNode  "),
        (["job", "checkpoint"], "resumeFrom  Folder inside the volume"),
        (["job", "sidecars.x"], "imagePullPolicy"),
        (["job", "target"], "One of: "),
        (["environment", "pools"], "gpusPerNode"),
        (["defaults"], "gitops"),
    ],
)
def test_the_fields_of_a_file_are_listed(
    words: list[str], shown: str, repository: Repository
) -> None:
    done = repository.run("explain", *words)
    assert done.exit_code == 0, done.output
    assert shown in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 120
    data = json.loads(repository.run("explain", *words, "-o", "json").stdout)
    listed = data["items"]
    words_of_it = " ".join(done.stdout.split())
    assert data["description"]
    assert " ".join(data["description"].split()) in words_of_it
    names = [item["value"] if "value" in item else item["field"] for item in listed]
    assert all(f"\n{name} " in f"\n{done.stdout}" for name in names)


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("maxDuration", "explain job maxDuration"),
        ("checkpoint.resumeFrom", "explain job checkpoint.resumeFrom"),
        ("pools", "explain environment pools"),
    ],
)
def test_a_field_without_its_kind_names_the_command(
    word: str, command: str, repository: Repository
) -> None:
    done = repository.run("explain", word)
    assert done.exit_code == 2
    assert f"see `trainwright {command}`" in done.stderr
    assert "there is no job" not in done.stderr


def test_what_is_no_field_either_is_no_job(repository: Repository) -> None:
    repository.environment("prod")
    repository.job("prod/llm")
    assert 'there is no job "llm"' in repository.run("explain", "llm").stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("prod/lm-7b", 'there is no job "prod/lm-7b"; did you mean "prod/llm-7b"?'),
        ("east/vit", 'there is no job "east/vit"; name one of its jobs, see `trainwright list'),
        ("prod", '"prod" is an environment; name one of its jobs, see `trainwright list jobs`'),
    ],
)
def test_a_job_that_is_not_there_is_told_the_nearest(
    name: str, said: str, repository: Repository
) -> None:
    repository.environment("prod")
    repository.job("prod/llm-7b")
    done = repository.run("explain", name)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_field_that_a_file_does_not_have_names_the_nearest(repository: Repository) -> None:
    done = repository.run("explain", "job", "checkpoint.pth")
    assert done.exit_code == 2
    assert 'there is no field "pth" in checkpoint of job. Known keys: every' in done.stderr


def _enumerations(node: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        if "enum" in node and not at.endswith("/not"):
            yield at, node
        for key, inner in node.items():
            yield from _enumerations(inner, f"{at}/{key}")


# Whose values are explained elsewhere, or mean what they are.
_EVIDENT = ("/kubernetes/properties/version", "/fabric")


@pytest.mark.parametrize("name", ["job", "environment", "defaults"])
def test_each_value_of_a_field_has_a_line(name: str) -> None:
    found = dict(_enumerations(json.loads((ROOT / f"schemas/{name}.schema.json").read_text())))
    for at, node in found.items():
        if len(node["enum"]) > 1 and not at.endswith(_EVIDENT):
            lines = node.get("enumDescriptions", [])
            assert len(lines) == len(node["enum"]), at
            assert all(line and "\n" not in line for line in lines), at


def test_a_value_is_explained_beside_its_field() -> None:
    shown = CliRunner().invoke(main, ["explain", "job", "elastic.recovery"])
    assert shown.exit_code == 0
    assert "\nlive     The worker is replaced while the others go on" in shown.stdout
    shown = CliRunner().invoke(main, ["explain", "job", "target"])
    for target in TARGETS.values():
        if target.summary:
            assert f"{target.name}  " in shown.stdout
            assert target.summary.rstrip(".") in " ".join(shown.stdout.split())
    data = CliRunner().invoke(main, ["explain", "job", "state", "-o", "json"])
    assert [item["value"] for item in json.loads(data.stdout)["items"]] == [
        "active", "suspended", "cancelled",
    ]  # fmt: skip
