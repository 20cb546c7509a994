"""Settings of libraries and devices that contradict what a pod has, or each other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from pathlib import Path

from trainwright.datatypes.data import dig, sequence, text
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count, read
from trainwright.objects.pods.launching import options, torchruns, training_commands
from trainwright.objects.pods.storage import (
    Setting,
    arguments,
    settings,
    spelled,
    variables,
    words,
    written,
)
from trainwright.objects.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.specs.fabrics import is_rdma

_VISIBLE = (
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
)
_NO_DEVICES = frozenset({"", "-1", "none", "void", "NoDevFiles"})


@warning("TW757", about=("VISIBLE_DEVICES",), spec=Pointer("/env"), per_pod=True)
def visible_devices_contradict_gpus(subject: Subject) -> Iterator[Hit]:
    for template, container in subject.training:
        gpus = sum(container.accelerators.values())
        unknown = template.partial and not gpus
        if unknown or sequence(dig(container.body, "resources", "claims")):
            continue
        for index, entry in enumerate(container.env):
            name = text(entry.get("name"))
            if name in _VISIBLE and "valueFrom" not in entry:
                form, why = _contradiction(text(entry.get("value")), gpus)
                if why:
                    at = f"{container.pointer}/env/{index}"
                    yield Hit(at, f"{name} {why}", Pointer.of("env", name), form=form)
        for option in arguments(container):
            form, why = _contradiction(option.value, gpus)
            if option.shown in _VISIBLE and why:
                yield Hit(container.pointer, f"{option.shown} {why}", form=form)


def _contradiction(value: str, gpus: int) -> tuple[str, str]:
    """Return the form in which a list of visible devices contradicts a number of GPUs, and how;
    both empty if it does not.
    """
    if "$" in value:
        return "", ""
    if value in _NO_DEVICES:
        return ("hidden", f"shows none of {gpus} GPUs") if gpus else ("", "")
    if value == "all":
        return "all", "is all: the pod sees every GPU of its node, whatever it requests"
    devices = value.split(",")
    numbers = [int(device) for device in devices if device.isdigit()]
    if len(devices) != gpus:
        form = "absent" if len(devices) > gpus else "idle"
        return form, f"names {len(devices)} devices, and the pod requests {gpus} GPUs"
    if numbers and max(numbers) >= gpus:
        return "absent", f"names device {max(numbers)}, and the pod has those from 0 to {gpus - 1}"
    return "", ""


@warning("TW758", spec=Pointer("/security"), per_pod=True, special=True)
def rdma_without_locked_memory(subject: Subject) -> Iterator[Hit]:
    for template, container in subject.training:
        added = {
            text(capability)
            for capability in sequence(dig(container.security, "capabilities", "add"))
        }
        allowed = container.security.get("privileged") is True or added & {"IPC_LOCK", "ALL"}
        resource = next((name for name in container.extended if is_rdma(name)), "")
        if resource and not allowed and not template.partial:
            message = f"{resource} is requested, without the capability IPC_LOCK"
            yield Hit(container.pointer, message)


_EFA = "vpc.amazonaws.com/efa"


@warning("TW759", about=(_EFA,), spec=Pointer("/resources"), per_pod=True)
def efa_without_huge_pages(subject: Subject) -> Iterator[Hit]:
    for template, container in subject.training:
        paged = any(
            name.startswith("hugepages-") for name in (*container.limits, *container.requests)
        )
        off = container.variables.get("FI_EFA_USE_HUGE_PAGE") == "0"
        other = any("neuron" in name for name in container.extended)
        if _EFA in container.extended and not (paged or off or other or template.partial):
            yield Hit(f"{container.pointer}/resources", f"{_EFA} is requested without huge pages")


# The variables that libraries read, and misspellings of some of them.
_VARIABLES = (Path(__file__).parent / "data" / "library-variables.txt").read_text("utf-8")
_LINES = [line.split() for line in _VARIABLES.splitlines() if not line.startswith("#")]
_MEANT = {words[0]: words[2] for words in _LINES if words[1:2] == ["for"]}
_KNOWN = frozenset(word for words in _LINES if words[1:2] != ["for"] for word in words)
_PREFIXES = ("NCCL_", "TORCH_NCCL_", "GLOO_", "NCC_", "NCLL_", "NNCL_")


_NAMES = re.compile(r"[A-Z][A-Z0-9_]+")  # of variables, and what else is in capitals


@warning("TW760", spec=Pointer("/env"), per_pod=True)
def misspelt_library_variable(subject: Subject) -> Iterator[Hit]:
    containers = (c for template in subject.pod_templates for c in template.containers)
    for container in containers:  # a launcher has no accelerators of its own
        if not any(map(_meant, _NAMES.findall(written(container)))):
            continue
        for name, setting in variables(container).items():
            if meant := _meant(name):
                message = f"no library reads {name}, and one reads {meant}"
                yield Hit(setting.pointer, message, Pointer.of("env", name))


@lru_cache(maxsize=1024)
def _meant(name: str) -> str:
    """Return the variable that a name is a misspelling of, or "" if it is not one."""
    if name in _MEANT or name in _KNOWN or not name.startswith(_PREFIXES):
        return _MEANT.get(name, "")
    near = get_close_matches(name, _KNOWN, n=1, cutoff=0.84)
    return next((meant for meant in near if _apart(name, meant) <= _MISSPELT), "")


_MISSPELT = 2  # letters; what differs by more is another variable


def _apart(word: str, other: str) -> int:
    """Return how many letters to insert and delete to turn one word into the other."""
    blocks = SequenceMatcher(None, word, other, autojunk=False).get_matching_blocks()
    return len(word) + len(other) - 2 * sum(block.size for block in blocks)


_WORKERS = frozenset(
    ("num_workers", "workers", "dataloader_num_workers", "data_workers", "num_data_workers")
    + ("dataloader_workers", "loader_workers", "data_num_workers", "preprocessing_num_workers")
)


@warning("TW761", spec=Pointer("/resources"), per_pod=True)
def more_threads_than_cpus(subject: Subject) -> Iterator[Hit]:
    for template, container in subject.training:
        cpus = read(container.limits.get("cpu", container.requests.get("cpu")))
        if cpus is None or template.partial:
            continue
        gpus, limit = sum(container.accelerators.values()), read(container.limits.get("cpu"))
        if limit is not None and gpus > limit:
            message = f"{gpus} GPUs, and {limit.normalize():f} CPUs to start their work"
            yield Hit(container.pointer, message, remedy=_with_cpus(gpus))
        for busy in threads(template, container):
            if busy.cpus > cpus:
                message = f"{busy.text}, and the pod has {cpus.normalize():f} CPUs"
                yield Hit(container.pointer, message, remedy=_with_cpus(busy.cpus))


def _with_cpus(number: int) -> str:
    return (
        f'Set `resources.cpu` to "{number}" or more, or lower `OMP_NUM_THREADS` or the workers '
        "(each counts once per process)."
    )


@dataclass(frozen=True, slots=True)
class Busy:
    """Threads or workers of a container's processes, and how many CPUs they keep busy."""

    text: str
    cpus: int


def threads(template: PodTemplate, container: Container) -> Iterator[Busy]:
    """Yield the threads and the workers of a container's processes, as far as they are written."""
    if any(part in spelled(container) for part in _THREADED):
        processes = _processes(template, container)
        for what, number in _per_process(container):
            total = number * processes
            yield Busy(f"{what} {number} in {processes} processes are {total}", total)


# Parts of all settings that say how many threads.
_THREADED = ("workers", "_num_threads", " _j", "\n_j")

# What launchers and operators call "as many as there are GPUs".
_EACH_GPU = ("gpu", "auto")


def _processes(template: PodTemplate, container: Container) -> int:
    """How many processes a pod starts, as far as it is written."""
    requested = options(container).get("nproc-per-node") or (
        template.processes if template.processes_at or torchruns(container) else ""
    )
    gpus = sum(container.accelerators.values())
    return (gpus if requested in _EACH_GPU else count(requested)) or 1


_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# Workers in a configuration that are actors or environments, and no processes of a data loader.
_ACTORS = re.compile(
    r"(?:^|[._])(?:ray|rollout|rollouts|cluster|scaling|scaling_config|env|envs)\."
)
# The workers of a data loader in torch's and timm's programs, as make has its jobs.
# https://github.com/pytorch/examples/blob/main/imagenet/main.py
_SHORT = re.compile(r"(?<=\s)-j[ =]?(\d{1,4})(?=\s|$)")
# Names that mean loader workers as variables, too: the workers of NUM_WORKERS may be nodes.
_LOADING = tuple(name for name in _WORKERS if "data" in name or "loader" in name)


def _per_process(container: Container) -> Iterator[tuple[str, int]]:
    """Yield the numbers of threads or loading workers that each process starts."""
    for name, setting in variables(container).items():
        number = count(setting.value)
        if number and (name in _THREADS or name.lower() in _LOADING):
            yield name, number
    for option in arguments(container):
        number = count(option.value)
        # The workers of an entrypoint that an operator starts may be its pods.
        names = _LOADING if container.entrypoint else _WORKERS
        if number and not option.shown.isupper() and _counts_workers(option, names):
            yield option.shown, number
    for loading in _SHORT.findall(" ".join(map(" ".join, training_commands(container)))):
        yield "-j", int(loading)


def _counts_workers(option: Setting, names: Collection[str]) -> bool:
    """Whether an option is a data loader's, also if given to Hydra: data.num_workers=8."""
    if _ACTORS.search(option.shown.lstrip("-+")):
        return False
    last = option.shown.rpartition(".")[2].lstrip("-").replace("-", "_")
    return option.name in names or last in names


@warning("TW766", about=("torch.distributed.launch",), spec=Pointer("/entrypoint"), per_pod=True)
def deprecated_launcher(subject: Subject) -> Iterator[Hit]:
    for _, container in subject.training:
        if "torch.distributed.launch" in words(container):
            yield Hit(container.pointer, "torch.distributed.launch is deprecated")


# What slows a training, or fills its logs, and in which form.
_DEBUGGING = {
    "CUDA_LAUNCH_BLOCKING": r"1",
    "NCCL_DEBUG": r"TRACE|trace",
    "TORCH_DISTRIBUTED_DEBUG": r"DETAIL",
    "TORCH_CPP_LOG_LEVEL": r"INFO",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": r"1",
    "TORCH_USE_CUDA_DSA": r"1",
    "AMD_SERIALIZE_KERNEL": r"[1-3]",
    "HIP_LAUNCH_BLOCKING": r"1",
    "CUDA_DEVICE_DEBUG": r"1",
    "TORCH_NCCL_BLOCKING_WAIT": r"1",
    "TORCH_NCCL_DESYNC_DEBUG": r"1",
    "TORCH_COMPILE_DEBUG": r"1",
    "XLA_IR_DEBUG": r"1",
    "PYTHONDEVMODE": r"1",
    "PYTHONASYNCIODEBUG": r"1",
    "TORCHDYNAMO_VERBOSE": r"1",
    "TORCH_LOGS": r"(?:.*,)?\+.*",
    "TORCH_TRACE": r".+",
}


# Programs that stop at each error, wait for a terminal, or watch each access to memory.
_DEBUGGER = re.compile(
    r"(?:^|[\s;&|/])(?:python[\d.]*\s{1,9}-m\s{1,9})?"
    r"(pdb|ipdb|debugpy|compute-sanitizer|cuda-memcheck|cuda-gdb|valgrind)(?=\s)"
)
_ANOMALY = re.compile(r"(?<!no_)(?:detect|autograd)_anomaly$")
# NCCL_DEBUG is in many manifests, and rarely "trace".
_TO_DEBUG = (
    *(_DEBUGGING.keys() - {"NCCL_DEBUG"}),
    *("trace", "anomaly", "pdb", "debugpy", "compute-sanitizer", "cuda-memcheck"),
    *("cuda-gdb", "valgrind"),
)


@warning("TW767", about=_TO_DEBUG, spec=Pointer("/env"), per_pod=True)
def debugging_left_on(subject: Subject) -> Iterator[Hit]:
    for _, container in subject.training:
        given = variables(container)
        for name in _DEBUGGING.keys() & given.keys():
            if re.fullmatch(_DEBUGGING[name], given[name].value):
                message = f"{name} is {given[name].value}"
                yield Hit(given[name].pointer, message, Pointer.of("env", name))
        for option in settings(container):
            if _checks_gradients(option):
                yield Hit(option.pointer, f"{option.shown} checks every gradient")
        if debugger := _DEBUGGER.search(" ".join(words(container))):
            yield Hit(container.pointer, f"{debugger[1]} runs the training")


def _checks_gradients(option: Setting) -> bool:
    """Whether an option switches it on, also if given to Hydra or in a file of configuration."""
    on = option.value.lower() not in ("false", "0", "no", "off", "null", "none")
    given = option.value != "" or option.shown.startswith("-")
    return on and given and _ANOMALY.search(option.name) is not None


RULES = defined_in(globals())
