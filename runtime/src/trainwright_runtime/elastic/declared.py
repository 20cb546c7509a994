"""What a program declares about its training: the same on all workers, or records are lost.

Each worker calculates its own part of a step. With another batch size, or another
length of a dataset, some records are in two parts and others in none, and no sum shows it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from trainwright_runtime import __version__

if TYPE_CHECKING:
    from trainwright_runtime.elastic.learner import Learner
    from trainwright_runtime.elastic.source import Source

Declared = Mapping[str, str]
"""Values as text, by name. What may differ between workers (`micro_batch`, `num_workers`)
is not in it."""

_ABSENT = "not declared"
_LONGEST = 60  # characters of a value that is shown as it is


def declared(
    learner: Learner, sources: Mapping[str, Source], settings: Mapping[str, object]
) -> Declared:
    """Return a training's version, datasets, model and so on; `settings` are its arguments."""
    parts = {"version": __version__, **settings}
    parts |= {f"dataset {name}": _joined(source.describe()) for name, source in sources.items()}
    tensors = chain(learner.model.named_parameters(), learner.model.named_buffers())
    shapes = [[name, [*tensor.shape], str(tensor.dtype)] for name, tensor in tensors]
    parts |= {"model": shapes, "max_grad_norm": learner.max_grad_norm}
    kinds = {**learner.optimizers, **learner.schedulers, **learner.states}
    parts |= {name: type(part).__name__ for name, part in kinds.items()}
    parts["scaler"] = learner.scaler is not None and learner.scaler.is_enabled()
    return {name: _as_text(value) for name, value in parts.items()}


def differences(theirs: Declared, own: Declared) -> Iterator[tuple[str, str, str]]:
    """Yield the name and both values of everything that two workers declare differently."""
    for name in dict.fromkeys(chain(theirs, own)):
        pair = theirs.get(name, _ABSENT), own.get(name, _ABSENT)
        if pair[0] != pair[1]:
            yield name, *pair


def _joined(described: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_as_text(value)}" for name, value in described.items())


def _as_text(value: object) -> str:
    """Return a value as text; a long list is shortened to its digest."""
    if isinstance(value, str):
        return value
    text = json.dumps(value, default=str)
    if len(text) <= _LONGEST or not isinstance(value, list):
        return text
    return f"{len(value)} entries of digest {hashlib.sha256(text.encode()).hexdigest()[:12]}"
