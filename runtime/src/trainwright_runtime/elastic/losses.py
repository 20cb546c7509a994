"""Losses that are not finite: the messages in the log, and whether their step is skipped."""

from __future__ import annotations

import logging
from typing import Literal

import torch

from trainwright_runtime.elastic.errors import NotFinite

log = logging.getLogger(__name__)

NonFinite = Literal["warn", "skip", "stop"]

_HINT = (
    'the update goes on with it, after which the model may be of no use: non_finite="skip" leaves '
    'such updates out, non_finite="stop" ends training before them'
)
_SKIPPED = "its update is left out"


class Losses:
    """This worker's losses in the current step, and in how many steps one was not finite."""

    def __init__(self, policy: NonFinite) -> None:
        if policy not in ("warn", "skip", "stop"):
            raise ValueError(f"non_finite={policy!r}: expected 'warn', 'skip' or 'stop'")
        self.policy = policy
        self._finite: list[torch.Tensor] = []
        self._steps = 0

    @property
    def skips(self) -> bool:
        """Whether a step with such a loss changes nothing."""
        return self.policy == "skip"

    def begin(self) -> None:
        self._finite.clear()

    def note(self, loss: torch.Tensor) -> None:
        self._finite.append(loss.detach().isfinite().all())  # waits for no device

    @property
    def finite(self) -> bool:
        return all(self._finite)

    def judge(self, step: int, workers: int) -> bool:
        """Return whether to take a step in which the loss of so many workers was not finite.

        The same on all workers, which sum it up. Raise NotFinite if training is to end.
        """
        if not workers:
            return True
        if self.policy == "stop":
            raise NotFinite(step, workers)
        self._steps += 1
        if self._steps & (self._steps - 1) == 0:  # 1, 2, 4, …
            seen = f", and in {self._steps} steps so far" if self._steps > 1 else ""
            log.warning(
                "step %d: the loss is not finite on %d worker%s%s: %s",
                step, workers, "s" if workers > 1 else "", seen, _SKIPPED if self.skips else _HINT,
            )  # fmt: skip
        return not self.skips
