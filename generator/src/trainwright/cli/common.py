"""What the verbs share: where the repository is, what is selected, how it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trainwright import __version__
from trainwright.cli.suggestions import Choice, Format
from trainwright.datatypes.errors import TrainwrightError, output_trouble

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from trainwright.api import Repository
    from trainwright.datatypes.finding import Finding
    from trainwright.datatypes.layout import JobFile
    from trainwright.render.build import Build, BuildOptions

OK, FINDINGS, CANNOT, BUG = 0, 1, 2, 3
FORMATS = ("text", "json", "sarif", "github", "junit", "markdown")
SEVERITIES = ("error", "warning", "note")
VERSIONS = tuple(f"1.{minor}" for minor in range(29, 38))  # kube.VERSIONS, which costs an import
TODAY = "TRAINWRIGHT_TODAY"  # not SOURCE_DATE_EPOCH: builds set that to the day of a commit


def line_of(error: object) -> str:
    """What cannot be done, as it may be shown: words of servers, files and people are in it."""
    from trainwright.findings.credentials import redact
    from trainwright.findings.visibility import visible

    lines = [f"trainwright: {error}", *getattr(error, "__notes__", ())]
    return "\n".join(map(visible, redact("\n".join(lines)).split("\n")))


@contextmanager
def errors() -> Iterator[None]:
    """Inability ends in one line and exit 2; anything unforeseen is a bug, and exit 3."""
    try:
        yield
    except TrainwrightError as error:
        click.echo(line_of(error), err=True)
        sys.exit(CANNOT)
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        discard_output()
        sys.exit(CANNOT)
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:  # noqa: BLE001 - the one place that catches everything
        if isinstance(error, OSError) and (trouble := output_trouble(error)):
            discard_output()
            click.echo(f"trainwright: {trouble}", err=True)
            sys.exit(CANNOT)
        import traceback  # 7 ms, and only a bug needs it

        traceback.print_exc()
        click.echo(
            f"trainwright {__version__} has a bug. Please report it with the lines above:\n"
            "https://github.com/trainwright/trainwright/issues",
            err=True,
        )
        sys.exit(BUG)


def discard_output() -> None:
    """Let go of what is in the buffer: it could not be written at the end either.

    https://docs.python.org/3/library/signal.html#note-on-sigpipe
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def completed_root(context: click.Context) -> Path:
    """The repository of the command that is completed. Raises SourceError where there is none.

    Of a command line that is only completed click keeps the options and calls nothing.
    """
    from trainwright.files.tree import find_root

    root: Path | None = context.find_root().params.get("root")
    return root or find_root(Path.cwd())


def complete(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from trainwright.files.tree import Folder
    from trainwright.specs import inventory

    try:
        jobs_by_environment = inventory.discover(Folder(completed_root(context))).jobs
    except TrainwrightError:
        return []
    names = [
        *jobs_by_environment,
        *(str(job) for jobs in jobs_by_environment.values() for job in jobs),
    ]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)
OUTPUT_FOLDER = click.Path(path_type=Path, file_okay=False)  # which may be made
FC = TypeVar("FC", bound=Callable[..., Any] | click.Command)  # what an option decorates

selections = click.argument(
    "selections", nargs=-1, metavar="[ENV|ENV/JOB]...", shell_complete=complete
)
no_cache = click.option(
    "--no-cache", is_flag=True, help="Use no cached results of earlier commands."
)


def examples(*lines: str) -> str:
    """Return what ends the help of a command: lines to copy, without the name of the program."""
    return "\n".join(("\b", "Examples:", *(f"  trainwright {line}" for line in lines)))


def output_format(formats: Sequence[str], default: str = "text") -> Callable[[FC], FC]:
    """The option -o: the format of what a command prints."""
    return click.option(
        "-o",
        "--output",
        type=Format(formats),
        default=default,
        show_default=True,
        help="The format of the output.",
    )


report_format = output_format(FORMATS)
answer_format = output_format(("text", "json"))
helm_binary = click.option(
    "--helm", metavar="BINARY", help="Render with this helm binary instead of the embedded Helm."
)
fail_on = click.option(
    "--fail-on",
    type=Choice(SEVERITIES),
    default="error",
    show_default=True,
    help="The least severity that makes the exit code 1.",
)
kubernetes_version = click.option(
    "--kubernetes-version",
    "kubernetes",
    type=Choice(VERSIONS),
    help="Check for this version of Kubernetes instead of the environment's own.",
)
crds = click.option(
    "--crds",
    type=click.Path(path_type=Path, exists=True),
    help="Files of CustomResourceDefinitions: check objects against their schemas and rules, too.",
)


def _link(_: click.Context, __: click.Parameter, given: str | None) -> str:
    """Return an address as it is given, or else where GitHub shows the files of the commit that a
    workflow runs for.
    """
    if given is not None:
        return given.rstrip("/")
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA")
    server, repository, commit = (os.environ.get(name, "") for name in names)
    return f"{server}/{repository}/blob/{commit}" if server and repository and commit else ""


link_option = click.option(
    "--link",
    metavar="URL",
    callback=_link,
    help="The URL before paths in links. In GitHub Actions: this repository at this commit.",
)


class Context:
    """What every command shares: where the repository is, and whether to colour.

    `given` is the folder that `--root` names, `started` the one that was current before `-C` was
    followed.
    """

    def __init__(self, root: Path | None, color: str, started: Path):
        self.started = started
        self.given = root
        self._color = color

    @property
    def root(self) -> Path:
        from trainwright.files.tree import find_root, without_link

        return without_link(self.given.absolute()) if self.given else find_root(Path.cwd())

    @property
    def color(self) -> bool:
        if self._color == "auto":
            return sys.stdout.isatty() and "NO_COLOR" not in os.environ
        return self._color == "always"

    def paint(self, text: str, color: str) -> str:
        """Text in a colour, where colours are wanted."""
        return click.style(text, fg=color) if self.color else text

    def differing(self, line: str) -> str:
        """A line of a unified diff, in its colour."""
        colors = {"+": "green", "-": "red", "@": "cyan"}
        return self.paint(line, colors[line[0]]) if line[0] in colors else line

    def difference(self, path: str, before: bytes, after: bytes) -> Iterator[str]:
        """The lines of a unified diff of a file, in their colours and without credentials."""
        from trainwright.findings.redaction import text_diff

        old = before.decode() if before else None
        lines = text_diff(old, after.decode(), old=f"a/{path}", new=f"b/{path}")
        return map(self.differing, lines)

    @property
    def repository(self) -> Repository:
        """The repository as the Python API has it."""
        from trainwright.api import Repository

        return Repository(self.root, today=today())

    @contextmanager
    def progress(self, doing: str, output: str = "text") -> Iterator[None]:
        """Show how far a piece of work is that takes longer than a second, to who watches it.

        Nothing may be printed meanwhile.
        """
        from trainwright.cli import progress

        with progress.shown(doing) if output != "json" and progress.is_wanted() else nullcontext():
            yield

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock of the repository: no other verb that takes it writes meanwhile."""
        from trainwright.datatypes.errors import SelectionError
        from trainwright.datatypes.layout import ENVIRONMENTS, NO_ENVIRONMENT
        from trainwright.files import filetree

        if not (self.root / ENVIRONMENTS).is_dir():
            raise SelectionError(NO_ENVIRONMENT)

        def waiting() -> None:
            click.echo(f"waiting for another trainwright that changes {self.root}", err=True)

        with filetree.held(self.root, waiting):
            yield


def today() -> str:
    """The date by which waivers expire, as ISO writes it."""
    written = os.environ.get(TODAY)
    if not written:
        return datetime.now(UTC).date().isoformat()
    try:
        return date.fromisoformat(written).isoformat()
    except ValueError as error:
        message = f'{TODAY} is "{written}", expected a date such as 2026-06-01'
        raise TrainwrightError(message) from error


def build_options(helm: str | None, no_cache: bool) -> BuildOptions:
    from trainwright.render.build import BuildOptions

    return BuildOptions(today=today(), helm=helm, use_cache=not no_cache)


def report(context: Context, build: Build, output: str, selections: tuple[str, ...]) -> str:
    from trainwright import reports

    command = " ".join(("trainwright", "check", *selections))
    checked = tuple(str(job) for job in build.jobs)
    return reports.write(
        build.findings, build.sources, output, checked=checked, command=command, color=context.color
    )


def at_least(findings: Iterable[Finding], severity: str) -> bool:
    """Whether a finding is of this severity or a higher one."""
    failing = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return any(finding.severity.value in failing for finding in findings)


def chosen_by(
    available: Mapping[str, tuple[JobFile, ...]], selections: tuple[str, ...]
) -> Callable[[str], bool] | None:
    """Whether a job or an environment, by its name, is among the selected."""
    if not selections:
        return None
    from trainwright.specs.select import select

    selected = select(selections, available)
    names = {str(job) for selection in selected for job in selection.jobs}
    names |= {selection.environment for selection in selected if selection.whole}
    return names.__contains__
