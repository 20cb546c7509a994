"""BreezeML TrainingJob: what its CRD and its operator refuse."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.kinds.environment_rules import reserved_env
from trainwright.kinds.trainingjob import KIND
from trainwright.objects.pods.command import SHELL_SAFE
from trainwright.objects.pods.launchers import RANKS
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject

_SPEC_KEYS = frozenset(
    ["runPolicy", "replicaSpecs", "minSize", "maxSize", "injectLattice", "framework", "priority"]
)


@error("TW401")
def invalid_trainingjob_shape(subject: Subject) -> Iterator[Hit]:
    spec = subject.spec
    if not isinstance(spec.get("runPolicy"), dict):
        yield Hit("/spec", "runPolicy is missing (it may be {})", form="refused")
    replica = spec.get("replicaSpecs")
    if not isinstance(replica, dict) or "template" not in replica:
        yield Hit(
            "/spec", "replicaSpecs is not a single replica spec with a template", form="refused"
        )
    for key in spec:
        if key not in _SPEC_KEYS:
            yield Hit(f"/spec/{key}", f"unknown field {key} in a TrainingJob", form="unknown")


@error("TW402", spec=Pointer("/elastic"))
def invalid_trainingjob_sizes(subject: Subject) -> Iterator[Hit]:
    low, high = (count(subject.spec.get(key)) for key in ("minSize", "maxSize"))
    if low is None or high is None:
        yield Hit("/spec", f"minSize is {low}, maxSize is {high}: both must be set")
    elif not 1 <= low <= high:
        yield Hit("/spec/minSize", f"1 ≤ minSize {low} ≤ maxSize {high} does not hold")


@error("TW403", spec=Pointer("/entrypoint"))
def command_not_injectable(subject: Subject) -> Iterator[Hit]:
    if subject.spec.get("injectLattice") is not True:
        return
    for template in subject.templates:
        container = template.main
        if container is None or not container.body.get("command"):
            yield Hit(template.pointer, "injectLattice needs an explicit command")
            continue
        for word in container.command_line:
            if not SHELL_SAFE.fullmatch(word):
                yield Hit(container.pointer, f"the agent loses the quoting of {word!r}")


@warning("TW404", spec=Pointer("/resources/gpu"))
def gpu_request_missing(subject: Subject) -> Iterator[Hit]:
    for container in subject.containers:
        for name in container.accelerators:
            if name not in container.requests:
                message = f"{name} is in limits but not in requests"
                yield Hit(f"{container.pointer}/resources", message)


@warning("TW405")
def invalid_trainingjob_container(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        if template.trains and all(c.name != "trainingjob" for c in template.trains):
            names = ", ".join(repr(c.name) for c in template.trains)
            message = f"no container is named trainingjob (found: {names})"
            yield Hit(template.pointer, message, form="container")
    restart = subject.spec.get("replicaSpecs")
    policy = restart.get("restartPolicy") if isinstance(restart, dict) else None
    if subject.spec.get("injectLattice") is True and policy not in (None, "Never"):
        message = f"restartPolicy {policy} is replaced by Never when the agent is injected"
        yield Hit("/spec/replicaSpecs/restartPolicy", message, form="policy")


# Without its agent Lattice sets nothing.
RULES = (
    *defined_in(globals()),
    reserved_env(
        (KIND.group_kind,), RANKS, lambda subject: subject.spec.get("injectLattice") is True
    ),
)
