"""Somebody on the network of a training who has no part in it: what they may send to its ports."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest import mock

from trainwright_runtime.coordination.channel import COORDINATOR, RENDEZVOUS, STATE, connect

_LISTEN = "0A"  # proc_pid_net(5)
_HELD = 40  # connections to each port that send nothing, or a byte

ENDING = [
    {"do": do, "worker": "x-1", "lineage": "99/x-1", "phase": phase, "sure": True, "first": "x-1"}
    for do, phase in (("enter", "holds"), ("complete", "complete"), ("finish", "leads"))
]
"""By which a registry that asks nobody who they are lets every worker end."""
OTHERS = [
    {"beat": "x-1"},
    {"board": "set", "group": "1", "key": "0/0", "value": "x"},
    {"quorum": {"replica_id": "x-1", "step": 10**6, "data": {"lineage": "99/x", "state": "x:1"}}},
    {"do": "vote", "candidate": 1, "process": "x", "number": 10**6, "finished": True},
    {"step": 1},
]


def ports(pid: int) -> Iterator[tuple[str, int]]:
    """Where a process listens."""
    inodes = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                inodes.add(str(descriptor.readlink()))
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and f"socket:[{fields[9]}]" in inodes:
                    host, _, port = fields[1].partition(":")
                    yield _address(host), int(port, 16)


def _address(host: str) -> str:
    words = [struct.pack("=I", int(host[at : at + 8], 16)) for at in range(0, len(host), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, b"".join(words))


@contextmanager
def attacking(places: Iterable[tuple[str, int]], seed: int = 0) -> Iterator[int]:
    """Send each port whatever a stranger can; some stay connected. How many ports took it."""
    with ExitStack() as held:
        taken = 0
        for host, port in places:
            taken += _attack(host, port, random.Random(seed), held)
        yield taken


def _attack(host: str, port: int, chance: random.Random, held: ExitStack) -> bool:
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    try:
        for text in _texts(chance):
            with socket.create_connection((target, port), 5) as connection:
                connection.settimeout(0.05)
                with suppress(OSError):
                    connection.sendall(text)
                    connection.recv(4096)
        for size in range(_HELD):
            connection = held.enter_context(socket.create_connection((target, port), 5))
            with suppress(OSError):
                connection.sendall(bytes(size % 2))
    except OSError:
        return False
    for label in (COORDINATOR, STATE, RENDEZVOUS):
        for key in ({}, {"TRAINWRIGHT_RUN_KEY": "another secret, long enough"}):
            _pretend(f"[{target}]:{port}" if ":" in target else f"{target}:{port}", label, key)
    return True


def _texts(chance: random.Random) -> Iterator[bytes]:
    lines = "".join(json.dumps(message) + "\n" for message in [*ENDING, *OTHERS]).encode()
    yield lines
    yield b"trainwright 1\n" + lines
    yield b"GET /0 HTTP/1.0\r\n\r\n"
    yield b"POST /replica/w0/kill HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(64)
    yield bytes(chance.randrange(256) for _ in range(4096))
    yield bytes(96)
    for number in range(4):  # of a gloo pair
        yield number.to_bytes(8, "little")


def _pretend(address: str, label: bytes, environ: Mapping[str, str]) -> None:
    """A process of this runtime with another key."""
    with mock.patch.dict(os.environ, environ), suppress(OSError, ValueError):
        channel = connect(address, label, 0.2)
        try:
            for message in [*ENDING, *OTHERS]:
                channel.write(message)
                channel.read()
        finally:
            channel.close()
        raise AssertionError(f"{address} let a stranger in")
