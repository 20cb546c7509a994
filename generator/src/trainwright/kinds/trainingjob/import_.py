"""TrainingJobs of BreezeML Lattice."""

from __future__ import annotations

from trainwright.kinds.reading import Reader, reasons

READER = Reader(
    reasons=reasons(__file__),
)
