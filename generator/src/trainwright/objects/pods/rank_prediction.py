"""The ranks that the processes of pods will have, predicted from what their launcher will read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from trainwright.datatypes.data import digits
from trainwright.datatypes.frozen import dataclass
from trainwright.objects.pods import command as commands
from trainwright.objects.pods.command import Command
from trainwright.objects.pods.groups import Pods
from trainwright.objects.pods.launching import node_range
from trainwright.objects.pods.pod import Pod

_STATIC = ("", "static")  # rendezvous backends under which a node knows its rank beforehand


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One training process, as predicted from the manifests.

    None is for numbers that cannot be known beforehand: ranks that a rendezvous assigns, and all
    numbers of a process that is given neither rank nor world size.
    """

    pod: str
    local_rank: int
    rank: int | None
    world_size: int | None
    node_rank: int | None


def predict(pods: Pods, shown: Iterable[Pod] | None = None) -> tuple[Process, ...]:
    """Return the training processes of all pods, pod by pod, or only of those in `shown`."""
    of_command = cache(_trains)
    count = sum(len(g.names) for g in pods.groups if of_command(g.pod(0).command))
    training = [pod for pod in shown or pods if of_command(pod.command)]
    return tuple(process for pod in training for process in _of_pod(pod, count))


def _trains(command: tuple[str, ...]) -> bool:
    """Whether a command is not one of the entrypoint's tools, whose names contain no variables."""
    return commands.parse(command).launcher != "tool"


def _of_pod(pod: Pod, pods: int) -> tuple[Process, ...]:
    """Return the processes of a pod, each with the rank that it will read."""
    if pod.agent:
        return tuple(
            _process(pod, {variable.name: variable.value for variable in variables}, pod.index)
            for variables in pod.agent
        )
    command = commands.parse(pod.argv)
    if command.launcher == "none":
        return (_process(pod, dict(pod.env), None),)
    return _launched(pod, command, pods)


def _process(pod: Pod, env: Mapping[str, str], node_rank: int | None) -> Process:
    """Return the process of a pod that reads its ranks from its env and starts no others."""
    return Process(
        pod=pod.name,
        local_rank=_number(env.get("LOCAL_RANK")) or 0,
        rank=_number(env.get("RANK")),
        world_size=_number(env.get("WORLD_SIZE")),
        node_rank=node_rank,
    )


def _launched(pod: Pod, command: Command, pods: int) -> tuple[Process, ...]:
    """Return the processes that a launcher starts in a pod."""
    group = _GROUPS.get(command.launcher, _group_of_torchrun)(pod, command, pods)
    if command.launcher == "ray":
        return _driver(pod, group)
    return tuple(
        Process(
            pod=pod.name,
            local_rank=local,
            rank=None if group.node_rank is None else group.node_rank * group.procs + local,
            world_size=group.nodes * group.procs,
            node_rank=group.node_rank,
        )
        for local in range(group.procs)
    )


def _driver(pod: Pod, group: _Group) -> tuple[Process, ...]:
    """Return the one process of a program on node 0; Ray's own processes have no ranks."""
    alone = Process(pod=pod.name, local_rank=0, rank=None, world_size=None, node_rank=0)
    return () if group.node_rank else (alone,)


@dataclass(frozen=True, slots=True)
class _Group:
    """How many nodes and processes a launcher starts, and the rank of this node."""

    nodes: int
    procs: int
    node_rank: int | None


def _group_of_torchrun(pod: Pod, command: Command, pods: int) -> _Group:
    """Return the group set by the options and variables that torchrun, or our entrypoint, reads."""
    own, env = command.launcher in ("trainwright", "ray"), dict(pod.env)

    def setting(name: str) -> str:
        return command.options.get(name) or env.get(f"PET_{name.upper().replace('-', '_')}", "")

    # torchrun on its own knows one node only; our entrypoint counts ranks over all pods.
    nodes = setting("nnodes") or (env.get("TRAINWRIGHT_NNODES") or str(pods) if own else "1")
    written = setting("nproc-per-node")
    # Without the option torchrun starts one process, whatever the node has.
    procs = _number(written) or (_accelerators(pod) if written or own else 0) or 1
    node_rank: int | None = None
    sizes = node_range(nodes)
    is_fixed = sizes is not None and sizes[0] == sizes[1]
    count = sizes[1] if sizes and is_fixed else pods  # all nodes of a range that are there
    if is_fixed and setting("rdzv-backend") in _STATIC:
        node_rank = 0 if count == 1 else _node_rank(setting("node-rank"), env, own=own)
    return _Group(count, procs, node_rank)


def _group_of_accelerate(pod: Pod, command: Command, _pods: int) -> _Group:
    """Return the group set by the options of `accelerate launch`; its config file is not read."""
    nodes = _number(command.options.get("num-machines")) or 1
    world = _number(command.options.get("num-processes")) or nodes * (_accelerators(pod) or 1)
    node_rank: int | None = None
    if command.options.get("rdzv-backend", "") in _STATIC:
        node_rank = 0 if nodes == 1 else _number(command.options.get("machine-rank"))
    return _Group(nodes, max(1, world // nodes), node_rank)


def _group_of_deepspeed(pod: Pod, command: Command, pods: int) -> _Group:
    """Return the group set by DeepSpeed's options; plain `deepspeed` knows of one node only."""
    rank = _number(command.options.get("node-rank"))
    info = commands.read_world_info(command.options.get("world-info", ""))
    if info:
        rank = rank or 0
        procs = list(info.values())[rank] if rank < len(info) else []
        return _Group(len(info), max(1, len(procs)), rank)
    options = command.options
    count = options.get("num-gpus") or options.get("num-accelerators")
    nodes = _number(options.get("num-nodes")) or (pods if "hostfile" in options else 1)
    return _Group(nodes, _number(count) or _accelerators(pod) or 1, rank if nodes > 1 else 0)


_GROUPS: Mapping[str, Callable[[Pod, Command, int], _Group]] = {
    "accelerate": _group_of_accelerate,
    "deepspeed": _group_of_deepspeed,
}


def _node_rank(written: str, env: Mapping[str, str], *, own: bool) -> int | None:
    """Return the node rank; our entrypoint also reads what operators unaware of torchrun set."""
    others = (env.get("RANK"), env.get("JOB_COMPLETION_INDEX")) if own else ()
    return next((n for n in map(_number, (written, *others)) if n is not None), None)


_MOST_DIGITS = 6  # more processes than that are a mistake, and not to be counted out


def _number(text: str | None) -> int | None:
    return digits(text) if text and len(text) <= _MOST_DIGITS else None


def _accelerators(pod: Pod) -> int:
    """Return how many accelerators `auto` counts on the node: those of the pod's limits."""
    limits = pod.resources.get("limits", {})
    return sum(_number(n) or 0 for name, n in limits.items() if name.endswith("gpu"))
