"""How the nodes of a Ray cluster meet and end together: each other node connects to node 0.

    another node  {"node": 1, "name": "grpo-1f0c-node-0-1"}
    node 0        {"port": 41235}  Ray's, once all are there
    another node  {"signal": 15}   it is to stop, and stays until the program has ended
    node 0        {"exit": 143}    the program has

A node whose connection ends before that is lost.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from trainwright_runtime.coordination.addresses import own_addresses
from trainwright_runtime.coordination.channel import RAY, Channel, connect
from trainwright_runtime.coordination.server import Server
from trainwright_runtime.failures import errors
from trainwright_runtime.launch.launchers import Placement
from trainwright_runtime.launch.processes import Events, Failed, Finished, Signalled
from trainwright_runtime.launch.rendezvous import keep_trying
from trainwright_runtime.observe import logs

_log = logging.getLogger(f"{logs.ROOT}.entrypoint")

_LOOPBACK = "127.0.0.1"
_CONNECT = 10.0  # seconds for one attempt
_REMIND = 30.0  # seconds between lines about waiting still
_LEAVE = 15.0  # seconds for the others to stop Ray, before node 0 does

# Seconds: a peer that is gone without a word, as behind a broken network, is lost after 30.
_IDLE, _INTERVAL = 15, 5


class Gang:
    """Node 0's side: which other nodes are connected, and the messages to them."""

    def __init__(self, placement: Placement, nodes: int, events: Events) -> None:
        self._placement, self._nodes, self._events = placement, nodes, events
        self._members: dict[int, tuple[str, Channel]] = {}
        self._changed = threading.Condition()
        self._formed = self._ended = False
        self._server = self._opened() if nodes > 1 else None

    def _opened(self) -> Server:
        placement = self._placement
        try:
            return Server(
                own_addresses(placement.master_addr), placement.master_port, RAY, self._serve
            )
        except OSError as error:
            taken = f"port {placement.master_port} of this node: {error.strerror}"
            raise errors.Unreachable(taken) from error

    @property
    def address(self) -> str:
        """The address at which the others have reached this node."""
        sockets = [channel.connection for _, channel in self._members.values()]
        return str(sockets[0].getsockname()[0]) if sockets else _LOOPBACK

    @property
    def names(self) -> list[str]:
        """The names of all nodes, in order."""
        return [self._placement.node, *(self._members[node][0] for node in sorted(self._members))]

    def wait(self, timeout: float) -> None:
        """Wait for all nodes. Raise Unreachable, naming the missing ones, if not in time."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while missing := self._missing():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise errors.Unreachable(
                        f"of {self._nodes} nodes {missing} did not come within {timeout:g} s "
                        "(--rendezvous-timeout): are their pods there?"
                    )
                if not self._changed.wait(min(left, _REMIND)):
                    _log.info("still waiting for %s of %d nodes", missing, self._nodes)
            self._formed = True

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message to all other nodes; those that are gone are left out."""
        with self._changed:
            for _, channel in self._members.values():
                with suppress(OSError):
                    channel.write(message)

    def end(self, code: int) -> None:
        """Have the others end with this exit code, and wait until they have stopped Ray."""
        self._ended = True
        self.send({"exit": code})
        if self._server:
            self._server.wait_until_disconnected(_LEAVE)

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        try:
            yield
        except errors.RuntimeFailure as error:
            self.end(error.exit_code)
            raise

    def close(self) -> None:
        if self._server:
            self._server.close()

    def _missing(self) -> str:
        names = dict(enumerate(self._placement.names))
        missing = [node for node in range(1, self._nodes) if node not in self._members]
        return ", ".join(
            f"{node} ({names[node]})" if node in names else str(node) for node in missing
        )

    def _serve(self, channel: Channel) -> None:
        """Serve a connection until it ends; anything but a node's message ends it, too."""
        channel.keep_alive(idle=_IDLE, interval=_INTERVAL)
        with suppress(OSError, ValueError, KeyError, TypeError):
            greeting = channel.read()
            node, name = int(greeting["node"]), str(greeting["name"])
            if not self._entered(node, name, channel):
                return
            try:
                while True:
                    self._events.put(Signalled(int(channel.read()["signal"])))
            finally:
                self._left(node, name, channel)

    def _entered(self, node: int, name: str, channel: Channel) -> bool:
        """Note that a node has connected; return False if it is not expected."""
        with self._changed:
            # A container that was started again takes the place of its predecessor.
            if self._formed or not 0 < node < self._nodes:
                return False
            self._members[node] = (name, channel)
            self._changed.notify_all()
        return True

    def _left(self, node: int, name: str, channel: Channel) -> None:
        """Note that a node's connection has ended, which is a failure while the program runs."""
        with self._changed:
            if self._members.get(node, ("", None))[1] is not channel:
                return
            if self._formed and not self._ended:
                lost = f"node {node} ({name}) was lost: its connection ended"
                self._events.put(Failed(errors.PeerLost(lost)))
            del self._members[node]


def join(placement: Placement, timeout: float) -> tuple[Channel, int]:
    """Return the connection to node 0, and Ray's port, once all nodes are there.

    After an error it is tried again: another container may come in node 0's place.
    """
    address = f"{placement.master_addr}:{placement.master_port}"
    deadline = time.monotonic() + timeout
    return keep_trying(address, timeout, partial(_joined, placement, address, deadline))


def _joined(placement: Placement, address: str, deadline: float) -> tuple[Channel, int]:
    """Return the connection to node 0, and Ray's port, in one attempt."""
    channel = connect(address, RAY, max(1.0, min(_CONNECT, deadline - time.monotonic())))
    try:
        channel.keep_alive(idle=_IDLE, interval=_INTERVAL)
        channel.connection.settimeout(None)  # node 0 has a bound of its own
        channel.write({"node": placement.node_rank, "name": placement.node})
        answer = channel.read()
        if "exit" in answer:
            raise errors.Unreachable("node 0 gave up before all nodes were there: see its log")
        return channel, int(answer["port"])
    except BaseException:
        channel.close()
        raise


def listen(channel: Channel, events: Events) -> None:
    """Wait for node 0's exit code, and put it, or the loss of node 0, on the queue."""
    try:
        events.put(Finished(int(channel.read()["exit"])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        events.put(Failed(errors.PeerLost(f"node 0 was lost: {error}")))


def send_signal(channel: Channel, number: int) -> None:
    with suppress(OSError):
        channel.write({"signal": number})
