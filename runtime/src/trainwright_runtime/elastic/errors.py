"""What ends a worker's wait for its next step."""

from __future__ import annotations

from trainwright_runtime import errors, exit_codes


class StoppedWaiting(Exception):
    """The worker was to stop while it waited for others."""


class TrainingOver(Exception):
    """Every epoch is committed, and another worker has run the program's end."""


class Fenced(errors.RuntimeFailure):
    """No other worker has the state that would replace this one's: only a new process can begin."""

    exit_code = exit_codes.FENCED

    def __init__(self) -> None:
        super().__init__("training went on without the steps that this worker holds: start it anew")
