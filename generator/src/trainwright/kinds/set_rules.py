"""What JobSet's webhook refuses in a set of Jobs: its policies, names and claims."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from trainwright.datatypes.data import Data, amount, dig, mapping, mappings, sequence, text
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.pointer import Pointer
from trainwright.objects import forms
from trainwright.objects.forms import Form
from trainwright.rule_model.rule import Rule, error
from trainwright.rule_model.subject import Hit, Subject

Kinds = tuple[GroupKind, ...]
Sets = Callable[[Subject], Iterable[tuple[Mapping[str, Data], str]]]  # and pointers to them

_REASONS = frozenset(
    "BackoffLimitExceeded DeadlineExceeded FailedIndexes MaxFailedIndexesExceeded"
    " PodFailurePolicy".split()
)


def _set(job_set: Mapping[str, Data], above: str, owner: str) -> Iterator[Hit]:
    """Yield what JobSet refuses of a set of jobs: its sizes, and the order in which they start."""
    jobs = mappings(job_set.get("replicatedJobs"))
    names = [text(job.get("name")) for job in jobs]
    in_order = dig(job_set, "startupPolicy", "startupPolicyOrder") == "InOrder"
    if names and jobs[0].get("dependsOn") == []:
        yield Hit(
            f"{above}/replicatedJobs/0/dependsOn", f"{names[0]!r} is first, and depends on none"
        )
    for index, job in enumerate(jobs):
        pods = amount(job.get("replicas")) * amount(dig(job, "template", "spec", "parallelism"))
        if pods > _MOST:
            message = f"{names[index]!r} has {pods} pods, and can have {_MOST}"
            yield Hit(f"{above}/replicatedJobs/{index}", message)
        for dependency in mappings(job.get("dependsOn")):
            pointer = f"{above}/replicatedJobs/{index}/dependsOn"
            name = dependency.get("name")
            if name not in names[:index]:
                yield Hit(pointer, f"{names[index]!r} depends on {name!r}, no job before it")
            if in_order:
                yield Hit(pointer, "dependsOn and startupPolicy InOrder exclude each other")
    yield from _targets(job_set, names, above)
    yield from _coordinator(job_set, jobs, above, owner)
    yield from _forms(job_set, jobs, above)
    yield from _repeated(job_set, above)
    yield from _claims(job_set, jobs, above, owner)


_MOST = 2**31 - 1  # pods of a replicated job


def _repeated(job_set: Mapping[str, Data], above: str) -> Iterator[Hit]:
    """Yield names of rules or of volumes that occur twice, though they have to be unique."""
    rules = mappings(dig(job_set, "failurePolicy", "rules"))
    policies = enumerate(mappings(job_set.get("volumeClaimPolicies")))
    named = [
        (f"failurePolicy/rules/{i}", "rule", text(rule.get("name"))) for i, rule in enumerate(rules)
    ]
    named += [
        (
            f"volumeClaimPolicies/{i}/templates/{j}",
            "volume",
            text(dig(template, "metadata", "name")),
        )
        for i, policy in policies
        for j, template in enumerate(mappings(policy.get("templates")))
    ]
    seen: set[tuple[str, str]] = set()
    for path, what, name in named:
        if name and (what, name) in seen:
            yield Hit(f"{above}/{path}", f"the {what} {name!r} is there twice")
        seen.add((what, name))


def _coordinator(
    job_set: Mapping[str, Data], jobs: Sequence[Mapping[str, Data]], above: str, owner: str
) -> Iterator[Hit]:
    """Yield the problems of a JobSet's coordinator: it must be a pod of an Indexed Job of the set,
    with an address that fits into a label.
    """
    coordinator = mapping(job_set.get("coordinator"))
    name, pointer = coordinator.get("replicatedJob"), f"{above}/coordinator"
    job = next((candidate for candidate in jobs if candidate.get("name") == name), None)
    if name is not None and job is None:
        yield Hit(pointer, f"the coordinator {name!r} is not a job here")
    if name is None or job is None:
        return
    spec = mapping(dig(job, "template", "spec"))
    counts = {"jobIndex": amount(job.get("replicas")), "podIndex": amount(spec.get("completions"))}
    for field, number in counts.items():
        if not 0 <= amount(coordinator.get(field), 0) < number:
            message = f"{field} is {coordinator[field]}, and the last of {name!r} is {number - 1}"
            yield Hit(Pointer(pointer) / field, message)
    indexes = "-".join(str(amount(coordinator.get(field), 0)) for field in counts)
    endpoint = f"{owner}-{name}-{indexes}.{dig(job_set, 'network', 'subdomain') or owner}"
    if owner and len(endpoint) > _LABEL:
        message = f'"{endpoint}" has {len(endpoint)} characters, {len(endpoint) - _LABEL} over'
        yield Hit(pointer, f"{message} {_LABEL}: it is a label of each pod")
    if spec.get("completionMode") == "NonIndexed" or spec.get("completions") is None:
        yield Hit(pointer, f"the coordinator {name!r} needs completionMode Indexed and completions")


_LABEL = 63  # characters of a label's value, and of a name in DNS
_RULE_NAME = Form(
    "the name of a rule: letters, digits, and _ , : inside, a letter first",
    re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"),
    128,
)


def _forms(
    job_set: Mapping[str, Data], jobs: Sequence[Mapping[str, Data]], above: str
) -> Iterator[Hit]:
    """Yield a hit for each name that is not in the form that JobSet asks for."""
    rules = mappings(dig(job_set, "failurePolicy", "rules"))
    named = [(f"replicatedJobs/{i}/groupName", j, forms.LETTER_FIRST) for i, j in enumerate(jobs)]
    named += [("network/subdomain", mapping(job_set.get("network")), forms.LETTER_FIRST)]
    named += [(f"failurePolicy/rules/{i}/name", rule, _RULE_NAME) for i, rule in enumerate(rules)]
    named += [("managedBy", job_set, forms.DOMAIN_PATH)]
    for path, holder, form in named:
        value = text(holder.get(path.rpartition("/")[2]))
        if value and (problem := form.problem(value)):
            yield Hit(f"{above}/{path}", f'"{value}" {problem}')


def _claims(
    job_set: Mapping[str, Data], jobs: Sequence[Mapping[str, Data]], above: str, owner: str
) -> Iterator[Hit]:
    """Yield a problem for each claimed volume that is misnamed, unmounted or also in a pod."""
    pods = [mapping(dig(job, "template", "spec", "template", "spec")) for job in jobs]
    volumes = {text(entry.get("name")) for pod in pods for entry in mappings(pod.get("volumes"))}
    parts = ("containers", "initContainers")
    containers = [entry for pod in pods for part in parts for entry in mappings(pod.get(part))]
    mounted = {
        text(entry.get("name")) for c in containers for entry in mappings(c.get("volumeMounts"))
    }
    for index, policy in enumerate(mappings(job_set.get("volumeClaimPolicies"))):
        for place, template in enumerate(mappings(policy.get("templates"))):
            name = text(dig(template, "metadata", "name"))
            pointer = f"{above}/volumeClaimPolicies/{index}/templates/{place}"
            if problem := forms.LABEL.problem(name):
                yield Hit(pointer, f'the volume "{name}" {problem}')
            claim = f"{name}-{owner}"
            if owner and name and len(claim) > _LABEL:
                message = f'the claim "{claim}" has {len(claim)} characters'
                yield Hit(pointer, f"{message}, {len(claim) - _LABEL} over {_LABEL}")
            if name in volumes:
                yield Hit(pointer, f"pods have a volume {name!r} of their own")
            elif name not in mounted:
                yield Hit(pointer, f"no container mounts {name!r}")


def _targets(job_set: Mapping[str, Data], names: list[str], above: str) -> Iterator[Hit]:
    """Yield a hit for each policy that names a job or a reason that there is not."""
    rules = mappings(dig(job_set, "failurePolicy", "rules"))
    holders = [("successPolicy", mapping(job_set.get("successPolicy")))]
    holders += [(f"failurePolicy/rules/{index}", rule) for index, rule in enumerate(rules)]
    for path, holder in holders:
        for name in sequence(holder.get("targetReplicatedJobs")):
            if name not in names:
                yield Hit(f"{above}/{path}", f"the target {name!r} is not a job here")
        for reason in sequence(holder.get("onJobFailureReasons")):
            if text(reason) not in _REASONS:
                yield Hit(f"{above}/{path}", f"{reason!r} is not a reason for which a Job fails")


def policies_agree(kinds: Kinds, sets: Sets) -> Rule:
    """Return the part of TW308 for these kinds; `sets` finds the JobSets of an object."""

    @error("TW308", kinds=kinds)
    def conflicting_job_policies(subject: Subject) -> Iterator[Hit]:
        for job_set, above in sets(subject):
            yield from _set(job_set, above, subject.manifest.name if above == "/spec" else "")

    return conflicting_job_policies
