"""The state of a training on its way to a newcomer: tensors and JSON, which run no code."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torchft.checkpointing._serialization import _streaming_load
from torchft.checkpointing.http_transport import HTTPTransport

from trainwright_runtime.checkpoint import tree
from trainwright_runtime.checkpoint.errors import CheckpointError
from trainwright_runtime.elastic.members import State
from trainwright_runtime.elastic.shards import local


class Transport(HTTPTransport[State]):
    """Serves state under an address that peers can reach, where torchft gives a host name.

    torchft unpickles whatever the other side sends, which runs it:
    https://docs.python.org/3/library/pickle.html
    """

    def __init__(self, host: str, timeout: timedelta, mesh: DeviceMesh | None = None) -> None:
        """Of tensors that are sharded over `mesh` the shards of this process travel."""
        self._mesh = mesh
        self._host = f"[{host}]" if ":" in host else host
        super().__init__(timeout, num_chunks=0)
        # http.server writes a line to stderr for each request.
        self._server.RequestHandlerClass.log_message = _unlogged

    def address(self) -> str:
        return f"http://{self._host}:{self._server.socket.getsockname()[1]}/checkpoint/"

    def shutdown(self, wait: bool = True) -> None:
        super().shutdown(wait)
        if wait:
            self._server.server_close()  # which torchft leaves to the end of the process

    def send_checkpoint(
        self, dst_ranks: list[int], step: int, state_dict: State, timeout: timedelta
    ) -> None:
        super().send_checkpoint(dst_ranks, step, pack(state_dict), timeout)

    def recv_checkpoint(self, src_rank: int, metadata: str, step: int, timeout: timedelta) -> State:
        return unpack(super().recv_checkpoint(src_rank, metadata, step, timeout), self._mesh)

    @classmethod
    def _load_from_address(cls, address: str, timeout: timedelta) -> object:
        import urllib.request

        with urllib.request.urlopen(address, timeout=timeout.total_seconds()) as stream:  # noqa: S310
            packed: object = _streaming_load(stream, weights_only=True)
            return packed


def pack(state: State) -> State:
    """A state as `torch.load(weights_only=True)` reads it; of sharded tensors, this shard."""
    tensors: dict[str, torch.Tensor] = {}
    values = tree.encode(state, "", tensors)
    sharded = {name: tensor for name, tensor in tensors.items() if isinstance(tensor, DTensor)}
    shards = {name: _described(name, tensor) for name, tensor in sharded.items()}
    parts = {name: local(tensor) for name, tensor in sharded.items()}
    return {"values": json.dumps(values), "tensors": tensors | parts, "shards": json.dumps(shards)}


def unpack(packed: Any, mesh: DeviceMesh | None = None) -> State:
    """What was packed. Its tensors lie in what was received, and are to be copied."""
    tensors, shards = packed["tensors"], json.loads(packed.get("shards", "{}"))

    def tensor(name: str) -> torch.Tensor:
        found: torch.Tensor = tensors[name]
        return _sharded(name, found, mesh, **shards[name]) if name in shards else found

    state = tree.decode(json.loads(packed["values"]), tensor)
    assert isinstance(state, dict), "a state is a dict"
    return state


def _described(name: str, tensor: DTensor) -> dict[str, Any]:
    """What makes a tensor of its shard."""
    mesh = tensor.device_mesh
    (placement,) = tensor.placements if mesh.ndim == 1 else (None,)
    if not (type(placement) is Shard or isinstance(placement, Replicate)):
        raise _unexpected(name, f"{tensor.placements} over {mesh}")
    dim = placement.dim if isinstance(placement, Shard) else None
    shape, stride = list(tensor.shape), list(tensor.stride())
    return {"dim": dim, "shape": shape, "stride": stride, "ranks": mesh.mesh.tolist()}


def _sharded(
    name: str, shard: torch.Tensor, mesh: DeviceMesh | None, *,
    dim: int | None, shape: list[int], stride: list[int], ranks: list[int],
) -> DTensor:  # fmt: skip
    if mesh is None or mesh.mesh.tolist() != ranks:
        raise _unexpected(name, f"a mesh of the ranks {ranks}")
    placement: Placement = Replicate() if dim is None else Shard(dim)
    found: DTensor = DTensor.from_local(
        shard.to(mesh.device_type), mesh, [placement], run_check=False,
        shape=torch.Size(shape), stride=tuple(stride),
    )  # fmt: skip
    return found


def _unexpected(name: str, where: str) -> CheckpointError:
    return CheckpointError(
        f"{name!r} of the state is a DTensor of {where}: expected shards over the mesh of the model"
    )


def _unlogged(handler: Any, message: str, *values: Any) -> None: ...
