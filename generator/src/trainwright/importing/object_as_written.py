"""An object of a cluster without what its API server, controllers and engines have added to it.

The result can be applied without changing the object. So it keeps the node selectors and
tolerations of Kueue: an engine that applies other ones would remove these.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.manifest import LAST_APPLIED
from trainwright.datatypes.pointer import Pointer, lookup, with_value, without, without_value
from trainwright.kinds.kind import Kind
from trainwright.kinds.labels import DOMAIN, OF_JOBS
from trainwright.objects.kueue import QUEUE_LABEL

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/
_BOOKKEEPING = frozenset(
    "creationTimestamp deletionGracePeriodSeconds deletionTimestamp finalizers generation "
    "managedFields ownerReferences resourceVersion selfLink uid".split()
)
# What an engine writes into each object that it applies, to know it again.
TRACKING = frozenset(
    "argocd.argoproj.io/installation-id argocd.argoproj.io/tracking-id argocd.argoproj.io/instance "
    "helm.toolkit.fluxcd.io/name helm.toolkit.fluxcd.io/namespace kustomize.toolkit.fluxcd.io/name "
    "kustomize.toolkit.fluxcd.io/namespace meta.helm.sh/release-name "
    "meta.helm.sh/release-namespace".split()
)
_ANNOTATIONS = TRACKING | {LAST_APPLIED, f"{DOMAIN}job-tracking"}
_KUEUE = "kueue.x-k8s.io/manager"  # of an entry in the runtimePatches of a TrainJob


def as_written(body: Mapping[str, Data], kind: Kind) -> dict[str, Data]:
    """Return the object as it would be applied: without what was added to it in the cluster."""
    rest = {key: value for key, value in body.items() if key != "status"}
    manifest: dict[str, Data] = without(rest, _is_printed)
    manifest["metadata"] = _metadata(mapping(body.get("metadata")))
    if kind.kind == "Job" and not lookup(manifest, "/spec/manualSelector"):
        manifest = _without_selector(manifest)
    if is_queued(body):
        manifest = without_value(manifest, Pointer(kind.suspend)) if kind.suspend else manifest
        patches = lookup(manifest, "/spec/runtimePatches")
        if isinstance(patches, list):
            others = [patch for patch in patches if mapping(patch).get("manager") != _KUEUE]
            at = Pointer("/spec/runtimePatches")
            manifest = with_value(manifest, at, others) if others else without_value(manifest, at)
    return manifest


def is_queued(body: Mapping[str, Data]) -> bool:
    """Whether Kueue decides when an object starts, and writes into it."""
    return bool(mapping(mapping(body.get("metadata")).get("labels")).get(QUEUE_LABEL))


def _metadata(metadata: Mapping[str, Data]) -> dict[str, Data]:
    kept_metadata = {key: value for key, value in metadata.items() if key not in _BOOKKEEPING}
    for field, added in (("annotations", _ANNOTATIONS), ("labels", TRACKING)):
        kept = {
            key: entry
            for key, entry in mapping(kept_metadata.pop(field, None)).items()
            if key not in added
        }
        kept_metadata |= {field: kept} if kept else {}
    return kept_metadata


def _is_printed(key: str, value: Data) -> bool:
    """Whether it is an empty timestamp, as templates of pods are printed with."""
    return key == "creationTimestamp" and value is None


def _without_selector(manifest: dict[str, Data]) -> dict[str, Data]:
    """Return a Job without the selector and labels that its API server generates for each."""
    for pointer in (
        Pointer("/spec/selector"),
        *(Pointer.of("spec", "template", "metadata", "labels", name) for name in OF_JOBS),
    ):
        manifest = without_value(manifest, pointer)
    return manifest
