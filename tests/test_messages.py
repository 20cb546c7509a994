"""The style of messages, which CONTRIBUTING.md writes down, held over every text of the sources."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from trainwright.datatypes.data import words as everything

ROOT = Path(__file__).parents[1]
SOURCES = (
    ROOT / "generator/src/trainwright",
    ROOT / "editor/src/trainwright_editor",
    ROOT / "runtime/src/trainwright_runtime",
)

# What is refused, and what is written instead.
REFUSED = {
    r"(?<!here )\b(?:is|are) no (?!longer|more\b)": '"is not a valid ..." (or "there is no ...")',
    r"\b(?:[Nn]obody|[Ss]omebody|[Aa]nybody|[Ww]hoever)\b": "who or what it is",
    r"\b(?:GPUs|containers|jobs|nodes|pods|processes|ranks|steps|units?) an? "
    r"(?:GPU|container|job|month|node|pod|process|step)\b": '"per"',
    r"\bwhat becomes of\b": '"what happens to"',
    r"\b(?:10m|secret|30s) say\b": '"such as"',
}


def _files(source: Path) -> list[Path]:
    """The modules, and the files with the words of rules, and why a value is not imported."""
    tables = ("*.py", "data/TW*.yaml", "reasons.yaml", "importing/*.yaml")
    return sorted(path for pattern in tables for path in source.rglob(pattern))


@cache
def _texts(path: Path) -> list[tuple[int, str]]:
    """Every text of a module but its docstrings, and those of attributes; the words of a rule."""
    if path.suffix == ".yaml":
        words = next(yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader))
        if path.parent.name == "importing":
            return [(1, text) for text in everything(words)]
        if isinstance(words, dict):
            effects = words.pop("effects", {}).values()
            return [(1, text) for text in (*words.values(), *effects)]
        return [(1, why) for _, _, why in words]
    return list(_found(path))


def _found(path: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in docstrings:
            yield node.lineno, node.value


@pytest.mark.parametrize("pattern", REFUSED)
def test_messages_are_written_in_one_style(pattern: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}; write {REFUSED[pattern]}"
        for source in SOURCES
        for path in _files(source)
        for line, text in _texts(path)
        if re.search(pattern, text)
    ]
    assert found == []


# In docstrings, comments and names as well: who acts, and what programs do.
VAGUE = r"\b(?:[Nn]obody|[Ss]omebody|[Aa]nybody|[Ww]hoever)\b"
SPOKEN = r"\b(?:[Ss]ays?|[Ss]aid|[Tt]ells?|told|telling|[Aa]sks?|[Aa]sked|asking|comes? to|becom(?:es|e) of)\b"
# What a file object has, https://docs.python.org/3/library/io.html#io.IOBase.tell, and what the generator names so
_NOT_OURS = re.compile(r"def tell\(self\)|\.tell\(\)|workspace\.asking\(")


@pytest.mark.parametrize(
    ("source", "pattern"),
    [(source, VAGUE) for source in SOURCES] + [(source, SPOKEN) for source in SOURCES[1:]],
)
def test_docstrings_comments_and_names_name_who_acts(source: Path, pattern: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _files(source)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line) and not _NOT_OURS.search(line)
    ]
    assert found == []


# Pages and files that people read; what programs do there is in the same words.
PAGES = (
    "*.md", "*.yml", "Makefile", "docs/**/*.md", "chart/**/*", ".github/**/*.yaml",
    "editor/**/*.md", "editor/**/package.json", "schemas/**/*.json", "runtime/*", "generator/*.md",
    "scripts/*.py",
)  # fmt: skip
_IN_PAGES = re.compile(
    rf"{VAGUE}|\b(?:says?|said|tells?|told|telling|asks|asked|asking|becom(?:es|e) of)\b"
)
_ALLOWED = (
    "CHANGELOG.md:",  # of versions that are out
    "only people say and ask",  # the rule itself, in CONTRIBUTING.md
)


def test_pages_name_who_acts_and_what_programs_do() -> None:
    named = subprocess.run(
        ["git", "ls-files", "-z", "--", *(f":(glob){pattern}" for pattern in PAGES)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    texts = [name for name in named if name and (ROOT / name).suffix not in (".png", ".svg")]
    assert len(texts) > 200
    found = [
        line
        for name in texts
        for number, text in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        if _IN_PAGES.search(text)
        and not any(part in (line := f"{name}:{number}: {text.strip()}") for part in _ALLOWED)
    ]
    assert found == []


def test_the_words_of_rules_are_among_the_texts() -> None:
    texts = [text for path in _files(SOURCES[0]) for _, text in _texts(path)]
    assert "Every container has an image." in texts


def test_the_patterns_find_what_they_are_for() -> None:
    for text in (
        '"x" is no duration',
        "nobody asks",
        "processes a node",
        "what becomes of it",
        "10m say",
    ):
        assert any(re.search(pattern, text) for pattern in REFUSED), text
    for text in ("there is no environment", "it is no longer needed", "processes per node"):
        assert not any(re.search(pattern, text) for pattern in REFUSED), text
