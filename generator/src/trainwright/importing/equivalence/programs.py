"""What a pod starts, and the rank, world size and address of each of its processes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from trainwright.datatypes.frozen import dataclass
from trainwright.objects.pods import command as commands
from trainwright.objects.pods import rank_prediction
from trainwright.objects.pods.flags import Mention, parse_arguments
from trainwright.objects.pods.groups import Pods
from trainwright.objects.pods.pod import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One training process. A value is None if the processes settle it only at the rendezvous."""

    rank: int | None
    local_rank: int
    world_size: int | None
    meets_at: str  # "rank 0", another address, or nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What the processes run, and what starts them: a launcher, the image itself, or nothing.

    `options` are those of the launcher, except for the rendezvous and the number of processes.
    `words` are the program's arguments before its `flags`, or all if they cannot be told apart.
    """

    launcher: str
    interpreter: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    is_module: bool = False
    flags: Mapping[str, tuple[Mention, ...]] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    unbuffered: bool = False


# Options by which launchers find each other: their effect is in each `Process`.
_MEETING = frozenset(
    "nnodes nproc-per-node node-rank master-addr master-port rdzv-backend rdzv-endpoint rdzv-id "
    "standalone "
    # of accelerate
    "num-machines num-processes machine-rank main-process-ip main-process-port multi-gpu "
    "same-network deepspeed-multinode-launcher "
    # of DeepSpeed
    "world-info num-nodes num-gpus num-accelerators hostfile no-ssh no-ssh-check "
    "force-multi".split()
)
_UNBUFFERED = "PYTHONUNBUFFERED"
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


def program(pod: Pod) -> Program:
    """Return what the pod's command starts."""
    argv, env = pod.resolved
    command = commands.parse(argv)
    always = bool(env.get(_UNBUFFERED))
    if pod.starts_image:
        return Program(launcher="image", words=argv, unbuffered=always)
    if command.program is None:
        return Program(launcher=command.launcher, words=argv, unbuffered=always)
    arguments = parse_arguments(argv[command.program + 1 :])
    launched = command.launcher != "none"
    before = _installed(argv[0]) if launched else argv[: command.program - command.is_module]
    # torchrun and our entrypoint start their processes with `python -u`.
    return Program(
        launcher=command.launcher,
        interpreter=tuple(word for word in before if word != "-u"),
        options=dict(_options(command, env)) if launched else {},
        path=argv[command.program],
        is_module=command.is_module,
        flags=arguments.flags,
        words=arguments.words,
        unbuffered=launched or always or "-u" in before,
    )


# Where Docker's own PATH finds a command: https://docs.docker.com/reference/dockerfile/#env
_ON_PATH = re.compile(r"(?:/usr(?:/local)?)?/s?bin/[^/]+|[^/]+")


def _installed(word: str) -> tuple[str, ...]:
    """Return the launcher if its folder identifies one of several installations, else ()."""
    return () if _ON_PATH.fullmatch(word) else (word,)


def _options(command: commands.Command, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if "PET_MAX_RESTARTS" in env:
        yield "max-restarts", env["PET_MAX_RESTARTS"]
    without = _MEETING | (_UNUSED_BY_RAY if "ray" in command.options else frozenset())
    for name, value in sorted(command.options.items()):
        if name not in without:
            yield name, value


# Ray has no process group, and its nodes end as their pods do.
_UNUSED_BY_RAY = frozenset({"backend", "grace-period"})


def processes(
    pods: Pods, shown: tuple[Pod, ...], *, elastic: bool
) -> dict[str, tuple[Process, ...]]:
    """Return the rank, world size and address of each process of the `shown` pods, by pod name.

    They are as a launcher will set them; of an elastic training only the address is known.
    """
    by_pod: dict[str, tuple[Process, ...]] = {}
    addresses = {pod.name: _address(pod, pods) for pod in shown}
    for process in rank_prediction.predict(pods, shown):
        place = Process(
            rank=None if elastic else process.rank,
            local_rank=process.local_rank,
            world_size=None if elastic else process.world_size,
            meets_at=addresses[process.pod],
        )
        by_pod[process.pod] = (*by_pod.get(process.pod, ()), place)
    return by_pod


def _address(pod: Pod, pods: Pods) -> str:
    """Return where processes look for others: "rank 0" if it leads there, else the address."""
    first = pods.hostnames[0]
    written = _written_address(pod)
    if len(pods) == 1 and written in _LOCAL:
        return "rank 0"
    # Within the namespace, and with the cluster's domain.
    short = bool(written) and first.startswith(f"{written}.")
    leads = short or written == first or written.startswith(f"{first}.")
    return "rank 0" if leads else written


def _written_address(pod: Pod) -> str:
    argv, env = pod.resolved
    if pod.agent:
        return {variable.name: variable.value for variable in pod.agent[0]}["MASTER_ADDR"]
    command = commands.parse(argv)
    if command.launcher == "none":
        return env.get("MASTER_ADDR", "")
    reads = _READS.get(command.launcher, ("PET_RDZV_ENDPOINT", "PET_MASTER_ADDR"))
    endpoint = command.options.get("rdzv-endpoint") or (
        env.get("PET_RDZV_ENDPOINT") if "PET_RDZV_ENDPOINT" in reads else ""
    )
    if endpoint:
        return endpoint.rpartition(":")[0] or endpoint
    given = (command.options.get(name) for name in ("master-addr", "main-process-ip"))
    from_environment = (env.get(name) for name in reads)
    # On its own a launcher meets its processes on the spot.
    return next(filter(None, (*given, *from_environment)), "localhost")


# The variables that tell launchers where to meet, beside their options.
_OURS = ("PET_RDZV_ENDPOINT", "TRAINWRIGHT_MASTER_ADDR", "PET_MASTER_ADDR", "MASTER_ADDR")
_READS: Mapping[str, tuple[str, ...]] = {
    "trainwright": _OURS,
    "ray": _OURS,
    "accelerate": (),
    "deepspeed": (),
}
