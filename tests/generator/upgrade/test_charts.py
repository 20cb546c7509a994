"""Another chart renders what it would by itself, however its schema is asked."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from helm_chart import CHART
from trainwright.helm import engines
from trainwright.helm.engines import ChartRefusal, OtherChart
from trainwright.specs import yamlio

VALUES: dict[str, Any] = {
    "target": "job",
    "fullnameOverride": "llm-1a2b3c4d",
    "image": {"repository": "registry.example.com/ml/train", "tag": "1.0"},
    "command": ["python", "train.py"],
}
SCHEMAS = {
    "ours": None,
    "none": "",
    "one that refuses nothing": "{}",
    "one that refers to a file": '{"$ref": "elsewhere.json"}',
    "broken": "{",
}


@pytest.fixture(params=["folder", "archive"])
def packed(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Makes a chart of ours with another schema: its folder, or an archive."""

    def pack(text: str | None) -> Path:
        folder = tmp_path / "charts" / "training-job"
        shutil.copytree(CHART, folder)
        if text is not None:
            (folder / "values.schema.json").unlink()
        if text:
            (folder / "values.schema.json").write_text(text, encoding="utf-8")
        if request.param == "folder":
            return folder
        path = tmp_path / "chart.tgz"
        with tarfile.open(path, "w:gz") as archive:
            archive.add(folder, folder.name)
        return path

    return pack


@pytest.mark.parametrize("schema", ["ours", "none", "one that refuses nothing"])
def test_it_renders_the_same_with_any_schema_that_takes_the_values(
    packed: Any, schema: str
) -> None:
    chart = OtherChart(packed(SCHEMAS[schema]))
    assert chart.render(VALUES, "llm", "prod") == engines.engine().render(VALUES, "llm", "prod")


@pytest.mark.parametrize("schema", ["one that refers to a file", "broken"])
def test_a_schema_that_cannot_be_compiled_is_helms(packed: Any, schema: str) -> None:
    with pytest.raises((ChartRefusal, engines.EngineError)):
        OtherChart(packed(SCHEMAS[schema])).render(VALUES, "llm", "prod")


def test_what_a_schema_refuses_is_refused_in_helms_words(packed: Any) -> None:
    text = json.dumps({"properties": {"target": {"enum": ["jobset"]}}})
    with pytest.raises(ChartRefusal, match="jobset"):
        OtherChart(packed(text)).render(VALUES, "llm", "prod")


def test_nothing_is_left_of_it(
    packed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    chart = OtherChart(packed(None))
    assert list(scratch.iterdir()) == []
    (document,) = yamlio.load_rendered(chart.render(VALUES, "llm", "prod")["job.yaml"])[-1:]
    assert document["kind"] == "Job"
