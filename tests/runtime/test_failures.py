"""Ways to fail, by real processes: the first rank, its node, its error, the cause, what to do.

Words of CUDA and NCCL are documented ones: no machine of the tests has a GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from containers import TIMEOUT, Entrypoint, clean_environment, finish

from trainwright_runtime.elastic.errors import CutOff, DiffersFromAll, NoMajority, Slow
from trainwright_runtime.failures import causes, exit_codes, failure
from trainwright_runtime.failures.causes import CAUSES, Evidence, recognise
from trainwright_runtime.failures.failure import Failure, Node, Record
from trainwright_runtime.launch import cgroup
from trainwright_runtime.launch.machine import free_port
from trainwright_runtime.observe.journal import Event, read
from trainwright_runtime.observe.redaction import redact

ROOT = Path(__file__).parents[2]

LOADS = """
import os, signal, sys, torch
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): {item}
if __name__ == "__main__":
    for batch in DataLoader(Data(), num_workers=1): pass
"""
MEETS = """
import datetime, os, torch.distributed as dist
{prepare}
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))  # on a busy machine
dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=2))  # of each collective
"""
MEETS_NO_OTHER = """
import datetime, os, torch.distributed as dist
os.environ.update({environment})
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
"""
MESH = """
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
init_device_mesh("cpu", (4,))
"""

# The cause, a script that meets it, and the exit code that follows.
WAYS = {
    "memory-refused": ("bytearray(1 << 60)", 1),
    "too-many-open-files": (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\n"
        "files = [open('/dev/null') for _ in range(30)]",
        1,
    ),
    "too-many-threads": (
        "import threading; threading.stack_size(1 << 46)\n"  # which the system has no room for
        "threading.Thread(target=print).start()",
        1,
    ),
    "disk-full": ("open('/dev/full', 'w', buffering=1).write('checkpoint\\n')", 1),
    "permission-denied": ("import os; os.setuid(65534); open('/etc/shadow')", 1),
    "port-in-use": (
        "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_server(server.getsockname())",
        1,
    ),
    "name-not-resolved": ("import socket; socket.create_connection(('absent.invalid', 80))", 170),
    "module-missing": ("import absent_module", 1),
    "data-missing": ("open('/data/absent/train.bin')", 1),
    "shm-full": (
        "import mmap, os\nfile = os.open('mapped', os.O_RDWR | os.O_CREAT)\n"
        "os.ftruncate(file, 8192); memory = mmap.mmap(file, 8192)\n"
        "os.ftruncate(file, 0); memory[4096]",
        1,
    ),
}
WAYS_OF_TORCH = {
    "shm-full": (LOADS.format(item="os.kill(os.getpid(), signal.SIGBUS)"), 1),
    "out-of-memory": (LOADS.format(item="os.kill(os.getpid(), signal.SIGKILL)"), 137),
    "memory-refused": ("import torch; torch.zeros(1 << 55)", 1),
    "data-missing": (LOADS.format(item="open('absent.jpg')"), 1),
    "ranks-missing": (MEETS_NO_OTHER.format(environment="WORLD_SIZE='3'"), 170),
    "master-unreachable": (
        MEETS_NO_OTHER.format(
            environment="RANK='1', WORLD_SIZE='2', MASTER_ADDR='127.0.0.1', MASTER_PORT='9'"
        ),
        170,
    ),
    "name-not-resolved": (
        MEETS_NO_OTHER.format(environment="RANK='1', WORLD_SIZE='2', MASTER_ADDR='absent.invalid'"),
        170,
    ),
    "ranks-unset": (
        "import os, torch.distributed as dist\nos.environ.pop('RANK', None)\n"
        "dist.init_process_group('gloo')",
        1,
    ),
    "wrong-world-size": (MESH, 1),
    "port-in-use": (
        "import socket\n"
        + MEETS.format(
            prepare="server = socket.create_server(('', 0))\n"
            "os.environ['MASTER_PORT'] = str(server.getsockname()[1])"
        ),
        1,
    ),
}

# Documented words, with their source.
WORDS = {
    # https://docs.pytorch.org/docs/stable/notes/faq.html
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total "
    "capacity of 79.15 GiB of which 8.25 MiB is free.": "gpu-out-of-memory",
    # https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html (cudaError_t)
    "RuntimeError: CUDA error: out of memory": "gpu-out-of-memory",
    "RuntimeError: CUDA error: uncorrectable ECC error encountered": "gpu-fault",
    "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the "
    "execution": "gpu-fault",
    "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable": "gpu-fault",
    # The runtime's own.
    str(DiffersFromAll(7, ["w1"])): "parameters-differ",
    str(NoMajority(7, ["w0", "w1"])): "parameters-differ",
    str(Slow("step 7: w1 computes for 2 s, and was as slow in 3 comparisons in a row")): (
        "node-left-out"
    ),
    str(CutOff(600)): "node-left-out",
    "RuntimeError: CUDA error: device-side assert triggered": "cuda-error",
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered": "cuda-error",
    "RuntimeError: CUDA error: no kernel image is available for execution on the device": (
        "gpu-missing"
    ),
    "RuntimeError: CUDA error: invalid device ordinal": "gpu-missing",
    "RuntimeError: No CUDA GPUs are available": "gpu-missing",
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).": (
        "gpu-missing"
    ),
    "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED": "cuda-error",
    # https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/types.html (ncclResult_t)
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, invalid usage "
    "(run with NCCL_DEBUG=WARN for details), NCCL version 2.27.5\nncclInvalidUsage: This usually "
    "reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 1 and "
    "rank 0 both on CUDA device 1000": "nccl-misused",
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:1, unhandled system error, "
    "NCCL version 2.27.5\nncclSystemError: System call (e.g. socket, malloc) or external library "
    "call failed or device error.": "nccl-failed",
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:1, remote process exited or "
    "there was a network error\nncclRemoteError: A call failed possibly due to a network error or "
    "a remote process exiting prematurely.": "peer-lost",
    "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled cuda error\n"
    "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
    "Cuda failure 2 'out of memory'": "gpu-out-of-memory",
    # https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html
    "torch.distributed.DistBackendError: NCCL error: unhandled system error\nLast error:\nError "
    "while creating shared memory segment /dev/shm/nccl-6kQgZ (size 9637888)": "shm-full",
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE)"
    " ran for 600009 milliseconds before timing out.": "collective-timeout",
    # https://github.com/ray-project/ray/blob/ray-2.60.0/python/ray/exceptions.py
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.": (
        "ray-lost"
    ),
    "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task. "
    "Check python-core-worker-*.log files for more information.": "ray-lost",
    "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation "
    "task, ray::A.__init__()\n ValueError: boom": None,
    # errno(3), as Python and torch write it
    "OSError: [Errno 30] Read-only file system: '/checkpoint'": "disk-read-only",
    "OSError: [Errno 122] Disk quota exceeded": "disk-full",
    "RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534": (
        "disk-full"
    ),
    "RuntimeError: unable to open shared memory object </torch_9_1_0> in read-write mode: Too many "
    "open files (24)": "too-many-open-files",
    # https://github.com/OpenMathLib/OpenBLAS/blob/develop/driver/others/blas_server.c
    "OpenBLAS blas_thread_init: pthread_create failed for thread 3 of 8: Resource temporarily "
    "unavailable": "too-many-threads",
    # https://docs.python.org/3/library/exceptions.html#KeyError
    "KeyError: 'LOCAL_RANK'": "ranks-unset",
    # What is no cause: an error of the script that mentions such things.
    "ValueError: the world size of the planet": None,
    "KeyError: 'address'": None,
    "ConnectionResetError: [Errno 104] Connection reset by peer": None,
}


def _message(path: Path) -> dict[str, object]:
    found = json.loads(path.read_bytes())
    assert isinstance(found, dict)
    return found


def _fails(
    entrypoint: Entrypoint, text: str, *options: str, env: Mapping[str, str] | None = None
) -> tuple[subprocess.CompletedProcess[str], dict[str, object]]:
    """A run that ends before its time, and its termination message."""
    script = entrypoint.script("train.py", text)
    log = entrypoint.folder / "termination-log"
    known = {"HOSTNAME": "pod-0", "TRAINWRIGHT_TERMINATION_LOG": str(log), **(env or {})}
    done = entrypoint.run("--grace-period=5", *options, "--", script, env=known)
    return done, _message(log)


@pytest.mark.parametrize("recovery", ["restart", "none"])
def test_an_image_without_torch_says_so(recovery: str, entrypoint: Entrypoint) -> None:
    absent = entrypoint.folder / "absent"
    absent.mkdir()
    (absent / "torch.py").write_text(
        "raise ModuleNotFoundError('No module named torch', name='torch')"
    )
    done, reported = _fails(
        entrypoint, "import torch", f"--recovery={recovery}", env={"PYTHONPATH": str(absent)}
    )
    assert done.returncode in (1, 2)
    assert "torch" in str(reported["message"])
    if recovery == "restart":
        assert "--recovery=restart needs torch, which this image does not have" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_hook_of_no_module_shows_the_error(entrypoint: Entrypoint) -> None:
    hook = "def hook(kind, error, trace): print('hooked', error, file=sys.stderr)"
    made = f'import sys; exec("{hook}", space := dict(sys=sys)); sys.excepthook = space["hook"]'
    done, reported = _fails(entrypoint, f"{made}\nraise ValueError('no')")
    assert done.returncode == 1
    assert "hooked no" in done.stderr
    assert reported["error"] == "ValueError: no"
    assert "process.py" not in done.stderr


REFUSED = {
    "requests a process group of all workers": (
        "import torch.distributed as dist; dist.init_process_group('gloo')"
    ),
    "divides records over processes by context_parallel()": (
        "from torch.distributed.tensor.experimental import context_parallel; context_parallel(None)"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("why", REFUSED)
def test_live_recovery_refuses_what_it_would_train_wrongly(
    why: str, entrypoint: Entrypoint
) -> None:
    done, reported = _fails(entrypoint, REFUSED[why], "--recovery=live")
    assert done.returncode == exit_codes.USAGE, done.stderr
    assert why in str(reported["message"]), done.stderr


def _holds(
    done: subprocess.CompletedProcess[str], reported: Mapping[str, object], name: str
) -> None:
    cause = causes.BY_NAME[name]
    last = done.stderr.splitlines()[-1]
    assert reported["cause"] == name, done.stderr
    assert f"(cause: {cause.title}; help: {cause.remedy})" in last
    assert str(reported["message"]) in last
    assert (reported["exitCode"], reported["retry"]) == (done.returncode, done.returncode >= 128)


@pytest.mark.parametrize("name", WAYS)
def test_a_way_to_fail_is_reported_with_rank_cause_and_help(
    entrypoint: Entrypoint, name: str
) -> None:
    text, exit_code = WAYS[name]
    done, reported = _fails(entrypoint, text)
    assert done.returncode == exit_code, done.stderr
    _holds(done, reported, name)
    assert (reported["rank"], reported["node"], reported["host"]) == (0, 0, "pod-0")
    assert "rank 0 on node 0 (pod-0) failed: " in done.stderr


def test_a_node_that_fails_a_check_is_reported_before_any_rank(entrypoint: Entrypoint) -> None:
    done, reported = _fails(entrypoint, "", "--preflight=disk=900Ti")
    assert done.returncode == exit_codes.PREFLIGHT
    _holds(done, reported, "node-unfit")
    assert reported["rank"] is None


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS_OF_TORCH)
def test_a_way_of_torch_to_fail_is_reported(entrypoint: Entrypoint, name: str) -> None:
    text, exit_code = WAYS_OF_TORCH[name]
    done, reported = _fails(entrypoint, text)
    assert done.returncode == exit_code, done.stderr
    _holds(done, reported, name)


@pytest.mark.parametrize(("words", "name"), WORDS.items())
def test_documented_words_are_recognised(words: str, name: str | None) -> None:
    cause = recognise(Evidence(error=words))
    assert (cause.name if cause else None) == name


@pytest.mark.parametrize(
    ("cause", "leaves"),
    [("gpu-fault", True), ("nccl-failed", False), ("peer-lost", False)],
)
def test_a_node_leaves_for_a_cause_of_its_own(cause: str, leaves: bool) -> None:
    """NCCL fails in the same words on a node whose peer was lost."""
    from trainwright_runtime.recovery.restart import _is_node_fault  # which needs torch

    diagnosed = Failure(
        who="rank 1", rank=1, worker="", node=Node(rank=1, name="node-1"), time=0,
        how="exit code 1", error="", own_exit_code=1, cause=causes.BY_NAME[cause],
    )  # fmt: skip
    assert _is_node_fault(diagnosed) is leaves


def test_each_cause_has_an_example() -> None:
    shown = {*WAYS, *WAYS_OF_TORCH, *WORDS.values(), "hang", "node-unfit"}
    assert {cause.name for cause in CAUSES} <= shown


def _mounts() -> bool:
    """Whether a mount namespace of one's own can be had."""
    try:
        probe = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize(
    ("options", "text", "name"),
    [
        ("ro", "open('{folder}/checkpoint', 'w')", "disk-read-only"),
        ("size=8k", "open('{folder}/checkpoint', 'wb').write(bytes(1 << 20))", "disk-full"),
    ],
)
def test_a_real_file_system_that_takes_nothing(
    entrypoint: Entrypoint, options: str, text: str, name: str
) -> None:
    if not _mounts():
        pytest.skip("needs the right to mount (root)")
    folder = entrypoint.folder / "volume"
    folder.mkdir()
    entrypoint.script("train.py", text.format(folder=folder))
    log = entrypoint.folder / "log"
    command = f"""
mount -t tmpfs -o {options} tmpfs {folder}
exec {sys.executable} -m trainwright_runtime -- train.py
"""
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command], cwd=entrypoint.folder, text=True,
        env=clean_environment() | {"TRAINWRIGHT_TERMINATION_LOG": str(log)},
        capture_output=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    _holds(done, _message(log), name)


@pytest.fixture
def memory_group() -> Path:
    """A control group for memory of one's own."""
    own = Path("/proc/self/cgroup").read_text().splitlines()
    for line in own:
        _, controllers, path = line.split(":", 2)
        root = Path("/sys/fs/cgroup", "memory" if controllers else "", path.lstrip("/"))
        if controllers in ("", "memory") and any(root.glob("memory.*")):
            group = root / f"trainwright-{os.getpid()}"
            try:
                group.mkdir()
                limit = next(group.glob("memory.max"), group / "memory.limit_in_bytes")
                limit.write_text(str(100 << 20))
            except OSError:
                continue
            return group
    pytest.skip("needs the right to make a control group (root)")


def test_the_kernel_s_kill_is_told_from_others(entrypoint: Entrypoint, memory_group: Path) -> None:
    script = entrypoint.script(
        "train.py", "rest = []\nwhile True: rest.append(bytearray(10_000_000))"
    )
    log = entrypoint.folder / "log"
    procs = memory_group / "cgroup.procs"
    command = f"echo $$ > {procs}; exec {sys.executable} -m trainwright_runtime -- {script}"
    try:
        done = subprocess.run(
            ["sh", "-c", command], cwd=entrypoint.folder, text=True,
            env=clean_environment() | {"TRAINWRIGHT_TERMINATION_LOG": str(log)},
            capture_output=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    finally:
        memory_group.rmdir()
    assert done.returncode == 137, done.stderr
    _holds(done, _message(log), "out-of-memory")
    assert "rank 0 on node 0" in done.stderr.splitlines()[-1]


def test_a_kill_from_outside_has_no_known_cause(entrypoint: Entrypoint) -> None:
    done, reported = _fails(entrypoint, "import os; os.kill(os.getpid(), 9)")
    assert (done.returncode, reported["cause"]) == (137, "unknown")
    assert done.stderr.splitlines()[-1].endswith(
        "ERROR rank 0 on node 0 (pod-0) failed: killed by SIGKILL"
    )


def test_counters_of_both_versions_of_cgroups(tmp_path: Path) -> None:
    membership = tmp_path / "self"
    membership.write_text("0::/kubepods/pod1\n")
    assert cgroup.oom_kills(tmp_path, membership) == 0
    (tmp_path / "memory.events").write_text("low 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 1\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert cgroup.oom_kills(tmp_path, membership) == 2  # a container sees its own group as the root
    assert cgroup.memory_limit(tmp_path, membership) is None
    (tmp_path / "kubepods/pod1").mkdir(parents=True)
    (tmp_path / "kubepods/pod1/memory.events").write_text("oom_kill 5\n")
    (tmp_path / "kubepods/pod1/memory.max").write_text("1073741824\n")
    assert cgroup.oom_kills(tmp_path, membership) == 5
    assert cgroup.memory_limit(tmp_path, membership) == 1 << 30
    one = tmp_path / "one"
    (one / "memory").mkdir(parents=True)
    (one / "memory/memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")
    membership.write_text("9:cpu:/\n4:memory:/kubepods/pod1\n")
    assert cgroup.oom_kills(one, membership) == 4


# --- which rank, and which line ------------------------------------------------------------------


def test_of_two_errors_the_earlier_is_reported_whichever_process_ends_first(
    entrypoint: Entrypoint,
) -> None:
    # Rank 1 fails first and takes long to end; rank 0 fails after it and is gone at once.
    text = """
import atexit, os, pathlib, time
if os.environ["RANK"] == "1":
    atexit.register(time.sleep, 1)
    atexit.register(pathlib.Path("noted").touch)  # at the end: the error is noted by then
    raise ValueError("first")
while not os.path.exists("noted"): time.sleep(0.001)
raise KeyError("second")
"""
    done, reported = _fails(entrypoint, text, "--nproc-per-node=2")
    assert (reported["rank"], reported["error"]) == (1, "ValueError: first"), done.stderr


def test_of_two_errors_ten_milliseconds_apart_the_first_is_reported(
    entrypoint: Entrypoint,
) -> None:
    text = """
import atexit, os, pathlib, time
rank = int(os.environ["RANK"])
pathlib.Path(f"ready-{rank}").touch()
while not all(os.path.exists(f"ready-{n}") for n in range(3)): time.sleep(0.001)
if rank == 2:
    atexit.register(pathlib.Path("noted").touch)  # at the end: the error is noted by then
else:
    while not os.path.exists("noted"): time.sleep(0.001)
    time.sleep(0.01)
raise ValueError(f"of rank {rank}")
"""
    done, reported = _fails(entrypoint, text, "--nproc-per-node=3")
    assert (reported["rank"], reported["error"]) == (2, "ValueError: of rank 2"), done.stderr


@pytest.mark.parametrize(("number", "name"), [(11, "Segmentation fault"), (7, "Bus error")])
def test_a_crash_is_told_by_its_place_and_not_by_the_modules_that_were_loaded(
    entrypoint: Entrypoint, number: int, name: str
) -> None:
    text = f"""
import threading, time
for _ in range(80): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
def crash():
    import ctypes, os
    os.kill(os.getpid(), {number})
crash()
"""
    _, reported = _fails(entrypoint, text)
    assert reported["error"] == f"Fatal Python error: {name}, at train.py:6 in crash"


@pytest.mark.slow
def test_a_hang_names_who_hangs_and_where(entrypoint: Entrypoint) -> None:
    text = MEETS.format(prepare="import time, torch") + (
        "def load():\n"
        "    while True: time.sleep(0.1)\n"
        "if dist.get_rank() == 1: load()\n"
        "dist.all_reduce(torch.ones(1))\n"
    )
    done, reported = _fails(entrypoint, text, "--nproc-per-node=3")
    assert done.returncode == exit_codes.PEER_LOST
    assert (reported["rank"], reported["cause"], reported["follows"]) == (1, "hang", False), (
        done.stderr
    )
    assert "failed: at train.py:7 in load, while rank " in str(reported["message"])


@pytest.mark.slow
def test_a_stopped_rank_is_named_as_well(entrypoint: Entrypoint) -> None:
    text = MEETS.format(prepare="import signal, torch") + (
        "if dist.get_rank() == 1: os.kill(os.getpid(), signal.SIGSTOP)\n"
        "dist.all_reduce(torch.ones(1))\n"
    )
    _, reported = _fails(entrypoint, text, "--nproc-per-node=2")
    assert (reported["rank"], reported["cause"]) == (1, "hang")
    assert "stopped by a signal (state T)" in str(reported["message"])


HANGS_IN_A_NODE = """
import os, time
from pathlib import Path
loading = Path("loading-" + os.environ["TORCHELASTIC_RESTART_COUNT"])
def load():
    loading.touch()
    while True: time.sleep(0.1)
if os.environ["LOCAL_RANK"] == "1": load()
while not loading.exists(): time.sleep(0.01)
os._exit({code})
"""


@pytest.mark.slow
def test_who_hangs_in_a_node_that_is_a_replica_is_named_before_it_is_killed(
    entrypoint: Entrypoint,
) -> None:
    """What the watchdog ends is the process that speaks for the node, whichever of them hangs."""
    text = HANGS_IN_A_NODE.format(code=exit_codes.STALLED)
    argv = ("--recovery=live", "--replica=node", "--nproc-per-node=2", "--max-restarts=1")
    done, reported = _fails(entrypoint, text, *argv)
    assert done.returncode == reported["exitCode"] == exit_codes.STALLED
    assert reported["cause"] == "hang"
    where = "at train.py:7 in load, while replica pod-0-0 waited for it"
    assert f"replica pod-0-1 on node 0 (pod-0) failed: {where} (cause" in str(reported["message"])
    assert f"replica pod-0-1 lost ({where}" in done.stderr


@pytest.mark.slow
def test_nodes_tell_the_cause_from_what_followed(entrypoint: Entrypoint) -> None:
    text = MEETS.format(prepare="import torch") + (
        "if dist.get_rank() == 1: raise ValueError('boom')\ndist.all_reduce(torch.ones(1))\n"
    )
    script = entrypoint.script("train.py", text)
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    logs = [entrypoint.folder / f"log-{rank}" for rank in range(2)]
    nodes = [
        entrypoint.start(
            "--", script,
            env={**job, "RANK": str(rank), "TRAINWRIGHT_TERMINATION_LOG": str(logs[rank])},
        )
        for rank in range(2)
    ]  # fmt: skip
    for node in nodes:
        finish(node)
    zero, one = (_message(log) for log in logs)
    assert (zero["cause"], zero["follows"], zero["node"]) == ("peer-lost", True, 0)
    assert (one["cause"], one["follows"], one["node"]) == ("unknown", False, 1)
    assert one["error"] == "ValueError: boom"


def _raised(code: str) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the code raises
        exec(code, {})
    return caught.value


def test_the_cause_may_be_what_an_error_was_raised_from() -> None:
    code = """
try: raise OSError(28, "No space left on device")
except OSError as error: raise RuntimeError("cannot save") from error
"""
    cause = failure.cause_of(_raised(code))
    assert cause is not None
    assert cause.name == "disk-full"


def test_what_was_handled_before_is_not_the_cause() -> None:
    code = """
try: open("/absent/checkpoint")
except FileNotFoundError: raise ValueError("a shape does not fit")
"""
    assert failure.cause_of(_raised(code)) is None


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: ValueError("boom"), "ValueError: boom"),
        (ValueError, "ValueError"),
        (lambda: ValueError("a\nb"), "ValueError: a"),
        (lambda: ExceptionGroup("g", [ExceptionGroup("h", [KeyError("x")])]), "KeyError: 'x'"),
        (
            lambda: RuntimeError("bad shape\nException raised from f at x.cpp:1\nframe #0: g"),
            "RuntimeError: bad shape",
        ),
        (
            lambda: RuntimeError(
                "Caught KeyError in DataLoader worker process 0.\nOriginal Traceback (most recent "
                "call last):\n  File 'a.py', line 1\nKeyError: 'label'\n"
            ),
            "KeyError: 'label'",
        ),
        (lambda: SyntaxError("invalid", ("a.py", 1, 1, "x x", 1, 2)), "SyntaxError: invalid"),
    ],
)
def test_the_line_of_an_error(make: Callable[[], BaseException], line: str) -> None:
    assert failure.error_line(make()) == line


# --- the termination message ---------------------------------------------------------------------


def test_mistakes_before_any_rank_are_left_for_kubernetes_too(entrypoint: Entrypoint) -> None:
    log = entrypoint.folder / "log"
    env = {"TRAINWRIGHT_TERMINATION_LOG": str(log), "RANK": "0", "WORLD_SIZE": "3"}
    entrypoint.script("train.py", "")
    done = entrypoint.run("--nproc-per-node=2", "--", "train.py", env=env | {"MASTER_ADDR": "a"})
    assert done.returncode == 2
    reported = _message(log)
    assert (reported["rank"], reported["exitCode"], reported["retry"]) == (None, 2, False)
    assert str(reported["message"]) in done.stderr


def test_a_training_that_ended_well_leaves_no_message_of_an_earlier_attempt(
    entrypoint: Entrypoint,
) -> None:
    script = entrypoint.script("train.py", "pass")
    log = entrypoint.folder / "log"
    log.write_text(json.dumps({"message": "rank 1 failed", "exitCode": 1}))
    done = entrypoint.run("--", script, env={"TRAINWRIGHT_TERMINATION_LOG": str(log)})
    assert (done.returncode, log.read_bytes()) == (0, b"")


@pytest.mark.parametrize(
    "text",
    ["42", '"x"', "[1]", "null", '{"loss": 1}', '{"exitCode": 3}', "loss 1", "", "[" * 100_000],
)
def test_what_a_program_has_left_as_its_message_stays(text: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    failure.clear_message(0, {"TRAINWRIGHT_TERMINATION_LOG": str(log)})
    assert log.read_text() == text


def test_only_the_report_of_another_end_is_cleared(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environ = {"TRAINWRIGHT_TERMINATION_LOG": str(log)}
    error = _failure("no space")
    log.write_bytes(failure.message(error))
    failure.clear_message(error.exit_code, environ)
    assert log.read_bytes() == failure.message(error)
    failure.clear_message(0, environ)
    assert log.read_bytes() == b""


def test_a_message_that_cannot_be_written_changes_nothing(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", "raise SystemExit(9)")
    done = entrypoint.run("--", script, env={"TRAINWRIGHT_TERMINATION_LOG": "/absent/log"})
    assert done.returncode == 9
    assert "Traceback" not in done.stderr


def test_an_error_with_a_name_that_is_no_text_is_reported(entrypoint: Entrypoint) -> None:
    """As of a file whose name is not UTF-8, which Python reads with surrogates in it."""
    done, reported = _fails(
        entrypoint, "import os; raise ValueError('no ' + os.fsdecode(b'caf\\xe9'))"
    )
    assert done.returncode == reported["exitCode"] == 1
    assert reported["error"] == "ValueError: no caf\udce9"
    assert "entrypoint.py" not in done.stderr
    assert "UnicodeEncodeError" not in done.stderr


def _failure(error: str) -> Failure:
    return Failure(
        who="rank 0", rank=0, worker="rank-0", node=Node(rank=0, name="pod-0"), time=1.7e9,
        how="exit code 1", error=error, own_exit_code=1, cause=causes.BY_NAME["disk-full"],
    )  # fmt: skip


@pytest.mark.parametrize(
    "error", ["x" * 100_000, '"\\\x00' * 3000, "\u20ac" * 5000, "\udc80" * 5000, ""]
)
def test_the_message_fits_whatever_the_error(error: str) -> None:
    text = failure.message(_failure(error))
    assert len(text) <= 4096
    assert json.loads(text)["cause"] == "disk-full"


@pytest.mark.parametrize("error", ["x" * 100_000, "\x00" * 5000, "\u20ac" * 5000])
def test_a_record_fits_a_pipe_whatever_the_error(error: str) -> None:
    line = Record(at=1.0, error=error, exit_code=1).encode()
    assert len(line) <= 4096
    found = Record.decode(line)
    assert found is not None
    assert error.startswith(found.error)


SECRETS = {"HF_TOKEN": "hunter2hunter2", "WANDB_API_KEY": "0123456789abcdef", "DATA": "/data/set"}


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("401 for hunter2hunter2", "hunter2hunter2"),
        ("key 0123456789abcdef is wrong", "0123456789abcdef"),
        ("https://me:pa55word@example.com/x", "pa55word"),
        ("https://b.example.com/x?X-Amz-Signature=abcdef123&y=1", "abcdef123"),
        ("Authorization: Bearer abc.def-ghi", "abc.def-ghi"),
        ("{'api_key': 'sesame-street'}", "sesame-street"),
        ("token hf_abcdefghijklmnop is expired", "hf_abcdefghijklmnop"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("password=correct-horse", "correct-horse"),
    ],
)
def test_no_secret_is_left(text: str, secret: str) -> None:
    assert secret not in redact(text, SECRETS)


def test_what_is_not_secret_stays() -> None:
    text = "FileNotFoundError: [Errno 2] No such file or directory: '/data/set/train.bin'"
    assert redact(text, SECRETS) == text
    assert redact("KeyError: 'tokens'", SECRETS) == "KeyError: 'tokens'"


def test_a_secret_of_the_environment_is_in_no_message(entrypoint: Entrypoint) -> None:
    done, reported = _fails(
        entrypoint,
        "import os; raise ValueError('refused: ' + os.environ['HF_TOKEN'])",
        env=SECRETS | {"TRAINWRIGHT_METRICS_DIR": str(entrypoint.folder)},
    )
    assert reported["error"] == "ValueError: refused: [redacted]"
    assert "hunter2" not in done.stderr.splitlines()[-1]
    assert "hunter2" not in (entrypoint.folder / "rank-0.jsonl").read_text()


# --- metrics, stacks -----------------------------------------------------------------------------


def test_the_metrics_file_of_the_rank_has_the_failure(entrypoint: Entrypoint) -> None:
    _fails(
        entrypoint,
        "import os\nif os.environ['RANK'] == '1': open('/absent')\nimport time; time.sleep(60)",
        "--nproc-per-node=2",
        env={"TRAINWRIGHT_METRICS_DIR": str(entrypoint.folder)},
    )
    (event,) = read(entrypoint.folder / "rank-1.jsonl")
    assert isinstance(event, Event)
    assert (event.name, event.fields["cause"]) == ("failure", "data-missing")
    assert not (entrypoint.folder / "rank-0.jsonl").exists()


def test_the_metrics_file_of_a_replaced_worker_has_each_of_its_ends(entrypoint: Entrypoint) -> None:
    """Training goes on without it, so that nothing else records that it was lost."""
    program = """
import os, signal, sys
from trainwright_runtime.metrics import Metrics
with Metrics.from_environment():
    if not os.path.exists("again"):
        print("all is well", file=sys.stderr, flush=True)
        open("again", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
"""
    done = entrypoint.run(
        "--recovery=live", "--", entrypoint.script("train.py", program),
        env={"TRAINWRIGHT_METRICS_DIR": str(entrypoint.folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = entrypoint.folder.glob("*.jsonl")
    events = [event for event in read(path) if isinstance(event, Event)]
    assert [event.name for event in events] == ["start", "failure", "restart", "end"]
    assert events[1].fields["error"] == "killed by SIGKILL"
    assert events[1].fields["exit_code"] == 137


def test_under_another_agent_the_training_process_reports_itself(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", "open('/absent')")
    log = entrypoint.folder / "log"
    log.touch()
    five = {
        "RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500", "TRAINWRIGHT_TERMINATION_LOG": str(log),
    }  # fmt: skip
    done = entrypoint.run("--", script, env=five)
    assert done.returncode == 1
    reported = _message(log)
    assert (reported["rank"], reported["cause"]) == (1, "data-missing")
    assert str(reported["message"]) in done.stderr


@pytest.mark.slow
def test_torchrun_s_summary_has_the_error(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", "import torch; raise ValueError('boom')")
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=1",
            "-m", "trainwright_runtime", "--backend=gloo", "--", script,
        ],
        cwd=entrypoint.folder, env=clean_environment() | {"OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    summary = done.stderr.partition("Root Cause")[2]
    assert "ValueError: boom" in summary, done.stderr
    assert "<N/A>" not in summary


# --- documentation -------------------------------------------------------------------------------


def cause_rows() -> list[str]:
    """The rows of the table of causes in docs/failures.md."""
    return [
        f"| `{cause.name}` | {cause.title} | {cause.signs} | "
        f"{'yes' if cause.retry else 'no'} | {cause.remedy} |"
        for cause in causes.BY_NAME.values()
    ]


def test_the_documentation_has_the_causes() -> None:
    assert "\n".join(cause_rows()) in (ROOT / "docs/failures.md").read_text()
