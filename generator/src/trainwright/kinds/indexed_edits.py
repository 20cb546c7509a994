"""Edits of replicated Jobs that do not depend on what holds them, a JobSet or a runtime."""

from __future__ import annotations

from trainwright.rule_model.defaults import Default, defaults

# What the definition compares where it is there before and after, in a JobSet and in a runtime.
FIXED = ("network", "successPolicy", "failurePolicy", "startupPolicy", "volumeClaimPolicies")


def of_definition(above: str) -> tuple[Default, ...]:
    """What the definition of a JobSet gives its fields, which runtimes have too."""
    jobs = f"{above}/replicatedJobs/*"
    return defaults(
        {
            f"{above}/failurePolicy/restartStrategy": "Recreate",
            f"{jobs}/replicas": 1,
            f"{jobs}/groupName": "default",
            f"{jobs}/template/spec/template/spec/containers/*/ports/*/protocol": "TCP",
        }
    )
