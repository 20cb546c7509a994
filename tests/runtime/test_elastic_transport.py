"""What newcomers get: the state to the bit, and nothing that runs when it is read."""

from __future__ import annotations

import os
import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchft")

import torch.distributed as dist  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from torchft.checkpointing import http_transport  # noqa: E402
from torchft.coordination import LighthouseClient, ManagerServer  # noqa: E402

from trainwright_runtime import coordinator  # noqa: E402
from trainwright_runtime.checkpoint import CheckpointError  # noqa: E402
from trainwright_runtime.elastic.transport import Transport, pack, unpack  # noqa: E402

PATIENCE = timedelta(seconds=30)


def _sent(state: dict[str, object]) -> dict[str, object]:
    source, target = Transport("127.0.0.1", PATIENCE), Transport("127.0.0.1", PATIENCE)
    try:
        source.send_checkpoint([1], 7, state, PATIENCE)
        received: dict[str, object] = target.recv_checkpoint(0, source.metadata(), 7, PATIENCE)
        return received
    finally:
        for transport in (source, target):
            transport.disallow_checkpoint()
            transport.shutdown()


# As in a worker: the training copies what it is given.
@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_a_state_arrives_to_the_bit() -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = {
        "model": dict(model.state_dict()),
        "optimizer": optimizer.state_dict(),
        "progress": {"step": 7, "lineage": "ab", "sums": {"train": [0.5]}, "tuple": (1, None)},
    }
    received = _sent(state)
    assert str(received) == str(state)
    assert torch.equal(received["model"]["weight"], model.weight)  # type: ignore[index]


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_of_a_sharded_state_the_shards_arrive(tmp_path: Path) -> None:
    dist.init_process_group("gloo", f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        model = fully_shard(torch.nn.Linear(3, 2))
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        packed = pack(state)
        assert not any(isinstance(value, DTensor) for value in packed["tensors"].values())
        received = unpack(packed, model.weight.device_mesh)
        assert str(received) == str(_plain(state))
        assert isinstance(received["optimizer"]["state"][0]["exp_avg"], DTensor)
        with pytest.raises(CheckpointError, match="'/model/weight' of the state is a DTensor of"):
            unpack(packed)
    finally:
        dist.destroy_process_group()


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    return {name: dict(part) for name, part in state.items()}


class Bomb:
    def __init__(self, sign: Path) -> None:
        self._sign = sign

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._sign),)


def test_what_would_run_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = Bomb(tmp_path / "sign")
    monkeypatch.setattr(
        "trainwright_runtime.elastic.transport.pack", lambda state: {"values": bomb, "tensors": {}}
    )
    with pytest.raises(pickle.UnpicklingError):
        _sent({})
    assert not (tmp_path / "sign").exists()


def test_a_packed_state_is_json_and_tensors() -> None:
    packed = pack({"a": torch.ones(2), "b": [1, "x"]})
    assert isinstance(packed["values"], str)
    assert all(isinstance(value, torch.Tensor) for value in packed["tensors"].values())
    assert unpack(packed)["b"] == [1, "x"]


def test_the_names_of_torchft_that_are_not_public_are_there() -> None:
    """A new version of torchft fails here first."""
    from torchft.checkpointing._serialization import _streaming_load, _streaming_save

    assert callable(_streaming_load)
    assert callable(_streaming_save)
    assert isinstance(http_transport.HTTPTransport._load_from_address, object)
    assert {"quorum", "heartbeat"} <= set(dir(LighthouseClient))
    assert {"address", "shutdown"} <= set(dir(ManagerServer))
    lighthouse = coordinator._lighthouse(bind="[::]:0", min_replicas=1)
    assert type(lighthouse).__module__ != "torchft.coordination"  # torch is not imported for it
    lighthouse.shutdown()
