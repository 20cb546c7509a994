"""TrainingJobs of BreezeML Lattice."""

from __future__ import annotations

from trainwright.kinds.reading import Loss, Reader, Reason

READER = Reader(
    reasons=(
        Reason(
            "/spec/replicaSpecs/replicas",
            "Lattice overwrites it: use minSize and maxSize",
            Loss.COSMETIC,
        ),
        Reason(
            "/spec/runPolicy/schedulingPolicy/**",
            "Lattice schedules by priority itself",
            Loss.BEHAVIOUR,
        ),
        Reason(
            "/spec/dataset",
            "the operator has no such field: mount the data as a volume",
            Loss.CANNOT_RUN,
        ),
    ),
)
