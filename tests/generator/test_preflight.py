"""Checks before training: what a spec says, what the entrypoint is told, what comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from repository import Repository
from trainwright.objects.pods.command import CHECKS, read_preflight


def _command(repository: Repository) -> list[str]:
    path = repository.root / "environments/prod/rendered/llm/values.yaml"
    found: list[str] = yaml.safe_load(path.read_text())["command"]
    return found


@pytest.fixture
def place(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path)
    repository.environment("prod")
    return repository


CASES: list[tuple[dict[str, Any], str]] = [
    ({"shm": "8Gi"}, "shm=8Gi,disk,checkpoint"),
    ({"shm": False}, "disk,checkpoint"),
    ({"collective": True, "ports": True}, "shm,disk,ports,checkpoint,collective"),
    ({"collective": 2.5, "memory": "64Gi"}, "shm,memory=64Gi,disk,checkpoint,collective=2.5"),
    ({"shm": False, "disk": False, "checkpoint": False}, "none"),
]


@pytest.mark.parametrize(("asked", "option"), CASES)
def test_the_entrypoint_is_told_all_checks(
    place: Repository, asked: dict[str, Any], option: str
) -> None:
    place.job("prod/llm", f"preflight: {json.dumps(asked)}\n")
    done = place.run("render", "prod")
    assert done.exit_code == 0, done.output
    assert f"--preflight={option}" in _command(place)


def test_the_entrypoint_understands_what_it_is_told() -> None:
    options = pytest.importorskip("trainwright_runtime.launch.options")
    assert set(options.CHECKS) == set(CHECKS)
    for _, option in CASES:
        found = options.parse([f"--preflight={option}", "--", "train.py"], {}).preflight
        words = [word.partition("=")[0] for word in option.split(",") if word != "none"]
        assert sorted(found) == sorted(words)


def test_a_job_without_the_field_keeps_its_command(place: Repository) -> None:
    place.job("prod/llm")
    assert place.run("render", "prod").exit_code == 0
    assert not [word for word in _command(place) if "preflight" in word]


@pytest.mark.parametrize(("asked", "option"), CASES)
def test_a_command_comes_back_as_the_field(
    tmp_path: Path, place: Repository, asked: dict[str, Any], option: str
) -> None:
    place.job("prod/llm", f"preflight: {json.dumps(read_preflight(option))}\n")
    assert place.run("render", "prod").exit_code == 0
    assert f"--preflight={option}" in _command(place)


@pytest.mark.parametrize("option", ["", "gpu", "collective=fast", "shm=8Gi,gpu"])
def test_an_option_that_is_not_ours_is_no_field(option: str) -> None:
    assert read_preflight(option) == {}


@pytest.mark.parametrize(
    "extra",
    ["launcher: torchrun\n", "launcher: python\n", "entrypoint: {script: null, argv: [bash]}\n"],
)
def test_another_launcher_has_no_preflight(place: Repository, extra: str) -> None:
    path = place.job("prod/llm", f"preflight: {{shm: 8Gi}}\n{extra}")
    if extra.startswith("entrypoint"):
        path.write_text(path.read_text().replace("entrypoint: {script: train.py}\n", ""))
    done = place.run("check", "prod")
    assert done.exit_code == 1
    assert "preflight is the entrypoint's, and this job does not start it" in done.output


@pytest.mark.parametrize(
    "wrong", ["{gpu: true}", "{shm: lots}", "{ports: 3}", "{collective: 1}", "{}", "true"]
)
def test_what_is_no_check_is_refused(place: Repository, wrong: str) -> None:
    place.job("prod/llm", f"preflight: {wrong}\n")
    done = place.run("check", "prod")
    assert done.exit_code == 1
    assert "preflight" in done.output
