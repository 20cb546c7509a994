"""`x-kubernetes-validations` of CRDs, evaluated by CEL's own implementation (cel-cpp).

Kubernetes compiles a rule against the types of its schema; here `self` is dynamic, so a rule that
would not compile there fails only when it is evaluated. What the engine cannot evaluate is
reported, never counted as passed. https://kubernetes.io/docs/reference/using-api/cel/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.manifests import celfunctions, celvalues
from trainwright.manifests.crds import Crd
from trainwright.manifests.structural import Structural

_RULES = "x-kubernetes-validations"
_OLD = re.compile(r"\boldSelf\b")
_STEP = re.compile(r"\.([A-Za-z0-9_-]+)|\['([^']+)'\]")  # of a fieldPath
# Errors that the server would meet too: it then refuses the object.
_REFUSED = ("NOT_FOUND", "Index error", "divide by zero", "OUT_OF_RANGE")


@dataclass(frozen=True, slots=True)
class Broken:
    """A CEL rule that an object violates: where, with which message, and the rule itself."""

    pointer: str
    message: str
    rule: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A rule that could not be evaluated, and why."""

    rule: str
    reason: str


Outcome: TypeAlias = Broken | Skipped


def creation(crd: Crd, body: Mapping[str, Data]) -> tuple[Outcome, ...]:
    """Evaluate the CEL rules of a CRD on a new object, without transition rules (`oldSelf`)."""
    if not _has_rules(crd.root):
        return ()
    return tuple(_Walk(changing=False).value(crd.root, crd.prepared(body), _NOTHING, Pointer()))


def transition(crd: Crd, old: Mapping[str, Data], new: Mapping[str, Data]) -> tuple[Outcome, ...]:
    """Evaluate a CRD's transition rules (those with `oldSelf`) on a change, and no other rules.

    The server pairs fields by name, and the items of a list by its keys if it is of type map.
    Inside any other list there is no old value to compare with.
    """
    if not _has_rules(crd.root):
        return ()
    walk = _Walk(changing=True)
    return tuple(walk.value(crd.root, crd.prepared(new), crd.prepared(old), Pointer()))


def compares(crd: Crd) -> bool:
    """Whether any rule of a CRD is about changes."""
    return _compares(crd.root)


def _compares(schema: Structural) -> bool:
    if not _has_rules(schema):
        return False
    rules = (str(rule.get("rule", "")) for rule in schema.get(_RULES, ()))
    return any(map(_OLD.search, rules)) or any(map(_compares, _below(schema)))


class _Nothing:
    """The sentinel for a missing old value, as None is a null."""


_NOTHING = _Nothing()
_known: dict[int, tuple[Structural, bool]] = {}


def _has_rules(schema: Structural) -> bool:
    """Whether the schema or anything below it has rules; cached, as every step checks it."""
    if id(schema) not in _known:
        any_below = any(map(_has_rules, _below(schema)))
        # Keeps the schema alive, whose id could otherwise be reused for another one.
        _known[id(schema)] = (schema, any_below or bool(schema.get(_RULES)))
    return _known[id(schema)][1]


def _below(schema: Structural) -> Iterator[Structural]:
    fields = [*schema.get("properties", {}).values()]
    fields += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return (field for field in fields if isinstance(field, Mapping))


@dataclass(frozen=True)
class _Walk:
    """Walks through a value, its old value and its schema, and evaluates every rule on the way."""

    changing: bool

    def value(
        self, schema: Structural, value: Data, old: Data, pointer: Pointer
    ) -> Iterator[Outcome]:
        if value is None or not _has_rules(schema):
            return
        for rule in schema.get(_RULES, ()):
            yield from self._asked(rule, schema, value, old, pointer)
        if isinstance(value, Mapping):
            for key, item in value.items():
                child = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
                if isinstance(child, Mapping):
                    before = old.get(key, _NOTHING) if isinstance(old, Mapping) else _NOTHING
                    yield from self.value(child, item, before, pointer / str(key))
        elif isinstance(value, list) and isinstance(schema.get("items"), Mapping):
            paired = _by_key(schema, old)
            for index, item in enumerate(value):
                before = paired.get(celvalues.key(schema, item), _NOTHING)
                yield from self.value(schema["items"], item, before, pointer / index)

    def _asked(
        self, rule: Mapping[str, Data], schema: Structural, value: Data, old: Data, pointer: str
    ) -> Iterator[Outcome]:
        text = str(rule.get("rule", ""))
        compares = _OLD.search(text) is not None
        optional = bool(rule.get("optionalOldSelf"))
        if compares != self.changing and not (optional and not self.changing):
            return
        if self.changing and old is _NOTHING and not optional:
            return
        root = not pointer
        data = {"self": celvalues.convert(value, schema, root=root, sort=self.changing)}
        form = ""
        if optional:
            form = "some" if self.changing and old is not _NOTHING else "none"
        if self.changing and old is not _NOTHING:
            name = "previous" if optional else "oldSelf"
            data[name] = celvalues.convert(old, schema, root=root, sort=True)
        problem = _problem(text, form, data)
        if isinstance(problem, Skipped):
            yield problem
        elif problem is not None:
            message = _message(rule, form, data) + problem
            yield Broken(pointer + _steps(str(rule.get("fieldPath", ""))), message, text)


def _by_key(schema: Structural, items: Data) -> dict[Any, Data]:
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(items, list):
        return {}
    return {celvalues.key(schema, item): item for item in items}


def _steps(field_path: str) -> str:
    steps = (plain or quoted for plain, quoted in _STEP.findall(field_path))
    return Pointer.of(*steps)


def _problem(text: str, form: str, data: Mapping[str, Data]) -> Skipped | str | None:
    """Return None if the rule holds, Skipped if it cannot run, else a suffix for its message."""
    program = _compiled(text, form)
    if isinstance(program, str):
        return Skipped(text, program)
    try:
        result = program.eval(data=data)
    except RuntimeError as error:
        return Skipped(text, _first_line(error))
    kind = result.type().name()
    if kind == "BOOL":
        return None if result.value() else ""
    reason = _first_line(result.value())
    if kind == "ERROR" and any(word in reason for word in _REFUSED):
        return f" ({reason.rpartition(': ')[2] if 'NOT_FOUND' not in reason else reason})"
    return Skipped(text, reason if kind == "ERROR" else f"it gives {kind}, not true or false")


def _message(rule: Mapping[str, Data], form: str, data: Mapping[str, Data]) -> str:
    expression = rule.get("messageExpression")
    if isinstance(expression, str):
        program = _compiled(expression, form)
        if not isinstance(program, str):
            result = program.eval(data=data)
            if result.type().name() == "STRING" and str(result.value()).strip():
                return str(result.value())
    text = " ".join(str(rule.get("rule", "")).split())
    return " ".join(str(rule.get("message") or f"the rule does not hold: {text}").split())


@cache
def _compiled(text: str, form: str) -> Any:
    """Return the compiled program of an expression, or the reason why it does not compile.

    An optional oldSelf is bound in CEL itself: Python has no such value.
    """
    if form == "some":
        text = f"cel.bind(oldSelf, optional.of(previous), {text})"
    elif form == "none":
        text = f"cel.bind(oldSelf, optional.none(), {text})"
    try:
        return celfunctions.environment().compile(text)
    except RuntimeError as error:
        return _first_line(error)


def _first_line(error: object) -> str:
    line = str(error).split("\n", 1)[0].removesuffix("[INVALID_ARGUMENT]")
    return re.sub(r"^INVALID_ARGUMENT: ERROR: <input>:\d+:\d+: ", "", line).strip()[:200]
