"""Waiting for a run, with reconnection after a broken connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from trainwright.cluster.client import Cluster, Resource
from trainwright.cluster.errors import Expired, Unreachable
from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.kinds.state import Phase, State

_WINDOW = 20  # seconds of one watch, after which pods are looked at again
_PATIENCE = 60  # attempts to come back to a cluster that was there, five seconds apart
_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class Goal:
    """What to wait for: `reached` tells whether a state meets it."""

    name: str
    summary: str
    reached: Callable[[State], bool]


def _all_ready(state: State) -> bool:
    counted = state.ready is not None and state.total is not None
    everyone = not counted or state.ready == state.total
    return state.phase is Phase.SUCCEEDED or (state.phase is Phase.RUNNING and everyone)


GOALS = {
    goal.name: goal
    for goal in (
        Goal("succeeded", "it succeeded", lambda state: state.phase is Phase.SUCCEEDED),
        Goal("running", "every rank is ready, or it has succeeded already", _all_ready),
        Goal("finished", "it is over, well or not", lambda state: state.over),
    )
}


def objects(
    cluster: Cluster, resource: Resource, namespace: str, name: str, timeout: float | None
) -> Iterator[Data | None]:
    """Yield an object at once, after each change and now and then; None while it does not exist.

    Ends when the time is up. A version that the API server has forgotten makes it list again, a
    connection that breaks is made again.
    """
    end = None if timeout is None else time.monotonic() + timeout
    body, version = _listed(cluster, resource, namespace, name)
    yield body
    lost = 0
    while (seconds := _window(end)) > 0:
        try:
            if not version:
                body, version = _listed(cluster, resource, namespace, name)
                yield body
            for event, changed in cluster.watch(resource, namespace, name, version, seconds):
                lost, version = 0, changed["metadata"]["resourceVersion"]
                if event != "BOOKMARK":
                    body = None if event == "DELETED" else changed
                    yield body
        except Expired:
            version = ""
            continue
        except Unreachable:
            lost += 1
            if lost > _PATIENCE:
                raise
            time.sleep(min(_PAUSE, max(0, seconds)) if lost > 1 else 0)
            continue
        yield body


def _window(end: float | None) -> int:
    if end is None:
        return _WINDOW
    left = end - time.monotonic()
    return min(_WINDOW, int(left) + 1) if left > 0 else 0


def _listed(
    cluster: Cluster, resource: Resource, namespace: str, name: str
) -> tuple[Data | None, str]:
    items, version = cluster.all_at(resource, namespace, field_selector=f"metadata.name={name}")
    return (items[0] if items else None), version
