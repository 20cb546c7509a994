"""The typed, frozen values that a plan is made of."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Literal

from trainwright.datatypes.environment import Waiver
from trainwright.datatypes.finding import Finding, Location, Severity, ValueChange
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.datatypes.layout import JobFile
from trainwright.reports.attention import Concern
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import NOTHING, Demand


class Action(enum.StrEnum):
    """What a merge does to a job; in order of risk, the largest first."""

    REJECTED = "rejected"  # the API server refuses the change, and the whole sync fails
    BROKEN = "broken"  # errors: there is nothing to render
    DELETED = "deleted"  # the object is removed although its spec does not ask for it
    LEFT = "left running"  # no longer in git, but nothing ends it in the cluster
    LEFT_SUSPENDED = "left suspended"  # the same of a suspended run
    MIXED = "mixed"  # accepted, but restarted pods will differ from their peers
    IGNORED = "ignored"  # accepted, but without effect
    MAY_BE_REFUSED = "may be refused"  # taken while it waits in its queue; else as `REJECTED`
    CANCELLED = "cancelled"
    NEW_RUN = "new run"  # a new object replaces the one before
    STARTED = "starts"
    SUSPENDED = "suspends"
    RESUMED = "resumes"
    RETIRED = "retires"
    IN_PLACE = "in place"
    ADOPTED = "adopted"  # the object that is there already, as it is
    GOES_ON = "goes on"  # as it is, as the run of a job under another name
    OUTDATED = "outdated"  # the run stays as it is; the change waits for its next one
    UNCHANGED = "unchanged"

    @property
    def risk(self) -> int:
        """0 for the largest."""
        return _RISKS[self]


_RISKS = {action: risk for risk, action in enumerate(Action)}
BLOCKED = (Action.REJECTED, Action.BROKEN)  # what stops a merge
BEGINS = frozenset({Action.STARTED, Action.NEW_RUN})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A job on one side of a merge: the object that it is rendered to, and the resources requested.

    `object` and `files` are empty for a job that leaves nothing to apply. Files that are not
    `believed` may contain anything, since no sources render them. An `adopted` object is in the
    cluster already.
    """

    object: str
    target: str
    image: str
    queue: str
    state: str
    retired: bool
    files: Mapping[str, str] = field(repr=False)  # texts by name
    demand: Demand = NOTHING
    believed: bool = True
    adopted: bool = False
    team: str = ""

    def without_files(self) -> PlannedRun:
        """Return the run of a job of which nothing is rendered."""
        return replace(self, object="", files={}, demand=NOTHING)


@dataclass(frozen=True, slots=True)
class Ending:
    """A training that a merge ends, or, where it `waits`, a person with a command."""

    object: str
    loses: bool  # whether nothing of it is kept
    waits: bool = False
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """What a merge does to one job; `before` is None for a new job, `after` for a removed one.

    It is `unrendered` if rendered files are kept beside the specs and do not have the change yet.
    `otherwise` lists the values in which a run that begins differs from its present sources: it
    was rendered in an earlier commit. `was` is the job whose run this one has, or replaces, under
    another name; it is `shared` if that one, or another, has it after the merge, too. It
    `overwrites` checkpoints if the new run saves to the folder of one that trains beside it.
    """

    file: JobFile
    action: Action
    why: str
    before: PlannedRun | None
    after: PlannedRun | None
    causes: tuple[ValueChange, ...] = ()
    left: Demand = NOTHING  # of the old run, if it goes on although no spec asks for it
    unrendered: bool = False
    otherwise: tuple[ValueChange, ...] = ()
    ending: Ending | None = None
    waivers: tuple[Waiver, ...] = ()  # of its spec, that waive a finding
    unadmitted: CapacityCheck | None = None  # of a queue whose quota is too small for the run alone
    queued: CapacityCheck | None = None  # of a queue in which other runs leave no room for it
    was: JobFile | None = None
    shared: bool = False
    overwrites: bool = False
    pending: tuple[str, ...] = ()  # claims that pods of a new run mount and the merge deletes
    back: bool = False  # to an earlier run, whose object stays in the cluster until its deletion
    counted: bool = False  # that earlier run, in what is active before the merge

    @property
    def cannot_start(self) -> bool:
        """Whether a run begins only in git: its queue never admits it, or its pods stay Pending."""
        return self.unadmitted is not None or bool(self.pending)

    @property
    def loses(self) -> bool:
        """Whether the merge ends a training run of which nothing is kept."""
        return self.ending is not None and self.ending.loses and not self.ending.waits

    @property
    def team(self) -> str:
        run = self.after or self.before
        return run.team if run else ""

    @property
    def delta(self) -> Demand:
        """The change in total demand; nothing for an adopted run, as it ran before already."""
        if self.action is Action.ADOPTED:
            return NOTHING
        before = self.before.demand if self.before else NOTHING
        after = self.after.demand if self.after else NOTHING
        return after + self.left - before

    @property
    def asked(self) -> Demand:
        """Like `delta`, but a new run requests all its hours again, whatever the old one used, and
        a finished one gives nothing back. Nor does an earlier run that goes on. A run that stays as
        it is requests nothing, whatever its pool costs or is called now, nor does one that is left
        to another job give anything back; what that makes again requests all its hours.
        """
        if self.shared and self.before and self.action is Action.DELETED:
            return self.before.demand.holding(NOTHING)
        if self.counted:
            return NOTHING.holding(self.left - (self.before.demand if self.before else NOTHING))
        left = self.action is Action.GOES_ON and self.after is None
        if left or self.action in (Action.RETIRED, Action.OUTDATED):
            return NOTHING
        if self.action is not Action.NEW_RUN or self.after is None:
            return self.delta
        return self.after.demand.holding(self.delta)

    @property
    def concern(self) -> Concern:
        """How bad it is."""
        if self.action in BLOCKED:
            return Concern.BLOCKS
        if self.ending is not None:
            return Concern.LOSES if self.loses or self.overwrites else Concern.ENDS
        if self.cannot_start:
            return Concern.EXCEEDS
        if self.shared:
            return Concern.RISKS
        return Concern.RISKS if self.action.risk < Action.CANCELLED.risk else Concern.INFORMS

    @property
    def gpus(self) -> float:
        """The GPUs of the larger of its runs."""
        return max((run.demand.gpus.high for run in (self.before, self.after) if run), default=0)


def worst_first(changes: Sequence[JobChange]) -> tuple[Concern, int, float, int, str]:
    """Return by what changes of one sort stand in a list: trainings that end by their GPUs, others
    by the action.
    """
    first, gpus = changes[0], sum(change.gpus for change in changes)
    risk = first.action.risk
    return (first.concern, 0 if first.ending else risk, -gpus, risk, str(first.file))


@dataclass(frozen=True, slots=True)
class CrdVerdict:
    """Changes, rejected where a CRD's `oldSelf` rule refuses them, and what these rules report."""

    changes: tuple[JobChange, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object of one's own that is added, changed or removed, and the line that names it.

    `until` is until when a removed one stays in the cluster; empty if a sync deletes it. `other` is
    another environment that has it: before the merge one that is changed or `moved` here, after it
    one that is removed here, which then stays. One that is `refused` is edited as the API server
    does not let it be.
    """

    environment: str
    object: str  # "ConfigMap/team"
    action: Literal["added", "changed", "moved", "removed"]
    place: Location
    grants: str = ""  # "binds Role/a to ServiceAccount/b", after the merge or else before it
    granted: str = ""  # the same before a merge that changes it
    before: str = ""  # as YAML; empty if it was not there
    after: str = ""
    until: str = ""
    effects: tuple[str, ...] = ()  # on the object itself, and on jobs
    checkpoints: str = ""  # of which jobs a claim has them that the merge deletes
    other: str = ""
    refused: bool = False
    values: tuple[ValueChange, ...] = ()  # that differ, of one that is changed
    gives: bool = False  # whether it grants what it did not grant before


@dataclass(frozen=True, slots=True)
class LeftRun:
    """A run that left git before the merge and goes on, until the `command` ends it."""

    file: JobFile
    job: Job
    object: str
    demand: Demand
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What all active jobs request of a pool, a queue or a budget, before and after a merge.

    `spent` is what runs that the merge ends may have used: added to the difference, it is what the
    merge requests.
    """

    what: str  # "pool h100", "queue team-nlp", "budget", as in a `CapacityCheck`
    before: Demand
    after: Demand
    spent: Demand = NOTHING
    fits: tuple[CapacityCheck, ...] = ()


def removed(environment: str, became: str = "removed") -> str:
    """Return what an environment is called once it is in git no more."""
    return f"{environment} ({became})"


@dataclass(frozen=True, slots=True)
class Removal:
    """What leaves git with an environment beside its jobs: the finished runs of its ledger. If
    it was `applied`, objects of an engine stay, those of the `wiring` folder if git had one.

    One that is `renamed` keeps what it has in the cluster, under that name. Where an engine applies
    that by objects under another name than before, `applied_by` are both names, and `applying` the
    former objects, none of which is in the `namespace` of the runs; Argo CD `refuses` what bears
    the mark of the first, and Flux `prunes`, as it deletes its own objects, what the others have
    not applied yet.
    """

    finished: tuple[str, ...] = ()
    applied: bool = False
    wiring: str = ""
    renamed: str = ""
    applied_by: tuple[str, ...] = ()
    applying: str = ""
    namespace: str = ""
    refuses: bool = False
    prunes: bool = False


@dataclass(frozen=True, slots=True)
class LoweredLimit:
    """A quota or a capacity that the merge makes smaller than what runs that go on request.

    Of `jobs` each one requests more than it is, if `each`, and otherwise all of them together.
    """

    fit: CapacityCheck
    jobs: tuple[JobFile, ...]
    each: bool


@dataclass(frozen=True, slots=True)
class SharedLimit:
    """A ClusterQueue, or nodes, that several environments have together, each of which fits alone.

    `fit` is what all of them request.
    """

    what: str  # "ClusterQueue a", or "nodes"
    by: tuple[tuple[str, str], ...]  # of each environment the queue or pool: ("prod", "pool h100")
    fit: CapacityCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentPlan:
    """All changes of one environment, its demand before and after, and its capacity checks.

    Of one that cannot be read after the merge, `unread` are the errors of its file, and what the
    merge makes of its jobs is not known. It is `priced` if a pool has a price, on either side.
    `admitted` runs fit the quota of their queue by the merge alone: they have waited in vain.
    """

    name: str
    jobs: int  # after the merge
    changes: tuple[JobChange, ...]  # without those that change nothing
    before: Demand
    after: Demand
    asked: Demand  # requested by the changes, and by what is `admitted` by them
    fits: tuple[CapacityCheck, ...]
    objects: tuple[ObjectChange, ...] = ()  # of one's own
    uses: tuple[Use, ...] = ()  # of what the changes make a difference to
    left: tuple[LeftRun, ...] = ()  # in all sums
    unread: tuple[Finding, ...] = ()
    admitted: tuple[tuple[JobFile, Demand], ...] = ()
    lowered: tuple[LoweredLimit, ...] = ()
    removed: bool = False  # by the merge, which is a `removal`, or before it
    removal: Removal | None = None
    currency: str = "USD"
    currency_before: str = ""  # if the merge changes it
    priced: bool = True
    namespace: str = ""  # that no environment had before, and that runs begin in
    needs: tuple[str, ...] = ()  # what these name there and nothing in git creates

    @property
    def shown_currency(self) -> str:
        """The currency of its prices, "" if no pool has one: then no cost is missing either."""
        return self.currency if self.priced else ""

    @property
    def title(self) -> str:
        became = "renamed" if self.removal and self.removal.renamed else "removed"
        return removed(self.name, became) if self.removed else self.name


@dataclass(frozen=True, slots=True)
class SharedFileImpact:
    """A changed shared file, and the jobs that read it and are affected.

    `new_runs` counts those that get a new run by it, and not by a line of their own, `held` those
    whose run stays as it is; `causes` are the values in the file that the latter do not have yet,
    each once.
    """

    file: str
    jobs: tuple[JobFile, ...]
    new_runs: int
    held: int
    causes: tuple[ValueChange, ...] = ()


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A changed setting of an environment that reaches no run: one that limits what its jobs may
    do or use, that Argo CD or Flux objects apply, or by which a plan counts.
    """

    environment: str
    cause: ValueChange
    loosens: bool = False  # whether jobs may do more than before

    @property
    def moves(self) -> bool:
        """Whether jobs are applied to another cluster than before."""
        return self.cause.path.parent == "/gitops/destination"


@dataclass(frozen=True, slots=True)
class WiringChange:
    """What a merge leaves to do with the objects of a GitOps engine in wiring/, by path.

    `stale` files are not as `gitops wire` writes them; of these, `left` ones were written for what
    no engine applies any more. `changed` ones are, and differ from before. It does not write
    `foreign` ones so, or at all, and the merge changes them: what applies the folder applies them
    too; it wrote `earlier` ones of these so by the sources of an earlier commit. `missing` are new
    environments that have nothing there, where others have.
    """

    stale: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    settings: tuple[SettingChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything a merge will do. `head` is empty if the plan is for the working tree.

    `underived` are findings about rendered files that cannot be derived from the sources: they
    decide what will run, whatever the specs say.
    """

    base: str  # hashes of commits
    head: str
    behind: int  # commits of the target branch that the reviewed branch lacks
    environments: tuple[EnvironmentPlan, ...]
    shared_files: tuple[SharedFileImpact, ...]
    findings: tuple[Finding, ...]
    sources: Mapping[str, tuple[str, ...]] = field(repr=False)
    underived: tuple[Finding, ...] = ()
    edits: tuple[tuple[str, str, str], ...] = ()  # file, job and value of those edited by hand
    wiring: WiringChange = WiringChange()
    policies: tuple[SettingChange, ...] = ()  # what limits jobs
    amounts: tuple[SettingChange, ...] = ()  # capacities, prices, pools and currencies
    shared_limits: tuple[SharedLimit, ...] = ()  # that are exceeded
    waived: int = 0  # waivers that specs of jobs have and did not have before

    @property
    def changes(self) -> tuple[JobChange, ...]:
        """Of all environments, the worst first."""
        all_changes = (
            change for environment in self.environments for change in environment.changes
        )
        return tuple(sorted(all_changes, key=lambda change: worst_first((change,))))

    def currency(self, environment: str) -> str:
        """Return the currency of an environment's prices, "" if it has none."""
        currencies = (it.shown_currency for it in self.environments if it.name == environment)
        return next(currencies, "USD")

    @property
    def changing(self) -> tuple[EnvironmentPlan, ...]:
        """The environments in which anything happens to a job, or a limit is exceeded."""
        return tuple(
            environment
            for environment in self.environments
            if environment.changes
            or environment.admitted
            or any(fit.is_worse for fit in environment.fits)
        )

    @property
    def listed(self) -> tuple[JobChange, ...]:
        """The changes listed one by one; jobs outdated by a shared file are in that file's line."""
        shared = {job for file in self.shared_files for job in file.jobs}
        return tuple(
            change
            for change in self.changes
            if change.action is not Action.OUTDATED or change.file not in shared
        )

    @property
    def objects(self) -> tuple[ObjectChange, ...]:
        """The changed additional objects of all environments."""
        return tuple(change for environment in self.environments for change in environment.objects)

    @property
    def blocked(self) -> bool:
        """Whether the merge would break something."""
        refused = any(change.action in BLOCKED for change in self.changes)
        return refused or any(
            f.severity is Severity.ERROR for f in (*self.underived, *self.findings)
        )
