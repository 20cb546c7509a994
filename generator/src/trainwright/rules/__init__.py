"""The rules, in the order of their ids: adding one is its family's module and its place there."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.rules import (
    gitops,
    images,
    kueue,
    pods,
    pytorchjob,
    resources,
    secrets,
    security,
    trainingjob,
)
from trainwright.rules.rule import Rule
from trainwright.rules.subject import Hit, Subject

_FAMILIES = (
    pytorchjob.RULES,
    trainingjob.RULES,
    gitops.RULES,
    kueue.RULES,
    resources.RULES,
    security.RULES,
    pods.RULES,
    images.RULES,
    secrets.RULES,
)
RULES: dict[str, Rule] = {
    rule.id: rule
    for rule in sorted((r for family in _FAMILIES for r in family), key=lambda rule: rule.id)
}


def run(subject: Subject) -> Iterator[tuple[Rule, Hit]]:
    """Every hit of every rule that looks at objects of this kind."""
    kind = subject.kind
    for rule in RULES.values():
        if not rule.kinds or kind in rule.kinds:
            for hit in rule.run(subject):
                yield rule, hit
