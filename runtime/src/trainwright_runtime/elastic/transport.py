"""The transfer of a training's state to a newcomer: as tensors and JSON, which run no code.

A JSON header, then the bytes of each tensor, over a connection on which both sides have proved that
they belong to the run. torchft's transport serves everybody, unpickles everything the other side
sends, which can run code (https://docs.python.org/3/library/pickle.html), and copies the whole
state before it serves any of it.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from socket import SHUT_RDWR, socket
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from xxhash import xxh3_128

from trainwright_runtime.checkpoint import tree
from trainwright_runtime.checkpoint.errors import CheckpointError
from trainwright_runtime.coordination.addresses import joined
from trainwright_runtime.coordination.channel import STATE, Channel, connect
from trainwright_runtime.coordination.server import Server
from trainwright_runtime.elastic.members import State
from trainwright_runtime.elastic.shards import local

log = logging.getLogger(__name__)

CHUNK_BYTES = 1024 * 1024
"""What is sent or received at once: a time-out of the connection counts from chunk to chunk."""

_DIGESTS = 100_000
"""Maximum number of digests in a request."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a state: its tensors by name, and the rest as JSON."""

    values: tree.Json
    tensors: dict[str, torch.Tensor]
    """For sharded tensors, the shards of this process."""
    shards: dict[str, dict[str, Any]]
    """What is needed to build sharded tensors from their shards."""


class Received(UserDict[str, Any]):
    """A state whose parts are built when they are taken; `pop` frees what a part was built from."""

    def __init__(
        self,
        parts: Mapping[str, Part],
        mesh: DeviceMesh | None = None,
        progress: Callable[[], object] = lambda: None,
    ) -> None:
        """Raise CheckpointError if a tensor is sharded over anything but the `mesh`."""
        super().__init__(parts)
        self._mesh, self._progress = mesh, progress
        for part in parts.values():
            for name, shard in part.shards.items():
                if mesh is None or mesh.mesh.tolist() != shard["ranks"]:
                    raise _unsupported_sharding(name, f"a mesh of the ranks {shard['ranks']}")

    def __getitem__(self, name: str) -> Any:
        part: Part = super().__getitem__(name)

        def tensor(name: str) -> torch.Tensor:
            self._progress()
            stored = part.tensors[name]
            return self._sharded(stored, **part.shards[name]) if name in part.shards else stored

        return tree.decode(part.values, tensor)

    def _sharded(
        self, shard: torch.Tensor, *,
        dim: int | None, shape: list[int], stride: list[int], ranks: list[int],
    ) -> DTensor:  # fmt: skip
        """Return the sharded tensor that a shard is part of."""
        mesh, placement = self._mesh, Replicate() if dim is None else Shard(dim)
        assert mesh is not None, f"sharded over the ranks {ranks}"
        placements: list[Placement] = [placement]
        sharded: DTensor = DTensor.from_local(
            shard.to(mesh.device_type), mesh, placements, run_check=False,
            shape=torch.Size(shape), stride=tuple(stride),
        )  # fmt: skip
        return sharded


class Transport:
    """A server of this process's state for peers, and a client for the state of others.

    What is served is the state itself: a tensor is copied to the CPU when it is sent. So nothing
    may change it between `offer` and `withdraw`.
    """

    def __init__(
        self,
        host: str,
        patience: timedelta,
        mesh: DeviceMesh | None = None,
        follow: Callable[[Channel, str], object] = lambda channel, declared: None,
    ) -> None:
        """`mesh` is what sharded tensors are sharded over: this process's shards are sent.

        `follow` serves a peer that requests the updates of further steps as well: it is called with
        the connection and what the peer declares.
        """
        self._patience, self._mesh, self._follow = patience.total_seconds(), mesh, follow
        self._offer = _Offer(self._patience)
        self._server = Server([host], 0, STATE, self._serve)
        self.address = joined(host, self._server.port)
        """host:port"""

    @property
    def interrupted(self) -> bool:
        """Whether a newcomer did not get all of what is offered."""
        return self._offer.interrupted

    def offer(self, step: int, state: State) -> None:
        """Serve the state of a step."""
        self._offer.put(step, pack(state))

    def withdraw(self) -> None:
        """Stop serving the state, even to newcomers that are reading it.

        Raise TimeoutError if one of them may still be reading.
        """
        self._offer.withdraw()

    def fetch(
        self,
        address: str,
        step: int,
        progress: Callable[[], object] = lambda: None,
        known: Mapping[str, Part] | None = None,
    ) -> Received:
        """Return the state of a step from the transport at `address`; call `progress` meanwhile.

        Of the parts and tensors that are `known` here, only those that differ there are sent.
        Raise OSError if the state does not arrive, or not all of it; CheckpointError if it is not a
        state, or not one of this mesh.
        """
        channel = connect(address, STATE, self._patience)
        try:
            digests = _digests(known or {}, progress)
            most = sum(map(len, digests.values())) <= _DIGESTS
            channel.write({"step": step, "digests": digests if most else {}})
            while "wait" in (answer := channel.read()):
                progress()
            if "parts" not in answer:
                raise ConnectionError(f"{address} serves no state of step {step}")
            parts = read(Stream(address, channel, progress), answer["parts"])
            return Received(_with_known_tensors(parts, known or {}), self._mesh, progress)
        except ValueError as error:
            raise ConnectionError(f"{address} did not send its state: {error}") from error
        finally:
            channel.close()

    def close(self) -> None:
        with suppress(TimeoutError):
            self.withdraw()
        self._server.close()

    def _serve(self, channel: Channel) -> None:
        """Send the state to a newcomer that fetches it."""
        channel.connection.settimeout(self._patience)
        try:
            request = channel.read()
            if "follow" in request:
                self._follow(channel, request["follow"])
                return
            with self._offer.reading(request["step"], channel.connection) as parts:
                # A large state takes longer to compare than a newcomer waits for an answer.
                wait = _OncePerSecond(lambda: channel.write({"wait": ""}))
                unknown = _differing(parts or {}, request.get("digests", {}), wait)
                channel.write({} if parts is None else {"parts": header(unknown)})
                for data in written(unknown):
                    channel.connection.sendall(data)
        except Exception as error:  # noqa: BLE001 - the newcomer finds out by the connection's end
            log.warning("the state was not sent to %s: %s", _peer(channel), str(error))


def pack(state: State) -> dict[str, Part]:
    """Return the parts of a state. Raise CheckpointError if one cannot be sent."""
    return {name: _packed(part, f"/{name}") for name, part in state.items()}


def _packed(part: object, path: str) -> Part:
    """Return the tensors of a part, of sharded ones the shards, and the rest as JSON."""
    tensors: dict[str, torch.Tensor] = {}
    values = tree.encode(part, path, tensors)
    shards = {name: _described(name, t) for name, t in tensors.items() if isinstance(t, DTensor)}
    for name, tensor in tensors.items():
        if tensor.layout is not torch.strided:
            raise CheckpointError(
                f"{name!r} of the state is a tensor of {tensor.layout}, which newcomers cannot "
                "get: register_buffer(..., persistent=False) leaves a buffer out of the state"
            )
    return Part(values, {name: local(tensor) for name, tensor in tensors.items()}, shards)


def _described(name: str, tensor: DTensor) -> dict[str, Any]:
    """Return what is needed to build a tensor from its shard."""
    mesh = tensor.device_mesh
    (placement,) = tensor.placements if mesh.ndim == 1 else (None,)
    if not (type(placement) is Shard or isinstance(placement, Replicate)):
        raise _unsupported_sharding(name, f"{tensor.placements} over {mesh}")
    dim = placement.dim if isinstance(placement, Shard) else None
    shape, stride = list(tensor.shape), list(tensor.stride())
    return {"dim": dim, "shape": shape, "stride": stride, "ranks": mesh.mesh.tolist()}


def _unsupported_sharding(name: str, where: str) -> CheckpointError:
    return CheckpointError(
        f"{name!r} of the state is a DTensor of {where}: expected shards over the mesh of the model"
    )


# --- on the wire ---------------------------------------------------------------------------------


def header(parts: Mapping[str, Part]) -> dict[str, Any]:
    """Return the layout of the parts, for which `read` allocates memory."""
    return {
        name: {
            "values": part.values,
            "shards": part.shards,
            "tensors": {each: _layout(tensor) for each, tensor in part.tensors.items()},
        }
        for name, part in parts.items()
    }


def written(parts: Mapping[str, Part]) -> Iterator[memoryview]:
    """Yield the bytes of all tensors."""
    for part in parts.values():
        for tensor in part.tensors.values():
            data = _bytes(tensor)
            for at in range(0, len(data), CHUNK_BYTES):
                yield data[at : at + CHUNK_BYTES]


def _bytes(tensor: torch.Tensor) -> memoryview:
    flat = tensor.detach().permute(_order(tensor)).cpu().contiguous().flatten()
    return _memory_view(flat.view(torch.uint8))


def _digests(parts: Mapping[str, Part], progress: Callable[[], object]) -> dict[str, list[str]]:
    """Return for each part a digest of its values, followed by one of each tensor, in order."""
    return {
        name: [
            xxh3_128(json.dumps([part.values, part.shards]).encode()).hexdigest(),
            *(_digest(each, tensor, progress) for each, tensor in part.tensors.items()),
        ]
        for name, part in parts.items()
    }


def _digest(name: str, tensor: torch.Tensor, progress: Callable[[], object]) -> str:
    progress()
    digest = xxh3_128(json.dumps([name, _layout(tensor)]).encode())
    digest.update(_bytes(tensor))
    return digest.hexdigest()


def _differing(
    parts: Mapping[str, Part], stored: Mapping[str, list[str]], progress: Callable[[], object]
) -> Mapping[str, Part]:
    """Return `parts` without the parts and tensors whose digests are in `stored`."""
    unknown = {}
    for name, part in parts.items():
        if name not in stored:
            unknown[name] = part
        elif (own := _digests({name: part}, progress)[name]) != stored[name]:
            theirs, digests = {*stored[name]}, zip(part.tensors.items(), own[1:], strict=True)
            differing = dict(item for item, digest in digests if digest not in theirs)
            unknown[name] = Part(part.values, differing, part.shards)
    return unknown


def _with_known_tensors(parts: Mapping[str, Part], known: Mapping[str, Part]) -> Mapping[str, Part]:
    """Return the parts with the tensors that were not sent because they are known here.

    These are copies: a part may change what it has before it reads what it is to take over.
    """
    for name, part in parts.items():
        for each in tree.names(part.values) - part.tensors.keys():
            part.tensors[each] = known[name].tensors[each].clone()
    return parts


def read(stream: Stream, header: Any) -> dict[str, Part]:
    """Read the parts that a header describes. Raise CheckpointError if the header is malformed."""
    try:
        parts = {
            name: Part(
                part["values"],
                {each: _empty(*layout) for each, layout in part["tensors"].items()},
                dict(part["shards"]),
            )
            for name, part in header.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"{stream.address} sent what is not a state: {error!r}") from error
    for part in parts.values():
        for tensor in part.tensors.values():
            stream.fill(tensor)
    return parts


def _order(tensor: torch.Tensor) -> list[int]:
    """Return the dimensions of a tensor in the order of its memory."""
    return sorted(range(tensor.ndim), key=tensor.stride, reverse=True)


def _layout(tensor: torch.Tensor) -> tuple[str, list[int], list[int]]:
    return str(tensor.dtype).removeprefix("torch."), list(tensor.shape), _order(tensor)


def _empty(dtype: str, shape: list[int], order: list[int]) -> torch.Tensor:
    """Return memory for a tensor of this layout. Raise MemoryError if there is none."""
    kind = getattr(torch, dtype)
    if not isinstance(kind, torch.dtype):
        raise TypeError(f"{dtype!r} is not a dtype")
    try:
        allocated = torch.empty([shape[dim] for dim in order], dtype=kind)
    except RuntimeError as error:
        raise MemoryError(str(error).partition("\n")[0]) from error
    return allocated.permute([order.index(dim) for dim in range(len(order))])


def _memory_view(data: torch.Tensor) -> memoryview:
    """Return a view of the bytes of a tensor on the CPU."""
    array: Any = data.numpy()
    return memoryview(array)


class _OncePerSecond:
    """A callback that is run once per second at most, however often it is called."""

    def __init__(self, do: Callable[[], object]) -> None:
        self._do, self._done = do, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._done > 1:
            self._do()
            self._done = time.monotonic()


class Stream:
    """The bytes from a sender's connection; ConnectionError is raised if any are missing."""

    def __init__(
        self, address: str, channel: Channel, progress: Callable[[], object] = lambda: None
    ) -> None:
        self.address = address
        self._channel, self._progress = channel, progress

    def fill(self, tensor: torch.Tensor) -> None:
        """Fill a tensor's memory from the connection."""
        data = _memory_view(torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()))
        while data:
            received = self._channel.readinto(data[:CHUNK_BYTES])
            if not received:
                raise ConnectionError(f"{self.address} did not send all of its state")
            data = data[received:]
            self._progress()


# --- the sender's side ---------------------------------------------------------------------------


class _Offer:
    """The state that is served, if any, and the connections that it is read over."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._changed = threading.Condition()
        self._step = -1
        self._parts: Mapping[str, Part] | None = None
        self._readers: set[socket] = set()
        self._interrupted = False

    @property
    def interrupted(self) -> bool:
        """Whether a reader did not get all of the state that is served."""
        return self._interrupted and self._parts is not None

    def put(self, step: int, parts: Mapping[str, Part]) -> None:
        with self._changed:
            self._step, self._parts, self._interrupted = step, parts, False
            self._changed.notify_all()

    def withdraw(self) -> None:
        """Stop offering the state; disconnect its readers. Raise TimeoutError if one stays."""
        with self._changed:
            self._parts = None
            for reader in self._readers:
                with suppress(OSError):
                    reader.shutdown(SHUT_RDWR)
            if not self._changed.wait_for(lambda: not self._readers, self._patience):
                raise TimeoutError("the state is still being sent")

    @contextmanager
    def reading(self, step: object, reader: socket) -> Iterator[Mapping[str, Part] | None]:
        """Yield the state of this step once it is offered, or None if it is not offered in time."""

        def offered() -> bool:
            return step == self._step and self._parts is not None  # a state may be empty

        with self._changed:
            parts = self._parts if self._changed.wait_for(offered, self._patience) else None
            if parts is not None:
                self._readers.add(reader)
        try:
            yield parts
        except Exception:
            self._interrupted = True
            raise
        finally:
            with self._changed:
                self._readers.discard(reader)
                self._changed.notify_all()


def _peer(channel: Channel) -> str:
    try:
        return str(channel.connection.getpeername()[0])
    except OSError:
        return "a newcomer that is gone"
