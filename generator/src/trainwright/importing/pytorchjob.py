"""PyTorchJobs of the training operator v1."""

from __future__ import annotations

from trainwright.importing.reader import Reader

READER = Reader(
    kind="PyTorchJob",
    group="kubeflow.org",
    container="pytorch",
    reasons=(
        ("/spec/elasticPolicy/nProcPerNode", "it is deprecated: use procsPerNode"),
        ("/spec/elasticPolicy/standalone", "one node needs no rendezvous settings"),
        (
            "/spec/runPolicy/schedulingPolicy/**",
            "the gang comes from gang and queue, in an environment that has a gang scheduler",
        ),
    ),
)
