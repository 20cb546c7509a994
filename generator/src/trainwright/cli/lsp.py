"""`lsp`: the language server, for editors."""

from __future__ import annotations

from importlib.util import find_spec

import click

from trainwright.cli.common import Context, errors, today
from trainwright.errors import TrainwrightError

_MISSING = (
    "the language server needs pygls and lsprotocol: pip install 'trainwright[editor]' "
    "(pip install './generator[editor]' in a clone)"
)


@click.command()
@click.option("--stdio", is_flag=True, help="What it does anyway; editors add it.")
@click.pass_obj
def lsp(context: Context, stdio: bool) -> None:
    """Serve an editor: findings while typing, explanations, completion and remedies.

    It speaks the Language Server Protocol over standard input and output, writes nothing and opens
    no network. docs/editors.md has the set-up of each editor.
    """
    with errors():
        if not all(map(find_spec, ("pygls", "lsprotocol"))):
            raise TrainwrightError(_MISSING)
        from trainwright.editor.server import Server

        Server(today, context.given).run()
