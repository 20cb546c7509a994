"""`admin completion`: what a shell completes."""

from __future__ import annotations

import click

from trainwright.cli.suggestions import Choice


@click.command()
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell, to be sourced from its start-up file."""
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    main = context.find_root().command
    click.echo(completion_class(main, {}, "trainwright", "_TRAINWRIGHT_COMPLETE").source())
