"""The files with the words and samples of rules: each has its rule, and each rule its file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from trainwright.datatypes.data import Data
from trainwright.rule_model import rule_file
from trainwright.rule_model.edit import EditRule
from trainwright.rule_model.rule import Rule
from trainwright.rule_model.upstream import table
from trainwright.rules.edits.outcomes import EDIT_RULES
from trainwright.rules.registry import RULES

SOURCE = Path(rule_file.__file__).parents[1]
SCHEMA = SOURCE / "rule_model/rule.schema.json"
EVERY: list[Rule | EditRule] = [*RULES.values(), *EDIT_RULES.values()]


def _problems(path: Path, text: str, samples: str) -> Iterator[str]:
    """What is wrong in a file, each with the key: TW711.yaml: /remedy: …"""
    documents = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    if len(documents) != 2:
        yield f"{path.name}: {len(documents)} documents, it must be the words and the samples"
        return
    definitions = json.loads(SCHEMA.read_text())["$defs"]
    for name, document in zip(("words", samples), documents, strict=True):
        validator = jsonschema_rs.validator_for({"$ref": f"#/$defs/{name}", "$defs": definitions})
        for error in validator.iter_errors(document):
            key = "".join(f"/{step}" for step in error.instance_path)
            yield f"{path.name}: {key}: {error.message}"


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: rule.id)
def test_a_file_has_the_keys_of_the_schema(rule: Rule | EditRule) -> None:
    path = rule_file.file_of(rule)
    text = path.read_text("utf-8")
    kind = "samples" if isinstance(rule, Rule) else "edits"
    assert list(_problems(path, text, kind)) == []
    line = text.splitlines()[0].partition("# yaml-language-server: $schema=")[2]
    assert (path.parent / line).resolve() == SCHEMA
    assert rule.words.upstream in {"", *table()}
    assert list(yaml.load_all(text, Loader=yaml.CSafeLoader))[1] == rule.samples, (
        "readers of YAML 1.1 read it otherwise"
    )


def test_every_file_belongs_to_a_rule() -> None:
    found = sorted(path for path in SOURCE.rglob("data/TW*.yaml"))
    assert found == sorted(map(rule_file.file_of, EVERY))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("remedy: ", "remedies: "), ": "),
        (("remedy: ", "remedy: 7 #"), "/remedy: 7 is not of type"),
        (("\n---\n", "\n"), "1 documents"),
        (("near_misses:", "nearMisses:"), "nearMisses"),
        (("fails:\n  kind: ", "fails:\n  kinds: "), "/fails: "),
        (("  - kind: PyTorchJob", "  - kinds: PyTorchJob"), "/variants/0: "),
        (("source: https://", "source: http://"), "/source: "),
    ],
)
def test_an_error_has_the_file_and_the_key(change: tuple[str, str], problem: str) -> None:
    path = rule_file.file_of(RULES["TW711"])
    text = path.read_text("utf-8")
    assert change[0] in text
    found = list(_problems(path, text.replace(*change), "samples"))
    assert any(problem in message for message in found), found
    assert all(message.startswith("TW711.yaml: ") for message in found)


def test_words_are_read_without_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding needs the words; reading the samples takes ten times as long."""
    read: list[str] = []

    def load(text: str) -> list[Data]:
        read.append(text)
        return list(yaml.load_all(text, Loader=yaml.CSafeLoader))

    monkeypatch.setattr(rule_file, "load_rendered", load)
    rule_file._words.cache_clear()
    assert RULES["TW711"].summary
    assert RULES["TW711"].remedy
    (text,) = read
    assert "fails:" not in text
