"""With which commit it is compared what is rendered, and what is said where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from forged_trees import FORGED, base

import second_version
from git_repository import commit, git, init
from repository import Copied, Repository
from trainwright.files import git_command, lineage


@pytest.fixture
def branch(tmp_path: Path, copied: Copied) -> Repository:
    """A branch with a forged image, of which main knows nothing."""
    made = copied(base, tmp_path / "origin")
    FORGED["image"](made.root)
    commit(made.root, "More of the harmless job")
    return made


def clone(repository: Repository, *options: str) -> Repository:
    folder = repository.root.parent / "clone"
    git(repository.root.parent, "clone", "--quiet", *options, f"file://{repository.root}", "clone")
    return Repository(folder)


def refused(repository: Repository, *options: str) -> bool:
    done = repository.run("render", "--check", *options)
    assert done.exit_code in (0, 1), done.output
    return "TW057" in repository.run("check", *options).output and done.exit_code == 1


def test_a_branch_begins_where_it_left_main(branch: Repository) -> None:
    found = lineage.find(branch.root)
    assert found is not None
    assert found.bases == (git(branch.root, "rev-parse", "main"),)
    assert refused(branch)


def test_a_branch_begins_there_below_the_top_of_a_repository(tmp_path: Path) -> None:
    top = init(tmp_path / "top")
    made = Repository(top / "ml")
    made.environment("prod")
    made.job("prod/llm")
    assert made.run("render").exit_code == 0
    commit(top, "Begin")
    git(top, "checkout", "--quiet", "-b", "pull-request")
    made.job("prod/new")
    assert made.run("render").exit_code == 0
    commit(top, "A harmless job")
    assert not refused(made)
    FORGED["image"](made.root)
    commit(top, "More of the harmless job")
    found = lineage.find(made.root)
    assert found is not None
    assert (found.bases, found.inside) == ((git(top, "rev-parse", "main"),), "ml")
    assert refused(made)


def test_files_of_a_renamed_job_are_one_finding_with_their_number(tmp_path: Path) -> None:
    made = Repository(init(tmp_path / "top"))
    made.environment("prod")
    made.job("prod/llm")
    assert made.run("render").exit_code == 0
    commit(made.root, "Begin")
    git(made.root, "checkout", "--quiet", "-b", "pull-request")
    for name in ("jobs/{}.yaml", "rendered/{}"):
        git(made.root / "environments/prod", "mv", name.format("llm"), name.format("gpt"))
    spec = made.root / "environments/prod/jobs/gpt.yaml"
    spec.write_text(spec.read_text().replace("name: llm", "name: gpt"))
    said = made.run("check", "--no-cache").output
    folder = made.root / "environments/prod/rendered/gpt"
    number = len([path for path in folder.iterdir() if path.suffix == ".yaml"])
    assert number > 1
    assert said.count("error[TW057]") == 2, "one of the job, one of kustomization.yaml"
    assert f"{number} files are as rendered from another source: " in said


def test_a_clone_knows_what_its_branch_is_merged_into(branch: Repository) -> None:
    git(branch.root, "checkout", "--quiet", "main")
    cloned = clone(branch)
    git(cloned.root, "checkout", "--quiet", "pull-request")
    git(cloned.root, "branch", "--quiet", "-D", "main")
    assert refused(cloned)


def test_another_base_may_be_named(branch: Repository) -> None:
    assert not refused(branch, "--against", "HEAD")
    assert refused(branch, "--against", "HEAD~1")


def test_what_main_itself_has_is_believed(branch: Repository) -> None:
    git(branch.root, "checkout", "--quiet", "main")
    git(branch.root, "merge", "--quiet", "--no-edit", "pull-request")
    assert not refused(branch)
    FORGED["hostPID"](branch.root)
    assert refused(branch)


def test_a_shallow_clone_says_what_it_lacks(branch: Repository) -> None:
    git(branch.root, "checkout", "--quiet", "main")
    cloned = clone(branch, "--depth=1", "--branch=pull-request")
    checked = cloned.run("check")
    assert checked.exit_code == 0
    assert "note[TW058]: this clone is shallow" in checked.output
    assert cloned.run("render", "--check").exit_code == 1
    named = cloned.run("check", "--against", "origin/main")
    assert named.exit_code == 1
    assert "error[TW058]" in named.output


@pytest.mark.parametrize(
    ("option", "fetch"), [("--depth=1", ("--unshallow",)), ("--single-branch", ())]
)
def test_a_clone_of_one_branch_names_the_fetch_that_brings_the_base(
    option: str, fetch: tuple[str, ...], branch: Repository
) -> None:
    git(branch.root, "checkout", "--quiet", "main")
    cloned = clone(branch, option, "--branch=pull-request")
    command = " ".join(("git fetch", *fetch))
    for verb in (("check",), ("render", "--check")):
        named = cloned.run(*verb).output
        assert "note[TW058]: this clone is " in named
        assert f"run `git remote set-branches origin '*' && {command}`" in named
    git(cloned.root, "remote", "set-branches", "origin", "*")
    git(cloned.root, "fetch", "--quiet", *fetch)
    assert refused(cloned)


def test_what_was_checked_without_a_base_is_checked_again_once_it_is_fetched(
    branch: Repository,
) -> None:
    git(branch.root, "checkout", "--quiet", "main")
    cloned = clone(branch, "--depth=1", "--no-single-branch", "--branch=pull-request")
    assert "TW058" in cloned.run("check").output
    git(cloned.root, "fetch", "--quiet", "--unshallow")
    checked = cloned.run("check").output
    assert "TW057" in checked
    assert "TW058" not in checked


def test_a_job_of_a_pull_request_compares_with_what_that_goes_into(
    branch: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(branch.root, "branch", "release", "main")
    cloned = clone(branch, "--branch=pull-request")
    git(cloned.root, "remote", "set-head", "origin", "pull-request")
    assert not refused(cloned)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(cloned.root))
    monkeypatch.setenv("GITHUB_BASE_REF", "release")
    assert refused(cloned)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(cloned.root.parent / "another"))
    assert not refused(cloned)
    monkeypatch.setenv("CI_PROJECT_DIR", str(cloned.root))
    commit_of_base = git(cloned.root, "rev-parse", "origin/release")
    monkeypatch.setenv("CI_MERGE_REQUEST_DIFF_BASE_SHA", commit_of_base)
    assert refused(cloned)


def test_the_merge_that_a_forge_makes_compares_with_its_first_parent(
    branch: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(branch.root, "checkout", "--quiet", "--detach", "main")
    git(branch.root, "merge", "--quiet", "--no-ff", "--no-edit", "pull-request")
    git(branch.root, "branch", "--quiet", "-D", "main")
    assert not refused(branch)  # nothing says where it belongs
    assert "error[TW058]" not in (unknown := branch.run("render", "--check")).output
    assert "note[TW058]: no branch is checked out" in unknown.output
    assert unknown.exit_code == 1
    monkeypatch.setenv("GITHUB_WORKSPACE", str(branch.root))
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    monkeypatch.setenv("GITHUB_REF", "refs/pull/7/merge")
    monkeypatch.setenv("GITHUB_SHA", git(branch.root, "rev-parse", "HEAD"))
    assert refused(branch)


@pytest.mark.parametrize("ref", ["refs/pull/7/merge", "refs/pull/7/head"])
def test_a_merge_of_the_author_s_own_compares_with_no_parent_of_it(
    ref: str, branch: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first parent has what was forged. Some forges' jobs begin with the head itself."""
    forged = git(branch.root, "rev-parse", "HEAD")
    parents = ("-p", forged, "-p", "main")
    merge = git(branch.root, "commit-tree", f"{forged}^{{tree}}", *parents, "-m", "Merge")
    git(branch.root, "reset", "--quiet", "--hard", merge)
    cloned = clone(branch, "--branch=pull-request")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(cloned.root))
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    monkeypatch.setenv("GITHUB_REF", ref)
    monkeypatch.setenv("GITHUB_SHA", merge if ref.endswith("head") else forged)
    assert refused(cloned)


def test_without_a_commit_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    made.environment("prod")
    made.job("prod/llm")
    assert lineage.find(tmp_path) is None
    init(tmp_path)
    assert lineage.find(tmp_path) is None
    assert made.run("render").exit_code == 0
    done = made.run("render", "--check")
    assert done.exit_code == 0
    assert "compared with records alone" in done.stderr
    for verb in (("render", "--check"), ("check",)):
        named = made.run(*verb, "--against", "main")
        assert named.exit_code == 1
        assert 'error[TW058]: there is no commit here, and so none of "main"' in named.output


def test_another_base_of_the_same_name_is_compared_with_anew(branch: Repository) -> None:
    git(branch.root, "branch", "release", "pull-request")
    assert "no findings" in branch.run("check", "--against", "release").output
    git(branch.root, "branch", "--force", "release", "main")
    assert "TW057" in branch.run("check", "--against", "release").output


def test_a_run_of_another_version_stays_and_a_new_one_is_rendered_again(tmp_path: Path) -> None:
    """The other version renders other bytes: it began the runs of the base, and one of a branch."""
    later = second_version.install(tmp_path / "later")
    made = Repository(init(tmp_path / "repository"))
    made.environment("prod")
    for name in ("prod/llm", "prod/mnist"):
        made.job(name)
    assert later.run(made.root, "render").returncode == 0
    commit(made.root, "Begin")
    git(made.root, "checkout", "--quiet", "-b", "pull-request")
    job = made.root / "environments/prod/jobs/mnist.yaml"
    job.write_text(job.read_text(encoding="utf-8") + "# A comment.\n", encoding="utf-8")
    for verb in (
        ("set", "prod/llm", "--max-duration", "+1h"),
        ("suspend", "prod/mnist"),
        ("resume", "prod/mnist"),
    ):
        assert made.run(*verb).exit_code == 0
        commit(made.root, verb[0])
        assert not refused(made)
        assert later.run(made.root, "render", "--check").returncode == 0

    made.job("prod/new")
    assert later.run(made.root, "render").returncode == 0
    commit(made.root, "Another job")
    assert refused(made)
    assert "was rendered by Trainwright 99.0.0 with chart 99.0.0" in made.run("check").output
    assert made.run("render").exit_code == 0
    commit(made.root, "Rendered again")
    assert not refused(made)


def test_recorded_runs_of_more_environments_ask_git_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    run = git_command.run

    def counted(folder: Path, arguments: Sequence[str], *more: Any) -> bytes:
        asked.append(arguments[0])
        return run(folder, arguments, *more)

    monkeypatch.setattr(git_command, "run", counted)
    made = Repository(init(tmp_path))
    times = []
    for name in ("dev", "prod", "test"):
        made.environment(name)
        made.job(f"{name}/llm")
        assert made.run("render").exit_code == 0
        commit(made.root, name)
        asked.clear()
        assert made.run("render", "--check").exit_code == 0
        times.append(len(asked))
    assert len(set(times)) == 1, times


def test_a_committed_edit_that_is_not_rendered_is_noted(tmp_path: Path) -> None:
    made = Repository(init(tmp_path / "clone"))
    made.environment("prod")
    path = made.job("prod/llm")
    made.job("prod/other")
    note, told = "TW082", "committed edits of llm are not rendered"
    commit(made.root, "Specs alone, which are rendered elsewhere")
    assert note not in made.run("check").output
    assert made.run("render").exit_code == 0
    commit(made.root, "Begin")
    path.write_text(path.read_text().replace("nodes: 2", "nodes: 3"))
    assert note not in made.run("check").output  # it is rendered next
    commit(made.root, "Three")
    forgotten = made.run("check")
    assert forgotten.exit_code == 0
    assert f"note[{note}]: {told}" in forgotten.output
    assert "environments/prod/jobs/llm.yaml:1:1" in forgotten.output
    assert "Run `trainwright render` and commit the result." in forgotten.output
    assert note not in made.run("check", "prod/other").output
    assert made.run("check").output == forgotten.output  # as it is remembered
    assert made.run("render").exit_code == 0
    assert note not in made.run("check").output
    commit(made.root, "Rendered")
    assert made.run("retire", "prod/other", "--no-render").exit_code == 0
    assert note not in made.run("check").output
    commit(made.root, "A line of the ledger, and its run is still there")
    assert "committed edits of other are not rendered" in made.run("check").output
    path.unlink()
    commit(made.root, "The spec is gone, and its run is not")
    assert told.replace("llm", "llm, other") in made.run("check").output


@pytest.mark.parametrize("edit", ["nodes: 3", "nodes: 2\nstate: suspended"])
def test_rendered_files_of_an_edit_that_was_taken_back_are_noted(edit: str, tmp_path: Path) -> None:
    """No edit is committed, and once they are rendered again there is nothing to commit."""
    made = Repository(init(tmp_path / "clone"))
    made.environment("prod")
    path = made.job("prod/llm")
    assert made.run("render").exit_code == 0
    commit(made.root, "Begin")
    path.write_text(path.read_text().replace("nodes: 2", edit))
    assert made.run("render").exit_code == 0
    assert "TW082" not in made.run("check").output
    git(made.root, "checkout", "--quiet", str(path))
    noted = made.run("check").output
    assert "note[TW082]: the rendered files of llm are in no commit, and of other specs" in noted
    assert "committed edits" not in noted
    assert "commit the result" not in noted
    assert made.run("render").exit_code == 0
    assert "TW082" not in made.run("check").output
    assert git(made.root, "status", "--porcelain") == ""


def test_an_edit_by_hand_in_no_commit_leaves_nothing_to_commit(tmp_path: Path) -> None:
    made = Repository(init(tmp_path / "clone"))
    made.environment("prod")
    made.job("prod/llm")
    assert made.run("render").exit_code == 0
    commit(made.root, "Begin")
    rendered = made.root / "environments/prod/rendered/llm/pytorchjob.yaml"
    rendered.write_text(rendered.read_text().replace("replicas: 1", "replicas: 9"))
    told = "commit the result if `git status` shows one"
    assert f"Run `trainwright render`, and {told}." in made.run("check").output
    assert f"It has been replaced: {told}." in made.run("render").stderr
    assert git(made.root, "status", "--porcelain") == ""
    assert "TW057" not in made.run("check").output
