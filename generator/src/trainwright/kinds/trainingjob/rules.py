"""BreezeML TrainingJob: what its CRD and its operator refuse."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.kinds.environment_rules import RESERVED, reserved_env
from trainwright.kinds.trainingjob import KIND
from trainwright.kinds.trainingjob.target import SHELL_SAFE
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject

_TYPES = "lattice-io/lattice:lattice-operator/pkg/apis/breezeml.ai/v1/lattice_types.go"
_SPEC_KEYS = frozenset(
    ["runPolicy", "replicaSpecs", "minSize", "maxSize", "injectLattice", "framework", "priority"]
)


@error(
    id="TW401",
    summary="runPolicy is present, replicaSpecs is one replica spec, and no field is unknown.",
    effect="The API server refuses the object.",
    remedy="Write runPolicy: {} and put the pod template under replicaSpecs.template.",
    source=_TYPES,
    passes="kind: TrainingJob\nspec: {runPolicy: {}, replicaSpecs: {template: {}}}",
    fails="kind: TrainingJob\nspec: {replicaSpecs: {Worker: {template: {}}}}",
)
def invalid_trainingjob_shape(subject: Subject) -> Iterator[Hit]:
    spec = subject.spec
    if not isinstance(spec.get("runPolicy"), dict):
        yield Hit("/spec", "runPolicy is missing (it may be {})")
    replica = spec.get("replicaSpecs")
    if not isinstance(replica, dict) or "template" not in replica:
        yield Hit("/spec", "replicaSpecs is not a single replica spec with a template")
    for key in spec:
        if key not in _SPEC_KEYS:
            yield Hit(f"/spec/{key}", f"unknown field {key} in a TrainingJob")


@error(
    id="TW402",
    summary="minSize and maxSize are both set, and 1 ≤ minSize ≤ maxSize.",
    effect="The operator marks the job WrongConfiguration and never schedules it.",
    remedy="Set nodes, or elastic.minNodes and elastic.maxNodes.",
    by_hand="Set minSize and maxSize.",
    spec=Pointer("/elastic"),
    source="lattice-io/lattice:lattice-operator/common/util/autoscaler.go",
    passes="kind: TrainingJob\nspec: {minSize: 1, maxSize: 3}",
    fails="kind: TrainingJob\nspec: {minSize: 3}",
)
def invalid_trainingjob_sizes(subject: Subject) -> Iterator[Hit]:
    low, high = (count(subject.spec.get(key)) for key in ("minSize", "maxSize"))
    if low is None or high is None:
        yield Hit("/spec", f"minSize is {low}, maxSize is {high}: both must be set")
    elif not 1 <= low <= high:
        yield Hit("/spec/minSize", f"1 ≤ minSize {low} ≤ maxSize {high} does not hold")


@error(
    id="TW403",
    summary="An injected container has an explicit command whose words need no quoting.",
    effect="The operator joins the words by spaces into one bash line, which then reads otherwise.",
    remedy="Use words of letters, digits and _@%+=:,./- only; pass other text through env.",
    spec=Pointer("/entrypoint"),
    source="lattice-io/lattice:lattice-operator/pkg/controller.v1",
    passes="kind: TrainingJob\nspec: {injectLattice: true, replicaSpecs: {template: {spec: "
    "{containers: [{command: [python, train.py]}]}}}}",
    fails="kind: TrainingJob\nspec: {injectLattice: true, replicaSpecs: {template: {spec: "
    '{containers: [{command: [python, -c, "print(1)"]}]}}}}',
)
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


@warning(
    id="TW404",
    summary="Accelerators are in resources.requests, not only in limits.",
    effect="The autoscaler reads requests only and counts one unit per pod.",
    remedy="Set the same number in requests and limits.",
    spec=Pointer("/resources/gpu"),
    source="lattice-io/lattice:lattice-operator/common/util/autoscaler.go",
    passes="kind: TrainingJob\nspec: {replicaSpecs: {template: {spec: {containers: [{resources: "
    "{requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 1}}}]}}}}",
    fails="kind: TrainingJob\nspec: {replicaSpecs: {template: {spec: {containers: [{resources: "
    "{limits: {nvidia.com/gpu: 1}}}]}}}}",
)
def gpu_request_missing(subject: Subject) -> Iterator[Hit]:
    for container in subject.containers:
        for name in container.accelerators:
            if name not in container.requests:
                message = f"{name} is in limits but not in requests"
                yield Hit(f"{container.pointer}/resources", message)


@warning(
    id="TW405",
    summary="The container is named trainingjob, and an injected job sets no restartPolicy.",
    effect="Exit codes are not read, or the policy that is written is not the one that acts.",
    remedy="Name the container trainingjob and leave restartPolicy out.",
    source=_TYPES,
    passes="kind: TrainingJob\nspec: {replicaSpecs: {template: {spec: {containers: [{name: "
    "trainingjob}]}}}}",
    fails="kind: TrainingJob\nspec: {replicaSpecs: {template: {spec: {containers: [{name: "
    "main}]}}}}",
)
def invalid_trainingjob_container(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        if template.trains and all(c.name != "trainingjob" for c in template.trains):
            names = ", ".join(repr(c.name) for c in template.trains)
            yield Hit(template.pointer, f"no container is named trainingjob (found: {names})")
    restart = subject.spec.get("replicaSpecs")
    policy = restart.get("restartPolicy") if isinstance(restart, dict) else None
    if subject.spec.get("injectLattice") is True and policy not in (None, "Never"):
        message = f"restartPolicy {policy} is replaced by Never when the agent is injected"
        yield Hit("/spec/replicaSpecs/restartPolicy", message)


# Without its agent Lattice sets nothing.
RULES = (
    *defined_in(globals()),
    reserved_env(
        (KIND.group_kind,), RESERVED, lambda subject: subject.spec.get("injectLattice") is True
    ),
)
