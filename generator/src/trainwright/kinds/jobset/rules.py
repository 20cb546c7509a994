"""The rules about JobSets: whether their pods meet, and restart together."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import dig, mapping, text
from trainwright.kinds.indexed_rules import (
    EXAMPLES,
    TORCHRUN,
    BatchJob,
    about_gangs,
    about_jobs,
    headless_service,
    jobs_of,
)
from trainwright.kinds.jobset import KIND
from trainwright.pods.launching import options, trains_together
from trainwright.pods.template import PodTemplate
from trainwright.rule_model.rule import Rule, error, warning
from trainwright.rule_model.subject import Hit, Subject


def _jobs(subject: Subject) -> Iterator[BatchJob]:
    return jobs_of(subject.spec, "/spec", text(subject.metadata.get("name")))


def _meet(subject: Subject) -> Iterator[Hit]:
    network = mapping(subject.spec.get("network"))
    for field in ("enableDNSHostnames", "publishNotReadyAddresses"):
        if network.get(field) is False and any(map(trains_together, subject.templates)):
            yield Hit(f"/spec/network/{field}", f"{field} is false")


def _set(job: str, above: str = "") -> str:
    pod = f"template: {{spec: {{containers: [{{{TORCHRUN}}}]}}}}"
    spec = f"{{parallelism: 2, completions: 2, {job}{pod}}}"
    return (
        f"kind: JobSet\nspec: {{{above}replicatedJobs: [{{name: n, template: {{spec: {spec}}}}}]}}"
    )


@warning(
    id="TW309",
    summary="A JobSet restarts its ranks together.",
    effect="One lost pod is started again alone, and the others hang with the rank that is gone.",
    remedy="Set backoffLimit: 0 on the job and failurePolicy.maxRestarts on the JobSet.",
    spec=Pointer("/retries"),
    source=EXAMPLES,
    passes=_set("backoffLimit: 0, ", "failurePolicy: {maxRestarts: 3}, "),
    fails=_set(""),
)
def partial_gang_restart(subject: Subject) -> Iterator[Hit]:
    if subject.spec.get("failurePolicy") is not None:
        return
    for job in _jobs(subject):
        limit = job.spec.get("backoffLimit")
        if limit != 0 and trains_together(job.template) and not _elastic(job.template):
            found = "6 (the default)" if limit is None else limit
            message = f"{job.name!r} has backoffLimit {found} and the JobSet no failurePolicy"
            yield Hit(job.pointer, message)


def _elastic(template: PodTemplate) -> bool:
    return any(":" in options(container).get("nnodes", "") for container in template.trains)


_MAX_INT32 = 2147483647


@error(
    id="TW312",
    summary="The Jobs of a JobSet that restarts in place leave every restart to the JobSet.",
    effect="JobSet's webhook refuses the object.",
    remedy=f"Set backoffLimit: {_MAX_INT32}, podReplacementPolicy: Failed, and the same number in "
    "parallelism and completions.",
    source="https://github.com/kubernetes-sigs/jobset/blob/v0.13.0/pkg/webhooks/jobset_webhook.go",
    passes=_set(
        f"backoffLimit: {_MAX_INT32}, podReplacementPolicy: Failed, ",
        "failurePolicy: {maxRestarts: 3, restartStrategy: InPlaceRestart}, ",
    ),
    fails=_set(
        "backoffLimit: 0, ",
        "failurePolicy: {maxRestarts: 3, restartStrategy: InPlaceRestart}, ",
    ),
)
def in_place_restart_refused(subject: Subject) -> Iterator[Hit]:
    if dig(subject.spec, "failurePolicy", "restartStrategy") != "InPlaceRestart":
        return
    for job in _jobs(subject):
        wanted = {
            "backoffLimit": _MAX_INT32,
            "podReplacementPolicy": "Failed",
            "completions": job.spec.get("parallelism"),
        }
        for field, value in wanted.items():
            if job.spec.get(field) != value or value is None:
                found = job.spec.get(field, "left out")
                yield Hit(Pointer(job.pointer) / field, f"{field} of {job.name!r} is {found}")


_KINDS = (KIND.group_kind,)
RULES: tuple[Rule, ...] = (
    *about_jobs(_KINDS, _jobs, lambda subject: ((subject.spec, "/spec"),)),
    *about_gangs(_KINDS, _jobs),
    headless_service(_KINDS, _meet),
    partial_gang_restart,
    in_place_restart_refused,
)
