"""`import`: existing manifests and command lines into job specs."""

from __future__ import annotations

import shlex
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from trainwright.cli.common import FINDINGS, OK, Context, examples, output_format

if TYPE_CHECKING:
    from trainwright.importing import ImportInput
    from trainwright.importing.batch import ImportBatch
    from trainwright.importing.convert import Imported


def _values(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Return the values of placeholders by name. Raises BadParameter for what is no assignment."""
    for text in given:
        if not text.partition("=")[1]:
            raise click.BadParameter(f'"{text}" is not NAME=VALUE')
    return {name: value for name, _, value in (text.partition("=") for text in given)}


def _refuse_others(context: click.Context) -> None:
    """Refuse options that a moved spec has no use for."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is ParameterSource.COMMANDLINE and name not in ("files", "to", "dry_run"):
            raise click.UsageError(f"--to moves specs, and takes no {parameter.opts[0]}")


@click.command(
    "import",
    epilog=examples(
        "import --env prod deploy/llm.yaml",
        "import --env prod --image ml/train:1 --command 'torchrun t.py'",
        "import --to trainjob prod",
    ),
)
@click.argument("files", nargs=-1, metavar="FILE...", type=click.Path(allow_dash=True))
@click.option("--env", "environment", metavar="ENV", help="The environment to import into.")
@click.option(
    "--command",
    "commands",
    multiple=True,
    metavar="LINE",
    help="A command line, instead of a file.",
)
@click.option(
    "--entrypoint",
    metavar="COMMAND",
    help="The command that the image starts, for a manifest that has none.",
)
@click.option(
    "--image",
    metavar="IMAGE",
    help="The image, for a manifest that has none, such as a TrainJob without its runtime.",
)
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_values,
    help="The value of a placeholder in a manifest: ${NAME}, $NAME, <NAME> or V_NAME.",
)
@click.option("--pool", metavar="NAME", help="The pool whose nodes it is to run on.")
@click.option("--name", metavar="NAME", help="The job's name, when there is one job only.")
@click.option("--force", is_flag=True, help="Replace job files that are there.")
@click.option(
    "--new-runs",
    is_flag=True,
    help="Import what was read from a cluster, too: its next run begins when it is rendered.",
)
@click.option(
    "--to",
    metavar="TARGET",
    help="Move specs to this target: those of a PyTorchJob or JobSet to trainjob, those of a "
    "TrainJob to jobset; ENV or ENV/JOB in place of FILE.",
)
@click.option("--dry-run", is_flag=True, help="Print the specs instead of writing them.")
@output_format(("text", "json"))
@click.pass_obj
def import_(  # noqa: PLR0913 - an option each
    context: Context,
    *,
    files: tuple[str, ...],
    environment: str | None,
    commands: tuple[str, ...],
    entrypoint: str | None,
    image: str | None,
    values: dict[str, str],
    pool: str | None,
    name: str | None,
    force: bool,
    new_runs: bool,
    to: str | None,
    dry_run: bool,
    output: str,
) -> None:
    """Turn manifests, compose files and command lines into job specs.

    Reads PyTorchJob, TrainJob (with its runtime), TrainingJob, JobSet, Job and RayJob manifests,
    what is in an AppWrapper, HyperPodPyTorchJob, Jobs of Volcano's pytorch plugin, compose files,
    scripts of `docker run …` and `elasticdl train …`, batch scripts of Slurm, and what a shell
    starts (`torchrun …`, with `--image`); "-" is standard input.

    Each becomes the shortest spec that renders to the same run. Whatever the spec does not carry is
    listed with its position and what that means: cosmetic, behaviour, cannot run.

    An object that was read from a cluster, by its status or uid, is refused: its spec would begin
    another run of the same training.

    With `--to trainjob`: PyTorchJob and JobSet specs of this repository move to TrainJob, and with
    `--to jobset` those of TrainJobs to JobSet. Only `target` changes in a file, and what changes
    for the training is listed. A job that the new target cannot express, such as an elastic one,
    is refused. A moved job is a new run: review it as such.

    Exits with 1 when something could not be imported, or cannot run as it is imported.
    """
    if to is not None:
        from trainwright.cli.migrate import migrate

        _refuse_others(click.get_current_context())
        migrate(context, files, to, dry_run=dry_run)
    if environment is None:
        raise click.UsageError("Missing option '--env'.")
    from trainwright import importing
    from trainwright.importing import json
    from trainwright.importing.batch import ImportOptions, run

    if not files and not commands:
        raise click.UsageError("name a FILE, or give a --command")
    inputs = importing.ImportInput(values)
    for text in commands:
        inputs.commands("--command", text)
    if files:
        inputs.files(files)
    options = ImportOptions(
        environment=environment,
        entrypoint=tuple(shlex.split(entrypoint or "")),
        image=image or "",
        pool=pool or "",
        name=name or "",
        force=force,
        write=not dry_run,
        new_runs=new_runs,
    )
    with nullcontext() if dry_run else context.held(), context.progress("importing", output):
        done = run(context.root, inputs, options)
    if output == "json":
        click.echo(json.render(inputs, done, environment, written=not dry_run), nl=False)
    else:
        _say_all(context, inputs, done, environment, dry_run=dry_run)
    failed = inputs.findings or inputs.problems or done.problems or done.broken
    sys.exit(FINDINGS if failed else OK)


def _say_all(
    context: Context, inputs: ImportInput, done: ImportBatch, environment: str, *, dry_run: bool
) -> None:
    from trainwright.importing import text

    for imported in done.imported:
        _say(context, imported, dry_run=dry_run)
    if done.imported and not dry_run:
        click.echo(
            f"Not checked against the rules yet: run `trainwright check {environment}`.", err=True
        )
    for line in text.refusals(inputs, done.problems, context.paint):
        click.echo(line, err=True)
    if done.broken:
        names = ", ".join(imported.file.path for imported in done.broken)
        click.echo(f"{context.paint('cannot run', 'red')} as imported: {names}", err=True)


def _say(context: Context, imported: Imported, *, dry_run: bool) -> None:
    from trainwright.importing import text

    if dry_run:
        click.echo(text.spec(imported), nl=False)
    else:
        click.echo(imported.file.path)
    for line in text.report(imported, context.paint):
        click.echo(line, err=True)
