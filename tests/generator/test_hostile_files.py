"""What lies where a spec or a rendered file should: pipes, sockets, huge and nested files, CRLF."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import git_repository
from git_repository import git
from repository import Repository

BASE = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: odd\n"
_HANGS = 60  # seconds after which a verb counts as hanging; none takes a tenth of it


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(repository: Repository, preloaded_trainwright: Path) -> Run:
    """A verb in a process of its own, since opening a pipe cannot be interrupted from within."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [preloaded_trainwright, "-C", str(repository.root), *arguments],
            capture_output=True, text=True, check=False, timeout=_HANGS,
        )  # fmt: skip

    return run


def _socket(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # the path of a socket has 107 bytes at most
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)  # without a byte on disk


SPECIAL: dict[str, Callable[[Path], None]] = {"fifo": os.mkfifo, "socket": _socket}
ODD = {**SPECIAL, "folder": Path.mkdir, "huge": _huge}
AT_ONCE = (
    ("prod/jobs/odd.yaml", "prod/jobs/llm.yaml", "base/jobs/odd.yaml", "dev/ledger.yaml"),
    ("dev/environment.yaml", "prod/environment.yaml"),
    ("defaults.yaml",),
)


@pytest.mark.parametrize("paths", AT_ONCE, ids=" ".join)
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_regular_file_is_a_finding(
    kind: str, paths: tuple[str, ...], repository: Repository, run: Run
) -> None:
    repository.job("prod/mnist", "extends: base/odd\n")
    repository.write("base/jobs/odd.yaml", BASE)
    for path in paths:
        full = repository.root / "environments" / path
        full.unlink(missing_ok=True)
        ODD[kind](full)
    done = run("check", "--no-cache", "-o", "json")
    assert done.returncode == 1, done.stderr
    results = json.loads(done.stdout)["report"]["results"]
    assert len(results) == len(paths)
    message = [f"{found['place']['file']} {found['message']}" for found in results]
    for path in paths:
        assert any(f"environments/{path}" in text for text in message), message


RECORDS = [(kind, name) for name in ("llm/run.lock",) for kind in ODD]
TOO_LARGE = ("huge", "llm/run.lock")  # a file like any other, which cannot be a record


@pytest.mark.parametrize(("kind", "name"), [odd for odd in RECORDS if odd != TOO_LARGE])
def test_a_record_that_is_no_regular_file_is_one_line(
    kind: str, name: str, repository: Repository, run: Run
) -> None:
    path = repository.root / "environments/prod/rendered" / name
    path.parent.mkdir(parents=True)
    ODD[kind](path)
    done = run("render", "--check")
    assert done.returncode == 2
    assert done.stderr.startswith("trainwright: cannot read ")
    assert len(done.stderr.splitlines()) == 1


def test_a_record_that_is_too_large_is_a_finding_of_its_job(
    repository: Repository, run: Run
) -> None:
    assert run("render").returncode == 0
    _huge(repository.root / "environments/prod/rendered/llm/run.lock")
    done = run("render", "--check")
    assert done.returncode == 1
    found = "environments/prod/rendered/llm/run.lock was edited, or committed with the markers"
    assert done.stderr.startswith(f"error[TW054]: {found}")
    assert "1 error in 3 jobs" in done.stderr


@pytest.mark.parametrize("kind", SPECIAL)
def test_a_rendered_file_that_is_none_is_replaced(
    kind: str, repository: Repository, run: Run
) -> None:
    assert repository.run("render").exit_code == 0
    path = repository.root / "environments/prod/rendered/llm/pytorchjob.yaml"
    text = path.read_text()
    path.unlink()
    SPECIAL[kind](path)
    assert run("render", "--check").returncode == 1
    assert run("render").returncode == 0
    assert path.read_text() == text


NESTED = ["[" * 200_000, '{"jobs":' * 100_000, "[" * 5_000 + "]" * 5_000]


@pytest.mark.parametrize("text", NESTED, ids=["list", "mapping", "closed"])
def test_a_nested_record_is_named(text: str, repository: Repository) -> None:
    assert repository.run("render").exit_code == 0
    repository.write("prod/rendered/llm/run.lock", text)
    done = repository.run("render", "--check")
    assert done.exit_code == 1
    assert "run.lock" in done.output
    assert "Traceback" not in done.output


# --- line ends -----------------------------------------------------------------------------------


@pytest.fixture
def converted(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Repository:
    """A clone in whose working tree git has made every line end CRLF."""
    for name, value in git_repository.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert repository.run("render").exit_code == 0
    origin = git_repository.init(tmp_path / "origin")
    (repository.root / "environments").rename(origin / "environments")
    git_repository.commit(origin)
    git(tmp_path, "clone", "--quiet", "-c", "core.autocrlf=true", origin.as_uri(), "crlf")
    clone = Repository(tmp_path / "crlf")
    assert b"\r\n" in (clone.root / "environments/prod/rendered/llm/run.lock").read_bytes()
    return clone


def _bytes(repository: Repository) -> dict[Path, bytes]:
    base = repository.root / "environments"
    return {path: path.read_bytes() for path in sorted(base.rglob("*")) if path.is_file()}


def test_line_ends_that_git_converted_are_no_edits(converted: Repository) -> None:
    before = _bytes(converted)
    for options in ((), ("--no-cache",)):
        done = converted.run("render", "--check", *options)
        assert done.exit_code == 0, done.output
        assert "edited" not in done.output
        assert converted.run("render", *options).exit_code == 0
    assert _bytes(converted) == before
    assert git(converted.root, "status", "--porcelain") == ""
    done = converted.run("gitops", "publish")
    assert done.exit_code == 0, done.output
    assert "up to date" in done.stdout


def test_an_edit_by_hand_is_one_whatever_the_line_ends(converted: Repository) -> None:
    path = converted.root / "environments/prod/rendered/llm/pytorchjob.yaml"
    path.write_bytes(path.read_bytes().replace(b"train.py", b"eval.py", 1))
    done = converted.run("render", "--check")
    assert done.exit_code == 1
    (line,) = done.stdout.splitlines()
    assert "edited by hand" in line
    assert converted.run("render").exit_code == 0
    assert git(converted.root, "diff") == ""


INLINE = """\
entrypoint:
  inline: |
    import torch

    print("a")
flags: {text: "a
  b"}
"""


def test_a_spec_in_crlf_is_the_same_run(repository: Repository) -> None:
    path = repository.job("prod/llm")
    text = path.read_text().replace("entrypoint: {script: train.py}\n", INLINE)
    path.write_text(text)
    assert repository.run("render", "prod").exit_code == 0
    before = repository.tree()
    for ending in ("\r\n", "\r"):
        path.write_bytes(text.replace("\n", ending).encode())
        assert repository.run("render", "--check", "--no-cache", "prod").exit_code == 0
    assert repository.tree() == before


def test_every_verb_that_compares_agrees_in_crlf(converted: Repository) -> None:
    assert converted.run("plan", "--against", "HEAD").stdout == "Nothing changes for any job\n"
    done = converted.run("promote", "mnist", "--from", "dev", "--to", "prod")
    assert done.exit_code == 0, done.output
    assert git(converted.root, "status", "--porcelain") == ""


VERBS = (
    ("suspend", "prod/llm"), ("cancel", "prod/llm", "--orphan"), ("rerun", "prod/llm"),
    ("set", "prod/llm", "--max-duration", "7h"),
)  # fmt: skip


@pytest.mark.parametrize("verb", VERBS, ids=[verb[0] for verb in VERBS])
def test_a_spec_keeps_its_line_ends(verb: tuple[str, ...], converted: Repository) -> None:
    path = converted.root / "environments/prod/jobs/llm.yaml"
    before = path.read_bytes()
    done = converted.run(*verb)
    assert done.exit_code == 0, done.output
    after = path.read_bytes()
    assert after != before
    assert after.count(b"\n") == after.count(b"\r\n")
