"""Edits of replicated Jobs and of pods, the same in each kind that holds them."""

from __future__ import annotations

from trainwright.rule_model.defaults import Default, defaults

# Fields of JobSets and runtimes that the CRD compares if they are there before and after an edit.
FIXED = ("network", "successPolicy", "failurePolicy", "startupPolicy", "volumeClaimPolicies")


def placement(template: str) -> tuple[str, ...]:
    """Return what may be edited in the pods of a suspended object: what Kueue writes there."""
    return (
        *(f"{template}/metadata/{name}" for name in ("labels", "annotations")),
        *(f"{template}/spec/{name}" for name in ("nodeSelector", "tolerations", "schedulingGates")),
    )


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
