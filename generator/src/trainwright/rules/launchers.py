"""Launchers whose command lines have to name the other nodes, as no operator sets them."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import TRAINING
from trainwright.pods.command import read_world_info
from trainwright.pods.launching import alone, options
from trainwright.pods.template import Container
from trainwright.rule_model.rule import defined_in, warning
from trainwright.rule_model.subject import Hit, Subject

_ELSEWHERE = ("hostfile", "config-file")  # files that can say how many nodes there are


def _master(words: str) -> str:
    return (
        "kind: Job\nspec: {parallelism: 2, template: {spec: {containers: "
        f"[{{command: [{words}]}}]}}}}}}"
    )


@warning(
    id="TW745",
    summary="Launchers for which no operator sets the number of pods, as accelerate and DeepSpeed, "
    "are given it.",
    effect="Every pod trains alone, waits for nodes that never come, or starts another number of "
    "processes than the others expect.",
    remedy="Set launcher: accelerate or deepspeed, which gets it from the job; in a command of "
    "your own pass --num_machines=${{ nodes }} and --num_processes=${{ world.size }}.",
    by_hand="Pass --num_machines, --machine_rank, --main_process_ip and --num_processes to "
    "accelerate launch; to DeepSpeed --no_ssh, --node_rank, --master_addr and a file of hosts.",
    kinds=TRAINING,
    spec=Pointer("/entrypoint"),
    source="https://huggingface.co/docs/accelerate/basic_tutorials/launch#multi-node-training",
    passes=_master("accelerate, launch, --num_machines=2, train.py"),
    fails=_master("accelerate, launch, train.py"),
)
def launcher_nodes_mismatch(subject: Subject) -> Iterator[Hit]:
    started = [
        (template.replicas, container, launcher)
        for template in subject.templates
        for container in template.trains
        if (launcher := alone(container))
    ]
    pods = sum(replicas for replicas, _, _ in started)
    for _, container, launcher in started:
        message = _mismatch(container, launcher, pods)
        if message:
            yield Hit(container.pointer, message)


def _mismatch(container: Container, launcher: str, pods: int) -> str:
    given = options(container)
    known = read_world_info(given.get("world-info", ""))
    nodes = str(len(known)) if known else given.get("nnodes", "")
    world = given.get("num-processes", "")
    if not nodes:
        complete = pods < 2 or any(name in given for name in _ELSEWHERE)
        return (
            ""
            if complete
            else f"{pods} pods start {launcher}, and none has the addresses of the others"
        )
    if not nodes.isdigit():
        return ""
    if int(nodes) != pods and "hostfile" not in given:
        return f"{launcher} expects {nodes} nodes, but there are {pods} pods"
    if world.isdigit() and int(nodes) and int(world) % int(nodes):
        return f"{world} processes cannot be the same number on each of {nodes} nodes"
    return ""


RULES = defined_in(globals())
