"""Sixty batch scripts in the shapes of public ones: each runs, or what it loses is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.importing import ImportInput
from trainwright.importing.batch import ImportBatch, ImportOptions, run
from trainwright.kinds.reading import Loss

HERE = Path(__file__).parent
SCRIPTS: list[dict[str, Any]] = yaml.safe_load((HERE / "slurm_scripts.yaml").read_text("utf-8"))


def imported(script: str, folder: Path) -> ImportBatch:
    path = folder / "train.sbatch"
    path.write_text(f"#!/bin/bash\n{script.removeprefix('#!/bin/bash -l')}", encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    options = ImportOptions(environment="lab", write=False, image="a.example.com/a:1")
    done = run(HERE, found, options) if found.sources else ImportBatch((), ())
    return ImportBatch(done.imported, (*found.problems, *done.problems))


@pytest.mark.parametrize("sample", SCRIPTS, ids=[sample["shape"] for sample in SCRIPTS])
def test_a_script_runs_or_says_what_it_loses(sample: dict[str, Any], tmp_path: Path) -> None:
    done = imported(sample["script"], tmp_path)
    if refused := sample.get("refused"):
        assert not done.imported
        assert refused in done.problems[0]
        return
    assert done.problems == ()
    (made,) = done.imported
    lost = [str(left) for left in made.left if left.severity is Loss.CANNOT_RUN]
    expected = sample.get("lost", [])
    for text in expected:
        assert any(text in line for line in lost), (text, lost)
    assert bool(lost) is bool(expected), lost
    assert (made.severity is Loss.CANNOT_RUN) is bool(expected)
    for field, value in sample.get("runs", {}).items():
        assert made.spec.get(field) == value, field


def test_three_of_four_scripts_come_in() -> None:
    assert len(SCRIPTS) >= 60
    assert sum("refused" not in sample for sample in SCRIPTS) >= 45
