"""Toys: pods in a row, for tests."""

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Job
from trainwright.kinds import facts, indexed
from trainwright.kinds.target import Target
from trainwright.kinds.toy import KIND


def _values(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    address = f"{name}-0"
    return {
        "nodes": job.nodes,
        "command": indexed.command(job, address),
        **indexed.variables(job, address),
    }


TARGET = Target(
    of=KIND,
    summary="Pods in a row, for tests.",
    template="toy.yaml",
    values=_values,
    longest_suffix=lambda job: f"-{job.nodes - 1}",
    unsupported=indexed.unsupported,
    facts=facts.PODS,
)
