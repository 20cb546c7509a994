"""`explain` and `list`: what there is, and why."""

from __future__ import annotations

import click

from trainwright.cli.common import Context, complete, errors


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
    from trainwright.reports import terminal
    from trainwright.specs import explain as explaining
    from trainwright.specs import load
    from trainwright.specs.tree import Folder

    with errors():
        spec = load.one_job(Folder(context.root), job)
        found = explaining.explain(spec, path)
        if output == "json":
            items = terminal.explanation_items(found)
            click.echo(terminal.as_json("Explanation", items), nl=False)
        else:
            click.echo(terminal.explanation(found), nl=False)


LISTS = ("jobs", "environments", "targets", "rules", "formats", "wirings")


@click.command(name="list")
@click.argument("what", type=click.Choice(LISTS), default="jobs")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.pass_obj
def list_(context: Context, what: str, output: str) -> None:
    """List jobs, environments, targets, rules, report formats or wirings."""
    from trainwright.lifecycle import listing
    from trainwright.reports import terminal

    with errors():
        headers, rows = listing.LISTINGS[what](lambda: context.root)
        if output == "json":
            items = [dict(zip(headers, map(terminal.item, row), strict=True)) for row in rows]
            click.echo(terminal.as_json("List", items), nl=False)
        else:
            cells = [[terminal.cell(value) for value in row] for row in rows]
            click.echo(terminal.table(headers, cells, color=context.color), nl=False)
