"""People over a repository, its GitOps engine and its cluster, and what must never happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from random import Random

from sync_cluster import LENGTH, TRAINING, Body, Cluster, Identity
from sync_edits import EDITS
from sync_engines import Argo, Flux
from sync_repository import (
    RENDERED,
    Memory,
    Tool,
    applied,
    changed,
    folder,
    manifests,
    tree_of,
)
from sync_requests import ENVIRONMENT, Requests, Tree, jobs, own_path, spec

from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.manifest import Manifest
from trainwright.lifecycle import extend, rerun, retire, states, subject
from trainwright.lifecycle.subject import Step, Subject
from trainwright.rule_model.edit import Verdict
from trainwright.rules.edits import outcomes

MAIN, WORK = "main", "work"  # branches
IMMEDIATE = b"prune: immediate"


def _longer(found: Subject) -> Step:
    return extend.extend(found, "+1h")


def _retired(found: Subject) -> Step:
    return retire.retire(found, retire.Ending(outcome="succeeded"))


VERBS = {
    "suspend": states.suspend,
    "resume": states.resume,
    "cancel": partial(states.cancel, orphan=True),
    "rerun": rerun.rerun,
    "extend": _longer,
    "retire": _retired,
}
_FILES = (
    *["share"] * 6, *["edit"] * 2, "comment", "respell", *["write"] * 2, "add", "remove", "rename",
    "move a base", "move a value", *["forget"] * 3,
)  # fmt: skip
_GIT = (
    "branch", *["merge"] * 2, "revert", "revert all", "delete", "delete and commit", "damage",
    "upgrade", "render",
)  # fmt: skip
_TIME = (*["sync"] * 10, *["tick"] * 12, *["answer"] * 3)
ACTIONS = (*VERBS, *["retire"] * 4, *_FILES, *_GIT, *_TIME)


@dataclass
class Loop:
    """One repository, its engine and its cluster, and what people have asked for.

    `known` is what was last rendered of each job's present run, `permitted` are the objects that
    a user agreed to delete while they run. `at_work` is the account of the branch, `edited_at_work`
    the jobs of which runs were asked for there: also one that is again what it was has then begun.
    """

    chance: Random
    engine: Argo | Flux
    tools: tuple[Tool, ...]
    cluster: Cluster
    git: Memory = field(default_factory=Memory)
    requests: dict[str, Requests] = field(default_factory=dict)
    at_work: dict[str, Requests] = field(default_factory=dict)
    edited_at_work: set[str] = field(default_factory=set)
    known: dict[str, dict[Identity, Body]] = field(default_factory=dict)
    permitted: set[Identity] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    tool: int = 0
    immediate: bool = False  # whether runs were ever rendered to be deleted at once

    @property
    def main(self) -> Tree:
        return self.git.tree(MAIN)

    def begin(self, files: Tree) -> None:
        now = self.render(MAIN, files)
        assert now is not None
        self.git.commit(MAIN, now)
        self._note({}, now, sorted(jobs(now)), frozenset())

    # --- what happens --------------------------------------------------------------------------

    def act(self, name: str) -> None:
        """One thing that happens; what cannot be done is not done."""
        acts = {
            "sync": self.sync,
            "tick": self.cluster.tick,
            "answer": self.answer,
            "branch": self._branch,
            "merge": self._merge,
            "revert": lambda: self._revert(rendered=False),
            "revert all": lambda: self._revert(rendered=True),
            "delete": lambda: self._delete(commit=False),
            "delete and commit": lambda: self._delete(commit=True),
            "damage": self._damage,
            "upgrade": self._upgrade,
            "render": lambda: self.write(self.main),
        }
        self.history.append(name)
        before = dict(self.git.tips)
        if name in VERBS:
            self._verb(name)
        elif name in EDITS:
            self._edit(name)
        else:
            acts[name]()
        if before != self.git.tips:
            self.done[name] += 1

    def _branch_at_work(self) -> str:
        """Where edits are made: on main, or on the branch that there is."""
        return WORK if WORK in self.git.tips and self.chance.random() < 0.4 else MAIN

    def _verb(self, name: str) -> None:
        branch = MAIN if name == "retire" else self._branch_at_work()
        tree = self.git.tree(branch)
        names = [job for job in sorted(jobs(tree)) if name != "retire" or self._has_finished(job)]
        if not names:
            return
        job = self.chance.choice(names)
        try:
            step = VERBS[name](
                subject.load(tree_of(tree), JobFile("prod", job), self.git.past(branch))
            )
        except TrainwrightError:
            return
        if not step.refused and step.files:
            self.write({**tree, **step.files}, branch, selected=(job,), meant=step.for_the_run)

    def _edit(self, name: str) -> None:
        branch = self._branch_at_work()
        tree = self.git.tree(branch)
        after = EDITS[name](self.chance, tree)
        if after is None or after == tree:
            return
        if name == "forget":  # which takes a word of consent
            self.write(after, branch, new_runs=True)
        elif self.chance.random() < 0.1 and jobs(tree) == jobs(after):  # who forgets to render
            now = self.render(branch, after)
            if now is not None and not self._is_refused(tree, now, (), meant=False):
                self.git.commit(branch, after)
        else:
            self.write(after, branch)

    def _branch(self) -> None:
        self.git.branch(WORK, MAIN)
        self.at_work, self.edited_at_work = deepcopy(self.requests), set()

    def _merge(self) -> None:
        """Both sides, into main or, as before a review, main into the branch first."""
        if WORK not in self.git.tips:
            return
        into, other = (MAIN, WORK) if self.chance.random() < 0.7 else (WORK, MAIN)
        merged, conflicts = self.git.merged(into, other)
        if self._resolve(
            merged, conflicts, {"ours": self.git.tree(into), "theirs": self.git.tree(other)}
        ):
            by_hand = _jobs_of(conflicts)
            if into == MAIN:
                by_hand |= self.edited_at_work
                for job, asked in self.at_work.items():
                    self.requests.setdefault(job, Requests()).runs |= asked.runs
            self.write(merged, into, others=(other,), by_hand=by_hand)
            if into == MAIN:
                del self.git.tips[WORK]

    def _revert(self, *, rendered: bool) -> None:
        """A commit taken back: its specs, or all that it changed."""
        commits = self.git.first_parents(MAIN)
        if not commits:
            return
        number = self.chance.choice(commits[:6])
        merged, conflicts = self.git.reverted(MAIN, number)
        before = self.git.commits[self.git.commits[number].parents[0]].tree
        if not rendered:
            inside = f"{RENDERED}/"
            merged = {path: raw for path, raw in merged.items() if not path.startswith(inside)}
            merged |= {path: raw for path, raw in self.main.items() if path.startswith(inside)}
            conflicts = {path: v for path, v in conflicts.items() if not path.startswith(inside)}
        if self._resolve(merged, conflicts, {"ours": self.main, "theirs": before}):
            put_back = _jobs_of(changed(merged, self.main)) if rendered else frozenset()
            self.write(merged, MAIN, by_hand=put_back)

    def _resolve(
        self, merged: dict[str, bytes], conflicts: dict[str, Tree], trees: Mapping[str, Tree]
    ) -> bool:
        """Conflicts in rendered files by the side that the job's file is from, or by none.

        In what people write they are not resolved at all.
        """
        if any(not path.startswith(f"{RENDERED}/") for path in conflicts):
            return False
        for job in sorted(_jobs_of(conflicts)):
            mine = self._sides(merged, trees, own_path(job))
            side = self.chance.choice((*mine, "neither") if "ours" in mine else mine)
            for path in (path for path in conflicts if path.startswith(folder(job))):
                if side in conflicts[path]:
                    merged[path] = conflicts[path][side]
        return True

    @staticmethod
    def _sides(merged: Tree, trees: Mapping[str, Tree], path: str) -> tuple[str, ...]:
        """The sides that have a file as it was merged; both where none has."""
        found = tuple(side for side, tree in trees.items() if tree.get(path) == merged.get(path))
        return found or tuple(trees)

    def _delete(self, *, commit: bool) -> None:
        """The rendered files of one job or of all, gone by accident."""
        job = self.chance.choice((*sorted(jobs(self.main)), ""))
        inside = folder(job) if job else f"{RENDERED}/"
        tree = {path: raw for path, raw in self.main.items() if not path.startswith(inside)}
        if commit:
            self.git.commit(MAIN, tree)
        else:
            self.write(tree)

    def _damage(self) -> None:
        """A rendered manifest edited by hand, and rendered again."""
        paths = [p for p in sorted(self.main) if p.startswith(RENDERED) and p.endswith("job.yaml")]
        if paths:
            path = self.chance.choice(paths)
            raw = self.main[path].replace(b"epochs", b"steps") + b"# edited\n"
            self.write({**self.main, path: raw})
            self.done["damage"] += 1

    def _upgrade(self) -> None:
        self.tool = self.chance.randrange(len(self.tools))
        self.done["upgrade"] += 1

    # --- commits -------------------------------------------------------------------------------

    def render(
        self,
        branch: str,
        tree: Tree,
        selected: tuple[str, ...] = (),
        *,
        new_runs: bool = False,
    ) -> Tree | None:
        tool = self.tools[self.tool]
        return self.git.rendered(branch, tree, tool, selected, new_runs=new_runs)

    def write(
        self,
        tree: Tree,
        branch: str = MAIN,
        *,
        selected: tuple[str, ...] = (),
        others: tuple[str, ...] = (),
        by_hand: frozenset[str] = frozenset(),
        meant: bool = False,
        new_runs: bool = False,
    ) -> None:
        """A commit of what people wrote and what that renders to, unless it is refused.

        `by_hand` are the jobs whose rendered files people put there. `meant` is what a verb does
        for the sake of the run.
        """
        now = self.render(branch, tree, selected, new_runs=new_runs)
        if now is None:
            self.done["refused"] += 1
            return
        before = self.git.tree(branch)
        if self._is_refused(before, now, selected, meant=meant):
            return
        if now == before and not others:
            return
        by_hand = frozenset(job for job in by_hand if _put_back(job, before, tree, now))
        self._check(branch, now, selected)
        self.git.commit(branch, now, *others)
        if branch == MAIN:
            names = {*self.requests, *jobs(before), *jobs(now)}
            self._note(before, now, selected or sorted(names), by_hand)
        else:
            self._note_at_work(now, selected or sorted({*jobs(before), *jobs(now)}), by_hand)

    def _is_refused(
        self, before: Tree, now: Tree, selected: tuple[str, ...], *, meant: bool
    ) -> bool:
        """Whether a verb refuses, or the plan of a pull request is against a longer deadline."""
        for job in jobs(now) & jobs(before):
            longer = spec(before, job).get("maxDuration") != spec(now, job).get("maxDuration")
            if job in selected or (longer and before[own_path(job)] != now[own_path(job)]):
                wrong = {Verdict.REJECTED, Verdict.REFUSED_BELOW}
                wrong |= {Verdict.IGNORED, Verdict.MIXED} if meant or longer else set()
                old = manifests(before, job) or self.known.get(job, {})
                new = manifests(now, job)
                if any(_verdicts(old[i], new[i]) & wrong for i in old.keys() & new.keys()):
                    return True
        return False

    def _check(self, branch: str, now: Tree, selected: tuple[str, ...]) -> None:
        """`render --check` right after `render`, with this version of the tool or another."""
        tool = self.tools[self.chance.choice((self.tool, self.chance.randrange(len(self.tools))))]
        again = self.git.rendered(branch, now, tool, selected)
        if again != now:
            paths = sorted(changed(now, again)) if again is not None else "errors"
            self.faults.append(f"`render --check` is red after `render`: {paths}")

    def _note(
        self, before: Tree, now: Tree, names: tuple[str, ...] | list[str], by_hand: frozenset[str]
    ) -> None:
        """Hold a commit on main against what it asks for."""
        self.immediate |= IMMEDIATE in now[ENVIRONMENT]
        for job in names:
            found = self.requests.setdefault(job, Requests())
            count, old, new = found.count, self.known.get(job, {}), manifests(now, job)
            begins = found.read(now, job, frozenset(new), by_hand=job in by_hand)
            if found.count == count:
                self.faults += _unasked(job, old, new)
            if begins and old.keys() == new.keys():
                self.faults.append(f"{job} was asked for another run, and has none")
            if found.ended and new:
                self.faults.append(f"{job} has ended, and is still rendered")
            if new or found.count != count or found.ended:
                self.known[job] = new

    def _note_at_work(
        self, now: Tree, names: tuple[str, ...] | list[str], by_hand: frozenset[str]
    ) -> None:
        """Keep the account of a commit on the branch."""
        for job in names:
            found = self.at_work.setdefault(job, Requests())
            count = found.count
            found.read(now, job, frozenset(manifests(now, job)), by_hand=job in by_hand)
            if found.count != count:
                self.edited_at_work.add(job)

    # --- the cluster ---------------------------------------------------------------------------

    def desired(self) -> dict[Identity, tuple[str, Body]] | None:
        """What git has, with the job; None where the engine cannot build it."""
        return applied(self.main)

    def wired_to_prune(self) -> bool:
        """Whether the engine was wired to delete what leaves git."""
        return IMMEDIATE in self.main[ENVIRONMENT]

    def sync(self) -> bool:
        """One reconciliation; whether anything was done."""
        desired = self.desired()
        if desired is None:
            return False
        objects, before = self.cluster.objects, set(self.cluster.objects)
        owners = {i: (job, self._count(job)) for i, (job, _) in desired.items()}
        self.engine.immediate = self.wired_to_prune()
        acted = self.engine.sync(self.cluster, desired)
        for which in (set(objects) - before) - set(desired):
            self.faults.append(f"{which} begins, and git does not have it")
        for which in (before - set(objects)) & set(desired):
            self.faults.append(f"{which} was deleted, and git has it")
        for which, owner in owners.items():
            if which in objects:
                live = objects[which]
                live.owner = owner
                live.maker = owner if live.maker == ("", 0) else live.maker
        self._judge_losses()
        for which in self.cluster.refused:
            # A job whose file went and came back is called as it was: its run goes on, where the
            # engine still waits to delete it. If it was rendered otherwise, that is reported.
            (job, number), (_, present) = objects[which].maker, objects[which].owner
            if number <= self.requests[job].gone < present:
                self.done["a job came back"] += 1
            else:
                self.faults.append(f"the API refuses {which}")
        self.cluster.refused.clear()
        return acted

    def answer(self) -> None:
        """A user confirms what is asked for, and deletes what was left and git does not have."""
        left = (self.engine.left & set(self.cluster.objects)) - set(self.desired() or ())
        self.permitted |= self.engine.answer() | left
        for found in left:
            self.cluster.delete(found)
        self._judge_losses()

    def _count(self, job: str) -> int:
        return self.requests[job].count if job in self.requests else 0

    def _judge_losses(self) -> None:
        for live in self.cluster.lost:
            job, number = live.owner
            asked = self.requests.get(job, Requests())
            if asked.count == number and not asked.ended:
                self.faults.append(f"{live.name} was ended while it ran: no edit asked for it")
            which = (live.kind, live.name)
            if not (which in self.permitted or asked.cancelled or self.immediate):
                self.faults.append(f"{live.name} was deleted while it ran")
            self.permitted.discard(which)
        self.done["lost with permission"] += len(self.cluster.lost)
        self.cluster.lost.clear()

    def _has_finished(self, job: str) -> bool:
        """Whether the present run has ended: that is when people retire it."""
        desired = self.desired() or {}
        lives = [self.cluster.objects.get(i) for i, (owner, _) in desired.items() if owner == job]
        return any(live is not None and live.outcome for live in lives)

    # --- the end -------------------------------------------------------------------------------

    def refresh(self) -> int:
        """Let everything end while nothing is written; how many rounds it takes until nothing moves."""
        quiet = 0
        for number in range(100):
            self.cluster.tick(calm=True)
            self.answer()
            quiet = 0 if self.sync() else quiet + 1
            if quiet > 2 * LENGTH and not self.engine.left:
                return number
        return -1

    def end(self) -> None:
        """Render what was left, let everything end, and look at what became of it."""
        self.write(self.main)
        rounds = self.refresh()
        desired = self.desired()
        if rounds < 0:
            self.faults.append("it never settles")
        elif desired is None:
            self.faults.append("what is rendered cannot be built")
        elif set(self.cluster.objects) != set(desired):
            self.faults.append(f"{set(self.cluster.objects)} in the cluster, {set(desired)} in git")
        self.faults += self._trained()

    def _trained(self) -> Iterator[str]:
        for (job, number), times in self.cluster.begun.items():
            if times > 1:
                yield f"request {number} of {job} trained {times} times"
        for job in jobs(self.main):
            asked = self.requests.get(job, Requests())
            there = manifests(self.main, job)
            if not (there or asked.ended or asked.has_finished):
                yield f"{job} was asked for, and is not there"


def play(loop: Loop, steps: int, actions: tuple[str, ...] = ACTIONS) -> list[str]:
    """Random actions, then rest; what went wrong, up to the first fault in git."""
    for _ in range(steps):
        loop.act(loop.chance.choice(actions))
        if loop.faults:
            return loop.faults
    loop.end()
    return loop.faults


def _unasked(job: str, old: dict[Identity, Body], new: dict[Identity, Body]) -> Iterator[str]:
    """What changed in the rendered files of a job whose own file asked for no other run."""
    for which in old.keys() & new.keys():
        if old[which] is not new[which] and _fixed(old[which]) != _fixed(new[which]):
            yield f"{which} is changed in place"
    if any(which[0] in TRAINING for which in new.keys() - old.keys()):
        yield f"{job} has another run that nobody asked for"


def _put_back(job: str, before: Tree, tree: Tree, now: Tree) -> bool:
    """Whether people put the files of another run there, and so asked for one."""
    record = f"{folder(job)}run.lock"
    other = manifests(tree, job).keys() - manifests(before, job).keys()
    recorded = tree.get(record) not in (None, before.get(record))
    return bool((other or recorded) and manifests(now, job))


def _jobs_of(paths: object) -> frozenset[str]:
    """The jobs whose rendered files are among some paths."""
    inside = f"{RENDERED}/"
    assert isinstance(paths, set | dict)
    found = (path.removeprefix(inside).split("/") for path in paths if path.startswith(inside))
    return frozenset(parts[0] for parts in found if len(parts) > 1)


def _verdicts(before: Body, after: Body) -> set[Verdict]:
    return {j.verdict for j in outcomes.evaluate(Manifest(body=before), Manifest(body=after))}


_MOVES = frozenset({"suspend", "activeDeadlineSeconds"})


def _fixed(data: object) -> object:
    """An object without what an edit may change in place."""
    if isinstance(data, dict):
        return {key: _fixed(value) for key, value in data.items() if key not in _MOVES}
    return [_fixed(item) for item in data] if isinstance(data, list) else data
