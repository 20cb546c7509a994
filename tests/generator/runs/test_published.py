"""A run stays what it was where rendered files are published to another branch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import git_repository
from git_repository import git
from repository import Repository

BASE = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: llm\nflags: {epochs: 3}\n"
TO = ("gitops", "publish", "--branch", "live", "--path", ".")


@pytest.fixture(autouse=True)
def _identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in git_repository.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """prod/llm, which extends a base, committed and not rendered."""
    made = Repository(git_repository.init(tmp_path / "specs"))
    made.environment("prod")
    made.write("base/jobs/llm.yaml", BASE)
    made.job("prod/llm", "extends: base/llm\n")
    git_repository.commit(made.root, "Specs")
    return made


def lengthen(repository: Repository) -> None:
    """A shared file says something else: the run is behind."""
    repository.write("base/jobs/llm.yaml", BASE.replace("3", "9"))
    git_repository.commit(repository.root, "Train longer")


def publish(repository: Repository, *arguments: str) -> str:
    result = repository.run(*TO, *arguments)
    assert result.exit_code == 0, result.output
    return run(repository)


def run(repository: Repository) -> str:
    """The object that the branch holds."""
    record = json.loads(git(repository.root, "show", "live:llm/run.lock"))
    assert record["object"] in git(repository.root, "show", "live:llm/pytorchjob.yaml")
    return str(record["object"])


def by_hand(repository: Repository, *, remove: str = "", old: str = "", new: str = "") -> None:
    """Another user's commit on the branch."""
    there = repository.root.parent / "there"
    git(repository.root, "worktree", "add", "--quiet", str(there), "live")
    if remove:
        git(there, "rm", "--quiet", "-r", remove)
    else:
        path = there / "llm/run.lock"
        path.write_text(path.read_text().replace(old, new))
    git_repository.commit(there, "By hand")
    git(repository.root, "worktree", "remove", str(there))


def test_shared_edits_are_held_back_on_the_branch(repository: Repository) -> None:
    before = publish(repository)
    lengthen(repository)
    assert publish(repository) == before
    assert repository.run("rerun", "prod/llm", "--commit", "--no-render").exit_code == 0
    assert publish(repository) != before
    assert "--epochs=9" in git(repository.root, "show", "live:llm/pytorchjob.yaml")


def test_a_record_that_was_edited_on_the_branch_begins_nothing(repository: Repository) -> None:
    before = publish(repository)
    lengthen(repository)
    by_hand(repository, old='"epochs": 3', new='"epochs": 4')
    refused = repository.run(*TO)
    assert refused.exit_code == 2
    assert "edited by hand on live: llm/run.lock; " in refused.output
    # Not even then: what the run began with is unknown.
    refused = repository.run(*TO, "--discard-edits")
    assert refused.exit_code == 1
    assert "TW054" in refused.output
    by_hand(repository, old='"epochs": 4', new='"epochs": 3')
    assert publish(repository) == before


def test_runs_that_were_rendered_beside_the_specs_go_on_at_the_branch(
    repository: Repository,
) -> None:
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root, "Render")
    path = "prod/rendered/llm/pytorchjob.yaml"
    before = repository.tree()[path]
    lengthen(repository)
    publish(repository)
    assert git(repository.root, "show", "live:llm/pytorchjob.yaml") + "\n" == before
    # From now on the branch counts.
    assert repository.run("rerun", "prod/llm", "--commit", "--no-render").exit_code == 0
    publish(repository)
    assert "--epochs=9" in git(repository.root, "show", "live:llm/pytorchjob.yaml")


@pytest.mark.parametrize("remove", ["llm", "llm/run.lock"])
def test_a_run_that_was_removed_from_the_branch_by_hand_does_not_begin_anew(
    remove: str, repository: Repository
) -> None:
    before = publish(repository)
    lengthen(repository)
    by_hand(repository, remove=remove)
    refused = repository.run(*TO)
    assert refused.exit_code == 2
    assert "removed by hand on live: llm/run.lock" in refused.output
    assert repository.run(*TO, "--discard-edits").exit_code == 2
    assert repository.run(*TO, "--new-runs", "--dry-run").exit_code == 0
    git(repository.root, "branch", "--force", "live", "live~")
    assert publish(repository) == before


def test_a_job_that_went_and_came_again_begins(repository: Repository) -> None:
    publish(repository)
    spec = repository.root / "environments/prod/jobs/llm.yaml"
    text = spec.read_text()
    spec.unlink()
    git_repository.commit(repository.root, "No llm")
    assert repository.run(*TO).exit_code == 0
    spec.write_text(text)
    git_repository.commit(repository.root, "llm again")
    publish(repository)


def test_a_job_that_went_with_its_rendering_and_came_again_begins(repository: Repository) -> None:
    """On the branch of the specs, by commits of people's own."""
    to = ("gitops", "publish", "prod")
    assert repository.run(*to).exit_code == 0
    lengthen(repository)
    git(repository.root, "rm", "--quiet", "-r", "environments/prod/rendered/llm")
    git_repository.commit(repository.root, "Delete what is rendered")
    refused = repository.run(*to)
    assert refused.exit_code == 2
    assert "removed by hand on main: environments/prod/rendered/llm/run.lock" in refused.output
    git(repository.root, "revert", "--no-edit", "HEAD")
    text = (repository.root / "environments/prod/jobs/llm.yaml").read_text()
    git(repository.root, "rm", "--quiet", "-r", "environments/prod/rendered/llm")
    git(repository.root, "rm", "--quiet", "environments/prod/jobs/llm.yaml")
    git_repository.commit(repository.root, "No llm")
    repository.write("prod/jobs/llm.yaml", text)
    git_repository.commit(repository.root, "llm again")
    assert repository.run(*to).exit_code == 0
    assert "--epochs=9" in repository.tree()["prod/rendered/llm/pytorchjob.yaml"]
