"""The workload that is imported, with the objects it consists of and where they were written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import holders, without
from trainwright.documents.validation import schema
from trainwright.importing import companions
from trainwright.importing.described_pod import described_pod
from trainwright.importing.equivalence import form
from trainwright.importing.equivalence.form import NormalForm
from trainwright.kinds import operators
from trainwright.kinds.reading import ImportingError, NotImported, Reason, SourceObject
from trainwright.objects.pods.pod import Pod, Workload


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
            return read(self.manifests(), operators.workload(self.manifests()), sampled=sampled)

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
        return operators.workload(manifests)

    def serving(self) -> tuple[Pod, ...]:
        """Return the first pod of each role."""
        workload = self.workload()
        return tuple(workload.of_role(role)[0] for role in workload.serving)

    def pod(self) -> Pod:
        """Return the pod that a spec describes: see `described_pod`."""
        return described_pod(self.workload())


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
