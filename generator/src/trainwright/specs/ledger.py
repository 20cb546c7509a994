"""The finished runs of an environment, which are rendered no more."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Literal

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ENVIRONMENTS
from trainwright.documents import editing, yamlio
from trainwright.documents.validation import schema
from trainwright.documents.yamlio import Document, Unseen
from trainwright.findings import diagnostics as dx
from trainwright.findings.visibility import hidden
from trainwright.objects.naming import job_of_run
from trainwright.specs.load import Reader
from trainwright.specs.merge import Layer, stack
from trainwright.specs.violations import violations

LEDGER_FILE = "ledger.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """A finished run and the place of its entry in the ledger."""

    object: str
    job: str
    run: int = 1  # the number that `rerun` raises
    own: str  # a hash of what ran of the job's own file
    outcome: Literal["succeeded", "failed", "unknown"]
    finished: str = ""  # ISO date
    reason: str = ""  # as the cluster gave it
    note: str = ""  # written by people
    adopted: bool = False  # its object existed before its job and kept its own name
    place: Location


@dataclass(frozen=True, slots=True)
class Ledger:
    """Finished runs by the names of their objects; `unseen` are lines with invisible characters.

    An environment whose ledger has errors must not be rendered: what has finished is unknown.
    """

    runs: Mapping[str, LedgerEntry]
    findings: tuple[Finding, ...]
    objects: Mapping[tuple[str, str], str] = field(default_factory=dict)  # by job and `own`
    unseen: Unseen = ()

    def finished(self, job: str, own: str, name: str = "") -> str:
        """Return the object of a job's finished run: the one of this name, or else one that ran the
        same own file (`own` is its hash), even if its object would be called otherwise now,
        after changes around the job. "" if there is none.
        """
        return name if name in self.runs else self.objects.get((job, own), "")


EMPTY = Ledger({}, ())


def path(environment: str) -> str:
    """Where an environment's ledger is."""
    return f"{ENVIRONMENTS}/{environment}/{LEDGER_FILE}"


def read(reader: Reader, environment: str) -> Ledger:
    """Return an environment's ledger, which is empty if it has no ledger file."""
    file = path(environment)
    if not reader.tree.kind(file):
        return EMPTY
    document = reader.document(file)
    if not isinstance(document, Document):
        return Ledger({}, document)
    spec = stack((Layer("ledger", document),))
    broken = violations(schema.ledger_file(), spec, environment)
    if broken:
        return Ledger({}, broken)
    runs = {
        name: LedgerEntry(object=name, place=document.key_place(f"/runs/{name}"), **entry)
        for name, entry in spec.data.get("runs", {}).items()
    }
    objects = {(run.job, run.own): run.object for run in runs.values()}
    findings = tuple(_contradictions(runs.values(), environment))
    return Ledger(runs, findings, objects, (*document.unseen, *_escaped(runs.values(), document)))


UNKNOWN = "unknown"  # of a run that was retired without a word on how it ended

_HEAD = """\
# Finished runs, which are rendered no more. `trainwright retire` adds lines here; `trainwright
# rerun` begins another run of a job.
apiVersion: trainwright.io/v1alpha1
kind: Ledger
runs:
"""


def with_run(raw: bytes, environment: str, name: str, entry: Mapping[str, Data]) -> bytes:
    """Return a ledger's text with a run added, leaving out empty values of the entry. The text is
    empty if there is no ledger yet. Raise EditError if it cannot be edited.
    """
    written = {key: value for key, value in entry.items() if value}
    if raw:
        return editing.put(path(environment), raw, f"/runs/{name}", written)
    return f"{_HEAD}  {name}: {yamlio.inline(written)}\n".encode()


def _escaped(runs: Collection[LedgerEntry], document: Document) -> Iterator[tuple[Location, str]]:
    """Yield each reason or note with invisible characters from escapes, after its place."""
    lines = {place.line for place, _ in document.unseen}
    for run in runs:
        for field_ in ("reason", "note"):
            place = document.place(f"/runs/{run.object}/{field_}")
            if place.line not in lines and hidden(getattr(run, field_)):
                yield place, getattr(run, field_)


def _contradictions(runs: Collection[LedgerEntry], environment: str) -> Iterator[Finding]:
    for run in runs:
        named = f"{run.job}-{run.object[-8:]}"
        if not run.adopted and (run.object != named or job_of_run(named) != run.job):
            message = f"{run.object} is not a run of this job, which would be {named}"
            yield dx.LEDGER.at(run.place, message, subject=environment)


def strangers(ledger: Ledger, jobs: Collection[str], environment: str) -> Iterator[Finding]:
    """Runs of jobs that are not in the environment."""
    for run in ledger.runs.values():
        if run.job not in jobs:
            message = f"{run.object} is a run of {run.job}, which is not in {environment}"
            yield dx.LEDGER_JOB.at(run.place, message, subject=environment)
