"""A job's podPatch: finding fields that Kubernetes does not know, and the values that it sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import DIRECTIVE, PATCH
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents.validation import kubernetes_schemas, schema
from trainwright.findings import diagnostics as dx
from trainwright.specs.merge import Layered

AT = Pointer.of(PATCH)
_SPEC = AT / "spec"


def problems(spec: Layered, version: str) -> Iterator[Finding]:
    """Yield a finding for whatever pods of this Kubernetes minor version cannot take."""
    patch = spec.data.get(PATCH)
    if not patch:  # or every job would wait for the schemas of Kubernetes
        return
    keys = kubernetes_schemas.merge_keys(version)
    yield from _malformed(patch, AT, spec, keys)
    template_schema = schema.pod_template(version)
    for violation in template_schema.explain({PATCH: _plain(patch)}):
        if violation.missing:  # a patch, or an item that it deletes by name, may lack fields
            continue
        dated = schema.dated(violation, template_schema.root, version)
        at = violation.pointer
        place = spec.key_origin(at) if violation.key else spec.origin(at)
        effect, remedy = dx.RENDERED_SCHEMA.effect, dated.remedy
        yield dx.SCHEMA.at(place, dated.message, effect=effect, remedy=remedy, path=at)


def _malformed(
    data: Data, at: Pointer, spec: Layered, keys: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield what is not a valid strategic merge patch, whatever its fields are."""
    if isinstance(data, dict):
        if DIRECTIVE in data and at in (AT, _SPEC, AT / "metadata"):
            message = f"{at.dotted} cannot be {data[DIRECTIVE]}d as a whole"
            remedy = "Write it where it applies: in a mapping, or in an item of a list."
            yield dx.SCHEMA.at(spec.key_origin(at / DIRECTIVE), message, remedy=remedy, path=at)
        for key, value in data.items():
            yield from _malformed(value, at / key, spec, keys)
    elif isinstance(data, list):
        key = keys.get(at.last, "")
        for index, item in enumerate(data):
            yield from _item(item, at / index, spec, key)
            yield from _malformed(item, at / index, spec, keys)


def _item(item: Data, at: Pointer, spec: Layered, key: str) -> Iterator[Finding]:
    """Check an item of a list that is merged by `key` or, if that is "", replaced as a whole."""
    directive = item.get(DIRECTIVE) if isinstance(item, dict) else None
    if key and isinstance(item, dict) and key not in item and directive != "replace":
        message = f"{at.dotted} has no {key}, by which Kubernetes knows the items of this list"
        remedy = f"Add {key}."
        yield spec.finding(dx.SCHEMA, at, message, remedy=remedy)
    elif not key and directive is not None:
        message = f"{at.parent.dotted} is replaced as a whole: nothing in it can be {directive}d"
        remedy = "Write the list as it is meant to be."
        yield dx.SCHEMA.at(spec.key_origin(at / DIRECTIVE), message, remedy=remedy, path=at)


def _plain(data: Data) -> Data:
    """Return a patch without directives and nulls, with every list item at its index."""
    if isinstance(data, dict):
        return {k: _plain(v) for k, v in data.items() if v is not None and k != DIRECTIVE}
    return [_plain(item) for item in data] if isinstance(data, list) else data


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a list in a patch that is merged by a key."""

    at: Pointer
    key: str
    body: Mapping[str, Data]

    @property
    def name(self) -> str:
        return str(self.body.get(self.key))

    @property
    def deleted(self) -> bool:
        return self.body.get(DIRECTIVE) == "delete"


def items(patch: Data, version: str, at: Pointer = AT) -> Iterator[Item]:
    """Every item of such a list, wherever it is in a patch."""
    keys = kubernetes_schemas.merge_keys(version)
    if isinstance(patch, dict):
        for key, value in patch.items():
            yield from items(value, version, at / key)
    elif isinstance(patch, list):
        for index, item in enumerate(patch):
            key = keys.get(at.last, "")
            if key and isinstance(item, dict) and key in item:
                yield Item(at / index, key, item)
            yield from items(item, version, at / index)


_ABSENT = object()


def setting(patch: Data, pod: Data, pointer: Pointer, version: str) -> Pointer:
    """Where in a patch a value of the patched pod is set, or the nearest mapping around it."""
    keys = kubernetes_schemas.merge_keys(version)
    node, at = patch, AT
    for key in pointer.parts:
        pod = lookup(pod, Pointer.of(key))
        below: Data = _ABSENT
        if isinstance(node, dict) and key in node:
            below, step = node[key], key
        elif isinstance(node, list):
            by = keys.get(at.last, "")
            index = _same(node, pod, by) if by else int(key)
            if index is not None and index < len(node):
                below, step = node[index], str(index)
        if below is _ABSENT:
            break
        node, at = below, at / step
    return at


def _same(items: list[Data], wanted: Data, key: str) -> int | None:
    """The index of the item that is merged into another."""
    name = wanted.get(key) if isinstance(wanted, dict) else None
    having = (i for i, item in enumerate(items) if isinstance(item, dict) and item.get(key) == name)
    return next(having, None)
