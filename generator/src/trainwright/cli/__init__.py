"""The command line: parse, call, print, exit. Nothing is decided here.

A verb is a click command in one of these modules and a line in `VERBS`. Modules are imported when
their verb is used, and what they need inside of it: `--help` and completion cost little more than
click. https://click.palletsprojects.com/en/stable/complex/#lazily-loading-subcommands
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from trainwright import __version__
from trainwright.cli.common import Context
from trainwright.cli.suggestions import Choice, Group
from trainwright.errors import INTERRUPTED

VERBS = {  # in the order of --help: module and name of the command in it
    "init": ("init", "init"),
    "check": ("check", "check"),
    "render": ("render", "render"),
    "diff": ("render", "diff"),
    "plan": ("plan", "plan"),
    "report": ("report", "report"),
    "explain": ("explain", "explain"),
    "list": ("explain", "list_"),
    "run": ("run", "run"),
    "suspend": ("lifecycle", "suspend"),
    "resume": ("lifecycle", "resume"),
    "cancel": ("lifecycle", "cancel"),
    "rerun": ("lifecycle", "rerun"),
    "extend": ("lifecycle", "extend"),
    "prioritize": ("lifecycle", "prioritize"),
    "move": ("lifecycle", "move"),
    "promote": ("lifecycle", "promote"),
    "pin": ("lifecycle", "pin"),
    "retire": ("lifecycle", "retire"),
    "publish": ("publish", "publish"),
    "verify": ("verify", "verify"),
    "upgrade": ("upgrade", "upgrade"),
    "import": ("importing", "import_"),
    "migrate": ("migrate", "migrate"),
    "crds": ("crds", "crds"),
    "comment": ("comment", "comment"),
    "chart": ("chart", "chart"),
    "wire": ("wire", "wire"),
    "status": ("cluster", "status"),
    "logs": ("cluster", "logs"),
    "wait": ("cluster", "wait"),
    "doctor": ("doctor", "doctor"),
    "schema": ("schema", "schema"),
    "lsp": ("lsp", "lsp"),
    "mcp": ("mcp", "mcp"),
    "version": ("about", "version"),
    "completion": ("about", "completion"),
}


class Verbs(Group):
    """The commands of `VERBS`, each imported when it is asked for."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        module, attribute = VERBS[name]
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), attribute)
        return command

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:  # click's own answer is exit code 1, which means findings here
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one waits for no worker
            click.echo("trainwright: interrupted", err=True)
            sys.exit(INTERRUPTED)


@click.group(
    cls=Verbs,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "TRAINWRIGHT",
        "max_content_width": 100,
    },
)
@click.version_option(__version__, prog_name="trainwright")
@click.option(
    "--root",
    "-C",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Work as if started in this folder, which holds environments/: paths of other options "
    "are relative to it. By default the nearest one above.",
)
@click.option(
    "--color",
    type=Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour the output; auto means on a terminal, unless NO_COLOR is set.",
)
@click.pass_context
def main(context: click.Context, root: Path | None, color: str) -> None:
    """Training job specs in, validated GitOps-safe Kubernetes manifests out.

    Select what to work on by environment or job: "prod", "prod/llm", "*/mnist". Without a
    selection everything is meant.

    Exit codes: 0 fine, 1 findings or differences, 2 could not do it, 3 a bug, 130 Ctrl-C.
    """
    started = Path.cwd()
    if root is not None:
        context.call_on_close(partial(os.chdir, started))
        root = root.absolute()
        os.chdir(root)
    # Without it click takes colours out of whatever is not written to a terminal.
    context.color = {"always": True, "never": False}.get(color)
    context.obj = Context(root, color, started)
