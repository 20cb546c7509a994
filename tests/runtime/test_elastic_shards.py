"""A node whose processes shard one model is one replica: it trains, dies and comes back as a whole."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pytest
from containers import TIMEOUT, Entrypoint, clean_environment, finish

from trainwright_runtime.elastic import audit
from trainwright_runtime.launch.machine import free_port

Found = TypeVar("Found")

SCRIPT = Path(__file__).parent / "elastic_shards.py"
PROCESSES = 2

pytestmark = pytest.mark.slow


class Nodes:
    """Entrypoints of nodes with two processes each, all on this machine."""

    def __init__(self, entrypoint: Entrypoint, *arguments: str, nodes: int = 2) -> None:
        self._entrypoint, self._arguments, self._nodes = entrypoint, arguments, nodes
        self.folder, self._port = entrypoint.folder, free_port()
        self.audit = self.folder / "audit"
        self.running: dict[int, subprocess.Popen[str]] = {}
        self.environ: dict[str, str] = {}

    def start(self, node: int) -> None:
        argv = ["--recovery=live", "--replica=node", f"--nproc-per-node={PROCESSES}"]
        argv += ["--backend=gloo", "--grace-period=20", "--", str(SCRIPT), *self._arguments]
        environ = {
            "HOSTNAME": f"node-{node}",
            "JOB_COMPLETION_INDEX": str(node),
            "TRAINWRIGHT_NNODES": str(self._nodes),
            "TRAINWRIGHT_MASTER_ADDR": "127.0.0.1",
            "TRAINWRIGHT_COORDINATORS": f"127.0.0.1:{self._port}",
            "TRAINWRIGHT_AUDIT_DIR": str(self.audit),
            **self.environ,
        }
        self.running[node] = self._entrypoint.start(*argv, env=environ)

    def commits(self) -> dict[str, int]:
        """The last committed step of each process, whichever of its lives that was in."""
        steps: dict[str, int] = {}
        for path in self.audit.glob("*.jsonl"):
            process = path.name.rsplit("-", 2)[0]
            for line in path.read_bytes().split(b"\n")[:-1]:
                if b'"kind":"commit"' in line:
                    steps[process] = max(steps.get(process, -1), json.loads(line)["step"])
        return steps

    def wait_for_commit(self, beyond: int = -1, processes: int = 2 * PROCESSES) -> int:
        def found() -> int | None:
            steps = [step for step in self.commits().values() if step > beyond]
            return max(steps) if len(steps) >= processes else None

        return self.until(found)

    def until(self, find: Callable[[], Found | None]) -> Found:
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if (found := find()) is not None:
                return found
            time.sleep(0.02)
        for node in self.running.values():
            node.kill()
        logs = "".join(finish(node).stderr for node in self.running.values())
        raise TimeoutError(f"{self.commits()}\n{logs}")

    def processes(self, node: int) -> list[int]:
        """The training processes of a node: those that write an audit log, by their files' names."""
        entrypoint = self.running[node].pid
        children = Path(f"/proc/{entrypoint}/task/{entrypoint}/children").read_text().split()
        pattern = re.compile(rf"node-{node}-\d-(\d+)-\d+\.jsonl")
        found = (pattern.fullmatch(path.name) for path in self.audit.glob("*.jsonl"))
        return sorted({int(match[1]) for match in found if match and match[1] in children})

    def stop(self) -> None:
        """SIGTERM to all nodes, as when a job is evicted."""
        for node in self.running.values():
            node.send_signal(signal.SIGTERM)
        for node in self.running.values():
            done = finish(node)
            assert done.returncode == 143, done.stderr
        self.running.clear()

    def end(self) -> list[dict[str, Any]]:
        """What the processes that came to the end printed, once all nodes have ended well."""
        (self.folder / "hurry").touch()
        reports = []
        for node in self.running.values():
            done = finish(node)
            assert done.returncode == 0, done.stderr
            lines = [line.partition("] ")[2] for line in done.stdout.splitlines()]
            reports += [json.loads(line) for line in lines if line.startswith("{")]
        return reports


def _calm(folder: Path, *arguments: str) -> dict[str, Any]:
    """The report of one process that trains the whole model undisturbed."""
    (folder / "hurry").touch()
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(
        command, cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def _same(reports: list[dict[str, Any]], calm: Mapping[str, Any]) -> None:
    """Every process reports the epochs that it saw as one undisturbed process does."""
    for report in reports:
        assert report["step"] == calm["step"]
        assert report["weights"] == pytest.approx(calm["weights"], rel=1e-4)
        for name in ("losses", "validation"):
            expected = dict(calm[name])
            for epoch, loss in report[name]:
                assert loss == pytest.approx(expected[epoch], rel=1e-3), (name, epoch)
    assert [report["rank"] for report in reports].count(0) == 1


def test_a_sharded_model_trains_as_in_one_process(entrypoint: Entrypoint, tmp_path: Path) -> None:
    nodes = Nodes(entrypoint, "4", "0")
    nodes.environ["TRAINWRIGHT_MIN_REPLICAS"] = "2"
    for node in range(2):
        nodes.start(node)
    reports = nodes.end()
    assert len(reports) == 4
    _same(reports, _calm(tmp_path, "4", "0"))
    verdict = audit.verify(nodes.audit)
    assert not verdict.problems
    assert verdict.epochs == {"train": 4, "validation": 4}
    texts = [path.read_text() for path in nodes.audit.glob("*.jsonl")]
    shares = [json.loads(line) for text in texts for line in text.splitlines()]
    assert {share["rank"] for share in shares if share["kind"] == "share"} == {0, 1, 2, 3}


@pytest.mark.parametrize("killed", [0, 1])
def test_a_lost_process_is_a_lost_node(entrypoint: Entrypoint, killed: int) -> None:
    nodes = Nodes(entrypoint, "25", "0.15")
    for node in range(2):
        nodes.start(node)
    for node in (1, 0):
        last = nodes.wait_for_commit()
        before = nodes.processes(node)
        assert len(before) == PROCESSES
        os.kill(before[killed], signal.SIGKILL)
        nodes.until(lambda: not set(nodes.processes(node)) & set(before) or None)  # noqa: B023
        nodes.wait_for_commit(last + 3)
        assert len(nodes.processes(node)) == PROCESSES
    reports = nodes.end()
    assert len(reports) == 4
    calm = entrypoint.folder / "calm"
    calm.mkdir()
    _same(reports, _calm(calm, "25", "0"))
    verdict = audit.verify(nodes.audit)
    assert not verdict.problems
    assert not verdict.lost
    assert verdict.epochs == {"train": 25, "validation": 25}


def test_stopped_nodes_go_on_from_a_checkpoint_of_all_shards(
    entrypoint: Entrypoint, tmp_path: Path
) -> None:
    nodes = Nodes(entrypoint, "6", "0.1")
    nodes.environ["TRAINWRIGHT_CHECKPOINT_DIR"] = str(entrypoint.folder / "checkpoints")
    nodes.environ["TRAINWRIGHT_CHECKPOINT_EVERY"] = "10"
    for node in range(2):
        nodes.start(node)
    nodes.wait_for_commit(7)
    nodes.stop()
    last = max(nodes.commits().values())
    for node in range(2):
        nodes.start(node)
    nodes.wait_for_commit(last)  # one node would hurry to the end before the other has joined
    reports = nodes.end()
    assert len(reports) == 4
    calm = tmp_path / "calm"
    calm.mkdir()
    _same(reports, _calm(calm, "6", "0"))
    assert min(epoch for report in reports for epoch, _ in report["losses"]) > 0  # it went on
    verdict = audit.verify(nodes.audit)
    assert not verdict.problems
    assert not verdict.lost
    assert verdict.epochs == {"train": 6, "validation": 6}
