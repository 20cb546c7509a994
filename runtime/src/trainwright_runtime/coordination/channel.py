"""Connections between processes of one run: mutual authentication, then JSON messages with MACs.

    server  "trainwright 1\\n", 32 random bytes
    client  32 random bytes, MAC(key, "client", label, both of these)
    server  MAC(key, "server", label, both)
    both    4 bytes of length, 16 bytes of MAC(key of this connection and direction, number), JSON

Without the run's key no process can send a message that is accepted, nor can it replay messages
recorded from another connection, or earlier in this one. Nothing is encrypted. `server` is the
other side.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import select
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from trainwright_runtime.coordination.addresses import split
from trainwright_runtime.coordination.identity import Identity

HELLO = b"trainwright 1\n"
NONCE = 32  # bytes
PROOF = hashlib.sha256().digest_size
COORDINATOR, STATE, RENDEZVOUS, RAY = b"coordinator", b"state", b"rendezvous", b"ray"
"""Labels: what is proved for one kind of port proves nothing at another."""

_TAG, _SIZE, _NUMBER = 16, 4, 8  # bytes
LONGEST = 1 << 28
"""Maximum bytes of a message, which only a process of the run can send."""
LONGEST_REQUEST = 1 << 22
"""Maximum bytes of one to a port, which thousands of workers connect to. 10,000 names fit."""
_PROBES = 3
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Handshake:
    """The data with which each side proves that it knows the key."""

    identity: Identity
    label: bytes
    server: bytes
    """The server's random bytes."""
    client: bytes

    def proof(self, side: bytes) -> bytes:
        """Return the MAC by which `side` proves that it knows the key.
        Fields have fixed lengths except the label, and no label is a prefix of another."""
        return self.identity.mac(side, b" ", self.label, b" ", self.server, self.client)


class Channel:
    """Messages over a connection whose other side has proved that it belongs to this run."""

    def __init__(self, connection: socket.socket, handshake: Handshake, *, serves: bool) -> None:
        self.connection = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.keep_alive(idle=30, interval=10)
        self._longest = LONGEST_REQUEST if serves else LONGEST
        keys = handshake.proof(b"to the server"), handshake.proof(b"to the client")
        self._reads, self._writes = keys if serves else keys[::-1]
        self._read = self._written = 0
        self._rest = bytearray()

    def keep_alive(self, *, idle: int, interval: int) -> None:
        """Enable TCP keepalive: the connection ends once the peer's machine has not responded for
        `idle` + 3 * `interval` seconds, which is a minute unless this is called again.
        """
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        seconds = {"TCP_KEEPIDLE": idle, "TCP_KEEPINTVL": interval, "TCP_KEEPCNT": _PROBES}
        for name, value in seconds.items():
            if hasattr(socket, name):  # not on macOS, where jobs are rehearsed
                self.connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def readable(self, within: float = 0.0) -> bool:
        """Whether a message, or the end of the connection, comes within so many seconds."""
        waiting = select.poll()  # select() knows no descriptor above 1,023
        waiting.register(self.connection, select.POLLIN)
        return bool(self._rest or waiting.poll(within * 1000))

    def write(self, message: Mapping[str, Any]) -> None:
        self.write_encoded(json.dumps(message).encode())

    def write_encoded(self, text: bytes) -> None:
        tag = _tag(self._writes, self._written, text)
        self._written += 1
        self.connection.sendall(len(text).to_bytes(_SIZE, "big") + tag + text)

    def read(self) -> dict[str, Any]:
        """Return the next message.

        Raise OSError if the connection has ended, TimeoutError if nothing came in time (nothing
        is lost then), and ValueError for anything that is not a message of the other side.
        """
        self._fill(_SIZE + _TAG)
        size = int.from_bytes(self._rest[:_SIZE], "big")
        if size > self._longest:
            raise ValueError(f"a message of {size} bytes")
        self._fill(_SIZE + _TAG + size)
        tag, text = (
            bytes(self._rest[_SIZE : _SIZE + _TAG]),
            bytes(self._rest[_SIZE + _TAG : _SIZE + _TAG + size]),
        )
        del self._rest[: _SIZE + _TAG + size]
        if not hmac.compare_digest(tag, _tag(self._reads, self._read, text)):
            raise ValueError("a message that the other side did not send")
        self._read += 1
        message = json.loads(text)
        if not isinstance(message, dict):
            raise ValueError("a message that is not a JSON object")
        return message

    def readinto(self, buffer: memoryview) -> int:
        """Read bytes that are not a message; return how many, 0 at the end of the connection."""
        if not self._rest:
            return self.connection.recv_into(buffer)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        del self._rest[:size]
        return size

    def close(self) -> None:
        with suppress(OSError):
            self.connection.close()

    def _fill(self, size: int) -> None:
        while len(self._rest) < size:
            more = self.connection.recv(_CHUNK)
            if not more:
                raise ConnectionResetError("closed by the other side")
            self._rest += more


def _tag(key: bytes, number: int, text: bytes) -> bytes:
    return hmac.digest(key, number.to_bytes(_NUMBER, "big") + text, hashlib.sha256)[:_TAG]


def connect(address: str, label: bytes, timeout: float) -> Channel:
    """Return a channel to the process of this run that listens at "host:port".

    Raise OSError if there is none within `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    connection = socket.create_connection(split(address), timeout)
    try:
        handshake = _perform_handshake(connection, label, deadline)
    except BaseException:
        connection.close()
        raise
    connection.settimeout(timeout)
    return Channel(connection, handshake, serves=False)


def connected(
    address: str, timeout: float, *, label: bytes = COORDINATOR, life: str | None = None
) -> tuple[Channel, dict[str, Any]]:
    """Return a channel to the coordinator, or to a candidate for it, and its greeting.

    `life` identifies its process; None if any will do. Raise OSError if there is none.
    """
    channel = connect(address, label, timeout)
    try:
        greeting = channel.read()
        if life not in (None, greeting.get("life")):
            raise ConnectionResetError("the coordinator is another one now")
    except ValueError as error:
        channel.close()
        raise ConnectionRefusedError(str(error)) from error
    except BaseException:
        channel.close()
        raise
    return channel, greeting


def _perform_handshake(connection: socket.socket, label: bytes, deadline: float) -> Handshake:
    """Perform the client's side of the handshake; return its data.

    Raise ConnectionRefusedError if the server does not belong to this run.
    """
    identity = Identity.of(os.environ)
    hello = _received(connection, len(HELLO) + NONCE, deadline, HELLO)
    handshake = Handshake(identity, label, hello[len(HELLO) :], secrets.token_bytes(NONCE))
    connection.sendall(handshake.client + handshake.proof(b"client"))
    refusal = (
        f"{connection.getpeername()[0]} is not of {identity}, or has another key: all processes "
        "need the same TRAINWRIGHT_RUN, TRAINWRIGHT_ATTEMPT and TRAINWRIGHT_RUN_KEY"
    )
    try:
        proof = _received(connection, PROOF, deadline)
    except ConnectionError:
        raise ConnectionRefusedError(refusal) from None
    if not hmac.compare_digest(proof, handshake.proof(b"server")):
        raise ConnectionRefusedError(refusal)
    return handshake


def _received(connection: socket.socket, size: int, deadline: float, begins: bytes = b"") -> bytes:
    """Return exactly `size` bytes, however slowly they come. Raise TimeoutError at the deadline."""
    received = b""
    while len(received) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no handshake in time")
        connection.settimeout(left)
        more = connection.recv(size - len(received))
        if not more:
            raise ConnectionResetError("closed by the other side")
        received += more
        if not received.startswith(begins[: len(received)]):
            raise ConnectionRefusedError("what listens there is no process of this runtime")
    return received
