"""All that is remembered is what a fresh process finds: after any edits, in any order, also while a
verb runs.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import git_repository
from repository import ENVIRONMENT, JOB, Repository
from trainwright.authoring.session import Session
from trainwright.datatypes.errors import SelectionError, TrainwrightError
from trainwright.datatypes.finding import Finding
from trainwright.files import filetree, memory
from trainwright.files.entry import Entry, Kind
from trainwright.files.memo import Cell
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Folder, Tree
from trainwright.helm import engines
from trainwright.plan.merge import PlanOptions
from trainwright.plan.session import PlanSession
from trainwright.render import build as plan
from trainwright.reports.style import Style, written
from trainwright.runs import meaning

_HEAD = "apiVersion: trainwright.io/v1alpha1\nkind: "
_OPTIONS = plan.BuildOptions(today="2026-06-01")
_PLAN = PlanOptions(against="main", head=None, today="2026-06-01")
_STYLE = Style(against="main", command="trainwright plan --against main")


# What nothing can be made of, whichever file it is in.
BROKEN = (b"", b"a: [", b"- 1\n", b"\xff\xfe", b"kind: Nothing\n", b"a: 1\na: 2\n")
DERIVED = (_HEAD + "JobSpec\nname: NAME\nextends: base/common\n").encode()
WARNED = JOB + "env: {NCCL_IB_HCA: mlx5}\n"  # as long as it trains
JOBS = tuple(
    text.encode()
    for text in (
        JOB,
        JOB + "flags: {lr: 0.1}\n",
        JOB + "state: cancelled\n",
        WARNED,
        JOB + "launcher: python\nprocsPerNode: 2\n",
        JOB + "nodez: 1\n",
        JOB + "extends: base/common\n",
        JOB + "extends: base/deeper\n",
        JOB + "extends: prod/b\n",
    )
)
ENVIRONMENTS = tuple(
    text.encode()
    for text in (
        ENVIRONMENT,
        ENVIRONMENT + "defaults: {nodes: 3}\n",
        ENVIRONMENT.replace("1.31", "1.33"),
        ENVIRONMENT + "severity: {TW021: error}\n",
    )
)
DEFAULTS = tuple(
    f"{_HEAD}Defaults\n{more}".encode()
    for more in ("", "defaults: {labels: {team: one}}\n", "defaults: {nodes: 2}\n")
)
LEDGERS = (
    (_HEAD + "Ledger\nruns: {}\n").encode(),
    b"RETIRED",  # the run that prod/a is rendered to, where it is
)
CONTENTS = {
    "defaults.yaml": DEFAULTS,
    "dev/environment.yaml": ENVIRONMENTS,
    "prod/environment.yaml": ENVIRONMENTS,
    "prod/ledger.yaml": LEDGERS,
    "base/jobs/common.yaml": (DERIVED.replace(b"common", b"deeper"), *JOBS),
    "base/jobs/deeper.yaml": JOBS,
    "prod/jobs/a.yaml": (DERIVED, *JOBS),
    "prod/jobs/b.yaml": JOBS,
    "dev/jobs/a.yaml": JOBS,
}
FOLDERS = ("base", "base/jobs", "prod/jobs", "dev")
RENDERED = (
    "prod/rendered/a/values.yaml",
    "prod/rendered/a/pytorchjob.yaml",
    "prod/rendered/b/values.yaml",
    "prod/rendered/stray.yaml",
)
VERBS = (
    ("check", "-o", "json"),
    ("check",),
    ("list", "jobs", "-o", "json"),
    ("list", "jobs"),
    ("render", "--check"),
)
SELECTIONS = ((), ("prod",), ("prod/a",), ("dev/*",))

paths = st.sampled_from(sorted(CONTENTS))
edits = paths.flatmap(
    lambda path: st.tuples(
        st.just(path), st.sampled_from(CONTENTS[path]) | st.sampled_from((*BROKEN, None))
    )
)


@dataclass
class Racing:
    """The files on disk, and a user who edits them when a number of them have been read."""

    root: Path
    after: int
    edit: Callable[[], None]
    below: Folder = field(init=False)

    def __post_init__(self) -> None:
        self.below = Folder(self.root)

    def _step(self) -> None:
        self.after -= 1
        if self.after == 0:
            self.edit()

    def entries(self, folder: str) -> tuple[Entry, ...]:
        self._step()
        return self.below.entries(folder)

    def kind(self, path: str) -> Kind:
        self._step()
        return self.below.kind(path)

    def read(self, path: str) -> bytes:
        raw = self.below.read(path)
        self._step()
        return raw

    def ignored(self, folder: str) -> frozenset[str]:
        self._step()
        return self.below.ignored(folder)


class Edits(RuleBasedStateMachine):
    """A repository that people edit, and what is said of it by all that remember anything: verbs with
    a cache, a session of the language server, and a plan that is kept up to date.
    """

    def __init__(self) -> None:
        super().__init__()
        self._temporary = TemporaryDirectory()
        self._was = os.environ.get("XDG_CACHE_HOME")
        root = Path(self._temporary.name).resolve()
        os.environ["XDG_CACHE_HOME"] = str(root / "cache")
        self.repository = Repository(root / "repository")
        self.base = self.repository.root / "environments"
        self.base.mkdir(parents=True)
        git_repository.init(self.repository.root)
        self.start_again()
        self.repository.run("render")
        git_repository.commit(self.repository.root, "Begin")
        self.stamps = dict(_stamps(self.repository.root))
        self.session = Session(self.repository.root)
        self.plans = PlanSession(self.repository.root, (), _PLAN)

    def teardown(self) -> None:
        if self._was is not None:
            os.environ["XDG_CACHE_HOME"] = self._was
        self._temporary.cleanup()

    def _clear(self, path: str) -> Path:
        """Make room at a path, wherever a file, a folder or a link is in the way."""
        full = self.base
        *parents, last = path.split("/")
        for part in parents:
            full = full / part
            if full.is_symlink() or full.is_file():
                full.unlink()
            full.mkdir(exist_ok=True)
        full = full / last
        if full.is_dir() and not full.is_symlink():
            shutil.rmtree(full)
        else:
            full.unlink(missing_ok=True)
        return full

    def _write(self, path: str, content: bytes | None) -> None:
        """A file with a content, or none."""
        full = self._clear(path)
        if content == b"RETIRED":
            content = self._retired()
        if content is not None:
            full.write_bytes(content.replace(b"NAME", full.stem.encode()))

    def _content(self, path: str) -> bytes | None:
        return (self.base / path).read_bytes() if (self.base / path).is_file() else None

    def _retired(self) -> bytes:
        found = plan.build(self.repository.root, (), plan.BuildOptions(today="", use_cache=False))
        runs = (e.runs["a"] for e in found.environments if e.name == "prod" and "a" in e.runs)
        run = next(runs, None)
        name = run.object if run else "a-00000000"
        own = meaning.digest(run.job, run.run) if run else "0" * 64
        entry = f"{{job: a, own: '{own}', outcome: succeeded}}"
        return f"{_HEAD}Ledger\nruns: {{{name}: {entry}}}\n".encode()

    # --- edits ------------------------------------------------------------------------------------

    @rule(edit=edits)
    def write(self, edit: tuple[str, bytes | None]) -> None:
        self._write(*edit)

    @rule(edit=edits)
    def write_and_undo(self, edit: tuple[str, bytes | None]) -> None:
        """The mistake of a minute: seen by a verb, then put right."""
        path, content = edit
        before = self._content(path)
        self._write(path, content)
        self.the_cache_says_what_no_cache_says()
        self._write(path, before)

    @rule()
    def start_again(self) -> None:
        """What `git checkout` does."""
        for path, contents in CONTENTS.items():
            self._write(path, contents[0])

    @rule(path=paths, to=st.sampled_from(["prod/jobs/c.yaml", "prod/jobs/a.yaml", "old.yaml"]))
    def move(self, path: str, to: str) -> None:
        if (self.base / path).is_file() and path != to:
            there = (self.base / path).read_bytes()
            self._clear(path)
            self._clear(to).write_bytes(there)

    @rule(path=paths, what=st.sampled_from(["folder", "link", "dangling link"]))
    def replace(self, path: str, what: str) -> None:
        full = self._clear(path)
        if what == "folder":
            full.mkdir()
        else:
            full.symlink_to(self.base / ("prod/jobs/b.yaml" if what == "link" else "nowhere"))

    @rule(folder=st.sampled_from(FOLDERS))
    def link_folder(self, folder: str) -> None:
        """A folder that lies elsewhere now."""
        elsewhere = self.repository.root / "elsewhere"
        shutil.rmtree(elsewhere, ignore_errors=True)
        if (self.base / folder).is_dir() and not (self.base / folder).is_symlink():
            (self.base / folder).rename(elsewhere)
            (self.base / folder).symlink_to(elsewhere)

    @rule(path=st.sampled_from(RENDERED), content=st.sampled_from([b"", b"{", b"a: 1\n", None]))
    def edit_rendered(self, path: str, content: bytes | None) -> None:
        if (self.base / "prod/rendered").is_dir():
            self._write(path, content)

    # --- verbs ------------------------------------------------------------------------------------

    @rule(selection=st.sampled_from(SELECTIONS))
    def render(self, selection: tuple[str, ...]) -> None:
        self.repository.run("render", *selection)

    @rule(edit=edits, after=st.integers(1, 40), selection=st.sampled_from(SELECTIONS))
    def race_a_rendering(
        self, edit: tuple[str, bytes | None], after: int, selection: tuple[str, ...]
    ) -> None:
        """What is rendered meanwhile is written all the same."""
        racing = Racing(self.repository.root, after, lambda: self._write(*edit))
        options = replace(_OPTIONS, check_next_runs=False, recover=True, writes=True)
        with suppress(TrainwrightError):
            built = plan.build(self.repository.root, selection, options, specs=racing)
            for environment in built.environments if not built.failed else ():
                if environment.changes and (self.base / environment.name).is_dir():
                    folder = self.repository.root / environment.folder
                    filetree.apply(folder, environment.changes)

    @rule(edit=edits, after=st.integers(1, 40), selection=st.sampled_from(SELECTIONS))
    def race(self, edit: tuple[str, bytes | None], after: int, selection: tuple[str, ...]) -> None:
        """An edit while everything is being read, as by an editor that empties and rewrites."""
        racing = Racing(self.repository.root, after, lambda: self._write(*edit))
        tree = Tracked(racing)
        with suppress(TrainwrightError):
            options = (self.repository.root, selection, _OPTIONS)
            built = Cell(tree.memo, lambda: plan.build(*options, specs=tree, rendered=tree)).get()
            if Tracked(racing.below).is_as(tree.seen):
                assert built.findings == plan.build(*options).findings

    @rule(selection=st.sampled_from(SELECTIONS), verb=st.sampled_from(VERBS[:4]))
    def print_again(self, selection: tuple[str, ...], verb: tuple[str, ...]) -> None:
        """What is remembered of a verb's output is what it prints."""
        chosen = selection if verb[0] == "check" else ()
        first, again = (self.repository.run(*verb, *chosen) for _ in range(2))
        fresh = self.repository.run(*verb, *chosen, "--no-cache")
        for result in (first, again):
            assert (result.exit_code, result.output) == (fresh.exit_code, fresh.output)

    @rule(path=paths, after=st.integers(1, 40))
    def empty_and_rewrite(self, path: str, after: int) -> None:
        before = self._content(path)
        self._write(path, b"")
        self.race((path, before), after, ())

    @rule()
    def every_verb_agrees(self) -> None:
        for verb in VERBS:
            with_it, without = (self.repository.run(*verb, *how) for how in ((), ("--no-cache",)))
            assert (with_it.exit_code, with_it.output) == (without.exit_code, without.output)

    @invariant()
    def the_cache_says_what_no_cache_says(self) -> None:
        """The plan is all that verbs print from."""
        for selection in ((), ("prod/a",)):
            with_it, without = (self._planned(selection, use_cache=use) for use in (True, False))
            assert with_it == without

    @invariant()
    def sessions_find_what_a_fresh_process_finds(self) -> None:
        before, self.stamps = self.stamps, dict(_stamps(self.repository.root))
        changed = {p for p in {*before, *self.stamps} if before.get(p) != self.stamps.get(p)}
        assert _findings(self.session, changed) == self._found()
        fresh = PlanSession(self.repository.root, (), _PLAN)
        assert _answer(self.plans, changed) == _answer(fresh, set())

    def _found(self) -> list[Finding]:
        options = replace(_OPTIONS, use_cache=False, proves=True)
        try:
            return list(plan.build(self.repository.root, (), options).findings)
        except SelectionError:  # nothing to select, and nothing to say of it
            return []

    def _planned(self, selection: tuple[str, ...], *, use_cache: bool) -> object:
        options = replace(_OPTIONS, use_cache=use_cache)
        try:
            return plan.build(self.repository.root, selection, options)
        except TrainwrightError as error:
            return str(error)


def _stamps(folder: Path, inside: str = "") -> Iterator[tuple[str, tuple[int, ...]]]:
    """What a watch looks at of all files, links and folders but for git's own."""
    for path in folder.iterdir():
        status, name = path.lstat(), f"{inside}{path.name}"
        if path.is_dir() and not path.is_symlink():
            if name != ".git":
                yield name, (status.st_mode, status.st_ino)
                yield from _stamps(path, f"{name}/")
        else:
            yield name, (status.st_mode, status.st_ino, status.st_mtime_ns, status.st_size)


def _findings(session: Session, changed: Collection[str]) -> list[Finding]:
    session.changed(changed)
    while not session.is_checked:
        session.check_next()
    session.refresh(_OPTIONS.today)
    return list(session.check.everything())


def _answer(plans: PlanSession, changed: Collection[str]) -> str:
    try:
        return written("plan", "json", plans.plan(changed), _STYLE)
    except TrainwrightError as error:
        return str(error)


def _run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        Edits,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )


def test_all_that_is_remembered_is_what_a_fresh_process_finds() -> None:
    _run(2, 5)


@pytest.mark.long
@pytest.mark.slow
def test_all_that_is_remembered_is_what_a_fresh_process_finds_after_many_edits() -> None:
    _run(settings.default.max_examples // 6, 25)


STEPS = {
    "an environment becomes a link": (lambda it: it.link_folder(folder="dev"),),
    "another folder takes the place of the one that a link leads to": (
        lambda it: it.link_folder(folder="dev"),
        lambda it: it.render(selection=()),
        lambda it: it.link_folder(folder="base"),
    ),
    "a run is retired and comes back": (
        lambda it: it.write(edit=("prod/jobs/a.yaml", WARNED.encode())),
        lambda it: it.write(edit=("prod/ledger.yaml", LEDGERS[1])),
        lambda it: it.write(edit=("prod/ledger.yaml", LEDGERS[0])),
    ),
    "a run begins that is warned of": (
        lambda it: it.write(edit=("prod/jobs/a.yaml", WARNED.encode())),
        lambda it: it.render(selection=()),
    ),
    "the spec goes of a run whose files were edited": (
        lambda it: it.edit_rendered(path="prod/rendered/a/pytorchjob.yaml", content=b""),
        lambda it: it.move(path="prod/jobs/a.yaml", to="old.yaml"),
    ),
    "files of a run are edited where the environment is broken": (
        lambda it: it.edit_rendered(path="prod/rendered/a/pytorchjob.yaml", content=b""),
        lambda it: it.write(edit=("prod/environment.yaml", b"a: [")),
        lambda it: it.edit_rendered(path="prod/rendered/a/pytorchjob.yaml", content=b"{"),
        lambda it: it.write(edit=("prod/environment.yaml", ENVIRONMENTS[0])),
    ),
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_after_these_edits_all_find_what_a_fresh_process_finds(
    steps: tuple[Callable[[Edits], None], ...],
) -> None:
    edits = Edits()
    try:
        for step in (lambda _: None, *steps):
            step(edits)
            edits.sessions_find_what_a_fresh_process_finds()
            edits.the_cache_says_what_no_cache_says()
    finally:
        edits.teardown()


# --- one cache for all verbs ---------------------------------------------------------------------


class Counting(engines.Engine):
    """Helm, and how often it was asked."""

    def __init__(self) -> None:
        self._engine = engines.Embedded()
        self.asked = 0

    def render(self, values: Mapping[str, Any], release: str, namespace: str) -> dict[str, str]:
        self.asked += 1
        return self._engine.render(values, release, namespace)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counting = Counting()
    monkeypatch.setattr(engines, "engine", lambda _: counting)
    return counting


def test_a_check_after_a_rendering_judges_nothing_again(
    inheriting: Repository, engine: Counting
) -> None:
    inheriting.job("prod/waived", "flags: {lr: 0.1}")
    inheriting.job("prod/over", "state: cancelled")
    assert inheriting.run("render").exit_code == 0
    engine.asked = 0
    known = inheriting.run("check", "-o", "json")
    assert engine.asked == 0
    assert known.output == inheriting.run("check", "-o", "json", "--no-cache").output
    assert engine.asked > 0
    for verb in (("render", "--check"), ("render",), ("render", "prod/llm"), ("check",)):
        engine.asked = 0
        assert inheriting.run(*verb).exit_code == 0
        assert engine.asked == 0, verb


def test_a_rendering_of_one_job_forgets_nothing_of_the_others(
    inheriting: Repository, engine: Counting
) -> None:
    inheriting.job("prod/other")
    assert inheriting.run("render").exit_code == 0
    inheriting.job("prod/other", "flags: {lr: 0.1}")
    engine.asked = 0
    assert inheriting.run("render", "prod/other").exit_code == 0
    assert engine.asked == 1
    assert inheriting.run("check").exit_code == 0
    assert engine.asked == 1


def test_what_was_not_written_is_judged(inheriting: Repository, engine: Counting) -> None:
    assert inheriting.run("render", "--check").exit_code == 1
    engine.asked = 0
    assert inheriting.run("check").exit_code == 0
    assert engine.asked > 0


def test_what_another_process_looked_at_is_not_known(tmp_path: Path) -> None:
    tree = Tracked(Folder(tmp_path))
    assert tree.whole
    elsewhere = pickle.loads(pickle.dumps(tree))
    assert elsewhere.entries("") == ()
    assert not tree.whole


@pytest.mark.parametrize("verb", ["check", "list"])
def test_who_has_no_home_is_served_all_the_same(
    verb: str, inheriting: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a container's user of a number that /etc/passwd does not have."""
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "~")  # of which pathlib says what it says where there is none
    first, second = (inheriting.run(verb) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert second.output == first.output


def test_what_is_remembered_is_for_nobody_else_and_never_in_the_current_folder(
    inheriting: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(inheriting.root)
    assert inheriting.run("check").exit_code == 0
    assert not (inheriting.root / "relative").exists()
    (folder,) = (tmp_path / "home/.cache/trainwright").iterdir()
    assert os.name == "nt" or folder.stat().st_mode & 0o077 == 0


def test_a_repository_may_lie_in_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    assert (
        memory.location(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")), "a").name == "a.json"
    )


# --- single mistakes ------------------------------------------------------------------------------

MISTAKES = {
    "job": ("prod/jobs/llm.yaml", b"a: ["),
    "empty job": ("prod/jobs/llm.yaml", b""),
    "base": ("base/jobs/common.yaml", b"a: ["),
    "base with a field that is not known": ("base/jobs/common.yaml", b"nodez: 1\n"),
    "missing base": ("base/jobs/common.yaml", None),
    "defaults": ("defaults.yaml", b"a: ["),
    "environment": ("prod/environment.yaml", b"a: ["),
    "ledger": ("prod/ledger.yaml", b"a: ["),
}


@pytest.fixture
def inheriting(repository: Repository) -> Repository:
    """prod/llm extends base/common, and every file that can decide something is there."""
    repository.write("base/jobs/common.yaml", JOB.replace("NAME", "common"))
    repository.write("prod/jobs/llm.yaml", DERIVED.decode().replace("NAME", "llm"))
    repository.write("defaults.yaml", DEFAULTS[0].decode())
    repository.write("prod/ledger.yaml", LEDGERS[0].decode())
    return repository


@pytest.mark.parametrize("rendered_before", [True, False])
@pytest.mark.parametrize(("path", "broken"), MISTAKES.values(), ids=MISTAKES)
def test_what_was_broken_once_is_read_again(
    path: str, broken: bytes | None, rendered_before: bool, inheriting: Repository
) -> None:
    if rendered_before:
        assert inheriting.run("render").exit_code == 0
    file = inheriting.root / "environments" / path
    right = file.read_bytes()
    if broken is None:
        file.unlink()
    else:
        file.write_bytes(broken)
    assert inheriting.run("check").exit_code == 1
    file.write_bytes(right)
    for verb in ("check", "render", "check"):
        assert inheriting.run(verb).exit_code == 0, verb
    assert inheriting.run("render", "--check").exit_code == 0


@pytest.mark.parametrize("path", [path for path, broken in MISTAKES.values() if broken == b"a: ["])
def test_an_editor_that_empties_a_file_and_rewrites_it_leaves_no_trace(
    path: str, inheriting: Repository
) -> None:
    file = inheriting.root / "environments" / path
    right = file.read_bytes()
    for after in range(1, 40, 3):
        file.write_bytes(b"")
        racing = Racing(inheriting.root, after, lambda: file.write_bytes(right))
        plan.build(inheriting.root, (), _OPTIONS, specs=racing)
        file.write_bytes(right)
        racing = Racing(inheriting.root, after, lambda: file.write_bytes(b""))
        plan.build(inheriting.root, (), _OPTIONS, specs=racing)
        file.write_bytes(right)
        assert not plan.build(inheriting.root, (), _OPTIONS).failed, after


def test_a_plan_reads_each_file_once(inheriting: Repository) -> None:
    read: list[str] = []

    class Noting(Racing):
        def read(self, path: str) -> bytes:
            read.append(path)
            return super().read(path)

    noting = Noting(inheriting.root, 0, lambda: None)
    plan.build(inheriting.root, (), _OPTIONS, specs=noting)
    assert sorted(read) == sorted(set(read))


def _seen(tree: Tracked, read: Callable[[Tree], object]) -> Tracked:
    """A tree of which a value was made."""
    Cell(tree.memo, lambda: read(tree)).get()
    return tree


def test_kinds_that_a_listing_has_are_not_asked_for_one_by_one(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/file").write_text("x")
    paths = ("a", "a/b", "a/file", "a/gone", "a/b/gone")
    seen = _seen(
        Tracked(Folder(tmp_path)), lambda tree: (*map(tree.kind, paths), tree.entries("a"))
    ).seen
    assert set(seen["kind"]) == {"a", "a/b/gone"}
    assert Tracked(Folder(tmp_path)).is_as(seen)
    (tmp_path / "a/gone").touch()
    assert not Tracked(Folder(tmp_path)).is_as(seen)


def test_a_kind_of_another_moment_than_its_listing_is_remembered(tmp_path: Path) -> None:
    tree = Tracked(Folder(tmp_path))
    assert tree.kind("file") == ""
    (tmp_path / "file").touch()
    assert tree.entries("") == (Entry("file", "file"),)
    seen = _seen(tree, lambda tree: (tree.kind("file"), tree.entries(""))).seen
    assert not Tracked(Folder(tmp_path)).is_as(seen)


def test_what_no_value_was_made_of_is_not_remembered(tmp_path: Path) -> None:
    tree = Tracked(Folder(tmp_path))
    tree.entries("")
    assert not any(tree.seen.values())
