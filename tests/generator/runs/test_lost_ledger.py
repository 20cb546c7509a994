"""A finished run stays finished where the ledger, or its line in it, is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import git_repository
from git_repository import git
from repository import Repository

LEDGER = "environments/prod/ledger.yaml"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """prod/a, prod/b and prod/c, of which a and b have finished, committed."""
    made = Repository(git_repository.init(tmp_path))
    made.environment("prod")
    for job in "abc":
        made.job(f"prod/{job}")
    assert made.run("render").exit_code == 0
    git_repository.commit(made.root)
    assert made.run("retire", "prod/a", "prod/b", "--commit").exit_code == 0
    return made


def lose(repository: Repository, what: str) -> None:
    path = repository.root / LEDGER
    if what == "all of it":
        path.unlink()
    else:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        path.write_text("".join(line for line in lines if "job: a" not in line), encoding="utf-8")


@pytest.mark.parametrize("committed", [False, True], ids=["on disk", "in a commit"])
@pytest.mark.parametrize("what", ["all of it", "one line"])
def test_what_the_ledger_lost_is_asked_for(
    repository: Repository, what: str, committed: bool
) -> None:
    before = repository.tree()
    lose(repository, what)
    if committed:
        git_repository.commit(repository.root, "Lose it")
    for verb in (("check",), ("render",), ("render", "--check"), ("render", "prod/a")):
        refused = repository.run(*verb)
        assert refused.exit_code == 1
        assert "error[TW054]: a-" in refused.output
        assert (
            "has finished, and environments/prod/ledger.yaml does not list it any more"
            in " ".join(refused.output.split())
        )
        assert repository.tree() == before
    # A line of another job's own file, or a verb for it, starts that one alone.
    assert repository.run("render", "prod/c").exit_code == 0
    assert repository.tree() == before
    # With the line back, nothing has happened.
    git(repository.root, "checkout", "--quiet", "HEAD~1" if committed else "HEAD", "--", LEDGER)
    assert repository.run("render", "--check").exit_code == 0


def test_it_is_retired_again_under_its_name(repository: Repository) -> None:
    before = (repository.root / LEDGER).read_text(encoding="utf-8")
    lose(repository, "all of it")
    assert repository.run("retire", "prod/a", "prod/b").exit_code == 0
    assert (repository.root / LEDGER).read_text(encoding="utf-8") == before
    assert repository.run("render", "--check").exit_code == 0


def test_a_word_of_consent_or_another_run_goes_on_without_the_line(repository: Repository) -> None:
    lose(repository, "all of it")
    assert repository.run("rerun", "prod/a").exit_code == 0
    assert repository.run("render", "prod/a").exit_code == 0
    assert "prod/rendered/a/pytorchjob.yaml" in repository.tree()
    assert repository.run("render", "--new-runs").exit_code == 0
    assert "prod/rendered/b/pytorchjob.yaml" in repository.tree()
    assert repository.run("render", "--check").exit_code == 0


def test_where_runs_are_published_the_branch_remembers(tmp_path: Path) -> None:
    made = Repository(git_repository.init(tmp_path))
    made.environment("prod")
    made.job("prod/a")
    git_repository.commit(made.root)
    to = ("gitops", "publish", "prod", "--branch", "live", "--path", ".")
    assert made.run(*to).exit_code == 0
    assert made.run("retire", "prod/a", "--commit").exit_code == 0
    assert made.run(*to).exit_code == 0
    git(made.root, "rm", "--quiet", LEDGER)
    git_repository.commit(made.root, "Lose it")
    refused = made.run(*to)
    assert refused.exit_code == 1
    assert "TW054" in refused.output
    assert made.run(*to, "--new-runs").exit_code == 0


def test_a_run_is_finished_under_its_own_name_whatever_else_ran_the_same_file(
    repository: Repository,
) -> None:
    path = repository.root / LEDGER
    assert repository.run("retire", "prod/c", "--no-render").exit_code == 0
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    (own,) = (line for line in lines if "job: c" in line)
    name = own.partition(":")[0].strip()
    path.write_text("".join(lines) + own.replace(name, f"c-{'0' * 8}"), encoding="utf-8")
    assert repository.run("render").exit_code == 0
    assert json.loads(repository.tree()["prod/rendered/c/run.lock"])["object"] == name
