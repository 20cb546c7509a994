"""A real pod and a predicted one as records of everything that they have, to be compared.

What the API server and the scheduler add is taken out by `_without_defaults` alone; what is then
left of a real pod is predicted, or differs.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainwright.objects.pods.pod import Pod

Data = dict[str, Any]

# Fields of a pod and of a container that no manifest has. The priority comes from its class.
_POD = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "schedulerName": "default-scheduler",
}
_DECIDED = ("priority", "nodeName", "serviceAccount")  # by the server and the scheduler
_CONTAINER = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOKEN = "kube-api-access-"  # the volume that mounts a service account's token
_MODE = 0o644
_JOBSET = "jobset.sigs.k8s.io/"
_MADE_UP = ("controller-uid", "batch.kubernetes.io/controller-uid",
            f"{_JOBSET}job-key", f"{_JOBSET}jobset-uid", f"{_JOBSET}priority")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Run:
    """The run that pods belong to: its target, its object's name, and all that was applied."""

    target: str
    name: str
    applied: Sequence[Data]
    elastic: bool = False


def pod_name(real: Data) -> str:
    """A pod's name without the letters that the Job controller makes up."""
    metadata = real["metadata"]
    name: str = metadata.get("generateName", metadata["name"])
    return name.removesuffix("-")


def _without_defaults(real: Data) -> tuple[Data, Data, bool]:
    """Metadata and spec without what the server adds, and whether a token is mounted."""
    metadata, spec = copy.deepcopy(real["metadata"]), copy.deepcopy(real["spec"])
    for field, value in _POD.items():
        if spec.get(field) == value:
            del spec[field]
    for field in _DECIDED:
        spec.pop(field, None)
    if spec.get("serviceAccountName") == "default":
        del spec["serviceAccountName"]
    tolerations = [t for t in spec.pop("tolerations", ()) if t.get("key") not in _NODE_TAINTS]
    if tolerations:
        spec["tolerations"] = tolerations
    token = any(v["name"].startswith(_TOKEN) for v in spec.get("volumes", ()))
    spec["volumes"] = [v for v in spec.get("volumes", ()) if not v["name"].startswith(_TOKEN)]
    for volume in spec["volumes"]:
        for source in volume.values():
            if isinstance(source, dict) and source.get("defaultMode") == _MODE:
                del source["defaultMode"]
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        _plain(container)
    return metadata, spec, token


def _plain(container: Data) -> None:
    for field, value in _CONTAINER.items():
        if container.get(field) == value:
            del container[field]
    mounts = container.get("volumeMounts", ())
    container["volumeMounts"] = [m for m in mounts if not m["name"].startswith(_TOKEN)]
    for port in container.get("ports", ()):
        assert port.pop("protocol") == "TCP"
    for entry in container.get("env", ()):
        entry.get("valueFrom", {}).get("fieldRef", {}).pop("apiVersion", None)


# --- what operators write into metadata ----------------------------------------------------------


def _of_operators(run: Run, pod: Pod, real: Data) -> tuple[Data, Data]:
    """The labels and annotations by which operators know their pods again."""
    name = run.name
    if run.target == "pytorchjob":
        prefix = "training.kubeflow.org/"
        labels = {
            f"{prefix}job-name": name,
            f"{prefix}operator-name": "pytorchjob-controller",
            f"{prefix}replica-index": str(pod.index),
            f"{prefix}replica-type": pod.role,
        }
        leads = pod.role == "master" or (run.elastic and pod.index == 0)
        return ({**labels, f"{prefix}job-role": "master"} if leads else labels), {}
    job = name if run.target == "job" else f"{name}-{pod.role}-0"
    index = {"batch.kubernetes.io/job-completion-index": str(pod.index)}
    labels = {**index, "job-name": job, "batch.kubernetes.io/job-name": job}
    if run.target == "job":
        return labels, index
    given = {
        f"{_JOBSET}{key}": value
        for key, value in {
            "global-replicas": "1", "group-name": "default", "group-replicas": "1",
            "job-global-index": "0", "job-group-index": "0", "job-index": "0",
            "jobset-name": name, "replicatedjob-name": pod.role, "replicatedjob-replicas": "1",
        }.items()
    }  # fmt: skip
    attempt = {f"{_JOBSET}restart-attempt": real["metadata"]["labels"][f"{_JOBSET}restart-attempt"]}
    return {**labels, **given, **attempt}, {**index, **given, **attempt}


# --- two records of a pod ------------------------------------------------------------------------


def seen(real: Data) -> Data:
    """A real pod, every field of it."""
    metadata, spec, token = _without_defaults(real)
    (container,) = spec.pop("containers")
    volumes = {v["name"]: {k: x for k, x in v.items() if k != "name"} for v in spec.pop("volumes")}
    mounts = container.pop("volumeMounts")
    assert set(volumes) == {mount["name"] for mount in mounts}
    security = {
        "pod": spec.pop("securityContext", {}),
        "container": container.pop("securityContext", {}),
    }
    return {
        "image": container.pop("image"),
        "command": [*container.get("command", ()), *container.pop("args", ())],
        "starts_image": not container.pop("command", ()),
        "env": [_variable(entry, metadata) for entry in container.pop("env", ())],
        "ports": [(p.get("name", ""), p["containerPort"]) for p in container.pop("ports", ())],
        "mounts": [
            (m["mountPath"], m["name"], volumes[m["name"]], m.get("subPath", ""), m.get("readOnly", False))
            for m in mounts
        ],
        "resources": container.pop("resources"),
        "pull_policy": container.pop("imagePullPolicy"),
        "security": {where: context for where, context in security.items() if context},
        "init": [
            (c["name"], c["image"], c["command"], c.get("resources", {}))
            for c in spec.pop("initContainers", ())
        ],
        "grace_period": spec.pop("terminationGracePeriodSeconds"),
        "pull_secrets": [secret["name"] for secret in spec.pop("imagePullSecrets", ())],
        "placement": {
            field: spec.pop(field)
            for field in ("nodeSelector", "tolerations", "affinity", "priorityClassName", "schedulerName")
            if field in spec
        },
        "service_account": spec.pop("serviceAccountName", ""),
        "token": token,
        "declines_token": spec.pop("automountServiceAccountToken", None) is False,
        "address": ".".join(filter(None, (spec.pop("hostname", ""), spec.pop("subdomain", "")))),
        "restart_policy": spec.pop("restartPolicy"),
        "labels": {k: v for k, v in metadata.get("labels", {}).items() if k not in _MADE_UP},
        "annotations": {k: v for k, v in metadata.get("annotations", {}).items() if k not in _MADE_UP},
        "other fields of the container": {k: v for k, v in container.items() if k != "name"},
        "other fields of the pod": spec,  # schedulingGates, hostNetwork, runtimeClassName ...
    }  # fmt: skip


def _variable(entry: Data, metadata: Data) -> tuple[str, str, str]:
    """A variable with its value as far as the pod has it, else where the value comes from."""
    origin = entry.get("valueFrom")
    if not origin:
        return entry["name"], entry.get("value", ""), ""
    ((kind, reference),) = origin.items()
    if kind == "fieldRef":
        part, _, key = reference["fieldPath"].removeprefix("metadata.").partition("['")
        value = metadata[part]
        return entry["name"], value[key.removesuffix("']")] if key else value, ""
    what = {"secretKeyRef": "Secret", "configMapKeyRef": "ConfigMap"}[kind]
    return entry["name"], "", f"key {reference['key']} of {what} {reference['name']}"


def foreseen(run: Run, pod: Pod, real: Data) -> Data:
    """A predicted pod as the same record."""
    labels, annotations = _of_operators(run, pod, real)
    return {
        "image": pod.image,
        "command": list(pod.command),
        "starts_image": pod.starts_image,
        "env": [(v.name, v.value, v.source) for v in pod.declared],
        "ports": [(port.name, port.number) for port in pod.ports],
        "mounts": [(m.path, m.volume, m.source, m.sub_path, m.read_only) for m in pod.mounts],
        "resources": pod.resources,
        "pull_policy": pod.pull_policy or "IfNotPresent",  # the default where an image has a tag
        "security": pod.security,
        "init": [
            (c.name, c.image, list(c.command_line), c.body.get("resources", {}))
            for c in (*pod.before, *pod.added)
        ],
        "grace_period": pod.grace_period,
        "pull_secrets": list(pod.pull_secrets),
        "placement": dict(pod.placement),
        "service_account": pod.service_account,
        "token": pod.has_token,
        "declines_token": not pod.has_token,
        # Pods of a PyTorchJob are reached by the Services of their names.
        "address": "" if run.target == "pytorchjob" else pod.hostname,
        "restart_policy": _restart_policy(run),
        "labels": {**pod.labels, **labels},
        "annotations": {**pod.annotations, **annotations},
        "other fields of the container": dict(pod.rest.get("container", {})),
        "other fields of the pod": dict(pod.rest.get("pod", {})),
    }


def _restart_policy(run: Run) -> str:
    """The kubelet's part: the training operator's ExitCode is its own, and Never to the kubelet."""
    written = set(found(run.applied, "restartPolicy"))
    assert len(written) <= 1
    policy: str = written.pop() if written else "OnFailure"  # JobSet's webhook fills this in
    return "Never" if policy == "ExitCode" else policy


def found(data: Any, field: str) -> Iterator[Any]:
    """Every value of a field, however deep."""
    if isinstance(data, dict):
        if field in data:
            yield data[field]
        for value in data.values():
            yield from found(value, field)
    elif isinstance(data, list):
        for item in data:
            yield from found(item, field)
