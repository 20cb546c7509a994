"""`elasticdl train` command lines, as the elastic PyTorchJob that comes nearest.

ElasticDL's master starts workers, hands out shards of the data and starts lost workers anew; here
torch's elastic agent starts them, and the entrypoint's elastic API keeps count of the data.
Options: https://github.com/sql-machine-learning/elasticdl, elasticdl_client/common/args.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click

from trainwright.datatypes.data import Data
from trainwright.importing.commandline import (
    CommandReader,
    Line,
    call,
    parameter,
    parse,
    taken_literally,
)
from trainwright.importing.source import Source
from trainwright.kinds.pytorchjob import KIND
from trainwright.kinds.reading import ImportingError, Loss, NotImported, Reason, SourceObject, shown

_READ = """
--job_name --image_name --worker_image --job_command --num_workers --namespace --image_pull_policy
--worker_resource_request --worker_resource_limit --worker_pod_priority --envs --volume
--restart_policy --distribution_strategy
""".split()
_DATA = "the entrypoint's elastic API deals records out, from the script: docs/elastic.md"
_WHY = {
    "--image_name": "there is no master to start: the image of the workers counts",
    "--master_resource_request": "there is no master to start",
    "--master_resource_limit": "there is no master to start",
    "--master_pod_priority": "there is no master to start",
    "--num_ps_pods": "there are no parameter servers: the ranks reduce among themselves",
    "--num_minibatches_per_task": _DATA,
    "--minibatch_size": _DATA,
    "--num_epochs": _DATA,
    "--training_data": _DATA,
    "--validation_data": _DATA,
    "--data_reader_params": _DATA,
    "--need_task_manager": _DATA,
    "--model_def": "the script builds its model itself",
    "--model_zoo": "the script builds its model itself",
    "--checkpoint_dir": "use checkpoint.volume and checkpoint.path",
    "--checkpoint_steps": "use checkpoint.every",
    "--keep_checkpoint_max": "use checkpoint.keep",
    "--cluster_spec": "write what it adds to pods into environment.yaml",
    "--cluster_spec_json": "write what it adds to pods into environment.yaml",
    "--yaml": "rendered files are written by `trainwright render`",
    "--log_level": "set it in the script, or by a variable",
}
_VENDOR_GPU = {"gpu": "nvidia.com/gpu", "disk": "ephemeral-storage"}


def _read(line: Line) -> Source:
    options: list[click.Parameter] = [*map(parameter, dict.fromkeys((*_READ, *_WHY)))]
    given, unknown = parse(line, 2, options, strict=False)
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
    return Source(
        kind=KIND.kind,
        name=str(given["--job_name"]),
        target=KIND.name,
        parts=(SourceObject(body=body, place=lambda _: line.place, called=call(names)),),
        left=(*_left(line, given, unknown), *taken_literally(line, line.words)),
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
    resources = {
        kind: _amounts(str(given[option]))
        for kind, option in (
            ("requests", "--worker_resource_request"),
            ("limits", "--worker_resource_limit"),
        )
        if option in given
    }
    container: dict[str, Data] = {
        "name": "pytorch",
        "image": image,
        "imagePullPolicy": given.get("--image_pull_policy", "Always"),
        "command": shlex.split(str(given["--job_command"])),
        **({"resources": resources} if resources else {}),
        **({"env": list(_env(str(given["--envs"])))} if "--envs" in given else {}),
        **({"volumeMounts": mounts} if mounts else {}),
    }
    pod: dict[str, Data] = {"containers": [container]}
    if volumes:
        pod["volumes"] = volumes
    if "--worker_pod_priority" in given:
        pod["priorityClassName"] = given["--worker_pod_priority"]
    metadata = {"name": given["--job_name"]}
    if "--namespace" in given:
        metadata["namespace"] = given["--namespace"]
    worker: dict[str, Data] = {"replicas": workers, "template": {"spec": pod}}
    if "--restart_policy" in given:
        worker["restartPolicy"] = given["--restart_policy"]
    body = {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": metadata,
        "spec": {
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": workers},
            "pytorchReplicaSpecs": {"Worker": worker},
        },
    }
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
            host = {"path": fields.get("host_path", ""), "type": fields.get("type", "")}
            source = {"hostPath": {key: value for key, value in host.items() if value}}
        volumes.append({"name": name, **source})
        mount = {"name": name, "mountPath": fields.get("mount_path", "")}
        if "sub_path" in fields:
            mount["subPath"] = fields["sub_path"]
        mounts.append(mount)
    return volumes, mounts


def _left(line: Line, given: dict[str, Data], unknown: tuple[str, ...]) -> Iterator[NotImported]:
    own_image = "--worker_image" in given
    for option, why in _WHY.items():
        if option in given and (option != "--image_name" or own_image):
            yield NotImported(option, line.place, shown(option, given[option]), why)
    for word in unknown:
        name, _, value = word.partition("=")
        yield NotImported(name, line.place, shown(name, value), "a job spec has no field for it")


COMMAND = CommandReader(begins=("elasticdl", "train"), read=_read)
