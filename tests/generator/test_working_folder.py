"""`-C DIR` is to start in DIR, as git has it: every path of every verb is relative to it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import git_repository
from repository import Copied, Repository
from trainwright.cli import main

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: trains, namespace: training}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: a, image: "r.example.com/a:1", command: [python, train.py]}]
"""
GITOPS = "gitops: {engine: flux, repository: {url: 'https://example.com/r.git'}}\n"
# By the verb and its parameter that takes a path: what is run.
RUNS = {
    ("gitops wire", "out"): ("gitops", "wire", "prod", "--out", "wired"),
    ("validate", "crds"): ("validate", "given/job.yaml", "--crds", "given", "--env", "prod"),
    ("import", "files"): ("import", "given/job.yaml", "--env", "prod"),
    ("init", "folder"): (
        "init", "fresh", "--engine", "flux", "--target", "job", "--repository",
        "https://example.com/r.git",
    ),
    ("plan", "crds"): ("plan", "--against", "main", "--crds", "given"),
    ("rehearse", "code"): ("rehearse", "prod/llm", "--dry-run", "--code", "given"),
    ("rehearse", "volumes"): ("rehearse", "prod/llm", "--dry-run", "--code", "given", "--volumes", "given"),
    ("rehearse", "keep"): ("rehearse", "prod/llm", "--dry-run", "--code", "given", "--keep", "kept"),
    ("gitops publish", "to"): ("gitops", "publish", "--to", "given"),
}  # fmt: skip


def _paths(command: click.Command, verb: str) -> Iterator[tuple[str, str]]:
    """Every parameter of a verb that takes a path, with the verb."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _paths(inner, f"{verb} {name}".strip())
    for parameter in command.params:
        if isinstance(parameter.type, click.Path):
            yield verb, str(parameter.name)


def test_every_path_that_a_verb_takes_is_looked_for_in_the_folder(tmp_path: Path) -> None:
    """Where a path must be there, click says so while it parses; none finds what is in DIR only."""
    verbs = click.Context(main)
    found = [path for path in _paths(main, "") if path[0]]
    assert {path for path in RUNS if path != ("gitops publish", "to")} <= {*found}
    (tmp_path / "there").mkdir()
    for verb, name in found:
        command: click.Command = main
        for word in verb.split():
            command = command.get_command(verbs, word)  # type: ignore[attr-defined]
        (parameter,) = [p for p in command.params if p.name == name]
        assert isinstance(parameter.type, click.Path)
        if parameter.type.exists and parameter.param_type_name == "option":
            done = CliRunner().invoke(
                main, ["-C", str(tmp_path), *verb.split(), parameter.opts[0], "there"]
            )
            assert "'there' does not exist" not in done.output, (verb, name)


def _made(folder: Path) -> None:
    repository = Repository(git_repository.init(folder))
    repository.environment("prod", GITOPS)
    repository.job("prod/llm")
    (folder / "given").mkdir()
    (folder / "given/job.yaml").write_text(JOB)
    assert repository.run("render").exit_code == 0
    git_repository.commit(folder, "Begin")


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git/" not in path.as_posix()
    }


@pytest.mark.parametrize("words", RUNS.values(), ids=[" ".join(run) for run in RUNS])
def test_from_elsewhere_it_does_what_it_does_there(
    words: tuple[str, ...], tmp_path: Path, copied: Copied, preloaded_trainwright: Path
) -> None:
    there, elsewhere = tmp_path / "a/x", tmp_path / "elsewhere"
    elsewhere.mkdir()
    outcomes = []
    for run in range(2):
        if there.exists():
            shutil.rmtree(there)
        copied(_made, there)
        where = ["-C", str(there)] if run else []
        done = subprocess.run(
            [preloaded_trainwright, *where, *words],
            cwd=elsewhere if run else there, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode in (0, 1, 2), done.stderr
        outcomes.append((done.returncode, done.stdout, done.stderr, _tree(there)))
        assert not _tree(elsewhere)
    assert outcomes[0] == outcomes[1]


def test_the_folder_of_a_program_that_calls_it_stays(repository: Repository) -> None:
    before = Path.cwd()
    repository.run("check")
    assert Path.cwd() == before
