"""How runs start and end: gangs, containers that never end, disruptions, deadlines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from trainwright.datatypes.data import Data, dig, mapping, mappings, text
from trainwright.datatypes.durations import SECONDS
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.datatypes.quantity import count
from trainwright.kinds import SERVED, TRAINING
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.objects.own_labels import ENVIRONMENT, is_ours
from trainwright.objects.pods.launching import launches, starts_elsewhere
from trainwright.objects.pods.storage import settings, words
from trainwright.objects.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules.pods import on_spot

_JOBS = tuple(kind.group_kind for kind in SERVED.values() if kind.immutable_template)
# Kinds of others whose pods are created one by one, unless a scheduler or a queue knows of gangs.
_OTHERS = (
    GroupKind("apps", "StatefulSet"),
    GroupKind("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    *(GroupKind("kubeflow.org", f"{name}Job") for name in ("MPI", "TF", "JAX", "Paddle")),
)
_GANGS = (
    *("scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group"),
    *("scheduling.volcano.sh/queue-name", "kai.scheduler/queue"),
)


@warning("TW756", kinds=(*TRAINING, *_OTHERS), spec=Pointer("/queue"))
def several_nodes_without_gang(subject: Subject) -> Iterator[Hit]:
    ours = subject.job is not None or _is_of(subject.environment.name, subject)
    ours_without_queues = ours and subject.environment.queueing == "none"
    if ours_without_queues or subject.ranks < 2 or _is_gang(subject):
        return
    ranks = [t for t in subject.templates if t.accelerators and not t.partial]
    pods = sum(template.ranks for template in ranks)
    kind = SERVED.get(subject.kind)
    told = kind is not None and "RANK" in kind.variables  # by the operator, whatever is started
    starts = (_starts_ranks(c) for _, c in subject.training)
    if pods > 1 and (told or any(starts)):
        message = f"{pods} pods with accelerators, in no queue and no gang"
        yield Hit(f"{ranks[0].pointer}/spec", message, Pointer("/nodes"))


def _is_of(environment: str, subject: Subject) -> bool:
    """Whether an object was rendered for an environment, when `validate` reads it from a file."""
    return is_ours(subject.manifest) and subject.labels.get(ENVIRONMENT) == environment


def _starts_ranks(container: Container) -> bool:
    return launches(container.started) or starts_elsewhere(container.started)


def _is_gang(subject: Subject) -> bool:
    """Whether something starts all pods of an object together."""
    if QUEUE_LABEL in subject.labels or subject.spec.get("scheduling") is not None:
        return True
    if dig(subject.spec, "runPolicy", "schedulingPolicy") is not None:
        return True
    kind = SERVED.get(subject.kind)
    refers = kind.refers if kind else None
    for needed in refers(subject.manifest) if refers else ():
        runtime = subject.around.named(needed.kind, needed.name, subject.manifest.namespace)
        if runtime and runtime.spec.get("podGroupPolicy") is not None:
            return True
    return any(
        text(t.spec.get("schedulerName")) not in ("", "default-scheduler")
        or t.spec.get("schedulingGroup") is not None
        or any(name in mapping(t.metadata.get(part)) for part in _PARTS for name in _GANGS)
        for t in subject.templates
    )


_PARTS = ("labels", "annotations")
_ENDLESS = re.compile(
    r"(?:^|\s)(?:sleep\s+(?:inf|infinity|\d{6,})|tail\s+-[fF]|tensorboard|fluent-?bit|fluentd"
    r"|node_exporter|dcgm-exporter|cloud[_-]sql[_-]proxy|nginx|jupyter|watch"
    r"|nvidia-smi\s.{0,80}?-(?:l|-loop\S*)|nvidia-smi\s+dmon|dcgmi\s+dmon|http\.server)(?=\s|;|=|$)"
)
_LOOP = re.compile(
    r"\bwhile\s+(?:true|:|\[\s*1\s*\]|sleep\s+[^\s;]+)(?=\s|;)|\buntil\s+false(?=\s|;)|for\s*\(\(\s*;\s*;\s*\)\)"
)
_LEAVES = re.compile(r"\b(?:break|exit|return)\b")
_SERVICES = re.compile(
    r"(?:^|/)(?:fluent-?bit|fluentd|tensorboard|dcgm-exporter|node-exporter|promtail|vector"
    r"|filebeat|cloud-sql-proxy|gce-proxy|oauth2-proxy|nginx|envoy|otel[\w-]*|opentelemetry[\w-]*"
    r"|datadog-agent|pushgateway)(?=[:@]|$)"
)


_MPIJOB = GroupKind("kubeflow.org", "MPIJob")
# Those that end with their training, and no operator ends for it.
_ENDING = (*TRAINING, GroupKind("", "Pod"), _MPIJOB)


@warning("TW762", kinds=_ENDING, spec=Pointer("/sidecars"), per_pod=True, special=True)
def container_outlives_training(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        if subject.kind == _MPIJOB and template.pointer.endswith("/Worker/template"):
            continue  # its operator deletes them once the launcher has ended
        main = _trainer(template) if len(template.trains) > 1 else template.main
        for container in template.trains:
            if container is not main and _is_endless(container):
                message = f'"{container.name}" does not end with the training'
                yield Hit(container.pointer, message)


def _trainer(template: PodTemplate) -> Container | None:
    launching = [c for c in template.trains if _starts_ranks(c) or c.name == "pytorch"]
    return next(iter(launching or [c for c in template.trains if c.accelerators]), template.main)


def _is_endless(container: Container) -> bool:
    line = " ".join(container.command_line)
    loop = _LOOP.search(line)
    ended = "--pid" in line or "quitquitquit" in line  # which proxies have to be ended by
    if ended or (loop and _LEAVES.search(line, loop.end())):
        return False
    served = not container.body.get("command") and _SERVICES.search(container.image)
    return bool(loop or served or _ENDLESS.search(line))


@warning("TW763", kinds=_JOBS, spec=Pointer("/retries"))
def disruption_counts_as_failure(subject: Subject) -> Iterator[Hit]:
    restarts = mappings(dig(subject.spec, "failurePolicy", "rules"))
    uncounted = any(text(rule.get("action")).endswith("IgnoreMaxRestarts") for rule in restarts)
    for template, job in _jobs(subject) if not uncounted else ():
        rules = mappings(dig(job, "podFailurePolicy", "rules"))
        where = on_spot(subject, template)
        single = job is subject.spec
        if not single and subject.job:
            continue  # a set that is rendered here restarts as its job says
        if (where or (single and rules)) and template.retried is True and not _ignored(rules):
            why = where or "its podFailurePolicy has no rule for DisruptionTarget"
            limit = f"backoffLimit {job.get('backoffLimit', '6 (the default)')}"
            if not single and job.get("backoffLimit") == 0:
                limit = f"maxRestarts {dig(subject.spec, 'failurePolicy', 'maxRestarts')}"
            yield Hit("/spec", f"{why}, and each preemption counts towards {limit}")


def _jobs(subject: Subject) -> Iterator[tuple[PodTemplate, Mapping[str, Data]]]:
    """Each pod template with the specification of its Job, also of a set of Jobs."""
    for template in subject.templates:
        job = lookup(subject.body, Pointer(template.pointer).parent)
        yield template, mapping(job)


def _ignored(rules: Iterable[Mapping[str, Data]]) -> bool:
    return any(
        rule.get("action") == "Ignore" and condition.get("type") == "DisruptionTarget"
        for rule in rules
        for condition in mappings(rule.get("onPodConditions"))
    )


_DURATION = re.compile(r"(?:(\d+):)?(\d+):(\d{2}):(\d{2})|(\d+(?:\.\d+)?)([smhd]?)")
# How long a program may train by its own flags, and the unit of a number without one.
_LIMITS = {
    "max_time": "s",
    "trainer_max_time": "s",
    "time_limit": "s",
    "max_train_time": "s",
    "max_training_time": "s",
    "train_time_limit": "s",
    "max_seconds": "s",
    "max_train_seconds": "s",
    "max_hours": "h",
    "max_train_hours": "h",
    "max_training_hours": "h",
    "max_minutes": "m",
    "max_train_minutes": "m",
    "max_training_minutes": "m",
    "exit_duration_in_mins": "m",
    "train_hours": "h",
}


_WRAPPED = re.compile(r"(?:^|[\s;&|/])timeout\s{1,9}(?:-\S{1,30}\s{1,9}){0,4}(\d+[smhd]?)(?=\s)")


@warning("TW768", kinds=_ENDING, about=("activeDeadlineSeconds",), spec=Pointer("/maxDuration"))
def deadline_before_flags(subject: Subject) -> Iterator[Hit]:
    for template, deadline in _deadlines(subject):
        for container in template.trains:
            for limit in _WRAPPED.findall(" ".join(words(container))):
                if _seconds(limit, "s") > deadline:
                    message = f"timeout {limit} is after the deadline of {deadline} seconds"
                    yield Hit(container.pointer, message)
            for option in settings(container):
                given = _seconds(option.value, _LIMITS.get(option.name, ""))
                if given and given > deadline:
                    message = (
                        f"{option.shown} {option.value} is {given} s, and the deadline {deadline} s"
                    )
                    yield Hit(container.pointer, message)


def _deadlines(subject: Subject) -> Iterator[tuple[PodTemplate, int]]:
    """Each pod template with the seconds after which its object or Job is ended."""
    whole = count(subject.spec.get("activeDeadlineSeconds"))
    whole = whole or count(dig(subject.spec, "runPolicy", "activeDeadlineSeconds"))
    for template, job in _jobs(subject):
        of_job = count(job.get("activeDeadlineSeconds"))
        if deadline := whole or of_job or count(template.spec.get("activeDeadlineSeconds")):
            yield template, deadline


def _seconds(value: str, unit: str) -> int:
    """Return a flag's duration, such as 01:12:00:00 of Lightning, in seconds; 0 if it is none."""
    match = _DURATION.fullmatch(value) if unit else None
    if match is None:
        return 0
    days, hours, minutes, seconds, number, own = match.groups()
    if number:
        return int(float(number) * SECONDS[own or unit])
    return ((int(days or 0) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)


RULES = defined_in(globals())
