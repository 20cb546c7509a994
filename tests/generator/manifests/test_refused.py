"""What the API server's own validation refuses, and what it accepts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kubernetes_values import VALUES

from trainwright.datatypes.finding import Severity
from trainwright.documents.validation import kubernetes_schemas
from trainwright.documents.validation.list_maps import KEY_DEFAULTS
from trainwright.manifests import run
from trainwright.manifests.run import ManifestOptions

OPTIONS = ManifestOptions(today="2026-01-01", kubernetes="1.37")


def errors(path: Path) -> list[str]:
    found = run.check((str(path),), OPTIONS).findings
    return [finding.message for finding in found if finding.severity is Severity.ERROR]


def test_every_verdict_of_kubectl_validate(shared: Callable[[str], Path]) -> None:
    folder = shared("oracles/kubectl-validate")
    options = ManifestOptions(today="2026-01-01", kubernetes="1.37", crds=folder / "crds")
    found = run.check((str(folder / "manifests"),), options).findings
    refused = {Path(f.place.file).name for f in found if f.severity is Severity.ERROR}
    files = {file.name for file in folder.glob("manifests/*.yaml")}
    assert len(files) >= 29
    assert refused == {name for name in files if name.startswith("error_")}


def _checked(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    return errors(file)


POD = "{{apiVersion: v1, kind: Pod, metadata: {{name: a{}}}, spec: {{{}containers: [{{name: a, image: a:1{}}}]}}}}"  # fmt: skip
JOBSET = (
    "{{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {{name: a}}, spec: {{replicatedJobs: "
    "[{{name: w, template: {{spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: a, image: a:1}}]}}}}}}}}}}, "
    "{{name: {}, template: {{spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: a, image: a:1}}]}}}}}}}}{}}}]}}}}"
)
PORTS = ", ports: [{{containerPort: 88, protocol: UDP}}, {{containerPort: 88}}, {{containerPort: {}, protocol: TCP}}]"  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (POD.format("", "", PORTS.format(89)), ""),
        (
            POD.format("", "", PORTS.format(88)),
            'spec.containers.0.ports.2 repeats item 1 of the list: containerPort 88, protocol "TCP"',
        ),
        (
            POD.format("", "", ", env: [{name: A}, {name: B}, {name: A}]"),
            "the variable 'A' is there 2 times",
        ),
        (
            POD.format("", "initContainers: [{name: a, image: a:1}], ", ""),
            "the container 'a' is there 2 times",
        ),
        (
            "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: "
            "[{name: a, port: 1}, {name: b, port: 1, protocol: TCP}]}}",
            'spec.ports.1 repeats item 0 of the list: port 1, protocol "TCP"',
        ),
        (
            POD.format(", finalizers: [x.io/a, x.io/a]", "", ""),
            'metadata.finalizers.1 repeats item 0 of the list: "x.io/a"',
        ),
        (POD.format("", "imagePullSecrets: [{}, {}], ", ""), ""),
        (
            JOBSET.format("w", ""),
            'spec.replicatedJobs.1 repeats item 0 of the list: name "w"',
        ),
        (
            JOBSET.format(
                "v", ", dependsOn: [{name: w, status: Ready}, {name: w, status: Complete}]"
            ),
            'spec.replicatedJobs.1.dependsOn.1 repeats item 0 of the list: name "w"',
        ),
        (POD.format("", "restartPolicy: '', ", ""), ""),
        (POD.format("", "restartPolicy: OnFail, ", ""), 'spec.restartPolicy cannot be "OnFail"'),
        (
            POD.format("", "", ", ports: [{containerPort: 1, protocol: udp}]"),
            'spec.containers.0.ports.0.protocol cannot be "udp"',
        ),
        (POD.format("", "tolerations: [{key: a}, {key: a}], ", ""), ""),  # a list and no more
    ],
)
def test_lists_and_words_of_kubernetes(tmp_path: Path, text: str, message: str) -> None:
    found = _checked(tmp_path, text)
    assert len(found) == bool(message), found
    assert not message or found[0].startswith(message)


def test_what_a_rule_says_of_a_list_is_not_said_again(tmp_path: Path) -> None:
    pod = "{metadata: {}, spec: {restartPolicy: Never, containers: [{name: pytorch, image: 'a:1', env: [{name: A}, {name: A}]}]}}"
    text = (
        "{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: a}, spec: "
        f"{{pytorchReplicaSpecs: {{Master: {{replicas: 1, template: {pod}}}}}}}}}"
    )
    assert _checked(tmp_path, text) == ["the variable 'A' is there 2 times"]


@pytest.mark.parametrize("table", [VALUES, KEY_DEFAULTS])
def test_every_field_of_the_tables_exists(table: dict[str, dict[str, object]]) -> None:
    known = kubernetes_schemas.definitions(kubernetes_schemas.NEWEST)["$defs"]
    for definition, fields in table.items():
        assert fields.keys() <= known[definition]["properties"].keys()


@pytest.mark.parametrize(
    ("api_version", "kind", "remedy", "line"),
    [
        ("v1", "Servce", 'Did you mean "Service"?', 2),
        ("batch/v1", "Jobs", 'Did you mean "Job"?', 2),
        ("apps/v1beta1", "Deployment", "Deployment is of apps/v1.", 1),
        ("v1", "Job", "Job is of batch/v1.", 1),
        ("v1", "Nothing", "Write an apiVersion that it serves", 1),
    ],
)
def test_a_kind_that_is_not_there_gets_a_suggestion(
    tmp_path: Path, api_version: str, kind: str, remedy: str, line: int
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\n")
    found = run.check((str(file),), OPTIONS).findings
    (finding,) = [one for one in found if one.rule == "TW011"]
    assert finding.remedy.startswith(remedy)
    assert finding.place.line == line
