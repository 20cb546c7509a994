"""The pods of Indexed Jobs and of the JobSets made of them, which Trainer v2 builds on in turn.

Facts: kubernetes pkg/controller/job/indexed_job_utils.go; kubernetes-sigs/jobset v0.12.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trainwright.groupkind import PODGROUP_OF_PLUGINS, PODGROUP_OF_VOLCANO
from trainwright.kinds import labels
from trainwright.model import Data, Manifest
from trainwright.pods import build
from trainwright.pods.pod import Deadline, EnvVar, Gang, Pod, Restart, Workload

_INDEX = f"{labels.DOMAIN}job-completion-index"
_BACKOFF_LIMIT = 6  # the API server's default


def job_pods(
    name: str, spec: Mapping[str, Data], *, role: str, restart: Restart, subdomain: str = ""
) -> tuple[Pod, ...]:
    """A Job's pods, each by the name without the random letters that end it."""
    completions = spec.get("completions") or spec.get("parallelism") or 1
    indexed = spec.get("completionMode") == "Indexed"
    pod_spec = spec["template"]["spec"]
    domain = subdomain or pod_spec.get("subdomain", "")
    container = build.main_container(pod_spec)
    return tuple(
        replace(
            build.pod(
                spec["template"],
                container,
                name=f"{name}-{index}",
                role=role,
                index=index,
                restart=restart,
                fields=_fields(index) if indexed else {},
                injected=_completion_index(container, index) if indexed else (),
            ),
            hostname=f"{name}-{index}.{domain}" if domain else f"{name}-{index}",
            controller_labels={
                **dict.fromkeys(labels.JOB_NAMES, name),
                **({_INDEX: str(index)} if indexed else {}),
            },
        )
        for index in range(completions)
    )


def _fields(index: int) -> dict[str, str]:
    return {f"metadata.{where}['{_INDEX}']": str(index) for where in ("annotations", "labels")}


def _completion_index(container: Mapping[str, Data], index: int) -> tuple[EnvVar, ...]:
    """Appended unless the container has an entry of that name, which then stays as it is."""
    own = {entry["name"] for entry in container.get("env") or ()}
    return () if "JOB_COMPLETION_INDEX" in own else (EnvVar("JOB_COMPLETION_INDEX", str(index)),)


def job_restart(spec: Mapping[str, Data]) -> Restart:
    """A Job starts single pods again, unless its failure policy calls the exit code final."""
    return Restart(
        limit=spec.get("backoffLimit", _BACKOFF_LIMIT), permanent=frozenset(_final_codes(spec))
    )


def _final_codes(spec: Mapping[str, Data]) -> Iterator[int]:
    """Of the rules that speak of exit codes the first one that matches decides."""
    undecided = set(range(1, 256))
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        if "onExitCodes" not in rule:
            continue
        values = set(rule["onExitCodes"]["values"])
        inside = rule["onExitCodes"]["operator"] == "In"
        matching = undecided & values if inside else undecided - values
        if rule["action"] == "FailJob":
            yield from sorted(matching)
        undecided -= matching


def replicated_workload(name: str, spec: Mapping[str, Data]) -> Workload:
    """A JobSet's pods: those of each of its Jobs, in the order of the JobSet."""
    subdomain = (spec.get("network") or {}).get("subdomain") or name
    groups = {
        group["name"]: tuple(_group(name, spec, group, subdomain))
        for group in spec["replicatedJobs"]
    }
    policy = spec.get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or list(groups)
    return Workload(
        pods=tuple(pod for pods in groups.values() for pod in pods),
        deciding=tuple(pod.name for target in targets for pod in groups[target]),
        needs="any" if policy.get("operator") == "Any" else "all",
        deadline=_attempt(spec),
        suspended=spec.get("suspend", False),
    )


def _attempt(spec: Mapping[str, Data]) -> Deadline | None:
    """The JobSet makes its Jobs anew, and with them their deadlines."""
    found = [
        build.deadline(group["template"]["spec"], attempt=True) for group in spec["replicatedJobs"]
    ]
    ends = [deadline for deadline in found if deadline is not None]
    return min(ends, key=lambda deadline: deadline.seconds, default=None)


GROUP_ANNOTATION = "scheduling.k8s.io/group-name"  # annotation of Volcano
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"  # label of scheduler-plugins


def pod_group(pods: tuple[Pod, ...], together: Sequence[Manifest]) -> Gang | None:
    """The PodGroup that the pods say they belong to, if it is among the manifests."""
    first = pods[0]
    named = {
        PODGROUP_OF_VOLCANO: first.annotations.get(GROUP_ANNOTATION),
        PODGROUP_OF_PLUGINS: first.labels.get(POD_GROUP_LABEL),
    }
    for other in together:
        if other.name and other.name == named.get(other.group_kind):
            spec = other.body["spec"]
            return Gang(spec["minMember"], spec.get("queue", ""))
    return None


def _group(
    name: str, spec: Mapping[str, Data], group: Mapping[str, Data], subdomain: str
) -> Iterator[Pod]:
    # The webhook makes every Job of a JobSet an Indexed one.
    job = {"completionMode": "Indexed", **group["template"]["spec"]}
    restart = _gang(spec, job_restart(job))
    for replica in range(group.get("replicas", 1)):
        pods = job_pods(
            f"{name}-{group['name']}-{replica}",
            job,
            role=group["name"],
            restart=restart,
            subdomain=subdomain,
        )
        given = {
            labels.SET_NAME: name,
            f"{labels.SET_DOMAIN}replicatedjob-name": group["name"],
            f"{labels.SET_DOMAIN}replicatedjob-replicas": str(group.get("replicas", 1)),
            f"{labels.SET_DOMAIN}job-index": str(replica),
        }
        for pod in pods:
            yield replace(pod, controller_labels={**pod.controller_labels, **given})


def _gang(spec: Mapping[str, Data], job: Restart) -> Restart:
    """Once a Job has failed for good, the JobSet starts all of them again."""
    if job.limit != 0:
        return job
    restarts = (spec.get("failurePolicy") or {}).get("maxRestarts", 0)
    final = _never_restarted(spec)
    return Restart(limit=restarts, gang=True, permanent=job.permanent if final else frozenset())


def _never_restarted(spec: Mapping[str, Data]) -> bool:
    """Whether a Job that its own pod failure policy ended fails the whole JobSet."""
    rules = (spec.get("failurePolicy") or {}).get("rules") or ()
    return any(
        rule.get("action") == "FailJobSet"
        and "PodFailurePolicy" in (rule.get("onJobFailureReasons") or ("PodFailurePolicy",))
        for rule in rules
    )
