"""Verbs that edit specs: the lines that matter, what they render to, and the commit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import git_repository
from git_repository import git
from repository import Repository
from trainwright.files import filetree
from trainwright.lifecycle.subject import Step, Subject

BASE = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: common
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
resources: {cpu: "1", memory: 1Gi}
maxDuration: 2h
"""
DERIVED = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
extends: base/common
"""


def spec(repository: Repository, job: str) -> Path:
    environment, _, name = job.partition("/")
    return repository.root / f"environments/{environment}/jobs/{name}.yaml"


def rendered(repository: Repository, job: str) -> dict:
    environment, _, name = job.partition("/")
    folder = repository.root / f"environments/{environment}/rendered/{name}"
    return yaml.safe_load((folder / "pytorchjob.yaml").read_text())


def left(repository: Repository, job: str) -> list[str]:
    """What lies in a job's rendered folder: the record alone where nothing is to be applied."""
    environment, _, name = job.partition("/")
    folder = repository.root / f"environments/{environment}/rendered/{name}"
    return sorted(path.name for path in folder.iterdir())


def fine(repository: Repository, *arguments: str) -> str:
    result = repository.run(*arguments)
    assert result.exit_code == 0, result.output
    done = repository.run("render", "--check")
    assert done.exit_code == 0, done.output
    return result.stderr


def refused(repository: Repository, *arguments: str) -> str:
    before = snapshot(repository)
    result = repository.run(*arguments)
    assert result.exit_code in (1, 2), result.output
    assert snapshot(repository) == before
    return result.stderr


def snapshot(repository: Repository) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for path in repository.root.glob("environments/**/*")
        if path.is_file()
    }


# --- suspend, resume, cancel ---------------------------------------------------------------------


STATES = {
    "absent": "",
    "with a comment": "state: active   # as agreed\nnodeSelector: {a: b}\n",
    "at the end without a comment": "state: active\n",
    "quoted": "state: 'active'\n",
    "below a literal block": "description: |\n  one\n  two\n\n# the end\n",
    "without a final newline": "\n\nretries: 1",
    "aligned": "state:    active\nretries:  1\n",
}


@pytest.mark.parametrize("extra", STATES.values(), ids=STATES)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_suspend_then_resume_restores_every_byte(
    extra: str, newline: str, repository: Repository
) -> None:
    path = repository.job("prod/bert", extra)
    path.write_bytes(path.read_bytes().replace(b"\n", newline.encode()))
    path.chmod(0o640)
    assert repository.run("render").exit_code == 0
    before = snapshot(repository)
    assert fine(repository, "suspend", "prod/bert").startswith("prod/bert suspended\n")
    assert rendered(repository, "prod/bert")["spec"]["runPolicy"]["suspend"] is True
    fine(repository, "resume", "prod/bert")
    assert snapshot(repository) == before
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("inherited", ["active", "suspended"])
def test_a_state_that_is_inherited_is_overridden_and_the_override_goes_again(
    inherited: str, repository: Repository
) -> None:
    repository.write("base/jobs/common.yaml", f"{BASE}state: {inherited} # for all\n")
    path = repository.write("prod/jobs/llm.yaml", DERIVED)
    assert repository.run("render").exit_code == 0
    before = snapshot(repository)
    there, back = ("suspend", "resume") if inherited == "active" else ("resume", "suspend")
    fine(repository, there, "prod/llm")
    assert path.read_text().startswith(f"{DERIVED}state: ")
    fine(repository, back, "prod/llm")
    assert snapshot(repository) == before


def test_the_run_keeps_its_name_while_it_is_suspended(repository: Repository) -> None:
    name = rendered(repository, "prod/llm")["metadata"]["name"]
    fine(repository, "suspend", "prod/llm")
    assert rendered(repository, "prod/llm")["metadata"]["name"] == name


def test_a_state_that_is_there_already_changes_nothing(repository: Repository) -> None:
    assert "is not suspended" in fine(repository, "resume", "prod/llm")
    fine(repository, "suspend", "prod/llm")
    assert "is suspended already" in fine(repository, "suspend", "prod/llm", "--commit")
    fine(repository, "cancel", "prod/llm", "--orphan")
    assert "is cancelled already" in fine(repository, "cancel", "prod/llm")


def test_what_is_cancelled_leaves_the_tree_and_comes_back_only_as_a_new_run(
    repository: Repository,
) -> None:
    before = rendered(repository, "prod/llm")["metadata"]["name"]
    fine(repository, "cancel", "prod/llm", "--orphan")
    assert left(repository, "prod/llm") == ["run.lock"]
    assert "  cancelled  " in repository.run("list").stdout
    assert "`trainwright rerun prod/llm`" in refused(repository, "resume", "prod/llm")
    assert "git has nothing of it to suspend" in refused(repository, "suspend", "prod/llm")
    fine(repository, "rerun", "prod/llm")
    assert "state" not in spec(repository, "prod/llm").read_text()
    assert rendered(repository, "prod/llm")["metadata"]["name"] != before


def test_a_selection_skips_what_the_verb_cannot_do(repository: Repository) -> None:
    fine(repository, "cancel", "prod/llm", "--orphan")
    message = fine(repository, "suspend", "prod")
    assert message.startswith("prod/llm is cancelled: git has nothing of it to suspend\n")
    assert "prod/mnist suspended\n" in message


def test_what_the_rules_refuse_is_not_written(repository: Repository) -> None:
    repository.environment("prod", "queueing: kueue\nqueues: {team: {}}\n")
    repository.job("prod/llm", "queue: team\n")
    assert repository.run("render").exit_code == 0
    message = refused(repository, "suspend", "prod/llm")
    assert "Kueue owns the field" in message
    assert "spec.active: false in its Workload" in message
    assert "suspended\n" not in message  # as if it were done


def test_nothing_is_said_to_be_done_that_has_errors(repository: Repository) -> None:
    path = repository.job("prod/llm", "pool: gone\n")
    message = refused(repository, "rerun", "prod/llm")
    assert "runs again" not in message
    assert str(path.relative_to(repository.root)) in message


# --- what a GitOps engine does not end -----------------------------------------------------------

KUEUE = "queueing: kueue\nqueues: {team: {}}\n"
FLUX = "gitops: {engine: flux}\n"
DELETION = "kubectl --namespace training delete pytorchjob/"


def _in(repository: Repository, environment: str, extra: str = "") -> str:
    """The name of a run that begins in an environment of a kind, as others do there."""
    repository.environment("prod", environment)
    queue = "queue: team\n" if "kueue" in environment else ""
    repository.job("prod/llm", f"run: 2\n{extra}{queue}")
    repository.job("prod/mnist", "run: 2\n")
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root, "Begin others")
    return str(rendered(repository, "prod/llm")["metadata"]["name"])


def test_cancel_is_refused_where_flux_would_leave_a_run_running(repository: Repository) -> None:
    name = _in(repository, FLUX)
    message = refused(repository, "cancel", "prod/llm")
    assert f"{name} would go on" in message
    assert "`trainwright suspend prod/llm`" in message
    assert f"`kubectl --namespace training delete pytorchjob/{name}`" in message
    assert "cancelled\n" not in message
    fine(repository, "suspend", "prod/llm")
    message = fine(repository, "cancel", "prod/llm")  # without pods it costs nothing
    assert message.startswith("prod/llm cancelled\n")
    assert f"{name} stays in the cluster until `kubectl" in message


def test_cancel_in_a_queue_under_flux_names_the_one_way_that_there_is(
    repository: Repository,
) -> None:
    name = _in(repository, FLUX + KUEUE)
    message = refused(repository, "cancel", "prod/llm")
    assert "trainwright suspend" not in message
    assert "`trainwright cancel prod/llm --orphan`" in message
    assert f"delete pytorchjob/{name}`" in message
    message = fine(repository, "cancel", "prod/llm", "--orphan")
    assert f"{name} stays in the cluster until `kubectl" in message
    assert "state: cancelled" in spec(repository, "prod/llm").read_text()
    # By the next commit it may not have been deleted.
    message = fine(repository, "rerun", "prod/llm")
    assert f"{name} stays in the cluster until `kubectl" in message


def test_what_is_not_committed_is_not_done_yet(repository: Repository) -> None:
    _in(repository, "")
    told = "Commit it: nothing of it happens before it is merged and applied.\n"
    assert told not in fine(repository, "suspend", "prod/llm", "--dry-run")
    assert fine(repository, "suspend", "prod/llm").endswith(told)
    assert told not in fine(repository, "suspend", "prod/llm")  # which changes nothing


def test_the_command_names_what_was_rendered_beside_a_run(repository: Repository) -> None:
    name = _in(repository, FLUX, "network: isolated\n")
    message = refused(repository, "cancel", "prod/llm")
    assert f"`{DELETION}{name} networkpolicy/{name}`" in message


def test_the_command_names_them_once_it_was_cancelled_too(repository: Repository) -> None:
    """The record of a run that was cancelled has no objects."""
    name = _in(repository, FLUX, "network: isolated\n")
    fine(repository, "cancel", "prod/llm", "--orphan")
    message = fine(repository, "rerun", "prod/llm")
    assert f"`{DELETION}{name} networkpolicy/{name}`" in message


def test_a_release_of_flux_is_what_has_to_be_deleted(repository: Repository) -> None:
    name = _in(repository, "gitops: {engine: flux, mode: chart, chart: {path: chart}}\n")
    message = refused(repository, "cancel", "prod/llm")
    assert f"`kubectl --namespace flux-system delete helmrelease/training-prod-{name}`" in message


@pytest.mark.parametrize("queueing", ["", KUEUE], ids=["no queue", "Kueue"])
@pytest.mark.parametrize("engine", ["argocd", "flux"])
def test_what_prunes_at_once_needs_nothing_more(
    engine: str, queueing: str, repository: Repository
) -> None:
    _in(repository, f"gitops: {{engine: {engine}, prune: immediate}}\n{queueing}")
    assert "stays in the cluster" not in fine(repository, "cancel", "prod/llm")


@pytest.mark.parametrize(
    ("engine", "own"),
    [
        ("argocd", "annotations: {argocd.argoproj.io/sync-options: Prune=false}\n"),
        ("flux", "annotations: {kustomize.toolkit.fluxcd.io/prune: disabled}\n"),
        ("flux", "labels: {kustomize.toolkit.fluxcd.io/prune: disabled}\n"),
    ],
)
def test_what_a_run_keeps_from_its_engine_goes_on(
    engine: str, own: str, repository: Repository
) -> None:
    name = _in(repository, f"gitops: {{engine: {engine}, prune: immediate}}\n", own)
    assert f"{name} would go on" in refused(repository, "cancel", "prod/llm")


@pytest.mark.parametrize("queueing", ["", KUEUE], ids=["no queue", "Kueue"])
@pytest.mark.parametrize(
    "gitops",
    [
        "",
        FLUX,
        "gitops: {applications: environment}\n",
        "gitops: {engine: none}\n",
    ],
)
@pytest.mark.parametrize("verb", [("cancel", "--orphan"), ("rerun",), ("retire",)])
def test_what_a_user_has_to_do_is_shown(
    verb: tuple[str, ...], gitops: str, queueing: str, repository: Repository
) -> None:
    name = _in(repository, gitops + queueing)
    message = fine(repository, *verb, "prod/llm")
    assert f"{name} stays in the cluster until `{DELETION}{name}`\n" in message


MOVED = {
    "another namespace": (
        "gitops: {engine: none}\n",
        ("namespace: training", "namespace: elsewhere"),
        DELETION,
    ),
    "a protection less": (
        "gitops: {prune: confirm}\n",
        ("prune: confirm", "prune: immediate"),
        DELETION,
    ),
    "a wiring that deletes nothing, whatever the run says": (
        "gitops: {engine: flux, prune: immediate}\n",
        ("engine: flux, prune: immediate", "engine: argocd"),
        DELETION,
    ),
    "one that deletes, whatever the run says to another": (
        "gitops: {engine: flux}\n",
        ("engine: flux", "engine: argocd, prune: immediate"),
        "",
    ),
    "an engine that leaves nothing": (
        "gitops: {engine: argocd}\n",
        ("engine: argocd", "engine: none"),
        DELETION,
    ),
}


@pytest.mark.parametrize("verb", [("cancel", "--orphan"), ("rerun",), ("retire",)])
@pytest.mark.parametrize("moved", MOVED)
def test_a_run_ends_as_it_is_wired_and_where_it_is(
    moved: str, verb: tuple[str, ...], repository: Repository
) -> None:
    gitops, edit, command = MOVED[moved]
    name = _in(repository, gitops)
    git_repository.commit(repository.root, "Begin")
    path = repository.root / "environments/prod/environment.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace(*edit), encoding="utf-8")
    message = fine(repository, *verb, "prod/llm")
    if command:
        assert f"{name} stays in the cluster until `{command}{name}`\n" in message
    else:
        assert "stays in the cluster" not in message


def test_a_pattern_leaves_out_what_would_go_on(repository: Repository) -> None:
    _in(repository, FLUX)
    fine(repository, "suspend", "prod/mnist")
    message = fine(repository, "cancel", "prod")
    assert "prod/llm is not cancelled: " in message
    assert "prod/mnist cancelled\n" in message
    assert "state" not in spec(repository, "prod/llm").read_text()


def test_what_the_api_server_would_refuse_is_not_written(repository: Repository) -> None:
    targets = '\ntargets: {trainjob: {version: "2.3"}}\n'
    path = repository.environment("prod")
    text = "".join(line for line in path.read_text().splitlines(True) if "targets" not in line)
    path.write_text(text + targets)
    repository.job("prod/llm", "target: trainjob\n")
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root)
    message = refused(repository, "set", "prod/llm", "--max-duration", "+1h")
    assert "prod/llm cannot be changed while it runs: maxDuration waits for the" in message
    assert "for the next run, which `trainwright rerun prod/llm` begins" in message
    assert "immutable (/spec/activeDeadlineSeconds)" in message
    assert "may run" not in message


EXTENDED_ELSEWHERE = [
    # a runtime of its own has the deadline, and a run keeps the runtime that it began with
    ("trainjob", '{version: "2.0"}', "/spec/template/spec/replicatedJobs/0/template/spec/active"),
    ("trainjob", '{version: "2.1"}', "/spec/template/spec/replicatedJobs/0/template/spec/active"),
    ("jobset", "{}", "/spec/replicatedJobs/0/template/spec/activeDeadlineSeconds"),
]


@pytest.mark.parametrize("state", ["active", "suspended"])
@pytest.mark.parametrize(("target", "options", "pointer"), EXTENDED_ELSEWHERE)
def test_a_deadline_that_the_run_keeps_is_not_extended(
    target: str, options: str, pointer: str, state: str, repository: Repository
) -> None:
    path = repository.environment("prod")
    text = "".join(line for line in path.read_text().splitlines(True) if "targets" not in line)
    path.write_text(f"{text}\ntargets: {{{target}: {options}}}\n")
    repository.job("prod/llm", f"target: {target}\nstate: {state}\n")
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root)
    message = refused(repository, "set", "prod/llm", "--max-duration", "+6h")
    assert "prod/llm cannot be changed while it runs: maxDuration waits for the" in message
    assert f"({pointer}" in message
    assert "may run" not in message


@pytest.mark.parametrize("target", ["pytorchjob", "job"])
def test_a_deadline_that_is_read_from_the_object_is_extended(
    target: str, repository: Repository
) -> None:
    path = repository.environment("prod")
    text = "".join(line for line in path.read_text().splitlines(True) if "targets" not in line)
    path.write_text(f"{text}\ntargets: {{{target}: {{}}}}\n")
    repository.job("prod/llm", f"target: {target}\n")
    assert repository.run("render").exit_code == 0
    assert "may run 8h instead of 2h" in fine(
        repository, "set", "prod/llm", "--max-duration", "+6h"
    )


# --- rerun, extend -------------------------------------------------------------------------------


def test_rerun_raises_the_effective_number(repository: Repository) -> None:
    repository.write("base/jobs/common.yaml", f"{BASE}run: 4\n")
    path = repository.write("prod/jobs/llm.yaml", DERIVED)
    fine(repository, "rerun", "prod/llm")
    assert path.read_text() == f"{DERIVED}run: 5\n"
    fine(repository, "rerun", "prod/llm")
    assert path.read_text() == f"{DERIVED}run: 6\n"


def test_a_job_that_was_never_rendered_is_not_run_again(repository: Repository) -> None:
    fine(repository, "render")
    repository.job("prod/other")
    assert (
        refused(repository, "rerun", "prod/other")
        .strip()
        .endswith(
            "prod/other has no run yet, since it was never rendered: "
            "`trainwright render prod/other` starts it"
        )
    )
    fine(repository, "render")
    fine(repository, "rerun", "prod/other")


EXTENSIONS = [
    ("2h", "12h", "12h"),
    ("2h", "+6h", "8h"),
    ("90m", "+45m", "2h15m"),
    ("1d", "+12h", "1d12h"),
    ("1d", "+12h30s", "1d12h30s"),
    ("36h", "+1d", "60h"),
]


@pytest.mark.parametrize(("before", "by", "after"), EXTENSIONS)
def test_extend(before: str, by: str, after: str, repository: Repository) -> None:
    path = spec(repository, "prod/llm")
    path.write_text(path.read_text().replace("2h", f"{before} # enough"))
    assert repository.run("render").exit_code == 0
    name = rendered(repository, "prod/llm")["metadata"]["name"]
    fine(repository, "set", "prod/llm", "--max-duration", by)
    assert f"maxDuration: {after} # enough\n" in path.read_text()
    assert rendered(repository, "prod/llm")["metadata"]["name"] == name


def test_a_duration_is_what_is_added_or_all_of_it(repository: Repository) -> None:
    last = fine(repository, "set", "prod/llm", "--max-duration", "+6h", "--dry-run")
    assert "may run 8h instead of 2h" in last
    assert "8h instead of 2h" in fine(
        repository, "set", "prod/llm", "--max-duration", "8h", "--dry-run"
    )


def test_extend_never_shortens_and_reads_only_durations(repository: Repository) -> None:
    assert "may run 2h, which is more than 1h" in refused(
        repository, "set", "prod/llm", "--max-duration", "1h"
    )
    assert "is not a duration" in refused(
        repository, "set", "prod/llm", "--max-duration", "tomorrow"
    )
    assert "is not a duration" in refused(repository, "set", "prod/llm", "--max-duration", "+-1h")
    repository.job("prod/llm", "").write_text(
        spec(repository, "prod/llm").read_text().replace("maxDuration: 2h\n", "")
    )
    assert repository.run("render").exit_code == 0
    assert "has no maxDuration" in refused(repository, "set", "prod/llm", "--max-duration", "+1h")


# --- retire --------------------------------------------------------------------------------------


def test_a_retired_run_is_rendered_no_more_here_and_in_a_fresh_clone(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = rendered(repository, "prod/llm")["metadata"]["name"]
    note = ("--note", "accuracy 0.93")
    assert "unknown" in fine(repository, "retire", "prod/llm", *note, "--commit")
    assert left(repository, "prod/llm") == ["run.lock"]
    assert re.search(rf"{name} +retired: unknown ", repository.run("list").stdout)
    fine(repository, "retire", "prod/llm", "--outcome", "succeeded", "--commit")
    assert re.search(rf"{name} +retired: succeeded ", repository.run("list").stdout)
    ledger = (repository.root / "environments/prod/ledger.yaml").read_text()
    assert ledger.count(name) == ledger.count("accuracy 0.93") == 1
    git(tmp_path, "clone", "--quiet", str(repository.root), "clone")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    clone = Repository(tmp_path / "clone")
    assert clone.run("render").exit_code == 0
    assert git(clone.root, "status", "--porcelain") == ""
    assert clone.tree() == repository.tree()
    # with the cache, and without the rendered folder
    for path in (clone.root / "environments/prod/rendered").glob("*.*"):
        path.unlink()
    assert clone.run("render").exit_code == 0
    assert git(clone.root, "status", "--porcelain") == ""


def test_retiring_again_changes_nothing_and_a_change_of_the_spec_is_a_new_run(
    repository: Repository,
) -> None:
    fine(repository, "retire", "prod/llm", "--outcome", "failed", "--reason", "OOMKilled")
    assert "is retired already" in fine(repository, "retire", "prod/llm")
    assert "in the ledger" in refused(repository, "suspend", "prod/llm")
    assert "in the ledger" in fine(repository, "cancel", "prod/llm")  # git has nothing of it
    assert "is over" in refused(repository, "set", "prod/llm", "--max-duration", "+1h")
    path = spec(repository, "prod/llm")
    text = path.read_text()
    path.write_text(text.replace("maxDuration: 2h", "maxDuration: 3h # and a comment"))
    assert repository.run("render").exit_code == 0
    assert left(repository, "prod/llm") == ["run.lock"]
    path.write_text(text.replace("nodes: 2", "nodes: 1"))
    assert repository.run("render").exit_code == 0
    assert rendered(repository, "prod/llm")
    path.write_text(text)
    fine(repository, "rerun", "prod/llm")
    assert rendered(repository, "prod/llm")


def test_rerun_of_outdated_jobs_leaves_the_others(repository: Repository) -> None:
    repository.write("base/jobs/common.yaml", BASE)
    repository.write("prod/jobs/llm.yaml", DERIVED)
    fine(repository, "render")
    git_repository.commit(repository.root, "Extend")
    assert "stays llm-" in fine(repository, "rerun", "prod/*", "--outdated")
    repository.write("base/jobs/common.yaml", BASE.replace('"1.0"', '"2.0"'))
    fine(repository, "rerun", "prod/*", "--outdated")
    assert "run: 2" in spec(repository, "prod/llm").read_text()
    assert "run:" not in spec(repository, "prod/mnist").read_text()


def test_rerun_steps_over_numbers_of_runs_that_began(repository: Repository) -> None:
    """Those that finished, and the present one."""
    for _ in range(3):
        fine(repository, "retire", "prod/llm")
        fine(repository, "rerun", "prod/llm")
        git_repository.commit(repository.root)
    path = spec(repository, "prod/llm")
    path.write_text(path.read_text().replace("run: 4\n", ""))
    fine(repository, "rerun", "prod/llm")
    assert path.read_text().endswith("run: 5\n")


def test_rerun_after_a_rerun_that_was_reverted_is_another_run(repository: Repository) -> None:
    """The object of the reverted one may still be in the cluster, where nothing would begin."""
    fine(repository, "rerun", "prod/llm")
    git_repository.commit(repository.root, "Run again")
    first = rendered(repository, "prod/llm")
    git_repository.git(repository.root, "revert", "--no-edit", "HEAD")
    fine(repository, "rerun", "prod/llm")
    assert "run: 3" in spec(repository, "prod/llm").read_text()
    assert rendered(repository, "prod/llm")["metadata"]["name"] != first["metadata"]["name"]


def test_the_state_and_the_outcome_of_a_retired_run_are_two_values(repository: Repository) -> None:
    fine(repository, "retire", "prod/llm", "--outcome", "failed")
    items = json.loads(repository.run("list", "jobs", "-o", "json").stdout)["items"]
    found = {item["job"]: (item["state"], item["outcome"]) for item in items}
    assert found["prod/llm"] == ("retired", "failed")
    assert found["prod/mnist"] == ("active", "")
    assert "  retired: failed  " in repository.run("list", "jobs").stdout


def test_the_ledger_is_read_again_when_only_it_changes(repository: Repository) -> None:
    fine(repository, "retire", "prod")
    ledger = repository.root / "environments/prod/ledger.yaml"
    lines = ledger.read_text().splitlines(keepends=True)
    assert len(lines) == 7
    git_repository.commit(repository.root, "Retired")
    ledger.write_text("".join(line for line in lines if "llm" not in line))
    asked = repository.run("render")
    assert asked.exit_code == 1
    assert "TW054" in asked.output
    assert repository.run("render", "--new-runs").exit_code == 0
    assert rendered(repository, "prod/llm")
    assert left(repository, "prod/mnist") == ["run.lock"]


LEDGERS = {
    "not YAML": ("runs: [\n", "TW001"),
    "no ledger": ("kind: Ledger\n", "TW010"),
    "an unknown key": ("apiVersion: trainwright.io/v1alpha1\nkind: Ledger\nfinished: {}\n", "TW010"),
    "an entry of another job": (
        "apiVersion: trainwright.io/v1alpha1\nkind: Ledger\nruns:\n"
        f"  llm-{'a' * 8}: {{job: mnist, own: {'a' * 64}, outcome: failed}}\n",
        "TW050",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "rule"), LEDGERS.values(), ids=LEDGERS)
def test_with_a_broken_ledger_nothing_is_rendered(
    text: str, rule: str, repository: Repository
) -> None:
    repository.write("prod/ledger.yaml", text)
    before = snapshot(repository)
    result = repository.run("render")
    assert result.exit_code == 1
    assert f"error[{rule}]" in result.stderr
    assert "environments/prod/ledger.yaml:" in result.stderr
    assert snapshot(repository) == before
    assert repository.run("rerun", "prod/llm").exit_code == 2


def test_a_run_of_a_job_that_is_gone_is_noted(repository: Repository) -> None:
    fine(repository, "retire", "prod/llm")
    spec(repository, "prod/llm").unlink()
    result = repository.run("check")
    assert result.exit_code == 0
    assert "note[TW051]: llm-" in result.stdout
    assert "--> environments/prod/ledger.yaml:6:3" in result.stdout


def test_no_credential_enters_the_ledger(repository: Repository) -> None:
    message = refused(repository, "retire", "prod/llm", "--note", f"used hf_{'aB3' * 12}")
    assert "looks like a credential" in message
    assert "aB3" not in message


# --- commits, and what stays out of them ---------------------------------------------------------


def test_the_commit_has_the_spec_what_it_renders_to_and_nothing_else(
    repository: Repository,
) -> None:
    (repository.root / "other.txt").write_text("mine\n")
    git(repository.root, "add", "other.txt")
    spec(repository, "dev/mnist").write_text("# half an edit\n")
    fine_ = repository.run("suspend", "prod/llm", "--commit")
    assert fine_.exit_code == 0, fine_.output
    changed = git(repository.root, "show", "--name-only", "--format=", "HEAD").splitlines()
    assert changed == [
        "environments/prod/jobs/llm.yaml",
        "environments/prod/rendered/llm/pytorchjob.yaml",
        "environments/prod/rendered/llm/run.lock",
        "environments/prod/rendered/llm/values.yaml",
    ]
    assert git(repository.root, "status", "--porcelain") == (
        " M environments/dev/jobs/mnist.yaml\nA  other.txt"
    )
    message = git(repository.root, "show", "-s", "--format=%B", "HEAD")
    assert message == (
        "Suspend prod/llm\n\nprod/llm suspended\n\n"
        "Trainwright-Verb: suspend\nTrainwright-Job: prod/llm"
    )
    trailers = git(repository.root, "show", "-s", "--format=%(trailers:key=Trainwright-Job)")
    assert trailers == "Trainwright-Job: prod/llm"


def test_other_edits_are_never_committed(repository: Repository) -> None:
    path = spec(repository, "prod/llm")
    path.write_text(path.read_text() + "nodeSelector: {a: b}\n")
    assert repository.run("render").exit_code == 0
    message = refused(repository, "suspend", "prod/llm", "--commit")
    assert "uncommitted changes in environments/prod/jobs/llm.yaml and 3 more" in message
    assert "suspended" not in message
    git_repository.commit(repository.root)
    fine(repository, "suspend", "prod/llm", "--commit")


def test_files_that_git_ignores_are_written_but_not_committed(repository: Repository) -> None:
    git(repository.root, "rm", "-r", "--quiet", "--cached", "environments/prod/rendered")
    (repository.root / ".gitignore").write_text("rendered/\n")
    git_repository.commit(repository.root)
    fine(repository, "rerun", "prod/llm", "--commit", "-m", "Once more")
    shown = git(repository.root, "show", "--name-only", "--format=%s")
    assert shown == "Once more\n\nenvironments/prod/jobs/llm.yaml"
    fine(repository, "cancel", "prod/llm", "--orphan", "--commit")
    assert git(repository.root, "status", "--porcelain") == ""
    fine(repository, "rerun", "prod/llm", "--commit")
    assert git(repository.root, "status", "--porcelain") == ""


UNDONE = "Nothing is committed, and every file is as it was before.\n"


def hook(repository: Repository, name: str, script: str) -> None:
    path = repository.root / ".git/hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_hook_that_refuses_leaves_everything_as_it_was(repository: Repository) -> None:
    hook(repository, "pre-commit", "echo not today >&2; exit 1")
    for verb in (("suspend", "prod/llm"), ("retire", "prod/llm"), ("cancel", "prod", "--orphan")):
        message = refused(repository, *verb, "--commit")
        assert message.endswith(f"trainwright: git commit: not today\n{UNDONE}")
        assert "written" not in message
        assert git(repository.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("verb", ["rerun prod/llm", "retire prod/llm", "cancel prod --orphan"])
@pytest.mark.parametrize("why", ["index.lock", "HEAD.lock", "no identity", "index.lock meanwhile"])
def test_what_cannot_be_committed_leaves_nothing(
    why: str, verb: str, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "no identity":
        for name in git_repository.ENVIRONMENT:
            monkeypatch.delenv(name) if name.endswith(("NAME", "EMAIL")) else None
        git(repository.root, "config", "user.useConfigOnly", "true")
    elif why == "index.lock meanwhile":  # once the files are staged
        hook(repository, "pre-commit", "touch .git/index.lock; exit 1")
    else:
        (repository.root / ".git" / why).touch()
    message = refused(repository, *verb.split(), "--commit")
    lock = repository.root / ".git/index.lock"
    assert UNDONE.strip() in message or "is as it was before, but staged: run `git reset -- e" in (
        message
    )
    lock.unlink(missing_ok=True)
    if "but staged" in message:
        assert why == "index.lock meanwhile"
        git(repository.root, "reset", "--quiet", "--", "environments")
    assert git(repository.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_everything_as_it_was(
    number: signal.Signals, repository: Repository, tmp_path: Path
) -> None:
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    hook(repository, "pre-commit", f"exec 3>{pipe}; echo >&3; sleep 600 & wait")
    before = snapshot(repository)
    process = subprocess.Popen(
        [sys.executable, "-m", "trainwright", "retire", "prod/llm", "--commit"],
        cwd=repository.root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with pipe.open() as alive:
        alive.readline()
        process.send_signal(number)
        _, message = process.communicate()
    assert process.returncode == 130
    assert message.endswith(f"trainwright: interrupted\n{UNDONE}")
    assert snapshot(repository) == before
    assert git(repository.root, "status", "--porcelain") == ""


def test_a_commit_that_no_branch_has_is_named(repository: Repository) -> None:
    assert "branch" not in fine(repository, "suspend", "prod/llm", "--commit")
    git(repository.root, "switch", "--quiet", "--detach")
    message = fine(repository, "resume", "prod/llm", "--commit")
    assert message.splitlines()[-1].startswith("No branch has that commit, since HEAD is detached")


def test_ctrl_c_leaves_each_file_as_it_was(repository: Repository, tmp_path: Path) -> None:
    """While a hook of the commit runs, which ends as well."""
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    hook(repository, "pre-commit", f"exec 3>{pipe}; echo >&3; sleep 600 & wait")
    before = snapshot(repository)
    for verb in (("retire", "prod/llm"), ("cancel", "prod", "--orphan")):
        process = subprocess.Popen(
            [sys.executable, "-m", "trainwright", *verb, "--commit"],
            cwd=repository.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with pipe.open() as alive:
            alive.readline()
            process.send_signal(signal.SIGINT)
            assert process.wait() not in (0, 3)
            assert alive.read() == "", "until everybody who writes to it has ended"
        assert snapshot(repository) == before
        assert git(repository.root, "status", "--porcelain") == ""


def test_a_hook_may_render_what_is_committed(repository: Repository) -> None:
    """The verb that commits has the repository for itself, and its hook takes part in that."""
    hook(repository, "pre-commit", f"{sys.executable} -m trainwright render && git add -u")
    fine(repository, "suspend", "prod/llm", "--commit")
    assert git(repository.root, "status", "--porcelain") == ""
    assert "TRAINWRIGHT_HELD" not in os.environ


def test_a_verb_in_a_hook_of_another_repository(repository: Repository, tmp_path: Path) -> None:
    other = git_repository.init(tmp_path / "other")
    git_repository.commit(other)
    git(other, "worktree", "add", "--quiet", str(tmp_path / "linked"))  # there GIT_DIR is set, too
    verb = f"{sys.executable} -m trainwright -C {repository.root} suspend prod/llm --commit"
    hook(Repository(other), "pre-commit", f"{verb} || exit 1")
    git(tmp_path / "linked", "commit", "--quiet", "--allow-empty", "--all", "--message", "Change")
    assert git(repository.root, "show", "-s", "--format=%s") == "Suspend prod/llm"
    assert git(repository.root, "status", "--porcelain") == ""
    assert git(tmp_path / "linked", "status", "--porcelain") == ""


def test_hooks_and_signatures_of_the_user_count(repository: Repository, tmp_path: Path) -> None:
    hook(repository, "commit-msg", 'echo "Change-Id: I1" >> "$1"')
    key = signing_key(repository.root, tmp_path)
    fine(repository, "suspend", "prod/llm", "--commit")
    assert "Change-Id: I1" in git(repository.root, "show", "-s", "--format=%B")
    assert git(repository.root, "show", "-s", "--format=%G?") == "G", key


def signing_key(root: Path, folder: Path) -> Path:
    """Sign with a fresh SSH key, and trust it."""
    key = folder / "key"
    try:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    except FileNotFoundError:
        pytest.skip("ssh-keygen is not installed")
    public = key.with_suffix(".pub").read_text()
    (folder / "signers").write_text(f"ada@example.com {public}")
    for name, value in {
        "gpg.format": "ssh",
        "user.signingKey": str(key.with_suffix(".pub")),
        "commit.gpgSign": "true",
        "gpg.ssh.allowedSignersFile": str(folder / "signers"),
    }.items():
        git(root, "config", name, value)
    return key


def test_outside_of_git_there_is_nothing_to_commit_to(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.environment("dev")
    repository.job("dev/mnist")
    assert "is not in a git repository" in refused(repository, "suspend", "dev/mnist", "--commit")
    assert repository.run("suspend", "dev/mnist").exit_code == 0
    assert not (tmp_path / "environments/dev/rendered").exists()
    assert repository.run("resume", "dev/mnist", "--render").exit_code == 0
    assert rendered(repository, "dev/mnist")


def test_a_dry_run_shows_everything_and_changes_nothing(repository: Repository) -> None:
    before = snapshot(repository)
    result = repository.run("--color=always", "suspend", "prod/llm", "--dry-run", "--commit")
    assert result.exit_code == 0
    assert "\x1b[32m+state: suspended # set by trainwright\x1b[0m\n" in result.stdout
    assert result.stderr.endswith("\n(dry run: nothing was written)\n")
    assert snapshot(repository) == before
    assert "dry run" not in fine(repository, "suspend", "prod/llm")


def test_without_rendering_only_the_spec_changes(repository: Repository) -> None:
    before = repository.tree()
    assert repository.run("suspend", "prod/llm", "--no-render").exit_code == 0
    assert repository.tree() == before
    assert "state: suspended" in spec(repository, "prod/llm").read_text()


def test_every_verb_needs_to_be_told_which_jobs(repository: Repository) -> None:
    for verb in ("suspend", "resume", "cancel", "rerun", "retire", "pin"):
        assert repository.run(verb).exit_code == 2
    assert "did you mean prod/llm" in refused(repository, "suspend", "prod/lln")


def test_a_file_that_is_no_longer_what_was_read_is_left_alone(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes between the reading and the writing."""
    from trainwright.lifecycle import session

    path, real = spec(repository, "prod/llm"), session.write

    def late(root: Path, outcome: object, environments: object) -> None:
        path.write_text(path.read_text() + "retries: 1\n")
        real(root, outcome, environments)

    monkeypatch.setattr(session, "write", late)
    result = repository.run("suspend", "prod/llm")
    assert result.exit_code == 2
    assert "has just changed" in result.stderr
    assert path.read_text().endswith("maxDuration: 2h\nretries: 1\n")


def test_verbs_at_once_take_turns_and_lose_no_edit(repository: Repository) -> None:
    """All of them edit one ledger, one index and one branch."""
    retiring = ["prod/llm", "prod/mnist", "dev/mnist"]
    with filetree.exclusive(repository.root / "environments"):
        verbs = [
            subprocess.Popen(
                [sys.executable, "-m", "trainwright", "retire", job, "--commit"],
                cwd=repository.root, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            )
            for job in retiring
        ]  # fmt: skip
        for verb in verbs:
            assert verb.stderr is not None
            assert "waiting for another trainwright" in verb.stderr.readline()
    message = [verb.communicate()[1] for verb in verbs]
    assert [verb.returncode for verb in verbs] == [0, 0, 0], message
    for job in retiring:
        assert "already" in repository.run("retire", job).stderr
    done = repository.run("render", "--check")
    assert done.exit_code == 0, done.output
    assert git(repository.root, "status", "--porcelain") == ""


def test_an_edit_while_a_verb_thinks_is_not_lost(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the reading of a spec and that of what it was before."""
    from trainwright.lifecycle import states

    path, real = spec(repository, "prod/llm"), states.suspend

    def slow(subject: Subject) -> Step:
        path.write_text(path.read_text() + "retries: 1\n")
        return real(subject)

    monkeypatch.setattr(states, "suspend", slow)
    result = repository.run("suspend", "prod/llm")
    assert result.exit_code == 2
    assert "has just changed" in result.stderr
    assert path.read_text().endswith("maxDuration: 2h\nretries: 1\n")


def test_what_the_command_line_offers_is_what_there_is() -> None:
    from trainwright.cli import lifecycle
    from trainwright.documents.validation import schema
    from trainwright.lifecycle import promote

    runs = schema._load("ledger.schema.json")["properties"]["runs"]["additionalProperties"]
    assert tuple(promote.GROUPS) == lifecycle.GROUPS
    assert tuple(runs["properties"]["outcome"]["enum"]) == lifecycle.OUTCOMES


def test_the_command_as_a_process(repository: Repository) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trainwright", "suspend", "prod/llm", "--commit"],
        cwd=repository.root / "environments", env=os.environ,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("--- a/environments/prod/jobs/llm.yaml\n")
    assert "\x1b" not in done.stdout
    assert done.stderr.splitlines()[-1].startswith("committed as ")


# --- nothing half-written -------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["suspend", "cancel --orphan", "retire", "rerun"])
@pytest.mark.parametrize("what", ["link", "file", "folder"])
def test_an_edit_whose_rendering_cannot_be_written_is_not_made(
    repository: Repository, tmp_path: Path, verb: str, what: str
) -> None:
    repository.environment("staging")
    repository.job("staging/llm")
    assert repository.run("render").exit_code == 0
    folder = repository.root / "environments/staging/rendered/llm"
    elsewhere = tmp_path / "elsewhere"
    if what == "folder":  # where a file should be
        (folder / "run.lock").unlink()
        (folder / "run.lock" / "inside").mkdir(parents=True)
    else:
        folder.rename(elsewhere)
        folder.symlink_to(elsewhere) if what == "link" else folder.write_text("x", "utf-8")
    before = _everything(repository.root)
    done = repository.run(*verb.split(), "*/llm")
    assert done.exit_code not in (0, 3), done.output
    assert _everything(repository.root) == before


def _everything(root: Path) -> dict[str, bytes]:
    paths = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def test_a_rendering_of_several_environments_is_written_in_all_or_in_none(
    repository: Repository, tmp_path: Path
) -> None:
    repository.environment("staging")
    repository.job("staging/llm")
    assert repository.run("render").exit_code == 0
    folder = repository.root / "environments/staging/rendered/llm"
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    for environment in ("prod", "staging"):
        repository.job(f"{environment}/other")
        repository.job(f"{environment}/llm", "flags: {lr: 0.1}")
    before = _everything(repository.root)
    done = repository.run("render")
    assert done.exit_code not in (0, 3), done.output
    assert "is in the way" in done.stderr
    assert _everything(repository.root) == before
    assert not (repository.root / "environments/prod/rendered/other").exists()
