"""`plan`: what a merge will do, for people, programs and pull requests."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection
from pathlib import Path

import click

from trainwright.cli.common import (
    FINDINGS,
    OK,
    Context,
    crds,
    examples,
    helm_binary,
    link_option,
    output_format,
    selections,
    today,
)

FORMATS = ("text", "json", "markdown", "html")


@click.command(
    epilog=examples(
        "plan --against main", "plan prod --files", "plan --against main -o html > plan.html"
    )
)
@selections
@click.option(
    "--against",
    metavar="REF",
    default="origin/HEAD",
    show_default=True,
    help="The branch to merge into; the newest commit shared with it is the base.",
)
@click.option(
    "--head", metavar="REF", help="The commit to merge. By default what is in the working tree."
)
@crds
@output_format(FORMATS)
@link_option
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the same plan into this file as well, as a page for a browser.",
)
@click.option(
    "--files",
    is_flag=True,
    help="Show how each rendered file changes, too; markdown and html always do.",
)
@click.option("--watch", is_flag=True, help="Plan again whenever a file changes, until Ctrl-C.")
@helm_binary
@click.pass_obj
def plan(  # noqa: PLR0913 - an option each
    context: Context,
    *,
    selections: tuple[str, ...],
    against: str,
    head: str | None,
    crds: Path | None,
    output: str,
    link: str,
    page: Path | None,
    files: bool,
    watch: bool,
    helm: str | None,
) -> None:
    """Show what merging this branch will do to every job, without touching a cluster.

    Both sides are rendered, the base out of git. Each job that changes is listed with what happens
    to it, the line that causes it, what it requests, and whether everything fits its pool, queue
    and budget.

    Exits with 1 when there are errors: the API server would refuse a change, a job cannot be
    rendered, or a rule has that severity.
    """
    from trainwright.api import wired
    from trainwright.plan.merge import PlanOptions
    from trainwright.plan.session import PlanSession
    from trainwright.reports.style import Style, written

    words = ["trainwright", "plan", *selections, "--against", against]
    words += ["--head", head] if head else []
    words += ["--crds", str(crds)] if crds else []
    style = Style(
        against=against,
        command=shlex.join(words),
        link=link,
        marker=" ".join(("trainwright-plan", *selections)),
        paint=context.paint,
        differing=context.differing,
        color=context.color,
        files=files,
    )

    options = PlanOptions(
        against=against, head=head, today=today(), helm=helm, crds=crds, wired=wired
    )
    session = PlanSession(context.root, selections, options)

    def planned(edits: Collection[str] = ()) -> tuple[str, bool]:
        with context.progress("planning", output):
            made = session.plan(edits, today())
        if page is not None:
            _write(page, written("plan", "html", made, style))
        return written("plan", output, made, style), made.blocked

    if watch:
        from trainwright.cli.watch import again

        again(context, lambda edits: planned(edits)[0])
    text, blocked = planned()
    click.echo(text, nl=False, color=context.color)
    sys.exit(FINDINGS if blocked else OK)


def _write(path: Path, text: str) -> None:
    from trainwright.datatypes.errors import OutputError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
