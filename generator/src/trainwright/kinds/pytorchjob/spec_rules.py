"""PyTorchJob v1: what the webhook refuses, and what it lets through and then never trains."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, dig, mapping, text
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.kinds.pytorchjob import KIND
from trainwright.objects import forms
from trainwright.objects.pods.template import Container, PodTemplate, once
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject

ROLES = ("Master", "Worker")
REPLICAS = "/spec/pytorchReplicaSpecs"


def replicas(subject: Subject) -> Mapping[str, Data]:
    """Return the replica specs by role, whose types are not checked."""
    return mapping(subject.spec.get("pytorchReplicaSpecs"))


def hardened(environment: Environment) -> bool:
    """Whether the operator's init container passes restricted pod security."""
    options = environment.targets.get(KIND.name)
    return options is not None and options.restricted_init_container


def has(subject: Subject, role: str) -> bool:
    """Whether there is a spec for a role."""
    return isinstance(replicas(subject).get(role), dict)


def elastic(subject: Subject) -> Mapping[str, Data] | None:
    """Return the elastic policy, or None if there is none."""
    policy = subject.spec.get("elasticPolicy")
    return policy if isinstance(policy, dict) else None


def _workers(subject: Subject) -> int:
    """Return the maximum number of workers."""
    if not has(subject, "Worker"):
        return 0
    now = count(dig(replicas(subject), "Worker", "replicas"))
    most = count((elastic(subject) or {}).get("maxReplicas"))
    return max(1 if now is None else now, most or 0)


@once
def trainer(template: PodTemplate) -> Container | None:
    """Return the container that the operator configures, or None if no name fits."""
    return next((each for each in template.trains if each.name == KIND.container), None)


def trainers(subject: Subject) -> list[tuple[PodTemplate, Container]]:
    """Return each pod template with the operator's container, if it has one."""
    pairs = ((template, trainer(template)) for template in subject.templates)
    return [(template, container) for template, container in pairs if container]


@error("TW101", per_pod=True)
def missing_pytorch_container(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        if trainer(template) is None:
            names = ", ".join(repr(c.name) for c in template.trains) or "none"
            message = f"{template.role} has no container named pytorch (found: {names})"
            yield Hit(template.pointer, message)


@error("TW102")
def master_replicas_not_one(subject: Subject) -> Iterator[Hit]:
    if has(subject, "Master"):
        number = dig(replicas(subject), "Master", "replicas")
        if number != 1 or isinstance(number, bool):
            problem = "is left out" if number is None else f"is {number}"
            yield Hit(f"{REPLICAS}/Master", f"Master.replicas {problem}, it must be written as 1")


@error("TW103")
def invalid_replica_keys(subject: Subject) -> Iterator[Hit]:
    specs = replicas(subject)
    if not specs:
        yield Hit("/spec", "there are no pytorchReplicaSpecs")
    for role, spec in specs.items():
        if role not in ROLES:
            message = f"the replica key is {role!r}, it must be Master or Worker"
        elif not isinstance(spec, dict):
            message = f"{role} has nothing under it"
        else:
            continue
        yield Hit(Pointer(REPLICAS) / str(role), message)


@error("TW104", spec=Pointer("/name"))
def pytorchjob_name_too_long(subject: Subject) -> Iterator[Hit]:
    name = text(subject.metadata.get("name"))
    if not name:
        return
    if not forms.LETTER_FIRST.pattern.fullmatch(name):
        yield Hit(
            "/metadata/name",
            f"the name {name!r} is not a DNS label starting with a letter",
            form="invalid",
        )
    workers = _workers(subject)
    suffix = f"-worker-{workers - 1}" if workers > 0 else "-master-0"  # never shorter
    over = len(name) + len(suffix) - 63
    if over > 0:
        message = f'"{name}{suffix}" has {len(name) + len(suffix)} characters, {over} over 63'
        yield Hit("/metadata/name", message, form="long")


_PROCESSES = re.compile("auto|cpu|gpu|[1-9][0-9]*")


@error("TW105", spec=Pointer("/procsPerNode"))
def nproc_per_node_not_string(subject: Subject) -> Iterator[Hit]:
    value = subject.spec.get("nprocPerNode")
    if value is None:
        return
    if not isinstance(value, str):
        yield Hit(
            "/spec/nprocPerNode",
            f"nprocPerNode is {value!r}, it must be a quoted string",
            form="number",
        )
    elif not _PROCESSES.fullmatch(value):
        message = f"nprocPerNode is {value!r}, it must be auto, cpu, gpu or a number"
        yield Hit("/spec/nprocPerNode", message, form="word")


@error("TW106", about=("elasticPolicy",))
def nproc_per_node_set_twice(subject: Subject) -> Iterator[Hit]:
    policy = elastic(subject) or {}
    if "nProcPerNode" in policy:
        both = "nprocPerNode" in subject.spec
        what = "set twice, here and in spec" if both else "deprecated since 1.7"
        message = f"elasticPolicy.nProcPerNode is {what}"
        form = "both" if both else "deprecated"
        yield Hit("/spec/elasticPolicy/nProcPerNode", message, form=form)


@error("TW107", about=("elasticPolicy",), spec=Pointer("/elastic"))
def invalid_elastic_range(subject: Subject) -> Iterator[Hit]:
    policy = elastic(subject)
    if policy is None:
        return
    if not has(subject, "Worker"):
        yield Hit("/spec/elasticPolicy", "elasticPolicy needs a Worker")
        return
    now = count(dig(replicas(subject), "Worker", "replicas"))
    low, high = count(policy.get("minReplicas")), count(policy.get("maxReplicas"))
    now = 1 if now is None else now
    low, high = low if low is not None else now, high if high is not None else now
    if not 1 <= low <= now <= high:
        message = f"minReplicas {low} ≤ Worker.replicas {now} ≤ maxReplicas {high} does not hold"
        yield Hit("/spec/elasticPolicy", message)


@warning("TW108", about=("elasticPolicy",), spec=Pointer("/elastic"))
def elastic_with_master(subject: Subject) -> Iterator[Hit]:
    if elastic(subject) is not None and has(subject, "Master"):
        yield Hit(f"{REPLICAS}/Master", "an elastic job has a Master")


@error("TW109")
def missing_rendezvous(subject: Subject) -> Iterator[Hit]:
    if elastic(subject) is None and not has(subject, "Master") and _workers(subject) > 1:
        message = f"{_workers(subject)} workers, but neither a Master nor an elasticPolicy"
        yield Hit(f"{REPLICAS}/Worker", message)


RULES = defined_in(globals())
