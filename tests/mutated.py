"""Manifests with small changes of every kind, to compare two readers of them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What people and templates put into manifests, and what readers of YAML disagree about.
PIECES = (
    "\n  - |\n    set -e\n    echo yes\n      foo: bar\n    # no\n\n    exec torchrun\n",
    ": >-\n      a b\n      c\n",
    " # comment",
    ": yes",
    ": 'it''s'",
    ': "a\\nb"',
    ": 0123",
    ": 1_0",
    ": 12:30",
    ": 1e3",
    ": 3.0",
    ": 08",
    ": 2026-01-01",
    ": !!str 1",
    ": *a",
    ": &a b",
    ": {a: b, c: [d,e]}",
    ": [yes, 'no', 1]",
    "<<: {a: b}",
    "? a",
    "\t",
    "\n",
    "\n\n",
    " ",
    "  ",
    "\r\n",
    "é",
    "\u2028",
    "\u00a0",
    "\ufeff",
    "\x85",
    "...",
    "---",
    "--- a",
    "0x1f",
    ".5",
    "1.",
    ".inf",
    "on",
    "y",
    "~",
    "null",
    " : ",
    "- - a",
    "- - - - a",
    "''",
    '""',
    "\\",
    "key: value: x",
    "{}",
    "[]",
    *"-?|>'\"#%@`!&*[]{},:",
)


def documents() -> list[str]:
    """What the repository has rendered, one document each."""
    files = sorted(
        path
        for pattern in ("environments/*/rendered/**/*.yaml", "tests/golden/*/expected/**/*.yaml")
        for path in ROOT.glob(pattern)
    )
    return [text for file in files for text in file.read_text().split("\n---\n")]


def mutations(seed: int, count: int) -> Iterator[str]:
    """So many documents with one to three changes each."""
    chance = random.Random(seed)
    sources = documents()
    for _ in range(count):
        text = chance.choice(sources)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            text = _changed(chance, text)
        yield text


def _changed(chance: random.Random, text: str) -> str:
    at = chance.randrange(len(text) + 1)
    lines = text.split("\n")
    line = chance.randrange(len(lines))
    match chance.randrange(8):
        case 0:
            return text[:at] + text[at + 1 :]
        case 1:
            return text[:at] + chance.choice(PIECES) + text[at:]
        case 2:
            lines.insert(line, chance.choice(lines))
        case 3:
            lines[line] = " " * chance.choice((1, 2, 4)) + lines[line]
        case 4:
            lines[line] = lines[line][chance.choice((1, 2)) :]
        case 5:
            del lines[line]
        case 6:
            lines[line] += chance.choice(PIECES)
        case _:
            if field := re.match(r"(\s*(?:- )?[\w\"./-]+:)", lines[line]):
                lines[line] = f"{field[1]} {chance.choice(PIECES).removeprefix(': ')}"
    return "\n".join(lines)
