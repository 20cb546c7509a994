"""Variables and volumes of every kind that a pod can have, from the spec into the pods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from repository import EVERY_TARGET, Repository
from trainwright.datatypes.manifest import Manifest
from trainwright.documents import yamlio
from trainwright.kinds import TARGETS, operators

ENVIRONMENT = (
    """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "VERSION"}
podSecurity: privileged
"""
    + EVERY_TARGET
)
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
resources: {cpu: "1", memory: 1Gi}
"""
KUBERNETES = ["pytorchjob", "trainingjob", "trainjob", "jobset", "job"]


def _written(repository: Repository, text: str, target: str, version: str = "1.34") -> None:
    repository.write("prod/environment.yaml", ENVIRONMENT.replace("VERSION", version))
    repository.write("prod/jobs/llm.yaml", f"{JOB}target: {target}\n{text}")


def _container(repository: Repository, text: str, target: str = "job") -> dict[str, Any]:
    """The container that trains, and the volumes of its pod."""
    _written(repository, text, target)
    done = repository.run("render", "prod")
    assert done.exit_code == 0, done.output
    return _of_pod(repository.root / "environments/prod/rendered/llm")


def _of_pod(folder: Path) -> dict[str, Any]:
    bodies = [
        body
        for path in sorted(folder.glob("*.yaml"))
        if path.name != "values.yaml"
        for body in yamlio.load_rendered(path.read_text(encoding="utf-8"))
    ]
    found: dict[str, Any] = {}
    for spec in _specs(bodies):
        found = {**spec["containers"][0], "volumes": spec.get("volumes", [])}
    for body in bodies:  # a TrainJob has the program of its runtime's pods
        found |= body["spec"].get("trainer", {})
    return found


def _specs(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [spec for item in node for spec in _specs(item)]
    if not isinstance(node, dict):
        return []
    if "containers" in node:
        return [node]
    return [spec for item in node.values() for spec in _specs(item)]


def _findings(repository: Repository, text: str, target: str = "job", version: str = "1.34") -> str:
    _written(repository, text, target, version)
    done = repository.run("check", "prod")
    assert done.exit_code == 1, done.output
    return done.output


# --- variables -----------------------------------------------------------------------------------

VARIABLES = """\
env:
  ADDRESS: $(POD_IP):29500
  CORES: {resource: limits.cpu}
  POD_IP: {field: status.podIP}
  RATE: {configMap: train, key: rate, optional: true}
  SCRATCH: {resource: limits.ephemeral-storage, divisor: 1Gi}
envFrom:
  - configMap: nccl
  - {secret: tracker, prefix: WANDB_, optional: true}
"""
EXPECTED = {
    "ADDRESS": {"value": "$(POD_IP):29500"},
    "CORES": {"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    "POD_IP": {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    "RATE": {"valueFrom": {"configMapKeyRef": {"key": "rate", "name": "train", "optional": True}}},
    "SCRATCH": {
        "valueFrom": {"resourceFieldRef": {"divisor": "1Gi", "resource": "limits.ephemeral-storage"}}
    },
}  # fmt: skip


@pytest.mark.parametrize("target", KUBERNETES)
def test_variables_come_from_fields_resources_and_config_maps(
    repository: Repository, target: str
) -> None:
    found = _container(repository, VARIABLES, target)
    entries = {entry.pop("name"): entry for entry in found["env"]}
    assert EXPECTED.items() <= entries.items()
    assert found["envFrom"] == [
        {"configMapRef": {"name": "nccl"}},
        {"prefix": "WANDB_", "secretRef": {"name": "tracker", "optional": True}},
    ]


CHAIN = """\
env:
  A: "$(B)/$(TOKEN)"
  B: "$(D)"
  C: plain $$(D)
  D: {field: metadata.name}
  E: last $(A)
secrets: {TOKEN: {name: hf, key: token}}
"""


def test_a_variable_stands_before_those_that_refer_to_it(repository: Repository) -> None:
    names = [entry["name"] for entry in _container(repository, CHAIN)["env"]]
    assert names[:4] == ["D", "B", "TOKEN", "A"]
    assert names.index("E") > names.index("A")


def test_without_references_variables_stand_by_name(repository: Repository) -> None:
    env = "env: {B: x $$(A) $(NOWHERE), A: y, C: $(A), D: $(D)}\n"
    names = [entry["name"] for entry in _container(repository, env)["env"]]
    assert names == sorted(names)


def test_variables_that_refer_to_each_other_are_all_there(repository: Repository) -> None:
    found = _container(repository, "env: {A: $(B), B: $(C), C: $(A)}\n")["env"]
    assert {"A", "B", "C"} <= {entry["name"] for entry in found}


WRONG_VARIABLES = {
    "{field: metadata.nam}": 'env.A.field is "metadata.nam", which is not a valid field of the pod',
    "{fiel: metadata.name}": 'unknown key "fiel" in env.A',
    "{field: metadata.name, resource: limits.cpu}": "keys that exclude each other: field, resource",
    "{configMap: train}": "env.A has configMap without key",
    "{field: metadata.name, key: a}": "env.A.key means nothing without configMap",
    "{resource: cpu}": 'env.A.resource is "cpu", which is not a valid resource',
    "{}": "env.A needs one of: field, resource, configMap with key",
}


@pytest.mark.parametrize(("value", "message"), WRONG_VARIABLES.items(), ids=WRONG_VARIABLES)
def test_a_wrong_variable_is_refused_where_it_stands(
    repository: Repository, value: str, message: str
) -> None:
    assert message in _findings(repository, f"env: {{A: {value}}}\n")


# --- volumes -------------------------------------------------------------------------------------

SOURCES = {
    "csi: {driver: gcsfuse.csi.storage.gke.io, readOnly: true, volumeAttributes: {bucketName: b}}": {
        "csi": {
            "driver": "gcsfuse.csi.storage.gke.io",
            "readOnly": True,
            "volumeAttributes": {"bucketName": "b"},
        }
    },
    "projected: {sources: [{configMap: {name: a}}, {serviceAccountToken: {path: t, audience: vault}}]}": {
        "projected": {"sources": [{"configMap": {"name": "a"}}, {"serviceAccountToken": {"path": "t", "audience": "vault"}}]}
    },
    "downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}": {
        "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}
    },
    "configMap: {name: a, items: [{key: k, path: p, mode: 0o400}], defaultMode: 292}": {
        "configMap": {
            "name": "a",
            "items": [{"key": "k", "path": "p", "mode": 0o400}],
            "defaultMode": 292,
        }
    },
    "secret: {secretName: a, optional: true}": {"secret": {"secretName": "a", "optional": True}},
    "configMap: a": {"configMap": {"name": "a"}},
    "persistentVolumeClaim: {claimName: a, readOnly: true}": {
        "persistentVolumeClaim": {"claimName": "a", "readOnly": True}
    },
    "nfs: {server: nas, path: /x, readOnly: true}": {
        "nfs": {"server": "nas", "path": "/x", "readOnly": True}
    },
    "iscsi: {targetPortal: nas, iqn: iqn.2001-04.com.example:disk, lun: 0}": {
        "iscsi": {"targetPortal": "nas", "iqn": "iqn.2001-04.com.example:disk", "lun": 0}
    },
}  # fmt: skip


@pytest.mark.parametrize("target", ["pytorchjob", "trainjob"])
@pytest.mark.parametrize(("written", "source"), SOURCES.items(), ids=[k[:20] for k in SOURCES])
def test_a_volume_has_any_source_of_a_pod(
    repository: Repository, written: str, source: dict[str, Any], target: str
) -> None:
    found = _container(repository, f"volumes: {{v: {{{written}, mountPath: /v}}}}\n", target)
    (volume,) = (volume for volume in found["volumes"] if volume["name"] == "v")
    assert volume == {"name": "v", **source}


def test_a_volume_is_mounted_at_several_places(repository: Repository) -> None:
    text = """\
env: {POD: {field: metadata.name}}
volumes:
  v:
    claim: data
    mountPath: /data
    readOnly: true
    mounts:
      - {mountPath: /out, subPathExpr: runs/$(POD)}
      - {mountPath: /cache, subPath: cache, mountPropagation: HostToContainer}
"""
    mounts = [m for m in _container(repository, text)["volumeMounts"] if m["name"] == "v"]
    assert mounts == [
        {"name": "v", "mountPath": "/data", "readOnly": True},
        {"name": "v", "mountPath": "/out", "subPathExpr": "runs/$(POD)"},
        {
            "name": "v",
            "mountPath": "/cache",
            "subPath": "cache",
            "mountPropagation": "HostToContainer",
        },
    ]


WRONG_VOLUMES = {
    "csi: {drivr: a}, mountPath: /v": 'unknown key "drivr" in volumes.v.csi',
    "csi: {volumeAttributes: {a: b}}, mountPath: /v": "volumes.v.csi.driver is missing",
    "ephemeral: {volumeClaimTemplate: {spec: {accessMode: x}}}, mountPath: /v": (
        'unknown key "accessMode" in volumes.v.ephemeral.volumeClaimTemplate.spec'
    ),
    "configMap: {items: []}, mountPath: /v": "volumes.v.configMap.name is missing",
    "configMap: {name: a, defaultMode: 755}, mountPath: /v": "must be at most 511",
    "claim: a, csi: {driver: b}, mountPath: /v": "keys that exclude each other: claim, csi",
    "claim: a": "volumes.v is mounted nowhere",
    "claim: a, mounts: [{mountPath: /a}, {mountPath: /a/}]": "volumes.v are both mounted at /a",
    "claim: a, mountPath: /v, subPath: a, subPathExpr: b": "exclude each other",
    "claim: a, mountPath: /v, mountPropagation: Both": "Bidirectional",
}


@pytest.mark.parametrize(("written", "message"), WRONG_VOLUMES.items(), ids=WRONG_VOLUMES)
def test_a_wrong_volume_is_refused_where_it_stands(
    repository: Repository, written: str, message: str
) -> None:
    found = _findings(repository, f"volumes: {{v: {{{written}}}}}\n")
    assert message in found.replace("\n", " ")
    assert "environments/prod/jobs/llm.yaml:8:" in found


def test_a_source_that_this_kubernetes_does_not_have_is_dated(repository: Repository) -> None:
    text = "volumes: {v: {image: {reference: 'registry.example.com/m:1'}, mountPath: /v}}\n"
    found = _findings(repository, text, version="1.29")
    assert "volumes.v.image is not a field of Kubernetes 1.29" in found
    assert "it comes with Kubernetes 1.31, this is 1.29" in found


REFUSED = {
    "env: {A: {field: metadata.name}}": "a value of a cluster, which Docker does not have",
    "envFrom: [{secret: a}]": "ConfigMaps and Secrets are objects of a cluster",
    "volumes: {v: {csi: {driver: a}, mountPath: /v}}": "Docker has nothing like volumes.v.csi",
    "volumes: {v: {claim: a, mountPath: /v, subPathExpr: a}}": "Docker has nothing like subPathExpr",
    "volumes: {v: {emptyDir: {}, mounts: [{mountPath: /a}, {mountPath: /b}]}}": "at one place",
    "volumes: {v: {emptyDir: {medium: HugePages}, mountPath: /a}}": "no folder in HugePages",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=REFUSED)
def test_docker_refuses_by_name_what_only_clusters_have(
    repository: Repository, text: str, message: str
) -> None:
    assert message in _findings(repository, f"{text}\n", "compose")


def test_docker_mounts_a_claim_at_several_places(repository: Repository) -> None:
    text = "volumes: {v: {claim: a, mounts: [{mountPath: /a}, {mountPath: /b, readOnly: true}]}}\n"
    text += "security: {runAsUser: 1000}\nmaxDuration: null\n"
    _written(repository, text, "compose")
    done = repository.run("render", "prod")
    assert done.exit_code == 0, done.output
    path = repository.root / "environments/prod/rendered/llm/compose.yaml"
    (body,) = yamlio.load_rendered(path.read_text(encoding="utf-8"))
    envelope = TARGETS["compose"].envelope
    assert envelope is not None
    (pod,) = operators.pods((Manifest(body=envelope(body)),))
    assert [(m.path, m.volume, m.read_only) for m in pod.mounts if m.volume == "a"] == [
        ("/a", "a", False),
        ("/b", "a", True),
    ]
