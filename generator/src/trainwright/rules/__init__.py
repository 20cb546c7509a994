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
    roles,
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
    roles.RULES,
)


@lru_cache(maxsize=256)  # kinds come from manifests of any origin
def _for(kind: GroupKind) -> tuple[Rule, ...]:
    """The rules about objects of a kind, without those that other kinds have of theirs."""
    owner = OWNERS.get(kind)
    families = (*((owner.rules,) if owner and owner.plural else ()), *GENERAL)
    known = united(rule for family in families for rule in family)
    return tuple(rule for rule in known.values() if not rule.kinds or kind in rule.kinds)


@lru_cache(maxsize=256)
def _words(kind: GroupKind) -> frozenset[str]:
    """The keys and texts by which rules about objects of a kind are chosen."""
    return frozenset(word for rule in _for(kind) for word in rule.about)


@lru_cache(maxsize=1024)  # most objects of a kind have the same few of these words
def _concerning(kind: GroupKind, words: frozenset[str]) -> tuple[Rule, ...]:
    """The rules that an object of a kind can break which has these of the words."""
    return tuple(rule for rule in _for(kind) if not rule.about or not words.isdisjoint(rule.about))


def concerning(subject: Subject) -> tuple[Rule, ...]:
    """The rules that an object can break, by its kind and its words."""
    return _concerning(subject.kind, _words(subject.kind).intersection(subject.words))


def run(subject: Subject) -> Iterator[tuple[Rule, Hit]]:
    """Every hit of every rule that concerns an object."""
    distinct = subject.distinct
    for rule in concerning(subject):
        if rule.per_pod and distinct is not subject:
            # Masters and workers are mostly alike, and mostly there is nothing to say of them.
            for _ in rule.run(distinct):
                break
            else:
                continue
        for hit in rule.run(subject):
            yield rule, hit
