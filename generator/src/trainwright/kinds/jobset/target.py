"""JobSet: gangs that restart as one, with no training operator in the cluster.

Facts: kubernetes-sigs/jobset v0.12.0, pkg/webhooks/jobset_webhook.go and api/jobset/v1alpha2.
"""

from __future__ import annotations

from trainwright.kinds import facts, indexed, labels, queueing
from trainwright.kinds.jobset import KIND
from trainwright.kinds.target import Deviation, Target
from trainwright.model import Data, Environment, Job
from trainwright.pods import command


def _values(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    address = indexed.first_pod(name)
    return {
        "nodes": job.nodes,
        "command": indexed.command(job, address),
        **indexed.variables(job, address),
        "restartPolicy": command.restart_policy(job),
        "runPolicy": indexed.run_policy(job, environment, job.retries),
        **queueing.pod_group(job, environment, name),
    }


def longest_suffix(job: Job) -> str:
    """The webhook counts the five random characters of a pod's name too."""
    return f"-{indexed.ROLE}-0-{job.nodes - 1}-abcde"


TARGET = Target(
    of=KIND,
    summary="Gangs of pods that restart together, without a training operator.",
    template="jobset.yaml",
    container=indexed.ROLE,
    values=_values,
    longest_suffix=longest_suffix,
    unsupported=indexed.unsupported,
    facts=(*facts.FLAVORED_PODS, facts.QUEUEING),
    immutable_template=True,
    companions=queueing.pod_groups,
    meeting=lambda _job, _environment, name: indexed.meeting(indexed.first_pod(name)),
    controller_labels=labels.OF_SETS,
    deviations=(
        queueing.PLACED,
        indexed.RETRIES,
        Deviation(
            about="Longest duration",
            text=indexed.DEADLINE,
            fields=("/deadline_of",),
            when=lambda job, _: job.max_duration is not None,
        ),
    ),
)
