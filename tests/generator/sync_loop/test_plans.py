"""What a plan says of a merge is what the engine then does to the cluster.

The sequences of the sync loop, in a real git repository: before each commit on main the cluster is
in sync, the plan is made between the commit before and this one, and the engine syncs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from sync_cluster import TRAINING, Identity
from sync_git import Clone
from sync_loop import ACTIONS, MAIN, Loop
from sync_repository import Tool, installed, tools
from test_sync_loop import loop_of

from trainwright.plan.earlier import Earlier
from trainwright.plan.merge import PlanOptions
from trainwright.plan.model import BEGINS, Action, Plan
from trainwright.plan.session import PlanSession
from trainwright.plan.training import Training

SEQUENCES = 6
SHARDS = 8
QUIET = 4  # syncs
TODAY = "2001-09-09"  # of the commits


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tool, ...]:
    return tools(tmp_path_factory.mktemp("tools"))


@dataclass
class Before:
    """What there was when a commit was made."""

    commit: int
    objects: frozenset[str]
    left: frozenset[str]


def names(objects: Iterable[Identity]) -> frozenset[str]:
    return frozenset(name for kind, name in objects if kind in TRAINING)


def settle(loop: Loop) -> None:
    for _ in range(QUIET):
        loop.sync()


def trained(loop: Loop) -> frozenset[str]:
    return names(loop.cluster.objects)


def look(loop: Loop) -> Before:
    settle(loop)
    return Before(loop.git.tips[MAIN], trained(loop), left(loop))


def left(loop: Loop) -> frozenset[str]:
    """What trains or has finished in the cluster, and is not in git."""
    return trained(loop) - names(loop.desired() or ())


def planned(loop: Loop, since: Before) -> Plan:
    assert isinstance(loop.git, Clone)
    hashes = loop.git.hashes
    options = PlanOptions(
        against=hashes[since.commit], head=hashes[loop.git.tips[MAIN]], today=TODAY
    )
    with installed(loop.tools[loop.tool]):
        return PlanSession(loop.git.root, (), options).plan()


# How a plan tells that a run which comes back may be in the cluster already.
GOES_ON = (
    "where its object still is in the cluster",
    "do not run the earlier command that deletes",
)


def faults(loop: Loop, plan: Plan, before: Before) -> Iterator[str]:
    """What the plan says that the cluster does not do, or the other way round."""
    now = trained(loop)
    rendered = [change for change in plan.changes if not change.unrendered]
    runs = [(c.after.object, c.why) for c in rendered if c.action in BEGINS and c.after]
    begins = {name for name, _ in runs if name}
    may_go_on = {name for name, why in runs if any(text in why for text in GOES_ON)}
    endings = [c.ending for c in rendered if c.ending and c.action is not Action.SUSPENDED]
    ends = {ending.object for ending in endings if not ending.waits}
    waits = {ending.object for ending in endings if ending.waits}
    stays = left(loop) - before.left - waits
    commands = " ".join(change.why for change in rendered)
    told = {name for name in stays if f"{name} stays in the cluster until `kubectl" in commands}
    wrong = {
        "begins, and the plan does not say so": now - before.objects - begins,
        "goes on, and the plan says that it begins": (begins & before.objects & now) - may_go_on,
        "does not begin, and the plan says so": begins - now,
        "is deleted, and the plan does not say so": before.objects - now - ends,
        "is not deleted, and the plan says so": ends & now & before.objects,
        "stays until it is deleted, and the plan does not say so": stays - told,
        "is gone, and the plan says that it waits": (waits & before.objects) - now,
    }
    for what, names_of in wrong.items():
        yield from (f"{name} {what}" for name in sorted(names_of))
    yield from (fault for fault in loop.faults if fault.startswith("the API refuses"))


def counted(plan: Plan, last: Plan | None, actions: Sequence[str]) -> Iterator[str]:
    """What a plan counts before a merge, and the last one did not count after its own.

    A line that is taken out of the ledger brings back a run that has finished: git does not have
    that. Jobs that were not rendered count by what they will be.
    """
    is_whole = last and not any(change.unrendered for change in last.changes)
    retires = last and any(change.action is Action.RETIRED for change in last.changes)
    if not last or not is_whole or retires or "forget" in actions:
        return
    for was in last.environments:
        for now in plan.environments:
            if now.name == was.name and now.before.nodes != was.after.nodes:
                yield f"{was.after.nodes} after the last merge, {now.before.nodes} before this one"


def _first_fault(seed: int, versions: tuple[Tool, ...], root: Path, steps: int) -> str:
    """What is wrong first in a sequence, with all that happened; empty if nothing is."""
    loop = loop_of(seed, versions, git=Clone(root=root))
    last: Plan | None = None
    since = 0  # when that was made
    for _ in range(steps):
        before = look(loop)
        loop.act(loop.chance.choice(ACTIONS))
        if loop.desired() is None:
            last = None
        elif loop.git.tips[MAIN] != before.commit:
            plan = planned(loop, before)
            settle(loop)
            wrong = [*faults(loop, plan, before), *counted(plan, last, loop.history[since:])]
            if plan.environments:
                last, since = plan, len(loop.history) - 1
            if wrong:
                changes = [(str(c.file), c.action.value, c.why) for c in plan.changes]
                return f"seed {seed}: {wrong} after {loop.history}: {changes}"
    return ""


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_a_plan_says_what_the_engine_does(
    seed: int, versions: tuple[Tool, ...], tmp_path: Path
) -> None:
    assert not _first_fault(seed, versions, tmp_path, steps=15)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_plans_say_what_the_engine_does_for_longer(
    shard: int, versions: tuple[Tool, ...], tmp_path: Path
) -> None:
    for seed in range(SEQUENCES + shard, SEQUENCES + SHARDS * (SEQUENCES + 1), SHARDS):
        root = tmp_path / str(seed)
        root.mkdir()
        assert not _first_fault(seed, versions, root, steps=30)


# Each makes plans wrong in one way: what is replaced, by what, and what is seen of it.
_WRONG: dict[str, tuple[object, str, object, str]] = {
    "no run ends": (
        Training, "ending", lambda _training, *, stays: None,
        "stays until it is deleted, and the plan does not say so",
    ),
    "what was rendered before is new": (
        Earlier, "objects", lambda _self, files: {file: set() for file in files},
        "goes on, and the plan says that it begins",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", _WRONG)
def test_a_wrong_plan_is_noticed(
    what: str, versions: tuple[Tool, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, instead, fault = _WRONG[what]
    monkeypatch.setattr(owner, name, instead)
    roots = ((seed, tmp_path / str(seed)) for seed in range(60))
    assert any(
        fault in _first_fault(seed, versions, root, steps=15)
        for seed, root in roots
        if root.mkdir() is None
    )
