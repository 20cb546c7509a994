"""What a commit holds, read without checking it out, from real repositories."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

import git_repository
from trainwright import git
from trainwright.errors import SourceError
from trainwright.git import GitError, Repository
from trainwright.tree import Entry, Folder, Tree


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return git_repository.init(tmp_path / "repository")


def fill(folder: Path) -> None:
    (folder / "a/rendered").mkdir(parents=True)
    (folder / "a/one.yaml").write_text("1\n")
    (folder / "a/empty").write_text("")
    (folder / "a/no end").write_bytes(b"\0binary")
    (folder / "a/rendered/big").write_text("big\n")
    (folder / "tüpfel \n.txt").write_text("odd\n")
    (folder / "link").symlink_to("a")


def everything(tree: Tree, folder: str = "") -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for entry in tree.entries(folder):
        path = f"{folder}/{entry.name}".strip("/")
        if entry.kind == "folder":
            found |= everything(tree, path)
        elif entry.name != ".git":
            found[path] = tree.read(path) if entry.kind == "file" else entry.kind
        assert tree.kind(path) == entry.kind
    return found


def test_a_commit_reads_as_the_folder_it_was_made_from(folder: Path) -> None:
    fill(folder)
    commit = git_repository.commit(folder)
    there = {path: b for path, b in everything(Folder(folder)).items() if ".git/" not in path}
    assert len(there) == 6
    for later in ("", "rendered"):
        assert everything(Repository(folder).tree(commit, later=later)) == there


def test_later_changes_do_not_show_in_a_commit(folder: Path) -> None:
    fill(folder)
    tree = Repository(folder).tree(git_repository.commit(folder), "a", later="rendered")
    (folder / "a/one.yaml").write_text("2\n")
    assert tree.read("one.yaml") == b"1\n"
    assert tree.read("rendered/big") == b"big\n"
    assert Entry("rendered", "folder") in tree.entries("")
    with pytest.raises(FileNotFoundError):
        tree.read("two.yaml")
    with pytest.raises(SourceError, match="cannot list b"):
        tree.entries("b")


def test_several_files_are_read_at_once_and_what_is_none_is_left_out(folder: Path) -> None:
    fill(folder)
    (folder / "other").symlink_to("a/one.yaml")
    tree = Repository(folder).tree(git_repository.commit(folder), later="rendered")
    asked = ["a/rendered/big", "a/one.yaml", "a", "other", "nowhere.yaml"]
    assert tree.several(asked) == {"a/rendered/big": b"big\n", "a/one.yaml": b"1\n"}
    assert tree.several([]) == {}


def test_another_process_can_be_given_a_commit(folder: Path) -> None:
    fill(folder)
    tree = Repository(folder).tree(git_repository.commit(folder))
    assert everything(pickle.loads(pickle.dumps(tree))) == everything(tree)


def test_what_differs_from_a_commit(folder: Path) -> None:
    fill(folder)
    (folder / ".gitignore").write_text("ignored\n")
    first = git_repository.commit(folder)
    (folder / "a/one.yaml").write_text("2\n")
    second = git_repository.commit(folder)
    (folder / "a/empty").unlink()
    (folder / "a/new \n").write_text("")
    (folder / "a/ignored").write_text("")
    (folder / "outside").write_text("")
    repository = Repository(folder)
    assert repository.changed(first, "a") == {"one.yaml", "empty", "new \n"}
    assert repository.changed(second, "a") == {"empty", "new \n"}
    assert repository.changed(first, "a", second) == {"one.yaml"}
    assert repository.changed(first, "") == {"a/one.yaml", "a/empty", "a/new \n", "outside"}


def test_a_folder_inside_a_repository_knows_where_it_is(folder: Path) -> None:
    fill(folder)
    assert git.find(folder / "a") == (Repository(folder), "a")
    assert git.find(folder) == (Repository(folder), "")


def test_no_repository_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(GitError, match="is in no git repository"):
        git.find(tmp_path)


def test_a_branch_that_was_not_fetched_is_named_with_what_to_do(folder: Path) -> None:
    git_repository.commit(folder)
    with pytest.raises(GitError, match='"origin/main" names no commit here; fetch it first: `git'):
        Repository(folder).commit("origin/main")
    with pytest.raises(GitError, match="names no commit here"):
        Repository(folder).commit("--output=/tmp/x")
    with pytest.raises(GitError, match="run `git remote set-head origin --auto`"):
        Repository(folder).commit("origin/HEAD")


def test_a_shallow_clone_is_told_apart(folder: Path, tmp_path: Path) -> None:
    git_repository.commit(folder)
    git_repository.git(folder, "branch", "base")
    git_repository.commit(folder)
    git_repository.git(tmp_path, "clone", "--quiet", "--depth=1", folder.as_uri(), "shallow")
    with pytest.raises(GitError, match=r"shallow.*fetch-depth: 0"):
        Repository(tmp_path / "shallow").commit("origin/base")


def test_histories_that_share_nothing(folder: Path) -> None:
    git_repository.commit(folder)
    git_repository.git(folder, "checkout", "--quiet", "--orphan", "other")
    git_repository.commit(folder, "Begin anew")
    with pytest.raises(GitError, match="no commit in common"):
        Repository(folder).merge_base("main", "other")


def test_without_git_it_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PATH", "")
    with pytest.raises(GitError, match="git is not installed"):
        git.find(folder)
