"""Rules for which lineage of a training counts, who may take its steps, and when it is over.

docs/elastic-protocol.md explains them, tests/runtime/test_elastic_protocol.py searches every order
of events for one that breaks them. `registry` keeps a `Run` in the coordinator, `session` is a
worker's view of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Phase(StrEnum):
    """The state that a worker reports to be in."""

    NEW = "new"
    """It holds no state of this training but what a checkpoint, or its program, gave it."""
    STALE = "stale"
    """It holds state of a lineage that does not count, and cannot begin one."""
    HOLDS = "holds"
    """It holds the state of its lineage, up to the last committed step or the one before."""
    COMPLETE = "complete"
    """Its program has left the last epoch."""
    LEADS = "leads"
    """It was let to run the program's end as rank 0."""
    ENDING = "ending"
    """It runs that end as another rank."""


class Answer(StrEnum):
    """What a worker may do."""

    TRAIN = "train"
    """Take the next step."""
    FOLLOW = "follow"
    """Take over the state of the workers that train, then take steps with them."""
    FOUND = "found"
    """Begin a lineage, from a checkpoint or from the first step: no worker holds any state."""
    LEAD = "lead"
    """Every epoch is committed: be the one worker that runs the program's end as rank 0."""
    WAIT = "wait"
    """Request it again in a moment."""
    RESTART = "restart"
    """End and be restarted: no other worker has the state that would replace yours."""
    OVER = "over"
    """End with success: training is over, and the program's end was run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the coordinator knows of a training."""

    lineage: str = ""
    """The one that counts: its generation and its founder, as "3/w0-1f2e"; "" if none does."""
    holders: frozenset[str] = frozenset()
    """Connected workers that hold its state and still have steps to take."""
    behind: frozenset[str] = frozenset()
    """Holders that did not see the last step committed, which others saw."""
    completed: frozenset[str] = frozenset()
    """Connected workers that hold its last state, and wait for one to run the program's end."""
    newcomers: frozenset[str] = frozenset()
    """Other connected workers."""
    overtaken: frozenset[str] = frozenset()
    """Workers that steps went on without, and that may not have learned it yet."""
    claims: frozenset[tuple[str, str]] = frozenset()
    """Workers and their lineages that were out of touch, and count if no other lineage does."""
    leader: str = ""
    """The worker that is to run the program's end."""
    leading: bool = False
    """It has reached that end, and has left behind what another one would need."""
    finished: bool = False
    """The leader's program has ended well."""
    recovering: bool = True
    """Workers may hold a lineage that this coordinator, new or back, has not heard of yet."""
    most: int = 0
    """Workers that there can be; 0 when that is not known."""


def enter(
    run: Run, worker: str, lineage: str, phase: Phase, *, sure: bool = True
) -> tuple[Run, Phase]:
    """Note what a worker reports to hold; return the run and its phase, STALE for another lineage.

    The worker is `sure` unless it was out of touch for so long that others may have begun another
    lineage without it. Then it waits until workers that would know have had time to come back.
    """
    if phase in (Phase.NEW, Phase.STALE):
        run = _as_newcomer(run, worker)
        return _recovered_if_all_reported(
            replace(run, overtaken=_removed(run.overtaken, worker))
        ), phase
    if run.lineage not in ("", lineage) or worker in run.overtaken:
        return _as_newcomer(run, worker), Phase.STALE
    if not sure and not run.lineage and run.recovering:
        phase = Phase.ENDING if phase is Phase.LEADS else phase
        return replace(run, claims=run.claims | {(worker, lineage)}), phase
    run = replace(run, lineage=lineage, newcomers=_removed(run.newcomers, worker))
    if phase is Phase.HOLDS:
        run = replace(run, holders=_added(run.holders, worker))
    if phase is Phase.COMPLETE:
        run = replace(run, completed=_added(run.completed, worker))
    if phase is Phase.LEADS:
        run = replace(run, leader=run.leader or ("" if run.finished else worker))
        phase = Phase.LEADS if run.leader == worker else Phase.ENDING
    return _recovered_if_all_reported(run), phase


def request_step(
    run: Run, worker: str, phase: Phase, after: int = 0, *, apart: bool = False
) -> tuple[Run, Answer]:
    """Answer a worker that wants to take a step; `after` is its checkpoint's generation.

    One that is `apart`, since others cannot reach it, does not begin a lineage.
    """
    if run.finished:
        return run, Answer.OVER
    if run.leader or run.completed:
        behind = run.behind | ({worker} & run.holders)
        leader = "" if run.leader in behind else run.leader
        return replace(run, behind=behind, leader=leader), Answer.WAIT
    if run.holders:
        run = replace(run, behind=_removed(run.behind, worker))
        return run, Answer.TRAIN if worker in run.holders else Answer.FOLLOW
    if run.recovering or apart:
        return run, Answer.WAIT
    if phase is Phase.STALE:
        return run, Answer.RESTART
    lineage = f"{max(generation(run.lineage), after) + 1}/{worker}"
    holders = frozenset({worker})
    return replace(
        run, lineage=lineage, holders=holders, newcomers=run.newcomers - holders
    ), Answer.FOUND


def complete(
    run: Run, worker: str, lineage: str, first: str, *, sure: bool = True
) -> tuple[Run, Phase, Answer]:
    """Note that a worker's program has left the last epoch; `first` is rank 0 of the last step.

    `first` leads or, if it is lost, this worker. Others wait for the leader to finish, since
    they hold the state to take its place.
    """
    run, phase = enter(run, worker, lineage, Phase.COMPLETE, sure=sure)
    if phase is Phase.STALE or run.lineage != lineage:
        return run, phase, Answer.OVER if run.finished else Answer.WAIT
    if run.finished:  # before this coordinator: it need not know by whom
        return _without(run, worker), phase, Answer.OVER
    if run.recovering and not run.leader:
        return run, phase, Answer.WAIT  # a worker may lead, and has not reported it again
    leader = run.leader or (first if first in run.holders - run.behind else worker)
    run = replace(run, holders=run.holders - {worker}, behind=run.behind - {worker}, leader=leader)
    if leader != worker and not run.leading:
        return run, phase, Answer.WAIT
    run = replace(run, completed=run.completed - {worker})
    return run, phase, Answer.LEAD if leader == worker else Answer.OVER


def lead(run: Run, worker: str) -> Run:
    """Note that the leader has saved what another worker would need to take its place."""
    return replace(run, leading=run.leading or run.leader == worker)


def finish(run: Run, worker: str) -> Run:
    """Note that a worker's program has ended well, which ends the training if it is the leader."""
    return replace(run, finished=run.finished or run.leader == worker)


def go_on_without(run: Run, workers: frozenset[str]) -> Run:
    """Turn holders of the state among `workers` into newcomers: others take a step without them.
    They are connected with the coordinator, but cannot take part."""
    left = run.holders & workers
    return replace(
        run,
        holders=run.holders - left,
        behind=run.behind - left,
        newcomers=run.newcomers | left,
        overtaken=run.overtaken | left,
    )


def leave(run: Run, worker: str) -> Run:
    """Note that a worker's connection has ended, or that it was silent for too long."""
    return _without(run, worker)


def recovered(run: Run) -> Run:
    """End the recovery: workers that hold a lineage have had time to report it."""
    if run.recovering and not run.lineage and run.claims:
        lineage = max((claim for _, claim in run.claims), key=generation)
        holders = frozenset(worker for worker, claim in run.claims if claim == lineage)
        run = replace(run, lineage=lineage, holders=holders)
    return replace(run, recovering=False, claims=frozenset())


def generation(lineage: str) -> int:
    """Return the number of a lineage's generation, 0 for an empty lineage."""
    return int(lineage.partition("/")[0] or 0)


def _recovered_if_all_reported(run: Run) -> Run:
    """End the recovery if the maximum number of workers have reported their state."""
    if not run.recovering:
        return run
    reported = run.newcomers | run.holders | run.completed | ({run.leader} - {""})
    return replace(run, recovering=False) if 0 < run.most <= len(reported) else run


def _as_newcomer(run: Run, worker: str) -> Run:
    newcomers = _added(run.newcomers, worker)
    return replace(_without(replace(run, newcomers=frozenset()), worker), newcomers=newcomers)


def _without(run: Run, worker: str) -> Run:
    """Return the run without anything that a worker has reported."""
    lost = run.leader == worker and not run.finished
    return replace(
        run,
        holders=_removed(run.holders, worker),
        behind=_removed(run.behind, worker),
        completed=_removed(run.completed, worker),
        newcomers=_removed(run.newcomers, worker),
        claims=run.claims and frozenset(claim for claim in run.claims if claim[0] != worker),
        leader="" if lost else run.leader,
        leading=run.leading and not lost,
    )


def _added(workers: frozenset[str], worker: str) -> frozenset[str]:
    """Add a worker, without a copy if it is included, as thousands report twice per second."""
    return workers if worker in workers else workers | {worker}


def _removed(workers: frozenset[str], worker: str) -> frozenset[str]:
    return workers - {worker} if worker in workers else workers
