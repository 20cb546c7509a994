"""Launchers that wait for more processes than the one imported container starts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.datatypes import quantity
from trainwright.datatypes.data import is_accelerator
from trainwright.importing.equivalence.form import NormalForm, Pod
from trainwright.importing.source import Source
from trainwright.kinds.reading import Loss, NotImported


def missing_nodes(source: Source, run: NormalForm) -> Iterator[NotImported]:
    """Yield the loss of the nodes that are started elsewhere, by other command lines or objects.

    A line of `docker run … torchrun --nnodes=2 --node_rank=0` is one node of two: alone it waits
    for the other until its rendezvous times out. A program without a launcher may itself start as
    many processes as it has accelerators.
    """
    if run.nodes != 1 or run.elastic:
        return
    pod, processes = run.pods[0], run.pods[0].processes
    started = len(processes)
    expected = max((process.world_size or 0 for process in processes), default=0)
    nodes = _nodes_of_old_launcher(source)
    if nodes > 1 or (
        started < expected and not (pod.program.launcher == "none" and _fit(pod, expected))
    ):
        expected = max(expected, nodes)
        why = (
            f"its launcher waits for {expected} processes, and what is imported starts {started}: "
            "write nodes, procsPerNode and launcher in the spec, and leave the number of nodes, "
            "the rank of the node and the address of the first to the target"
        )
        yield NotImported("world size", source.place, str(expected), why, Loss.CANNOT_RUN)


def _nodes_of_old_launcher(source: Source) -> int:
    """Return the nodes that torch.distributed.launch waits for; 0 for any other launcher."""
    words = " ".join(source.pod().command)
    nodes = _NNODES.search(words) if "torch.distributed.launch" in words else None
    return int(nodes[1]) if nodes else 0


_NNODES = re.compile(r"--nnodes[= ]+[\"']?(\d+)(?=\s|[\"']|$)")


def _fit(pod: Pod, processes: int) -> bool:
    """Whether a pod has an accelerator for each of the processes."""
    limits = pod.resources.get("limits", {}).items()
    return processes <= sum(quantity.count(n) or 0 for name, n in limits if is_accelerator(name))
