"""What operators make of rendered objects, written once: pods with their whole environment.

Which operator makes pods of a kind is in `operator.py` of its folder.
"""

import base64
from collections.abc import Set
from dataclasses import replace

from trainwright.datatypes.data import texts
from trainwright.datatypes.groupkind import CONFIGMAP, SERVICEACCOUNT
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import KINDS
from trainwright.objects.pods.groups import Pods
from trainwright.objects.pods.pod import Configs, ManifestError, Operator, Pod, Workload

OPERATORS: dict[tuple[str, str], Operator] = {
    known: kind.operator for kind in KINDS.values() for known in (*kind.aliases, kind.group_kind)
}


def find(manifests: tuple[Manifest, ...]) -> tuple[Operator, Manifest]:
    """Return the one object that becomes training pods, and the operator that makes them.

    Raise ManifestError if there is none, or more than one.
    """
    matches = [
        (OPERATORS[manifest.identity[:2]], manifest)
        for manifest in manifests
        if manifest.identity[:2] in OPERATORS
    ]
    if len(matches) != 1:
        kinds = ", ".join(sorted({manifest.kind or "nothing" for manifest in manifests}))
        raise ManifestError(
            f"expected one object that an operator makes training pods of, found {len(matches)} "
            f"(among {kinds or 'no objects at all'})"
        )
    return matches[0]


def workload(manifests: tuple[Manifest, ...], size: int | None = None) -> Workload:
    """Return the pods that the cluster makes of a rendered job, and which of them decide success.

    `size` is how many pods an elastic job is given; None: as many as it requests. Raise
    ManifestError if no pods are made.
    """
    operator, manifest = find(manifests)
    made = operator.pods(manifest, manifests, size)
    if not made.training:
        raise ManifestError(f"{manifest.kind} {manifest.name} has no pods: nothing is started")
    accounts = [manifest for manifest in manifests if manifest.group_kind == SERVICEACCOUNT]
    without = {a.name for a in accounts if a.body.get("automountServiceAccountToken") is False}
    if not without:
        return made
    return replace(made, pods=made.pods.mapped(lambda pod: _without_token(pod, without)))


def _without_token(pod: Pod, accounts: Set[str]) -> Pod:
    """Return the pod without a token if it does not mention one and its account mounts none.

    https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#opt-out-of-api-credential-automounting
    """
    takes = pod.token is None and (pod.service_account or "default") in accounts
    return replace(pod, token=False) if takes else pod


def pods(manifests: tuple[Manifest, ...], size: int | None = None) -> Pods:
    """Return the pods of `workload` alone."""
    return workload(manifests, size).pods


def configs(manifests: tuple[Manifest, ...]) -> Configs:
    """Return the rendered files that pods may mount, by ConfigMap and key."""
    by_name = {m.name: _files(m) for m in manifests if m.group_kind == CONFIGMAP}
    operator, manifest = find(manifests)
    return {**by_name, **operator.configs(manifest)}


def _files(config: Manifest) -> dict[str, str | bytes]:
    own, others = (texts(config.body.get(field)) for field in ("data", "binaryData"))
    return {**own, **{key: _decoded(value) for key, value in others.items()}}


def _decoded(value: str) -> bytes:
    """Return the bytes of a key, or the text's own bytes if it is not base64."""
    try:
        return base64.b64decode(value)
    except ValueError:
        return value.encode()
