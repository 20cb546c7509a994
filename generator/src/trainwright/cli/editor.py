"""`editor`: the commands of the distribution trainwright-editor, where that is installed."""

from __future__ import annotations

import click

from trainwright.datatypes.errors import TrainwrightError

_MISSING = (
    "editors and assistants are served by trainwright-editor: pip install trainwright-editor "
    "(pip install ./editor in a clone)"
)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def _absent(arguments: tuple[str, ...]) -> None:
    """Run the language server or the MCP server, once trainwright-editor is installed."""
    raise TrainwrightError(_MISSING)


editor: click.Command = _absent
try:
    from trainwright_editor import commands
except ModuleNotFoundError as error:
    if error.name != "trainwright_editor":
        raise
else:
    editor = commands.editor
