"""The notebook, in a kernel, over the shipped environments with one edit that is not committed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from documentation import ROOT
from git_repository import commit, init

NOTEBOOK = ROOT / "docs/examples/notebook/repository.ipynb"

pytestmark = pytest.mark.slow


def test_the_notebook_runs_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    folder = init(tmp_path / "training")
    shutil.copytree(ROOT / "environments", folder / "environments")
    commit(folder)
    job = folder / "environments/prod/jobs/cifar10-cnn.yaml"
    job.write_text(
        job.read_text(encoding="utf-8") + "podLabels: {another: run}\n", encoding="utf-8"
    )
    before = {path: path.read_bytes() for path in folder.rglob("*.yaml")}

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, kernel_name="python3").execute(cwd=str(folder))

    shown = "\n".join(
        output.get("text") or output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
    )
    assert "+retires: 3" in shown
    assert 'TW010 unknown key "retires"' in shown
    assert "('prod/cifar10-cnn', 'new run')" in shown
    assert {path: path.read_bytes() for path in folder.rglob("*.yaml")} == before


def test_the_notebook_is_committed_without_outputs() -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
