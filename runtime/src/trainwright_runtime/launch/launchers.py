"""Who started this container, read from its environment: one `Launcher` each, first match wins.

What each operator sets was read in its source: kubeflow/trainer v1.9.4 (pkg/controller.v1/pytorch)
and v2.3.0 (pkg/runtime/framework/plugins/torch), torch.distributed.elastic, lattice-io/lattice.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from trainwright_runtime.coordination.addresses import is_ip
from trainwright_runtime.failures.errors import EnvironmentMistake
from trainwright_runtime.launch.options import PROCS_WORDS, Nodes

Environ = Mapping[str, str]

FIVE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_LATTICE = {"LATTICE_NNODES", "LATTICE_RDZV_ID", "LATTICE_RUN_ID"}
DEFAULT_PORT = 29500  # torch's, and Trainer v2's


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where this container stands among the nodes of its job."""

    launcher: str = ""  # as it is called in the log; recognise() fills it in
    node: str  # this node's name, unique in the job
    nodes: Nodes | None  # None: WORLD_SIZE divided by the processes a node
    node_rank: int | None  # None: the rendezvous decides (elastic)
    master_addr: str  # where ranks meet; for elastic ones, where nodes meet
    master_port: int  # 0: a free port on this machine
    hosts: bool  # whether that address is this node
    procs: int | str | None = None  # processes a node: a number, or a word for "see the devices"
    world_size: int | None = None  # processes, where nodes are not known
    per_process: bool = False  # the launcher starts each process and has set its ranks
    max_restarts: int | None = None
    rendezvous: Mapping[str, str] | None = None  # the launcher's settings for torch's rendezvous
    names: tuple[str, ...] = ()  # of the first nodes, where names have their numbers

    @property
    def number(self) -> int | None:
        """The number of this node, or None if it cannot be known before nodes meet."""
        if self.node_rank is not None:
            return self.node_rank
        labels = [_label(name) for name in self.names]
        return labels.index(_label(self.node)) if _label(self.node) in labels else None

    @property
    def elastic(self) -> bool:
        """Whether ranks come from a rendezvous, again after every change of nodes."""
        return self.node_rank is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """One way in which the containers of a training run are started."""

    name: str
    sets: str  # what it gives, for the documentation
    recognises: Callable[[Environ], bool]
    placement: Callable[[Environ], Placement]


def recognise(environ: Environ) -> Placement:
    """Return this container's placement. Raise EnvironmentMistake if the variables conflict."""
    for launcher in LAUNCHERS:
        if launcher.recognises(environ):
            return replace(launcher.placement(environ), launcher=launcher.name)
    raise AssertionError("the last launcher recognises everything")


# --- reading variables ---------------------------------------------------------------------------


def _text(environ: Environ, name: str, expected: str) -> str:
    value = environ.get(name)
    if not value:
        raise EnvironmentMistake(name, value, expected)
    return value


def _number(environ: Environ, name: str, *, low: int = 0, below: int | None = None) -> int:
    """Return a variable's number. Raise EnvironmentMistake if it is not one in this range."""
    expected = f"a number from {low}" + (" up" if below is None else f" to {below - 1}")
    value = _text(environ, name, expected)
    if not (value.isascii() and value.isdecimal()):
        raise EnvironmentMistake(name, value, expected)
    if int(value) < low or (below is not None and int(value) >= below):
        raise EnvironmentMistake(name, value, expected)
    return int(value)


def _port(environ: Environ, name: str) -> int:
    return _number(environ, name, low=1, below=65536)


def _address(environ: Environ, name: str) -> str:
    """Return a host name or IP address.

    Raise EnvironmentMistake for host:port, as ElasticDL writes it: torch cannot resolve that.
    """
    value = _text(environ, name, "the name of node 0")
    if ":" in value and not is_ip(value):
        port = name.replace("ADDR", "PORT")
        raise EnvironmentMistake(name, value, f"a name without a port: the port goes into {port}")
    return value


def _nodes(environ: Environ, name: str) -> Nodes:
    """Return the nodes that a variable sets. Raise EnvironmentMistake for anything else."""
    expected = "a number of nodes, or MIN:MAX"
    value = _text(environ, name, expected)
    low, colon, high = value.partition(":")
    high = high if colon else low
    if not (low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high)):
        raise EnvironmentMistake(name, value, expected)
    return Nodes(low=int(low), high=int(high))


def _fixed_nodes(environ: Environ, name: str) -> int:
    nodes = _nodes(environ, name)
    if nodes.low != nodes.high:
        raise EnvironmentMistake(name, str(nodes), "one number: PET_RDZV_ENDPOINT is not set")
    return nodes.high


def _procs(environ: Environ) -> int | str | None:
    value = environ.get("PET_NPROC_PER_NODE")
    if value is None or value in PROCS_WORDS:
        return value
    return _number(environ, "PET_NPROC_PER_NODE", low=1)


def _node_name(environ: Environ) -> str:
    return environ.get("HOSTNAME") or socket.gethostname()


def _numbered(first: str, nodes: int) -> tuple[str, ...]:
    """Return the names of all nodes, by the name of node 0: `job-worker-0`, `job-worker-1`, …

    A domain stays, as behind a headless Service: `job-node-0-0.job`, `job-node-0-1.job`. Return ()
    if the name has no number.
    """
    label, dot, domain = first.partition(".")
    if is_ip(first) or not label.endswith("-0"):
        return ()
    return tuple(f"{label[:-1]}{number}{dot}{domain}" for number in range(nodes))


# --- launchers -----------------------------------------------------------------------------------


def _by_rank(environ: Environ, rank: int, nodes: int | None, prefix: str = "") -> Placement:
    """Return the placement of a launcher that gives a rank, and the address and port of rank 0."""
    return Placement(
        node=_node_name(environ),
        nodes=None if nodes is None else Nodes(low=nodes, high=nodes),
        node_rank=rank,
        master_addr=_address(environ, f"{prefix}MASTER_ADDR"),
        master_port=_port(environ, f"{prefix}MASTER_PORT"),
        hosts=rank == 0,
    )


def _of_process(environ: Environ) -> Placement:
    for name in FIVE:
        _text(environ, name, f"a value, as {', '.join(FIVE)} are set together for each process")
    world = _number(environ, "WORLD_SIZE", low=1)
    rank = _number(environ, "RANK", below=world)
    _number(environ, "LOCAL_RANK", below=world)
    return replace(_by_rank(environ, rank, None), world_size=world, per_process=True)


def _of_elastic_policy(environ: Environ) -> Placement:
    """Return the placement of a pod whose nodes meet at a rendezvous."""
    endpoint = environ["PET_RDZV_ENDPOINT"]
    if "MASTER_ADDR" in environ:
        raise EnvironmentMistake(
            "PET_RDZV_ENDPOINT",
            endpoint,
            f"nothing but MASTER_ADDR={environ['MASTER_ADDR']}: a Master with elasticPolicy is "
            "not counted among the nodes that meet; remove one of the two",
        )
    backend = environ.get("PET_RDZV_BACKEND", "c10d")
    if backend != "c10d":
        raise EnvironmentMistake("PET_RDZV_BACKEND", backend, "c10d")
    host, colon, port = endpoint.rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 65536):
        raise EnvironmentMistake("PET_RDZV_ENDPOINT", endpoint, "host:port")
    node, nodes = _node_name(environ), _nodes(environ, "PET_NNODES")
    restarts = "PET_MAX_RESTARTS"
    return Placement(
        node=node,
        nodes=nodes,
        node_rank=None,
        master_addr=host,
        master_port=int(port),
        hosts=nodes.high == 1 or is_host(host, node),
        procs=_procs(environ),
        max_restarts=_number(environ, restarts) if restarts in environ else None,
        rendezvous=_settings(environ),
        names=_numbered(host, nodes.high),
    )


def is_host(host: str, node: str) -> bool:
    """Whether this node is the rendezvous's host, from names, never from look-ups.

    torch compares what the names resolve to, and `<job>-worker-0` against its fully qualified
    form does not match: https://github.com/pytorch/pytorch/issues/73380
    """
    return node == host or (not is_ip(host) and _label(node) == _label(host))


def _label(name: str) -> str:
    return name.partition(".")[0]


def _settings(environ: Environ) -> dict[str, str]:
    """Return PET_RDZV_CONF as torchrun reads it: key=value, separated by commas."""
    settings = {}
    for pair in filter(None, environ.get("PET_RDZV_CONF", "").split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            expected = "key=value pairs separated by commas"
            raise EnvironmentMistake("PET_RDZV_CONF", environ["PET_RDZV_CONF"], expected)
        settings[key.strip()] = value.strip()
    return settings


def _of_master(environ: Environ) -> Placement:
    """Return the placement in a PyTorchJob with a Master, whose WORLD_SIZE counts processes."""
    nodes, procs = _fixed_nodes(environ, "PET_NNODES"), _procs(environ)
    rank = _number(environ, "RANK", below=nodes)  # of the pod: the operator never multiplies it
    # The operator multiplies only if nprocPerNode is a number.
    world = nodes * (procs if isinstance(procs, int) else 1)
    if _number(environ, "WORLD_SIZE", low=1) != world:
        raise EnvironmentMistake(
            "WORLD_SIZE",
            environ["WORLD_SIZE"],
            f"{world}: PET_NNODES={nodes} with PET_NPROC_PER_NODE={procs or 1}",
        )
    return replace(_by_rank(environ, rank, nodes), procs=procs)


def _of_trainer(environ: Environ) -> Placement:
    """Return the placement in a TrainJob of Trainer v2."""
    nodes = _fixed_nodes(environ, "PET_NNODES")
    if nodes == 1 and "PET_MASTER_ADDR" not in environ:
        return replace(_of_single_node(environ), procs=_procs(environ))
    if "PET_MASTER_ADDR" not in environ:
        raise EnvironmentMistake(
            "MASTER_ADDR",
            environ.get("MASTER_ADDR"),
            f"the name of node 0 of {nodes}: a PyTorchJob without a Master needs elasticPolicy",
        )
    rank = _number(environ, "PET_NODE_RANK", below=nodes)
    placement = _by_rank(environ, rank, nodes, "PET_")
    return replace(placement, procs=_procs(environ), names=_numbered(placement.master_addr, nodes))


def _of_indexed_job(environ: Environ) -> Placement:
    """Return the placement in a JobSet or an Indexed Job."""
    # Pods of a JobSet or a batch Job do not learn how many they are and where the first one
    # is, so the manifest does.
    nodes = _number(environ, "TRAINWRIGHT_NNODES", low=1)
    rank = _number(environ, "JOB_COMPLETION_INDEX", below=nodes)
    if nodes == 1 and "TRAINWRIGHT_MASTER_ADDR" not in environ:
        return _of_single_node(environ)
    placement = _by_rank(
        {"TRAINWRIGHT_MASTER_PORT": str(DEFAULT_PORT), **environ}, rank, nodes, "TRAINWRIGHT_"
    )
    return replace(placement, names=_numbered(placement.master_addr, nodes))


def _of_node_variables(environ: Environ) -> Placement:
    world = _number(environ, "WORLD_SIZE", low=1)
    rank = _number(environ, "RANK", below=world)
    return replace(_by_rank(environ, rank, None), world_size=world)


def _of_single_node(environ: Environ) -> Placement:
    """Return the placement of a node without others."""
    return Placement(
        node=_node_name(environ),
        nodes=Nodes(low=1, high=1),
        node_rank=0,
        master_addr="127.0.0.1",
        master_port=0,
        hosts=True,
    )


# The order matters: agents inherit the operator's variables, and Trainer v2 makes JobSets.
LAUNCHERS = (
    Launcher(
        name="torchrun",
        sets="all five variables for each process, `TORCHELASTIC_RUN_ID`",
        recognises=lambda environ: "TORCHELASTIC_RUN_ID" in environ,
        placement=_of_process,
    ),
    Launcher(
        name="Lattice agent",
        sets="all five variables for each process, `LATTICE_NNODES`, `LATTICE_RDZV_ID`",
        recognises=lambda environ: bool(_LATTICE & environ.keys()),
        placement=_of_process,
    ),
    Launcher(
        name="another launcher of processes",
        sets="all five variables for each process: accelerate, mpirun wrappers and the like",
        recognises=lambda environ: "LOCAL_RANK" in environ,
        placement=_of_process,
    ),
    Launcher(
        name="PyTorchJob with elasticPolicy",
        sets="`PET_RDZV_ENDPOINT`, `PET_NNODES=MIN:MAX`, `PET_NPROC_PER_NODE`, `PET_MAX_RESTARTS`",
        recognises=lambda environ: "PET_RDZV_ENDPOINT" in environ,
        placement=_of_elastic_policy,
    ),
    Launcher(
        name="PyTorchJob with a Master",
        sets="`RANK` of the pod, `WORLD_SIZE` of processes, `MASTER_ADDR`, `MASTER_PORT`, "
        "`PET_NNODES`, `PET_NPROC_PER_NODE`",
        recognises=lambda environ: (
            "PET_NNODES" in environ and bool({"RANK", "WORLD_SIZE", "MASTER_ADDR"} & environ.keys())
        ),
        placement=_of_master,
    ),
    Launcher(
        name="Trainer v2",
        sets="`PET_NNODES`, `PET_NODE_RANK`, `PET_NPROC_PER_NODE`, `PET_MASTER_ADDR`, "
        "`PET_MASTER_PORT`",
        recognises=lambda environ: "PET_NNODES" in environ,
        placement=_of_trainer,
    ),
    Launcher(
        name="JobSet or Indexed Job",
        sets="`JOB_COMPLETION_INDEX`; the manifest adds `TRAINWRIGHT_NNODES`, "
        "`TRAINWRIGHT_MASTER_ADDR` (node 0's name in the headless service) and "
        "`TRAINWRIGHT_MASTER_PORT` (29500)",
        recognises=lambda environ: "JOB_COMPLETION_INDEX" in environ,
        placement=_of_indexed_job,
    ),
    Launcher(
        name="variables of each node",
        sets="`RANK` of the node, `WORLD_SIZE` of processes, `MASTER_ADDR`, `MASTER_PORT`",
        recognises=lambda environ: bool({"RANK", "WORLD_SIZE", "MASTER_ADDR"} & environ.keys()),
        placement=_of_node_variables,
    ),
    Launcher(
        name="no launcher",
        sets="nothing: one node, 127.0.0.1 and a free port",
        recognises=lambda environ: True,
        placement=_of_single_node,
    ),
)
