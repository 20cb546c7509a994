"""The rule type: a frozen value, defined in its family's module, listed in the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import TypedDict, Unpack

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.pointer import Pointer
from trainwright.rule_model.rule_file import Documented, objects
from trainwright.rule_model.subject import Hit, Subject


@dataclass(frozen=True, slots=True)
class Sample:
    """One or more objects, and the keys of environment.yaml that matter for them.

    Only what the rule reads needs to be there: rules tolerate partial objects.
    """

    objects: tuple[Data, ...]
    environment: Mapping[str, Data] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Documented):
    """One check over one rendered object.

    An empty `kinds` means every kind or, in a kind's folder, that kind alone. `about` are parts of
    keys or texts, matched in any case and with dashes or dots for underscores: the rule only runs
    on an object that has one of them, as no other can break it (empty: any object may). `spec` is
    the position in a job spec that usually decides it. A `per_pod` rule depends on nothing but the
    pod template itself and on how many pods there are in all, not on its role, its replicas or its
    neighbours, so that its findings are the same for equal templates. A `special` rule is about
    what plain pods do not have (rules/plain.py): it finds nothing in an object whose
    metadata and pods are plain.
    """

    kinds: tuple[GroupKind, ...] = ()
    about: tuple[str, ...] = ()
    spec: Pointer = Pointer()
    per_pod: bool = False
    special: bool = False
    run: Callable[[Subject], Iterable[Hit]]

    @property
    def by_hand(self) -> str:
        return self.words.by_hand

    @property
    def failing(self) -> Sample:
        return self._sample(self.samples["fails"], "fails_in")

    @property
    def passing(self) -> Sample:
        return self._sample(self.samples["passes"], "passes_in")

    @property
    def variants(self) -> tuple[Sample, ...]:
        """Other samples that fail."""
        return tuple(
            self._sample(sample, "fails_in") for sample in self.samples.get("variants", ())
        )

    @property
    def near_misses(self) -> tuple[Sample, ...]:
        """Samples that resemble the failing one, but pass."""
        return tuple(
            self._sample(sample, "fails_in") for sample in self.samples.get("near_misses", ())
        )

    def effect_of(self, hit: Hit, kind: GroupKind) -> str:
        """Return what follows from a hit in an object of a kind, where the words tell it apart."""
        effects = self.words.effects
        if hit.form:
            return effects[hit.form]
        of_kubernetes = kind.group in ("", "apps", "batch") or kind.group.endswith(".k8s.io")
        own = effects.get(kind.kind) or (effects.get("core") if of_kubernetes else "")
        return own or effects.get("other", "")

    def _sample(self, written: Data, environment: str) -> Sample:
        return Sample(tuple(objects(written)), self.samples.get(environment, {}))


Check = Callable[[Subject], Iterable[Hit]]


class _Fields(TypedDict, total=False):
    kinds: tuple[GroupKind, ...]
    about: tuple[str, ...]
    spec: Pointer
    per_pod: bool
    special: bool


def error(key: str, **fields: Unpack[_Fields]) -> Callable[[Check], Rule]:
    """Make a check an error rule of the same name; `data/<key>.yaml` has its texts and samples."""
    return lambda check: _rule(key, check, Severity.ERROR, fields)


def warning(key: str, **fields: Unpack[_Fields]) -> Callable[[Check], Rule]:
    return lambda check: _rule(key, check, Severity.WARNING, fields)


def _rule(key: str, check: Check, severity: Severity, fields: _Fields) -> Rule:
    name, module = check.__name__.replace("_", "-"), check.__module__
    return Rule(id=key, name=name, severity=severity, module=module, run=check, **fields)


def defined_in(module: Mapping[str, object]) -> tuple[Rule, ...]:
    """The rules among the names of a module."""
    return tuple(value for value in tuple(module.values()) if isinstance(value, Rule))


def united(rules: Iterable[Rule]) -> dict[str, Rule]:
    """Return rules by ID. The parts that a rule has for several kinds become a single rule."""
    parts: dict[str, list[Rule]] = {}
    for rule in rules:
        parts.setdefault(rule.id, []).append(rule)
    return {key: _united(parts[key]) for key in sorted(parts)}


def _united(parts: list[Rule]) -> Rule:
    """Return one rule of the parts that several kinds have of it."""
    if len(parts) == 1:
        return parts[0]
    run = {kind: part.run for part in parts for kind in part.kinds}
    about = (
        tuple(word for part in parts for word in part.about)
        if all(part.about for part in parts)
        else ()
    )
    return replace(
        parts[0], kinds=tuple(run), about=about, run=lambda subject: run[subject.kind](subject)
    )
