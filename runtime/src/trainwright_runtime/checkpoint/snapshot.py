"""A training state as the files of one checkpoint, and back: what each rank has of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.stateful import Stateful
from torch.nn.parallel import DistributedDataParallel

from trainwright_runtime.checkpoint import tree
from trainwright_runtime.checkpoint.contents import STATE, checked_document
from trainwright_runtime.checkpoint.directory import Directory, write_synced
from trainwright_runtime.checkpoint.errors import CheckpointError
from trainwright_runtime.checkpoint.objects import ObjectPath, Objects, one_line
from trainwright_runtime.checkpoint.peer_copies import Copies, Copy
from trainwright_runtime.checkpoint.process import WriterProcess
from trainwright_runtime.checkpoint.ranks import Ranks
from trainwright_runtime.checkpoint.storage import LoadPlanner, Reader, Writer
from trainwright_runtime.checkpoint.tree import Json


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one rank contributes to the checkpoint of a step."""

    step: int
    values: dict[str, Json]
    tensors: dict[str, Tensor]
    format: int
    """The format of `state.json`."""
    writer: WriterProcess | None = None


@dataclass(frozen=True, slots=True)
class _Part:
    """What one rank has written, and the error if the disk refused it."""

    values: dict[str, Json]
    digests: dict[str, str]
    size: int
    refused: OSError | None


@dataclass(frozen=True, slots=True)
class Written:
    """The files of all ranks."""

    digests: dict[str, str]
    size: int


def _bare(value: object) -> object:
    """Return the model without its wrappers, so that a checkpoint does not depend on them."""
    while True:
        if isinstance(value, DistributedDataParallel):
            value = value.module
        elif hasattr(value, "_orig_mod"):  # torch.compile
            value = value._orig_mod
        else:
            return value


def content(value: object) -> object:
    """Return the state of an object, or a plain value as it is."""
    value = _bare(value)
    return value.state_dict() if isinstance(value, Stateful) else value


def write_files(
    directory: Directory | Objects | Copies, folder: Path, *, ranks: Ranks, snapshot: Snapshot
) -> Written:
    """Write and sync all files but the list of digests; return the digests of all ranks' files.

    Afterwards only the first rank may touch the folder, to rename it; others may be behind.
    """
    writer = Writer(folder, snapshot.writer)
    refused: OSError | None = None
    failed: CheckpointException | None = None
    size = 0
    try:
        save(
            snapshot.tensors,
            storage_writer=writer,
            planner=DefaultSavePlanner(flatten_state_dict=False),
            process_group=ranks.group,
            no_dist=ranks.group is None,
        )
    except CheckpointException as error:  # raised on all ranks when it is raised on one
        failed, cause = error, _cause(error)
        refused = writer.files.error or (cause if isinstance(cause, OSError) else None)
    if failed is None:
        try:
            directory.collect(folder, writer.files.digests)
            size = sum((folder / name).stat().st_size for name in writer.files.digests)
        except OSError as error:
            refused = error
    parts = ranks.gather(_Part(snapshot.values, writer.files.digests, size, refused))
    if blame := next((part.refused for part in parts if part.refused), None):
        raise blame
    if failed:
        raise _cause(failed) from failed
    digests = {name: digest for part in parts for name, digest in part.digests.items()}
    values: dict[str, Json] = {
        key: reduce(tree.union, (part.values[key] for part in parts if key in part.values))
        for key in {key: None for part in parts for key in part.values}
    }
    document = {
        "format": snapshot.format,
        "step": snapshot.step,
        "world_size": ranks.count,
        "torch": torch.__version__,
        "state": values,
    }
    text = json.dumps(document, indent=1).encode()
    digests[STATE] = ranks.on_first(lambda: write_synced(folder / STATE, text))
    return Written(digests, sum(part.size for part in parts) + len(text))


def deliver(
    directory: Directory | Objects, folder: Path, *, ranks: Ranks, copies: Copies, copy: Copy
) -> Written:
    """Write the files of a copy to the directory, each by a rank on a node that has that file."""
    ranks.on_all(lambda: directory.collect(folder, copies.deliver(copy, folder)))
    return Written(dict(copy.digests), sum(copy.sizes.values()))


def _cause(error: CheckpointException) -> BaseException:
    """Return the error of the first rank that failed."""
    return next(iter(error.failures.values()))[0]


@dataclass(frozen=True, slots=True)
class Source:
    """A checkpoint whose files have been verified."""

    name: str
    reader: Reader
    text: str
    """The text of `state.json`."""
    metadata: Metadata


def stored_source(checkpoint: Path | ObjectPath, ranks: Ranks) -> Source:
    """Return a stored checkpoint to load from. Raise CheckpointError if it cannot be read."""
    reader = Reader(checkpoint)
    try:
        text, metadata = ranks.on_first(
            lambda: ((checkpoint / STATE).read_text(), reader.read_metadata())
        )
    except OSError as error:
        raise CheckpointError(f"{error.filename} cannot be read: {error.strerror}") from error
    return Source(str(checkpoint), reader, text, metadata)


def restore(source: Source, state: MutableMapping[str, object], ranks: Ranks) -> int:
    """Fill the state from a checkpoint; return its step. Raise CheckpointError for a misfit."""
    checkpoint = source.name
    document = checked_document(source.text, checkpoint)
    saved: dict[str, Json] = document["state"]
    if missing := [key for key in state if key not in saved]:
        raise CheckpointError(
            f"{checkpoint} has no {missing[0]!r}, only {', '.join(saved)}: leave it out of the "
            "state to be loaded, or start a run of its own"
        )
    targets: dict[str, Tensor] = {}
    for key, value in state.items():
        targets |= _targets(key, value, saved[key], source.metadata.state_dict_metadata)
    try:
        load(
            targets,
            storage_reader=source.reader,
            planner=LoadPlanner(flatten_state_dict=False),
            process_group=ranks.group,
            no_dist=ranks.group is None,
        )
    except CheckpointException as error:
        raise CheckpointError(
            f"{checkpoint} cannot be loaded: {one_line(_cause(error))}"
        ) from error
    for key, value in state.items():
        decoded, holder = tree.decode(saved[key], targets.__getitem__), _bare(value)
        if not isinstance(holder, Stateful):
            state[key] = decoded
            continue
        misfit = f"{checkpoint} does not fit {key!r}, a {type(holder).__name__}"
        if not isinstance(decoded, dict):
            raise CheckpointError(
                f"{misfit}: it has a {type(decoded).__name__} there, saved as a plain value"
            )
        try:
            holder.load_state_dict(decoded)
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{misfit}: {one_line(error)}") from error
    return int(document["step"])


def _targets(
    key: str, value: object, saved: Json, stored: Mapping[str, object]
) -> dict[str, Tensor]:
    """Return the tensors to read an entry into, by name: existing ones if they fit, else new.

    An optimizer that has made no step has no moments yet. They get the shape, the device and the
    sharding of their parameters, which is what optimizers give them.
    """
    own: dict[str, Tensor] = {}
    tree.encode(content(value), key, own)
    holder = _bare(value)
    if isinstance(holder, torch.optim.Optimizer):
        groups = holder.param_groups
        parameters = [parameter for group in groups for parameter in group["params"]]
        own = {**_moments(tree.names(saved), parameters), **own}
    targets = {}
    for name in tree.names(saved):
        entry = stored[name]
        assert isinstance(entry, TensorStorageMetadata), "only tensors are stored"
        existing = own.get(name)
        if existing is None or existing.size() != entry.size:
            targets[name] = torch.empty(entry.size, dtype=entry.properties.dtype)
        else:
            targets[name] = existing
    return targets


def _moments(names: Iterable[str], parameters: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return, for each name such as ".../state/0/exp_avg", a tensor like its parameter."""
    moments = {}
    for name in names:
        match name.split("/")[-3:]:
            case ["state", index, _] if index.isdigit() and int(index) < len(parameters):
                moments[name] = torch.empty_like(parameters[int(index)])
    return moments
