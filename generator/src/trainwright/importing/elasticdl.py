"""`elasticdl train` command lines, as the elastic PyTorchJob that comes nearest.

ElasticDL's master starts workers, hands out shards of the data and starts lost workers anew; here
torch's elastic agent starts them, and the entrypoint's elastic API keeps count of the data.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from trainwright.datatypes.data import Data, stated
from trainwright.importing import options
from trainwright.importing.commandline import CommandReader, Line, call, taken_literally
from trainwright.importing.reader import made
from trainwright.importing.source import Source
from trainwright.kinds.pytorchjob import KIND
from trainwright.kinds.reading import ImportingError, Loss, NotImported, Reason, SourceObject, shown

_OPTIONS = options.options_of("elasticdl train")
_VENDOR_GPU = {"gpu": "nvidia.com/gpu", "disk": "ephemeral-storage"}


def _read(line: Line) -> Source:
    given, unknown = options.parse(line, 2, _OPTIONS, strict=False)
    for needed in ("--job_name", "--job_command"):
        if needed not in given:
            raise ImportingError(f"{line.place}: elasticdl train: {needed} is missing")
    strategy = given.get("--distribution_strategy", "ParameterServerStrategy")
    if strategy not in ("AllreduceStrategy", "Local", ""):
        raise ImportingError(
            f"{line.place}: elasticdl train: {strategy} has parameter servers, which nothing here "
            "does: only AllreduceStrategy and Local are data-parallel"
        )
    image = given.get("--worker_image") or given.get("--image_name", "")
    body, names = _manifest(given, str(image))
    unread = {k: v for k, v in given.items() if k != "--image_name" or "--worker_image" in given}
    return Source(
        kind=KIND.kind,
        name=str(given["--job_name"]),
        target=KIND.name,
        parts=(SourceObject(body=body, place=lambda _: line.place, called=call(names)),),
        left=(
            *options.left(_OPTIONS, unread, line.place),
            *(_unknown(word, line) for word in unknown),
            *taken_literally(line, line.words),
        ),
        reasons=(
            Reason(
                "**/restartPolicy",
                "a lost worker is always replaced in an elastic job",
                Loss.COSMETIC,
            ),
        ),
    )


_POD = "/spec/pytorchReplicaSpecs/Worker/template/spec"
_CONTAINER = f"{_POD}/containers/0"


def _manifest(given: dict[str, Data], image: str) -> tuple[dict[str, Data], dict[str, str]]:
    """Return the manifest, and which option each part of it is from."""
    workers = int(str(given.get("--num_workers", "2")))
    volumes, mounts = _volumes(str(given.get("--volume", "")))
    container = {
        "name": "pytorch",
        "image": image,
        "imagePullPolicy": given.get("--image_pull_policy", "Always"),
        "command": shlex.split(str(given["--job_command"])),
        "resources": {
            kind: _amounts(str(given[option]))
            for kind, option in (
                ("requests", "--worker_resource_request"),
                ("limits", "--worker_resource_limit"),
            )
            if option in given
        },
        "env": list(_env(given["--envs"])) if "--envs" in given else [],
        "volumeMounts": mounts,
    }
    pod = {
        "containers": [stated(container)],
        "volumes": volumes,
        "priorityClassName": given.get("--worker_pod_priority"),
    }
    worker = {
        "replicas": workers,
        "template": {"spec": stated(pod)},
        "restartPolicy": given.get("--restart_policy"),
    }
    spec = {
        "elasticPolicy": {"minReplicas": 1, "maxReplicas": workers},
        "pytorchReplicaSpecs": {"Worker": stated(worker)},
    }
    metadata = {"name": given["--job_name"], "namespace": given.get("--namespace")}
    body = made(KIND, stated(metadata), spec)
    return body, {
        "/metadata/namespace": "--namespace",
        "/spec": "--num_workers",
        "/spec/pytorchReplicaSpecs/Worker/restartPolicy": "--restart_policy",
        _POD: "--volume",
        f"{_POD}/priorityClassName": "--worker_pod_priority",
        f"{_CONTAINER}/name": "(the container)",
        f"{_CONTAINER}/image": "--worker_image" if "--worker_image" in given else "--image_name",
        f"{_CONTAINER}/imagePullPolicy": "--image_pull_policy",
        f"{_CONTAINER}/command": "--job_command",
        f"{_CONTAINER}/resources/requests": "--worker_resource_request",
        f"{_CONTAINER}/resources/limits": "--worker_resource_limit",
        f"{_CONTAINER}/env": "--envs",
        f"{_CONTAINER}/volumeMounts": "--volume",
    }


def _amounts(text: str) -> dict[str, str]:
    """Return the amounts of `cpu=1,memory=2Gi,gpu=1`."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {_VENDOR_GPU.get(name.strip(), name.strip()): value for name, _, value in pairs}


def _env(text: str) -> Iterator[dict[str, Data]]:
    """Yield the variables of `A=1,B=x,y`: a comma ends a value only before a name and `=`."""
    for pair in re.split(r",(?=[A-Za-z_]\w*=)", text):
        name, _, value = pair.partition("=")
        yield {"name": name, "value": value}


def _volumes(text: str) -> tuple[list[Data], list[Data]]:
    """Return volumes and mounts of `host_path=/a,mount_path=/b;claim_name=c,mount_path=/d`."""
    volumes: list[Data] = []
    mounts: list[Data] = []
    for index, entry in enumerate(part for part in text.split(";") if part):
        fields = {k.strip(): v for k, _, v in (pair.partition("=") for pair in entry.split(","))}
        name = f"volume-{index}" if index else "volume"
        if "claim_name" in fields:
            source: Data = {"persistentVolumeClaim": {"claimName": fields["claim_name"]}}
        else:
            host = {"path": fields.get("host_path"), "type": fields.get("type")}
            source = {"hostPath": stated(host)}
        volumes.append({"name": name, **source})
        mount = {"name": name, "mountPath": fields.get("mount_path", "")}
        if "sub_path" in fields:
            mount["subPath"] = fields["sub_path"]
        mounts.append(mount)
    return volumes, mounts


def _unknown(word: str, line: Line) -> NotImported:
    name, _, value = word.partition("=")
    return NotImported(name, line.place, shown(name, value), "a job spec has no field for it")


COMMAND = CommandReader(begins=("elasticdl", "train"), read=_read)
