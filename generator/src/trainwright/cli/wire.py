"""`wire`: what Argo CD or Flux has to be told of an environment."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import FINDINGS, OK, OUTPUT_FOLDER, Context, complete, examples
from trainwright.datatypes.layout import WIRING
from trainwright.datatypes.listing import plural

if TYPE_CHECKING:
    from trainwright.files.filetree import Changes
    from trainwright.gitops.wiring.survey import LoadedSites


@click.command(epilog=examples("gitops wire --out wiring", "gitops wire prod"))
@click.argument("environments", nargs=-1, metavar="[ENV]...", shell_complete=complete)
@click.option(
    "--out",
    type=OUTPUT_FOLDER,
    help="Write files into this folder, with a folder for each environment.",
)
@click.option(
    "--check",
    "check_only",
    is_flag=True,
    help="Write nothing; exit 1 when a file is stale, edited by hand or no longer needed.",
)
@click.pass_obj
def wire(
    context: Context, environments: tuple[str, ...], out: Path | None, check_only: bool
) -> None:
    """Write the Argo CD Applications or Flux Kustomizations that apply environments.

    Prints the objects, or writes them below --out together with what makes Argo CD understand
    training runs. By default of all environments that an engine applies.
    """
    from trainwright.files.tree import Folder
    from trainwright.gitops.wiring import survey, writing
    from trainwright.runs.workspace import Workspace

    if check_only and out is None:
        raise click.UsageError("--check needs --out: it compares with the files there.")
    surveyed = survey.load_sites(Workspace(Folder(context.root)), environments or None)
    if surveyed.findings:
        click.echo(_report(context, surveyed, environments), err=True)
    if surveyed.failed and not check_only:
        sys.exit(FINDINGS)
    if out is None:
        click.echo(writing.stream(surveyed), nl=False)
        sys.exit(OK)
    left = () if environments else tuple(writing.left_over(Folder(out), "", surveyed))
    ours = out.resolve() == (context.root / WIRING).resolve()
    changes = writing.changes(out, surveyed.sound, left if ours else ())
    staying = writing.left_in_cluster(out, changes.removed, surveyed.sound) if ours else {}
    code = _say(out, changes, environments, check_only=check_only, failed=surveyed.failed)
    if ours and not check_only:
        _say_staying(staying)
    _say_left(out, () if ours else left)
    sys.exit(FINDINGS if surveyed.failed else code)


def _say_staying(commands: Mapping[str, str]) -> None:
    """Name the command that deletes the objects of each removed file, which nothing else does."""
    from trainwright.findings.visibility import visible

    for path, command in commands.items():
        name = visible(f"{WIRING}/{path}")
        stay = f"The objects of {name} stay in the cluster until `{command}`"
        also = "also what another environment has now and has not applied yet"
        click.echo(
            f"{stay}; with `prune: immediate` that deletes what they apply, {also}.", err=True
        )


def _say_left(out: Path, left: tuple[str, ...]) -> None:
    """Name folders of no environment here, in a folder that another repository may write too."""
    from trainwright.findings.visibility import visible

    for folder in dict.fromkeys(str((out / path).parent) for path in left):
        click.echo(
            f"{visible(folder)} is of no environment that an engine applies here: unless another "
            "repository wrote it, delete its objects from the cluster, and then the folder.",
            err=True,
        )


def _say(
    out: Path,
    changes: Changes,
    environments: tuple[str, ...],
    *,
    check_only: bool,
    failed: bool,
) -> int:
    from trainwright.files import filetree

    states = {
        **dict.fromkeys(changes.added, "missing" if check_only else "added"),
        **dict.fromkeys(changes.changed, "out of date" if check_only else "changed"),
        **dict.fromkeys(changes.removed, "no longer needed" if check_only else "removed"),
    }
    for path, state in sorted(states.items()):
        click.echo(f"{out / path}: {state}")
    if not states:
        click.echo(f"up to date in {out}")
    elif check_only:
        command = " ".join(("trainwright", "gitops", "wire", *environments, "--out", str(out)))
        first = "mend the errors, and " if failed else ""
        click.echo(f"{plural(len(states), 'file')} to write: {first}run `{command}`.", err=True)
        return FINDINGS
    else:
        filetree.apply(out, changes)
    return OK


def _report(context: Context, surveyed: LoadedSites, environments: tuple[str, ...]) -> str:
    """Return the findings about environments as text for a terminal."""
    from trainwright import reports

    return reports.write(
        surveyed.findings,
        surveyed.lines,
        "text",
        checked=tuple(str(job) for jobs in surveyed.jobs.values() for job in jobs),
        command=shlex.join(("trainwright", "gitops", "wire", *environments)),
        color=context.color,
    )
