"""PyTorchJob v1: what the webhook lets through, and which ranks follow."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.datatypes.tolerant import dig, mapping, mappings, text
from trainwright.kinds.environment_rules import RESERVED, reserved_env
from trainwright.kinds.pytorchjob import KIND
from trainwright.kinds.pytorchjob.spec_rules import (
    ENVVAR,
    REPLICAS,
    elastic,
    hardened,
    has,
    replicas,
    trainer,
    trainers,
)
from trainwright.pods.launching import launches
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.specs.upstream import upstream

_PYTHON = re.compile(r"(?:^|[\s;&|/])python[\d.]*\s")
_OF_TWO = (
    'kind: PyTorchJob\nspec: {nprocPerNode: "2", pytorchReplicaSpecs: {Master: {template: {spec: '
    "{containers: [{name: pytorch, command: [%s]}]}}}}}"
)


@warning(
    id="TW110",
    summary="Several processes per node are started by a launcher such as torchrun.",
    effect="Unless the script starts them itself, WORLD_SIZE counts processes that never start, "
    "and init_process_group waits for them.",
    remedy="Set launcher: trainwright or torchrun, or procsPerNode: 1; waive this where the script "
    "starts the processes itself.",
    by_hand="Start the script by torchrun, or set nprocPerNode: '1'; waive this where the script "
    "starts the processes itself.",
    spec=Pointer("/procsPerNode"),
    source=ENVVAR,
    per_pod=True,
    passes='kind: PyTorchJob\nspec: {nprocPerNode: "2", pytorchReplicaSpecs: {Master: {template: '
    "{spec: {containers: [{name: pytorch, command: [torchrun, train.py]}]}}}}}",
    fails='kind: PyTorchJob\nspec: {nprocPerNode: "2", pytorchReplicaSpecs: {Master: {template: '
    "{spec: {containers: [{name: pytorch, command: [python, train.py]}]}}}}}",
    near_misses=(
        _OF_TWO % "bash, run.sh",
        _OF_TWO % "./train",
        _OF_TWO % 'sh, -c, "torchrun a.py"',
    ),
    variants=(_OF_TWO % "python3, -u, train.py", _OF_TWO % 'sh, -c, "exec python train.py"'),
)
def missing_launcher(subject: Subject) -> Iterator[Hit]:
    number = count(subject.spec.get("nprocPerNode"))
    if number is None or number < 2:
        return
    for _, container in trainers(subject):
        words = container.command_line
        if _PYTHON.search(" ".join(words)) and not launches(words):
            message = (
                f"nprocPerNode is {number}, and python starts one process per pod, unless the "
                "script starts others"
            )
            yield Hit(container.pointer, message)


reserved_variable = reserved_env((KIND.group_kind,), RESERVED | {"PYTHONUNBUFFERED"})

_NUMBER_FLAG = re.compile(r"--(nnodes|nproc[-_]per[-_]node)(?:=|\s+)(\d+)(?![\d:])")


@warning(
    id="TW112",
    summary="Node and process counts on the command line equal those of the object.",
    effect="The launcher waits for nodes that never come, or leaves some out.",
    remedy="Leave the option out: torchrun reads PET_NNODES and PET_NPROC_PER_NODE.",
    spec=Pointer("/entrypoint"),
    source=ENVVAR,
    passes="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: "
    "{containers: [{name: pytorch, command: [torchrun, --nnodes=2]}]}}}}}",
    fails="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Worker: {replicas: 3, template: {spec: "
    "{containers: [{name: pytorch, command: [torchrun, --nnodes=2]}]}}}}}",
)
def launcher_counts_mismatch(subject: Subject) -> Iterator[Hit]:
    if elastic(subject) is not None:
        return
    wanted = {"nnodes": subject.pods, "nproc_per_node": count(subject.spec.get("nprocPerNode"))}
    for _, container in trainers(subject):
        for flag, number in _NUMBER_FLAG.findall(" ".join(container.command_line)):
            expected = wanted[flag.replace("-", "_")]
            if expected is not None and int(number) != expected:
                message = f"--{flag}={number} is passed, but the object says {expected}"
                yield Hit(container.pointer, message)


@error(
    id="TW113",
    summary="Every port of the container pytorch has a name; the rendezvous port the known one.",
    effect="The operator adds its own port, and the Service of the two is invalid.",
    remedy="Name the rendezvous port pytorchjob-port, and every other port too.",
    source=upstream("training-operator/services-wait-for-readiness").source,
    per_pod=True,
    passes="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: "
    "[{name: pytorch, ports: [{name: pytorchjob-port, containerPort: 23456}]}]}}}}}",
    fails="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: "
    "[{name: pytorch, ports: [{containerPort: 23456}]}]}}}}}",
)
def unnamed_port(subject: Subject) -> Iterator[Hit]:
    for _, container in trainers(subject):
        for index, port in enumerate(mappings(container.body.get("ports"))):
            name, number = text(port.get("name")), port.get("containerPort")
            where = f"{container.pointer}/ports/{index}"
            if not name:
                yield Hit(where, f"port {number} has no name")
            elif number == 23456 and name != "pytorchjob-port":
                yield Hit(where, f"port 23456 is named {name!r}, not pytorchjob-port")


@warning(
    id="TW114",
    summary="The container pytorch has no readiness probe.",
    effect="Until ready the master is not in DNS, and it is not ready until the workers find it.",
    remedy="Remove the readinessProbe; use a startup or liveness probe if one is needed.",
    source=upstream("training-operator/services-wait-for-readiness").source,
    per_pod=True,
    passes="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: "
    "[{name: pytorch}]}}}}}",
    fails="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: "
    "[{name: pytorch, readinessProbe: {tcpSocket: {port: 23456}}}]}}}}}",
)
def readiness_probe_on_ranks(subject: Subject) -> Iterator[Hit]:
    for template, container in trainers(subject):
        if "readinessProbe" in container.body:
            pointer = f"{container.pointer}/readinessProbe"
            yield Hit(pointer, f"{template.role} has a readinessProbe")


@warning(
    id="TW115",
    summary="Restarts are bounded by a number or a deadline.",
    effect="A broken job restarts for ever and holds its GPUs.",
    remedy="Set retries or maxDuration.",
    by_hand="Set runPolicy.backoffLimit or runPolicy.activeDeadlineSeconds.",
    spec=Pointer("/retries"),
    source=upstream("training-operator/end-of-a-job").source,
    passes="kind: PyTorchJob\nspec: {runPolicy: {backoffLimit: 3}, pytorchReplicaSpecs: {Master: "
    "{restartPolicy: OnFailure}}}",
    fails="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {restartPolicy: OnFailure}}}",
)
def unbounded_restarts(subject: Subject) -> Iterator[Hit]:
    policy = mapping(subject.spec.get("runPolicy"))
    if "backoffLimit" in policy or "activeDeadlineSeconds" in policy:
        return
    for role, spec in replicas(subject).items():
        restart = mapping(spec).get("restartPolicy", "OnFailure")
        if restart in ("OnFailure", "Always") and isinstance(spec, dict):
            message = f"{role} restarts ({restart}) without a backoffLimit or a deadline"
            yield Hit(Pointer(REPLICAS) / str(role), message)


@warning(
    id="TW116",
    summary="restartPolicy and cleanPodPolicy have values that the operator knows.",
    effect="The CRD has no list of them: the pods are refused, or never cleaned up.",
    remedy="Use one of the values named, spelt exactly so.",
    source=upstream("training-operator/clean-pod-policies").source,
    passes="kind: PyTorchJob\nspec: {runPolicy: {cleanPodPolicy: Running}}",
    fails="kind: PyTorchJob\nspec: {runPolicy: {cleanPodPolicy: none}}",
)
def unknown_policy_value(subject: Subject) -> Iterator[Hit]:
    for role, spec in replicas(subject).items():
        restart = mapping(spec).get("restartPolicy")
        if restart not in (None, "Always", "OnFailure", "Never", "ExitCode"):
            pointer = Pointer(REPLICAS) / str(role) / "restartPolicy"
            yield Hit(pointer, f"restartPolicy is {restart!r}: Always, OnFailure, Never, ExitCode")
    clean = dig(subject.spec, "runPolicy", "cleanPodPolicy")
    if clean not in (None, "All", "Running", "None"):
        pointer = Pointer("/spec/runPolicy/cleanPodPolicy")
        yield Hit(pointer, f"cleanPodPolicy is {clean!r}: it must be All, Running or None")


@warning(
    id="TW117",
    summary="Pods with accelerators are cleaned up when the job is done.",
    effect="A worker that hangs after the master's success keeps its GPUs.",
    remedy="Set runPolicy.cleanPodPolicy: Running.",
    source=upstream("training-operator/defaults").source,
    per_pod=True,
    passes="kind: PyTorchJob\nspec: {runPolicy: {cleanPodPolicy: Running}, pytorchReplicaSpecs: "
    "{Master: {template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}}}}",
    fails="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: "
    "[{resources: {limits: {nvidia.com/gpu: 1}}}]}}}}}",
)
def finished_pods_keep_gpus(subject: Subject) -> Iterator[Hit]:
    if dig(subject.spec, "runPolicy", "cleanPodPolicy") not in (None, "None"):
        return
    if any(container.accelerators for container in subject.containers):
        yield Hit("/spec/runPolicy", "GPU pods stay when the job is done (cleanPodPolicy None)")


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


@error(
    id="TW118",
    summary="Fields of the run policy are under spec.runPolicy.",
    effect="The field is unknown there: refused, or dropped without a word.",
    remedy="Move the field under spec.runPolicy.",
    source=upstream("training-operator/clean-pod-policies").source,
    passes="kind: PyTorchJob\nspec: {runPolicy: {backoffLimit: 3}}",
    fails="kind: PyTorchJob\nspec: {backoffLimit: 3}",
)
def misplaced_run_policy(subject: Subject) -> Iterator[Hit]:
    for key in subject.spec:
        if key in _RUN_POLICY:
            yield Hit(f"/spec/{key}", f"{key} is under spec, not under spec.runPolicy")


@warning(
    id="TW119",
    summary="Master and workers run the same image and command on the same mounts.",
    effect="Ranks of one job run different code: they hang, or train something else.",
    remedy="Make both templates the same.",
    spec=Pointer("/image"),
    passes="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: "
    "[{name: pytorch, image: a}]}}}, Worker: {template: {spec: {containers: [{name: pytorch, "
    "image: a}]}}}}}",
    fails="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: {containers: "
    "[{name: pytorch, image: a}]}}}, Worker: {template: {spec: {containers: [{name: pytorch, "
    "image: b}]}}}}}",
)
def ranks_run_different_code(subject: Subject) -> Iterator[Hit]:
    by_role = {template.role: template for template in subject.templates}
    if not ("Master" in by_role and "Worker" in by_role):
        return
    master, worker = trainer(by_role["Master"]), trainer(by_role["Worker"])
    if master is None or worker is None:
        return
    for key in ("image", "command", "volumeMounts"):
        if master.body.get(key) != worker.body.get(key):
            yield Hit(Pointer(worker.pointer) / key, f"Master and Worker differ in {key}")


@warning(
    id="TW120",
    summary="In a restricted namespace the operator's init container is hardened.",
    effect="The API server refuses the worker pods, however well their own container is written.",
    remedy="Replace the operator's /etc/config/initContainer.yaml by a hardened one, then set "
    "targets.pytorchjob.restrictedInitContainer: true in environment.yaml.",
    spec=Pointer("/nodes"),
    source=upstream("training-operator/waiting-init-container").source,
    passes="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {}}}",
    passes_in="podSecurity: baseline",
    fails="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {}}}",
    fails_in="podSecurity: restricted",
)
def unrestricted_init_container(subject: Subject) -> Iterator[Hit]:
    restricted = subject.environment.pod_security == "restricted"
    if (
        restricted
        and not hardened(subject.environment)
        and has(subject, "Master")
        and has(subject, "Worker")
    ):
        message = "the operator adds init-pytorch to workers, which restricted pod security refuses"
        yield Hit(f"{REPLICAS}/Worker", message)


@warning(
    id="TW123",
    summary="No probe keeps the pods of a PyTorchJob from being found by each other.",
    effect="The operator's Services name ready pods only: where the probe succeeds once training "
    "has begun, the ranks wait for rank 0, and rank 0 for them.",
    remedy="Remove the probe, or let it succeed before the ranks meet.",
    spec=Pointer("/readinessProbe"),
    source="https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#a-aaaa-records",
    passes="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {replicas: 1, template: {spec: "
    "{containers: [{name: pytorch, readinessProbe: {tcpSocket: {port: 23456}}}]}}}, Worker: "
    "{replicas: 1}}}",
    fails="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {replicas: 1, template: {spec: "
    "{containers: [{name: pytorch, readinessProbe: {exec: {command: [a]}}}]}}}, Worker: "
    "{replicas: 1}}}",
)
def rank_hidden_by_probe(subject: Subject) -> Iterator[Hit]:
    for _, container in trainers(subject) if subject.pods > 1 else ():
        for name in ("readinessProbe", "startupProbe"):
            probe = mapping(container.body.get(name))
            # One of a port succeeds as soon as rank 0 listens there for the others.
            if probe and "tcpSocket" not in probe:
                message = f"{name} keeps the pod out of its Service until it succeeds"
                yield Hit(Pointer(container.pointer) / name, message, Pointer.of(name))


RULES = defined_in(globals())
