"""1, 1.0 and true are three values to a program, and equal to Python."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from git_repository import ENVIRONMENT, commit, init
from repository import Repository
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.same import identical
from trainwright.files.tree import Folder
from trainwright.runs.decision import Step
from trainwright.runs.workspace import Workspace

JOB: dict[str, Any] = {
    "apiVersion": "trainwright.io/v1alpha1",
    "kind": "JobSpec",
    "name": "llm",
    "image": {"repository": "registry.example.com/ml/train", "tag": "1.0"},
    "entrypoint": {"script": "train.py"},
    "resources": {"cpu": "8", "memory": "64Gi"},
}
# What is written in a field before and after: equal to Python, and not the same.
EDITS = {
    "a number and a truth": ({"amp": 1}, {"amp": True}),
    "no number and no truth": ({"amp": 0}, {"amp": False}),
    "a whole number and a fraction": ({"lr": 1}, {"lr": 1.0}),
    "in a list": ({"betas": [1, 2]}, {"betas": [True, 2]}),
}


@pytest.fixture
def repository(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Repository:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    made = Repository(init(tmp_path / "repository"))
    made.environment("prod")
    return made


def _render(repository: Repository) -> dict[str, str]:
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    commit(repository.root, "Rendered")
    return repository.tree()


def _write(repository: Repository, path: str, spec: dict[str, Any]) -> None:
    repository.write(path, yaml.safe_dump(spec))


@pytest.mark.parametrize("edit", EDITS)
def test_another_value_of_the_own_file_is_another_run(edit: str, repository: Repository) -> None:
    before, after = EDITS[edit]
    _write(repository, "prod/jobs/llm.yaml", {**JOB, "flags": before})
    files = _render(repository)
    _write(repository, "prod/jobs/llm.yaml", {**JOB, "flags": after})
    decision = Workspace(Folder(repository.root)).job(JobFile("prod", "llm")).decision
    assert decision is not None
    assert decision.step is Step.BEGIN
    assert "Starts 1 run beside the old one" in repository.run("plan", "--against", "HEAD").stdout
    assert _render(repository) != files


@pytest.mark.parametrize("edit", EDITS)
def test_another_value_of_a_base_is_held(edit: str, repository: Repository) -> None:
    before, after = EDITS[edit]
    derived = {key: JOB[key] for key in ("apiVersion", "kind", "name")} | {"extends": "base/llm"}
    _write(repository, "base/jobs/llm.yaml", {**JOB, "flags": before})
    _write(repository, "prod/jobs/llm.yaml", derived)
    files = _render(repository)
    _write(repository, "base/jobs/llm.yaml", {**JOB, "flags": after})
    (name,) = after
    assert f"flags.{name} (environments/base/jobs/llm.yaml:" in repository.run("list").stdout
    assert f"flags.{name}" in repository.run("plan", "--against", "HEAD").stdout
    assert _render(repository) == files


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1, True),
        (1, True, False),
        (1, 1.0, False),
        ("1", 1, False),
        (None, False, False),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": [1]}, {"a": [True]}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1], (1,), True),
        ([], {}, False),
        ([1, 2], [1], False),
    ],
)
def test_identical(one: Any, other: Any, same: bool) -> None:
    assert identical(one, other) is same
    assert identical(other, one) is same
