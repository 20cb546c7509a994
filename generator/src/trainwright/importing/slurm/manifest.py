"""The Indexed Job that a batch script comes nearest to: a pod per node, which find each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.datatypes.model import Data
from trainwright.equivalence.containers import places
from trainwright.importing.shell import ShellCommand
from trainwright.importing.slurm.amounts import STEP, NodeAmounts
from trainwright.kinds import NAMED
from trainwright.specs.other_forms import clock

TARGET = "job"


def folder(given: Mapping[str, Data], commands: Sequence[ShellCommand], step: ShellCommand) -> str:
    """The folder that the program starts in."""
    before = [command.words for command in commands if command.line <= step.line]
    changed = [words[1] for words in before if words[:1] == ("cd",) and len(words) > 1]
    asked = given.get("--container-workdir") or given.get("--chdir")
    folder = str(asked or (changed[-1] if changed else ""))
    return folder if folder.startswith("/") else ""


def environment(step: ShellCommand) -> dict[str, str]:
    """What the script exports, but for what the launcher and the target set."""
    return {k: v for k, v in step.environment.items() if not places(k)}


def job(
    given: Mapping[str, Data],
    amounts: NodeAmounts,
    command: list[str],
    step: ShellCommand,
    working_dir: str,
) -> dict[str, Data]:
    volumes, mounts = _mounts(str(given.get("--container-mounts", "")))
    volumes.append({"name": "shm", "emptyDir": {"medium": "Memory"}})  # as large as the node's
    mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108
    container: dict[str, Data] = {
        "name": STEP,
        "command": command,
        "env": [{"name": name, "value": value} for name, value in environment(step).items()],
        "resources": amounts.resources(),
        "volumeMounts": mounts,
        "workingDir": working_dir,
    }
    image = image_name(str(given.get("--container-image", "")))
    if image:
        container["image"] = image
    pod: dict[str, Data] = {
        "restartPolicy": "Never",
        "subdomain": STEP,
        "containers": [{key: value for key, value in container.items() if value}],
        "volumes": volumes,
    }
    deadline = clock(str(given.get("--time", "")))
    retries = 3 if "--requeue" in given else 0  # which Slurm does for as long as nodes fail
    return {
        "apiVersion": NAMED[TARGET].api_version,
        "kind": NAMED[TARGET].kind,
        "metadata": {"name": STEP},
        "spec": {
            "completionMode": "Indexed",
            "completions": amounts.nodes,
            "parallelism": amounts.nodes,
            "backoffLimit": retries,
            **({"activeDeadlineSeconds": deadline} if deadline else {}),
            "template": {"spec": {key: value for key, value in pod.items() if value}},
        },
    }


def service() -> dict[str, Data]:
    """The Service by which the pods find each other."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": STEP},
        "spec": {"clusterIP": "None", "selector": {"job-name": STEP}},
    }


def image_name(text: str) -> str:
    """An image by which Kubernetes pulls it; nothing for a file that enroot unpacks."""
    plain = text.removeprefix("docker://").replace("#", "/", 1)
    return "" if plain.endswith((".sqsh", ".sif")) or plain.startswith(("/", "$", ".")) else plain


def _mounts(text: str) -> tuple[list[Data], list[Data]]:
    """`/data:/data:ro,/lustre` as folders of the nodes."""
    volumes: list[Data] = []
    mounts: list[Data] = []
    for index, written in enumerate(part for part in text.split(",") if part):
        source, _, rest = written.partition(":")
        target, _, flags = rest.partition(":")
        name = f"mount-{index}"
        volumes.append({"name": name, "hostPath": {"path": source}})
        mount: dict[str, Data] = {"name": name, "mountPath": target or source}
        mounts.append({**mount, "readOnly": True} if "ro" in flags.split("+") else mount)
    return volumes, mounts


def called(pointer: str) -> str:
    """What people wrote for a part of the manifest."""
    names = {
        "/spec/activeDeadlineSeconds": "--time",
        "/spec/backoffLimit": "--requeue",
        "/spec/completions": "--nodes",
        "/spec/parallelism": "--nodes",
        "/spec/template/spec/volumes": "--container-mounts",
        "/spec/template/spec/containers/0/volumeMounts": "--container-mounts",
        "/spec/template/spec/containers/0/image": "--container-image",
        "/spec/template/spec/containers/0/command": "srun",
        "/spec/template/spec/containers/0/env": "export",
        "/spec/template/spec/containers/0/workingDir": "--chdir",
        "/spec/template/spec/containers/0/resources": "--gres, --mem, --cpus-per-task",
    }
    return next((name for known, name in names.items() if pointer.startswith(known)), pointer)
