"""The families of rules, those for any kind and those for one, and what they find in an object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import lru_cache

from trainwright.datatypes.data import plain as spelled
from trainwright.datatypes.frozen import cached_property, dataclass
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
from trainwright.rules.plain import is_plain

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
    """Return the rules that apply to a kind, without those of other kinds."""
    owner = OWNERS.get(kind)
    families = (*((owner.rules,) if owner and owner.is_served else ()), *GENERAL)
    rules = united(rule for family in families for rule in family)
    return tuple(rule for rule in rules.values() if not rule.kinds or kind in rule.kinds)


_MOST = 1 << 16


@dataclass(frozen=True)
class _Choice:
    """The rules about objects of a kind, chosen by the parts of keys and texts in `about`, and
    without those that find nothing in plain pods where all are.

    Objects of a kind mostly have the same keys and texts. Those without any part are `silent`, and
    not searched again; of the others the parts are kept.
    """

    rules: tuple[Rule, ...]
    _silent: set[str] = field(default_factory=set)
    _telling: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _by_parts: dict[tuple[bool, frozenset[str]], tuple[Rule, ...]] = field(default_factory=dict)

    @cached_property
    def _parts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(spelled(part) for rule in self.rules for part in rule.about))

    def concerning(self, words: frozenset[str], plain: bool) -> tuple[Rule, ...]:
        """The rules that an object with these keys and texts, and with plain pods, can break."""
        if len(self._silent) + len(self._telling) > _MOST:
            self._silent.clear()
            self._telling.clear()
        heard = words - self._silent
        if new := heard - self._telling.keys():
            self._learn(new)
        telling = heard & self._telling.keys()
        parts = frozenset(part for word in telling for part in self._telling[word])
        return self._by_parts.get((plain, parts)) or self._with(plain, parts)

    def _learn(self, words: frozenset[str]) -> None:
        """Find the parts of new words: of all at once, since most have none."""
        text = spelled("\n".join(words))
        parts = [part for part in self._parts if part in text]
        for word in words if parts else ():
            text = spelled(word)
            if told := tuple(part for part in parts if part in text):
                self._telling[word] = told
        self._silent.update(words - self._telling.keys())

    def _with(self, plain: bool, parts: frozenset[str]) -> tuple[Rule, ...]:
        if len(self._by_parts) > _MOST:
            self._by_parts.clear()
        self._by_parts[plain, parts] = rules = tuple(
            rule
            for rule in self.rules
            if not (plain and rule.special)
            and (not rule.about or not parts.isdisjoint(map(spelled, rule.about)))
        )
        return rules


@lru_cache(maxsize=256)
def _choice(kind: GroupKind) -> _Choice:
    return _Choice(_for(kind))


def concerning(subject: Subject) -> tuple[Rule, ...]:
    """The rules that an object can break, by its kind, its words, and what is special in it."""
    return _choice(subject.kind).concerning(subject.words, is_plain(subject))


def run(subject: Subject) -> Iterator[tuple[Rule, Hit]]:
    """Every hit of every rule that concerns an object."""
    distinct = subject.distinct
    for rule in concerning(subject):
        if rule.per_pod and distinct is not subject:
            # Masters and workers are mostly alike and break no rule: one look is enough then.
            for _ in rule.run(distinct):
                break
            else:
                continue
        for hit in rule.run(subject):
            yield rule, hit
