"""The comparison of the two sides of a merge: the plan, and its sums per environment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from itertools import chain, filterfalse
from operator import eq, is_
from pathlib import Path
from posixpath import join

from trainwright.datatypes.data import mapping, text
from trainwright.datatypes.environment import Environment, GitOps
from trainwright.datatypes.finding import Finding, Location, ValueChange
from trainwright.datatypes.groupkind import LOCALQUEUE, PERSISTENTVOLUMECLAIM
from trainwright.datatypes.job import Job
from trainwright.datatypes.layout import WIRING, JobFile, environment_path, is_wiring_of
from trainwright.files.memo import Owner, tracked
from trainwright.files.tracked import Tracked
from trainwright.findings.credentials import redact
from trainwright.plan import names, object_changes, policies, uses, words
from trainwright.plan.changes import JobChanges
from trainwright.plan.left import Departures
from trainwright.plan.merge import Merge, PlanOptions
from trainwright.plan.model import (
    BEGINS,
    Action,
    EnvironmentPlan,
    JobChange,
    LeftRun,
    LoweredLimit,
    ObjectChange,
    Plan,
    Removal,
    SettingChange,
    SharedFileImpact,
    SharedLimit,
    WiringChange,
)
from trainwright.plan.object_effects import ActiveRun, Surroundings
from trainwright.plan.places import place_of
from trainwright.plan.policies import Setting
from trainwright.plan.revision import Revision
from trainwright.plan.training import Training
from trainwright.render import derivation
from trainwright.render.policy import over_budget
from trainwright.reports import redacted, without_credentials
from trainwright.rules.edits.rules import DELETION
from trainwright.rules.policy import JobFindings, apply_policy
from trainwright.rules.quota import declared_quota_exceeded
from trainwright.runs import adopted
from trainwright.runs.fields import is_trained
from trainwright.runs.wiring_files import WiringFiles
from trainwright.runs.workspace import Asking, Workspace
from trainwright.specs import capacity, demand, files
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import NOTHING, Demand
from trainwright.specs.layers import of_gitops


def _are_same(first: tuple[object, ...], second: tuple[object, ...]) -> bool:
    """Whether two tuples hold the very same objects."""
    return len(first) == len(second) and all(map(is_, first, second))


class Comparison(Owner):
    """The plan of a merge, which `edit` keeps current."""

    def __init__(self, root: Path, patterns: tuple[str, ...], options: PlanOptions):
        self.merge = merge = Merge(root, patterns, options)
        super().__init__(merge.memo)
        self._jobs = JobChanges(merge)
        self._before, self._after = merge.sides
        self._departures = Departures(merge.repository, merge.base, merge.inside, options.today)

    def plan(self) -> Plan:
        """Return the plan of the merge."""
        merge = self.merge
        merge.render()
        wired = merge.options.wired(self._after) if merge.changed else WiringFiles()
        refused = (it for it in wired.refused if it.subject in merge.selected().names)
        over = chain.from_iterable(map(self._over_budget, sorted(merge.selected().whole)))
        gone = chain.from_iterable(map(self._deleted_claims, sorted(merge.selected().whole)))
        found = (*merge.findings, *self._jobs.verdict().findings, *refused, *over, *gone)
        every = dict.fromkeys(found)
        findings = tuple(map(redacted, sorted(every, key=lambda finding: finding.order)))
        underived = tuple(redacted(derivation.finding(it)) for it in merge.underived)
        environments, shared = tuple(map(_shown, self._environments())), tuple(self._shared_files())
        shared = tuple(replace(file, causes=_keys_shown(file.causes)) for file in shared)
        causes = [it.causes for environment in environments for it in environment.changes]
        causes += [it.causes for it in shared]
        places = {finding.place.file for finding in findings}
        places |= {cause.place.file for cause in chain.from_iterable(causes)}
        return Plan(
            base=self.merge.base,
            head=self.merge.head,
            behind=self.merge.behind,
            environments=environments,
            shared_files=shared,
            findings=findings,
            underived=underived,
            edits=tuple((it.path, it.job, redact(it.edit)) for it in merge.underived if it.edit),
            wiring=self._wiring(wired),
            policies=self._settings(policies.limits),
            amounts=self._settings(policies.amounts),
            shared_limits=tuple(self._shared_limits()),
            waived=sum(map(self._newly_waived, self.merge.files())),
            sources={
                path: self._after.reader.lines(path)
                for path in sorted(places)
                if self._after.tree.kind(path) == "file"
            },
        )

    @tracked(same=eq)
    def _over_budget(self, name: str) -> tuple[Finding, ...]:
        """Return the findings about exceeded budgets of an environment that the merge changes."""
        environment, plan = self.merge.environment(name), self._environment(name)
        edited = environment_path(name) in self.merge.changed
        if environment is None or plan.removed or not (plan.changes or edited):
            return ()
        left = len(plan.left) + sum(change.left != NOTHING for change in plan.changes)
        document = self._after.loaded(name).document
        found = tuple(over_budget(environment, document, plan.fits, left=left))
        return self._by_policy(environment, found)

    @tracked(same=eq)
    def _deleted_claims(self, name: str) -> tuple[Finding, ...]:
        """Return a finding for each claim that the merge deletes, and that runs have mounted."""
        found = tuple(
            DELETION.at(it.place, f"{it.object} is deleted: {it.effects[0]}", subject=name)
            for it in self._environment(name).objects
            if it.action == "removed" and not (it.until or it.other) and it.effects
            if it.object.startswith(f"{PERSISTENTVOLUMECLAIM.kind}/")
        )
        environment = self.merge.applying(name)
        return self._by_policy(environment, found) if environment else found

    def _by_policy(
        self, environment: Environment, found: tuple[Finding, ...]
    ) -> tuple[Finding, ...]:
        """Return findings about an environment itself, after its severities and waivers."""
        checked = [JobFindings("", found, ())]
        return apply_policy(environment, checked, self.merge.options.today, whole=False)

    @tracked(same=eq)
    def _newly_waived(self, file: JobFile) -> int:
        """Return how many rules a job's spec waives and did not waive, or not as long, before."""
        was = _waivers(self._before, self.merge.origin(file) or file)
        return len(_waivers(self._after, file) - was)

    def _wiring(self, files: WiringFiles) -> WiringChange:
        """Return what the merge leaves to do with wiring/, of the selected environments."""
        selected = self.merge.selected().names
        there = [
            path
            for path in sorted(self.merge.changed)
            if path.startswith(f"{WIRING}/") and self._after.tree.kind(path) == "file"
        ]
        manifests = [path for path in there if path.endswith(_MANIFESTS)]
        foreign = [path for path in manifests if path not in files.current]
        # Of what cannot be written, whatever differs is unproven.
        unproven = {it for it in foreign if files.uncompared and is_wiring_of(it, files.uncompared)}
        files = files._replace(stale=tuple(sorted({*files.stale, *unproven}))).of(selected)
        return WiringChange(
            stale=files.stale,
            left=files.left,
            foreign=tuple(it for it in foreign if it not in unproven),
            earlier=tuple(self._written_earlier(sorted({*foreign} & {*files.stale} - unproven))),
            changed=tuple(it for it in there if it in files.current and is_wiring_of(it, selected)),
            missing=tuple(filter(self._is_unwired, selected)),
            settings=self._settings(policies.wiring),
        )

    def _written_earlier(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the files of wiring/ that are as `gitops wire` wrote them in an earlier commit of
        the branch, before other sources of theirs were edited.
        """
        merge, found = self.merge, dict[str, WiringFiles]()
        since = ("log", "--format=%H", f"{merge.base}..{merge.head or 'HEAD'}", "--")
        for path in paths:
            for commit in merge.repository.line(*since, join(merge.inside, path)).split():
                side = Workspace(Tracked(merge.repository.tree(commit, merge.inside)))
                if side.tree.read(path) != self._after.tree.read(path):
                    continue
                found[commit] = found.get(commit) or merge.options.wired(side)
                if path in found[commit].current:
                    yield path
                    break

    def _is_unwired(self, name: str) -> bool:
        """Whether an environment is new and has nothing in wiring/, where others have."""
        tree, environment = self._after.tree, self.merge.environment(name)
        if name in self._before.survey.jobs or environment is None:
            return False
        there = {it.name for it in tree.entries(WIRING)} if tree.kind(WIRING) == "folder" else set()
        others = there & (self._after.survey.jobs.keys() | self._before.survey.jobs.keys())
        return environment.gitops.engine != "none" and bool(others) and name not in there

    def _settings(
        self, of: Callable[[Environment, Environment], Iterable[Setting]]
    ) -> tuple[SettingChange, ...]:
        """Return the settings that differ of the selected environments."""
        return tuple(
            self._setting(name, setting)
            for name, was, now in self._sides()
            for setting in of(was, now)
            if setting.before != setting.after
        )

    def _setting(self, name: str, setting: Setting) -> SettingChange:
        """Return a changed setting of an environment, with the line that sets it."""
        loaded = self._after.loaded(name)
        place = Location(environment_path(name))
        if setting.path.within("/gitops"):
            place = of_gitops(loaded.layers).origin(setting.path.removeprefix("/gitops"))
        elif loaded.document:
            place = loaded.document.place(setting.path)
        change = ValueChange(setting.path, setting.before, setting.after, place)
        return SettingChange(name, change, setting.loosens)

    def _sides(self) -> Iterator[tuple[str, Environment, Environment]]:
        """Yield the selected environments that are sound on both sides."""
        for name in self.merge.selected().names:
            was = self._before.environments.get(self.merge.former(name))
            now = self.merge.environment(name)
            if was is not None and now is not None:
                yield name, was, now

    # --- sums --------------------------------------------------------------------------------

    def _environments(self) -> Iterator[EnvironmentPlan]:
        """Each selected environment, with the sums over everything that is active in it."""
        removed = () if self.merge.patterns else self._departures.removed(self._before)
        return map(self._environment, dict.fromkeys((*self.merge.selected().names, *removed)))

    @tracked(same=_are_same)
    def _changes_in(self, name: str) -> tuple[JobChange, ...]:
        there = {run.object for run in self._left_before(name)}
        return tuple(
            _counted(change, there)
            for change in self._jobs.verdict().changes
            if self.merge.counted_in(change.file.environment) == name
        )

    @tracked()
    def _environment(self, name: str) -> EnvironmentPlan:
        environment = self.merge.applying(name) or self._departures.settings(name)
        changes = self._changes_in(name)
        removed = name not in self._after.survey.jobs
        demands = [(it.job, it.demand) for it in self._asking(name, changes) if it.job]
        admitted = tuple(self._admitted(name, changes, demands))
        active = tuple(demands)
        demands += self._left(changes)
        left = self._left_after(name, changes)
        demands += [(run.job, run.demand) for run in left]
        after = demand.total(requested for _, requested in demands)
        before = after - demand.total(change.delta for change in changes)
        demands_before, unread = None, self.merge.unread(name)
        if unread:
            before = after = demand.total(it for _, it in self._demands_before(name, ()))
        elif self._has_other_limits(name) or left != self._left_before(name):
            demands_before = tuple(self._demands_before(name, ()))
            before = demand.total(requested for _, requested in demands_before)
        fits = tuple(self._fits(name, changes, demands, demands_before))
        changes = tuple(_queued(change, fits) for change in changes)
        return EnvironmentPlan(
            name=name,
            jobs=len(self._after.survey.jobs.get(name, ())),
            changes=changes,
            before=before,
            after=after,
            asked=demand.total((*(it.asked for it in changes), *(it for _, it in admitted))),
            fits=fits,
            objects=self._objects(name, changes, left),
            uses=tuple(
                uses.uses(
                    changes, demands, fits, demands_before, pools=self._moved(name), every=removed
                )
            ),
            left=left,
            unread=unread,
            admitted=admitted,
            lowered=tuple(self._lowered(name, changes, active, fits)),
            removed=removed,
            removal=self._removal(name) if removed else None,
            namespace=(new := self._new_namespace(name, changes)),
            needs=tuple(self._needs(name, changes)) if new else (),
            currency=environment.currency if environment else "USD",
            currency_before=self._currency_before(name),
            priced=any(
                pool.price_per_gpu_hour is not None
                for side in (self._before.environments.get(self.merge.former(name)), environment)
                for pool in (side.pools.values() if side else ())
            ),
        )

    def _shared_limits(self) -> Iterator[SharedLimit]:
        """Yield what several environments of a cluster have together, where the runs of each fit
        alone, and those of all do not; one of them is changed by the merge.
        """
        found = dict[tuple[object, str, str, object], list[tuple[str, str]]]()
        for name, environment in self._after.environments.items():
            cluster = (environment.gitops.destination, environment.kube_context)
            for what, labels, limit in self._limits(name, environment):
                found.setdefault((*cluster, what, labels), []).append((name, limit))
        selected = self.merge.selected().names
        for (_, _, what, _), limits in found.items():
            changes = (
                it for name, _ in limits if name in selected for it in self._changes_in(name)
            )
            if len(limits) < 2 or not any(changes):
                continue
            fits = [(name, self._fit(name, limit)) for name, limit in limits]
            used = [(name, fit) for name, fit in fits if fit is not None]
            need, most = (sum(getattr(fit, it) for _, fit in used) for it in ("need", "most"))
            has = max((fit.has for _, fit in used), default=0)
            if need > has and not any(fit.short for _, fit in used):
                by = tuple((name, fit.what) for name, fit in used)
                fit = replace(used[0][1], need=need, most=most, has=has)
                yield SharedLimit(what, by, fit)

    def _limits(self, name: str, environment: Environment) -> Iterator[tuple[str, object, str]]:
        """Yield what the pools and queues of an environment stand for in its cluster: nodes by
        their labels, and ClusterQueues by the LocalQueues beside its jobs.
        """
        for pool in environment.pools.values():
            labels = (pool.resource, *sorted(pool.node_selector.items()))
            if pool.capacity is not None and pool.node_selector:
                yield "nodes", labels, f"pool {pool.name}"
        if not any(it is not None for it in environment.queues.values()):
            return
        for it in self._after.own_objects(name).objects:
            queue = it.manifest
            is_here = queue.namespace in ("", environment.namespace)
            if queue.group_kind == LOCALQUEUE and is_here:
                shared = text(queue.spec.get("clusterQueue"))
                yield f"ClusterQueue {shared}", None, f"queue {queue.name}"

    def _fit(self, name: str, what: str) -> CapacityCheck | None:
        """Return whether the runs of an environment fit a pool or a queue, None if none uses it."""
        return next((it for it in self._environment(name).fits if it.what == what), None)

    def _new_namespace(self, name: str, changes: Iterable[JobChange]) -> str:
        """Return the namespace in which runs begin, "" if an environment has it before."""
        now = self.merge.environment(name)
        if now is None or not any(it.action in BEGINS for it in changes):
            return ""
        there = ((it.gitops.destination, it.namespace) for it in self._before.environments.values())
        return "" if (now.gitops.destination, now.namespace) in there else now.namespace

    def _needs(self, name: str, changes: Iterable[JobChange]) -> Iterator[str]:
        """Yield what runs that begin name in their namespace and no object in git is."""
        runs = (it.after for it in changes if it.action in BEGINS and it.after)
        named = dict.fromkeys(chain.from_iterable(Training(it).named for it in runs))
        made = {(kind, it) for _, kind, _, it in object_changes.identities(self._after, name)}
        for one in named:
            kind, _, called = one.partition(" ")
            if (PERSISTENTVOLUMECLAIM.kind if kind == "claim" else kind, called) not in made:
                yield one

    def _admitted(
        self, name: str, changes: Sequence[JobChange], demands: Iterable[tuple[Job, Demand]]
    ) -> Iterator[tuple[JobFile, Demand]]:
        """Yield the jobs that go on and had no room in the quota of their queue before the merge,
        which no waiver lets a cohort lend, and have it after that, with the hours that they begin.
        """
        was, now = (
            self._before.environments.get(self.merge.former(name)),
            self.merge.environment(name),
        )
        changed = {it.file: it for it in changes}
        for job, requested in demands if was and now else ():
            assert was
            assert now
            file = JobFile(name, job.name)
            change, former = changed.get(file), self.merge.origin(file) or file
            if change and (change.before is None or change.action in BEGINS):
                continue
            queue = change.before.queue if change and change.before else job.queue
            had, has, need = was.queues.get(queue), now.queues.get(job.queue), requested.gpus.low
            exceeded = had is not None and had < need
            fits = exceeded and (has is None or need <= has)
            if fits and not _may_lend(self._before, was, former):
                yield file, requested.holding(NOTHING)

    def _lowered(
        self,
        name: str,
        changes: Sequence[JobChange],
        active: Sequence[tuple[Job, Demand]],
        fits: Iterable[CapacityCheck],
    ) -> Iterator[LoweredLimit]:
        """Yield the quotas and capacities that the merge lowers below what runs request, with the
        jobs that go on and request more than that, each or else together. What begins and requests
        too much has words of its own.
        """
        was, now = (
            self._before.environments.get(self.merge.former(name)),
            self.merge.environment(name),
        )
        begun = {it.file for it in changes if it.action in BEGINS}
        for fit in fits if was and now else ():
            assert was
            assert now
            had, of = _limited(was, fit.what), _requested_of(now, fit.what)
            if of is None or not fit.short or (had is not None and had <= fit.has):
                continue
            asking = [(JobFile(name, job.name), of(job, it)) for job, it in active]
            asking = sorted((it for it in asking if it[1]), key=lambda it: -it[1])
            waits = fit.what.startswith("queue ")
            larger = (file for file, need in asking if need > fit.has and file not in begun)
            each = tuple(it for it in larger if not (waits and _may_lend(self._after, now, it)))
            yield LoweredLimit(fit, each or tuple(it for it, _ in asking), each=bool(each))

    def _currency_before(self, name: str) -> str:
        """Return the currency before the merge, "" where it is the same."""
        was = self._before.environments.get(self.merge.former(name))
        now = self.merge.environment(name)
        return was.currency if was and now and was.currency != now.currency else ""

    def _removal(self, name: str) -> Removal | None:
        """Return what the merge takes out of git with an environment, None if it had none."""
        before = self._before
        if name not in before.survey.jobs:
            return None
        environment = before.environments.get(name)
        gitops = environment.gitops if environment else GitOps(engine="none")
        wiring = f"{WIRING}/{name}"
        there = self._after.tree.kind(wiring)  # of which `gitops wire` tells what to do
        wiring = wiring if before.tree.kind(wiring) else ""
        renamed = self.merge.heir(name)
        kept = self._after.ledger(renamed).runs if renamed else {}
        return Removal(
            finished=tuple(run for run in before.ledger(name).runs if run not in kept),
            applied=gitops.engine != "none" and not there,
            wiring=wiring,
            renamed=renamed,
            applied_by=names.applied_by(environment, self.merge.environment(renamed)),
            applying=names.applying(environment),
            namespace=environment.namespace if environment else "",
            refuses=gitops.engine == "argocd",
            prunes=(gitops.engine, gitops.prune) == ("flux", "immediate"),
        )

    @tracked(same=eq)
    def _has_other_limits(self, name: str) -> bool:
        """Whether a merge changes capacities, quotas, budgets or prices, and may so change what
        unchanged jobs cost and whether they fit.
        """
        former = self.merge.former(name)
        sides = (self._before.environments.get(former), self.merge.environment(name))
        before, after = (
            (it.pools, it.queues, it.budget, it.currency) if it else None for it in sides
        )
        return before is not None and after is not None and before != after

    def _moved(self, name: str) -> Set[str]:
        """Return the pools of an environment that come or go."""
        sides = (
            self._before.environments.get(self.merge.former(name)),
            self.merge.environment(name),
        )
        old, new = (it.pools.keys() if it else None for it in sides)
        return old ^ new if old is not None and new is not None else frozenset()

    def _demands_before(
        self, name: str, unchanged: Collection[JobFile]
    ) -> Iterator[tuple[Job, Demand]]:
        """Yield what each job, and each run that has left git, requests before the merge. That of
        an `unchanged` job is read after it, where it is known already.
        """
        for file in self._ran_in(name):
            asking = self._asked(file) if file in unchanged else self._before.asking(file)
            if asking.job:
                yield asking.job, asking.demand
        for run in self._left_before(name):
            yield run.job, run.demand

    def _ran_in(self, name: str) -> Iterator[JobFile]:
        """Yield the jobs whose runs an environment has before the merge, or will have as those of
        other jobs.
        """
        gone, counted = self.merge.gone(), self.merge.counted(name)
        there = chain.from_iterable(self._before.survey.jobs[it] for it in counted)
        for file in filterfalse(self._before.is_unrendered, there):
            if self.merge.counted_in(gone.get(file, file).environment) == name:
                yield file
        for file in self._after.survey.jobs.get(name, ()):
            if (origin := self.merge.origin(file)) and origin.environment not in counted:
                yield origin

    @tracked(same=eq)
    def _left_before(self, name: str) -> tuple[LeftRun, ...]:
        """Return the runs that have left git before the merge, and go on."""
        before = self._before.survey.jobs
        names = self.merge.counted(name) or (() if name in before else (name,))
        return tuple(run for it in names for run in self._departures.runs(self._before, it))

    def _left_after(self, name: str, changes: Sequence[JobChange]) -> tuple[LeftRun, ...]:
        """Return those of them that the merge neither brings back nor has in the ledger."""
        over = {*self._after.ledger(name).runs, *(it.after.object for it in changes if it.after)}
        left = (run for run in self._left_before(name) if run.object not in over)
        return tuple(replace(it, demand=self.merge.at_prices(name, it.demand)) for it in left)

    def _fits(
        self,
        name: str,
        changes: tuple[JobChange, ...],
        demands: Sequence[tuple[Job, Demand]],
        demands_before: Sequence[tuple[Job, Demand]] | None,
    ) -> Iterator[CapacityCheck]:
        """Yield an environment's capacity checks, with limits and shortages before the merge."""
        after = self.merge.environment(name)
        before = self._before.environments.get(self.merge.former(name))
        fits = tuple(capacity.check_capacity(after, demands)) if after else ()
        if before is None or not (demands_before or any(fit.short_at_most for fit in fits)):
            yield from fits
            return
        if demands_before is None:
            there = set(self._after.survey.jobs.get(name, ()))
            unchanged = there - {change.file for change in changes}
            demands_before = tuple(self._demands_before(name, unchanged))
        checks = {(it.what, it.unit): it for it in capacity.check_capacity(before, demands_before)}
        for fit in fits:
            if (was := checks.get((fit.what, fit.unit))) is None:
                yield fit
            else:
                yield replace(
                    fit,
                    short_before=was.short,
                    short_at_most_before=was.short_at_most,
                    has_before=was.has,
                )

    def _objects(
        self, name: str, job_changes: tuple[JobChange, ...], left: Sequence[LeftRun]
    ) -> tuple[ObjectChange, ...]:
        """Return the changed additional objects, with what follows for the active runs."""
        if not self.merge.touches_objects(name):
            return ()
        environment, around = self.merge.applying(name), None
        if environment and not self.merge.unread(name):
            own = self._after.own_objects(name).objects if name in self._after.survey.jobs else ()
            runs = tuple(self._active(environment, job_changes, left))
            runs += tuple(self._active_beside(environment))
            around = Surroundings([it.manifest for it in own], runs)
        refused, told = self.merge.refused(name), self.merge.selected().whole
        sides = (self._before, self._after)
        return tuple(object_changes.changes(*sides, name, around, refused, told))

    def _active_beside(self, environment: Environment) -> Iterator[ActiveRun]:
        """Yield the same of the other environments in the cluster, which may share a namespace."""
        for name in sorted({*self._before.survey.jobs, *self._after.survey.jobs}):
            there = self.merge.applying(name)
            if there is None or name in (environment.name, self.merge.former(environment.name)):
                continue
            if there.gitops.destination == environment.gitops.destination:
                changes = self._changes_in(name)
                yield from self._active(there, changes, self._left_after(name, changes))

    def _active(
        self, environment: Environment, changes: tuple[JobChange, ...], left: Sequence[LeftRun]
    ) -> Iterator[ActiveRun]:
        """Yield the runs of an environment that are active after the merge, and those that it ends,
        each in the namespace that it began in.
        """
        name, begun = environment.name, {it.file for it in changes if it.action in BEGINS}
        was = self._before.environments.get(self.merge.former(name), environment)
        for asking in self._asking(name, changes):
            if asking.job:
                file = JobFile(name, asking.job.name)
                place = None if file in begun else place_of(self._after, file)
                within = place[1] if place else environment.namespace
                spec = self._after.job(file).job
                further = (environment.namespace, spec.queue if spec else "")
                yield ActiveRun(asking.job, asking.demand, within, file in begun, further)
        for job, requested in self._left(changes):
            place = place_of(self._before, JobFile(job.environment, job.name))
            yield ActiveRun(job, requested, place[1] if place else was.namespace)
        for run in left:
            yield ActiveRun(run.job, run.demand, was.namespace)
        for change in changes:
            former = change.was or change.file
            ended = self._before.job(former).job if change.before else None
            if ended is not None:
                place = place_of(self._before, former)
                yield ActiveRun(ended, NOTHING, place[1] if place else was.namespace)

    def _asking(self, name: str, changes: tuple[JobChange, ...]) -> Iterator[Asking]:
        """Yield what each job requests after the merge. A job of which nothing is applied is left
        out: of it only what keeps running counts, whatever its spec requests.
        """
        nothing = {c.file for c in changes if c.after is None or not c.after.object}
        lost = self.merge.has_lost_ledger(name)
        for file in self._after.survey.jobs.get(name, ()):
            ended = lost and self._before.has(file) and self._before.job(file).finished
            if file not in nothing and not ended:
                yield self._asked(file)

    def _asked(self, file: JobFile) -> Asking:
        """Return what a job requests after the merge, by what its run takes of its edits."""
        after = self._after
        if not self.merge.touches(file):
            return after.asking(file)
        return after.asked_by(after.settled(file, after.rendering(file)))

    def _left(self, changes: tuple[JobChange, ...]) -> Iterator[tuple[Job, Demand]]:
        """Yield each job that goes on although a change removes it from git, and its demand."""
        for change in changes:
            before = self._before.job(change.was or change.file)
            job = before.job if change.left != NOTHING else None
            if job is not None:
                yield job, change.left

    def _shared_files(self) -> Iterator[SharedFileImpact]:
        """Each shared file that changed, with the jobs that read it and that something happens to.

        A job's own file is not shared, unless others extend it.
        """
        readers: dict[str, list[JobChange]] = {}
        for change in self._jobs.verdict().changes:
            for path in self._shared(change):
                readers.setdefault(path, []).append(change)
        for path, changes in sorted(readers.items()):
            held = (
                c for change in changes if change.action is Action.OUTDATED for c in change.causes
            )
            distinct = {
                (c.path, repr(c.after)): c
                for c in held
                if c.place.file == path or c.place.file not in readers
            }
            yield SharedFileImpact(
                file=path,
                jobs=tuple(change.file for change in changes),
                new_runs=sum(map(self._is_begun_by_others, changes)),
                held=sum(change.action is Action.OUTDATED for change in changes),
                causes=tuple(distinct.values()),
            )

    def _is_begun_by_others(self, change: JobChange) -> bool:
        """Whether files that a job shares begin another run of it, and not a line of its own."""
        environment = self.merge.environment(change.file.environment)
        starts = environment is not None and environment.shared_changes == "start"
        own = any(is_trained(it.path) for it in change.causes if it.place.file == change.file.path)
        return change.action is Action.NEW_RUN and starts and not own

    def _shared(self, change: JobChange) -> frozenset[str]:
        """Return the changed files that a job shares with others and that caused its change; of a
        new one, all that it reads.
        """
        if self.merge.unread(change.file.environment):
            return frozenset()
        resolved = self._after.job(change.file) if self._after.has(change.file) else None
        read = resolved.loaded.files if resolved else ()
        own = {change.file.path, adopted.path(change.file)}
        if resolved and resolved.sources:
            own |= {path for _, path in files.named(resolved.sources.own)}
        changed = frozenset(read) & self.merge.changed - own
        if not self._before.has(change.was or change.file):
            return changed
        causing = {cause.place.file for cause in change.causes}
        return frozenset() if causing <= own else changed & causing or changed


def _counted(change: JobChange, there: Set[str]) -> JobChange:
    """Return a change, counted as the earlier run that it goes back to if that is `there`."""
    back = change.back and change.after is not None and change.after.object in there
    return replace(change, counted=True) if back else change


def _queued(change: JobChange, fits: Iterable[CapacityCheck]) -> JobChange:
    """Return a change with the queue in which the run that begins has to wait for others."""
    run = change.after
    begins = change.action in BEGINS and not (change.unadmitted or change.back)
    if run is None or not (begins and run.queue and run.state == "active"):
        return change
    full = next((it for it in fits if it.what == f"queue {run.queue}" and it.short), None)
    if full is None or run.demand.gpus.low > full.has:  # alone: its cohort lends
        return change
    waits = words.queued(run, full)
    why = change.why.removeprefix(f"when queue {run.queue} admits it").removeprefix("; ")
    return replace(change, queued=full, why="; ".join(filter(None, (waits, why))))


def _shown(environment: EnvironmentPlan) -> EnvironmentPlan:
    """Redact credentials in a plan's words and keys; values are redacted where they are shown."""
    changes = tuple(
        replace(
            change,
            why=redact(change.why),
            causes=_keys_shown(change.causes),
            otherwise=_keys_shown(change.otherwise),
        )
        for change in environment.changes
    )
    return replace(environment, changes=changes)


def _keys_shown(causes: Iterable[ValueChange]) -> tuple[ValueChange, ...]:
    return tuple(replace(cause, path=without_credentials(cause.path)) for cause in causes)


def _limited(environment: Environment, what: str) -> float | None:
    """Return the quota of a queue, or the capacity of a pool, None if it is not known."""
    kind, _, called = what.partition(" ")
    pool = environment.pools.get(called) if kind == "pool" else None
    return pool.capacity if pool else environment.queues.get(called)


def _requested_of(environment: Environment, what: str) -> Callable[[Job, Demand], float] | None:
    """Return what a job requests of a queue or a pool, at least; None for what is neither."""
    kind, _, called = what.partition(" ")
    if kind == "queue":
        return lambda job, it: it.gpus.low if job.queue == called else 0
    if kind != "pool":
        return None
    counts_gpus = bool(environment.pools[called].resource)
    return lambda _, it: (it.of(called).gpus if counts_gpus else it.of(called).nodes).low


def _may_lend(side: Revision, environment: Environment, file: JobFile) -> bool:
    """Whether a job may have more than the quota of its queue, as its cohort lends."""
    rule = declared_quota_exceeded.id
    waived = any(it.rule == rule and it.job in ("*", file.name) for it in environment.waivers)
    return waived or any(it == rule for it, _ in _waivers(side, file))


def _waivers(side: Revision, file: JobFile) -> set[tuple[str, str]]:
    """Return the rules that a job's spec waives, each with the last day."""
    spec = side.job(file).loaded.spec if side.has(file) else None
    waivers = mapping(spec.data.get("waivers")) if spec else {}
    return {(rule, str(mapping(waiver).get("until"))) for rule, waiver in waivers.items()}


_MANIFESTS = (".yaml", ".yml", ".json")  # what `kubectl apply --filename FOLDER` reads
