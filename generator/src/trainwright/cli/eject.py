"""`eject`: the way back, to plain manifests, values and a chart."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from trainwright.cli.common import FINDINGS, OUTPUT_FOLDER, Context, complete, helm_binary


@click.command()
@click.argument("folder", type=OUTPUT_FOLDER)
@click.argument("environments", nargs=-1, metavar="[ENV]...", shell_complete=complete)
@helm_binary
@click.pass_obj
def eject(
    context: Context, *, folder: Path, environments: tuple[str, ...], helm: str | None
) -> None:
    """Write what is rendered into FOLDER as plain files that need nothing of Trainwright.

    Manifests with the kustomization that lists them, values, and the chart. No object differs from
    the one that is applied now. Nothing that is there is overwritten, and the repository stays as
    it is.
    """
    from trainwright.api import Repository
    from trainwright.files.tree import Folder
    from trainwright.helm.engines import engine
    from trainwright.runs.workspace import Workspace
    from trainwright.setup import eject as ejection
    from trainwright.setup.init.repository import write
    from trainwright.specs import select

    workspace = Workspace(Folder(context.root))
    names = select.environments(environments, workspace.survey.jobs, "ejected")
    rendering = Repository(context.root).render(*names)
    stale = sorted({*rendering.written, *rendering.removed})
    if stale or not rendering.check.ok:
        what = f"{stale[0]} is not what the specs render" if stale else "the specs have errors"
        click.echo(f"{what}: run `trainwright render`, and apply that first", err=True)
        sys.exit(FINDINGS)
    ejected = ejection.eject(workspace, names, engine(helm))
    write(folder, ejection.texts(ejected))
    for each in ejected:
        click.echo(f"{folder}/{each.environment}: {each.objects} objects, as they are applied")
        for job in each.without_values:
            click.echo(f"  {job}: no values, the chart renders other objects from them now")
