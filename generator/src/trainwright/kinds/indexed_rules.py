"""Indexed Jobs, alone or replicated in a set: whether their pods meet, and end together.

A rule about several kinds has a part in each of them, which says how its Jobs are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.model import Data, Severity
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import integer
from trainwright.kinds.indexed_pod_templates import replicated_jobs
from trainwright.objects import forms
from trainwright.pods.launching import options, torchruns, trains_together
from trainwright.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import Rule
from trainwright.rule_model.subject import Hit, Subject
from trainwright.specs.upstream import upstream

_JOB = "https://kubernetes.io/docs/concepts/workloads/controllers/job/"
EXAMPLES = upstream("jobset/examples").source


@dataclass(frozen=True)
class BatchJob:
    """The specification of a Job, where it stands, and what its pods are.

    `owner` is the name of the object that holds it; it is `alone` where that is the Job itself.
    """

    pointer: str
    name: str
    spec: Mapping[str, Data]
    template: PodTemplate
    owner: str
    jobs: int = 1  # of which a set makes this many
    alone: bool = False

    @property
    def indexed(self) -> bool:
        return self.spec.get("completionMode") == "Indexed"


Kinds = tuple[GroupKind, ...]
Jobs = Callable[[Subject], Iterable[BatchJob]]


def jobs_of(job_set: Mapping[str, Data], above: str, owner: str) -> Iterator[BatchJob]:
    """The Jobs that are made of the specification of a set."""
    for job in replicated_jobs(job_set, above):
        yield BatchJob(job.pointer, job.name, job.spec, job.template, owner, job.replicas)


def about_jobs(kinds: Kinds, jobs: Jobs) -> tuple[Rule, ...]:
    """The parts of the rules about Jobs, whatever makes them."""
    return (
        _restart_policy(kinds, jobs),
        _no_limit_per_index(kinds, jobs),
        _generated_selector(kinds, jobs),
    )


def about_gangs(kinds: Kinds, jobs: Jobs) -> tuple[Rule, ...]:
    """The parts of the rules about Jobs whose ranks no operator tells where rank 0 is."""
    return _indexed_gang(kinds, jobs), _name_length(kinds, jobs), _torchrun_nodes(kinds)


def _each(
    jobs: Jobs, check: Callable[[BatchJob], Iterable[Hit]]
) -> Callable[[Subject], Iterator[Hit]]:
    def run(subject: Subject) -> Iterator[Hit]:
        for job in jobs(subject):
            yield from check(job)

    return run


def pods(job: str, container: str, rest: str = "") -> str:
    """A Job of one container, for samples: its fields, the container's and the pod's."""
    template = f"template: {{spec: {{containers: [{{{container}}}]{rest}}}}}"
    return f"kind: Job\nmetadata: {{name: a}}\nspec: {{{job}{template}}}"


TORCHRUN = "command: [torchrun, --nnodes=2, train.py]"


def _indexed(job: BatchJob) -> Iterator[Hit]:
    if not trains_together(job.template) and not any(map(_counts_nodes, job.template.trains)):
        return
    parallelism, completions = job.spec.get("parallelism"), job.spec.get("completions")
    # JobSet's webhook fills in Indexed, and completions then have to be written.
    mode = job.spec.get("completionMode", None if job.alone else "Indexed")
    if mode != "Indexed":
        found = "left out" if mode is None else mode
        yield Hit(job.pointer, f"completionMode is {found}: no pod has an index")
    elif job.jobs == 1 and completions != parallelism:
        yield Hit(job.pointer, f"parallelism is {parallelism}, completions are {completions}")


def _counts_nodes(container: Container) -> bool:
    """Whether a launcher waits for other nodes, however many pods there are at a time."""
    nodes = options(container).get("nnodes", container.variables.get("PET_NNODES", ""))
    return nodes.isdigit() and int(nodes) > 1


def _indexed_gang(kinds: Kinds, jobs: Jobs) -> Rule:
    return Rule(
        id="TW301",
        name="not-an-indexed-gang",
        severity=Severity.ERROR,
        summary="Ranks of one training are an Indexed Job whose parallelism equals its "
        "completions.",
        effect="Pods have no rank of their own, or some start when others are done: no world is "
        "whole.",
        remedy="Set completionMode: Indexed and the same number in parallelism and completions.",
        kinds=kinds,
        spec=Pointer("/nodes"),
        source=_JOB,
        run=_each(jobs, _indexed),
        passes=pods("completionMode: Indexed, parallelism: 2, completions: 2, ", TORCHRUN),
        fails=pods("completionMode: Indexed, parallelism: 2, completions: 4, ", TORCHRUN),
        near_misses=(
            pods(
                "completionMode: Indexed, parallelism: 1, completions: 4, ",
                "command: [torchrun, --standalone, train.py]",
            ),
            pods("completions: 4, ", "command: [python, sweep.py]"),
        ),
        variants=(
            pods("completionMode: Indexed, parallelism: 1, completions: 2, ", TORCHRUN),
            pods("completionMode: Indexed, completions: 2, ", TORCHRUN),
        ),
    )


_MEETS = "command: [torchrun, --nnodes=2, --master-addr=a-0.a]"
_HEADLESS = (
    "\n---\nkind: Service\nmetadata: {name: a}\nspec: {clusterIP: None, "
    "publishNotReadyAddresses: true, selector: {job-name: a}}"
)


def headless_service(kinds: Kinds, run: Callable[[Subject], Iterable[Hit]]) -> Rule:
    """The part of the rule for kinds whose ranks meet by the names of their pods."""
    return Rule(
        id="TW302",
        name="missing-headless-service",
        severity=Severity.ERROR,
        summary="Ranks of a Job find each other through a headless Service that selects them.",
        effect="The name of rank 0 cannot be resolved, and every other rank waits for it.",
        remedy="Add a Service named like the pods' subdomain, with clusterIP: None, "
        "publishNotReadyAddresses: true and the label batch.kubernetes.io/job-name in its "
        "selector.",
        kinds=kinds,
        source="https://kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication/",
        run=run,
        passes=pods("parallelism: 2, ", _MEETS, ", subdomain: a") + _HEADLESS,
        fails=pods("parallelism: 2, ", _MEETS),
    )


def _long(job: BatchJob) -> Iterator[Hit]:
    name = job.owner
    if not name:
        return
    completions = integer(job.spec.get("completions")) or 1
    if job.alone:
        longest = f"{name}-{completions - 1}" if job.indexed else name
        valid = bool(forms.LABEL.pattern.fullmatch(name)) or not job.indexed
    else:
        longest = f"{name}-{job.name}-{max(job.jobs - 1, 0)}-{completions - 1}-abcde"
        valid = bool(forms.LETTER_FIRST.pattern.fullmatch(f"{name}-{job.name}"))
    over = len(longest) - 63
    if not valid:
        yield Hit("/metadata/name", f"{name!r} makes no DNS label of its pods' names")
    elif over > 0:
        message = f'"{longest}" has {len(longest)} characters, {over} over 63'
        yield Hit("/metadata/name", message)


def _name_length(kinds: Kinds, jobs: Jobs) -> Rule:
    return Rule(
        id="TW303",
        name="job-name-too-long",
        severity=Severity.ERROR,
        summary="The name leaves room for what is appended to it in the names of pods.",
        effect="The object is refused, or accepted and its pods are never made.",
        remedy="Shorten the name.",
        kinds=kinds,
        spec=Pointer("/name"),
        source=upstream("jobset/webhook").source,
        run=_each(jobs, _long),
        passes=(
            f"kind: Job\nmetadata: {{name: {'a' * 61}}}\n"
            "spec: {completionMode: Indexed, completions: 10}"
        ),
        fails=(
            f"kind: Job\nmetadata: {{name: {'a' * 61}}}\n"
            "spec: {completionMode: Indexed, completions: 11}"
        ),
    )


def _restarted(job: BatchJob) -> Iterator[Hit]:
    policy = job.template.spec.get("restartPolicy")
    pointer = f"{job.template.pointer}/spec"
    strict = job.spec.get("podFailurePolicy") is not None
    if policy is None and (strict or job.alone):
        needed = "Never, as podFailurePolicy needs" if strict else "Never or OnFailure"
        yield Hit(pointer, f"restartPolicy is left out, it must be {needed}")
    elif policy not in (None, "Never", "OnFailure"):
        yield Hit(pointer, f"restartPolicy is {policy!r}, it must be Never or OnFailure")
    elif strict and policy != "Never":
        yield Hit(pointer, f"restartPolicy is {policy}, podFailurePolicy needs Never")


def _restart_policy(kinds: Kinds, jobs: Jobs) -> Rule:
    return Rule(
        id="TW304",
        name="invalid-job-restart-policy",
        severity=Severity.ERROR,
        summary="Pods of a Job have restartPolicy Never or OnFailure, with a podFailurePolicy "
        "Never.",
        effect="The API server refuses the Job, or the child Job of a JobSet or TrainJob that was "
        "accepted: the default, Always, is for pods that never end.",
        remedy="Set restartPolicy: Never.",
        kinds=kinds,
        source=_JOB,
        run=_each(jobs, _restarted),
        passes="kind: Job\nspec: {template: {spec: {restartPolicy: Never}}}",
        fails="kind: Job\nspec: {template: {spec: {restartPolicy: Always}}}",
    )


def _limited_by_index(job: BatchJob) -> Iterator[Hit]:
    if job.spec.get("backoffLimitPerIndex") is not None and trains_together(job.template):
        message = "one rank is retried or given up while the others wait for it"
        yield Hit(f"{job.pointer}/backoffLimitPerIndex", message)


def _no_limit_per_index(kinds: Kinds, jobs: Jobs) -> Rule:
    return Rule(
        id="TW305",
        name="backoff-limit-per-index",
        severity=Severity.WARNING,
        summary="Ranks of one training fail together, not one index at a time.",
        effect="The survivors hang in a collective with a rank that is gone.",
        remedy="Use backoffLimit instead of backoffLimitPerIndex.",
        kinds=kinds,
        spec=Pointer("/retries"),
        source=_JOB,
        run=_each(jobs, _limited_by_index),
        passes=pods("parallelism: 2, backoffLimit: 2, ", TORCHRUN),
        fails=pods("parallelism: 2, backoffLimitPerIndex: 2, ", TORCHRUN),
    )


def _told_of_others(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains if template.replicas > 1 else ():
            if not torchruns(container):
                continue
            given = options(container).get("nnodes", "")
            nodes = given or container.variables.get("PET_NNODES")
            if nodes is None or "--standalone" in container.command_line:
                count = template.replicas
                message = f"{count} pods start torchrun, and none has the addresses of the others"
                yield Hit(container.pointer, message)
            elif nodes.isdigit() and int(nodes) != template.replicas:
                message = f"torchrun expects {nodes} nodes, but there are {template.replicas} pods"
                yield Hit(container.pointer, message)


def _torchrun_nodes(kinds: Kinds) -> Rule:
    return Rule(
        id="TW306",
        name="missing-torchrun-nnodes",
        severity=Severity.WARNING,
        summary="torchrun gets the number of pods as --nnodes, where no operator sets it.",
        effect="Every pod trains alone, or waits for pods that never come.",
        remedy="Pass --nnodes, --node-rank=$(JOB_COMPLETION_INDEX) and --master-addr.",
        kinds=kinds,
        spec=Pointer("/entrypoint"),
        source=EXAMPLES,
        run=_told_of_others,
        passes=pods("parallelism: 2, ", TORCHRUN),
        fails=pods("parallelism: 2, ", "command: [torchrun, train.py]"),
    )


# --- labels --------------------------------------------------------------------------------------

_UID = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME = ("job-name", "batch.kubernetes.io/job-name")


def _selected(job: BatchJob) -> Iterator[Hit]:
    if job.spec.get("manualSelector") is True:
        return
    if job.spec.get("selector") is not None:
        yield Hit(f"{job.pointer}/selector", "selector is set, without manualSelector")
    own = job.owner if job.alone else ""
    for label, value in job.template.labels.items():
        if label in _UID or (label in _NAME and value != own):
            pointer = Pointer(f"{job.template.pointer}/metadata/labels") / label
            yield Hit(pointer, f"{label} is set to {value!r}")


def _labelled(labels: str) -> str:
    return (
        f"kind: Job\nmetadata: {{name: a}}\nspec: {{template: {{metadata: {{labels: {labels}}}}}}}"
    )


def _generated_selector(kinds: Kinds, jobs: Jobs) -> Rule:
    return Rule(
        id="TW311",
        name="selector-set",
        severity=Severity.ERROR,
        summary="The API server makes the selector of a Job, and the labels that it selects.",
        effect="The API server refuses the Job: they are another Job's, as `kubectl get -o yaml` "
        "shows them.",
        remedy="Remove them.",
        kinds=kinds,
        spec=Pointer("/labels"),
        source=upstream("kubernetes/job-template-is-immutable").source,
        run=_each(jobs, _selected),
        passes=_labelled("{team: vision}"),
        fails=_labelled("{batch.kubernetes.io/controller-uid: 7b0c1111}"),
    )
