"""The report on a repository, collected from its folder and from git's history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trainwright.cluster.status import RunStatus, Unread
from trainwright.datatypes.layout import JobFile
from trainwright.kinds.state import Phase
from trainwright.overview.goodput import RunGoodput
from trainwright.overview.history import events
from trainwright.overview.model import EnvironmentOverview, JobOverview, Overview
from trainwright.plan import left as departures
from trainwright.plan.left import Departures
from trainwright.plan.model import LeftRun
from trainwright.render.build import Build
from trainwright.reports import redacted
from trainwright.runs.decision import Step
from trainwright.runs.record import ENDED
from trainwright.runs.workspace import JobRun, RunState, Workspace
from trainwright.specs import demand
from trainwright.specs.capacity import check_capacity
from trainwright.specs.ledger import LedgerEntry


def overview(
    root: Path,
    build: Build,
    live: Sequence[RunStatus] = (),
    goodput: Sequence[RunGoodput] = (),
    unread: Sequence[Unread] = (),
    *,
    today: str,
) -> Overview:
    """Return the report on everything built, with live states and goodput where there are any."""
    departed = departures.of_branch(root, today)
    seen = {(str(status), status.object): status for status in live}
    selected = set(build.jobs)
    bare = Overview(
        environments=(
            *(
                _environment(
                    build,
                    environment.name,
                    environment.jobs,
                    seen,
                    _still_there(departed.going_on(build.workspace, environment.name), live, unread)
                    if departed
                    else (),
                )
                for environment in build.environments
            ),
            *(_removed(build, departed) if departed else ()),
        ),
        events=tuple(event for event in events(root) if event.file in selected),
        findings=tuple(map(redacted, build.findings)),
        sources=build.sources,
        left=tuple(status for status in live if status.desired.is_over),
        unread=tuple(unread),
    )
    return with_goodput(bare, goodput) if goodput else bare


def _environment(
    build: Build,
    name: str,
    files: Sequence[JobFile],
    live: Mapping[tuple[str, str], RunStatus],
    left: tuple[LeftRun, ...],
) -> EnvironmentOverview:
    workspace = build.workspace
    environment = workspace.sound(name)
    finished: defaultdict[str, list[LedgerEntry]] = defaultdict(list)
    for entry in workspace.ledger(name).runs.values():
        finished[entry.job].append(entry)
    by_job = _by_job(left)
    jobs = tuple(
        replace(_job(build, file, tuple(finished[file.name]), live), left=by_job.pop(file, ()))
        for file in files
    )
    gone = tuple(_gone(file, runs) for file, runs in by_job.items() if not workspace.has(file))
    active = [(job.job, job.demand) for job in jobs if job.job and job.demand != demand.NOTHING]
    active += [(run.job, run.demand) for job in (*jobs, *gone) for run in job.left]
    return EnvironmentOverview(
        name=name,
        jobs=jobs,
        active=demand.total(requested for _, requested in active),
        gone=gone,
        fits=tuple(check_capacity(environment, active)) if environment else (),
        currency=environment.currency if environment else "USD",
        budget_owner=environment.budget.owner if environment else "",
    )


def _removed(build: Build, departed: Departures) -> Iterator[EnvironmentOverview]:
    """Yield the environments that are gone and of which runs go on, beside all others."""
    survey = build.workspace.survey
    if {file for files in survey.jobs.values() for file in files} != {*build.jobs}:
        return
    for name in departed.removed(build.workspace):
        left, settings = tuple(departed.runs(build.workspace, name)), departed.settings(name)
        yield EnvironmentOverview(
            name=name,
            removed=True,
            jobs=(),
            active=demand.total(run.demand for run in left),
            gone=tuple(_gone(file, runs) for file, runs in _by_job(left).items()),
            fits=(),
            currency=settings.currency if settings else "USD",
        )


def _by_job(left: Iterable[LeftRun]) -> dict[JobFile, tuple[LeftRun, ...]]:
    runs: dict[JobFile, tuple[LeftRun, ...]] = {}
    for run in left:
        runs[run.file] = (*runs.get(run.file, ()), run)
    return runs


def _gone(file: JobFile, left: tuple[LeftRun, ...]) -> JobOverview:
    """Return a job that git has no more, by the newest of its runs."""
    job = left[0].job
    run = JobRun(object=left[0].object, target=job.target, state=RunState.NOT_IN_GIT)
    return JobOverview(file=file, run=run, job=job, left=left)


def _still_there(
    left: Iterable[LeftRun], live: Sequence[RunStatus], unread: Iterable[Unread]
) -> tuple[LeftRun, ...]:
    """Return the runs that have left git, without those that clusters, where read, have no more."""
    there = {it.object for it in live if not (it.state.over or it.state.phase is Phase.DELETED)}
    unknown = {it.environment for it in unread}
    return tuple(
        run for run in left if not live or run.object in there or run.file.environment in unknown
    )


def _job(
    build: Build,
    file: JobFile,
    finished: tuple[LedgerEntry, ...],
    live: Mapping[tuple[str, str], RunStatus],
) -> JobOverview:
    workspace, asking = build.workspace, build.asking(file)
    run = workspace.run(file)
    return JobOverview(
        file=file,
        run=run,
        job=asking.job or workspace.job(file).job,
        demand=asking.demand,
        finished=tuple(sorted(finished, key=lambda entry: entry.finished, reverse=True)),
        live=live.get((str(file), run.object)),
        stale=_is_stale(workspace, file),
    )


def _is_stale(workspace: Workspace, file: JobFile) -> bool:
    """Whether rendering would change the run of a job that is rendered."""
    record = workspace.record(file)
    if record is None or workspace.current_job(file) is not None:
        return False
    decision = workspace.job(file).decision
    if decision is None or decision.step is Step.END:
        return decision is not None and record.state not in ENDED
    return decision.step in (Step.BEGIN, Step.ADJUST)


def with_goodput(bare: Overview, reports: Sequence[RunGoodput]) -> Overview:
    """Return the overview with each goodput report at its job, unless several had the run."""
    runs = {job.file: {job.run.object, *(run.object for run in job.finished)} for job in bare.jobs}
    for event in bare.events:
        runs[event.file].add(event.object)
    owned: defaultdict[JobFile, list[RunGoodput]] = defaultdict(list)
    unassigned: list[RunGoodput] = []
    for run in reports:
        owners = [
            file
            for file, objects in runs.items()
            if run.object in objects and run.environment in ("", file.environment)
        ]
        (owned[owners[0]] if len(owners) == 1 else unassigned).append(run)
    environments = (
        replace(
            environment,
            jobs=tuple(
                replace(job, goodput=_present_first(job, owned[job.file]))
                for job in environment.jobs
            ),
        )
        for environment in bare.environments
    )
    return replace(bare, environments=tuple(environments), unassigned=tuple(unassigned))


def _present_first(job: JobOverview, reports: Sequence[RunGoodput]) -> tuple[RunGoodput, ...]:
    """Return a job's reports sorted by run, that of its present run first."""
    return tuple(
        sorted(reports, key=lambda report: (report.object != job.run.object, report.object))
    )


def outcomes(shown: Overview) -> Iterator[tuple[str, LedgerEntry]]:
    """Yield each finished run with the name of its environment."""
    for environment in shown.environments:
        for job in environment.jobs:
            for entry in job.finished:
                yield environment.name, entry
