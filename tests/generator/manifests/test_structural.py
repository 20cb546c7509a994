"""CRDs as the API server applies them: what strict validation refuses, what it fills in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.datatypes.errors import SourceError
from trainwright.manifests import crds
from trainwright.manifests.catalog import Catalog, KnownKind
from trainwright.manifests.crds import Crd
from trainwright.manifests.structural import prepared

KUBERNETES = "1.37"
ENVELOPE = {"apiVersion": "x.io/v1", "kind": "X"}


def crd(spec: str, **more: Any) -> Crd:
    root = {"type": "object", "properties": {"spec": yaml.safe_load(spec)}}
    return Crd("x.io", "v1", "X", "xs", True, {**root, **more}, KUBERNETES)


def complaints(spec: str, body: str) -> list[str]:
    return [violation.message for violation in _known(spec).violations(_object(body))]


def _known(spec: str) -> KnownKind:
    found = Catalog(KUBERNETES, (crd(spec),)).find("x.io/v1", "X")
    assert found is not None
    return found


def _object(body: str) -> dict[str, Any]:
    return {**ENVELOPE, "spec": yaml.safe_load(body)}


PLAIN = "{type: object, properties: {a: {type: string}, n: {type: integer, format: int32}}}"
PORT = "{type: object, properties: {port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}}}"
FREE = "{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}"
MAP = "{type: object, additionalProperties: {type: object, properties: {a: {type: string}}}}"
EMBEDDED = "{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}"
NULLABLE = "{type: object, properties: {a: {type: string, nullable: true, enum: [x]}, l: {type: array, items: {type: string}}}}"
NEEDED = "{type: object, required: [a, b], properties: {a: {type: string}, b: {type: string, default: x}}}"
ONE = "{type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, {required: [b]}]}"
SET = "{type: array, x-kubernetes-list-type: set, items: {type: string}}"


@pytest.mark.parametrize(
    ("spec", "body", "expected"),
    [
        (PLAIN, "{a: x, n: 1}", []),
        (PLAIN, "{b: 1}", ['unknown key "b" in spec']),
        (PLAIN, "{a: 1}", ["spec.a must be a string, found an integer: 1"]),
        (PLAIN, "{n: 2147483648}", ["spec.n is 2147483648, it must be at most 2147483647"]),
        (PLAIN, "{a: null}", []),  # says nothing: the server drops it
        ("{type: object}", "{a: 1}", ['unknown key "a" in spec']),
        (PORT, "{port: 80}", []),
        (PORT, "{port: http}", []),
        (PORT, "{port: 1.5}", ["spec.port must be an integer or a string, found a number: 1.5"]),
        (FREE, "{b: [1], a: x}", []),
        (FREE, "{a: 1}", ["spec.a must be a string, found an integer: 1"]),
        (MAP, "{any: {a: x}}", []),
        (MAP, "{any: {b: x}}", ['unknown key "b" in spec.any']),
        (EMBEDDED, "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}", []),
        (EMBEDDED, "{apiVersion: v1}", ["spec.kind is missing"]),
        (EMBEDDED, "{apiVersion: v1, kind: A, metadata: {nam: a}}", ['unknown key "nam" in spec.metadata']),
        (NULLABLE, "{a: null}", []),
        (NULLABLE, "{a: y}", ['spec.a cannot be "y"']),
        (NULLABLE, "{l: [null]}", ["spec.l.0 must be a string, found null"]),
        (NEEDED, "{a: x}", []),
        (NEEDED, "{a: null}", ["spec.a is missing"]),
        (ONE, "{a: x}", []),
        (ONE, "{c: x}", ['unknown key "c" in spec']),
        (SET, "[a, b]", []),
    ],
)  # fmt: skip
def test_strict_validation(spec: str, body: str, expected: list[str]) -> None:
    assert complaints(spec, body) == expected


def test_a_set_has_nothing_twice() -> None:
    (found,) = complaints(SET, "[a, a]")
    assert "non-unique" in found


def test_metadata_is_that_of_kubernetes() -> None:
    found = crd(PLAIN)
    body = {**_object("{}"), "metadata": {"name": "a", "labels": {"b": 1}, "nmae": "c"}}
    messages = [v.message for v in KnownKind(found.schema, KUBERNETES, found).violations(body)]
    assert messages == [
        "metadata.labels.b must be a string, found an integer: 1",
        'unknown key "nmae" in metadata',
    ]


def test_defaults_are_there_before_anything_looks() -> None:
    schema = yaml.safe_load(
        """
        type: object
        properties:
          a: {type: object, default: {b: 1}, properties: {b: {type: integer}, c: {type: string, default: x}}}
          l: {type: array, items: {type: object, properties: {d: {type: string, default: "y"}}}}
          n: {type: string, nullable: true, default: z}
          gone: {type: string}
        """
    )
    assert prepared({"l": [{}], "n": None, "gone": None, "more": None}, schema) == {
        "l": [{"d": "y"}],
        "n": None,
        "more": None,
        "a": {"b": 1, "c": "x"},
    }


# --- files ----------------------------------------------------------------------------------------

DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: xs.x.io}
spec:
  group: x.io
  names: {kind: X, plural: xs}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}, subresources: {status: {}}}
  - {name: v2, served: true, storage: false}
  - {name: v0, served: false, storage: false}
"""


def test_every_served_version_of_any_layout(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "all.yaml").write_text(f"kind: Other\n---\n{DEFINITION}")
    found, findings = crds.load(tmp_path, KUBERNETES)
    assert [(c.api_version, c.kind, c.with_status) for c in found] == [
        ("x.io/v1", "X", True),
        ("x.io/v2", "X", False),
    ]
    assert findings == ()
    catalog = Catalog(KUBERNETES, found)
    free = catalog.find("x.io/v2", "X")
    assert free is not None
    assert free.violations({"apiVersion": "x.io/v2", "kind": "X", "anything": 1}) == ()
    assert catalog.find("x.io/v0", "X") is None
    assert not catalog.serves_group("x.io/v0")


def test_a_list_of_definitions_as_the_cluster_gives_it(tmp_path: Path) -> None:
    items = "\n".join(f"  {line}" for line in DEFINITION.splitlines())
    (tmp_path / "all.yaml").write_text(f"kind: List\nitems:\n-{items[1:]}")
    assert len(crds.load(tmp_path, KUBERNETES)[0]) == 2


def test_status_is_not_applied_where_it_is_a_subresource(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(DEFINITION)
    (first, _), _ = crds.load(tmp_path, KUBERNETES)
    body = {"apiVersion": "x.io/v1", "kind": "X", "status": {"anything": 1}}
    assert KnownKind(first.schema, KUBERNETES, first).violations(body) == ()
    assert "status" not in first.prepared(body)


def test_files_that_define_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Other")
    with pytest.raises(SourceError, match="holds no CustomResourceDefinition"):
        crds.load(tmp_path, KUBERNETES)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (DEFINITION + "---\na: [", "14:1", "did not find expected node content"),
        (
            DEFINITION.replace("  names: {kind: X, plural: xs}\n", ""),
            "5:3",
            "spec.names is missing",
        ),
        (DEFINITION.replace("{type: object}", "{typ: object}"), "9:72", 'unknown key "typ"'),
        (
            DEFINITION.replace("{type: object}", "{properties: {a: 1}}"),
            "9:88",
            "a mapping, found an",
        ),
    ],
)
def test_definitions_that_the_server_would_refuse(
    tmp_path: Path, text: str, place: str, message: str
) -> None:
    (tmp_path / "a.yaml").write_text(text)
    _, findings = crds.load(tmp_path, KUBERNETES)
    assert [str(f.place) for f in findings] == [f"{tmp_path}/a.yaml:{place}"]
    assert message in findings[0].message


def test_nulls_in_definitions_say_nothing(tmp_path: Path) -> None:
    nulls = "{type: object, properties: null, items: null, x-kubernetes-validations: null, default: null}"
    (tmp_path / "a.yaml").write_text(DEFINITION.replace("{type: object}", nulls))
    (first, _), findings = crds.load(tmp_path, KUBERNETES)
    assert findings == ()
    assert first.root == {"type": "object", "default": None}


def test_a_pattern_that_only_go_can_read_is_said() -> None:
    spec = (
        r"{type: object, properties: {a: {type: string, pattern: '^\Qa.b\E$'}, b: {type: string}}}"
    )
    known = _known(spec)
    assert known.violations(_object("{a: b, b: c}")) == ()
    assert [v.message for v in known.violations(_object("{b: 1}"))] == [
        "spec.b must be a string, found an integer: 1"
    ]
    assert known.unchecked.endswith('is not a "regex"')


def test_a_pattern_that_python_cannot_read_is_checked_all_the_same() -> None:
    spec = (
        r"{type: object, properties: {a: {type: string, pattern: '^\p{L}+$'}, b: {type: string}}}"
    )
    assert complaints(spec, "{a: é, b: 1}") == ["spec.b must be a string, found an integer: 1"]
    (message,) = complaints(spec, "{a: '1'}")
    assert message.startswith('spec.a is "1", which is not a valid')


def test_every_upstream_definition_compiles(shared: Callable[[str], Path]) -> None:
    found, findings = crds.load(shared("crds"), KUBERNETES)
    assert len(found) > 30
    assert findings == ()
    for each in found:
        body = {"apiVersion": each.api_version, "kind": each.kind, "nonsense": 1}
        messages = [v.message for v in KnownKind(each.schema, KUBERNETES, each).violations(body)]
        assert 'unknown key "nonsense"' in messages
