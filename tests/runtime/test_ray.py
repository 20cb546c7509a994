"""`--ray`: three nodes on this machine, with the Ray of the package index."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from containers import TIMEOUT, Entrypoint, finish
from nemesis import can_isolate

from trainwright_runtime.failures import errors
from trainwright_runtime.launch import cgroup, options
from trainwright_runtime.launch.machine import free_port
from trainwright_runtime.ray import node

PROGRAM = """\
import os, pathlib, signal, sys, tempfile, time, ray
ray.init()

@ray.remote(num_cpus=1)
def where(folder, name):
    pathlib.Path(folder, name).touch()
    while len(os.listdir(folder)) < 2:  # at the same time as the other, so not on its node
        time.sleep(0.01)
    return ray.get_runtime_context().get_node_id()

def tasks():
    both = tempfile.mkdtemp(dir=os.getcwd())
    found = set(ray.get([where.remote(both, name) for name in "ab"]))
    return f"{len(found)} nodes of {len(ray.nodes())}"

def leave(number, frame):
    print("saved by", tasks(), flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, leave)
print("ranks", sorted({"RANK", "WORLD_SIZE", "MASTER_ADDR", "PET_NNODES"} & os.environ.keys()))
print("tasks on", tasks(), flush=True)
print("program", os.getpid(), flush=True)
while "wait" in sys.argv:
    time.sleep(1)
"""
MARK = "TRAINWRIGHT_TEST_OF_RAY"


class Nodes:
    """The nodes of one run, and what is left of them."""

    def __init__(self, entrypoint: Entrypoint, folder: str) -> None:
        self._entrypoint, self._folder = entrypoint, folder
        self._mark, self._port = uuid.uuid4().hex, free_port()

    def start(
        self,
        rank: int,
        *program: str,
        nodes: int = 3,
        patience: float = 600,
        network: Network | None = None,
    ) -> subprocess.Popen[str]:
        placed = network.of(rank, self._entrypoint) if network else {}
        return self._entrypoint.start(
            "--ray", "--backend=gloo", "--num-cpus=1", "--object-store-memory=80Mi",
            "--grace-period=60", f"--rendezvous-timeout={patience:g}", "--", *program,
            env={
                "HOSTNAME": f"grpo-node-0-{rank}", "JOB_COMPLETION_INDEX": str(rank),
                "TRAINWRIGHT_NNODES": str(nodes), "TRAINWRIGHT_MASTER_ADDR": "127.0.0.1",
                "TRAINWRIGHT_MASTER_PORT": str(self._port), "TMPDIR": self._folder,
                "TRAINWRIGHT_RUN_KEY": self._mark, MARK: self._mark,
                "RAY_prestart_worker_first_driver": "0", **placed,
            },
            changed="in_network.py" if network else None,
        )  # fmt: skip

    def processes(self) -> list[psutil.Process]:
        return [each for each in psutil.process_iter() if _marked(each, self._mark)]

    def are_gone(self) -> bool:
        """Whether no process is left, which the kernel may take a moment to tell."""
        deadline = time.monotonic() + TIMEOUT
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        return not self.processes()


class Network:
    """A network with an address for each node; what a namespace holds goes with its holder."""

    def __init__(self, nodes: int) -> None:
        self._holders = [self._hold() for _ in range(nodes + 1)]
        self._bridge = self._holders.pop()
        self._do(self._bridge, "link add br0 type bridge", "link set br0 up")
        for rank, holder in enumerate(self._holders):
            self._do(
                self._bridge,
                f"link add v{rank} type veth peer name eth0 netns {holder.pid}",
                f"link set v{rank} master br0 up",
            )
            up = "link set eth0 up", "link set lo up"
            self._do(holder, f"addr add 10.9.0.{rank + 1}/24 dev eth0", *up)

    @staticmethod
    def _hold() -> subprocess.Popen[str]:
        command = ["unshare", "--net", "sh", "-c", "echo there; exec sleep infinity"]
        holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        holder.stdout.readline()
        return holder

    def _do(self, holder: subprocess.Popen[str], *commands: str) -> None:
        for command in commands:
            inside = ["nsenter", "-t", str(holder.pid), "-n", "ip", *command.split()]
            subprocess.run(inside, check=True)

    def of(self, node: int, entrypoint: Entrypoint) -> dict[str, str]:
        entrypoint.script("in_network.py", IN_NETWORK)
        own = str(self._holders[node].pid)
        return {"TRAINWRIGHT_MASTER_ADDR": "10.9.0.1", "NETWORK_OF": own}

    def cut(self, node: int) -> None:
        self._do(self._bridge, f"link set v{node} down")

    def close(self) -> None:
        for holder in (*self._holders, self._bridge):
            holder.kill()
            holder.communicate()


IN_NETWORK = """\
import ctypes, os, runpy
namespace = os.open(f"/proc/{os.environ['NETWORK_OF']}/ns/net", os.O_RDONLY)
assert ctypes.CDLL(None).setns(namespace, 0x40000000) == 0  # CLONE_NEWNET
runpy.run_module("trainwright_runtime", run_name="__main__", alter_sys=True)
"""


def _marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@pytest.fixture
def nodes(entrypoint: Entrypoint) -> Iterator[Nodes]:
    folder = tempfile.mkdtemp(prefix="of-ray-")  # in which the paths of sockets are short
    found = Nodes(entrypoint, folder)
    yield found
    for each in found.processes():
        each.kill()
    shutil.rmtree(folder)


def _until(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    assert process.stdout is not None
    for line in process.stdout:
        if match := re.search(pattern, line):
            return match
    pytest.fail(f"no {pattern}: {finish(process).stderr}")


def _open_to_others(processes: list[psutil.Process]) -> set[str]:
    """Ports at an address other than the machine's own, with the programs that listen there."""
    found = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            for each in process.net_connections("tcp"):
                if each.status == psutil.CONN_LISTEN and not each.laddr.ip.startswith("127."):
                    found.add(" ".join((str(each.laddr.port), *process.cmdline())))
    return found


@pytest.mark.slow
def test_three_nodes_run_the_tasks_of_one_program(nodes: Nodes, entrypoint: Entrypoint) -> None:
    """Told to stop, the program still has all nodes for its last checkpoint."""
    script = entrypoint.script("train.py", PROGRAM)
    first, *others = [nodes.start(rank, script, "wait") for rank in range(3)]
    assert _until(first, r"ranks (.*)")[1] == "[]"
    assert _until(first, r"tasks on (.*)")[1] == "2 nodes of 3"
    _until(first, r"program (\d+)")
    assert not [
        each
        for each in _open_to_others(nodes.processes())
        if "dashboard.py" in each or each.startswith("10001 ")  # of Ray's client server
    ]
    others[0].send_signal(signal.SIGTERM)
    ended = [finish(each) for each in (first, *others)]
    assert "[rank 0] saved by 2 nodes of 3" in ended[0].stdout, ended[0].stderr
    assert [each.returncode for each in ended] == [0, 0, 0], [each.stderr for each in ended]
    assert nodes.are_gone()
    assert os.listdir(nodes._folder) == []  # noqa: PTH208


@pytest.mark.slow
@pytest.mark.parametrize(
    ("killed", "codes", "told"),
    [
        ("program", [137, 137, 137], "rank 0 on node 0 (grpo-node-0-0) failed: killed by SIGKILL"),
        ("node 2", [171, 171], "node 2 (grpo-node-0-2) was lost"),
        ("node 0", [171, 171], "node 0 was lost"),
    ],
)
def test_all_nodes_end_with_the_one_that_is_lost(
    killed: str, codes: list[int], told: str, nodes: Nodes, entrypoint: Entrypoint
) -> None:
    script = entrypoint.script("train.py", PROGRAM)
    started = [nodes.start(rank, script, "wait") for rank in range(3)]
    program = int(_until(started[0], r"program (\d+)")[1])
    if killed == "program":
        os.kill(program, signal.SIGKILL)
    else:
        started.pop(int(killed[-1])).kill()
    ended = [finish(each) for each in started]
    assert [each.returncode for each in ended] == codes, [each.stderr for each in ended]
    assert told in ended[0].stderr
    assert nodes.are_gone()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not can_isolate(), reason="needs networks of its own")
def test_all_nodes_end_once_the_network_parts_them(nodes: Nodes, entrypoint: Entrypoint) -> None:
    """Nothing is closed: what is sent to the others is lost, and so is what they send."""
    script = entrypoint.script("train.py", PROGRAM)
    with closing(Network(3)) as network:
        first, *others = [nodes.start(rank, script, "wait", network=network) for rank in range(3)]
        _until(first, r"program (\d+)")
        network.cut(2)
        ended = [finish(each) for each in (first, *others)]
        assert [each.returncode for each in ended] == [171, 171, 171], [e.stderr for e in ended]
        assert "node 2 (grpo-node-0-2) was lost" in ended[0].stderr
        assert "node 0 ended with 171, and this node follows" in ended[1].stderr
        assert "node 0 was lost" in ended[2].stderr
        assert nodes.are_gone()


# --- without Ray's own processes -----------------------------------------------------------------


def test_who_is_missing_is_named(nodes: Nodes, entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", PROGRAM)
    with socket.create_server(("127.0.0.1", nodes._port)) as server:
        there = nodes.start(2, script, nodes=4, patience=600)
        server.accept()[0].close()  # it is up, and looks for node 0
    first = nodes.start(0, script, nodes=4, patience=8)
    ended, other = finish(first), finish(there)
    assert (ended.returncode, other.returncode) == (170, 170), ended.stderr + other.stderr
    assert "of 4 nodes 1, 3 did not come within 8 s (--rendezvous-timeout)" in ended.stderr
    assert "node 0 gave up before all nodes were there" in other.stderr


def test_a_node_that_never_finds_node_0_ends(nodes: Nodes, entrypoint: Entrypoint) -> None:
    ended = finish(nodes.start(1, entrypoint.script("train.py", PROGRAM), patience=0.1))
    assert ended.returncode == 170
    assert "did not appear within 0.1 s (--rendezvous-timeout)" in ended.stderr


def test_a_port_that_is_taken_is_named(nodes: Nodes, entrypoint: Entrypoint) -> None:
    with socket.create_server(("127.0.0.1", nodes._port)):
        ended = finish(nodes.start(0, entrypoint.script("train.py", PROGRAM)))
    assert ended.returncode == 1  # the cause is known, and a retry meets it again
    assert f"port {nodes._port} of this node: Address already in use" in ended.stderr


@pytest.mark.parametrize(
    ("argv", "environ", "told"),
    [
        (["--ray", "--recovery=restart"], {}, "--recovery=restart is of torch's ranks"),
        (["--ray", "--recovery=live"], {}, "--recovery=live is of torch's ranks"),
        (["--num-cpus=2"], {}, "are Ray's: add --ray"),
        (["--ray", "--object-store-memory=much"], {}, "much: expected a size such as 8Gi"),
        (
            ["--ray"],
            {"LOCAL_RANK": "0", "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"},
            "another launcher of processes starts each process itself",
        ),
        (
            ["--ray"],
            {"PET_RDZV_ENDPOINT": "a:1", "PET_NNODES": "1:2"},
            "PyTorchJob with elasticPolicy lets nodes come and go",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_refused_before_anything_starts(
    argv: list[str], environ: dict[str, str], told: str, entrypoint: Entrypoint
) -> None:
    ended = entrypoint.run(*argv, "--", entrypoint.script("train.py", PROGRAM), env=environ)
    assert ended.returncode == 2, ended.stderr
    assert told in ended.stderr


def test_variables_of_nodes_are_kept_from_actors_and_the_jobs_own_stay() -> None:
    found = node.environment(
        {
            "RANK": "1",
            "PET_NNODES": "3",
            "MASTER_ADDR": "a",
            "HF_HOME": "/h",
            "RAY_AUTH_MODE": "k8s",
        }
    )
    assert found.keys() == {"HF_HOME", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_USAGE_STATS_ENABLED"}
    assert found["RAY_AUTH_MODE"] == "k8s"
    assert len(found["RAY_AUTH_TOKEN"]) == 64


@pytest.mark.parametrize(
    ("memory", "free", "asked", "size"),
    [
        (10 << 30, 8 << 30, "", 3 << 30),
        (100 << 30, 1 << 30, "", int(0.9 * (1 << 30))),
        (100 << 30, 8 << 30, "--object-store-memory=1Gi", 1 << 30),
    ],
)
def test_objects_fit_into_the_memory_of_the_container(
    memory: int, free: int, asked: str, size: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _with(memory, free, monkeypatch, tmp_path)
    found = node.store_size(options.parse(["--ray", *filter(None, [asked]), "--", "t.py"], {}))
    assert found is not None
    assert abs(found - size) <= 1


@pytest.mark.parametrize(
    ("free", "asked"), [(64 << 20, ""), (1 << 30, "--object-store-memory=1Gi")]
)
def test_a_small_shm_is_refused(
    free: int, asked: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _with(8 << 30, free, monkeypatch, tmp_path)
    wanted = options.parse(["--ray", *filter(None, [asked]), "--", "t.py"], {})
    with pytest.raises(errors.NodeUnfit, match=r"/dev/shm, which has \d+ MiB for them, and \d+"):
        node.store_size(wanted)


def _with(memory: int, free: int, monkeypatch: pytest.MonkeyPatch, shm: Path) -> None:
    """A machine with another memory, which none can be had of."""
    monkeypatch.setattr(node, "_SHM", shm)
    monkeypatch.setattr(cgroup, "memory_limit", lambda: memory)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
