"""Settings of libraries and devices that contradict what a pod has, or each other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache

from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count, read
from trainwright.datatypes.tolerant import dig, sequence, text
from trainwright.pods.launching import options, torchruns
from trainwright.pods.storage import Setting, arguments, variables, written
from trainwright.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules.resources import is_rdma

_VISIBLE = (
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
)
_NO_DEVICES = frozenset({"", "-1", "none", "void", "NoDevFiles"})


@warning("TW757", about=("VISIBLE_DEVICES",), spec=Pointer("/env"), per_pod=True)
def visible_devices_contradict_gpus(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains:
            gpus = sum(container.accelerators.values())
            unknown = template.partial and not gpus
            if unknown or sequence(dig(container.body, "resources", "claims")):
                continue
            for index, entry in enumerate(container.env):
                name = text(entry.get("name"))
                if name in _VISIBLE and "valueFrom" not in entry:
                    why = _contradiction(text(entry.get("value")), gpus)
                    if why:
                        at = f"{container.pointer}/env/{index}"
                        yield Hit(at, f"{name} {why}", Pointer.of("env", name))
            for option in arguments(container):
                if option.shown in _VISIBLE and (why := _contradiction(option.value, gpus)):
                    yield Hit(container.pointer, f"{option.shown} {why}")


def _contradiction(value: str, gpus: int) -> str:
    """What a list of visible devices says against a number of GPUs."""
    if "$" in value:
        return ""
    if value in _NO_DEVICES:
        return f"shows none of {gpus} GPUs" if gpus else ""
    if value == "all":
        return "is all: the pod sees every GPU of its node, whatever it asks for"
    devices = value.split(",")
    numbers = [int(device) for device in devices if device.isdigit()]
    if len(devices) != gpus:
        return f"names {len(devices)} devices, and the pod asks for {gpus} GPUs"
    if numbers and max(numbers) >= gpus:
        return f"names device {max(numbers)}, and the pod has those from 0 to {gpus - 1}"
    return ""


@warning("TW758", spec=Pointer("/security"), per_pod=True)
def rdma_without_locked_memory(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains:
            added = {text(one) for one in sequence(dig(container.security, "capabilities", "add"))}
            allowed = container.security.get("privileged") is True or added & {"IPC_LOCK", "ALL"}
            resource = next((name for name in container.extended if is_rdma(name)), "")
            if resource and not allowed and not template.partial:
                message = f"{resource} is asked for, without the capability IPC_LOCK"
                yield Hit(container.pointer, message)


_EFA = "vpc.amazonaws.com/efa"


@warning("TW759", about=(_EFA,), spec=Pointer("/resources"), per_pod=True)
def efa_without_huge_pages(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains:
            paged = any(
                name.startswith("hugepages-") for name in (*container.limits, *container.requests)
            )
            off = container.variables.get("FI_EFA_USE_HUGE_PAGE") == "0"
            other = any("neuron" in name for name in container.extended)
            if _EFA in container.extended and not (paged or off or other or template.partial):
                yield Hit(
                    f"{container.pointer}/resources", f"{_EFA} is requested without huge pages"
                )


# https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html and
# https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html
_KNOWN = frozenset(
    """
    NCCL_ALGO NCCL_ALLOC_P2P_NET_LL_BUFFERS NCCL_ASYNC_ERROR_HANDLING NCCL_BLOCKING_WAIT
    NCCL_BUFFSIZE NCCL_CHECKS_DISABLE NCCL_CHECK_POINTERS NCCL_COLLNET_ENABLE
    NCCL_COLLNET_NODE_THRESHOLD NCCL_COLL_BACKEND NCCL_COMM_BLOCKING NCCL_COMM_ID NCCL_CONF_FILE
    NCCL_CROSS_NIC NCCL_CTA_POLICY NCCL_CUMEM_ENABLE NCCL_CUMEM_HOST_ENABLE NCCL_DEBUG
    NCCL_DEBUG_FILE NCCL_DEBUG_SUBSYS NCCL_DEBUG_TIMESTAMP_FORMAT NCCL_DEBUG_TIMESTAMP_LEVELS
    NCCL_DMABUF_ENABLE NCCL_GDR_FLUSH_DISABLE NCCL_GDRCOPY_ENABLE NCCL_GRAPH_DUMP_FILE
    NCCL_GRAPH_FILE NCCL_GRAPH_MIXING_SUPPORT NCCL_GRAPH_REGISTER NCCL_HOSTID
    NCCL_IB_ADAPTIVE_ROUTING NCCL_IB_ADDR_FAMILY NCCL_IB_ADDR_RANGE NCCL_IB_AR_THRESHOLD
    NCCL_IB_CUDA_SUPPORT NCCL_IB_DATA_DIRECT NCCL_IB_DISABLE NCCL_IB_ECE_ENABLE NCCL_IB_FIFO_TC
    NCCL_IB_GDR_LEVEL NCCL_IB_GID_INDEX NCCL_IB_HCA NCCL_IB_MERGE_NICS NCCL_IB_MERGE_VFS
    NCCL_IB_PCI_RELAXED_ORDERING NCCL_IB_PKEY NCCL_IB_QPS_PER_CONNECTION NCCL_IB_RETRY_CNT
    NCCL_IB_RETURN_ASYNC_EVENTS NCCL_IB_ROCE_VERSION_NUM NCCL_IB_SL NCCL_IB_SPLIT_DATA_ON_QPS
    NCCL_IB_TC NCCL_IB_TIMEOUT NCCL_IB_USE_INLINE NCCL_IGNORE_CPU_AFFINITY
    NCCL_IGNORE_DISABLED_P2P NCCL_L1_SHARED_MEMORY_CARVEOUT NCCL_LAUNCH_MODE
    NCCL_LAUNCH_ORDER_IMPLICIT NCCL_LAUNCH_RACE_FATAL NCCL_LL128_BUFFSIZE NCCL_LL_BUFFSIZE
    NCCL_LOCAL_REGISTER NCCL_MAX_CTAS NCCL_MAX_NCHANNELS NCCL_MAX_P2P_NCHANNELS NCCL_MAX_RINGS
    NCCL_MEM_SYNC_DOMAIN NCCL_MIN_CTAS NCCL_MIN_NCHANNELS NCCL_MIN_P2P_NCHANNELS NCCL_MIN_NRINGS
    NCCL_MAX_NRINGS NCCL_MNNVL_CLIQUE_ID NCCL_MNNVL_ENABLE NCCL_MNNVL_UUID
    NCCL_NCHANNELS_PER_NET_PEER
    NCCL_NET NCCL_NETDEVS_POLICY NCCL_NET_DISABLE_INTRA NCCL_NET_FORCE_FLUSH NCCL_NET_FORCE_MERGE
    NCCL_NET_GDR_C2C NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ NCCL_NET_MERGE_LEVEL NCCL_NET_PLUGIN
    NCCL_NET_SHARED_BUFFERS NCCL_NET_SHARED_COMMS NCCL_NSOCKS_PERTHREAD NCCL_NTHREADS
    NCCL_NVB_DISABLE NCCL_NVLSTREE_MAX_CHUNKSIZE NCCL_NVLS_ENABLE NCCL_NVLS_CHUNKSIZE
    NCCL_OOB_NET_ENABLE
    NCCL_OOB_NET_IFNAME NCCL_P2P_DIRECT_DISABLE NCCL_P2P_DISABLE NCCL_P2P_LEVEL
    NCCL_P2P_NET_CHUNKSIZE NCCL_P2P_NVL_CHUNKSIZE NCCL_P2P_PCI_CHUNKSIZE NCCL_P2P_PXN_LEVEL
    NCCL_P2P_READ_ENABLE NCCL_P2P_USE_CUDA_MEMCPY NCCL_PARAM_DUMP_ALL NCCL_PROFILER_PLUGIN
    NCCL_PROGRESS_APPENDOP_FREQ NCCL_PROTO NCCL_PXN_C2C NCCL_PXN_DISABLE
    NCCL_RAS_ADDR NCCL_RAS_ENABLE NCCL_RAS_TIMEOUT_FACTOR NCCL_RINGS NCCL_RUNTIME_CONNECT
    NCCL_SET_STACK_SIZE NCCL_SET_THREAD_NAME NCCL_SHM_DISABLE NCCL_SHM_LOCALITY
    NCCL_SHM_MEMCPY_MODE NCCL_SHM_USE_CUDA_MEMCPY NCCL_SINGLE_PROC_MEM_REG_ENABLE
    NCCL_SINGLE_RING_THRESHOLD NCCL_SOCKET_FAMILY NCCL_SOCKET_IFNAME NCCL_SOCKET_NTHREADS
    NCCL_SOCKET_POLL_TIMEOUT_MSEC NCCL_SOCKET_RETRY_CNT NCCL_SOCKET_RETRY_SLEEP_MSEC
    NCCL_STORE_TIMEOUT NCCL_SYM_CTAS NCCL_THREAD_THRESHOLDS NCCL_TIMEOUT NCCL_TOPO_DUMP_FILE
    NCCL_TOPO_FILE NCCL_TREE_THRESHOLD NCCL_TUNER_CONFIG_PATH NCCL_TUNER_PLUGIN NCCL_UID
    NCCL_WIN_ENABLE NCCL_WIN_STRIDE NCCL_WORK_ARGS_BYTES NCCL_WORK_FIFO_BYTES NCCL_WORK_FIFO_DEPTH
    TORCH_NCCL_ASYNC_ERROR_HANDLING TORCH_NCCL_AVOID_RECORD_STREAMS TORCH_NCCL_BLOCKING_WAIT
    TORCH_NCCL_COORD_CHECK_MILSEC TORCH_NCCL_CUDA_EVENT_CACHE TORCH_NCCL_DEBUG_INFO_PIPE_FILE
    TORCH_NCCL_DEBUG_INFO_TEMP_FILE TORCH_NCCL_DESYNC_DEBUG TORCH_NCCL_DUMP_ON_TIMEOUT
    TORCH_NCCL_ENABLE_MONITORING TORCH_NCCL_ENABLE_TIMING TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC
    TORCH_NCCL_HIGH_PRIORITY TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN TORCH_NCCL_NAN_CHECK
    TORCH_NCCL_PROPAGATE_ERROR TORCH_NCCL_RETHROW_CUDA_ERRORS TORCH_NCCL_TRACE_BUFFER_SIZE
    TORCH_NCCL_TRACE_CPP_STACK TORCH_NCCL_USE_COMM_NONBLOCKING
    TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC
    GLOO_SOCKET_IFNAME GLOO_DEVICE_TRANSPORT
    """.split()
)
_PREFIXES = ("NCCL_", "TORCH_NCCL_", "GLOO_", "NCC_", "NCLL_", "NNCL_")


_NAMES = re.compile(r"[A-Z][A-Z0-9_]+")  # of variables, and what else is in capitals


@warning("TW760", spec=Pointer("/env"), per_pod=True)
def misspelt_library_variable(subject: Subject) -> Iterator[Hit]:
    containers = (c for template in subject.pod_templates for c in template.containers)
    for container in containers:  # a launcher has no accelerators of its own
        if not any(map(_meant, _NAMES.findall(written(container)))):
            continue
        for name, setting in variables(container).items():
            if meant := _meant(name):
                message = f"no library reads {name}, and one reads {meant}"
                yield Hit(setting.pointer, message, Pointer.of("env", name))


# What other words are written for.
_MEANT = {
    "NCCL_SOCKET_IFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_INTERFACE": "NCCL_SOCKET_IFNAME",
    "NCCL_IFNAME": "NCCL_SOCKET_IFNAME",
    "NCCL_INTERFACE": "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFACE": "GLOO_SOCKET_IFNAME",
    "GLOO_SOCKET_INTERFACE": "GLOO_SOCKET_IFNAME",
    "GLOO_IFNAME": "GLOO_SOCKET_IFNAME",
    "NCCL_DISABLE_IB": "NCCL_IB_DISABLE",
    "NCCL_DISABLE_P2P": "NCCL_P2P_DISABLE",
    "NCCL_DISABLE_SHM": "NCCL_SHM_DISABLE",
    "NCCL_HCA": "NCCL_IB_HCA",
    "NCCL_DEBUG_LEVEL": "NCCL_DEBUG",
    "NCCL_LOG_LEVEL": "NCCL_DEBUG",
    "NCCL_GDR_LEVEL": "NCCL_NET_GDR_LEVEL",
    "CUDA_VISIBLE_DEVICE": "CUDA_VISIBLE_DEVICES",
    "CUDA_VISIBLE_GPUS": "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICE": "NVIDIA_VISIBLE_DEVICES",
    "OMP_NUM_THREAD": "OMP_NUM_THREADS",
    "OMP_NUMTHREADS": "OMP_NUM_THREADS",
    "OMP_THREADS": "OMP_NUM_THREADS",
    "PYTORCH_CUDA_ALLOC_CONFIG": "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONFIG": "PYTORCH_ALLOC_CONF",
    "TORCH_DISTRIBUTED_DEBUGS": "TORCH_DISTRIBUTED_DEBUG",
}


@lru_cache(maxsize=1024)
def _meant(name: str) -> str:
    """The variable that a name is a misspelling of, if it is one."""
    if name in _MEANT or name in _KNOWN or not name.startswith(_PREFIXES):
        return _MEANT.get(name, "")
    near = get_close_matches(name, _KNOWN, n=1, cutoff=0.84)
    return next((meant for meant in near if _apart(name, meant) <= _MISSPELT), "")


_MISSPELT = 2  # letters; what differs by more is another variable


def _apart(one: str, other: str) -> int:
    """How many letters are to be added and taken away to make one word of another."""
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return len(one) + len(other) - 2 * sum(block.size for block in blocks)


_WORKERS = frozenset(
    ("num_workers", "workers", "dataloader_num_workers", "data_workers", "num_data_workers")
    + ("dataloader_workers", "loader_workers", "data_num_workers", "preprocessing_num_workers")
)


@warning("TW761", spec=Pointer("/resources"), per_pod=True)
def more_threads_than_cpus(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains:
            cpus = read(container.limits.get("cpu", container.requests.get("cpu")))
            if cpus is None or template.partial:
                continue
            gpus, limit = sum(container.accelerators.values()), read(container.limits.get("cpu"))
            if limit is not None and gpus > limit:
                message = f"{gpus} GPUs, and {limit.normalize():f} CPUs to start their work"
                yield Hit(container.pointer, message)
            counted = any(part in subject.wording for part in _THREADED)
            processes = _processes(subject, template, container) if counted else 0
            for what, number in _per_process(container) if counted else ():
                if number * processes > cpus:
                    message = (
                        f"{what} {number} in {processes} processes are {number * processes}, and "
                        f"the pod has {cpus.normalize():f} CPUs"
                    )
                    yield Hit(container.pointer, message)


_THREADED = ("workers", "_num_threads")  # parts of all settings that say how many threads

# What launchers and operators call "as many as there are GPUs".
_EACH_GPU = ("gpu", "auto")


def _processes(subject: Subject, template: PodTemplate, container: Container) -> int:
    """How many processes a pod starts, as far as it is written."""
    asked = (
        options(container).get("nproc-per-node")
        or subject.spec.get("nprocPerNode")
        or dig(subject.spec, "trainer", "numProcPerNode")
        or (template.processes if torchruns(container) else "")
    )
    gpus = sum(container.accelerators.values())
    return (gpus if asked in _EACH_GPU else count(asked)) or 1


_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# Names that mean loader workers as variables, too: the workers of NUM_WORKERS may be nodes.
_LOADING = tuple(name for name in _WORKERS if "data" in name or "loader" in name)


def _per_process(container: Container) -> Iterator[tuple[str, int]]:
    for name, setting in variables(container).items():
        number = count(setting.value)
        if number and (name in _THREADS or name.lower() in _LOADING):
            yield name, number
    for option in arguments(container):
        number = count(option.value)
        # The workers of an entrypoint that an operator starts may be its pods.
        names = _LOADING if container.entrypoint else _WORKERS
        if number and not option.shown.isupper() and _counts_workers(option, names):
            yield option.shown, number


def _counts_workers(option: Setting, names: Collection[str]) -> bool:
    """Whether an option is of a data loader, also one of Hydra: data.num_workers=8."""
    last = option.shown.rpartition(".")[2].lstrip("-").replace("-", "_")
    return option.name in names or last in names


@warning("TW766", about=("torch.distributed.launch",), spec=Pointer("/launcher"), per_pod=True)
def deprecated_launcher(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains:
            if re.search(r"torch\.distributed\.launch(?=\s|$)", " ".join(container.started)):
                yield Hit(container.pointer, "torch.distributed.launch is deprecated")


# What slows a training, or fills its logs, and in which form.
_DEBUGGING = {
    "CUDA_LAUNCH_BLOCKING": r"1",
    "NCCL_DEBUG": r"TRACE|trace",
    "TORCH_DISTRIBUTED_DEBUG": r"DETAIL",
    "TORCH_CPP_LOG_LEVEL": r"INFO",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": r"1",
    "TORCH_USE_CUDA_DSA": r"1",
    "AMD_SERIALIZE_KERNEL": r"[1-3]",
    "HIP_LAUNCH_BLOCKING": r"1",
    "CUDA_DEVICE_DEBUG": r"1",
    "TORCH_NCCL_BLOCKING_WAIT": r"1",
    "TORCH_NCCL_DESYNC_DEBUG": r"1",
    "TORCH_COMPILE_DEBUG": r"1",
    "XLA_IR_DEBUG": r"1",
    "PYTHONDEVMODE": r"1",
    "PYTHONASYNCIODEBUG": r"1",
    "TORCHDYNAMO_VERBOSE": r"1",
    "TORCH_LOGS": r"(?:.*,)?\+.*",
    "TORCH_TRACE": r".+",
}


# Programs that stop at each error, wait for a terminal, or watch each access to memory.
_DEBUGGER = re.compile(
    r"(?:^|[\s;&|/])(?:python[\d.]*\s{1,9}-m\s{1,9})?"
    r"(pdb|ipdb|debugpy|compute-sanitizer|cuda-memcheck|cuda-gdb|valgrind)(?=\s)"
)
_ANOMALY = ("detect_anomaly", "autograd_anomaly")
# NCCL_DEBUG is in many manifests, and rarely "trace".
_TO_DEBUG = (
    *(_DEBUGGING.keys() - {"NCCL_DEBUG"}),
    *("trace", "anomaly", "pdb", "debugpy", "compute-sanitizer", "cuda-memcheck"),
    *("cuda-gdb", "valgrind"),
)


@warning("TW767", about=_TO_DEBUG, spec=Pointer("/env"), per_pod=True)
def debugging_left_on(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains:
            given = variables(container)
            for name in _DEBUGGING.keys() & given.keys():
                if re.fullmatch(_DEBUGGING[name], given[name].value):
                    message = f"{name} is {given[name].value}"
                    yield Hit(given[name].pointer, message, Pointer.of("env", name))
            for option in arguments(container):
                if option.name in _ANOMALY and option.value.lower() not in ("false", "0", "no"):
                    yield Hit(container.pointer, f"{option.shown} checks every gradient")
            if debugger := _DEBUGGER.search(" ".join(container.started)):
                yield Hit(container.pointer, f"{debugger[1]} runs the training")


RULES = defined_in(globals())
