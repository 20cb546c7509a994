"""The pages as data: their blocks, and the commands in these with what they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
_NOT_RUN = re.compile(r"<!-- not run: (?P<why>.+?) -->")
_CHANGING = (
    (re.compile(r"-[0-9a-f]{8}\b"), "-HASH"),
    (re.compile(r"sha256:([0-9a-f]{64}|…)"), "sha256:HASH"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "COMMIT"),
    (re.compile(r"\d+\.\d+\.\d+\b"), "VERSION"),
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, the line that it begins at, and what is above it."""

    page: str
    line: int
    language: str
    text: str
    above: str  # the text of the paragraph before
    not_run: str  # the reason of a mark right above it

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True)
class Step:
    """A command and the lines that it prints, among others."""

    command: str
    shown: tuple[str, ...]


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@cache  # several modules of tests read every page
def blocks(page: Path) -> tuple[Block, ...]:
    return tuple(_blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    above = marked = ""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type == "inline":
            above = token.content
        elif token.type == "html_block":
            found = _NOT_RUN.search(token.content)
            marked = found["why"] if found else ""
        elif token.type == "fence":
            line = token.map[0] + 1 if token.map else 0
            name = page.relative_to(ROOT).as_posix()
            yield Block(name, line, token.info, token.content, above, marked)
            marked = ""


def steps(block: Block) -> Iterator[Step]:
    """What is typed after `$`, a line that ends with a backslash going on, and what is shown."""
    command, shown = "", list[str]()
    for line in block.text.splitlines():
        if command.endswith(("\\", "|")):  # goes on
            command = f"{command.removesuffix(chr(92))}{line.strip()}"
        elif line.startswith("$ "):
            if command:
                yield Step(command, tuple(shown))
            command, shown = line[2:], []
        else:
            assert command, f"{block.place}: there is no command above {line!r}"
            shown.append(line)
    if command:
        yield Step(command, tuple(shown))


def alike(line: str) -> str:
    """A line with its hashes and versions, which depend on everything, as words."""
    for pattern, word in _CHANGING:
        line = pattern.sub(word, line)
    return line.strip()


def missing(shown: tuple[str, ...], printed: str) -> str:
    """The first line that is shown and was not printed after those before it, or nothing.

    `…` at the end of a line stands for the rest of it, `...` on a line for other lines.
    """
    left = iter([alike(line) for line in printed.splitlines()])
    for line in shown:
        wanted = alike(line)
        if wanted == "...":
            continue
        if not any(_matches(wanted, one) for one in left):
            return line
    return ""


def _matches(wanted: str, printed: str) -> bool:
    if wanted.endswith("…"):
        return printed.startswith(wanted[:-1].rstrip())
    return " ".join(wanted.split()) in " ".join(printed.split())
