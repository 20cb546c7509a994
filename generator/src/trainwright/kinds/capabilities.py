"""What the target of a job does with the job's requests, and what it cannot express."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Job
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import KINDS, NAMED, TARGETS, queueing
from trainwright.kinds.target import Target, Unsupported
from trainwright.objects.pods import code


def left_to_flavor(job: Job, environment: Environment) -> tuple[str, ...]:
    """Return the fields of a job's pods that only the ResourceFlavor of its queue decides."""
    return NAMED[job.target].left_to_flavor if queueing.in_kueue(job, environment) else ()


def attempts(job: Job, environment: Environment) -> int:
    """Return how often a run may take its maxDuration: once, unless each attempt has it anew."""
    deviations = TARGETS[job.target].deviations
    anew = any(
        deviation.covers(Pointer("/deadline_of")) and deviation.when(job, environment)
        for deviation in deviations
    )
    return 1 + job.retries if anew else 1


def unsupported(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Yield everything the job requests that its target cannot express."""
    target = TARGETS[job.target]
    if job.elastic and not target.elastic:
        able = _one_of(environment, (t.name for t in TARGETS.values() if t.elastic))
        yield Unsupported(
            Pointer("/elastic"),
            "nodes may come and go in an elastic job, but here their number is fixed at the start"
            + _resized(target),
            f"{able}, or set nodes instead of elastic.",
        )
    if job.role is None:
        yield from without_roles(job, environment)
        yield from _fixed(job)
    for other in KINDS.values():
        if other.section and other is not target.of and _is_set(job, other.section):
            yield Unsupported(
                Pointer.of(other.section),
                f"{other.section} is for a {other.kind} only",
                f"Remove {other.section} ({other.section}: null), or use target {other.name}.",
            )
    yield from queueing.unplaceable(job, left_to_flavor(job, environment))
    yield from queueing.unlabelled(job, environment)
    yield from queueing.unschedulable(job, environment)
    yield from apart_from_code(target.unsupported(code.mounted(job, environment), environment), job)


def _one_of(environment: Environment, able: Iterable[str]) -> str:
    """Return a remedy that names the targets that can: the environment's, if it has any of them."""
    names = tuple(able)
    installed = tuple(name for name in names if name in environment.targets)
    lacking = "" if installed else f" once it is among targets of {environment.name}"
    return f"Use target {' or '.join(installed or names)}{lacking}"


def without_roles(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Refuse roles if the target has only one group of pods."""
    target = TARGETS[job.target]
    if job.roles and target.serving is None:
        able = _one_of(environment, (t.name for t in TARGETS.values() if t.serving))
        message = f"a {target.kind} has one group of pods, and no roles beside it"
        yield Unsupported(Pointer("/roles"), message, f"{able}, or remove roles.")


def _fixed(job: Job) -> Iterator[Unsupported]:
    if job.elastic and job.roles:
        message = "roles serve a fixed number of nodes, and those of an elastic job change"
        yield Unsupported(Pointer("/elastic"), message, "Set nodes instead of elastic.")


def apart_from_code(problems: Iterable[Unsupported], job: Job) -> Iterator[Unsupported]:
    """Yield the problems, those that only the job's `code` causes as a single one at `code`."""
    classified = [(problem, _is_of_code(problem.path, job)) for problem in problems]
    yield from (problem for problem, of_code in classified if not of_code)
    if message := next((problem.message for problem, of_code in classified if of_code), ""):
        remedy = "Put the code into the image, or use another target."
        yield Unsupported(Pointer("/code"), f"it has no place for code: {message}", remedy)


def _resized(target: Target) -> str:
    """Return which platform feature could change a target's number of nodes; "" if none can."""
    row = target.resizing
    if row is None:
        return ""
    gate = f" with the feature gate {row.gate}, which is off by default" if row.gate else ""
    return f" ({row.project} resizes a live {target.kind} from {row.since} on{gate}: not used here)"


def _is_of_code(path: Pointer, job: Job) -> bool:
    """Whether the job has the value at a path only because it has `code`."""
    made = {
        Pointer("/initContainers"): not job.init_containers,
        Pointer("/workingDir"): not job.working_dir,
        Pointer.of("initContainers", code.NAME): True,
        Pointer.of("volumes", code.NAME): True,
    }
    return job.code is not None and any(path.within(at) for at, ours in made.items() if ours)


def _is_set(job: Job, section: str) -> bool:
    """Whether a section of the job spec differs from its defaults."""
    value = getattr(job, section)
    return bool(value != type(value)())
