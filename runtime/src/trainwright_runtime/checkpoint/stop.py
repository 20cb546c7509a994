"""SIGTERM as a flag to read between two steps, with the same answer on every rank."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Self

import torch
import torch.distributed as dist

Handler = Callable[[int, FrameType | None], object] | int | None

# What a shell reports for a process that SIGTERM ended: 128 and above requests a retry.
STOPPED = 128 + signal.SIGTERM


class StopSignal:
    """Notes SIGTERM instead of dying of it, until it is closed.

        with StopSignal() as stop:
            for step, batch in enumerate(batches, 1):
                train(batch)
                if stop.agreed():
                    checkpoints.save(step, state, wait=True)
                    sys.exit(STOPPED)

    Made in the main thread (Python delivers signals nowhere else), on every rank, after the
    process group. With `every` above 1 the ranks agree only at every `every`-th call.
    """

    def __init__(self, *, every: int = 1) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(
                "StopSignal() must be made in the main thread: signals go nowhere else"
            )
        self.noted = False  # by this process; ranks may learn of it some steps apart
        self._every, self._calls = max(every, 1), 0
        self._agreed = False
        self._group: dist.ProcessGroup | None = None
        if dist.is_initialized() and dist.get_world_size() > 1:
            # Not the group of the gradients: a number that lies on the CPU costs no wait for
            # the GPU there.
            self._group = dist.new_group(backend="gloo")
        self._previous: Handler = signal.signal(signal.SIGTERM, self._note)
        _OPEN.append(self)

    def agreed(self) -> bool:
        """Whether to stop now. Collective: every rank calls it after every step."""
        self._calls += 1
        if self._agreed or self._group is None:
            return self._agreed or self.noted
        if self._calls % self._every == 0:
            noted = torch.tensor([int(self.noted)])
            dist.all_reduce(noted, op=dist.ReduceOp.MAX, group=self._group)
            self._agreed = bool(noted.item())
        return self._agreed

    def close(self) -> None:
        """Restore the earlier handler of SIGTERM, unless the script has set another one since."""
        if self in _OPEN:
            _OPEN.remove(self)
        if signal.getsignal(signal.SIGTERM) == self._note:
            signal.signal(signal.SIGTERM, self._earlier_handler() or signal.SIG_DFL)

    def _earlier_handler(self) -> Handler:
        """Return the handler before this one, skipping those that were closed since."""
        previous = self._previous
        while isinstance(stop := getattr(previous, "__self__", None), StopSignal):
            if stop in _OPEN:
                break
            previous = stop._previous
        return previous

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        self.noted = True


_OPEN: list[StopSignal] = []


def noted() -> bool:
    """Whether an open `StopSignal` of this process has noted SIGTERM."""
    return any(stop.noted for stop in _OPEN)
