"""Names, labels and annotations, each against what the API server takes."""

from __future__ import annotations

import pytest
import yaml

from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.subjects import subject_of
from trainwright.manifests.run import nowhere
from trainwright.rules.registry import RULES


def found(rule: str, text: str, minor: int = 37) -> list[tuple[str, str]]:
    manifest = Manifest(body=yaml.safe_load(text))
    hits = RULES[rule].run(subject_of(manifest, nowhere(f"1.{minor}")))
    return [(hit.pointer, hit.message) for hit in hits]


def named(api_version: str, kind: str, name: str, minor: int = 37) -> bool:
    body = f"{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: {name!r}}}}}"
    return not found("TW516", body, minor)


@pytest.mark.parametrize(
    ("api_version", "kind", "name", "accepted"),
    [
        ("v1", "ConfigMap", "a.b-c", True),
        ("v1", "ConfigMap", "x.com^2", False),
        ("v1", "ConfigMap", "A", False),
        ("v1", "ConfigMap", "{{ .Release.Name }}-a", True),  # not applied as it is
        ("v1", "ConfigMap", "$RUN_NAME", True),
        ("v1", "ConfigMap", "a-${run}", True),
        ("v1", "ConfigMap", "a$b", False),
        ("v1", "ConfigMap", "a_b", False),
        ("v1", "ConfigMap", "-a", False),
        ("v1", "ConfigMap", "a..b", False),
        ("v1", "ConfigMap", "a" * 253, True),
        ("v1", "ConfigMap", "a" * 254, False),
        ("v1", "ServiceAccount", "trainer_sa", False),
        ("v1", "Namespace", "a.b", False),
        ("v1", "Service", "a.b", False),
        ("v1", "Service", "a" * 64, False),
        ("batch/v1", "CronJob", "a" * 53, False),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "system:node_B", True),
        ("rbac.authorization.k8s.io/v1", "Role", "a/b", False),
        ("apiregistration.k8s.io/v1", "APIService", "v1.x.io", True),
        ("x.io/v1", "Anything", "A", False),  # every custom resource
    ],
)
def test_the_name_of_an_object(api_version: str, kind: str, name: str, accepted: bool) -> None:
    assert named(api_version, kind, name) == accepted


def test_a_service_may_start_with_a_digit_since_1_36() -> None:
    assert [m for m in range(30, 38) if named("v1", "Service", "1st", m)] == [36, 37]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("{name: a, namespace: A}", 'the namespace "A" is not a DNS label: lower case letters, digits and -'),
        ("{generateName: a-}", ""),
        ("{generateName: A-}", 'the prefix "A" is not a DNS subdomain: lower case letters, digits, . and -'),
    ],
)  # fmt: skip
def test_namespaces_and_prefixes(metadata: str, message: str) -> None:
    hits = found("TW516", f"{{apiVersion: v1, kind: ConfigMap, metadata: {metadata}}}")
    assert [text for _, text in hits] == ([message] if message else [])


CONTAINER = "spec: {{containers: [{{name: a, {}}}]}}"


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ("serviceAccountName: My_Account", "/serviceAccountName"),
        ("hostname: a.b", "/hostname"),
        ("volumes: [{name: a_b}]", "/volumes/0/name"),
        ("containers: [{name: A}]", "/containers/0/name"),
        ("initContainers: [{name: a.b}]", "/initContainers/0/name"),
        ("containers: [{name: a, ports: [{name: pytorchjob-ports, containerPort: 1}]}]", "/containers/0/ports/0/name"),
        ("containers: [{name: a, ports: [{name: '80', containerPort: 1}]}]", "/containers/0/ports/0/name"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["Pod", "PyTorchJob"])
def test_names_in_pods(kind: str, spec: str, pointer: str) -> None:
    at, text = "/spec", f"{{apiVersion: v1, kind: Pod, spec: {{{spec}}}}}"
    if kind == "PyTorchJob":
        at = "/spec/pytorchReplicaSpecs/Worker/template/spec"
        template = f"{{template: {{spec: {{{spec}}}}}}}"
        text = (
            "{apiVersion: kubeflow.org/v1, kind: PyTorchJob, spec: "
            f"{{pytorchReplicaSpecs: {{Worker: {template}}}}}}}"
        )
    assert [where for where, _ in found("TW516", text)] == [f"{at}{pointer}"]


def test_a_definition_is_named_by_its_plural_and_group() -> None:
    text = (
        "{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {{name: "
        "{}}}, spec: {{group: x.io, names: {{plural: things}}}}}}"
    )
    assert not found("TW516", text.format("things.x.io"))
    message = 'the name "thing.x.io" is not plural and group: things.x.io'
    assert found("TW516", text.format("thing.x.io")) == [("/metadata/name", message)]


@pytest.mark.parametrize(
    ("metadata", "pointer"),
    [
        ("{labels: {owner: _}}", "/labels/owner"),
        ("{labels: {owner: a b}}", "/labels/owner"),
        (f"{{labels: {{owner: {'a' * 64}}}}}", "/labels/owner"),
        ("{labels: {owner: ''}}", ""),
        ("{labels: {x.io/owner: a_b.C}}", ""),
        ("{labels: {x.io/o/b: a}}", "/labels/x.io~1o~1b"),
        ("{labels: {X.io/o: a}}", "/labels/X.io~1o"),
        ("{labels: {/o: a}}", "/labels/~1o"),
        ("{annotations: {x.io/o: any text}}", ""),
        ("{annotations: {X.io/o: any text}}", ""),  # the server reads it in lower case
        ("{annotations: {a b: c}}", "/annotations/a b"),
        (f"{{annotations: {{a: {'b' * 2**18}}}}}", "/annotations"),
    ],
)
def test_labels_and_annotations(metadata: str, pointer: str) -> None:
    wanted = [pointer] if pointer else []
    hits = found("TW517", f"{{apiVersion: v1, kind: ConfigMap, metadata: {metadata}}}")
    assert [where for where, _ in hits] == [f"/metadata{at}" for at in wanted]
    template = (
        f"{{apiVersion: apps/v1, kind: Deployment, spec: {{template: {{metadata: {metadata}}}}}}}"
    )
    hits = found("TW517", template)
    assert [where for where, _ in hits] == [f"/spec/template/metadata{at}" for at in wanted]


def test_labels_of_a_pod_are_named_once_and_node_selectors_too() -> None:
    text = "{apiVersion: v1, kind: Pod, metadata: {labels: {a: _}}, spec: {nodeSelector: {b: '-'}}}"
    assert [at for at, _ in found("TW517", text)] == ["/metadata/labels/a", "/spec/nodeSelector/b"]
