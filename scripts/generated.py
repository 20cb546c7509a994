"""What every script that writes a generated file does: write it, or report that it is stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(description: str | None, path: Path, wanted: str, command: str) -> None:
    """Write a file, or with --check exit with 1 where it differs and name the command."""
    check = _parser(description).parse_args().check
    update({path: wanted}, set(), command, check=check)


def pages(description: str | None, folder: Path, wanted: Mapping[Path, str], command: str) -> None:
    """The same for a folder of pages and what lists them: pages of nothing are removed."""
    there = {path for path in folder.glob("*.md") if path.is_file()}
    check = _parser(description).parse_args().check
    update(wanted, there, command, check=check)


def update(wanted: Mapping[Path, str], there: set[Path], command: str, *, check: bool) -> None:
    """Write what differs of some files and remove those that are there without being wanted."""
    stale = [p for p, text in wanted.items() if not p.exists() or p.read_text("utf-8") != text]
    stale += sorted(there - set(wanted))
    if check and stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"out of date: {names}; run {command}")
    for path in stale:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()


def _parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(description or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="fail when a file is out of date")
    return parser
