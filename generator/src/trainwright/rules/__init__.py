"""The rules, in the order of their ids: adding one is its family's module and its place there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from trainwright.groupkind import GroupKind
from trainwright.kinds import indexed_policy_rules as jobset
from trainwright.kinds import indexed_rules as jobs
from trainwright.kinds.pytorchjob import rank_rules as pytorchjob_ranks
from trainwright.kinds.pytorchjob import rules as pytorchjob
from trainwright.kinds.trainingjob import rules as trainingjob
from trainwright.kinds.trainjob import rules as trainjob
from trainwright.kinds.trainjob import runtime_rules as runtimes
from trainwright.objects.rule import Rule
from trainwright.objects.subject import Hit, Subject
from trainwright.rules import (
    delivery,
    gitops,
    images,
    kueue,
    pods,
    quota,
    resources,
    secrets,
    security,
)

_FAMILIES = (
    pytorchjob.RULES,
    pytorchjob_ranks.RULES,
    trainjob.RULES,
    runtimes.RULES,
    jobs.RULES,
    jobset.RULES,
    trainingjob.RULES,
    gitops.RULES,
    delivery.RULES,
    kueue.RULES,
    quota.RULES,
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


@lru_cache(maxsize=256)  # kinds are anybody's text
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
