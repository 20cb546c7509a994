"""Checks before training: what is unfit is told all at once, and the pod may move."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from containers import TIMEOUT, Entrypoint, clean_environment, finish
from test_failures import _mounts

from trainwright_runtime.failures import exit_codes
from trainwright_runtime.failures.errors import UsageError
from trainwright_runtime.health.slow_nodes import slow_nodes
from trainwright_runtime.launch.machine import free_port
from trainwright_runtime.launch.options import CHECKS, DEFAULT_CHECKS, parse

STARTED = "print('started')"


def _node(port: int, rank: int = 0, nodes: int = 1) -> dict[str, str]:
    return {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "HOSTNAME": f"pod-{rank}",
        "RANK": str(rank), "WORLD_SIZE": str(nodes),
    }  # fmt: skip


def _unfit(done: subprocess.CompletedProcess[str]) -> str:
    """The sentence of a node that did not start anything."""
    assert (done.returncode, done.stdout) == (exit_codes.PREFLIGHT, ""), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_all_that_is_wrong_is_told_at_once_and_left_for_kubernetes(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", STARTED)
    entrypoint.script("file", "")
    log = entrypoint.folder / "log"
    env = {
        "TRAINWRIGHT_CHECKPOINT_DIR": str(entrypoint.folder / "file/ckpt"),
        "TRAINWRIGHT_TERMINATION_LOG": str(log),
    }
    with socket.create_server(("127.0.0.1", 0)) as server:
        job = _node(server.getsockname()[1]) | env
        argv = ["--preflight=shm=900Ti,memory=900Ti,disk=900Ti,ports,checkpoint", "--", script]
        last = _unfit(entrypoint.run(*argv, env=job))
        port = server.getsockname()[1]
    assert "preflight: shm: /dev/shm has " in last
    for part in (
        "; memory: ", "; disk: ", " free, 900 TiB expected", f"; ports: in use: {port}; ",
        "checkpoint: Not a directory: ",
    ):  # fmt: skip
        assert part in last
    reported = json.loads(log.read_bytes())
    assert (reported["cause"], reported["retry"], reported["rank"]) == ("node-unfit", True, None)


def test_a_fit_node_trains(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", STARTED)
    folder = entrypoint.folder / "deep/checkpoints"
    env = _node(free_port()) | {"TRAINWRIGHT_CHECKPOINT_DIR": str(folder)}
    asked = "shm=1Mi,memory=1Mi,disk=1Mi,ports,names,checkpoint"
    done = entrypoint.run(f"--preflight={asked}", "--", script, env=env)
    assert (done.returncode, done.stdout) == (0, "[rank 0] started\n"), done.stderr
    assert "preflight: shm, memory, disk, ports, names, checkpoint passed in " in done.stderr
    assert list(folder.iterdir()) == []


def test_a_url_of_checkpoints_is_no_folder(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", STARTED)
    env = _node(free_port()) | {"TRAINWRIGHT_CHECKPOINT_DIR": "s3://bucket/run"}
    done = entrypoint.run("--preflight=shm=1Mi,disk,checkpoint", "--", script, env=env)
    assert (done.returncode, done.stdout) == (0, "[rank 0] started\n"), done.stderr
    assert "preflight: no check of checkpoints, which go to s3://bucket/run" in done.stderr
    assert "preflight: shm, disk passed in " in done.stderr
    assert [path.name for path in entrypoint.folder.iterdir()] == [script]


def test_a_name_that_does_not_resolve_in_time(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", STARTED)
    job = _node(29500, rank=1, nodes=2) | {"MASTER_ADDR": "absent.invalid"}
    argv = ["--preflight=names", "--rendezvous-timeout=0", "--", script]
    last = _unfit(entrypoint.run(*argv, env=job))
    assert "preflight: names: the name absent.invalid cannot be resolved" in last


@pytest.mark.parametrize("preflight", ["none", ""])
def test_nothing_is_checked_where_nothing_is_asked_for(
    entrypoint: Entrypoint, preflight: str
) -> None:
    entrypoint.script("file", "")
    script = entrypoint.script("train.py", STARTED)
    env = {"TRAINWRIGHT_CHECKPOINT_DIR": str(entrypoint.folder / "file/ckpt")}
    assert entrypoint.run(f"--preflight={preflight}", "--", script, env=env).returncode == 0
    assert _unfit(entrypoint.run("--", script, env=env))  # on by itself


def test_a_full_dev_shm_and_a_read_only_volume_are_found_by_themselves(
    entrypoint: Entrypoint,
) -> None:
    if not _mounts():
        pytest.skip("needs the right to mount (root)")
    entrypoint.script("train.py", STARTED)
    volume = entrypoint.folder / "volume"
    volume.mkdir()
    command = f"""
mount -t tmpfs -o size=64k tmpfs /dev/shm
mount -t tmpfs -o ro,size=64m tmpfs {volume}
exec {sys.executable} -m trainwright_runtime -- train.py
"""
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command], cwd=entrypoint.folder, text=True,
        env=clean_environment() | {"TRAINWRIGHT_CHECKPOINT_DIR": str(volume)},
        capture_output=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    last = _unfit(done)
    assert "shm: /dev/shm has 64 KiB free, 1 MiB expected" in last
    assert "checkpoint: Read-only file system: " in last


# --- nodes together ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "slow"),
    [
        ((0.1, 0.1, 0.5), [2]),
        ((0.5, 0.1), [0]),
        ((0.1, 0.12, 0.11, 0.1), []),
        ((0.001, 0.002, 0.012), []),  # noise
        ((0.3, 0.9, 0.3, 0.91, 0.3), [1, 3]),
        ((0.4,), []),
        ((), []),
    ],
)
def test_who_is_slow(times: tuple[float, ...], slow: list[int]) -> None:
    assert slow_nodes(times, 2.9) == slow


@pytest.mark.slow
def test_nodes_that_are_alike_meet_and_train(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", STARTED)
    port = free_port()
    nodes = [
        entrypoint.start("--preflight=collective=1000000", "--", script, env=_node(port, rank, 3))
        for rank in range(3)
    ]
    for rank, node in enumerate(nodes):
        done = finish(node)
        assert (done.returncode, done.stdout) == (0, f"[rank {rank}] started\n"), done.stderr


@pytest.fixture
def throttle() -> Iterator[Path]:
    """A control group that gets a fiftieth of a processor."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        root = Path("/sys/fs/cgroup", controllers, path.lstrip("/"))
        if controllers in ("", "cpu", "cpu,cpuacct") and any(root.glob("cpu.*")):
            group = root / f"trainwright-{os.getpid()}"
            try:
                group.mkdir()
                if (group / "cpu.max").exists():
                    (group / "cpu.max").write_text("4000 200000")
                else:
                    (group / "cpu.cfs_period_us").write_text("200000")
                    (group / "cpu.cfs_quota_us").write_text("4000")
            except OSError:
                continue
            yield group
            group.rmdir()
            return
    pytest.skip("needs the right to make a control group (root)")


@pytest.mark.slow
def test_a_slow_node_is_named_by_all(entrypoint: Entrypoint, throttle: Path) -> None:
    script = entrypoint.script("train.py", STARTED)
    port = free_port()
    # Only what is measured is throttled: the import of torch would take minutes.
    (entrypoint.folder / "slow").mkdir()
    (entrypoint.folder / "slow/sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'slow-nodes' in sys.argv or 'slow-nodes' in sys.orig_argv:\n"
        "    import torch\n"
        f"    open({str(throttle / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
    )
    nodes = []
    for rank in range(3):
        env = _node(port, rank, 3)
        if rank == 1:
            env["PYTHONPATH"] = str(entrypoint.folder / "slow")
        nodes.append(entrypoint.start("--preflight=collective=3", "--", script, env=env))
    for node in nodes:
        assert "preflight: collective: node 1 (pod-1) " in _unfit(finish(node))


# --- the option ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "checks"),
    [
        ("none", {}),
        ("collective,shm=8Gi", {"shm": 8 * 2**30, "collective": None}),
        ("disk=1.5G,ports", {"disk": 1.5e9, "ports": None}),
        ("collective=2.5,memory=100", {"memory": 100.0, "collective": 2.5}),
    ],
)
def test_the_option_is_read(text: str, checks: dict[str, float | None]) -> None:
    found = parse([f"--preflight={text}", "--", "x.py"], {}).preflight
    assert found == checks
    assert list(found) == [name for name in CHECKS if name in checks]  # in their own order


def test_some_checks_are_on_by_themselves() -> None:
    assert parse(["--", "x.py"], {}).preflight == DEFAULT_CHECKS


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpu", "'gpu' is not one of shm, memory, disk, ports, names, checkpoint, collective"),
        ("shm=lots", "shm=lots: expected a size such as 8Gi"),
        ("ports=3", "ports=3: ports has no minimum"),
        ("collective=1", "collective=1: expected a number above 1"),
        ("shm,", "'' is not one of"),
    ],
)
def test_what_the_option_cannot_mean_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse([f"--preflight={text}", "--", "x.py"], {})
