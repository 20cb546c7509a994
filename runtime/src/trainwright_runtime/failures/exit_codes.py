"""Every exit code of the entrypoint: what it means, and whether the same run is tried again."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class ExitCode:
    """One row of the table of exit codes."""

    codes: str  # as people read it: one number or a range
    first: int
    summary: str

    @property
    def retry(self) -> bool:
        """Whether the same run can succeed when it is started again."""
        return self.first >= RETRY


TABLE = (
    ExitCode("0", DONE, "Training ended well."),
    ExitCode(
        "1", FAILED, "The script raised an exception, or a retry would meet the same cause again."
    ),
    ExitCode(
        "2", USAGE, "The command line or the launcher's environment is wrong; one line names it."
    ),
    ExitCode("3-127", 3, "The script's own exit code."),
    ExitCode("129-159", 129, "A process was ended by signal n: 128 + n."),
    ExitCode("130", 130, "Stopped by SIGINT (Ctrl-C)."),
    ExitCode(
        "137", 137, "Killed by SIGKILL: out of memory, or not done when the grace period was over."
    ),
    ExitCode("143", 143, "Stopped by SIGTERM; what the script saved is whole."),
    ExitCode(
        "170", UNREACHABLE, "The master, the coordinator or another rank did not appear in time."
    ),
    ExitCode(
        "171",
        PEER_LOST,
        "Another rank was lost: the error of a collective, not one of the script's own.",
    ),
    ExitCode(
        "172", PREFLIGHT, "A check before training found this node unfit; nothing was started."
    ),
    ExitCode(
        "173",
        NODE_FAULT,
        "The GPU or the network of this node failed, or it computes wrongly or slowly: another "
        "node can help.",
    ),
    ExitCode(
        "174",
        OVERTAKEN,
        "The other workers have finished this one's epoch: it starts again to join them.",
    ),
    ExitCode(
        "175",
        FENCED,
        "Training went on without this worker's steps, and only a new process can join it.",
    ),
    ExitCode(
        "176",
        STALLED,
        "This worker hung while others waited for it, or a process of its node did; stacks are in "
        "the log.",
    ),
)


def by_signal(number: int) -> int:
    """Return the exit code of a process that signal `number` ended."""
    return 128 + number


def of_process(returncode: int) -> int:
    """Return the exit code for a return code of `subprocess`, which is negative for signals."""
    return by_signal(-returncode) if returncode < 0 else returncode
