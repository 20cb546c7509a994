"""`elasticdl train` command lines, as the elastic PyTorchJob that comes nearest.

ElasticDL's master starts workers, hands out shards of the data and starts lost workers anew; here
torch's elastic agent starts them, and the entrypoint's elastic API keeps count of the data.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping

from trainwright.datatypes.data import Data, stated
from trainwright.datatypes.finding import Location
from trainwright.datatypes.pointer import Pointer, with_value
from trainwright.importing import options
from trainwright.importing.commandline import CommandReader, Line, call, taken_literally
from trainwright.importing.reader import object_of
from trainwright.importing.source import Source
from trainwright.kinds.pytorchjob import KIND
from trainwright.kinds.reading import ImportingError, Loss, NotImported, Reason, SourceObject, shown

_OPTIONS = options.options_of("elasticdl train")
_REPLACED = "a lost worker is always replaced in an elastic job"
_VENDOR_GPU = {"gpu": "nvidia.com/gpu", "disk": "ephemeral-storage"}


def _read(line: Line) -> Source:
    given, unknown = options.parse(line, 2, _OPTIONS, strict=False)
    for needed in ("--job_name", "--job_command"):
        if not given.get(needed):
            raise ImportingError(f"{line.place}: elasticdl train: {needed} is missing")
    strategy = given.get("--distribution_strategy", "ParameterServerStrategy")
    if strategy not in ("AllreduceStrategy", "Local", ""):
        raise ImportingError(
            f"{line.place}: elasticdl train: {strategy} has parameter servers, which nothing here "
            "does: only AllreduceStrategy and Local are data-parallel"
        )
    image = given.get("--worker_image") or given.get("--image_name", "")
    body, names = _manifest(given, str(image), line.place)
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
        reasons=(Reason("**/restartPolicy", _REPLACED, Loss.COSMETIC),),
    )


_POD = "/spec/pytorchReplicaSpecs/Worker/template/spec"
_CONTAINER = f"{_POD}/containers/0"


def _manifest(
    given: dict[str, Data], image: str, place: Location
) -> tuple[dict[str, Data], dict[str, str]]:
    """Return the manifest, and which option each part of it is from. Raise ImportingError."""
    workers = _workers(given, place)
    container = {
        "name": "pytorch",
        "image": image,
        "imagePullPolicy": "Always",
        "command": _words(str(given["--job_command"]), place),
    }
    worker = {"replicas": workers, "template": {"spec": {"containers": [container]}}}
    spec = {
        "elasticPolicy": {"minReplicas": 1, "maxReplicas": workers},
        "pytorchReplicaSpecs": {"Worker": worker},
    }
    job = object_of(KIND, {"name": given["--job_name"]}, spec)
    body, names = options.carried(_OPTIONS, given, job, _VALUES)
    if mounts := _mounts(given.get("--volume", "")):
        body = with_value(body, Pointer(f"{_CONTAINER}/volumeMounts"), mounts)
    return body, {
        "/spec": "--num_workers",
        _POD: "--volume",
        f"{_CONTAINER}/name": "(the container)",
        f"{_CONTAINER}/image": "--worker_image" if "--worker_image" in given else "--image_name",
        f"{_CONTAINER}/imagePullPolicy": "--image_pull_policy",
        f"{_CONTAINER}/command": "--job_command",
        **names,
    }


def _workers(given: dict[str, Data], place: Location) -> int:
    written = str(given.get("--num_workers", "2"))
    if not re.fullmatch(r"[1-9]\d{0,8}", written, re.ASCII):
        raise ImportingError(
            f"{place}: elasticdl train: --num_workers is {shown('', written)}, and no number: "
            "write one"
        )
    return int(written)


def _words(command: str, place: Location) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ImportingError(
            f"{place}: elasticdl train: --job_command has a quote that is not closed: close it"
        ) from error


def _amounts(text: str) -> dict[str, str]:
    """Return the amounts of `cpu=1,memory=2Gi,gpu=1`."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {_VENDOR_GPU.get(name.strip(), name.strip()): value for name, _, value in pairs}


def _env(text: str) -> list[Data]:
    """Return the variables of `A=1,B=x,y`: a comma ends a value only before a name and `=`."""
    pairs = (pair.partition("=") for pair in re.split(r",(?=[A-Za-z_]\w*=)", text))
    return [{"name": name, "value": value} for name, _, value in pairs]


def _mounted(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield name and fields of `host_path=/a,mount_path=/b;claim_name=c,mount_path=/d`."""
    for index, entry in enumerate(part for part in text.split(";") if part):
        pairs = (pair.partition("=") for pair in entry.split(","))
        yield f"volume-{index}" if index else "volume", {k.strip(): v for k, _, v in pairs}


def _volumes(text: str) -> list[Data]:
    volumes: list[Data] = []
    for name, fields in _mounted(text):
        host = {"path": fields.get("host_path"), "type": fields.get("type")}
        source: Data = {"hostPath": stated(host)}
        if "claim_name" in fields:
            source = {"persistentVolumeClaim": {"claimName": fields["claim_name"]}}
        volumes.append({"name": name, **source})
    return volumes


def _mounts(text: str) -> list[Data]:
    mounts: list[Data] = []
    for name, fields in _mounted(text):
        inside = {"subPath": fields["sub_path"]} if "sub_path" in fields else {}
        mounts.append({"name": name, "mountPath": fields.get("mount_path", ""), **inside})
    return mounts


_VALUES: Mapping[str, Callable[[Data], Data]] = {
    "--worker_resource_request": _amounts,
    "--worker_resource_limit": _amounts,
    "--envs": _env,
    "--volume": _volumes,
}


def _unknown(word: str, line: Line) -> NotImported:
    name, _, value = word.partition("=")
    return NotImported(name, line.place, shown(name, value), "a job spec has no field for it")


COMMAND = CommandReader(begins=("elasticdl", "train"), read=_read)
