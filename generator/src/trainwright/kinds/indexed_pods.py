"""The pods of Indexed Jobs and of the JobSets made of them, which Trainer v2 builds on in turn.

Facts: kubernetes pkg/controller/job/indexed_job_utils.go; kubernetes-sigs/jobset v0.12.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trainwright.datatypes.data import Data, amount, dig, mapping, mappings, sequence, text
from trainwright.datatypes.groupkind import PODGROUP_OF_PLUGINS, PODGROUP_OF_VOLCANO
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import labels
from trainwright.kinds.indexed_pod_templates import (
    BACKOFF_LIMIT,
    ReplicatedJob,
    completions,
    replicated_jobs,
)
from trainwright.objects.pods import build
from trainwright.objects.pods.groups import PodGroup, Pods
from trainwright.objects.pods.pod import Awaited, Deadline, EnvVar, Gang, Pod, Restart, Workload
from trainwright.objects.pods.template import Container, PodTemplate

_INDEX = f"{labels.DOMAIN}job-completion-index"


def job_pods(
    name: str,
    spec: Mapping[str, Data],
    template: PodTemplate,
    *,
    role: str,
    restart: Restart,
    subdomain: str = "",
    given: Mapping[str, str] | None = None,
) -> PodGroup:
    """Return a Job's pods, named without the random letters at the end.

    `given` are labels that the owner of the Job adds.
    """
    indexed = spec.get("completionMode") == "Indexed"
    domain = subdomain or text(template.spec.get("subdomain"))
    container = build.main_container(template)

    first = build.pod(
        template, container, name=name, role=role, index=0, restart=restart, fields={}
    )

    has_fields = any(entry.origin for entry in first.declared)

    def pod(index: int) -> Pod:
        """Return the pod of an index: all share one template, and little depends on it."""
        declared, before = first.declared, first.before
        if indexed:
            if has_fields:
                declared = build.variables_with(declared, container, _fields(index))
            declared = (*declared, *_completion_index(container, index))
            before = tuple(_with_index(entry, index) for entry in before)
        return replace(
            first,
            name=f"{name}-{index}",
            index=index,
            declared=declared,
            before=before,
            hostname=f"{name}-{index}.{domain}" if domain else f"{name}-{index}",
            controller_labels={
                **dict.fromkeys(labels.JOB_NAMES, name),
                **({_INDEX: str(index)} if indexed else {}),
                **(given or {}),
            },
        )

    names = tuple(f"{name}-{index}" for index in range(completions(spec)))
    hosts = tuple(f"{entry}.{domain}" for entry in names) if domain else names
    return PodGroup(role, names, hosts, pod)


def _fields(index: int) -> dict[str, str]:
    return {f"metadata.{where}['{_INDEX}']": str(index) for where in ("annotations", "labels")}


def _completion_index(container: Container, index: int) -> tuple[EnvVar, ...]:
    """Return the variable of the index; none if the container sets one of that name itself."""
    own = "JOB_COMPLETION_INDEX" in container.variables
    return () if own else (EnvVar("JOB_COMPLETION_INDEX", str(index)),)


def _with_index(container: Container, index: int) -> Container:
    """Return an init container with the variable of the index, as the main container has it."""
    added = [
        {"name": variable.name, "value": variable.value}
        for variable in _completion_index(container, index)
    ]
    body = {**container.body, "env": [*container.env, *added]}
    return Container(container.pointer, body, container.init)


def job_restart(spec: Mapping[str, Data]) -> Restart:
    """Return how a Job restarts: pod by pod, unless its failure policy makes an exit code final."""
    limit = amount(spec.get("backoffLimit"), BACKOFF_LIMIT)
    in_pod = dig(spec, "template", "spec", "restartPolicy") == "OnFailure"
    return Restart(limit=limit, permanent=frozenset(_final_codes(spec)), in_pod=in_pod)


def _final_codes(spec: Mapping[str, Data]) -> Iterator[int]:
    """Yield the exit codes that fail the Job: the first rule that matches a code decides."""
    undecided = set(range(1, 256))
    for rule in mappings(dig(spec, "podFailurePolicy", "rules")):
        if "onExitCodes" not in rule:
            continue
        codes = mapping(rule["onExitCodes"])
        values = {code for code in sequence(codes.get("values")) if isinstance(code, int)}
        matching = undecided & values if codes.get("operator") == "In" else undecided - values
        if rule.get("action") == "FailJob":
            yield from sorted(matching)
        undecided -= matching


def replicated_workload(name: str, spec: Mapping[str, Data]) -> Workload:
    """Return a JobSet's pods: those of each of its Jobs, in the order of the JobSet."""
    subdomain = text(dig(spec, "network", "subdomain")) or name
    jobs = tuple(replicated_jobs(spec, "/spec"))
    groups = {job.name: Pods(_group(name, spec, job, subdomain)) for job in jobs}
    policy = mapping(spec.get("successPolicy"))
    named = [text(target) for target in sequence(policy.get("targetReplicatedJobs"))]
    targets = [target for target in named if target in groups] or [*groups]
    # "Any" means any of the Jobs; each of them needs all its pods.
    several = sum(job.replicas for job in jobs if job.name in targets) > 1
    return Workload(
        pods=Pods(group for pods in groups.values() for group in pods.groups),
        deciding=tuple(pod for target in targets for pod in groups[target].names),
        serving={name: _awaited(spec, name, targets) for name in groups if name not in targets},
        needs="any" if policy.get("operator") == "Any" and several else "all",
        deadline=_attempt(spec, jobs),
        suspended=spec.get("suspend") is True,
    )


def _awaited(spec: Mapping[str, Data], group: str, deciding: Sequence[str]) -> Awaited:
    """Return the state of `group`, if any, that all groups deciding success wait for."""
    waits = {
        text(job.get("name")): {
            text(other.get("name")): other.get("status") for other in mappings(job.get("dependsOn"))
        }
        for job in mappings(spec.get("replicatedJobs"))
    }
    if dig(spec, "startupPolicy", "startupPolicyOrder") == "InOrder":
        order = [*waits].index
        return "ready" if all(order(group) < order(name) for name in deciding) else ""
    first, *others = (_AWAITED.get(waits[name].get(group)) for name in deciding)
    return first if first and all(other == first for other in others) else ""


_AWAITED: Mapping[Data, Awaited] = {"Ready": "ready", "Complete": "complete"}


def _attempt(spec: Mapping[str, Data], jobs: Sequence[ReplicatedJob]) -> Deadline | None:
    """Return the earliest deadline of a JobSet's Jobs.

    A restart makes the Jobs anew, and their deadlines with them, unless it restarts in place.
    """
    anew = not _in_place(spec)
    deadlines = [build.deadline(job.spec, attempt=anew) for job in jobs]
    ends = [deadline for deadline in deadlines if deadline is not None]
    return min(ends, key=lambda deadline: deadline.seconds, default=None)


GROUP_ANNOTATION = "scheduling.k8s.io/group-name"  # annotation of Volcano
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"  # label of scheduler-plugins


def pod_group(pods: Pods, together: Sequence[Manifest]) -> Gang | None:
    """Return the PodGroup that the pods name, or None if it is not among the manifests."""
    named = {
        PODGROUP_OF_VOLCANO: [pod.annotations.get(GROUP_ANNOTATION) for pod in pods[:1]],
        PODGROUP_OF_PLUGINS: [pod.labels.get(POD_GROUP_LABEL) for pod in pods[:1]],
    }
    for other in together:
        if other.name and other.name in named.get(other.group_kind, ()):
            spec = other.spec
            return Gang(amount(spec.get("minMember")), text(spec.get("queue")))
    return None


def _group(
    name: str, spec: Mapping[str, Data], group: ReplicatedJob, subdomain: str
) -> Iterator[PodGroup]:
    # The webhook makes every Job of a JobSet an Indexed one.
    job = {"completionMode": "Indexed", **group.spec}
    restart = _restart_of_set(spec, job_restart(job))
    for replica in range(group.replicas):
        yield job_pods(
            f"{name}-{group.name}-{replica}",
            job,
            group.template,
            role=group.name,
            restart=restart,
            subdomain=subdomain,
            given={
                labels.SET_NAME: name,
                f"{labels.SET_DOMAIN}replicatedjob-name": group.name,
                f"{labels.SET_DOMAIN}replicatedjob-replicas": str(group.replicas),
                f"{labels.SET_DOMAIN}job-index": str(replica),
            },
        )


def _restart_of_set(spec: Mapping[str, Data], job: Restart) -> Restart:
    """Return how a JobSet restarts pods: as their Job, or all of them if a Job does not retry."""
    if job.limit != 0 and not _in_place(spec):
        return job
    restarts = amount(dig(spec, "failurePolicy", "maxRestarts"), 0)
    final = _never_restarted(spec)
    return Restart(limit=restarts, gang=True, permanent=job.permanent if final else frozenset())


def _in_place(spec: Mapping[str, Data]) -> bool:
    """Whether the pods stay when a JobSet restarts, and their Jobs with them."""
    return bool(dig(spec, "failurePolicy", "restartStrategy") == "InPlaceRestart")


_ANY_FAILURE = ("PodFailurePolicy",)  # included by a rule that gives no reasons


def _never_restarted(spec: Mapping[str, Data]) -> bool:
    """Whether a Job that its own pod failure policy ended fails the whole JobSet."""
    return any(
        rule.get("action") == "FailJobSet"
        and "PodFailurePolicy" in (sequence(rule.get("onJobFailureReasons")) or _ANY_FAILURE)
        for rule in mappings(dig(spec, "failurePolicy", "rules"))
    )
