"""`rehearse`: a rendered job as processes of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from trainwright.cli.common import (
    FINDINGS,
    FOLDER,
    OK,
    OUTPUT_FOLDER,
    Context,
    build_options,
    complete,
    examples,
    report,
)


def _nodes(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, int]:
    """Numbers of nodes by the role whose name stands in front, "" for those that train."""
    parts = [text.rpartition("=") for text in value]
    number = click.IntRange(1, 1000)
    return {role: number(count, param, ctx) for role, _, count in parts}


@click.command(
    epilog=examples("rehearse prod/llm --nodes 2 --procs 1", "rehearse prod/llm -- --steps 3")
)
@click.argument("job", metavar="ENV/JOB", shell_complete=complete)
@click.argument("extra", nargs=-1, metavar="[-- ARGUMENT...]")
@click.option(
    "--nodes",
    multiple=True,
    metavar="[ROLE=]N",
    callback=_nodes,
    help="Nodes, instead of the spec's: of the job, or of one of its roles.",
)
@click.option(
    "--procs",
    metavar="N",
    type=click.IntRange(1, 64),
    help="Processes per node. By default the spec's, and 1 where it counts GPUs.",
)
@click.option(
    "--code",
    type=FOLDER,
    help="The folder that replaces the code in the image. By default the one where you are.",
)
@click.option("--python", metavar="PATH", help="The interpreter. By default this one.")
@click.option(
    "--volumes",
    type=FOLDER,
    help="A folder with a folder for each volume. By default they are temporary and empty.",
)
@click.option(
    "--keep", type=OUTPUT_FOLDER, help="Keep logs, reports of ranks and volumes in this folder."
)
@click.option(
    "--variable",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Set a variable, such as a secret. Without a value it is taken from this shell.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would run.")
@click.pass_obj
def rehearse(  # noqa: PLR0913 - an option each
    context: Context,
    *,
    job: str,
    extra: tuple[str, ...],
    nodes: dict[str, int],
    procs: int | None,
    code: Path | None,
    python: str | None,
    volumes: Path | None,
    keep: Path | None,
    variables: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Run a rendered job on this machine, on CPU, with local processes as its nodes.

    Runs the argv of the manifest in the environment that its operator would inject, and prints
    first in what that differs from the cluster. Arguments after -- are added to the command.

    Exits with the code of the pod that failed, 130 after Ctrl-C, and 0 when the operator would call
    the job succeeded; 1 as well when ranks are not as expected.
    """
    from trainwright.rehearsal import session, text

    options = session.RehearsalOptions(
        nodes=nodes.pop("", None),
        nodes_of_roles=nodes,
        procs=procs,
        python=python,
        code=code,
        here=context.started,
        volumes=volumes,
        keep=keep,
        env=variables,
        extra=extra,
    )
    build = context.repository.build((job,), build_options(None, no_cache=False))
    file = session.only(build.jobs, job)
    if build.failed:
        click.echo(report(context, build, "text", (job,)), err=True)
        sys.exit(FINDINGS)
    with session.prepare(context.root, file, options) as rehearsal:
        click.echo(text.introduction(rehearsal, color=context.color), err=True)
        if dry_run:
            sys.exit(OK)
        with text.Printer(rehearsal, paint=context.paint, logs=keep and keep / "logs") as show:
            outcome = rehearsal.perform(show)
        comparison = rehearsal.compare()
        click.echo(text.conclusion(rehearsal, outcome, comparison), err=True, nl=False)
    sys.exit(FINDINGS if outcome.succeeded and comparison.differences else outcome.code)
