"""Where a training is: everything that is replicated and saved with the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainwright_runtime.elastic.audit import descend
from trainwright_runtime.elastic.members import Members
from trainwright_runtime.elastic.source import Source


class Progress:
    """The epoch, the position in every dataset, the sums so far, and the lineage of commits.

    It moves with a committed step and at no other time, so that a copy of it and of the weights is
    always a training that can go on.
    """

    def __init__(self, sources: Mapping[str, Source], totals: Sequence[str]) -> None:
        self.sources = dict(sources)
        self.step = 0
        """Committed steps, of all datasets together."""
        self.epoch = 0
        self.ended = False
        """Whether the program has finished the epoch, and what it does after the last batch."""
        self.lineage = ""
        """A digest of every committed step."""
        self.generation = ""
        """The generation of these steps: see `coordination.rules`."""
        self.quorum = 0
        """The members of the last synchronisation of local steps, even if it moved nothing: the
        local steps after it are divided among these."""
        self.finished = False
        """Whether the program wants no further epoch."""
        self._names = tuple(totals)
        self._sums = {name: [0.0] * len(totals) for name in sources}

    @property
    def position(self) -> str:
        """An identifier that is equal only in workers whose next step takes the same records."""
        return f"{self.lineage}/{self.quorum}"

    @property
    def dataset(self) -> str | None:
        """The dataset whose turn it is; None when the epoch is over."""
        unfinished = (name for name, source in self.sources.items() if not source.finished)
        return next(unfinished, None)

    def totals(self, dataset: str) -> dict[str, float]:
        """What `add` collected over all workers in this epoch's committed steps."""
        return dict(zip(self._names, self._sums[dataset], strict=True))

    def begin(self, epoch: int) -> None:
        self.epoch, self.ended = epoch, False
        self._sums = {name: [0.0] * len(self._names) for name in self.sources}
        for source in self.sources.values():
            source.begin(epoch)

    def commit(
        self,
        members: Members,
        batch: int,
        dataset: str,
        reports: Sequence[int],
        sums: Sequence[float],
    ) -> dict[str, Any]:
        """Move past a committed step, and return its line for the audit log."""
        parent = self.lineage
        records = self.sources[dataset].commit(members, batch, reports)
        self.lineage = descend(parent, self.step, members, dataset, self.epoch)
        line = {
            "step": self.step,
            "quorum": members.quorum,
            "world": members.world,
            "dataset": dataset,
            "epoch": self.epoch,
            "records": records,
            "generation": self.generation,
            "parent": parent,
            "lineage": self.lineage,
        }
        self._sums[dataset] = [a + b for a, b in zip(self._sums[dataset], sums, strict=True)]
        self.step += 1
        return line

    @property
    def trainwright_checkpoint_format(self) -> int:
        return max(source.trainwright_checkpoint_format for source in self.sources.values())

    def state_dict(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "epoch": self.epoch,
            "ended": self.ended,
            "lineage": self.lineage,
            "generation": self.generation,
            "finished": self.finished,
            **({"quorum": self.quorum} if self.quorum else {}),
            "sums": {name: list(sums) for name, sums in self._sums.items()},
            "sources": {name: source.state_dict() for name, source in self.sources.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if list(state["sources"]) != list(self.sources):
            raise ValueError(
                f"the training to go on with has the datasets {', '.join(state['sources'])}; "
                f"this one has {', '.join(self.sources)}"
            )
        self.step, self.epoch, self.lineage = state["step"], state["epoch"], state["lineage"]
        self.ended = state.get("ended", False)
        self.generation = state.get("generation", "")
        self.finished = state.get("finished", False)
        self.quorum = state.get("quorum", 0)
        for name, source in self.sources.items():
            self._sums[name] = list(state["sums"][name])
            source.load_state_dict(state["sources"][name])
