"""Ray's part of one node: what `ray start` is given, its folder, its share of the memory.

python -m trainwright_runtime.ray.node start ...  (`ray`, which ends with the entrypoint)
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainwright_runtime.coordination.identity import Identity
from trainwright_runtime.failures import errors
from trainwright_runtime.launch import cgroup, machine
from trainwright_runtime.launch.options import Options
from trainwright_runtime.launch.parent import die_with_parent
from trainwright_runtime.launch.processes import Process, stop

_SHM = Path("/dev/shm")  # noqa: S108 - where Ray keeps its objects
_LEAST_STORE = 75 << 20  # bytes, by ray_constants.OBJECT_STORE_MINIMUM_MEMORY_BYTES
_OF_MEMORY, _OF_SHM = 0.3, 0.9  # Ray's own share, and what it leaves of /dev/shm for others
_LONGEST = 40  # characters of its folder, in which sockets have paths of at most 107
_STOPPING = 10.0  # seconds

# torch's ranks and addresses: those are of the nodes, and not of any actor or task.
_OF_NODES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

# Read before Ray is: https://docs.ray.io/en/latest/ray-security/token-auth.html
_OURS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token"}


def check(options: Options) -> None:
    """Raise UsageError if the image has no Ray, NodeUnfit if the node has no room for its objects,
    before anything waits."""
    if importlib.util.find_spec("ray") is None:
        raise errors.UsageError(
            "--ray needs ray, which this image does not have: build it on one that does"
        )
    store_size(options)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of Ray and of all that it starts; what the job itself sets, stays.

    Only processes of this run have the token: a process that reaches a port of Ray
    without it can start nothing.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if name not in _OF_NODES and not name.startswith("PET_")
    }
    token = Identity.of(os.environ).mac(b"ray").hex()
    return {**_OURS, "RAY_AUTH_TOKEN": token, **kept}


def store_size(options: Options) -> int | None:
    """Return the bytes of the object store, or None if there is no /dev/shm. They follow the
    container's memory: Ray takes the machine's where it sees no limit.
    """
    if not _SHM.is_dir():
        return None
    room = int(shutil.disk_usage(_SHM).free * _OF_SHM)
    wanted = options.object_store_memory
    memory = cgroup.memory_limit() or cgroup.memory_available() or room
    size = int(wanted if wanted is not None else min(memory * _OF_MEMORY, room))
    if size > room or size < _LEAST_STORE:
        raise errors.NodeUnfit(
            f"Ray keeps its objects in /dev/shm, which has {room >> 20} MiB for them, and "
            f"{max(size, _LEAST_STORE) >> 20} MiB are needed: set shm in the job"
        )
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One node of the cluster."""

    node: int
    name: str
    address: str  # of this node, as the others reach it
    port: int  # of the head
    head: bool
    master: str = ""  # where the others find the head

    def argv(self, options: Options, folder: str) -> list[str]:
        """Return the command of https://docs.ray.io/en/latest/cluster/cli.html#ray-start."""
        role = (
            ["--head", f"--port={self.port}", "--include-dashboard=false"]
            if self.head
            else [f"--address={self.master}:{self.port}"]
        )
        store = store_size(options)
        return [
            *(sys.executable, "-m", "trainwright_runtime.ray.node", "start", "--block"),
            *role,
            f"--node-ip-address={self.address}",
            f"--node-name={self.name}",
            f"--temp-dir={folder}",
            f"--num-cpus={options.num_cpus or machine.cores()}",
            *([] if store is None else [f"--object-store-memory={store}"]),
            # Free ports of the machine: pods on its network would share Ray's usual ones.
            *("--min-worker-port=0", "--max-worker-port=0"),
            *("--disable-usage-stats", "--log-color=false"),
        ]


class Running:
    """Ray on this node while the block runs; then no process and no file of it is left.

    `ray stop` ends every Ray of a machine, which may be other nodes' in a rehearsal.
    """

    def __init__(self, start: Callable[[str], Process], patience: float) -> None:
        self._start = start
        self._deadline = time.monotonic() + patience

    def __enter__(self) -> Running:
        self._begin()
        return self

    def __exit__(self, *_error: object) -> None:
        self._end()

    def _begin(self) -> None:
        self._folder = _folder()
        self.process = self._start(self._folder)

    def _end(self) -> None:
        stop([self.process], signal.SIGTERM, _STOPPING)
        shutil.rmtree(self._folder, ignore_errors=True)

    def begins_again(self) -> bool:
        """Start Ray again if it ended before it ran; return whether it was started.

        A raylet gives its agents 15 s, which is short for a node that is busy or pulls its image
        from afar.
        """
        ran = any(Path(self._folder).glob("session_*/logs/ray_process_exit.log"))
        if ran or time.monotonic() > self._deadline:
            return False
        self._end()
        self._begin()
        return True


def _folder() -> str:
    try:
        return tempfile.mkdtemp(prefix="ray-", dir=_short(tempfile.gettempdir()))
    except OSError as error:
        raise errors.NodeUnfit(
            f"Ray needs a folder for its sockets and logs: {error}: mount an emptyDir at /tmp"
        ) from error


def _short(folder: str) -> str:
    return folder if len(folder) <= _LONGEST else "/tmp"  # noqa: S108 - mkdtemp makes one in it


def wait_argv(names: list[str], address: str, options: Options) -> list[str]:
    """Return a command that ends once all nodes are in the cluster."""
    timeout = f"{options.rendezvous_timeout:g}"
    return [sys.executable, "-m", "trainwright_runtime.ray.wait", address, timeout, *names]


if __name__ == "__main__":
    die_with_parent(signal.SIGTERM)
    # No option closes the port of Ray's client server, which runs programs of others: Ray opens it
    # if grpc can be imported. https://docs.ray.io/en/latest/ray-security/index.html
    sys.modules["grpc"] = None  # type: ignore[assignment]
    runpy.run_module("ray.scripts.scripts", run_name="__main__")
