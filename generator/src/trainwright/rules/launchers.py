"""Launchers whose command lines have to name the other nodes, because no operator does."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.listing import plural
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import SERVED, TRAINING
from trainwright.objects.pods.command import read_world_info
from trainwright.objects.pods.launching import alone, node_range, options, torchruns
from trainwright.objects.pods.template import Container
from trainwright.rule_model.rule import defined_in, warning
from trainwright.rule_model.subject import Hit, Subject

_ELSEWHERE = ("hostfile", "config-file")  # files that can say how many nodes there are
_ADDRESSED = frozenset({"master-addr", *_ELSEWHERE})


_REPLICAS = GroupKind("apps", "StatefulSet")
# Those of whose torchrun no rule of their kind speaks, as TW112 and TW306 do.
_TOLD = (*(kind.group_kind for kind in SERVED.values() if kind.runtimes), _REPLICAS)


# Launchers, and the options of torchrun for how many nodes there are.
_NAMED = ("accelerate", "deepspeed", "nnodes", "num_machines", "num_nodes")


_REMEDIES = {
    "torchrun": "Write --nnodes=${{ nodes }}, or leave it out: the target sets PET_NNODES.",
    "accelerate": (
        "Set launcher: accelerate with entrypoint.script in place of argv; or pass "
        "--num_machines=${{ nodes }}, --num_processes=${{ world.size }}, "
        "--machine_rank=${{ node.rank }} and "
        "--main_process_ip=${{ rank0.address }}."
    ),
    "deepspeed": (
        "Set launcher: deepspeed with entrypoint.script in place of argv; or pass --no_ssh, "
        "--node_rank=${{ node.rank }}, --master_addr=${{ rank0.address }} and a file of hosts."
    ),
}


@warning("TW745", kinds=(*TRAINING, _REPLICAS), about=_NAMED, spec=Pointer("/entrypoint"))
def launcher_nodes_mismatch(subject: Subject) -> Iterator[Hit]:
    started = [
        (template.replicas, container, launcher)
        for template in subject.templates
        for container in template.trains
        if (launcher := alone(container) or _torchrun(subject, container))
    ]
    pods = sum(replicas for replicas, _, _ in started)
    for _, container, launcher in started:
        form, message = _mismatch(container, launcher, pods)
        if message:
            remedy = _REMEDIES.get(launcher, "")
            yield Hit(container.pointer, message, remedy=remedy, form=form)


def _torchrun(subject: Subject, container: Container) -> str:
    """Return "torchrun" if its own --nnodes is known; otherwise, an operator sets it."""
    is_told = subject.kind in _TOLD and node_range(options(container).get("nnodes", ""))
    return "torchrun" if is_told and torchruns(container) else ""


def _mismatch(container: Container, launcher: str, pods: int) -> tuple[str, str]:
    """Return the form of a mismatch, and how it shows; both empty if there is none."""
    given = options(container)
    world_info = read_world_info(given.get("world-info", ""))
    nodes = str(len(world_info)) if world_info else given.get("nnodes", "")
    world = given.get("num-processes", "")
    if not nodes:
        complete = pods < 2 or any(name in given for name in _ELSEWHERE)
        message = f"{pods} pods start {launcher}, and none has the addresses of the others"
        return ("", "") if complete else ("alone", message)
    sizes = node_range(nodes)
    if sizes is None:
        return "", ""
    fewest, most = sizes
    if not fewest <= pods <= most and "hostfile" not in given:
        form = "waits" if fewest > pods else "fewer"
        started = plural(pods, "pod starts it", "pods start it")
        expected = plural(most, "node") if fewest == most else f"{nodes} nodes"
        return form, f"{launcher} expects {expected}, but {started}"
    if world.isdigit() and int(world) % most:
        return "uneven", f"{world} processes cannot be the same number on each of {nodes} nodes"
    if launcher == "accelerate" and min(pods, most) > 1 and not _ADDRESSED & given.keys():
        return "alone", f"accelerate gets no --main_process_ip, by which {pods} pods meet"
    return "", ""


RULES = defined_in(globals())
