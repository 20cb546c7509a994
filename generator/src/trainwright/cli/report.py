"""`report`: a repository as one page."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import (
    TODAY,
    Context,
    build_options,
    examples,
    helm_binary,
    link_option,
    no_cache,
    output_format,
    selections,
    today,
)
from trainwright.datatypes.errors import SourceError

if TYPE_CHECKING:
    from trainwright.cluster.status import RunStatus, Unread
    from trainwright.overview.goodput import RunGoodput


@click.command(epilog=examples("report > report.html", "report prod --live > report.html"))
@selections
@click.option("--live", is_flag=True, help="Ask the clusters once for the state of every run.")
@click.option(
    "--goodput",
    "goodput_files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="Show the goodput of runs: a report of `python -m trainwright_runtime report --json`, or a"
    " folder of such .json files.",
)
@link_option
@output_format(("html",), default="html")
@no_cache
@helm_binary
@click.pass_obj
def report(
    context: Context,
    *,
    selections: tuple[str, ...],
    live: bool,
    goodput_files: tuple[Path, ...],
    link: str,
    output: str,
    no_cache: bool,
    helm: str | None,
) -> None:
    """Write an HTML page of all environments and runs: active, outdated and finished.

    Capacity and budget of each environment, a timeline, findings, and a search whose filters are in
    the address. One HTML file that loads nothing: `trainwright report > report.html`. Programs read
    `trainwright list jobs -o json`.
    """
    from trainwright.api import wired
    from trainwright.cli.reach import name_unread
    from trainwright.files import git
    from trainwright.findings.visibility import visible
    from trainwright.overview.collect import overview
    from trainwright.reports.style import Style, written

    goodput = _goodput(goodput_files)
    with context.progress("checking"):
        options = replace(build_options(helm, no_cache), proves=True, wired=wired)
        build = context.repository.build(selections, options)
        statuses, unread = _statuses(context, selections) if live else ([], [])
        collected = overview(context.root, build, statuses, goodput, unread, today=options.today)
    for goodput_run in collected.unassigned:
        click.echo(f"{visible(goodput_run.file)}: {_unassigned(goodput_run)}", err=True)
    words = ["trainwright", "report", *selections, *(["--live"] if live else [])]
    words += [word for path in goodput_files for word in ("--goodput", str(path))]
    try:
        commit = git.around(context.root)[0].commit("HEAD")
    except git.GitError:
        commit = ""
    shown = replace(collected, commit=commit, written=_now())
    style = Style(command=shlex.join(words), link=link)
    click.echo(written("overview", output, shown, style), nl=False)
    name_unread(unread)


def _now() -> str:
    """The time, to the minute; only the day where that is set."""
    day = today()
    return day if os.environ.get(TODAY) else datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _goodput(paths: tuple[Path, ...]) -> list[RunGoodput]:
    """What the files hold; one error has all that is wrong with any of them."""
    from trainwright.overview.goodput import parse

    runs, wrong = [], []
    for path in paths:
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            try:
                runs.append(parse(str(file), file.read_bytes()))
            except OSError as error:
                wrong.append(f"{file}: cannot be read: {error.strerror}")
            except SourceError as error:
                wrong.append(str(error))
    if wrong:
        raise SourceError("\n".join(wrong))
    return runs


def _unassigned(run: RunGoodput) -> str:
    from trainwright.findings.visibility import visible

    return (
        f"not shown: it is about the run {visible(run.name)}, which is not one of exactly one job "
        "here; its name is set by `python -m trainwright_runtime report --run ENV/NAME`"
    )


def _statuses(
    context: Context, selections: tuple[str, ...]
) -> tuple[list[RunStatus], list[Unread]]:
    from trainwright.cli.reach import Reach
    from trainwright.cluster import intent

    wanted = (place for place in intent.desired_states(context.root, selections) if place.kinds)
    readings, unread = Reach(None, None, None).read(wanted)
    return [run for reading in readings for run in reading.runs], unread
