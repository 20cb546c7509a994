"""The entrypoint as a container runs it: real processes, real signals, real exit codes."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from containers import TIMEOUT, Entrypoint, clean_environment, finish

from trainwright_runtime.failures import exit_codes
from trainwright_runtime.launch.machine import free_port

ROOT = Path(__file__).parents[2]

TRAIN = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group(os.environ["TRAINWRIGHT_BACKEND"])
total = torch.ones(1)
dist.all_reduce(total)
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK OMP_NUM_THREADS".split()
# One write: under torchrun both processes write to one pipe, unbuffered where the caller says so.
sys.stdout.write(" ".join([str(int(total)), *(os.environ[name] for name in names)]) + "\\n")
"""
FAILS = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    {fail}
dist.all_reduce(torch.ones(1))
"""
SAVES = """
import os, signal, sys, time
def save(*_):
    while not os.path.exists("may-save"): time.sleep(0.01)
    time.sleep({seconds})
    os.write(1, b"saved\\n")  # print() may be writing what it interrupts
    sys.exit(143)
signal.signal(signal.{name}, save)
print("ready", flush=True)
while True: time.sleep(0.1)  # a handler waits for the end of a sleep that begins after its signal
"""


def slow(*values: object) -> object:
    """A case that is left to `make test-slow`."""
    return pytest.param(*values, marks=pytest.mark.slow)


def _await_line(process: subprocess.Popen[str], text: str, count: int = 1) -> None:
    assert process.stdout
    for _ in range(count):
        while text not in (line := process.stdout.readline()):
            assert line, "the output ended"


# --- training to the end -------------------------------------------------------------------------


def test_processes_meet_and_find_the_contract(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", TRAIN)
    done = entrypoint.run("--nproc-per-node=2", "--", script, env={"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[rank 0] 2 0 0 2 2 0 1", "[rank 1] 2 1 1 2 2 0 1"]
    (reported,) = done.stderr.splitlines()
    assert reported.endswith(
        "INFO no launcher: node 0 of 1, ranks 0-1 of 2, master 127.0.0.1:a free port, gloo, "
        "recovery none"
    )


# As most tutorials end: the group is destroyed while the model still has it. A loop is 200 ends.
DESTROYS = """
import torch, torch.distributed as dist
def train():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    model(torch.ones(2, 4)).sum().backward()
    dist.destroy_process_group()
for _ in range(200):
    train()
print("ended")
"""


@pytest.mark.slow
def test_a_model_that_outlives_its_group_does_not_hang(entrypoint: Entrypoint) -> None:
    done = entrypoint.run("--", entrypoint.script("train.py", DESTROYS))
    assert (done.returncode, done.stdout) == (0, "[rank 0] ended\n"), done.stderr


VARIABLES = """
import json, os
prefixes = ("TORCHELASTIC_", "GROUP_", "ROLE_", "LOCAL_", "RANK", "WORLD_SIZE")
found = {k: v for k, v in os.environ.items() if k.startswith(prefixes)}
os.write(1, f"{json.dumps(found)}\\n".encode())
"""


def _variables(stdout: str) -> list[dict[str, str]]:
    return sorted(
        (json.loads(line[line.index("{") :]) for line in stdout.splitlines()),
        key=lambda variables: variables["RANK"],
    )


def test_processes_find_what_torchrun_sets(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("variables.py", VARIABLES)
    ours = entrypoint.run("--nproc-per-node=2", "--", script)
    assert ours.returncode == 0, ours.stderr
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", script]
    theirs = subprocess.run(
        command, cwd=entrypoint.folder, env=clean_environment(), timeout=TIMEOUT, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    # The role and the run have names of ours, and rank 0 keeps the store; two are between torchrun
    # and its agent.
    own = {"ROLE_NAME", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"}
    agent = {"TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_SIGNALS_TO_HANDLE"}
    for mine, torchruns in zip(_variables(ours.stdout), _variables(theirs.stdout), strict=True):
        assert torchruns.keys() - mine.keys() <= agent
        for name in torchruns.keys() - own - agent:
            assert mine[name] == torchruns[name], name


def test_two_nodes_of_a_pytorchjob_meet(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", TRAIN)
    job = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2",
        "PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    nodes = [entrypoint.start("--", script, env={**job, "RANK": str(n)}) for n in (1, 0)]
    one, zero = (finish(node) for node in nodes)
    assert (zero.returncode, one.returncode) == (0, 0), zero.stderr + one.stderr
    assert zero.stdout == "[rank 0] 2 0 0 2 1 0 1\n"
    assert one.stdout == "[rank 1] 2 1 0 2 1 1 1\n"


MEETS_AGAIN = """
import os, torch, torch.distributed as dist
host, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
init = {{"0": None, "1": f"tcp://[{{host}}]:{{port}}"}}[os.environ["TORCHELASTIC_RESTART_COUNT"]]
ranks = {{name: int(os.environ[name.upper()]) for name in ("rank", "world_size")}} if init else {{}}
dist.init_process_group("gloo", init_method=init, **ranks)
dist.barrier()
if init is None and dist.get_rank() == {loses}:
    os.kill(os.getpid(), 9)
dist.barrier()
print(host, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("loses", [0, 1])
def test_nodes_meet_again_in_another_store_at_an_ipv6_address(
    loses: int, entrypoint: Entrypoint
) -> None:
    script = entrypoint.script("train.py", MEETS_AGAIN.format(loses=loses))
    job = {"MASTER_ADDR": "::1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    argv = ("--recovery=restart", "--", script)
    nodes = [entrypoint.start(*argv, env={**job, "RANK": str(n)}) for n in (1, 0)]
    for done in [finish(node) for node in nodes]:
        assert done.returncode == 0, done.stderr
        assert "::1" in done.stdout
        assert "restart 1 of" in done.stderr


@pytest.mark.slow
def test_a_process_that_torchrun_has_placed_is_left_as_it_is(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", TRAIN)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, "-m", "trainwright_runtime", "--nproc-per-node=8", "--", script],
        cwd=entrypoint.folder, env=clean_environment() | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["2 0 0 2 2 0 1", "2 1 1 2 2 0 1"]
    assert done.stderr.count("INFO torchrun: rank") == 2


def test_a_script_runs_as_if_python_had_started_it(entrypoint: Entrypoint) -> None:
    package = entrypoint.folder / "work"
    package.mkdir()
    (package / "beside.py").write_text("VALUE = 42")
    (package / "train.py").write_text("""
import atexit, multiprocessing, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from beside import VALUE
def double(x): return 2 * x
if __name__ == "__main__":
    print(sys.argv, VALUE, __file__)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [21]))
    idle = ThreadPoolExecutor(1)
    print(idle.submit(double, 4).result())
    atexit.register(print, "at exit")
    threading.Thread(target=lambda: (time.sleep(0.5), print("thread"))).start()
""")
    done = entrypoint.run("--", "work/train.py", "--epochs=1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[rank 0] ['work/train.py', '--epochs=1'] 42 work/train.py",
        "[rank 0] [42]",
        "[rank 0] 8",
        "[rank 0] thread",
        "[rank 0] at exit",
    ]


def test_a_module_runs_with_its_package(entrypoint: Entrypoint) -> None:
    package = entrypoint.folder / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "data.py").write_text("VALUE = 42")
    (package / "train.py").write_text(
        "import sys; from .data import VALUE; print(sys.argv[1:], VALUE)"
    )
    done = entrypoint.run("--", "-m", "pkg.train", "-x")
    assert (done.returncode, done.stdout) == (0, "[rank 0] ['-x'] 42\n"), done.stderr


@pytest.mark.slow
def test_a_clean_end_never_looks_like_a_crash(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", TRAIN)
    for _ in range(2):  # benchmarks/launching.py makes 200
        done = entrypoint.run("--nproc-per-node=2", "--", script)
        assert done.returncode == 0, done.stderr


# --- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fail", "exit_code", "summary"),
    [
        (
            "raise ValueError('boom')",
            1,
            "rank 1 on node 0 (host) failed: exit code 1: ValueError: boom",
        ),
        slow("raise SystemExit(9)", 9, "rank 1 on node 0 (host) failed: exit code 9"),
        slow(
            "import os; os.kill(os.getpid(), 9)",
            137,
            "rank 1 on node 0 (host) failed: killed by SIGKILL",
        ),
    ],
)
def test_the_first_failure_decides_and_is_told_once(
    entrypoint: Entrypoint, fail: str, exit_code: int, summary: str
) -> None:
    script = entrypoint.script("train.py", FAILS.format(fail=fail))
    argv = ["--nproc-per-node=3", "--grace-period=5", "--", script]
    done = entrypoint.run(*argv, env={"HOSTNAME": "host"})
    assert done.returncode == exit_code, done.stderr
    lines = done.stderr.splitlines()
    assert lines[-1].endswith(f"ERROR {summary}")
    assert done.stderr.count("Traceback") == ("ValueError" in fail)
    assert not [line for line in lines if "runpy" in line or "process.py" in line]


@pytest.mark.slow
def test_a_rank_that_loses_one_on_another_node_can_be_retried(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", FAILS.format(fail="import os; os._exit(9)"))
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    nodes = [entrypoint.start("--", script, env={**job, "RANK": str(n)}) for n in (0, 1)]
    zero, one = (finish(node) for node in nodes)
    assert (zero.returncode, one.returncode) == (exit_codes.PEER_LOST, 9), zero.stderr
    assert "another rank was lost" in zero.stderr
    assert "Traceback" not in zero.stderr


def test_the_log_as_json_has_only_objects(entrypoint: Entrypoint) -> None:
    text = (
        "import os, time\nif os.environ['RANK'] == '1': raise ValueError('boom')\ntime.sleep(1000)"
    )
    script = entrypoint.script("train.py", text)
    argv = ["--nproc-per-node=2", "--log-format=json", "--grace-period=5", "--", script]
    done = entrypoint.run(*argv, env={"HOSTNAME": "host"})
    records = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"time", "level", "message"} <= record.keys() for record in records)
    assert {"level": "error", "node": 0}.items() <= records[-1].items()
    assert records[-1]["message"] == "rank 1 on node 0 (host) failed: exit code 1: ValueError: boom"
    assert any(record.get("rank") == 1 and record["stream"] == "stderr" for record in records)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--", "absent.py"], "absent.py is not there (looked in "),
        (["--", "-m", "absent.train"], "no module named 'absent'"),
        (["--", "-m", "json.absent"], "no module named 'json.absent'"),
        (["--backend=nccl", "--", "x.py"], "--backend=nccl, but no GPU is visible"),
        ([], "nothing to run"),
    ],
)
def test_what_cannot_start_is_one_line_and_exit_2(
    entrypoint: Entrypoint, argv: list[str], says: str
) -> None:
    done = entrypoint.run(*argv)
    assert done.returncode == 2
    assert says in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_an_inconsistent_environment_is_refused_before_anything_starts(
    entrypoint: Entrypoint,
) -> None:
    script = entrypoint.script("train.py", "print('started')")
    done = entrypoint.run("--", script, env={"MASTER_ADDR": "a:1", "RANK": "0", "WORLD_SIZE": "1"})
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "ERROR MASTER_ADDR is 'a:1', expected a name without a port" in line


@pytest.mark.parametrize("recovery", ["none", "restart", "live"])
def test_a_master_that_does_not_appear_is_waited_for_so_long_and_no_longer(
    entrypoint: Entrypoint, recovery: str
) -> None:
    script = entrypoint.script("train.py", "import time; time.sleep(1000)")
    job = {"MASTER_ADDR": "absent.invalid", "MASTER_PORT": "1", "WORLD_SIZE": "2", "RANK": "1"}
    done = entrypoint.run(
        f"--recovery={recovery}",
        "--rendezvous-timeout=1",
        "--grace-period=1",
        "--",
        script,
        env=job,
    )
    assert done.returncode == exit_codes.UNREACHABLE
    last = done.stderr.splitlines()[-1]
    assert "did not appear within 1 s (--rendezvous-timeout)" in last
    assert "the name absent.invalid cannot be resolved" in last
    assert "Traceback" not in done.stderr


# --- signals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "exit_code"), [("SIGTERM", 143), slow("SIGINT", 130)])
@pytest.mark.parametrize("recovery", ["none", "restart", "live"])
def test_a_signal_reaches_the_processes_and_they_may_finish(
    entrypoint: Entrypoint, name: str, exit_code: int, recovery: str
) -> None:
    script = entrypoint.script("train.py", SAVES.format(seconds=1, name=name))
    argv = [f"--recovery={recovery}", "--nproc-per-node=2", "--grace-period=60", "--", script]
    process = entrypoint.start(*argv)
    _await_line(process, "ready", count=2)
    process.send_signal(getattr(signal, name))
    process.send_signal(getattr(signal, name))  # a second one must not cut the save short
    (entrypoint.folder / "may-save").touch()
    done = finish(process)
    assert done.returncode == exit_code, done.stderr
    assert done.stdout.count("saved") == 2, f"{done.stdout}\n{done.stderr}"
    assert done.stderr.count("passing it on") == 1


OWN_HANDLER = """
import signal, sys, time, torch
from trainwright_runtime.checkpoint import Checkpoints, checkpoints
checkpoints.WORTH_IT = 0
stopping = False
def stop(*_):
    global stopping
    stopping = True
signal.signal(signal.SIGTERM, stop)
state = {{"weight": torch.zeros(1000)}}
with Checkpoints("saved", keep=2) as saving:
    saving.save(1, state)  # by a process, which SIGTERM must not end
    print("ready", flush=True)
    while not stopping:
        time.sleep(0.01)
    saving.save(2, {{"weight": torch.full((1000,), 2.0)}}, wait=True)
    assert signal.getsignal(signal.SIGTERM) is stop
    sys.exit({code})
"""


@pytest.mark.slow
@pytest.mark.parametrize(("code", "exit_code"), [(0, 0), (3, 143)])
def test_a_handler_of_the_script_s_own_saves_what_it_saves(
    code: int, exit_code: int, entrypoint: Entrypoint
) -> None:
    import torch

    from trainwright_runtime.checkpoint import Checkpoints

    script = entrypoint.script("train.py", OWN_HANDLER.format(code=code))
    process = entrypoint.start("--nproc-per-node=1", "--grace-period=900", "--", script)
    _await_line(process, "ready")
    process.terminate()
    done = finish(process)
    assert done.returncode == exit_code
    assert "could not be saved" not in done.stderr
    state = {"weight": torch.zeros(1000)}
    with Checkpoints(entrypoint.folder / "saved") as checkpoints:
        assert checkpoints.load(state) == 2
    assert state["weight"].unique().tolist() == [2.0]
    assert (entrypoint.folder / "saved" / "step-0000000001").is_dir()


def test_who_is_not_done_after_the_configured_grace_is_killed(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", SAVES.format(seconds=1000, name="SIGTERM"))
    process = entrypoint.start("--nproc-per-node=2", "--grace-period=1", "--", script)
    _await_line(process, "ready", count=2)
    process.terminate()
    done = finish(process)
    assert done.returncode == 137
    assert "not done 1 s after SIGTERM (--grace-period): killed" in done.stderr


def test_a_script_without_a_handler_ends_by_the_signal(entrypoint: Entrypoint) -> None:
    text = "import time; print('ready', flush=True); time.sleep(1000)"
    process = entrypoint.start("--", entrypoint.script("train.py", text))
    _await_line(process, "ready")
    process.terminate()
    assert finish(process).returncode == 143


def test_training_processes_end_with_a_killed_entrypoint(entrypoint: Entrypoint) -> None:
    text = "import os, time; print('pid', os.getpid(), flush=True); time.sleep(1000)"
    process = entrypoint.start("--", entrypoint.script("train.py", text))
    assert process.stdout
    pid = int(process.stdout.readline().split()[-1])
    watch = os.pidfd_open(pid)
    process.kill()
    process.wait()
    assert select.select([watch], [], [], TIMEOUT)[0] == [watch]
    os.close(watch)


# --- live recovery -------------------------------------------------------------------------------

# Counts its starts in a file; ends when all have started and host-1 for the third time.
COUNTS = """
import os, pathlib, signal, sys, time
assert not {{"RANK", "WORLD_SIZE", "MASTER_ADDR"}} & os.environ.keys()
replica = os.environ["TRAINWRIGHT_REPLICA"]
note = pathlib.Path(replica)
with note.open("a") as file: file.write("|")
starts = note.stat().st_size
host, port = os.environ["TRAINWRIGHT_COORDINATOR"].rsplit(":", 1)
print("start", replica, starts, os.environ["TRAINWRIGHT_MIN_REPLICAS"], flush=True)
{dies}
while any(not pathlib.Path(f"host-{{n}}").exists() for n in range(3)): time.sleep(0.05)
while pathlib.Path("host-1").stat().st_size < 3: time.sleep(0.05)
"""


def _live(entrypoint: Entrypoint, dies: str, *options: str) -> subprocess.CompletedProcess[str]:
    script = entrypoint.script("train.py", COUNTS.format(dies=dies))
    argv = ["--recovery=live", "--nproc-per-node=3", "--grace-period=20", *options, "--", script]
    return entrypoint.run(*argv, env={"HOSTNAME": "host"})


def _starts(output: str) -> dict[str, int]:
    found = re.findall(r"start (host-\d) (\d+)", output)
    return {replica: int(count) for replica, count in found}


@pytest.mark.parametrize("death", ["os.kill(os.getpid(), 9)", "sys.exit(171)"])
def test_a_lost_worker_is_started_again_alone(entrypoint: Entrypoint, death: str) -> None:
    done = _live(entrypoint, f"if replica == 'host-1' and starts < 3: {death}")
    assert done.returncode == 0, done.stderr
    assert _starts(done.stdout) == {"host-0": 1, "host-1": 3, "host-2": 1}
    assert "restart 2 of 10" in done.stderr
    assert "start host-0 1 1\n" in done.stdout  # one replica may train on alone


def test_a_worker_s_own_error_ends_training(entrypoint: Entrypoint) -> None:
    done = _live(entrypoint, "if replica == 'host-1': sys.exit(7)")
    assert done.returncode == 7
    assert done.stderr.splitlines()[-1].endswith(
        "replica host-1 on node 0 (host) failed: exit code 7"
    )


@pytest.mark.parametrize(
    "argv", [("--recovery=live", "--", "train.py"), ("coordinator",)], ids=["live", "coordinator"]
)
def test_a_time_out_that_is_none_is_told_once(
    entrypoint: Entrypoint, argv: tuple[str, ...]
) -> None:
    entrypoint.script("train.py", "print('trained')")
    done = entrypoint.run(*argv, env={"TRAINWRIGHT_QUORUM_TIMEOUT": "15s"})
    assert done.returncode == exit_codes.USAGE
    assert done.stdout == ""
    expected = "TRAINWRIGHT_QUORUM_TIMEOUT is '15s', expected a number of seconds above 0"
    assert done.stderr.count(expected) == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--replica=node", "--replica=process"])
def test_copies_in_memory_are_refused_where_newcomers_take_the_state_of_others(
    entrypoint: Entrypoint, option: str
) -> None:
    copies = {"TRAINWRIGHT_PEER_COPIES_DIR": "/copies", "TRAINWRIGHT_PEER_COPIES_EVERY": "20"}
    script = entrypoint.script("train.py", "print('trained')")
    done = entrypoint.run("--recovery=live", option, "--", script, env=copies)
    assert (done.returncode, done.stdout) == (exit_codes.USAGE, "")
    expected = "TRAINWRIGHT_PEER_COPIES_EVERY is '20', expected 0 with --recovery=live, "
    assert expected in done.stderr


def test_restarts_are_counted(entrypoint: Entrypoint) -> None:
    done = _live(entrypoint, "if replica == 'host-1': os.kill(os.getpid(), 9)", "--max-restarts=1")
    assert done.returncode == 137
    assert _starts(done.stdout)["host-1"] == 2


def test_training_is_over_when_one_worker_is_done(entrypoint: Entrypoint) -> None:
    dies = """
if replica == "host-0":
    pathlib.Path("writing").write_text(str(os.getpid()))
    pathlib.Path("writing").rename("done")
    sys.exit(0)
if replica == "host-2": signal.signal(signal.SIGTERM, signal.SIG_DFL); time.sleep(1000)
while not pathlib.Path("done").exists(): time.sleep(0.05)
process = pathlib.Path("/proc", pathlib.Path("done").read_text())
while process.exists(): time.sleep(0.05)  # until its parent has read its exit code
time.sleep(1)
os.kill(os.getpid(), 9)
"""
    done = _live(entrypoint, dies, "--grace-period=2")
    assert done.returncode == 0, done.stderr
    assert _starts(done.stdout)["host-1"] == 1
    assert "training is over, stopping what has not ended: replica host-2" in done.stderr


@pytest.mark.slow
def test_a_lost_coordinator_comes_back_at_its_port(entrypoint: Entrypoint) -> None:
    pytest.importorskip("torchft")
    port = free_port()
    text = """
import os, pathlib, signal, socket, subprocess, sys, time
host, port = os.environ["TRAINWRIGHT_COORDINATOR"].rsplit(":", 1)
def up():
    try: socket.create_connection((host, int(port)), 1).close()
    except OSError: return False
    return True
def pids():
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try: words = (folder / "cmdline").read_bytes().split(b"\\0")
        except OSError: continue
        if b"coordinator" in words and f"--port={port}".encode() in words: yield int(folder.name)
while not up(): time.sleep(0.05)
(first,) = pids()
os.kill(first, signal.SIGKILL)
while up() or not [pid for pid in pids() if pid != first]: time.sleep(0.05)
while not up(): time.sleep(0.05)
"""
    script = entrypoint.script("train.py", text)
    argv = ["--recovery=live", f"--coordinator-port={port}", "--grace-period=20", "--", script]
    done = entrypoint.run(*argv)
    assert done.returncode == 0, done.stderr
    assert f"coordinator {port} lost (killed by SIGKILL), starting it again" in done.stderr


# --- documentation -------------------------------------------------------------------------------


def exit_code_rows() -> list[str]:
    """The rows of the table of exit codes in docs/runtime.md."""
    return [
        f"| {row.codes} | {'yes' if row.retry else 'no'} | {row.summary} |"
        for row in exit_codes.TABLE
    ]


def test_the_documentation_has_the_exit_codes() -> None:
    assert "\n".join(exit_code_rows()) in (ROOT / "docs/runtime.md").read_text()
