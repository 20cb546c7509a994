"""Automatic fixes of a repository's findings, applied one after the other, in memory only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from trainwright.authoring.remedies import Action, remedies
from trainwright.datatypes.finding import Finding, Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.findings.diagnostics import SYNTAX

if TYPE_CHECKING:
    from trainwright.authoring.session import Session

_MOST = 10_000  # remedies of one call


@dataclass(frozen=True, slots=True)
class Fixes:
    """New contents of files by path, their contents before, and the findings that are fixed."""

    files: Mapping[str, bytes]
    before: Mapping[str, bytes]
    findings: tuple[Finding, ...]


def fix(session: Session, today: str, chosen: Callable[[str], bool] | None = None) -> Fixes:
    """Apply every remedy that is beyond doubt, for the jobs and environments that are chosen.

    One that does not take its finding away, or brings an error, is undone.
    """
    before: dict[str, bytes] = {}
    gone: list[Finding] = []
    tried: set[tuple[str, str, str]] = set()
    findings = _checked(session, today)
    for _ in range(_MOST):
        action = next(_untried(session, findings, chosen, tried), None)
        if action is None or action.finding is None:
            break
        tried.add(_key(action.finding))
        old = {path: session.raw(path) for path in action.files}
        if not all(map(_is_text, old.values())):
            continue
        _put(session, action.files)
        now = _checked(session, today)
        if _is_better(session, action.finding, old, findings, now):
            gone.append(action.finding)
            before = {**old, **before}
            findings = now
        else:
            _put(session, old)
            findings = _checked(session, today)
    files = {path: session.raw(path) for path in before}
    return Fixes(files, before, tuple(gone))


def _untried(
    session: Session,
    findings: tuple[Finding, ...],
    chosen: Callable[[str], bool] | None,
    tried: set[tuple[str, str, str]],
) -> Iterator[Action]:
    for finding in findings:
        if _key(finding) not in tried and (chosen is None or chosen(finding.subject)):
            yield from (action for action in remedies(session, finding) if action.preferred)


def _key(finding: Finding) -> tuple[str, str, str]:
    """Return what a finding keeps after lines above it came or went."""
    return finding.rule, finding.place.file, f"{finding.path} {finding.message}"


def _put(session: Session, files: Mapping[str, bytes]) -> None:
    for path, raw in files.items():
        session.put(path, raw.decode())


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _checked(session: Session, today: str) -> tuple[Finding, ...]:
    while not session.is_checked:
        session.check_next()
    session.refresh(today)
    return tuple(session.check.everything())


def _is_better(
    session: Session,
    finding: Finding,
    old: Mapping[str, bytes],
    earlier: tuple[Finding, ...],
    now: tuple[Finding, ...],
) -> bool:
    """Whether a finding is gone, and there is no new error where the remedy wrote.

    Errors elsewhere were there already: what cannot be understood is looked at no further. Nor is
    any of a file that cannot be read, so that a line which can be may have another mistake.
    """
    unread = finding.rule == SYNTAX.id
    present = {_key(other) for other in earlier}
    written = {(path, line) for path, raw in old.items() for line in _changed(session, path, raw)}
    return not any(
        _key(other) == _key(finding)
        or (
            other.severity is Severity.ERROR
            and (not unread or other.rule == finding.rule)
            and _key(other) not in present
            and (other.place.file, other.place.line) in written
        )
        for other in now
    )


def _changed(session: Session, path: str, old: bytes) -> Iterator[int]:
    """Yield the numbers of the lines that a file has otherwise than before, from 1.

    One that is only indented otherwise says what it said.
    """
    texts = (old.decode(), session.raw(path).decode())
    before, after = ([line.strip() for line in text.splitlines()] for text in texts)
    for tag, _, _, start, stop in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from range(start + 1, stop + 1)
