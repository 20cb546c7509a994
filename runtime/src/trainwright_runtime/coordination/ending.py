"""The record a worker leaves of how far it came, for its entrypoint and for the next worker.

An exit code of 0 alone does not prove that training is over: a program may end at any moment.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

log = logging.getLogger(__name__)

VARIABLE = "TRAINWRIGHT_LIFE_FILE"
_FINISHED = "finished.json"


class Stage(StrEnum):
    """How far a worker process has come."""

    NONE = "none"
    """Its program has not entered `elastic.training`."""
    ENTERED = "entered"
    COMMITTED = "committed"
    COMPLETE = "complete"
    """Every epoch is committed; the end of the program is still to be run."""
    OVER = "over"
    """Training was over already, or is over now that the worker's program has succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What a worker recorded about one of its lives: one run of its process."""

    stage: Stage = Stage.NONE
    step: int = -1
    """The first step that it committed."""
    leads: bool = False
    """It was the one to run the program's end."""


def entered() -> bool:
    """Whether the program of this process has entered `elastic.training`."""
    return _noted


def note(life: Life, environ: Mapping[str, str] = os.environ) -> None:
    """Write `life` to the file in TRAINWRIGHT_LIFE_FILE, if set, replacing the last record."""
    global _noted  # noqa: PLW0603 - there is one program in a process
    _noted = True
    if path := environ.get(VARIABLE):
        fresh = Path(f"{path}.new")
        with suppress(OSError):  # the entrypoint then takes the worker for one that came to less
            fresh.write_text(json.dumps(asdict(life)))
            fresh.replace(path)


_noted = False


def read(path: Path) -> Life:
    try:
        fields = json.loads(path.read_text())
        return Life(stage=Stage(fields["stage"]), step=fields["step"], leads=fields["leads"])
    except (OSError, ValueError, KeyError):
        return Life()


def record(directory: Path, epochs: int, step: int) -> None:
    """Record in the checkpoint folder that `epochs` are trained and the program's end has run."""
    fresh = directory / f".{_FINISHED}-{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps({"epochs": epochs, "step": step}) + "\n")
        fresh.replace(directory / _FINISHED)
    except OSError as error:
        log.error("%s could not be written: %s", directory / _FINISHED, error.strerror or error)


def recorded_epochs(directory: Path) -> int:
    """How many epochs were trained to their end in this checkpoint folder."""
    try:
        return int(json.loads((directory / _FINISHED).read_text())["epochs"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


_callbacks: list[Callable[[], None]] = []


def when_ended_well(callback: Callable[[], None]) -> None:
    """Call `callback` once the program has ended without an error."""
    if not _callbacks:
        atexit.register(_at_exit)
    _callbacks.append(callback)


def program_ended(code: int) -> None:
    """The entrypoint's process reports how the program has ended, before the interpreter's exit."""
    callbacks, _callbacks[:] = list(_callbacks), []
    for callback in callbacks if code == 0 else ():
        callback()


def _at_exit() -> None:
    """Without the entrypoint's process: Python keeps the exception that ended the program."""
    program_ended(1 if hasattr(sys, "last_value") else 0)
