"""TrainingJobs of BreezeML Lattice."""

from __future__ import annotations

from trainwright.kinds.reading import Reader

READER = Reader(
    reasons=(
        ("/spec/replicaSpecs/replicas", "Lattice overwrites it: use minSize and maxSize"),
        ("/spec/runPolicy/schedulingPolicy/**", "Lattice schedules by priority itself"),
        ("/spec/dataset", "the operator has no such field: mount the data as a volume"),
    ),
)
