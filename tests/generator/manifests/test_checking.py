"""One text: the quick look and the careful one agree, positions included; nothing is too certain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from mutated import mutations
from trainwright.datatypes.finding import Finding, Severity
from trainwright.datatypes.groupkind import GroupKind
from trainwright.manifests import checking, crds, reading, run, webhooks
from trainwright.manifests.catalog import Catalog
from trainwright.manifests.checking import CheckContext, CheckedText
from trainwright.manifests.crds import Crd
from trainwright.manifests.reading import Source

SETTING = CheckContext(environment=run.nowhere("1.31"), catalog=Catalog("1.31"))


def findings(text: str, setting: CheckContext = SETTING) -> list[Finding]:
    chunks = reading.split(Source("f.yaml", text.encode()))
    return [finding for chunk in chunks for finding in checking.check_text(chunk, setting).findings]


def _comparable(result: CheckedText) -> tuple[list[Finding], list[object], list[object]]:
    return result.findings, [*result.seen], [*result.unknown]


@pytest.mark.parametrize("seed", range(4))
def test_the_quick_look_says_what_the_careful_one_says(seed: int) -> None:
    quick = 0
    for text in mutations(seed, 250):
        for chunk in reading.split(Source("f.yaml", text.encode())):
            quick += reading.glance(chunk) is not None
            expected = checking.check_text_exactly(chunk, SETTING)
            assert _comparable(checking.check_text(chunk, SETTING)) == _comparable(expected), text
    assert quick > 30  # otherwise nothing was compared


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50, 56))
def test_over_many_more(seed: int) -> None:
    for text in mutations(seed, 10 * settings.default.max_examples):
        for chunk in reading.split(Source("f.yaml", text.encode())):
            expected = checking.check_text_exactly(chunk, SETTING)
            assert _comparable(checking.check_text(chunk, SETTING)) == _comparable(expected), text


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: a\n    image: b:1\n"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (POD + "    imag: c\n", "f.yaml:8:5", 'unknown key "imag" in spec.containers.0'),
        (POD + "    tty: 'yes'\n", "f.yaml:8:10", "spec.containers.0.tty must be true or false"),
        (POD.replace("    image: b:1\n", ""), None, None),
        (POD + "  - {}\n", "f.yaml:8:5", "spec.containers.1.name is missing"),
        (f"# x\n---\n{POD}    imag: c\n", "f.yaml:10:5", 'unknown key "imag"'),
        (f"kind: List\nitems:\n- {POD.replace(chr(10), chr(10) + '  ')}  x: 1", "f.yaml:10:5", 'unknown key "x"'),
        ("- 1", "f.yaml:1:1", "expected an object, found a list"),
        ("kind: Pod", "f.yaml:1:1", "apiVersion must say what this is"),
        ("apiVersion: 1\nkind: Pod", "f.yaml:1:1", "apiVersion must say what this is"),
        ("a: b", "f.yaml:1:1", "apiVersion and kind must say what this is"),
        ("apiVersion: v1\nkind: Podd\nmetadata: {name: a}", "f.yaml:2:7", "Kubernetes 1.31 has no Podd of v1"),
    ],
)  # fmt: skip
def test_findings_are_where_the_mistake_is(
    text: str, place: str | None, message: str | None
) -> None:
    found = [f for f in findings(text) if f.rule in ("TW005", "TW011")]
    if place is None:
        assert found == []
    else:
        (finding,) = found
        assert str(finding.place) == place
        assert finding.message.startswith(str(message))


def test_values_of_secrets_are_not_repeated() -> None:
    secret = (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: 31337}\ndata: {b: 4711}"
    )
    found = findings(secret)
    assert [f.message for f in found] == [
        "data.b must be a string",
        "stringData.a must be a string",
    ]


# --- Kubernetes versions --------------------------------------------------------------------------


def _at(version: str, text: str) -> list[str]:
    setting = CheckContext(environment=run.nowhere(version), catalog=Catalog(version))
    return [f.message for f in findings(text, setting) if f.rule == "TW011"]


def test_fields_that_come_and_go() -> None:
    rules = POD + "    restartPolicyRules: []\n"
    (message,) = _at("1.30", rules)
    assert message.endswith(": it comes with Kubernetes 1.34, this is 1.30")
    assert _at("1.34", rules) == []
    job = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: {pytorchReplicaSpecs: {Worker: {template: {spec: {containers: [{name: pytorch, image: 'a:1', restartPolicyRules: []}]}}}}}"
    (message,) = _at("1.30", job)
    assert message.endswith(": it comes with Kubernetes 1.34, this is 1.30")


def test_kinds_that_come_and_go() -> None:
    flow = "apiVersion: flowcontrol.apiserver.k8s.io/v1beta2\nkind: FlowSchema\nmetadata: {name: a}"
    (message,) = _at("1.31", flow)
    assert message.endswith("it went away in Kubernetes 1.29, this is 1.31")
    policy = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: a}"
    (message,) = _at("1.29", policy)
    assert message.endswith("it comes with Kubernetes 1.30, this is 1.29")
    assert _at("1.30", policy) == []


def test_a_kind_of_no_version_is_only_unknown() -> None:
    (message,) = _at("1.31", "apiVersion: apps/v1\nkind: Deploiment\nmetadata: {name: a}")
    assert message == "Kubernetes 1.31 has no Deploiment of apps/v1"


# --- webhooks -------------------------------------------------------------------------------------


JOBSET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: a}
spec:
  failurePolicy: {rules: [{action: FailJobSet}]}
  replicatedJobs: [{name: a, template: {spec: {template: {spec: {containers: [{name: a, image: "b:1"}]}}}}}]
"""


def test_what_a_webhook_fills_in_is_never_certain(shared: Callable[[str], Path]) -> None:
    jobsets, _ = crds.load(shared("crds/jobset.x-k8s.io"), "1.31")
    upstream = CheckContext(environment=run.nowhere("1.31"), catalog=Catalog("1.31", jobsets))
    (finding,) = (f for f in findings(JOBSET, upstream) if f.rule == "TW011")
    assert finding.message.endswith("name is missing, unless the webhook fills it")
    assert finding.severity is Severity.WARNING
    assert finding.remedy.endswith("name of the failure policy rule.")
    assert str(finding.place) == "f.yaml:5:27"
    certain = JOBSET.replace("action: FailJobSet", "name: a")
    (finding,) = (f for f in findings(certain, upstream) if f.rule == "TW011")
    assert finding.severity is Severity.ERROR  # no webhook fills in an action


def test_a_rule_about_a_field_that_a_webhook_fills_in_is_not_certain_either() -> None:
    root = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"suspend": {"type": "boolean"}}}},
        "x-kubernetes-validations": [{"rule": "has(self.spec.suspend)", "message": "say suspend"}],
    }
    spec_rule = {"rule": "has(self.suspend)", "message": "say suspend"}
    root["properties"]["spec"]["x-kubernetes-validations"] = [spec_rule]
    trainjob = Crd("trainer.kubeflow.org", "v1", "TrainJob", "trainjobs", True, root, "1.31")
    setting = CheckContext(environment=run.nowhere("1.31"), catalog=Catalog("1.31", (trainjob,)))
    text = "apiVersion: trainer.kubeflow.org/v1\nkind: TrainJob\nmetadata: {name: a}\nspec: {}"
    found = [f for f in findings(text, setting) if f.rule == "TW015"]
    assert [(f.severity.value, f.message) for f in found] == [
        ("warning", "say suspend, unless the webhook fills it"),
        ("warning", "say suspend, unless the webhook fills it"),
    ]


@pytest.mark.parametrize(
    ("kind", "pointer", "filled"),
    [
        (GroupKind.of("", "JobSet"), "/spec/failurePolicy/rules/0/name", True),
        (GroupKind.of("", "JobSet"), "/spec/failurePolicy/rules/0/action", False),
        (GroupKind.of("", "JobSet"), "/spec/replicatedJobs/3/template/spec/completionMode", True),
        (GroupKind.of("", "TrainJob"), "/spec/runtimePatches/0/time", True),
        (GroupKind.of("", "PyTorchJob"), "/metadata/labels/kueue.x-k8s.io~1queue-name", True),
        (GroupKind.of("", "PyTorchJob"), "/spec/nprocPerNode", False),
        (GroupKind("", "Pod"), "/spec/suspend", False),
        (GroupKind("batch.volcano.sh", "Job"), "/spec/suspend", False),
    ],
)
def test_fields_that_webhooks_fill_in(kind: GroupKind, pointer: str, filled: bool) -> None:
    assert webhooks.fills(kind, pointer) is filled


def test_remedies_are_for_manifests() -> None:
    """Who wrote a manifest has no job spec in which to set a field."""
    pod = POD + "    resources: {limits: {nvidia.com/gpu: 1}}\n"
    job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n"
    body = "".join(f"      {line[2:]}\n" for line in pod.split("spec:\n")[1].splitlines())
    remedies = {f.rule: f.remedy for f in findings(f"{job}      restartPolicy: Never\n{body}")}
    assert remedies["TW702"] == "Mount an `emptyDir` with `medium: Memory` at `/dev/shm`."
