"""Where replicated Jobs have their pod templates, in a JobSet and in a training runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, amount, dig, integer, mapping, mappings, text
from trainwright.datatypes.frozen import dataclass
from trainwright.objects.pods.template import PodTemplate, claim_names

BACKOFF_LIMIT = 6  # the default of batch/v1


def completions(job: Mapping[str, Data]) -> int:
    """Return how many pods a Job has by its specification."""
    return integer(job.get("completions")) or integer(job.get("parallelism")) or 1


@dataclass(frozen=True)
class ReplicatedJob:
    """A Job that a JobSet makes `replicas` of; its template's replicas are the pods of all.

    `group` is its entry in the JobSet, `spec` the specification of the Job.
    """

    pointer: str  # of the specification
    group: Mapping[str, Data]
    template: PodTemplate

    @property
    def name(self) -> str:
        return self.template.role

    @property
    def replicas(self) -> int:
        return amount(self.group.get("replicas"))

    @property
    def spec(self) -> Mapping[str, Data]:
        return mapping(dig(self.group, "template", "spec"))


def replicated_jobs(job_set: Mapping[str, Data], pointer: str) -> Iterator[ReplicatedJob]:
    """Yield the Jobs of a JobSet's specification, which a TrainingRuntime contains too."""
    restarts = amount(dig(job_set, "failurePolicy", "maxRestarts"), 0)
    policies = mappings(job_set.get("volumeClaimPolicies"))
    claims = [claim for policy in policies for claim in mappings(policy.get("templates"))]
    claimed = claim_names(claims)
    for index, group in enumerate(mappings(job_set.get("replicatedJobs"))):
        at = f"{pointer}/replicatedJobs/{index}/template/spec"
        job = mapping(dig(group, "template", "spec"))
        template = PodTemplate(
            f"{at}/template",
            mapping(job.get("template")),
            text(group.get("name")),
            amount(group.get("replicas")) * amount(job.get("parallelism")),
            retried=restarts > 0 or amount(job.get("backoffLimit"), BACKOFF_LIMIT) != 0,
            claimed=claimed,
        )
        yield ReplicatedJob(at, group, template)


def replicated(job_set: Mapping[str, Data], pointer: str) -> Iterator[PodTemplate]:
    """Return the pod templates of these Jobs."""
    return (job.template for job in replicated_jobs(job_set, pointer))
