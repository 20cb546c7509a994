"""A pool that becomes too small for a run that goes on: a warning, and an error for the next."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import git_repository
from git_repository import git
from repository import Copied, Repository

POOLS = """\
pools:
  h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 64, node: {cpu: "64", memory: 512Gi}}
  l4: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 8}
"""
BASE = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: big\n"
GPUS = "pool: h100\nstate: active\n"


def _begin(folder: Path) -> None:
    repository = Repository(git_repository.init(folder))
    repository.environment("prod", POOLS)
    repository.job("prod/llm", GPUS)
    edit(
        repository,
        "prod/jobs/llm.yaml",
        'cpu: "1", memory: 1Gi}',
        'cpu: "8", memory: 16Gi, gpu: 8}',
    )
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root, "Begin")
    git(repository.root, "checkout", "--quiet", "-b", "change")


@pytest.fixture
def begun(copied: Copied, tmp_path: Path) -> Repository:
    """A run of two nodes with 8 GPUs each."""
    return copied(_begin, tmp_path / "clone")


def edit(repository: Repository, path: str, old: str, new: str) -> None:
    full = repository.root / "environments" / path
    text = full.read_text()
    assert old in text
    full.write_text(text.replace(old, new))


def _found(repository: Repository, *verb: str, code: int) -> list[tuple[str, str, str]]:
    result = repository.run(*verb, "-o", "json")
    assert result.exit_code == code, result.output
    findings: list[dict[str, Any]] = json.loads(result.stdout)["report"]["results"]
    return [
        (it["rule"], it["severity"], f"{it['place']['file']}:{it['place']['line']}")
        for it in findings
    ]


def _check(repository: Repository, code: int = 0) -> list[tuple[str, str, str]]:
    return _found(repository, "check", code=code)


ENVIRONMENT = "environments/prod/environment.yaml"
SMALLER = {
    "fewer GPUs": ("capacity: 64", "capacity: 8", "TW023"),
    "fewer GPUs per node": ("gpusPerNode: 8, capacity: 64", "gpusPerNode: 4", "TW023"),
    "smaller nodes": ('{cpu: "64"', "{cpu: 500m", "TW728"),
}


@pytest.mark.parametrize(("old", "new", "rule"), SMALLER.values(), ids=SMALLER)
def test_a_run_goes_on_in_a_pool_that_became_too_small(
    begun: Repository, old: str, new: str, rule: str
) -> None:
    edit(begun, "prod/environment.yaml", old, new)
    (warning,) = _check(begun)
    assert warning == (rule, "warning", f"{ENVIRONMENT}:7")
    assert begun.run("render", "--check").exit_code == 0
    result = begun.run("plan", "--against", "main", "-o", "json")
    assert result.exit_code == 0
    plan = json.loads(result.stdout)["plan"]
    assert plan["changes"] == []
    assert [it["rule"] for it in plan["findings"]] == [rule]


def test_the_warning_names_the_run_the_sum_and_the_line_of_the_job(begun: Repository) -> None:
    edit(begun, "prod/environment.yaml", "capacity: 64", "capacity: 8")
    said = begun.run("check").output
    assert (
        "warning[TW023]: the next run of prod/llm needs 16 GPUs (2 nodes of 8), "
        'the pool "h100" has 8: 8 too few'
    ) in said
    assert " goes on as it is" in said
    assert "jobs/llm.yaml:8" in said


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("capacity: 64", "capacity: 8", "capacity: 8"),
        ("gpusPerNode: 8, capacity: 64", "gpusPerNode: 4", "gpusPerNode: 4"),
    ],
)
def test_an_error_shows_the_line_of_the_pool(
    begun: Repository, old: str, new: str, shown: str
) -> None:
    edit(begun, "prod/environment.yaml", old, new)
    edit(begun, "prod/jobs/llm.yaml", 'tag: "1.0"', 'tag: "1.1"')
    errors = json.loads(begun.run("check", "-o", "json").stdout)["report"]["results"]
    (related,) = next(it["related"] for it in errors if it["rule"] == "TW023")
    lines = (begun.root / ENVIRONMENT).read_text().splitlines()
    place = related["place"]
    assert place["file"] == ENVIRONMENT
    assert related["text"] == f'pool "h100" sets {shown}'
    assert shown[-1] == lines[place["line"] - 1][place["column"] - 1]
    assert f"= from: {ENVIRONMENT}:{place['line']}" in begun.run("check").output
    (run,) = json.loads(begun.run("check", "-o", "sarif").stdout)["runs"]
    (located,) = next(it for it in run["results"] if it["ruleId"] == "TW023")["relatedLocations"]
    assert located["physicalLocation"]["region"]["startLine"] == place["line"]


ASKS = {
    "a new run": lambda it: edit(it, "prod/jobs/llm.yaml", 'tag: "1.0"', 'tag: "1.1"'),
    "more nodes": lambda it: edit(it, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 3"),
    "a new job": lambda it: it.write(
        "prod/jobs/second.yaml",
        (it.root / "environments/prod/jobs/llm.yaml").read_text().replace("llm", "second"),
    ),
}


@pytest.mark.parametrize("asks", ASKS.values(), ids=ASKS)
def test_what_begins_has_to_fit(begun: Repository, asks: Callable[[Repository], object]) -> None:
    edit(begun, "prod/environment.yaml", "capacity: 64", "capacity: 8")
    asks(begun)
    assert ("TW023", "error") in [found[:2] for found in _check(begun, code=1)]
    assert begun.run("render").exit_code == 1
    assert begun.run("plan", "--against", "main").exit_code == 1


def test_a_shared_file_that_asks_for_too_much_is_an_error(begun: Repository) -> None:
    """The pool is as large as it was."""
    begun.write("base/jobs/big.yaml", BASE + "nodes: 2\n")
    edit(begun, "prod/jobs/llm.yaml", "nodes: 2", "extends: base/big")
    assert begun.run("render").exit_code == 0
    assert _check(begun) == []
    begun.write("base/jobs/big.yaml", BASE + "nodes: 9\n")
    assert [found[:2] for found in _check(begun, code=1)] == [("TW023", "error")]


def test_a_suspended_run_stays_and_cannot_be_resumed(begun: Repository) -> None:
    assert begun.run("suspend", "prod/llm").exit_code == 0
    assert begun.run("render").exit_code == 0
    edit(begun, "prod/environment.yaml", "capacity: 64", "capacity: 8")
    assert [found[:2] for found in _check(begun)] == [("TW023", "warning")]
    edit(begun, "prod/jobs/llm.yaml", "state: suspended", "state: active")
    assert [found[:2] for found in _check(begun, code=1)] == [("TW023", "error")]


@pytest.mark.parametrize("verb", [("suspend",), ("cancel", "--orphan")])
def test_the_run_can_be_stopped(begun: Repository, verb: tuple[str, ...]) -> None:
    edit(begun, "prod/environment.yaml", "capacity: 64", "capacity: 8")
    result = begun.run(*verb, "prod/llm")
    assert result.exit_code == 0, result.output
    assert begun.run("render").exit_code == 0
    assert all(found[1] == "warning" for found in _check(begun))


def test_a_finished_run_needs_no_pool(begun: Repository) -> None:
    assert begun.run("retire", "prod/llm").exit_code == 0
    assert begun.run("render").exit_code == 0
    edit(begun, "prod/environment.yaml", "capacity: 64", "capacity: 8")
    assert _check(begun) == []


def test_a_role_whose_pool_became_too_small(begun: Repository) -> None:
    edit(begun, "prod/environment.yaml", "targets: {", "targets: {jobset: {}, ")
    begun.job(
        "prod/rl",
        "target: jobset\nroles: {vllm: {nodes: 1, pool: l4, entrypoint: {script: serve.py}, "
        "port: 8000, resources: {cpu: '8', memory: 16Gi, gpu: 8}}}\n",
    )
    result = begun.run("render")
    assert result.exit_code == 0, result.output
    edit(begun, "prod/environment.yaml", "capacity: 8}", "capacity: 4}")
    assert ("TW023", "warning", f"{ENVIRONMENT}:8") in _check(begun)


def test_a_pool_that_has_no_accelerators_any_more(begun: Repository) -> None:
    edit(
        begun,
        "prod/environment.yaml",
        "resource: nvidia.com/gpu, gpusPerNode: 8, capacity",
        "capacity",
    )
    assert ("TW023", "warning", f"{ENVIRONMENT}:7") in _check(begun)
