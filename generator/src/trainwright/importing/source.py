"""The workload that is imported, with the objects it consists of and where they were written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Pool
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import holders, without
from trainwright.documents.validation import schema
from trainwright.importing import companions
from trainwright.importing.equivalence import form
from trainwright.importing.equivalence.form import NormalForm
from trainwright.kinds import operators
from trainwright.kinds.reading import ImportingError, NotImported, Reason, SourceObject
from trainwright.objects.pods.pod import ALL, Pod, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One workload to import.

    `kind` is what people call it, `target` the target of the same kind. `parts` are the object
    itself and all that its operator reads with it. `left` is what could not be imported already
    while reading; `assumed` are objects of the cluster that were not given.
    """

    kind: str
    name: str
    target: str
    parts: tuple[SourceObject, ...]
    left: tuple[NotImported, ...] = ()
    assumed: tuple[Manifest, ...] = ()
    container: str = ""  # the name that its operator looks for
    services: tuple[str, ...] = ()  # that lead to its pods
    reasons: tuple[Reason, ...] = ()  # why a field is left
    is_made: bool = False  # its objects are generated: people wrote only what has another name
    unsaid: str = ""  # why no spec can say it
    pool: str = ""  # of nodes, as the input names it: used if the environment has such a pool
    fills: Pool | None = None  # whose nodes have "all" the accelerators that it takes

    @property
    def title(self) -> str:
        return f"{self.kind}/{self.name}"

    @property
    def place(self) -> Location:
        return self.parts[0].place("")

    def manifests(self) -> tuple[Manifest, ...]:
        return (*self.parts, *self.assumed)

    def run(self, *, sampled: bool = False) -> NormalForm:
        """Return its normal form, or that of a sample of its pods.

        Raise ImportingError if it has none.
        """
        title = f"{self.place}: {self.title}"
        _refuse_millions(self.manifests(), title)
        with naming(title):
            return read(self.manifests(), self.made_of(self.manifests()), sampled=sampled)

    def check(self, kubernetes: str) -> None:
        """Raise ImportingError for a value that violates the schema of its object's kind.

        Fields that are missing or unknown are no reason to refuse what has run somewhere.
        """
        for part in self.parts:
            if part.beside or not part.identity[0]:  # a compose file
                continue
            kind = part.kind.removeprefix("Cluster")  # a runtime of both is the same
            # The API server takes nulls for absent.
            body = {**without(part.body, lambda _, value: value is None), "kind": kind}
            for violation in schema.kind(kind, kubernetes).explain(body):
                if not violation.key and not violation.missing:
                    place = part.place(violation.pointer)
                    raise ImportingError(f"{place}: {violation.message}. {violation.remedy}")

    def workload(self) -> Workload:
        """Return the pods that the operator makes of it.

        Raise ImportingError for millions of them.
        """
        manifests = self.manifests()
        _refuse_millions(manifests, self.title)
        return self.made_of(manifests)

    def made_of(self, manifests: tuple[Manifest, ...]) -> Workload:
        """Return the pods that the operator makes of manifests, with the devices of their node
        where they take all of them.
        """
        workload = operators.workload(manifests)
        if self.fills is None:
            return workload
        return replace(workload, pods=workload.pods.mapped(self._counted))

    def _counted(self, pod: Pod) -> Pod:
        """Return a pod with the number of accelerators of a node in place of all."""
        assert self.fills is not None
        number = {self.fills.resource: str(self.fills.gpus_per_node or ALL)}
        counted = {
            kind: {name: number.get(name, n) if n == ALL else n for name, n in amounts.items()}
            for kind, amounts in pod.resources.items()
        }
        return replace(pod, resources=counted)

    def serving(self) -> tuple[Pod, ...]:
        """Return the first pod of each role."""
        workload = self.workload()
        return tuple(workload.of_role(role)[0] for role in workload.serving)

    def pod(self) -> Pod:
        """Return the pod that a spec describes, which is a group of equal pods."""
        return _described(self.workload())


def _described(workload: Workload) -> Pod:
    """Return the pod of rank 0 with what other roles request beyond it.

    For each resource, that is the largest amount; labels and scheduling fields that rank 0 lacks
    are those of the first role that has them. Otherwise a small master beside larger workers would
    make all of them as small as itself.
    """
    first = workload.training[0]
    of_roles = {pod.role: pod for pod in reversed(workload.training.first_of_each)}
    if len(of_roles) == 1:
        return first
    pods = (first, *(pod for role, pod in of_roles.items() if role != first.role))
    return replace(
        first,
        resources=_largest([pod.resources for pod in pods]),
        labels=_first_of([pod.labels for pod in pods]),
        annotations=_first_of([pod.annotations for pod in pods]),
        placement=_first_of([pod.placement for pod in pods]),
    )


def _first_of(mappings: Sequence[Mapping[str, Data]]) -> dict[str, Data]:
    """Merge mappings: each key has its value from the first mapping that has one."""
    merged: dict[str, Data] = {}
    for mapping in mappings:
        merged = {**{key: value for key, value in mapping.items() if value}, **merged}
    return merged


def _largest(
    resources: Sequence[Mapping[str, Mapping[str, str]]],
) -> dict[str, dict[str, str]]:
    """Return the largest requests and limits of all."""
    largest: dict[str, dict[str, str]] = {}
    for amounts_by_kind in resources:
        for kind, amounts in amounts_by_kind.items():
            maxima = largest.setdefault(kind, {})
            for name, amount in amounts.items():
                maxima[name] = max(maxima.get(name, amount), amount, key=_amount)
    return largest


def _amount(text: str) -> float:
    """Return the number of a quantity; of `all` devices of a machine, infinity."""
    amount = quantity.read(text)
    return float("inf") if amount is None else float(amount)


@contextmanager
def naming(title: str) -> Iterator[None]:
    """Put the workload's name in front of errors that are raised inside."""
    try:
        yield
    except TrainwrightError as error:
        raise ImportingError(f"{title}: {error}") from error


_COUNTS = frozenset(
    "replicas completions parallelism numNodes minSize maxSize minReplicas maxReplicas".split()
)
_MOST_PODS = 10_000


def _refuse_millions(manifests: tuple[Manifest, ...], title: str) -> None:
    """Raise ImportingError for more pods than any run has: a typing error is not worth building."""
    for holder in (holder for manifest in manifests for _, holder in holders(manifest.body)):
        for key, value in holder.items():
            if key in _COUNTS and isinstance(value, int) and value > _MOST_PODS:
                raise ImportingError(f"{title}: {key} is {value}: that many pods are a mistake")


def read(manifests: tuple[Manifest, ...], workload: Workload, *, sampled: bool) -> NormalForm:
    """Return the normal form of a workload and its objects, which may be malformed in any way."""
    run = form.normal_form(workload, manifests, sampled=sampled)
    return companions.in_spec_terms(run, workload, manifests)
