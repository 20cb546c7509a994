"""The configuration of a cluster's Kueue, in the form of environment.yaml.

Facts: kubernetes-sigs/kueue v0.19.2, apis/config/v1beta2/defaults.go, which has the defaults,
and apis/config/v1beta1/configuration_conversion.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from trainwright.cluster.client import Cluster, Resource
from trainwright.cluster.errors import ClusterError
from trainwright.datatypes.data import Data, dig, mapping, mappings, sequence, text
from trainwright.datatypes.environment import Kueue, WaitForPodsReady
from trainwright.documents import yamlio

NAMESPACE = "kueue-system"
ROLE = "doctor"  # that allows to read both
_FILE = "controller_manager_config.yaml"
_CONFIG_MAP = Resource(api_version="v1", plural="configmaps"), "kueue-manager-config"
_DEPLOYMENT = Resource(api_version="apps/v1", plural="deployments"), "kueue-controller-manager"


def read(cluster: Cluster) -> tuple[Kueue, str]:
    """Return Kueue's configuration and the image of its manager. Raise ClusterError."""
    written = _configuration(text(dig(_get(cluster, *_CONFIG_MAP), "data", _FILE)))
    deployment = _get(cluster, *_DEPLOYMENT)
    pod = dig(deployment, "spec", "template", "spec", "containers")
    container = next((entry for entry in mappings(pod) if entry.get("name") == "manager"), {})
    image = text(container.get("image"))
    kueue = Kueue(
        version=_version(image),
        frameworks=_frameworks(written),
        wait_for_pods_ready=_waits(written),
        feature_gates=dict(sorted(_gates(written, sequence(container.get("args"))))),
    )
    return kueue, image


def _get(cluster: Cluster, resource: Resource, name: str) -> Mapping[str, Data]:
    body = cluster.get(resource, NAMESPACE, name, role=ROLE)
    if body is None:
        kind = {"configmaps": "ConfigMap", "deployments": "Deployment"}[resource.plural]
        raise ClusterError(f"there is no {kind} {name} in {NAMESPACE} of {cluster.where}")
    return mapping(body)


def _configuration(written: str) -> Mapping[str, Data]:
    parsed = yamlio.parse(_FILE, written.encode())
    if isinstance(parsed, yamlio.Document):
        return mapping(parsed.data)
    raise ClusterError(f"the ConfigMap {_CONFIG_MAP[1]} cannot be read: {parsed[0].message}")


# registry.k8s.io/kueue/kueue:v0.19.2, and the tag may have a digest behind it.
_TAG = re.compile(r":v?(\d+\.\d+(?:\.\d+)?)[^/:@]*(?:@.*)?")


def _version(image: str) -> str:
    match = _TAG.search(image, image.rfind("/") + 1)
    return match[1] if match else ""


def _frameworks(written: Mapping[str, Data]) -> tuple[str, ...]:
    named = sequence(dig(written, "integrations", "frameworks"))
    return tuple(filter(None, map(text, named))) or ("batch/job",)


def _waits(written: Mapping[str, Data]) -> WaitForPodsReady | None:
    """Return Kueue's waitForPodsReady, or None if it is left to the default of its version."""
    block = written.get("waitForPodsReady")
    former = text(written.get("apiVersion")).endswith("/v1beta1")
    if former and not dig(block, "enable"):
        return WaitForPodsReady(enable=False)
    if not isinstance(block, dict):
        return None
    return WaitForPodsReady(
        timeout=_seconds(block.get("timeout")) or (300 if former else None),
        recovery_timeout=_seconds(block.get("recoveryTimeout")),
    )


# https://pkg.go.dev/time#ParseDuration
_GO = re.compile(r"(?<![\d.])(\d++(?:\.\d*+)?+)(h|ms|us|ns|m|s)")
_UNITS = {"h": 3600, "m": 60, "s": 1, "ms": 0.001, "us": 0.000_001, "ns": 0.000_000_001}


def _seconds(duration: Data) -> int | None:
    parts = _GO.findall(text(duration))
    return int(sum(float(number) * _UNITS[unit] for number, unit in parts)) if parts else None


def _gates(written: Mapping[str, Data], arguments: Iterable[Data]) -> Iterator[tuple[str, bool]]:
    """Yield gates of the configuration and of --feature-gates: Kueue takes only one of them."""
    for name, state in mapping(written.get("featureGates")).items():
        yield name, state is True
    for argument in map(text, arguments):
        flag, _, given = argument.partition("=")
        if flag == "--feature-gates":
            for pair in filter(None, given.split(",")):
                name, _, state = pair.partition("=")
                yield name.strip(), state.strip().lower() in ("true", "t", "1")
