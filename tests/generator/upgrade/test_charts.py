"""Another chart renders what it would by itself, however its schema is asked."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from helm_chart import CHART
from trainwright.documents import yamlio
from trainwright.helm import engines
from trainwright.helm.engines import ChartRefusal, OtherChart

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


def _packed_with(path: Path, member: tarfile.TarInfo) -> Path:
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        archive.add(CHART, CHART.name)
        if member.isreg():
            member.size = 4
        archive.addfile(member, io.BytesIO(b"out\n") if member.isreg() else None)
    return path


def _member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


HAZARDS = {
    "a name above it": _member("../out"),
    "a name that leaves it": _member("training-job/../../out"),
    "an absolute name": _member("/tmp/out"),
    "a name with a drive": _member("C:/out"),
    "a name with other separators": _member("training-job\\..\\..\\out"),
    "a folder above it": _member("../out", tarfile.DIRTYPE),
    "a link that leaves it": _member("training-job/out", tarfile.SYMTYPE, "/etc/passwd"),
    "a link inside": _member("training-job/out", tarfile.SYMTYPE, "values.yaml"),
    "a hard link": _member("training-job/out", tarfile.LNKTYPE, "training-job/values.yaml"),
    "a hard link to nothing": _member("training-job/out", tarfile.LNKTYPE, "missing"),
    "a device": _member("training-job/out", tarfile.CHRTYPE),
    "a pipe": _member("training-job/out", tarfile.FIFOTYPE),
}


@pytest.mark.parametrize("hazard", HAZARDS)
def test_an_archive_with_more_than_files_of_its_own_is_refused(hazard: str, tmp_path: Path) -> None:
    path = _packed_with(tmp_path / "inside" / "chart.tgz", HAZARDS[hazard])
    with pytest.raises(engines.EngineError, match="is not a chart") as refused:
        OtherChart(path)
    assert str(path) in str(refused.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["inside"]


@pytest.mark.parametrize("cut", [0, 1, 20, 2000, -2000])
def test_a_damaged_archive_is_one_sentence(cut: int, tmp_path: Path) -> None:
    path = _packed_with(tmp_path / "chart.tgz", _member("training-job/out"))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(engines.EngineError, match="is not a chart"):
        OtherChart(path)


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
