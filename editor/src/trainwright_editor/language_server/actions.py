"""Code actions: the remedy of a finding, a waiver, the verbs of a job (rerun, suspend and such).

Each is an edit of open texts, which the user sees and saves: nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date, timedelta

from trainwright.authoring.remedies import Action, job_of_finding, remedies
from trainwright.authoring.session import Session
from trainwright.authoring.text import Span, position
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.layout import job_of
from trainwright.datatypes.pointer import Pointer
from trainwright.documents import editing
from trainwright.reports.report import rule
from trainwright.rules.policy import waivable

_WAIVED_FOR = timedelta(days=90)


def actions(session: Session, path: str, span: Span, today: str) -> Iterator[Action]:
    """Everything that is offered for a part of a file."""
    for finding in session.findings(path):
        line = finding.place.line - 1
        if span.start.line <= line <= span.end.line:
            yield from remedies(session, finding)
            yield from _waiver(session, finding, today)
    yield from _verbs(session, path, span)


# --- waivers -------------------------------------------------------------------------------------


def _waiver(session: Session, finding: Finding, today: str) -> Iterator[Action]:
    """A waiver in the job's own file, whose reason a person writes."""
    file = job_of_finding(session, finding)
    if file is None or finding.rule not in waivable():
        return
    environment = session.workspace.environments.get(file.environment)
    if environment is not None and environment.requires(finding.rule):
        return
    until = (date.fromisoformat(today) + _WAIVED_FOR).isoformat()
    waiver = {"reason": f"why {rule(finding).name} is accepted", "until": until}
    with suppress(editing.EditError):
        at = Pointer.of("waivers", finding.rule)
        raw = editing.put(file.path, session.raw(file.path), at, waiver)
        title = f"Waive {finding.rule} for {file} until {until}"
        yield Action(title=title, files={file.path: raw}, finding=finding)


# --- verbs ---------------------------------------------------------------------------------------


def _verbs(session: Session, path: str, span: Span) -> Iterator[Action]:
    """Yield the edits of the verbs for the job whose name, run or state is in the span."""
    file, text = job_of(path), session.text(path)
    if not session.workspace.has(file) or file.path != path:
        return
    lines = {text.by_pointer[at].span.start.line for at in _OF_VERBS if at in text.by_pointer}
    if not any(span.start.line <= line <= span.end.line for line in lines):
        return
    from trainwright.lifecycle import rerun, states, subject  # with GitOps wiring, 0.1 s

    verbs = {
        "Rerun": rerun.rerun,
        "Suspend": states.suspend,
        "Resume": states.resume,
        "Cancel": states.cancel,
    }
    for title, verb in verbs.items():
        with suppress(TrainwrightError):
            step = verb(subject.load(session.workspace.tree, file, None))
            if step.files and not step.refused:
                yield Action(title=f"{title} {file}: {step.message}", files=step.files)


_OF_VERBS = (Pointer("/name"), Pointer("/run"), Pointer("/state"))


# --- differences ---------------------------------------------------------------------------------


def difference(old: str, new: str) -> tuple[Span, str]:
    """Return the span of `old` that differs in `new`, and the text of `new` in its place."""
    start = _alike(old, new)
    while any(_splits(text, start) for text in (old, new)):
        start -= 1
    rest = _alike(old[start:][::-1], new[start:][::-1])
    while any(_splits(text, len(text) - rest) for text in (old, new)):
        rest -= 1
    span = Span(position(old, start), position(old, len(old) - rest))
    return span, new[start : len(new) - rest]


def _splits(text: str, offset: int) -> bool:
    """Whether an offset is inside of a line end, where no position is."""
    return text[max(offset - 1, 0) : offset + 1] == "\r\n"


def _alike(first: str, second: str) -> int:
    """Return the length of the common beginning of two texts."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))
