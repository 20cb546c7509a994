"""Why training fails, as data: how each cause is recognised, whether a retry helps, what to do.

The texts to match are those of their sources: torch (c10d, DataLoader, allocators), NCCL's
ncclResult_t, CUDA's cudaError_t, gloo and the C library. The first row that fits decides, so the
more specific ones come first. docs/failures.md is written from this table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from trainwright_runtime.failures import exit_codes


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known about how a process ended."""

    error: str = ""  # its exception as "Type: message", or what it printed last
    signal: int | None = None  # that ended it
    oom_killed: bool = False  # the kernel ended a process of this container for want of memory


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One row of the table: how a cause of failure is recognised, and what follows from it."""

    name: str  # in the termination message and in metrics
    title: str
    remedy: str
    signs: str  # for the documentation
    pattern: str = ""  # a regular expression, searched in the error
    applies: Callable[[Evidence], bool] | None = None  # where the text alone does not decide
    exit_code: int | None = exit_codes.FAILED  # None: the process's own
    follows: bool = False  # from the failure of another rank

    @property
    def retry(self) -> bool:
        """Whether the same run can succeed when it is started again."""
        return self.exit_code is None or self.exit_code >= exit_codes.RETRY

    @cached_property
    def _search(self) -> Callable[[str], object]:
        return re.compile(self.pattern).search

    def explains(self, evidence: Evidence) -> bool:
        """Whether the evidence shows this cause."""
        if self.applies is not None and self.applies(evidence):
            return True
        return bool(self.pattern and self._search(evidence.error))


_KILL, _BUS = 9, 7  # signal.SIGBUS has this number on Linux alone, which containers run

_LOST_CHILD = re.compile(
    r"DataLoader worker|BrokenProcessPool|terminated abruptly|killed by signal|died with <Signals"
)


def _out_of_memory(evidence: Evidence) -> bool:
    if not evidence.oom_killed:
        return False
    return evidence.signal == _KILL or bool(_LOST_CHILD.search(evidence.error))


CAUSES = (
    Cause(
        name="node-unfit",
        title="this node failed a check before training",
        signs="the entrypoint's `preflight: …`",
        pattern=r"NodeUnfit: preflight: ",
        exit_code=exit_codes.PREFLIGHT,
        remedy="the pod is made anew and may be scheduled to another node; where all nodes fail "
        "the same check, the job requests more than there is",
    ),
    Cause(
        name="out-of-memory",
        title="out of memory",
        signs="SIGKILL while the container's cgroup counts an `oom_kill`, of a rank or of one of "
        "its DataLoader workers",
        applies=_out_of_memory,
        pattern=r"DataLoader worker \(pid.{0,300}\) is killed by signal: Killed",
        exit_code=exit_codes.by_signal(_KILL),
        remedy="raise the memory limit, or use fewer DataLoader workers and smaller batches",
    ),
    Cause(
        name="gpu-out-of-memory",
        title="GPU out of memory",
        signs="`CUDA out of memory`, `torch.OutOfMemoryError`, `CUBLAS_STATUS_ALLOC_FAILED`",
        pattern=r"(?i)\b(CUDA|HIP|XPU) (error: )?out of memory|torch\S{0,60}\.OutOfMemoryError"
        r"|CUBLAS_STATUS_ALLOC_FAILED|Cuda failure (\d+ )?'out of memory'"
        r"|cudaErrorMemoryAllocation",
        remedy="use smaller batches, gradient accumulation, activation checkpointing or FSDP, or "
        "a GPU with more memory",
    ),
    Cause(
        name="too-many-open-files",
        title="too many open files",
        signs="`Too many open files` (EMFILE), `received 0 items of ancdata`",
        pattern=r"Too many open files|received 0 items of ancdata",
        remedy="raise `ulimit -n`, or call "
        'torch.multiprocessing.set_sharing_strategy("file_system") in the script',
    ),
    Cause(
        name="too-many-threads",
        title="too many processes and threads",
        signs="Python's `can't start new thread`, `pthread_create failed` of OpenBLAS, `Thread "
        "creation failed` of OpenMP",
        # https://github.com/python/cpython/blob/main/Modules/_threadmodule.c
        # https://github.com/OpenMathLib/OpenBLAS/blob/develop/driver/others/blas_server.c
        pattern=r"can't start new thread|pthread_create (failed|returned)|Thread creation failed",
        remedy="a pod may have as many as the kubelet's podPidsLimit: use fewer DataLoader "
        "workers, set OMP_NUM_THREADS, or have the limit raised",
    ),
    Cause(
        name="shm-full",
        title="/dev/shm is full",  # noqa: S108 - it is only named
        signs="torch's and NCCL's words about shared memory, or SIGBUS",
        applies=lambda evidence: evidence.signal == _BUS,
        pattern=r"shared memory ?\(shm\)|shared memory object|out of shared memory"
        r"|is killed by signal: Bus error|shared memory segment|/dev/shm.{0,120}No space left"
        r"|No space left.{0,300}/dev/shm"
        r"|(file|from file) </?torch_\d+.{0,300}(No space|Cannot allocate)",
        remedy="raise `shm` in the job, which counts towards the memory limit, or use fewer "
        "DataLoader workers",
    ),
    Cause(
        name="memory-refused",
        title="memory was refused",
        signs="`MemoryError`, `std::bad_alloc`, `DefaultCPUAllocator: can't allocate memory`",
        pattern=r"MemoryError|std::bad_alloc|can't allocate memory|Cannot allocate memory",
        remedy="the size in the message is more than this container may have: look for a shape "
        "that is wrong, or raise the memory limit",
    ),
    Cause(
        name="disk-full",
        title="no space left on the disk",
        signs="ENOSPC, EDQUOT, and torch's zip writer: `failed writing file`, `unexpected pos`",
        pattern=r"No space left on device|Disk quota exceeded|\[Errno (28|122)\]|StorageFull"
        r"|file write failed|failed writing file|unexpected pos \d+ vs \d+",
        remedy="enlarge the volume, keep fewer checkpoints, or delete what is not needed",
    ),
    Cause(
        name="disk-read-only",
        title="the file system is read-only",
        signs="EROFS: `Read-only file system`",
        pattern=r"Read-only file system|\[Errno 30\]",
        remedy="write below a volume that is mounted without readOnly; the root file system of a "
        "restricted pod is read-only",
    ),
    Cause(
        name="permission-denied",
        title="permission denied",
        signs="EACCES and EPERM",
        pattern=r"PermissionError|Permission denied|Operation not permitted",
        remedy="the container's user must own the path: set fsGroup, or write elsewhere",
    ),
    Cause(
        name="port-in-use",
        title="the port is in use",
        signs="EADDRINUSE, of torch's store (`MASTER_PORT`) or of a server of the script",
        pattern=r"EADDRINUSE|[Aa]ddress already in use",
        remedy="end what listens there, or choose another port; on the host's network two pods "
        "of a node share their ports",
    ),
    Cause(
        name="name-not-resolved",
        title="a name does not resolve",
        signs="`Name or service not known` and its kin, and torch's `gai error`",
        pattern=r"Name or service not known|[Nn]ame resolution|does not resolve|gaierror|gai error"
        r"|No address associated with hostname|nodename nor servname|cannot be resolved"
        r"|Could not resolve host|NameResolutionError",
        exit_code=exit_codes.UNREACHABLE,
        remedy="look whether the pod of that name runs and is ready, and whether its Service and "
        "the DNS policy are right",
    ),
    Cause(
        name="ranks-missing",
        title="ranks are missing, or the world size is wrong",
        signs="torch's store: `2/3 clients joined`",
        pattern=r"waiting for clients\. \d+/\d+ clients joined",
        exit_code=exit_codes.UNREACHABLE,
        remedy="look for a pod that did not start; where all run, WORLD_SIZE is not nodes times "
        "processes per node",
    ),
    Cause(
        name="ranks-unset",
        title="there are no ranks",
        signs="torch's `environment variable RANK expected, but not set`, and a program's "
        "`KeyError: 'LOCAL_RANK'`",
        pattern=r"environment variable (RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected"
        r"|KeyError: '((LOCAL_)?RANK|(LOCAL_)?WORLD_SIZE|MASTER_ADDR|MASTER_PORT)'",
        remedy="the processes of --recovery=live have no ranks and no process group: use "
        "--recovery=restart for FSDP, HSDP and other programs with a process group of their own, "
        "or take the loop from trainwright_runtime.elastic, with --replica=node for FSDP2 over the "
        "processes of a node",
    ),
    Cause(
        name="wrong-world-size",
        title="the world size is wrong",
        signs="a mesh or group larger than the world, variables that contradict each other",
        pattern=r"default world size \d+, but found"
        r"|[Ww]orld[ _]size .{0,300}(divisible|must not exceed|must be|does not match)"
        r"|\bWORLD_SIZE (is|must)|Rank -?\d+ is out of range|rank must be less than"
        r"|not divisible by .{0,300}world[ _]size",
        remedy="compare nodes times processes per node with WORLD_SIZE and with what the script "
        "passes to init_process_group and init_device_mesh",
    ),
    Cause(
        name="master-unreachable",
        title="the master does not answer",
        signs="torch's `client socket has timed out`, the entrypoint's `did not appear within`",
        pattern=r"client socket has (timed out|failed)|TCP client failed to connect"
        r"|did not appear within|could not meet at",
        exit_code=exit_codes.UNREACHABLE,
        remedy="look at the pod of rank 0: does it run, and does a NetworkPolicy or a mesh stand "
        "between? An address of the script's own (tcp://...) must be MASTER_ADDR:MASTER_PORT",
    ),
    Cause(
        name="nccl-misused",
        title="NCCL was called wrongly",
        signs="`ncclInvalidUsage`, `ncclInvalidArgument`, `Duplicate GPU detected`",
        pattern=r"ncclInvalid(Usage|Argument)|Duplicate GPU detected",
        remedy="give each process a GPU of its own: processes per node at most its GPUs, and "
        "torch.cuda.set_device(LOCAL_RANK) before the first collective",
    ),
    Cause(
        name="gpu-fault",
        title="the GPU failed",
        signs="errors of CUDA that name the hardware: ECC, NVLink, `device … unavailable`, "
        "`fallen off the bus`",
        pattern=r"(?i)uncorrectable (ECC|NVLink) error|hardware (stack )?error|GPU is lost"
        r"|fallen off the bus|device\(s\) is/are busy or unavailable"
        r"|CUDA error: (unknown error|system not yet initialized)",
        exit_code=exit_codes.NODE_FAULT,
        remedy="another node helps: cordon this one and look for Xid lines in its kernel log",
    ),
    Cause(
        name="parameters-differ",
        title="workers hold different parameters after the same steps",
        signs="`TRAINWRIGHT_COMPARE_EVERY` found that parameters of a worker `are not those of the "
        "other workers after the same updates`, or `differ after the same updates`",
        pattern="(are not those of the other workers|differ) after the same updates",
        exit_code=None,
        remedy="where one node is named again, cordon it and test its processor, GPUs and memory; "
        "where all are, the program changes parameters outside of updates",
    ),
    Cause(
        name="node-left-out",
        title="the others went on without this node",
        signs="`TRAINWRIGHT_REPLACE_SLOW`: a worker `was as slow in 3 comparisons in a row: it "
        "leaves`; or steps went on without one that others `cannot connect` with",
        pattern=r"comparisons in a row: it leaves|it and others cannot connect: it leaves",
        exit_code=exit_codes.NODE_FAULT,
        remedy="where its replacement gets the same node, cordon that: look at its clocks, "
        "temperatures and other load, or at its network",
    ),
    Cause(
        name="gpu-missing",
        title="no usable GPU",
        signs="`No CUDA GPUs are available`, a driver older than the CUDA of the image, "
        "`no kernel image is available`",
        pattern=r"No CUDA GPUs are available|no CUDA-capable device|Found no NVIDIA driver"
        r"|driver version is insufficient|NVIDIA driver on your system is too old"
        r"|forward compatibility was attempted|no kernel image is available"
        r"|Torch not compiled with CUDA|invalid device ordinal",
        remedy="request GPUs in the job, for at least as many as processes per node, and take an "
        "image whose CUDA and torch suit the driver and the GPU",
    ),
    Cause(
        name="peer-lost",
        title="another rank was lost",
        signs="`ncclRemoteError`, `Connection closed by peer` of gloo or NCCL, any other "
        "`DistError`",
        pattern=r"ncclRemoteError|remote process exiting|closed by remote peer"
        r"|/gloo/transport/(?!.{0,120}Timed out waiting)|Gloo connectFullMesh failed",
        exit_code=exit_codes.PEER_LOST,
        follows=True,
        remedy="the rank that failed first reports the cause: see its node's log",
    ),
    Cause(
        name="ray-lost",
        title="a node or a process of Ray was lost",
        signs="Ray's `NodeDiedError`, `WorkerCrashedError`, `The actor died unexpectedly`",
        pattern=r"NodeDiedError|WorkerCrashedError|LocalRayletDiedError|OwnerDiedError"
        r"|ActorUnavailableError|actor died unexpectedly before finishing",
        exit_code=exit_codes.PEER_LOST,
        remedy="the log of its node shows why it ended: mostly for want of memory, a limit "
        "of the pod or a task of too many at once",
    ),
    Cause(
        name="collective-timeout",
        title="another rank did not take part in a collective",
        signs="gloo's `Timed out waiting`, NCCL's `Watchdog caught collective operation timeout`, "
        "the store's `wait timeout`",
        pattern=r"Timed out waiting \d+ms for (recv|send)|[Ww]atchdog caught collective"
        r"|wait timeout after \d+ ?ms|waitForInput: .{0,300}timed out|collective operation timeout",
        exit_code=exit_codes.PEER_LOST,
        follows=True,
        remedy="a rank hangs, or runs other collectives than its peers: the stacks in the log "
        "show where each of them was",
    ),
    Cause(
        name="nccl-failed",
        title="NCCL failed",
        signs="`ncclSystemError`, `ncclUnhandledCudaError`, `ncclInternalError`",
        pattern=r"nccl(System|UnhandledCuda|Internal)Error|NCCL error|NCCL Error"
        r"|unhandled (system|cuda) error",
        exit_code=exit_codes.NODE_FAULT,
        remedy="set NCCL_DEBUG=INFO and read NCCL's last lines: a wrong NCCL_SOCKET_IFNAME, a "
        "full /dev/shm or a broken link are the usual reasons",
    ),
    Cause(
        name="cuda-error",
        title="a CUDA kernel failed",
        signs="`CUDA error: …`, `device-side assert triggered`, cuBLAS and cuDNN statuses",
        pattern=r"CUDA error|device-side assert|CUBLAS_STATUS|CUDNN_STATUS|cuDNN error"
        r"|Cuda failure",
        remedy="run once with CUDA_LAUNCH_BLOCKING=1: the traceback then shows the call; an index "
        "out of range is the usual reason",
    ),
    Cause(
        name="module-missing",
        title="a module is missing",
        signs="`ModuleNotFoundError`, `cannot import name`, a shared library that is not there",
        pattern=r"ModuleNotFoundError|No module named|no module named|cannot import name"
        r"|cannot open shared object file",
        remedy="install it in the image, or set PYTHONPATH to where it is",
    ),
    Cause(
        name="data-missing",
        title="a file is missing",
        signs="`FileNotFoundError`, Hugging Face's `…NotFoundError`, a script that is not there",
        pattern=r"FileNotFoundError|No such file or directory|(Dataset|Repository|Entry|Revision)"
        r"NotFoundError|is not there \(looked in|open file failed.{0,300}No such",
        remedy="look whether the volume is mounted at that path and holds it; paths are relative "
        "to the working directory",
    ),
)

HANG = Cause(
    name="hang",
    title="it hangs",
    signs="the other ranks of its node ran into the time-out of a collective, this one is not "
    "in any",
    exit_code=None,  # of the rank that waited for it
    remedy="its stack is in the log: look there for a wait of its own, for data or for storage",
)

BY_NAME = {cause.name: cause for cause in (*CAUSES, HANG)}


def recognise(evidence: Evidence) -> Cause | None:
    """Return the cause, or None if it is unknown."""
    return next((cause for cause in CAUSES if cause.explains(evidence)), None)
