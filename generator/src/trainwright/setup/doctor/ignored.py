"""Files that have to be in git but are ignored, and the lines by which they no longer would be."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path, PurePosixPath

from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import DEFAULTS, ENVIRONMENT_FILE, ENVIRONMENTS, OBJECTS, RENDERED
from trainwright.datatypes.listing import listed, plural
from trainwright.files import git
from trainwright.runs.kustomization import KUSTOMIZATION_FILE
from trainwright.runs.record import RECORD_FILE
from trainwright.setup.doctor.diagnosis import Diagnosis, error, warning
from trainwright.specs.image_lock import LOCK
from trainwright.specs.ledger import LEDGER_FILE

# The files of environments, as patterns that also work in a .gitignore. Folders from which specs
# take files are not among them: git may ignore some files there.
_RENDERED = f"*/{RENDERED}/"
_OF_A_RUN = f"{_RENDERED}*/"
_RECORDS = f"{_OF_A_RUN}{RECORD_FILE}"
_INDEX = f"{_RENDERED}{KUSTOMIZATION_FILE}"
_LEDGERS = f"*/{LEDGER_FILE}"
_WRITTEN = (
    f"*/{ENVIRONMENT_FILE}",
    "*/jobs/*.yaml",
    f"*/{OBJECTS}/*.yaml",
    _LEDGERS,
    _INDEX,
    _RECORDS,
    f"{_RENDERED}**/*.yaml",
)
# Of every environment, there already or not: a pattern is found before the first run is lost to it.
_TO_COME = {
    LEDGER_FILE: _LEDGERS,
    f"{RENDERED}/{KUSTOMIZATION_FILE}": _INDEX,
    f"{RENDERED}/<job>/{RECORD_FILE}": _RECORDS,
}
_NOTHING_IGNORED = 1  # https://git-scm.com/docs/git-check-ignore#_exit_status


@dataclass(frozen=True, slots=True, order=True)
class _Line:
    """A line that makes git ignore files: in a .gitignore, .git/info/exclude or the user's own."""

    file: Path
    number: int
    pattern: str


def diagnoses(root: Path, repository: git.Repository) -> Iterator[Diagnosis]:
    """Yield a diagnosis for each line by which git ignores a file that has to be in git."""
    needed = _needed(root)
    inside = root.resolve().relative_to(repository.folder.resolve())
    lines, refused = _asked(repository, [(inside / path).as_posix() for path in needed])
    hidden: dict[_Line, list[str]] = {}
    for path in needed:
        if line := lines.get((inside / path).as_posix()):
            hidden.setdefault(line, []).append(path)
    for line, paths in hidden.items():
        around = {folder for path in paths for folder in _around(inside / path) if folder in lines}
        folders = {_of_folder(folder, inside) for folder in around}
        patterns = [*sorted(folders, key=len), *sorted({needed[path] for path in paths})]
        yield error(
            f"git ignores {listed(paths, 1)} by the pattern {line.pattern}",
            "Nothing is applied without rendered files; without records and ledgers it is not "
            "known what has run, which trains again.",
            _remedy(line, patterns, repository.folder, root / ENVIRONMENTS),
            Location(_within(root, line.file), line.number),
            about="ignored",
        )
    if refused:
        first, reason = next(iter(refused.items()))
        others = f" and in {plural(len(refused) - 1, 'other folder')}" if len(refused) > 1 else ""
        yield warning(
            f"git cannot tell whether it ignores what is in {first}{others}: {reason}",
            "What git does not hold is not applied.",
            "Make it a folder of this repository.",
            about="ignored",
        )


def _needed(root: Path) -> dict[str, str]:
    """Return the files of environments that have to be in git, by path from the root, each with its
    pattern from `_WRITTEN` or `_TO_COME`.
    """
    top = root / ENVIRONMENTS
    needed = {DEFAULTS: PurePosixPath(DEFAULTS).name, LOCK: PurePosixPath(LOCK).name}
    for pattern in _WRITTEN:
        for path in top.glob(pattern):
            if path.is_file():
                needed.setdefault(path.relative_to(root).as_posix(), pattern)
    for environment in top.glob(f"*/{ENVIRONMENT_FILE}"):
        for name, pattern in _TO_COME.items():
            needed.setdefault((environment.parent / name).relative_to(root).as_posix(), pattern)
    return dict(sorted(needed.items()))


def _asked(
    repository: git.Repository, paths: Collection[str]
) -> tuple[Mapping[str, _Line], Mapping[str, str]]:
    """Return the lines by which git ignores these files or the folders around them, by path, and by
    folder why git could not tell.
    """
    around = (folder for path in paths for folder in _around(PurePosixPath(path)))
    every = sorted({*paths, *around}, key=lambda path: (_folder(path), path))
    try:
        return _lines(repository, every), {}
    except git.GitError:
        lines: dict[str, _Line] = {}
        refused: dict[str, str] = {}
        for folder, among in groupby(every, _folder):  # what is below a link is refused together
            try:
                lines |= _lines(repository, among)
            except git.GitError as error:
                refused[folder] = str(error)
        return lines, refused


def _around(path: Path | PurePosixPath) -> list[str]:
    """Return the folders around a file, each with a slash at its end, so that git takes one that
    does not exist for a folder.
    """
    return [f"{folder.as_posix()}/" for folder in path.parents if folder.name]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _lines(repository: git.Repository, paths: Iterable[str]) -> dict[str, _Line]:
    given = "\0".join(paths).encode("utf-8", "surrogateescape")
    command = ("check-ignore", "--no-index", "--verbose", "--stdin", "-z")
    try:
        answer = repository.git(*command, given=given)
    except git.GitError as error:
        if error.status != _NOTHING_IGNORED:
            raise
        return {}
    fields = os.fsdecode(answer).split("\0")
    return {
        path: _Line(repository.folder / source, int(number), pattern)
        for source, number, pattern, path in zip(*(fields[n:-1:4] for n in range(4)), strict=True)
        if not pattern.startswith("!")
    }


def _of_folder(folder: str, inside: Path) -> str:
    """Return the pattern of a folder of rendered files, or "" for one that has other files too."""
    path = PurePosixPath(folder)
    at = inside / ENVIRONMENTS
    below = path.relative_to(at).parts[1:] if path.is_relative_to(at) else ()
    return f"{_RENDERED}{'*/' * (len(below) - 1)}" if below[:1] == (RENDERED,) else ""


def _remedy(line: _Line, patterns: list[str], top: Path, environments: Path) -> str:
    """Return the advice: remove the line, or add patterns that undo it at the end of the same file,
    or else of the .gitignore at the top of the repository. (A file further down has the last word.)
    """
    own = line.file.name == ".gitignore" and line.file.resolve().is_relative_to(top.resolve())
    file = line.file if own else top / ".gitignore"
    at, around = environments.resolve(), file.parent.resolve()
    if "" in patterns or not at.is_relative_to(around):
        why = ": git reads nothing in a folder that it ignores" if "" in patterns else ""
        return f"Remove line {line.number} of {line.file}{why}."
    inside = re.sub(r"([\\*?\[])", r"\\\1", at.relative_to(around).as_posix())
    lines = " and ".join(f"`!/{inside}/{pattern}`" for pattern in patterns)
    return f"Remove the pattern, or end {file} with {lines}."


def _within(root: Path, file: Path) -> str:
    """Return the path of a file below the root, or its whole path if it is elsewhere."""
    try:
        return file.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return str(file)
