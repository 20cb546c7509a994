"""Settings of libraries and devices that contradict what a pod has, or each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher, get_close_matches

from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count, read
from trainwright.datatypes.tolerant import dig, sequence, text
from trainwright.kinds import TRAINING
from trainwright.pods.launching import options
from trainwright.pods.storage import arguments
from trainwright.pods.template import Container
from trainwright.rule_model.rule import defined_in, pod, warning
from trainwright.rule_model.subject import Hit, Subject

_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_GPUS = "resources: {limits: {nvidia.com/gpu: %s}}"


def _env(name: str, value: str, rest: str = "") -> str:
    return pod(f"env: [{{name: {name}, value: '{value}'}}]{rest and ', '}{rest}")


_VISIBLE = (
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
    *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
)
_NO_DEVICES = frozenset({"", "-1", "none", "void", "NoDevFiles"})


@warning(
    id="TW757",
    summary="Variables of visible devices agree with the GPUs that a pod requests.",
    effect="Ranks fail with an invalid device ordinal, GPUs stay idle, or a pod sees GPUs of its "
    "node that belong to others.",
    remedy="Remove the variable: the device plugin shows a container its own GPUs.",
    kinds=TRAINING,
    spec=Pointer("/env"),
    source="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html",
    per_pod=True,
    passes=_env("CUDA_VISIBLE_DEVICES", "0,1", _GPUS % 2),
    fails=_env("CUDA_VISIBLE_DEVICES", "0,1", _GPUS % 8),
    near_misses=(
        _env("CUDA_VISIBLE_DEVICES", ""),
        _env("NVIDIA_VISIBLE_DEVICES", "void"),
        _env("CUDA_VISIBLE_DEVICES", "GPU-8f3c,GPU-99aa", _GPUS % 2),
        _env("NVIDIA_DRIVER_CAPABILITIES", "all", _GPUS % 2),
        _env("CUDA_VISIBLE_DEVICES", "0,1", "resources: {claims: [{name: gpu}]}"),
    ),
    variants=(
        _env("CUDA_VISIBLE_DEVICES", "0,1,2,3", _GPUS % 2),
        _env("CUDA_VISIBLE_DEVICES", "4,5", _GPUS % 2),
        _env("NVIDIA_VISIBLE_DEVICES", "all", _GPUS % 1),
        _env("NVIDIA_VISIBLE_DEVICES", "all"),
        _env("CUDA_VISIBLE_DEVICES", "", _GPUS % 2),
        _env("ROCR_VISIBLE_DEVICES", "0", "resources: {limits: {amd.com/gpu: 4}}"),
        pod(f"command: [sh, -c, 'CUDA_VISIBLE_DEVICES=0 exec torchrun t.py'], {_GPUS % 4}"),
    ),
)
def visible_devices_contradict_gpus(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains:
            if template.partial or sequence(dig(container.body, "resources", "claims")):
                continue
            gpus = sum(container.accelerators.values())
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


_LOCKED = "securityContext: {capabilities: {add: [IPC_LOCK]}}"
_RDMA = re.compile(r"rdma|infiniband|(?:^|[/_.-])(?:hca|ib)(?:[/_.-]|\d|$)|roce", re.IGNORECASE)


@warning(
    id="TW758",
    summary="Containers that use RDMA may lock memory.",
    effect="Registering memory fails (`ibv_reg_mr … Cannot allocate memory`) where the limit of "
    "locked memory of the node's runtime is low, and NCCL ends or falls back to TCP.",
    remedy="Add security.capabilities: [IPC_LOCK], in a namespace of pod security privileged.",
    by_hand="Add the capability IPC_LOCK, in a namespace of pod security privileged.",
    kinds=TRAINING,
    spec=Pointer("/security"),
    source="https://docs.nvidia.com/networking/display/kubernetes2570/advanced-configurations.html",
    per_pod=True,
    passes=pod(f"resources: {{limits: {{rdma/hca: 1}}}}, {_LOCKED}"),
    fails=pod("resources: {limits: {rdma/hca: 1}}"),
    near_misses=(
        pod("resources: {limits: {vpc.amazonaws.com/efa: 4}}"),
        pod("resources: {limits: {rdma/hca: 1}}, securityContext: {privileged: true}"),
        pod("resources: {limits: {example.com/fiber: 1}}"),
    ),
    variants=(
        pod("resources: {limits: {rdma/ib: 1}}"),
        pod("resources: {limits: {rdma/rdma_shared_device_eth: 1}}"),
        pod("resources: {limits: {nvidia.com/roce_gdr: 1}}"),
        pod("resources: {limits: {nvidia.com/hca_shared: 1}}"),
    ),
)
def rdma_without_locked_memory(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains:
            added = {text(one) for one in sequence(dig(container.security, "capabilities", "add"))}
            allowed = container.security.get("privileged") is True or added & {"IPC_LOCK", "ALL"}
            resource = next((name for name in container.extended if _RDMA.search(name)), "")
            if resource and not allowed and not template.partial:
                message = f"{resource} is asked for, without the capability IPC_LOCK"
                yield Hit(container.pointer, message)


_EFA = "vpc.amazonaws.com/efa"


@warning(
    id="TW759",
    summary="Containers that use EFA have huge pages.",
    effect="The EFA provider of libfabric takes ordinary pages for its buffers, which costs speed, "
    "or does not start.",
    remedy="Use the pool's fabric (efa-p5 and others), or set resources.hugepages: {2Mi: 5120Mi}.",
    by_hand="Add hugepages-2Mi: 5120Mi to requests and limits.",
    kinds=TRAINING,
    spec=Pointer("/resources"),
    source="https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html",
    per_pod=True,
    passes=pod(f"resources: {{limits: {{{_EFA}: 4, hugepages-2Mi: 5120Mi}}}}"),
    fails=pod(f"resources: {{limits: {{{_EFA}: 4}}}}"),
    near_misses=(
        pod("resources: {limits: {rdma/ib: 1}}, securityContext: {privileged: true}"),
        pod(f"resources: {{limits: {{aws.amazon.com/neuron: 16, {_EFA}: 8}}}}"),
        pod(
            f"resources: {{limits: {{{_EFA}: 4}}}}, "
            "env: [{name: FI_EFA_USE_HUGE_PAGE, value: '0'}]"
        ),
    ),
)
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


@warning(
    id="TW760",
    summary="Variables of NCCL and Gloo have names that these libraries read.",
    effect="The library ignores the variable without a word, and runs with its default.",
    remedy="Correct the name; waive this for a variable of a plugin.",
    kinds=TRAINING,
    spec=Pointer("/env"),
    source=_NCCL,
    per_pod=True,
    passes=_env("NCCL_SOCKET_IFNAME", "eth0"),
    fails=_env("NCCL_SOCKET_IFNAMES", "eth0"),
    near_misses=(
        _env("NCCL_FASTRAK_NUM_FLOWS", "2"),
        _env("NCCL_GPUDIRECTTCPX_FORCE_ACK", "0"),
        _env("MY_NCCL_DEBUG", "1"),
        _env("NCCL_PLUGIN_PATH", "/usr/local/gib/lib64"),
        _env("TORCH_NCCL_BLOCKING_WAIT", "1"),
    ),
    variants=(
        _env("NCCL_IB_DISABLED", "1"),
        _env("NCCL_SOCKET_IF_NAME", "eth0"),
        _env("NCLL_DEBUG", "INFO"),
        _env("TORCH_NCCL_ASYNC_ERROR_HANDELING", "1"),
        _env("GLOO_SOCKET_IF_NAME", "eth0"),
    ),
)
def misspelt_library_variable(subject: Subject) -> Iterator[Hit]:
    for container in subject.containers:
        for index, entry in enumerate(container.env):
            name = text(entry.get("name"))
            if name.startswith(_PREFIXES) and name not in _KNOWN:
                for meant in get_close_matches(name, _KNOWN, n=1, cutoff=0.84):
                    if _apart(name, meant) <= _MISSPELT:
                        at = f"{container.pointer}/env/{index}"
                        message = f"no library reads {name}, and one reads {meant}"
                        yield Hit(at, message, Pointer.of("env", name))


_MISSPELT = 2  # letters; what differs by more is another variable


def _apart(one: str, other: str) -> int:
    """How many letters are to be added and taken away to make one word of another."""
    blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    return len(one) + len(other) - 2 * sum(block.size for block in blocks)


_WORKERS = frozenset(
    ("num_workers", "workers", "dataloader_num_workers", "data_workers", "num_data_workers")
    + ("dataloader_workers", "loader_workers", "data_num_workers", "preprocessing_num_workers")
)


def _cores(cpu: int, rest: str) -> str:
    return pod(f"resources: {{requests: {{cpu: {cpu}}}, limits: {{nvidia.com/gpu: 8}}}}, {rest}")


_EIGHT = "command: [torchrun, --nproc-per-node=8, t.py%s]"


@warning(
    id="TW761",
    summary="Threads and data loader workers of a pod have the CPUs that they need.",
    effect="They take turns on the CPUs, and the GPUs wait for data and launches.",
    remedy="Lower OMP_NUM_THREADS or the workers (each counts once per process), or raise "
    "resources.cpu.",
    by_hand="Lower OMP_NUM_THREADS or the workers (each counts once per process), or raise the "
    "CPUs.",
    kinds=TRAINING,
    spec=Pointer("/resources"),
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    per_pod=True,
    passes=_cores(96, _EIGHT % ", --num_workers=8"),
    fails=_cores(16, _EIGHT % ", --num_workers=8"),
    near_misses=(
        _cores(64, _EIGHT % ", --num_workers=8"),
        _cores(16, "command: [torchrun, t.py, --num_workers=8]"),
        pod(_EIGHT % ", --num_workers=8"),
        _cores(16, f"{_EIGHT % ''}, env: [{{name: OMP_NUM_THREADS, value: '2'}}]"),
    ),
    variants=(
        _cores(16, _EIGHT % ", --workers, '4'"),
        _cores(16, f"{_EIGHT % ''}, env: [{{name: OMP_NUM_THREADS, value: '4'}}]"),
    ),
)
def more_threads_than_cpus(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains:
            cpus = read(container.limits.get("cpu", container.requests.get("cpu")))
            if cpus is None or template.partial:
                continue
            processes = _processes(subject, container)
            for what, number in _per_process(container):
                if number * processes > cpus:
                    message = (
                        f"{what} {number} in {processes} processes are {number * processes}, and "
                        f"the pod has {cpus.normalize():f} CPUs"
                    )
                    yield Hit(container.pointer, message)


def _processes(subject: Subject, container: Container) -> int:
    """How many processes a pod starts, as far as it is written."""
    number = count(options(container).get("nproc-per-node") or subject.spec.get("nprocPerNode"))
    return number or count(dig(subject.spec, "trainer", "numProcPerNode")) or 1


def _per_process(container: Container) -> Iterator[tuple[str, int]]:
    threads = count(container.variables.get("OMP_NUM_THREADS", ""))
    if threads:
        yield "OMP_NUM_THREADS", threads
    for option in arguments(container):
        number = count(option.value)
        if option.name in _WORKERS and number:
            yield option.shown, number


@warning(
    id="TW766",
    summary="Ranks are started by torchrun, not by torch.distributed.launch.",
    effect="It is deprecated, passes --local-rank to a script that may not take it, and is gone "
    "from later versions of PyTorch.",
    remedy="Use launcher: torchrun, and read LOCAL_RANK in the script.",
    by_hand="Use torchrun, and read LOCAL_RANK in the script.",
    kinds=TRAINING,
    spec=Pointer("/launcher"),
    source="https://docs.pytorch.org/docs/stable/distributed.html#launch-utility",
    per_pod=True,
    passes=pod("command: [python, -m, torch.distributed.run, t.py]"),
    fails=pod("command: [python, -m, torch.distributed.launch, t.py]"),
    near_misses=(pod("command: [python, -m, accelerate.commands.launch, t.py]"),),
    variants=(pod("command: [sh, -c, 'exec python -m torch.distributed.launch --use_env t.py']"),),
)
def deprecated_launcher(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains:
            if re.search(r"torch\.distributed\.launch(?=\s|$)", " ".join(container.command_line)):
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
}


_ANOMALY = ("detect_anomaly", "autograd_anomaly")


@warning(
    id="TW767",
    summary="No variable of debugging is left on.",
    effect="Kernels wait for each other, every collective is checked, or logs grow by gigabytes: "
    "the training is slower by a factor, and no log has the reason.",
    remedy="Remove it, or waive this with a date while you debug.",
    kinds=TRAINING,
    spec=Pointer("/env"),
    source="https://docs.pytorch.org/docs/stable/cuda_environment_variables.html",
    per_pod=True,
    passes=_env("NCCL_DEBUG", "WARN"),
    fails=_env("CUDA_LAUNCH_BLOCKING", "1"),
    near_misses=(
        _env("NCCL_DEBUG", "INFO"),
        _env("CUDA_LAUNCH_BLOCKING", "0"),
        _env("TORCH_DISTRIBUTED_DEBUG", "OFF"),
        _env("PYTHONFAULTHANDLER", "1"),
    ),
    variants=(
        _env("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),
        _env("NCCL_DEBUG", "TRACE"),
        pod("command: [sh, -c, 'CUDA_LAUNCH_BLOCKING=1 exec torchrun t.py']"),
        pod("command: [torchrun, t.py, --detect_anomaly]"),
    ),
)
def debugging_left_on(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.trains:
            for index, entry in enumerate(container.env):
                name, value = text(entry.get("name")), text(entry.get("value"))
                if name in _DEBUGGING and re.fullmatch(_DEBUGGING[name], value):
                    at = f"{container.pointer}/env/{index}"
                    yield Hit(at, f"{name} is {value}", Pointer.of("env", name))
            for option in arguments(container):
                pattern = _DEBUGGING.get(option.shown)
                if pattern and re.fullmatch(pattern, option.value):
                    yield Hit(container.pointer, f"{option.shown} is {option.value}")
                elif option.name in _ANOMALY and option.value.lower() not in ("false", "0", "no"):
                    yield Hit(container.pointer, f"{option.shown} checks every gradient")


RULES = defined_in(globals())
