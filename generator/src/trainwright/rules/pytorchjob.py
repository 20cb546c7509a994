"""PyTorchJob v1: what the webhook refuses, and what it lets through and then never trains."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trainwright.model import Data, Severity
from trainwright.rules.rule import Rule, Sample
from trainwright.rules.subject import (
    Container,
    Hit,
    PodTemplate,
    Subject,
    accelerators,
    count,
    dig,
    escape,
    mapping,
    sequence,
    text,
)

KIND = ("PyTorchJob",)
ROLES = ("Master", "Worker")
_WEBHOOK = "kubeflow/trainer@v1.9.4:pkg/webhooks/pytorch/pytorchjob_webhook.go"
_ENVVAR = "kubeflow/trainer@v1.9.4:pkg/controller.v1/pytorch/envvar.go"
_REPLICAS = "/spec/pytorchReplicaSpecs"
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def replicas(subject: Subject) -> Mapping[str, Data]:
    """The replica specs by role, whatever they are."""
    return mapping(subject.spec.get("pytorchReplicaSpecs"))


def _has(subject: Subject, role: str) -> bool:
    return isinstance(replicas(subject).get(role), Mapping)


def _elastic(subject: Subject) -> Mapping[str, Data] | None:
    policy = subject.spec.get("elasticPolicy")
    return policy if isinstance(policy, Mapping) else None


def _workers(subject: Subject) -> int:
    """How many workers there may be at most."""
    if not _has(subject, "Worker"):
        return 0
    now = count(dig(replicas(subject), "Worker", "replicas"))
    most = count((_elastic(subject) or {}).get("maxReplicas"))
    return max(1 if now is None else now, most or 0)


def _trainer(template: PodTemplate) -> Container | None:
    return next((c for c in template.trains if c.name == "pytorch"), None)


def _p01(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        if _trainer(template) is None:
            names = ", ".join(repr(c.name) for c in template.trains) or "none"
            message = f"{template.role} has no container named pytorch (found: {names})"
            yield Hit(template.pointer, message)


P01 = Rule(
    id="TW101",
    name="container-name",
    severity=Severity.ERROR,
    summary="Every replica has a container named pytorch.",
    effect="The operator's webhook refuses the object.",
    remedy="Name the training container pytorch.",
    kinds=KIND,
    source=_WEBHOOK,
    run=_p01,
    passing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: "
        "{template: {spec: {containers: [{name: pytorch}]}}}}}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: "
        "{template: {spec: {containers: [{name: main}]}}}}}"
    ),
)


def _p02(subject: Subject) -> Iterator[Hit]:
    if _has(subject, "Master"):
        number = dig(replicas(subject), "Master", "replicas")
        if number != 1 or isinstance(number, bool):
            found = "is left out" if number is None else f"is {number}"
            yield Hit(f"{_REPLICAS}/Master", f"Master.replicas {found}, it must be written as 1")


P02 = Rule(
    id="TW102",
    name="one-master",
    severity=Severity.ERROR,
    summary="Master.replicas is written out, and is 1.",
    effect="The operator's webhook refuses the object: it validates before it fills defaults.",
    remedy="Write replicas: 1 under Master.",
    kinds=KIND,
    source=_WEBHOOK,
    run=_p02,
    passing=Sample("kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {replicas: 1}}}"),
    failing=Sample("kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {}}}}"),
)


def _p03(subject: Subject) -> Iterator[Hit]:
    specs = replicas(subject)
    if not specs:
        yield Hit("/spec", "there are no pytorchReplicaSpecs")
    for role, spec in specs.items():
        pointer = f"{_REPLICAS}/{escape(str(role))}"
        if role not in ROLES:
            yield Hit(pointer, f"the replica key is {role!r}, it must be Master or Worker")
        elif not isinstance(spec, Mapping):
            yield Hit(pointer, f"{role} has nothing under it")


P03 = Rule(
    id="TW103",
    name="replica-keys",
    severity=Severity.ERROR,
    summary="The replica keys are exactly Master and Worker, each with a spec.",
    effect="The operator's webhook refuses the object, or fails on the empty key.",
    remedy="Use the keys Master and Worker, and leave out the one that is not needed.",
    kinds=KIND,
    source=_WEBHOOK,
    run=_p03,
    passing=Sample("kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {replicas: 1}}}"),
    failing=Sample("kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {worker: {replicas: 1}}}"),
)


def _p04(subject: Subject) -> Iterator[Hit]:
    name = text(subject.metadata.get("name"))
    if not name:
        return
    if not _DNS_1035.fullmatch(name):
        yield Hit("/metadata/name", f"the name {name!r} is no DNS label starting with a letter")
    suffix = f"-worker-{max(_workers(subject) - 1, 0)}" if _workers(subject) else "-master-0"
    if _has(subject, "Master"):
        suffix = max(suffix, "-master-0", key=len)
    over = len(name) + len(suffix) - 63
    if over > 0:
        message = f'"{name}{suffix}" has {len(name) + len(suffix)} characters, {over} over 63'
        yield Hit("/metadata/name", message)


P04 = Rule(
    id="TW104",
    name="name-length",
    severity=Severity.ERROR,
    summary="The name is a DNS label that leaves room for -worker-<index>.",
    effect="The pods are made, every Service is refused, and the ranks never meet.",
    remedy="Shorten the name.",
    kinds=KIND,
    spec="name",
    source="kubeflow/trainer@v1.9.4:pkg/controller.v1/common/util.go",
    run=_p04,
    passing=Sample(
        f"kind: PyTorchJob\nmetadata: {{name: {'a' * 54}}}\n"
        "spec: {pytorchReplicaSpecs: {Worker: {replicas: 10}}}"
    ),
    failing=Sample(
        f"kind: PyTorchJob\nmetadata: {{name: {'a' * 54}}}\n"
        "spec: {pytorchReplicaSpecs: {Worker: {replicas: 11}}}"
    ),
)


def _p05(subject: Subject) -> Iterator[Hit]:
    value = subject.spec.get("nprocPerNode")
    if value is None:
        return
    if not isinstance(value, str):
        yield Hit("/spec/nprocPerNode", f"nprocPerNode is {value!r}, it must be a quoted string")
    elif not re.fullmatch("auto|cpu|gpu|[1-9][0-9]*", value):
        message = f"nprocPerNode is {value!r}, it must be auto, cpu, gpu or a number"
        yield Hit("/spec/nprocPerNode", message)


P05 = Rule(
    id="TW105",
    name="nproc-per-node-string",
    severity=Severity.ERROR,
    summary='nprocPerNode is a string: auto, cpu, gpu or a number such as "8".',
    effect="The API server refuses an integer; the operator counts an unknown word as 1.",
    remedy='Quote the number: nprocPerNode: "8".',
    kinds=KIND,
    spec="procsPerNode",
    source="kubeflow/trainer@v1.9.4:pkg/apis/kubeflow.org/v1/pytorch_types.go",
    run=_p05,
    passing=Sample('kind: PyTorchJob\nspec: {nprocPerNode: "8"}'),
    failing=Sample("kind: PyTorchJob\nspec: {nprocPerNode: 8}"),
)


def _p06(subject: Subject) -> Iterator[Hit]:
    policy = _elastic(subject) or {}
    if "nProcPerNode" in policy:
        both = "nprocPerNode" in subject.spec
        what = "set twice, here and in spec" if both else "deprecated since 1.7"
        yield Hit("/spec/elasticPolicy/nProcPerNode", f"elasticPolicy.nProcPerNode is {what}")


P06 = Rule(
    id="TW106",
    name="one-nproc-per-node",
    severity=Severity.ERROR,
    summary="Processes a node are set in spec.nprocPerNode only.",
    effect="The operator's webhook refuses both together.",
    remedy="Keep spec.nprocPerNode and remove elasticPolicy.nProcPerNode.",
    kinds=KIND,
    source=_WEBHOOK,
    run=_p06,
    passing=Sample('kind: PyTorchJob\nspec: {nprocPerNode: "2", elasticPolicy: {}}'),
    failing=Sample('kind: PyTorchJob\nspec: {nprocPerNode: "2", elasticPolicy: {nProcPerNode: 2}}'),
)


def _p07(subject: Subject) -> Iterator[Hit]:
    policy = _elastic(subject)
    if policy is None:
        return
    if not _has(subject, "Worker"):
        yield Hit("/spec/elasticPolicy", "elasticPolicy needs a Worker")
        return
    now = count(dig(replicas(subject), "Worker", "replicas"))
    low, high = count(policy.get("minReplicas")), count(policy.get("maxReplicas"))
    now = 1 if now is None else now
    low, high = low if low is not None else now, high if high is not None else now
    if not 1 <= low <= now <= high:
        message = f"minReplicas {low} ≤ Worker.replicas {now} ≤ maxReplicas {high} does not hold"
        yield Hit("/spec/elasticPolicy", message)


P07 = Rule(
    id="TW107",
    name="elastic-range",
    severity=Severity.ERROR,
    summary="An elastic job has workers, as many as its range allows.",
    effect="The webhook refuses the object, or the rendezvous never completes.",
    remedy="Set elastic.minNodes ≤ nodes ≤ elastic.maxNodes.",
    kinds=KIND,
    spec="elastic",
    source=_WEBHOOK,
    run=_p07,
    passing=Sample(
        "kind: PyTorchJob\nspec: {elasticPolicy: {minReplicas: 1, maxReplicas: 3}, "
        "pytorchReplicaSpecs: {Worker: {replicas: 2}}}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {elasticPolicy: {minReplicas: 1, maxReplicas: 3}, "
        "pytorchReplicaSpecs: {Worker: {replicas: 4}}}"
    ),
)


def _p08(subject: Subject) -> Iterator[Hit]:
    if _elastic(subject) is not None and _has(subject, "Master"):
        yield Hit(f"{_REPLICAS}/Master", "an elastic job has a Master")


P08 = Rule(
    id="TW108",
    name="elastic-without-master",
    severity=Severity.WARNING,
    summary="Elastic jobs have workers only.",
    effect="The rendezvous points at worker 0 and counts workers only, while the master runs too.",
    remedy="Leave the Master out of an elastic job.",
    kinds=KIND,
    spec="elastic",
    source="kubeflow/trainer@v1.9.4:pkg/controller.v1/pytorch/elastic.go",
    run=_p08,
    passing=Sample(
        "kind: PyTorchJob\nspec: {elasticPolicy: {}, pytorchReplicaSpecs: {Worker: {}}}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {elasticPolicy: {}, pytorchReplicaSpecs: "
        "{Master: {replicas: 1}, Worker: {}}}"
    ),
)


def _p09(subject: Subject) -> Iterator[Hit]:
    if _elastic(subject) is None and not _has(subject, "Master") and _workers(subject) > 1:
        message = f"{_workers(subject)} workers, but neither a Master nor an elasticPolicy"
        yield Hit(f"{_REPLICAS}/Worker", message)


P09 = Rule(
    id="TW109",
    name="rendezvous",
    severity=Severity.ERROR,
    summary="Several pods have a Master or an elasticPolicy to meet through.",
    effect="No pod gets MASTER_ADDR, RANK or WORLD_SIZE: each trains alone, or crashes.",
    remedy="Add a Master with replicas: 1, or an elasticPolicy.",
    kinds=KIND,
    source=_ENVVAR,
    run=_p09,
    passing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {replicas: 1}, "
        "Worker: {replicas: 2}}}"
    ),
    failing=Sample("kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {replicas: 2}}}"),
)

# Launchers that start several processes a pod and read PET_*.
_LAUNCHERS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate",
    "deepspeed",
    "trainwright_runtime",
    "dlrover-run",
)


def launches(words: tuple[str, ...]) -> bool:
    """Whether a command line starts a launcher, in any of its words (shell lines included)."""
    return any(launcher in word for word in words for launcher in _LAUNCHERS)


def _p10(subject: Subject) -> Iterator[Hit]:
    number = count(subject.spec.get("nprocPerNode"))
    if number is None or number < 2:
        return
    for template in subject.templates:
        container = _trainer(template)
        if container and container.command_line and not launches(container.command_line):
            first = container.command_line[0]
            message = f"nprocPerNode is {number}, but {first!r} starts one process a pod"
            yield Hit(container.pointer, message)


P10 = Rule(
    id="TW110",
    name="launcher-for-several-processes",
    severity=Severity.WARNING,
    summary="Several processes a node are started by a launcher such as torchrun.",
    effect="WORLD_SIZE counts processes that never start, and init_process_group waits for them.",
    remedy="Set launcher: trainwright or torchrun, or procsPerNode: 1.",
    kinds=KIND,
    spec="procsPerNode",
    source=_ENVVAR,
    run=_p10,
    passing=Sample(
        'kind: PyTorchJob\nspec: {nprocPerNode: "2", pytorchReplicaSpecs: {Master: {template: '
        "{spec: {containers: [{name: pytorch, command: [torchrun, train.py]}]}}}}}"
    ),
    failing=Sample(
        'kind: PyTorchJob\nspec: {nprocPerNode: "2", pytorchReplicaSpecs: {Master: {template: '
        "{spec: {containers: [{name: pytorch, command: [python, train.py]}]}}}}}"
    ),
)

_RESERVED = frozenset(
    ["MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "PYTHONUNBUFFERED"]
)


def _p11(subject: Subject) -> Iterator[Hit]:
    for container in subject.containers:
        for index, entry in enumerate(container.env):
            name = text(entry.get("name"))
            if name in _RESERVED or name.startswith("PET_"):
                yield Hit(f"{container.pointer}/env/{index}", f"{name} is set", spec=f"env.{name}")


P11 = Rule(
    id="TW111",
    name="reserved-env",
    severity=Severity.WARNING,
    summary="Variables that the launcher or the operator sets are left to them.",
    effect="The operator appends its own value, which wins without a word.",
    remedy="Remove the variable; nodes, procsPerNode and elastic decide it.",
    kinds=("PyTorchJob", "TrainingJob"),  # elsewhere the manifest has to set them
    spec="env",
    source=_ENVVAR,
    run=_p11,
    passing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: "
        "{containers: [{name: pytorch, env: [{name: NCCL_DEBUG, value: INFO}]}]}}}}}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: "
        '{containers: [{name: pytorch, env: [{name: WORLD_SIZE, value: "4"}]}]}}}}}'
    ),
)

_NUMBER_FLAG = re.compile(r"--(nnodes|nproc[-_]per[-_]node)(?:=|\s+)(\d+)(?![\d:])")


def _p12(subject: Subject) -> Iterator[Hit]:
    if _elastic(subject) is not None:
        return
    pods = sum(template.replicas for template in subject.templates)
    wanted = {"nnodes": pods, "nproc_per_node": count(subject.spec.get("nprocPerNode"))}
    for template in subject.templates:
        container = _trainer(template)
        line = " ".join(container.command_line) if container else ""
        for flag, number in _NUMBER_FLAG.findall(line):
            expected = wanted[flag.replace("-", "_")]
            if container and expected is not None and int(number) != expected:
                message = f"--{flag}={number} is passed, but the object says {expected}"
                yield Hit(container.pointer, message)


P12 = Rule(
    id="TW112",
    name="launcher-numbers",
    severity=Severity.WARNING,
    summary="Node and process counts on the command line equal those of the object.",
    effect="The launcher waits for nodes that never come, or leaves some out.",
    remedy="Leave the option out: torchrun reads PET_NNODES and PET_NPROC_PER_NODE.",
    kinds=KIND,
    spec="entrypoint",
    source=_ENVVAR,
    run=_p12,
    passing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: "
        "{containers: [{name: pytorch, command: [torchrun, --nnodes=2]}]}}}}}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {replicas: 3, template: {spec: "
        "{containers: [{name: pytorch, command: [torchrun, --nnodes=2]}]}}}}}"
    ),
)


def _p13(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        container = _trainer(template)
        for index, port in enumerate(sequence(container.body.get("ports")) if container else ()):
            name = text(mapping(port).get("name"))
            where = f"{container.pointer}/ports/{index}" if container else template.pointer
            number = mapping(port).get("containerPort")
            if not name:
                yield Hit(where, f"port {number} has no name")
            elif number == 23456 and name != "pytorchjob-port":
                yield Hit(where, f"port 23456 is named {name!r}, not pytorchjob-port")


P13 = Rule(
    id="TW113",
    name="named-ports",
    severity=Severity.ERROR,
    summary="Every port of the container pytorch has a name; the rendezvous port the known one.",
    effect="The operator adds its own port, and the Service of the two is invalid.",
    remedy="Name the rendezvous port pytorchjob-port, and every other port too.",
    kinds=KIND,
    source="kubeflow/trainer@v1.9.4:pkg/controller.v1/common/service.go",
    run=_p13,
    passing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: "
        "[{name: pytorch, ports: [{name: pytorchjob-port, containerPort: 23456}]}]}}}}}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: "
        "[{name: pytorch, ports: [{containerPort: 23456}]}]}}}}}"
    ),
)


def _p14(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        container = _trainer(template)
        if container and "readinessProbe" in container.body:
            pointer = f"{container.pointer}/readinessProbe"
            yield Hit(pointer, f"{template.role} has a readinessProbe")


P14 = Rule(
    id="TW114",
    name="no-readiness-probe",
    severity=Severity.WARNING,
    summary="The container pytorch has no readiness probe.",
    effect="Until ready the master is not in DNS, and it is not ready until the workers find it.",
    remedy="Remove the readinessProbe; use a startup or liveness probe if one is needed.",
    kinds=KIND,
    source="kubeflow/trainer@v1.9.4:pkg/controller.v1/common/service.go",
    run=_p14,
    passing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: "
        "{containers: [{name: pytorch}]}}}}}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: "
        "{containers: [{name: pytorch, readinessProbe: {tcpSocket: {port: 23456}}}]}}}}}"
    ),
)


def _p15(subject: Subject) -> Iterator[Hit]:
    policy = mapping(subject.spec.get("runPolicy"))
    if "backoffLimit" in policy or "activeDeadlineSeconds" in policy:
        return
    for role, spec in replicas(subject).items():
        restart = mapping(spec).get("restartPolicy", "OnFailure")
        if restart in ("OnFailure", "Always") and isinstance(spec, Mapping):
            message = f"{role} restarts ({restart}) without a backoffLimit or a deadline"
            yield Hit(f"{_REPLICAS}/{escape(str(role))}", message)


P15 = Rule(
    id="TW115",
    name="bounded-restarts",
    severity=Severity.WARNING,
    summary="Restarts are bounded by a number or a deadline.",
    effect="A broken job restarts for ever and holds its GPUs.",
    remedy="Set retries or maxDuration.",
    kinds=KIND,
    spec="retries",
    source="kubeflow/trainer@v1.9.4:pkg/controller.v1/common/job.go",
    run=_p15,
    passing=Sample(
        "kind: PyTorchJob\nspec: {runPolicy: {backoffLimit: 3}, "
        "pytorchReplicaSpecs: {Master: {restartPolicy: OnFailure}}}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {restartPolicy: OnFailure}}}"
    ),
)


def _p16(subject: Subject) -> Iterator[Hit]:
    for role, spec in replicas(subject).items():
        restart = mapping(spec).get("restartPolicy")
        if restart not in (None, "Always", "OnFailure", "Never", "ExitCode"):
            pointer = f"{_REPLICAS}/{escape(str(role))}/restartPolicy"
            yield Hit(pointer, f"restartPolicy is {restart!r}: Always, OnFailure, Never, ExitCode")
    clean = dig(subject.spec, "runPolicy", "cleanPodPolicy")
    if clean not in (None, "All", "Running", "None"):
        pointer = "/spec/runPolicy/cleanPodPolicy"
        yield Hit(pointer, f"cleanPodPolicy is {clean!r}: it must be All, Running or None")


P16 = Rule(
    id="TW116",
    name="known-policies",
    severity=Severity.WARNING,
    summary="restartPolicy and cleanPodPolicy have values that the operator knows.",
    effect="The CRD has no list of them: the pods are refused, or never cleaned up.",
    remedy="Use one of the values named, spelt exactly so.",
    kinds=KIND,
    source="kubeflow/trainer@v1.9.4:pkg/apis/kubeflow.org/v1/common_types.go",
    run=_p16,
    passing=Sample("kind: PyTorchJob\nspec: {runPolicy: {cleanPodPolicy: Running}}"),
    failing=Sample("kind: PyTorchJob\nspec: {runPolicy: {cleanPodPolicy: none}}"),
)


def _p17(subject: Subject) -> Iterator[Hit]:
    if dig(subject.spec, "runPolicy", "cleanPodPolicy") not in (None, "None"):
        return
    if any(accelerators(container) for container in subject.containers):
        yield Hit("/spec/runPolicy", "GPU pods stay when the job is done (cleanPodPolicy None)")


P17 = Rule(
    id="TW117",
    name="clean-gpu-pods",
    severity=Severity.WARNING,
    summary="Pods with accelerators are cleaned up when the job is done.",
    effect="A worker that hangs after the master's success keeps its GPUs.",
    remedy="Set runPolicy.cleanPodPolicy: Running.",
    kinds=KIND,
    source="kubeflow/trainer@v1.9.4:pkg/apis/kubeflow.org/v1/pytorch_defaults.go",
    run=_p17,
    passing=Sample(
        "kind: PyTorchJob\nspec: {runPolicy: {cleanPodPolicy: Running}, pytorchReplicaSpecs: "
        "{Master: {template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}}}}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: "
        "{Master: {template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}}}}"
    ),
)

_RUN_POLICY = frozenset(
    (
        "cleanPodPolicy",
        "ttlSecondsAfterFinished",
        "activeDeadlineSeconds",
        "backoffLimit",
        "schedulingPolicy",
        "suspend",
        "managedBy",
    )
)


def _p18(subject: Subject) -> Iterator[Hit]:
    for key in subject.spec:
        if key in _RUN_POLICY:
            yield Hit(f"/spec/{key}", f"{key} stands under spec, not under spec.runPolicy")


P18 = Rule(
    id="TW118",
    name="run-policy-place",
    severity=Severity.ERROR,
    summary="Fields of the run policy stand under spec.runPolicy.",
    effect="The field is unknown there: refused, or dropped without a word.",
    remedy="Move the field under spec.runPolicy.",
    kinds=KIND,
    source="kubeflow/trainer@v1.9.4:pkg/apis/kubeflow.org/v1/common_types.go",
    run=_p18,
    passing=Sample("kind: PyTorchJob\nspec: {runPolicy: {backoffLimit: 3}}"),
    failing=Sample("kind: PyTorchJob\nspec: {backoffLimit: 3}"),
)


def _p19(subject: Subject) -> Iterator[Hit]:
    by_role = {template.role: template for template in subject.templates}
    if not ("Master" in by_role and "Worker" in by_role):
        return
    master, worker = _trainer(by_role["Master"]), _trainer(by_role["Worker"])
    if master is None or worker is None:
        return
    for key in ("image", "command", "volumeMounts"):
        if master.body.get(key) != worker.body.get(key):
            yield Hit(f"{worker.pointer}/{key}", f"Master and Worker differ in {key}")


P19 = Rule(
    id="TW119",
    name="same-code-everywhere",
    severity=Severity.WARNING,
    summary="Master and workers run the same image and command on the same mounts.",
    effect="Ranks of one job run different code: they hang, or train something else.",
    remedy="Make both templates the same.",
    kinds=KIND,
    spec="image",
    run=_p19,
    passing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: "
        "[{name: pytorch, image: a}]}}}, Worker: {template: {spec: {containers: "
        "[{name: pytorch, image: a}]}}}}}"
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: "
        "[{name: pytorch, image: a}]}}}, Worker: {template: {spec: {containers: "
        "[{name: pytorch, image: b}]}}}}}"
    ),
)


def _p20(subject: Subject) -> Iterator[Hit]:
    options = subject.environment.targets.get("pytorchjob")
    hardened = options is not None and options.restricted_init_container
    restricted = subject.environment.pod_security == "restricted"
    if restricted and not hardened and _has(subject, "Master") and _has(subject, "Worker"):
        message = "the operator adds init-pytorch to workers, which restricted pod security refuses"
        yield Hit(f"{_REPLICAS}/Worker", message)


P20 = Rule(
    id="TW120",
    name="restricted-init-container",
    severity=Severity.WARNING,
    summary="In a restricted namespace the operator's init container is hardened.",
    effect="The API server refuses the worker pods, however well their own container is written.",
    remedy="Replace the operator's /etc/config/initContainer.yaml by a hardened one, then set "
    "targets.pytorchjob.restrictedInitContainer: true in environment.yaml.",
    kinds=KIND,
    spec="nodes",
    source="kubeflow/trainer@v1.9.4:pkg/controller.v1/pytorch/initcontainer.go",
    run=_p20,
    passing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {}}}",
        environment="podSecurity: baseline",
    ),
    failing=Sample(
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {}}}",
        environment="podSecurity: restricted",
    ),
)
RULES: tuple[Rule, ...] = (
    *(P01, P02, P03, P04, P05, P06, P07, P08, P09, P10),
    *(P11, P12, P13, P14, P15, P16, P17, P18, P19, P20),
)
