"""The first line of a plan: how many jobs change in which way, and what that costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import filterfalse

from trainwright.datatypes.layout import WIRING
from trainwright.datatypes.listing import listed, plural
from trainwright.plan import words
from trainwright.plan.model import (
    BEGINS,
    BLOCKED,
    Action,
    EnvironmentPlan,
    JobChange,
    ObjectChange,
    Plan,
    SettingChange,
)
from trainwright.plan.policies import NAMESPACE, POOLS
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import NOTHING, Demand, total

LIMIT = 120  # characters

# What the change does, to be completed by "2 jobs", or by "2" if jobs were mentioned before.
_VERBS = {
    Action.REJECTED: "cannot sync {}",
    Action.BROKEN: "cannot render {}",
    Action.DELETED: "deletes {}",
    Action.LEFT: "leaves {} running",
    Action.LEFT_SUSPENDED: "leaves {} suspended",
    Action.MIXED: "mixes versions in {}",
    Action.IGNORED: "has no effect on {}",
    Action.MAY_BE_REFUSED: "may fail to sync {}",
    Action.CANCELLED: "cancels {}",
    Action.NEW_RUN: "replaces {}",
    Action.STARTED: "starts {}",
    Action.SUSPENDED: "suspends {}",
    Action.RESUMED: "resumes {}",
    Action.RETIRED: "retires {}",
    Action.IN_PLACE: "updates {} in place",
    Action.ADOPTED: "adopts {}",
    Action.GOES_ON: "{} go on",
    Action.OUTDATED: "outdates {}",
}
_BESIDE = "starts {} beside {}"  # new runs, where no engine ends those before
_QUEUED = {
    "starts {}": "queues {}",
    _BESIDE: "queues {} beside {}",
}
_BACK = "goes back to {}"  # runs, which no engine has ended
_BACK_BESIDE = "goes back to {} and leaves {} running"
_NEXT = "starts the next run of {}"  # where the one before has finished
_LATER = {
    "starts {}": "adds {} as suspended",
    _BESIDE: "adds {} as suspended beside {}",
    _NEXT: "adds the next run of {} as suspended",
}
_ENDING = frozenset({Action.DELETED, Action.CANCELLED, Action.NEW_RUN})


def verdict(plan: Plan) -> str:
    """Return a line of at most 120 characters: worst first, the rest as a count."""
    first = [*_forged(plan)]
    errors = _errors(plan)
    unread = _environments(it.name for it in plan.environments if it.unread)
    # Of these the words are the first, or among them.
    refused = sum(it.refused for it in plan.objects)
    blocked = unread or refused or any(change.action in BLOCKED for change in plan.changes)
    if errors and not blocked:
        first.append(errors)
    earlier = len(plan.wiring.earlier)
    edited = ({*plan.wiring.foreign} & {*plan.wiring.stale}) - {*plan.wiring.earlier}
    if unwritten := len({*plan.wiring.foreign} - edited) - earlier:
        first.append(f"{plural(unwritten, 'file')} in {WIRING}/ that nothing writes")
    if edited:
        were = "was" if len(edited) == 1 else "were"
        first.append(f"{plural(len(edited), 'file')} in {WIRING}/ {were} edited by hand")
    if earlier:
        first.append(f"{plural(earlier, 'file')} in {WIRING}/ from before the last edit")
    never = [change for change in plan.changes if change.unadmitted]
    if never:
        first.append(_unadmitted(never))
    if unread:
        first.append(f"cannot read {unread}")
    if refused:
        first.append(f"cannot sync {plural(refused, 'object')}")
    deleted = [*_deleted(plan)]
    first += deleted
    first += _moved(plan)
    rests = [[it for it in _rest(plan, brief) if it[1]] for brief in range(3)]
    # Which limit is exceeded is worth more than counts of objects.
    less = [[it for it in rest if it[0] < _OF_OBJECTS] for rest in rests]
    rests = [*rests[:-1], *less]
    moved = any(it.moves for it in plan.wiring.settings)
    priced = any(_money(plan))
    changed = plan.changing or plan.policies or plan.wiring.settings or priced
    quiet = changed and not (moved or never or deleted)
    levels = _actions(plan) or ["no job changes" if quiet else ""]
    after = [errors] if errors and blocked else []
    # What begins is left out of the line once nothing else can be.
    lines = (
        _line(first, actions, [*rest, *after])
        for some in (levels[:-2], levels)
        for kept in range(len(rests[0]), -1, -1)
        for rest in (_weightiest(rest, kept) for rest in rests)
        for actions in some
    )
    return next((line for line in lines if len(line) <= LIMIT), _line(first, levels[-1], after))


def _forged(plan: Plan) -> Iterator[str]:
    """Yield how many rendered files were edited by hand, with the first value that was, and how
    many others no source renders.
    """
    edits = {path: f"{job}: {edit}" for path, job, edit in plan.edits}
    if edits:
        first, more = next(iter(edits.values())), "" if len(edits) == 1 else ", …"
        value = first if len(first) <= _VALUE else " ".join(first.split(" ", 2)[:2])
        were = "was" if len(edits) == 1 else "were"
        yield f"{plural(len(edits), 'rendered file')} {were} edited by hand ({value}{more})"
    gone = {it.place.file for it in plan.underived if words.is_missing(it)}
    if gone := gone - edits.keys():
        yield f"{plural(len(gone), 'rendered file')} {'is' if len(gone) == 1 else 'are'} missing"
    if others := len({it.place.file for it in plan.underived} - edits.keys() - gone):
        yield f"{plural(others, 'rendered file')} that no source renders"


_VALUE = 44  # characters of one that was edited by hand


def _deleted(plan: Plan) -> Iterator[str]:
    """Yield which claims are deleted with checkpoints, and what cannot start without its claim."""
    if gone := [it for it in plan.objects if it.checkpoints]:
        one = gone[0].object.rpartition("/")[2]
        claims = f"claim {one}" if len(gone) == 1 else plural(len(gone), "claim")
        jobs = listed([*dict.fromkeys(it.checkpoints for it in gone)], 1)
        yield f"deletes {claims} with the checkpoints of {jobs}"
    if pending := [str(it.file) for it in plan.changes if it.pending and not it.unadmitted]:
        yield f"{pending[0] if len(pending) == 1 else plural(len(pending), 'job')} cannot start"


def _moved(plan: Plan) -> Iterator[str]:
    """Yield which environments go, or are applied elsewhere or from elsewhere."""
    removals = [(it.name, it.removal.renamed) for it in plan.environments if it.removal]
    for verb, was_renamed in (("renames", True), ("removes", False)):
        if gone := _environments(name for name, new in removals if bool(new) is was_renamed):
            yield f"{verb} {gone if gone[0].isdigit() else f'environment {gone}'}"
    removed = (it.removal for it in plan.environments if it.removal)
    if fails := _environments(it.renamed for it in removed if it.refuses and it.applied_by):
        yield f"every sync of {fails} fails"
    if others := _environments(it.environment for it in plan.policies if _is_source(it)):
        yield f"applies {others} from elsewhere"
    if moved := _environments(it.environment for it in plan.wiring.settings if it.moves):
        yield f"active runs of {moved} begin anew in another cluster"
    spaces = (it for it in plan.wiring.settings if it.cause.path == NAMESPACE)
    if elsewhere := _environments(it.environment for it in spaces):
        yield f"further runs of {elsewhere} begin in another namespace"


def _weightiest(clauses: Sequence[tuple[int, str]], most: int) -> list[str]:
    """Return the clauses of the lowest ranks, in the order in which they stand."""
    kept = sorted(range(len(clauses)), key=lambda place: clauses[place][0])[:most]
    return [clauses[place][1] for place in sorted(kept)]


def _line(first: list[str], actions: str, rest: list[str]) -> str:
    parts = [*first, actions, *rest]
    line = " · ".join(part for part in parts if part) or "nothing changes for any job"
    return line[0].upper() + line[1:]


def _goes_on(alike: Sequence[JobChange]) -> bool:
    return alike[0].action is Action.GOES_ON


def _actions(plan: Plan) -> list[str]:
    """Return summaries of what happens to jobs: a full one, then ones that only count ever more."""
    by_verb = defaultdict[str, list[JobChange]](list)
    for change in filterfalse(_begins_nothing, plan.changes):
        by_verb[_verb(change)].append(change)
    ranked = list(by_verb.values())  # as changes are listed, the worst first
    named = next((it for it in ranked if not _is_beside(_verb(it[0]))), [])
    begin = [it for it in ranked if it[0].action in BEGINS]
    # Rows have what goes on beside a new run: an exceeded limit or money needs the room more.
    return [
        _counted([_phrase(it, names=it is named, beside=beside) for it in shown], rest)
        for kept, always in ((len(ranked), begin), (min(1, len(ranked)), []))
        for number in range(kept, 0, -1)
        for beside in (True, False)
        for shown in [[it for n, it in enumerate(ranked) if n < number or it in always]]
        for rest in [sum(len(it) for it in ranked if it not in shown and not _goes_on(it))]
    ]


def _counted(phrases: Sequence[str], others: int) -> str:
    parts: list[str] = []
    for phrase in phrases:
        what = phrase.removeprefix(_STARTS)
        if parts and phrase != what and parts[-1].startswith(_STARTS):
            parts[-1] += f" and {plural(int(what), 'job') if what.isdigit() else what}"
        else:
            parts.append(phrase)
    return ", ".join((*parts, *([f"affects {others:,} more"] if others else [])))


_STARTS = "starts "


def _verb(change: JobChange) -> str:
    waits = change.ending is not None and change.ending.waits
    verb = _VERBS[change.action]
    if change.action is Action.NEW_RUN and change.before:
        verb = _NEXT if change.before.retired else _BESIDE if waits else verb
    if change.action is Action.GOES_ON and (change.shared or change.was is None):
        return "shares {}" if change.shared else "leaves {} to other jobs"
    if change.back:
        return _BACK_BESIDE if waits else _BACK
    suspended = change.after is not None and change.after.state == "suspended"
    others = _LATER if suspended else _QUEUED if change.queued else {}
    return others.get(verb, verb)


def _begins_nothing(change: JobChange) -> bool:
    """Whether all that happens is that a run cannot start, which has words of its own."""
    goes_on = change.ending is None or change.ending.waits
    return change.cannot_start and change.action in BEGINS and goes_on


def _unadmitted(changes: Sequence[JobChange]) -> str:
    verb = "is" if len(changes) == 1 else "are"
    fits = {words.requested(change.unadmitted) for change in changes if change.unadmitted}
    of = f" ({fits.pop()})" if len(fits) == 1 else ""
    return f"{plural(len(changes), 'job')} {verb} {words.NEVER}{of}"


def _is_beside(verb: str) -> bool:
    return verb in (_BESIDE, _LATER[_BESIDE], _QUEUED[_BESIDE], _BACK, _BACK_BESIDE)


def _phrase(changes: list[JobChange], *, names: bool, beside: bool) -> str:
    """Return what happens to jobs in the same way, as a count of jobs if it `names` them, and
    what a new run begins `beside`.
    """
    number, verb = len(changes), _verb(changes[0])
    if changes[0].action is Action.GOES_ON:
        runs, where = plural(number, "run"), _environments(it.file.environment for it in changes)
        if changes[0].shared:
            others = (it.was.environment for it in changes if it.was)
            return f"shares {runs} with {_environments(others)}"
        if changes[0].was is None:
            return verb.format(runs)
        return f"{runs} {'goes' if number == 1 else 'go'} on under {where}"
    if changes[0].back:
        run = changes[0].after
        runs = f"run {run.object}" if run and number == 1 else plural(number, "earlier run")
        newer = "the newer one" if number == 1 else "the newer ones"
        return (verb if beside else _BACK).format(runs, newer)
    if _is_beside(verb):
        verb = verb if beside else verb.removesuffix(" beside {}")
        return verb.format(plural(number, "run"), "the old one" if number == 1 else "old ones")
    return verb.format(_jobs(changes[0].action, changes) if names else f"{number:,}")


def _jobs(action: Action, changes: list[JobChange]) -> str:
    runs = (change.before for change in changes)
    active = all(run and run.state == "active" and not run.retired for run in runs)
    return plural(len(changes), "running job" if action in _ENDING and active else "job")


def _rest(plan: Plan, brief: int) -> Iterator[tuple[int, str]]:
    """Yield clauses on lost progress, requests, limits and objects, each after its rank: what has
    no room is dropped from the highest one.

    The larger `brief`, the shorter: from 1 on jobs without a bound are a count, and then a limit
    that is exceeded is one, as several always are.
    """
    if lost := sum(change.loses for change in plan.changes):
        jobs, verb = plural(lost, "job"), "loses" if lost == 1 else "lose"
        its = "progress" if brief else f"{'its' if lost == 1 else 'their'} progress"
        yield 0, f"{lost:,} {verb} {its}" if brief else f"{jobs} {verb} {its}"
    if over := sum(change.overwrites for change in plan.changes):
        jobs = f"{over:,}" if brief else plural(over, "job")
        each = "writes over its" if over == 1 else "write over their"
        yield 0, f"{jobs} {each} checkpoints"
    yield 1, _loosened(plan)
    yield 1, _wired(plan)
    yield 1, _grants(plan)
    yield 1, _affects(plan)
    yield 1, _pools(plan)
    if admitted := sum(len(it.admitted) for it in plan.environments):
        yield 1, f"admits {plural(admitted, 'job')}"
    if plan.waived:
        yield 5, f"adds {plural(plan.waived, 'waiver')}"
    for clause in _hours(plan, brief=brief > 0):
        yield 4, clause
    for clause in _money(plan, brief=brief > 0):
        yield 3, clause
    yield 2, _short(plan, brief=brief > 1)
    if plan.objects:
        yield _OF_OBJECTS, words.objects(plan)


_OF_OBJECTS = 6  # the rank of their counts


def _grants(plan: Plan) -> str:
    """Return which objects give rights that they did not give before."""
    return _named([it.object for it in plan.objects if it.gives], "grants rights", "grant rights")


def _affects(plan: Plan) -> str:
    """Return which other objects of one's own limit runs, or let them do more."""
    changed = [it.object for it in plan.objects if it.effects and not _is_told(it)]
    return _named(changed, "affects runs", "affect runs")


def _is_told(change: ObjectChange) -> bool:
    """Whether other words of the line are about an object."""
    return change.refused or change.gives or bool(change.checkpoints)


def _pools(plan: Plan) -> str:
    """Return which pools go that runs are on."""
    gone = [(it.cause.path.last, words.runs_on(plan, it)) for it in plan.amounts]
    names = [name for name, runs in gone if runs]
    runs = sum(len(runs) for _, runs in gone)
    pools = f"pool {names[0]}" if len(names) == 1 else plural(len(names), "pool")
    return f"removes {pools} under {plural(runs, 'run')}" if names else ""


def _named(objects: Sequence[str], does: str, do: str) -> str:
    """Return what objects do, by the name of the only one, by their kinds if these are two."""
    kinds = dict.fromkeys(name.partition("/")[0] for name in objects)
    if len(objects) == 1:
        return f"{objects[0]} {does}"
    if len(kinds) <= _KINDS:
        return f"{' and '.join(kinds)} {do}" if objects else ""
    return f"{plural(len(objects), 'object')} {do}"


_KINDS = 2  # by name


def _errors(plan: Plan) -> str:
    count = len(words.errors(plan))
    return plural(count, "error") if count else ""


def _loosened(plan: Plan) -> str:
    loosened = [it.environment for it in plan.policies if it.loosens and not _is_source(it)]
    if not loosened:
        return ""
    where = _environments(loosened)
    return f"loosens {plural(len(loosened), 'policy', 'policies')} of {where}"


def _is_source(change: SettingChange) -> bool:
    """Whether the engine of an environment follows another source, with others who write there."""
    path = change.cause.path
    return change.loosens and path.parent == "/gitops/repository" and path.last != "verify"


def _wired(plan: Plan) -> str:
    """Return which settings of GitOps a merge changes that matter once wiring/ is applied,
    without those that have words of their own before the jobs.
    """
    changes = (change for change in plan.wiring.settings if not change.moves)
    settings = [change for change in changes if change.cause.path != NAMESPACE]
    if not settings:
        return ""
    paths = {change.cause.path.dotted for change in settings}
    what = paths.pop() if len(paths) == 1 else plural(len(paths), "setting")
    return f"changes {what} of {_environments(change.environment for change in settings)}"


def _environments(names: Iterable[str]) -> str:
    """Return the name of the only environment, or how many there are; "" for none."""
    distinct = sorted(set(names))
    return plural(len(distinct), "environment") if len(distinct) > 1 else "".join(distinct)


def _short(plan: Plan, *, brief: bool) -> str:
    """Return what the merge makes too small, or smaller than it was."""
    short = [(it.name, fit) for it in plan.changing for fit in it.fits if fit.is_worse]
    if len(short) == 1 and not brief:
        ((name, fit),) = short
        return f"{name} {fit.what} {_exceeded(fit)}"
    may = "" if any(fit.short for _, fit in short) else "that may be "
    return f"{plural(len(short), 'limit')} {may}exceeded" if short else ""


def _exceeded(fit: CapacityCheck) -> str:
    more, most = fit.more
    is_certain = round(more, 6) > 0
    more = more if is_certain else most
    before = fit.short_before if is_certain else fit.short_at_most_before
    amount = f"{words.amount(fit, more)}{' more' if before else ''}"
    if fit.what == "budget":
        unit = "" if fit.is_money else f" {fit.unit}"
        return f"{'exceeded' if is_certain else 'may be exceeded'} by {amount}{unit}"
    unit = fit.unit.removesuffix("s") if more == 1 else fit.unit
    return f"{'lacks' if is_certain else 'may lack'} {amount} {unit}"


def requested(plan: Plan) -> Iterator[str]:
    """GPU-hours and money; GPUs, or nodes, where there are no hours."""
    yield from _hours(plan)
    yield from _money(plan)


def _hours(plan: Plan, *, brief: bool = False) -> Iterator[str]:
    requested = total(it.asked for it in plan.changing)
    if not requested.hours and not requested.unbounded:
        held = Demand(nodes=requested.nodes, gpus=requested.gpus)
        yield from words.asked(held, "", sign=True)
    hours = Demand(hours=requested.hours, unbounded=requested.unbounded)
    if brief and hours.unbounded > 0:
        bounded = words.asked(replace(hours, unbounded=0), "", sign=True)
        yield ", ".join((*bounded, f"{hours.unbounded:,} unbounded"))
    else:
        yield ", ".join(words.asked(hours, "", sign=True))


def _money(plan: Plan, *, brief: bool = False) -> Iterator[str]:
    """Yield what the changes cost, with what other prices make of all other runs."""
    costs, repriced = defaultdict[str, Demand](lambda: NOTHING), False
    for it in plan.environments:
        if it in plan.changing:
            costs[it.shown_currency] += Demand(cost=it.asked.cost, unpriced=it.asked.unpriced)
        if _has_other_prices(plan, it):
            others = it.after - it.before - total(change.delta for change in it.changes)
            other = NOTHING if others.unpriced else Demand(cost=others.cost)
            costs[it.shown_currency] += other
            repriced = repriced or bool(other.cost)
    every = (words.asked(cost, currency, sign=True) for currency, cost in costs.items())
    prices = sum(it.cause.path.last == "pricePerGpuHour" for it in plan.amounts)
    at = (
        f" at the new {'price' if prices == 1 else 'prices'}"
        if repriced and prices and not brief
        else ""
    )
    if cost := ", ".join(part for parts in every for part in parts):
        yield f"{cost}{at}"


def _has_other_prices(plan: Plan, environment: EnvironmentPlan) -> bool:
    """Whether sums before and after differ by prices alone: each known, in the same currency."""
    causes = [it.cause for it in plan.amounts if it.environment == environment.name]
    pools = [it for it in causes if it.path.parent == POOLS]
    prices = [it for it in causes if it.path.last == "pricePerGpuHour"]
    known = all(it.before is not None and it.after is not None for it in prices)
    return bool(prices or pools) and known and all(it.path.last != "currency" for it in causes)
