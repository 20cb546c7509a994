"""Placement, options and devices, together: how many processes this node starts, and as whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainwright_runtime.failures.errors import EnvironmentMistake, UsageError
from trainwright_runtime.launch.launchers import Placement
from trainwright_runtime.launch.options import Nodes, Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Facts about the machine, as functions that are called only if needed: they can be slow."""

    gpus: Callable[[], int]
    has_gpu_driver: Callable[[], bool]
    cores: Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The processes of this node: decided before any of them is started."""

    placement: Placement
    nodes: Nodes
    nproc: int
    backend: str
    threads: int  # for OMP_NUM_THREADS

    @property
    def world_size(self) -> int:
        """Processes of the whole job; the maximum if it is elastic."""
        return self.placement.world_size or self.nodes.high * self.nproc

    def ranks(self) -> range:
        """Return the global ranks of this node's processes, if the launcher fixes them."""
        first = (self.placement.node_rank or 0) * self.nproc
        return range(first, first + self.nproc)

    def __str__(self) -> str:
        placement = self.placement
        master = f"{placement.master_addr}:{placement.master_port or 'a free port'}"
        if placement.per_process:
            who = f"rank {placement.node_rank} of {placement.world_size}"
        elif placement.elastic:
            host = " (this node)" if placement.hosts else ""
            many = f"{self.nodes} nodes of {_processes(self.nproc)}"
            return f"{placement.launcher}: {many}, meeting at {master}{host}, {self.backend}"
        else:
            ranks = self.ranks()
            span = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]}-{ranks[-1]}"
            who = f"node {placement.node_rank} of {self.nodes.high}, {span} of {self.world_size}"
        return f"{placement.launcher}: {who}, master {master}, {self.backend}"


def resolve(placement: Placement, options: Options, machine: Machine) -> Layout:
    """Return the layout. Raise EnvironmentMistake or UsageError if ranks could never meet."""
    nproc = 1 if placement.per_process else _nproc(placement, options, machine)
    return Layout(
        placement=placement,
        nodes=_nodes(placement, options, nproc),
        nproc=nproc,
        backend=_backend(options, machine),
        threads=max(1, machine.cores() // nproc),
    )


def _nproc(placement: Placement, options: Options, machine: Machine) -> int:
    """Return the processes of this node. Raise an error if options and launcher contradict."""
    wanted, given = options.nproc_per_node, placement.procs
    if options.ray:  # Ray starts the processes, and the one program has no rank among others
        return wanted if isinstance(wanted, int) else 1
    if isinstance(given, int):
        if isinstance(wanted, int) and wanted != given:
            raise EnvironmentMistake(
                "PET_NPROC_PER_NODE", str(given), f"{wanted}, as --nproc-per-node sets"
            )
        return given
    if isinstance(wanted, int):
        return wanted
    if wanted == "cpu":
        return machine.cores()
    gpus = machine.gpus()
    if wanted == "gpu" and not gpus:
        raise UsageError("--nproc-per-node=gpu, but no GPU is visible: give the pod GPUs, or set 1")
    return max(1, gpus)


def _nodes(placement: Placement, options: Options, nproc: int) -> Nodes:
    """Return the nodes of the job. Raise an error if options and launcher contradict."""
    wanted = options.nnodes
    if placement.per_process:
        return wanted or Nodes(low=1, high=1)
    given = placement.nodes or _from_world_size(placement, nproc)
    if wanted is None or wanted == given:
        return given
    if given.high == 1 and placement.master_port == 0:
        expected = f"the name of node 0: --nnodes={wanted}, and no launcher was recognised"
        raise EnvironmentMistake("MASTER_ADDR", None, expected)
    if wanted.high != given.high or placement.elastic:
        raise UsageError(f"--nnodes={wanted}, but {placement.launcher} sets {given}")
    if options.recovery != "live":
        raise UsageError(
            f"--nnodes={wanted}, but {placement.launcher} has {given} fixed nodes: "
            "only --recovery=live goes on with fewer"
        )
    return wanted


def _from_world_size(placement: Placement, nproc: int) -> Nodes:
    """Return the nodes by WORLD_SIZE alone, which counts processes while RANK counts nodes."""
    world = placement.world_size or 1
    nodes, rest = divmod(world, nproc)
    if rest or not nodes:
        expected = f"a multiple of the {_processes(nproc)} of each node"
        raise EnvironmentMistake("WORLD_SIZE", str(world), expected)
    if placement.node_rank is not None and placement.node_rank >= nodes:
        expected = (
            f"the rank of the node, 0 to {nodes - 1}: without LOCAL_RANK it counts nodes, "
            f"and {world} ranks are {nodes} nodes of {_processes(nproc)}"
        )
        raise EnvironmentMistake("RANK", str(placement.node_rank), expected)
    return Nodes(low=nodes, high=nodes)


def _backend(options: Options, machine: Machine) -> str:
    if options.backend == "auto":
        return "nccl" if machine.gpus() else "gloo"
    if options.backend == "nccl" and not machine.has_gpu_driver():
        raise UsageError("--backend=nccl, but no GPU is visible: give the pod GPUs, or use gloo")
    return options.backend


def _processes(count: int) -> str:
    return f"{count} process" if count == 1 else f"{count} processes"
