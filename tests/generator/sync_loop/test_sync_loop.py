"""No run trains twice, none is deleted while it runs unless somebody said so, and it all settles.

Random sequences of the lifecycle verbs and of plain edits go through git's rendered state into an
object store and a small machine of operators, Kueue and a GitOps engine. What is rendered is
rendered for real. The same sequences over plain manifests with a TTL, the way they are usually
written, are the control: they must show every failure that is claimed to be impossible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

import pytest
from sync_cluster import LENGTH, Body, Cluster, Identity
from sync_engines import Argo, Desired, Flux, identity

import repository
from trainwright import batch, ledger, yamlio
from trainwright.lifecycle import extend, rerun, retire, states, subject
from trainwright.lifecycle.subject import Step, Subject
from trainwright.load import JobFile
from trainwright.model import Manifest
from trainwright.render import VALUES_FILE
from trainwright.rules import transitions
from trainwright.rules.transition import Verdict
from trainwright.tree import Edited, Folder

SEQUENCES = 10_000
SHARDS = 8
JOB = JobFile("prod", "llm")
LEDGER = ledger.path("prod")
TARGETS = ("pytorchjob", "trainjob", "jobset", "job", "trainingjob")
ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.31"}
targets:
  pytorchjob: {version: "1.9", restrictedInitContainer: true}
  trainjob: {version: "2.2"}
  jobset: {version: "0.10"}
  job: {}
  trainingjob: {version: "0.3"}
queueing: kueue
queues: {team: {}}
"""


# --- git, and what is rendered from it -----------------------------------------------------------


@dataclass(frozen=True)
class Specs:
    """What people write: one job, its environment, its ledger."""

    environment: bytes
    job: bytes
    ledger: bytes = b""

    @property
    def tree(self) -> Edited:
        files = {"environments/prod/environment.yaml": self.environment, JOB.path: self.job}
        return Edited(
            Folder(Path("/nowhere")), files | ({LEDGER: self.ledger} if self.ledger else {})
        )


@cache
def rendered(specs: Specs) -> tuple[Body, ...] | None:
    """The objects in git after CI has rendered them; None when CI refuses the specs."""
    how = batch.Options(new_runs=True)
    ((done, _),) = batch.run(specs.tree, [batch.Item(JOB)], how)
    if not done.usable or any(finding.severity.value == "error" for finding in done.findings):
        return None
    texts = (text for name, text in done.files.items() if name != VALUES_FILE)
    return tuple(body for text in texts for body in yamlio.load_rendered(text))


@cache
def worked_out(specs: Specs, verb: Callable[[Subject], Step]) -> Specs | None:
    """The specs after a verb; None when there is nothing to do, or it is refused, as by the CLI."""
    step = verb(subject.load(specs.tree, JOB))
    if step.refused or not step.files:
        return None
    after = Specs(
        specs.environment,
        step.files.get(JOB.path, specs.job),
        step.files.get(LEDGER, specs.ledger),
    )
    return None if _refused(specs, after) else after


def _refused(before: Specs, after: Specs) -> bool:
    """Whether CI or the plan of the pull request is against it."""
    old, new = rendered(before), rendered(after)
    if new is None:
        return True
    now = {identity(body): Manifest(body=body) for body in new}
    return any(
        judged.verdict is Verdict.REJECTED
        for body in old or ()
        if identity(body) in now
        for judged in transitions.judge(Manifest(body=body), now[identity(body)])
    )


def _longer(found: Subject) -> Step:
    return extend.extend(found, "+1h")


def _retired(found: Subject) -> Step:
    return retire.retire(found, retire.Ending(outcome="succeeded"))


VERBS: dict[str, Callable[[Subject], Step]] = {
    "suspend": states.suspend,
    "resume": states.resume,
    "cancel": states.cancel,
    "rerun": rerun.rerun,
    "extend": _longer,
    "retire": _retired,
}


# --- people, over a loop -------------------------------------------------------------------------


@dataclass
class Loop:
    """One repository with one job, its engine and its cluster, and what people have asked for."""

    chance: Random
    engine: Argo | Flux
    specs: Specs
    cluster: Cluster
    permitted: set[Identity] = field(default_factory=set)  # to be deleted while they run
    history: list[str] = field(default_factory=list)
    edits: int = 0

    @property
    def desired(self) -> Desired:
        found = rendered(self.specs)
        assert found is not None
        return {identity(body): body for body in found}

    def act(self, name: str) -> None:
        """One thing that happens; what cannot be done is not done."""
        self.history.append(name)
        if name == "sync":
            self.engine.sync(self.cluster, self.desired)
        elif name == "tick":
            self.cluster.tick()
        elif name == "answer":
            self.answer()
        elif name == "edit":
            self.edits += 1
            self.write(re.sub(rb"epochs: \d+", b"epochs: %d" % self.edits, self.specs.job))
        elif name == "comment":
            self.write(self.specs.job + b"# looked at\n")
        elif name != "retire" or self.finished:
            after = worked_out(self.specs, VERBS[name])
            if after is not None:
                if name == "cancel":
                    self.permitted |= set(self.desired)
                self.specs = after

    def write(self, job: bytes) -> None:
        after = Specs(self.specs.environment, job, self.specs.ledger)
        if not _refused(self.specs, after):
            self.specs = after

    def answer(self) -> None:
        answered = self.engine.answer()
        self.permitted |= answered
        if isinstance(self.engine, Flux):
            for found in answered & set(self.cluster.objects):
                self.cluster.delete(found)

    @property
    def finished(self) -> bool:
        """Whether the present run has ended: that is when people retire it."""
        lives = (self.cluster.objects.get(found) for found in self.desired)
        return any(live is not None and live.outcome for live in lives)

    def settle(self) -> int:
        """Let everything end while nobody writes; how many rounds it takes until nothing moves."""
        quiet = 0
        for number in range(100):
            self.cluster.tick(calm=True)
            self.answer()
            quiet = 0 if self.engine.sync(self.cluster, self.desired) else quiet + 1
            if quiet > 2 * LENGTH and not self.engine.waiting:
                return number
        return -1

    def faults(self) -> Iterator[str]:
        """Everything that must never happen."""
        for found, times in self.cluster.begun.items():
            if times > 1:
                yield f"{found} trained {times} times"
        for found in self.cluster.lost:
            if found not in self.permitted:
                yield f"{found} was deleted while it ran"


ACTIONS = (*VERBS, "edit", "comment", *["sync"] * 6, *["tick"] * 8, *["answer"] * 2)


def play(loop: Loop, steps: int) -> list[str]:
    """Random actions, then rest; what went wrong."""
    for _ in range(steps):
        loop.act(loop.chance.choice(ACTIONS))
    rounds = loop.settle()
    found = list(loop.faults())
    if rounds < 0:
        found.append("it never settles")
    elif set(loop.cluster.objects) != set(loop.desired):
        found.append(f"{set(loop.cluster.objects)} in the cluster, {set(loop.desired)} in git")
    return found


def specs(chance: Random, engine: str) -> Specs:
    target = chance.choice(TARGETS)
    queued = target != "trainingjob" and chance.random() < 0.5
    job = repository.JOB.replace("NAME", JOB.name) + f"target: {target}\nflags: {{epochs: 0}}\n"
    job += "queue: team\n" if queued else ""
    return Specs(f"{ENVIRONMENT}gitops: {{engine: {engine}}}\n".encode(), job.encode())


def loop_of(seed: int) -> Loop:
    chance = Random(seed)
    name = chance.choice(("argocd", "flux"))
    engine: Argo | Flux = Argo() if name == "argocd" else Flux()
    return Loop(chance, engine, specs(chance, name), Cluster(chance))


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_whatever_people_do_each_run_trains_once_and_everything_settles(shard: int) -> None:
    for seed in range(shard, SEQUENCES, SHARDS):
        loop = loop_of(seed)
        found = play(loop, steps=loop.chance.randint(5, 40))
        assert not found, f"seed {seed}: {found} after {loop.history} of\n{loop.specs.job.decode()}"


def test_the_sequences_reach_what_they_are_about() -> None:
    """Runs end, are retired, cancelled, replaced while they run; each verb has something to do."""
    done: set[str] = set()
    for seed in range(300):
        loop = loop_of(seed)
        for _ in range(30):
            before = loop.specs
            name = loop.chance.choice(ACTIONS)
            loop.act(name)
            if before != loop.specs:
                done.add(name)
            done |= {live.outcome for live in loop.cluster.objects.values() if live.outcome}
            done |= {"lost with permission"} if loop.cluster.lost else set()
    wanted = {*VERBS, "edit", "comment", "succeeded", "failed", "lost with permission"}
    assert wanted <= done


def test_without_asking_first_running_jobs_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The annotation on the runs is what keeps them: the loop notices when it does not."""
    monkeypatch.setattr(Argo, "_asks", staticmethod(lambda _cluster, _found: False))
    loops = [loop_of(seed) for seed in range(150)]
    faults = [fault for loop in loops for fault in play(loop, steps=25)]
    assert any("was deleted while it ran" in fault for fault in faults)


# --- the control: what people do without it ------------------------------------------------------


def naive(specs: Specs) -> tuple[Body, ...]:
    """A plain PyTorchJob under a fixed name, with a TTL and with `suspend`, edited in place."""
    if b"state: cancelled" in specs.job:
        return ()
    epochs = re.search(rb"epochs: (\d+)", specs.job)
    assert epochs is not None
    labels = {"kueue.x-k8s.io/queue-name": "team"} if b"queue: team" in specs.job else {}
    body = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": JOB.name, "labels": labels},
        "spec": {
            "runPolicy": {
                "ttlSecondsAfterFinished": 2,
                "suspend": b"state: suspended" in specs.job or bool(labels),
            },
            "args": [epochs.group(1).decode()],
        },
    }
    return (body,)


class Naive(Loop):
    """The same people and the same verbs, over manifests that are written by hand."""

    @property
    def desired(self) -> Desired:
        return {identity(body): body for body in naive(self.specs)}

    def act(self, name: str) -> None:
        if name == "cancel":  # they delete the file, and know what they do
            self.permitted |= set(self.desired)
        super().act(name)


def test_plain_manifests_with_a_ttl_fail_in_every_way() -> None:
    found: set[str] = set()
    for seed in range(200):
        chance = Random(seed)
        job = repository.JOB.replace("NAME", JOB.name) + "flags: {epochs: 0}\n"
        job += "queue: team\n" if chance.random() < 0.5 else ""
        written = Specs(f"{ENVIRONMENT}gitops: {{engine: argocd}}\n".encode(), job.encode())
        loop = Naive(chance, Argo(), written, Cluster(chance))
        for fault in play(loop, steps=30):
            found.add("trained again" if "trained" in fault else fault.partition("'")[0])
    assert "trained again" in found
    assert "it never settles" in found
