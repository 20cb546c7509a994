"""The policies of JobSets and Jobs: whether their parts agree, and variables that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trainwright.groupkind import (
    JOB,
    JOBSET,
    PYTORCHJOB,
    RUNTIMES,
    TRAINING,
    TRAININGJOB,
    TRAINJOB,
    GroupKind,
)
from trainwright.kinds.indexed_rules import EVERYWHERE, BatchJob, batch_jobs, pods
from trainwright.model import Data, Severity
from trainwright.objects.launching import SHELLS
from trainwright.objects.rule import Rule, Sample
from trainwright.objects.subject import Hit, Subject
from trainwright.objects.template import Container
from trainwright.objects.tolerant import dig, integer, mapping, mappings, sequence, text
from trainwright.pointer import Pointer

_WEBHOOK = "kubernetes-sigs/jobset@v0.12.0:pkg/webhooks/jobset_webhook.go"

# --- variables -----------------------------------------------------------------------------------

_REFERENCE = re.compile(r"\$?\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
# What each controller declares in every container itself.
_GIVEN: dict[GroupKind, tuple[str, ...]] = {
    PYTORCHJOB: ("PET_", "MASTER_", "WORLD_SIZE", "RANK", "PYTHONUNBUFFERED"),
    TRAININGJOB: ("LATTICE_",),
    TRAINJOB: ("PET_", "JOB_COMPLETION_INDEX", "JOBSET_", "JOB_"),
    JOBSET: ("JOB_COMPLETION_INDEX", "JOBSET_", "JOB_"),
    JOB: ("JOB_COMPLETION_INDEX",),
}
_OF_SERVICES = re.compile(r".*_(?:SERVICE_HOST|SERVICE_PORT(?:_.*)?|PORT(?:_.*)?)")


def _j07(subject: Subject) -> Iterator[Hit]:
    given = _GIVEN[subject.kind]
    for template in subject.templates:
        for container in template.containers:
            if not any("$(" in word for word in container.command_line):
                continue
            if template.partial or sequence(container.body.get("envFrom")):
                continue  # what is declared there cannot be seen
            for name in dict.fromkeys(_referred(container)):
                if name not in container.variables and not name.startswith(given):
                    message = f"$({name}) names no variable of {container.name!r}"
                    yield Hit(container.pointer, message)


def _referred(container: Container) -> Iterator[str]:
    """The variables in a command line, but for those in a shell's script: they are commands."""
    words = container.command_line
    shell = bool(words) and bool(SHELLS.fullmatch(words[0]))
    for index, word in enumerate(words):
        if shell and index and words[index - 1].startswith("-") and words[index - 1].endswith("c"):
            continue
        for match in _REFERENCE.finditer(word) if "$(" in word else ():
            if not match.group().startswith("$$") and not _OF_SERVICES.fullmatch(match.group(1)):
                yield match.group(1)


J07 = Rule(
    id="TW307",
    name="undeclared-variable",
    severity=Severity.WARNING,
    summary="Variables in a command line are declared in the same container.",
    effect="The kubelet passes the text on as it is: the program gets the word $(NAME).",
    remedy="Declare the variable under env, or write $$(NAME) if the text is meant.",
    kinds=TRAINING,
    spec=Pointer("/entrypoint"),
    source="https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/",
    per_pod=True,
    run=_j07,
    passing=Sample(pods("", "command: [a, $(JOB_COMPLETION_INDEX)]")),
    failing=Sample(pods("", "command: [a, $(MASTER_ADDR)]")),
)

# --- policies ------------------------------------------------------------------------------------

_REASONS = frozenset(
    "BackoffLimitExceeded DeadlineExceeded FailedIndexes MaxFailedIndexesExceeded"
    " PodFailurePolicy".split()
)


def _j08(subject: Subject) -> Iterator[Hit]:
    if subject.kind in RUNTIMES:
        jobset = mapping(dig(subject.spec, "template", "spec"))
        yield from _jobset(jobset, "/spec/template/spec")
    elif subject.kind == JOBSET:
        yield from _jobset(subject.spec, "/spec")
    for job in batch_jobs(subject):
        yield from _limits(job)
        yield from _failure_rules(job)


def _jobset(jobset: Mapping[str, Data], above: str) -> Iterator[Hit]:
    jobs = mappings(jobset.get("replicatedJobs"))
    names = [text(job.get("name")) for job in jobs]
    in_order = dig(jobset, "startupPolicy", "startupPolicyOrder") == "InOrder"
    for index, job in enumerate(jobs):
        for dependency in mappings(job.get("dependsOn")):
            pointer = f"{above}/replicatedJobs/{index}/dependsOn"
            name = dependency.get("name")
            if name not in names[:index]:
                yield Hit(pointer, f"{names[index]!r} depends on {name!r}, no job before it")
            if in_order:
                yield Hit(pointer, "dependsOn and startupPolicy InOrder exclude each other")
    yield from _targets(jobset, names, above)
    coordinator = dig(jobset, "coordinator", "replicatedJob")
    if coordinator is not None and coordinator not in names:
        yield Hit(f"{above}/coordinator", f"the coordinator {coordinator!r} is not a job here")


def _targets(jobset: Mapping[str, Data], names: list[str], above: str) -> Iterator[Hit]:
    rules = mappings(dig(jobset, "failurePolicy", "rules"))
    holders = [("successPolicy", mapping(jobset.get("successPolicy")))]
    holders += [(f"failurePolicy/rules/{index}", rule) for index, rule in enumerate(rules)]
    for path, holder in holders:
        for name in sequence(holder.get("targetReplicatedJobs")):
            if name not in names:
                yield Hit(f"{above}/{path}", f"the target {name!r} is not a job here")
        for reason in sequence(holder.get("onJobFailureReasons")):
            if text(reason) not in _REASONS:
                yield Hit(f"{above}/{path}", f"{reason!r} is not a reason for which a Job fails")


def _limits(job: BatchJob) -> Iterator[Hit]:
    per_index = job.spec.get("backoffLimitPerIndex") is not None
    for field in ("backoffLimitPerIndex", "successPolicy"):
        if job.spec.get(field) is not None and job.spec.get("completionMode") == "NonIndexed":
            yield Hit(f"{job.pointer}/{field}", f"{field} needs completionMode Indexed")
    if job.spec.get("maxFailedIndexes") is not None and not per_index:
        yield Hit(f"{job.pointer}/maxFailedIndexes", "maxFailedIndexes needs backoffLimitPerIndex")


def _failure_rules(job: BatchJob) -> Iterator[Hit]:
    rules = mappings(dig(job.spec, "podFailurePolicy", "rules"))
    pointer = f"{job.pointer}/podFailurePolicy/rules"
    if len(rules) > 20:
        yield Hit(pointer, f"there are {len(rules)} rules, 20 are the most")
    for index, rule in enumerate(rules):
        where = f"{pointer}/{index}"
        if bool(rule.get("onExitCodes")) == bool(rule.get("onPodConditions")):
            yield Hit(where, "a rule has either onExitCodes or onPodConditions")
        if rule.get("action") == "FailIndex" and job.spec.get("backoffLimitPerIndex") is None:
            yield Hit(where, "FailIndex needs backoffLimitPerIndex")
        codes = sequence(dig(rule, "onExitCodes", "values"))
        numbers = [code for code in codes if integer(code) is not None]
        if numbers != sorted(set(numbers)):
            yield Hit(where, "exit codes are not sorted, or not unique")
        if dig(rule, "onExitCodes", "operator") == "In" and 0 in numbers:
            yield Hit(where, "exit code 0 is not a failure")


def _depends(first: str, second: str) -> str:
    return f"kind: JobSet\nspec: {{replicatedJobs: [{{name: a{first}}}, {{name: b{second}}}]}}"


J08 = Rule(
    id="TW308",
    name="conflicting-job-policies",
    severity=Severity.ERROR,
    summary="Policies of JobSets and Jobs name what exists and do not exclude each other.",
    effect="The API server or JobSet's webhook refuses the object.",
    remedy="Name jobs that are there, dependencies before what depends on them, and fields that "
    "go together.",
    kinds=EVERYWHERE,
    source=_WEBHOOK,
    run=_j08,
    passing=Sample(_depends("", ", dependsOn: [{name: a, status: Ready}]")),
    failing=Sample(_depends(", dependsOn: [{name: b, status: Ready}]", "")),
)
RULES = (J07, J08)
