"""The random number generators of this process, as part of a state."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor


class RngState:
    """The random generators of Python, torch, CUDA and, if imported, NumPy, as part of a state.

    Each rank has its own. A rank that did not exist when saving keeps the state from its seed.
    """

    def state_dict(self) -> dict[str, dict[str, object]]:
        version, words, gauss = random.getstate()
        generators: dict[str, object] = {
            "torch": torch.get_rng_state(),
            "python": [version, torch.tensor(words, dtype=torch.int64), gauss],
        }
        if torch.cuda.is_available():
            generators["cuda"] = torch.cuda.get_rng_state()
        if numpy := sys.modules.get("numpy"):
            kind, keys, *rest = numpy.random.get_state()
            generators["numpy"] = [kind, torch.from_numpy(keys.astype("int64")), *rest]
        return {_rank(): generators}

    def load_state_dict(self, state: Mapping[str, Mapping[str, object]]) -> None:
        generators = state.get(_rank())
        if generators is None:
            return
        torch.set_rng_state(_tensor(generators["torch"]).cpu())
        version, words, gauss = _items(generators["python"])
        random.setstate((version, tuple(_tensor(words).tolist()), gauss))
        if torch.cuda.is_available() and "cuda" in generators:
            torch.cuda.set_rng_state(_tensor(generators["cuda"]).cpu())
        numpy = sys.modules.get("numpy")
        if numpy and "numpy" in generators:
            kind, keys, *rest = _items(generators["numpy"])
            numpy.random.set_state((kind, _tensor(keys).numpy().astype("uint32"), *rest))


def _rank() -> str:
    return str(dist.get_rank() if dist.is_initialized() else 0)


def _tensor(value: object) -> Tensor:
    assert isinstance(value, Tensor), "state_dict() put a tensor there"
    return value


def _items(value: object) -> list[object]:
    assert isinstance(value, list), "state_dict() put a list there"
    return value
