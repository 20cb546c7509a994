"""`render`: the rendered files, written or compared."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import (
    FINDINGS,
    OK,
    Context,
    build_options,
    examples,
    helm_binary,
    no_cache,
    report,
    selections,
)

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.datatypes.finding import Finding
    from trainwright.render.build import Build
    from trainwright.runs.workspace import Workspace


@click.command(epilog=examples("render", "render prod/llm", "render --check"))
@selections
@click.option(
    "--check",
    "check_only",
    is_flag=True,
    help="Write nothing; exit 1 when a file is stale, edited by hand or no longer rendered.",
)
@click.option(
    "--new-runs",
    is_flag=True,
    help="Begin new runs where a job was rendered before and the record of its run is lost.",
)
@click.option(
    "--against",
    metavar="REF",
    default="",
    help="The branch to merge into. Rendered files are compared with the commit at which this "
    "branch began. By default that of the pull request, or the default branch.",
)
@no_cache
@helm_binary
@click.pass_obj
def render(
    context: Context,
    *,
    selections: tuple[str, ...],
    check_only: bool,
    new_runs: bool,
    against: str,
    no_cache: bool,
    helm: str | None,
) -> None:
    """Render job specs into environments/<env>/rendered.

    Nothing is written while there are errors. Files that were edited by hand, or that cannot be
    derived from the base and the branch's own commits, are replaced.
    """
    from trainwright.api import write_files
    from trainwright.render import text

    with nullcontext() if check_only else context.held():
        options = replace(
            build_options(helm, no_cache), check_next_runs=False, recover=True, new_runs=new_runs
        )
        options = replace(options, writes=not check_only, proves=True, against=against)
        with context.progress("rendering"):
            build = context.repository.build(selections, options)
        underived = build.underived
        if not check_only and not build.failed:
            underived = tuple(_replaced(context.root, finding, build) for finding in underived)
        reported = replace(build, findings=(*build.findings, *underived))
        if reported.findings:
            click.echo(report(context, reported, "text", selections), err=True)
        if build.failed:
            click.echo("Nothing was written, because of the errors.", err=True)
            sys.exit(FINDINGS)
        if check_only:
            drift = _say_drift(build, selections)
            _say_wiring(context, build.workspace)
            sys.exit(drift)
        write_files(context.root, build)
        click.echo(text.summary(build, "written"), nl=False)
        click.echo(text.outdated(build), nl=False)
        click.echo(text.runtime_needed(build), nl=False, err=True)
        wrote = any(environment.changes for environment in build.environments)
        _say_wiring(context, None if wrote else build.workspace)


def _replaced(root: Path, finding: Finding, build: Build) -> Finding:
    """Return a finding about a file as a warning if rendering replaces the file.

    It replaces no ledger, nothing in the folder of an environment that is gone, and nothing in the
    place of a rendered folder.
    """
    from trainwright.datatypes.finding import Severity

    folders = tuple(f"{environment.folder}/" for environment in build.environments)
    file = finding.place.file
    at = root / file
    is_in_the_way = f"{file}/" in folders and (at.is_symlink() or at.is_file())
    if is_in_the_way or not f"{file}/".startswith(folders):
        return finding
    remedy = "It has been replaced: commit the result if `git status` shows one."
    return replace(finding, severity=Severity.WARNING, remedy=remedy)


def _say_wiring(context: Context, workspace: Workspace | None) -> None:
    """Name wiring without which an engine does not apply what was rendered.

    `workspace` has what was read already, unless it was written since.
    """
    from trainwright.api import wired
    from trainwright.datatypes.layout import WIRING
    from trainwright.datatypes.listing import listed
    from trainwright.files.tree import Folder
    from trainwright.runs.wiring_files import WIRE
    from trainwright.runs.workspace import Workspace

    files = wired(workspace or Workspace(Folder(context.root)))
    if files.refused:
        places = listed([str(it.place) for it in files.refused])
        click.echo(
            f"The files of {WIRING}/ cannot be written, by {places}: run `{WIRE}`.", err=True
        )
    for _, wrong, remedy in files.problems:
        click.echo(f"{wrong[0].upper()}{wrong[1:]}: {remedy[0].lower()}{remedy[1:]}", err=True)


def _say_drift(build: Build, selections: tuple[str, ...]) -> int:
    from trainwright.datatypes.listing import plural
    from trainwright.findings import diagnostics as dx
    from trainwright.render import text

    lines = [line for environment in build.environments for line in text.drift(environment)]
    for line in lines:
        click.echo(line)
    if lines:
        command = " ".join(("trainwright", "render", *selections))
        click.echo(f"{plural(len(lines), 'file')} to render: run `{command}`.", err=True)
    else:
        click.echo(text.summary(build, "to write"), nl=False)
    unproved = build.underived or any(f.rule == dx.UNCOMPARED.id for f in build.findings)
    if build.derivation is None and not unproved:
        click.echo("No commit is here: rendered files were compared with records alone.", err=True)
    return FINDINGS if lines or unproved else OK
