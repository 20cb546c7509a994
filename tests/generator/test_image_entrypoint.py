"""What an image starts by itself: a container with arguments alone, or with nothing at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from repository import ENVIRONMENT, EVERY_TARGET, Repository
from trainwright.datatypes.data import Data

HEAD = ENVIRONMENT.partition("targets")[0] + "podSecurity: baseline\n"
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
image: {repository: registry.example.com/ml/train, tag: "1.0"}
resources: {cpu: "1", memory: 1Gi}
"""
KINDS = ["pytorchjob", "trainingjob", "trainjob", "jobset", "job", "compose"]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.write("dev/environment.yaml", HEAD + EVERY_TARGET)
    return made


def _job(repository: Repository, entrypoint: str, extra: str = "") -> None:
    repository.write("dev/jobs/llm.yaml", f"{JOB}entrypoint: {entrypoint}\n{extra}")


def _programs(data: Data) -> Iterator[dict[str, Any]]:
    """Everything rendered that has an image and what is started in it."""
    if isinstance(data, dict):
        if isinstance(data.get("image"), str):
            yield data
        for value in data.values():
            yield from _programs(value)
    for item in data if isinstance(data, list) else ():
        yield from _programs(item)


def _rendered(repository: Repository) -> list[dict[str, Any]]:
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    texts = [text for path, text in repository.tree().items() if "/llm/" in path]
    documents = [part for text in texts for part in yaml.safe_load_all(text)]
    found = [program for each in documents for program in _programs(each)]
    assert found
    return found


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize(
    ("entrypoint", "args"),
    [("{image: true}", None), ("{image: true, args: [--config, a.toml]}", ["--config", "a.toml"])],
)
def test_the_container_has_no_command(
    repository: Repository, target: str, entrypoint: str, args: list[str] | None
) -> None:
    _job(repository, entrypoint, f"target: {target}\n")
    command, given = ("entrypoint", "command") if target == "compose" else ("command", "args")
    for program in _rendered(repository):
        assert command not in program
        assert program.get(given) == args


def test_flags_are_its_arguments(repository: Repository) -> None:
    _job(repository, "{image: true, args: [fit]}", "target: job\nflags: {lr: 0.5}\n")
    (program,) = _rendered(repository)
    assert program["args"] == ["fit", "--lr=0.5"]


@pytest.mark.parametrize("target", ["pytorchjob", "trainjob", "jobset", "job"])
def test_it_finds_the_other_nodes_as_any_command_does(repository: Repository, target: str) -> None:
    """The variables are those that a command of one's own gets."""
    own = f"target: {target}\nnodes: 3\nprocsPerNode: 2\n"
    _job(repository, "{argv: [run, it]}", own)
    expected = [_variables(program) for program in _rendered(repository)]
    _job(repository, "{image: true}", own)
    assert [_variables(program) for program in _rendered(repository)] == expected


def _variables(program: dict[str, Any]) -> list[str]:
    return [variable["name"] for variable in program.get("env", ())]


@pytest.mark.parametrize(
    ("entrypoint", "extra", "said"),
    [
        ("{image: false}", "", "entrypoint.image is false, expected true"),
        ("{image: true, script: a.py}", "", "keys that exclude each other: image, script"),
        ("{image: true}", "launcherOptions: {tee: '3'}\n", "entrypoint.image starts none"),
        ("{image: true}", "preflight: {disk: 1Gi}\n", "preflight is the entrypoint's"),
        (
            "{image: true}",
            "target: trainingjob\nnodes: 2\n",
            "does not know what the image starts",
        ),
    ],
)
def test_what_it_excludes_is_refused(
    repository: Repository, entrypoint: str, extra: str, said: str
) -> None:
    _job(repository, entrypoint, extra)
    done = repository.run("check", "--no-cache")
    assert done.exit_code == 1
    assert said in done.output
    assert "jobs/llm.yaml:" in done.output


def test_a_runtime_of_the_cluster_has_a_command_that_stays(repository: Repository) -> None:
    lent = '{version: "2.3", runtime: torch-distributed}'
    repository.write("dev/environment.yaml", f"{HEAD}targets: {{trainjob: {lent}}}\n")
    _job(repository, "{image: true}", "target: trainjob\ngracePeriod: 30s\n")
    done = repository.run("check", "--no-cache")
    assert done.exit_code == 1
    assert "a job cannot set entrypoint.image in a runtime of the cluster" in done.output


def test_a_rehearsal_asks_for_the_program(repository: Repository) -> None:
    """The arguments alone are no program, whatever they are called."""
    _job(repository, "{image: true, args: [python, train.py]}", "target: job\n")
    done = repository.run("rehearse", "dev/llm")
    assert done.exit_code != 0
    assert "starts what its image starts" in done.output
    assert "entrypoint.script" in done.output
    assert "Traceback" not in done.output


def test_an_upper_layer_can_name_the_program(repository: Repository) -> None:
    repository.write(
        "defaults.yaml",
        "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n"
        "defaults: {entrypoint: {image: true}}\n",
    )
    _job(repository, "{image: null, script: train.py}", "target: job\nlauncher: python\n")
    (program,) = _rendered(repository)
    assert program["command"] == ["python", "-u", "train.py"]
