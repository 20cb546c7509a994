"""How a plan is put into words and numbers, whatever the format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Waiver
from trainwright.datatypes.finding import Finding, Severity
from trainwright.datatypes.layout import WIRING, environment_path
from trainwright.datatypes.listing import listed, plural
from trainwright.findings.credentials import redact
from trainwright.findings.redaction import text_diff
from trainwright.objects.pods import image_reference
from trainwright.plan.model import (
    BLOCKED,
    Action,
    JobChange,
    LeftRun,
    ObjectChange,
    Plan,
    PlannedRun,
    Removal,
    SettingChange,
    SharedFileImpact,
)
from trainwright.plan.policies import NAMESPACE, POOLS
from trainwright.plan.running import running
from trainwright.plan.training import gpus_of
from trainwright.render.derivation import MISSING
from trainwright.reports.values import change_line
from trainwright.runs.wiring_files import REMOVES, WIRE, tops
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import Demand, Range, total

_SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "INR": "₹"}
_UNKNOWN = "unknown"
_WHOLE = 100  # from here on money has no cents


def objects(plan: Plan) -> str:
    """Return counts of changed additional objects: "objects: 1 added, 2 changed"."""
    counts = Counter(map(_counted, plan.objects))
    keys = ("added", "changed", "moved", "removed", _LEFT)
    parts = (f"{counts[key]} {key}" for key in keys if counts[key])
    return f"objects: {', '.join(parts)}"


_LEFT = "left in the cluster"


def _counted(change: ObjectChange) -> str:
    if change.action == "removed" and change.other:
        return "moved"
    return _LEFT if change.until else change.action


def changed_object(change: ObjectChange) -> str:
    """Return what happens to an additional object, with what it gives, and to whom."""
    given = f": {change.grants}" if change.grants else ""
    before = f"; before, it {change.granted}" if change.granted else ""
    if change.until:
        return f"{change.object} leaves git, and stays in the cluster until {change.until}{given}"
    return f"{change.object} {_becomes(change)}{given}{before}"


def _becomes(change: ObjectChange) -> str:
    """Return what happens to an object, where another environment may have it, too."""
    if not change.other:
        return f"is {change.action}"
    if change.action == "removed":
        return f"stays: {change.other} has it"
    becomes = "goes on" if change.action == "moved" else f"is {change.action}"
    return f"{becomes} ({change.other} {'has it, too' if change.action == 'added' else 'had it'})"


def moved_objects(plan: Plan) -> Iterator[str]:
    """Yield the objects that are as they were in an environment before, in a line for each two."""
    moved: dict[tuple[str, str], list[str]] = {}
    for change in plan.objects:
        if change.action == "moved":
            moved.setdefault((change.environment, change.other), []).append(change.object)
    for (name, former), objects in moved.items():
        on = "goes on: it was" if len(objects) == 1 else "go on: they were"
        yield f"{name}  {listed(objects, _NAMED)} {on} in {former}"


def object_diff(change: ObjectChange) -> list[str]:
    """Return a unified diff of an additional object, credentials hidden."""
    path, sides = change.place.file, (change.before or None, change.after or None)
    return list(text_diff(*sides, old=f"a/{path}", new=f"b/{path}"))


def reach(shared: SharedFileImpact) -> str:
    """Return what a shared file does to jobs that read it, as in "outdates 12 runs, begins 2"."""
    begun = shared.new_runs
    if not shared.held:
        begins = f", and begins {plural(begun, 'new run')}" if begun else ""
        return f"is read by {plural(len(shared.jobs), 'job')} of this plan{begins}"
    outdated = f"outdates {plural(shared.held, 'run')}{f', begins {begun:,}' if begun else ''}"
    return f"{outdated}: `trainwright rerun` applies the change"


def keeping(plan: Plan, shared: SharedFileImpact) -> str:
    """Return which jobs keep the old values of a shared file, or "" if none does."""
    jobs = set(shared.jobs)
    kept = [it for it in plan.changes if it.action is Action.OUTDATED and it.file in jobs]
    names = [str(change.file) for change in kept]
    if not names:
        return ""
    are = "is" if len(names) == 1 else "are"
    pinned = listed([str(change.file) for change in kept if _is_pinned(change)], _NAMED)
    same = f"; the next image of {pinned} has {_SAME_CONTENT}" if pinned else ""
    return f"{listed(names, _NAMED)} {are} outdated until the next run{same}"


def _is_pinned(change: JobChange) -> bool:
    """Whether another tag waits for the next run of a job, and its digest stays the same."""
    paths = {cause.path for cause in change.causes if cause.path.within("/image")}
    digest = change.after is not None and "@" in change.after.image
    return digest and paths == {"/image/tag"}


_NAMED = 5  # jobs in a line
_SAME_CONTENT = "the same content: the digest decides, not the tag"


NEVER = "never admitted"
CANNOT_START = "cannot start"
BACK = "goes back"


def never(change: JobChange) -> str:
    """Return that a run cannot start, and why; "" for any other run."""
    fit = change.unadmitted
    if not fit and change.pending:
        return f"{CANNOT_START}: its pods stay Pending, as the merge deletes {claims(change)}"
    if fit is None:
        return ""
    has = f"the {fit.what} has {amount(fit, fit.has)}"
    needs = f"needs {amount(fit, fit.need, fit.most)} GPUs, {has}{short(fit)}"
    return f"{NEVER}: {needs}, unless its cohort lends"


def queued(run: PlannedRun, fit: CapacityCheck) -> str:
    """Return that a new run waits in its queue, since other runs leave no room for it."""
    return (
        f"{run.object} waits in queue {run.queue} for {gpus_of(run.demand.gpus)}: with the other "
        f"active runs it makes {amount(fit, fit.need, fit.most)} of {amount(fit, fit.has)} GPUs"
    )


def happens(change: JobChange) -> tuple[str, str]:
    """Return what happens to a job in a word or two, and the sentence that follows these."""
    if change.cannot_start and change.action is Action.STARTED:
        what = NEVER if change.unadmitted else CANNOT_START
        return what, change.why.replace(f"{what}: ", "", 1)
    return BACK if change.back else change.action.value, change.why


def claims(change: JobChange) -> str:
    """Return the claims without which a run cannot start."""
    return f"{'claim' if len(change.pending) == 1 else 'claims'} {listed(change.pending, _NAMED)}"


def clauses(sentence: str) -> list[str]:
    """Return the clauses of a sentence, of which all but the last end with a semicolon."""
    found = [""]
    for part in re.split(r"(?<=;) ", sentence):
        within = found[-1].count("`") % 2  # a command is whole
        found[-1:] = [f"{found[-1]} {part}"] if within else [found[-1], part]
    return found[1:]


def brief(sentence: str) -> str:
    """Return a sentence without the commands that delete what goes on."""
    return _DELETION.sub("until it is deleted", sentence)


def deletions(sentence: str) -> list[str]:
    """Return the commands in a sentence that delete what goes on until then."""
    return _DELETION.findall(sentence)


_DELETION = re.compile("until `(kubectl [^`]++)`")


def number(value: float) -> str:
    """A number as people write it: "1,536" or "0.5"."""
    rounded = round(value, 2)
    return f"{int(rounded):,}" if rounded == int(rounded) else f"{rounded:,}"


def span(value: Range, *, sign: bool = False) -> str:
    """Return a range as one number, or as its two ends; with plus signs if `sign`."""
    shown = (f"{'+' if sign and round(end, 2) > 0 else ''}{number(end)}" for end in _ends(value))
    return " to ".join(dict.fromkeys(shown))


def _ends(value: Range) -> tuple[float, float]:
    return min(value.low, value.high), max(value.low, value.high)


def money(value: Range, currency: str, *, sign: bool = False) -> str:
    """An amount as people write it: "$335", "€12.50", "CHF 1,200"."""
    symbol = _SYMBOLS.get(currency, f"{currency} ")
    shown = []
    for end in _ends(value):
        amount = round(end, 2 if abs(end) < _WHOLE else 0)
        mark = "-" if amount < 0 else "+" if sign and amount > 0 else ""
        digits = 0 if amount == int(amount) else 2
        shown.append(f"{mark}{symbol}{abs(amount):,.{digits}f}")
    return " to ".join(dict.fromkeys(shown))


def cost(demand: Demand, currency: str, *, sign: bool = False) -> str:
    """Return what a demand costs: "$335", "$335 and 1 job without a price", "unknown"."""
    known = money(demand.cost, currency, sign=sign)
    if demand.unpriced <= 0:
        return known
    # What a job no longer costs that has no price now is not saved.
    if demand.cost.high <= 0:
        return _UNKNOWN
    return f"{known} and {plural(demand.unpriced, 'job')} without a price"


def asked(demand: Demand, currency: str, *, sign: bool = False) -> Iterator[str]:
    """Yield the parts of a demand as short texts; unbounded jobs are always mentioned, and those
    without a price where there is a `currency` of prices.
    """
    if demand.gpus:
        gpus = span(demand.gpus, sign=sign)
        yield f"{gpus} GPU{'' if gpus.lstrip('+-') == '1' else 's'}"
    elif demand.nodes:
        nodes = span(demand.nodes, sign=sign)
        yield f"{nodes} node{'' if nodes.lstrip('+-') == '1' else 's'}"
    if demand.hours:
        yield f"{span(demand.hours, sign=sign)} GPU-h"
    if demand.cost or (currency and demand.unpriced > 0):
        known = cost(demand, currency, sign=sign)
        yield f"cost {known}" if known == _UNKNOWN else known
    if demand.unbounded:
        jobs = abs(demand.unbounded)
        less = "no longer " if demand.unbounded < 0 else ""
        yield f"{less}unbounded GPU-h of {plural(jobs, 'job')} without maxDuration"


def signed(demand: Demand, currency: str) -> str:
    """Return a difference in demand as one line; empty if there is none."""
    return ", ".join(asked(demand, currency, sign=True))


def fitting(fit: CapacityCheck) -> str:
    """Return the need, the capacity, and whether it fits."""
    return f"{requested(fit)}: {outcome(fit)}"


def requested(fit: CapacityCheck) -> str:
    """Return the need and the capacity, as in "8 to 10 of 16 GPUs"."""
    need = amount(fit, fit.need, fit.most)
    unit = "" if fit.is_money else f" {fit.unit}"
    unknown = f" and {fit.unknown} of unknown length" if fit.unknown else ""
    return f"{need} of {amount(fit, fit.has)}{unit}{unknown}"


def outcome(fit: CapacityCheck) -> str:
    """Return whether a need fits its capacity, in words."""
    if fit.short:
        return short(fit).removeprefix(": ")
    if fit.short_at_most:
        return f"fits at least; {short(fit).removeprefix(': ')}"
    return "unknown whether that fits" if fit.unknown else "fits"


def short(fit: CapacityCheck | None) -> str:
    """Return how much is missing, as a suffix to what there is; empty if everything fits."""
    if not fit or not fit.short_at_most:
        return ""
    was, lack, most = fit.short_before, fit.short, ""
    if not lack:
        was, lack, most = fit.short_at_most_before, fit.short_at_most, " at most"
    before = f" ({amount(fit, was)} before)" if was else ""
    return f": {_missing(fit, lack)}{most}{before}"


def _missing(fit: CapacityCheck, lack: float) -> str:
    return f"{amount(fit, lack)} {'over' if fit.what == 'budget' else 'too few'}"


def amount(fit: CapacityCheck, low: float, high: float | None = None) -> str:
    """Return an amount, or a range, of what a limit limits: "8", "$335", "2 to 4"."""
    both = Range(low, low if high is None else high)
    return money(both, fit.unit) if fit.is_money else span(both)


def same(others: str, commands: Sequence[str]) -> str:
    """Return that the same happens to other jobs, and the commands for those, or ""."""
    if not others:
        return ""
    theirs = ", ".join(f"`{command}`" for command in commands)
    return f"the same for {others}{theirs and f': {theirs}'}"


def image(change: JobChange) -> str:
    """Return a job's old and new image, by its rendered files, or "" if it stays the same; with
    digests, whether they start the same content, whatever their tags are.
    """
    old, new = images(change.before), images(change.after)
    before, after = (", ".join(map(_short, names)) for names in (old, new))
    if before == after or not after:
        return ""
    return f"{before} → {after}{_content(old, new)}" if old else after


def _content(old: Sequence[str], new: Sequence[str]) -> str:
    """Return what digests tell of the content of images, as a suffix; "" where one has none."""
    before, after = ([*map(image_reference.split, side)] for side in (old, new))
    if not all(digest for *_, digest in (*before, *after)):
        return ""
    if [digest for *_, digest in before] == [digest for *_, digest in after]:
        return f" ({_SAME_CONTENT})"
    same_tag = [it[:2] for it in before] == [it[:2] for it in after]
    return " (other content under the same tag)" if same_tag else ""


def images(run: PlannedRun | None) -> tuple[str, ...]:
    """Return the images that a run starts, by its rendered files or else by its spec."""
    if run is None:
        return ()
    names = running(run).images or tuple(filter(None, (run.image,)))
    return tuple(map(redact, names))


def _short(image: str) -> str:
    repository, tag, digest = image_reference.split(image)
    return image_reference.joined(repository, tag, digest[:19])


def new_images(change: JobChange) -> tuple[str, ...]:
    """Return the images that the new run starts and the previous one did not."""
    before = images(change.before)
    return tuple(name for name in images(change.after) if name not in before)


def started(change: JobChange) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what the new run starts that the previous one did not, without images, by category,
    and what the job's spec waives, whether or not it did before.
    """
    new = running(change.after).without(running(change.before))
    by_kind = (
        ("waiver", tuple(map(waiver, change.waivers))),
        ("command", new.commands),
        ("service account", new.accounts),
        ("privilege", new.privileges),
        ("host path", new.host_paths),
        ("object", new.objects),
    )
    return tuple((what, tuple(map(redact, items))) for what, items in by_kind)


def waiver(accepted: Waiver) -> str:
    """Return a rule, why a job may violate it, and until when."""
    from trainwright.reports.report import every_rule  # every rule there is costs 80 ms to import

    name = every_rule()[accepted.rule].name
    return f"{accepted.rule} {name}: {accepted.reason}, until {accepted.until}"


def runs(change: JobChange) -> Iterator[str]:
    """Yield what the new run starts that the previous one did not: "command python train.py"."""
    if changed := image(change):
        yield f"image {changed}"
    yield from (f"{what} {item}" for what, items in started(change) for item in items)


def errors(plan: Plan) -> tuple[Finding, ...]:
    """Return the errors, of which one that several jobs have from one line is there once."""
    found = (it for it in plan.findings if it.severity is Severity.ERROR)
    return tuple({(it.rule, it.place, it.message): it for it in found}.values())


def is_missing(finding: Finding) -> bool:
    """Whether a finding is about a rendered file that is not there."""
    return finding.message.endswith(MISSING)


def forged(finding: Finding) -> str:
    """Return one line on something in a rendered file that follows from no source."""
    if is_missing(finding):
        again = "its source renders it: `trainwright render` writes it again"
        return f"{finding.message}, and {again}  ({finding.place})"
    return f"no source renders this: {finding.message}  ({finding.place})"


def outside(plan: Plan) -> Iterator[str]:
    """Yield a line for everything that will run though the sources that reviewers read lack it."""
    yield from _foreign(plan)
    yield from _otherwise(plan)


def notes(plan: Plan) -> Iterator[str]:
    """Yield what else is to be known before the merge, or to be done after it."""
    yield from unrendered(plan)
    yield from namespaces(plan)
    yield from removals(plan)
    yield from map(policy, sorted(plan.policies, key=lambda change: not change.loosens))
    yield from wiring(plan)


def _foreign(plan: Plan) -> Iterator[str]:
    """Yield a line for each changed file of wiring/ that `gitops wire` does not write so."""
    for path in plan.wiring.foreign:
        if path in plan.wiring.earlier:
            yield (
                f"{path} is as an earlier commit of this branch has made it, and what it is made "
                f"of was edited since: run `{WIRE}`"
            )
            continue
        so = " as it is" if path in plan.wiring.stale else ""
        yield (
            f"{path} is not written{so} by `trainwright gitops wire`, and is applied by whatever "
            f"applies {WIRING}/, with its rights: read it"
        )


def _otherwise(plan: Plan) -> Iterator[str]:
    """Yield a line for each run that begins with values of an earlier commit, now in no source."""
    for change in plan.changes:
        if change.otherwise:
            values = listed([change_line(difference) for difference in change.otherwise], 3)
            yield f"{change.file} begins with other values than its sources have: {values}"


def unrendered(plan: Plan) -> Iterator[str]:
    """Yield each environment that cannot be read, and a warning if rendered files are committed and
    do not have the specs' changes yet.
    """
    for environment in filter(attrgetter("unread"), plan.environments):
        first, jobs = environment.unread[0], plural(environment.jobs, "job")
        yield (
            f"{first.place.file} cannot be read: {first.message} ({first.place}). Nothing of "
            f"{environment.name} is rendered, and its runs stay as they are; {jobs} of it "
            f"{'is' if environment.jobs == 1 else 'are'} not in this plan."
        )
    names = [str(change.file) for change in plan.changes if change.unrendered]
    if names:
        yield (
            f"The rendered files of {listed(names, 1)} are not up to date: nothing of this happens "
            f"until you {_corrected(plan)}commit what `trainwright render` writes."
        )


def _corrected(plan: Plan) -> str:
    """Return what is to be done before anything can be rendered, as a part of a sentence."""
    wrong = dict.fromkeys(it.subject or str(it.place) for it in errors(plan))
    return f"correct {listed([*wrong], 1)} and " if wrong else ""


def namespaces(plan: Plan) -> Iterator[str]:
    """Yield each namespace that is new, with what has to be there before runs can start."""
    for it in filter(attrgetter("namespace"), plan.environments):
        needs = f", with {listed(it.needs, _NEEDED)}" if it.needs else ""
        yield (
            f"{it.name}: namespace {it.namespace} is new. It has to exist before runs start"
            f"{needs}{': no file here creates these' if needs else ''}"
        )


_NEEDED = 12  # objects named of a namespace


def removals(plan: Plan) -> Iterator[str]:
    """Yield each environment that the merge removes, with what nothing deletes or keeps."""
    for environment in plan.environments:
        if (removal := environment.removal) is None:
            continue
        became = f"renamed to {removal.renamed}" if removal.renamed else "removed"
        line = f"environment {environment.name} is {became}"
        if removal.finished:
            runs = plural(len(removal.finished), "finished run")
            line += f", with its ledger of {runs} ({listed(removal.finished, _NAMED)})"
        if removal.renamed:
            yield "; ".join((line, *_after_renaming(plan, environment.name, removal)))
            continue
        if removal.applied:
            where = f" ({removal.wiring})" if removal.wiring else ""
            line += (
                f"; its Argo CD or Flux objects{where} stay in the cluster, and sync a folder "
                "that is gone: delete them"
            )
        yield line


def _after_renaming(plan: Plan, name: str, removal: Removal) -> Iterator[str]:
    """Yield what is to be known of an environment under another name."""
    made_again = any(map(partial(_is_made_again, name), plan.changes))
    if made_again:
        yield (
            "`prune: immediate` has its runs deleted and made again: to keep them, merge "
            "`prune: confirm` and apply wiring/ first"
        )
    else:
        yield "its runs in git and its objects are those of the new name: delete none of them"
    if not removal.applied_by:
        return
    was, now = removal.applied_by
    named = f"`gitops.name: {was}` in {environment_path(removal.renamed)}"
    if removal.refuses:
        yield (
            f"every sync of {now} fails, since Argo CD's tracking annotation of these objects "
            f"names {was}: before the merge write {named}, which keeps the name, and then delete "
            "nothing"
        )
    else:
        yield (
            f"delete the {removal.applying} only once {now} has synced, and nothing in namespace "
            f"{removal.namespace}"
        )
    if removal.wiring and removal.prunes:
        yield (
            f"a sync of {WIRING}/ that prunes deletes them at once, and with them each run that "
            f"{now} has not applied by then: merge `prune: confirm` and apply {WIRING}/ first, or "
            f"keep them by {named}"
        )
    elif removal.wiring and not made_again:
        yield f"a sync of {WIRING}/ that prunes deletes them at once, and no run with them"


def _is_made_again(name: str, change: JobChange) -> bool:
    """Whether a run of a renamed environment is deleted, which its job under the new name has."""
    before, after, was = change.before, change.after, change.was
    if change.action is Action.DELETED:
        return change.shared and change.file.environment == name
    if change.action is not Action.NEW_RUN or not (before and after and was):
        return False
    return (was.environment, before.object) == (name, after.object)


def policy(change: SettingChange) -> str:
    path = change.cause.path
    changed = f"{change_line(change.cause)} ({change.cause.place})"
    if path.parent in _SOURCES and path.last != "verify":
        follows = _SOURCES[path.parent]
        return f"{change.environment} is applied from elsewhere: {changed}: {follows}"
    effect = "allows more" if change.loosens else "allows less"
    return f"{change.environment} {effect} than before: {changed}"


# What follows for runs from another source of the GitOps engine, by the setting's parent.
_SOURCES = {
    "/gitops/repository": (
        "once wiring/ is applied the engine follows other files, and those who can write there "
        "start trainings"
    ),
    "/gitops/chart": (
        "new runs are rendered by that chart, and those who can write there decide what starts"
    ),
}


_COUNTED = {"capacity": "capacity", "pricePerGpuHour": "price", "currency": "currency"}


def _moved(before: Data, after: Data) -> str:
    """Return what became of an amount: "lowered", "raised"; "set" and "removed" have one side."""
    if before is None:
        return "set"
    if after is None:
        return "removed"
    if isinstance(before, str):
        return "changed"
    return "lowered" if after < before else "raised"


def bound(plan: Plan) -> str:
    """Return what the hours of a plan are, and the cost that follows from them, or ""."""
    uses = (use for environment in plan.environments for use in environment.uses)
    shown = (it for use in uses for it in (use.before, use.after))
    if not any(it.hours for it in (*shown, *(it.asked for it in plan.changing))):
        return ""
    return "GPU-hours and cost: at most, with the whole maxDuration of every attempt"


def amounts(plan: Plan) -> Iterator[str]:
    """Yield a line for each capacity, price and pool by which the sums are other ones than before,
    and for what is in them and not in git.
    """
    yield from _pools(plan)
    yield from _admitted(plan)
    yield from _lowered(plan)
    yield from _shared_limits(plan)
    for change in (it for it in plan.amounts if it.cause.path.parent != POOLS):
        cause, parts = change.cause, change.cause.path.parts
        what = _COUNTED[cause.path.last] + (f" of {parts[1]}" if len(parts) > 1 else "")
        became = _moved(cause.before, cause.after)
        line = f"{change_line(cause)} ({cause.place})"
        yield f"{change.environment}: {what} {became}: {line}"
    yield from _left(plan)


def _pools(plan: Plan) -> Iterator[str]:
    """Yield a line for each pool that comes or goes, if a run is on it before or after."""
    for change in plan.amounts:
        cause = change.cause
        if cause.path.parent != POOLS or not _is_used(plan, change):
            continue
        became = "removed" if cause.after is None else "added"
        runs = runs_on(plan, change)
        stay = f", on which {listed(runs, _NAMED)} stay{'s' if len(runs) == 1 else ''}"
        line = f"{change_line(cause)} ({cause.place})"
        yield f"{change.environment}: pool {cause.path.last} {became}{stay if runs else ''}: {line}"


def _admitted(plan: Plan) -> Iterator[str]:
    """Yield a line for each environment with the jobs that no queue has admitted before."""
    for environment in plan.environments:
        if jobs := [str(file) for file, _ in environment.admitted]:
            requested = total(it for _, it in environment.admitted)
            what = ", ".join(asked(requested, environment.shown_currency, sign=True))
            fit = "fits the quota of its queue" if len(jobs) == 1 else "fit those of their queues"
            begin = "begins once that has" if len(jobs) == 1 else "begin once these have"
            yield f"{listed(jobs, _NAMED)} {fit} now, and {begin} room: {what}"


def _lowered(plan: Plan) -> Iterator[str]:
    """Yield a line for each quota and capacity that is smaller than what its jobs request now."""
    for environment in plan.environments:
        for it in environment.lowered:
            fit, kind = it.fit, it.fit.what.partition(" ")[0]
            before = "" if fit.has_before is None else f" ({amount(fit, fit.has_before)} before)"
            has = f"{fit.what} has {amount(fit, fit.has)} {fit.unit} after the merge{before}"
            jobs, one = listed([str(file) for file in it.jobs], _NAMED), len(it.jobs) == 1
            if it.each:
                needs = "needs more than that" if one else "need more than that each"
                follows = f"{jobs} {needs}: {_TOO_SMALL[kind]}"
            else:
                request = f"runs request {amount(fit, fit.need)}"
                follows = f"{request}, so not all of these run at once: {jobs}"
            yield f"{environment.title}: {has}, and {follows}"


def _shared_limits(plan: Plan) -> Iterator[str]:
    """Yield a line for what several environments have together, and request too much of."""
    for it in plan.shared_limits:
        names = " and ".join(name for name, _ in it.by)
        by = ", ".join(f"{what} of {name}" for name, what in it.by)
        what = "the same nodes" if it.what == "nodes" else it.what
        yield (
            f"{names} share {what} ({by}): each fits alone, and together they "
            f"request {requested(it.fit)}{short(it.fit)}"
        )


# What holds for runs that request more than there is of something, by what that is.
_TOO_SMALL = {
    "queue": (
        "what Kueue has admitted goes on, and what waits or is evicted is not admitted any more, "
        "unless the cohort lends"
    ),
    "pool": "pods that run go on, and new ones, in place of failed ones too, stay Pending",
}


def _is_used(plan: Plan, change: SettingChange) -> bool:
    uses = (it.uses for it in plan.environments if it.name == change.environment)
    return any(it.what == f"pool {change.cause.path.last}" for it in chain.from_iterable(uses))


def runs_on(plan: Plan, change: SettingChange) -> list[str]:
    """Return the runs that go on in a pool which a merge removes."""
    pool, runs = change.cause.path.last, list[str]()
    for environment in plan.environments:
        if change.cause.after is None and environment.name == change.environment:
            left = [(it.before.object, it.left) for it in environment.changes if it.before]
            left += [(it.object, it.demand) for it in environment.left]
            runs += [name for name, demand in left if demand.of(pool).nodes]
    return runs


def _left(plan: Plan) -> Iterator[str]:
    """Yield a line for each environment with the runs that are in its sums and not in git."""
    for environment in plan.environments:
        left = environment.left if environment.uses else ()
        said = [f"{run.object} {left_run(run)}" for run in left]
        if len(left) > _COMMANDS:
            held = next(asked(total(run.demand for run in left), ""), "")
            names = listed([run.object for run in left], _NAMED)
            said = [f"{names}, which hold {held} until they are deleted"]
        if left:
            runs = plural(len(left), "run")
            yield f"{environment.title} counts {runs} no longer in git: {', '.join(said)}"


_COMMANDS = 3  # in a line


def left_run(run: LeftRun) -> str:
    """Return what a run that left git holds, and what ends it."""
    held = next(asked(run.demand, ""), "")
    return f"{f'holds {held}' if held else 'goes on'} until `{run.command}`"


def wiring(plan: Plan) -> Iterator[str]:
    """Yield what is to be done with the objects of GitOps engines, and what these then do."""
    change = plan.wiring
    for setting in change.settings:
        place = f"{change_line(setting.cause)} in {setting.environment} ({setting.cause.place})"
        yield f"{place}: {_holds(setting)}"
    if stale := [path for path in change.stale if path not in change.left]:
        folders = sorted({path.split("/")[1] for path in stale if path.count("/") > 1})
        apply = listed([f"{WIRING}/{name}" for name in folders], 3) or WIRING
        yield (
            f"{WIRING}/ is not up to date ({listed(stale, 3)}): run `{WIRE}`, and apply {apply} "
            "after the merge."
        )
    if change.missing:
        yield (
            f"{WIRING}/ has nothing of {listed(change.missing, 3)}, which no engine applies then "
            f"unless it is wired elsewhere: run `{WIRE}`, and apply what it writes after the merge."
        )
    if change.left:
        left = f"{WIRING}/ has files that no engine needs any more ({tops(change.left)})"
        yield f"{left}: run `{WIRE}`, {REMOVES}."
    if change.changed:
        yield (
            f"After the merge apply {listed(change.changed, _NAMED)}, unless what is in {WIRING}/ "
            "is synced."
        )


def _holds(setting: SettingChange) -> str:
    """Return what holds for runs by a setting that applies them otherwise, or elsewhere."""
    cause = setting.cause
    if setting.moves:
        return _MOVED
    if cause.path == NAMESPACE:
        return _BEGIN_ELSEWHERE.format(was=cause.before, now=cause.after)
    return _SETTINGS[cause.path.last, cause.after]


_BEGIN_ELSEWHERE = (
    "a run that goes on stays in {was}, and one that begins is in {now}, where the claims, "
    "Secrets, ServiceAccounts and LocalQueues that it names have to be: those of {was} are not "
    "there, and its quotas and NetworkPolicies do not hold"
)
_MOVED = (
    "once wiring/ is applied all active runs begin anew in the other cluster, and those in the "
    "old one go on until they are deleted there"
)
# What holds of the runs that there are once wiring/ is applied, by the setting and its value.
_SETTINGS: Mapping[tuple[str, Data], str] = {
    ("prune", "confirm"): (
        "once wiring/ is applied no sync deletes a run, whenever it began. Until then syncs delete "
        "what this merge takes out of git: to keep that, merge this setting first, by itself, and "
        "apply wiring/"
    ),
    ("prune", "immediate"): (
        "once wiring/ is applied syncs delete what leaves git. Runs that began before stay "
        "until they are deleted by hand; later ones are deleted"
    ),
    ("engine", "argocd"): (
        "Argo CD applies the runs as they are, once wiring/ is applied; take the objects of the "
        "former engine away after that. `trainwright doctor` names runs that it does not adopt by "
        "itself"
    ),
    ("engine", "flux"): (
        "Flux applies the runs as they are, once wiring/ is applied; take the objects of the "
        "former engine away after that"
    ),
    ("engine", "none"): "no engine applies the runs any more, once its objects are deleted",
}


def diff(change: JobChange) -> Iterator[str]:
    """Yield a unified diff of the rendered manifests, without values files, credentials hidden.

    There is none for a job of which nothing is written or applied.
    """
    for _, lines in diffs(change):
        yield from lines


def diffs(change: JobChange) -> Iterator[tuple[str, list[str]]]:
    """The diff of each manifest that changes, two lines of header first, by its path."""
    if change.action in BLOCKED and not (change.after and change.after.files):
        return
    before = change.before.files if change.before else {}
    after = change.after.files if change.after else {}
    for name in sorted({*before, *after} - {"values.yaml"}):
        path = f"{change.file.rendered}/{name}"
        sides = before.get(name), after.get(name)
        if lines := list(text_diff(*sides, old=f"a/{path}", new=f"b/{path}")):
            yield path, lines
