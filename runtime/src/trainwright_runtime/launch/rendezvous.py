"""Waiting until the address where the nodes meet can be resolved and answers."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from trainwright_runtime.failures.errors import Unreachable

T = TypeVar("T")

_log = logging.getLogger(__name__)

_PAUSE = 0.5  # seconds between attempts
_CONNECT = 5.0  # seconds for one attempt to connect
_REMIND = 30.0  # seconds between lines about waiting still


def wait_for(addresses: Sequence[tuple[str, int]], timeout: float) -> None:
    """Return once one of them accepts a connection; raise Unreachable after `timeout` seconds.

    Never called on the node that has the address: nothing listens there before its process starts.
    """
    names = " or ".join(f"{host}:{port}" for host, port in addresses)
    keep_trying(names, timeout, partial(_try_all, addresses))


def keep_trying(names: str, timeout: float, attempt: Callable[[], T]) -> T:
    """Return the result of the first `attempt` without an error to reach what has these names.

    Raise Unreachable after `timeout` seconds.
    """
    began = time.monotonic()
    remind = began + _REMIND
    while True:
        try:
            return attempt()
        except (OSError, ValueError, KeyError) as error:
            problem = error
        now = time.monotonic()
        if now - began >= timeout:
            raise Unreachable(
                f"{names} did not appear within {timeout:g} s (--rendezvous-timeout): {problem}"
            )
        if now >= remind:
            _log.info("still waiting for %s: %s", names, problem)
            remind = now + _REMIND
        time.sleep(max(0.0, min(_PAUSE, began + timeout - now)))


def resolve(host: str, timeout: float) -> str | None:
    """Wait until a name resolves. Return None, or what is wrong after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            socket.getaddrinfo(host, None)
        except OSError as error:
            if time.monotonic() >= deadline:
                return _unresolved(host, error)
            time.sleep(_PAUSE)
        else:
            return None


def _unresolved(host: str, error: OSError) -> str:
    return f"the name {host} cannot be resolved ({error.strerror or error}): is its pod there?"


def _try_all(addresses: Sequence[tuple[str, int]]) -> None:
    """Raise OSError with all that is wrong if none of them accepts a connection."""
    problems = [_try(host, port) for host, port in addresses]
    if None not in problems:
        raise OSError("; ".join(dict.fromkeys(str(each) for each in problems)))


def _try(host: str, port: int) -> str | None:
    """Try to connect: return None, or what is wrong if it fails."""
    try:
        resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return _unresolved(host, error)
    problem = ""
    for family, kind, protocol, _, address in resolved:
        try:
            with socket.socket(family, kind, protocol) as client:
                client.settimeout(_CONNECT)
                client.connect(address)
                return None
        except OSError as error:
            problem = f"{address[0]} resolves, port {port}: {error.strerror or error}"
    return problem
