"""What ends a run before its time, and what every exit code of the entrypoint means.

RuntimeFailure              one line, no traceback; carries its exit code
├── UsageError              2: the command line is wrong
├── EnvironmentMistake      2: the launcher's environment contradicts itself or the command line
├── CheckpointError         1: checkpoints cannot be written or used (checkpoint/errors.py)
├── Unreachable             170: the master or the coordinator did not appear in time
├── NodeUnfit               172: a check before training failed (preflight.py)
└── Stopped                 128 + n: a signal came before the training processes were started
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

# The training operator retries a replica on 128 and above, and gives up on 1 to 127
# (restartPolicy: ExitCode). 128 + n for signal n is the shells' convention.
RETRY = 128

DONE = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 170
PEER_LOST = 171
PREFLIGHT = 172
NODE_FAULT = 173
OVERTAKEN = 174
FENCED = 175
STALLED = 176


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitCode:
    """One row of the table of exit codes."""

    codes: str  # as people read it: one number or a range
    first: int
    summary: str

    @property
    def retry(self) -> bool:
        """Whether the same run can succeed when it is started again."""
        return self.first >= RETRY


EXIT_CODES = (
    ExitCode(codes="0", first=DONE, summary="Training ended well."),
    ExitCode(
        codes="1",
        first=FAILED,
        summary="The script raised an exception, or a retry would meet the same cause again.",
    ),
    ExitCode(
        codes="2",
        first=USAGE,
        summary="The command line or the launcher's environment is wrong; one line names it.",
    ),
    ExitCode(codes="3-127", first=3, summary="The script's own exit code."),
    ExitCode(
        codes="129-159",
        first=129,
        summary="A process was ended by signal n: 128 + n.",
    ),
    ExitCode(codes="130", first=130, summary="Stopped by SIGINT (Ctrl-C)."),
    ExitCode(
        codes="137",
        first=137,
        summary="Killed by SIGKILL: out of memory, or not done when the grace period was over.",
    ),
    ExitCode(codes="143", first=143, summary="Stopped by SIGTERM; what the script saved is whole."),
    ExitCode(
        codes="170",
        first=UNREACHABLE,
        summary="The master, the coordinator or another rank did not appear in time.",
    ),
    ExitCode(
        codes="171",
        first=PEER_LOST,
        summary="Another rank was lost: the error of a collective, not one of the script's own.",
    ),
    ExitCode(
        codes="172",
        first=PREFLIGHT,
        summary="A check before training found this node unfit; nothing was started.",
    ),
    ExitCode(
        codes="173",
        first=NODE_FAULT,
        summary="The GPU or the network of this node failed: another node can help.",
    ),
    ExitCode(
        codes="174",
        first=OVERTAKEN,
        summary="The other workers have finished this one's epoch: it starts again to join them.",
    ),
    ExitCode(
        codes="175",
        first=FENCED,
        summary="Training went on without this worker's steps, and only a new process can join it.",
    ),
    ExitCode(
        codes="176",
        first=STALLED,
        summary="This worker hung in a step while others waited; its stacks are in the log.",
    ),
)


def by_signal(number: int) -> int:
    """The exit code of what signal `number` ended."""
    return 128 + number


def of_process(returncode: int) -> int:
    """The exit code for what `subprocess` reports, which is negative for signals."""
    return by_signal(-returncode) if returncode < 0 else returncode


class RuntimeFailure(Exception):
    """The run cannot start or go on; the message is the one line the user sees."""

    exit_code = FAILED


class UsageError(RuntimeFailure):
    """The command line is wrong."""

    exit_code = USAGE


class EnvironmentMistake(RuntimeFailure):
    """A variable of the environment is missing, malformed or contradicts another."""

    exit_code = USAGE

    def __init__(self, variable: str, found: str | None, expected: str) -> None:
        """Name the variable, what it holds (None when it is not set) and what was expected."""
        state = "is not set" if found is None else f"is {found!r}"
        super().__init__(f"{variable} {state}, expected {expected}")


class Unreachable(RuntimeFailure):
    """What the nodes meet at did not appear in time."""

    exit_code = UNREACHABLE


class NodeUnfit(RuntimeFailure):
    """A check before training failed; another node, or a later try, may pass it."""

    exit_code = PREFLIGHT


class Stopped(RuntimeFailure):
    """A signal ended the entrypoint while it was still getting ready."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name} before training began")
        self.exit_code = by_signal(number)
