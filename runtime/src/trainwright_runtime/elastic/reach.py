"""Which other workers this one cannot connect to: found out before they form a process group.

Otherwise gloo would wait for the whole time-out in all members. Workers that were not reached are
tried again until they are; the coordinator decides who is left out (`coordination.reach`).
"""

from __future__ import annotations

import errno
import logging
import selectors
import socket
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from torch._C._distributed_c10d import Store

from trainwright_runtime.coordination.activity import display_name
from trainwright_runtime.coordination.addresses import family, split

log = logging.getLogger(__name__)

_CONNECT = 2.0  # seconds to reach a port: a second packet is sent after one
_AGAIN = 2.0  # seconds before those that were not reached are tried again
_GONE = 60.0  # seconds after which a worker that no quorum is put together of or without is gone
_AT_ONCE = 128  # connections
_SHOWN = 5  # names in a line of the log


class Reach:
    """The other workers that could not be reached, by name, until they can."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._unreached: dict[str, str] = {}
        self._heard: dict[str, float] = {}
        self._trying = False

    @property
    def unreached(self) -> list[str]:
        with self._changed:
            return sorted(self._unreached)

    def reaches(self, others: Mapping[str, str]) -> bool:
        """Whether the ports of all these workers can be reached; others are tried again later."""
        missing = unreached(others)
        with self._changed:
            self._keep(self._unreached.keys() - others.keys(), missing)
            if self._unreached and not self._trying:
                self._trying = True
                threading.Thread(target=self._try_again, daemon=True, name="reach").start()
        return not missing

    def note(self, names: Iterable[str]) -> None:
        """Note that the coordinator heard of these workers, even if they are unreachable here."""
        with self._changed:
            self._heard |= {name: time.monotonic() for name in names if name in self._unreached}

    def _keep(self, names: Collection[str], more: dict[str, str]) -> None:
        kept = {name: at for name, at in self._unreached.items() if name in names}
        self._unreached = kept | more
        now = time.monotonic()
        self._heard = {name: self._heard.get(name, now) for name in self._unreached}

    def close(self) -> None:
        with self._changed:
            self._unreached = {}
            self._changed.notify_all()

    def _try_again(self) -> None:
        """Try to connect with workers that were not reached, until all are reached or gone."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._unreached, _AGAIN)
                tried = dict(self._unreached)
                if not tried:
                    self._trying = False
                    return
            try:
                reached = tried.keys() - unreached(tried)
            except OSError as error:  # as without a descriptor, for which the next attempt may do
                log.debug("reach: %s", error)
                reached = set()
            with self._changed:
                gone = {n for n, at in self._heard.items() if time.monotonic() - at > _GONE}
                self._keep(self._unreached.keys() - reached - gone, {})


def unreached(addresses: Mapping[str, str]) -> dict[str, str]:
    """Return those of the addresses ("host:port" by name) that accepted no connection in time.

    A process that hangs counts as reached: its kernel accepts the connection.
    """
    names = sorted(addresses)
    unreachable: dict[str, str] = {}
    for at in range(0, len(names), _AT_ONCE):
        tried = {name: addresses[name] for name in names[at : at + _AT_ONCE]}
        unreachable |= {name: tried[name] for name in tried.keys() - _reachable(tried)}
    return unreachable


def _reachable(addresses: Mapping[str, str]) -> set[str]:
    """Return the names of addresses that accept a connection in time, all tried at once."""
    with selectors.DefaultSelector() as selector:
        reached = {
            name for name, address in addresses.items() if _begin_connect(selector, name, address)
        }
        deadline = time.monotonic() + _CONNECT
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                selector.unregister(key.fileobj)
                with closing(_as_socket(key.fileobj)) as connection:
                    if not connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                        reached.add(key.data)
        for key in list(selector.get_map().values()):
            _as_socket(key.fileobj).close()
    return reached


def _begin_connect(selector: selectors.BaseSelector, name: str, address: str) -> bool:
    """Begin to connect; return whether that succeeded at once. A pending one is registered."""
    host, port = split(address) if address else ("", 0)
    connection = socket.socket(family(host), socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        result = connection.connect_ex((host, port))
    except socket.gaierror:  # the name no longer resolves, as after its pod is gone
        result = errno.EHOSTUNREACH
    if result == errno.EINPROGRESS:
        selector.register(connection, selectors.EVENT_WRITE, name)
    else:
        connection.close()
    return result == 0


def _as_socket(of_selector: Any) -> socket.socket:
    assert isinstance(of_selector, socket.socket)
    return of_selector


def agreed(store: Store, members: int, *, fine: bool) -> bool:
    """Whether all members of a group are `fine`; each of them calls this."""
    if not fine:
        store.set("reached", "not all")
    elif store.add("reach all", 1) == members:
        store.set("reached", "all")
    return bool(store.get("reached") == b"all")


class Apart:
    """The log of who is left out of steps: a line whenever that changes."""

    def __init__(self) -> None:
        self._noted: dict[str, bool] = {}

    def note(
        self, apart: Sequence[Mapping[str, Any]], members: Collection[str], *, few: bool
    ) -> None:
        """Log workers that are newly left out (`apart`), and those that are back among the next
        step's `members`. `few`: too few workers are left without those apart."""
        for each in apart:
            if self._noted.get(each["worker"]) is not few:
                self._noted[each["worker"]] = few
                log.warning("%s: %s. %s", _describe(each), _consequence(each, few=few), _HINT)
        if back := sorted(self._noted.keys() & {*members}):
            log.info("%s can be reached again", _join_names([display_name(name) for name in back]))
            self._noted = {
                name: was_few for name, was_few in self._noted.items() if name not in back
            }


_HINT = (
    "Look at NetworkPolicies, firewalls and the network interfaces of these nodes: workers connect "
    "with each other at any port"
)


def _consequence(apart: Mapping[str, Any], *, few: bool) -> str:
    """Return in words what follows from leaving a worker out."""
    if few:
        return "without it too few workers are left, and all wait until that is mended"
    needed = display_name(apart["needed"])
    if not needed:
        return "steps go on without it until that is mended"
    return (
        f"steps go on without it until that is mended, since only {needed} holds what was trained; "
        f"without {needed}, if you end it, the others begin from the last checkpoint"
    )


def _describe(apart: Mapping[str, Any]) -> str:
    name = f"{display_name(apart['worker'])} ({apart['address']})"
    by, to = (
        _join_names([display_name(worker) for worker in apart[side]]) for side in ("by", "to")
    )
    if not by:
        return f"{name} cannot reach {to}"
    return f"{name} cannot be reached by {by}" + (f", nor reach {to}" if to else "")


def _join_names(names: Sequence[str]) -> str:
    shown = [*names[:_SHOWN], *([f"{len(names) - _SHOWN} others"] if names[_SHOWN:] else [])]
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))
