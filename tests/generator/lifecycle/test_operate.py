"""`set --priority`, `set --queue` and edits by hand of how a run is operated: the run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import git_repository
from git_repository import git
from repository import EVERY_TARGET, Repository

KUEUE = "queueing: kueue\nkueue: {version: '0.18'}\nqueues: {team: {}, other: {}}\n"


def _begin(repository: Repository, extra: str, place: str = KUEUE) -> None:
    """A committed run of a job."""
    path = repository.environment("prod", place)
    text = "".join(line for line in path.read_text().splitlines(True) if "targets" not in line)
    path.write_text(text + EVERY_TARGET)
    repository.job("prod/llm", f"flags: {{begin: anew}}\n{extra}")
    done = repository.run("render", "--new-runs")
    assert done.exit_code == 0, done.output
    git_repository.commit(repository.root, "Begin another")


def _spec(repository: Repository) -> Path:
    return repository.root / "environments/prod/jobs/llm.yaml"


def _record(repository: Repository) -> dict[str, Any]:
    folder = repository.root / "environments/prod/rendered/llm"
    record: dict[str, Any] = json.loads((folder / "run.lock").read_text())
    return record


def _labels(repository: Repository, file: str) -> dict[str, str]:
    folder = repository.root / "environments/prod/rendered/llm"
    labels: dict[str, str] = yaml.safe_load((folder / file).read_text())["metadata"]["labels"]
    return labels


@pytest.mark.parametrize("target", ["pytorchjob", "trainjob", "jobset", "job"])
def test_a_priority_in_a_queue_reaches_the_run(target: str, repository: Repository) -> None:
    _begin(repository, f"target: {target}\nqueue: team\nqueuePriority: low # for now\n")
    before = _record(repository)
    done = repository.run("set", "prod/llm", "--priority", "high", "--commit")
    assert done.exit_code == 0, done.output
    assert "prod/llm has priority high instead of low" in done.stderr
    assert "queuePriority: high # for now\n" in _spec(repository).read_text()
    after = _record(repository)
    assert after["object"] == before["object"]
    assert after["job"]["queuePriority"] == "high"
    assert _labels(repository, f"{target}.yaml")["kueue.x-k8s.io/priority-class"] == "high"
    assert git(repository.root, "status", "--porcelain") == ""
    assert repository.run("render", "--check").exit_code == 0
    again = repository.run("set", "prod/llm", "--priority", "high")
    assert "has priority high already" in again.stderr


def test_a_queue_is_changed_while_the_run_waits(repository: Repository) -> None:
    _begin(repository, "queue: team\n")
    before = _record(repository)["object"]
    done = repository.run("set", "prod/llm", "--queue", "other", "--commit")
    assert done.exit_code == 0, done.output
    assert "while the run waits in it" in done.stderr
    assert "trainwright status --diff prod/llm" in done.stderr
    assert _record(repository)["object"] == before
    assert _labels(repository, "pytorchjob.yaml")["kueue.x-k8s.io/queue-name"] == "other"
    plan = repository.run("plan", "--against", "HEAD~1").stdout
    why = "stays: taken while the job waits in its queue, and no longer"
    assert f"may be refused: {before} {why}" in plan


def test_a_number_is_the_priority_of_lattice(repository: Repository) -> None:
    _begin(repository, "target: trainingjob\n", "")
    assert "high" in repository.run("set", "prod/llm", "--priority", "high").stderr
    done = repository.run("set", "prod/llm", "--priority", "5", "--commit")
    assert done.exit_code == 0, done.output
    folder = repository.root / "environments/prod/rendered/llm"
    assert yaml.safe_load((folder / "trainingjob.yaml").read_text())["spec"]["priority"] == 5


REFUSED = {
    "no queue": ("", ("set", "prod/llm", "--queue", "other"), "is in no queue"),
    "pods": ("", ("set", "prod/llm", "--priority", "high"), "is in no queue: its pods keep the"),
    "cancelled": (
        "queue: team\nstate: cancelled\n",
        ("set", "prod/llm", "--priority", "high"),
        "is over",
    ),
    "cancelled queue": (
        "queue: team\nstate: cancelled\n",
        ("set", "prod/llm", "--queue", "other"),
        "is over",
    ),
    "unknown queue": ("queue: team\n", ("set", "prod/llm", "--queue", "third"), "third"),
    "deadline": (
        "target: jobset\n",
        ("set", "prod/llm", "--max-duration", "+1h"),
        "maxDuration waits for the",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_not_reach_the_run_is_refused(case: str, repository: Repository) -> None:
    extra, verb, message = REFUSED[case]
    _begin(repository, extra)
    before = _spec(repository).read_bytes()
    done = repository.run(*verb)
    assert done.exit_code in (1, 2)
    assert message in done.stderr
    assert _spec(repository).read_bytes() == before


@pytest.mark.parametrize("options", [(), ("--queue", "other", "--priority", "high")])
def test_one_value_is_set_at_a_time(options: tuple[str, ...], repository: Repository) -> None:
    _begin(repository, "queue: team\n")
    done = repository.run("set", "prod/llm", *options)
    assert done.exit_code == 2
    assert "give one of --max-duration, --priority and --queue" in done.stderr


# --- by hand ------------------------------------------------------------------------------------


def test_what_is_held_is_shown_until_a_rerun_takes_it_up(repository: Repository) -> None:
    _begin(repository, "target: job\n")
    before = _record(repository)
    _spec(repository).write_text(_spec(repository).read_text() + "gracePeriod: 90s\n")
    assert "gracePeriod" not in repository.run("list").stdout
    done = repository.run("render")
    assert (
        "gracePeriod waits for the next run of prod/llm: the API server refuses it" in done.stderr
    )
    after = _record(repository)
    assert {**after, "held": [], "source": "", "digest": ""} == {
        **before,
        "held": [],
        "source": "",
        "digest": "",
    }
    assert after["held"] == ["gracePeriod"]
    assert "gracePeriod (environments/prod/jobs/llm.yaml:" in repository.run("list").stdout
    plan = repository.run("plan", "--against", "HEAD").stdout
    assert "outdated: gracePeriod waits for the next run: the API server refuses it" in plan
    git_repository.commit(repository.root, "Held")
    assert repository.run("render", "--check").exit_code == 0
    assert repository.run("rerun", "prod/llm", "--commit").exit_code == 0
    assert "held" not in _record(repository)
    folder = repository.root / "environments/prod/rendered/llm"
    spec = yaml.safe_load((folder / "job.yaml").read_text())["spec"]
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 90


def test_what_is_held_and_taken_back_leaves_nothing(repository: Repository) -> None:
    _begin(repository, "target: job\n")
    before, text = _record(repository), _spec(repository).read_text()
    _spec(repository).write_text(text + "gracePeriod: 90s\nstate: suspended\n")
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root, "Held, and suspended")
    _spec(repository).write_text(text)
    assert repository.run("render").exit_code == 0
    assert _record(repository) == before


def test_one_edit_is_taken_and_another_held(repository: Repository) -> None:
    _begin(repository, "target: job\nretries: 1\n")
    name = _record(repository)["object"]
    text = _spec(repository).read_text().replace("retries: 1", "retries: 3")
    _spec(repository).write_text(text + "gracePeriod: 90s\nannotations: {by: me}\n")
    assert repository.run("render").exit_code == 0
    record = _record(repository)
    assert (record["object"], record["held"]) == (name, ["gracePeriod"])
    folder = repository.root / "environments/prod/rendered/llm"
    job = yaml.safe_load((folder / "job.yaml").read_text())
    assert job["spec"]["backoffLimit"] == 6
    assert job["metadata"]["annotations"]["by"] == "me"
    plan = repository.run("plan", "--against", "HEAD").stdout
    assert "in place" in plan
    assert "gracePeriod waits for the next run" in plan


def test_a_shared_change_does_not_come_along(repository: Repository) -> None:
    shared = "defaults: {annotations: {shared: before}, retries: 1}\n"
    _begin(repository, "target: job\nannotations: {own: before}\n", shared)
    path = repository.root / "environments/prod/environment.yaml"
    path.write_text(path.read_text().replace("before", "after").replace("retries: 1", "retries: 2"))
    _spec(repository).write_text(_spec(repository).read_text().replace("before", "after"))
    assert repository.run("render").exit_code == 0
    folder = repository.root / "environments/prod/rendered/llm"
    job = yaml.safe_load((folder / "job.yaml").read_text())
    annotations = job["metadata"]["annotations"]
    assert (annotations["own"], annotations["shared"]) == ("after", "before")
    assert job["spec"]["backoffLimit"] == 2
    behind = repository.run("list", "-o", "json").stdout
    assert "annotations.shared" in behind
    assert "annotations.own" not in behind


def test_a_run_that_is_in_no_commit_is_rendered_as_it_is_written(repository: Repository) -> None:
    """It has not begun: nothing is held back from it."""
    _begin(repository, "")
    repository.job("prod/new", "target: job\n")
    assert repository.run("render").exit_code == 0
    path = repository.root / "environments/prod/jobs/new.yaml"
    path.write_text(path.read_text() + "gracePeriod: 90s\n")
    done = repository.run("render")
    assert "waits" not in done.stderr
    folder = repository.root / "environments/prod/rendered/new"
    spec = yaml.safe_load((folder / "job.yaml").read_text())["spec"]
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 90


def test_nothing_of_operation_brings_back_what_has_ended(repository: Repository) -> None:
    for verb in (("cancel", "--orphan"), ("retire",)):
        _begin(repository, "target: job\n")
        assert repository.run(*verb, "prod/llm", "--commit").exit_code == 0
        before = _record(repository)
        edits = "retries: 5\nqueuePriority: high\nqueue: team\ngracePeriod: 3m\n# and a comment\n"
        _spec(repository).write_text(_spec(repository).read_text() + edits)
        assert repository.run("render").exit_code == 0
        after = _record(repository)
        assert (after["object"], after["state"]) == (before["object"], before["state"])
        assert after["files"] == {}
        folder = repository.root / "environments/prod/rendered/llm"
        assert [path.name for path in folder.iterdir()] == ["run.lock"]
        git_repository.commit(repository.root, "Edited")


# --- what has ended -----------------------------------------------------------------------------


def test_what_a_shared_layer_cancelled_stays_so_whatever_is_noted_in_its_own_file(
    repository: Repository,
) -> None:
    _begin(repository, "target: job\n")
    path = repository.root / "environments/prod/environment.yaml"
    place, name = path.read_text(), _record(repository)["object"]
    path.write_text(place + "defaults: {state: cancelled}\n")
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root, "All cancelled")
    path.write_text(place)
    for comment in ("", "# back?\n", "# really?\ndescription: still here\n"):
        _spec(repository).write_text(_spec(repository).read_text() + comment)
        assert repository.run("render").exit_code == 0
        record = _record(repository)
        assert (record["object"], record["state"], record["files"]) == (name, "cancelled", {})
        kustomization = repository.root / "environments/prod/rendered/kustomization.yaml"
        assert "llm/" not in kustomization.read_text()
        git_repository.commit(repository.root, f"Noted: {comment or 'nothing'}")
    _spec(repository).write_text(_spec(repository).read_text() + "state: active\n")
    assert repository.run("render").exit_code == 0
    assert _record(repository)["object"] != name


def test_a_run_is_cancelled_under_its_own_name(repository: Repository) -> None:
    """Whatever else is edited with it: that run was never there."""
    _begin(repository, "target: job\n")
    name = _record(repository)["object"]
    text = _spec(repository).read_text().replace("begin: anew", "begin: again")
    _spec(repository).write_text(text + "state: cancelled\n")
    assert repository.run("render").exit_code == 0
    record = _record(repository)
    assert (record["object"], record["state"]) == (name, "cancelled")


def test_what_is_cancelled_before_it_began_has_the_name_that_it_would_have_had(
    repository: Repository,
) -> None:
    _begin(repository, "target: job\n")
    assert repository.run("retire", "prod/llm", "--commit").exit_code == 0
    name = _record(repository)["object"]
    text = _spec(repository).read_text().replace("begin: anew", "begin: again")
    _spec(repository).write_text(text + "state: cancelled\n")
    assert repository.run("render").exit_code == 0
    record = _record(repository)
    assert record["state"] == "cancelled"
    assert record["object"] != name


def test_two_runs_that_overlap_write_to_two_folders(repository: Repository) -> None:
    volume = "volumes: {v: {claim: c, mountPath: /v}}\ncheckpoint: {volume: v, path: ckpt}\n"
    _begin(repository, f"target: job\n{volume}")
    seen = set()
    for _ in range(2):
        folder = repository.root / "environments/prod/rendered/llm"
        pod = yaml.safe_load((folder / "job.yaml").read_text())["spec"]["template"]["spec"]
        names = {item["name"]: item.get("value") for item in pod["containers"][0]["env"]}
        assert names["TRAINWRIGHT_CHECKPOINT_DIR"] == f"/v/ckpt/{_record(repository)['object']}"
        seen.add(names["TRAINWRIGHT_CHECKPOINT_DIR"])
        assert repository.run("rerun", "prod/llm", "--commit").exit_code == 0
    assert len(seen) == 2
