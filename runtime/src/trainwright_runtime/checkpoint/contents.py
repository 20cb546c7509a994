"""The contents of a checkpoint, for readers that have no model to load it into."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load

from trainwright_runtime.checkpoint import tree
from trainwright_runtime.checkpoint.directory import defect, step_of
from trainwright_runtime.checkpoint.errors import CheckpointError
from trainwright_runtime.checkpoint.objects import ObjectPath, split, store_of
from trainwright_runtime.checkpoint.storage import LoadPlanner, Reader
from trainwright_runtime.checkpoint.tree import Json

STATE = "state.json"
FORMATS = (1, 2)
"""Readable formats of state.json; a higher one is for a state that older code would misread.

2 has gaps before the position in a dataset: what lost workers had begun in local steps.
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """The shape and type of a tensor, known without reading it."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def elements(self) -> int:
        return torch.Size(self.shape).numel()

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Contents:
    """A checkpoint whose files have been verified. Reading it runs no code stored in it."""

    path: Path | ObjectPath
    step: int
    world_size: int
    torch: str
    state: dict[str, Json]
    tensors: dict[str, Kind]

    def read(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Return tensors by name, whichever ranks have written them."""
        targets = {
            name: torch.empty(self.tensors[name].shape, dtype=self.tensors[name].dtype)
            for name in names
        }
        load(
            targets,
            storage_reader=Reader(self.path),
            planner=LoadPlanner(flatten_state_dict=False),
            no_dist=True,
        )
        return targets

    def entry(self, name: str) -> object:
        """Return an entry of the state with its tensors. Raise CheckpointError if there is none."""
        if name not in self.state:
            raise CheckpointError(f"{self.path} has no {name!r}, only {', '.join(self.state)}")
        held = self.read(tree.names(self.state[name]))
        return tree.decode(self.state[name], held.__getitem__)


def open_checkpoint(location: str | os.PathLike[str]) -> Contents:
    """Return a checkpoint, or the newest one in a folder or URL. Raise CheckpointError if there is
    none or it is damaged."""
    parent, name = split(location)
    if step_of(name) is None:
        store = store_of(location)
        names = store.steps()
        if not names:
            raise CheckpointError(
                f"{location} is not a checkpoint and holds none (a folder called step-…)"
            )
        path = store.checkpoint(names[0])
    else:
        path = store_of(parent).checkpoint(name)
    if problem := defect(path):
        raise CheckpointError(f"{path} is damaged: {problem}")
    document = checked_document((path / STATE).read_text(), str(path))
    metadata = Reader(path).read_metadata()
    tensors = {
        name: Kind(tuple(entry.size), entry.properties.dtype)
        for name, entry in metadata.state_dict_metadata.items()
        if isinstance(entry, TensorStorageMetadata)
    }
    return Contents(
        path=path,
        step=int(document["step"]),
        world_size=int(document["world_size"]),
        torch=str(document["torch"]),
        state=document["state"],
        tensors=tensors,
    )


def checked_document(text: str, checkpoint: str) -> dict[str, Any]:
    """Return a parsed `state.json`. Raise CheckpointError if its format is not supported."""
    document = json.loads(text)
    if document["format"] not in FORMATS:
        known = " and ".join(map(str, FORMATS))
        raise CheckpointError(
            f"{checkpoint} is of format {document['format']}, and this version reads {known}: load "
            "it with the image that wrote it, or with a newer one"
        )
    checked: dict[str, Any] = document
    return checked
