"""TrainingJobs of BreezeML Lattice."""

from __future__ import annotations

from trainwright.importing.reader import Reader

READER = Reader(
    kind="TrainingJob",
    group="breezeml.ai",
    reasons=(
        ("/spec/replicaSpecs/replicas", "Lattice overwrites it: use minSize and maxSize"),
        ("/spec/runPolicy/schedulingPolicy/**", "Lattice schedules by priority itself"),
        ("/spec/dataset", "the operator has no such field: mount the data as a volume"),
    ),
)
