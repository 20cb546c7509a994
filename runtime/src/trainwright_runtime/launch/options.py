"""The command line of the entrypoint, as one frozen value."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from trainwright_runtime.failures.errors import UsageError

BACKENDS = ("auto", "nccl", "gloo")
PROCS_WORDS = ("auto", "gpu", "cpu")
RECOVERIES = ("none", "restart", "live")
REPLICAS = ("process", "node")
LOG_FORMATS = ("text", "json")
DEFAULT_RESTARTS = 10

# Checks before training, some with a minimum. Those that are on by default take milliseconds and
# fail where training would fail later.
SIZED_CHECKS = ("shm", "memory", "disk")
CHECKS = (*SIZED_CHECKS, "ports", "names", "checkpoint", "collective")
DEFAULT_CHECKS: Mapping[str, float | None] = {"shm": None, "disk": None, "checkpoint": None}

_SUFFIXES = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip

_SIZE = re.compile(r"(\d+(?:\.\d+)?)(|k|[MGTPE]|[KMGTPE]i)")

_EPILOG = "After --: script.py [arguments], or -m module [arguments]."


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """How many nodes take part: a number when both are equal, else an elastic range."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.high) if self.low == self.high else f"{self.low}:{self.high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to train with: a script or a module, and its arguments."""

    script: str  # empty when it is a module
    module: str
    arguments: tuple[str, ...]

    @property
    def argv(self) -> tuple[str, ...]:
        """The program's command line, as written after `--`."""
        start = (self.script,) if self.script else ("-m", self.module)
        return (*start, *self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The entrypoint's options from the manifest; None leaves the choice to the launcher."""

    backend: str
    nproc_per_node: int | str  # a number, or one of PROCS_WORDS
    nnodes: Nodes | None
    grace_period: float  # seconds
    recovery: str
    replica: str
    max_restarts: int | None
    rendezvous_timeout: float  # seconds
    coordinator_port: int | None
    log_format: str
    ray: bool
    num_cpus: int | None
    object_store_memory: float | None  # bytes
    preflight: Mapping[str, float | None]  # checks and their minimum, in order
    program: Program


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports mistakes in one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see --help)")


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Options:
    """Return the options in the arguments after the program's name; `environ` gives defaults.

    Raise UsageError for a mistake.
    """
    own, program = _split(argv)
    parsed = argument_parser(environ).parse_args(own)
    if parsed.recovery == "none" and parsed.max_restarts:
        raise UsageError("--max-restarts restarts nothing with --recovery=none, choose restart")
    if parsed.replica == "node" and parsed.recovery != "live":
        raise UsageError(
            "--replica=node is for --recovery=live, where replicas come and go; with "
            f"--recovery={parsed.recovery} a mesh over all ranks has replicas of its own"
        )
    if parsed.ray and parsed.recovery != "none":
        raise UsageError(
            f"--recovery={parsed.recovery} is of torch's ranks: --ray ends all nodes where one is "
            "lost, and the operator starts them again"
        )
    if not parsed.ray and (parsed.num_cpus or parsed.object_store_memory):
        raise UsageError("--num-cpus and --object-store-memory are Ray's: add --ray")
    if parsed.log_format not in LOG_FORMATS:  # argparse does not check defaults
        raise UsageError(f"TRAINWRIGHT_LOG_FORMAT is {parsed.log_format!r}, expected text or json")
    return Options(**vars(parsed), program=_program(program))


def _split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return our arguments and, from after the first `--`, the script's.
    Raise UsageError if there is neither `--` nor --help."""
    if "--" in argv:
        at = list(argv).index("--")
        return argv[:at], argv[at + 1 :]
    if not set(argv) & {"-h", "--help"}:
        raise UsageError("nothing to run: expected [options] -- script.py, or -- -m module")
    return argv, ()


def _program(argv: Sequence[str]) -> Program:
    """Return the program of the arguments after `--`. Raise UsageError if there is none."""
    if argv[:1] == ["-m"]:
        if len(argv) < 2 or not argv[1]:
            raise UsageError("-m needs the name of a module: -- -m module [arguments]")
        return Program(script="", module=argv[1], arguments=tuple(argv[2:]))
    if not argv or not argv[0]:
        raise UsageError("nothing to run after --: expected script.py, or -m module")
    if argv[0].startswith("-"):
        raise UsageError(f"{argv[0]} after -- is not a script: write options before the --")
    return Program(script=argv[0], module="", arguments=tuple(argv[1:]))


def argument_parser(environ: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser of the arguments before `--`; `environ` gives some defaults."""
    parser = _Parser(
        prog="trainwright_runtime",
        usage="python -m trainwright_runtime [options] -- script.py|-m module [arguments]",
        description="Start the training processes of one node under whatever launched this.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    add = parser.add_argument
    # fmt: off
    add("--backend", choices=BACKENDS, default="auto",
        help="of torch.distributed; auto is nccl where GPUs are visible, gloo elsewhere")
    add("--nproc-per-node", type=_procs, default="auto", metavar="N|auto|gpu|cpu",
        help="processes on this node; auto is one for each GPU, or one")
    add("--nnodes", type=_nodes, default=None, metavar="N|MIN:MAX",
        help="nodes of the job; otherwise those of the launcher's environment")
    add("--grace-period", type=_seconds, default=30.0, metavar="SECONDS",
        help="between SIGTERM and SIGKILL for the training processes (%(default)g)")
    add("--recovery", choices=RECOVERIES, default="none",
        help="none ends with the first failure; restart starts all ranks again; live replaces "
        "only the lost one (scripts on trainwright_runtime.elastic)")
    add("--replica", choices=REPLICAS, default="process",
        help="what --recovery=live replaces: a process, or a node, whose processes shard one model "
        "by FSDP2 (%(default)s)")
    add("--max-restarts", type=_count, default=None, metavar="N",
        help=f"before giving up ({DEFAULT_RESTARTS}, or what the launcher sets)")
    add("--rendezvous-timeout", type=_seconds, default=600.0, metavar="SECONDS",
        help="longest wait for the master's name and port (%(default)g)")
    add("--coordinator-port", type=_port, metavar="PORT",
        default=environ.get("TRAINWRIGHT_COORDINATOR_PORT"),
        help="of the coordinator of --recovery=live (TRAINWRIGHT_COORDINATOR_PORT, or 29511; a "
        "free one on a single node)")
    add("--ray", action="store_true",
        help="node 0 is the head of a Ray cluster and runs the program, the others join it")
    add("--num-cpus", type=_positive, default=None, metavar="N",
        help="of each node, for Ray (those that this process may use)")
    add("--object-store-memory", type=_size, default=None, metavar="SIZE",
        help="of Ray on each node (3/10 of the container's memory, or what /dev/shm has)")
    add("--preflight", type=_checks, default=",".join(DEFAULT_CHECKS), metavar="NAME[=MINIMUM],...",
        help=f"checks of this node before training: {', '.join(CHECKS)}, or none; "
        "shm=8Gi is a minimum, collective=3 how many times slower than its peers a node may be "
        "(%(default)s)")
    add("--log-format", choices=LOG_FORMATS, default=environ.get("TRAINWRIGHT_LOG_FORMAT", "text"),
        help="of the log (TRAINWRIGHT_LOG_FORMAT, or text)")
    # fmt: on
    return parser


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up")
    return int(text)


def _positive(text: str) -> int:
    number = _count(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return number


def _checks(text: str) -> Mapping[str, float | None]:
    """Return the checks of --preflight, each with its minimum or None, in their usual order."""
    if text in ("none", ""):
        return {}
    minimums: dict[str, float | None] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if name not in CHECKS:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(CHECKS)}")
        minimums[name] = _minimum(name, value) if equals else None
    return {name: minimums[name] for name in CHECKS if name in minimums}


def _size(text: str) -> float:
    size = _SIZE.fullmatch(text)
    if not size:
        raise argparse.ArgumentTypeError(f"{text}: expected a size such as 8Gi")
    return float(size[1]) * _SUFFIXES[size[2]]


def _minimum(name: str, value: str) -> float:
    """Return the minimum of a check, in bytes, or as a factor for `collective`."""
    if name in SIZED_CHECKS:
        try:
            return _size(value)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{name}={error}") from None
    if name != "collective":
        raise argparse.ArgumentTypeError(f"{name}={value}: {name} has no minimum")
    if not _SIZE.fullmatch(value) or not value.replace(".", "", 1).isdecimal() or float(value) <= 1:
        raise argparse.ArgumentTypeError(f"collective={value}: expected a number above 1")
    return float(value)


def _procs(text: str) -> int | str:
    return text if text in PROCS_WORDS else _positive(text)


def _nodes(text: str) -> Nodes:
    low, colon, high = text.partition(":")
    nodes = Nodes(low=_positive(low), high=_positive(high if colon else low))
    if nodes.low > nodes.high:
        raise argparse.ArgumentTypeError(f"{text!r}: the minimum is above the maximum")
    return nodes


def _seconds(text: str) -> float:
    """Return an option's seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 up")
    return seconds


def _port(text: str) -> int:
    port = _positive(text)
    if port > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (1 to 65535)")
    return port
