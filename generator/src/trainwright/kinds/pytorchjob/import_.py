"""PyTorchJobs of the training operator v1."""

from __future__ import annotations

from trainwright.kinds.reading import Reader

READER = Reader(
    reasons=(
        ("/spec/elasticPolicy/nProcPerNode", "it is deprecated: use procsPerNode"),
        ("/spec/elasticPolicy/standalone", "one node needs no rendezvous settings"),
        (
            "/spec/runPolicy/schedulingPolicy/**",
            "the gang comes from gang and queue, in an environment that has a gang scheduler",
        ),
    ),
)
