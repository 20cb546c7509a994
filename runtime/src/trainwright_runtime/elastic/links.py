"""A worker's connections to the coordinator, and the quorum that it is answered with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainwright_runtime.coordination import view
from trainwright_runtime.coordination.channel import connected
from trainwright_runtime.coordination.heartbeat import Heart
from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.coordination.view import View

CONNECT = 2.0  # seconds to reach a port
_TICK = 0.1  # seconds of waiting for an answer, until what else there is to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The workers that take a step together."""

    number: int
    """The quorum's number, from which the token of its process group is made."""
    members: View
    apart: tuple[Mapping[str, Any], ...] = ()
    """Workers that were left out, since they and others cannot connect."""
    few: bool = False
    """Whether there is no quorum, since too few workers are left without those."""


class Links:
    """A worker's connections to the coordinator: for its heartbeats and for its requests."""

    def __init__(
        self,
        coordinator: tuple[str, str],
        timeouts: Timeouts,
        *,
        name: str,
        replaced: Callable[[], bool],
    ) -> None:
        """`coordinator` is the coordinator's address and process."""
        self.coordinator = coordinator
        self._timeouts, self._replaced = timeouts, replaced
        self._channel, _ = connected(coordinator[0], CONNECT, life=coordinator[1])
        self._channel.connection.settimeout(_TICK)
        self._requested: dict[str, Any] = {}  # the last time
        self._members = View()  # of which the coordinator sends the news
        self._heart = Heart(coordinator[0], name, timeouts.heartbeat / 3)

    def quorum(
        self, question: dict[str, Any], *, newcomer: bool, meanwhile: Callable[[], object]
    ) -> Quorum:
        """Request the next step and return its quorum; a newcomer waits less: see `Timeouts.join`.

        Raise TimeoutError if no step began in time, ConnectionResetError for another coordinator.
        """
        patience = self._timeouts.newcomer if newcomer else self._timeouts.quorum
        deadline = time.monotonic() + patience
        self._request({**question, "view": self._members.number})
        while time.monotonic() < deadline:
            try:
                return self._quorum(self._channel.read())
            except TimeoutError:
                meanwhile()
                if self._replaced():
                    raise ConnectionResetError("the coordinator is another one now") from None
        if not newcomer:
            raise TimeoutError(f"no step began within {patience:g} s")
        self._channel.write({"withdraw": question["replica_id"]})  # one may have begun meanwhile
        self._channel.connection.settimeout(patience)
        quorum = self._quorum(self._channel.read())
        self._channel.connection.settimeout(_TICK)
        return quorum

    def _request(self, question: dict[str, Any]) -> None:
        before, self._requested = self._requested, question
        changed = {k: v for k, v in question.items() if k not in before or before[k] != v}
        self._channel.write({"quorum": changed})

    def _quorum(self, answer: Mapping[str, Any]) -> Quorum:
        """Return the quorum. Raise ConnectionError if this is no answer of the coordinator."""
        try:
            if "members" in answer:
                self._members = view.updated(self._members, answer["members"])
            return Quorum(
                number=int(answer["quorum"]),
                members=self._members if "members" in answer else View(),
                apart=tuple(answer.get("apart", ())),
                few=bool(answer.get("few")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConnectionError(f"not an answer of the coordinator: {error}") from error

    def close(self) -> None:
        self._channel.close()
        self._heart.close()
