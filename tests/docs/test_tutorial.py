"""The tutorial, typed in as it is: each command succeeds and prints what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from documentation import ROOT, alike, blocks, missing, steps

PAGE = ROOT / "docs/tutorial.md"
_WRITE = re.compile(r"Write `([^`]+)`:\s*$")

pytestmark = pytest.mark.slow


def test_ten_minutes(tmp_path: Path) -> None:
    """In one shell's folder: `cd` counts for what comes after it."""
    folder = tmp_path
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TRAINWRIGHT_TODAY": "2026-06-01"}
    ran = 0
    for block in blocks(PAGE):
        if block.language == "yaml":
            named = _WRITE.search(block.above)
            assert named, f"{block.place}: no file is named for it"
            (folder / named[1]).write_text(block.text, encoding="utf-8")
            continue
        assert block.language == "console"
        for step in steps(block) if not block.not_run else ():
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
            printed = done.stdout.rstrip("\n")
            if not fails:
                folder = Path(printed.rpartition("\n")[2])
            unseen = missing(step.shown, printed)
            assert not unseen, f"$ {step.command}\n{alike(unseen)!r} not in:\n{printed}"
            ran += 1
    assert ran > 15
