"""The tutorial, typed in as it is: each command succeeds and prints what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

PAGE = Path(__file__).parents[2] / "docs/tutorial.md"
_WRITE = re.compile(r"Write `([^`]+)`:\s*$")
_HASH = re.compile(r"-[0-9a-f]{8}\b")

pytestmark = pytest.mark.slow


@dataclass
class Step:
    """A command and the lines that it prints, among others; or a file to write."""

    command: str = ""
    shown: list[str] = field(default_factory=list)
    path: str = ""
    text: str = ""


def steps() -> Iterator[Step]:
    message = ""
    for token in MarkdownIt().parse(PAGE.read_text(encoding="utf-8")):
        if token.type == "inline":
            message = token.content
        elif token.type == "fence" and token.info == "yaml":
            named = _WRITE.search(message)
            assert named, f"no file is named for {token.content!r}"
            yield Step(path=named[1], text=token.content)
        elif token.type == "fence":
            assert token.info == "console"
            yield from _commands(token.content)


def _commands(block: str) -> Iterator[Step]:
    step = None
    for line in block.splitlines():
        if line.startswith("$ "):
            if step is not None:
                yield step
            step = Step(command=line[2:])
        else:
            assert step is not None
            step.shown.append(line)
    assert step is not None
    yield step


def test_ten_minutes(tmp_path: Path) -> None:
    """In one shell's folder: `cd` counts for what comes after it."""
    folder = tmp_path
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TRAINWRIGHT_TODAY": "2026-06-01"}
    ran = 0
    for step in steps():
        if step.path:
            (folder / step.path).write_text(step.text, encoding="utf-8")
            continue
        if step.command.startswith("pip install"):
            continue
        done = subprocess.run(
            ["bash", "-c", f"{step.command} && pwd"],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        fails = any(line.startswith("error[") for line in step.shown)
        assert done.returncode == int(fails), f"$ {step.command}\n{done.stdout}"
        printed = [_HASH.sub("-HASH", line) for line in done.stdout.splitlines()]
        if not fails:
            folder = Path(printed.pop())
        left = iter(printed)
        for line in step.shown:
            wanted = _HASH.sub("-HASH", line)
            assert any(wanted in one for one in left), (
                f"$ {step.command}\n{line!r} not in:\n{done.stdout}"
            )
        ran += 1
    assert ran > 15
