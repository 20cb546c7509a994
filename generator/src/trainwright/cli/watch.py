"""`--watch`: the same answer again whenever a file changes, or a cluster says something else."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from time import sleep

import click

from trainwright.cli.common import Context, chosen_by, line_of, today
from trainwright.datatypes.errors import TrainwrightError

_MISSING = (
    "--watch needs watchfiles: pip install 'trainwright[watch]' "
    "(pip install './generator[watch]' in a clone)"
)
_SETTLED = 30  # milliseconds without another change: an editor's save is several
_INTERVAL = 5  # seconds between two questions to a cluster
_ASLEEP = 50  # milliseconds that nothing but a change ends


def findings(context: Context, selections: tuple[str, ...], output: str) -> None:
    """Check again after every change: only what it reaches is rendered anew."""
    from trainwright import reports
    from trainwright.authoring.session import Session

    session = Session(context.root)

    def answer(changed: Collection[str]) -> str:
        session.changed(changed)
        while not session.is_checked:
            session.check_next()
        session.refresh(today())
        chosen = chosen_by(session.workspace.survey.jobs, selections)
        selected = tuple(
            f for f in session.check.everything() if chosen is None or chosen(f.subject)
        )
        return reports.write(
            selected,
            {file: session.lines(file) for file in {finding.place.file for finding in selected}},
            output,
            checked=tuple(str(job) for job in session.jobs() if chosen is None or chosen(str(job))),
            command=shlex.join(("trainwright", "check", *selections)),
            color=context.color,
        )

    again(context, answer)


def again(context: Context, answer: Callable[[Collection[str]], str]) -> None:
    """Print an answer now and after every change, until Ctrl-C. What cannot be done is said."""
    click.echo("watching for changes; Ctrl-C ends", err=True)
    for changed in _changes(context.root):
        try:
            text = answer(changed)
        except TrainwrightError as error:
            click.echo(line_of(error), err=True)
            continue
        if context.color:
            click.clear()
        click.echo(text, nl=False, color=context.color)


def in_place(context: Context, answer: Callable[[], str]) -> None:
    """Show an answer that is asked for again and again, in one place of a terminal, until Ctrl-C.

    Elsewhere it is printed whenever it changes. An error is shown in its place until an answer
    comes.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    shown = ""
    terminal = sys.stdout.isatty()
    with Live(console=Console(), auto_refresh=False) if terminal else nullcontext() as live:
        while True:
            try:
                text = answer()
            except TrainwrightError as error:
                text = f"{line_of(error)}\n"
            if live is not None:
                live.update(Text.from_ansi(text), refresh=True)
            elif text != shown:
                click.echo(text, nl=False, color=context.color)
                sys.stdout.flush()
            shown = text
            sleep(_INTERVAL)


def _changes(root: Path) -> Iterator[frozenset[str]]:
    """No path at first, and then those that have changed, relative to the root.

    The watch begins before the first answer: what changes during that is not missed.
    """
    if find_spec("watchfiles") is None:
        raise TrainwrightError(_MISSING)
    from watchfiles import watch

    begun = False
    for batch in watch(
        root, step=_SETTLED, rust_timeout=_ASLEEP, yield_on_timeout=True, raise_interrupt=True
    ):
        if batch or not begun:
            yield frozenset(Path(path).relative_to(root).as_posix() for _, path in batch)
        begun = True
