"""The server of a key-value store, in which members of a quorum exchange what they need to connect.

It replaces torch's TCPStore, which every client that reaches its port can read and change.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from trainwright_runtime.coordination.channel import Channel

_KEPT = 8
"""Groups whose values are kept: those of older quorums are not read any more."""


class StoreServer:
    """The values of all groups, in the coordinator."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._groups: OrderedDict[str, dict[str, str]] = OrderedDict()

    def serve(self, channel: Channel) -> None:
        """Answer all requests of one connection, until it ends."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            channel.write({})
            while True:
                channel.write(self.answer(channel.read()))

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request of a `StoreClient`. Raise KeyError for an unknown request."""
        do: Mapping[str, Callable[[str, Mapping[str, Any]], Any]] = {
            "set": self._set,
            "add": self._add,
            "check": self._check,
            "get": self._get,
            "compare_set": self._compare_set,
            "delete": self._delete,
        }
        with self._changed:
            return {"value": do[message["board"]](str(message["group"]), message)}

    def _set(self, group: str, message: Mapping[str, Any]) -> None:
        self._values(group)[str(message["key"])] = str(message["value"])
        self._changed.notify_all()

    def _add(self, group: str, message: Mapping[str, Any]) -> int:
        values, key = self._values(group), str(message["key"])
        total = int(values.get(key, "0")) + int(message["value"])
        values[key] = str(total)
        self._changed.notify_all()
        return total

    def _compare_set(self, group: str, message: Mapping[str, Any]) -> str:
        """Like TCPStore's: set the key if it holds `expected`, and return what it holds then.
        A missing key is set if `expected` is empty; otherwise `expected` is returned."""
        values, key = self._values(group), str(message["key"])
        expected, desired = str(message["expected"]), str(message["value"])
        if key not in values and expected:
            return expected
        if values.get(key, "") == expected:
            values[key] = desired
            self._changed.notify_all()
        return values[key]

    def _delete(self, group: str, message: Mapping[str, Any]) -> bool:
        return self._values(group).pop(str(message["key"]), None) is not None

    def _check(self, group: str, message: Mapping[str, Any]) -> bool:
        return self._has(group, message["keys"])()

    def _get(self, group: str, message: Mapping[str, Any]) -> list[str] | None:
        """Return the values of all keys once they are set, or None if some are not in time."""
        keys = [str(key) for key in message["keys"]]
        if not self._changed.wait_for(self._has(group, keys), float(message["seconds"])):
            return None
        values = self._values(group)
        return [values[key] for key in keys]

    def _has(self, group: str, keys: Collection[str]) -> Callable[[], bool]:
        return lambda: self._groups.get(group, {}).keys() >= {str(key) for key in keys}

    def _values(self, group: str) -> dict[str, str]:
        values = self._groups.setdefault(group, {})
        self._groups.move_to_end(group)
        while len(self._groups) > _KEPT:
            self._groups.popitem(last=False)
        return values
