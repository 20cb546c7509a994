"""`python -m trainwright_runtime.checkpoint`: what a checkpoint holds, without the model for it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file

from trainwright_runtime.checkpoint import Checkpoints
from trainwright_runtime.checkpoint.__main__ import main


def run(*argv: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in argv])


def _save(folder: Path, step: int, nudge: float = 0.0, rate: float = 0.1) -> Path:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    with torch.no_grad():
        model[0].weight[1, 1] += nudge
    with Checkpoints(folder) as checkpoints:
        checkpoints.save(step, {"model": model, "optimizer": optimizer, "seen": [step, 7]})
    return folder / f"step-{step:010}"


def test_a_checkpoint_says_what_it_holds(tmp_path: Path) -> None:
    _save(tmp_path, 3)
    _save(tmp_path, 12)
    shown = run("inspect", tmp_path, "--tensors")
    assert shown.exit_code == 0, shown.output
    assert "step-0000000012: step 12, " in shown.output
    assert "whole, written by 1 rank(s) with torch " in shown.output
    assert "  model: 7 tensors, 22 elements, 92 bytes (float32, int64)" in shown.output
    assert "    model/0.weight: float32 [3, 2]" in shown.output
    assert "  seen: values" in shown.output
    document = json.loads(run("inspect", tmp_path / "step-0000000003", "-o", "json").output)
    assert document["step"] == 3
    assert document["entries"] == ["model", "optimizer", "seen"]
    assert document["tensors"]["model/0.bias"] == {"dtype": "float32", "shape": [3], "bytes": 12}


def test_what_differs_is_listed_by_its_place(tmp_path: Path) -> None:
    first, same = _save(tmp_path / "a", 3), _save(tmp_path / "b", 3)
    assert run("compare", first, same).output == "no differences\n"
    other = _save(tmp_path / "c", 5, nudge=0.5, rate=0.2)
    found = run("compare", first, other)
    assert found.exit_code == 1
    assert found.output.splitlines() == [
        "model/0.weight: 1 of 6 elements, at most 0.5 apart",
        "optimizer/param_groups/0/lr: 0.1, 0.2",
        "seen/0: 3, 5",
        "3 differences",
    ]
    assert run("compare", first, other, "--entry=model", "--atol=0.6").exit_code == 0
    assert "neither checkpoint has 'ema'" in run("compare", first, other, "--entry=ema").output


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("left", "right", "options", "found"),
    [
        ([2**53], [2**53 + 1], [], "x: 1 of 1 elements, at most 1 apart"),
        ([2**53], [2**53 + 1], ["--atol=0.5"], "x: 1 of 1 elements, at most 1 apart"),
        ([2**53], [2**53 + 1], ["--atol=1"], "no differences"),
        ([-(2**63), 5], [2**63 - 1, 5], [], "x: 1 of 2 elements, at most 1.84e+19 apart"),
        ([7, 3], [7, 1], [], "x: 1 of 2 elements, at most 2 apart"),
        ([7, 3], [7, 1], ["--rtol=2"], "no differences"),
        ([True], [False], [], "x: 1 of 1 elements, at most 1 apart"),
        ([NAN, 1.0, 2.0], [NAN, 1.5, 2.0], [], "x: 1 of 3 elements, at most 0.5 apart"),
        ([NAN, 1.0], [NAN, 1.0], [], "no differences"),
        ([NAN], [1.0], ["--atol=9"], "x: 1 of 1 elements, at most nan apart"),
        ([INF], [INF], [], "no differences"),
        ([1.0], [INF], ["--rtol=9"], "x: 1 of 1 elements, at most inf apart"),
        ([1 + 1j], [1 + 2j], [], "x: 1 of 1 elements, at most 1 apart"),
    ],
)
def test_how_tensors_differ(
    left: list[float], right: list[float], options: list[str], found: str, tmp_path: Path
) -> None:
    for name, values in (("a", left), ("b", right)):
        with Checkpoints(tmp_path / name) as checkpoints:
            checkpoints.save(1, {"x": torch.tensor(values)})
    shown = run("compare", tmp_path / "a", tmp_path / "b", *options)
    assert shown.output.splitlines()[0] == found
    assert shown.exit_code == (found != "no differences")


def test_a_folder_to_convert_into_has_to_exist(tmp_path: Path) -> None:
    _save(tmp_path / "a", 3)
    refused = run("convert", tmp_path / "a", tmp_path / "b/model.safetensors")
    assert refused.exit_code == 2
    assert f"there is no folder {tmp_path / 'b'}: make it first" in refused.output
    refused = run("convert", tmp_path / "a", "/proc/self/model.safetensors")
    assert refused.exit_code == 1
    assert refused.output.startswith("Error: /proc/self/model.safetensors cannot be written: ")
    assert refused.output.count("\n") == 1


def test_an_error_without_a_file_is_named_by_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_location: str) -> None:
        raise OSError("the store hung up")

    monkeypatch.setattr("trainwright_runtime.checkpoint.__main__.open_checkpoint", refuses)
    assert run("inspect", tmp_path).output == "Error: the store hung up\n"


def test_a_model_becomes_a_safetensors_file(tmp_path: Path) -> None:
    checkpoint, target = _save(tmp_path / "a", 3), tmp_path / "model.safetensors"
    assert run("convert", tmp_path / "a", target).exit_code == 0
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    model.load_state_dict(load_file(target))
    torch.manual_seed(0)
    assert torch.equal(model[0].weight, torch.nn.Linear(2, 3).weight)
    again = run("convert", checkpoint, target)
    assert again.exit_code == 2
    assert "is there already: choose another name, or --force" in again.output
    assert run("convert", checkpoint, target, "--force").exit_code == 0
    refused = run("convert", checkpoint, tmp_path / "o.safetensors", "--entry=optimizer")
    assert refused.exit_code == 1
    assert "holds more than tensors ('state'), which a safetensors file cannot" in refused.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "model.safetensors"]


@pytest.mark.parametrize("command", [["inspect"], ["convert"], ["compare"]])
def test_what_is_no_checkpoint_or_damaged_is_one_line(command: list[str], tmp_path: Path) -> None:
    checkpoint = _save(tmp_path / "a", 3)
    more = {"inspect": [], "convert": [tmp_path / "m.safetensors"], "compare": [checkpoint]}
    missing = run(*command, tmp_path / "nothing", *more[command[0]])
    assert missing.exit_code == 1
    assert missing.output.startswith("Error: ")
    assert "is not a checkpoint and holds none" in missing.output
    with (checkpoint / "state.json").open("a") as file:
        file.write(" ")
    damaged = run(*command, checkpoint, *more[command[0]])
    assert damaged.exit_code == 1
    assert damaged.output.count("\n") == 1
    assert "is damaged: state.json is not what was written" in damaged.output
