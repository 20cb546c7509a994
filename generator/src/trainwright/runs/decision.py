"""What happens to a job: another run, the one that is recorded, or none."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import ValueChange
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.yamlio import Document
from trainwright.runs import meaning
from trainwright.runs.adopted import Adopted
from trainwright.runs.record import Record, State
from trainwright.specs import layers
from trainwright.specs.merge import BASE, Layered, stack

# The wiring has these at once, for every run: no run of a job has to begin for them.
_OF_WIRING = frozenset({Pointer("/gitops/engine"), Pointer("/gitops/prune")})


def awaiting(
    held: Iterable[ValueChange], before: Iterable[ValueChange] = ()
) -> Iterator[ValueChange]:
    """Yield the changes, of those that a run does not have, that the next run of its job takes, and
    that it did not lack `before` with the same values.
    """
    known = {(change.path, repr(change.after)) for change in before}
    for change in held:
        if change.path not in _OF_WIRING and (change.path, repr(change.after)) not in known:
            yield change


class Step(enum.StrEnum):
    """What rendering does for a job."""

    BEGIN = "begin"  # a new run, rendered from what the sources say now
    KEEP = "keep"  # the recorded run, byte for byte
    ADJUST = "adjust"  # the recorded run, with another state or other operational fields
    END = "end"  # cancelled or finished: nothing to apply
    ADOPT = "adopt"  # the object that is in the cluster already, as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A job's step, and the run that it leads to.

    `name` is the object's. `record` is the record before the step, `state` the run's state after
    it. `held` are the changes that the run does not have. `unasked` is set for a run that begins
    only because the ledger has lost the finished one, not by the job's own file. `replaces` is the
    object of the run that a new run replaces.
    """

    step: Step
    name: str
    state: State
    record: Record | None
    held: tuple[ValueChange, ...] = ()
    unasked: bool = False
    replaces: str = ""

    @property
    def finished(self) -> bool:
        """Whether the run is over, by the ledger."""
        return self.state == "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The current sources of a job: its own file's data, all layers merged, and its environment."""

    spec: Layered
    job: Job
    environment: Environment
    adopted: Adopted | None = None  # the job's first run, if it existed before the job

    @property
    def document(self) -> Document:
        """The environment.yaml that the environment was read from."""
        document = layers.environment_file(self.spec.layers)
        assert document is not None, "a job is resolved in an environment that has a file"
        return document

    @property
    def own(self) -> Mapping[str, Data]:
        return self.spec.layers[-1].data

    def chosen(self, record: Record) -> dict[str, Data]:
        """Return what the layer-selecting fields of the job's own file (`extends`, `pool`, `roles`)
        bring in, merged, by field: its bases, its pool and the recorded run's, and the pools of its
        roles.
        """
        below = self.spec.layers[:-1]
        both = (record.spec.get("pool", ""), self.spec.data.get("pool", ""))
        bases = (layer for layer in below if layer.label == BASE)
        pools = (layer for pool in both for layer in layers.of_pool(below, pool))
        chosen = {"extends": bases, "pool": pools, "roles": layers.roles_on_pools(below)}
        return {key: dict(stack(tuple(brought)).data) for key, brought in chosen.items()}

    @property
    def digest(self) -> str:
        """The digest of the job's own file by which the ledger remembers a run."""
        return meaning.digest(self.own, self.job.run)
