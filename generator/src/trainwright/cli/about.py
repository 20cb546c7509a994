"""`version` and `completion`: the tool itself."""

from __future__ import annotations

import click

from trainwright import __version__
from trainwright.cli.common import errors
from trainwright.cli.suggestions import Choice


@click.command()
def version() -> None:
    """Print the version of Trainwright and of the Helm engine it renders with."""
    with errors():
        import helm_python

        click.echo(f"trainwright {__version__}")
        click.echo(f"helm {helm_python.helm_sdk_version()} (embedded)")


@click.command()
@click.argument("shell", type=Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell, to be sourced from its start-up file."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    main = context.find_root().command
    click.echo(found(main, {}, "trainwright", "_TRAINWRIGHT_COMPLETE").source())
