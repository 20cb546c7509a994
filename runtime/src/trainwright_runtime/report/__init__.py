"""Metrics files of one job, as a few lines of text, as data, as a picture and as a page."""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from trainwright_runtime.report.data import data
from trainwright_runtime.report.job import Job, ReportError, files_of, load, load_all, visible
from trainwright_runtime.report.page import html
from trainwright_runtime.report.picture import png, throughput
from trainwright_runtime.report.text import text

__all__ = ["Job", "ReportError", "data", "html", "load", "main", "png", "text", "throughput"]

_FORMATS = (".png", ".html")


def main(argv: Sequence[str]) -> int:
    """Run the command `report`; return its exit code, 2 if a file cannot be read or written."""
    options = _parser().parse_args(argv)
    try:
        job = Job(
            workers=load_all(options.files),
            run=_run(options.run, options.files),
            submitted=options.submitted,
            ideal_step=options.ideal_step,
        )
        if options.json:
            print(json.dumps(data(job), indent=2))
        else:
            print(text(job), end="")
        outputs = options.outputs or ([] if options.json else [_beside(options.files[0])])
        for output in outputs:
            _write(job, output, options.files)
            if not options.json:
                print(f"{'written':<15}{output}")
    except ReportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        prog="trainwright_runtime report",
        description="Sum up the metrics files of one job, and draw them over time.",
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="run.jsonl",
        help="one per worker, or the folder that they are in",
    )
    parser.add_argument(
        "-o",
        dest="outputs",
        action="append",
        type=_output,
        metavar="run.png|run.html",
        help="the picture, or a page with everything; repeatable (the first file's name with .png)",
    )
    parser.add_argument("--json", action="store_true", help="print data, and write only with -o")
    parser.add_argument(
        "--run",
        metavar="[ENV/]NAME",
        help="the name of the run's object (that of the folder, where one is given)",
    )
    parser.add_argument(
        "--submitted",
        type=_moment,
        metavar="TIME",
        help="when the job was submitted (its creationTimestamp): what came before is scheduling",
    )
    parser.add_argument(
        "--ideal-step",
        type=_duration,
        metavar="SECONDS",
        help="of a step at the hardware's best, for MPG",
    )
    return parser


def _run(given: str | None, paths: Sequence[Path]) -> str:
    """Return the run's name: on volumes, the metrics of a run are in a folder of that name."""
    if given is not None:
        return visible(given)
    return visible(paths[0].resolve().name) if len(paths) == 1 and paths[0].is_dir() else ""


def _beside(path: Path) -> Path:
    return files_of(path)[0].with_suffix(".png")


def _write(job: Job, output: Path, paths: Sequence[Path]) -> None:
    """Write a picture or a page. Raise ReportError if the file cannot be written."""
    if output.suffix == ".html":
        words = ["python", "-m", "trainwright_runtime", "report", *map(str, paths), "--json"]
        content = html(job, visible(shlex.join(words))).encode()
    else:
        content = png(job)
    try:
        output.write_bytes(content)
    except OSError as error:
        raise ReportError(f"{output}: cannot be written: {error.strerror}") from error


def _output(text: str) -> Path:
    path = Path(text)
    if path.suffix not in _FORMATS:
        message = f"{text!r} is not a name that ends in {' or '.join(_FORMATS)}"
        raise argparse.ArgumentTypeError(message)
    return path


def _moment(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        message = f"{text!r} is not a time such as 2026-03-01T09:00:00Z"
        raise argparse.ArgumentTypeError(message) from None


def _duration(text: str) -> float:
    """Return the seconds of an argument."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds such as 0.45")
    return seconds
