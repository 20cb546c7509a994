"""Where a PyTorchJob has its pod templates, in a manifest of any origin."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import amount, dig, mapping
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.pytorchjob import KIND
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods.template import PodTemplate

_REPLICAS = Pointer("/spec/pytorchReplicaSpecs")


def pod_templates(manifest: Manifest) -> Iterator[PodTemplate]:
    """Yield the pod template of each role."""
    spec = manifest.spec
    limit = dig(spec, "runPolicy", "backoffLimit")
    processes = spec.get("nprocPerNode")
    # The default is the operator's, unless the deprecated field of elastic jobs is there.
    default = mapping(spec.get("elasticPolicy")).get("nProcPerNode", "auto")
    for role, replica in mapping(spec.get("pytorchReplicaSpecs")).items():
        if isinstance(replica, dict):
            yield PodTemplate(
                _REPLICAS / str(role) / "template",
                mapping(replica.get("template")),
                str(role),
                amount(replica.get("replicas")),
                retried=limit != 0 and replica.get("restartPolicy") != "Never",
                processes=str(default if processes is None else processes),
                processes_at="" if processes is None else "/spec/nprocPerNode",
            )


def _pytorchjob(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    return pod_templates(manifest)


TEMPLATES = {KIND.group_kind: _pytorchjob}
