"""Turning answers into the files of a repository, and writing these to disk."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from string import Template

from trainwright import __version__
from trainwright.datatypes.errors import OutputError, TrainwrightError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import environment_path
from trainwright.datatypes.listing import listed
from trainwright.documents.validation import schema
from trainwright.documents.yamlio import Document, parse
from trainwright.kinds import NAMED

FILES = Path(__file__).parent / "files"
ENGINES: dict[str, str] = {
    "argocd": "Argo CD applies what was rendered.",
    "flux": "Flux applies what was rendered.",
    "none": "Apply what was rendered: `kubectl apply -k environments/<env>/rendered`.",
}
SOURCE = "trainwright/trainwright"
_RESTRICTED = "podSecurity: restricted"
_IMAGE = "ghcr.io/trainwright/runtime"
_ENVIRONMENT = "ENVIRONMENT"  # in a path: the file exists for each environment
_EXAMPLE = f"environments/{_ENVIRONMENT}/jobs/"  # only for the first
_TRIAL = frozenset({"dev", "development", "test", "sandbox", "playground"})
_ENVIRONMENT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")
_ACTION = re.compile(r"[\w.-]+/[\w.-]+@[\w./-]+")
# git@host:owner/name, as people clone it: https://git-scm.com/docs/git-clone#_git_urls
_SCP = re.compile(r"(?P<user>[\w.-]+)@(?P<host>[\w.-]+):(?P<path>[^/].*)")


class InitError(TrainwrightError):
    """There cannot be such a repository, or not there."""


class _Text(Template):
    """A file with `@@name` in it: `$` belongs to shells and to workflows."""

    delimiter = "@@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What a new repository depends on.

    `url` is where the engine will find it (empty: not known yet), and `branch` the one that it
    follows there; `action` is owner/name@ref of the GitHub action, best with a full commit hash as
    ref.
    """

    engine: str
    target: str
    environments: tuple[str, ...]
    url: str = ""
    branch: str = "main"
    kubernetes: str = "1.34"
    action: str = f"{SOURCE}@v{__version__}"


def files(answers: Answers) -> dict[str, str]:
    """Return the text of every file that people would otherwise write, by path."""
    _refuse(answers)
    texts = {}
    for path in sorted(FILES.rglob("*")):
        if path.is_file():
            text = _Text(path.read_text(encoding="utf-8"))
            for place, values in _places(path.relative_to(FILES).as_posix(), answers):
                texts[place] = text.substitute(values)
    for name in answers.environments[1:]:  # which have no example, and git keeps no empty folder
        texts[f"environments/{name}/jobs/.gitkeep"] = ""
    for name in answers.environments:
        _refuse_invalid(texts[environment_path(name)])
    return texts


def _refuse_invalid(environment: str) -> None:
    """Raise InitError if an answer makes environment.yaml invalid."""
    document = parse("environment.yaml", environment.encode())
    if not isinstance(document, Document):
        raise InitError(document[0].message)
    for violation in schema.environment_file().explain(document.data):
        raise InitError(f"{violation.message}. {violation.remedy}")


def _places(path: str, answers: Answers) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield where a file of the template goes, with the values of its placeholders there."""
    each = answers.environments if _ENVIRONMENT in path else answers.environments[:1]
    for name in each[:1] if path.startswith(_EXAMPLE) else each:
        yield path.replace(_ENVIRONMENT, name), _values(answers, name)


def _values(answers: Answers, environment: str) -> dict[str, str]:
    repository, _, revision = answers.action.partition("@")
    url = answers.url or "https://git.example.com/ml/training.git"
    return {
        "branch": answers.branch,
        "deadline": _deadline(answers, environment),
        "action": answers.action,
        "applied": ENGINES[answers.engine],
        "engine": answers.engine,
        "environment": environment,
        "image": _IMAGE,
        "kubernetes": answers.kubernetes,
        "last": answers.environments[-1],
        "repository": f"{'' if answers.url else '# '}repository: {{{_followed(url, answers)}}}",
        "revision": revision,
        "security": _security(answers.target),
        "source": repository,
        "tag": __version__,
        "target": answers.target,
        "targets": f"{{{answers.target}: {_options(answers.target)}}}",
    }


def _followed(url: str, answers: Answers) -> str:
    """Return where the engine looks; the branch only if it is not the schema's default."""
    branch = "" if answers.branch == "main" else f", revision: {json.dumps(answers.branch)}"
    return f"url: {json.dumps(url)}{branch}"


def _deadline(answers: Answers, environment: str) -> str:
    """Return when a run is ended: soon where jobs are tried, and late where they train."""
    trial = environment in _TRIAL
    duration = "1h" if trial else "7d"
    mark = "# " if _off_cluster(answers.target) else ""
    message = (
        "jobs are only tried here" if trial else "ends a run that hangs; jobs may set their own"
    )
    return f"{mark}maxDuration: {duration} # {message}"


def _security(target: str) -> str:
    """Return the strictest level at which jobs of several nodes run without further settings."""
    needs = NAMED[target].target.restricted_needs
    return f"# restricted needs {needs}.\npodSecurity: baseline" if needs else _RESTRICTED


def _options(target: str) -> str:
    """Return a target's YAML in environment.yaml: its operator's version if it has one, or {}."""
    environment_schema = json.loads(
        (schema.FOLDER / "environment.schema.json").read_text(encoding="utf-8")
    )
    of_target = environment_schema["properties"]["targets"]["properties"][target]
    version = of_target["properties"].get("version")
    return f'{{version: "{version["examples"][0]}"}}' if version else "{}"


def _off_cluster(target: str) -> bool:
    """Whether a target renders no Kubernetes objects, so that nothing ends a run after a time."""
    return not NAMED[target].is_served


def _refuse(answers: Answers) -> None:
    for name in answers.environments:
        if not _ENVIRONMENT_NAME.fullmatch(name) or name == "base":
            raise InitError(
                f'"{name}" is not a valid name for an environment: use lower-case letters, '
                "digits and dashes, and not base, which holds what they share"
            )
    if len(set(answers.environments)) != len(answers.environments):
        raise InitError("an environment is named twice")
    if not _ACTION.fullmatch(answers.action):
        raise InitError(f'"{answers.action}" is not an action: write owner/name@ref')
    if _off_cluster(answers.target) and answers.engine != "none":
        raise InitError(f"no GitOps engine applies {answers.target}: choose the engine none")


def address(remote: str) -> str:
    """Return a remote of git as environment.yaml spells it, without credentials."""
    scp = _SCP.fullmatch(remote)
    if scp:
        return f"ssh://{scp['user']}@{scp['host']}/{scp['path']}"
    if remote.startswith(("https://", "ssh://")):
        scheme, _, rest = remote.partition("://")
        login, at, place = rest.rpartition("@")
        # A user without a password is part of an SSH address, and a token of any other.
        return f"{scheme}://{login}{at}{place}" if scheme == "ssh" else f"{scheme}://{place}"
    return ""


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write new files below a folder. Raise InitError, before any is written, if one exists already
    or lies below a symbolic link.
    """
    for parent in sorted({parent for path in texts for parent in PurePosixPath(path).parents}):
        if parent != PurePosixPath() and (folder / parent).is_symlink():
            raise InitError(f"{folder / parent} is a symbolic link, which could lead elsewhere")
    there = [path for path in sorted(texts) if os.path.lexists(folder / path)]
    if there:
        raise InitError(
            f"{listed(there)} in {folder} would be overwritten: `init` makes a new repository. "
            "To add an environment to one, copy the environment.yaml of another to "
            "environments/NAME, and edit it"
        )
    try:
        for path, text in sorted(texts.items()):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            with (folder / path).open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as error:
        raise OutputError(f"cannot write {error.filename}: {error.strerror}") from error
