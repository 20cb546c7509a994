"""Indexed Jobs, alone or in a JobSet: whether their pods meet, and end together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trainwright.groupkind import JOB, JOBSET, RUNTIMES, SERVICE
from trainwright.model import Data, Severity
from trainwright.objects.finders import replicated
from trainwright.objects.launching import addresses, options, torchruns, trains_together
from trainwright.objects.rule import Rule, Sample
from trainwright.objects.subject import Hit, Subject
from trainwright.objects.template import PodTemplate
from trainwright.objects.tolerant import dig, integer, mapping, mappings, text
from trainwright.pointer import Pointer, token

KIND = (JOB, JOBSET)
EVERYWHERE = (JOB, JOBSET, *RUNTIMES)
_JOB = "https://kubernetes.io/docs/concepts/workloads/controllers/job/"
_EXAMPLES = "kubernetes-sigs/jobset@v0.12.0:site/static/examples/pytorch"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True)
class BatchJob:
    """The specification of a Job, where it stands, and what its pods are."""

    pointer: str
    name: str
    spec: Mapping[str, Data]
    template: PodTemplate
    jobs: int = 1  # of which a JobSet makes this many

    @property
    def indexed(self) -> bool:
        return self.spec.get("completionMode") == "Indexed"


def batch_jobs(subject: Subject) -> Iterator[BatchJob]:
    """The Jobs of an object: itself, or those that a JobSet or a runtime makes."""
    if subject.kind == JOB:
        yield BatchJob("/spec", subject.manifest.name, subject.spec, subject.templates[0])
        return
    jobset, above = subject.spec, "/spec"
    if subject.kind in RUNTIMES:
        jobset, above = mapping(dig(subject.spec, "template", "spec")), "/spec/template/spec"
    groups = mappings(jobset.get("replicatedJobs"))
    for group, template in zip(groups, replicated(jobset, above), strict=True):
        replicas = integer(group.get("replicas"))
        yield BatchJob(
            template.pointer.removesuffix("/template"),
            template.role,
            mapping(dig(group, "template", "spec")),
            template,
            1 if replicas is None else replicas,
        )


def pods(job: str, container: str, rest: str = "") -> str:
    """A Job of one container, for samples: its fields, the container's and the pod's."""
    template = f"template: {{spec: {{containers: [{{{container}}}]{rest}}}}}"
    return f"kind: Job\nmetadata: {{name: a}}\nspec: {{{job}{template}}}"


_TORCHRUN = "command: [torchrun, --nnodes=2, train.py]"


def _j01(subject: Subject) -> Iterator[Hit]:
    for job in batch_jobs(subject):
        if not trains_together(job.template):
            continue
        parallelism, completions = job.spec.get("parallelism"), job.spec.get("completions")
        # JobSet's webhook fills in Indexed, and completions then have to be written.
        mode = job.spec.get("completionMode", "Indexed" if subject.kind == JOBSET else None)
        if mode != "Indexed":
            found = "left out" if mode is None else mode
            yield Hit(job.pointer, f"completionMode is {found}: no pod has an index")
        elif job.jobs == 1 and completions != parallelism:
            yield Hit(job.pointer, f"parallelism is {parallelism}, completions are {completions}")


J01 = Rule(
    id="TW301",
    name="not-an-indexed-gang",
    severity=Severity.ERROR,
    summary="Ranks of one training are an Indexed Job whose parallelism equals its completions.",
    effect="Pods have no rank of their own, or some start when others are done: no world is whole.",
    remedy="Set completionMode: Indexed and the same number in parallelism and completions.",
    kinds=KIND,
    spec=Pointer("/nodes"),
    source=_JOB,
    run=_j01,
    passing=Sample(pods("completionMode: Indexed, parallelism: 2, completions: 2, ", _TORCHRUN)),
    failing=Sample(pods("completionMode: Indexed, parallelism: 2, completions: 4, ", _TORCHRUN)),
)


def _j02(subject: Subject) -> Iterator[Hit]:
    if subject.kind == JOBSET:
        network = mapping(subject.spec.get("network"))
        for field in ("enableDNSHostnames", "publishNotReadyAddresses"):
            if network.get(field) is False and any(map(trains_together, subject.templates)):
                yield Hit(f"/spec/network/{field}", f"{field} is false")
        return
    template = subject.templates[0]
    if trains_together(template):
        yield from _service(subject, template)


def _service(subject: Subject, template: PodTemplate) -> Iterator[Hit]:
    name = subject.manifest.name
    subdomain = text(template.spec.get("subdomain"))
    first = f"{name}-0"
    meets = [a for c in template.trains for a in addresses(c) if a.partition(".")[0] == first]
    if not subdomain:
        if meets:
            message = f"the pods have no subdomain, so {meets[0].partition(':')[0]} has no address"
            yield Hit("/spec/template/spec", message)
        return
    namespace = subject.manifest.namespace
    service = subject.around.named(SERVICE, subdomain, namespace)
    if service is not None:
        yield from _unfit(mapping(service.body.get("spec")), subdomain, name, template)
    elif subject.job or any(
        s.namespace == namespace for s in subject.around.by_kind.get(SERVICE, ())
    ):
        yield Hit("/spec/template/spec/subdomain", f"there is no Service {subdomain}")


def _unfit(
    service: Mapping[str, Data], subdomain: str, job: str, template: PodTemplate
) -> Iterator[Hit]:
    pointer = "/spec/template/spec/subdomain"
    own = {"batch.kubernetes.io/job-name": job, "job-name": job, **template.labels}
    selector = mapping(service.get("selector"))
    if service.get("clusterIP") != "None":
        yield Hit(pointer, f"the Service {subdomain} is not headless (clusterIP: None)")
    if not selector or any(own.get(key) != value for key, value in selector.items()):
        yield Hit(pointer, f"the Service {subdomain} does not select the pods of {job}")
    if service.get("publishNotReadyAddresses") is not True:
        yield Hit(pointer, f"the Service {subdomain} hides pods that are not ready yet")


_MEETS = "command: [torchrun, --nnodes=2, --master-addr=a-0.a]"
_HEADLESS = (
    "\n---\nkind: Service\nmetadata: {name: a}\nspec: {clusterIP: None, "
    "publishNotReadyAddresses: true, selector: {job-name: a}}"
)

J02 = Rule(
    id="TW302",
    name="missing-headless-service",
    severity=Severity.ERROR,
    summary="Ranks of a Job find each other through a headless Service that selects them.",
    effect="The name of rank 0 cannot be resolved, and every other rank waits for it.",
    remedy="Add a Service named like the pods' subdomain, with clusterIP: None, "
    "publishNotReadyAddresses: true and the label batch.kubernetes.io/job-name in its selector.",
    kinds=KIND,
    source="https://kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication/",
    run=_j02,
    passing=Sample(pods("parallelism: 2, ", _MEETS, ", subdomain: a") + _HEADLESS),
    failing=Sample(pods("parallelism: 2, ", _MEETS)),
)


def _j03(subject: Subject) -> Iterator[Hit]:
    name = text(subject.metadata.get("name"))
    if not name:
        return
    for job in batch_jobs(subject):
        completions = integer(job.spec.get("completions")) or 1
        if subject.kind == JOB:
            longest = f"{name}-{completions - 1}" if job.indexed else name
            valid = bool(_LABEL.fullmatch(name)) or not job.indexed
        else:
            longest = f"{name}-{job.name}-{max(job.jobs - 1, 0)}-{completions - 1}-abcde"
            valid = bool(_DNS_1035.fullmatch(f"{name}-{job.name}"))
        over = len(longest) - 63
        if not valid:
            yield Hit("/metadata/name", f"{name!r} makes no DNS label of its pods' names")
        elif over > 0:
            message = f'"{longest}" has {len(longest)} characters, {over} over 63'
            yield Hit("/metadata/name", message)


J03 = Rule(
    id="TW303",
    name="job-name-too-long",
    severity=Severity.ERROR,
    summary="The name leaves room for what is appended to it in the names of pods.",
    effect="The object is refused, or accepted and its pods are never made.",
    remedy="Shorten the name.",
    kinds=KIND,
    spec=Pointer("/name"),
    source="kubernetes-sigs/jobset@v0.12.0:pkg/webhooks/jobset_webhook.go",
    run=_j03,
    passing=Sample(
        f"kind: Job\nmetadata: {{name: {'a' * 61}}}\n"
        "spec: {completionMode: Indexed, completions: 10}"
    ),
    failing=Sample(
        f"kind: Job\nmetadata: {{name: {'a' * 61}}}\n"
        "spec: {completionMode: Indexed, completions: 11}"
    ),
)


def _j04(subject: Subject) -> Iterator[Hit]:
    for job in batch_jobs(subject):
        policy = job.template.spec.get("restartPolicy")
        pointer = f"{job.template.pointer}/spec"
        strict = job.spec.get("podFailurePolicy") is not None
        if policy is None and (strict or subject.kind == JOB):
            needed = "Never, as podFailurePolicy needs" if strict else "Never or OnFailure"
            yield Hit(pointer, f"restartPolicy is left out, it must be {needed}")
        elif policy not in (None, "Never", "OnFailure"):
            yield Hit(pointer, f"restartPolicy is {policy!r}, it must be Never or OnFailure")
        elif strict and policy != "Never":
            yield Hit(pointer, f"restartPolicy is {policy}, podFailurePolicy needs Never")


J04 = Rule(
    id="TW304",
    name="invalid-job-restart-policy",
    severity=Severity.ERROR,
    summary="Pods of a Job have restartPolicy Never or OnFailure, with a podFailurePolicy Never.",
    effect="The API server refuses the Job, or the child Job of a JobSet or TrainJob that was "
    "accepted: the default, Always, is for pods that never end.",
    remedy="Set restartPolicy: Never.",
    kinds=EVERYWHERE,
    source=_JOB,
    run=_j04,
    passing=Sample("kind: Job\nspec: {template: {spec: {restartPolicy: Never}}}"),
    failing=Sample("kind: Job\nspec: {template: {spec: {restartPolicy: Always}}}"),
)


def _j05(subject: Subject) -> Iterator[Hit]:
    for job in batch_jobs(subject):
        if job.spec.get("backoffLimitPerIndex") is not None and trains_together(job.template):
            message = "one rank is retried or given up while the others wait for it"
            yield Hit(f"{job.pointer}/backoffLimitPerIndex", message)


J05 = Rule(
    id="TW305",
    name="backoff-limit-per-index",
    severity=Severity.WARNING,
    summary="Ranks of one training fail together, not one index at a time.",
    effect="The survivors hang in a collective with a rank that is gone.",
    remedy="Use backoffLimit instead of backoffLimitPerIndex.",
    kinds=EVERYWHERE,
    spec=Pointer("/retries"),
    source=_JOB,
    run=_j05,
    passing=Sample(pods("parallelism: 2, backoffLimit: 2, ", _TORCHRUN)),
    failing=Sample(pods("parallelism: 2, backoffLimitPerIndex: 2, ", _TORCHRUN)),
)


def _j06(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains if template.replicas > 1 else ():
            if not torchruns(container):
                continue
            given = options(container).get("nnodes", "")
            told = given or container.variables.get("PET_NNODES")
            if told is None or "--standalone" in container.command_line:
                message = f"{template.replicas} pods start torchrun, and none knows of the others"
                yield Hit(container.pointer, message)
            elif told.isdigit() and int(told) != template.replicas:
                message = f"torchrun expects {told} nodes, but there are {template.replicas} pods"
                yield Hit(container.pointer, message)


J06 = Rule(
    id="TW306",
    name="missing-torchrun-nnodes",
    severity=Severity.WARNING,
    summary="torchrun gets the number of pods as --nnodes, where no operator sets it.",
    effect="Every pod trains alone, or waits for pods that never come.",
    remedy="Pass --nnodes, --node-rank=$(JOB_COMPLETION_INDEX) and --master-addr.",
    kinds=KIND,
    spec=Pointer("/entrypoint"),
    source=_EXAMPLES,
    run=_j06,
    passing=Sample(pods("parallelism: 2, ", _TORCHRUN)),
    failing=Sample(pods("parallelism: 2, ", "command: [torchrun, train.py]")),
)


def _j09(subject: Subject) -> Iterator[Hit]:
    if dig(subject.spec, "failurePolicy") is not None:
        return
    for job in batch_jobs(subject):
        limit = job.spec.get("backoffLimit")
        if limit != 0 and trains_together(job.template) and not _elastic(job.template):
            found = "6 (the default)" if limit is None else limit
            message = f"{job.name!r} has backoffLimit {found} and the JobSet no failurePolicy"
            yield Hit(job.pointer, message)


def _elastic(template: PodTemplate) -> bool:
    return any(":" in options(container).get("nnodes", "") for container in template.trains)


def _set(job: str, above: str = "") -> str:
    pod = f"template: {{spec: {{containers: [{{{_TORCHRUN}}}]}}}}"
    spec = f"{{parallelism: 2, completions: 2, {job}{pod}}}"
    return (
        f"kind: JobSet\nspec: {{{above}replicatedJobs: [{{name: n, template: {{spec: {spec}}}}}]}}"
    )


J09 = Rule(
    id="TW309",
    name="partial-gang-restart",
    severity=Severity.WARNING,
    summary="A JobSet restarts its ranks together.",
    effect="One lost pod is started again alone, and the others hang with the rank that is gone.",
    remedy="Set backoffLimit: 0 on the job and failurePolicy.maxRestarts on the JobSet.",
    kinds=(JOBSET,),
    spec=Pointer("/retries"),
    source=_EXAMPLES,
    run=_j09,
    passing=Sample(_set("backoffLimit: 0, ", "failurePolicy: {maxRestarts: 3}, ")),
    failing=Sample(_set("")),
)


_UID = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME = ("job-name", "batch.kubernetes.io/job-name")


def _j11(subject: Subject) -> Iterator[Hit]:
    for job in batch_jobs(subject):
        if job.spec.get("manualSelector") is True:
            continue
        if job.spec.get("selector") is not None:
            yield Hit(f"{job.pointer}/selector", "selector is set, without manualSelector")
        own = text(subject.metadata.get("name")) if subject.kind == JOB else ""
        for label, value in job.template.labels.items():
            if label in _UID or (label in _NAME and value != own):
                pointer = f"{job.template.pointer}/metadata/labels/{token(label)}"
                yield Hit(pointer, f"{label} is set to {value!r}")


def _labelled(labels: str) -> str:
    return (
        f"kind: Job\nmetadata: {{name: a}}\nspec: {{template: {{metadata: {{labels: {labels}}}}}}}"
    )


J11 = Rule(
    id="TW311",
    name="selector-set",
    severity=Severity.ERROR,
    summary="The API server makes the selector of a Job, and the labels that it selects.",
    effect="The API server refuses the Job: they are another Job's, as `kubectl get -o yaml` shows "
    "them.",
    remedy="Remove them.",
    kinds=EVERYWHERE,
    spec=Pointer("/labels"),
    source="kubernetes/kubernetes@v1.36.2:pkg/apis/batch/validation/validation.go",
    run=_j11,
    passing=Sample(_labelled("{team: vision}")),
    failing=Sample(_labelled("{batch.kubernetes.io/controller-uid: 7b0c1111}")),
)
RULES = (J01, J02, J03, J04, J05, J06, J09, J11)
