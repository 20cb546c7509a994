"""Which ranks the processes of pods will have, from what the launcher in them will read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainwright.pods import command as commands
from trainwright.pods.command import Command
from trainwright.pods.pod import Pod

_STATIC = ("", "static")  # rendezvous backends under which a node knows its rank beforehand


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One training process as it is foreseen.

    None stands for what nobody knows beforehand: ranks that a rendezvous hands out, and anything
    of a process that is told neither rank nor world size.
    """

    pod: str
    local_rank: int
    rank: int | None
    world_size: int | None
    node_rank: int | None


def predict(pods: tuple[Pod, ...]) -> tuple[Process, ...]:
    """The processes of all pods, pod by pod."""
    training = [pod for pod in pods if commands.parse(pod.argv).launcher != "tool"]
    return tuple(process for pod in training for process in _of_pod(pod, len(training)))


def _of_pod(pod: Pod, pods: int) -> tuple[Process, ...]:
    if pod.agent:
        return tuple(
            _told(pod, {variable.name: variable.value for variable in variables}, pod.index)
            for variables in pod.agent
        )
    command = commands.parse(pod.argv)
    if command.launcher == "none":
        return (_told(pod, dict(pod.env), None),)
    return _launched(pod, command, pods)


def _told(pod: Pod, env: Mapping[str, str], node_rank: int | None) -> Process:
    """A process that reads its place from its env and starts no others."""
    return Process(
        pod=pod.name,
        local_rank=_number(env.get("LOCAL_RANK")) or 0,
        rank=_number(env.get("RANK")),
        world_size=_number(env.get("WORLD_SIZE")),
        node_rank=node_rank,
    )


def _launched(pod: Pod, command: Command, pods: int) -> tuple[Process, ...]:
    """The processes that torchrun, or our own entrypoint, starts in a pod."""
    own, env = command.launcher == "trainwright", dict(pod.env)

    def setting(name: str) -> str:
        return command.options.get(name) or env.get(f"PET_{name.upper().replace('-', '_')}", "")

    # torchrun on its own knows one node only; our entrypoint counts ranks over all pods.
    nodes = setting("nnodes") or (env.get("TRAINWRIGHT_NNODES") or str(pods) if own else "1")
    procs = _number(setting("nproc-per-node")) or _accelerators(pod) or 1
    node_rank: int | None = None
    count = _number(nodes) or pods  # "1:4" is a range: whoever is there takes part
    if nodes.isdigit() and setting("rdzv-backend") in _STATIC:
        node_rank = 0 if count == 1 else _node_rank(setting("node-rank"), env, own=own)
    return tuple(
        Process(
            pod=pod.name,
            local_rank=local,
            rank=None if node_rank is None else node_rank * procs + local,
            world_size=count * procs,
            node_rank=node_rank,
        )
        for local in range(procs)
    )


def _node_rank(written: str, env: Mapping[str, str], *, own: bool) -> int | None:
    """Our entrypoint also reads what operators set that know nothing of torchrun."""
    others = (env.get("RANK"), env.get("JOB_COMPLETION_INDEX")) if own else ()
    return next((n for n in map(_number, (written, *others)) if n is not None), None)


_MOST_DIGITS = 6  # more processes than that are a mistake, and not to be counted out


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and len(text) <= _MOST_DIGITS else None


def _accelerators(pod: Pod) -> int:
    """What `auto` counts on the node: the accelerators that the pod has for itself."""
    limits = pod.resources.get("limits", {})
    return sum(int(n) for name, n in limits.items() if name.endswith("gpu") and n.isdigit())
