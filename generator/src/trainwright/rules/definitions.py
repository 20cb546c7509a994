"""CustomResourceDefinitions: what the API server asks of their schemas beyond their own schema.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, dig, mapping, mappings, sequence, text
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.pointer import Pointer
from trainwright.rule_model.rule import defined_in, error
from trainwright.rule_model.subject import Hit, Subject

DEFINITION = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
_UNTYPED = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")


@error("TW518", kinds=(DEFINITION,))
def invalid_definition(subject: Subject) -> Iterator[Hit]:
    if subject.manifest.api_version != "apiextensions.k8s.io/v1":
        return
    versions = mappings(subject.spec.get("versions"))
    stored = sum(version.get("storage") is True for version in versions)
    if versions and stored != 1:
        yield Hit("/spec/versions", f"{stored} versions are stored, it must be one")
    for index, version in enumerate(versions):
        root = dig(version, "schema", "openAPIV3Schema")
        at = Pointer.of("spec", "versions", index, "schema", "openAPIV3Schema")
        if isinstance(root, dict):
            if root.get("type") not in (None, "", "object"):
                yield Hit(at / "type", "the type of an object as a whole is object")
            yield from _structural(root, at)


def _structural(node: Mapping[str, Data], at: Pointer) -> Iterator[Hit]:
    """What keeps a schema from being structural, at every level that describes fields."""
    if not node.get("type") and not any(node.get(key) is True for key in _UNTYPED):
        yield Hit(at, "there is no type")
    if node.get("type") == "array" and not isinstance(node.get("items"), dict):
        yield Hit(at, "there are no items in the schema of an array")
    yield from _list(node, at)
    for name, field in mapping(node.get("properties")).items():
        yield from _structural(mapping(field), at / "properties" / str(name))
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from _structural(node[key], at / key)


def _list(node: Mapping[str, Data], at: Pointer) -> Iterator[Hit]:
    sort, keys = text(node.get("x-kubernetes-list-type")), "x-kubernetes-list-map-keys"
    if sort and node.get("type") != "array":
        yield Hit(at / "x-kubernetes-list-type", "only an array has a list type")
    if sort == "map" and not sequence(node.get(keys)):
        yield Hit(at, f"a list that is a map has {keys}")
    fields = mapping(dig(node, "items", "properties"))
    for index, key in enumerate(sequence(node.get(keys))):
        if key not in fields:
            yield Hit(at / keys / index, f'the items have no field "{key}"')


RULES = defined_in(globals())
