"""What a batch script has on each node, and the Slurm variables that follow from that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.documents.validation.other_forms import clock, gpu_count
from trainwright.importing import shell
from trainwright.importing.names import OWN_NAME
from trainwright.kinds.reading import ImportingError, shown

RANK = "$(JOB_COMPLETION_INDEX)"
# What each run has of its own: the number of a job, and that of a shell's process.
PER_RUN = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_JOB_ID", "$", "BASHPID")
STEP = "slurm-step"  # of the object, and so of its pods: the job has the script's own name
Place = Callable[[str], Location]  # of an option, by its name
HEAD = f"{STEP}-0.{STEP}"
PORT = "29500"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAmounts:
    """The number of nodes, and what each has: processes that srun starts, GPUs, cores, memory."""

    nodes: int
    tasks: int  # per node
    gpus: int
    cpus: int
    memory: str

    @classmethod
    def of(cls, given: Mapping[str, Data], place: Place) -> NodeAmounts:
        """Return the amounts that options request. Raise ImportingError for an invalid number."""

        def number(name: str, otherwise: int = 0) -> int:
            return _whole(given, name, otherwise, place)

        per_node = number("--ntasks-per-node") or number("--tasks-per-node")
        tasks = number("--ntasks")
        nodes = number("--nodes") or (-(-tasks // per_node) if tasks and per_node else 1)
        per_node = per_node or max(tasks // nodes, 1)
        gpus = number("--gpus-per-node") or (gpu_count(given.get("--gres", "")) or 0)
        gpus = gpus or number("--gpus") // nodes or number("--gpus-per-task") * per_node
        cpus = number("--cpus-per-task") * per_node or number("--cpus-per-gpu") * gpus
        return cls(
            nodes=nodes,
            tasks=per_node,
            gpus=gpus,
            cpus=cpus,
            memory=_memory(given, cpus=cpus or per_node, gpus=gpus),
        )

    def variables(self, name: str, given: Mapping[str, Data]) -> dict[str, str]:
        """Return the environment variables of a step that are known before it runs.

        Some of them are there only if the option that they repeat is `given`.
        https://slurm.schedmd.com/sbatch.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
        """
        nodes, tasks = str(self.nodes), str(self.tasks)
        env = {
            **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), nodes),
            **dict.fromkeys(("SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"), tasks),
            **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), str(self.nodes * self.tasks)),
            "SLURM_NODEID": RANK,
            "SLURM_JOB_NAME": name,
            **dict.fromkeys(PER_RUN, OWN_NAME),
            "RANDOM": PORT,  # by which scripts choose a port
            **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), HEAD),
        }
        env |= {name: str(given[option]) for name, option in _REPEATED.items() if option in given}
        if self.tasks == 1:
            env |= {"SLURM_PROCID": RANK, "SLURM_LOCALID": "0"}
        if self.gpus:
            names = ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_TASK")
            env |= dict.fromkeys(names, str(self.gpus))
        if self.cpus:
            env["SLURM_CPUS_PER_TASK"] = str(self.cpus // self.tasks)
            env["SLURM_CPUS_ON_NODE"] = str(self.cpus)
        return env

    def resources(self) -> dict[str, Data]:
        limits: dict[str, Data] = {}
        if self.memory:
            limits["memory"] = self.memory
        if self.gpus:
            limits["nvidia.com/gpu"] = str(self.gpus)
        requests = {"cpu": str(self.cpus)} if self.cpus else {}
        return {key: value for key, value in (("limits", limits), ("requests", requests)) if value}


_REPEATED = {
    "SLURM_CPUS_PER_GPU": "--cpus-per-gpu",
    "SLURM_JOB_PARTITION": "--partition",
    "SLURM_JOB_ACCOUNT": "--account",
    "SLURM_JOB_QOS": "--qos",
}


def _whole(given: Mapping[str, Data], name: str, otherwise: int, place: Place) -> int:
    if name not in given:
        return otherwise
    text = str(given[name])
    match = re.fullmatch(r"(?:[a-zA-Z][\w.-]*:)?([0-9]{1,9})(?:-\d+|\(x\d+\))?", text)
    if match is None:
        said = shown(name, text)
        raise ImportingError(f"{place(name)}: sbatch: {name} is {said}, and no number: write one")
    return int(match[1])


_SIZE = re.compile(r"([0-9]{1,18})([KMGT]?)B?", re.IGNORECASE)
_UNITS = {"": "Mi", "K": "Ki", "M": "Mi", "G": "Gi", "T": "Ti"}


def _memory(given: Mapping[str, Data], *, cpus: int, gpus: int) -> str:
    """Return the memory per node as a quantity; empty for all that the node has (0 in Slurm)."""
    for name, times in (("--mem", 1), ("--mem-per-cpu", cpus), ("--mem-per-gpu", gpus)):
        match = _SIZE.fullmatch(str(given.get(name, "")))
        if match and int(match[1]) * times:
            return f"{int(match[1]) * times}{_UNITS[match[2].upper()]}"
    return ""


def unread(given: Mapping[str, Data]) -> Iterator[tuple[str, str]]:
    """Yield options whose values are none of Slurm's, or say more than is read, each with the field
    of a spec that has the same.
    """
    if "--time" in given and clock(str(given["--time"])) is None:
        yield "--time", "maxDuration"
    for name in ("--mem", "--mem-per-cpu", "--mem-per-gpu"):
        if name in given and not _SIZE.fullmatch(str(given[name])):
            yield name, "resources.memory"
    resources = str(given.get("--gres", "")).split(",")
    if "--gres" in given and any(gpu_count(it) is None for it in resources):
        yield "--gres", "resources.gpu, and resources.extended for other devices"


def narrowed(amounts: NodeAmounts, given: Mapping[str, Data], place: Place) -> NodeAmounts:
    """Return the amounts of a step that requests fewer than its script."""
    nodes = _whole(given, "--nodes", amounts.nodes, place)
    tasks = _whole(given, "--ntasks-per-node", 0, place)
    total = _whole(given, "--ntasks", 0, place)
    nodes = min(nodes, total) if total else nodes
    per_node = tasks or (max(total // nodes, 1) if total else amounts.tasks)
    return replace(amounts, nodes=nodes, tasks=per_node)


def of_step(
    amounts: NodeAmounts,
    headers: Mapping[str, Data],
    of_srun: Mapping[str, Data] | None,
    place: Place,
    *,
    starts_others: bool,
) -> NodeAmounts:
    """Return a step's amounts: those of srun's options, or one process if the script starts it.

    Such a process runs on the first node only, unless it starts others.
    """
    if of_srun is None:
        return replace(amounts, tasks=1, nodes=amounts.nodes if starts_others else 1)
    requested = {name: value for name, value in of_srun.items() if name in _RESOURCES}
    step_amounts = narrowed(NodeAmounts.of({**requested, **headers}, place), of_srun, place)
    cpus = _whole(of_srun, "--cpus-per-task", 0, place) * step_amounts.tasks
    return replace(step_amounts, cpus=cpus) if cpus else step_amounts


_RESOURCES = frozenset(
    "--gpus-per-node --gres --gpus --gpus-per-task --cpus-per-task --cpus-per-gpu --mem "
    "--mem-per-cpu --mem-per-gpu".split()
)


@dataclass(frozen=True, slots=True)
class SlurmOutput:
    """The output of commands that scripts run to find the first node or the number of nodes."""

    amounts: NodeAmounts

    def __call__(self, called: Sequence[tuple[str, ...]]) -> str | None:
        names = [PurePosixPath(words[0]).name for words in called if words]
        return self._printed(called, names) if names else ""

    def _printed(self, called: Sequence[tuple[str, ...]], names: list[str]) -> str | None:
        first = called[0]
        if names == ["scontrol"] and not {"hostname", "hostnames"}.isdisjoint(first):
            return " ".join(f"{STEP}-{at}.{STEP}" for at in range(self.amounts.nodes))
        if "wc" in names:
            counted = {"scontrol": self.amounts.nodes}
            counted |= dict.fromkeys(("nvidia-smi", "seq"), self.amounts.gpus)
            return str(counted.get(names[0]) or "") or None
        if names[0] == "echo":
            return self._echoed(first, names[-1])
        if names[0] in ("date", "uuidgen"):
            return OWN_NAME
        if names == ["expr"]:
            return shell.number(" ".join(first[1:]))
        asks = names[0] in ("scontrol", "hostname", "getent", "host") or "hostname" in str(called)
        return HEAD if asks else None

    def _echoed(self, words: tuple[str, ...], last: str) -> str | None:
        """Return what a text is cut to: the first node, or digits of the job's ID, for a port."""
        if HEAD in words and last in ("head", "cut", "awk"):
            return HEAD
        return "0" if last in ("tail", "cut") else None
