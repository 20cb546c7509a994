"""Models that FSDP2 shards over the processes of a node, which then are one replica."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.distributed.tensor import DTensor, Shard

_NODE = "--recovery=live --replica=node"
_RESTART = (
    "train it with --recovery=restart, HSDP too, and trainwright_runtime.checkpoint, which loads "
    "it in any world size"
)


def mesh_of(model: torch.nn.Module, processes: int | None) -> DeviceMesh | None:
    """Return the mesh that the model is sharded over, or None if it is not sharded.

    `processes` is how many a replica has if it is a node, None if it is a single process. Raise
    TypeError if the model is not placed on one replica as it should be.
    """
    fsdp1 = any(isinstance(module, FullyShardedDataParallel) for module in model.modules())
    if processes is not None:
        reshard(model)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    sharded = {name: p for name, p in trained.items() if isinstance(p, DTensor)}
    if processes is None:
        if fsdp1 or any(isinstance(parameter, DTensor) for parameter in model.parameters()):
            raise TypeError(
                "the model is sharded (fully_shard, FullyShardedDataParallel, parallelize_module), "
                "and a replica of elastic training is one process: make the processes of a node "
                f"one replica ({_NODE}) where fully_shard shards it over these, else {_RESTART}"
            )
        return None
    if not sharded or fsdp1 or not _is_sharded(model):
        raise TypeError(
            "--replica=node makes the processes of a node one replica, which share a model: "
            "fully_shard(model), the root too, or leave the option out; what is sharded otherwise "
            "(FullyShardedDataParallel, parallelize_module, pipeline stages) has no live recovery: "
            f"{_RESTART}"
        )
    for name, parameter in trained.items():
        if name not in sharded or not _whole_node(parameter, processes):
            raise TypeError(
                f"{name} is {_placed(parameter)}: with --replica=node each parameter that is "
                f"trained is sharded by fully_shard alone, over the {processes} processes of the "
                f"node; for any other mesh, {_RESTART}"
            )
    for name, parameter in sharded.items():
        device, expected = local(parameter).device.type, parameter.device_mesh.device_type
        if device != expected:
            raise TypeError(
                f"{name} is on the device {device}, its mesh on {expected}, which is where shards "
                "are summed over the nodes: leave out CPUOffloadPolicy, and materialise a model of "
                f"the meta device (to_empty) before the training; for CPUOffloadPolicy, {_RESTART}"
            )
    return next(p.device_mesh for p in sharded.values())


def refuse(given: Mapping[str, bool]) -> None:
    """Raise TypeError if anything is given that a sharded model cannot be trained with yet."""
    if refused := [name for name, is_given in given.items() if is_given]:
        raise TypeError(
            f"{', '.join(refused)}: not with a model that is sharded over the processes of a node "
            f"(--replica=node); leave it out, or {_RESTART}"
        )


def prepare(model: torch.nn.Module, processes: int) -> None:
    """Let FSDP average gradients over the node's processes, replacing any divide factor."""
    for module in _modules(model) if processes > 1 else ():
        module.set_gradient_divide_factor(float(processes))


def reshard(model: torch.nn.Module) -> None:
    """Give up whole parameters that a forward pass has left, which an update makes obsolete."""
    for module in _modules(model) if _is_sharded(model) else ():
        module.reshard()


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return the shard of this process, or the tensor itself if it is not sharded."""
    if not isinstance(tensor, DTensor):
        return tensor
    sharded: Any = tensor.detach()
    shard: torch.Tensor = sharded.to_local()
    return shard


def like(parameter: torch.Tensor, shard: torch.Tensor) -> torch.Tensor:
    """Return a gradient of the parameter, made of its shard in this process."""
    if not isinstance(parameter, DTensor):
        return shard
    gradient: torch.Tensor = DTensor.from_local(
        shard, parameter.device_mesh, parameter.placements, run_check=False,
        shape=parameter.shape, stride=parameter.stride(),
    )  # fmt: skip
    return gradient


def _is_sharded(model: torch.nn.Module) -> bool:
    return isinstance(getattr(model, "_orig_mod", model), FSDPModule)


def _modules(model: torch.nn.Module) -> Iterable[FSDPModule]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def _whole_node(parameter: torch.Tensor, processes: int) -> bool:
    if not isinstance(parameter, DTensor):
        return False
    mesh, placements = parameter.device_mesh, parameter.placements
    return mesh.ndim == 1 and mesh.size() == processes and type(placements[0]) is Shard


def _placed(parameter: torch.Tensor) -> str:
    if not isinstance(parameter, DTensor):
        return "a whole tensor"
    return f"{parameter.placements} over {parameter.device_mesh}"
