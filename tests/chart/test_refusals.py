"""Wrong values: the schema and the templates refuse them in plain Helm, and say what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import helm_python
import jsonschema_rs
import pytest

from helm_chart import CHART, IMAGE, SCENARIOS, body, load, render
from trainwright.datatypes.data import Data

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
LONG = "a" * 64


def _volume(name: str = "v", path: str = "/v", **source: Data) -> dict[str, Data]:
    return {"name": name, "mountPath": path, "source": source or {"emptyDir": {}}}


def _volumes(*volumes: dict[str, Data]) -> dict[str, Data]:
    return {"volumes": list(volumes)}


# Values that the schema refuses, and where it says so.
MALFORMED: dict[str, tuple[dict[str, Data], str]] = {
    "an unknown key": ({"replicaCount": 1}, "replicaCount"),
    "no target": ({"target": None}, "target"),
    "a target nobody has": ({"target": "mpijob"}, "/target"),
    "a blank image": ({"image": {"repository": " "}}, "/image/repository"),
    "an image with its tag": ({"image": {"repository": "a/b:1"}}, "/image/repository"),
    "an image with capitals": ({"image": {"repository": "A/b"}}, "/image/repository"),
    "a tag with a colon": ({"image": {"repository": "a", "tag": "a:b"}}, "/image/tag"),
    "a numeric tag": ({"image": {"repository": "a", "tag": 2026}}, "/image/tag"),
    "a short digest": ({"image": {"repository": "a", "digest": "sha256:abc"}}, "/image/digest"),
    "a pull policy nobody has": ({"image": {"repository": "a", "pullPolicy": "Once"}}, "pullPolicy"),
    "a pull secret as a string": ({"imagePullSecrets": ["a"]}, "/imagePullSecrets/0"),
    "a command as a string": ({"command": "python train.py"}, "/command"),
    "a numeric argument": ({"args": [1]}, "/args/0"),
    "a numeric variable": ({"env": {"A": 1}}, "/env/A"),
    "a variable name with a dash": ({"env": {"A-B": "1"}}, "A-B"),
    "a variable that starts with a digit": ({"env": {"1A": "1"}}, "1A"),
    "a secret without its key": ({"secretEnv": {"A": {"name": "a"}}}, "/secretEnv/A"),
    "a secret with a value": ({"secretEnv": {"A": {"name": "a", "key": "b", "value": "c"}}}, "value"),
    "a secret with capitals": ({"secretEnv": {"A": {"name": "A", "key": "b"}}}, "/secretEnv/A/name"),
    "two masters": ({"replicas": {"master": 2}}, "/replicas/master"),
    "fewer than no workers": ({"replicas": {"worker": -1}}, "/replicas/worker"),
    "a number of processes": ({"nprocPerNode": 8}, "/nprocPerNode"),
    "no processes": ({"nprocPerNode": "0"}, "/nprocPerNode"),
    "processes by another word": ({"nprocPerNode": "all"}, "/nprocPerNode"),
    "half a range": ({"elastic": {"minReplicas": 1}}, "/elastic"),
    "a rendezvous nobody has": (
        {"elastic": {"minReplicas": 1, "maxReplicas": 2, "rdzvBackend": "zookeeper"}},
        "rdzvBackend",
    ),
    "an unknown restart policy": ({"restartPolicy": "Sometimes"}, "/restartPolicy"),
    "a TTL": ({"runPolicy": {"ttlSecondsAfterFinished": 60}}, "ttlSecondsAfterFinished"),
    "clean nothing, misspelt": ({"runPolicy": {"cleanPodPolicy": "none"}}, "cleanPodPolicy"),
    "a deadline of nothing": ({"runPolicy": {"activeDeadlineSeconds": 0}}, "activeDeadlineSeconds"),
    "a textual limit": ({"runPolicy": {"backoffLimit": "3"}}, "backoffLimit"),
    "a quantity with a space": ({"shm": {"sizeLimit": "1 Gi"}}, "sizeLimit"),
    "shared memory of no size": ({"shm": {"sizeLimit": "0Gi"}}, "sizeLimit"),
    "half a byte": ({"shm": {"sizeLimit": "500m"}}, "sizeLimit"),
    "a bare number of GPUs": ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, "gpu"),
    "a unit nobody has": ({"resources": {"requests": {"memory": "1GB"}}}, "/resources/requests/memory"),
    "a resource with two slashes": ({"resources": {"limits": {"a/b/c": "1"}}}, "a/b/c"),
    "no source": (_volumes({"name": "a", "mountPath": "/a", "source": {}}), "/volumes/0/source"),
    "two sources": (_volumes(_volume(emptyDir={}, nfs={"server": "a", "path": "/"})), "/volumes/0/source"),
    "a source nobody has": (_volumes(_volume(gitFolder={"repository": "a"})), "gitFolder"),
    "a volume in the way of shared memory": (_volumes(_volume("dshm")), "/volumes/0/name"),
    "a volume with a dot": (_volumes(_volume("a.b")), "/volumes/0/name"),
    "a relative mount": (_volumes(_volume(path="data")), "/volumes/0/mountPath"),
    "a mount with a colon": (_volumes(_volume(path="/a:b")), "/volumes/0/mountPath"),
    "a step upwards in a volume": (_volumes({**_volume(), "subPath": "a/../b"}), "subPath"),
    "a step upwards on the node": (_volumes(_volume(hostPath={"path": "/a/.."})), "hostPath"),
    "what no YAML reader takes": (_volumes(_volume(hostPath={"path": "/\x80"})), "hostPath"),
    "a port out of range": ({"ports": [{"name": "a", "containerPort": 70000}]}, "containerPort"),
    "a port without a letter": ({"ports": [{"name": "1", "containerPort": 1}]}, "/ports/0/name"),
    "a port without a name": ({"ports": [{"containerPort": 1}]}, "/ports/0"),
    "a label with a space": ({"labels": {"a": "b c"}}, "/labels/a"),
    "a label of 64 characters": ({"commonLabels": {"a": LONG}}, "/commonLabels/a"),
    "a boolean label": ({"podLabels": {"a": True}}, "/podLabels/a"),
    "a label key with a space": ({"nodeSelector": {"a b": "c"}}, "a b"),
    "a numeric annotation": ({"annotations": {"a": 1}}, "/annotations/a"),
    "a taint that exists with a value": (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "/tolerations/0/value",
    ),
    "a taint without a key": ({"tolerations": [{"value": "b"}]}, "/tolerations/0"),
    "seconds without an effect": ({"tolerations": [{"key": "a", "tolerationSeconds": 1}]}, "effect"),
    "an effect nobody has": ({"tolerations": [{"key": "a", "effect": "Evict"}]}, "effect"),
    "an affinity, misspelt": ({"affinity": {"nodeAfinity": {}}}, "nodeAfinity"),
    "an affinity that readers fold": ({"affinity": {"nodeAffinity": {"a": ["\x85"]}}}, "nodeAffinity"),
    "a key too long for YAML": ({"affinity": {"nodeAffinity": {"a" * 1025: 1}}}, "nodeAffinity"),
    "a textual boolean": ({"securityContext": {"privileged": "no"}}, "/securityContext/privileged"),
    "a pod's field on the container": ({"securityContext": {"fsGroup": 1}}, "fsGroup"),
    "a capability with its prefix": ({"securityContext": {"capabilities": {"add": ["CAP_X"]}}}, "/add/0"),
    "a user below nobody": ({"podSecurityContext": {"runAsUser": -1}}, "runAsUser"),
    "a profile nobody has": ({"podSecurityContext": {"seccompProfile": {"type": "None"}}}, "seccompProfile"),
    "a name with an underscore": ({"serviceAccountName": "a_b"}, "/serviceAccountName"),
    "a name with two dots": ({"priorityClassName": "a..b"}, "/priorityClassName"),
    "an object that starts with a digit": ({"fullnameOverride": "1a"}, "/fullnameOverride"),
    "an object with a line feed": ({"fullnameOverride": "a\n"}, "/fullnameOverride"),
    "a negative grace period": ({"terminationGracePeriodSeconds": -1}, "terminationGracePeriodSeconds"),
    "no smallest size": ({"lattice": {"minSize": 0}}, "/lattice/minSize"),
    "a framework nobody has": ({"lattice": {"framework": "jax"}}, "/lattice/framework"),
}  # fmt: skip

_LATTICE = {"target": "trainingjob"}
_JOBSET = {"target": "jobset"}
_RAY = {"target": "rayjob", "ray": {"entrypoint": "python a.py"}}
_COMPOSE = {"target": "compose"}
_ELASTIC = {"minReplicas": 1, "maxReplicas": 2}

# Values that contradict each other, and what the chart says.
CONTRADICTORY: dict[str, tuple[dict[str, Data], str]] = {
    "no image": ({"image": {"repository": ""}}, "image.repository is required"),
    "elastic with a master": (
        {"elastic": _ELASTIC, "replicas": {"worker": 1}},
        "an elastic job has workers only: set replicas.master to 0",
    ),
    "a range upside down": (
        {"elastic": {"minReplicas": 3, "maxReplicas": 2}, "replicas": {"master": 0, "worker": 2}},
        "elastic.minReplicas (3) is more than elastic.maxReplicas (2)",
    ),
    "elastic without workers": (
        {"elastic": _ELASTIC, "replicas": {"master": 0}},
        "replicas.worker (0) is not between elastic.minReplicas (1) and elastic.maxReplicas (2)",
    ),
    "more workers than the range": (
        {"elastic": _ELASTIC, "replicas": {"master": 0, "worker": 3}},
        "replicas.worker (3) is not between",
    ),
    "workers that cannot meet": (
        {"replicas": {"master": 0, "worker": 2}},
        "without a master and without elastic the pods cannot find each other",
    ),
    "sizes of another target": ({"lattice": {"maxSize": 3}}, "lattice is for target trainingjob only"),
    "an agent of another target": ({"lattice": {"inject": True}}, "lattice is for target trainingjob only"),
    "sizes upside down": (
        {**_LATTICE, "lattice": {"minSize": 3, "maxSize": 2}},
        "lattice.minSize (3) is more than lattice.maxSize (2)",
    ),
    "workers of another target": (
        {**_LATTICE, "replicas": {"worker": 2}},
        "elastic and replicas are for target pytorchjob only",
    ),
    "elastic of another target": (
        {**_LATTICE, "elastic": _ELASTIC},
        "elastic and replicas are for target pytorchjob only",
    ),
    "processes of another target": ({**_LATTICE, "nprocPerNode": "8"}, "nprocPerNode is for target pytorchjob only"),
    "an agent without a command": (
        {**_LATTICE, "lattice": {"inject": True}},
        "lattice.inject needs an explicit command",
    ),
    "an agent that restarts": (
        {**_LATTICE, "command": ["a"], "lattice": {"inject": True}, "restartPolicy": "OnFailure"},
        "leave restartPolicy empty",
    ),
    "suspending what cannot be": (
        {**_LATTICE, "runPolicy": {"suspend": False}},
        "a TrainingJob cannot be suspended",
    ),
    "a timeout that would be dropped": (
        {**_LATTICE, "runPolicy": {"schedulingPolicy": {"scheduleTimeoutSeconds": 1}}},
        "a TrainingJob has no runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
    ),
    "a profile that would be dropped": (
        {**_LATTICE, "securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
        "the API server would drop appArmorProfile",
    ),
    "a variable twice": (
        {"env": {"A": "1"}, "secretEnv": {"A": {"name": "a", "key": "b"}}},
        "A is both in env and in secretEnv",
    ),
    "a volume twice": (_volumes(_volume(path="/a"), _volume(path="/b")), "two volumes are named v"),
    "a mount twice": (_volumes(_volume("a", "/v"), _volume("b", "/v/")), "a and b are both mounted at /v"),
    "shared memory twice": (
        {"shm": {"sizeLimit": "1Gi"}, **_volumes(_volume(path="/dev/shm"))},
        "shm and v are both mounted at /dev/shm",
    ),
    "a file over a mount": (
        {**_volumes(_volume(path="/a")), "files": {"/a": {"key": "a", "content": ""}}},
        "v and a file are both mounted at /a",
    ),
    "two files of one key": (
        {"files": {"/a": {"key": "a", "content": ""}, "/b/a": {"key": "a", "content": ""}}},
        "/a and /b/a have the same key, a",
    ),
    "more files than a ConfigMap holds": (
        {"files": {"/a": {"key": "a", "content": "a" * 2**20}, "/b": {"key": "b", "binary": "AA=="}}},
        "files have 1048577 bytes, a ConfigMap holds 1048576",
    ),
    "a port twice": (
        {"ports": [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}]},
        "two ports are named a",
    ),
    "a GPU without a limit": (
        {"resources": {"requests": {"nvidia.com/gpu": "1"}}},
        "resources.limits.nvidia.com/gpu must be equal to its request, 1",
    ),
    "a name too long for its workers": (
        {"fullnameOverride": "a" * 54, "replicas": {"worker": 11}},
        "-worker-10 would have 64 characters, 63 are possible",
    ),
    "nodes of another target": ({"nodes": 2}, "nodes and podGroup are for targets trainjob, jobset"),
    "roles of another target": ({"roles": {"judge": {}}}, "roles are for targets trainjob, jobset"),
    "roles in a runtime of the cluster": (
        {"target": "trainjob", "trainer": {"runtime": "torch"}, "roles": {"judge": {}}},
        "in no runtime of the cluster",
    ),
    "a role with a long name": (
        {**_JOBSET, "fullnameOverride": "a" * 48, "roles": {"judge": {}}},
        "-judge-0-0-abcde would have",
    ),
    "a gang of another target": (
        {**_LATTICE, "podGroup": {"policy": "volcano", "minMember": 2}},
        "nodes and podGroup are for targets",
    ),
    "workers of a jobset": ({**_JOBSET, "replicas": {"worker": 1}}, "for target pytorchjob only: set nodes"),
    "sizes of a jobset": ({**_JOBSET, "lattice": {"maxSize": 2}}, "lattice is for target trainingjob only"),
    "processes of a jobset": ({**_JOBSET, "nprocPerNode": "8"}, "nprocPerNode is for targets pytorchjob and trainjob only"),
    "processes that Trainer does not count": ({"target": "trainjob", "nprocPerNode": "auto"}, "nprocPerNode must be a number"),
    "a runtime of another target": ({**_JOBSET, "trainer": {"runtime": "torch"}}, "trainer is for target trainjob only"),
    "a policy of another operator": (
        {**_JOBSET, "runPolicy": {"cleanPodPolicy": "Running"}},
        "runPolicy of a jobset has no cleanPodPolicy",
    ),
    "a job that never ends": ({"target": "job", "restartPolicy": "Always"}, "a job ends"),
    "a name too long for a jobset": (
        {**_JOBSET, "fullnameOverride": "a" * 48, "nodes": 11},
        "-node-0-10-abcde would have 64 characters",
    ),
    "a name too long for a job": (
        {"target": "job", "fullnameOverride": "a" * 61, "nodes": 11},
        "-10 would have 64 characters",
    ),
    "a RayJob of nothing": ({"target": "rayjob"}, "a RayJob starts a command: set ray.entrypoint"),
    "a RayJob with a command": ({**_RAY, "command": ["a"]}, "KubeRay starts the containers"),
    "Ray of another target": ({"ray": {"entrypoint": "a"}}, "ray is for target rayjob only"),
    "a name too long for a RayJob": (
        {**_RAY, "fullnameOverride": "a" * 47},
        "-abcde-head-abcde would have 64 characters",
    ),
    "a machine with labels": ({**_COMPOSE, "nodeSelector": {"a": "b"}}, "Docker has nothing like nodeSelector"),
    "a machine with a deadline": (
        {**_COMPOSE, "runPolicy": {"activeDeadlineSeconds": 1}},
        "Docker ends no container after a time",
    ),
    "a machine with secrets": (
        {**_COMPOSE, **_volumes(_volume(secret={"secretName": "a"}))},
        "the volume v is an object of a cluster",
    ),
    "an account without a name": ({"createServiceAccount": True}, "set serviceAccountName"),
    "nothing to scrape": ({"podMonitor": {"enabled": True}}, "needs a port whose name starts with metrics"),
    "a field and a variable": (
        {"env": {"A": "1"}, "fieldEnv": {"A": "metadata.name"}},
        "A is both in env and in fieldEnv",
    ),
    "a first variable that is none": (
        {"env": {"A": "1"}, "firstEnv": ["B"]},
        "firstEnv names B, and there is no such variable",
    ),
    "no grace period": ({"terminationGracePeriodSeconds": None}, "terminationGracePeriodSeconds must not be null"),
    "no processes": ({"nprocPerNode": None}, "nprocPerNode must not be null"),
    "nobody said about the token": ({"automountServiceAccountToken": None}, "automountServiceAccountToken must not be null"),
    "no size": ({**_LATTICE, "lattice": {"minSize": None}}, "lattice.minSize must not be null"),
}  # fmt: skip


@pytest.mark.parametrize(("values", "place"), MALFORMED.values(), ids=MALFORMED)
def test_the_schema_refuses(values: dict[str, Data], place: str) -> None:
    with pytest.raises(helm_python.HelmError, match="specifications of the schema") as refused:
        render({"image": IMAGE, **values})
    assert place in str(refused.value)


@pytest.mark.parametrize("values", [v for v, _ in MALFORMED.values()], ids=MALFORMED)
def test_another_reader_of_the_schema_refuses_the_same(values: dict[str, Data]) -> None:
    merged = {
        key: value
        for key, value in {"image": IMAGE, "target": "pytorchjob", **values}.items()
        if value is not None
    }
    assert not jsonschema_rs.Draft7Validator(SCHEMA).is_valid(merged)


@pytest.mark.parametrize(("values", "message"), CONTRADICTORY.values(), ids=CONTRADICTORY)
def test_the_templates_refuse(values: dict[str, Data], message: str) -> None:
    with pytest.raises(helm_python.HelmRenderError, match=re.escape(message)):
        render({"image": IMAGE, **values})


def test_lint_alone_is_not_enough() -> None:
    """Helm's lint calls `fail` without failing: whoever relies on it has to template as well."""
    values, _ = CONTRADICTORY["elastic without workers"]
    assert helm_python.lint(CHART, {"image": IMAGE, **values}, strict=True)["errors"] == []


ACCEPTED: dict[str, dict[str, Data]] = {
    "a registry with a port": {"image": {"repository": "localhost:5000/a", "tag": "25.01-py3"}},
    "an image without a registry": {"image": {"repository": "pytorch"}},
    "an empty label": {"labels": {"a": ""}},
    "a prefixed label": {"podLabels": {"sidecar.istio.io/inject": "false"}},
    "a fraction": {"resources": {"requests": {"cpu": "0.5", "memory": "1.5Gi"}}},
    "huge pages": {"resources": {"requests": {"hugepages-2Mi": "5120Mi"}, "limits": {"hugepages-2Mi": "5120Mi"}}},
    "the longest name of a RayJob": {**_RAY, "fullnameOverride": "a" * 46},
    "every taint": {"tolerations": [{"operator": "Exists"}]},
    "a GPU taint": {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]},
    "no security context": {"podSecurityContext": None, "securityContext": None},
    "a limit only": {"resources": {"limits": {"nvidia.com/gpu": "1"}}},
    "values of a parent chart": {"global": {"anything": [1]}},
    "the longest name for eleven workers": {"fullnameOverride": "a" * 53, "replicas": {"worker": 11}},
    "dots that are no step upwards": _volumes({**_volume(), "subPath": "..a/b..", "mountPath": "/a..b"}),
    "etcd": {"elastic": {**_ELASTIC, "rdzvBackend": "etcd-v2"}, "replicas": {"master": 0, "worker": 1}},
}  # fmt: skip


@pytest.mark.parametrize("values", ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_right_is_not_refused(values: dict[str, Data]) -> None:
    assert body({"image": IMAGE, **values})["spec"]


# --- the schema itself ---------------------------------------------------------------------------

# What Helm before 3.18 reads, and means the same in 2019-09 and 2020-12.
_DRAFT_07 = set(
    "$schema $ref definitions title description type enum const properties required "
    "additionalProperties propertyNames minProperties maxProperties items pattern minLength "
    "maxLength minimum maximum allOf not if then else dependencies".split()
)


def _schemas(node: Any, place: str = "#") -> list[tuple[str, dict[str, Any]]]:
    """Every schema below one, with its place."""
    found = [(place, node)]
    for key in ("properties", "definitions"):
        for name, child in node.get(key, {}).items():
            found += _schemas(child, f"{place}/{key}/{name}")
    for key in ("items", "additionalProperties", "propertyNames", "not", "if", "then", "else"):
        if isinstance(node.get(key), dict):
            found += _schemas(node[key], f"{place}/{key}")
    for index, child in enumerate(node.get("allOf", ())):
        found += _schemas(child, f"{place}/allOf/{index}")
    return found


DEFINED = {f"#/{part}/{name}" for part in ("definitions", "properties") for name in SCHEMA[part]}


def _read_otherwise(place: str, schema: dict[str, Any]) -> Iterator[str]:
    """What another version or another reader would not take, or take for something else."""
    if other := set(schema) - _DRAFT_07:
        yield f"{place}: not in draft 07: {sorted(other)}"
    if "$ref" in schema and set(schema) != {"$ref"}:
        yield f"{place}: draft 07 ignores what stands beside a $ref"
    if "$ref" in schema and schema["$ref"] not in DEFINED:
        yield f"{place}: {schema['$ref']} is not defined"
    whole = "properties" in schema and not re.search("/(if|then|else)$", place)
    if whole and schema.get("additionalProperties") is not False:
        yield f"{place}: takes any other property"
    if "(?" in schema.get("pattern", ""):
        yield f"{place}: Go's regular expressions have no lookaround: {schema['pattern']}"
    assert re.compile(schema.get("pattern", ""))


def test_every_helm_reads_the_schema_alike() -> None:
    found = _schemas(SCHEMA)
    assert len(found) > 400
    assert [said for each in found for said in _read_otherwise(*each)] == []


def test_the_schema_is_draft_07() -> None:
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert jsonschema_rs.meta.is_valid(SCHEMA)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.name)
def test_the_schema_accepts_a_scenario_before_defaults_are_merged(path: Any) -> None:
    values = {"target": "pytorchjob", **load(path)}
    assert [str(e) for e in jsonschema_rs.Draft7Validator(SCHEMA).iter_errors(values)] == []
