"""How Toys are imported."""

from trainwright.kinds.reading import Reader, Reason

READER = Reader(reasons=(Reason("/spec/color", "a job spec has no colors"),))
