"""Whether two effective specs result in the same run, however they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.datatypes.pointer import matching, with_value
from trainwright.datatypes.same import identical
from trainwright.documents.validation import schema
from trainwright.helm import values
from trainwright.helm.values.canonical import canonical
from trainwright.objects.pods.flags import spelled_as
from trainwright.runs import identity
from trainwright.runs.fields import operated, with_operation
from trainwright.specs import resolve
from trainwright.specs.contradictions import contradictions
from trainwright.specs.merge import Layered, without_nulls

# Object names that both specs are rendered under. They begin differently, so that a text which
# contains one of them literally cannot equal a reference to the name under both.
_NAMES = ("run", "other")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What both specs are rendered with: everything except what differs between them."""

    spec: Layered  # for what a file says about itself
    environment: Environment
    source: str

    def same(self, one: Mapping[str, Data], other: Mapping[str, Data]) -> bool:
        """Whether two effective specs result in the same run: by meaning, in which 1h equals 60m,
        or else by what they render. False if either is not a valid job.
        """
        about = {key: self.spec.data[key] for key in ("apiVersion", "kind", "name")}
        specs = [replace(self.spec, data={**data, **about}) for data in (one, other)]
        if not all(schema.effective_job().accepts(without_nulls(spec.data)) for spec in specs):
            return False
        one_job, other_job = (resolve.typed(spec, self.environment, self.source) for spec in specs)
        other_job = replace(other_job, flags=spelled_as(other_job.flags, one_job.flags))
        if all(self._mean_the_same(*pair) for pair in _operated_alike(one_job, other_job)):
            return True
        pairs = zip((one_job, other_job), specs, strict=True)
        if any(True for job, spec in pairs for _ in contradictions(job, spec, self.environment)):
            return False  # one of them cannot be rendered
        return all(self._rendered_alike(*pair) for pair in _operated_alike(one_job, other_job))

    def _mean_the_same(self, one: Job, other: Job) -> bool:
        first, second = (identity.meaning(job, self.environment) for job in (one, other))
        return identical(first, second)

    def _rendered_alike(self, one: Job, other: Job) -> bool:
        """Whether the same is rendered of two jobs under a name."""
        return all(
            identical(*(_rendered(job, self.environment, name) for job in (one, other)))
            for name in _NAMES
        )


def secured_alike(job: Job, one: Environment, other: Environment) -> bool:
    """Whether the pods of a job get the same security context in two environments."""
    contexts = [
        {**_DEFAULT_CONTEXT, **values.build(job, environment, _NAMES[0])["podSecurityContext"]}
        for environment in (one, other)
    ]
    return identical(*contexts)


_DEFAULT_CONTEXT = {"runAsNonRoot": True}  # the chart's


def _operated_alike(one: Job, other: Job) -> Iterator[tuple[Job, Job]]:
    """Yield both jobs with the first's operational fields, and (if different) the second's."""
    ways = [operated(one), operated(other)]
    for how in ways[:1] if ways[0] == ways[1] else ways:
        yield with_operation(one, how), with_operation(other, how)


def _rendered(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    """Return the chart values of a job under a given object name, with amounts in one notation.

    The chart only lays out these values, and adds nothing to them. Files are compared by digest.
    """
    placeless = replace(job, state="active", files=())
    rendered: Data = values.build(placeless, environment, name)
    for at, value in [found for path in _AMOUNTS for found in matching(rendered, path)]:
        if (amount := quantity.read(value)) is not None:  # also of 1, which is "1" to Kubernetes
            rendered = with_value(rendered, at, amount)
    files = {file.name: (file.digest, file.mode) for file in canonical(job).files}
    return {**rendered, "files of the job": files}


_RESOURCES = ("/resources/requests/*", "/resources/limits/*")
# Where the chart's values hold amounts. Elsewhere a text may mean anything to its reader, such as a
# size to a driver.
_OF_A_GROUP = (
    *_RESOURCES,
    *(f"/initContainers/*{path}" for path in _RESOURCES),
    "/shm/sizeLimit",
    "/claims/*/size",
    "/volumes/*/source/emptyDir/sizeLimit",
    *(f"/volumes/*/source/ephemeral/volumeClaimTemplate/spec{path}" for path in _RESOURCES),
)
_AMOUNTS = (*_OF_A_GROUP, *(f"/roles/*{path}" for path in _OF_A_GROUP))
