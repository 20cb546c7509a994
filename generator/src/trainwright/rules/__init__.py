"""What the rules find in an object: those of its kind, and those that are true of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from trainwright.datatypes.groupkind import GroupKind
from trainwright.kinds import OWNERS
from trainwright.rule_model.rule import Rule, united
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules import (
    deception,
    definitions,
    delivery,
    devices,
    endings,
    gates,
    gitops,
    images,
    kueue,
    launchers,
    mounts,
    multikueue,
    names,
    network,
    nodes,
    pods,
    probes,
    quota,
    resources,
    saving,
    secrets,
    security,
    tuning,
    validation,
    variables,
    volumes,
    waiting,
)

GENERAL = (
    variables.RULES,
    gitops.RULES,
    delivery.RULES,
    names.RULES,
    definitions.RULES,
    kueue.RULES,
    waiting.RULES,
    multikueue.RULES,
    quota.RULES,
    nodes.RULES,
    resources.RULES,
    security.RULES,
    pods.RULES,
    images.RULES,
    secrets.RULES,
    deception.RULES,
    volumes.RULES,
    network.RULES,
    probes.RULES,
    devices.RULES,
    gates.RULES,
    validation.RULES,
    mounts.RULES,
    saving.RULES,
    tuning.RULES,
    endings.RULES,
    launchers.RULES,
)


@lru_cache(maxsize=256)  # kinds come from manifests of any origin
def _for(kind: GroupKind) -> tuple[Rule, ...]:
    """The rules about objects of a kind, without those that other kinds have of theirs."""
    owner = OWNERS.get(kind)
    families = (*((owner.rules,) if owner and owner.plural else ()), *GENERAL)
    known = united(rule for family in families for rule in family)
    return tuple(rule for rule in known.values() if not rule.kinds or kind in rule.kinds)


def run(subject: Subject) -> Iterator[tuple[Rule, Hit]]:
    """Every hit of every rule that looks at objects of this kind."""
    distinct = subject.distinct
    for rule in _for(subject.kind):
        if rule.per_pod and distinct is not subject:
            # Masters and workers are mostly alike, and mostly there is nothing to say of them.
            for _ in rule.run(distinct):
                break
            else:
                continue
        for hit in rule.run(subject):
            yield rule, hit
