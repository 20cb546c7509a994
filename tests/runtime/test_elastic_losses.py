"""Losses that are NaN or infinite are said, and where it was asked for, leave no trace."""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright_runtime import elastic
from trainwright_runtime.elastic.errors import NotFinite
from trainwright_runtime.failures import exit_codes

BAD = 13  # the record whose loss is not finite
RECORDS = [float(n) / 24 for n in range(24)]


def _train(worst: float, **options: Any) -> tuple[list[float], int]:
    """Train a small model whose layers keep averages too; all that it learned, and its steps."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(1), torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    records = [worst if n == BAD else value for n, value in enumerate(RECORDS)]
    with elastic.training(model, optimizer, records, batch_size=4, epochs=2, **options) as run:
        for _ in run.epochs():
            for values in run.batches():
                run.backward(model(values.reshape(-1, 1).float()).pow(2).mean())
        return [float(v) for v in model.state_dict().values() for v in v.flatten()], run.step


@pytest.mark.parametrize("worst", [math.nan, math.inf])
@pytest.mark.parametrize("options", [{}, {"synchronize": elastic.LocalSGD(every=2)}], ids=str)
def test_a_loss_that_is_not_finite_is_said(
    worst: float, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    learned, steps = _train(worst, **options)
    assert any(map(math.isnan, learned))
    lines = [r.getMessage() for r in caplog.records if "not finite" in r.getMessage()]
    assert 1 <= len(lines) <= math.log2(steps) + 1, "not one for each step"
    assert 'non_finite="skip"' in lines[0]
    assert lines[0].startswith("step ")


@pytest.mark.parametrize("worst", [math.nan, math.inf])
@pytest.mark.parametrize("options", [{}, {"synchronize": elastic.LocalSGD(every=2)}], ids=str)
def test_its_step_leaves_no_trace_where_it_is_skipped(
    worst: float, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    learned, steps = _train(worst, non_finite="skip", **options)
    assert all(map(math.isfinite, learned))
    assert steps == _train(0.5, **options)[1]
    assert any("its update is left out" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("options", [{}, {"synchronize": elastic.LocalSGD(every=2)}], ids=str)
def test_training_ends_where_it_is_to_stop(options: dict[str, Any]) -> None:
    with pytest.raises(NotFinite, match=r"the loss of step \d is not finite"):
        _train(math.nan, non_finite="stop", **options)


def test_nothing_is_said_of_finite_losses(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert _train(0.5) == _train(0.5, non_finite="skip") == _train(0.5, non_finite="stop")
    assert "not finite" not in caplog.text


def test_another_policy_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="expected 'warn', 'skip' or 'stop'"):
        _train(0.5, non_finite="roll back")


WORLD = """
import json, os, torch
from trainwright_runtime import elastic
model = torch.nn.Sequential(torch.nn.BatchNorm1d(1), torch.nn.Linear(1, 1))
torch.manual_seed(0)
torch.nn.init.ones_(model[1].weight)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
records = [float("nan") if n == 13 else n / 24 for n in range(24)]
with elastic.training(model, optimizer, records, batch_size=6, epochs=2, non_finite="skip") as run:
    for _ in run.epochs():
        for values in run.batches():
            run.backward(model(values.reshape(-1, 1).float()).pow(2).mean())
    with open(os.environ["RANK"] + ".json", "w") as file:
        json.dump([float(model[0].running_mean), float(model[1].weight)], file)
"""


@pytest.mark.slow
def test_all_workers_leave_out_what_is_not_finite_on_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WORLD)
    done = subprocess.run(
        [sys.executable, "-m", "trainwright_runtime", "--nproc-per-node=2", "--", "train.py"],
        cwd=tmp_path, env={**os.environ, "TRAINWRIGHT_BACKEND": "gloo"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == exit_codes.DONE, done.stderr
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first == second
    assert all(map(math.isfinite, first))
