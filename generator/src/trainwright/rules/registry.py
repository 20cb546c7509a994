"""All rules in the order of their IDs, those of each kind and those for any kind."""

from __future__ import annotations

from trainwright.kinds import SERVED
from trainwright.rule_model.rule import Rule, united
from trainwright.rules.families import GENERAL

RULES: dict[str, Rule] = united(
    rule for family in (*(kind.rules for kind in SERVED.values()), *GENERAL) for rule in family
)
