"""Only a job's own file starts, replaces or ends training, and everything settles.

Random sequences of what people do go through git's rendered state into an object store and a small
machine of operators, Kueue and a GitOps engine: verbs, edits of jobs and of all that they share,
other versions of the tool and its chart, branches, merges, reverts, files that move or are lost.
What is rendered is rendered for real. Faults are counted by what trains, a job and what of its own
file, and never by the name of an object. The same sequences over plain manifests with a TTL, the
way they are usually written, are the control: they must show every failure that is claimed to be
impossible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import sync_edits
from hypothesis import settings
from sync_cluster import Body, Cluster, Identity
from sync_edits import get
from sync_engines import Argo, Flux
from sync_git import Clone
from sync_loop import ACTIONS, Loop, play
from sync_repository import Memory, Tool, identity, tools
from sync_requests import Tree, jobs, own_path

from trainwright.datatypes.layout import JobFile
from trainwright.render import job as render
from trainwright.render.history import History
from trainwright.runs import adjust
from trainwright.runs.record import Recorded
from trainwright.runs.workspace import Workspace, decided
from trainwright.specs.ledger import EMPTY

SEQUENCES = 10 * settings.default.max_examples  # 10,000 each night
SHARDS = 8
IN_GIT = 12  # sequences with commits, merges and reverts by git itself


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tool, ...]:
    return tools(tmp_path_factory.mktemp("tools"))


def loop_of(
    seed: int, versions: tuple[Tool, ...], extra: bytes = b"", git: Memory | None = None
) -> Loop:
    """A repository by chance; `extra` lines are in its environment.

    Its first runs may have been rendered for another engine, or for none.
    """
    chance = Random(seed)
    name = chance.choice(("argocd", "flux"))
    engine = Argo() if name == "argocd" else Flux()
    loop = Loop(chance, engine, versions, Cluster(chance), git=git or Memory())
    files = sync_edits.first(chance, name)
    files[sync_edits.ENVIRONMENT] += extra
    now = files[sync_edits.ENVIRONMENT]
    before = Random(~seed).choice((name, name, "argocd", "flux", "none"))
    as_before = now.replace(f"engine: {name}".encode(), f"engine: {before}".encode())
    loop.begin({**files, sync_edits.ENVIRONMENT: as_before})
    loop.write({**loop.main, sync_edits.ENVIRONMENT: now})
    return loop


def played(loop: Loop) -> list[str]:
    return play(loop, steps=loop.chance.randint(5, 40))


def _play_all(seeds: range, versions: tuple[Tool, ...]) -> None:
    for seed in seeds:
        loop = loop_of(seed, versions)
        found = played(loop)
        assert not found, f"seed {seed}: {found} after {loop.history}"


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_only_its_own_file_starts_or_ends_a_run(shard: int, versions: tuple[Tool, ...]) -> None:
    _play_all(range(shard, SEQUENCES, SHARDS), versions)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(IN_GIT))
def test_the_same_in_a_git_repository(
    seed: int, versions: tuple[Tool, ...], tmp_path: Path
) -> None:
    _play_in_git(seed, versions, tmp_path)


def test_one_sequence_in_a_git_repository(versions: tuple[Tool, ...], tmp_path: Path) -> None:
    _play_in_git(IN_GIT, versions, tmp_path)


def _play_in_git(seed: int, versions: tuple[Tool, ...], root: Path) -> None:
    loop = loop_of(seed, versions, git=Clone(root=root))
    found = play(loop, steps=20)
    assert not found, f"seed {seed}: {found} after {loop.history}"


def test_a_few_sequences_without_a_fault(versions: tuple[Tool, ...]) -> None:
    _play_all(range(25), versions)


@pytest.mark.slow
def test_the_sequences_reach_what_they_are_about(versions: tuple[Tool, ...]) -> None:
    """Each action changes something, runs end, and some are replaced while they run."""
    done: Counter[str] = Counter()
    outcomes: set[str] = set()
    for seed in range(150):
        loop = loop_of(seed, versions)
        played(loop)
        done += loop.done
        outcomes |= {live.outcome for live in loop.cluster.objects.values()}
    of_time = {"sync", "tick", "answer"}
    assert {*ACTIONS, "lost with permission"} - of_time <= {name for name in done if done[name]}
    assert {"succeeded", "failed"} <= outcomes
    assert done["refused"] < done.total() / 20


# --- what the sequences must notice --------------------------------------------------------------


def test_without_asking_first_running_jobs_are_lost(
    versions: tuple[Tool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wiring is what keeps runs: the loop notices when it does not, nor what they say."""
    monkeypatch.setattr(Loop, "wired_to_prune", lambda _loop: True)
    monkeypatch.setattr(Argo, "_keeps", staticmethod(lambda _cluster, _found: False))
    monkeypatch.setattr(Flux, "_keeps", staticmethod(lambda _cluster, _found: False))
    assert _is_found("was deleted while it ran", versions)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("begins, and git does not have it", marks=pytest.mark.slow),
        "deleted, and git has it",
    ],
)
def test_syncs_that_wait_for_a_confirmation_are_noticed(
    fault: str, versions: tuple[Tool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Prune=confirm did: a revert while a sync waits for it comes to the opposite."""
    asks = staticmethod(lambda _cluster, _found, _option: True)
    monkeypatch.setattr(Loop, "wired_to_prune", lambda _loop: True)
    monkeypatch.setattr(Argo, "_asks", asks)
    monkeypatch.setattr(Argo, "_keeps", staticmethod(lambda _cluster, _found: False))
    assert _is_found(fault, versions)


def test_shared_changes_that_start_runs_are_noticed(versions: tuple[Tool, ...]) -> None:
    start = b"sharedChanges: start\n"
    assert _is_found("another run that nobody asked for", versions, start)


def _stays_whatever_its_file_says(workspace: Workspace, file: JobFile, recorded: Recorded) -> bool:
    known = replace(recorded.record, source=workspace.reader.source(file.path))
    return _STAYS(workspace, file, replace(recorded, record=known))


_STAYS = Workspace.stays
# Each takes away one thing that the promise rests on: what is replaced, by what, and what is found.
_WITHOUT: dict[str, tuple[object, str, object, str]] = {
    "the digest of a job's own file": (
        Workspace,
        "stays",
        _stays_whatever_its_file_says,
        "was asked for another run, and has none",
    ),
    "the ledger": (
        render,
        "decided",
        lambda job, record, _ledger: decided(job, record, EMPTY),
        "has ended, and is still rendered",
    ),
    "records": (
        render,
        "decided",
        lambda job, _record, ledger: decided(job, None, ledger),
        "another run that nobody asked for",
    ),
    "git's history": (
        History,
        "recorded",
        lambda _history, _files: {},
        "another run that nobody asked for",
    ),
    "recorded bytes": (
        adjust.Adjusting,
        "_laid",
        lambda self, edited: self.render(edited, self.found.environment, self.found.record.object),
        "is changed in place",
    ),
}


@pytest.mark.parametrize("what", _WITHOUT)
def test_what_a_run_rests_on_is_missed(
    what: str, versions: tuple[Tool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, instead, fault = _WITHOUT[what]
    monkeypatch.setattr(owner, name, instead)
    assert _is_found(fault, tuple(replace(tool, remembered={}) for tool in versions))


def _is_found(fault: str, versions: tuple[Tool, ...], extra: bytes = b"") -> bool:
    """Whether the first sequences show a fault."""
    loops = (loop_of(seed, versions, extra) for seed in range(400))
    return any(fault in found for loop in loops for found in played(loop))


# --- the control: what people do without it ------------------------------------------------------


def _naive(tree: Tree, job: str) -> Body | None:
    """A plain PyTorchJob under a fixed name, with a TTL and with `suspend`, edited in place."""
    text = tree[own_path(job)].decode()
    state = get(text, "state")
    if state == "cancelled":
        return None
    labels = {"kueue.x-k8s.io/queue-name": "team"} if get(text, "queue") else {}
    suspended = state == "suspended" or bool(labels)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": job, "labels": labels},
        "spec": {
            "runPolicy": {"ttlSecondsAfterFinished": 2, "suspend": suspended},
            "args": [get(text, "flags")],
        },
    }


class Naive(Loop):
    """The same people and the same actions, over manifests that are written by hand."""

    def wired_to_prune(self) -> bool:
        return True

    def desired(self) -> Mapping[Identity, tuple[str, Body]]:
        found = ((job, _naive(self.main, job)) for job in jobs(self.main))
        return {identity(body): (job, body) for job, body in found if body is not None}


@pytest.mark.slow
def test_plain_manifests_with_a_ttl_fail_in_every_way(versions: tuple[Tool, ...]) -> None:
    found: set[str] = set()
    for seed in range(25):
        chance = Random(seed)
        loop = Naive(chance, Argo(), versions, Cluster(chance))
        loop.begin(sync_edits.first(chance, "argocd"))
        for _ in range(30):
            loop.act(loop.chance.choice(ACTIONS))
        loop.end()
        found.update("trained again" if "trained" in fault else fault for fault in loop.faults)
    assert "trained again" in found
    assert "it never settles" in found
    assert any("was deleted while it ran" in fault for fault in found)
