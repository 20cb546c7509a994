"""The command line: parse, call, print, exit. Nothing is decided here.

A verb is a click command in one of these modules and a line in `SECTIONS`. Modules are imported
when their verb is used, and what they need inside of it: `--help` and completion cost little
more than click. https://click.palletsprojects.com/en/stable/complex/#lazily-loading-subcommands
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from trainwright import __version__
from trainwright.cli.common import FOLDER, Context, errors, examples
from trainwright.cli.suggestions import Choice, Group
from trainwright.datatypes.errors import INTERRUPTED

_GITOPS = {
    "wire": "wire:wire",
    "publish": "publish:publish",
    "verify": "verify:verify",
    "comment": "comment:comment",
}
_ADMIN = {
    "upgrade": "upgrade:upgrade",
    "eject": "eject:eject",
    "chart": "chart:chart",
    "crds": "crds:crds",
    "schema": "schema:schema",
    "completion": "completion:completion",
}
SECTIONS: Mapping[str, Mapping[str, str | Mapping[str, str]]] = {
    "Start": {
        "init": "init:init",
        "import": "importing:import_",
        "adopt": "adopt:adopt",
        "doctor": "doctor:doctor",
    },
    "Specs": {
        "check": "check:check",
        "validate": "validate:validate",
        "render": "render:render",
        "plan": "plan:plan",
        "explain": "explain:explain",
        "list": "explain:list_",
        "rehearse": "rehearse:rehearse",
        "promote": "lifecycle:promote",
        "pin": "lifecycle:pin",
    },
    "Runs": {
        "suspend": "lifecycle:suspend",
        "resume": "lifecycle:resume",
        "cancel": "lifecycle:cancel",
        "rerun": "lifecycle:rerun",
        "set": "lifecycle:set_",
        "retire": "lifecycle:retire",
    },
    "Cluster": {
        "status": "cluster:status",
        "logs": "cluster:logs",
        "report": "report:report",
    },
    "Platform": {"gitops": _GITOPS, "admin": _ADMIN, "editor": "editor:editor"},
}
"""The commands in the order of --help: module and name of each, or the commands of a group."""
_VERBS = {name: place for section in SECTIONS.values() for name, place in section.items()}
_GROUPS = {
    "gitops": "Set up Argo CD and Flux, publish rendered files, and verify them.",
    "admin": "Upgrade, eject, package the chart, fetch CRDs, print schemas and completions.",
}


class Verbs(Group):
    """Commands that are imported when they are used, and groups of such."""

    def __init__(
        self, *arguments: Any, places: Mapping[str, str | Mapping[str, str]], **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._places = places

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        place = self._places.get(name)
        if place is None:
            return None
        if not isinstance(place, str):
            return Verbs(name, places=place, help=_GROUPS[name])
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), attribute)
        return command


class Main(Verbs):
    """All of them."""

    def sections(self, _context: click.Context) -> Mapping[str, Iterable[str]]:
        return SECTIONS

    def invoke(self, context: click.Context) -> Any:
        try:
            with errors():
                return super().invoke(context)
        except KeyboardInterrupt as error:
            # Click's own answer is exit code 1, which means findings here.
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one waits for no worker
            lines = ("trainwright: interrupted", *getattr(error, "__notes__", ()))
            click.echo("\n".join(lines), err=True)
            sys.exit(INTERRUPTED)


def _version(context: click.Context, _option: click.Parameter, given: bool) -> None:
    if given and not context.resilient_parsing:
        import helm_python

        click.echo(f"trainwright {__version__}")
        click.echo(f"helm {helm_python.helm_sdk_version()} (embedded)")
        context.exit()


@click.group(
    cls=Main,
    places=_VERBS,
    epilog=examples("check prod/llm", "render", "plan --against main", "plan --help"),
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "TRAINWRIGHT",
        "max_content_width": 100,
    },
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version, also that of Helm, and exit.",
)
@click.option(
    "--root",
    "-C",
    type=FOLDER,
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
    """Turn short training job specs into validated Kubernetes manifests for Argo CD and Flux.

    Select what to work on by environment or job: "prod", "prod/llm", "*/mnist". Without a
    selection it is all of them.

    Exit codes: 0 success, 1 errors or differences were found, 2 it could not be done, 3 a bug in
    Trainwright, 130 Ctrl-C.
    """
    started = Path.cwd()
    if root is not None:
        context.call_on_close(partial(os.chdir, started))
        root = root.absolute()
        os.chdir(root)
    # Without it click takes colours out of whatever is not written to a terminal.
    context.color = {"always": True, "never": False}.get(color)
    context.obj = Context(root, color, started)
