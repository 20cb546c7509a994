"""The example of programs that a file configures: each spec is sound, and what can run here does."""

from __future__ import annotations

import json
import re
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
}


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
@pytest.mark.parametrize("job", sorted(SAYS))
def test_what_can_run_on_a_laptop_trains_as_its_file_says(example: Path, job: str) -> None:
    done = CliRunner().invoke(main, ["rehearse", f"dev/{job}"])
    assert done.exit_code == 0, done.output
    assert SAYS[job] in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 2])
def test_deepspeed_trains_by_its_own_launcher_as_its_file_says(example: Path, nodes: int) -> None:
    said = json.loads(Path("configs/deepspeed.json").read_text())
    per_step = said["train_micro_batch_size_per_gpu"] * said["gradient_accumulation_steps"]
    done = CliRunner().invoke(main, ["rehearse", "dev/deepspeed", f"--nodes={nodes}"])
    assert done.exit_code == 0, done.output
    wanted = f"stage {said['zero_optimization']['stage']}, batch {per_step * nodes}, "
    losses = re.search(rf"{wanted}loss ([0-9.]+) to ([0-9.]+)", done.stdout)
    assert losses, done.output
    first, last = map(float, losses.groups())
    assert last < first
    assert "built successfully" not in done.output  # nothing is compiled for it


@pytest.mark.slow
def test_a_batch_that_deepspeed_refuses_is_named(example: Path) -> None:
    config = Path("configs/deepspeed.json")
    config.write_text(json.dumps({**json.loads(config.read_text()), "train_batch_size": 100}))
    done = CliRunner().invoke(main, ["rehearse", "dev/deepspeed", "--nodes=1"])
    assert done.exit_code == 1, done.output
    assert "train_batch_size is not equal to" in done.stdout
    assert "100 != 16 * 2 * 1" in done.stdout
    assert re.search(
        r"dev/deepspeed failed: deepspeed-\w+-node-0-0 \(rank 0\) ended with exit code 1",
        done.stderr,
    )
