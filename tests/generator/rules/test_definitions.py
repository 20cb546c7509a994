"""CustomResourceDefinitions: those of real projects pass, and each way not to be structural."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from trainwright.datatypes.data import Data
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.subjects import subject_of
from trainwright.manifests.run import nowhere
from trainwright.rules.registry import RULES


def found(body: Data) -> list[tuple[str, str]]:
    hits = RULES["TW518"].run(subject_of(Manifest(body=body), nowhere("1.37")))
    return [(hit.pointer, hit.message) for hit in hits]


def definition(spec: str, stored: str = "true") -> Data:
    return yaml.safe_load(
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {versions: "
        f"[{{name: v1, storage: {stored}, schema: {{openAPIV3Schema: {{type: object, properties: "
        f"{{spec: {spec}}}}}}}}}]}}}}"
    )


AT = "/spec/versions/0/schema/openAPIV3Schema/properties/spec"
KEYED = "{{type: array, x-kubernetes-list-type: map, {}items: {{type: object, properties: {{a: {{type: string}}}}}}}}"


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ("{type: string}", ""),
        ("{x-kubernetes-int-or-string: true}", ""),
        ("{x-kubernetes-preserve-unknown-fields: true}", ""),
        ("{description: a}", AT),
        ("{type: object, properties: {a: {}}}", f"{AT}/properties/a"),
        ("{type: object, additionalProperties: {format: int32}}", f"{AT}/additionalProperties"),
        ("{type: object, properties: {a: {type: string}}, oneOf: [{required: [a]}]}", ""),
        ("{type: array}", AT),
        ("{type: array, items: {description: a}}", f"{AT}/items"),
        (KEYED.format("x-kubernetes-list-map-keys: [a], "), ""),
        (KEYED.format("x-kubernetes-list-map-keys: [b], "), f"{AT}/x-kubernetes-list-map-keys/0"),
        (KEYED.format(""), AT),
        ("{type: object, x-kubernetes-list-type: set}", f"{AT}/x-kubernetes-list-type"),
    ],
)
def test_what_is_structural(spec: str, pointer: str) -> None:
    assert [at for at, _ in found(definition(spec))] == ([pointer] if pointer else [])


def test_one_version_is_stored() -> None:
    message = "0 versions are stored, it must be one"
    assert found(definition("{type: string}", "false")) == [("/spec/versions", message)]


def test_definitions_of_real_projects_pass(shared: Callable[[str], Path]) -> None:
    bodies = [
        body
        for file in shared("crds").rglob("*.yaml")
        for body in yaml.load_all(file.read_text(), yaml.CSafeLoader)
        if isinstance(body, dict) and body.get("kind") == "CustomResourceDefinition"
    ]
    assert bodies
    assert not [hits for body in bodies if (hits := found(body))]
