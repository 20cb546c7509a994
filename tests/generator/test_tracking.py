"""Trackers file what a script logs under a project, with job, run and commit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from repository import Repository


def _env(repository: Repository) -> tuple[str, dict[str, str]]:
    folder = repository.root / "environments/prod/rendered/llm"
    name: str = json.loads((folder / "run.lock").read_text())["object"]
    return name, yaml.safe_load((folder / "values.yaml").read_text()).get("env", {})


@pytest.fixture
def place(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path)
    repository.environment("prod")
    return repository


@pytest.mark.parametrize("launcher", ["trainwright", "torchrun", "python"])
def test_trackers_find_project_job_run_and_commit(place: Repository, launcher: str) -> None:
    place.job(
        "prod/llm", f"tracking: {{project: Big models, commit: 9bab922}}\nlauncher: {launcher}\n"
    )
    done = place.run("render", "prod")
    assert done.exit_code == 0, done.output
    name, env = _env(place)
    assert (env["WANDB_PROJECT"], env["WANDB_RUN_GROUP"]) == ("Big models", name)
    assert (env["WANDB_TAGS"], env["WANDB_GIT_COMMIT"]) == ("prod,llm", "9bab922")
    assert (env["MLFLOW_EXPERIMENT_NAME"], env["TRACKIO_PROJECT"]) == ("Big models", "Big models")
    assert json.loads(env["MLFLOW_RUN_CONTEXT"]) == {
        "mlflow.source.git.commit": "9bab922",
        "trainwright.environment": "prod",
        "trainwright.job": "llm",
        "trainwright.run": name,
    }


def test_without_a_commit_none_is_claimed(place: Repository) -> None:
    place.job("prod/llm", "tracking: {project: llm}\n")
    assert place.run("render", "prod").exit_code == 0
    _, env = _env(place)
    assert "WANDB_GIT_COMMIT" not in env
    assert "mlflow.source.git.commit" not in env["MLFLOW_RUN_CONTEXT"]


def test_a_job_without_the_field_has_no_such_variables(place: Repository) -> None:
    place.job("prod/llm")
    assert place.run("render", "prod").exit_code == 0
    assert _env(place)[1] == {}


@pytest.mark.parametrize(
    "wrong", ["{commit: 9bab922}", "{project: a/b}", "{project: x, commit: main}", "{project: ''}"]
)
def test_what_trackers_would_refuse_is_refused(place: Repository, wrong: str) -> None:
    place.job("prod/llm", f"tracking: {wrong}\n")
    done = place.run("check", "prod")
    assert done.exit_code == 1
    assert "tracking" in done.output
