"""`retire`: a finished run leaves the rendered tree and enters the ledger."""

from __future__ import annotations

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.frozen import dataclass
from trainwright.documents import editing
from trainwright.findings import credentials
from trainwright.lifecycle import removal, unrendered
from trainwright.lifecycle.subject import Step, Subject
from trainwright.runs import meaning
from trainwright.specs import ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended. The day is given by hand: a clock would make the same edit differ."""

    outcome: str
    reason: str = ""
    note: str = ""
    finished: str = ""


def retire(subject: Subject, ending: Ending) -> Step:
    """Write the job's present run into its environment's ledger."""
    for text in (ending.reason, ending.note):
        if credentials.redact(text) != text:
            raise TrainwrightError("the reason or the note holds what looks like a credential")
    if refused := unrendered.edit(subject):
        return refused
    name, path = subject.object, ledger.path(subject.file.environment)
    if entered := subject.ledger.runs.get(name):
        if entered.outcome != ledger.UNKNOWN or ending.outcome == ledger.UNKNOWN:
            return Step(message=f"is retired already: {_ended(name, entered.outcome)}")
        raw = editing.put(path, subject.tree.read(path), f"/runs/{name}/outcome", ending.outcome)
        return Step(message=f"retired: {name} {ending.outcome}", files={path: raw})
    if subject.state == "cancelled":
        return Step(message="is cancelled: it did not finish, and is not rendered", refused=True)
    if refused := unrendered.no_run(subject):
        return refused
    run, own = _identity(subject)
    entry: dict[str, Data] = {
        "job": subject.file.name,
        "run": run,
        "own": own,
        "outcome": ending.outcome,
        "finished": ending.finished,
        "reason": ending.reason,
        "note": ending.note,
        "adopted": subject.is_adopted,
    }
    existing = subject.tree.read(path) if subject.tree.kind(path) else b""
    raw = ledger.with_run(existing, subject.file.environment, name, entry)
    done = f"retired: {_ended(name, ending.outcome)}"
    return Step(message=done, files={path: raw}, notes=removal.note(subject))


def _ended(name: str, outcome: str) -> str:
    if outcome == ledger.UNKNOWN:
        return f"{name}, outcome unknown: `--outcome` writes whether it succeeded or failed"
    return f"{name} {outcome}"


def _identity(subject: Subject) -> tuple[int, str]:
    """Return the number of the run and the digest of what the job's own file has for it: as they
    are recorded, since the file may mean the same in other words by now.
    """
    record = subject.record
    if record is None:
        return subject.sources.job.run, subject.sources.digest
    return record.run, meaning.digest(record.job, record.run)
