"""The model and its optimizer: gradients in, one update a committed step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from trainwright_runtime.elastic.gradients import Averages, Gradients
from trainwright_runtime.elastic.membership import Membership


@dataclass(frozen=True, slots=True, kw_only=True)
class Learner:
    """What is trained, and by which rule."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: LRScheduler | None = None
    max_grad_norm: float | None = None

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def gradients(self, group: Membership) -> Gradients:
        return Gradients(self.model.parameters(), group.reduce)

    def averages(self, group: Membership) -> Averages:
        return Averages(self.model.buffers(), group.reduce)

    def update(self, rate: float) -> None:
        """Take a step along the gradients, with the learning rate multiplied by `rate`."""
        if self.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)
        groups = self.optimizer.param_groups
        rates = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] = group["lr"] * rate
        self.optimizer.step()
        for group, before in zip(groups, rates, strict=True):
            group["lr"] = before
        if self.scheduler is not None:
            self.scheduler.step()

    def parts(self) -> dict[str, Any]:
        """What is replicated and saved, each with `state_dict` and `load_state_dict`."""
        parts = {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler}
        return {name: part for name, part in parts.items() if part is not None}
