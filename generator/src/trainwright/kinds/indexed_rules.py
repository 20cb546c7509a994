"""Indexed Jobs, alone or replicated in a set: whether their pods meet, and end together.

A rule about several kinds has a part in each of them, which finds the Jobs of that kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps

from trainwright.datatypes.data import integer, text
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.listing import plural
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.indexed_pod_templates import ReplicatedJob
from trainwright.objects import forms
from trainwright.objects.pods.launching import options, torchruns, trains_together
from trainwright.objects.pods.template import Container
from trainwright.rule_model.rule import Rule, error, warning
from trainwright.rule_model.subject import Hit, Subject

Kinds = tuple[GroupKind, ...]
Jobs = Callable[[Subject], Iterable[ReplicatedJob]]
_ALONE = "/spec"  # where the specification is in an object that is a Job itself


def about_jobs(kinds: Kinds, jobs: Jobs) -> tuple[Rule, ...]:
    """Return the parts of the rules about Jobs for these kinds."""
    return (
        error("TW304", kinds=kinds)(_each(jobs, invalid_job_restart_policy)),
        warning("TW305", kinds=kinds, spec=Pointer("/retries"))(
            _each(jobs, backoff_limit_per_index)
        ),
        error("TW311", kinds=kinds, spec=Pointer("/labels"))(_each(jobs, selector_set)),
    )


def about_gangs(kinds: Kinds, jobs: Jobs) -> tuple[Rule, ...]:
    """Return the parts of the rules about Jobs whose ranks no operator tells where rank 0 is."""
    return (
        error("TW301", kinds=kinds, spec=Pointer("/nodes"))(_each(jobs, not_an_indexed_gang)),
        error("TW303", kinds=kinds, spec=Pointer("/name"))(_each(jobs, job_name_too_long)),
        warning("TW306", kinds=kinds, spec=Pointer("/entrypoint"))(missing_torchrun_nnodes),
    )


def _each(
    jobs: Jobs, check: Callable[[Subject, ReplicatedJob], Iterable[Hit]]
) -> Callable[[Subject], Iterator[Hit]]:
    @wraps(check)  # whose name is that of the rule
    def run(subject: Subject) -> Iterator[Hit]:
        for job in jobs(subject):
            yield from check(subject, job)

    return run


def not_an_indexed_gang(subject: Subject, job: ReplicatedJob) -> Iterator[Hit]:
    parallelism, completions = job.spec.get("parallelism"), job.spec.get("completions")
    ranks = (integer(completions) or 1) > 1 and any(map(_meets_others, job.template.trains))
    waits = ranks or any(map(_counts_nodes, job.template.trains))
    if not trains_together(job.template) and not waits:
        return
    # JobSet's webhook fills in Indexed, and completions then have to be written.
    mode = job.spec.get("completionMode", None if job.pointer == _ALONE else "Indexed")
    if mode != "Indexed":
        shown_mode = "left out" if mode is None else mode
        yield Hit(job.pointer, f"completionMode is {shown_mode}: no pod has an index", form="index")
    elif job.replicas == 1 and completions != parallelism:
        yield Hit(
            job.pointer,
            f"parallelism is {parallelism}, completions are {completions}",
            form="completions",
        )


def _counts_nodes(container: Container) -> bool:
    """Whether the launcher waits for several nodes, however many pods run at a time."""
    nodes = options(container).get("nnodes", container.variables.get("PET_NNODES", ""))
    return nodes.isdigit() and int(nodes) > 1


def _meets_others(container: Container) -> bool:
    """Whether a container's env sets MASTER_ADDR and a WORLD_SIZE of more than 1."""
    world = container.variables.get("WORLD_SIZE", "")
    return "MASTER_ADDR" in container.variables and world.isdigit() and int(world) > 1


def headless_service(kinds: Kinds, meet: Callable[[Subject], Iterable[Hit]]) -> Rule:
    """Return the part of the rule for kinds whose ranks meet by the names of their pods."""

    @error("TW302", kinds=kinds)
    def missing_headless_service(subject: Subject) -> Iterable[Hit]:
        return meet(subject)

    return missing_headless_service


def job_name_too_long(subject: Subject, job: ReplicatedJob) -> Iterator[Hit]:
    name = text(subject.metadata.get("name"))
    if not name:
        return
    completions = integer(job.spec.get("completions")) or 1
    if job.pointer == _ALONE:
        indexed = job.spec.get("completionMode") == "Indexed"
        longest = f"{name}-{completions - 1}" if indexed else name
        valid = bool(forms.LABEL.pattern.fullmatch(name)) or not indexed
    else:
        longest = f"{name}-{job.name}-{max(job.replicas - 1, 0)}-{completions - 1}-abcde"
        valid = bool(forms.LETTER_FIRST.pattern.fullmatch(f"{name}-{job.name}"))
    over = len(longest) - 63
    if not valid:
        yield Hit("/metadata/name", f"{name!r} makes no DNS label of its pods' names")
    elif over > 0:
        message = f'"{longest}" has {len(longest)} characters, {over} over 63'
        yield Hit("/metadata/name", message)


def invalid_job_restart_policy(subject: Subject, job: ReplicatedJob) -> Iterator[Hit]:
    policy = job.template.spec.get("restartPolicy")
    pointer = f"{job.template.pointer}/spec"
    strict = job.spec.get("podFailurePolicy") is not None
    if policy is None and (strict or job.pointer == _ALONE):
        needed = "Never, as podFailurePolicy needs" if strict else "Never or OnFailure"
        yield Hit(pointer, f"restartPolicy is left out, it must be {needed}")
    elif policy not in (None, "Never", "OnFailure"):
        yield Hit(pointer, f"restartPolicy is {policy!r}, it must be Never or OnFailure")
    elif strict and policy != "Never":
        yield Hit(pointer, f"restartPolicy is {policy}, podFailurePolicy needs Never")


def backoff_limit_per_index(subject: Subject, job: ReplicatedJob) -> Iterator[Hit]:
    if job.spec.get("backoffLimitPerIndex") is not None and trains_together(job.template):
        message = "one rank is retried or given up while the others wait for it"
        yield Hit(f"{job.pointer}/backoffLimitPerIndex", message)


def missing_torchrun_nnodes(subject: Subject) -> Iterator[Hit]:
    groups = [t.replicas for t in subject.templates if any(map(torchruns, t.trains))]
    for template in subject.templates:
        for container in template.trains if template.replicas > 1 else ():
            if not torchruns(container):
                continue
            given = options(container).get("nnodes", "")
            if not given and _is_one_of_many(container):
                continue
            nodes = given or container.variables.get("PET_NNODES")
            if nodes is None or "--standalone" in container.command_line:
                count = template.replicas
                message = f"{count} pods start torchrun, and none has the addresses of the others"
                yield Hit(container.pointer, message, form="alone")
            elif nodes.isdigit() and int(nodes) not in (template.replicas, sum(groups)):
                started = plural(template.replicas, "pod starts it", "pods start it")
                message = f"torchrun expects {plural(int(nodes), 'node')}, but {started}"
                form = "waits" if int(nodes) > template.replicas else "fewer"
                yield Hit(container.pointer, message, form=form)


def _is_one_of_many(container: Container) -> bool:
    """Whether each pod has a work of its own, by its index, and trains by itself."""
    line = " ".join(container.command_line)
    return "--standalone" in line and "JOB_COMPLETION_INDEX" in line


# --- labels --------------------------------------------------------------------------------------

_UID = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME = ("job-name", "batch.kubernetes.io/job-name")


def selector_set(subject: Subject, job: ReplicatedJob) -> Iterator[Hit]:
    if job.spec.get("manualSelector") is True:
        return
    if job.spec.get("selector") is not None:
        yield Hit(f"{job.pointer}/selector", "selector is set, without manualSelector")
    own = text(subject.metadata.get("name")) if job.pointer == _ALONE else ""
    for label, value in job.template.labels.items():
        if label in _UID or (label in _NAME and value != own):
            pointer = Pointer(f"{job.template.pointer}/metadata/labels") / label
            yield Hit(pointer, f"{label} is set to {value!r}")
