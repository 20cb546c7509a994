"""The model and optimizers: gradients in, one update per committed step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from trainwright_runtime.elastic.shards import reshard

T = TypeVar("T")

RESERVED = frozenset({"model", "progress", "rng"})
"""Names that every training uses in its state."""


@runtime_checkable
class Stateful(Protocol):
    def state_dict(self) -> Any: ...

    def load_state_dict(self, state: Any, /) -> Any: ...


class Values:
    """The program's own dict as a state, filled in place when loading."""

    def __init__(self, values: MutableMapping[str, Any]) -> None:
        self._values = values

    def state_dict(self) -> dict[str, Any]:
        return dict(self._values)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._values.clear()
        self._values.update(state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learner:
    """The model, what trains it, and the other state that is replicated and saved with it."""

    model: torch.nn.Module
    optimizers: Mapping[str, torch.optim.Optimizer]
    schedulers: Mapping[str, LRScheduler] = field(default_factory=dict)
    scaler: GradScaler | None = None
    states: Mapping[str, Stateful] = field(default_factory=dict)
    max_grad_norm: float | None = None
    on_step: Callable[[], object] | None = None

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def update(self, rate: float) -> None:
        """Take a committed step, then call the program's `on_step`."""
        self.step(rate)
        self.after_step()

    def step(self, rate: float) -> None:
        """Step optimizers and schedulers, with the learning rate multiplied by `rate`."""
        reshard(self.model)
        if self.scaler is not None:
            for optimizer in self._stepped():
                self.scaler.unscale_(optimizer)
        if self.max_grad_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)
        groups = [group for o in self.optimizers.values() for group in o.param_groups]
        rates = [group["lr"] for group in groups]
        if rate != 1.0:
            for group in groups:
                group["lr"] = group["lr"] * rate
        took = self._take_step()
        for group, before in zip(groups, rates, strict=True):
            group["lr"] = before
        for scheduler in self.schedulers.values():
            # A plateau is for the program to find, at the end of an epoch.
            if took and not isinstance(scheduler, ReduceLROnPlateau):
                scheduler.step()

    def after_step(self) -> None:
        """Call the program's `on_step`, if any: all workers hold the same state now."""
        if self.on_step is not None:
            self.on_step()

    def clear(self) -> None:
        for parameter in self.model.parameters():
            parameter.grad = None

    def parts(self) -> dict[str, Any]:
        """Return what is replicated and saved, each with `state_dict` and `load_state_dict`."""
        scaler = {} if self.scaler is None else {"scaler": self.scaler}
        return {
            "model": self.model,
            **self.optimizers,
            **self.schedulers,
            **scaler,
            **self.states,
        }

    def _take_step(self) -> bool:
        """Step the optimizers; return False if a scaler skipped that, as gradients overflowed."""
        if self.scaler is None:
            for optimizer in self.optimizers.values():
                optimizer.step()
            return True
        before = self.scaler.get_scale()
        stepped = self._stepped()
        for optimizer in stepped:
            self.scaler.step(optimizer)
        if stepped:
            self.scaler.update()
        return bool(self.scaler.get_scale() >= before)

    def _stepped(self) -> list[torch.optim.Optimizer]:
        """Return the optimizers with a gradient: a GradScaler raises an error for one without."""
        return [
            optimizer
            for optimizer in self.optimizers.values()
            if any(p.grad is not None for group in optimizer.param_groups for p in group["params"])
        ]


def named(kind: str, given: T | Sequence[T] | Mapping[str, T] | None) -> dict[str, T]:
    """Return parts by their names in a state: `kind`, or with several `kind.0` or `kind.name`."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {f"{kind}.{name}": part for name, part in given.items()}
    if isinstance(given, Sequence):
        return {f"{kind}.{number}": part for number, part in enumerate(given)}
    return {kind: given}


def own_states(states: Mapping[str, Any], taken: Mapping[str, Any]) -> dict[str, Stateful]:
    """Return the program's own states, each with `state_dict` and `load_state_dict`.

    Raise ValueError for a name that is taken, TypeError for an object without a state.
    """
    stateful: dict[str, Stateful] = {}
    for name, state in states.items():
        if name in RESERVED | taken.keys():
            raise ValueError(f"states[{name!r}]: this name is taken by the training's own state")
        if isinstance(state, MutableMapping):
            stateful[name] = Values(state)
        elif isinstance(state, Stateful):
            stateful[name] = state
        else:
            raise TypeError(
                f"states[{name!r}] is a {type(state).__name__}: expected an object with "
                "state_dict() and load_state_dict(), or a dict, which is filled in place"
            )
    return stateful
