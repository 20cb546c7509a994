"""The two sides of a merge: the jobs that it touches, rendered, and the findings about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from dataclasses import field
from itertools import filterfalse
from operator import attrgetter, eq, is_
from pathlib import Path

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Finding, Location, Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import RENDERED, JobFile, environment_path
from trainwright.datatypes.listing import plural
from trainwright.files import git, lineage
from trainwright.files.git import Differing
from trainwright.files.memo import Cell, Owner, tracked
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Edited, Folder, Tree
from trainwright.findings import diagnostics as dx
from trainwright.findings.diagnostics import HELD, UNRECORDED
from trainwright.objects import departure
from trainwright.plan import affected, names, object_changes
from trainwright.plan.object_changes import Identity
from trainwright.plan.places import place_of
from trainwright.plan.revision import Revision
from trainwright.render import derivation
from trainwright.render.derivation import Derivation, Underived
from trainwright.render.history import JOINED, History
from trainwright.render.job import Rendered
from trainwright.render.policy import has_unknown_run, unknown_run
from trainwright.render.refused import of_job
from trainwright.rules import deception
from trainwright.rules.edits.outcomes import is_rejected
from trainwright.rules.policy import JobFindings, apply_policy
from trainwright.runs import collisions
from trainwright.runs.record import Record
from trainwright.runs.wiring_files import WiringFiles
from trainwright.runs.workspace import Workspace
from trainwright.specs import demand, own_objects
from trainwright.specs.demand import Demand
from trainwright.specs.select import select


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What to compare: `against` is a revision; `head` is another, or None for what is on disk."""

    against: str
    head: str | None
    today: str  # ISO date, for the expiry of waivers
    helm: str | None = None
    crds: Path | None = None  # CRDs whose validation rules for changes are evaluated too
    # Compares wiring/: what writes it is beside this package, not below it.
    wired: Callable[[Workspace], WiringFiles] = lambda _: WiringFiles()
    edits: Mapping[str, bytes] = field(default_factory=dict)  # of the working tree, not made yet


@dataclass(frozen=True, slots=True)
class Selected:
    """The selected environments, those of them with all their jobs selected, and the jobs."""

    names: tuple[str, ...]
    whole: frozenset[str]
    files: frozenset[JobFile]


_name = attrgetter("name")  # the sort key of jobs within one environment


class Merge(Owner):
    """The merge of a commit, or of the working tree, into another commit.

    The base is the newest commit that both share, so that what others merged meanwhile does not
    appear to be undone. It never changes; what is computed from the other side is tracked (see
    `memo`).
    """

    def __init__(self, root: Path, patterns: tuple[str, ...], options: PlanOptions):
        self.patterns, self.options = patterns, options
        self.repository, self.inside = repository, inside = git.find(root)
        self._names = (options.against, options.head or "HEAD")
        self._commits = repository.commits((*self._names, *JOINED))
        self.base = base = repository.merge_base(*self._names)
        self.head = head = repository.commit(options.head) if options.head else ""
        self.behind = int(
            repository.line("rev-list", "--count", f"{base}..{options.against}", "--")
        )
        self._differing = Differing(repository, base, inside, head or None)
        changed = self._differs()
        self.before = Revision(Tracked(repository.tree(base, inside, later=RENDERED)))
        below: Tree = repository.tree(head, inside, later=RENDERED) if head else Folder(root)
        below = Edited(below, options.edits) if options.edits else below
        self.after = Revision(Tracked(below), earlier=self.before)
        self.sides = (self.before, self.after)
        super().__init__(self.after.memo)
        branch = lineage.find(root, base, options.head or "HEAD")
        assert branch is not None  # since it has a base
        proof = Derivation(
            root, branch, self.after, options.helm, on_disk=not head, changed=changed
        )
        self._history = History(root, tip=head or "HEAD")
        self._changed = Cell(self.memo, frozenset[str], eq, changed)
        self._proof = Cell(self.memo, lambda: proof)

    @property
    def changed(self) -> frozenset[str]:
        """The files in which the sides differ."""
        return self._changed.get()

    def _differs(self, edits: Collection[str] = ()) -> frozenset[str]:
        """Return the files that are not as in the base, once these were edited."""
        return self._differing.paths(edits) | self.options.edits.keys()

    def is_current(self) -> bool:
        """Whether both revisions still are the commits that they were."""
        now = self.repository.commits((*self._names, *JOINED))
        return self._commits == now and now.keys() >= {*self._names}

    def edit(self, edits: Set[str]) -> None:
        """Go on once some files on disk were edited, keeping whatever that does not affect."""
        changed = self._differs(edits)
        # What git ignores may have changed without an edit to the files that are ignored now.
        edits = edits | (changed ^ self.changed)
        self.after.edit(edits)
        self._changed.put(changed)
        if any(map(derivation.may_decide, edits)):
            self._proof.put(self._proof.get().edited(self.after, changed))

    # --- jobs --------------------------------------------------------------------------------

    @tracked()
    def selected(self) -> Selected:
        """Return what the patterns select of both sides."""
        old, new = self.before.survey, self.after.survey
        both = {
            name: tuple(sorted({*old.jobs.get(name, ()), *new.jobs.get(name, ())}, key=_name))
            for name in sorted({*old.jobs, *new.jobs})
        }
        chosen = select(self.patterns, both)
        return Selected(
            names=tuple(selection.environment for selection in chosen),
            whole=frozenset(item.environment for item in chosen if item.whole),
            files=frozenset(file for selection in chosen for file in selection.jobs),
        )

    @tracked(same=eq)
    def files(self) -> frozenset[JobFile]:
        """Return the selected jobs that the merge touches."""
        touched = affected.jobs(self.before, self.after, self.changed) | self._rendered_jobs()
        return self.selected().files & touched

    @tracked(same=eq)
    def _files_in(self, name: str) -> tuple[JobFile, ...]:
        return tuple(sorted(file for file in self.files() if file.environment == name))

    @tracked(same=eq)
    def touches(self, file: JobFile) -> bool:
        """Whether the merge touches a job, and it is selected."""
        return file in self.files()

    @tracked(same=eq)
    def _rendered_jobs(self) -> frozenset[JobFile]:
        return affected.rendered(self.before, self.after, self.changed)

    @tracked(same=eq)
    def is_rendered(self, file: JobFile) -> bool:
        """Whether a run's rendered files changed: they are applied, whatever the specs say."""
        torn = self.after.folder(file.environment).is_unreadable(file.name)
        return not torn and file in self._rendered_jobs()

    def render(self) -> None:
        """Render in one batch per side whatever is not rendered yet."""
        files, helm = sorted(self.files()), self.options.helm
        old = filter(self.before.has, sorted({*files, *self._origins().values()}))
        ran = filterfalse(self.before.is_unrendered, old)
        unknown = [file for file in ran if self.before.applied(file) is None]
        self.before.render(self.before.outdated(unknown), helm, new_runs=True)
        outdated = self.after.outdated(filter(self.after.has, files))
        runs = self._history.runs(list(filter(self._is_edited_since, outdated)), self.after)
        self.after.render(outdated, helm, runs=runs)

    def _is_edited_since(self, file: JobFile) -> bool:
        """Whether the file of a job is not the one from which its changed run was rendered."""
        record = self.after.record(file)
        edited = record is not None and record.source != self.after.reader.source(file.path)
        return edited and self.is_rendered(file)

    # --- environments ------------------------------------------------------------------------

    @tracked(same=is_)
    def environment(self, name: str) -> Environment | None:
        """Return an environment after the merge, or None if it is not sound or not there."""
        return self.after.environments.get(name)

    def applying(self, name: str) -> Environment | None:
        """Return the environment by whose settings runs are applied and deleted: as it was before
        the merge, where that removes or breaks it.
        """
        return departure.applying(self.before.environments.get(name), self.environment(name))

    def unread(self, name: str) -> tuple[Finding, ...]:
        """Return the errors for which an environment cannot be read after the merge."""
        unread = name in self.after.survey.jobs and self.environment(name) is None
        return self.after.loaded(name).findings if unread else ()

    def at_prices(self, name: str, requested: Demand) -> Demand:
        """Return what a run of the base requests at the prices after the merge, so that what they
        change is in the sums before and after, and in nothing that the merge requests.
        """
        environment = self.environment(name)
        pools = environment.pools.values() if environment else ()
        return demand.priced(requested, {pool.name: pool.price_per_gpu_hour for pool in pools})

    def has_lost_ledger(self, name: str) -> bool:
        """Whether the ledger of an environment cannot be read: what has finished is unknown, and
        nothing is rendered.
        """
        entries = self.after.ledger(name)
        return bool(entries.findings) and not entries.runs

    def touches_objects(self, name: str) -> bool:
        """Whether the merge edits additional objects of an environment, or what they are held
        against, and all of it is selected.
        """
        return name in self.selected().whole and self._edits_objects(name)

    def _edits_objects(self, name: str) -> bool:
        inside = (environment_path(name), f"{own_objects.folder(name)}/")
        return any(path.startswith(inside) for path in self.changed)

    @tracked(same=eq)
    def deleted(self, name: str) -> frozenset[Identity]:
        """Return the additional objects in the cluster of an environment that the merge deletes."""
        there = self.applying(name)
        clusters = {it: self.applying(it) for it in self.before.survey.jobs}
        return frozenset[Identity]().union(
            *(
                self._deleted(other)
                for other, applying in clusters.items()
                if there and applying
                if applying.gitops.destination == there.gitops.destination
            )
        )

    @tracked(same=eq)
    def _deleted(self, name: str) -> frozenset[Identity]:
        if not self._edits_objects(name):
            return frozenset()
        return object_changes.deleted(*self.sides, name)

    # --- other names -------------------------------------------------------------------------

    @tracked(same=eq)
    def renamed(self) -> Mapping[str, str]:
        """Return the former names of environments that the merge renames, by their new names."""
        return names.environments(self.before, self.after)

    @tracked(same=eq)
    def heir(self, name: str) -> str:
        """Return the environment that has the runs and objects of one that is gone, or ""."""
        new = {former: name for name, former in self.renamed().items()}
        return new.get(name) or names.heirs(self.before, self.after).get(name, "")

    def former(self, name: str) -> str:
        """Return what an environment is called before the merge."""
        return self.renamed().get(name, name)

    @tracked(same=eq)
    def _successors(self) -> Mapping[str, str]:
        return names.successors(self.before, self.after)

    def counted_in(self, name: str) -> str:
        """Return the environment in whose sums what goes on of another counts: of one that is gone
        the selected one that takes its place, if any.
        """
        successor = self._successors().get(name, name)
        return successor if successor in self.selected().names else name

    def counted(self, name: str) -> tuple[str, ...]:
        """Return the environments before the merge of which what goes on counts in one."""
        return tuple(it for it in self.before.survey.jobs if self.counted_in(it) == name)

    @tracked(same=eq)
    def _origins(self) -> Mapping[JobFile, JobFile]:
        """The jobs that new ones were before the merge, or share a run with, by the new ones."""
        return names.jobs(self.before, self.after, self.files(), self.renamed())

    def origin(self, file: JobFile) -> JobFile | None:
        """Return the job that a new one was before the merge, or shares a run with, if any."""
        return self._origins().get(file)

    @tracked(same=eq)
    def gone(self) -> Mapping[JobFile, JobFile]:
        """Return the jobs that others are after the merge, by those that are gone."""
        return {was: file for file, was in self._origins().items() if not self.after.has(was)}

    def is_shared(self, file: JobFile) -> bool:
        """Whether the job that has the run of a new one before the merge has it after that, too."""
        if (origin := self.origin(file)) is None or not self.after.has(origin):
            return False
        return place_of(self.after, origin) == place_of(self.after, file)

    # --- findings ----------------------------------------------------------------------------

    @property
    def underived(self) -> tuple[Underived, ...]:
        """Selected files in rendered folders, or missing there, that follow from no source, and
        that are not as they were under the former name of their environment.
        """
        return tuple(filterfalse(self._is_as_before, self._selected_underived()))

    @tracked(same=eq)
    def _not_rendered_again(self) -> tuple[Finding, ...]:
        """Return an error for each renamed environment with files rendered for its former name."""
        files: dict[str, list[Underived]] = {}
        for it in filter(self._is_as_before, self._selected_underived()):
            files.setdefault(it.environment, []).append(it)
        return tuple(
            dx.UNDERIVED.at(
                Location(found[0].path, 1, 1),
                f"{plural(len(found), 'file')} in {name}/{RENDERED} "
                f"{'is' if len(found) == 1 else 'are'} as rendered for {self.former(name)}",
                subject=name,
            )
            for name, found in sorted(files.items())
        )

    def _is_as_before(self, it: Underived) -> bool:
        """Whether a file is as it was in the rendered folder of an environment's former name."""
        former = self.former(it.environment)
        path = it.path.replace(f"/{it.environment}/", f"/{former}/", 1)
        was, now = self.before.rendered_tree.digest(path), self.after.rendered_tree.digest(it.path)
        return former != it.environment and bool(now) and was == now

    def _selected_underived(self) -> tuple[Underived, ...]:
        selected = self.selected()
        jobs = {(file.environment, file.name) for file in selected.files}
        return tuple(
            it
            for it in self._underived()
            if it.environment not in selected.names
            or it.environment in selected.whole
            or (it.environment, it.job) in jobs
        )

    @tracked()
    def _underived(self) -> tuple[Underived, ...]:
        """The rendered files that no source renders, of all environments."""
        proof = self._proof.get()
        underived = [it for name in self.selected().names for it in proof.underived(name)]
        return (*underived, *(proof.orphans() if not self.patterns else ()))

    @tracked(same=eq)
    def is_forged(self, file: JobFile) -> bool:
        """Whether rendered files of a job follow from no source."""
        return file in self._forged()

    @tracked(same=eq)
    def _forged(self) -> frozenset[JobFile]:
        return frozenset(JobFile(it.environment, it.job) for it in self.underived if it.job)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings about what the merge affects, after severities and waivers."""
        selected = self.selected().names
        found = (finding for name in selected for finding in self.findings_in(name))
        return (*self.after.findings, *self._not_rendered_again(), *found)

    @tracked(same=eq)
    def errors(self, file: JobFile) -> int:
        """Return how many errors a job has."""
        return self._errors_in(file.environment)[str(file)]

    @tracked(same=eq)
    def _errors_in(self, name: str) -> Counter[str]:
        """Return how many errors each job of an environment has."""
        findings = dict.fromkeys(self.findings_in(name))  # jobs that extend one have its findings
        return Counter(it.subject for it in findings if it.severity is Severity.ERROR)

    @tracked(same=eq)
    def refused(self, name: str) -> tuple[Finding, ...]:
        """Return the errors about edits of an environment that the API server refuses."""
        found = self.findings_in(name)
        return tuple(it for it in found if it.severity is Severity.ERROR and is_rejected(it.rule))

    def checked(self, now: Rendered) -> JobFindings:
        """Return the findings about a job, with those about what its new run has otherwise."""
        found = now.findings
        if now.record is not None:
            found += tuple(of_job(*self.sides, now.file, now.record, now.files))
        return JobFindings(now.file.name, found, now.waivers)

    @tracked()
    def findings_in(self, name: str) -> tuple[Finding, ...]:
        """Return the findings about an environment and those of its jobs that the merge touches."""
        environment = self.environment(name)
        if name not in self.after.survey.jobs:
            return ()
        if environment is None:
            return self.after.loaded(name).findings
        rendered = map(self.after.rendering, filter(self.after.has, self._files_in(name)))
        checked = list(map(self.checked, rendered))
        for file in (file for file in self._unreadable() if file.environment == name):
            there = self.after.folder(name).is_unreadable(file.name)
            checked.append(JobFindings(file.name, (unknown_run(file, there=there),), ()))
        if unseen := self.after.ledger(name).unseen:
            checked.append(JobFindings("", tuple(deception.in_lines(unseen, name)), ()))
        if self.touches_objects(name):
            own = object_changes.findings(self.before, self.after, name)
            checked.append(JobFindings("", own, ()))
        checked.append(JobFindings("", tuple(self._collisions(name)), ()))
        findings = apply_policy(environment, checked, self.options.today, whole=False)
        if self.has_lost_ledger(name):  # which is the one thing to mend
            findings = tuple(f for f in findings if f.rule != UNRECORDED.id)
        # Held changes are reported with their job.
        findings = tuple(f for f in findings if (f.rule, f.severity) != (HELD.id, HELD.severity))
        return (*findings, *self.after.ledger(name).findings)

    def _collisions(self, name: str) -> Iterator[Finding]:
        """Yield a finding for each environment of the cluster that has objects of jobs which the
        merge touches, and did not have them before; theirs bear the names of the same jobs.
        """
        sound, jobs = self.after.environments, [it.name for it in self._files_in(name)]
        for other in (it for it in sound if jobs and it != name):
            if collisions.share(sound[name], sound[other], self.after.tree):
                was, now = (
                    [collisions.objects(self._records(side, it, jobs)) for it in (name, other)]
                    for side in self.sides
                )
                added = (now[0] - (was[0] & was[1]), now[1])
                loaded = self.after.loaded(name)
                yield from collisions.across(loaded, sound[name], sound[other], added)

    def _records(self, side: Revision, name: str, jobs: Iterable[str]) -> Mapping[str, Record]:
        """Return the records of jobs of an environment, as rendering makes them after the merge."""
        environment = self.former(name) if side is self.before else name
        found: dict[str, Record | None] = {}
        for file in (JobFile(environment, job) for job in jobs):
            begins = side is self.after and side.has(file) and self.touches(file)
            found[file.name] = side.rendering(file).record if begins else side.record(file)
        return {job: record for job, record in found.items() if record is not None}

    @tracked(same=eq)
    def _unreadable(self) -> tuple[JobFile, ...]:
        """The jobs whose record cannot be read, and is in no commit as it was."""
        candidates = []
        for file in filter(self.after.has, sorted(self.files())):
            begins = self.after.rendering(file).name
            if has_unknown_run(self.after.folder(file.environment), file, begins):
                candidates.append(file)
        recorded = self._history.recorded(candidates)
        return tuple(file for file in candidates if file not in recorded)
