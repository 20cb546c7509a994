"""The Indexed Job nearest to a batch script: one pod per node, and pods that find each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from trainwright.datatypes.data import Data, dig, mapping, stated
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents.validation.other_forms import clock
from trainwright.importing.equivalence.containers import places
from trainwright.importing.names import OWN_NAME
from trainwright.importing.reader import object_of
from trainwright.importing.shell import ShellCommand
from trainwright.importing.slurm.amounts import STEP, NodeAmounts
from trainwright.importing.slurm.step import Step
from trainwright.kinds import NAMED
from trainwright.objects.pods import shm

TARGET = "job"
ELASTIC = "pytorchjob"  # of which torchrun has the same options for a range of nodes
SELECTED = "CUDA_VISIBLE_DEVICES"  # of the GPUs of a machine, where a shell starts the program


def folder(given: Mapping[str, Data], commands: Sequence[ShellCommand], step: Step) -> str:
    """Return the folder that the program starts in, or "" if it is unknown."""
    before = [*commands[: commands.index(step.command)], *step.inside]
    changed = [c.words[1] for c in before if c.words[:1] in (("cd",), ("pushd",)) and c.words[1:]]
    workdir = given.get("--container-workdir") or given.get("--chdir")
    for path in reversed([str(workdir or ""), *changed]):
        if path.startswith("/") and "$" not in path and OWN_NAME not in path:
            return path
    return ""


# Lists of folders of a machine, which an image has for its own.
_OF_THE_IMAGE = frozenset(
    "PATH LD_LIBRARY_PATH LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH MANPATH "
    "PKG_CONFIG_PATH CMAKE_PREFIX_PATH".split()
)


def is_of_the_image(name: str, value: str) -> bool:
    """Whether a variable adds folders of a machine to a list that the image has."""
    return name in _OF_THE_IMAGE and bool(_itself(name).search(value))


def is_of_the_command(value: str, step: Step) -> bool:
    """Whether a variable's value is several words of the command."""
    words = value.split()
    command = " ".join(" ".join((*step.command.words, *step.words)).split())
    return len(words) > 1 and " ".join(words) in command


def environment(step: Step) -> dict[str, str]:
    """Return what the script exports, except variables of the launcher, target and image."""
    chosen = "" if step.in_slurm else SELECTED
    variables = {k: v for k, v in step.environment.items() if not places(k) and k != chosen}
    variables = {
        name: value
        for name, value in variables.items()
        if not is_of_the_image(name, value) and not is_of_the_command(value, step)
    }
    if path := variables.get("PYTHONPATH"):
        variables["PYTHONPATH"] = _itself("PYTHONPATH").sub("", path).strip(":")
    return variables


def _itself(name: str) -> re.Pattern[str]:
    return re.compile(rf"\$(?:{name}\b|\{{{name}(?::?[-+][^}}]*)?\}})")


def _shm(amounts: NodeAmounts) -> dict[str, str]:
    """Return the size of /dev/shm, half of a node's memory as in Linux, or no limit if unknown."""
    size = shm.half(amounts.memory) if amounts.memory else ""
    return {"sizeLimit": size} if size else {}


def job(
    given: Mapping[str, Data],
    amounts: NodeAmounts,
    command: list[str],
    step: Step,
    working_dir: str,
) -> dict[str, Data]:
    volumes, mounts = _mounts(str(given.get("--container-mounts", "")))
    volumes.append({"name": "shm", "emptyDir": {"medium": "Memory"} | _shm(amounts)})
    mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108
    container = {
        "name": STEP,
        "command": command,
        "env": [{"name": name, "value": value} for name, value in environment(step).items()],
        "resources": amounts.resources(),
        "volumeMounts": mounts,
        "workingDir": working_dir,
        "image": image_name(str(given.get("--container-image", ""))),
    }
    pod = {
        "restartPolicy": "Never",
        "subdomain": STEP,
        "containers": [stated(container)],
        "volumes": volumes,
    }
    deadline = clock(str(given.get("--time", "")))
    # Slurm does it for as long as nodes fail; the limit of a Job counts pods.
    retries = 3 * amounts.nodes if "--requeue" in given else 0
    spec = {
        "completionMode": "Indexed",
        "completions": amounts.nodes,
        "parallelism": amounts.nodes,
        "backoffLimit": retries,
        "activeDeadlineSeconds": deadline or None,
        "template": {"spec": pod},
    }
    return object_of(NAMED[TARGET], {"name": STEP}, stated(spec))


_OF_JOB = ("subdomain", "restartPolicy")


def elastic(body: Mapping[str, Data], sizes: tuple[int, int]) -> dict[str, Data]:
    """Return the PyTorchJob whose workers may come and go, in place of a Job."""
    spec = mapping(body["spec"])
    pod = mapping(dig(spec, "template", "spec"))
    (container,) = pod["containers"]
    named = {**container, "name": "pytorch"}
    of_pod = {key: value for key, value in pod.items() if key not in _OF_JOB}
    template = {"spec": {**of_pod, "containers": [named]}}
    policy = {key: spec[key] for key in ("activeDeadlineSeconds", "backoffLimit") if key in spec}
    fewest, most = sizes
    spec = {
        "runPolicy": policy,
        "elasticPolicy": {"minReplicas": fewest, "maxReplicas": most},
        "pytorchReplicaSpecs": {
            "Worker": {"replicas": most, "restartPolicy": "Never", "template": template}
        },
    }
    return object_of(NAMED[ELASTIC], body["metadata"], spec)


def service() -> dict[str, Data]:
    """Return the headless Service through which the pods find each other."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": STEP},
        "spec": {"clusterIP": "None", "selector": {"job-name": STEP}},
    }


def image_name(text: str) -> str:
    """Return the name by which Kubernetes pulls an image; empty for a file that enroot unpacks."""
    plain = text.removeprefix("docker://").replace("#", "/", 1)
    return "" if plain.endswith((".sqsh", ".sif")) or plain.startswith(("/", "$", ".")) else plain


def _mounts(text: str) -> tuple[list[Data], list[Data]]:
    """Return volumes and mounts of `/data:/data:ro,/lustre`, as folders of the nodes."""
    volumes: list[Data] = []
    mounts: list[Data] = []
    for index, written in enumerate(filter(is_mount, text.split(","))):
        source, _, rest = written.partition(":")
        target, _, flags = rest.partition(":")
        name = f"mount-{index}"
        volumes.append({"name": name, "hostPath": {"path": source}})
        read_only = "ro" in flags.split("+") or None
        mounts.append(stated({"name": name, "mountPath": target or source, "readOnly": read_only}))
    return volumes, mounts


def is_mount(text: str) -> bool:
    """Whether a text is a mount of a folder of the nodes: an absolute path, without variables."""
    return text.startswith("/") and not any(mark in text for mark in ("$", "`", OWN_NAME))


_CONTAINER = "/spec/template/spec/containers/0"
_WORKER = "/spec/pytorchReplicaSpecs/Worker"
_LIMITS = f"{_CONTAINER}/resources/limits"
_OF_SHELL = {
    f"{_CONTAINER}/command": "command",
    f"{_CONTAINER}/env": "export",
    f"{_CONTAINER}/workingDir": "cd",
}
# The options that decide a field: the first of them that is given is meant.
_OF_SLURM = {
    "/spec/activeDeadlineSeconds": "--time",
    "/spec/backoffLimit": "--requeue",
    "/spec/completions": "--nodes --ntasks",
    "/spec/template/spec/volumes": "--container-mounts",
    f"{_CONTAINER}/volumeMounts": "--container-mounts",
    f"{_CONTAINER}/image": "--container-image",
    f"{_CONTAINER}/command": "srun",
    f"{_CONTAINER}/env": "export",
    f"{_CONTAINER}/workingDir": "--container-workdir --chdir cd",
    f"{_LIMITS}/memory": "--mem --mem-per-cpu --mem-per-gpu",
    Pointer(_LIMITS) / "nvidia.com/gpu": "--gpus-per-node --gres --gpus --gpus-per-task",
    f"{_CONTAINER}/resources/requests/cpu": "--cpus-per-task --cpus-per-gpu",
}


def called(given: Mapping[str, Data], *, in_slurm: bool) -> Callable[[str], str]:
    """Return a function that maps a field of the manifest to what people wrote for it, else to
    itself.
    """
    names = _OF_SLURM if in_slurm else _OF_SHELL

    def written(pointer: str) -> str:
        field = pointer.replace(_WORKER, "/spec").replace("/spec/runPolicy", "/spec")
        options = next((n.split() for at, n in names.items() if field.startswith(at)), [pointer])
        return next((name for name in options if name in given), options[-1])

    return written


def variable(body: Mapping[str, Data], pointer: str) -> str:
    """Return the name of the variable that a pointer is inside of, or ""."""
    entry = _VARIABLE.match(pointer)
    return str(dig(lookup(body, entry[0]), "name")) if entry else ""


_VARIABLE = re.compile(r".*/containers/0/env/\d+")
