"""The result of checking an environment, once each of its jobs has been checked by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import PurePosixPath

from trainwright.datatypes.environment import Budget, Environment
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.listing import plural
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.yamlio import Document
from trainwright.findings import diagnostics as dx
from trainwright.render.cache import Remembered
from trainwright.rules import deception
from trainwright.rules.policy import JobFindings, apply_policy
from trainwright.runs import collisions
from trainwright.runs import record as records
from trainwright.runs.folder import RenderedFolder
from trainwright.runs.record import Record
from trainwright.runs.workspace import Workspace
from trainwright.specs import capacity, ledger
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import Demand, total
from trainwright.specs.merge import Layer
from trainwright.specs.own_objects import NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentCheck:
    """The jobs of an environment that were checked, and the run that each of them has now.

    `unknown` are jobs that may have an unknown run. `refused` are findings about edits of live
    objects, by job ("" for one's own objects); `left` returns what the runs request that go on
    although git has them no more, `demand` what a job does once it is rendered. `whole` is whether
    all jobs of the environment were checked, `complete` whether all were selected.
    """

    name: str
    jobs: tuple[JobFile, ...]
    checked: Mapping[str, Remembered]
    runs: Mapping[str, Record]
    unknown: tuple[JobFile, ...]
    whole: bool
    refused: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    left: Callable[[], Sequence[Demand]] = tuple
    demand: Callable[[JobFile], Demand] | None = None
    complete: bool = True

    def findings(self, workspace: Workspace, today: str) -> tuple[Finding, ...]:
        """Return all findings that remain after waivers."""
        environment, entries = workspace.sound(self.name), workspace.ledger(self.name)
        if environment is None:
            return workspace.loaded(self.name).findings
        if entries.findings:
            return entries.findings
        together = tuple(collisions.find(self.name, self.runs, workspace.reader))
        own = workspace.own_objects(self.name) if self.complete else NONE
        if own != NONE:
            from trainwright.render import own_object_checks  # which needs all rules

            together += tuple(own_object_checks.findings(environment, own, self.runs))
        together += self.refused.get("", ())
        if self.complete and environment.budget != Budget():
            together += tuple(self._over_budget(workspace, environment))
        together += tuple(deception.in_lines(self._unseen(workspace), self.name))
        checked = [*self._of_jobs(), JobFindings("", together, ()), *self._unknown(workspace)]
        findings = apply_policy(environment, checked, today, whole=self.whole)
        jobs = {file.name for file in self.jobs}
        strange = ledger.strangers(entries, jobs, self.name) if self.whole else ()
        return (*findings, *strange)

    def _over_budget(self, workspace: Workspace, environment: Environment) -> Iterator[Finding]:
        """Yield a finding for each budget that the runs of the environment exceed together."""
        demand, left = self.demand or (lambda file: workspace.asking(file).demand), self.left()
        fits = capacity.check_budgets(environment, total([*map(demand, self.jobs), *left]))
        document = workspace.loaded(self.name).document
        yield from over_budget(environment, document, fits, left=len(left))

    def _unseen(self, workspace: Workspace) -> Iterator[tuple[Location, str]]:
        """Yield lines with invisible text, from files that are not checked along with a job."""
        yield from workspace.ledger(self.name).unseen
        for document in () if self.checked else _documents(workspace.loaded(self.name).layers):
            yield from document.unseen

    def _of_jobs(self) -> Iterator[JobFindings]:
        for job, outcome in sorted(self.checked.items()):
            findings = (*outcome.findings, *self.refused.get(job, ()))
            yield JobFindings(job, findings, outcome.waivers)

    def _unknown(self, workspace: Workspace) -> Iterator[JobFindings]:
        folder = workspace.folder(self.name)
        for file in self.unknown:
            finding = unknown_run(file, there=folder.is_unreadable(file.name))
            yield JobFindings(file.name, (finding,), ())


def over_budget(
    environment: Environment, document: Document | None, fits: Iterable[CapacityCheck], *, left: int
) -> Iterator[Finding]:
    """Yield a finding for each budget that is too small. `left` is how many of the counted runs git
    has no more.
    """
    for fit in fits:
        if fit.what == "budget" and fit.short and document:
            at = Pointer.of("budget", "cost" if fit.is_money else "gpuHours")
            need, has, short = (f"{amount:,.0f}" for amount in (fit.need, fit.has, fit.short))
            rest = f"; {plural(fit.unknown, 'job')} more cannot be counted" if fit.unknown else ""
            gone = f", {left} no longer in git," if left else ""
            message = (
                f"the runs of {environment.name}{gone} request {need} {fit.unit}, the budget is "
                f"{has}: {short} more than that{rest}"
            )
            place = document.key_place(at)
            yield dx.OVER_BUDGET.at(place, message, subject=environment.name, path=at)


def _documents(layers: Iterable[Layer]) -> Iterable[Document]:
    return {layer.document.file: layer.document for layer in layers}.values()


def has_unknown_run(folder: RenderedFolder, file: JobFile, begins: str) -> bool:
    """Whether a job without a known run may have one all the same.

    That is so if its record cannot be read, or if it has no record, but files of a run other than
    the one that `begins` ("" if none does).
    """
    if folder.is_unreadable(file.name):
        return True
    return bool(begins) and folder.unclaimed(file.name) not in ("", begins)


def unknown_run(file: JobFile, *, there: bool) -> Finding:
    """Return the finding about a job whose record is missing or, if `there`, unreadable."""
    path = records.path(file)
    if not there:
        message = f"{path} is missing, and no commit at hand has it"
        return dx.UNRECORDED.at(Location(file.path), message, subject=str(file))
    return dx.UNRECORDED.at(
        Location(file.path),
        f"{path} was edited, or committed with the markers of a conflict, and cannot be read",
        remedy=f"Take it from a commit in which it was whole, as from either side of a merge: `git "
        f"checkout COMMIT -- {PurePosixPath(path).parent}`. Or begin a new run with `trainwright "
        "render --new-runs` or `trainwright gitops publish --new-runs`.",
        subject=str(file),
    )
