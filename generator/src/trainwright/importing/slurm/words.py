"""What the commands of batch scripts do, by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from trainwright.objects.pods.command import is_python
from trainwright.objects.pods.launching import MPI

LAUNCHERS = MPI | {"torchrun", "accelerate", "deepspeed", "composer"}
# Python modules and other words that show that one command starts all processes of a node.
STARTS_PROCESSES = frozenset(
    {
        "torch.distributed.run",
        "torch.distributed.launch",
        "torch.distributed.elastic",
        "accelerate.commands.launch",
        "deepspeed.launcher.runner",
        "torch_xla.distributed.xla_spawn",
        "paddle.distributed.launch",
        "colossalai.cli",
    }
)

# Commands that neither train nor change what is trained.
HARMLESS = frozenset(
    "[ [[ : awk basename break cat clear continue cut date dcgmi df dirname du echo env exit expr "
    "export false free getopts grep head hostname id jobs kill local ls lscpu lsb_release lspci "
    "mkdir mktemp nproc nvcc nvidia-smi rocm-smi printenv printf ps pwd read readarray mapfile "
    "readlink realpath return sacct scancel scontrol seq set shift shopt sinfo sleep sort squeue "
    "stat tail tee test time touch tput tr trap true type ulimit umask uname uniq unset wait wc "
    "which whoami declare readonly typeset let ibstat ibv_devinfo topo numactl".split()
)
# Commands that make a cluster's programs available; in pods the image has them.
OF_THE_IMAGE = frozenset({"module", "ml", "source", ".", "conda", "mamba", "micromamba", "spack"})
# Commands that prepare something for a program, and train nothing themselves.
PREPARING = (
    frozenset(
        "apt apt-get aws chmod chown cp curl docker dvc enroot eval find git gsutil hf "
        "huggingface-cli ln make mv pip pip3 rclone rm rsync sbatch scp sed squashfuse sudo tar uv "
        "unzip virtualenv wandb wget xargs zip cd pushd popd ray ssh pdsh clush alias".split()
    )
    | OF_THE_IMAGE
)
CONTAINERS = frozenset(
    "apptainer singularity docker podman podman-hpc enroot shifter charliecloud ch-run".split()
)
# The managers of environments that start a program, with their options that take a value.
RUNNERS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("poetry", "pixi", "pdm", "hatch", "rye"), frozenset()),
    "uv": frozenset("--with --python -p --extra --group --project --directory --env-file".split()),
    **dict.fromkeys(
        ("conda", "mamba", "micromamba"), frozenset({"-n", "--name", "-p", "--prefix"})
    ),
}
_SET_UP = re.compile(r"\b(?:conda|mamba|micromamba|pyenv|pixi|spack|modulecmd)\b")
_SETS_UP_ENVIRONMENT = re.compile(
    r"activate|conda|mamba|modules?\.sh|lmod|profile|bashrc|setvars|spack|scl_source|venv|init"
)
_CHECKS = (["--version"], ["-V"], ["-m", "torch.utils.collect_env"], ["-m", "pip", "list"])
_PRINTS = re.compile(r"\bprint\(")


def sets_up(words: Sequence[str]) -> bool:
    """Whether a command makes the programs of a cluster available."""
    name = PurePosixPath(words[0]).name if words else ""
    is_eval = name == "eval" and bool(_SET_UP.search(" ".join(words)))
    return is_eval or (name in OF_THE_IMAGE and not sourced(words))


def sourced(words: Sequence[str]) -> str:
    """Return the file that a script sources, or "" if there is none or it sets up programs."""
    if words[:1] not in (("source",), (".",), ["source"], ["."]) or len(words) < 2:
        return ""
    return "" if _SETS_UP_ENVIRONMENT.search(words[1].lower()) else words[1]


def is_check(words: Sequence[str]) -> bool:
    """Whether a Python command only prints information, such as versions."""
    if not words or not is_python(words[0]):
        return False
    rest = [word for word in words[1:] if word != "-u"]
    prints = rest[:1] == ["-c"] and len(rest) > 1 and _PRINTS.search(rest[1]) is not None
    return prints or any(rest[: len(check)] == check for check in _CHECKS)


_RAY = re.compile(r"\bray start\b")


def starts_ray(words: Sequence[str]) -> bool:
    """Whether a command starts a node of a Ray cluster."""
    return _RAY.search(" ".join(words)) is not None
