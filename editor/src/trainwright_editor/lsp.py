"""`lsp`: the language server, for editors."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
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
        from trainwright.helm import sdk

        sdk.start()  # what is imported below takes as long
        with _uncollected():
            from trainwright.editor.server import Server

            server = Server(today, context.given)
        server.run()


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for garbage meanwhile, nor later among what is there then: of the classes of a
    protocol none ever is.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
