"""Elastic training in a few lines: workers come and go, no committed step is lost.

with elastic.training(model, optimizer, dataset, batch_size=256, epochs=3) as run:
    for epoch in run.epochs():
        for images, labels in run.batches():
            run.backward(loss_function(model(images), labels))
"""

from trainwright_runtime.elastic.leases import Shards
from trainwright_runtime.elastic.local import DiLoCo, LocalSGD
from trainwright_runtime.elastic.training import Training, training

__all__ = ["DiLoCo", "LocalSGD", "Shards", "Training", "training"]
