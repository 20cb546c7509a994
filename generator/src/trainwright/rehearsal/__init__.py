"""Runs a rendered job on this machine: the same argv, the env its operator would inject.

rendering   the job's spec, re-rendered for as many nodes and processes as are wanted here
staging     the operator's pods into processes of this machine, and all that differs, as data
processes   the processes themselves: started, watched, stopped to the last one
reported    what they said about their ranks, against what was foreseen
text        all of it in words
"""

from trainwright.datatypes.errors import TrainwrightError


class RehearsalError(TrainwrightError):
    """A job cannot be rehearsed on this machine; the message says what to do about it."""
