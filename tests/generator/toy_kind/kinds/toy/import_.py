"""How Toys are imported."""

from trainwright.kinds.reading import Reader

READER = Reader(reasons=(("/spec/color", "a job spec has no colors"),))
