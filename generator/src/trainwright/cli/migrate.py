"""`migrate`: job specs to the target that succeeds theirs."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import FINDINGS, OK, Context, complete, errors

if TYPE_CHECKING:
    from trainwright.importing.migration import Migration


@click.command()
@click.argument(
    "selections", nargs=-1, required=True, metavar="ENV|ENV/JOB...", shell_complete=complete
)
@click.option("--write", is_flag=True, help="Change the files; otherwise only show how.")
@click.pass_obj
def migrate(context: Context, selections: tuple[str, ...], write: bool) -> None:
    """Move PyTorchJob specs to TrainJob, and list what changes for the training.

    Only `target` changes in a file. The environment must have the new target, with its version.
    A job that the new target cannot express is refused, with the reason, such as an elastic one. A
    migrated job is a new run under a new name; render and review it as any other change.

    Exits with 1 when a job was refused.
    """
    from trainwright.importing import migration
    from trainwright.importing.trial import ImportContext
    from trainwright.specs import load
    from trainwright.specs.select import select
    from trainwright.specs.tree import Folder, Snapshot

    with errors(), context.held() if write else nullcontext():
        tree = Snapshot(Folder(context.root))
        found: list[Migration] = []
        for selection in select(selections, load.discover(tree).jobs):
            place = ImportContext(tree, selection.environment)
            done = (migration.migrate(place, file) for file in selection.jobs)
            found += [migrated for migrated in done if migrated is not None]
        for migrated in found:
            _say(context, migrated)
        if write:
            _write(context.root, [migrated for migrated in found if not migrated.refused])
        refused = sum(bool(migrated.refused) for migrated in found)
        moved = "moved" if write else "to move: use --write"
        click.echo(f"{len(found) - refused} {moved}, {refused} refused", err=True)
        sys.exit(FINDINGS if refused else OK)


def _write(root: Path, found: list[Migration]) -> None:
    from trainwright.specs import filetree
    from trainwright.specs.layout import ENVIRONMENTS

    before, after = (
        {migrated.file.path: raw(migrated) for migrated in found}
        for raw in (attrgetter("before"), attrgetter("after"))
    )
    filetree.write(root, ENVIRONMENTS, after, before)


def _say(context: Context, migrated: Migration) -> None:
    from trainwright.findings.redaction import unified_diff

    if migrated.refused:
        label = context.paint("refused", "red")
        click.echo(f"{migrated.file}: {label}: {migrated.refused}", err=True)
        return
    for line in unified_diff(
        migrated.before.decode().splitlines(keepends=True),
        migrated.after.decode().splitlines(keepends=True),
        old=f"a/{migrated.file.path}",
        new=f"b/{migrated.file.path}",
    ):
        click.echo(line if line.endswith("\n") else f"{line}\n", nl=False)
    for change in migrated.changes:
        click.echo(f"{migrated.file}: {change}", err=True)
