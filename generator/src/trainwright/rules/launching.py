"""What a container starts: launchers of several processes, and how they are told who takes part."""

from __future__ import annotations

import re

from trainwright.rules.template import Container, PodTemplate

# Launchers that start several processes a pod and read PET_*.
_LAUNCHERS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate",
    "deepspeed",
    "trainwright_runtime",
    "dlrover-run",
)
_TORCHRUN = re.compile(r"(?:^|[\s/;&|(])torchrun(?:$|\s)|torch\.distributed\.run\b")
_OPTION = re.compile(
    r"(?:^|\s)--(nnodes|nproc[-_]per[-_]node|rdzv[-_]endpoint|master[-_]addr)(?:=|\s+)(\S+)"
)
# Variables by which ranks find each other, in manifests that no operator completes.
_ADDRESSES = ("MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT", "TRAINWRIGHT_MASTER_ADDR")
SHELLS = re.compile(r"(?:.*/)?(?:ba|da|z)?sh")


def launches(words: tuple[str, ...]) -> bool:
    """Whether a command line starts a launcher, in any of its words (shell lines included)."""
    return any(launcher in word for word in words for launcher in _LAUNCHERS)


def torchruns(container: Container) -> bool:
    """Whether a container starts torchrun, by itself or in a shell line."""
    return any("torch" in word and _TORCHRUN.search(word) for word in container.command_line)


def options(container: Container) -> dict[str, str]:
    """The options of a launcher that say who takes part, with dashes in their names."""
    words = container.command_line
    if not any("--" in word for word in words):
        return {}
    found = _OPTION.findall(" ".join(words))
    return {name.replace("_", "-"): value for name, value in found}


def addresses(container: Container) -> list[str]:
    """Where the ranks of a container are told to meet, as far as it is written out."""
    given = options(container)
    told = [given.get(name, "") for name in ("master-addr", "rdzv-endpoint")]
    return [a for a in (*told, *map(container.variables.get, _ADDRESSES)) if a]


def trains_together(template: PodTemplate) -> bool:
    """Whether the pods of a template are ranks of one training, and not work of their own."""
    return template.replicas > 1 and any(
        launches(container.command_line) or any(name in container.variables for name in _ADDRESSES)
        for container in template.trains
    )
