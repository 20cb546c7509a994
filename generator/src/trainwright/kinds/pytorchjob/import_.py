"""PyTorchJobs of the training operator v1."""

from __future__ import annotations

from trainwright.kinds.reading import Loss, Reader, Reason

READER = Reader(
    reasons=(
        Reason(
            "/spec/elasticPolicy/nProcPerNode", "it is deprecated: use procsPerNode", Loss.COSMETIC
        ),
        Reason(
            "/spec/elasticPolicy/standalone", "one node needs no rendezvous settings", Loss.COSMETIC
        ),
        Reason(
            "/spec/runPolicy/schedulingPolicy/**",
            "the gang comes from gang and queue, in an environment that has a gang scheduler",
            Loss.BEHAVIOUR,
        ),
    ),
)
