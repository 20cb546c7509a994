"""Checkpoints that are whole or invisible, written while training goes on."""

from trainwright_runtime.checkpoint.checkpoints import Checkpoints, PeerCopies
from trainwright_runtime.checkpoint.errors import CheckpointError
from trainwright_runtime.checkpoint.rng import RngState
from trainwright_runtime.checkpoint.stop import STOPPED, StopSignal

__all__ = ["STOPPED", "CheckpointError", "Checkpoints", "PeerCopies", "RngState", "StopSignal"]
