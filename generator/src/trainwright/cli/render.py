"""`render` and `diff`: the rendered files, written or compared."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import (
    FINDINGS,
    OK,
    Context,
    errors,
    helm_binary,
    no_cache,
    planning,
    report,
    selections,
)

if TYPE_CHECKING:
    from trainwright.plan import Plan


@click.command()
@selections
@click.option(
    "--check",
    "check_only",
    is_flag=True,
    help="Write nothing; exit 1 when a rendered file is stale, edited by hand or left over.",
)
@no_cache
@helm_binary
@click.pass_obj
def render(
    context: Context,
    selections: tuple[str, ...],
    check_only: bool,
    no_cache: bool,
    helm: str | None,
) -> None:
    """Render job specs into environments/<env>/rendered.

    Nothing is written while there are errors. Files edited by hand are replaced.
    """
    from trainwright import filetree, present

    with errors():
        plan = context.plan(selections, planning(helm, no_cache))
        if plan.findings:
            click.echo(report(context, plan, "text", selections), err=True)
        if plan.failed:
            click.echo("Nothing was written, because of the errors.", err=True)
            sys.exit(FINDINGS)
        if check_only:
            sys.exit(_say_drift(plan, selections))
        for environment in plan.environments:
            if environment.changes:
                filetree.apply(context.root / environment.folder, environment.changes)
        click.echo(present.summary(plan, "written"), nl=False)


def _say_drift(plan: Plan, selections: tuple[str, ...]) -> int:
    from trainwright import present

    lines = [line for environment in plan.environments for line in present.drift(environment)]
    for line in lines:
        click.echo(line)
    if lines:
        command = " ".join(("trainwright", "render", *selections))
        click.echo(f"{present.plural(len(lines), 'file')} to render: run `{command}`.", err=True)
    else:
        click.echo(present.summary(plan, "to write"), nl=False)
    return FINDINGS if lines else OK


@click.command()
@selections
@click.option("--unified", "-U", default=3, show_default=True, help="Lines of context.")
@click.option("--name-only", is_flag=True, help="Show only which files differ, and how.")
@no_cache
@helm_binary
@click.pass_obj
def diff(
    context: Context,
    selections: tuple[str, ...],
    unified: int,
    name_only: bool,
    no_cache: bool,
    helm: str | None,
) -> None:
    """Show how rendered files would change. Exit 1 when they would."""
    from trainwright import present
    from trainwright.credentials import redact

    with errors():
        plan = context.plan(selections, planning(helm, no_cache))
        if plan.failed:
            click.echo(report(context, plan, "text", selections), err=True)
            sys.exit(FINDINGS)
        for environment in plan.environments:
            if name_only:
                for line in present.drift(environment):
                    click.echo(line)
            else:
                for line in map(redact, present.diff(context.root, environment, unified)):
                    click.echo(_colored(line) if context.color else line, nl=False, color=True)
        sys.exit(FINDINGS if any(e.changes for e in plan.environments) else OK)


def _colored(line: str) -> str:
    colors = {"+": "green", "-": "red", "@": "cyan"}
    return click.style(line, fg=colors[line[0]]) if line[0] in colors else line
