"""`trainwright editor`: the servers that editors and assistants start."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import click

from trainwright.cli.common import Context, today
from trainwright.cli.suggestions import Group
from trainwright.datatypes.errors import TrainwrightError

_NO_MCP = (
    "the MCP server needs the package mcp: pip install 'trainwright-editor[mcp]' "
    "(pip install './editor[mcp]' in a clone)"
)


@click.group(cls=Group)
def editor() -> None:
    """Run the language server for editors, or the MCP server for assistants."""


@editor.command()
@click.option(
    "--stdio",
    is_flag=True,
    help="Accepted because editors add it: standard input and output are always used.",
)
@click.pass_obj
def lsp(context: Context, stdio: bool) -> None:
    """Serve an editor: findings while typing, explanations, completion and remedies.

    It speaks the Language Server Protocol over standard input and output, writes nothing and opens
    no network. docs/editors.md has the set-up of each editor.
    """
    from trainwright.helm import sdk

    sdk.start()  # what is imported below takes as long
    with _uncollected():
        from trainwright_editor.language_server.server import Server

        server = Server(today, context.given)
    server.run()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Turn off garbage collection in the block, and exempt what exists at its end for good: the
    classes of a protocol never become garbage.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@editor.command()
@click.pass_obj
def mcp(context: Context) -> None:
    """Serve an assistant over standard input and output, by the Model Context Protocol.

    Tools read, check, explain, plan, list and search; edits are only proposed, as diffs with the
    findings and the plan that they would bring. It writes nothing. The status and the logs of runs
    are read from their cluster, and nothing else opens a network.
    """
    if find_spec("mcp") is None:
        raise TrainwrightError(_NO_MCP)
    from trainwright_editor.assistants.server import server

    server(context.repository).run("stdio")
