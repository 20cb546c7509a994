"""Variables that an operator sets in every container, so that a spec must not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.model import Severity
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import text
from trainwright.rule_model.rule import Rule
from trainwright.rule_model.subject import Hit, Subject
from trainwright.specs.upstream import upstream

RESERVED = frozenset(["MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK"])


def reserved_env(
    kinds: tuple[GroupKind, ...],
    names: frozenset[str],
    sets: Callable[[Subject], bool] = lambda _: True,
) -> Rule:
    """The rule for kinds whose operator sets these variables; elsewhere the manifest has to."""

    def run(subject: Subject) -> Iterator[Hit]:
        for container in subject.containers if sets(subject) else ():
            for index, entry in enumerate(container.env):
                name = text(entry.get("name"))
                if name in names or name.startswith("PET_"):
                    yield Hit(
                        f"{container.pointer}/env/{index}",
                        f"{name} is set",
                        spec=Pointer.of("env", name),
                    )

    return Rule(
        id="TW111",
        name="reserved-variable",
        severity=Severity.WARNING,
        summary="Variables that the launcher or the operator sets are left to them.",
        effect="The operator appends its own value, which wins without a word.",
        remedy="Remove the variable; nodes, procsPerNode and elastic decide it.",
        by_hand="Remove the variable; replicas and processes per node decide it.",
        kinds=kinds,
        spec=Pointer("/env"),
        source=upstream("training-operator/rank-variables").source,
        per_pod=True,
        run=run,
        passes="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: "
        "{containers: [{name: pytorch, env: [{name: NCCL_DEBUG, value: INFO}]}]}}}}}",
        fails="kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: "
        '{containers: [{name: pytorch, env: [{name: WORLD_SIZE, value: "4"}]}]}}}}}',
    )
