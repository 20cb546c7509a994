"""`--watch`: the same answer again whenever a file of the repository changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import Context, today
from trainwright.errors import TrainwrightError

if TYPE_CHECKING:
    from trainwright.specs.load import JobFile

_MISSING = (
    "--watch needs watchfiles: pip install 'trainwright[watch]' "
    "(pip install './generator[watch]' in a clone)"
)
_SETTLED = 30  # milliseconds without another change: an editor's save is several
_ASLEEP = 50  # milliseconds that nothing but a change ends


def findings(context: Context, selections: tuple[str, ...], output: str) -> None:
    """Check again after every change: only what it reaches is rendered anew."""
    from trainwright import reports
    from trainwright.editor.session import Session

    session = Session(context.root)

    def answer(changed: Collection[str]) -> str:
        session.changed(changed)
        while not session.is_checked:
            session.check_next()
        session.settle(today())
        chosen = chosen_by(session.workspace.survey.jobs, selections)
        found = tuple(f for f in session.check.everything() if chosen is None or chosen(f.subject))
        return reports.write(
            found,
            {file: session.lines(file) for file in {finding.place.file for finding in found}},
            output,
            checked=tuple(str(job) for job in session.jobs() if chosen is None or chosen(str(job))),
            command=" ".join(("trainwright", "check", *selections)),
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
            click.echo(f"trainwright: {error}", err=True)
            continue
        if context.color:
            click.clear()
        click.echo(text, nl=False, color=context.color)


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


def chosen_by(
    available: Mapping[str, tuple[JobFile, ...]], selections: tuple[str, ...]
) -> Callable[[str], bool] | None:
    """Whether a job or an environment, by its name, is among what was asked for."""
    if not selections:
        return None
    from trainwright.specs.select import select

    selected = select(selections, available)
    names = {str(job) for one in selected for job in one.jobs}
    names |= {one.environment for one in selected if one.whole}
    return names.__contains__
