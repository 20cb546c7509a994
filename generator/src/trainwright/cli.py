"""The command line: parse, call, print, exit. Nothing is decided here.

Modules are imported inside the commands, so that `--help` and completion cost no more than click.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright import __version__
from trainwright.errors import TrainwrightError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from trainwright.plan import Options, Plan

OK, FINDINGS, CANNOT, BUG = 0, 1, 2, 3

FORMATS = ("text", "json", "sarif", "github", "junit", "markdown")
LISTS = ("jobs", "environments", "targets", "rules", "formats")


@contextmanager
def errors() -> Iterator[None]:
    """Inability ends in one line and exit 2; anything unforeseen is a bug, and exit 3."""
    try:
        yield
    except TrainwrightError as error:
        click.echo(f"trainwright: {error}", err=True)
        sys.exit(CANNOT)
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(CANNOT)
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception:  # noqa: BLE001 - the one place that catches everything
        traceback.print_exc()
        click.echo(
            f"trainwright {__version__} has a bug. Please report it with the lines above:\n"
            "https://github.com/trainwright/trainwright/issues",
            err=True,
        )
        sys.exit(BUG)


def _complete(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from trainwright import load

    try:
        found = load.survey(load.find_root(Path.cwd())).jobs
    except TrainwrightError:
        return []
    names = [*found, *(str(job) for jobs in found.values() for job in jobs)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


selections = click.argument(
    "selections", nargs=-1, metavar="[ENV|ENV/JOB]...", shell_complete=_complete
)
no_cache = click.option("--no-cache", is_flag=True, help="Forget what the last run found out.")
helm_binary = click.option(
    "--helm", metavar="BINARY", help="Render with this helm binary instead of the embedded engine."
)


class Context:
    """What every command shares: where the repository is, and whether to colour."""

    def __init__(self, root: Path | None, color: str):
        self._root = root
        self._color = color

    @property
    def root(self) -> Path:
        from trainwright import load

        return self._root.absolute() if self._root else load.find_root(Path.cwd())

    @property
    def color(self) -> bool:
        if self._color == "auto":
            return sys.stdout.isatty() and "NO_COLOR" not in os.environ
        return self._color == "always"

    def paint(self, text: str, color: str) -> str:
        """Text in a colour, where colours are wanted."""
        return click.style(text, fg=color) if self.color else text

    def plan(self, selections: tuple[str, ...], options: Options) -> Plan:
        from trainwright import plan

        return plan.plan(self.root, selections, options)


def _options(helm: str | None, no_cache: bool) -> Options:
    from trainwright.plan import Options

    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() else datetime.now(UTC)
    return Options(today=now.date().isoformat(), helm=helm, use_cache=not no_cache)


@click.group(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "TRAINWRIGHT",
        "max_content_width": 100,
    }
)
@click.version_option(__version__, prog_name="trainwright")
@click.option(
    "--root",
    "-C",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder that holds environments/. By default the nearest one above.",
)
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour the output; auto means on a terminal, unless NO_COLOR is set.",
)
@click.pass_context
def main(context: click.Context, root: Path | None, color: str) -> None:
    """Training job specs in, validated GitOps-safe Kubernetes manifests out.

    Select what to work on by environment or job: "prod", "prod/llm", "*/mnist". Without a
    selection everything is meant.

    Exit codes: 0 fine, 1 findings or differences, 2 could not do it, 3 a bug.
    """
    context.obj = Context(root, color)


@main.command()
@selections
@click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="The format of the report.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "note"]),
    default="error",
    show_default=True,
    help="The least severity that makes the exit code 1.",
)
@no_cache
@helm_binary
@click.pass_obj
def check(
    context: Context,
    selections: tuple[str, ...],
    output: str,
    fail_on: str,
    no_cache: bool,
    helm: str | None,
) -> None:
    """Validate job specs and check what they render to."""
    with errors():
        plan = context.plan(selections, _options(helm, no_cache))
        click.echo(_report(context, plan, output, selections), nl=False)
        sys.exit(FINDINGS if _at_least(plan, fail_on) else OK)


def _at_least(plan: Plan, severity: str) -> bool:
    order = ("error", "warning", "note")
    failing = order[: order.index(severity) + 1]
    return any(finding.severity.value in failing for finding in plan.findings)


def _report(context: Context, plan: Plan, output: str, selections: tuple[str, ...]) -> str:
    from trainwright import reports

    command = " ".join(("trainwright", "check", *selections))
    return reports.render(plan, output, command=command, color=context.color)


@main.command()
@selections
@click.option(
    "--check",
    "check_only",
    is_flag=True,
    help="Write nothing; exit 1 when a rendered file is stale, edited by hand or left over.",
)
@no_cache
@helm_binary
@click.pass_obj
def render(
    context: Context,
    selections: tuple[str, ...],
    check_only: bool,
    no_cache: bool,
    helm: str | None,
) -> None:
    """Render job specs into environments/<env>/rendered.

    Nothing is written while there are errors. Files edited by hand are replaced.
    """
    from trainwright import filetree, present

    with errors():
        plan = context.plan(selections, _options(helm, no_cache))
        if plan.findings:
            click.echo(_report(context, plan, "text", selections), err=True)
        if plan.failed:
            click.echo("Nothing was written, because of the errors.", err=True)
            sys.exit(FINDINGS)
        if check_only:
            sys.exit(_say_drift(plan, selections))
        for environment in plan.environments:
            if environment.changes:
                filetree.apply(context.root / environment.folder, environment.changes)
        click.echo(present.summary(plan, "written"), nl=False)


def _say_drift(plan: Plan, selections: tuple[str, ...]) -> int:
    from trainwright import present

    lines = [line for environment in plan.environments for line in present.drift(environment)]
    for line in lines:
        click.echo(line)
    if lines:
        command = " ".join(("trainwright", "render", *selections))
        click.echo(f"{present.plural(len(lines), 'file')} to render: run `{command}`.", err=True)
    else:
        click.echo(present.summary(plan, "to write"), nl=False)
    return FINDINGS if lines else OK


@main.command()
@selections
@click.option("--unified", "-U", default=3, show_default=True, help="Lines of context.")
@click.option("--name-only", is_flag=True, help="Show only which files differ, and how.")
@no_cache
@helm_binary
@click.pass_obj
def diff(
    context: Context,
    selections: tuple[str, ...],
    unified: int,
    name_only: bool,
    no_cache: bool,
    helm: str | None,
) -> None:
    """Show how rendered files would change. Exit 1 when they would."""
    from trainwright import present
    from trainwright.credentials import redact

    with errors():
        plan = context.plan(selections, _options(helm, no_cache))
        if plan.failed:
            click.echo(_report(context, plan, "text", selections), err=True)
            sys.exit(FINDINGS)
        for environment in plan.environments:
            if name_only:
                for line in present.drift(environment):
                    click.echo(line)
            else:
                for line in map(redact, present.diff(context.root, environment, unified)):
                    click.echo(_colored(line) if context.color else line, nl=False, color=True)
        sys.exit(FINDINGS if any(e.changes for e in plan.environments) else OK)


def _colored(line: str) -> str:
    colors = {"+": "green", "-": "red", "@": "cyan"}
    return click.style(line, fg=colors[line[0]]) if line[0] in colors else line


@main.command()
@click.argument("job", metavar="ENV/JOB", shell_complete=_complete)
@click.argument("path", default="")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.pass_obj
def explain(context: Context, job: str, path: str, output: str) -> None:
    """Show a job's effective spec, or one PATH of it, and which file set each value.

    PATH is dotted: image.tag, volumes.data.claim.
    """
    from trainwright import explain as explaining
    from trainwright import load, present

    with errors():
        spec = load.one_job(context.root, job)
        found = explaining.explain(spec, path)
        if output == "json":
            items = present.explanation_items(found)
            click.echo(present.as_json("Explanation", items), nl=False)
        else:
            click.echo(present.explanation(found), nl=False)


@main.command()
@click.argument("job", metavar="ENV/JOB", shell_complete=_complete)
@click.argument("extra", nargs=-1, metavar="[-- ARGUMENT...]")
@click.option("--nodes", type=click.IntRange(min=1), help="Nodes, instead of the spec's.")
@click.option(
    "--procs",
    type=click.IntRange(min=1),
    help="Processes a node. By default the spec's, and 1 where it counts GPUs.",
)
@click.option(
    "--root",
    "code",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder that stands for the code in the image. By default the current one.",
)
@click.option("--python", metavar="PATH", help="The interpreter. By default this one.")
@click.option(
    "--volumes",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder with a folder for each volume. By default they are temporary and empty.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep logs, reports of ranks and volumes in this folder.",
)
@click.option(
    "--env",
    "-e",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Set a variable, a secret say. Without a value it is taken from this shell.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would run.")
@click.pass_obj
def run(  # noqa: PLR0913 - an option each
    context: Context,
    *,
    job: str,
    extra: tuple[str, ...],
    nodes: int | None,
    procs: int | None,
    code: Path | None,
    python: str | None,
    volumes: Path | None,
    keep: Path | None,
    env: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Rehearse a rendered job on this machine, on CPU, with local processes as its nodes.

    Runs the argv of the manifest in the environment that its operator would inject, and says first
    in what that differs from the cluster. Arguments after -- are added to the command.

    Exits with the code of the pod that failed, 130 after Ctrl-C, and 0 when the operator would call
    the job succeeded; 1 as well when ranks are not as foreseen.
    """
    from trainwright.rehearsal import session, text

    options = session.Options(
        nodes=nodes,
        procs=procs,
        python=python,
        code=code,
        volumes=volumes,
        keep=keep,
        env=env,
        extra=extra,
    )
    with errors():
        plan = context.plan((job,), _options(None, no_cache=False))
        file = session.only(plan.jobs, job)
        if plan.failed:
            click.echo(_report(context, plan, "text", (job,)), err=True)
            sys.exit(FINDINGS)
        with session.prepare(context.root, file, options) as rehearsal:
            click.echo(text.introduction(rehearsal, color=context.color), err=True)
            if dry_run:
                sys.exit(OK)
            with text.Printer(rehearsal, paint=context.paint, logs=keep and keep / "logs") as show:
                outcome = rehearsal.perform(show)
            comparison = rehearsal.compare()
            click.echo(text.conclusion(rehearsal, outcome, comparison), err=True, nl=False)
        sys.exit(FINDINGS if outcome.succeeded and comparison.differences else outcome.code)


@main.command(name="list")
@click.argument("what", type=click.Choice(LISTS), default="jobs")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.pass_obj
def list_(context: Context, what: str, output: str) -> None:
    """List jobs, environments, targets, rules or report formats."""
    from trainwright import listing, present

    with errors():
        headers, rows = listing.LISTINGS[what](lambda: context.root)
        if output == "json":
            items = [dict(zip(headers, row, strict=True)) for row in rows]
            click.echo(present.as_json("List", items), nl=False)
        else:
            click.echo(present.table(headers, rows, color=context.color), nl=False)


@main.command()
def version() -> None:
    """Print the version of Trainwright and of the Helm engine it renders with."""
    with errors():
        import helm_python

        click.echo(f"trainwright {__version__}")
        click.echo(f"helm {helm_python.helm_sdk_version()} (embedded)")


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell, to be sourced from its start-up file."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, "trainwright", "_TRAINWRIGHT_COMPLETE").source())
