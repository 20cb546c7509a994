"""Files to documents: where they are split, and what each says about itself."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SourceError
from trainwright.documents.yamlio import Document
from trainwright.manifests import reading
from trainwright.manifests.reading import Source


def _read(raw: bytes) -> list[tuple[int, Data]]:
    """Line and data of every document, or line and message of what is wrong."""
    found: list[tuple[int, Data]] = []
    for chunk in reading.split(Source("f.yaml", raw)):
        glanced = reading.glance(chunk)
        for document in reading.documents(chunk):
            if isinstance(document, Document):
                assert glanced is None or glanced == (document.data,)
                found.append((document.place("").line, document.data))
            else:
                found += [(finding.place.line, finding.message) for finding in document]
    return found


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("a: 1\n---\nb: 2\n", [(1, {"a": 1}), (3, {"b": 2})]),
        ("---\na: 1\n---\n---\n# only words\n---\nb: 2", [(2, {"a": 1}), (7, {"b": 2})]),
        ("# head\n\n---\na: 1", [(4, {"a": 1})]),
        ("--- # Source: chart/x.yaml\na: 1", [(2, {"a": 1})]),
        ("--- {a: 1}\n--- text", [(1, {"a": 1}), (2, "text")]),
        ("a: |\n  ---\n  x\n---\nb: 2", [(1, {"a": "---\nx\n"}), (5, {"b": 2})]),
        ("a: 1\r\n---\r\nb: 2\r\n", [(1, {"a": 1}), (3, {"b": 2})]),
        ("\ufeffa: 1\n---\nb: 2", [(1, {"a": 1}), (3, {"b": 2})]),
        ("%YAML 1.1\n---\na: 1\n...\n---\nb: 2", [(3, {"a": 1}), (6, {"b": 2})]),
        ("a: 1\n----\n", [(3, "could not find expected ':'")]),
        ("", []),
        ("---", []),
        ("--- \n  \n# x", []),
        ("~", [(1, None)]),
    ],
)
def test_documents(text: str, documents: list[tuple[int, Data]]) -> None:
    assert _read(text.encode()) == documents


def test_a_broken_document_leaves_the_others() -> None:
    found = _read(b"a: 1\n---\nb: [\n---\nc: \xff\n---\nd: 1\nd: 2\n---\ne: *x\n---\nf: 1")
    assert [line for line, _ in found] == [1, 4, 5, 8, 10, 12]
    assert found[0] == (1, {"a": 1})
    assert found[2][1] == "byte 0xff is not UTF-8"
    assert found[3][1] == 'the key "d" is here twice, first on line 7'
    assert "alias" in found[4][1]
    assert found[5] == (12, {"f": 1})


def test_json_in_every_layout() -> None:
    body = {"apiVersion": "v1", "a": ["x\ty/", "é😀", 1.5, None, "yes"]}
    for text in (json.dumps(body), json.dumps(body, indent="\t"), json.dumps(body, indent=2)):
        assert _read(text.encode()) == [(1, body)]
    assert _read(b'{"a": "\\/"}') == [(1, {"a": "/"})]
    assert _read(b'{"a": 1, "a": 2}') == [(1, 'the key "a" is here twice, first on line 1')]


def test_json_objects_one_after_the_other() -> None:
    text = b'{"a": 1}\n{\n  "b": "}{"\n} {"c": 3}\n'
    assert _read(text) == [(1, {"a": 1}), (2, {"b": "}{"}), (4, {"c": 3})]
    *_, last = reading.split(Source("f.json", text))
    (document,) = reading.documents(last)
    assert isinstance(document, Document)
    assert str(document.place("/c")) == "f.json:4:9"


def test_yaml_in_flow_style_is_no_broken_json() -> None:
    assert _read(b"{a: 1, b: [yes]}") == [(1, {"a": 1, "b": [True]})]


def test_lists_are_their_items() -> None:
    inner = {"kind": "ConfigMapList", "items": [{"kind": "ConfigMap"}]}
    data = {"kind": "List", "items": [{"kind": "A"}, inner, 3]}
    found = [(item.prefix, item.body) for item in reading.objects(data)]
    assert found == [
        ("/items/0", {"kind": "A"}),
        ("/items/1/items/0", {"kind": "ConfigMap"}),
        ("/items/2", 3),
    ]
    assert reading.objects(None) == ()
    (only,) = reading.objects({"kind": "List"})  # without items it is an object like any other
    assert only.prefix == ""


# --- paths ----------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("b.yml", "a.yaml", "c.json", "notes.txt", ".git/x.yaml", "deep/er/d.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"name: {name}")
    return tmp_path


def test_folders_give_their_manifests_in_order(here: Path) -> None:
    found = [source.file for source in reading.gather((".",))]
    assert found == ["a.yaml", "b.yml", "c.json", "deep/er/d.yaml"]


def test_a_file_counts_once_and_may_have_any_name(here: Path) -> None:
    paths = ("notes.txt", str(here / "a.yaml"), "./a.yaml", ".")
    found = [source.file for source in reading.gather(paths)]
    assert found == ["notes.txt", "a.yaml", "b.yml", "c.json", "deep/er/d.yaml"]


def test_links_to_folders_are_not_followed(here: Path) -> None:
    (here / "deep" / "loop").symlink_to(here)
    assert len(reading.gather(("deep",))) == 1


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: 1")))
    assert reading.gather(("-", "-")) == (Source(reading.STDIN, b"a: 1"),)


def test_what_cannot_be_read_is_said_in_one_line(here: Path) -> None:
    (here / "empty").mkdir()
    with pytest.raises(SourceError, match=r"empty holds no \.yaml, \.yml, \.json file"):
        reading.gather(("empty",))
    with pytest.raises(SourceError, match=r"cannot read missing\.yaml: No such file"):
        reading.gather(("missing.yaml",))
