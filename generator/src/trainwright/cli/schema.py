"""`schema`: the JSON Schemas of what is read and written, for editors and for CI."""

from __future__ import annotations

from pathlib import Path

import click

from trainwright.cli.common import OUTPUT_FOLDER
from trainwright.cli.suggestions import meant


@click.command()
@click.argument("name", default="", metavar="[NAME]")
@click.option(
    "--out",
    type=OUTPUT_FOLDER,
    metavar="DIRECTORY",
    help="Write the schemas into this folder instead, each with those that it refers to.",
)
def schema(name: str, out: Path | None) -> None:
    """Print the JSON Schema NAME, such as job, environment, defaults, plan or kinds/job.

    Without NAME, list them. Editors that may not use the network read them from a folder: see
    --out, and in a spec the first line "# yaml-language-server: $schema=PATH".
    """
    from trainwright.documents.validation import schema_files

    schemas = schema_files.found()
    if name and name not in schemas:
        raise click.BadParameter(
            f'"{name}" is none of {", ".join(schemas)}.{meant(name, schemas)}',
            param_hint="NAME",
        )
    if out is not None:
        for path in schema_files.write(out, (name,) if name else tuple(schemas)):
            click.echo(path)
    elif name:
        click.echo(schemas[name].text, nl=False)
    else:
        from trainwright.reports import terminal

        rows = [[schema_file.name, schema_file.title] for schema_file in schemas.values()]
        click.echo(terminal.table(("NAME", "DESCRIBES"), rows, color=False), nl=False)
