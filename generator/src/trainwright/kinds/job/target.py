"""Kubernetes' own Indexed Job with a headless Service: any cluster, nothing installed.

Facts: https://kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication/ and
https://kubernetes.io/docs/tasks/job/pod-failure-policy/
"""

from __future__ import annotations

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.groupkind import SERVICE
from trainwright.datatypes.job import Job
from trainwright.kinds import facts, indexed, labels, queueing
from trainwright.kinds.job import KIND
from trainwright.kinds.target import Deviation, Target
from trainwright.objects.pods import command
from trainwright.rule_model.upstream import upstream


def _address(name: str) -> str:
    return f"{name}-0.{name}"  # <pod's host name>.<headless service>


def _values(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    address = _address(name)
    return {
        "nodes": job.nodes,
        "command": indexed.command(job, address),
        **indexed.variables(job, address),
        "restartPolicy": command.restart_policy(job),
        # The limit counts failed pods, and when one is lost all others fail with it. There is no
        # limit per index, or the other pods would wait for one that is given up.
        "runPolicy": indexed.run_policy(job, environment, job.retries * job.nodes),
        **queueing.pod_group(job, environment, name),
    }


TARGET = Target(
    of=KIND,
    summary="Kubernetes' own Indexed Job with a headless Service: nothing to install.",
    template="job.yaml",
    container=indexed.ROLE,
    values=_values,
    longest_suffix=lambda job: f"-{job.nodes - 1}",
    unsupported=indexed.unsupported,
    resizing=upstream("kubernetes/elastic-indexed-jobs"),
    facts=(*facts.FLAVORED_PODS, facts.QUEUEING),
    companions=lambda environment: (SERVICE, *queueing.pod_groups(environment)),
    meeting=lambda job, _environment, name: indexed.meeting(job, _address(name)),
    numbered="-",
    controller_labels=labels.OF_JOBS,
    deviations=(
        queueing.PLACED,
        Deviation(
            about="Retries",
            text="A lost pod is restarted by itself, and the others as they fail with it. Each "
            "of them is counted, so the limit is retries times nodes; an eviction costs none.",
            fields=("/pods/*/restart/limit",),
            when=lambda job, _: job.retries > 0 and job.nodes > 1,
        ),
    ),
)
