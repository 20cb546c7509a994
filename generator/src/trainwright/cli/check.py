"""`check`: what is wrong, in six formats."""

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

FORMATS = ("text", "json", "sarif", "github", "junit", "markdown")


@click.command()
@selections
@click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="The format of the report.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note"]),
    default="error",
    show_default=True,
    help="The least severity that makes the exit code 1.",
)
@no_cache
@helm_binary
@click.pass_obj
def check(
    context: Context,
    selections: tuple[str, ...],
    output: str,
    fail_on: str,
    no_cache: bool,
    helm: str | None,
) -> None:
    """Validate job specs and check what they render to."""
    with errors():
        plan = context.plan(selections, planning(helm, no_cache))
        click.echo(report(context, plan, output, selections), nl=False)
        sys.exit(FINDINGS if _at_least(plan, fail_on) else OK)


def _at_least(plan: Plan, severity: str) -> bool:
    order = ("error", "warning", "note")
    failing = order[: order.index(severity) + 1]
    return any(finding.severity.value in failing for finding in plan.findings)
