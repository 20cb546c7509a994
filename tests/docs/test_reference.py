"""The reference: it has every command, field and variable that there is, and none that is not."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt

from trainwright.cli import main
from trainwright_runtime.coordination.timeouts import Timeouts

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCES = (
    "generator/src/trainwright",
    "editor/src/trainwright_editor",
    "runtime/src/trainwright_runtime",
    "runtime/workloads",
)
# A whole name: neither a prefix, as in TRAINWRIGHT_CHECKPOINT_*, nor what a shell asks click by.
VARIABLE = re.compile(r"(?<![A-Z_])TRAINWRIGHT(?:_[A-Z]+)+(?![A-Z_*])")


def _used() -> set[str]:
    found = {
        name
        for source in SOURCES
        for path in (ROOT / source).rglob("*.py")
        for name in VARIABLE.findall(path.read_text(encoding="utf-8"))
    }
    return found | {f"TRAINWRIGHT_{field.name.upper()}_TIMEOUT" for field in fields(Timeouts)}


def _commands(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _commands(inner, click.Context(inner, info_name=name, parent=context))


def _rows(page: str) -> set[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    cells = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_variable_has_a_row_and_every_row_a_variable() -> None:
    rows = {name for name in _rows("variables.md") if name.startswith("TRAINWRIGHT_")}
    assert rows == _used()


def test_the_defaults_of_the_timeouts_are_as_the_page_says() -> None:
    text = (DOCS / "variables.md").read_text(encoding="utf-8")
    for field in fields(Timeouts):
        row = next(line for line in text.splitlines() if f"_{field.name.upper()}_TIMEOUT`" in line)
        assert f"; {field.default:g} |" in row


def test_every_option_has_a_help_text() -> None:
    silent = [
        (context.command_path, option.name)
        for context in _commands(main, click.Context(main, info_name="trainwright"))
        for option in context.command.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert silent == []


def test_an_option_can_come_from_its_variable() -> None:
    done = CliRunner().invoke(main, ["list", "rules"], env={"TRAINWRIGHT_LIST_OUTPUT": "json"})
    assert done.output.startswith("{")


def test_every_page_begins_with_what_it_is_for() -> None:
    """A paragraph below the title, before any table, list or block."""
    silent = []
    for page in sorted(DOCS.glob("*.md")):
        text = re.sub(r"\A---\n.*?\n---\n", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        kinds = [t.type for t in MarkdownIt().parse(text)]
        opening = [kind for kind in kinds if kind != "html_block"][:4]
        if opening != ["heading_open", "inline", "heading_close", "paragraph_open"]:
            silent.append(page.name)
    assert silent == []


@pytest.mark.parametrize("script", ["verb_page", "schema_page", "kubernetes_page"])
def test_the_reference_is_fresh(script: str) -> None:
    subprocess.run([sys.executable, ROOT / f"scripts/{script}.py", "--check"], check=True)


def test_the_table_of_fields_helps_to_write_them() -> None:
    """No row has every type, nor one example for names of many kinds."""
    rows = [
        row.split(" | ")
        for row in (ROOT / "docs/schema.md").read_text(encoding="utf-8").splitlines()
        if row.startswith("| `")
    ]
    assert len(rows) > 300
    assert [path for path, value, *_ in rows if value.count(" or ") > 2] == []
    kinds: dict[str, set[str]] = {}
    for *_, meaning in rows:
        named = re.match(r"Name of (?:a|an|the) (\w+).* Example: (`[^`]+`)", meaning)
        if named:
            kinds.setdefault(named[2], set()).add(named[1])
    assert len(kinds) > 5
    assert [example for example, named in kinds.items() if len(named) > 1] == []


def test_each_word_of_the_glossary_is_used_and_explained_once() -> None:
    page = ROOT / "docs/glossary.md"
    rows = re.findall(r"^\| ([a-z ]+) \| (.+) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    words = [word for word, _ in rows if word != "word"]
    assert words == sorted(set(words))
    pages = " ".join(
        path.read_text(encoding="utf-8").lower()
        for path in (*(ROOT / "docs").glob("*.md"), ROOT / "README.md")
        if path != page
    )
    assert [word for word in words if not re.search(rf"\b{word}(?:s|es)?\b", pages)] == []
    assert [word for word, meaning in rows if re.search(r"\. [A-Z]", meaning)] == []
