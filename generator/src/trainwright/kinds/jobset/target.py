"""JobSet: gangs that restart as one, with no training operator in the cluster.

Facts: kubernetes-sigs/jobset v0.12.0, pkg/webhooks/jobset_webhook.go and api/jobset/v1alpha2.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Job
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import facts, indexed, labels, queueing
from trainwright.kinds.jobset import KIND, in_place
from trainwright.kinds.target import Deviation, Serving, Target, Unsupported
from trainwright.objects.pods import command
from trainwright.rule_model.upstream import upstream


def _values(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    address = indexed.first_pod(name)
    return {
        "nodes": job.nodes,
        "command": indexed.command(job, address),
        **indexed.variables(job, address),
        "restartPolicy": command.restart_policy(job),
        "runPolicy": indexed.run_policy(job, environment, job.retries),
        "restartInPlace": in_place.exit_codes(job) if in_place.is_on(job, environment) else {},
        **queueing.pod_group(job, environment, name),
    }


def _unsupported(job: Job, environment: Environment) -> Iterator[Unsupported]:
    yield from indexed.unsupported(job, environment)
    yield from in_place.unsupported(job, environment)
    yield from indexed.unserved(job, environment, upstream("jobset/several-dependencies"))
    if job.roles and in_place.is_on(job, environment):
        yield Unsupported(
            Pointer("/roles"),
            "restarts in place hold every pod back until all have arrived, and those that train "
            "begin once the roles serve",
            "Set retries: 0, or remove targets.jobset.inPlaceRestart from environment.yaml.",
        )


TARGET = Target(
    of=KIND,
    summary="Gangs of pods that restart together, without a training operator.",
    template="jobset.yaml",
    container=indexed.ROLE,
    values=_values,
    longest_suffix=indexed.longest_suffix,
    resizing=upstream("jobset/elastic-jobset"),
    unsupported=_unsupported,
    facts=(*facts.FLAVORED_PODS, facts.QUEUEING, in_place.FACT),
    prepared=in_place.prepared,
    companions=queueing.pod_groups,
    succeeds=("TrainJob",),
    meeting=lambda job, _environment, name: indexed.meeting(job, indexed.first_pod(name)),
    numbered=indexed.NUMBERED_PODS,
    controller_labels=labels.OF_SETS,
    serving=Serving(
        indexed.serving, indexed.hosts, lambda _role, index: (f"/spec/replicatedJobs/{index}",)
    ),
    deviations=(
        queueing.PLACED,
        indexed.RETRIES,
        Deviation(
            about="Longest duration",
            text=indexed.DEADLINE,
            fields=("/deadline_of",),
            when=lambda job, place: job.max_duration is not None and not in_place.is_on(job, place),
        ),
        Deviation(
            about="Restarts in place",
            text="Where the environment has targets.jobset.inPlaceRestart, an agent in each pod "
            "starts all containers of the run again, and the pods stay on their nodes.",
            fields=(
                f"/pods/*/sidecars/{in_place.AGENT}/**",
                "/pods/*/rest/container/restartPolicy",
                "/pods/*/rest/container/restartPolicyRules/**",
                "/pods/*/service_account",
            ),
            when=in_place.is_on,
        ),
    ),
)
