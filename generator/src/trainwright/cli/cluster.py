"""`status` and `logs`: what became of rendered jobs in the cluster. They change nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import (
    FINDINGS,
    OK,
    Context,
    answer_format,
    build_options,
    complete,
    examples,
    report,
    selections,
)
from trainwright.cli.reach import Reach, name_unread, reaching
from trainwright.cli.suggestions import Choice

if TYPE_CHECKING:
    from trainwright.cluster.live import Comparison
    from trainwright.cluster.logs import LogLine
    from trainwright.cluster.status import Unread
    from trainwright.datatypes.layout import JobFile
    from trainwright.render.build import Build

ROLES = ("read", "dry-run", "doctor")
GOALS = ("succeeded", "running", "finished")
_STYLE = re.compile(r"\x1b\[[0-9;]{0,32}m")  # colours, which a log may do without
_COLORS = ("cyan", "green", "magenta", "yellow", "blue", "bright_red")


def _seconds(_: click.Context, __: click.Parameter, written: str | None) -> int | None:
    """30s, 10m, 1h30m: the durations of a job spec."""
    from trainwright.datatypes import durations

    number = None if written is None else durations.read(written)
    if written is not None and number is None:
        raise click.BadParameter(f"{written!r} is not a duration such as 30s, 10m or 1h30m")
    return number


def _print_rbac(context: click.Context, _: click.Parameter, role: str | None) -> None:
    if role is not None:
        from trainwright.cluster import rbac

        click.echo(rbac.manifest(role), nl=False)
        context.exit()


@click.command(
    epilog=examples(
        "status prod", "status prod/llm --for succeeded --timeout 12h", "status --diff prod"
    )
)
@selections
@reaching
@answer_format
@click.option(
    "--print-rbac",
    type=Choice(ROLES),
    is_eager=True,
    expose_value=False,
    callback=_print_rbac,
    help="Print the role that these commands need, or that of --diff or doctor --live, and exit.",
)
@click.option("--watch", is_flag=True, help="Ask every five seconds, until Ctrl-C.")
@click.option(
    "--diff",
    is_flag=True,
    help="Show how an apply would change objects instead, by a server-side dry run.",
)
@click.option(
    "--for", "goal", type=Choice(GOALS),
    help="Wait until one ENV/JOB has succeeded, is running with every rank ready, or is finished: "
    "succeeded or failed.",
)  # fmt: skip
@click.option(
    "--timeout",
    callback=_seconds,
    metavar="DURATION",
    help="How long to wait, such as 10m. By default without a limit.",
)
@click.pass_obj
def status(  # noqa: PLR0913 - an option each
    context: Context,
    *,
    selections: tuple[str, ...],
    kubeconfig: Path | None,
    kube_context: str | None,
    namespace: str | None,
    output: str,
    watch: bool,
    diff: bool,
    goal: str | None,
    timeout: int | None,
) -> None:
    """Show the state of rendered jobs: desired (git) against live (cluster).

    One line per run: waiting and why, running with how many ranks ready, failed with the words of
    the rank that failed first. Runs that only the cluster has come last. A single ENV/JOB shows
    its pods and the last lines of the failed rank too.

    A namespace or cluster that cannot be read hides no other: it is named, and the exit code is 2.

    With --diff: what the API server answers to the objects as they would be rendered now. Nothing
    is changed there. Exits with 1 when an object differs, or would be refused.

    With --for: from before the run is applied until it is in that state. Exits with 1 when it never
    will be, since it failed or was deleted, and with 2 when the time is up.
    """
    _refuse_together(watch=watch, json=output == "json", diff=diff, goal=goal, timeout=timeout)
    reach = Reach(kubeconfig, kube_context, namespace)
    if diff:
        sys.exit(_diff(context, selections, reach))
    if goal is not None:
        session = reach.run(context.root, _only(selections))
        reached, message = session.wait(goal, timeout, lambda text: click.echo(text, err=True))
        click.echo(message)
        sys.exit(OK if reached else FINDINGS)
    if watch:
        from trainwright.cli.watch import in_place

        in_place(context, lambda: _with_unread(_status(context, selections, reach, output)))
    answer, unread = _status(context, selections, reach, output)
    click.echo(answer, nl=False)
    name_unread(unread)


def _refuse_together(
    *, watch: bool, json: bool, diff: bool, goal: str | None, timeout: int | None
) -> None:
    given = {"--watch": watch, "--output json": json, "--diff": diff, "--for": goal is not None}
    named = [option for option, value in given.items() if value]
    if len(named) > 1 and named != ["--watch", "--output json"]:
        raise click.UsageError(f"{' and '.join(named)} do not go together")
    if timeout is not None and goal is None:
        raise click.UsageError("--timeout is for --for")


def _only(selections: tuple[str, ...]) -> str:
    if len(selections) != 1:
        raise click.UsageError("--for waits for one job: name it as ENV/JOB")
    return selections[0]


def _with_unread(answer: tuple[str, list[Unread]]) -> str:
    from trainwright.findings.visibility import visible

    return answer[0] + "".join(f"\n{visible(str(namespace))}\n" for namespace in answer[1])


def _status(
    context: Context, selections: tuple[str, ...], reach: Reach, output: str
) -> tuple[str, list[Unread]]:
    from trainwright.cluster import intent, text
    from trainwright.cluster import status as asking
    from trainwright.reports import style

    states = [place for place in intent.desired_states(context.root, selections) if place.kinds]
    single = sum(len(place.intents) for place in states) == 1 and not states[0].whole
    readings, unread = reach.read(states)
    runs = [run for reading in readings for run in reading.runs]
    if output == "json":
        return style.listing("Status", text.items(runs), unread=text.unread_items(unread)), unread
    if not single:
        return text.table(runs, color=context.color), unread
    last = asking.LastLines()
    for where, own in readings:
        if where.place.intents:
            last = asking.last_lines(where.cluster, where.namespace, own)
    return text.detail(runs, last, color=context.color), unread


def _diff(context: Context, selections: tuple[str, ...], reach: Reach) -> int:
    """Differences to stdout, what the API server refuses to stderr."""
    from trainwright.cluster import live

    options = replace(build_options(None, no_cache=False), check_next_runs=False, recover=True)
    with context.progress("rendering"):
        build = context.repository.build(selections, options)
    if build.failed:
        click.echo(report(context, build, "text", selections), err=True)
        return FINDINGS
    findings, differ = [], False
    for job, comparison in _compared(context, build, reach):
        differ = differ or comparison.differs
        if comparison.refused:
            findings.append(live.finding(job, comparison))
        for line in comparison.diff():
            click.echo(context.differing(line), color=context.color)
    if findings:
        refused = replace(build, findings=tuple(findings), sources={})
        click.echo(report(context, refused, "text", selections), err=True)
    return FINDINGS if findings or differ else OK


def _compared(context: Context, build: Build, reach: Reach) -> Iterator[tuple[JobFile, Comparison]]:
    from trainwright.cluster import live
    from trainwright.files.tree import Folder
    from trainwright.runs.workspace import Workspace

    workspace = Workspace(Folder(context.root))
    for environment in build.environments:
        objects = list(live.rendered(context.root, environment))
        if not objects:
            continue
        place = workspace.environment(environment.name)
        cluster, namespace = reach(place)
        for job, manifest in objects:
            where = reach.namespace or manifest.identity[2] or namespace
            yield job, live.compare(cluster, where, manifest, live.MANAGERS[place.gitops.engine])


@click.command(epilog=examples("logs prod/llm --follow", "logs prod/llm --rank 3 --tail 100"))
@click.argument("job", metavar="ENV/JOB", shell_complete=complete)
@reaching
@click.option(
    "--role",
    metavar="ROLE",
    default="",
    help="Show the pods of this role, or of `all` roles; by default those that train.",
)
@click.option(
    "--rank",
    metavar="N",
    type=click.IntRange(min=0),
    help="Only the pod that holds this rank, or has this number in its role. See docs/cluster.md.",
)
@click.option(
    "--follow", "-f", is_flag=True, help="Go on as they are written, until the run is over."
)
@click.option(
    "--previous",
    "-p",
    is_flag=True,
    help="Show the logs of the containers before their last restart.",
)
@click.option(
    "--since", callback=_seconds, metavar="DURATION", help="Only what is newer, such as 10m."
)
@click.option(
    "--tail",
    metavar="N",
    type=click.IntRange(min=0),
    help="Show only this many of the last lines of each pod.",
)
@click.option("--run", "object_", metavar="NAME", help="An older run, by its name in the cluster.")
@click.pass_obj
def logs(  # noqa: PLR0913 - an option each
    context: Context,
    *,
    job: str,
    kubeconfig: Path | None,
    kube_context: str | None,
    namespace: str | None,
    role: str,
    rank: int | None,
    follow: bool,
    previous: bool,
    since: int | None,
    tail: int | None,
    object_: str | None,
) -> None:
    """Print the logs of a job's ranks, each line after the rank that wrote it.

    Of a failed run the rank that failed comes first, also where it is of a role.
    What looks like a credential is hidden.
    """
    from trainwright.cluster.logs import LogOptions

    if follow and previous:
        raise click.UsageError("--previous has ended and cannot be followed")
    session = Reach(kubeconfig, kube_context, namespace).run(context.root, job, object_ or "")
    wanted = LogOptions(previous=previous, since=since, tail=tail)
    _print(context, session.logs(wanted, role=role, rank=rank, follow=follow))


def _print(context: Context, lines: Iterator[LogLine]) -> None:
    """Print each line behind the rank that wrote it, in its colour; notes go to stderr.

    Whatever else a line would do to the terminal is spelled out, but for its own colours.
    """
    from trainwright.findings.visibility import visible

    seen: dict[str, str] = {}
    for line in lines:
        label = f"{line.pod.label:<9}"
        color = seen.setdefault(label, _COLORS[len(seen) % len(_COLORS)])
        text = visible(_STYLE.sub("", line.text))
        click.echo(f"{context.paint(label, color)} | {text}", err=line.note)
