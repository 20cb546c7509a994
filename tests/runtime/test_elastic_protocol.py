"""The rules of who trains and when training is over, searched through every order of events.

The search runs the coordinator's own functions, with workers that follow `elastic.replica` and
`elastic.training`: they die and pause, the coordinator forgets all it knows, steps are committed by
some of their members only. What must never happen is checked in every state, and that from every
state training can still come to its end. Each rule is then broken, and the search has to find that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest

from trainwright_runtime.coordination import rules
from trainwright_runtime.coordination.rules import Answer, Phase, Run, generation

STEPS = 2
AFTER = {Answer.LEAD: Phase.LEADS, Answer.OVER: Phase.ENDING}


class Worker(NamedTuple):
    """One worker, as far as the rules see it."""

    life: int = 0
    """Which process it is; a new one holds nothing."""
    phase: Phase | None = Phase.NEW
    """None once its process has ended well."""
    lineage: str = ""
    step: int = 0
    """Committed steps that it holds."""
    connected: bool = False
    """The coordinator hears of it; a paused one keeps what it holds."""
    sure: bool = True
    """It was heard of in the time after which it is taken for lost."""


class World(NamedTuple):
    run: Run
    workers: tuple[Worker, ...]
    deaths: int
    """How many more processes may die, connections be lost and coordinators forget."""
    saved: int = 0
    """Steps in the checkpoint that the leader leaves."""
    fenced: frozenset[str] = frozenset()
    """Lineages that were followed by another one."""
    ended: int = 0
    """Processes that ran the program's end to its end."""


@dataclass
class Violation(Exception):
    what: str
    trace: list[str]


def name(index: int, worker: Worker) -> str:
    return f"w{index}.{worker.life}"


def events(world: World) -> Iterator[tuple[str, World]]:
    for index, worker in enumerate(world.workers):
        if worker.phase is not None:
            yield from _moves(world, index, worker)
        if world.deaths:
            yield from _losses(world, index, worker)
    yield from _steps(world)
    if world.run.recovering and _all_heard(world):
        yield "the time to come back is over", world._replace(run=rules.recovered(world.run))
    if world.deaths:
        lost = tuple(worker._replace(connected=False) for worker in world.workers)
        # That training is finished is on the disk too, where there is a checkpoint folder.
        run = Run(finished=world.run.finished)
        yield "coordinator lost", world._replace(run=run, workers=lost, deaths=world.deaths - 1)


def _all_heard(world: World) -> bool:
    """Each running worker that holds something connects within that time."""
    return all(w.connected or not w.sure or w.phase in (Phase.NEW, None) for w in world.workers)


def _with(world: World, index: int, worker: Worker, run: Run) -> World:
    workers = (*world.workers[:index], worker, *world.workers[index + 1 :])
    return world._replace(run=run, workers=workers)


def _moves(world: World, index: int, worker: Worker) -> Iterator[tuple[str, World]]:
    me = name(index, worker)
    assert worker.phase is not None
    run, phase = rules.enter(world.run, me, worker.lineage, worker.phase, sure=worker.sure)
    sure = worker.sure or run.lineage == worker.lineage
    worker = worker._replace(phase=phase, connected=True, sure=sure)
    if phase is Phase.STALE:
        worker = worker._replace(lineage="", step=0, sure=True)
    yield f"{me} connects", _with(world, index, worker, run)
    if phase in (Phase.NEW, Phase.STALE) or (phase is Phase.HOLDS and worker.step < STEPS):
        yield from _asks(world, index, worker, run)
    elif (phase is Phase.HOLDS and worker.step == STEPS) or phase is Phase.COMPLETE:
        yield from _completes(world, index, worker, run)
    elif phase is Phase.ENDING:
        done = worker._replace(phase=None, connected=False)
        yield f"{me} ends", _with(world, index, done, rules.leave(run, me))
    elif phase is Phase.LEADS:
        led = rules.lead(run, me)
        yield f"{me} saves", _with(world, index, worker, led)._replace(saved=worker.step)
        done = worker._replace(phase=None, connected=False)
        over = rules.leave(rules.finish(led, me), me)
        yield f"{me} ends", _with(world, index, done, over)._replace(ended=world.ended + 1)


def _asks(world: World, index: int, worker: Worker, run: Run) -> Iterator[tuple[str, World]]:
    me = name(index, worker)
    assert worker.phase is not None
    run, answer = rules.request_step(run, me, worker.phase)
    if answer is Answer.WAIT:
        yield f"{me} waits", _with(world, index, worker, run)
    elif answer is Answer.FOUND:
        begun = worker._replace(phase=Phase.HOLDS, lineage=run.lineage, step=world.saved)
        fenced = world.fenced | ({world.run.lineage} - {""})
        fenced |= {w.lineage for w in world.workers if w.lineage}
        yield f"{me} begins", _with(world, index, begun, run)._replace(fenced=fenced)
    elif answer is Answer.OVER:
        yield f"{me} hears that it is over", _with(world, index, worker._replace(phase=None), run)
    elif answer is Answer.RESTART:
        yield f"{me} starts anew", _with(world, index, Worker(worker.life + 1), run)


# Who was first in the last step is one and the same: an end that is reached only if a worker names
# another one than a holder, each time that it asks, is none.
_UNLIKELY = ", after one that holds nothing"


def _completes(world: World, index: int, worker: Worker, run: Run) -> Iterator[tuple[str, World]]:
    me = name(index, worker)
    others = {name(i, w) for i, w in enumerate(world.workers) if w.lineage == worker.lineage}
    likely = run.holders or {me}
    for first in sorted({*others, *run.holders, me}):
        what = f"{me} completes" if first in likely else f"{me} completes{_UNLIKELY}"
        after, phase, answer = rules.complete(run, me, worker.lineage, first, sure=worker.sure)
        phase = AFTER.get(answer, phase)
        yield what, _with(world, index, worker._replace(phase=phase), after)


def _losses(world: World, index: int, worker: Worker) -> Iterator[tuple[str, World]]:
    me = name(index, worker)
    run = rules.leave(world.run, me)
    fewer = world._replace(deaths=world.deaths - 1)
    if worker.phase is not None:
        yield f"{me} dies", _with(fewer, index, Worker(worker.life + 1), run)
        if worker.connected:
            yield (
                f"{me} is paused",
                _with(fewer, index, worker._replace(connected=False, sure=False), run),
            )
    elif not worker.connected:
        yield f"{me} is started again", _with(fewer, index, Worker(worker.life + 1), world.run)


def _steps(world: World) -> Iterator[tuple[str, World]]:
    """A quorum of workers of one lineage and of those who follow it takes a step."""
    ready = [
        (index, worker)
        for index, worker in enumerate(world.workers)
        if worker.phase is Phase.HOLDS and worker.step < STEPS
    ]
    for members in _subsets(ready):
        if len({worker.lineage for _, worker in members}) != 1:
            continue  # a mixed quorum takes no step
        if any(_verdict(world, index, worker) is not Answer.TRAIN for index, worker in members):
            continue  # asked again when the quorum changes
        healed = [
            (index, worker)
            for index, worker in enumerate(world.workers)
            if worker.phase in (Phase.NEW, Phase.STALE)
            and _verdict(world, index, worker) is Answer.FOLLOW
        ]
        step = max(worker.step for _, worker in members)
        lineage = members[0][1].lineage
        for newcomers in [[], *_subsets(healed)]:
            yield from _commits(world, [*members, *newcomers], lineage, step)


def _verdict(world: World, index: int, worker: Worker) -> Answer:
    assert worker.phase is not None
    me = name(index, worker)
    run, phase = rules.enter(world.run, me, worker.lineage, worker.phase, sure=worker.sure)
    return rules.request_step(run, me, phase)[1]


def _commits(
    world: World, members: list[tuple[int, Worker]], lineage: str, step: int
) -> Iterator[tuple[str, World]]:
    """Everybody is at `step`, and some see the next one committed."""
    for committed in _subsets(members):
        after = world
        for index, worker in members:
            moved = worker._replace(
                phase=Phase.HOLDS,
                lineage=lineage,
                step=step + ((index, worker) in committed),
                connected=True,
                sure=True,
            )
            run, phase = rules.enter(after.run, name(index, worker), lineage, Phase.HOLDS)
            after = _with(after, index, moved._replace(phase=phase), run)
        names = [name(index, worker) for index, worker in committed]
        yield f"{' and '.join(names)} commit step {step + 1} of {lineage}", after


def _subsets(items: list[tuple[int, Worker]]) -> list[list[tuple[int, Worker]]]:
    found: list[list[tuple[int, Worker]]] = [[]]
    for item in items:
        found += [[*one, item] for one in found]
    return found[1:]


def problem(before: World, what: str, after: World) -> str:
    """What must not happen."""
    leads = [w for w in after.workers if w.phase is Phase.LEADS and w.sure]
    if len(leads) > 1:
        return "two workers run the program's end as rank 0"
    if after.run.finished and not after.ended:
        return "finished, though no worker has run the program's end"
    if after.ended > 1:
        return "the program's end is run to its end twice"
    if "hears" in what and not after.ended:
        return "a worker is told that training is over, though no worker has run the program's end"
    newest = max((w.lineage for w in before.workers if _counts(w)), key=generation, default="")
    for lineage in after.fenced:
        if f"of {lineage}" in what and generation(lineage) < generation(newest):
            return f"a step of {lineage} is committed, though {newest} is held by others"
    if "begins" in what:
        states = Phase.HOLDS, Phase.COMPLETE
        held = [w for w in before.workers if w.connected and w.phase in states]
        if held:
            return f"a lineage begins while {held[0].lineage} is held"
    return ""


def _counts(worker: Worker) -> bool:
    return worker.sure and worker.phase in (Phase.HOLDS, Phase.COMPLETE, Phase.LEADS)


def search(workers: int, deaths: int) -> int:
    """Visit every state; raises Violation. Answers how many there are."""
    first = World(Run(), (Worker(),) * workers, deaths)
    came: dict[World, tuple[World, str] | None] = {first: None}
    follows: dict[World, list[World]] = {}
    queue = deque([first])
    while queue:
        world = queue.popleft()
        follows[world] = []
        for what, after in events(world):
            if wrong := problem(world, what, after):
                raise Violation(wrong, [*_trace(came, world), what])
            if not what.endswith(_UNLIKELY):
                follows[world].append(after)
            if after not in came:
                came[after] = world, what
                queue.append(after)
    _can_end(came, follows)
    return len(came)


def _can_end(
    came: dict[World, tuple[World, str] | None], follows: dict[World, list[World]]
) -> None:
    """From every state there is a way to one where all processes have ended well."""
    before: dict[World, list[World]] = {}
    for world, after in follows.items():
        for one in after:
            before.setdefault(one, []).append(world)
    good = [w for w in follows if all(worker.phase is None for worker in w.workers)]
    seen = set(good)
    while good:
        for world in before.get(good.pop(), ()):
            if world not in seen:
                seen.add(world)
                good.append(world)
    for world in follows:
        if world not in seen:
            raise Violation("training can never come to its end", _trace(came, world))


def _trace(came: dict[World, tuple[World, str] | None], world: World) -> list[str]:
    trace: list[str] = []
    at = came[world]
    while at is not None:
        trace.append(at[1])
        at = came[at[0]]
    return trace[::-1]


@pytest.mark.parametrize(
    ("workers", "deaths"),
    [
        (1, 2),
        (2, 1),
        pytest.param(2, 2, marks=pytest.mark.slow),
    ],
)
def test_nothing_forbidden_can_happen_and_training_can_always_end(
    workers: int, deaths: int
) -> None:
    try:
        assert search(workers, deaths) > 300
    except Violation as found:
        pytest.fail("\n".join([found.what, *found.trace]))


_request_step, _enter, _complete, _recovered = (
    rules.request_step,
    rules.enter,
    rules.complete,
    rules.recovered,
)


def _request_knowing(**changed: object) -> Callable[..., tuple[Run, Answer]]:
    """`request_step`, with less in mind than the coordinator knows."""

    def request_step(run: Run, worker: str, phase: Phase, after: int = 0) -> tuple[Run, Answer]:
        less = replace(run, **changed)  # type: ignore[arg-type]
        answered, answer = _request_step(less, worker, phase, after)
        return (run, answer) if answered == less else (answered, answer)

    return request_step


def _any_lineage(run: Run, worker: str, lineage: str, phase: Phase, **more: bool) -> object:
    accepted = run if phase is Phase.NEW else replace(run, lineage=lineage)
    return _enter(accepted, worker, lineage, phase, **more)


def _always_sure(run: Run, worker: str, lineage: str, phase: Phase, **more: bool) -> object:
    return _enter(run, worker, lineage, phase)


def _all_lead(run: Run, worker: str, lineage: str, first: str, **more: bool) -> object:
    return _complete(replace(run, leader=""), worker, lineage, worker, **more)


def _first_always_leads(run: Run, worker: str, lineage: str, first: str, **more: bool) -> object:
    return _complete(replace(run, behind=frozenset()), worker, lineage, first, **more)


def _over_without_an_end(run: Run, worker: str, phase: Phase, after: int = 0) -> object:
    run, answer = _request_step(run, worker, phase, after)
    return run, Answer.OVER if answer is Answer.WAIT and run.leader else answer


def _no_memory_of_claims(run: Run) -> Run:
    return _recovered(replace(run, claims=frozenset()))


@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ("request_step", _request_knowing(recovering=False)),
        ("request_step", _request_knowing(holders=frozenset())),
        ("request_step", _request_knowing(completed=frozenset())),
        ("request_step", _over_without_an_end),
        ("enter", _any_lineage),
        ("complete", _all_lead),
        ("complete", _first_always_leads),
        pytest.param("enter", _always_sure, marks=pytest.mark.slow),
        pytest.param("recovered", _no_memory_of_claims, marks=pytest.mark.slow),
    ],
)
def test_the_search_finds_a_rule_that_is_missing(
    rule: str, broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, rule, broken)
    with pytest.raises(Violation):
        assert [search(2, deaths) for deaths in (1, 2)]
