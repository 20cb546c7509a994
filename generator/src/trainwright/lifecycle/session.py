"""A verb over many jobs: worked out in full, held against the rules, and only then written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from posixpath import join

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.errors import OutputError, TrainwrightError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ENVIRONMENTS, JobFile, rendered_folder
from trainwright.datatypes.listing import listed
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.documents import yamlio
from trainwright.files import filetree, git
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Edited, Folder, Tree
from trainwright.findings.diagnostics import HELD
from trainwright.lifecycle.subject import Step
from trainwright.render import build as plan
from trainwright.render import written
from trainwright.render.build import Build, EnvironmentBuild
from trainwright.render.history import History
from trainwright.rules.edits import outcomes
from trainwright.runs.kustomization import KUSTOMIZATION_FILE
from trainwright.runs.record import VALUES_FILE
from trainwright.runs.workspace import Workspace

Act = Callable[[Tree, JobFile, History], Step]


@dataclass(frozen=True)
class Outcome:
    """The result of a verb: a step for each job, and the tree with all files as they should be.

    `before` are the files as they were read, those that there were.
    """

    steps: tuple[tuple[JobFile, Step], ...]
    tree: Edited
    before: Mapping[str, bytes]

    @property
    def files(self) -> Mapping[str, bytes]:
        """The new contents of the files that people write, by path."""
        return self.tree.files

    @cached_property
    def changed(self) -> tuple[JobFile, ...]:
        """The jobs that are rendered differently, or not any more."""
        return tuple(step.about or file for file, step in self.steps if step.files)

    @property
    def for_the_run(self) -> Mapping[JobFile, str]:
        """The jobs whose change has to reach what runs, and the field that changed."""
        return {file: step.for_the_run for file, step in self.steps if step.files}


def work_out(root: Path, files: tuple[JobFile, ...], act: Act) -> Outcome:
    """Apply a verb to each job in turn, in memory."""
    tree, history = Edited(Tracked(Folder(root)), {}), History(root)
    steps, before = [], {}
    for file in files:
        step = act(tree, file, history)
        steps.append((file, step))
        for path in step.files:
            if path not in tree.files and tree.kind(path):
                before[path] = tree.read(path)
        tree = Edited(tree.below, {**tree.files, **step.files})
    return Outcome(tuple(steps), tree, before)


def rendered(root: Path, outcome: Outcome, options: plan.BuildOptions) -> Build:
    """Render the edited jobs, and compare them with what is on disk."""
    patterns = tuple(map(str, outcome.changed))
    return plan.build(root, patterns, replace(options, recover=True), specs=outcome.tree)


def is_rendered(root: Path, environment: str) -> bool:
    """Whether an environment's rendered files are kept beside its specs."""
    return (root / rendered_folder(environment) / KUSTOMIZATION_FILE).is_file()


# --- what would not reach what runs --------------------------------------------------------------


def refuse_what_live_objects_refuse(root: Path, outcome: Outcome, done: EnvironmentBuild) -> None:
    """Raise an error when a live object would have to change where it cannot.

    A change that is for the run alone has to reach it, too.
    """
    for file, field in outcome.for_the_run.items():
        if file.environment == done.name and field in done.runs[file.name].held:
            raise _cannot_be_changed(file, _held(done, file, field))
    environment = Workspace(outcome.tree).sound(done.name)
    for path, text in done.changes.changed.items() if done.changes else ():
        job = path.partition("/")[0]
        if path.endswith(".yaml") and job != path and not path.endswith(f"/{VALUES_FILE}"):
            before = (root / done.folder / path).read_text(encoding="utf-8")
            for why in _wrong(before, text, environment):
                raise _cannot_be_changed(JobFile(done.name, job), why)


def _cannot_be_changed(file: JobFile, why: str) -> TrainwrightError:
    return TrainwrightError(
        f"{file} cannot be changed while it runs: {why}; write it into {file.path} for the next "
        f"run, which `trainwright rerun {file}` begins"
    )


def _held(done: EnvironmentBuild, file: JobFile, field: str) -> str:
    """Return why an edit takes effect only with the next run of the job."""
    at = Pointer.of(*field.split("."))
    findings = (f for f in done.findings if (f.rule, f.subject) == (HELD.id, str(file)))
    return next(
        (f.message for f in findings if f.path.within(at)), f"{field} waits for its next run"
    )


def _wrong(before: str, after: str, environment: Environment | None) -> Iterator[str]:
    now = {m.identity: m for m in map(_manifest, yamlio.load_rendered(after))}
    for old in map(_manifest, yamlio.load_rendered(before)):
        if old.identity in now:
            for checked in outcomes.evaluate(old, now[old.identity], environment):
                if checked.verdict in outcomes.REFUSED:
                    yield f"{checked.pointer}, {checked.why}"


def _manifest(body: dict[str, object]) -> Manifest:
    return Manifest(body=body)


# --- writing -------------------------------------------------------------------------------------


def write(root: Path, outcome: Outcome, environments: tuple[EnvironmentBuild, ...]) -> None:
    """Write the edited specs, then what they render to; neither if one cannot be written."""
    with ExitStack() as stack:
        finishing = [
            stack.enter_context(filetree.prepared(root / each.folder, each.changes))
            for each in environments
            if each.changes
        ]
        filetree.write(root, ENVIRONMENTS, outcome.files, outcome.before)
        for finish in finishing:
            finish()
    for each in environments:
        if each.changes:
            written.note(root, each.name, each.changes)


class Committing:
    """A commit of exactly the files that a verb changes."""

    def __init__(self, root: Path):
        self._repository, self._inside = git.find(root)
        self._ignored = self._repository.ignored(self._folder)  # some of which may be removed

    def _paths(
        self, outcome: Outcome, environments: tuple[EnvironmentBuild, ...]
    ) -> frozenset[str]:
        changed = set(outcome.files)
        for environment in environments:
            changes = environment.changes or filetree.Changes({}, {}, ())
            paths = (*changes.written, *changes.removed)
            changed |= {f"{environment.folder}/{path}" for path in paths}
        return frozenset(join(self._inside, path) for path in changed)

    @property
    def _folder(self) -> str:
        return join(self._inside, ENVIRONMENTS)

    def refuse_mixing(self, outcome: Outcome, environments: tuple[EnvironmentBuild, ...]) -> None:
        """Raise an error when a file to commit has unrelated edits in it."""
        ours = self._paths(outcome, environments)
        mixed = sorted(ours & self._repository.uncommitted(self._folder))
        if mixed:
            raise OutputError(f"uncommitted changes in {listed(mixed, 1)}: commit them first")

    @contextmanager
    def undone_unless_committed(
        self, outcome: Outcome, environments: tuple[EnvironmentBuild, ...]
    ) -> Iterator[None]:
        """Undo what is written inside this context if it ends with an error or Ctrl-C."""
        with self._repository.undone_unless_committed(self._paths(outcome, environments)):
            yield

    @property
    def is_on_branch(self) -> bool:
        """Whether a branch is checked out, and not just a commit."""
        return self._repository.is_on_branch

    def commit(
        self, outcome: Outcome, environments: tuple[EnvironmentBuild, ...], message: str
    ) -> str:
        """The hash of the commit, made by git itself: its hooks and its signing count."""
        ours = self._paths(outcome, environments)
        ignored = self._ignored | self._repository.ignored(self._folder)
        return self._repository.record(ours - ignored, message)


def message(verb: str, outcome: Outcome, subject: str) -> str:
    """Return the commit message: what was done to which jobs, with trailers for tools."""
    jobs = sorted(str(file) for file, step in outcome.steps if step.files)
    named = ", ".join(jobs) if len(jobs) <= 3 else f"{len(jobs)} jobs"
    lines = [f"{file} {step.message}" for file, step in outcome.steps if step.files]
    trailers = [f"Trainwright-Verb: {verb}", *(f"Trainwright-Job: {job}" for job in jobs)]
    head = subject or f"{verb.capitalize()} {named}"
    return "\n\n".join((head, "\n".join(lines), "\n".join(trailers))) + "\n"
