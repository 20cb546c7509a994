"""Runs whose pods are not ready in time: Kueue evicts them and queues them again, without end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from trainwright.datatypes.data import dig, mapping, mappings, text
from trainwright.datatypes.durations import SECONDS, clock
from trainwright.datatypes.environment import Kueue
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.kinds import SERVED
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.objects.pods import probes
from trainwright.objects.pods.launching import options
from trainwright.objects.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rule_model.upstream import upstream
from trainwright.rules.kueue import INTEGRATIONS

_BY_DEFAULT = upstream("kueue/waits-for-ready-pods")
_OFF = upstream("kueue/waits-by-gate")


@dataclass(frozen=True, slots=True)
class Patience:
    """How many seconds Kueue waits for all pods of a run, at first and later; 0 is for ever."""

    first: int
    later: int


def patience(kueue: Kueue) -> Patience | None:
    """Return how long Kueue waits, or None if it waits forever or nothing says that it does not."""
    written = kueue.wait_for_pods_ready
    off = _OFF.is_on(kueue.version, kueue.feature_gates) or (written and not written.enable)
    if off or not (written or _BY_DEFAULT.holds(kueue.version)):
        return None
    default: int = _BY_DEFAULT.value
    first = (written.timeout if written else None) or default
    later = written.recovery_timeout if written else None
    return Patience(first, first if later is None else later)


def _queued(subject: Subject) -> Patience | None:
    return patience(subject.environment.kueue) if QUEUE_LABEL in subject.labels else None


_COUNTED = tuple(kind for kind in INTEGRATIONS if not SERVED[kind].ready_when_running)


@warning("TW620", kinds=tuple(INTEGRATIONS), about=(QUEUE_LABEL,), spec=Pointer("/initContainers"))
def startup_longer_than_kueue_waits(subject: Subject) -> Iterator[Hit]:
    limit = _queued(subject)
    if limit is None:
        return
    late: set[str] = set()
    for template, before, parts in _startups(subject):
        total = before.seconds + sum(part.seconds for part in parts)
        if total > limit.first and before.what not in late:
            late.add(template.role)
            took = [*([before] if before.seconds else []), *parts]
            spent = " + ".join(f"{part.what} {clock(part.seconds)}" for part in took)
            message = f"{spent} = {clock(total)}, and Kueue waits {clock(limit.first)}"
            spec = Pointer("/ready/within") if template.serves else Pointer()
            yield Hit(f"{template.pointer}/spec", f"{template.role or 'the pod'}: {message}", spec)


@dataclass(frozen=True, slots=True)
class _Part:
    what: str
    seconds: int


def _startups(subject: Subject) -> Iterator[tuple[PodTemplate, _Part, tuple[_Part, ...]]]:
    """Yield each group of pods, the slowest role that must be ready before they are created, and
    the steps of their own startup.
    """
    ready: dict[str, int] = {}
    for template in subject.templates:
        names = _ready_before(subject, template)
        before = max(((ready.get(name, 0), name) for name in names), default=(0, ""))
        parts = tuple(_parts(template, probed=subject.kind in _COUNTED))
        ready[template.role] = before[0] + sum(part.seconds for part in parts)
        yield template, _Part(before[1], before[0]), parts


def _ready_before(subject: Subject, template: PodTemplate) -> list[str]:
    """Return the roles whose pods have to be ready before those of a template are created."""
    for job in mappings(subject.spec.get("replicatedJobs")):
        if job.get("name") == template.role:
            awaited = mappings(job.get("dependsOn"))
            return [text(item.get("name")) for item in awaited if item.get("status") == "Ready"]
    return [] if template.serves else [item.role for item in subject.templates if item.serves]


def _parts(template: PodTemplate, *, probed: bool) -> Iterator[_Part]:
    """Yield the known time limits of the steps, one after the other, until pods are ready: timeouts
    of init containers, and startup probes.
    """
    for container in template.containers:
        if container.init and not container.sidecar:
            if allowed := _timeouts(container.command_line):
                yield _Part(f"init container {container.name}", allowed)
        elif container.sidecar and (budget := _probe(container)):
            yield _Part(f"startupProbe of {container.name}", budget)
    if not probed:
        return
    budgets = [(_probe(container), container.name) for container in template.trains]
    longest, name = max(budgets, default=(0, ""))
    if longest:
        yield _Part(f"startupProbe of {name}", longest)


def _probe(container: Container) -> int:
    """How many seconds a startup probe lets a container take."""
    probe = container.body.get("startupProbe")
    return probes.patience(probe) if isinstance(probe, Mapping) else 0


_DURATION = r"(\d{1,7})([smhd]?)(?![\w.])"
_ALLOWED = re.compile(
    rf"(?:(?:^|[\s/;&|(])(?:timeout(?:\s+-[^\s;&|(]{{1,99}}(?:\s+\w{{1,99}}(?=\s+\d))?){{0,9}}|sleep)\s+|--timeout[=\s]){_DURATION}"
)


def _timeouts(words: Iterable[str]) -> int:
    """The seconds that commands of a container may take, where they have a limit."""
    limits = _ALLOWED.findall(" ".join(words))
    return sum(int(number) * SECONDS[unit or "s"] for number, unit in limits)


@warning("TW621", kinds=_COUNTED, about=(QUEUE_LABEL,), spec=Pointer("/elastic"), per_pod=True)
def elastic_run_evicted(subject: Subject) -> Iterator[Hit]:
    limit = _queued(subject)
    if limit is None or not limit.later:
        return
    for _, container in subject.training:
        least, _, most = options(container).get("nnodes", "").partition(":")
        if most and least != most:
            message = f"it may go on with {least} of {most} nodes, and Kueue evicts it after "
            yield Hit(container.pointer, f"{message}{clock(limit.later)} of that")


@warning("TW622", kinds=_COUNTED, about=(QUEUE_LABEL,))
def stage_counts_as_not_ready(subject: Subject) -> Iterator[Hit]:
    limit = _queued(subject)
    for pointer, what, seconds in _waited_for(subject) if limit else ():
        assert limit is not None
        if seconds is None or seconds > limit.first:
            takes = "has no deadline" if seconds is None else f"may take {clock(seconds)}"
            yield Hit(pointer, f"{what} {takes}, and Kueue waits {clock(limit.first)}")


def _waited_for(subject: Subject) -> Iterator[tuple[str, str, int | None]]:
    """Yield what has to complete before the rest starts: its pointer, its description, and its
    deadline in seconds (None if it has none).
    """
    for name in mapping(subject.spec.get("initializer")):
        yield f"/spec/initializer/{name}", f"the {name} initializer", None
    jobs = list(mappings(subject.spec.get("replicatedJobs")))
    deadlines = {
        text(job.get("name")): count(dig(job, "template", "spec", "activeDeadlineSeconds"))
        for job in jobs
    }
    for index, job in enumerate(jobs):
        for at, other in enumerate(mappings(job.get("dependsOn"))):
            if other.get("status") == "Complete":
                name = text(other.get("name"))
                pointer = f"/spec/replicatedJobs/{index}/dependsOn/{at}"
                yield (
                    pointer,
                    f'"{name}", for which "{job.get("name")}" waits,',
                    deadlines.get(name),
                )


RULES = defined_in(globals())
