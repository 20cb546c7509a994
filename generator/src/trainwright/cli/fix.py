"""`check --fix`: the mechanical remedies of findings, shown before they are written."""

from __future__ import annotations

import sys

import click

from trainwright.cli.common import Context, chosen_by, today
from trainwright.datatypes.listing import plural


def fix(context: Context, selections: tuple[str, ...], *, yes: bool) -> None:
    """Show the diff of every remedy that is beyond doubt, and write it once that is confirmed."""
    from trainwright.authoring.fixing import fix as fixed
    from trainwright.authoring.session import Session
    from trainwright.datatypes.layout import ENVIRONMENTS
    from trainwright.files import filetree

    session = Session(context.root)
    fixes = fixed(session, today(), chosen_by(session.workspace.survey.jobs, selections))
    if not fixes.files:
        click.echo("nothing to fix by itself", err=True)
        return
    for path, raw in sorted(fixes.files.items()):
        for line in context.difference(path, fixes.before[path], raw):
            click.echo(line, color=context.color)
    rules = ", ".join(sorted({finding.rule for finding in fixes.findings}))
    count = len(fixes.findings)
    message = f"{plural(count, 'finding')} ({rules})"
    if not yes and not sys.stdin.isatty():
        click.echo(f"{message}: nothing is written without --yes", err=True)
        return
    if yes or click.confirm(f"Fix {message}?", err=True):
        with context.held():
            filetree.write(context.root, ENVIRONMENTS, fixes.files, fixes.before)
        click.echo(f"{message} fixed", err=True)
