"""Where replicated Jobs have their pod templates, in a JobSet and in a training runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.model import Data
from trainwright.pods.template import PodTemplate, claim_names
from trainwright.tolerant import amount, dig, mapping, mappings, text

BACKOFF_LIMIT = 6  # the default of batch/v1


def replicated(job_set: Mapping[str, Data], pointer: str) -> Iterator[PodTemplate]:
    """The pods of a JobSet's specification, which a TrainingRuntime contains too."""
    restarts = amount(dig(job_set, "failurePolicy", "maxRestarts"), 0)
    policies = mappings(job_set.get("volumeClaimPolicies"))
    claims = [claim for policy in policies for claim in mappings(policy.get("templates"))]
    claimed = claim_names(claims)
    for index, group in enumerate(mappings(job_set.get("replicatedJobs"))):
        job = mapping(dig(group, "template", "spec"))
        yield PodTemplate(
            f"{pointer}/replicatedJobs/{index}/template/spec/template",
            mapping(job.get("template")),
            text(group.get("name")),
            amount(group.get("replicas")) * amount(job.get("parallelism")),
            retried=restarts > 0 or amount(job.get("backoffLimit"), BACKOFF_LIMIT) != 0,
            claimed=claimed,
        )
