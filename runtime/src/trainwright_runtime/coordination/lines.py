"""JSON objects, one per line, in both directions of a connection to the registry."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

PORTS = range(1, 9)
"""Above the coordinator's own port: the registry is at the first that is free."""

_LONGEST = 1 << 16


class Lines:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def write(self, message: Mapping[str, Any]) -> None:
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        """The next message.

        Raises OSError when the connection has ended, TimeoutError when nothing came in time, and
        ValueError for what is not a message.
        """
        while b"\n" not in self._rest:
            more = self.connection.recv(65536)
            if not more:
                raise ConnectionResetError("closed by the other side")
            self._rest += more
            if len(self._rest) > _LONGEST:
                raise ValueError("a line without an end")
        line, _, self._rest = self._rest.partition(b"\n")
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError("a line that is not a JSON object")
        return message

    def close(self) -> None:
        self.connection.close()


def connected(address: str, timeout: float) -> tuple[Lines, dict[str, Any]]:
    """The registry of the coordinator at "host:port", and what it reports of itself.

    It is at one of the ports above, and reports whose it is. Raises OSError where there is none.
    """
    host, _, port = address.rpartition(":")
    failure: Exception = ConnectionRefusedError(f"no registry above port {port}")
    for offset in PORTS:
        try:
            connection = socket.create_connection((host.strip("[]"), int(port) + offset), timeout)
        except ConnectionRefusedError as error:
            failure = error
            continue
        lines = Lines(connection)
        try:
            greeting = lines.read()
            if greeting["registry"] == int(port):
                return lines, greeting
        except (OSError, ValueError, KeyError, TypeError) as error:
            failure = error
        lines.close()
    raise ConnectionRefusedError(str(failure))
