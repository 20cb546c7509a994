"""Three nodes run candidates for the coordinator, and any of them may be lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar
from unittest import mock

import pytest
from containers import Entrypoint, ending
from test_elastic_lease import free_ports

from trainwright_runtime.coordination import lease
from trainwright_runtime.coordination.channel import connected
from trainwright_runtime.elastic import audit
from trainwright_runtime.failures import exit_codes
from trainwright_runtime.failures.failure import Node
from trainwright_runtime.launch.launchers import recognise
from trainwright_runtime.launch.layout import Layout, Machine, resolve
from trainwright_runtime.launch.options import Options, parse
from trainwright_runtime.launch.processes import stop
from trainwright_runtime.recovery.candidates import Candidates
from trainwright_runtime.recovery.live import _Child, _coordinator, _Team
from trainwright_runtime.report import load

NODES = 3
PROGRAM = """
import os, pathlib, time
import torch
from trainwright_runtime import elastic
torch.set_num_threads(1)
hurry = pathlib.Path("hurry")
slow = pathlib.Path(f"slow-{os.environ['TRAINWRIGHT_REPLICA']}")
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.arange(64.0).reshape(64, 1)
with elastic.training(model, optimizer, data, batch_size=4, epochs=60) as run:
    for epoch in run.epochs():
        for batch in run.batches():
            run.backward(model(batch).square().mean() * 1e-4)
            if slow.exists(): time.sleep(0.4)
            end = time.monotonic() + (3 if epoch == 59 else 0.05)  # for a test that is late
            while not hurry.exists() and time.monotonic() < end: time.sleep(0.05)
if run.rank == 0:
    with open("ends", "a") as file: file.write(f"{run.step} ")
"""


class Nodes:
    """An entrypoint for each node of a JobSet, all on this machine."""

    def __init__(self, entrypoint: Entrypoint, **environ: str) -> None:
        self._environ = environ
        self.folder = entrypoint.folder
        self._entrypoint = entrypoint
        self._script = entrypoint.script("train.py", PROGRAM)
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports()]
        self.running: dict[int, subprocess.Popen[str]] = {}

    def start(self, node: int) -> None:
        argv = ["--recovery=live", "--nproc-per-node=1", "--grace-period=20", "--backend=gloo"]
        environ = {
            "HOSTNAME": f"node-{node}",
            "JOB_COMPLETION_INDEX": str(node),
            "TRAINWRIGHT_NNODES": str(NODES),
            "TRAINWRIGHT_MASTER_ADDR": "127.0.0.1",
            "TRAINWRIGHT_COORDINATORS": ",".join(self.addresses),
            "TRAINWRIGHT_MIN_REPLICAS": "1",
            "TRAINWRIGHT_AUDIT_DIR": str(self.folder / "audit"),
            "TRAINWRIGHT_TERMINATION_LOG": str(self.folder / f"termination-{node}"),
            **self._environ,
        }
        self.running[node] = self._entrypoint.start(*argv, "--", self._script, env=environ)

    def kill(self, node: int) -> None:
        """As when a pod is gone: all of it at once, and nothing is left to start it again."""
        entrypoint = self.running.pop(node)
        children = Path(f"/proc/{entrypoint.pid}/task/{entrypoint.pid}/children").read_text()
        with ending([int(pid) for pid in children.split()]):
            entrypoint.kill()
            entrypoint.communicate()

    def coordinator(self) -> int:
        """The node whose candidate serves."""
        return _until(lambda: next((n for n in range(NODES) if self._serves(n)), None))

    def commits(self) -> list[dict[str, int]]:
        files = (self.folder / "audit").glob("*.jsonl")
        lines = [line for file in files for line in file.read_bytes().split(b"\n")[:-1]]
        return [json.loads(line) for line in lines if b'"kind":"commit"' in line]

    def goes_on(self, steps: int = 5) -> None:
        """All nodes train together: what one did alone would be lost with it, and rightly."""
        before = max((commit["step"] for commit in self.commits()), default=-1)
        _until(lambda: self._together(before) >= steps or None)

    def _together(self, before: int) -> int:
        """How many steps of all running nodes came after one."""
        world = len(self.running)
        return len(
            {c["step"] for c in self.commits() if c["step"] > before and c["world"] == world}
        )

    def _serves(self, node: int) -> bool:
        return bool(_serves(self.addresses[node]))


def _serves(address: str) -> bool | None:
    """Whether a candidate serves workers, or None while it is not there."""
    try:
        with mock.patch.dict(os.environ, TRAINWRIGHT_RUN="127.0.0.1"):
            lines, greeting = connected(address, 0.1)
    except OSError:
        return None
    lines.close()
    return bool(greeting["serves"])


Found = TypeVar("Found")


def _until(find: Callable[[], Found | None]) -> Found:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if (found := find()) is not None:
            return found
        time.sleep(0.05)
    raise TimeoutError


@pytest.mark.slow
def test_training_goes_on_without_the_node_of_the_coordinator(entrypoint: Entrypoint) -> None:
    nodes = Nodes(entrypoint)
    for node in range(NODES):
        nodes.start(node)
    nodes.goes_on()
    for _ in range(2):
        lost = nodes.coordinator()
        nodes.kill(lost)
        nodes.goes_on()
        nodes.start(lost)
        nodes.goes_on()
    (nodes.folder / "hurry").touch()
    for node in nodes.running.values():
        _, log = node.communicate(timeout=120)
        assert node.returncode == 0, log
    verdict = audit.verify(nodes.folder / "audit")
    assert not verdict.problems
    assert not verdict.lost
    assert len((nodes.folder / "ends").read_text().split()) == 1


@pytest.mark.slow
def test_a_node_that_is_slow_leaves_and_is_replaced(entrypoint: Entrypoint) -> None:
    metrics = entrypoint.folder / "metrics"
    nodes = Nodes(
        entrypoint,
        TRAINWRIGHT_COMPARE_EVERY="2",
        TRAINWRIGHT_REPLACE_SLOW="1",
        TRAINWRIGHT_METRICS_DIR=str(metrics),
    )
    for node in range(NODES):
        nodes.start(node)
    nodes.goes_on()
    slow = nodes.folder / "slow-node-1-0"
    slow.touch()
    left = nodes.running.pop(1)
    _, log = left.communicate(timeout=120)
    assert left.returncode == exit_codes.NODE_FAULT, log
    message = json.loads((nodes.folder / "termination-1").read_text())
    assert (message["cause"], message["retry"]) == ("node-left-out", True)
    assert "node-1-0 computes for 0.4" in message["error"]
    nodes.goes_on()
    slow.unlink()
    nodes.start(1)
    nodes.goes_on()
    second = nodes.folder / "slow-node-2-0"
    second.touch()  # it is named, and stays
    nodes.goes_on(steps=12)
    second.unlink()
    (nodes.folder / "hurry").touch()
    for node in nodes.running.values():
        _, log = node.communicate(timeout=120)
        assert node.returncode == 0, log
    verdict = audit.verify(nodes.folder / "audit")
    assert not verdict.problems
    events = [event for path in metrics.iterdir() for event in load(path).events]
    failures = [event.fields for event in events if event.name == "failure"]
    assert [(f["node"], f["cause"]) for f in failures] == [("node-1", "node-left-out")]
    assert {str(e.fields["worker"]) for e in events if e.name == "slow"} >= {"node-2-0"}


def test_names_of_the_first_nodes_follow_from_that_of_node_0() -> None:
    jobset = {
        "JOB_COMPLETION_INDEX": "1",
        "TRAINWRIGHT_NNODES": "3",
        "TRAINWRIGHT_MASTER_ADDR": "run-node-0-0.run",
    }
    found = recognise(jobset)
    assert found.names == ("run-node-0-0.run", "run-node-0-1.run", "run-node-0-2.run")
    assert found.number == 1
    pytorchjob = {
        "PET_RDZV_ENDPOINT": "run-worker-0:23456",
        "PET_NNODES": "2:3",
        "HOSTNAME": "run-worker-2",
    }
    found = recognise(pytorchjob)
    assert found.names == ("run-worker-0", "run-worker-1", "run-worker-2")
    assert found.number == 2
    named = {"PET_RDZV_ENDPOINT": "run-worker-0.team.svc:23456"}  # a pod's own name has no domain
    assert recognise(pytorchjob | named).number == 2
    assert recognise(jobset | {"TRAINWRIGHT_MASTER_ADDR": "10.0.0.1"}).names == ()


NAMES = [f"run-node-0-{number}.run:29511" for number in range(4)]
PORTS = [f"127.0.0.1:{port}" for port in (4000, 5000, 6000)]


def _own(node: int, listed: list[str], **more: str) -> int | None:
    """Which of the candidates runs on this node of four."""
    environ = {
        "HOSTNAME": f"run-node-0-{node}",
        "JOB_COMPLETION_INDEX": str(node),
        "TRAINWRIGHT_NNODES": "4",
        "TRAINWRIGHT_MASTER_ADDR": "run-node-0-0.run",
        "TRAINWRIGHT_COORDINATORS": ",".join(listed),
        **more,
    }
    asked = parse(["--nproc-per-node=1", "--", "train.py"], environ)
    return Candidates.of(_layout(asked, environ), asked, environ).own


def _layout(asked: Options, environ: Mapping[str, str]) -> Layout:
    cpu = Machine(gpus=lambda: 0, has_gpu_driver=lambda: False, cores=lambda: 1)
    return resolve(recognise(environ), asked, cpu)


@pytest.mark.parametrize(
    ("listed", "own"),
    [
        (NAMES[:3], [0, 1, 2, None]),
        (NAMES[1:], [None, 0, 1, 2]),
        (NAMES[2:0:-1], [None, 1, 0, None]),
        (["coord.infra:29511"], [None] * 4),
        (["a.infra:1", "b.infra:1", "c.infra:1"], [None] * 4),
        (["a.infra:1", NAMES[0], NAMES[1]], [1, 2, None, None]),
        ([NAMES[1]], [None, 0, None, None]),
        (PORTS, [0, 1, 2, None]),
        (["[::1]:4000", "localhost:5000", "127.0.0.1:6000"], [0, 1, 2, None]),
        ([*PORTS[:1], *NAMES[1:3]], [0, 1, 2, None]),
        ([*PORTS[:2], NAMES[0]], [2, 1, None, None]),
        (["127.0.0.1:4000"], [0, None, None, None]),
        (["192.0.2.1:4000"], [None] * 4),  # https://www.rfc-editor.org/rfc/rfc5737: no host's
    ],
)
def test_each_listed_candidate_is_the_node_of_its_name(
    listed: list[str], own: list[int | None]
) -> None:
    assert [_own(node, listed) for node in range(4)] == own


def test_one_listed_address_is_that_of_node_0_where_nodes_meet_there() -> None:
    environ = {"TRAINWRIGHT_MASTER_ADDR": "192.0.2.1"}
    found = [_own(node, ["192.0.2.1:4000"], **environ) for node in range(4)]
    assert found == [0, None, None, None]


def test_one_process_of_a_node_runs_its_candidate() -> None:
    torchrun = {"WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1", "HOSTNAME": "a"}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(4)]
    found = [_own(0, ["a:4000", "b:4000", "c:4000"], **torchrun, **rank) for rank in ranks]
    assert found == [0, None, None, None]


def test_of_two_listed_candidates_none_serves_without_the_other() -> None:
    """One of two is no majority: the other one may serve already, out of reach."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports()[:2]]
    nodes = [_listed_candidate(node, addresses) for node in range(2)]
    try:
        nodes[0].start(_there(nodes[0]))
        _until(lambda: _serves(addresses[0]) is not None or None)
        end = time.monotonic() + 2.5 * lease.LENGTH  # it does not vote for the first LENGTH
        while time.monotonic() < end:
            assert not _serves(addresses[0])
            time.sleep(0.05)
        nodes[1].start(_there(nodes[1]))
        _until(lambda: any(map(_serves, addresses)) or None)
        assert [bool(_serves(address)) for address in addresses].count(True) == 1
    finally:
        for node in nodes:
            if (started := _there(node).process) is not None:
                stop([started], signal.SIGKILL, 0)


def _listed_candidate(node: int, addresses: list[str]) -> _Team:
    """One of two nodes, with the coordinator that the entrypoint would start there."""
    environ = {
        **os.environ,
        "HOSTNAME": f"node-{node}",
        "JOB_COMPLETION_INDEX": str(node),
        "TRAINWRIGHT_NNODES": "2",
        "TRAINWRIGHT_MASTER_ADDR": "127.0.0.1",
        "TRAINWRIGHT_COORDINATORS": ",".join(addresses),
        "TRAINWRIGHT_RUN": "127.0.0.1",
    }
    asked = parse(["--recovery=live", "--nproc-per-node=1", "--", "train.py"], environ)
    layout = _layout(asked, environ)
    found = Candidates.of(layout, asked, environ)
    return _Team(
        options=asked,
        max_restarts=0,
        node=Node(rank=node, name=f"node-{node}"),
        environ=environ,
        coordinator=_coordinator(found, layout, asked, environ),
    )


def _there(node: _Team) -> _Child:
    assert node.coordinator is not None
    return node.coordinator


@pytest.mark.parametrize("needed", [False, True])
def test_a_node_at_fault_is_left_unless_the_others_need_it(needed: bool) -> None:
    """Of one that runs the only coordinator the worker is started again in place."""
    team = _Team(
        options=parse(["--", "train.py"], {}),
        max_restarts=3,
        node=Node(rank=0, name="node-0"),
        environ={},
        needed=needed,
    )
    assert team._gives_up(exit_codes.NODE_FAULT, restarts=1) is not needed
    assert team._gives_up(exit_codes.NODE_FAULT, restarts=4)
    assert not team._gives_up(exit_codes.STALLED, restarts=1)
    assert team._gives_up(exit_codes.USAGE, restarts=1)


def test_a_node_ends_some_time_after_training_whatever_its_candidate_does(tmp_path: Path) -> None:
    stays = "import pathlib, signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    stays += f"; pathlib.Path({str(tmp_path / 'there')!r}).touch(); time.sleep(60)"
    team = _Team(
        options=parse(["--grace-period=0.1", "--", "train.py"], {}),
        max_restarts=0,
        node=Node(rank=0, name="node-0"),
        environ=os.environ,
        coordinator=_Child(
            argv=[sys.executable, "-c", stays], environ=os.environ, label={"coordinator": 4000}
        ),
        elastic=True,
    )
    assert team.coordinator is not None
    team.start(team.coordinator)
    assert team.coordinator.process is not None
    try:
        _until(lambda: (tmp_path / "there").exists() or None)
        team.finish_by = time.monotonic()
        assert team._after_the_end() == 0
    finally:
        team.end()
    assert team.coordinator.process.done.wait(60)
