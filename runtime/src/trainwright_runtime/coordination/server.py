"""A server of this run, whose clients prove that they belong to it before anything else is read.

One thread handles all clients that have not proved it yet, and reads 64 bytes from each. Their
number is limited: if more come, the oldest is refused. Processes of this run need milliseconds, so
slow senders are in no one's way. The same thread watches idle connections.
"""

from __future__ import annotations

import errno
import hmac
import logging
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from trainwright_runtime.coordination.addresses import family
from trainwright_runtime.coordination.channel import (
    HELLO,
    NONCE,
    PROOF,
    Channel,
    Handshake,
)
from trainwright_runtime.coordination.identity import Identity

log = logging.getLogger(__name__)

PENDING = 128
"""Connections that may wait to prove to be of this run."""
PATIENCE = 10.0
"""Seconds for the proof."""
_BACKLOG = 1024
_NO_MORE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)  # accept(2)
_REPORTED = 64  # addresses of which a refusal is logged
_PAUSE = 1.0  # seconds without descriptors before another attempt, unless a connection ends
_END, _ENDED, _IDLE = b"e", b"c", b"r"  # the server is to close; a connection has ended, or is idle
_WAKE = 0.5  # seconds between two looks for those whose time is over


Service = Generator[float | None, bool | None, None]
"""How a channel is served. It yields when it is idle, with the seconds of silence that are too
many, or None for any number. After each such silence the server's thread sends it True;
once there is something to read, it is sent None in a thread of its own."""


@dataclass(slots=True, eq=False)
class _Idle:
    """A connection without a message to read, and the service that goes on with the next one."""

    channel: Channel
    service: Service
    patience: float | None
    until: float = 0.0
    """When its patience ends, on the monotonic clock."""


@dataclass(slots=True, eq=False)
class _Client:
    """A connection whose client has not proved yet that it belongs to this run."""

    connection: socket.socket
    address: str
    nonce: bytes = field(default_factory=lambda: secrets.token_bytes(NONCE))
    since: float = field(default_factory=time.monotonic)
    received: bytes = b""


class Server:
    """Listens at a port of these addresses, and gives each channel to `serve`, in a thread."""

    def __init__(
        self,
        addresses: Iterable[str],
        port: int,
        label: bytes,
        serve: Callable[[Channel], Service | None],
    ) -> None:
        """`serve` is called with each new channel, and the service it returns, if any, is run.

        `port` may be 0 for any free one. Raise OSError if the port is not free.
        """
        self._label, self._serve = label, serve
        self._identity = Identity.of(os.environ)
        self._selector = selectors.DefaultSelector()
        self._clients: dict[_Client, None] = {}  # longest waiting first
        self._idle: set[_Idle] = set()
        self._timers: dict[_Idle, None] = {}  # longest silent first
        self._new_idle: list[_Idle] = []
        self._closed = False
        self._refused: set[str] = set()
        self._listeners: list[socket.socket] = []
        self._connections = 0
        self._full_until = 0.0  # there are no descriptors, or threads, for one more connection
        self._full = False
        self._changed = threading.Condition()
        try:
            for address in addresses:
                self._listeners.append(listener(address, port))
                port = port or self.port
        except OSError:
            self._end()
            raise
        self._woken, self._wake = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._listen()
        self._thread = threading.Thread(target=self._run, daemon=True, name="server")
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._listeners[0].getsockname()[1])

    def close(self) -> None:
        with suppress(OSError):
            self._wake.send(_END)
        self._thread.join()
        self._wake.close()
        self._woken.close()

    def wait_until_disconnected(self, seconds: float) -> bool:
        """Wait until all served connections have ended; return False if they have not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._connections, seconds)

    def _run(self) -> None:
        """Handle connections and timers in this server's own thread until it is closed."""
        while True:
            for key, _ in self._selector.select(_WAKE):
                if key.fileobj is self._woken:
                    received = self._woken.recv(_BACKLOG)
                    if _END in received:
                        self._end()
                        return
                    if _ENDED in received:
                        self._full_until = 0.0
                    self._register_idle()
                elif key.data is None:
                    self._accept(key.fileobj)
                elif isinstance(key.data, _Idle):
                    self._forget_idle(key.data)
                    self._start_service(key.data.channel, key.data.service)
                else:
                    self._receive(key.data)
            if self._full and time.monotonic() >= self._full_until:
                self._listen()
            late = time.monotonic() - PATIENCE
            for client in [each for each in self._clients if each.since < late]:
                self._refuse(client)
            self._resume_silent()

    def _listen(self) -> None:
        self._full = False
        for each in self._listeners:
            self._selector.register(each, selectors.EVENT_READ)

    def _stop_listening(self, why: str) -> None:
        """Pause accepting: pending connections would keep waking this thread for nothing."""
        if not self._full:
            log.error(
                "no connection more than the %d that are served: %s. Raise the limit of open "
                "files or threads of this process", self._connections, why,
            )  # fmt: skip
            for each in self._listeners:
                self._selector.unregister(each)
        self._full, self._full_until = True, time.monotonic() + _PAUSE

    def _accept(self, listener: object) -> None:
        """Accept a client, and send it the first part of the handshake."""
        assert isinstance(listener, socket.socket)
        if self._full:
            return
        try:
            connection, address = listener.accept()
        except OSError as error:
            if error.errno in _NO_MORE and not self._refuse_oldest(0):
                self._stop_listening(str(error))
            return  # else it is gone already
        connection.setblocking(False)
        client = _Client(connection, str(address[0]))
        self._refuse_oldest(PENDING)
        self._clients[client] = None
        self._selector.register(connection, selectors.EVENT_READ, client)
        try:
            connection.send(HELLO + client.nonce)
        except OSError:
            self._forget(client).close()

    def _refuse_oldest(self, most: int) -> bool:
        """Refuse the oldest client if there are `most` or more; return whether one was refused."""
        if len(self._clients) < max(most, 1):
            return False
        self._refuse(next(iter(self._clients)))
        return True

    def _receive(self, client: _Client) -> None:
        """Read more of a client's part of the handshake, and authenticate it once all is there."""
        if client not in self._clients:  # it had to go for another one
            return
        try:
            more = client.connection.recv(NONCE + PROOF - len(client.received))
        except BlockingIOError:
            return
        except OSError:
            more = b""
        client.received += more
        if not more:
            self._forget(client).close()  # a probe of the port, or a client that gave up
        elif len(client.received) == NONCE + PROOF:
            self._authenticate(client)

    def _authenticate(self, client: _Client) -> None:
        """Start to serve a client whose proof is right, and refuse it otherwise."""
        nonce, proof = client.received[:NONCE], client.received[NONCE:]
        handshake = Handshake(self._identity, self._label, client.nonce, nonce)
        if not hmac.compare_digest(proof, handshake.proof(b"client")):
            self._refuse(client)
            return
        connection = self._forget(client)
        try:
            connection.send(handshake.proof(b"server"))  # fits into the buffer of a new connection
            connection.setblocking(True)
            channel = Channel(connection, handshake, serves=True)
        except OSError:
            connection.close()
            return
        with self._changed:
            self._connections += 1
        self._start_service(channel, None)

    def _start_service(self, channel: Channel, service: Service | None) -> None:
        """Start or resume the service of a channel in a new thread."""
        arguments = (channel, service)
        try:
            threading.Thread(target=self._run_service, args=arguments, daemon=True).start()
        except RuntimeError as error:  # a limit of threads: see `start_new_thread`
            if service is not None:
                service.close()
            self._close(channel)
            self._stop_listening(str(error))

    def _run_service(self, channel: Channel, service: Service | None) -> None:
        """Run a service until it ends or is idle; then close its channel or hand it over."""
        handed_over = False
        try:
            service = service or self._serve(channel)
            if service is not None:
                handed_over = self._hand_over(_Idle(channel, service, service.send(None)))
        except StopIteration:
            pass
        finally:
            if not handed_over:
                self._close(channel)
                if self._full:
                    with suppress(OSError):
                        self._wake.send(_ENDED)

    def _hand_over(self, idle: _Idle) -> bool:
        """Hand an idle connection to the server's thread; return False if the server is closed."""
        with self._changed:
            closed, asleep = self._closed, not self._new_idle
            if not closed:
                self._new_idle.append(idle)
        if closed:
            idle.service.close()
        elif asleep:
            with suppress(OSError):
                self._wake.send(_IDLE)
        return not closed

    def _register_idle(self) -> None:
        with self._changed:
            new_idle, self._new_idle = self._new_idle, []
        for idle in new_idle:
            self._idle.add(idle)
            self._start_timer(idle)
            self._selector.register(idle.channel.connection, selectors.EVENT_READ, idle)

    def _start_timer(self, idle: _Idle) -> None:
        if idle.patience is not None:
            idle.until = time.monotonic() + idle.patience
            self._timers[idle] = None

    def _forget_idle(self, idle: _Idle) -> None:
        self._idle.remove(idle)
        self._timers.pop(idle, None)
        self._selector.unregister(idle.channel.connection)

    def _resume_silent(self) -> None:
        """Resume each service whose channel was silent for too long, the longest silent first: all
        have about the same patience.
        """
        now = time.monotonic()
        while (first := next(iter(self._timers), None)) is not None and first.until <= now:
            del self._timers[first]
            try:
                first.patience = first.service.send(True)
            except StopIteration:
                self._forget_idle(first)
                self._close(first.channel)
            else:
                self._start_timer(first)

    def _close(self, channel: Channel) -> None:
        channel.close()
        with self._changed:
            self._connections -= 1
            self._changed.notify_all()

    def _refuse(self, client: _Client) -> None:
        """Close the connection of a client; log the first refusal of each address."""
        if client.address not in self._refused and len(self._refused) < _REPORTED:
            self._refused.add(client.address)
            log.warning(
                "refused a connection from %s, which did not prove to be of %s: another run, "
                "another key or a stranger", client.address, self._identity,
            )  # fmt: skip
        self._forget(client).close()

    def _forget(self, client: _Client) -> socket.socket:
        del self._clients[client]
        self._selector.unregister(client.connection)
        return client.connection

    def _end(self) -> None:
        """Close all connections and listening sockets."""
        with self._changed:
            self._closed = True
            idle = [*self._idle, *self._new_idle]
        for each in idle:
            each.service.close()
            self._close(each.channel)
        for client in list(self._clients):
            self._forget(client).close()
        for listening in self._listeners:
            listening.close()
        self._selector.close()


def listener(address: str, port: int) -> socket.socket:
    """Return a non-blocking socket that listens only at this address and port. Raise OSError."""
    kind = family(address)
    listening = socket.socket(kind, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if kind == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address != "::")
        listening.bind((address, port))
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
