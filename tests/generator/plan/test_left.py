"""Runs that left git in earlier merges and go on: they hold what later merges would like to have."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import git_repository
import trainwright.api
from git_repository import git
from repository import Copied, Repository
from trainwright.cluster.errors import ClusterError
from trainwright.cluster.status import RunStatus, Unread
from trainwright.kinds.state import Phase, State
from trainwright.overview.collect import overview
from trainwright.overview.timeline import timeline
from trainwright.overview.trouble import troubles
from trainwright.runs.workspace import RunState

POOLS = """\
pools:
  h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 16, pricePerGpuHour: 2}
budget: {gpuHours: 100}
defaults: {pool: h100, resources: {gpu: 4}}
"""
THAT_DAY = "2026-01-01"  # of all commits
NEXT_DAY = "2026-01-02"


def _begin(folder: Path) -> None:
    made = Repository(git_repository.init(folder))
    made.environment("prod", POOLS)
    made.job("prod/llm")
    made.job("prod/other")
    merged(made)


@pytest.fixture
def prod(copied: Copied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """Two runs of 8 GPUs for 2 hours in a pool of 16."""
    monkeypatch.setenv("TRAINWRIGHT_TODAY", THAT_DAY)
    return copied(_begin, tmp_path / "clone")


def merged(repository: Repository) -> None:
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root)


def edit(repository: Repository, job: str, old: str, new: str, environment: str = "prod") -> None:
    path = repository.root / f"environments/{environment}/jobs/{job}.yaml"
    path.write_text(path.read_text().replace(old, new))


def replaced(repository: Repository) -> None:
    edit(repository, "llm", "nodes: 2", "nodes: 1")


def cancelled(repository: Repository) -> None:
    edit(repository, "llm", "nodes: 2", "nodes: 2\nstate: cancelled")


def removed(repository: Repository) -> None:
    (repository.root / "environments/prod/jobs/llm.yaml").unlink()


def planned(repository: Repository) -> dict[str, Any]:
    """The only environment of the plan of a merge that makes the other job larger by 4 GPUs."""
    edit(repository, "other", "nodes: 2", "nodes: 3\nstate: active")
    done = repository.run("plan", "--against", "HEAD", "-o", "json")
    (environment,) = json.loads(done.stdout)["plan"]["environments"]
    pool = next(it for it in environment["capacity"] if it["what"] == "pool h100")
    sides = {side: environment[side]["gpus"]["low"] for side in ("before", "after")}
    left = [(it["object"].rpartition("-")[0], it["job"]) for it in environment["left"]]
    return {
        **sides,
        "need": pool["need"],
        "before short": pool["shortBefore"],
        "left": left,
    }


GONE = pytest.mark.parametrize(("leave", "there"), [(replaced, 20), (cancelled, 16), (removed, 16)])


@GONE
def test_what_left_git_counts_in_later_plans(
    leave: Callable[[Repository], None], there: int, prod: Repository
) -> None:
    leave(prod)
    merged(prod)
    assert planned(prod) == {
        "before": there,
        "after": there + 12,  # the other job's old run goes on as well
        "need": there + 12,
        "before short": there - 16,
        "left": [("llm", "prod/llm")],
    }
    text = prod.run("plan", "--against", "HEAD").stdout
    assert "\nprod counts 1 run no longer in git: llm-" in text
    assert " holds 8 GPUs until `kubectl --namespace training delete pytorchjob/llm-" in text


def test_a_chain_of_runs_counts(prod: Repository) -> None:
    for nodes in (1, 2, 1):
        edit(prod, "llm", f"nodes: {3 - nodes}", f"nodes: {nodes}")
        merged(prod)
    found = planned(prod)
    assert (found["before"], len(found["left"])) == (4 + 8 + 8 + 4 + 8, 3)
    edit(prod, "llm", "nodes: 1", "nodes: 3")
    merged(prod)
    edit(prod, "llm", "nodes: 3", "nodes: 4")
    text = prod.run("plan", "--against", "HEAD").stdout
    line = next(it for it in text.splitlines() if it.startswith("prod counts "))
    assert line.startswith("prod counts 5 runs no longer in git: llm-")
    assert line.endswith(", which hold 32 GPUs until they are deleted")


def test_a_run_counts_no_longer_than_it_may_train(
    prod: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced(prod)
    merged(prod)
    monkeypatch.setenv("TRAINWRIGHT_TODAY", NEXT_DAY)
    found = planned(prod)
    assert (found["before"], found["left"]) == (12, [])


@pytest.mark.parametrize(
    ("target", "today", "counts"),
    [
        ("jobset", "2026-01-03", True),  # each of the three attempts has the 20 hours anew
        ("jobset", "2026-01-05", False),
        ("pytorchjob", "2026-01-03", False),  # all of them have these together
    ],
)
def test_a_run_counts_as_long_as_its_attempts_may_take(
    target: str, today: str, counts: bool, prod: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    prod.edit("prod/environment.yaml", "targets: {", "targets: {jobset: {}, ")
    prod.edit("prod/environment.yaml", "{pool: h100", "{target: pytorchjob, pool: h100")
    edit(prod, "llm", "maxDuration: 2h\n", f"maxDuration: 20h\nretries: 2\ntarget: {target}\n")
    merged(prod)
    replaced(prod)
    merged(prod)
    monkeypatch.setenv("TRAINWRIGHT_TODAY", today)
    assert bool(planned(prod)["left"]) is counts


@pytest.mark.parametrize(("today", "counts"), [("2026-01-31", True), ("2026-02-01", False)])
def test_a_run_without_an_end_counts_for_a_month(
    today: str, counts: bool, prod: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(prod, "llm", "maxDuration: 2h\n", "")
    merged(prod)
    replaced(prod)
    merged(prod)
    monkeypatch.setenv("TRAINWRIGHT_TODAY", today)
    assert bool(planned(prod)["left"]) is counts


def test_what_engines_delete_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINWRIGHT_TODAY", THAT_DAY)
    made = Repository(git_repository.init(tmp_path))
    made.environment("prod", f"{POOLS}gitops: {{prune: immediate}}\n")
    made.job("prod/llm")
    made.job("prod/other")
    merged(made)
    replaced(made)
    merged(made)
    found = planned(made)
    assert (found["before"], found["left"]) == (12, [])


@pytest.mark.parametrize(
    ("then", "now", "counts"),
    [("immediate", "confirm", False), ("confirm", "immediate", True)],
)
@pytest.mark.parametrize("engine", ["argocd", "flux"])
def test_a_run_counts_by_the_setting_of_the_merge_that_took_it_out(
    then: str, now: str, counts: bool, engine: str, prod: Repository
) -> None:
    """What a sync has deleted does not come back by another setting, and what it has kept stays."""
    path = prod.root / "environments/prod/environment.yaml"
    path.write_text(f"{path.read_text()}gitops: {{engine: {engine}, prune: {then}}}\n")
    merged(prod)
    edit(prod, "llm", "nodes: 2", "nodes: 3")  # whose object is rendered for that engine
    merged(prod)
    record = prod.root / "environments/prod/rendered/llm/run.lock"
    run = json.loads(record.read_text())["object"]
    edit(prod, "llm", "nodes: 3", "nodes: 1")
    merged(prod)
    path.write_text(path.read_text().replace(f"prune: {then}", f"prune: {now}"))
    merged(prod)
    built = trainwright.api.Repository(prod.root).build()
    (environment,) = overview(prod.root, built, today=THAT_DAY).environments
    assert (run in {it.object for it in environment.left}) is counts
    edit(prod, "other", "nodes: 2", "nodes: 3")
    text = prod.run("plan", "--against", "HEAD").stdout
    assert (run in text) is counts


def test_what_waits_suspended_holds_nothing(prod: Repository) -> None:
    edit(prod, "llm", "nodes: 2", "nodes: 2\nstate: suspended")
    merged(prod)
    removed(prod)
    merged(prod)
    found = planned(prod)
    assert (found["before"], found["left"]) == (8, [])


def test_what_finished_by_the_ledger_holds_nothing(prod: Repository) -> None:
    assert prod.run("retire", "prod/llm").exit_code == 0
    merged(prod)
    found = planned(prod)
    assert (found["before"], found["left"]) == (8, [])


def test_a_merge_that_brings_a_run_back_counts_it_once(prod: Repository) -> None:
    replaced(prod)
    merged(prod)
    git(prod.root, "revert", "--no-edit", "HEAD")
    git(prod.root, "branch", "base", "HEAD~1")
    done = prod.run("plan", "--against", "base", "-o", "json")
    (environment,) = json.loads(done.stdout)["plan"]["environments"]
    assert [environment[side]["gpus"]["low"] for side in ("before", "after")] == [20, 20]
    assert environment["left"] == []


@pytest.fixture
def gone(prod: Repository) -> Repository:
    """The same, in a repository that has another environment, and no longer this one."""
    prod.environment("dev", POOLS)
    prod.job("dev/other")
    merged(prod)
    shutil.rmtree(prod.root / "environments/prod")
    return prod


@pytest.mark.parametrize("folder", ["", " (wiring/prod)"])
def test_a_removed_environment_is_named_with_what_it_had(folder: str, prod: Repository) -> None:
    wiring = prod.root / "wiring/prod"
    if folder:
        wiring.mkdir(parents=True)
        (wiring / "appproject.yaml").write_text("kind: AppProject\n")
    prod.environment("dev", POOLS)
    prod.job("dev/other")
    assert prod.run("retire", "prod/other").exit_code == 0
    merged(prod)
    shutil.rmtree(prod.root / "environments/prod")
    shutil.rmtree(wiring, ignore_errors=True)
    first, second, *lines = prod.run("plan", "--against", "HEAD").stdout.splitlines()
    assert first == "Removes environment prod · leaves 1 job running"
    assert second.startswith(
        "environment prod is removed, with its ledger of 1 finished run (other-"
    )
    assert second.endswith(
        f"; its Argo CD or Flux objects{folder} stay in the cluster, and sync a folder that is "
        "gone: delete them"
    )
    assert re.search(r"^prod \(removed\) +pool h100 +8 GPUs +16 ", "\n".join(lines), re.MULTILINE)


def test_runs_of_a_removed_environment_count_in_later_plans(gone: Repository) -> None:
    git_repository.commit(gone.root)
    edit(gone, "other", "nodes: 2", "nodes: 1", "dev")
    done = gone.run("plan", "--against", "HEAD", "-o", "json")
    _, environment = json.loads(done.stdout)["plan"]["environments"]
    assert (environment["name"], environment["removed"]) == ("prod", True)
    assert [environment[side]["gpus"]["low"] for side in ("before", "after")] == [16, 16]
    assert len(environment["left"]) == 2
    text = gone.run("plan", "--against", "HEAD").stdout
    assert "\nprod (removed) counts 2 runs no longer in git: llm-" in text
    assert " holds 8 GPUs until `kubectl --namespace training delete pytorchjob/llm-" in text
    assert re.search(r"^prod \(removed\) +pool h100 +16 GPUs +32 ", text, re.MULTILINE)
    assert "(removed)" not in gone.run("plan", "dev", "--against", "HEAD").stdout


def test_runs_of_a_renamed_environment_have_not_left(prod: Repository) -> None:
    environments = prod.root / "environments"
    (environments / "prod").rename(environments / "live")
    merged(prod)
    done = prod.run("plan", "--against", "HEAD", "-o", "json")
    (environment,) = json.loads(done.stdout)["plan"]["environments"]
    assert (environment["name"], environment["left"]) == ("live", [])


@pytest.mark.parametrize("all_of_them", [False, True])
def test_what_left_git_counts_where_its_environment_is_renamed(
    all_of_them: bool, prod: Repository
) -> None:
    """In reports and in later plans, also where no run has gone on since."""
    replaced(prod)
    merged(prod)
    (prod.root / "environments/prod").rename(prod.root / "environments/live")
    if all_of_them:
        edit(prod, "llm", "nodes: 1", "nodes: 3", "live")
        edit(prod, "other", "nodes: 2", "nodes: 1", "live")
    gpus = 8 + (4 + 8 + 12 + 4 if all_of_them else 4 + 8)
    for render in (True, False):  # a report counts what is not rendered yet
        built = trainwright.api.Repository(prod.root).build()
        (environment,) = (found := overview(prod.root, built, today=THAT_DAY)).environments
        assert (environment.title, environment.active.gpus.low) == ("live", gpus)
        assert {fit.what: fit.need for fit in environment.fits}["pool h100"] == gpus
        waiting = next(it for it in troubles(found) if it.kind == "waiting for deletion")
        names = ["live/llm", "live/llm", "live/other"] if all_of_them else ["live/llm"]
        assert sorted(it.name for it in waiting.items) == names
        if render:
            merged(prod)
    edit(prod, "other", "nodes: ", "retries: 3\nnodes: ", "live")
    done = prod.run("plan", "--against", "HEAD", "-o", "json")
    (later,) = json.loads(done.stdout)["plan"]["environments"]
    assert (later["name"], later["before"]["gpus"]["low"]) == ("live", gpus)
    assert {it["job"] for it in later["left"]} == {*names}


def test_the_report_counts_it_and_names_what_ends_it(prod: Repository) -> None:
    replaced(prod)
    merged(prod)
    built = trainwright.api.Repository(prod.root).build()
    (environment,) = (found := overview(prod.root, built, today=THAT_DAY)).environments
    assert environment.active.gpus.low == 20
    assert {fit.what: fit.need for fit in environment.fits}["pool h100"] == 20
    (item,) = next(it for it in troubles(found) if it.kind == "waiting for deletion").items
    assert item.name == "prod/llm"
    why = r"llm-\w+ holds 8 GPUs until it is deleted"
    assert re.fullmatch(why, item.why)
    later = overview(prod.root, built, today=NEXT_DAY)
    assert later.environments[0].active.gpus.low == 12


def test_the_report_has_a_cancelled_run_that_goes_on_at_its_job(prod: Repository) -> None:
    cancelled(prod)
    merged(prod)
    built = trainwright.api.Repository(prod.root).build()
    found = overview(prod.root, built, today=THAT_DAY)
    (environment,) = found.environments
    (job,) = (it for it in environment.rows if it.left)
    assert (str(job.file), job.status) == ("prod/llm", "cancelled, may still run")
    assert job.held.gpus.low == 8
    waiting = next(it for it in troubles(found) if it.kind == "waiting for deletion")
    assert (waiting.of_jobs, [it.name for it in waiting.items]) == (True, ["prod/llm"])


def test_the_report_keeps_the_runs_of_a_removed_environment(gone: Repository) -> None:
    gone.job("dev/more")
    git_repository.commit(gone.root)
    built = trainwright.api.Repository(gone.root).build()
    found = overview(gone.root, built, today=THAT_DAY)
    _, environment = found.environments
    assert environment.title == "prod (removed)"
    assert environment.active.gpus.low == 16
    assert [(str(it.file), it.status) for it in environment.rows] == [
        ("prod/llm", "not in git, may still run"),
        ("prod/other", "not in git, may still run"),
    ]
    waiting = next(it for it in troubles(found) if it.kind == "waiting for deletion")
    assert [item.name for item in waiting.items] == ["prod/llm", "prod/other"]
    selected = trainwright.api.Repository(gone.root).build(("dev/other",))
    some = overview(gone.root, selected, today=THAT_DAY)
    assert [it.name for it in some.environments] == ["dev"]


@pytest.mark.parametrize(
    ("phase", "gpus"),
    [(Phase.RUNNING, 20), (Phase.SUCCEEDED, 12), (None, 12), ("unread", 20)],
)
def test_the_report_counts_what_the_cluster_has(
    phase: Phase | str | None, gpus: int, prod: Repository
) -> None:
    """Where it was read: `report --live`."""
    replaced(prod)
    merged(prod)
    workspace = trainwright.api.Repository(prod.root).build()
    (old,) = overview(prod.root, workspace, today=THAT_DAY).environments[0].left
    status = RunStatus(
        environment="prod",
        job="llm",
        object=old.object if isinstance(phase, Phase) else "another",
        kind="PyTorchJob",
        desired=RunState.NOT_IN_GIT,
        state=State(phase=phase if isinstance(phase, Phase) else Phase.RUNNING),
    )
    unread = (
        [Unread(environment="prod", namespace="training", error=ClusterError("none"))]
        if phase == "unread"
        else []
    )
    found = overview(prod.root, workspace, [status], unread=unread, today=THAT_DAY)
    assert found.environments[0].active.gpus.low == gpus


def _unready(repository: Repository) -> dict[str, list[str]]:
    """The jobs that need attention in a report, by kind."""
    built = trainwright.api.Repository(repository.root).build()
    found = troubles(overview(repository.root, built, today=THAT_DAY))
    return {it.kind: [item.name for item in it.items] for it in found}


@GONE
def test_the_report_of_an_unrendered_edit_counts_as_the_plan_does(
    leave: Callable[[Repository], None], there: int, prod: Repository
) -> None:
    leave(prod)
    built = trainwright.api.Repository(prod.root).build()
    (environment,) = overview(prod.root, built, today=THAT_DAY).environments
    assert environment.active.gpus.low == there
    stale = [] if leave is removed else ["prod/llm"]
    assert _unready(prod).get("not rendered", []) == stale
    merged(prod)
    assert "not rendered" not in _unready(prod)


def test_a_run_that_goes_on_is_not_over_in_the_timeline(prod: Repository) -> None:
    replaced(prod)
    merged(prod)
    built = trainwright.api.Repository(prod.root).build()
    bars = {
        today: {bar["kind"] for bar in timeline(overview(prod.root, built, today=today))["bars"]}
        for today in (THAT_DAY, NEXT_DAY)
    }
    assert bars == {THAT_DAY: {"began"}, NEXT_DAY: {"began", "over"}}
