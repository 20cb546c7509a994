"""The labels of what Trainwright renders: those that Kubernetes recommends, and its own.

https://kubernetes.io/docs/concepts/overview/working-with-objects/common-labels/
"""

from __future__ import annotations

from trainwright.datatypes.manifest import ObjectBody

JOB = "app.kubernetes.io/name"
RUN = "app.kubernetes.io/instance"  # the name of the object, also on its pods
MANAGED_BY = "app.kubernetes.io/managed-by"
ENVIRONMENT = "trainwright.io/environment"
NUMBER = "trainwright.io/run"
OURS = "trainwright"


def is_ours(holder: ObjectBody) -> bool:
    """Whether the chart made an object: others set the label of the app's name, too."""
    return holder.labels.get(MANAGED_BY) == OURS
