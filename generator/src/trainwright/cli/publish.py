"""`publish`: rendered files as commits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import (
    FINDINGS,
    Context,
    build_options,
    examples,
    helm_binary,
    report,
    selections,
)

if TYPE_CHECKING:
    from trainwright.gitops.publish.model import Published


@click.command(epilog=examples("gitops publish prod --branch rendered --push"))
@selections
@click.option(
    "--branch",
    metavar="NAME",
    default="",
    help="Publish to this branch; {env} is the environment. By default the current one.",
)
@click.option(
    "--path",
    metavar="FOLDER",
    default="",
    help="The folder there, . for the top; {env} as above. By default that of the rendered files.",
)
@click.option("--push", is_flag=True, help="Push, and render again when another push was faster.")
@click.option(
    "--remote", metavar="NAME", default="origin", show_default=True, help="The remote to push to."
)
@click.option("--repository", metavar="URL", help="Push to another repository, by URL or path.")
@click.option("--discard-edits", is_flag=True, help="Replace what was edited by hand.")
@click.option(
    "--new-runs",
    is_flag=True,
    help="Begin new runs where a job was published before and the record of its run is lost.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be committed, and commit nothing.")
@click.option(
    "--attempts",
    metavar="N",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How often to try when others push at the same time.",
)
@helm_binary
@click.pass_obj
def publish(  # noqa: PLR0913 - an option each
    context: Context,
    *,
    selections: tuple[str, ...],
    branch: str,
    path: str,
    push: bool,
    remote: str,
    repository: str | None,
    discard_edits: bool,
    new_runs: bool,
    dry_run: bool,
    attempts: int,
    helm: str | None,
) -> None:
    """Render the specs that are committed, and commit the manifests of whole environments.

    The working tree is left alone unless the current branch is published to. A branch only ever
    moves forward; what was edited by hand there is not replaced.
    """
    from dataclasses import replace

    from trainwright.gitops.publish import publisher
    from trainwright.gitops.publish.model import PublishOptions, Unsound

    options = PublishOptions(
        build=replace(build_options(helm, no_cache=True), check_next_runs=False, new_runs=new_runs),
        branch=branch,
        path=path,
        remote=_absolute(repository) if repository else remote,
        elsewhere=bool(repository),
        push=push,
        discard_edits=discard_edits,
        dry_run=dry_run,
        attempts=attempts,
    )
    try:
        published = publisher.publish(context.root, selections, options)
        while done := _next(context, published):
            made = f"{done.commit[:12]}  " if done.commit else ""
            click.echo(f"{done.branch}  {made}{done.message}")
    except Unsound as unsound:
        click.echo(report(context, unsound.build, "text", selections), err=True)
        click.echo("Nothing was published, because of the errors.", err=True)
        sys.exit(FINDINGS)


def _next(context: Context, published: Iterator[Published]) -> Published | None:
    """What is published next; None when all is."""
    with context.progress("publishing"):
        return next(published, None)


def _absolute(repository: str) -> str:
    """A path seen from here rather than from the top of the repository; a URL as it is."""
    return str(Path(repository).resolve()) if Path(repository).exists() else repository
