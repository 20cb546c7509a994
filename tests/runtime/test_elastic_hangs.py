"""A process of a node that hangs, by whatever it does, is found by the others of its node."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
from preloaded import Script

torch = pytest.importorskip("torch")
pytest.importorskip("torchft")

from torch.distributed import TCPStore  # noqa: E402

import trainwright_runtime  # noqa: E402
from trainwright_runtime.failures import exit_codes, stacks  # noqa: E402
from trainwright_runtime.launch.machine import free_port  # noqa: E402

SCRIPT = Path(__file__).parent / "elastic_hangs.py"
RUNTIME = Path(trainwright_runtime.__file__).parent
PROCESSES = 2


@contextmanager
def _nodes(
    folder: Path, *arguments: str, nodes: int = 1, stall: float = 1
) -> Iterator[list[Script]]:
    """The processes of all nodes, and their coordinator."""
    port = free_port()
    shared = {
        **os.environ,
        "WORLD_SIZE": str(PROCESSES),
        "MASTER_ADDR": "127.0.0.1",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TRAINWRIGHT_REPLICA_PROCESSES": str(PROCESSES),
        "TRAINWRIGHT_COORDINATOR": f"127.0.0.1:{port}",
        "TRAINWRIGHT_BACKEND": "gloo",
        "TRAINWRIGHT_COLLECTIVE_TIMEOUT": "2",
        "TRAINWRIGHT_STALL_TIMEOUT": str(stall),
    }
    scripts = []

    def start(name: str, argv: list[str], **environ: str) -> None:
        module, *rest = argv
        log = folder / f"{name}.log"
        log.touch()
        scripts.append(
            Script(RUNTIME / module, rest, cwd=folder, env={**shared, **environ}, log=log)
        )

    argv = ["__main__.py", "coordinator", f"--port={port}", f"--min-replicas={nodes}"]
    start("coordinator", argv)
    stores = []
    for node, rank in product(range(nodes), range(PROCESSES)):
        if rank == 0:
            stores.append(TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False))
        name = f"node-{node}-{rank}"
        start(
            name,
            ["launch/process.py", str(SCRIPT), *arguments],
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            MASTER_PORT=str(stores[node].port),
            TRAINWRIGHT_REPLICA=name,
        )
    try:
        yield scripts[1:]
    finally:
        for script in scripts:
            script.kill()
            script.wait()


@pytest.mark.parametrize(
    "place",
    [
        "before the training",
        "while it connects",
        "in on_step",
        "at the end of an epoch",
    ],
)
def test_a_process_that_hangs_ends_its_node(tmp_path: Path, place: str) -> None:
    with _nodes(tmp_path, place, "3") as (leader, _):
        code = leader.wait(60)
        log = (tmp_path / "node-0-0.log").read_text()
        assert code == exit_codes.STALLED, log
        assert "waited 3 s for " in log


def test_a_process_that_hangs_after_a_step_is_watched_as_one_in_it(tmp_path: Path) -> None:
    """Another node waits: it need not be for as long as collectives of this one may take."""
    with _nodes(tmp_path, "in on_step", "60", nodes=2, stall=3) as (leader, *_):
        code = leader.wait(60)
        log = (tmp_path / "node-0-0.log").read_text()
        assert code == exit_codes.STALLED, log
        assert "hangs in a step while node-1-0 wait" in log


def test_one_process_alone_may_read_the_world_before_the_first_epoch(tmp_path: Path) -> None:
    with _nodes(tmp_path, "where one process asks", "60") as processes:
        assert [each.wait(60) for each in processes] == [0, 0]
        assert "world 2 rank 0" in (tmp_path / "node-0-0.log").read_text()


def test_the_end_of_the_program_is_waited_for_and_missing_processes_are_named(
    tmp_path: Path,
) -> None:
    with _nodes(tmp_path, "at the end of the program", "60") as processes:
        leader, stopped = processes
        log = tmp_path / "node-0-0.log"
        deadline = time.monotonic() + 60
        while "waiting for the program's end in local rank 1" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        assert leader.poll() is None
        assert stacks.SIGNAL is not None
        leader.send_signal(stacks.SIGNAL)
        # It waits for others, and is not the one that hangs.
        while not stacks.waits_for_peers(stacks.main_thread(log.read_text().splitlines())):
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        stopped.send_signal(signal.SIGCONT)
        assert [each.wait(60) for each in processes] == [0, 0], log.read_text()
