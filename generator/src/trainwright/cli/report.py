"""`report`: a repository as one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trainwright.cli.common import (
    Context,
    errors,
    github_link,
    helm_binary,
    no_cache,
    planning,
    selections,
)

if TYPE_CHECKING:
    from trainwright.cluster.status import RunStatus


@click.command()
@selections
@click.option("--live", is_flag=True, help="Ask the clusters once for the state of every run.")
@click.option(
    "--link",
    metavar="URL",
    help="What paths are added to in links. In GitHub Actions: this repository at this commit.",
)
@no_cache
@helm_binary
@click.pass_obj
def report(
    context: Context,
    *,
    selections: tuple[str, ...],
    live: bool,
    link: str | None,
    no_cache: bool,
    helm: str | None,
) -> None:
    """Write a page with every environment and run: active, behind, finished, by git's history.

    Capacity and budget of each environment, a timeline, findings, and a search whose filters are in
    the address. One HTML file that loads nothing.
    """
    from trainwright.overview import page
    from trainwright.overview.collect import overview
    from trainwright.specs import git

    with errors():
        with context.progress("checking"):
            build = context.plan(selections, planning(helm, no_cache))
            found = overview(context.root, build, _statuses(context, selections) if live else ())
        words = ["trainwright", "report", *selections, *(["--live"] if live else [])]
        try:
            commit = git.find(context.root)[0].commit("HEAD")
        except git.GitError:
            commit = ""
        style = page.Style(
            command=" ".join(words),
            link=github_link() if link is None else link.rstrip("/"),
            commit=commit,
        )
        click.echo(page.render(found, style), nl=False)


def _statuses(context: Context, selections: tuple[str, ...]) -> list[RunStatus]:
    from trainwright.cli.reach import Reach
    from trainwright.cluster import intent, status

    wanted = (place for place in intent.desired_states(context.root, selections) if place.kinds)
    return [
        found
        for part, cluster, where in Reach(None, None, None).parts(wanted)
        for found in status.run_statuses(cluster, part, where)
    ]
