"""The error that checkpoints raise."""

from trainwright_runtime.failures.errors import RuntimeFailure


class CheckpointError(RuntimeFailure):
    """A checkpoint cannot be written or used; the message is the one line the user sees."""
