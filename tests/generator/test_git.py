"""What a commit holds, read without checking it out, from real repositories."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import git_repository
from repository import Repository as Specs
from trainwright.datatypes.errors import SourceError
from trainwright.files import git, git_command
from trainwright.files.entry import Entry
from trainwright.files.git import GitError, Repository
from trainwright.files.tree import Folder, Tree


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
    commit = git_repository.committed(folder)
    there = {path: b for path, b in everything(Folder(folder)).items() if ".git/" not in path}
    assert len(there) == 6
    for later in ("", "rendered"):
        assert everything(Repository(folder).tree(commit, later=later)) == there


def test_later_changes_do_not_show_in_a_commit(folder: Path) -> None:
    fill(folder)
    tree = Repository(folder).tree(git_repository.committed(folder), "a", later="rendered")
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
    tree = Repository(folder).tree(git_repository.committed(folder), later="rendered")
    asked = ["a/rendered/big", "a/one.yaml", "a", "other", "nowhere.yaml"]
    assert tree.several(asked) == {"a/rendered/big": b"big\n", "a/one.yaml": b"1\n"}
    assert tree.several([]) == {}


def test_another_process_can_be_given_a_commit(folder: Path) -> None:
    fill(folder)
    tree = Repository(folder).tree(git_repository.committed(folder))
    assert everything(pickle.loads(pickle.dumps(tree))) == everything(tree)


def test_what_differs_from_a_commit(folder: Path) -> None:
    fill(folder)
    (folder / ".gitignore").write_text("ignored\n")
    first = git_repository.committed(folder)
    (folder / "a/one.yaml").write_text("2\n")
    second = git_repository.committed(folder)
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
    with pytest.raises(GitError, match="is not in a git repository: run `git init` there"):
        git.find(tmp_path)


def test_environments_in_a_repository_of_their_own_are_in_no_commit_of_this_one(
    tmp_path: Path,
) -> None:
    """As a submodule: a plan would compare nothing with nothing, and find no change."""
    inner = Specs(git_repository.init(tmp_path / "inner"))
    inner.environment("prod")
    inner.job("prod/llm")
    (inner.root / "environments").rename(inner.root / "specs")
    git_repository.commit(inner.root)
    outer = Specs(git_repository.init(tmp_path / "outer"))
    git_repository.git(outer.root, "clone", "--quiet", str(inner.root), "environments")
    environments = outer.root / "environments"
    for path in (environments / "specs").iterdir():
        path.rename(environments / path.name)
    git_repository.commit(outer.root)
    assert outer.run("render").exit_code == 0
    for verb in ("plan --against HEAD", "gitops verify HEAD", "rerun prod/llm --commit"):
        done = outer.run(*verb.split())
        assert done.exit_code == 2, done.output
        assert "environments is in a repository of its own, as a submodule is" in done.output
    assert "run: 2" not in (environments / "prod/jobs/llm.yaml").read_text()
    assert "TW058" in outer.run("check").output


def test_environments_behind_a_link_are_not_read(tmp_path: Path) -> None:
    specs = Specs(tmp_path / "specs")
    specs.environment("prod")
    specs.job("prod/llm")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/environments").symlink_to(tmp_path / "specs/environments")
    for verb in ("check", "render", "list jobs", "suspend prod/llm"):
        done = Specs(tmp_path / "linked").run(*verb.split())
        assert done.exit_code == 2
        assert "linked/environments is a symbolic link" in done.output
        assert "make it a folder" in done.output


def test_a_branch_that_was_not_fetched_is_named_with_what_to_do(folder: Path) -> None:
    git_repository.commit(folder)
    with pytest.raises(
        GitError, match="here without a remote `origin`; name the branch to compare"
    ):
        Repository(folder).commit("origin/HEAD")
    git_repository.git(folder, "remote", "add", "origin", "https://git.example.com/ml/training.git")
    with pytest.raises(
        GitError, match='there is no commit "origin/main" here; fetch it first: `git'
    ):
        Repository(folder).commit("origin/main")
    for unknown in ("--output=/tmp/x", "", "HEAD~9"):
        with pytest.raises(
            GitError, match="here; `git log --all` lists the commits that there are"
        ):
            Repository(folder).commit(unknown)
    with pytest.raises(GitError, match="run `git remote set-head origin --auto`"):
        Repository(folder).commit("origin/HEAD")


def _of_one_beginning(folder: Path) -> tuple[str, str]:
    """Write two commits whose hashes begin with the same four digits; return the hashes."""
    tree = Repository(folder).line("mktree")
    begun: dict[str, tuple[str, bytes]] = {}
    for number in range(10_000):
        body = f"tree {tree}\nauthor a <a> 0 +0000\ncommitter a <a> 0 +0000\n\n{number}\n".encode()
        name = hashlib.sha1(b"commit %d\0" % len(body) + body, usedforsecurity=False).hexdigest()
        if name[:4] in begun:
            other, others = begun[name[:4]]
            for text in (others, body):
                Repository(folder).git("hash-object", "-t", "commit", "-w", "--stdin", given=text)
            return other, name
        begun[name[:4]] = name, body
    raise AssertionError("no two hashes begin alike")


def test_only_what_names_one_commit_is_a_commit(folder: Path) -> None:
    one, other = _of_one_beginning(folder)
    blob = Repository(folder).line("hash-object", "-w", "--stdin")
    names = (one, other, one[:4], blob, "missing", "no such", "")
    assert Repository(folder).commits(names) == {one: one, other: other}


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


# --- whatever else there is around it -------------------------------------------------------------


def alias(folder: Path, script: str) -> None:
    """`git slow` is a shell script: real, and as slow as one likes."""
    git_repository.git(folder, "config", "alias.slow", f"!{script}")


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"])
def test_the_repository_of_a_hook_is_not_ours(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(folder)
    commit = git_repository.committed(folder)
    other = git_repository.init(tmp_path / "other")
    git_repository.commit(other)
    where = {"GIT_WORK_TREE": other, "GIT_INDEX_FILE": other / ".git/index"}
    monkeypatch.setenv(name, str(where.get(name, other / ".git")))
    (folder / "a/one.yaml").write_text("2\n")
    repository, inside = git.find(folder / "a")
    assert (repository.folder, inside) == (folder, "a")
    assert repository.commit("HEAD") == commit
    assert repository.uncommitted("a") == {"a/one.yaml"}


def test_what_a_user_configures_by_the_environment_counts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in {"COUNT": "1", "KEY_0": "user.name", "VALUE_0": "Grace"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{key}", value)
    assert Repository(folder).line("config", "user.name") == "Grace"


def test_git_is_stopped_with_all_that_it_started(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    alias(folder, f"exec 3<>{pipe}; sleep 600 & wait")
    monkeypatch.setattr(git_command, "_TIMEOUT", 0.5)
    with pytest.raises(GitError, match=r"git slow: stopped after 0\.5 seconds"):
        Repository(folder).git("slow")
    while _is_read(pipe):  # by a process that has not ended
        pass


def test_git_ends_where_an_interrupt_arrives_as_it_is_started(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within Popen(), where git runs already, and the caller has no process to end."""
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    alias(folder, f"exec 3>{pipe}; echo >&3; sleep 600 & wait")

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, arguments: list[str], **options: Any):
            super().__init__(arguments, **options)
            if "slow" in arguments:
                with pipe.open() as alive:
                    alive.readline()
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        Repository(folder).git("slow")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    while _is_read(pipe):  # by a process that has not ended
        pass


def _is_read(pipe: Path) -> bool:
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


LEADER = """
import os, signal, subprocess, sys, time
child = subprocess.Popen(["sleep", "600"])
def stop(*_):
    time.sleep(0.2)
    os.write(1, f"{child.poll()}\\n".encode())  # print() may be writing what it interrupts
    sys.exit()
signal.signal(signal.SIGTERM, stop)
print("up", flush=True)
while True: time.sleep(0.1)  # a handler waits for the end of a sleep that begins after its signal
"""


def test_what_git_started_ends_after_git() -> None:
    """Its hook, or git would begin to take back its locks while it is killed, and leave some."""
    with subprocess.Popen(
        [sys.executable, "-c", LEADER], stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        assert leader.stdout.readline() == b"up\n"
        git_command.end_group(leader)
        assert leader.stdout.read() == b"None\n"  # to the end: the child has ended too


def test_git_that_ignores_being_asked_is_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alias(folder, "trap '' TERM; while :; do sleep 1; done")
    monkeypatch.setattr(git_command, "_TIMEOUT", 0.3)
    monkeypatch.setattr(git_command, "_GRACE", 0.1)
    with pytest.raises(GitError, match="stopped after"):
        Repository(folder).git("slow")


def working_tree(folder: Path) -> dict[str, bytes]:
    """Files, and folders as they may be empty."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
        if ".git" not in path.parts
    }


@pytest.mark.parametrize("done", ["nothing", "written", "staged", "committed"])
def test_what_is_not_committed_is_undone(done: str, folder: Path) -> None:
    fill(folder)
    (folder / "a/gone.yaml").write_text("1\n")
    (folder / "mine").write_text("1\n")
    git_repository.commit(folder)
    (folder / "mine").write_text("2\n")
    repository = Repository(folder)
    before = working_tree(folder)
    paths = ("a/one.yaml", "a/gone.yaml", "a/new/made.yaml")

    def edit() -> None:
        if done != "nothing":
            (folder / "a/one.yaml").write_text("2\n")
            (folder / "a/gone.yaml").unlink()
            (folder / "a/new").mkdir()
            (folder / "a/new/made.yaml").write_text("1\n")
        if done == "staged":
            git_repository.git(folder, "add", "--all", *paths)
        if done == "committed":
            repository.record(paths, "Change")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), repository.undone_unless_committed(paths):
        edit()
    assert git_repository.git(folder, "status", "--porcelain") == " M mine"
    if done == "committed":
        assert git_repository.git(folder, "log", "-1", "--format=%s") == "Change"
    else:
        assert working_tree(folder) == before


@pytest.mark.parametrize("branch", ["main", "master", "trunk"])
def test_the_branch_to_compare_with_is_one_that_there_is(tmp_path: Path, branch: str) -> None:
    """A repository that was begun here has no origin/HEAD, and may have no main."""
    folder = tmp_path / "new"
    folder.mkdir()
    git_repository.git(folder, "init", "--quiet", f"--initial-branch={branch}")
    git_repository.git(folder, "commit", "--quiet", "--allow-empty", "--message=Start")
    named = "HEAD" if branch == "trunk" else branch
    with pytest.raises(GitError, match=f"name the branch .*: `--against {named}`$"):
        Repository(folder).commit("origin/HEAD")
    git_repository.git(folder, "remote", "add", "origin", str(folder))
    git_repository.git(folder, "fetch", "--quiet", "origin")
    git_repository.git(folder, "remote", "set-head", "origin", "--delete")
    named = "HEAD" if branch == "trunk" else f"origin/{branch}"
    with pytest.raises(GitError, match=f"name the branch .*: `--against {named}`$"):
        Repository(folder).commit("origin/HEAD")


def test_settings_are_those_of_the_repository_that_there_is(tmp_path: Path) -> None:
    """Both have the same configuration, in other files."""
    (tmp_path / "inner").mkdir()
    settings = git.Settings(tmp_path / "inner")
    assert not settings.have_changed()
    for top in (tmp_path, tmp_path / "inner"):
        git_repository.init(top)
        assert settings.have_changed()
        assert not settings.have_changed()
        (top / ".git/info/exclude").write_text("new\n")
        assert settings.have_changed()
        assert not settings.have_changed()


def test_a_rendering_asks_git_nothing_twice(
    repository: Specs, monkeypatch: pytest.MonkeyPatch
) -> None:
    git_repository.init(repository.root)
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root)
    repository.job("prod/new")
    asked: list[tuple[str, ...]] = []
    run = git_command.run

    def noted(folder: Path, arguments: Sequence[str], *more: Any) -> bytes:
        asked.append(tuple(arguments))
        return run(folder, arguments, *more)

    monkeypatch.setattr(git_command, "run", noted)
    assert repository.run("render").exit_code == 0
    assert "diff" in {command for command, *_ in asked}
    repeated = Counter(words for words in asked if words[0] != "cat-file")  # of others
    assert {words for words, times in repeated.items() if times > 1} == set()
