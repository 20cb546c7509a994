"""The typed, frozen values that a report of a repository is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from trainwright.cluster.status import RunStatus, Unread
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.datatypes.layout import JobFile
from trainwright.overview.goodput import RunGoodput
from trainwright.overview.history import Event
from trainwright.plan.model import LeftRun, removed
from trainwright.runs.workspace import JobRun
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import NOTHING, Demand, total
from trainwright.specs.ledger import LedgerEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOverview:
    """A job, its present run, what that requests, and its finished runs.

    `job` is None if its spec has errors; `demand` is NOTHING if nothing is active. `left` are runs
    that git has no more and that no engine deletes: they count as active.
    """

    file: JobFile
    run: JobRun
    job: Job | None
    demand: Demand = NOTHING
    finished: tuple[LedgerEntry, ...] = ()
    goodput: tuple[RunGoodput, ...] = ()  # of its runs, the present one first
    live: RunStatus | None = None
    left: tuple[LeftRun, ...] = ()
    stale: bool = False  # whether its rendered files are not those of its sources

    @property
    def held(self) -> Demand:
        """What its runs request: the present one, and those that git has no more."""
        return total((self.demand, *(run.demand for run in self.left)))

    @property
    def status(self) -> str:
        """Its state for people, whatever git has of what goes on."""
        goes_on = any(run.object == self.run.object for run in self.left)
        return f"{self.run.status}, may still run" if goes_on else self.run.status


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentOverview:
    """An environment with its jobs, and whether everything active fits its limited capacity.

    `gone` are jobs that git has no more, of which runs go on.
    """

    name: str
    jobs: tuple[JobOverview, ...]
    active: Demand
    fits: tuple[CapacityCheck, ...]
    gone: tuple[JobOverview, ...] = ()
    currency: str = "USD"
    budget_owner: str = ""
    removed: bool = False

    @property
    def rows(self) -> tuple[JobOverview, ...]:
        return (*self.jobs, *self.gone)

    @property
    def left(self) -> tuple[LeftRun, ...]:
        return tuple(run for job in self.rows for run in job.left)

    @property
    def title(self) -> str:
        return removed(self.name) if self.removed else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A repository; `events` are the newest first.

    `left` are runs in clusters that git has no more. `unassigned` are reports of runs that no job
    here has had, or jobs of several environments. `unread` are namespaces whose runs were to
    be read from their cluster, and could not be. `commit` is that of the repository, and `written`
    when this was collected, for people.
    """

    environments: tuple[EnvironmentOverview, ...]
    events: tuple[Event, ...]
    findings: tuple[Finding, ...]
    sources: Mapping[str, tuple[str, ...]] = field(repr=False)
    unassigned: tuple[RunGoodput, ...] = ()
    left: tuple[RunStatus, ...] = ()
    unread: tuple[Unread, ...] = ()
    commit: str = ""
    written: str = ""

    @property
    def jobs(self) -> tuple[JobOverview, ...]:
        return tuple(job for environment in self.environments for job in environment.jobs)
