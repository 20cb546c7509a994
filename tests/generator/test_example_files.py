"""The example of programs that a file configures: each spec is sound, and what can run here does."""

from __future__ import annotations

import importlib.util
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from trainwright.cli import main

EXAMPLE = Path(__file__).parents[2] / "docs/examples/config-files"
JOBS = sorted(path.stem for path in EXAMPLE.glob("environments/dev/jobs/*.yaml"))
SAYS = {
    "accelerate": "precision bf16, loss 0.0",
    "hydra": "lr 0.1, loss ",
    "deepspeed": "stage 1, loss ",
}
# What no wheel installs: it is built against the PyTorch that is there.
BUILT_HERE = {"deepspeed"} if importlib.util.find_spec("deepspeed") is None else set()


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in which to render."""
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "rendered"))
    monkeypatch.chdir(folder)
    return folder


def _data(folder: Path, job: str) -> dict[str, Any]:
    path = folder / f"environments/dev/rendered/{job}/configmap.yaml"
    return dict(yaml.load(path.read_text(), Loader=yaml.CSafeLoader)["data"])


def test_every_spec_is_sound_and_carries_its_configuration(example: Path) -> None:
    done = CliRunner().invoke(main, ["check", "--fail-on", "note"])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(main, ["render"]).exit_code == 0
    for job in JOBS:
        assert _data(example, job)
    (titan,) = _data(example, "torchtitan").values()
    assert tomllib.loads(titan)["job"]["dump_folder"].startswith("/data/runs/torchtitan-")
    assert yaml.safe_load(_data(example, "axolotl")["qlora.yaml"])["adapter"] == "qlora"


@pytest.mark.slow
@pytest.mark.parametrize("job", sorted(SAYS.keys() - BUILT_HERE))
def test_what_can_run_on_a_laptop_trains_as_its_file_says(example: Path, job: str) -> None:
    done = CliRunner().invoke(main, ["run", f"dev/{job}"])
    assert done.exit_code == 0, done.output
    assert SAYS[job] in done.stdout
