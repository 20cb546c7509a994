"""What verbs that edit specs share: options, and how an edit is shown, checked and written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trainwright.cli.common import FINDINGS, Context, build_options, helm_binary, report
from trainwright.datatypes.frozen import dataclass

if TYPE_CHECKING:
    from trainwright.datatypes.layout import JobFile
    from trainwright.lifecycle.session import Act, Committing, Outcome
    from trainwright.lifecycle.subject import Step, Subject
    from trainwright.render.build import EnvironmentBuild

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--commit", is_flag=True, help="Commit exactly the files that change."),
    click.option("--message", "-m", default="", help="The first line of the commit's message."),
    click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing."),
    click.option(
        "--render/--no-render",
        default=None,
        help="Render what changes. By default where rendered files are kept next to the specs.",
    ),
    helm_binary,
)


def writes(command: _Command) -> _Command:
    """The options of every verb that edits specs."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """The values of those options."""

    commit: bool
    message: str
    dry_run: bool
    render: bool | None
    helm: str | None


def each(act: Callable[[Subject], Step]) -> Act:
    from trainwright.lifecycle.subject import load

    return lambda tree, file, history: act(load(tree, file, history))


def selected(context: Context, selections: tuple[str, ...]) -> tuple[JobFile, ...]:
    from trainwright.datatypes.errors import SelectionError
    from trainwright.files.tree import Folder
    from trainwright.specs import inventory, select

    selected_jobs = select.select(
        selections, inventory.discover(Folder(context.root)).jobs, writes=True
    )
    if not any(selection.jobs for selection in selected_jobs):
        raise SelectionError(
            f"no job in {', '.join(selection.environment for selection in selected_jobs)}"
        )
    return tuple(file for selection in selected_jobs for file in selection.jobs)


def carry_out(
    context: Context, verb: str, selections: tuple[str, ...], act: Act, options: Writing
) -> None:
    """Work everything out, show it, and write it unless something speaks against it."""
    from trainwright.datatypes.errors import SelectionError
    from trainwright.lifecycle import session

    with nullcontext() if options.dry_run else context.held():
        outcome = session.work_out(context.root, selected(context, selections), act)
        for file, step in outcome.steps:
            if step.refused and str(file) in selections:
                raise SelectionError(f"{file} {step.message}")
        # Nothing is said to be done before it is known that it can be.
        environments = _rendered(context, outcome, options) if outcome.files else ()
        committing = _committing(context, outcome, environments, options)
        for file, step in outcome.steps:
            for line in (f"{file} {step.message}", *(f"  {note}" for note in step.notes)):
                click.echo(line, err=True)
        if not outcome.files:
            return
        for path, raw in sorted(outcome.files.items()):
            for line in context.difference(path, outcome.before.get(path, b""), raw):
                click.echo(line, color=context.color)
        if committing:
            message = session.message(verb, outcome, options.message)
            _commit(context, committing, outcome, environments, message)
        elif options.dry_run:
            click.echo("(dry run: nothing was written)", err=True)
        else:
            session.write(context.root, outcome, environments)
            _counts(environments)
            click.echo(
                "Commit it: nothing of it happens before it is merged and applied.", err=True
            )


def _committing(
    context: Context,
    outcome: Outcome,
    environments: tuple[EnvironmentBuild, ...],
    options: Writing,
) -> Committing | None:
    """The commit to make, once it is known that it takes in no unrelated edits."""
    from trainwright.lifecycle import session

    if not outcome.files or not options.commit or options.dry_run:
        return None
    committing = session.Committing(context.root)
    committing.refuse_mixing(outcome, environments)
    return committing


def _commit(
    context: Context,
    committing: Committing,
    outcome: Outcome,
    environments: tuple[EnvironmentBuild, ...],
    message: str,
) -> None:
    """Write and commit, or leave everything as it was."""
    from trainwright.lifecycle import session

    with committing.undone_unless_committed(outcome, environments):
        session.write(context.root, outcome, environments)
        commit = committing.commit(outcome, environments, message)
    _counts(environments)
    click.echo(f"committed as {commit[:12]}", err=True)
    if not committing.is_on_branch:
        click.echo(
            "No branch has that commit, since HEAD is detached: `git switch --create NAME` makes "
            "one of it.",
            err=True,
        )


def _counts(environments: tuple[EnvironmentBuild, ...]) -> None:
    from trainwright.render.text import counts

    for environment in environments:
        click.echo(f"{environment.name}  {counts(environment, 'written')}", err=True)


def _rendered(context: Context, outcome: Outcome, options: Writing) -> tuple[EnvironmentBuild, ...]:
    """What the edited jobs render to, where that is wanted. Ends here when they have errors."""
    from trainwright.lifecycle import session

    if options.render is False:
        return ()
    build = session.rendered(context.root, outcome, build_options(options.helm, no_cache=True))
    if build.failed:
        selected = tuple(map(str, outcome.changed))
        click.echo(report(context, build, "text", selected), err=True)
        click.echo("Nothing was written, because of the errors.", err=True)
        sys.exit(FINDINGS)
    for environment in build.environments:
        session.refuse_what_live_objects_refuse(context.root, outcome, environment)
    return tuple(
        environment
        for environment in build.environments
        if options.render or session.is_rendered(context.root, environment.name)
    )
