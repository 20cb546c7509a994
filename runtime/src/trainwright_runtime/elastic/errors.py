"""What ends a worker's wait for its next step."""

from __future__ import annotations

from datetime import timedelta

from trainwright_runtime import errors, exit_codes


class StoppedWaiting(Exception):
    """The worker was to stop while it waited for others."""


class TrainingOver(Exception):
    """Every epoch is committed, and another worker has run the program's end."""


class ProcessLost(errors.RuntimeFailure):
    """Another process of this replica has ended: what is left of the replica cannot go on."""

    exit_code = exit_codes.PEER_LOST

    def __init__(self, why: object) -> None:
        super().__init__(f"another process of this node was lost: {why}")


class ProcessHangs(errors.RuntimeFailure):
    """Another process of this replica is not where the others of it wait for it."""

    exit_code = exit_codes.STALLED

    def __init__(self, waited: timedelta, who: str = "another process") -> None:
        super().__init__(f"waited {waited.total_seconds():g} s for {who} of this node")


class NotLoaded(errors.RuntimeFailure):
    """The state of the others does not fit, and may have been loaded in part."""

    exit_code = exit_codes.FAILED


class OtherReplica(errors.RuntimeFailure):
    """The replicas of one training have different numbers of processes."""

    exit_code = exit_codes.USAGE

    def __init__(self, theirs: int, own: int) -> None:
        super().__init__(
            f"a replica of this training is {theirs} processes on other nodes and {own} on this "
            "one, and shards are exchanged between processes of the same local rank: set the same "
            "--replica and --nproc-per-node on all nodes"
        )


class Fenced(errors.RuntimeFailure):
    """No other worker has the state that would replace this one's: only a new process can begin."""

    exit_code = exit_codes.FENCED

    def __init__(self) -> None:
        super().__init__("training went on without the steps that this worker holds: start it anew")
