"""How a run begins together and ends: gangs, containers that never end, disruptions, deadlines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.datatypes.tolerant import dig, mapping, mappings, text
from trainwright.kinds import SERVED, TRAINING
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.pods.launching import launches
from trainwright.pods.storage import arguments
from trainwright.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, pod, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules.pods import on_spot

_JOBS = tuple(kind.group_kind for kind in SERVED.values() if kind.immutable_template)
_GPU = "command: [torchrun, t.py], resources: {limits: {nvidia.com/gpu: 8}}"
_TWO = "replicas: 2, "
_GANGS = (
    *("scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group"),
    *("scheduling.volcano.sh/queue-name", "kai.scheduler/queue"),
)


@warning(
    id="TW756",
    summary="The pods of a training on several nodes are admitted together.",
    effect="With too few free nodes some pods start and hold their GPUs, and wait for the others "
    "until the rendezvous times out; two such jobs block each other for ever.",
    remedy="Set queue or gang.",
    by_hand="Put it into a queue of Kueue, or into a gang of Volcano, scheduler-plugins or KAI.",
    kinds=TRAINING,
    spec=Pointer("/queue"),
    source="https://kueue.sigs.k8s.io/docs/overview/",
    passes=pod(_GPU, ", schedulerName: volcano", _TWO),
    fails=pod(_GPU, replica=_TWO),
    near_misses=(
        pod(_GPU, replica="replicas: 1, "),
        pod("command: [torchrun, t.py]", replica=_TWO),
        "kind: PyTorchJob\nmetadata: {labels: {kueue.x-k8s.io/queue-name: a}}\n"
        + pod(_GPU, replica=_TWO).partition("\n")[2],
        pod(_GPU, replica=_TWO).replace("spec: {", "spec: {runPolicy: {schedulingPolicy: {}}, ", 1),
    ),
    variants=(
        "kind: Job\nspec: {completionMode: Indexed, parallelism: 4, completions: 4, template: "
        f"{{spec: {{containers: [{{name: a, {_GPU}}}]}}}}}}",
    ),
)
def several_nodes_without_gang(subject: Subject) -> Iterator[Hit]:
    ours_without_queues = subject.job is not None and subject.environment.queueing == "none"
    if ours_without_queues or subject.pods < 2 or _is_gang(subject):
        return
    ranks = [t for t in subject.templates if t.accelerators and not t.partial]
    if any(launches(c.command_line) for template in ranks for c in template.trains):
        message = f"{subject.pods} pods with accelerators, in no queue and no gang"
        yield Hit(f"{ranks[0].pointer}/spec", message)


def _is_gang(subject: Subject) -> bool:
    if QUEUE_LABEL in subject.labels or subject.spec.get("scheduling") is not None:
        return True
    if dig(subject.spec, "runPolicy", "schedulingPolicy") is not None:
        return True
    refers = SERVED[subject.kind].refers
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
    r"|node_exporter|dcgm-exporter|cloud[_-]sql[_-]proxy|nginx|while\s+(?:true|:)|jupyter)(?=\s|;|$)"
)
_SERVICES = re.compile(
    r"(?:^|/)(?:fluent-?bit|fluentd|tensorboard|dcgm-exporter|node-exporter|promtail|vector"
    r"|filebeat|cloud-sql-proxy|gce-proxy|oauth2-proxy|nginx|envoy|otel[\w-]*|opentelemetry[\w-]*"
    r"|datadog-agent|pushgateway)(?=[:@]|$)"
)
_TAIL = "{name: log, image: busybox, command: [tail, -f, /log]}"


def _beside(sidecar: str, field: str = "containers") -> str:
    main = "{name: pytorch, command: [torchrun, t.py]}"
    if field == "containers":
        spec = f"containers: [{main}, {sidecar}]"
    else:
        spec = f"containers: [{main}], {field}: [{sidecar}]"
    return f"kind: Job\nspec: {{template: {{spec: {{{spec}}}}}}}"


@warning(
    id="TW762",
    summary="No container beside the training outlives it.",
    effect="The pod runs on when the training has ended: the job never completes, and holds its "
    "GPUs and its quota until its deadline.",
    remedy="Write it under sidecars, which end with the training.",
    by_hand="Move it to initContainers with restartPolicy: Always: as a sidecar it ends with the "
    "training.",
    kinds=TRAINING,
    spec=Pointer("/sidecars"),
    source="https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#jobs-with-sidecar-containers",
    per_pod=True,
    passes=_beside(_TAIL[:-1] + ", restartPolicy: Always}", "initContainers"),
    fails=_beside(_TAIL),
    near_misses=(
        _beside("{name: copy, image: busybox, command: [cp, a, b]}"),
        _beside("{name: wait, command: [sh, -c, 'tail --pid=1 -f /dev/null']}"),
        _beside("{name: pause, command: [sleep, '60']}"),
        pod("command: [sh, -c, 'while true; do torchrun t.py && break; done']"),
    ),
    variants=(
        _beside("{name: a, image: 'fluent/fluent-bit:3.0'}"),
        _beside("{name: a, command: [sleep, infinity]}"),
        _beside("{name: a, command: [tensorboard, --logdir, /logs]}"),
        _beside("{name: a, command: [sh, -c, 'while true; do sync; sleep 60; done']}"),
    ),
)
def container_outlives_training(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        main = _trainer(template)
        for container in template.trains:
            if container is not main and _is_endless(container):
                message = f'"{container.name}" does not end with the training'
                yield Hit(container.pointer, message)


def _trainer(template: PodTemplate) -> Container | None:
    launching = [c for c in template.trains if launches(c.command_line) or c.name == "pytorch"]
    return launching[0] if launching else template.main


def _is_endless(container: Container) -> bool:
    line = " ".join(container.command_line)
    if "--pid" in line:
        return False
    served = not container.command_line and _SERVICES.search(container.image)
    return bool(_ENDLESS.search(line) or served)


_SPOT = "nodeSelector: {cloud.google.com/gke-spot: 'true'}"


def _on_spot(job: str, selector: str = _SPOT) -> str:
    return (
        f"kind: Job\nspec: {{{job}template: {{spec: {{{selector}, containers: [{{name: a}}]}}}}}}"
    )


@warning(
    id="TW763",
    summary="Nodes that are taken away do not use up the retries of a Job.",
    effect="Each preemption counts as a failure: after backoffLimit of them the Job fails, though "
    "nothing is wrong with it.",
    remedy="Add a podFailurePolicy with action: Ignore for the condition DisruptionTarget.",
    kinds=_JOBS,
    spec=Pointer("/retries"),
    source="https://kubernetes.io/docs/tasks/job/pod-failure-policy/",
    passes=_on_spot(
        "backoffLimit: 3, podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: "
        "DisruptionTarget}]}]}, "
    ),
    fails=_on_spot("backoffLimit: 3, "),
    near_misses=(_on_spot("backoffLimit: 3, ", "nodeSelector: {zone: a}"),),
    variants=(
        _on_spot(""),
        _on_spot("podFailurePolicy: {rules: [{action: FailJob}]}, ", "nodeSelector: {}"),
    ),
)
def disruption_counts_as_failure(subject: Subject) -> Iterator[Hit]:
    rules = list(mappings(dig(subject.spec, "podFailurePolicy", "rules")))
    ignored = any(
        rule.get("action") == "Ignore" and condition.get("type") == "DisruptionTarget"
        for rule in rules
        for condition in mappings(rule.get("onPodConditions"))
    )
    single = "template" in subject.spec  # and no set of Jobs
    for template in subject.templates if single and not ignored else ():
        where = on_spot(subject, template)
        if (where or rules) and template.retried is True:
            why = where or "its podFailurePolicy has no rule for DisruptionTarget"
            limit = subject.spec.get("backoffLimit", "6 (the default)")
            yield Hit("/spec", f"{why}, and each preemption counts towards backoffLimit {limit}")


_DURATION = re.compile(r"(?:(\d+):)?(\d+):(\d{2}):(\d{2})|(\d+(?:\.\d+)?)([smhd]?)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# How long a program may train by its own flags, and the unit of a number without one.
_LIMITS = {
    "max_time": "s",
    "trainer_max_time": "s",
    "time_limit": "s",
    "max_train_time": "s",
    "max_training_time": "s",
    "max_hours": "h",
    "max_train_hours": "h",
    "max_minutes": "m",
    "exit_duration_in_mins": "m",
    "train_hours": "h",
}


_WRAPPED = re.compile(r"(?:^|[\s;&|/])timeout\s{1,9}(?:-\S{1,30}\s{1,9}){0,4}(\d+[smhd]?)(?=\s)")


def _flagged(flag: str, deadline: int) -> str:
    return (
        f"kind: Job\nspec: {{activeDeadlineSeconds: {deadline}, template: {{spec: {{containers: "
        f"[{{name: a, command: [torchrun, t.py, '{flag}']}}]}}}}}}"
    )


@warning(
    id="TW768",
    summary="The deadline of a job is not before the time that its own flags give the training.",
    effect="The job is ended at its deadline, before the training stops by itself and saves its "
    "last checkpoint.",
    remedy="Raise maxDuration above the flag, with time for the start and the last checkpoint.",
    by_hand="Raise activeDeadlineSeconds above the flag, with time for the start and the end.",
    kinds=TRAINING,
    spec=Pointer("/maxDuration"),
    source="https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup",
    passes=_flagged("--max_time=01:00:00:00", 90000),
    fails=_flagged("--max_time=01:00:00:00", 3600),
    near_misses=(
        _flagged("--max_hours=24", 90000),
        _flagged("--max_steps=100000", 3600),
        _flagged("--max_time=none", 3600),
    ),
    variants=(
        _flagged("--max_hours=24", 3600),
        _flagged("--trainer.max_time=02:00:00", 3600),
        _flagged("--time-limit=5h", 3600),
        _flagged("--exit-duration-in-mins=1190", 3600),
    ),
)
def deadline_before_flags(subject: Subject) -> Iterator[Hit]:
    for template, deadline in _deadlines(subject):
        for container in template.trains:
            for limit in _WRAPPED.findall(" ".join(container.command_line)):
                if _seconds(limit, "s") > deadline:
                    message = f"timeout {limit} is after the deadline of {deadline} seconds"
                    yield Hit(container.pointer, message)
            for option in arguments(container):
                asked = _seconds(option.value, _LIMITS.get(option.name, ""))
                if asked and asked > deadline:
                    message = (
                        f"{option.shown} {option.value} is {asked} s, and the deadline {deadline} s"
                    )
                    yield Hit(container.pointer, message)


def _deadlines(subject: Subject) -> Iterator[tuple[PodTemplate, int]]:
    """Each pod template with the seconds after which its object or Job is ended."""
    whole = count(subject.spec.get("activeDeadlineSeconds"))
    whole = whole or count(dig(subject.spec, "runPolicy", "activeDeadlineSeconds"))
    of_jobs = {
        text(job.get("name")): count(dig(job, "template", "spec", "activeDeadlineSeconds"))
        for job in mappings(subject.spec.get("replicatedJobs"))
    }
    for template in subject.templates:
        if deadline := whole or of_jobs.get(template.role):
            yield template, deadline


def _seconds(value: str, unit: str) -> int:
    """A time as a flag has it, such as 01:12:00:00 of Lightning; 0 where it is none."""
    match = _DURATION.fullmatch(value) if unit else None
    if match is None:
        return 0
    days, hours, minutes, seconds, number, own = match.groups()
    if number:
        return int(float(number) * _UNITS[own or unit])
    return ((int(days or 0) * 24 + int(hours)) * 60 + int(minutes)) * 60 + int(seconds)


RULES = defined_in(globals())
