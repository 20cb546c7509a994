"""The rule type: a frozen value, defined in its family's module, listed in the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Required, TypedDict, Unpack

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.model import Severity
from trainwright.datatypes.pointer import Pointer
from trainwright.rule_model.subject import Hit, Subject


@dataclass(frozen=True, slots=True)
class Sample:
    """A YAML snippet of one or more objects, and what the environment must say, as YAML.

    Only what the rule reads needs to be there: rules tolerate partial objects.
    `environment` holds the keys of environment.yaml that matter.
    """

    manifest: str
    environment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One check over one rendered object.

    `id` is stable for ever. `summary` says what must hold; `effect` what happens otherwise;
    `remedy` what to do, ending in a full stop; `by_hand` the same for manifests without a job spec,
    where the remedy speaks of one. `kinds` is empty for every kind, or in a kind's folder for that
    kind alone.
    `spec` is the position in a job spec that usually decides it. A `per_pod` rule says of each pod
    template what follows from the template itself, whatever its role, count and neighbours are: of
    templates that are alike it says the same. `passes` and `fails` are samples, in
    `passes_in` and `fails_in` of the environment. `near_misses` resemble what fails and pass, and
    `variants` are other forms of what fails.
    """

    id: str
    name: str  # kebab-case
    severity: Severity
    summary: str
    effect: str
    remedy: str
    by_hand: str = ""
    kinds: tuple[GroupKind, ...] = ()
    spec: Pointer = Pointer()
    source: str = ""  # where the fact was read, a URL or repository path
    per_pod: bool = False
    run: Callable[[Subject], Iterable[Hit]]
    passes: str
    fails: str
    passes_in: str = ""
    fails_in: str = ""
    near_misses: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()

    @property
    def passing(self) -> Sample:
        return Sample(self.passes, self.passes_in)

    @property
    def failing(self) -> Sample:
        return Sample(self.fails, self.fails_in)


Check = Callable[[Subject], Iterable[Hit]]


class _Fields(TypedDict, total=False):
    id: Required[str]
    summary: Required[str]
    effect: Required[str]
    remedy: Required[str]
    by_hand: str
    kinds: tuple[GroupKind, ...]
    spec: Pointer
    source: str
    per_pod: bool
    passes: Required[str]
    fails: Required[str]
    passes_in: str
    fails_in: str
    near_misses: tuple[str, ...]
    variants: tuple[str, ...]


def error(**fields: Unpack[_Fields]) -> Callable[[Check], Rule]:
    """A check as a rule of its name, by a decorator with the other fields."""
    return lambda check: _rule(check, Severity.ERROR, fields)


def warning(**fields: Unpack[_Fields]) -> Callable[[Check], Rule]:
    return lambda check: _rule(check, Severity.WARNING, fields)


def _rule(check: Check, severity: Severity, fields: _Fields) -> Rule:
    name = check.__name__.replace("_", "-")
    return Rule(name=name, severity=severity, run=check, **fields)


def defined_in(module: Mapping[str, object]) -> tuple[Rule, ...]:
    """The rules among the names of a module."""
    return tuple(value for value in tuple(module.values()) if isinstance(value, Rule))


def united(rules: Iterable[Rule]) -> dict[str, Rule]:
    """Rules by their ids; of one that has parts in several kinds, each part looks at its own."""
    parts: dict[str, list[Rule]] = {}
    for rule in rules:
        parts.setdefault(rule.id, []).append(rule)
    return {key: _united(parts[key]) for key in sorted(parts)}


def _united(parts: list[Rule]) -> Rule:
    if len(parts) == 1:
        return parts[0]
    run = {kind: part.run for part in parts for kind in part.kinds}
    return replace(parts[0], kinds=tuple(run), run=lambda subject: run[subject.kind](subject))


def pod(container: str, rest: str = "", replica: str = "") -> str:
    """A PyTorchJob of one container, for samples: its fields, the pod's and the replica's.

    Each is YAML in flow style; `rest` starts with a comma, `replica` ends with one.
    """
    containers = f"containers: [{{name: pytorch, {container}}}]"
    template = f"template: {{spec: {{{containers}{rest}}}}}"
    return f"kind: PyTorchJob\nspec: {{pytorchReplicaSpecs: {{Worker: {{{replica}{template}}}}}}}"
