"""Whether two effective specs come to the same run, in whatever words they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from trainwright import values
from trainwright.frozen import dataclass
from trainwright.model import Data, Environment, Job
from trainwright.pods.flags import by_value
from trainwright.runs import identity
from trainwright.specs import resolve, schema
from trainwright.specs.merge import Layered
from trainwright.values.normal import normal

_NAME = "run"  # of both, whatever they would be called


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where both specs are rendered: all but what differs between them."""

    spec: Layered  # for what a file says about itself
    environment: Environment
    source: str

    def same(self, one: Mapping[str, Data], other: Mapping[str, Data]) -> bool:
        """Whether two effective specs come to the same run: by what they mean, in which 1h is 60m,
        or else by what is rendered of them. What is no job is only the same as data.
        """
        about = {key: self.spec.data[key] for key in ("apiVersion", "kind", "name")}
        specs = [replace(self.spec, data={**data, **about}) for data in (one, other)]
        if not all(schema.effective_job().accepts(spec.data) for spec in specs):
            return False
        jobs = [resolve.typed(spec, self.environment, self.source) for spec in specs]
        first, second = (_meaning(job, self.environment) for job in jobs)
        if first == second:
            return True
        pairs = zip(jobs, specs, strict=True)
        if any(True for job, spec in pairs for _ in resolve.problems(job, spec, self.environment)):
            return False  # of which nothing can be rendered
        one_renders, other_renders = (_rendered(job, self.environment) for job in jobs)
        return one_renders == other_renders


def _meaning(job: Job, environment: Environment) -> dict[str, Data]:
    """What a job means to a run that there is: a number in another spelling is the same."""
    found = identity.meaning(job, environment)
    return found | ({"flags": by_value(found["flags"])} if "flags" in found else {})


def _rendered(job: Job, environment: Environment) -> dict[str, Data]:
    """What is rendered of a job but for the run's name, with numbers and amounts in one spelling.

    The chart lays these values out, and adds nothing to them. Of files the digest is known.
    """
    placeless = replace(job, state="active", max_duration=None, files=())
    found = values.build(placeless, environment, _NAME)
    words, own = found.get("args", []), len(job.entrypoint.args)
    amounts = {key: _in_numbers(found[key]) for key in _WITH_AMOUNTS & found.keys()}
    return {
        **found,
        **amounts,
        "args": [*words[:own], *by_value(words[own:])],
        "files of the job": {file.name: (file.digest, file.mode) for file in normal(job).files},
    }


_WITH_AMOUNTS = frozenset({"resources", "shm", "claims", "initContainers", "volumes"})


def _in_numbers(value: Data) -> Data:
    """Resources, and the sizes of volumes, as numbers."""
    if isinstance(value, Mapping):
        return {key: _AMOUNTS.get(key, _in_numbers)(item) for key, item in value.items()}
    return [_in_numbers(item) for item in value] if isinstance(value, list) else value


def _each(amounts: Data) -> Data:
    found: Data = {key: identity.amount(item) for key, item in amounts.items()}
    return found


_AMOUNTS: Mapping[str, Callable[[Data], Data]] = {
    "requests": _each,
    "limits": _each,
    "size": identity.amount,
    "sizeLimit": identity.amount,
}
