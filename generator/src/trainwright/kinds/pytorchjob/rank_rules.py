"""PyTorchJob v1: mistakes that the webhook lets through, and what they mean for the ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.datatypes.data import dig, mapping, mappings, text
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.kinds.environment_rules import reserved_env
from trainwright.kinds.pytorchjob import KIND
from trainwright.kinds.pytorchjob.spec_rules import (
    REPLICAS,
    elastic,
    hardened,
    has,
    replicas,
    trainer,
    trainers,
)
from trainwright.objects.pods.launchers import RANKS
from trainwright.objects.pods.launching import launched, launches, starts_ranks
from trainwright.objects.pods.template import Container
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject

_PYTHON = re.compile(r"(?:^|[\s;&|/])python[\d.]*\s")


@warning("TW110", about=("python",), spec=Pointer("/procsPerNode"), per_pod=True)
def missing_launcher(subject: Subject) -> Iterator[Hit]:
    number = count(subject.spec.get("nprocPerNode"))
    if number is None or number < 2:
        return
    for _, container in trainers(subject):
        words = container.command_line
        if _PYTHON.search(" ".join(words)) and not (launches(words) or starts_ranks(words)):
            message = (
                f"nprocPerNode is {number}, and python starts one process per pod, unless the "
                "script starts others"
            )
            yield Hit(container.pointer, message)


reserved_variable = reserved_env((KIND.group_kind,), RANKS | {"PYTHONUNBUFFERED"})

_NUMBER_FLAG = re.compile(r"--(nnodes|nproc[-_]per[-_]node)(?:=|\s+)(\d+)(?![\d:])")


@warning("TW112", about=("--nnodes", "--nproc"), spec=Pointer("/entrypoint"), per_pod=True)
def launcher_counts_mismatch(subject: Subject) -> Iterator[Hit]:
    if elastic(subject) is not None:
        return
    wanted = {"nnodes": subject.pods, "nproc_per_node": count(subject.spec.get("nprocPerNode"))}
    for _, container in trainers(subject):
        for flag, number in _NUMBER_FLAG.findall(launched(container)):
            expected = wanted[flag.replace("-", "_")]
            if expected is not None and int(number) != expected:
                message = f"--{flag}={number} is passed, but the object has {expected}"
                form, remedy = "waits" if int(number) > expected else "fewer", ""
                if flag != "nnodes":
                    form, remedy = "processes", _for_processes(container, int(number))
                yield Hit(container.pointer, message, form=form, remedy=remedy)


def _for_processes(container: Container, number: int) -> str:
    """Return what to do where as many processes as the pod has GPUs are passed, or it has none."""
    gpus = sum(container.accelerators.values())
    return f"Write `procsPerNode: {number}`." if gpus in (0, number) else ""


@error("TW113", per_pod=True)
def unnamed_port(subject: Subject) -> Iterator[Hit]:
    for _, container in trainers(subject):
        for index, port in enumerate(mappings(container.body.get("ports"))):
            name, number = text(port.get("name")), port.get("containerPort")
            where = f"{container.pointer}/ports/{index}"
            if not name:
                yield Hit(where, f"port {number} has no name")
            elif number == 23456 and name != "pytorchjob-port":
                yield Hit(where, f"port 23456 is named {name!r}, not pytorchjob-port")


@warning("TW114", about=("readinessProbe",), per_pod=True)
def readiness_probe_on_ranks(subject: Subject) -> Iterator[Hit]:
    for template, container in trainers(subject):
        if "readinessProbe" in container.body:
            pointer = f"{container.pointer}/readinessProbe"
            yield Hit(pointer, f"{template.role} has a readinessProbe")


@warning("TW115", spec=Pointer("/retries"))
def unbounded_restarts(subject: Subject) -> Iterator[Hit]:
    policy = mapping(subject.spec.get("runPolicy"))
    if "backoffLimit" in policy or "activeDeadlineSeconds" in policy:
        return
    for role, spec in replicas(subject).items():
        restart = mapping(spec).get("restartPolicy", "OnFailure")
        if restart in ("OnFailure", "Always") and isinstance(spec, dict):
            message = f"{role} restarts ({restart}) without a backoffLimit or a deadline"
            yield Hit(Pointer(REPLICAS) / str(role), message)


@warning("TW116")
def unknown_policy_value(subject: Subject) -> Iterator[Hit]:
    for role, spec in replicas(subject).items():
        restart = mapping(spec).get("restartPolicy")
        if restart not in (None, "Always", "OnFailure", "Never", "ExitCode"):
            pointer = Pointer(REPLICAS) / str(role) / "restartPolicy"
            message = f"restartPolicy is {restart!r}: Always, OnFailure, Never, ExitCode"
            yield Hit(pointer, message, form="restart")
    clean = dig(subject.spec, "runPolicy", "cleanPodPolicy")
    if clean not in (None, "All", "Running", "None"):
        pointer = Pointer("/spec/runPolicy/cleanPodPolicy")
        yield Hit(
            pointer, f"cleanPodPolicy is {clean!r}: it must be All, Running or None", form="clean"
        )


@warning("TW117", per_pod=True)
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


@error("TW118")
def misplaced_run_policy(subject: Subject) -> Iterator[Hit]:
    for key in subject.spec:
        if key in _RUN_POLICY:
            yield Hit(f"/spec/{key}", f"{key} is under spec, not under spec.runPolicy")


@warning("TW119", spec=Pointer("/image"))
def ranks_run_different_code(subject: Subject) -> Iterator[Hit]:
    by_role = {template.role: template for template in subject.templates}
    first, others = by_role.get("Master"), by_role.get("Worker")
    if first is None or others is None or first.alike(others):
        return
    master, worker = trainer(first), trainer(others)
    if master is None or worker is None:
        return
    for key in ("image", "command", "volumeMounts"):
        if master.body.get(key) != worker.body.get(key):
            yield Hit(Pointer(worker.pointer) / key, f"Master and Worker differ in {key}")


@warning("TW120", spec=Pointer("/nodes"))
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


@warning("TW123", about=("readinessProbe", "startupProbe"), spec=Pointer("/readinessProbe"))
def rank_hidden_by_probe(subject: Subject) -> Iterator[Hit]:
    for _, container in trainers(subject) if subject.pods > 1 else ():
        for name in ("readinessProbe", "startupProbe"):
            probe = mapping(container.body.get(name))
            # A probe of a port succeeds as soon as rank 0 listens there for the others.
            if probe and "tcpSocket" not in probe:
                message = f"{name} keeps the pod out of its Service until it succeeds"
                yield Hit(Pointer(container.pointer) / name, message, Pointer.of(name))


RULES = defined_in(globals())
