"""A budget has one number in check, plan and report, and a required one stops a merge."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import git_repository
from repository import Copied, Repository

POOLS = """\
pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8}}
gitops: {prune: confirm}
budget: {gpuHours: 100}
"""
REQUIRED = "severities: {TW034: required}\n"
OVER = re.compile(r"the runs of prod(?:, [0-9]+ no longer in git,)? request ([0-9]+) GPU-hours")
SHOWN = re.compile(r"([0-9]+) of 100 GPU-hours")


def _prod(folder: Path) -> None:
    """Two jobs of 2 nodes with 8 GPUs for 2 hours: 64 GPU-hours."""
    made = Repository(git_repository.init(folder))
    made.environment("prod", POOLS)
    for name in ("llm", "vit"):
        path = made.job(f"prod/{name}", "pool: h100\n")
        path.write_text(path.read_text().replace("memory: 1Gi}", "memory: 1Gi, gpu: 8}"))
    done = made.run("render")
    assert done.exit_code == 0, done.output
    git_repository.commit(made.root)


def _numbers(repository: Repository, against: str) -> set[int]:
    """The GPU-hours of the budget that each verb says, all of which exceed it."""
    plan = json.loads(repository.run("plan", "--against", against, "-o", "json").stdout)["plan"]
    (prod,) = plan["environments"]
    (budget,) = [it for it in prod["capacity"] if it["what"] == "budget"]
    said = [OVER.search(repository.run("check", "--against", against).stdout)]
    said += [OVER.search(it["message"]) for it in plan["findings"] if it["rule"] == "TW034"]
    said += [SHOWN.search(repository.run("report").stdout)]
    assert len(said) == 3
    return {int(budget["need"]), *(int(it.group(1)) if it else 0 for it in said)}


def test_a_run_that_goes_on_counts_in_each_verb_until_it_ends(
    copied: Copied, tmp_path: Path
) -> None:
    """Whether what replaces it is rendered or committed yet, and however often it is replaced."""
    prod = copied(_prod, tmp_path / "clone")
    main = git_repository.git(prod.root, "rev-parse", "HEAD").strip()
    git_repository.git(prod.root, "checkout", "--quiet", "-b", "branch")
    prod.edit("prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    assert _numbers(prod, main) == {32 + 32 + 48}
    assert prod.run("render").exit_code == 0
    assert _numbers(prod, main) == {32 + 32 + 48}
    git_repository.commit(prod.root)
    assert _numbers(prod, main) == {32 + 32 + 48}
    prod.edit("prod/jobs/llm.yaml", "nodes: 3", "nodes: 4")
    assert prod.run("render").exit_code == 0
    git_repository.commit(prod.root)
    assert _numbers(prod, main) == {32 + 32 + 64}  # the one of 3 nodes was never applied
    (prod.root / "environments/prod/jobs/llm.yaml").unlink()
    assert "TW034" not in prod.run("check").stdout  # 64, with the run that is left
    vit = prod.root / "environments/prod/jobs/vit.yaml"
    vit.write_text(vit.read_text().replace("nodes: 2", "nodes: 3"))
    assert _numbers(prod, main) == {32 + 32 + 48}  # the first two go on


def test_a_job_with_errors_counts_with_the_run_that_goes_on(copied: Copied, tmp_path: Path) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    vit = prod.root / "environments/prod/jobs/vit.yaml"
    vit.write_text(vit.read_text().replace("nodes: 2", "nodez: 2"))
    assert _numbers(prod, "HEAD") == {32 + 32 + 48}


def test_an_edit_that_waits_for_the_next_run_counts_with_that(
    copied: Copied, tmp_path: Path
) -> None:
    """What a live object does not take is known once it is rendered, which check does, too."""
    prod = copied(_prod, tmp_path / "clone")
    trainjobs = "targets: {trainjob: {version: '2.3'}}"
    environment = prod.root / "environments/prod/environment.yaml"
    text = re.sub(r"(?m)^targets: .*$", trainjobs, environment.read_text())
    environment.write_text(text.replace("gpuHours: 100", "gpuHours: 10"))
    for name in ("llm", "vit"):
        path = prod.root / f"environments/prod/jobs/{name}.yaml"
        path.write_text(path.read_text().replace("name: ", "target: trainjob\nname: ", 1))
    assert prod.run("render").exit_code == 0
    git_repository.commit(prod.root)
    before = _hours(prod)
    prod.edit("prod/jobs/llm.yaml", "maxDuration: 2h", "maxDuration: 4h")
    assert _hours(prod) == before


def _hours(repository: Repository) -> list[str]:
    """The GPU-hours that check and report say."""
    said = OVER.search(repository.run("check").stdout)
    shown = re.search(r"([0-9]+) of 10 GPU-hours", repository.run("report").stdout)
    assert said is not None
    assert shown is not None
    assert said.group(1) == shown.group(1)
    return [said.group(1)]


def test_a_required_budget_stops_a_merge(copied: Copied, tmp_path: Path) -> None:
    prod = copied(_prod, tmp_path / "clone")
    environment = prod.root / "environments/prod/environment.yaml"
    environment.write_text(environment.read_text() + REQUIRED)
    git_repository.commit(prod.root)
    for verb in (("check",), ("render", "--check"), ("plan", "--against", "HEAD")):
        assert prod.run(*verb).exit_code == 0
    prod.edit("prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    for verb in (("check",), ("render", "--check"), ("plan", "--against", "HEAD")):
        done = prod.run(*verb)
        assert done.exit_code == 1
        over = "the runs of prod, 1 no longer in git, request 112 GPU-hours, the budget is 100: 12"
        assert f"error[TW034]: {over} more than that" in done.output
    plan = json.loads(prod.run("plan", "--against", "HEAD", "-o", "json").stdout)["plan"]
    assert plan["blocked"] is True


@pytest.mark.parametrize(
    ("extra", "severity"),
    [("", "note"), ("severities: {TW034: warning}\n", "warning")],
)
def test_other_budgets_are_findings_of_a_plan(
    extra: str, severity: str, copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_prod, tmp_path / "clone")
    environment = prod.root / "environments/prod/environment.yaml"
    environment.write_text(environment.read_text() + extra)
    git_repository.commit(prod.root)
    prod.edit("prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    done = prod.run("plan", "--against", "HEAD", "-o", "json")
    assert done.exit_code == 0
    found = [it for it in json.loads(done.stdout)["plan"]["findings"] if it["rule"] == "TW034"]
    assert [it["severity"] for it in found] == [severity]
