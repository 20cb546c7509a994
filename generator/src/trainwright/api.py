"""The Python API: what the command does, as a dozen typed names.

    from trainwright.api import Repository

    repository = Repository.find("~/training")
    for finding in repository.check("prod").findings:
        print(finding.place, finding.rule, finding.message)

Only a major version changes these names and their signatures; all other modules of the package are
internal. Errors that a user can cause are `TrainwrightError`s, whose text says what to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import field, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.datatypes.errors import SelectionError, TrainwrightError
from trainwright.datatypes.finding import Finding, Location, Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import WIRING

if TYPE_CHECKING:
    from trainwright.files.tree import Tree
    from trainwright.plan.model import Plan
    from trainwright.render.build import Build, BuildOptions
    from trainwright.runs.wiring_files import WiringFiles
    from trainwright.runs.workspace import JobRun, Workspace
    from trainwright.specs.demand import Demand
    from trainwright.specs.explain import Explanation

__all__ = [
    "Check",
    "Finding",
    "Location",
    "Proposal",
    "Rendering",
    "Repository",
    "SelectionError",
    "Severity",
    "TrainwrightError",
]


@dataclass(frozen=True, slots=True)
class Check:
    """The findings about some jobs, by position, and the jobs that were checked ("env/job")."""

    findings: tuple[Finding, ...]
    jobs: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there are no errors; warnings and notes do not count."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Rendering:
    """How rendered files differ from those on disk: new text by path, and paths that are removed.
    Paths are relative to the root.

    Both are empty where there are errors.
    """

    check: Check
    written: Mapping[str, str] = field(repr=False)
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """An edit that was not made: its unified diff, and the findings with it.

    `fixed` are findings that it would remove, `added` those that it would bring.
    """

    diff: str
    check: Check
    fixed: tuple[Finding, ...]
    added: tuple[Finding, ...]


class Repository:
    """A folder with `environments/` in it, read anew by every call.

    `today` is the date on which waivers are judged expired or not, in ISO 8601; if empty, the
    current date in UTC.
    """

    def __init__(self, root: str | Path, *, today: str = ""):
        """Use a folder as the repository. Raise ValueError if `today` is not a date."""
        self.root: Path = Path(root).expanduser().absolute()
        self.today = date.fromisoformat(today).isoformat() if today else ""

    @classmethod
    def find(cls, start: str | Path = ".", *, today: str = "") -> Repository:
        """Return the nearest repository at or above a folder. Raise TrainwrightError if none is."""
        from trainwright.files.tree import find_root

        return cls(find_root(Path(start).expanduser().absolute()), today=today)

    def jobs(self) -> dict[str, JobRun]:
        """The run of every job by "env/job": its object, its state, and changes it lacks."""
        from trainwright.files.tree import Folder
        from trainwright.runs.workspace import Workspace

        workspace = Workspace(Folder(self.root))
        files = (file for files in workspace.survey.jobs.values() for file in files)
        return {str(file): workspace.run(file) for file in files}

    def check(self, *selections: str) -> Check:
        """Return findings about "env", "env/job" or globs of these; by default about everything.

        Raise SelectionError if a selection matches nothing.
        """
        return _check(self.build(selections, replace(self._options(), wired=wired)))

    def render(self, *selections: str, write: bool = False) -> Rendering:
        """Render into environments/<env>/rendered, on disk only with `write`.

        Runs that are recorded keep their bytes. With errors nothing is written.
        """
        from trainwright.files import filetree

        options = replace(self._options(), check_next_runs=False, recover=True, writes=write)
        with ExitStack() as stack:
            if write:
                stack.enter_context(filetree.held(self.root))
            build = self.build(selections, options)
            if write and not build.failed:
                write_files(self.root, build)
        changes = {
            environment.folder: environment.changes
            for environment in build.environments
            if environment.changes
        }
        return Rendering(
            check=_check(build),
            written={
                f"{folder}/{path}": text
                for folder, change in changes.items()
                for path, text in change.written.items()
            },
            removed=tuple(
                f"{folder}/{path}" for folder, change in changes.items() for path in change.removed
            ),
        )

    def plan(
        self,
        *selections: str,
        against: str = "origin/HEAD",
        head: str | None = None,
        crds: Path | None = None,
        helm: str | None = None,
        edits: Mapping[str, str] | None = None,
    ) -> Plan:
        """What merging `head`, by default the working tree, into `against` does to each job.

        `crds` are CustomResourceDefinitions as files, whose rules about changes are checked too;
        `helm` is a binary that renders instead of the embedded engine; `edits` are new texts of
        specs in the working tree, by path from the root, planned as if they were written. Raise
        TrainwrightError if git lacks a commit, or if the two have no common ancestor.
        """
        from trainwright.plan.comparison import Comparison
        from trainwright.plan.merge import PlanOptions

        options = PlanOptions(
            against=against,
            head=head,
            today=self._today(),
            helm=helm,
            crds=crds,
            wired=wired,
            edits={_of_spec(path): _bytes(text) for path, text in (edits or {}).items()},
        )
        return Comparison(self.root, selections, options).plan()

    def explain(self, job: str, path: str = "") -> tuple[Explanation, ...]:
        """The effective values of a job at or below a dotted path, each with who set it."""
        from trainwright.files.tree import Folder
        from trainwright.specs import explain, inventory

        return explain.explain(inventory.one_job(Folder(self.root), job), path)

    def propose(self, path: str, text: str) -> Proposal:
        """Return the diff and the findings that writing a file would bring, without writing it.

        `path` is that of a file below environments/ from the root. Raises TrainwrightError for
        another one, and for rendered files, which are not written by hand.
        """
        from trainwright.files.tree import Edited, Folder
        from trainwright.findings.redaction import text_diff

        folder = Folder(self.root)
        edited = Edited(folder, {_of_spec(path): _bytes(text)})
        old = folder.read(path).decode(errors="replace") if folder.kind(path) == "file" else None
        before = self.check()
        options = replace(self._options(), use_cache=False, wired=wired)
        after = _check(self.build((), options, edited))
        lines = text_diff(old, text, old=f"a/{path}", new=f"b/{path}")
        return Proposal(
            diff="".join(f"{line}\n" for line in lines),
            check=after,
            fixed=tuple(_without(before, after)),
            added=tuple(_without(after, before)),
        )

    def build(
        self,
        selections: tuple[str, ...] = (),
        options: BuildOptions | None = None,
        tree: Tree | None = None,
    ) -> Build:
        """Return what the command's verbs print from; not part of the stable API."""
        from trainwright.render import build

        options = options or self._options()
        options = replace(options, left=partial(left, self.root, options.today, options.against))
        return build.build(self.root, selections, options, specs=tree, rendered=tree)

    def _options(self) -> BuildOptions:
        from trainwright.render.build import BuildOptions

        return BuildOptions(today=self._today(), proves=True)

    def _today(self) -> str:
        return self.today or datetime.now(UTC).date().isoformat()


def wired(workspace: Workspace) -> WiringFiles:
    """Return the files of wiring beside the specs, compared with what `gitops wire` writes."""
    if workspace.tree.kind(WIRING) != "folder":
        from trainwright.runs.wiring_files import WiringFiles

        return WiringFiles()
    from trainwright.gitops.wiring.writing import compared  # 50 ms, and few have wiring

    return compared(workspace)


def left(
    root: Path, today: str, against: str, workspace: Workspace, environment: str
) -> list[Demand]:
    """Return what the runs of an environment request that go on although git has them no more, or
    will not have them once a workspace is rendered, as they were before the branch that it is of.
    """
    from trainwright.plan.left import of_branch  # asked of environments with a budget

    departed = of_branch(root, today, against)
    runs = departed.going_on(workspace, environment) if departed else ()
    return [run.demand for run in runs]


def _of_spec(path: str) -> str:
    """Return a path if it is of a file that people write. Raise SelectionError if it is not."""
    from trainwright.datatypes.layout import ENVIRONMENTS, RENDERED

    parts = path.split("/")
    if parts[0] != ENVIRONMENTS or RENDERED in parts or not {"", ".", ".."}.isdisjoint(parts):
        raise SelectionError(
            f'"{path}" is not the path of a spec, such as {ENVIRONMENTS}/prod/jobs/llm.yaml'
        )
    return path


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _check(build: Build) -> Check:
    from trainwright.reports import redacted

    return Check(tuple(map(redacted, build.findings)), tuple(map(str, build.jobs)))


def _without(check: Check, baseline: Check) -> Iterator[Finding]:
    """Yield the findings of a check that a baseline lacks, by rule, job and field: where lines
    move, or a run gets another name, none comes or goes.
    """
    same = {*check.findings} & {*baseline.findings}
    others = Counter(_about(finding) for finding in baseline.findings if finding not in same)
    for finding in check.findings:
        if finding in same:
            continue
        if others[_about(finding)]:
            others[_about(finding)] -= 1
        else:
            yield finding


def _about(finding: Finding) -> tuple[str, ...]:
    """Return what a finding is about, wherever its lines are; a file where it has no field."""
    at = finding.path.dotted if finding.path else finding.place.file
    return finding.rule, finding.severity, finding.subject, at


def write_files(root: Path, build: Build) -> None:
    """Write the rendered files of all environments, or of none."""
    from trainwright.files import filetree
    from trainwright.render import written

    with ExitStack() as stack:
        finishing = [
            stack.enter_context(filetree.prepared(root / each.folder, each.changes))
            for each in build.environments
            if each.changes
        ]
        for finish in finishing:
            finish()
    for each in build.environments:
        if each.changes:
            written.note(root, each.name, each.changes)
