"""Local steps, and a synchronisation of parameters now and then, for slow links between workers.

LocalSGD averages parameters (https://arxiv.org/abs/1805.09767). DiLoCo is FedOpt with an outer
Nesterov momentum, whose gradient is a pseudogradient: the parameters of the last synchronisation
less those of the workers now, averaged (https://arxiv.org/abs/2311.08105). LocalSGD is that with an
outer SGD of rate 1. `torchft.local_sgd` has both for its own Manager, and drops the local steps of
all workers if one is lost; here those of the others count, since the ledger of records shows which
ones are in the average.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch.optim import SGD, Optimizer

from trainwright_runtime.elastic.gradients import Reduce, grouped


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSGD:
    """Average the parameters of all workers after `every` local steps."""

    every: int

    def __post_init__(self) -> None:
        _require_steps(self.every)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiLoCo:
    """Step `outer` along the pseudogradient of all workers after `every` local steps.

    `outer` is an optimizer of the same parameters; by default the paper's: SGD with a learning rate
    of 0.7 and a Nesterov momentum of 0.9.
    """

    every: int
    outer: Optimizer | None = None

    def __post_init__(self) -> None:
        _require_steps(self.every)


class Synchronizer:
    """The model of the last synchronisation, and the update from local steps to the next one.

    All workers hold the same parameters, bit for bit: they start from the same ones, and each adds
    the same sum to them. Buffers are reset with them; `gradients.Averages` updates them.
    """

    def __init__(
        self, model: torch.nn.Module, synchronize: LocalSGD | DiLoCo, reduce: Reduce
    ) -> None:
        self.every = synchronize.every
        self.outer = _outer(model, synchronize)
        self._model, self._reduce = model, reduce
        self._groups = list(grouped(model.parameters()))
        self._start: dict[torch.Tensor, torch.Tensor] = {}
        self._in_local_steps = False
        self._pseudogradients: list[torch.Tensor] = []

    def begin(self) -> None:
        """Begin local steps: keep a copy of the model, which is now the same in all workers."""
        for tensor in chain(*self._groups, self._model.buffers()):
            held = self._start.get(tensor)
            if held is None:
                self._start[tensor] = tensor.detach().clone()
            else:
                held.copy_(tensor.detach())
        self._in_local_steps = True

    def exchange(self, weight: float) -> None:
        """Sum the pseudogradients of the workers, whose weights add up to 1."""
        works = []
        self._pseudogradients = []
        for group in self._groups:
            parts = [(self._held(p) - p.detach()).flatten() for p in group]
            self._pseudogradients.append(torch.cat(parts).mul_(weight))
            works.append(self._reduce(self._pseudogradients[-1]))
        for work in works:
            work.wait()

    @torch.no_grad()
    def update(self) -> None:
        """Update the parameters of the last synchronisation to those of this one."""
        for group, summed in zip(self._groups, self._pseudogradients, strict=True):
            sizes = [parameter.numel() for parameter in group]
            for parameter, gradient in zip(group, torch.split(summed, sizes), strict=True):
                parameter.copy_(self._held(parameter))
                if self.outer is None:
                    parameter.sub_(gradient.view_as(parameter))
                else:
                    parameter.grad = gradient.view_as(parameter)
        if self.outer is not None:
            self.outer.step()
            self.outer.zero_grad()
        self._in_local_steps, self._pseudogradients = False, []

    @torch.no_grad()
    def roll_back(self) -> None:
        """Go back to the last synchronisation."""
        for tensor, held in self._start.items() if self._in_local_steps else ():
            tensor.copy_(held)
            tensor.grad = None
        self._in_local_steps = False

    def parts(self) -> dict[str, Any]:
        """Return what is replicated and saved: the model, and the outer optimizer if any."""
        return {"model": self, **({} if self.outer is None else {"outer": self.outer})}

    def state_dict(self) -> dict[str, Any]:
        """Return the model's state at the last synchronisation."""
        state = self._model.state_dict(keep_vars=True)
        return {
            name: self._held(value) if isinstance(value, torch.Tensor) else value
            for name, value in state.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._model.load_state_dict(state)
        self._in_local_steps = False

    def _held(self, tensor: torch.Tensor) -> torch.Tensor:
        held = self._start.get(tensor) if self._in_local_steps else None
        return tensor.detach() if held is None else held


def _outer(model: torch.nn.Module, synchronize: LocalSGD | DiLoCo) -> Optimizer | None:
    """Return the outer optimizer, or None. Raise ValueError if it has other parameters."""
    if isinstance(synchronize, LocalSGD):
        return None
    trained = [p for p in model.parameters() if p.requires_grad]
    if synchronize.outer is None:
        return SGD(trained, lr=0.7, momentum=0.9, nesterov=True)
    given = [p for group in synchronize.outer.param_groups for p in group["params"]]
    if {id(p) for p in given if p.requires_grad} != {id(p) for p in trained}:
        raise ValueError(
            "DiLoCo(outer=...) has other parameters than the model: make it from "
            "model.parameters(), all of which a synchronisation replaces"
        )
    return synchronize.outer


def _require_steps(every: int) -> None:
    if not isinstance(every, int) or every < 1:
        raise ValueError(f"every={every!r}: expected a number of local steps, 1 or more")
