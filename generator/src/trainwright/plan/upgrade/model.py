"""What an upgrade does: to runs, to the next run of each job, to findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from trainwright.datatypes.finding import Finding, Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.reports.report import WEIGHT

Files = Mapping[str, str]  # texts, or SHA-256 sums, by file name
Jobs = Mapping[str, Files]  # by "env/job"


@dataclass(frozen=True, slots=True)
class Release:
    """A version of the tool and of the chart that it renders with; "" if unknown."""

    tool: str
    chart: str = ""

    def __str__(self) -> str:
        return f"{self.tool} (chart {self.chart})" if self.chart else self.tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one version of the tool renders and finds in a repository.

    `runs` are SHA-256 sums of the files of existing runs after it has rendered. `next_runs` are the
    texts, values included, that it renders where there is no run yet. `refused` says per
    environment why it does not render over the existing runs. A finding has its path as `pointer`,
    as the version wrote it.
    """

    release: Release
    runs: Jobs
    next_runs: Jobs
    findings: tuple[Finding, ...]
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The existing runs, as "env/job", by what happens to them.

    `changed` would be rendered differently because of the upgrade, and `started` would be restarted
    for it, as `sharedChanges: start` asks. `pending` are rendered differently by both versions:
    their sources were edited since. `refused` says per environment why nothing could be found out.
    """

    kept: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of runs, without those of refused environments."""
        return sum(map(len, (self.kept, self.changed, self.started, self.pending)))


@dataclass(frozen=True, slots=True)
class Difference:
    """The same difference between the next runs of several jobs.

    `diff` is a unified one of the first job's manifests.
    """

    jobs: tuple[str, ...]
    diff: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FindingChange:
    """A finding that is new, gone, or of another severity, by the two severities."""

    finding: Finding
    before: Severity | None
    after: Severity | None

    @property
    def kind(self) -> str:
        if self.before is None:
            return "new"
        return "gone" if self.after is None else "changed"

    @property
    def blocks(self) -> bool:
        return self.after is Severity.ERROR

    @property
    def order(self) -> tuple[int, int, str, int, int, str]:
        place = self.finding.place
        severity = self.after or self.before or Severity.NOTE
        kind = ("new", "changed", "gone").index(self.kind)
        return (WEIGHT[severity], kind, place.file, place.line, place.column, self.finding.rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """The difference between two versions over one repository.

    `same` is the number of jobs whose next run is the same. `dropped` are the jobs that only the
    old version renders, `gained` those that only the new one renders.
    """

    before: Release
    after: Release
    runs: Runs
    same: int
    differences: tuple[Difference, ...]
    dropped: tuple[str, ...]
    gained: tuple[str, ...]
    findings: tuple[FindingChange, ...]

    @property
    def blocked(self) -> bool:
        """Whether the upgrade breaks something that works today."""
        runs = self.runs
        errors = any(change.blocks for change in self.findings)
        return bool(errors or runs.changed or runs.refused or self.dropped)
