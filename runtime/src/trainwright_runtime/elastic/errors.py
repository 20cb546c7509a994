"""Errors that end a worker's wait for its next step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from trainwright_runtime.failures import errors, exit_codes


class StoppedWaiting(Exception):
    """The worker was stopped while it waited for others."""


class TrainingOver(Exception):
    """Every epoch is committed, and another worker has run the program's end."""


class ProcessLost(errors.RuntimeFailure):
    """Another process of this replica has ended, so the rest of the replica cannot go on."""

    exit_code = exit_codes.PEER_LOST

    def __init__(self, why: object) -> None:
        super().__init__(f"another process of this node was lost: {why}")


class ProcessHangs(errors.RuntimeFailure):
    """Another process of this replica keeps the others of it waiting for too long."""

    exit_code = exit_codes.STALLED

    def __init__(self, waited: timedelta, who: str = "another process") -> None:
        super().__init__(f"waited {waited.total_seconds():g} s for {who} of this node")


class NotLoaded(errors.RuntimeFailure):
    """The state of the other workers does not fit, and may have been loaded in part."""

    exit_code = exit_codes.FAILED


class DeclaredOtherwise(errors.RuntimeFailure):
    """Two workers of one training declare it differently."""

    exit_code = exit_codes.USAGE

    def __init__(self, other: str, own: str, differences: Iterable[tuple[str, str, str]]) -> None:
        """`differences` are tuples: a name, the other worker's value and this worker's value."""
        parts = "; ".join(
            f"{name} is {a} on {other} and {b} on {own}" for name, a, b in differences
        )
        super().__init__(
            f"workers of one training differ: {parts}. Each would train records of its own choice: "
            "start all workers with the same image, program, arguments and environment"
        )


class NotFinite(errors.RuntimeFailure):
    """A loss is NaN or infinite, and training was to end there."""

    exit_code = exit_codes.FAILED

    def __init__(self, step: int, workers: int) -> None:
        super().__init__(
            f"the loss of step {step} is not finite on {workers} of the workers: training ends "
            'before its update, by non_finite="stop"; the last checkpoint is from before it'
        )


class NodeAtFault(errors.RuntimeFailure):
    """This worker leaves because of its node: its entrypoint ends, a new pod starts elsewhere."""

    exit_code = exit_codes.NODE_FAULT


class DiffersFromAll(NodeAtFault):
    """This worker's parameters differ from those of most workers after the same steps."""

    def __init__(self, step: int, workers: Sequence[str]) -> None:
        super().__init__(
            f"step {step}: the parameters of {' and '.join(workers)} are not those of the other "
            "workers after the same updates: this node computes wrongly, or the program changes "
            "parameters outside of updates; it leaves and takes the state of the others"
        )


class Slow(NodeAtFault):
    """All others wait for this worker in each step, and it is to be replaced."""

    def __init__(self, how: str) -> None:
        super().__init__(f"{how}: it leaves, so that they need not, and is replaced")


class CutOff(NodeAtFault):
    """Steps go on without this worker, since it and others cannot connect."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"steps have gone on without this worker for {seconds:g} s, since it and others cannot "
            "connect: it leaves, and is replaced"
        )


class NoMajority(errors.RuntimeFailure):
    """Workers hold different parameters after the same steps, and there is no majority."""

    exit_code = exit_codes.FAILED

    def __init__(self, step: int, workers: Sequence[str]) -> None:
        super().__init__(
            f"step {step}: the parameters of {', '.join(workers)} differ after the same updates, "
            "and those of no majority agree: a node computes wrongly, or the program changes "
            "parameters outside of updates. Train on from a checkpoint of before the last "
            "comparison, on other nodes"
        )


class Fenced(errors.RuntimeFailure):
    """This worker's state does not count, and no other has one to replace it: only a new process
    can begin."""

    exit_code = exit_codes.FENCED

    def __init__(self) -> None:
        super().__init__("training went on without the steps that this worker holds: start it anew")
