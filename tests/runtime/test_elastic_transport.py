"""What newcomers get: the state to the bit, and nothing that runs when it is read."""

from __future__ import annotations

import gc
import json
import os
import pickle
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from preloaded import PROCESSES

torch = pytest.importorskip("torch")
pytest.importorskip("torchft")

import torch.distributed as dist  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from torchft import ProcessGroupGloo, ProcessGroupNCCL  # noqa: E402

from trainwright_runtime.checkpoint import CheckpointError  # noqa: E402
from trainwright_runtime.coordination.channel import STATE, Channel, connect  # noqa: E402
from trainwright_runtime.coordination.server import Server  # noqa: E402
from trainwright_runtime.elastic.peers import FAILURES  # noqa: E402
from trainwright_runtime.elastic.transport import Received, Transport, pack  # noqa: E402

PATIENCE = timedelta(seconds=30)
LARGE = 32 * 1024 * 1024
"""More bytes than the buffers of a connection hold."""


@contextmanager
def _transports() -> Iterator[tuple[Transport, Transport]]:
    both = Transport("127.0.0.1", PATIENCE), Transport("127.0.0.1", PATIENCE)
    try:
        yield both
    finally:
        for transport in both:
            transport.close()


def _sent(state: dict[str, object]) -> dict[str, Any]:
    with _transports() as (source, target):
        source.offer(7, state)
        received = target.fetch(source.address, 7)
        return {name: received.pop(name) for name in list(received)}


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
    assert torch.equal(received["model"]["weight"], model.weight)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.5, dtype=torch.bfloat16),
        torch.tensor([True, False]),
        torch.empty(0, 3, dtype=torch.int64),
        torch.arange(24.0).reshape(2, 3, 4),
        torch.arange(24.0).reshape(4, 6).t(),
        torch.arange(24.0)[4:20:2],
        torch.tensor([1 + 2j]),
        torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.ones(2, 1).expand(2, 3),
        torch.arange(3 * 1024 * 1024).to(torch.uint8),
    ],
    ids=[
        "no dimension",
        "bool",
        "empty",
        "3 dimensions",
        "transposed",
        "of another",
        "complex",
        "channels last",
        "expanded",
        "several chunks",
    ],
)
def test_a_tensor_of_any_layout_arrives(tensor: torch.Tensor) -> None:
    received = _sent({"all": {"tensor": tensor}})["all"]["tensor"]
    assert torch.equal(received, tensor)
    assert received.dtype == tensor.dtype
    assert received.is_contiguous() == tensor.is_contiguous() or not _dense(tensor)
    if _dense(tensor):  # fused optimizers need the strides of the parameter
        assert received.stride() == tensor.stride()
    received.zero_()  # it is the newcomer's own


def _dense(tensor: torch.Tensor) -> bool:
    return tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()


def test_of_a_sharded_state_the_shards_arrive(tmp_path: Path) -> None:
    dist.init_process_group("gloo", f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        model = fully_shard(torch.nn.Linear(3, 2))
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        state = {"model": dict(model.state_dict()), "optimizer": optimizer.state_dict()}
        parts = pack(state)
        for part in parts.values():
            assert not any(isinstance(value, DTensor) for value in part.tensors.values())
        received = dict(Received(parts, model.weight.device_mesh))
        assert str(received) == str(state)
        assert isinstance(received["optimizer"]["state"][0]["exp_avg"], DTensor)
        with pytest.raises(CheckpointError, match="'/model/weight' of the state is a DTensor of"):
            Received(parts)
    finally:
        dist.destroy_process_group()


def test_a_sparse_tensor_is_refused_by_its_name() -> None:
    with pytest.raises(CheckpointError, match=r"'/model/graph' of the state .*sparse_coo"):
        pack({"model": {"graph": torch.eye(2).to_sparse()}})


def test_a_part_is_made_when_it_is_taken_and_let_go_of_with_it() -> None:
    """A newcomer needs memory for the state and one part of it, not for two or three states."""
    with _transports() as (source, target):
        source.offer(7, {name: {"tensor": torch.ones(3)} for name in "ab"})
        received = target.fetch(source.address, 7)
        held = {name: weakref.ref(received.data[name].tensors[f"/{name}/tensor"]) for name in "ab"}
        taken = received.pop("a")
        assert taken["tensor"] is held["a"]()  # not copied once more
        del taken
        gc.collect()
        assert held["a"]() is None
        assert held["b"]() is not None


# --- what ends a transfer ------------------------------------------------------------------------


class Bomb:
    def __init__(self, sign: Path) -> None:
        self._sign = sign

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._sign),)


def test_what_would_run_code_is_refused(tmp_path: Path) -> None:
    bomb = pickle.dumps({"values": Bomb(tmp_path / "sign"), "tensors": {}})
    with _transports() as (_, target), _server(bomb) as address, pytest.raises(FAILURES):
        target.fetch(address, 7)
    assert not (tmp_path / "sign").exists()


@pytest.mark.parametrize(
    "parts",
    [
        b"[]",
        b"3",
        b'{"a": 1}',
        b'{"a": {"values": 1, "shards": {}, "tensors": {"x": ["Tensor", [1], [0]]}}}',
        b'{"a": {"values": 1, "shards": {}, "tensors": {"x": ["float", [1], ["a"]]}}}',
    ],
)
def test_what_is_not_a_state_is_refused(parts: bytes) -> None:
    header = b'{"parts": ' + parts + b"}"
    refused = pytest.raises(CheckpointError, match="is not a state")
    with _transports() as (_, target), _server(header) as address, refused:
        target.fetch(address, 7)


def test_a_transfer_that_is_cut_anywhere_is_a_lost_sender() -> None:
    """A killed sender, whose newcomer is to try again with another one."""
    with _transports() as (source, target):
        source.offer(7, {"a": {"x": torch.arange(50.0), "y": [1, "z"]}, "b": torch.ones(3)})
        header, data = _answer(source.address)
        for length in range(len(data)):
            with _server(header, data[:length]) as address, pytest.raises(FAILURES):
                target.fetch(address, 7)
        with _server(header, data) as address:
            assert set(target.fetch(address, 7)) == {"a", "b"}


def _answer(address: str) -> tuple[bytes, bytes]:
    """The header, and what follows it."""
    with closing(connect(address, STATE, 10)) as channel:
        channel.write({"step": 7})
        header = channel.read()
        data = bytearray()
        while size := channel.readinto(memoryview(buffer := bytearray(65536))):
            data += buffer[:size]
        return json.dumps(header).encode(), bytes(data)


@contextmanager
def _server(header: bytes, data: bytes = b"") -> Iterator[str]:
    """The address of a process of the run that gives this answer, and ends the connection."""

    def serve(channel: Channel) -> None:
        channel.read()
        channel.write_encoded(header)
        channel.connection.sendall(data)

    with closing(Server(["127.0.0.1"], 0, STATE, serve)) as server:
        yield f"127.0.0.1:{server.port}"


def _serve(sender: Connection) -> None:
    transport = Transport("127.0.0.1", PATIENCE)
    transport.offer(7, {"model": {"weight": torch.zeros(LARGE, dtype=torch.uint8)}})
    sender.send(transport.address)
    sender.recv()


@pytest.mark.slow
def test_a_sender_that_is_killed_is_a_lost_sender() -> None:
    ours, theirs = PROCESSES.Pipe()
    sender = PROCESSES.Process(target=_serve, args=(theirs,))
    sender.start()
    assert sender.pid is not None
    pid = sender.pid
    with _transports() as (_, target), pytest.raises(FAILURES):
        target.fetch(ours.recv(), 7, lambda: os.kill(pid, signal.SIGKILL))
    sender.join()


def test_another_step_is_not_served() -> None:
    with _transports() as (source, target):
        source._offer._patience = 0.01
        source.offer(8, {"a": 1})
        with pytest.raises(ConnectionError, match="serves no state of step 7"):
            target.fetch(source.address, 7)


def test_a_state_may_be_empty() -> None:
    with _transports() as (source, target):
        source._offer._patience = 0.01
        source.offer(7, {})
        assert dict(target.fetch(source.address, 7)) == {}


def test_a_newcomer_waits_for_the_offer() -> None:
    with _transports() as (source, target):
        threading.Timer(0.05, source.offer, (7, {"a": 1})).start()
        assert target.fetch(source.address, 7).pop("a") == 1


def test_a_newcomer_that_leaves_is_noticed() -> None:
    def leave() -> None:
        raise ZeroDivisionError

    with _transports() as (source, target):
        source.offer(7, {"model": {"weight": torch.zeros(LARGE, dtype=torch.uint8)}})
        with pytest.raises(ZeroDivisionError):
            target.fetch(source.address, 7, leave)
        deadline = time.monotonic() + 60
        while not source.interrupted:
            assert time.monotonic() < deadline
        source.withdraw()
        assert not source.interrupted


def test_who_still_reads_does_not_keep_the_sender_from_its_step() -> None:
    """The sender would wait, and fail, and the state would change while it is read."""
    tensor = torch.zeros(LARGE, dtype=torch.uint8)
    freed = threading.Event()
    weakref.finalize(tensor, freed.set)
    with _transports() as (source, target):
        source.offer(7, {"model": {"weight": tensor}})
        del tensor
        withdrawn = threading.Event()

        def withdraw() -> None:
            if not withdrawn.is_set():
                source.withdraw()
                withdrawn.set()

        with pytest.raises(ConnectionError, match="did not send all of its state"):
            target.fetch(source.address, 7, withdraw)
        assert not source.interrupted  # what is not served any more is not waited for
        gc.collect()
        assert freed.wait(60)  # nothing keeps a state that may not be read any more
        source.offer(8, {"a": 1})
        assert target.fetch(source.address, 8).pop("a") == 1


def test_the_names_of_torchft_that_are_not_public_are_there() -> None:
    """A new version of torchft fails here first."""
    for group in (ProcessGroupGloo, ProcessGroupNCCL):
        assert {"_create_pg", "abort", "errored"} <= set(dir(group))
    assert {"_pg", "_quorum_id", "_rank", "_global_ranks"} <= set(vars(ProcessGroupGloo(PATIENCE)))
