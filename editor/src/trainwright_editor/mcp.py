"""`mcp`: the Python API for assistants."""

from __future__ import annotations

from importlib.util import find_spec

import click

from trainwright.cli.common import Context, errors
from trainwright.errors import TrainwrightError

_MISSING = (
    "the MCP server needs the package mcp: pip install 'trainwright[mcp]' "
    "(pip install './generator[mcp]' in a clone)"
)


@click.command()
@click.pass_obj
def mcp(context: Context) -> None:
    """Serve an assistant over standard input and output, by the Model Context Protocol.

    Tools check, explain, plan, list and search; edits are only proposed, as diffs with the findings
    that they would bring. It writes nothing and opens no network.
    """
    with errors():
        if find_spec("mcp") is None:
            raise TrainwrightError(_MISSING)
        from trainwright.assistants.server import server

        server(context.repository).run("stdio")
