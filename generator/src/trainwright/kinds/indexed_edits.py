"""Edits of replicated Jobs, the same whether a JobSet or a training runtime holds them."""

from __future__ import annotations

from trainwright.rule_model.defaults import Default, defaults

# Fields of JobSets and runtimes that the CRD compares if they are there before and after an edit.
FIXED = ("network", "successPolicy", "failurePolicy", "startupPolicy", "volumeClaimPolicies")


def of_definition(above: str) -> tuple[Default, ...]:
    """Return the defaults that a JobSet's CRD gives its fields, which runtimes have too."""
    jobs = f"{above}/replicatedJobs/*"
    return defaults(
        {
            f"{above}/failurePolicy/restartStrategy": "Recreate",
            f"{jobs}/replicas": 1,
            f"{jobs}/groupName": "default",
            f"{jobs}/template/spec/template/spec/containers/*/ports/*/protocol": "TCP",
        }
    )
