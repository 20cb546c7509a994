"""`init`: a new GitOps repository that passes its own checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainwright.cli.common import OUTPUT_FOLDER, build_options, examples
from trainwright.cli.suggestions import Choice, Command, meant
from trainwright.datatypes.layout import WIRING

if TYPE_CHECKING:
    from trainwright.files.git import Repository
    from trainwright.setup.init.repository import Answers

ENGINES = ("argocd", "flux", "none")


class _Target(click.types.StringParamType):
    """A target by its name. Kinds are imported once one is given: `--help` needs none."""

    name = "target"

    def convert(
        self, value: str, param: click.Parameter | None, context: click.Context | None
    ) -> str:
        names = _targets()
        if value not in names:
            from trainwright.kinds import TARGETS

            if value in TARGETS:
                there = f"init has no example for {value}; take one of {', '.join(names)}"
                self.fail(f"{there}, and set `targets` in environment.yaml", param, context)
            suggestion = meant(value, names)
            self.fail(f'"{value}" is none of {", ".join(names)}.{suggestion}', param, context)
        return value

    def get_missing_message(self, *_: object, **__: object) -> str:
        return f"Choose from {', '.join(_targets())}"


def _targets() -> tuple[str, ...]:
    """Return the targets that have the example, which torchrun starts."""
    from trainwright.kinds import TARGETS

    return tuple(name for name, target in TARGETS.items() if not target.launchers)


@click.command(
    cls=Command, epilog=examples("init training --engine argocd --target trainjob --env prod")
)
@click.argument("folder", type=OUTPUT_FOLDER, default=Path())
@click.option("--engine", type=Choice(ENGINES), required=True, help="Who applies what is rendered.")
@click.option(
    "--target",
    type=_Target(),
    required=True,
    help="What jobs become, see `list targets`: trainjob where nothing is installed yet.",
)
@click.option(
    "--env",
    "environments",
    metavar="ENV",
    multiple=True,
    default=("dev",),
    show_default=True,
    help="An environment; several may be named, the first gets an example.",
)
@click.option(
    "--repository",
    metavar="URL",
    help="Where the engine will find the repository. By default the remote origin.",
)
@click.option(
    "--kubernetes-version",
    metavar="VERSION",
    default="1.34",
    show_default=True,
    help="The version of Kubernetes that the clusters run.",
)
@click.option(
    "--action",
    metavar="OWNER/NAME@REF",
    help="The GitHub action that workflows use. By default that of this version.",
)
def init(
    folder: Path,
    *,
    engine: str,
    target: str,
    environments: tuple[str, ...],
    repository: str | None,
    kubernetes_version: str,
    action: str | None,
) -> None:
    """Make a GitOps repository in FOLDER: environments, an example, workflows, rendered files.

    Nothing that is there is overwritten. No network, and no commit: that is yours.
    """
    from trainwright.setup.init.repository import Answers, address, files, write

    answers = Answers(
        engine=engine,
        target=target,
        environments=environments,
        url=_origin(folder) if repository is None else address(repository) or repository,
        branch=_branch(folder),
        kubernetes=kubernetes_version,
        **({"action": action} if action else {}),
    )
    texts = files(answers)
    write(folder, texts)
    written = [*texts, *_render(folder), *_wire(folder, answers)]
    _say(folder, written, answers)


def _origin(folder: Path) -> str:
    """The address of the remote origin of the repository that the folder is, if it is one."""
    from trainwright.files import git
    from trainwright.setup.init.repository import address

    try:
        return address(git.at(folder).line("remote", "get-url", "origin"))
    except git.GitError:
        return ""


def _branch(folder: Path) -> str:
    """What the engine will follow: the branch into which others are merged, else git's default.

    A folder that is in no repository yet gets the branch that `git init` will make in it.
    """
    from trainwright.files import git

    repository = git.at(_nearest(folder))
    if merged_into := _merged_into(repository):
        return merged_into
    for command in (
        ("var", "GIT_DEFAULT_BRANCH"),
        ("config", "--get", "init.defaultBranch"),  # before git 2.35, which has no such variable
    ):
        with suppress(git.GitError):
            return repository.line(*command)
    return "master"


def _merged_into(repository: Repository) -> str:
    """Return the default branch of the remote; where the clone does not know it, main or master,
    else the only branch of the remote, or the current one; "" where there is none.
    """
    from trainwright.files import git

    def line(*command: str) -> str:
        with suppress(git.GitError):
            return repository.line(*command)
        return ""

    if default := line("symbolic-ref", "--quiet", f"{_REMOTE}HEAD"):
        return default.removeprefix(_REMOTE)
    references = line("for-each-ref", "--format=%(refname)", _LOCAL, _REMOTE).splitlines()
    remote = [name.removeprefix(_REMOTE) for name in references if name.startswith(_REMOTE)]
    current = line("symbolic-ref", "--quiet", "HEAD").removeprefix(_LOCAL)
    there = remote or [current, *(name.removeprefix(_LOCAL) for name in references)]
    usual = [name for name in (current, *_USUAL) if name in _USUAL and name in there]
    only = remote if len(remote) == 1 else []
    return next(iter((*usual, *only, current)))


_LOCAL, _REMOTE = "refs/heads/", "refs/remotes/origin/"
_USUAL = ("main", "master")


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())


def _render(folder: Path) -> Iterator[str]:
    from trainwright.files import filetree
    from trainwright.render import written
    from trainwright.render.build import build

    made = build(folder.absolute(), (), build_options(helm=None, no_cache=True))
    for environment in made.environments:
        assert environment.changes is not None, made.findings  # the answers were checked
        filetree.apply(folder / environment.folder, environment.changes)
        written.note(folder, environment.name, environment.changes)
        yield from (f"{environment.folder}/{path}" for path in environment.changes.added)


def _wire(folder: Path, answers: Answers) -> Iterator[str]:
    from trainwright.files import filetree
    from trainwright.files.tree import Folder
    from trainwright.gitops.wiring import survey, writing
    from trainwright.runs.workspace import Workspace

    if answers.engine == "none" or not answers.url:
        return
    surveyed = survey.load_sites(Workspace(Folder(folder.absolute())))
    changes = writing.changes(folder / WIRING, surveyed)
    filetree.apply(folder / WIRING, changes)
    yield from (f"{WIRING}/{path}" for path in changes.added)


def _in_repository(folder: Path) -> bool:
    from trainwright.files import git

    try:
        git.find(folder.absolute())
    except git.GitError:
        return False
    return True


def _say(folder: Path, written: Iterable[str], answers: Answers) -> None:
    for path in sorted(written):
        click.echo(folder / path)
    at = "" if folder == Path() else f"cd {folder} && "
    begin = "" if _in_repository(folder) else f"git init -b {answers.branch} && "
    click.echo(
        f"\nNext: {at}{begin}git add --all && git commit, and `trainwright doctor`.", err=True
    )
    if answers.engine != "none" and not answers.url:
        click.echo(
            "Then set in environment.yaml where the engine finds the repository, and run "
            f"`trainwright gitops wire --out {WIRING}`.",
            err=True,
        )
    if answers.engine != "none":
        click.echo(f"A push starts runs, once {WIRING}/ is applied to the cluster.", err=True)
