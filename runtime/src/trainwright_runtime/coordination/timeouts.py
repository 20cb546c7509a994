"""How long the workers and the coordinator of an elastic training wait for each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from trainwright_runtime.failures.errors import EnvironmentMistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Timeouts in seconds, set by TRAINWRIGHT_HEARTBEAT_TIMEOUT and so on for all processes."""

    heartbeat: float = 0.3
    """A worker silent for so long is dead or paused: steps go on without it. Heartbeats come from
    a process of their own, which needs no lock of the worker's interpreter."""
    collective: float = 10
    """A peer that hangs in a step without dying (a lost network) costs this long."""
    quorum: float = 15
    """Without an answer for so long the coordinator is taken for gone and is looked for again."""
    stall: float = 60
    """A worker that is in one step for so long while others wait for the next hangs: it is ended,
    with its stacks in the log, and started again."""
    coordinator: float = 600
    """A coordinator that stays away for so long ends the worker with a retryable exit code."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Timeouts:
        """Read the timeouts. Raise EnvironmentMistake for any that is not a number above 0."""
        names = {field.name: f"TRAINWRIGHT_{field.name.upper()}_TIMEOUT" for field in fields(cls)}
        return cls(
            **{
                field: _seconds(name, environ[name])
                for field, name in names.items()
                if name in environ
            }
        )

    @property
    def join(self) -> float:
        """Seconds that a step waits for a worker that is alive but has not requested it.

        torchft counts from the first request for the step, and a newcomer sends one while the
        previous step is under way. If that step takes longer, the first member to be ready forms a
        quorum with the newcomer, without the others. These wait for the next step, and so on: a
        world of three stays one of two. So this is long, and newcomers do not wait that long.
        https://github.com/pytorch/torchft/blob/main/src/lighthouse.rs (quorum_compute)
        """
        return self.quorum * 2 / 3

    @property
    def operation(self) -> float:
        """Seconds that a process waits for its node's others in operations that need only peers."""
        return self.collective + self.stall

    @property
    def newcomer(self) -> float:
        """Seconds that a newcomer waits for the next step before it requests it again."""
        return self.quorum / 3


def _seconds(name: str, text: str) -> float:
    """Return a variable's seconds. Raise EnvironmentMistake unless it is a number above 0."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise EnvironmentMistake(name, text, "a number of seconds above 0")
    return seconds
