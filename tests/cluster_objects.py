"""Objects as a cluster has them: rendered jobs with a status, and their pods."""

from __future__ import annotations

import copy
from typing import Any

import yaml

from repository import Repository


def manifest(repository: Repository, job: str) -> dict[str, Any]:
    """The first object of a rendered job."""
    environment, _, name = job.partition("/")
    folder = repository.root / "environments" / environment / "rendered" / name
    (file,) = folder.glob("*job*.yaml")
    body: dict[str, Any] = next(yaml.safe_load_all(file.read_text()))
    return body


def conditions(*types: str) -> dict[str, Any]:
    """A PyTorchJob's status in which the last of these conditions holds."""
    return {
        "conditions": [
            {
                "type": kind,
                "status": "True" if kind in (types[-1], "Created") else "False",
                "reason": f"PyTorchJob{kind}",
                "message": f"it is {kind.lower()}",
                "lastTransitionTime": "2026-11-21T03:04:30Z",
            }
            for kind in types
        ]
    }


def pod(of: dict[str, Any], name: str, **status: Any) -> dict[str, Any]:
    """A pod of a rendered PyTorchJob, with its labels."""
    labels = {k: v for k, v in of["metadata"]["labels"].items() if k != "kueue.x-k8s.io/queue-name"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "creationTimestamp": "2026-11-21T03:04:31Z"},
        "spec": {"nodeName": "node-a", "containers": [{"name": "pytorch"}]},
        "status": copy.deepcopy(status),
    }


def container(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "pytorch", "state": state, **more}]}


RUNNING = {"phase": "Running", **container({"running": {}}, ready=True, restartCount=0)}
