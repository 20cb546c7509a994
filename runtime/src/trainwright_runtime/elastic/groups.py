"""torchft's process groups, which know their own connections, and can end them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from torchft import ProcessGroupGloo, ProcessGroupNCCL
from torchft.process_group import ProcessGroup

from trainwright_runtime.elastic import sockets
from trainwright_runtime.elastic.sockets import Socket


class Group(ProcessGroup):
    """A group that knows its own connections, and can end them."""

    def __init__(self, timeout: timedelta) -> None:
        super().__init__(timeout)
        self._sockets: frozenset[Socket] = frozenset()

    @property
    def lost(self) -> bool:
        """Whether a member is known to be gone, before anything is summed with it."""
        raise NotImplementedError

    def connect(self, store: Any, rank: int, world: int, token: int) -> None:
        """Do what torchft's `configure` does, with a store that only members can reach."""
        before, listening = sockets.connected(), sockets.listening()
        self._quorum_id, self._rank, self._global_ranks = token, rank, list(range(world))
        self._pg = self._create_pg(store, rank, world)
        opened = sockets.connected() - before
        store.set(f"sockets/{rank}", json.dumps([item.ends for item in opened]))
        others = [json.loads(store.get(f"sockets/{other}")) for other in range(world)]
        self._sockets = sockets.between(opened, [pair for pairs in others for pair in pairs])
        ports = sockets.listening() - listening
        strangers = {item for item in opened - self._sockets if item.ends[0][1] in ports}
        if strangers:  # gloo takes the first to connect for the member that it waits for
            self.sever()
            names = ", ".join(sorted({item.ends[1][0] for item in strangers}))
            raise ConnectionError(f"{names} connected to this worker, and is none of this step")

    def sever(self) -> None:
        """Make sure that no other worker waits for this one in a step that it gave up.

        gloo fails only in the neighbours of a dead process. A worker that waits for a neighbour
        that has left the step would wait for the whole time-out, since neither `abort` nor dropping
        the group ends a pending operation: closing the connections does.
        """
        sockets.shut(self._sockets)
        self._sockets = frozenset()


class _Gloo(Group, ProcessGroupGloo):
    @property
    def lost(self) -> bool:
        """Whether a connection is closed: gloo closes its side once the other side has ended."""
        return not sockets.open_still(self._sockets)


class _Nccl(Group, ProcessGroupNCCL):
    lost = False  # it shows in the next sum: NCCL closes connections that it made to begin with


GROUPS = {"gloo": _Gloo, "nccl": _Nccl}
