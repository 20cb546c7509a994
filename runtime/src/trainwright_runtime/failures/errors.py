"""Exceptions that end a run early, each with its exit code.

RuntimeFailure              one line, no traceback; carries its exit code
├── UsageError              2: the command line is wrong
├── EnvironmentMistake      2: the launcher's environment contradicts itself or the command line
├── CheckpointError         1: checkpoints cannot be written or used (checkpoint/errors.py)
├── Unreachable             170: the master or the coordinator did not appear in time
├── PeerLost                171: a node that the others cannot go on without was lost
├── NodeUnfit               172: a check before training failed (preflight.py)
└── Stopped                 128 + n: a signal came before the training processes were started
"""

from __future__ import annotations

import signal

from trainwright_runtime.failures import exit_codes


class RuntimeFailure(Exception):
    """The run cannot start or go on; the message is the one line the user sees."""

    exit_code = exit_codes.FAILED


class UsageError(RuntimeFailure):
    """The command line is wrong."""

    exit_code = exit_codes.USAGE


class EnvironmentMistake(RuntimeFailure):
    """A variable of the environment is missing, malformed or contradicts another."""

    exit_code = exit_codes.USAGE

    def __init__(self, variable: str, found: str | None, expected: str) -> None:
        """Name the variable, what it holds (None when it is not set) and what was expected."""
        state = "is not set" if found is None else f"is {found!r}"
        super().__init__(f"{variable} {state}, expected {expected}")


class Unreachable(RuntimeFailure):
    """The address where the nodes meet did not answer in time."""

    exit_code = exit_codes.UNREACHABLE


class PeerLost(RuntimeFailure):
    """Another node was lost, and this one cannot go on without it."""

    exit_code = exit_codes.PEER_LOST


class NodeUnfit(RuntimeFailure):
    """A check before training failed; another node, or a later try, may pass it."""

    exit_code = exit_codes.PREFLIGHT


class Stopped(RuntimeFailure):
    """A signal ended the entrypoint while it was still getting ready."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} before training began")
        self.exit_code = exit_codes.by_signal(number)
