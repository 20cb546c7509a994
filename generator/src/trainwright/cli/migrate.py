"""`import --to`: job specs to another target."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from trainwright.cli.common import FINDINGS, OK, Context

if TYPE_CHECKING:
    from trainwright.importing.migration import Migration


def migrate(context: Context, selections: tuple[str, ...], to: str, *, dry_run: bool) -> NoReturn:
    """Show how the selected specs change, write them unless it is a dry run, and exit."""
    from trainwright.files.tracked import Tracked
    from trainwright.files.tree import Folder
    from trainwright.importing import migration
    from trainwright.importing.trial import ImportContext
    from trainwright.specs import inventory
    from trainwright.specs.select import select

    successors = sorted({target.name for target in migration.successors().values()})
    if to not in successors:
        raise click.BadParameter(
            f'no jobs move to "{to}"; they do to {", ".join(successors)}',
            param_hint="--to",
        )
    if not selections:
        raise click.UsageError("name the jobs to move: ENV or ENV/JOB")
    with nullcontext() if dry_run else context.held():
        tree = Tracked(Folder(context.root))
        migrations: list[Migration] = []
        named = {selection.removeprefix("./") for selection in selections}
        for selection in select(selections, inventory.discover(tree).jobs):
            place = ImportContext(tree, selection.environment)
            for file in selection.jobs:
                migrated = migration.migrate(place, file, to)
                if migrated is None and named & {str(file), file.path}:
                    migrated = migration.elsewhere(place, file, to)
                migrations += [migrated] if migrated is not None else []
        for migrated in migrations:
            _say(context, migrated)
        if not dry_run:
            _write(context.root, [migrated for migrated in migrations if not migrated.refused])
        refused = sum(bool(migrated.refused) for migrated in migrations)
        moved = "to move" if dry_run else "moved"
        click.echo(f"{len(migrations) - refused} {moved}, {refused} refused", err=True)
        sys.exit(FINDINGS if refused else OK)


def _write(root: Path, migrations: list[Migration]) -> None:
    from trainwright.datatypes.layout import ENVIRONMENTS
    from trainwright.files import filetree

    before, after = (
        {migrated.file.path: raw(migrated) for migrated in migrations}
        for raw in (attrgetter("before"), attrgetter("after"))
    )
    filetree.write(root, ENVIRONMENTS, after, before)


def _say(context: Context, migrated: Migration) -> None:
    if migrated.refused:
        label = context.paint("refused", "red")
        click.echo(f"{migrated.file}: {label}: {migrated.refused}", err=True)
        return
    for line in context.difference(migrated.file.path, migrated.before, migrated.after):
        click.echo(line, color=context.color)
    for change in migrated.changes:
        click.echo(f"{migrated.file}: {change}", err=True)
