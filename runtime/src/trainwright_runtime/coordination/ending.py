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
from typing import Protocol

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
    """The first step that it committed; -1 before that."""
    leads: bool = False
    """It was the one to run the program's end."""


_entered = False


def entered() -> bool:
    """Whether the program of this process has entered `elastic.training`."""
    return _entered


def note(life: Life, environ: Mapping[str, str] = os.environ) -> None:
    """Write `life` to the file in TRAINWRIGHT_LIFE_FILE, if set, replacing the last record."""
    global _entered  # noqa: PLW0603 - there is one program in a process
    _entered = True
    if path := environ.get(VARIABLE):
        fresh = Path(f"{path}.new")
        with suppress(OSError):  # the entrypoint then takes the worker for one that came to less
            fresh.write_text(json.dumps(asdict(life)))
            fresh.replace(path)


def read(path: Path) -> Life:
    """Return what a worker recorded in a file; an empty life if nothing can be read from it."""
    try:
        fields = json.loads(path.read_text())
        return Life(stage=Stage(fields["stage"]), step=fields["step"], leads=fields["leads"])
    except (OSError, ValueError, KeyError, TypeError):
        return Life()


class ObjectStorePath(Protocol):
    """A path in object storage: `checkpoint` has it, which is not imported here."""

    def __truediv__(self, name: str, /) -> ObjectStorePath: ...

    def read_text(self) -> str: ...

    def write_bytes(self, content: bytes, /) -> object: ...


def record(directory: Path | ObjectStorePath, epochs: int, step: int) -> None:
    """Record where checkpoints are that `epochs` are trained and the program's end has run."""
    text = json.dumps({"epochs": epochs, "step": step}).encode() + b"\n"
    try:
        if not isinstance(directory, Path):  # a store replaces an object atomically
            (directory / _FINISHED).write_bytes(text)
            return
        fresh = directory / f".{_FINISHED}-{os.getpid()}"
        directory.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(text)
        fresh.replace(directory / _FINISHED)
    except OSError as error:
        log.error("%s could not be written: %s", directory / _FINISHED, error.strerror or error)


def recorded_epochs(directory: Path | ObjectStorePath) -> int:
    """Return how many epochs are recorded there as trained to the end; 0 if none."""
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
    """Call and forget what `when_ended_well` was given, or only forget it if the code is not 0."""
    callbacks, _callbacks[:] = list(_callbacks), []
    for callback in callbacks if code == 0 else ():
        callback()


def _at_exit() -> None:
    """Stand in for the entrypoint's process, which knows the exit code.

    Python keeps the exception that ended a program, unless that was a SystemExit: a program that is
    started without the entrypoint and calls `sys.exit(1)` counts as ended well.
    """
    program_ended(1 if hasattr(sys, "last_value") else 0)
