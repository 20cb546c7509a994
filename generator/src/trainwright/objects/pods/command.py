"""The command line of the training container, written and read: which launcher starts what."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.objects.pods.launchers import LAUNCHERS, SWITCH, own_options, plain

LauncherName: TypeAlias = Literal[
    "trainwright", "torchrun", "accelerate", "deepspeed", "ray", "none", "tool"
]
RUNTIME = ("python", "-m", "trainwright_runtime")
# The entrypoint's checks before training, and which of them it does unasked.
CHECKS = ("shm", "memory", "disk", "ports", "names", "checkpoint", "collective")
UNASKED_CHECKS: Mapping[str, bool] = {"shm": True, "disk": True, "checkpoint": True}
SHELL_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")  # a word that a shell leaves as it is
SCRIPT_PATH = "/opt/trainwright/main.py"  # where a script that the spec holds is mounted

_PYTHON = re.compile(r"(?:.*/)?python(?:\d(?:\.\d+)?)?")
_TORCHRUN = re.compile(r"(?:.*/)?torchrun")
_COMMANDS: Mapping[str, LauncherName] = {
    "torchrun": "torchrun",
    "deepspeed": "deepspeed",
    "accelerate-launch": "accelerate",
}
_MODULES: Mapping[str, LauncherName] = {
    "trainwright_runtime": "trainwright",
    "torch.distributed.run": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.launch": "deepspeed",
    "deepspeed.launcher.runner": "deepspeed",
}
# Modules that start another program, whose own options end where nothing shows it.
_OPAQUE = frozenset(
    ("torch.distributed.launch", "torch_xla.distributed.xla_spawn", "paddle.distributed.launch")
    + ("colossalai.cli", "horovod.runner.launch")
)
_OPTION = re.compile(r"--?([A-Za-z][A-Za-z0-9_-]*)(?:=(.*))?", re.DOTALL)
# Options of Python that take a value, and switches of launchers that no job sets.
_PYTHON_VALUES = frozenset({"-W", "-X"})
_SWITCHES = frozenset(
    "standalone no-python multi-gpu cpu tpu tpu-cluster no-tpu-cluster tpu-use-sudo no-ssh "
    "no-ssh-check force-multi save-pid ray".split()
)
# What is a switch of the command `deepspeed` and has a value where that starts a node.
_VALUES = frozenset({("deepspeed.launcher.launch", "save-pid")})
_SHORT = {
    "t": "tee",
    "r": "redirects",
    "q": "quiet",
    "H": "hostfile",
    "i": "include",
    "e": "exclude",
}


@dataclass(frozen=True, slots=True)
class MeetingPlace:
    """Where the nodes of a run meet, and the rank of a node, as words of a command line."""

    address: str
    port: str
    node_rank: str


_HERE = MeetingPlace("127.0.0.1", "29500", "0")


def command_line(
    job: Job,
    rendezvous: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
    place: MeetingPlace | None = None,
) -> list[str]:
    """Return the container's command: the launcher and what it starts, without the job's flags.

    `rendezvous` are torchrun options for targets whose operator does not set PET_* itself,
    `options` those of our own entrypoint in addition to the ones that it always gets. `place` is
    for launchers that ignore the variables an operator sets.
    """
    entry = job.entrypoint
    if not entry.launched:
        return list(entry.argv)
    script = SCRIPT_PATH if entry.inline else entry.script
    program = [script] if script else ["-m", entry.module]
    own = own_options(job)
    if job.launcher == "torchrun":
        count, meeting = f"--nproc-per-node={job.procs_per_node}", _endpoint(job, place)
        return ["torchrun", count, *rendezvous, *meeting, *own, *program]
    if job.launcher == "accelerate":
        return ["accelerate", "launch", *_accelerate(job, place), *own, *program]
    if job.launcher == "deepspeed":
        module = ["python", "-m", "deepspeed.launcher.launch"]
        started = program if script else ["--module", entry.module]
        return [*module, *_deepspeed(job, place or _HERE), *own, *started]
    if job.launcher == "python":
        return ["python", "-u", *program]
    return [
        *RUNTIME,
        f"--backend={job.backend}",
        *(_ray(job) if job.launcher == "ray" else [f"--nproc-per-node={job.procs_per_node}"]),
        f"--grace-period={job.grace_period}",
        *options,
        *_preflight(job.preflight),
        *own,
        "--",
        *program,
    ]


def _endpoint(job: Job, place: MeetingPlace | None) -> Iterator[str]:
    """Yield the endpoint option for a backend but torchrun's own; no operator sets it."""
    options = {plain(name): value for name, value in job.launcher_options.items()}
    if (
        place
        and options.get("rdzv-backend", "static") != "static"
        and "rdzv-endpoint" not in options
    ):
        yield f"--rdzv-endpoint={place.address}:{place.port}"


# Options that tell accelerate in another way how to start several processes.
_OWN_KINDS = frozenset({"config-file", "use-deepspeed", "use-fsdp", "use-megatron-lm"})


def _accelerate(job: Job, place: MeetingPlace | None) -> Iterator[str]:
    """Yield accelerate's options for nodes and processes.

    https://huggingface.co/docs/accelerate/basic_tutorials/launch#multi-node-training
    """
    world = job.nodes * job.procs_per_node
    options = {plain(name) for name, value in job.launcher_options.items() if value}
    yield f"--num_machines={job.nodes}"
    yield f"--num_processes={world}"
    if world > 1 and not options & _OWN_KINDS:
        yield "--multi_gpu"
    if job.nodes > 1 and place:
        yield f"--machine_rank={place.node_rank}"
        yield f"--main_process_ip={place.address}"
        yield f"--main_process_port={place.port}"
        if options & _OWN_KINDS:
            yield "--deepspeed_multinode_launcher=standard"  # or it would call ssh


def _deepspeed(job: Job, place: MeetingPlace) -> Iterator[str]:
    """Yield what `deepspeed --no_ssh` passes to its launcher on each node, without a hostfile."""
    yield f"--world_info={_world_info(job.nodes, job.procs_per_node)}"
    yield f"--node_rank={place.node_rank if job.nodes > 1 else '0'}"
    yield f"--master_addr={place.address}"
    yield f"--master_port={place.port}"


def _ray(job: Job) -> Iterator[str]:
    """Yield options for Ray, with the CPUs that the job requests.

    In a pod without a limit, Ray counts all CPUs of the machine, and starts a worker for each.
    """
    yield "--ray"
    cpus = ray_cpus(job)
    if cpus and "num-cpus" not in map(plain, job.launcher_options):
        yield f"--num-cpus={cpus}"


def ray_cpus(job: Job) -> int | None:
    """Return the CPUs that Ray counts on a node, if the job requests some."""
    cpu = job.resources.requests["cpu"] or job.resources.limits["cpu"]
    return max(1, int(quantity.parse(cpu))) if cpu else None


def _world_info(nodes: int, procs: int) -> str:
    return _encoded({f"node-{node}": list(range(procs)) for node in range(nodes)})


def _encoded(info: Mapping[str, list[int]]) -> str:
    return base64.urlsafe_b64encode(json.dumps(info, separators=(",", ":")).encode()).decode()


def read_world_info(option: str) -> Mapping[str, Data]:
    """Return the processes of each node from the `--world_info` of DeepSpeed's launcher; empty if
    it is invalid.
    """
    try:
        world = json.loads(base64.urlsafe_b64decode(option))
    except ValueError:
        return {}
    return world if isinstance(world, dict) else {}


def without_devices(word: str) -> str:
    """Return a `--world_info` word with the same world but no devices: DeepSpeed's launcher sets
    CUDA_VISIBLE_DEVICES from it, and -1 means none. Other words are returned as they are.
    """
    name, equals, option = word.partition("=")
    info = read_world_info(option) if name == "--world_info" else {}
    hidden = {node: [-1] * len(ids) for node, ids in info.items() if isinstance(ids, list)}
    return f"{name}{equals}{_encoded(hidden)}" if info and len(hidden) == len(info) else word


def _preflight(requested: Mapping[str, Data]) -> Iterator[str]:
    if requested:
        wanted = {**UNASKED_CHECKS, **requested}
        words = [_check(name, wanted.get(name, False)) for name in CHECKS]
        yield f"--preflight={','.join(filter(None, words)) or 'none'}"


def _check(name: str, value: Data) -> str:
    if isinstance(value, bool):
        return name if value else ""
    return f"{name}={value if isinstance(value, str) else f'{value:g}'}"


def read_preflight(option: str) -> dict[str, Data]:
    """Return the preflight checks of this option, or {} if it is not ours."""
    if not option:
        return {}
    checks: dict[str, Data] = dict.fromkeys(UNASKED_CHECKS, False)
    for word in option.split(",") if option != "none" else ():
        name, equals, value = word.partition("=")
        if name not in CHECKS or (name == "collective" and equals and not _is_number(value)):
            return {}
        checks[name] = (float(value) if name == "collective" else value) if equals else True
    return {name: checks[name] for name in CHECKS if name in checks}


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def starts_runtime(job: Job) -> bool:
    """Whether our own entrypoint runs in the container, and so knows every way to be started."""
    return job.launcher in ("trainwright", "ray") and job.entrypoint.launched


def restart_policy(job: Job) -> str:
    """Return the restart policy of a job's pods: ExitCode only for our entrypoint.

    Unlike that of other launchers, its exit code shows whether a retry can help.
    """
    if job.retries == 0:
        return "Never"
    return "ExitCode" if starts_runtime(job) else "OnFailure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The launcher of a program, its options, and the index of the program's name in argv.

    `program` is None when the words do not show it: a shell line, `python -c`. A `launcher` of
    "none" means that the container's process is the program itself, "tool" that it is one
    of the entrypoint's own subcommands and trains nothing.
    """

    launcher: LauncherName
    options: Mapping[str, str] = field(default_factory=dict)
    program: int | None = None
    is_module: bool = False


def is_python(word: str) -> bool:
    """Whether a word names a Python interpreter."""
    return bool(_PYTHON.fullmatch(word))


def is_torchrun(word: str) -> bool:
    return bool(_TORCHRUN.fullmatch(word))


def parse(argv: tuple[str, ...]) -> Command:
    """Take a command line apart."""
    name = argv[0].rpartition("/")[2] if argv else ""
    if name in _COMMANDS:
        return _launcher(_COMMANDS[name], argv, 1)
    if name == "accelerate" and argv[1:2] == ("launch",):
        return _launcher("accelerate", argv, 2)
    if not is_python(name):
        return Command(launcher="none")
    at = 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] not in ("-m", "-c"):
        at += 2 if argv[at] in _PYTHON_VALUES else 1
    if at + 1 < len(argv) and argv[at] == "-m":
        return _module(argv, at + 1)
    if at >= len(argv) or argv[at] == "-c":
        return Command(launcher="none")
    return Command(launcher="none", program=at)


def _module(argv: tuple[str, ...], at: int) -> Command:
    following = argv[at + 1 : at + 2]
    if argv[at] == RUNTIME[-1] and following and not following[0].startswith("-"):
        return Command(launcher="tool", program=at, is_module=True)
    if argv[at] in _MODULES:
        return _launcher(_MODULES[argv[at]], argv, at + 1)
    if argv[at] in _OPAQUE:
        return Command(launcher="none")
    return Command(launcher="none", program=at, is_module=True)


def _launcher(launcher: LauncherName, argv: tuple[str, ...], at: int) -> Command:
    """Read a launcher's options from argv[at:]; the program follows them, `-m` or `--`."""
    options: dict[str, str] = {}
    is_module, started = False, argv[at - 1]
    while at < len(argv) and argv[at].startswith("-"):
        word, at = argv[at], at + 1
        if word == "--":
            continue
        if word in ("-m", "--module"):
            is_module = True
            continue
        match = _OPTION.fullmatch(word)
        if match:
            name, value = _SHORT.get(match.group(1), plain(match.group(1))), match.group(2)
            is_switch = _is_switch(launcher, name) and (started, name) not in _VALUES
            if value is None and not is_switch and at < len(argv):
                value, at = argv[at], at + 1
            options[name] = value or ""
    if launcher == "trainwright" and "ray" in options:
        launcher = "ray"
    is_shown = at < len(argv) and "no-python" not in options  # else it is any executable
    return Command(
        launcher=launcher,
        options=options,
        program=at if is_shown else None,
        is_module=is_module,
    )


def _is_switch(launcher: LauncherName, name: str) -> bool:
    return name in _SWITCHES or LAUNCHERS[launcher].options.get(name) == SWITCH
