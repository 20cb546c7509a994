"""The state of a training on its way to a newcomer: tensors and JSON, which run no code."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import torch
from torchft.checkpointing._serialization import _streaming_load
from torchft.checkpointing.http_transport import HTTPTransport

from trainwright_runtime.checkpoint import tree
from trainwright_runtime.elastic.members import State


class Transport(HTTPTransport[State]):
    """Serves state under an address that peers can reach, where torchft gives a host name.

    torchft unpickles whatever the other side sends, which runs it:
    https://docs.python.org/3/library/pickle.html
    """

    def __init__(self, host: str, timeout: timedelta) -> None:
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

    @classmethod
    def _load_from_address(cls, address: str, timeout: timedelta) -> object:
        import urllib.request

        with urllib.request.urlopen(address, timeout=timeout.total_seconds()) as stream:  # noqa: S310
            return unpack(_streaming_load(stream, weights_only=True))


def pack(state: State) -> State:
    """A state as `torch.load(weights_only=True)` reads it."""
    tensors: dict[str, torch.Tensor] = {}
    values = tree.encode(state, "", tensors)
    return {"values": json.dumps(values), "tensors": tensors}


def unpack(packed: Any) -> State:
    """What was packed. Its tensors lie in what was received, and are to be copied."""
    state = tree.decode(json.loads(packed["values"]), packed["tensors"].__getitem__)
    assert isinstance(state, dict), "a state is a dict"
    return state


def _unlogged(handler: Any, message: str, *values: Any) -> None: ...
