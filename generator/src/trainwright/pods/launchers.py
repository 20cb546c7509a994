"""What starts the processes of a node: the options of each launcher, and who decides them.

The options are those of torch 2.13 (torch.distributed.run), accelerate 1.15 (accelerate launch),
DeepSpeed 0.19 (deepspeed.launcher.launch) and our own entrypoint; tests hold them against the
parsers themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from difflib import get_close_matches
from typing import TypeAlias

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.model import Data, Job

SWITCH, TEXT, NUMBER = "a switch", "text", "a number, 0 or more"


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number, as an option takes it."""

    least: int
    most: int | None = None

    def __str__(self) -> str:
        return (
            f"a whole number, {self.least} {'or more' if self.most is None else f'to {self.most}'}"
        )

    def takes(self, text: str) -> bool:
        number = int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None
        return number is not None and self.least <= number <= (self.most or number)


@dataclass(frozen=True, slots=True)
class Spelled:
    """A text that the launcher itself takes apart."""

    called: str
    pattern: re.Pattern[str]

    def __str__(self) -> str:
        return self.called

    def takes(self, text: str) -> bool:
        return bool(self.pattern.fullmatch(text))


Takes: TypeAlias = str | tuple[str, ...] | Whole | Spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """A launcher of processes. `options` are what a job may set, by name with dashes, and what
    each takes: a sort of value, or words of which it takes one. `decided` are those that follow
    from fields of the job, which are named. `separator` is what stands between words of a name.
    """

    name: str
    options: Mapping[str, Takes] = field(default_factory=dict)
    decided: Mapping[str, str] = field(default_factory=dict)
    separator: str = "-"

    def words(self, options: Mapping[str, Data]) -> Iterator[str]:
        """Options as arguments, sorted by name."""
        for name in sorted(options):
            value, written = options[name], plain(name).replace("-", self.separator)
            if self.options.get(plain(name)) != SWITCH:
                text = str(value).lower() if isinstance(value, bool) else str(value)
                yield f"--{written}={text}"
            elif value:
                yield f"--{written}"

    def problem(self, name: str, value: Data) -> tuple[str, str]:
        """What is wrong with an option, and what to do; nothing where it is right."""
        option = plain(name)
        if option in self.decided:
            by = self.decided[option]
            remedy = "Remove it." if by.startswith("the target") else f"Remove it; set {by}."
            return f"{name} of {self.name} follows from {by}", remedy
        takes = self.options.get(option)
        if takes is None:
            meant = get_close_matches(option, self.options, n=1)
            hint = f"Did you mean {meant[0]}?" if meant else f"See `{self.name} --help`."
            return f"{name} is not an option of {self.name}", hint
        if not _fits(takes, value):
            expected = f"one of {', '.join(takes)}" if isinstance(takes, tuple) else str(takes)
            return f"{name} of {self.name} takes {expected}", "Correct the value."
        return "", ""


def plain(name: str) -> str:
    """The name of an option with dashes."""
    return name.replace("_", "-")


def _fits(takes: Takes, value: Data) -> bool:
    if takes == SWITCH:
        return isinstance(value, bool)
    if isinstance(takes, tuple):
        return str(value) in takes
    if isinstance(takes, str):
        return takes != NUMBER or _is_number(str(value))
    return not isinstance(value, bool) and takes.takes(str(value))


def _is_number(text: str) -> bool:
    try:
        return 0 <= float(text) < math.inf
    except ValueError:
        return False


def _options(switches: str, texts: str, numbers: str = "") -> dict[str, Takes]:
    return {
        **dict.fromkeys(texts.split(), TEXT),
        **dict.fromkeys(numbers.split(), NUMBER),
        **dict.fromkeys(switches.split(), SWITCH),
    }


def _words(words: str) -> Spelled:
    """One of some words in either case, or its number from 1."""
    names = words.split()
    any_of = "|".join(names)
    return Spelled(
        f"one of {', '.join(names)}",
        re.compile(f"{any_of}|[1-{len(names)}]", re.IGNORECASE),
    )


_COUNT, _POSITIVE, _PORT = Whole(0), Whole(1), Whole(1, 65535)
_SIZE = Spelled("a size such as 8Gi", re.compile(r"\d++(?:\.\d++)?(?:|k|[MGTPE]|[KMGTPE]i)"))
_AMOUNT = Spelled(NUMBER, re.compile(r"(\d++(?:\.\d*)?|\.\d+)([eE][-+]?\d+)?"))
_STREAMS = Spelled(
    "0 to 3 (1 stdout, 2 stderr, 3 both) for all ranks, or for some: 0:3,1:1",
    re.compile(r"[0-3]|\d:[0-3](,\d:[0-3])*"),
)
_RANKS = Spelled("ranks with commas between them: 0,1", re.compile(r"\s*\d+\s*(,\s*\d+\s*)*"))
_SHARDING = "FULL_SHARD SHARD_GRAD_OP NO_SHARD HYBRID_SHARD HYBRID_SHARD_ZERO2"
_DEVICES = Spelled("one of none, cpu, nvme", re.compile("none|cpu|nvme"))
_MEETING = "the target, which knows where the nodes meet"
_TRAINWRIGHT = Launcher(
    name="trainwright",
    options={
        "recovery": ("none", "restart"),
        "replica": ("process", "node"),
        "max-restarts": _COUNT,
        "rendezvous-timeout": NUMBER,
        "coordinator-port": _PORT,
        "log-format": ("text", "json"),
    },
    decided={
        "backend": "backend",
        "nproc-per-node": "procsPerNode",
        "nnodes": "nodes",
        "grace-period": "gracePeriod",
        "preflight": "preflight",
        **dict.fromkeys(("ray", "num-cpus", "object-store-memory"), "launcher: ray"),
    },
)
# https://docs.pytorch.org/docs/stable/elastic/run.html
_TORCHRUN = Launcher(
    name="torchrun",
    options={
        **_options(
            "run-path virtual-local-rank",
            "rdzv-backend rdzv-endpoint rdzv-id rdzv-conf event-log-handler role log-dir "
            "duplicate-stdout-filters duplicate-stderr-filters local-addr logs-specs "
            "signals-to-handle",
            "monitor-interval",
        ),
        "redirects": _STREAMS,
        "tee": _STREAMS,
        "local-ranks-filter": _RANKS,
        "max-restarts": _COUNT,
        "shutdown-timeout": _COUNT,
        "start-method": ("spawn", "fork", "forkserver"),
        "numa-binding": ("node", "socket", "exclusive", "core-complex"),
    },
    decided={
        "nnodes": "nodes",
        "nproc-per-node": "procsPerNode",
        "node-rank": _MEETING,
        "master-addr": _MEETING,
        "master-port": _MEETING,
        "standalone": "nodes",
        "module": "entrypoint.module",
        "no-python": "entrypoint.argv",
    },
)
# https://huggingface.co/docs/accelerate/package_reference/cli#accelerate-launch
_ACCELERATE = Launcher(
    name="accelerate",
    separator="_",
    options={
        **_options(
            "quiet enable-cpu-affinity dynamo-use-fullgraph dynamo-use-dynamic "
            "dynamo-use-regional-compilation use-deepspeed use-fsdp use-parallelism-config "
            "use-megatron-lm same-network downcast-bf16 fp8-use-autocast-during-eval debug",
            "config-file gpu-ids log-dir role rdzv-backend rdzv-conf main-training-function "
            "deepspeed-config-file offload-optimizer-nvme-path offload-param-nvme-path "
            "zero3-init-flag zero3-save-16bit-model deepspeed-moe-layer-cls-names "
            "fsdp-offload-params fsdp-reshard-after-forward fsdp-transformer-layer-cls-to-wrap "
            "fsdp-forward-prefetch fsdp-use-orig-params fsdp-cpu-ram-efficient-loading "
            "fsdp-sync-module-states fsdp-activation-checkpointing "
            "fsdp-activation-checkpointing-offload megatron-lm-use-custom-fsdp "
            "megatron-lm-no-load-optim megatron-lm-eod-mask-loss "
            "megatron-lm-overlap-cpu-optimizer-d2h-h2d megatron-lm-no-save-optim "
            "megatron-lm-optimizer-cpu-offload megatron-lm-use-precision-aware-optimizer "
            "megatron-lm-sequence-parallelism megatron-lm-recompute-activations "
            "megatron-lm-use-distributed-optimizer megatron-lm-recompute-granularity "
            "megatron-lm-recompute-method megatron-lm-attention-backend "
            "megatron-lm-attention-softmax-in-fp32 megatron-lm-calculate-per-token-loss "
            "megatron-lm-use-rotary-position-embeddings fp8-override-linear-precision "
            "fp8-enable-fsdp-float8-all-gather fp8-pad-inner-dim "
            "parallelism-config-cp-comm-strategy parallelism-config-sp-seq-length-is-variable "
            "parallelism-config-sp-attn-implementation parallelism-config-sp-seq-length",
        ),
        **dict.fromkeys(
            (
                "monitor-interval",
                "gradient-clipping",
                "megatron-lm-gradient-clipping",
                "megatron-lm-attention-dropout",
                "megatron-lm-hidden-dropout",
            ),
            _AMOUNT,
        ),
        **dict.fromkeys(
            (
                "max-restarts",
                "fsdp-min-num-params",
                "fp8-margin",
                "megatron-lm-decoder-last-pipeline-num-layers",
                "megatron-lm-recompute-num-layers",
            ),
            _COUNT,
        ),
        **dict.fromkeys(
            (
                "num-cpu-threads-per-process",
                "gradient-accumulation-steps",
                "fp8-interval",
                "fp8-amax-history-len",
                "parallelism-config-dp-replicate-size",
                "parallelism-config-dp-shard-size",
                "parallelism-config-tp-size",
                "parallelism-config-cp-size",
                "parallelism-config-sp-size",
                "megatron-lm-tp-degree",
                "megatron-lm-pp-degree",
                "megatron-lm-num-micro-batches",
                "megatron-lm-expert-model-parallel-size",
                "megatron-lm-context-parallel-size",
                "megatron-lm-expert-tensor-parallel-size",
            ),
            _POSITIVE,
        ),
        "zero-stage": Whole(0, 3),
        "tee": _STREAMS,
        "mixed-precision": ("no", "fp16", "bf16", "fp8"),
        "dynamo-backend": (
            *("no", "eager", "aot_eager", "inductor", "aot_ts_nvfuser", "nvprims_nvfuser"),
            *("cudagraphs", "ofi", "fx2trt", "onnxrt", "tensorrt"),
            *("aot_torchxla_trace_once", "torhchxla_trace_once", "tvm"),
        ),
        "dynamo-mode": ("default", "reduce-overhead", "max-autotune"),
        "offload-optimizer-device": _DEVICES,
        "offload-param-device": _DEVICES,
        "fsdp-version": ("1", "2"),
        "fsdp-sharding-strategy": _words(_SHARDING),
        "fsdp-auto-wrap-policy": _words("TRANSFORMER_BASED_WRAP SIZE_BASED_WRAP NO_WRAP"),
        "fsdp-backward-prefetch": _words("BACKWARD_PRE BACKWARD_POST NO_PREFETCH"),
        "fsdp-state-dict-type": _words("FULL_STATE_DICT LOCAL_STATE_DICT SHARDED_STATE_DICT"),
        "fp8-backend": ("ao", "te", "msamp"),
        "fp8-format": ("HYBRID", "E4M3", "E5M2"),
        "fp8-amax-compute-algo": ("max", "most_recent"),
        "fp8-opt-level": ("O1", "O2"),
        "parallelism-config-cp-backend": ("torch",),
        "parallelism-config-sp-backend": ("deepspeed",),
    },
    decided={
        "num-machines": "nodes",
        "num-processes": "nodes and procsPerNode",
        "multi-gpu": "nodes and procsPerNode",
        "machine-rank": _MEETING,
        "main-process-ip": _MEETING,
        "main-process-port": _MEETING,
        "cpu": "resources.gpu",
        "module": "entrypoint.module",
        "no-python": "entrypoint.argv",
        "deepspeed-multinode-launcher": "the target, whose pods have no ssh",
        "deepspeed-hostfile": "the target, whose pods have no ssh",
    },
)
# The command `deepspeed` starts this on each node, by ssh unless there is one node alone.
# https://github.com/deepspeedai/DeepSpeed/blob/v0.19.8/deepspeed/launcher/launch.py
_DEEPSPEED = Launcher(
    name="deepspeed",
    separator="_",
    options={
        **_options(
            "no-local-rank bind-cores-to-rank quiet",
            "enable-each-rank-log bind-core-list",
        ),
        "log-level": ("debug", "info", "warning", "error", "critical"),
    },
    decided={
        **dict.fromkeys(("num-nodes", "force-multi"), "nodes"),
        **dict.fromkeys(("num-gpus", "num-accelerators"), "procsPerNode"),
        **dict.fromkeys(("node-rank", "master-addr", "master-port"), _MEETING),
        **dict.fromkeys(("world-info", "hostfile", "include", "exclude"), "nodes and procsPerNode"),
        **dict.fromkeys(
            ("launcher", "launcher-args", "no-ssh", "no-ssh-check", "ssh-port", "venv-script"),
            "the target, whose pods have no ssh",
        ),
        "module": "entrypoint.module",
        "no-python": "entrypoint.argv",
        "save-pid": "the target, where no other program looks for it",
        "autotuning": "entrypoint.argv",
    },
)
# Our entrypoint with --ray: the options of `ray start` that a job may set.
# https://docs.ray.io/en/latest/cluster/cli.html#ray-start
_RAY = Launcher(
    name="ray",
    options={
        "num-cpus": _POSITIVE,
        "object-store-memory": _SIZE,
        "rendezvous-timeout": NUMBER,
        "log-format": ("text", "json"),
    },
    decided={
        **{name: by for name, by in _TRAINWRIGHT.decided.items() if by != "launcher: ray"},
        **dict.fromkeys(("head", "address", "port", "node-ip-address", "node-name"), _MEETING),
        **dict.fromkeys(
            ("block", "include-dashboard", "temp-dir"), "the target, whose pods end with the run"
        ),
        "ray": "launcher",
        "num-gpus": "resources.gpu",
        "recovery": "retries",
        "max-restarts": "retries",
        "replica": "retries",
        "coordinator-port": "retries",
    },
)
_PYTHON = Launcher(name="python")
LAUNCHERS: Mapping[str, Launcher] = {
    launcher.name: launcher
    for launcher in (_TRAINWRIGHT, _TORCHRUN, _PYTHON, _ACCELERATE, _DEEPSPEED, _RAY)
}


def own_options(job: Job) -> tuple[str, ...]:
    """The words of the launcher's options that a job sets."""
    return tuple(LAUNCHERS[job.launcher].words(job.launcher_options))
