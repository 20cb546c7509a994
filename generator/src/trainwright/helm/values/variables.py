"""The variables of a container as values of the chart, in an order in which references are met."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data
from trainwright.datatypes.job import SecretKey, ValueFrom, Variable

# By the key of a variable's source, the chart's values that hold such variables.
_GROUPS = {"resourceFieldRef": "resourceEnv", "configMapKeyRef": "configMapEnv"}
# The groups in the order in which the chart writes them.
_ORDER = ("env", "secretEnv", "fieldEnv", *_GROUPS.values())


def literals(variables: Mapping[str, Variable]) -> dict[str, str]:
    """Return the variables whose values are written in the spec."""
    return {name: value for name, value in variables.items() if isinstance(value, str)}


def sourced(variables: Mapping[str, Variable]) -> dict[str, dict[str, Data]]:
    """Return the variables that have a source, grouped by the chart value they belong in."""
    by_source: dict[str, dict[str, Data]] = {}
    for name, value in sorted(variables.items()):
        if isinstance(value, ValueFrom):
            ((kind, source),) = value.source.items()
            if kind == "fieldRef":
                by_source.setdefault("fieldEnv", {})[name] = source["fieldPath"]
            else:
                by_source.setdefault(_GROUPS[kind], {})[name] = dict(source)
    return by_source


_REFERENCE = re.compile(r"\$(?:\$|\(([A-Za-z_][A-Za-z0-9_]*)\))")


def references(text: str) -> Iterator[str]:
    """Return the variables that a value refers to as $(NAME)."""
    return (match[1] for match in _REFERENCE.finditer(text) if match[1])


def first(values: Mapping[str, Data]) -> list[str]:
    """Return the variables that have to come first, since others refer to them.

    A reference to a variable that follows is not replaced:
    https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    """
    order = [name for group in _ORDER for name in sorted(values.get(group) or {})]
    return _referred_to(values.get("env") or {}, order)


def entries(
    variables: Mapping[str, Variable], secrets: Mapping[str, SecretKey]
) -> list[dict[str, Data]]:
    """Return the variables of a container other than the one that trains, as its `env` list."""
    by_name: dict[str, dict[str, Data]] = {
        name: {"value": value} if isinstance(value, str) else {"valueFrom": dict(value.source)}
        for name, value in sorted(variables.items())
    }
    for name, secret in sorted(secrets.items()):
        by_name[name] = {"valueFrom": {"secretKeyRef": secret.reference()}}
    order = dict.fromkeys((*_referred_to(literals(variables), list(by_name)), *by_name))
    return [{"name": name, **by_name[name]} for name in order]


def _referred_to(values: Mapping[str, str], order: list[str]) -> list[str]:
    """Return the variables that others refer to, each after those that it refers to itself.

    Return [] if `order` is fine as it is.
    """
    place = {name: index for index, name in enumerate(order)}
    needs = {
        name: [other for other in references(value) if other in place and other != name]
        for name, value in values.items()
    }
    if all(place[other] < place[name] for name, others in needs.items() for other in others):
        return []
    ordered: dict[str, None] = {}
    wanted = {other for others in needs.values() for other in others}
    for name in sorted(wanted, key=place.__getitem__):
        _visit(name, needs, ordered, ())
    return list(ordered)


def _visit(
    name: str, needs: Mapping[str, list[str]], ordered: dict[str, None], above: tuple[str, ...]
) -> None:
    """Add a variable after those that it needs. In a cycle, one reference stays unresolved."""
    if name in ordered or name in above:
        return
    for other in needs.get(name, ()):
        _visit(other, needs, ordered, (*above, name))
    ordered[name] = None
