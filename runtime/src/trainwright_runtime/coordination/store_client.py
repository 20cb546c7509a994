"""The client of a `StoreServer` of this run, as a torch store by which processes find each other.

Every client that reaches the port of torch's own TCPStore can list, read and change what is in it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import Store, TCPStore
from torch.distributed import DistNetworkError

from trainwright_runtime.coordination.addresses import own_addresses
from trainwright_runtime.coordination.channel import COORDINATOR, connected
from trainwright_runtime.coordination.server import listener

_SLACK = 5.0  # seconds for an answer, besides what was waited for


class StoreClient(Store):
    """A torch `Store` of the values of one group, on a `StoreServer`, for calls by any thread.

    Once the connection is lost, each call raises DistNetworkError, as torch's TCPStore does:
    torch's rendezvous handles no other error of a connection.
    """

    timeout: timedelta  # of the base class

    def __init__(
        self,
        address: str,
        group: str,
        patience: timedelta,
        *,
        label: bytes = COORDINATOR,
        life: str | None = None,
    ) -> None:
        """`life` identifies the coordinator process that formed the group; None if any will do.

        Raise OSError if no coordinator of this run answers, or another process than `life`.
        """
        super().__init__()
        self.set_timeout(patience)
        self._server: Any = {"label": label, "life": life}
        self._address, self._group = address, group
        self._lock = threading.Lock()
        self._channel, _ = connected(address, patience.total_seconds(), label=label, life=life)

    def close(self) -> None:
        self._channel.close()

    def set(self, key: str, value: bytes | str) -> None:
        self._request("set", key=key, value=_text(value))

    def get(self, key: str) -> bytes:
        return self._wait([key], self.timeout)[0]

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        self._wait(keys, self.timeout if timeout is None else timeout)

    def check(self, keys: list[str]) -> bool:
        return bool(self._request("check", keys=keys))

    def add(self, key: str, amount: int) -> int:
        return int(self._request("add", key=key, value=amount))

    def compare_set(self, key: str, expected: bytes | str, desired: bytes | str) -> bytes:
        texts = {"expected": _text(expected), "value": _text(desired)}
        return str(self._request("compare_set", key=key, **texts)).encode("latin-1")

    def delete_key(self, key: str) -> bool:
        return bool(self._request("delete", key=key))

    def clone(self) -> StoreClient:
        return StoreClient(self._address, self._group, self.timeout, **self._server)

    def _wait(self, keys: Sequence[str], timeout: timedelta) -> list[bytes]:
        seconds = timeout.total_seconds()
        values = self._request("get", seconds, keys=list(keys), seconds=seconds)
        if values is None:
            raise TimeoutError(f"the others left no {', '.join(keys)} within {seconds:g} s")
        return [value.encode("latin-1") for value in values]

    def _request(self, do: str, longer: float = 0.0, /, **more: Any) -> Any:
        """Return the server's reply, for which it may need some seconds `longer` than usual."""
        with self._lock:
            try:
                self._channel.connection.settimeout(longer + _SLACK)
                self._channel.write({"board": do, "group": self._group, **more})
                return self._channel.read()["value"]
            except (OSError, ValueError, KeyError) as error:
                self._channel.close()  # an answer that is late is not that of the next request
                raise DistNetworkError(f"no answer of {self._address}: {error}") from error


def _text(value: bytes | str) -> str:
    """Return a value as one character per byte; of a text its UTF-8, as torch's stores keep it."""
    return (value.encode() if isinstance(value, str) else bytes(value)).decode("latin-1")


def bound_store(host: str) -> TCPStore:
    """Return a TCPStore that listens only at the address by which others find this node (`host`).

    It is torch's own, for programs: it requires nothing of its clients.
    """
    for address in own_addresses(host):
        with suppress(OSError):
            if address in {info[4][0] for info in socket.getaddrinfo(host, None)}:
                bound = listener(address, 0)
                port = int(bound.getsockname()[1])
                return TCPStore(
                    address, port, is_master=True, wait_for_workers=False,
                    master_listen_fd=bound.detach(),
                )  # fmt: skip
    return TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
