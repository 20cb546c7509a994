"""Recovery by restart: scripts written for torchrun train on after a kill, and never hang."""

from __future__ import annotations

import signal
import subprocess

import pytest
from containers import Entrypoint, finish

from trainwright_runtime.failures import exit_codes
from trainwright_runtime.launch.machine import free_port

pytestmark = pytest.mark.slow

# Plain DDP; ranks that are told to die do so in the middle of their first attempt.
TRAIN = """
import os, signal, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    if step == 5 and rank == int(sys.argv[1]) and attempt < int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
print("done", rank, dist.get_world_size(), attempt)
"""


@pytest.mark.parametrize("rank", [0, 2])  # the one that others meet at, and one that is not
def test_training_goes_on_after_a_killed_worker(entrypoint: Entrypoint, rank: int) -> None:
    script = entrypoint.script("train.py", TRAIN)
    argv = ["--recovery=restart", "--nproc-per-node=3", "--grace-period=10"]
    done = entrypoint.run(*argv, "--", script, str(rank), "1")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[rank {n}] done {n} 3 1" for n in range(3)]
    assert done.stderr.count("killed by SIGKILL") == 1
    assert "restart 1 of 10" in done.stderr


def test_restarts_are_counted_and_the_exit_code_is_the_last_failure_s(
    entrypoint: Entrypoint,
) -> None:
    script = entrypoint.script("train.py", TRAIN)
    argv = ["--recovery=restart", "--max-restarts=1", "--nproc-per-node=2", "--grace-period=10"]
    done = entrypoint.run(*argv, "--", script, "1", "9", env={"HOSTNAME": "host"})
    assert done.returncode == 137, done.stderr
    assert done.stderr.count("rank 1 on node 0 (host) failed: killed by SIGKILL") == 2
    assert done.stderr.splitlines()[-1].endswith(
        "rank 1 on node 0 (host) failed: killed by SIGKILL"
    )


def test_nodes_keep_the_ranks_of_their_launcher(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", TRAIN)
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    nodes = [
        entrypoint.start(
            "--recovery=restart", "--grace-period=10", "--", script, "1", "1",
            env={**job, "RANK": str(rank)},
        )
        for rank in (1, 0)
    ]  # fmt: skip
    one, zero = (finish(node) for node in nodes)
    assert (zero.returncode, one.returncode) == (0, 0), zero.stderr + one.stderr
    assert (zero.stdout, one.stdout) == ("[rank 0] done 0 2 1\n", "[rank 1] done 1 2 1\n")
    assert f"exit code {exit_codes.PEER_LOST}" in zero.stderr


RAISES = TRAIN.replace("os.kill(os.getpid(), signal.SIGKILL)", "raise RuntimeError(sys.argv[3])")
GPU = "CUDA error: uncorrectable ECC error encountered"
NCCL = "NCCL error: unhandled system error, ncclSystemError: Call to connect failed"


def _node_of_two(
    entrypoint: Entrypoint, port: int, rank: int, failures: int, error: str
) -> subprocess.Popen[str]:
    script = entrypoint.script("train.py", RAISES)
    return entrypoint.start(
        "--recovery=restart", "--grace-period=10", "--", script, "1", str(failures), error,
        env={"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2",
             "RANK": str(rank)},
    )  # fmt: skip


def test_a_node_whose_gpu_failed_leaves_and_its_replacement_trains_on(
    entrypoint: Entrypoint,
) -> None:
    port = free_port()
    stays = _node_of_two(entrypoint, port, 0, 0, GPU)
    left = finish(_node_of_two(entrypoint, port, 1, 9, GPU))
    assert left.returncode == exit_codes.NODE_FAULT, left.stderr
    assert left.stderr.count("rank 1 on node 1") == 1  # and no restart on the same GPU
    assert "restart 1" not in left.stderr
    replacement = finish(_node_of_two(entrypoint, port, 1, 0, GPU))
    stayed = finish(stays)
    assert (stayed.returncode, replacement.returncode) == (0, 0), stayed.stderr + replacement.stderr
    assert stayed.stdout == "[rank 0] done 0 2 1\n"


def test_nccl_fails_where_another_rank_was_lost_too_so_its_node_stays(
    entrypoint: Entrypoint,
) -> None:
    port = free_port()
    nodes = [_node_of_two(entrypoint, port, rank, 1, NCCL) for rank in (0, 1)]
    zero, one = (finish(node) for node in nodes)
    assert (zero.returncode, one.returncode) == (0, 0), zero.stderr + one.stderr
    assert "restart 1 of 10" in one.stderr


def test_a_node_of_another_run_does_not_meet_the_others(entrypoint: Entrypoint) -> None:
    """As one of an earlier run that is back: the rendezvous has the run's name and key."""
    script = entrypoint.script("train.py", TRAIN)
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    nodes = [
        entrypoint.start(
            "--recovery=restart", "--rendezvous-timeout=10", "--", script, "1", "1",
            env={**job, "RANK": str(rank), "TRAINWRIGHT_RUN": run},
        )
        for rank, run in enumerate("ab")
    ]  # fmt: skip
    zero, one = (finish(node) for node in nodes)
    unreachable = exit_codes.UNREACHABLE
    assert (zero.returncode, one.returncode) == (unreachable, unreachable), zero.stderr + one.stderr
    assert "127.0.0.1 is not of run b, or has another key" in one.stderr
    assert "did not prove to be of run a" in zero.stderr


IS_LOST = """
import os, runpy, signal
from trainwright_runtime.recovery import restart
class Lost:
    build = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
restart.RendezvousStoreInfo = Lost
runpy.run_module("trainwright_runtime", run_name="__main__")
"""


def test_a_master_that_is_lost_while_ranks_are_exchanged_requests_a_retry(
    entrypoint: Entrypoint,
) -> None:
    """All nodes have met by then: what is lost is the store, and not the rendezvous."""
    script = entrypoint.script("train.py", TRAIN)
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    argv = ["--recovery=restart", "--grace-period=10", "--", script, "1", "1"]
    is_lost = entrypoint.script("is_lost.py", IS_LOST)
    lost = entrypoint.start(*argv, env={**job, "RANK": "0"}, changed=is_lost)
    done = entrypoint.run(*argv, env={**job, "RANK": "1"})
    assert finish(lost).returncode == -signal.SIGKILL
    assert done.returncode == exit_codes.UNREACHABLE, done.stderr
    assert "Traceback" not in done.stderr
    assert "the nodes could not meet at 127.0.0.1:" in done.stderr.splitlines()[-1]


IS_SLOW = """
import pathlib, runpy, time
from trainwright_runtime.recovery import restart
def slow(self, shutdown=restart.StorePerAttempt.shutdown):
    {wait}
    return shutdown(self)
restart.StorePerAttempt.shutdown = slow
runpy.run_module("trainwright_runtime", run_name="__main__")
"""

IS_PATIENT = """
import runpy
from trainwright_runtime.recovery import restart
restart._FAREWELL = 60.0
runpy.run_module("trainwright_runtime", run_name="__main__")
"""


def _two_nodes(
    entrypoint: Entrypoint, wait: str, first: str | None
) -> tuple[subprocess.Popen[str], subprocess.CompletedProcess[str]]:
    """The node that is slow to leave, and the ended one where both have met."""
    script = entrypoint.script("train.py", TRAIN)
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    argv = ["--recovery=restart", "--grace-period=10", "--", script, "0", "0"]
    is_slow = entrypoint.script("is_slow.py", IS_SLOW.format(wait=wait))
    slow = entrypoint.start(*argv, env={**job, "RANK": "1"}, changed=is_slow)
    return slow, finish(entrypoint.start(*argv, env={**job, "RANK": "0"}, changed=first))


def test_the_node_where_they_met_waits_for_who_is_slow_to_leave(entrypoint: Entrypoint) -> None:
    is_patient = entrypoint.script("is_patient.py", IS_PATIENT)
    wait = "time.sleep(2); pathlib.Path('leaves').touch()"
    slow, first = _two_nodes(entrypoint, wait, is_patient)
    assert (entrypoint.folder / "leaves").exists()
    _assert_succeeded(first)
    _assert_succeeded(finish(slow))


def test_who_leaves_after_all_others_has_succeeded_as_they_have(entrypoint: Entrypoint) -> None:
    wait = "while not pathlib.Path('all-others-left').exists(): time.sleep(0.05)"
    slow, first = _two_nodes(entrypoint, wait, None)
    (entrypoint.folder / "all-others-left").touch()
    _assert_succeeded(first)
    _assert_succeeded(finish(slow))


def _assert_succeeded(node: subprocess.CompletedProcess[str]) -> None:
    assert node.returncode == 0, node.stderr
    assert "ERROR" not in node.stderr
    assert "Traceback" not in node.stderr


def test_an_elastic_pytorchjob_meets_through_its_first_worker(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", TRAIN)
    job = {
        "PET_RDZV_ENDPOINT": f"localhost:{free_port()}", "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": "2:3", "PET_NPROC_PER_NODE": "1", "PET_MAX_RESTARTS": "3",
    }  # fmt: skip
    nodes = [
        entrypoint.start("--grace-period=10", "--", script, "1", "1", env={**job, "HOSTNAME": name})
        for name in ("job-worker-1", "localhost")
    ]
    done = [finish(node) for node in nodes]
    assert [one.returncode for one in done] == [0, 0], "".join(one.stderr for one in done)
    assert sorted(line for one in done for line in one.stdout.splitlines()) == [
        "[rank 0] done 0 2 1",
        "[rank 1] done 1 2 1",
    ]
    assert any("restart 1 of 3" in one.stderr for one in done)
