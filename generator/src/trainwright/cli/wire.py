"""`wire`: what Argo CD or Flux has to be told of an environment."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import FINDINGS, OK, OUTPUT_FOLDER, Context, complete
from trainwright.datatypes.listing import plural

if TYPE_CHECKING:
    from trainwright.files.filetree import Changes
    from trainwright.gitops.wiring.survey import LoadedSites


@click.command()
@click.argument("environments", nargs=-1, metavar="[ENV]...", shell_complete=complete)
@click.option(
    "--out",
    type=OUTPUT_FOLDER,
    help="Write files into this folder, with a folder for each environment.",
)
@click.option(
    "--check",
    "check_only",
    is_flag=True,
    help="Write nothing; exit 1 when a file is stale, edited by hand or no longer needed.",
)
@click.pass_obj
def wire(
    context: Context, environments: tuple[str, ...], out: Path | None, check_only: bool
) -> None:
    """Write the objects by which Argo CD or Flux applies environments.

    Prints the objects, or writes them below --out together with what makes Argo CD understand
    training runs. By default of all environments that an engine applies.
    """
    from trainwright.files.tree import Folder
    from trainwright.gitops.wiring import survey, writing
    from trainwright.runs.workspace import Workspace

    if check_only and out is None:
        raise click.UsageError("--check needs --out: it compares with the files there.")
    surveyed = survey.load_sites(Workspace(Folder(context.root)), environments)
    if surveyed.findings:
        click.echo(_report(context, surveyed, environments), err=True)
    if surveyed.failed:
        sys.exit(FINDINGS)
    if out is None:
        click.echo(writing.stream(surveyed), nl=False)
        sys.exit(OK)
    changes = writing.changes(out, surveyed)
    sys.exit(_say(out, changes, environments, check_only=check_only))


def _say(out: Path, changes: Changes, environments: tuple[str, ...], *, check_only: bool) -> int:
    from trainwright.files import filetree

    states = {
        **dict.fromkeys(changes.added, "missing" if check_only else "added"),
        **dict.fromkeys(changes.changed, "out of date" if check_only else "changed"),
        **dict.fromkeys(changes.removed, "no longer needed" if check_only else "removed"),
    }
    for path, state in sorted(states.items()):
        click.echo(f"{out / path}: {state}")
    if not states:
        click.echo(f"up to date in {out}")
    elif check_only:
        command = " ".join(("trainwright", "gitops", "wire", *environments, "--out", str(out)))
        click.echo(f"{plural(len(states), 'file')} to write: run `{command}`.", err=True)
        return FINDINGS
    else:
        filetree.apply(out, changes)
    return OK


def _report(context: Context, surveyed: LoadedSites, environments: tuple[str, ...]) -> str:
    from trainwright import reports

    return reports.write(
        surveyed.findings,
        surveyed.lines,
        "text",
        checked=tuple(str(job) for jobs in surveyed.jobs.values() for job in jobs),
        command=shlex.join(("trainwright", "gitops", "wire", *environments)),
        color=context.color,
    )
