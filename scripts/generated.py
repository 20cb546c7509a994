"""What every script that writes a generated file does: write it, or say that it is out of date."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(description: str | None, path: Path, wanted: str, command: str) -> None:
    """Write a file, or with --check exit with 1 where it differs and name the command."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="fail when the file is out of date")
    if not parser.parse_args().check:
        path.parent.mkdir(exist_ok=True)
        path.write_text(wanted, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != wanted:
        sys.exit(f"{path.relative_to(ROOT)} is out of date: run {command}")
