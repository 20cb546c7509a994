"""CEL rules: the functions of Kubernetes, rules on creation, rules that compare, and honesty."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.datatypes.data import Data
from trainwright.manifests import cel, celfunctions, crds
from trainwright.manifests.cel import Broken, Skipped
from trainwright.manifests.crds import Crd

KUBERNETES = "1.37"


def crd(schema: str) -> Crd:
    """A CRD whose `spec` has a schema."""
    root = {"type": "object", "properties": {"spec": yaml.safe_load(schema)}}
    return Crd("x.io", "v1", "X", "xs", True, root, KUBERNETES)


def body(spec: str) -> dict[str, Data]:
    return {
        "apiVersion": "x.io/v1",
        "kind": "X",
        "metadata": {"name": "x", "labels": {"a": "b"}},
        "spec": yaml.safe_load(spec),
    }


def holds(rule: str, spec: str, schema: str = "") -> bool | str:
    """Whether a rule on spec holds, or why it was not evaluated."""
    made = yaml.safe_load(schema or "{type: object, x-kubernetes-preserve-unknown-fields: true}")
    made["x-kubernetes-validations"] = [{"rule": rule, "message": "no"}]
    root = {"type": "object", "properties": {"spec": made}}
    found = cel.creation(Crd("x.io", "v1", "X", "xs", True, root, KUBERNETES), body(spec))
    if found and isinstance(found[0], Skipped):
        return found[0].reason
    return not found


# --- functions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        "self.s.matches('^[a-z]+$')",
        "'a1b22'.find('[0-9]+') == '1' && 'a'.find('b') == ''",
        "'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b22'.findAll('[0-9]', 2) == ['1', '2']",
        "self.s.lowerAscii() == 'abc' && 'a,b'.split(',').join('-') == 'a-b'",
        "'%s-%d'.format(['a', 3]) == 'a-3'",
        "[1, 2, 2].isSorted() && ![2, 1].isSorted()",
        "[1, 2].sum() == 3 && [1, 2].min() == 1 && ['a', 'b'].max() == 'b'",
        "[3, 1].sort() == [1, 3] && [1, 1].distinct() == [1]",
        "sets.contains([1, 2], [1]) && !sets.intersects([1], [2])",
        "self.l.all(i, v, v == i) && self.l.transformList(i, v, v + 1) == [1, 2]",
        "self.?absent.orValue(3) == 3 && self.?s.hasValue()",
        "cel.bind(x, self.s, x == 'abc')",
        "math.greatest(1, 2) == 2",
        "url('https://u@h.io:8/p%20x?q=1').getHost() == 'h.io:8'",
        "url('https://[::1]:8/').getHostname() == '::1' && url('/p').getScheme() == ''",
        "url('http://h/p%20x').getEscapedPath() == '/p%20x' && url('http://h').getPort() == ''",
        "isURL('https://a') && !isURL('a b')",
        "ip('::1').isLoopback() && ip('1.2.3.4').family() == 4 && !isIP('300.1.1.1')",
        "ip('169.254.0.1').isLinkLocalUnicast() && ip('224.0.0.1').isLinkLocalMulticast()",
        "ip('8.8.8.8').isGlobalUnicast() && ip('0.0.0.0').isUnspecified()",
        "ip.isCanonical('::1') && !ip.isCanonical('0:0::1')",
        "ip('0:0::1') == ip('::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.1.1') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/8').prefixLength() == 8",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8').ip() == ip('10.1.2.3')",
        "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.1')",
        "quantity('1Gi').isGreaterThan(quantity('1000Mi')) && quantity('1Gi') == quantity('1024Mi')",
        "quantity('1.5').add(quantity('500m')) == quantity('2') && quantity('3').sub(1).asInteger() == 2",
        "quantity('-1').sign() == -1 && quantity('1k').asApproximateFloat() == 1000.0",
        "quantity('500m').compareTo(quantity('0.5')) == 0 && !quantity('500m').isInteger()",
        "isQuantity('1e3') && !isQuantity('abc')",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.2.3').minor() == 2",
        "semver('1.0.0-rc.2').isLessThan(semver('1.0.0-rc.10')) && semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))",
        "isSemver('1.2.3-a+b') && !isSemver('v1.2.3')",
        "duration('1h') > duration('59m') && timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026",
    ],
)  # fmt: skip
def test_functions(rule: str) -> None:
    assert holds(rule, "{s: abc, l: [0, 1]}") is True
    assert holds(f"!({rule})", "{s: abc, l: [0, 1]}") is False


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("authorizer.group('').resource('pods').check('get').allowed()", "undeclared reference"),
        ("self.s > 1", "No matching overloads"),
        ("self.s", "it gives STRING, not true or false"),
        ("self.s ==", "Syntax error"),
        ("format.dns1123Label().validate(self.s).hasValue()", "undeclared reference"),
    ],
)
def test_what_cannot_be_evaluated_is_said(rule: str, reason: str) -> None:
    assert reason in str(holds(rule, "{s: abc}"))


@pytest.mark.parametrize("rule", ["self.z == 1", "self.l[5] == 1", "1 / self.n == 1", "quantity(self.s).isInteger()"])  # fmt: skip
def test_errors_that_the_server_has_too_refuse_the_object(rule: str) -> None:
    assert holds(rule, "{s: abc, l: [], n: 0}") is False


# --- values ---------------------------------------------------------------------------------------


def test_values_have_the_types_of_their_schema() -> None:
    schema = """
    type: object
    properties:
      n: {type: number}
      i: {type: integer}
      p: {x-kubernetes-int-or-string: true}
      b: {type: string, format: byte}
    """
    spec = "{n: 1, i: 1, p: 80, b: YWJj}"
    rules = "type(self.n) == double", "type(self.i) == int", "self.p == 80", "self.b == b'abc'"
    assert [holds(rule, spec, schema) for rule in rules] == [True] * 4


def test_names_that_are_no_identifiers_are_escaped() -> None:
    fields = ("a-b", "c.d", "e/f", "g__h", "namespace")
    schema = yaml.safe_dump(
        {"type": "object", "properties": {field: {"type": "string"} for field in fields}}
    )
    spec = yaml.safe_dump(dict.fromkeys(fields, "x"))
    names = ("a__dash__b", "c__dot__d", "e__slash__f", "g__underscores__h", "__namespace__")
    assert holds(" && ".join(f"self.{name} == 'x'" for name in names), spec, schema) is True
    assert holds("self.namespace == 'x'", spec, schema) is True


def test_keys_of_maps_stay_what_they_are() -> None:
    schema = "{type: object, additionalProperties: {type: string}}"
    assert holds("self.all(k, k == 'a-b') && self['a-b'] == 'x'", "{a-b: x}", schema) is True


def test_defaults_are_there_and_metadata_is_its_name() -> None:
    root = {
        "type": "object",
        "properties": {"spec": {"type": "object", "default": {}, "properties": {"a": {"default": 1}}}},
        "x-kubernetes-validations": [
            {"rule": "self.spec.a == 1 && self.metadata.name == 'x' && !has(self.metadata.labels)"}
        ],
    }  # fmt: skip
    made = Crd("x.io", "v1", "X", "xs", True, root, KUBERNETES)
    assert cel.creation(made, {**body("{}"), "spec": None}) == ()


def test_where_and_what_the_definition_says() -> None:
    made = crd(
        """
        type: object
        properties:
          items:
            type: array
            items:
              type: object
              properties: {n: {type: integer}, m: {type: object, properties: {a: {type: string}}}}
              x-kubernetes-validations:
              - {rule: "self.n > 0", messageExpression: "'n is ' + string(self.n)", fieldPath: .n}
              - {rule: "!has(self.m)"}
        """
    )
    assert cel.creation(made, body("{items: [{n: 1}, {n: 0, m: {}}]}")) == (
        Broken("/spec/items/1/n", "n is 0", "self.n > 0"),
        Broken("/spec/items/1", "the rule does not hold: !has(self.m)", "!has(self.m)"),
    )


# --- transitions ----------------------------------------------------------------------------------

IMMUTABLE = '{rule: "self == oldSelf", message: field is immutable}'


def changed(schema: str, old: str, new: str) -> list[str]:
    found = cel.transition(crd(schema), body(old), body(new))
    return [f"{each.pointer}: {each.message}" for each in found if isinstance(each, Broken)]


def test_fields_are_compared_by_name() -> None:
    field = f"{{type: object, properties: {{a: {{type: string, x-kubernetes-validations: [{IMMUTABLE}]}}}}}}"
    assert changed(field, "{a: x}", "{a: y}") == ["/spec/a: field is immutable"]
    assert changed(field, "{a: x}", "{a: x}") == []
    assert changed(field, "{}", "{a: y}") == []  # nothing to compare with
    assert changed(field, "{a: x}", "{}") == []


def test_items_are_compared_by_key_where_the_list_is_a_map() -> None:
    item = f"{{type: object, properties: {{n: {{type: string}}, v: {{type: string, x-kubernetes-validations: [{IMMUTABLE}]}}}}}}"
    keyed = f"{{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [n], items: {item}}}"
    old, moved = "[{n: a, v: '1'}, {n: b, v: '2'}]", "[{n: b, v: '2'}, {n: a, v: '3'}]"
    assert changed(keyed, old, moved) == ["/spec/1/v: field is immutable"]
    assert changed(f"{{type: array, items: {item}}}", old, moved) == []


def test_the_order_of_sets_and_maps_means_nothing() -> None:
    as_set = f"{{type: array, x-kubernetes-list-type: set, items: {{type: string}}, x-kubernetes-validations: [{IMMUTABLE}]}}"
    assert changed(as_set, "[a, b]", "[b, a]") == []
    assert changed(as_set, "[a, b]", "[b]") == ["/spec: field is immutable"]
    assert changed(as_set.replace("set", "atomic", 1), "[a, b]", "[b, a]") != []


def test_rules_that_do_not_compare_belong_to_creation_and_the_reverse() -> None:
    both = f"{{type: string, x-kubernetes-validations: [{IMMUTABLE}, {{rule: \"self != ''\", message: empty}}]}}"
    assert changed(both, "x", "''") == ["/spec: field is immutable"]
    found = cel.creation(crd(both), body("''"))
    assert [each.message for each in found if isinstance(each, Broken)] == ["empty"]


def test_an_optional_old_self_is_asked_every_time() -> None:
    schema = """
    type: integer
    x-kubernetes-validations:
    - {rule: "oldSelf.hasValue() ? self >= oldSelf.value() : self > 1", message: grows, optionalOldSelf: true}
    """
    assert len(cel.creation(crd(schema), body("1"))) == 1
    assert cel.creation(crd(schema), body("2")) == ()
    assert changed(schema, "3", "2") == ["/spec: grows"]
    assert changed(schema, "3", "4") == []


def test_whether_any_rule_compares_is_known_without_an_object() -> None:
    plain = "{type: string, x-kubernetes-validations: [{rule: \"self != ''\"}]}"
    field = f"{{type: string, x-kubernetes-validations: [{IMMUTABLE}]}}"
    assert not cel.compares(crd(plain))
    assert not cel.compares(crd("{type: string}"))
    for around in ("{type: object, properties: {a: FIELD}}", "{type: array, items: FIELD}", "{type: object, additionalProperties: FIELD}", "FIELD"):  # fmt: skip
        assert cel.compares(crd(around.replace("FIELD", field)))
        assert not cel.compares(crd(around.replace("FIELD", plain)))


# --- upstream -------------------------------------------------------------------------------------


def _rules(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from (rule["rule"] for rule in schema.get("x-kubernetes-validations", ()))
    for child in schema.get("properties", {}).values():
        yield from _rules(child)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from _rules(schema[key])


def test_every_upstream_rule_compiles(shared: Callable[[str], Path]) -> None:
    found, _ = crds.load(shared("crds"), KUBERNETES)
    rules = {rule for each in found for rule in _rules(each.root)}
    assert len(rules) > 40
    for rule in rules:
        celfunctions.environment().compile(rule)


def test_upstream_trainjobs_are_immutable(shared: Callable[[str], Path]) -> None:
    found, _ = crds.load(shared("crds/trainer.kubeflow.org/trainjobs.yaml"), KUBERNETES)
    (trainjob,) = found
    old = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "a"},
        "spec": {"runtimeRef": {"name": "torch"}, "trainer": {"image": "a:1"}},
    }
    new = {**old, "spec": {**old["spec"], "trainer": {"image": "a:2"}, "suspend": True}}
    assert cel.creation(trainjob, new) == ()
    (broken,) = cel.transition(trainjob, old, new)
    assert isinstance(broken, Broken)
    assert (broken.pointer, broken.message) == ("/spec/trainer", "field is immutable")
    assert cel.transition(trainjob, old, old) == ()
    upper = {**old, "metadata": {"name": "Upper"}}
    assert [each.pointer for each in cel.creation(trainjob, upper) if isinstance(each, Broken)]
