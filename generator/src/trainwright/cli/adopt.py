"""`adopt`: objects of a cluster as the runs of jobs."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import FINDINGS, OK, Context, examples, today
from trainwright.cli.reach import Reach, reaching

if TYPE_CHECKING:
    from trainwright.importing import ImportInput
    from trainwright.importing.adopting import AdoptionBatch
    from trainwright.kinds.reading import SourceObject


@click.command(epilog=examples("adopt --env prod live.yaml", "adopt --env prod --live --dry-run"))
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(allow_dash=True))
@click.option(
    "--env", "environment", metavar="ENV", required=True, help="The environment to adopt into."
)
@click.option(
    "--live",
    is_flag=True,
    help="Read the objects from the cluster: those that FILE names, or all of the namespace.",
)
@reaching
@click.option("--pool", metavar="NAME", help="The pool whose nodes the next run is to be on.")
@click.option("--image", metavar="IMAGE", help="The image of the next run, where none is shown.")
@click.option("--name", metavar="NAME", help="The job's name, when there is one object only.")
@click.option("--dry-run", is_flag=True, help="Print what the objects would be, and write nothing.")
@click.pass_obj
def adopt(  # noqa: PLR0913 - an option each
    context: Context,
    *,
    files: tuple[str, ...],
    environment: str,
    live: bool,
    kubeconfig: Path | None,
    kube_context: str | None,
    namespace: str | None,
    pool: str | None,
    image: str | None,
    name: str | None,
    dry_run: bool,
) -> None:
    """Bring workloads that run in a cluster under git as jobs, without restarting them.

    Reads what `kubectl get -o yaml` prints: files, folders, "-" for standard input; or with --live
    the cluster itself. What runs, waits or is suspended becomes the first run of a job, byte for
    byte but for what the cluster has added. What has finished is listed in the ledger.

    Each job's spec is that of its next run, which an edit of it begins. What that run would lose is
    listed. What no spec can describe, such as several roles or an MPIJob, goes on as it is and has
    no next run.

    The steps are listed by which Argo CD, Flux or Helm lets go of the objects without pruning any.

    An Application of Argo CD or a Kustomization of Flux among the files selects the objects: those
    that it has applied, or that are in its path of a repository among the files.

    Exits with 1 when something could not be adopted, and stays with who applies it.
    """
    from trainwright import importing
    from trainwright.importing import adopting, text
    from trainwright.importing.batch import ImportOptions

    if not files and not live:
        raise click.UsageError(
            "Name what `kubectl get -o yaml` has printed, or read the cluster by --live."
        )
    inputs = importing.ImportInput(whole=True)
    reach = Reach(kubeconfig, kube_context, namespace) if live else None
    inputs.take(_objects(context, inputs, files, environment, reach))
    options = ImportOptions(
        environment=environment,
        image=image or "",
        pool=pool or "",
        name=name or "",
        write=not dry_run,
    )
    with nullcontext() if dry_run else context.held(), context.progress("adopting"):
        done = adopting.run(context.root, inputs, options, today())
    _say(context, done)
    for made in done.made:
        click.echo(f"beside: {made}, which makes it", err=True)
    for line in text.refusals(inputs, done.problems, context.paint):
        click.echo(line, err=True)
    if done.adoptions and not dry_run:
        again = f"trainwright render {environment}"
        click.echo(f"Run `{again}`, commit, and read `trainwright plan`.", err=True)
    sys.exit(FINDINGS if inputs.findings or inputs.problems or done.problems else OK)


def _objects(
    context: Context,
    inputs: ImportInput,
    files: tuple[str, ...],
    name: str,
    reach: Reach | None,
) -> list[SourceObject]:
    """What is to be adopted, as the cluster has it where that is asked."""
    from trainwright.importing import engine_sources

    parts, problems = engine_sources.chosen(inputs.read(files))
    inputs.problems += problems
    if reach is None:
        return parts
    from trainwright.cluster import training
    from trainwright.files.tree import Folder
    from trainwright.importing import adopting
    from trainwright.runs.workspace import Workspace

    workspace = Workspace(Folder(context.root))
    cluster, namespace = reach(workspace.environment(name))
    if files:
        parts, problems = engine_sources.as_in_cluster(
            parts, lambda manifest: training.live_object(cluster, namespace, manifest)
        )
    else:
        bodies, problems = training.listed(cluster, namespace)
        parts = list(adopting.not_adopted(workspace, name, bodies))
    inputs.problems += problems
    return parts


def _say(context: Context, done: AdoptionBatch) -> None:
    """What became of each object, and the steps around the merge."""
    from trainwright.importing import letting_go, text

    for adoption in done.adoptions:
        becomes = "is in the ledger" if adoption.state.over else "goes on"
        click.echo(f"{adoption.file}: {adoption.manifest.title} ({adoption.state.phase}) {becomes}")
        _, *lines = text.report(adoption.imported, context.paint)
        for line in lines:
            click.echo(line, err=True)
        if adoption.expiry:
            click.echo(f"  {context.paint('warning', 'yellow')}[TW502] {adoption.expiry}", err=True)
    for line in letting_go.steps((adoption.body, adoption.manifest) for adoption in done.adoptions):
        click.echo(line)
    over = Counter(adoption.state.over for adoption in done.adoptions)
    click.echo(f"{over[False]} go on, {over[True]} have finished; 0 begin, 0 end.")
