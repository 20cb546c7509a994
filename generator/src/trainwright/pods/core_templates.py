"""Where the workloads of Kubernetes itself have their pod templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.model import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import amount, dig, mapping, mappings
from trainwright.pods.template import PodTemplate, claim_names

_TEMPLATE = Pointer("/spec/template")
_AT: Mapping[GroupKind, Pointer] = {
    GroupKind("", "Pod"): Pointer(),
    GroupKind("", "PodTemplate"): Pointer("/template"),
    GroupKind("", "ReplicationController"): _TEMPLATE,
    GroupKind("apps", "DaemonSet"): _TEMPLATE,
    GroupKind("apps", "Deployment"): _TEMPLATE,
    GroupKind("apps", "ReplicaSet"): _TEMPLATE,
    GroupKind("apps", "StatefulSet"): _TEMPLATE,
    GroupKind("batch", "CronJob"): Pointer("/spec/jobTemplate/spec/template"),
}


def core_templates(manifest: Manifest) -> Iterator[PodTemplate]:
    """The pod template of a Pod, or of what makes Pods; none of another kind."""
    at = _AT.get(manifest.group_kind)
    if at is not None:
        body = mapping(dig(manifest.body, *at.parts))
        replicas = amount(manifest.spec.get("replicas"))
        # A StatefulSet makes a volume of each of its claim templates.
        claims = mappings(manifest.spec.get("volumeClaimTemplates"))
        yield PodTemplate(at, body, replicas=replicas, claimed=claim_names(claims))
