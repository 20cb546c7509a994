"""Which rendered files can be derived from a base's rendered files and a branch's sources.

A record in a repository proves nothing, since all who can write to it can forge it. So a
rendered folder is believed only if it is the base's, or what a commit of the branch (or the working
tree) renders from its sources and a believed folder: docs/decisions/0011-derived-or-refused.md.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import (
    ADOPTED,
    ENVIRONMENTS,
    RENDERED,
    JobFile,
    environment_path,
    rendered_folder,
)
from trainwright.datatypes.listing import listed
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.documents import editing, yamlio
from trainwright.documents.dialect import GO
from trainwright.documents.yamlio import Document
from trainwright.files import filetree
from trainwright.files.git import GitError
from trainwright.files.lineage import Lineage
from trainwright.files.memo import Owner, tracked
from trainwright.files.tree import NOTHING, Edited, Tree, paths_below
from trainwright.findings import diagnostics as dx
from trainwright.objects.grants import grants
from trainwright.render import written
from trainwright.runs import decide, identity, kustomization, meaning
from trainwright.runs import record as records
from trainwright.runs.adopted import Adopted
from trainwright.runs.decision import Sources, Step
from trainwright.runs.folder import RenderedFolder
from trainwright.runs.kustomization import KUSTOMIZATION_FILE, RENDERED_FROM
from trainwright.runs.record import ENDED, RECORD_FILE, Record, Recorded
from trainwright.runs.workspace import Workspace
from trainwright.specs import ledger, own_objects
from trainwright.specs.ledger import LEDGER_FILE, LedgerEntry
from trainwright.specs.own_objects import COPIES

if TYPE_CHECKING:
    from trainwright.helm.engines import Engine

# The files of a folder by path in it. For anything else, such as a link: a null byte and a reason.
State: TypeAlias = Mapping[str, bytes]

_EARLIER = 50  # commits before the base in which a run that comes back is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Underived:
    """A file in a rendered folder, or missing there, that cannot be derived from any sources.

    `job` is empty for a file of no job; `path` is relative to the root, `line` is the first that
    differs. `by_another` is whether another version of the tool rendered the run; `edit` is the
    value that was edited by hand, "numNodes 4 → 8", if that is what it is.
    """

    environment: str
    job: str
    path: str
    why: str
    line: int = 1
    by_another: bool = False
    edit: str = ""


@dataclass(frozen=True, slots=True)
class _Proof:
    """Whether a folder is believed, and the branch's last state of it that is.

    `here` means that only this machine believes it: no commit may have what it was rendered from.
    `refusal` is why the environment does not accept such a run, although a commit rendered it.
    """

    holds: bool
    believed: State
    expected: State | None = None  # what the sources render from that
    here: bool = False
    refusal: str = ""


class Derivation(Owner):
    """The check of a workspace's rendered files against the base and the commits of its branch.

    The results about a job are kept up to date as sources change (see `memo`). Once a rendered
    file or a commit changes, a new derivation is needed: `detach` this one.

    `on_disk` is whether the workspace is the working tree, and not the branch's last commit.
    `changed` are the files that differ from the first base, if that is known.
    """

    def __init__(
        self,
        root: Path,
        lineage: Lineage,
        workspace: Workspace,
        helm: str | None = None,
        *,
        on_disk: bool = True,
        changed: frozenset[str] | None = None,
    ):
        super().__init__(workspace.memo)
        self._root = root
        self._lineage = lineage
        self._workspace = workspace
        self._helm = helm
        self._on_disk = on_disk
        self._changed_files = changed
        self._at: dict[str, Workspace] = {}
        self._jobs: dict[str, dict[str, None]] = {}  # folders that differ, by environment
        self._shared: dict[JobFile, tuple[str, ...]] = {}  # commits that wrote a job's record
        self._objects: dict[JobFile, frozenset[str]] = {}  # of a job's runs in the bases
        self._followed: set[JobFile] = set()  # to the environments that they went along with

    def edited(self, workspace: Workspace, changed: frozenset[str]) -> Derivation:
        """Return the derivation for an edited tree, in which other files differ from the base."""
        derivation = Derivation(
            self._root,
            self._lineage,
            workspace,
            self._helm,
            on_disk=self._on_disk,
            changed=changed,
        )
        derivation._at = self._at
        self.detach()
        return derivation

    def underived(self, environment: str) -> tuple[Underived, ...]:
        """Return everything in an environment's rendered folder that is not believed."""
        jobs = (JobFile(environment, job) for job in self.jobs(environment))
        return (
            *(item for file in jobs for item in self.of_job(file)),
            *self.beyond_jobs(environment),
        )

    def of_job(self, file: JobFile) -> tuple[Underived, ...]:
        """Return what cannot be derived in a job's own folder."""
        is_here = file.name in self.jobs(file.environment)
        if not is_here or self._is_no_folder(file.environment):
            return ()
        return tuple(self._of_job(file))

    def beyond_jobs(self, environment: str) -> tuple[Underived, ...]:
        """Return what cannot be derived in a rendered folder, outside of its jobs' folders."""
        inside = self._changed_in(environment)
        if not inside:
            return tuple(self._of_ledger(environment))
        folder = rendered_folder(environment)
        if self._is_no_folder(environment):
            why = _NO_FOLDER[self._workspace.rendered_tree.kind(folder)]
            return (Underived(environment=environment, job="", path=folder, why=why),)
        return (
            *self._of_copies(environment, inside),
            *self._strays(environment, inside),
            *self._of_list(environment),
            *self._of_ledger(environment),
        )

    def replaced(self, environment: str) -> frozenset[str]:
        """Return the jobs whose folders the next commit cannot have as they are."""
        proofs = {job: self._proof(JobFile(environment, job)) for job in self.jobs(environment)}
        return frozenset(job for job, proof in proofs.items() if proof.here or not proof.holds)

    def believed(self, file: JobFile) -> Recorded | None:
        """Return a job's believed run, to continue from if the recorded one is not believed."""
        state = self._proof(file).believed
        if RECORD_FILE not in state:
            return None
        recorded = _recorded(file, state)
        return recorded and replace(recorded, here=False)

    def orphans(self) -> tuple[Underived, ...]:
        """Return rendered files in folders that are not environments, or not any more."""
        by_environment: dict[str, Underived] = {}
        for path in sorted(self.changed):
            top, _, inside = path.partition("/")
            environment, _, rest = inside.partition("/")
            folder = rendered_folder(environment)
            if top != ENVIRONMENTS or f"{rest}/".partition("/")[0] != RENDERED:
                continue
            kind = self._workspace.rendered_tree.kind(path)
            if kind and environment not in self._workspace.survey.jobs:
                why = f"belongs to {environment}, and there is no such environment"
                by_environment[environment] = Underived(
                    environment=environment, job="", path=folder, why=why
                )
        return tuple(by_environment.values())

    @cached_property
    def _engine(self) -> Engine:
        from trainwright.helm import engines  # where something is derived, and not the same

        return engines.engine(self._helm)

    # --- what differs --------------------------------------------------------------------------

    @cached_property
    def changed(self) -> frozenset[str]:
        """The files that differ from the base."""
        if self._changed_files is not None:
            return self._changed_files
        lineage = self._lineage
        if self._on_disk:
            return self._differs_from(lineage.bases[0])
        base, tip = lineage.bases[0], lineage.tips[0]
        return lineage.repository.differing(base, lineage.inside, tip, among=(ENVIRONMENTS,))

    @property
    def base(self) -> Workspace:
        """The commit in which the branch began."""
        return self._commit(self._lineage.bases[0])

    def differs_below(self, folder: str) -> bool:
        """Whether a file in a folder differs from the base."""
        return bool(_inside(folder, self._changed_in_order))

    @property
    def specs_differ(self) -> bool:
        """Whether a file that people write differs from the base."""
        return not all(map(may_decide, self.changed))

    def is_committed(self, paths: Iterable[str]) -> bool:
        """Whether all of these files are as in the last commit, or missing in both."""
        return not any(_contains(self._uncommitted, path) for path in paths)

    @cached_property
    def _uncommitted(self) -> Sequence[str]:
        """The files on disk that differ from HEAD, sorted; in the others, git may have converted
        the line endings.
        """
        if not self._on_disk:
            return ()
        tip = self._lineage.tips[0]
        if tip == self._lineage.bases[0]:
            return self._changed_in_order
        return sorted(self._differs_from(tip))

    def _differs_from(self, commit: str) -> frozenset[str]:
        """Return the files on disk that are not as in a commit."""
        lineage = self._lineage
        differing = lineage.repository.differing(commit, lineage.inside, among=(ENVIRONMENTS,))
        return differing | self._untracked

    @cached_property
    def _untracked(self) -> frozenset[str]:
        return self._lineage.repository.untracked(self._lineage.inside, among=(ENVIRONMENTS,))

    @cached_property
    def _changed_in_order(self) -> Sequence[str]:
        return sorted(self.changed)

    def _changed_in(self, environment: str) -> frozenset[str]:
        """Return paths in a rendered folder that differ from the base; "" is the folder itself."""
        folder = rendered_folder(environment)
        start = len(folder) + 1
        inside = _inside(folder, self._changed_in_order)
        itself = [""] if folder in self.changed else []
        return frozenset([*itself, *(path[start:] for path in inside)])

    def jobs(self, environment: str) -> KeysView[str]:
        """Return the folders of jobs in a rendered folder in which something differs, sorted."""
        if environment not in self._jobs:
            inside = self._changed_in(environment)
            folders = {path.partition("/")[0] for path in inside if "/" in path}
            self._jobs[environment] = dict.fromkeys(sorted(folders - {COPIES}))
        return self._jobs[environment].keys()

    def _is_no_folder(self, environment: str) -> bool:
        return rendered_folder(environment) in self.changed or self._is_gone(environment)

    def _is_gone(self, environment: str) -> bool:
        """Whether the rendered folder of an environment that has jobs is missing."""
        if self._workspace.rendered_tree.kind(rendered_folder(environment)):
            return False
        return any(self._workspace.survey.jobs.get(environment, ()))

    # --- the folders of jobs -------------------------------------------------------------------

    def _of_job(self, file: JobFile) -> Iterator[Underived]:
        proof = self._proof(file)
        if proof.holds:
            return
        goal = self._goal(file)
        expected = proof.expected if proof.expected is not None else proof.believed
        folder = file.rendered
        names = [
            name for name in sorted({*goal, *expected}) if goal.get(name) != expected.get(name)
        ]
        manifests = [name for name in names if name != RECORD_FILE]
        another = _by_another(goal, expected)
        for name in manifests or names:
            why, line = difference(goal.get(name), expected.get(name))
            yield Underived(
                environment=file.environment,
                job=file.name,
                path=f"{folder}/{name}",
                why=proof.refusal or another or why,
                line=line,
                by_another=bool(another),
                edit=""
                if another or proof.refusal
                else _edit(goal.get(name), expected.get(name), line),
            )

    @tracked()
    def _proof(self, file: JobFile) -> _Proof:
        goal, path = self._goal(file), file.rendered
        if goal in (self._committed(base, path) for base in self._lineage.bases):
            return _Proof(True, goal)
        believed = self._known(file)
        if goal in believed or self._leads(self._workspace, file, believed, goal):
            refusal = self._refusal(file, goal)
            return _Proof(not refusal, believed[0] if refusal else goal, refusal=refusal)
        last = believed[-1] or next(self._elsewhere(self._workspace, file, goal), {})
        if self._was_written_here(file, goal):
            return _Proof(True, last, here=True)
        return _Proof(False, last, self._derived(self._workspace, file, last, goal))

    @tracked()
    def _known(self, file: JobFile) -> Sequence[State]:
        """Return the states of a job's folder that are believed: in the bases and the branch."""
        path = file.rendered
        believed = [self._committed(base, path) for base in self._lineage.bases]
        for commit in self._lineage.own(path):
            state = self._committed(commit, path)
            if state not in believed and self._leads(self._commit(commit), file, believed, state):
                believed.append(state)
        return believed

    def _refusal(self, file: JobFile, goal: State) -> str:
        """Return why the environment takes no run that is new to the base, or "" if it does."""
        record, sources = _parsed(goal), self._sources(self._workspace, file)
        if record is None or sources is None or record.state in ENDED:
            return ""
        if not self._is_new(file, record):
            return ""
        from trainwright.render import permitted  # which needs all rules

        texts = {name: raw.decode(errors="replace") for name, raw in _manifests(goal).items()}
        return permitted.refusal(record, texts, sources)

    def _is_new(self, file: JobFile, record: Record) -> bool:
        """Whether a run is not in the bases, so that a review of the last commit must accept it."""
        return not self._lineage.whole and record.object not in self._of_bases(file)

    def _of_bases(self, file: JobFile) -> frozenset[str]:
        """Return the objects of a job's runs in the bases, also of its renamed environment."""
        if file not in self._objects:
            gone = {*self._commit(self._lineage.bases[0]).survey.jobs}
            names = (file.environment, *sorted(gone - {*self._workspace.survey.jobs}))
            paths = [f"{rendered_folder(name)}/{file.name}" for name in names]
            bases = self._lineage.bases
            states = (self._committed(base, path) for base in bases for path in paths)
            self._objects[file] = frozenset(record.object for record in _records(states))
        return self._objects[file]

    def _leads(
        self, workspace: Workspace, file: JobFile, believed: Iterable[State], goal: State
    ) -> bool:
        """Whether a workspace's sources turn one of the believed states into `goal`.

        A run that has ended may have begun in between: none of it is applied, before or after.
        """
        record = _parsed(goal)
        ended: tuple[State, ...] = ({},) if record and record.state in ENDED else ()
        tried: list[State] = []
        for before in (*reversed(tuple(believed)), *ended, *self._elsewhere(workspace, file, goal)):
            tried.append(before)
            if self._makes(workspace, file, before, goal):
                return True
        earlier = (state for state in self._earlier(file) if state not in tried)
        if any(self._makes(workspace, file, before, goal) for before in earlier):
            return True
        now = workspace.reader.source(file.path)
        if record is None or record.source == now:
            return False
        return any(
            self._makes(before_edit, file, before, goal, {record.source})
            for before_edit in self._before_the_edit(workspace, file)
            for before in tried
        )

    def _before_the_edit(self, workspace: Workspace, file: JobFile) -> Iterator[Workspace]:
        """Yield what a job was before its last edits, with the state that it has now: a verb may
        have rendered that state, or the end of its run, before the edits, and all is one commit.
        """
        now = self._sources(workspace, file)
        path = ledger.path(file.environment)
        commits = (*reversed(self._lineage.own(file.path)), *self._lineage.bases)
        sound = now is not None or not workspace.has(file)
        for side in map(self._commit, commits if sound else ()):
            if (was := self._sources(side, file)) is None:
                continue
            edits = {path: workspace.tree.read(path)} if workspace.tree.kind(path) else {}
            if now and was.job.state != now.job.state:
                state = now.own.get(_STATE)
                edits[file.path] = _in_state(file, side.tree.read(file.path), state)
            yield Workspace(Edited(side.tree, edits))

    def _makes(
        self,
        workspace: Workspace,
        file: JobFile,
        before: State,
        goal: State,
        texts: Collection[str] = (),
    ) -> bool:
        """Whether the sources of a workspace turn one state into another; `texts` are the digests
        of other texts of the job's own file that its record may have been compared with.
        """
        if not self._is_adopted_still(workspace, file, _parsed(goal)):
            return False
        derived = self._derived(workspace, file, before, goal)
        texts = {workspace.reader.source(file.path), *texts}
        return derived is not None and _is_same(file, goal, derived, before, texts)

    def _is_adopted_still(self, workspace: Workspace, file: JobFile, record: Record | None) -> bool:
        """Whether the adopted object of a new run is the one that reviewers see now."""
        if record is None or not record.adopted or not self._is_new(file, record):
            return True
        both = [side.adopted(file) for side in (workspace, self._workspace)]
        bodies = [item.manifest.body for item in both if isinstance(item, Adopted)]
        return len(bodies) == len(both) and bodies[0] == bodies[1]

    def _derived(
        self, workspace: Workspace, file: JobFile, before: State, goal: State | None = None
    ) -> State | None:
        """Return what a workspace's sources render for a job (empty: no job), or None on errors."""
        if not workspace.has(file):
            return {}
        entries = workspace.ledger(file.environment)
        if workspace.sound(file.environment) is None or entries.findings:
            return None
        from trainwright.render import job as render

        record = _parsed(goal) if goal else None
        context = render.Context(
            engine=self._engine,
            ledger=entries,
            check_next_runs=False,
            new_runs=True,
            replaces=self._replaced(workspace, file, record),
        )
        recorded = _recorded(file, before) if before else None
        try:
            rendered = render.alone(workspace.resolve(file), context, recorded)
        except TrainwrightError:
            return None
        if not rendered.usable or rendered.record is None:
            return None
        texts = {name: text.encode() for name, text in rendered.files.items()}
        if not texts and recorded and rendered.decision and rendered.decision.step is Step.KEEP:
            texts = {name: before[name] for name in rendered.record.files}
        return {**texts, RECORD_FILE: records.text(file.path, rendered.record).encode()}

    def _replaced(self, workspace: Workspace, file: JobFile, record: Record | None) -> str | None:
        """Return the object that a record has as replaced, or None if it cannot be the job's."""
        if record is None:
            return None
        adopted = workspace.adopted(file)
        names = {"", *workspace.ledger(file.environment).runs, *self._of_bases(file)}
        names |= {adopted.name} if isinstance(adopted, Adopted) else set()
        name = record.replaces
        return name if name in names or identity.is_of(file.name, name) else None

    def _elsewhere(self, workspace: Workspace, file: JobFile, goal: State) -> Iterator[State]:
        """Yield the believed folders of the same run in an environment that is there no more: one
        that was renamed takes its runs along.
        """
        if (record := _parsed(goal)) is None:
            return
        names = {record.environment_name, *self._before_it_was_made(file.environment)}
        for environment in sorted(names - {"", *workspace.survey.jobs}):
            there = JobFile(environment, file.name)
            if there in self._followed:  # an environment that was renamed there and back
                continue
            self._followed.add(there)
            states = reversed(self._known(there))
            self._followed.remove(there)
            for state in states:
                was = _parsed(state)
                if was is not None and was.object in (record.object, record.replaces):
                    yield state

    def _before_it_was_made(self, environment: str) -> Collection[str]:
        """Return the environments in the base, or where all of history is the branch, in the
        commits that the one with a new environment came after.
        """
        base, lineage = self._lineage.bases[0], self._lineage
        own = lineage.own(environment_path(environment))[:1] if lineage.whole else ()
        parents = [name for commit in own for name in lineage.repository.parents(commit)]
        return {name for commit in (base, *parents) for name in self._commit(commit).survey.jobs}

    def _earlier(self, file: JobFile) -> Iterator[State]:
        """Return a job's folder as of commits before the base, for runs reverted to or restored."""
        path = file.rendered
        if file not in self._shared:
            self._shared[file] = self._lineage.shared(f"{path}/{RECORD_FILE}", _EARLIER)
        states = (self._committed(commit, path) for commit in self._shared[file])
        return (state for state in states if RECORD_FILE in state)

    def _was_written_here(self, file: JobFile, goal: State) -> bool:
        """Whether this machine rendered a folder that is in no commit.

        What it was rendered from may be in no commit either, and may have been edited since.
        """
        record = _parsed(goal) if self._on_disk else None
        path = file.rendered
        if record is None or goal == self._committed(self._lineage.tips[0], path):
            return False
        sums = {name: filetree.digest_of(raw) for name, raw in _manifests(goal).items()}
        heads = written.records(self._root, file.environment, file.name)
        head = heads.get(filetree.digest_of(goal[RECORD_FILE]))
        return sums == record.files and head is not None and self._is_before_head(head)

    def _is_before_head(self, commit: str) -> bool:
        """Whether HEAD's history has a commit. After a squash or a rebase it lacks the old commits,
        and with them what was rendered there.
        """
        if not commit or commit == self._lineage.tips[0]:
            return True
        try:
            self._lineage.repository.git(
                "merge-base", "--is-ancestor", commit, self._lineage.tips[0]
            )
        except GitError:
            return False
        return True

    # --- what is beside the jobs ---------------------------------------------------------------

    def _of_list(self, environment: str) -> Iterator[Underived]:
        """Yield the kustomization that GitOps applies unless it lists exactly what is recorded."""
        folder = self._workspace.folder(environment)
        path = f"{folder.path}/{KUSTOMIZATION_FILE}"
        present = self._at_hand(path)
        text = (present or b"").decode(errors="replace")
        copies = [f"{COPIES}/{name}" for name in self._state_here(f"{folder.path}/{COPIES}")]
        listed = {**folder.records, **self._torn(environment)}
        if not text and not listed and not copies:
            return
        written = kustomization.written(environment, listed, copies)
        if kustomization.is_right(environment, listed, text, copies):
            return
        why, line = difference(present, written.encode())
        yield Underived(environment=environment, job="", path=path, why=why, line=line)

    def _torn(self, environment: str) -> Mapping[str, Record]:
        """Return the records to expect in place of those that are missing or cannot be read, by
        job: the list is not wrong because of them.
        """
        folder = self._workspace.folder(environment)
        by_job = {}
        for file in self._workspace.survey.jobs.get(environment, ()):
            if folder.is_unreadable(file.name) or folder.unclaimed(file.name):
                proof = self._proof(file)
                by_job[file.name] = _parsed(proof.expected or {}) or _parsed(proof.believed)
        return {job: record for job, record in by_job.items() if record is not None}

    def _of_copies(self, environment: str, inside: frozenset[str]) -> Iterator[Underived]:
        """Yield copies of additional objects that match no source, present or committed."""
        changed = sorted(own_objects.copied(inside))
        if not changed:
            return
        sides = [self._workspace, *map(self._commit, self._lineage.tips if self._on_disk else ())]
        for path in changed:
            full = f"{rendered_folder(environment)}/{path}"
            present = self._at_hand(full)
            wanted = [side.own_objects(environment).copies.get(path) for side in sides]
            if present not in [text.encode() if text is not None else None for text in wanted]:
                why, line = difference(present, wanted[0].encode() if wanted[0] else None)
                yield Underived(environment=environment, job="", path=full, why=why, line=line)

    def _strays(self, environment: str, inside: frozenset[str]) -> Iterator[Underived]:
        """Yield files at the top of a rendered folder that nothing renders."""
        folder = rendered_folder(environment)
        for path in sorted(inside):
            stray = "/" not in path and path != KUSTOMIZATION_FILE
            if stray and self._workspace.rendered_tree.kind(f"{folder}/{path}"):
                full = f"{folder}/{path}"
                why = _extra(self._at_hand(full))
                yield Underived(environment=environment, job="", path=full, why=why)

    def _of_ledger(self, environment: str) -> Iterator[Underived]:
        """Yield each ledger entry that is new or changed and is of no run that the job has had."""
        path = ledger.path(environment)
        if path not in self.changed:
            return
        base, here = self._commit(self._lineage.bases[0]), self._workspace
        if not (base.folder(environment).is_there or here.folder(environment).is_there):
            return  # what is rendered is kept elsewhere
        base_runs = base.ledger(environment).runs
        entries = self._workspace.ledger(environment).runs
        gone = {*base.survey.jobs} - {*here.survey.jobs}
        renamed = [entry for name in sorted(gone) for entry in base.ledger(name).runs.values()]
        unknown = {name: entry for name, entry in entries.items() if name not in base_runs}
        numbered = sorted(unknown.values(), key=lambda entry: entry.run)
        believed: set[str] = set()
        for entry in numbered:  # a run may have begun in place of one with a lower number
            if self._has_run(entry, environment, believed):
                believed.add(entry.object)
        for name, entry in entries.items():
            file, was = JobFile(environment, entry.job), base_runs.get(name)
            if was is not None and replace(was, place=entry.place) == entry:
                continue
            if was is None and name in believed:
                continue
            if any(replace(it, place=entry.place) == entry for it in renamed):
                continue
            why = (
                f"lists {name}, which is not a run that {entry.job} has had"
                if was is None
                else f"has another entry of {name} than when it was retired"
            )
            yield Underived(
                environment=environment, job=file.name, path=path, why=why, line=entry.place.line
            )

    def _has_run(self, entry: LedgerEntry, environment: str, others: Collection[str]) -> bool:
        """Whether a run of a job is recorded in the base, before it, or where it is believed.

        Or whether a rerun stepped over it: runs may begin and end without a commit in between.
        """
        file = JobFile(environment, entry.job)
        path = f"{rendered_folder(environment)}/{file.name}"
        earlier = (self._committed(self._lineage.bases[0], path), *self._earlier(file))
        own = (self._committed(commit, path) for commit in self._lineage.own(path))
        moved = self._elsewhere(self._workspace, file, self._goal(file))
        shared, branch = map(_records, (earlier, (self._proof(file).believed, *own, *moved)))
        # That a run of the branch has finished was taken from the ledger.
        run_records = [*shared, *(record for record in branch if record.state != "finished")]
        if any(_is_of(entry, record) for record in run_records):
            return True
        adopted = self._workspace.adopted(file)
        if isinstance(adopted, Adopted) and adopted.name == entry.object:
            return not shared
        last = entry.run - any(_is_of(entry, record) for record in branch)
        objects = {"", *(record.object for record in run_records), *others}
        return self._was_stepped_over(file, entry, objects, last)

    def _was_stepped_over(
        self, file: JobFile, entry: LedgerEntry, objects: Iterable[str], last: int
    ) -> bool:
        """Whether a ledger entry is of a run that some commit of the branch would have begun in
        place of a known one. The job's run number must be above `last` now.
        """
        now = self._sources(self._workspace, file)
        if now is None or last >= now.job.run:
            return False
        sides = (self._workspace, *map(self._commit, self._lineage.own(file.path)))
        for sources in (self._sources(side, file) for side in sides):
            if sources is None:
                continue
            own = meaning.digest({**sources.own, "run": entry.run}, entry.run)
            if entry.own != own:
                continue
            numbered = replace(sources, job=replace(sources.job, run=entry.run))
            if any(decide.begun_name(numbered, replaced) == entry.object for replaced in objects):
                return True
        return False

    @staticmethod
    def _sources(workspace: Workspace, file: JobFile) -> Sources | None:
        """Return a job's sources in a workspace; None if it has none, or they have errors."""
        if not workspace.has(file) or workspace.sound(file.environment) is None:
            return None
        return workspace.resolve(file).sources

    # --- trees ---------------------------------------------------------------------------------

    def _commit(self, commit: str) -> Workspace:
        if commit not in self._at:
            tree = self._lineage.repository.tree(commit, self._lineage.inside, later=RENDERED)
            self._at[commit] = Workspace(tree)
        return self._at[commit]

    def _committed(self, commit: str, folder: str) -> State:
        return _state(self._commit(commit).tree, folder)

    def _goal(self, file: JobFile) -> State:
        """Return the folder of a job as it is at hand."""
        return self._state_here(file.rendered)

    def files(self, environment: str) -> State:
        """Return all files in an environment's rendered folder, by path in it."""
        return self._state_here(rendered_folder(environment))

    def _at_hand(self, path: str) -> bytes | None:
        """Return a file as it is now, in the form that git stores, or None if there is none."""
        tree = self._workspace.rendered_tree
        if self._on_disk and not _contains(self._uncommitted, path):
            tree = self._commit(self._lineage.tips[0]).tree
        return _content(tree, path) if tree.kind(path) else None

    def _state_here(self, folder: str) -> State:
        """Return the present state of a folder, as git would store it."""
        if not self._on_disk:
            return _state(self._workspace.rendered_tree, folder)
        edited = frozenset(_inside(folder, self._uncommitted))
        start = len(folder) + 1
        committed = self._committed(self._lineage.tips[0], folder)
        kept = {name: raw for name, raw in committed.items() if f"{folder}/{name}" not in edited}
        tree = self._workspace.rendered_tree
        return kept | {path[start:]: _content(tree, path) for path in edited if tree.kind(path)}


def findings(underived: Iterable[Underived]) -> tuple[Finding, ...]:
    """Return a finding about each file that cannot be derived; one about all files of a folder that
    are as rendered from another source, as after the rename of a job.
    """
    found: list[Finding] = []
    by_source: defaultdict[str, list[Underived]] = defaultdict(list)
    for it in underived:
        if it.line == 1 and it.why.startswith(_OTHER_SOURCE):
            by_source[it.path.rpartition("/")[0]].append(it)
        else:
            found.append(finding(it))
    for files in by_source.values():
        one = finding(files[0])
        message = f"{len(files)} files are as rendered from another source: {one.message}"
        found.append(replace(one, message=message) if len(files) > 1 else one)
    return tuple(found)


_OTHER_SOURCE = f"has '{RENDERED_FROM}"


def finding(underived: Underived) -> Finding:
    """Return the finding about a file that cannot be derived, at its first differing line."""
    subject = f"{underived.environment}/{underived.job}" if underived.job else underived.environment
    message = f"{underived.path.rpartition('/')[2]} {underived.why}"
    return dx.UNDERIVED.at(Location(underived.path, underived.line, 1), message, subject=subject)


def may_decide(path: str) -> bool:
    """Whether an edit of a file may change which other rendered files can be derived."""
    is_folder = path.count("/") < 2 and not path.endswith(".yaml")
    inside = f"/{RENDERED}" in path or f"/{ADOPTED}" in path
    return inside or path.endswith(f"/{LEDGER_FILE}") or is_folder


# What a rendered folder may be instead, by its kind. Rendering does not remove what is in its way.
_NO_FOLDER = {
    "": "is gone, and so is every run in it",
    "file": "is not a folder: remove it, and then run `trainwright render`",
    "link": "is a symbolic link: remove it, and then run `trainwright render`",
    "folder": "was not a folder before: commit what `trainwright render` writes",
}
_SHOWN = 80  # characters of a line
_OBJECTS = 8  # named of a file
_READ = 1024 * 1024  # bytes of a file that nothing renders: an object of Kubernetes is no larger
_EXTRA = "is rendered by nothing"
MISSING = "is missing"


def _inside(folder: str, paths: Sequence[str]) -> Sequence[str]:
    """Return those of the sorted paths that are inside a folder."""
    first, end = (bisect_left(paths, f"{folder}{after}") for after in ("/", chr(ord("/") + 1)))
    return paths[first:end]


def _contains(paths: Sequence[str], path: str) -> bool:
    """Whether the sorted paths contain a path."""
    at = bisect_left(paths, path)
    return at < len(paths) and paths[at] == path


def _state(tree: Tree, folder: str) -> State:
    """Return the files of a folder of a tree, by path in it."""
    paths = paths_below(tree, folder) if tree.kind(folder) == "folder" else ()
    return {path.removeprefix(f"{folder}/"): _content(tree, path) for path in paths}


def _content(tree: Tree, path: str) -> bytes:
    """Return the bytes of a file; for anything else, a null byte and why it is not a file."""
    if tree.kind(path) != "file":
        return b"\0not a regular file"
    try:
        return tree.read(path)
    except OSError as error:
        return f"\0not readable: {error.strerror}".encode()


def _is_of(entry: LedgerEntry, record: Record) -> bool:
    """Whether a ledger entry is of a recorded run: same object, run number and job digest."""
    own = meaning.digest(record.job, record.run)
    ran = (record.object, record.run)
    return (entry.object, entry.run, entry.own) == (*ran, own)


def _recorded(file: JobFile, state: State) -> Recorded | None:
    folder = rendered_folder(file.environment)
    files = {f"{folder}/{file.name}/{name}": raw for name, raw in state.items()}
    return RenderedFolder(Edited(NOTHING, files), file.environment).recorded(file.name)


def _records(states: Iterable[State]) -> list[Record]:
    """Return the records in folders of a job that can be read."""
    return [record for state in states if (record := _parsed(state))]


def _parsed(state: State) -> Record | None:
    return records.parse(state[RECORD_FILE]) if RECORD_FILE in state else None


def _is_same(
    file: JobFile, goal: State, derived: State, before: State, texts: Collection[str]
) -> bool:
    """Whether a folder is what was derived, byte for byte.

    A record may still differ in two ways: it was last compared with another text of the job's own
    file that means the same; or another version of the tool, which it names, renders these bytes.
    """
    if goal == derived:
        return True
    record, expected, was = _parsed(goal), _parsed(derived), _parsed(before)
    if record is None or expected is None or _manifests(goal) != _manifests(derived):
        return False
    if goal == before and record == expected:  # it names the environment that was renamed
        return True
    if record.source in {*texts, *([was.source] if was else [])}:
        expected = replace(expected, source=record.source)
    if was is None or was.object != record.object:
        expected = replace(expected, trainwright=record.trainwright, chart=record.chart)
    return goal[RECORD_FILE] == records.text(file.path, expected).encode()


def _in_state(file: JobFile, raw: bytes, state: Data) -> bytes:
    """Return the text of a job's own file with another state, or without any."""
    at = Pointer.of(_STATE)
    with suppress(editing.EditError):
        if state is None:
            return editing.drop(file.path, raw, at)
        return editing.put(file.path, raw, at, state)
    return raw


_STATE = "state"


def _manifests(state: State) -> State:
    return {name: raw for name, raw in state.items() if name != RECORD_FILE}


def difference(present: bytes | None, expected: bytes | None) -> tuple[str, int]:
    """Return how a file differs from what is derived, and the first line that differs."""
    if expected is None:
        return _extra(present), 1
    if present is None:
        return MISSING, 1
    if present.startswith(b"\0"):
        return f"is {present[1:].decode()}", 1
    lines = [raw.decode(errors="replace").splitlines(keepends=True) for raw in (present, expected)]
    return _weighty(*lines) or _first_difference(*lines)


def _first_difference(present: Sequence[str], expected: Sequence[str]) -> tuple[str, int]:
    lines = (present, expected)
    for number, (present_line, expected_line) in enumerate(zip(*lines, strict=False), start=1):
        if present_line != expected_line and present_line.strip() == expected_line.strip():
            return "has other white space, or ends of lines, than what is rendered", number
        if present_line != expected_line:
            return f"has {_quoted(present_line)} where {_quoted(expected_line)} is rendered", number
    shorter, longer = sorted(lines, key=len)
    missing = shorter is lines[0]
    line = longer[len(shorter)] if len(longer) > len(shorter) else ""
    more = f"{'lacks' if missing else 'adds'} {_quoted(line)}"
    return more, max(1, len(shorter) + (not missing))


# Fields that decide what a pod executes, and with which rights.
_WEIGHTY = frozenset(
    "image command args privileged allowPrivilegeEscalation runAsUser runAsNonRoot add hostNetwork "
    "hostPID hostIPC hostPath serviceAccountName serviceAccount".split()
)
_KEY = re.compile(r"\s*(?:- )?([A-Za-z]+):(?:\s|$)")


def _weighty(present: Sequence[str], expected: Sequence[str]) -> tuple[str, int] | None:
    """Return the first line of a weighty field that only the present file has, or None."""
    wanted = Counter(line.strip() for line in expected)
    left = wanted - Counter(line.strip() for line in present)
    for number, (line, key) in enumerate(zip(present, _keys(present), strict=True), start=1):
        if wanted[line.strip()]:
            wanted[line.strip()] -= 1
        elif key in _WEIGHTY:
            instead = next((it for it in left if _matched(it) == key == _matched(line)), "")
            rendered = f" where {_quoted(instead)} is rendered" if instead else ""
            return f"{'has' if instead else 'adds'} {_quoted(line)}{rendered}", number
    return None


def _edit(present: bytes | None, expected: bytes | None, line: int) -> str:
    """Return what a line has otherwise than what is rendered, as "numNodes 4 → 8"; "" where no
    value of a key differs there.
    """
    if present is None or expected is None or present.startswith(b"\0"):
        return ""
    lines, wanted = (raw.decode(errors="replace").splitlines() for raw in (present, expected))
    keys, there = [*_keys(lines)], {it.strip() for it in lines}
    key = keys[line - 1] if line <= len(keys) else ""
    new = lines[line - 1].strip() if key else ""
    if not key or new in {it.strip() for it in wanted}:
        return ""
    same = (old for old, of in zip(wanted, _keys(wanted), strict=True) if of == key)
    old = next((it for it in map(str.strip, same) if it not in there), "")
    return f"{key} {_value(old)} → {_value(new)}" if old else f"{key} added"


def _value(line: str) -> str:
    """Return the value that a line has, of a key or as the item of a list."""
    item = line.removeprefix("- ")
    return item.partition(": ")[2] if _matched(item) else item


def _keys(lines: Sequence[str]) -> Iterator[str]:
    """Yield the key of each line, or the key of the list that it is an item of."""
    indents, keys = [0], [""]  # of the mappings around a line
    for line in lines:
        key, text = _matched(line), line.lstrip()
        indent = len(line) - len(text)
        if text.startswith("- "):
            yield key or keys[bisect_right(indents, indent) - 1]
            continue
        yield key
        around = bisect_left(indents, indent)
        indents[around:], keys[around:] = [indent], [key]


def _matched(line: str) -> str:
    found = _KEY.match(line)
    return found[1] if found else ""


def _extra(present: bytes | None) -> str:
    """Return that nothing renders a file, with the objects in it and what they give to whom."""
    given = present or b""
    if len(given) > _READ:
        return _EXTRA
    found = (it for it in yamlio.documents("", given, GO) if isinstance(it, Document))
    bodies = (it.data for it in found if isinstance(it.data, dict))
    objects = [it for it in (Manifest(body=body) for body in bodies) if it.kind and it.name]
    titles = [f"{it.title}{_bracketed(grants(it))}" for it in objects]
    return f"{_EXTRA}: {listed(titles, _OBJECTS)}" if titles else _EXTRA


def _bracketed(text: str) -> str:
    return f" ({text})" if text else ""


def _quoted(line: str) -> str:
    """Return a line as far as it is shown."""
    text = line.strip()
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}…"


def _by_another(goal: State, expected: State) -> str:
    """Return that another version of tool or chart rendered a run; empty if none did."""
    record, now = _parsed(goal), _parsed(expected)
    versions = [(written.trainwright, written.chart) for written in (record, now) if written]
    if record is None or now is None or versions[0] == versions[1]:
        return ""
    by, this = (f"Trainwright {version} with chart {chart}" for version, chart in versions)
    return f"was rendered by {by}, and {this} renders other bytes"
