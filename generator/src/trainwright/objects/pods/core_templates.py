"""Pod templates in objects of kinds that train nothing here: found by their common shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data, amount, dig, mapping, mappings
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.objects.pods.template import PodTemplate, claim_names

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
# Groups whose other kinds have no pods, and which ask for a walk through long objects.
_WITHOUT_PODS = frozenset({"", "apiextensions.k8s.io", "rbac.authorization.k8s.io"})


def core_templates(manifest: Manifest) -> Iterator[PodTemplate]:
    """Yield the pod templates of an object that is of none of the training kinds known here."""
    at = _AT.get(manifest.group_kind)
    if at is not None:
        body = mapping(dig(manifest.body, *at.parts))
        replicas = amount(manifest.spec.get("replicas"))
        # A StatefulSet makes a volume of each of its claim templates.
        claims = mappings(manifest.spec.get("volumeClaimTemplates"))
        replaced = manifest.group_kind.group == "apps" or None
        yield PodTemplate(
            at, body, "", replicas, replaced, claimed=claim_names(claims), foreign=True
        )
    elif manifest.group_kind.group not in _WITHOUT_PODS:
        grouped = manifest.group_kind.kind == "LeaderWorkerSet"
        groups = amount(manifest.spec.get("replicas")) if grouped else 1
        for template in _with_containers(manifest.spec, Pointer("/spec"), 1):
            yield replace(template, groups=groups) if grouped else template


def _with_containers(value: Data, at: Pointer, replicas: int) -> Iterator[PodTemplate]:
    """Yield as a template each value with a spec of named containers that have an image key."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _with_containers(item, at / index, replicas)
    elif isinstance(value, dict):
        containers = mappings(dig(value, "spec", "containers"))
        if containers and all(c.get("name") and "image" in c for c in containers):
            yield PodTemplate(at, value, replicas=replicas, foreign=True)
            return
        pods_around = amount(value.get("replicas"), replicas)
        for key, item in value.items():
            if isinstance(item, (dict, list)):
                yield from _with_containers(
                    item, at / str(key), pods_around * _in_group(value, key)
                )


_LEADER = "leaderTemplate"


def _in_group(groups: Mapping[str, Data], key: str) -> int:
    """Return how many pods of a template a group of a LeaderWorkerSet has; 1 for other kinds."""
    return 1 if key == _LEADER else amount(groups.get("size")) - (_LEADER in groups)
