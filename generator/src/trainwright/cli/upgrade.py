"""`upgrade`: what another version of the tool or the chart would do, before it is taken."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from trainwright.cli.common import FINDINGS, OK, Context, examples, output_format, selections, today

FORMATS = ("text", "json", "markdown")


@click.command(epilog=examples("admin upgrade --to .venv-new"))
@selections
@click.option(
    "--to",
    "after",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="The version to take: a virtual environment, a Python or `trainwright` in one, a folder "
    "with the package, or a wheel.",
)
@click.option(
    "--from",
    "before",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="The version to replace, as above. By default this one.",
)
@click.option(
    "--chart",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Instead of --to: the chart to take, a folder or an archive, for environments in chart "
    "mode.",
)
@output_format(FORMATS)
@click.pass_obj
def upgrade(
    context: Context,
    *,
    selections: tuple[str, ...],
    before: Path | None,
    after: Path | None,
    chart: Path | None,
    output: str,
) -> None:
    """Show what another version would do, before it is taken: offline, in a temporary copy.

    Each version renders the repository in a process of its own. The report lists which runs stay as
    they are, how the next run of each job would differ, and which findings are new or gone.

    Exits with 1 when there are new errors, or a run would not stay as it is.
    """
    from trainwright.plan.upgrade import session
    from trainwright.reports.style import Style, written

    if (after is None) == (chart is None):
        raise click.UsageError("Name the version to take: --to PATH, or --chart PATH.")
    options = session.UpgradeOptions(today=today(), before=before, after=after, chart=chart)
    with context.progress("rendering with both versions", output):
        comparison = session.upgrade(context.root, selections, options)
    named = (("--from", before), ("--to", after), ("--chart", chart))
    words = ["trainwright", "admin", "upgrade", *selections]
    words += [word for option, path in named if path for word in (option, str(path))]
    style = Style(command=shlex.join(words), paint=context.paint, differing=context.differing)
    click.echo(written("plan.upgrade", output, comparison, style), nl=False, color=context.color)
    sys.exit(FINDINGS if comparison.blocked else OK)
