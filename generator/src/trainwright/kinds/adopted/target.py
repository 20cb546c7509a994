"""An object as it was adopted, which no job can become."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Job
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.adopted import KIND
from trainwright.kinds.target import Target, Unsupported


def _unsupported(job: Job, _: Environment) -> Iterator[Unsupported]:
    yield Unsupported(
        Pointer("/target"),
        f"the run of {job.environment}/{job.name} is an object as it was adopted, which no spec "
        "says: there is no next run of it",
        "Take back what was edited, to let it go on. Or write the next run: a target that is "
        "rendered, with its image, entrypoint and nodes.",
    )


TARGET = Target(
    of=KIND,
    summary="An object that was in the cluster before, as it is.",
    template="object.yaml",
    values=lambda _job, _environment, _name: {},
    longest_suffix=lambda _: "",
    unsupported=_unsupported,
    facts=(),
)
