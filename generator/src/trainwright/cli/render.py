"""`render` and `diff`: the rendered files, written or compared."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import (
    FINDINGS,
    OK,
    Context,
    errors,
    helm_binary,
    no_cache,
    planning,
    report,
    selections,
    today,
)
from trainwright.cli.reach import Reach, reaching

if TYPE_CHECKING:
    from trainwright.render.build import Build


@click.command()
@selections
@click.option(
    "--check",
    "check_only",
    is_flag=True,
    help="Write nothing; exit 1 when a rendered file is stale, edited by hand or left over.",
)
@click.option(
    "--new-runs",
    is_flag=True,
    help="Begin new runs where a job was rendered before and the record of its run is lost.",
)
@click.option(
    "--against",
    metavar="REF",
    default="",
    help="The branch to merge into: what is rendered is proved from the commit where this one "
    "began. By default the usual one.",
)
@no_cache
@helm_binary
@click.pass_obj
def render(
    context: Context,
    *,
    selections: tuple[str, ...],
    check_only: bool,
    new_runs: bool,
    against: str,
    no_cache: bool,
    helm: str | None,
) -> None:
    """Render job specs into environments/<env>/rendered.

    Nothing is written while there are errors. Files that were edited by hand, or that cannot be
    derived from the base and the branch's own commits, are replaced.
    """
    from trainwright.api import write_files
    from trainwright.render import text

    with errors(), nullcontext() if check_only else context.held():
        options = replace(
            planning(helm, no_cache), check_next_runs=False, recover=True, new_runs=new_runs
        )
        options = replace(options, writes=not check_only, proves=True, against=against)
        with context.progress("rendering"):
            plan = context.plan(selections, options)
        found = replace(plan, findings=(*plan.findings, *plan.underived))
        if found.findings:
            click.echo(report(context, found, "text", selections), err=True)
        if plan.failed:
            click.echo("Nothing was written, because of the errors.", err=True)
            sys.exit(FINDINGS)
        if check_only:
            sys.exit(_say_drift(plan, selections))
        write_files(context.root, plan)
        click.echo(text.summary(plan, "written"), nl=False)


def _say_drift(plan: Build, selections: tuple[str, ...]) -> int:
    from trainwright.datatypes.listing import plural
    from trainwright.findings import diagnostics as dx
    from trainwright.render import text

    lines = [line for environment in plan.environments for line in text.drift(environment)]
    for line in lines:
        click.echo(line)
    if lines:
        command = " ".join(("trainwright", "render", *selections))
        click.echo(f"{plural(len(lines), 'file')} to render: run `{command}`.", err=True)
    else:
        click.echo(text.summary(plan, "to write"), nl=False)
    unproved = plan.underived or any(f.rule == dx.UNCOMPARED.id for f in plan.findings)
    if not plan.compared and not unproved:
        click.echo("No commit is here: rendered files were compared with records alone.", err=True)
    return FINDINGS if lines or unproved else OK


@click.command()
@selections
@click.option(
    "--unified",
    "-U",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Lines of context.",
)
@click.option("--name-only", is_flag=True, help="Show only which files differ, and how.")
@click.option("--against", metavar="REF", help="Compare with what this branch renders to, instead.")
@click.option(
    "--live", is_flag=True, help="Compare with the cluster, by a server-side dry run, instead."
)
@reaching
@no_cache
@helm_binary
@click.pass_obj
def diff(  # noqa: PLR0913 - an option each
    context: Context,
    *,
    selections: tuple[str, ...],
    unified: int,
    name_only: bool,
    against: str | None,
    live: bool,
    kubeconfig: Path | None,
    kube_context: str | None,
    namespace: str | None,
    no_cache: bool,
    helm: str | None,
) -> None:
    """Show how rendered files would change. Exit 1 when they would.

    With --against: how the manifests differ from those of another branch; `plan` shows what that
    does.

    With --live: how objects in the cluster would, by the API server's own answer to what is
    rendered now. Nothing is changed there; what it would refuse is a finding.
    """
    from trainwright.render import text

    with errors():
        if against is not None:
            if live:
                raise click.UsageError("--against and --live compare with different things.")
            sys.exit(
                _diff_against(context, selections, against, helm, -1 if name_only else unified)
            )
        options = replace(planning(helm, no_cache), check_next_runs=False, recover=True)
        with context.progress("rendering"):
            plan = context.plan(selections, options)
        if plan.failed:
            click.echo(report(context, plan, "text", selections), err=True)
            sys.exit(FINDINGS)
        if live:
            reach_by = Reach(kubeconfig, kube_context, namespace)
            sys.exit(_diff_live(context, plan, selections, reach_by, -1 if name_only else unified))
        for environment in plan.environments:
            if name_only:
                for line in text.drift(environment):
                    click.echo(line)
            else:
                for line in text.diff(context.root, environment, unified):
                    click.echo(context.differing(line), nl=False, color=True)
        sys.exit(FINDINGS if any(e.changes for e in plan.environments) else OK)


def _diff_against(
    context: Context, selections: tuple[str, ...], against: str, helm: str | None, unified: int
) -> int:
    """Differences from another branch; -1 lines mean names only."""
    from trainwright.plan import session, words
    from trainwright.plan.comparison import PlanOptions

    options = PlanOptions(against=against, head=None, today=today(), helm=helm)
    changes = session.plan(context.root, selections, options).changes
    for change in sorted(changes, key=lambda change: change.file):
        if unified < 0:
            click.echo(f"{change.file}: {change.action.value}")
        else:
            for line in words.diff(change, unified):
                click.echo(context.differing(line), color=True)
    return FINDINGS if changes else OK


def _diff_live(
    context: Context, plan: Build, selections: tuple[str, ...], reach: Reach, unified: int
) -> int:
    """Differences to stdout, what the API server refuses to stderr; -1 lines mean names only."""
    from trainwright.cluster import live
    from trainwright.runs.workspace import Workspace
    from trainwright.specs.tree import Folder

    workspace = Workspace(Folder(context.root))
    findings, differ = [], False
    for environment in plan.environments:
        objects = list(live.rendered(context.root, environment))
        if not objects:
            continue
        place = workspace.environment(environment.name)
        cluster, namespace = reach(place)
        for job, manifest in objects:
            where = reach.namespace or manifest.identity[2] or namespace
            found = live.compare(cluster, where, manifest, live.MANAGERS[place.gitops.engine])
            differ = differ or found.differs
            if found.refused:
                findings.append(live.finding(job, found))
            elif unified < 0 and found.differs:
                click.echo(f"{found.title}: {'missing' if found.before is None else 'differs'}")
            elif unified >= 0:
                for line in found.diff(unified):
                    click.echo(context.differing(line), nl=False, color=True)
    if findings:
        refused = replace(plan, findings=tuple(findings), sources={})
        click.echo(report(context, refused, "text", selections), err=True)
    return FINDINGS if findings or differ else OK
