"""Type checks of the fields in messages from workers to the coordinator.

A field of another type ends the connection before anything is done with its message: half a
message, once stored, would break all that follow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from trainwright_runtime.coordination.rules import Phase

Fields = Mapping[str, type]

_LINEAGE = re.compile(r"\d+/\S+")  # its generation and its founder

REPORT: Fields = {
    "worker": str,
    "do": str,
    "lineage": str,
    "phase": str,
    "sure": bool,
    "doing": str,
    "steps": int,
}
"""What a worker holds."""

REQUEST: Fields = {
    "replica_id": str,
    "step": int,
    "holds": bool,
    "unreached": list,
    "view": int,
    "lineage": str,
    "group": int,
    "position": str,
    "declared": str,
    "state": str,
}
"""For the next step; over one connection only what is not as in the request before. The worker
`holds` state that would be lost with it, could not connect with those that are `unreached`, and has
a `view` of the members already. The others get the rest of it."""

_OF_A_DEED: Mapping[str, Fields] = {
    "enter": {},
    "step": {"after": int},
    "await": {"workers": list},
    "complete": {"first": str},
    "lead": {},
    "finish": {},
}


def checked(message: object, fields: Fields) -> None:
    """Raise ValueError for a message that no worker of this version sends."""
    _require(message, fields)
    assert isinstance(message, dict)
    if fields is REQUEST:
        _require_texts("unreached", message["unreached"])
        _require_lineage(message["lineage"])
    if fields is REPORT:
        if message["do"] not in _OF_A_DEED:
            raise ValueError(f"a worker does not {message['do']!r}")
        _require(message, _OF_A_DEED[message["do"]])
        _require_texts("workers", message.get("workers", []))
        if not message["worker"]:
            raise ValueError("a worker without a name")
        _require_lineage(message["lineage"], Phase(message["phase"]))


def _require_texts(field: str, names: list[object]) -> None:
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"{field} is {names!r:.100}, expected names")


def _require_lineage(lineage: str, phase: Phase = Phase.NEW) -> None:
    """Raise ValueError if the lineage is malformed; it may be empty for a worker without state."""
    absent = not lineage and phase in (Phase.NEW, Phase.STALE)
    if not absent and not _LINEAGE.fullmatch(lineage):
        raise ValueError(f"generation is {lineage!r:.100} of a worker in phase {phase}")


def _require(message: object, fields: Fields) -> None:
    if not isinstance(message, dict):
        raise ValueError(f"{message!r:.100} is not a JSON object")
    for name, kind in fields.items():
        value: Any = message.get(name)
        if type(value) is not kind:  # a bool is not a number here
            raise ValueError(f"{name} is {value!r:.100}, expected {kind.__name__}")
