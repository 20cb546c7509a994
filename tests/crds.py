"""Upstream CRDs as strict JSON Schemas: what a real API server accepts, and nothing beyond."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

# Where the real definitions of kinds are, below ../shared.
CRDS = {
    "PyTorchJob": "crds/kubeflow.org/pytorchjobs.yaml",
    "TrainingJob": "crds/breezeml.ai/trainingjobs.yaml",
    "JobSet": "crds/jobset.x-k8s.io/jobsets.yaml",
    "RayJob": "crds/ray.io/rayjobs.yaml",
    "TrainingRuntime": "crds/trainer.kubeflow.org/trainingruntimes.yaml",
}
# Our schemas know only as much of these as is rendered; two projects call theirs a PodGroup.
PARTS = {
    "monitoring.coreos.com/v1": "crds/monitoring.coreos.com/podmonitors.yaml",
    "external-secrets.io/v1": "crds/external-secrets.io/externalsecrets.yaml",
    "scheduling.volcano.sh/v1beta1": "crds/scheduling.volcano.sh/podgroups.yaml",
    "scheduling.x-k8s.io/v1alpha1": "crds/scheduling.x-k8s.io/podgroups.yaml",
}
_FETCHED = Path(__file__).parent / ".upstream"
# A TrainJob differs with the minor version of Kubeflow Trainer.
TRAINJOBS = {
    "2.0": "crds/trainer.kubeflow.org/trainjobs-v2.0.1.yaml",
    "2.1": "crds/trainer.kubeflow.org/trainjobs-v2.1.0.yaml",
    "2.2": "crds/trainer.kubeflow.org/trainjobs-v2.2.1.yaml",
    "2.3": "crds/trainer.kubeflow.org/trainjobs.yaml",
}


def path_of(body: Any, trainer: str = "2.3") -> str | None:
    """Where the definition of an object's kind is; Kubernetes' own kinds have none."""
    if body.get("kind") == "TrainJob":
        return TRAINJOBS[trainer]
    return CRDS.get(body.get("kind")) or PARTS.get(body.get("apiVersion"))


def at_hand(body: Any, trainer: str = "2.3") -> str | None:
    """The same, for tests over all targets: None as well for a RayJob whose definition was not
    fetched, so that the other kinds are held against theirs. `test_manifests` names what is not.
    """
    path = path_of(body, trainer)
    fetched = path != CRDS["RayJob"] or (_FETCHED / path).exists()
    return path if fetched else None


@cache
def validator(path: Path, name: str = "") -> jsonschema_rs.Validator:
    """A validator for a version of a CRD file, the one that is stored where it is not named.

    Unknown fields are refused.
    """
    crd = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    versions = crd["spec"]["versions"]
    (version,) = [v for v in versions if (v["name"] == name if name else v["storage"])]
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema_rs.Draft202012Validator(schema)


def strict(node: Any) -> Any:
    """The schema with every described object closed, as strict field validation reads it."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    # A property may be called description too.
    kept = (item for item in node.items() if item[0] != "description" or isinstance(item[1], dict))
    result = {key: strict(value) for key, value in kept}
    if node.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
        result["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if "properties" in node and not node.get("x-kubernetes-preserve-unknown-fields"):
        result["additionalProperties"] = False
    if node.get("nullable") and "type" in result:
        result["type"] = [result["type"], "null"]
    return result


def errors(path: Path, body: Any, version: str = "") -> list[str]:
    """What the CRD refuses in an object."""
    return [f"{e.instance_path}: {e.message}" for e in validator(path, version).iter_errors(body)]
