"""What happened to runs, according to the commits that changed their records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from posixpath import join

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ENVIRONMENTS, RENDERED, JobFile
from trainwright.files import git
from trainwright.files.git import GitError
from trainwright.runs.record import RECORD_FILE

_COMMITS = 1000  # the newest that changed a record
_VALUE = re.compile(r'([+-])  "(object|state)": "([^"]*)"')
_FILE = re.compile(rf"{ENVIRONMENTS}/([^/]+)/{RENDERED}/([^/]+)/{RECORD_FILE}")
_WHAT = {"cancelled": "cancelled", "suspended": "suspended", "active": "resumed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that a commit did to one run: began, suspended, resumed, cancelled, ..."""

    commit: str
    when: str  # ISO 8601, with the committer's offset
    subject: str
    file: JobFile
    object: str
    what: str


def events(root: Path) -> tuple[Event, ...]:
    """Return all events, newest first; none outside of git or if runs are on another branch.

    Only first parents are followed: what counts is when a change reached this branch, not when it
    was written.
    """
    try:
        repository, inside = git.around(root)
    except GitError:
        return ()
    folder = join(inside, ENVIRONMENTS)
    log = b""
    with suppress(GitError):  # no commit yet
        log = repository.git(
            "log", "--first-parent", "--diff-merges=first-parent", "--patch", "--unified=0",
            "--no-renames", "--no-color", "--no-ext-diff", f"--max-count={_COMMITS}",
            "--format=%x00%H%x1f%cI%x1f%s", "HEAD", "--",
            f":(top,glob){folder}/*/{RENDERED}/*/{RECORD_FILE}",
        )  # fmt: skip
    commits = log.decode(errors="replace").split("\0")[1:]
    return tuple(event for commit in commits for event in _of_commit(commit))


@dataclass(slots=True)
class _Change:
    """The fields that a patch removes from a run's record, and those that it adds."""

    file: JobFile
    removed: dict[str, str] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)


def _of_commit(text: str) -> Iterator[Event]:
    head, _, patch = text.partition("\n")
    commit, when, subject = head.split("\x1f", 2)
    for change in _changes(patch):
        for object_, what in _what(change.removed, change.added):
            yield Event(
                commit=commit,
                when=when,
                subject=subject,
                file=change.file,
                object=object_,
                what=what,
            )


def _changes(patch: str) -> Iterator[_Change]:
    for part in patch.split("\ndiff --git "):
        named = _FILE.search(part.partition("\n")[0])
        if named is None:
            continue
        change = _Change(JobFile(*named.groups()))
        for sign, key, value in _VALUE.findall(part):
            (change.added if sign == "+" else change.removed)[key] = value
        yield change


def _what(removed: Mapping[str, str], added: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield runs and what became of them; other changes of a record yield nothing."""
    before, after = removed.get("object", ""), added.get("object", "")
    state = added.get("state", "")
    if before and before != after:
        yield before, "replaced" if after else "removed"
    if after and after != before and state not in ("cancelled", "finished"):
        yield after, "began"
    elif state in _WHAT:
        yield after or before, _WHAT[state]
