"""`explain` and `list`: what there is, and why."""

from __future__ import annotations

import click

from trainwright.cli.common import (
    Context,
    complete,
    errors,
)


@click.command()
@click.argument("job", metavar="ENV/JOB", shell_complete=complete)
@click.argument("path", default="")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.pass_obj
def explain(context: Context, job: str, path: str, output: str) -> None:
    """Show a job's effective spec, or one PATH of it, and which file set each value.

    PATH is dotted: image.tag, volumes.data.claim. A key that has dots itself is quoted, as
    'labels["example.com/team"]', or written plainly where that can mean nothing else.
    """
    from trainwright import explain as explaining
    from trainwright import load, present
    from trainwright.tree import Folder

    with errors():
        spec = load.one_job(Folder(context.root), job)
        found = explaining.explain(spec, path)
        if output == "json":
            items = present.explanation_items(found)
            click.echo(present.as_json("Explanation", items), nl=False)
        else:
            click.echo(present.explanation(found), nl=False)


LISTS = ("jobs", "environments", "targets", "rules", "formats", "wirings")


@click.command(name="list")
@click.argument("what", type=click.Choice(LISTS), default="jobs")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.pass_obj
def list_(context: Context, what: str, output: str) -> None:
    """List jobs, environments, targets, rules, report formats or wirings."""
    from trainwright import listing, present

    with errors():
        headers, rows = listing.LISTINGS[what](lambda: context.root)
        if output == "json":
            items = [dict(zip(headers, map(present.item, row), strict=True)) for row in rows]
            click.echo(present.as_json("List", items), nl=False)
        else:
            cells = [[present.cell(value) for value in row] for row in rows]
            click.echo(present.table(headers, cells, color=context.color), nl=False)
