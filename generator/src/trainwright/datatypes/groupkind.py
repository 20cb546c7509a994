"""The kinds of objects that Trainwright knows, each by its API group and its name.

The name alone does not say what an object is: Volcano has a Job, SageMaker a TrainingJob. The kinds
that train are in the package `kinds`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class GroupKind(NamedTuple):
    """A kind of a Kubernetes API; "" is the group of Kubernetes' core. Versions do not matter."""

    group: str
    kind: str

    def __str__(self) -> str:
        return self.kind

    @classmethod
    def of(cls, api_version: str, kind: str) -> GroupKind:
        """Return the kind of an object; without an apiVersion, the registered kind of that name."""
        if not api_version:
            return _BY_NAME.get(kind, cls("", kind))
        return cls(api_version.rpartition("/")[0], kind)


# Kinds that training refers to, or that are deployed beside it.
TRAININGRUNTIME = GroupKind("trainer.kubeflow.org", "TrainingRuntime")
CLUSTERTRAININGRUNTIME = GroupKind("trainer.kubeflow.org", "ClusterTrainingRuntime")
SERVICE = GroupKind("", "Service")
SERVICEACCOUNT = GroupKind("", "ServiceAccount")
CONFIGMAP = GroupKind("", "ConfigMap")
SECRET = GroupKind("", "Secret")
EXTERNALSECRET = GroupKind("external-secrets.io", "ExternalSecret")
SEALEDSECRET = GroupKind("bitnami.com", "SealedSecret")
PERSISTENTVOLUMECLAIM = GroupKind("", "PersistentVolumeClaim")
RESOURCEQUOTA = GroupKind("", "ResourceQuota")
LIMITRANGE = GroupKind("", "LimitRange")
NETWORKPOLICY = GroupKind("networking.k8s.io", "NetworkPolicy")
ROLE = GroupKind("rbac.authorization.k8s.io", "Role")
ROLEBINDING = GroupKind("rbac.authorization.k8s.io", "RoleBinding")
LOCALQUEUE = GroupKind("kueue.x-k8s.io", "LocalQueue")
CLUSTERQUEUE = GroupKind("kueue.x-k8s.io", "ClusterQueue")
RESOURCEFLAVOR = GroupKind("kueue.x-k8s.io", "ResourceFlavor")
PODGROUP_OF_VOLCANO = GroupKind("scheduling.volcano.sh", "PodGroup")
PODGROUP_OF_PLUGINS = GroupKind("scheduling.x-k8s.io", "PodGroup")
# What applies it.
APPLICATION = GroupKind("argoproj.io", "Application")
APPLICATIONSET = GroupKind("argoproj.io", "ApplicationSet")
KUSTOMIZATION = GroupKind("kustomize.toolkit.fluxcd.io", "Kustomization")
HELMRELEASE = GroupKind("helm.toolkit.fluxcd.io", "HelmRelease")

RUNTIMES = (TRAININGRUNTIME, CLUSTERTRAININGRUNTIME)
PODGROUPS = (PODGROUP_OF_VOLCANO, PODGROUP_OF_PLUGINS)

_BY_NAME = {
    known.kind: known
    for known in (
        *RUNTIMES,
        *(LOCALQUEUE, CLUSTERQUEUE, RESOURCEFLAVOR),
        *(APPLICATION, APPLICATIONSET, KUSTOMIZATION, HELMRELEASE),
    )
}


def recognize(kinds: Iterable[GroupKind]) -> None:
    """Register kinds, so that objects without an apiVersion are recognized by their kind's name."""
    _BY_NAME.update((kind.kind, kind) for kind in kinds)
