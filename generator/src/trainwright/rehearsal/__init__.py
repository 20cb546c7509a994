"""Runs a rendered job on this machine: the same argv, the env its operator would inject.

rendering   re-renders the job's spec for as many nodes and processes as are wanted here
staging     turns the operator's pods into local processes, and records every difference, as data
processes   starts, watches and stops the processes, to the last one
reported    compares the ranks that they reported with those that were predicted
text        puts all of it into words
"""

from trainwright.datatypes.errors import TrainwrightError


class RehearsalError(TrainwrightError):
    """Raised if a job cannot be rehearsed on this machine; the message includes the remedy."""
