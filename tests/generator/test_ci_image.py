"""The image for CI: what its Dockerfile says, and its install steps run for real.

The steps run with the Dockerfile's own words: only the paths inside the image are those of a folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import dockerfile
import pytest
from docker.utils.build import exclude_paths

import git_repository
from repository import Repository

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "generator" / "Dockerfile"
COMMANDS: tuple[dockerfile.Command, ...] = dockerfile.parse_file(str(DOCKERFILE))
_SYSTEM = "apt-get"


def _of(instruction: str) -> list[dockerfile.Command]:
    return [command for command in COMMANDS if command.cmd == instruction]


def test_hadolint_has_nothing_to_say() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), "--ignore=DL3008", DOCKERFILE],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip  DL3008: Debian keeps one version of git, and fixes it
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_it_runs_without_root_on_the_base_of_the_runtime() -> None:
    assert [command.value[0] for command in _of("USER")] == ["1000:0"]
    assert COMMANDS.index(_of("USER")[-1]) > COMMANDS.index(_of("RUN")[-1])
    assert {command.value[0] for command in _of("FROM")} == {"${BASE_IMAGE}", "base"}
    base = re.search(r"^ARG BASE_IMAGE=(.+)$", DOCKERFILE.read_text(), re.MULTILINE)
    assert base
    assert f"ARG {base[0].removeprefix('ARG ')}\n" in (ROOT / "runtime/Dockerfile").read_text()


def test_what_it_copies_is_let_through_and_nothing_else() -> None:
    sources = {
        source for command in _of("COPY") if not command.flags for source in command.value[:-1]
    }
    ignored = DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
    patterns = [line for line in ignored if line and not line.startswith("#")]
    named = {line[1:] for line in patterns if line.startswith("!")}
    assert all((ROOT / source).exists() for source in sources)
    within = {source for source in sources if any(source.startswith(f"{at}/") for at in sources)}
    assert named == sources - within
    links = {str(path.resolve().relative_to(ROOT))
             for path in (ROOT / "generator").rglob("*") if path.is_symlink()}  # fmt: skip
    assert links <= named, "what the sources link to is there"
    let = exclude_paths(str(ROOT / "generator"), ["**/__pycache__"])
    assert not any(path.endswith(".pyc") for path in let)


@pytest.mark.long
@pytest.mark.slow
def test_its_steps_install_a_program_that_works_and_weighs_little(tmp_path: Path) -> None:
    image = tmp_path / "opt"
    (image / "generator").mkdir(parents=True)
    (image / "generator" / "requirements.txt").symlink_to(ROOT / "generator/requirements.txt")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    steps = [command.value[0] for command in _of("RUN") if not command.value[0].startswith(_SYSTEM)]
    assert len(steps) == 3
    for step in steps:
        here = step.partition(" && useradd")[0].replace("/opt/", f"{image}/")
        done = subprocess.run(
            ["sh", "-ec", here], cwd=ROOT / "generator", env={**environment, "PATH": python}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{here}\n{done.stdout}{done.stderr}"
    (library,) = image.glob("trainwright/lib/python3.*/site-packages/helm_python/lib/*.so")
    assert library.stat().st_nlink == 3
    sizes = {(at := path.lstat()).st_ino: at.st_size for path in (image / "trainwright").rglob("*")}
    assert sum(sizes.values()) < 150e6
    made = Repository(git_repository.init(tmp_path / "specs"))
    made.environment("prod")
    made.job("prod/llm")
    program = image / "trainwright" / "bin" / "trainwright"
    for command in ("render", "check"):
        done = subprocess.run(
            [program, command], cwd=made.root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
