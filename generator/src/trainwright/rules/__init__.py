"""The rules, in the order of their ids: those of each kind, and what is true of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from trainwright.groupkind import GroupKind
from trainwright.kinds import SERVED
from trainwright.objects.rule import Rule, united
from trainwright.objects.subject import Hit, Subject
from trainwright.rules import (
    definitions,
    delivery,
    devices,
    gitops,
    images,
    kueue,
    launchers,
    mounts,
    names,
    network,
    nodes,
    pods,
    probes,
    quota,
    resources,
    secrets,
    security,
    validation,
    variables,
    volumes,
)

_GENERAL = (
    variables.RULES,
    gitops.RULES,
    delivery.RULES,
    names.RULES,
    definitions.RULES,
    kueue.RULES,
    quota.RULES,
    nodes.RULES,
    resources.RULES,
    security.RULES,
    pods.RULES,
    images.RULES,
    secrets.RULES,
    volumes.RULES,
    network.RULES,
    probes.RULES,
    devices.RULES,
    validation.RULES,
    mounts.RULES,
    launchers.RULES,
)
RULES: dict[str, Rule] = united(
    rule for family in (*(kind.rules for kind in SERVED.values()), *_GENERAL) for rule in family
)


@lru_cache(maxsize=256)  # kinds come from manifests of any origin
def _for(kind: GroupKind) -> tuple[Rule, ...]:
    return tuple(rule for rule in RULES.values() if not rule.kinds or kind in rule.kinds)


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
