"""Whatever a team does after an adoption: no object of before changes, ends or starts by it."""

from __future__ import annotations

import copy
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from adoption import (
    AS_THEY_ARE,
    OBJECTS,
    POOLS,
    adopted_by,
    before,
    is_over,
    job_file,
    recorded,
    unlike,
)
from git_repository import commit, git
from repository import Repository
from strategic_merge import patched
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.importing.object_as_written import as_written
from trainwright.kinds import trains

Body: TypeAlias = dict[str, Any]

# Every kind in every state; Ray is left out, whose like is among them.
TEAM = [body for body in (*OBJECTS, *AS_THEY_ARE) if body["kind"] != "RayJob"]
NAMES = [body["metadata"]["name"] for body in TEAM]
RUNNING = [body["metadata"]["name"] for body in TEAM if not is_over(body)]


def team(root: Path) -> None:
    before(root)
    file = root / "environments/prod/environment.yaml"
    file.write_text(file.read_text(encoding="utf-8") + POOLS, encoding="utf-8")
    assert Repository(root).run("render").exit_code == 0
    commit(root, "Have a pool, and keep what is rendered")


def adopted(root: Path) -> None:
    team(root)
    done = adopted_by(root, *TEAM)
    assert done.exit_code == 0, done.output
    rendered = Repository(root).run("render")
    assert rendered.exit_code == 0, rendered.output
    commit(root, "Adopt")


def suspended_at(body: Body) -> Pointer:
    kind = trains(Manifest(body=body))
    assert kind is not None
    return Pointer(kind.suspend)


class Engine:
    """A GitOps engine that applies what is rendered, and prunes nothing unless it is told to."""

    def __init__(self) -> None:
        self.cluster = {one["metadata"]["name"]: copy.deepcopy(one) for one in TEAM}
        self.applied: dict[str, Body] = {}
        self.began: list[str] = []

    def sync(self, repository: Repository) -> None:
        for path, text in repository.tree().items():
            if re.search(r"/(values|kustomization)\.yaml$|\.lock$", path):
                continue
            for body in yaml.safe_load_all(text):
                self._apply(body)

    def _apply(self, body: Body) -> None:
        """Server-side apply: what it has is set, and what it had and has no longer is taken out."""
        name = body["metadata"]["name"]
        if trains(Manifest(body=body)) is None:
            return
        if name not in self.cluster:
            self.cluster[name] = copy.deepcopy(body)
            self.began.append(name)
        elif name in NAMES:
            at = suspended_at(body)
            gone = unlike(self.applied.get(name, {}), body)
            changed = {*gone, *unlike(body, self.cluster[name])} - {"", *above(at)}
            assert not changed, (name, changed)
            if at and (lookup(body, at) is not None or gone):
                put(self.cluster[name], at, lookup(body, at))
        self.applied[name] = body


def above(at: Pointer) -> set[str]:
    return {"/".join(("", *at.parts[:count])) for count in range(1, len(at.parts) + 1)}


def put(body: Body, at: Pointer, value: Any) -> None:
    holder = body
    for key in at.parts[:-1]:
        holder = holder.setdefault(key, {})
    if value is None:
        holder.pop(at.last, None)
    else:
        holder[at.last] = value


def without_state(body: Body) -> Body:
    """An object without its suspension, and without what only held that."""
    found = copy.deepcopy(body)
    at = suspended_at(body)
    if at:
        put(found, at, None)
        if len(at.parts) > 2 and not lookup(found, at.parent):
            put(found, at.parent, None)
    return found


class Team(RuleBasedStateMachine):
    """A team that adopts, edits, runs again, retires, suspends, cancels and reverts."""

    prepared: dict[Callable[[Path], None], Path]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.engine = Engine()
        self.asked: set[str] = set()  # jobs of which another run was asked for
        self.operated: set[str] = set()  # and whose objects were suspended or resumed

    @initialize(whole=st.booleans())
    def begin(self, whole: bool) -> None:
        root = self.folder / "team"
        shutil.copytree(self.prepared[adopted if whole else team], root, symlinks=True)
        self.repository = Repository(root)
        self.first = git(root, "rev-parse", "HEAD")
        self.engine.sync(self.repository)

    @property
    def jobs(self) -> list[str]:
        return sorted(one.stem for one in job_file(self.repository, "x").parent.glob("*.yaml"))

    def _merge(self) -> None:
        """Commit what is rendered, and let the engine apply it; or take all of it back."""
        done = self.repository.run("render")
        if done.exit_code:
            git(self.repository.root, "checkout", "--quiet", ".")
            git(self.repository.root, "clean", "--quiet", "--force", "-d")
            return
        if git(self.repository.root, "status", "--porcelain"):
            commit(self.repository.root)
        self.engine.sync(self.repository)

    @rule(chosen=st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    def adopt(self, chosen: list[str]) -> None:
        fresh = {*chosen} - {*self.jobs}
        if fresh:
            live = (self.engine.cluster[name] for name in sorted(fresh))
            done = adopted_by(self.repository.root, *live)
            assert done.exit_code == 0, done.output
            self._merge()
            assert fresh <= {*self.jobs}

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.jobs))
        file = job_file(self.repository, name)
        kept = re.sub(r"^env: \{LATER.*\n", "", file.read_text(encoding="utf-8"), flags=re.M)
        file.write_text(f"{kept}env: {{LATER: {data.draw(st.sampled_from('abc'))}}}\n", "utf-8")
        self.asked.add(name)
        self._merge()

    @precondition(lambda self: self.jobs)
    @rule(verb=st.sampled_from(["rerun", "retire", "suspend", "resume", "cancel"]), data=st.data())
    def operate(self, verb: str, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.jobs))
        options = ("--outcome", "failed") if verb == "retire" else ()
        if self.repository.run(verb, f"prod/{name}", *options).exit_code == 0:
            (self.asked if verb == "rerun" else self.operated).add(name)
        self._merge()

    @precondition(lambda self: git(self.repository.root, "rev-parse", "HEAD") != self.first)
    @rule()
    def revert(self) -> None:
        git(self.repository.root, "revert", "--no-edit", "HEAD")
        self.engine.sync(self.repository)

    @invariant()
    def nothing_of_before_changes(self) -> None:
        for body in TEAM:
            name = body["metadata"]["name"]
            now = self.engine.cluster[name]
            if name not in self.operated:
                at = suspended_at(body)
                assert bool(at and lookup(now, at)) == bool(at and lookup(body, at)), name
            assert without_state(now) == without_state(body), name

    @invariant()
    def only_what_was_asked_for_begins(self) -> None:
        jobs = {name.rpartition("-")[0] for name in self.engine.began}
        assert jobs <= self.asked, (jobs, self.asked)

    def teardown(self) -> None:
        if hasattr(self, "repository"):
            proved = self.repository.run("render", "--check")
            assert proved.exit_code == 0, proved.output
        shutil.rmtree(self.folder)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> None:
    made = {}
    for make in (team, adopted):
        root = tmp_path_factory.mktemp(make.__name__) / "team"
        make(root)
        made[make] = root
    Team.prepared = made


SEQUENCES = settings.default.max_examples // 2  # 500 each night


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("prepared")
def test_no_object_of_before_changes_ends_or_starts() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Team, settings=settings(max_examples=SEQUENCES, stateful_step_count=6)
    )


# --- what is applied -----------------------------------------------------------------------------


@pytest.mark.usefixtures("prepared")
def test_applied_over_its_object_a_file_changes_nothing() -> None:
    """Lists by their merge keys, as server-side apply has them, and all others as a whole."""
    folder = Team.prepared[adopted] / "environments/prod/rendered"
    live = {body["metadata"]["name"]: body for body in TEAM}
    for name in RUNNING:
        (file,) = (one for one in (folder / name).glob("*.yaml") if one.name != "values.yaml")
        applied = yaml.safe_load(file.read_text(encoding="utf-8"))
        there = without_nulls(live[name])
        assert patched(there, applied) == there, name


def without_nulls(data: Any) -> Any:
    """Data without the timestamps of templates, which an API server prints and does not have."""
    if isinstance(data, dict):
        return {key: without_nulls(value) for key, value in data.items() if value is not None}
    return [without_nulls(item) for item in data] if isinstance(data, list) else data


def test_applied_over_a_recorded_object_it_changes_nothing(shared: Callable[[str], Path]) -> None:
    for name, _, body in recorded(shared("observed/controllers")):
        kind = trains(Manifest(body=body))
        assert kind is not None
        assert patched(body, as_written(body, kind)) == body, name
