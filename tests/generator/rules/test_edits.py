"""The table of edits, held against what a real server did and against the rules of real CRDs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds import CRDS, TRAINJOBS
from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment, Kueue
from trainwright.datatypes.manifest import Manifest
from trainwright.documents.validation import kubernetes_schemas
from trainwright.documents.yamlio import Document
from trainwright.manifests import cel, crds
from trainwright.rule_model.edit import Verdict
from trainwright.rule_model.edit_row import Basis
from trainwright.rules.edits.outcomes import EDIT_RULES, evaluate
from trainwright.rules.edits.table import EDITS
from trainwright.specs import resolve

ROOT = Path(__file__).parents[3]
R, B, N, M, P = (
    Verdict.REJECTED,
    Verdict.REFUSED_BELOW,
    Verdict.IGNORED,
    Verdict.MIXED,
    Verdict.IN_PLACE,
)
API = {
    "PyTorchJob": "kubeflow.org/v1",
    "TrainJob": "trainer.kubeflow.org/v1alpha1",
    "TrainingRuntime": "trainer.kubeflow.org/v1alpha1",
    "ClusterTrainingRuntime": "trainer.kubeflow.org/v1alpha1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "Job": "batch/v1",
    "PersistentVolumeClaim": "v1",
    "Service": "v1",
}


def _environment(trainer: str = "2.3", kubernetes: str = "1.36") -> Environment:
    data: dict[str, Data] = {
        "namespace": "n",
        "kubernetes": {"version": kubernetes},
        "targets": {"trainjob": {"version": trainer}},
    }
    return resolve.environment("prod", Document("environment.yaml", data, {}, {}))


def _manifest(kind: str, spec: Data, status: Data = None) -> Manifest:
    body: dict[str, Data] = {"apiVersion": API[kind], "kind": kind, "metadata": {"name": "a"}}
    return Manifest(body={**body, "spec": spec, **({"status": status} if status else {})})


def _verdicts(
    kind: str, before: str, after: str, environment: Environment | None = None, status: Data = None
) -> set[Verdict]:
    old, new = (yaml.safe_load(f"{{{text}}}") for text in (before, after))
    found = evaluate(_manifest(kind, old, status), _manifest(kind, new), environment)
    return {outcome.verdict for outcome in found}


# --- what was observed -----------------------------------------------------------------------------


def _patch(rest: str) -> str:
    pods = f"replicatedJobs: [{{name: node, template: {{spec: {{template: {{{rest}}}}}}}}}]"
    runtime = f"trainingRuntimeSpec: {{template: {{spec: {{{pods}}}}}}}"
    return f"runtimePatches: [{{manager: example.com/team, {runtime}}}]"


def _jobs(rest: str) -> str:
    pod = f"template: {{spec: {{containers: [{{name: node, image: 'a:1'}}], {rest}}}}}"
    return f"replicatedJobs: [{{name: node, template: {{spec: {{{pod}}}}}}}]"


def _pod(container: str, rest: str = "") -> str:
    return f"template: {{spec: {{containers: [{{name: a, {container}}}]{rest}}}}}"


def _replica(container: str) -> str:
    worker = f"Worker: {{replicas: 2, restartPolicy: Never, {_pod(container)}}}"
    return f"pytorchReplicaSpecs: {{{worker}}}"


_HELD = "suspend: true, "
# Of the patches of a suspended job.
_GO_THROUGH = [
    ("metadata: {labels: {a: b}}", "metadata: {labels: {a: c}}"),
    ("metadata: {annotations: {a: b}}", "metadata: {annotations: {a: c}}"),
    ("spec: {nodeSelector: {a: b}}", "spec: {nodeSelector: {a: c}}"),
    ("spec: {tolerations: [{key: a}]}", "spec: {tolerations: [{key: b}]}"),
    ("spec: {affinity: {nodeAffinity: {a: b}}}", "spec: {affinity: {nodeAffinity: {a: c}}}"),
]
_REFUSED = [
    ("spec: {containers: [{name: node}]}", "spec: {containers: [{name: other}]}"),
    (
        "spec: {containers: [{name: node, env: [{name: A, value: b}]}]}",
        "spec: {containers: [{name: node, env: [{name: A, value: c}]}]}",
    ),
    (
        "spec: {containers: [{name: node, securityContext: {runAsUser: 1}}]}",
        "spec: {containers: [{name: node, securityContext: {runAsUser: 2}}]}",
    ),
    (
        "spec: {containers: [{name: node, volumeMounts: [{name: a, mountPath: /a}]}]}",
        "spec: {containers: [{name: node, volumeMounts: [{name: a, mountPath: /b}]}]}",
    ),
    ("spec: {initContainers: [{name: a}]}", "spec: {initContainers: [{name: b}]}"),
    ("spec: {volumes: [{name: a}]}", "spec: {volumes: [{name: a}, {name: b}]}"),
    ("spec: {volumes: [{name: a, emptyDir: {}}]}", "spec: {volumes: [{name: b, emptyDir: {}}]}"),
    ("spec: {imagePullSecrets: [{name: a}]}", "spec: {imagePullSecrets: [{name: b}]}"),
    ("spec: {securityContext: {fsGroup: 1}}", "spec: {securityContext: {fsGroup: 2}}"),
    ("spec: {serviceAccountName: a}", "spec: {serviceAccountName: b}"),
    ("spec: {terminationGracePeriodSeconds: 1}", "spec: {terminationGracePeriodSeconds: 2}"),
]
_DEFAULTS = [
    ("JobSet", "network: {enableDNSHostnames: true, publishNotReadyAddresses: true}", "a: b"),
    ("JobSet", "network: {enableDNSHostnames: true}", "network: {}"),
    ("JobSet", "successPolicy: {operator: All}", "a: b"),
    ("JobSet", "startupPolicy: {startupPolicyOrder: AnyOrder}", "a: b"),
    ("JobSet", "failurePolicy: {maxRestarts: 1, restartStrategy: Recreate}",
     "failurePolicy: {maxRestarts: 1}"),
    ("JobSet", "replicatedJobs: [{name: a, replicas: 1, groupName: default}]",
     "replicatedJobs: [{name: a}]"),
    ("TrainJob", "managedBy: trainer.kubeflow.org/trainjob-controller", "a: b"),
    ("TrainJob", "runtimeRef: {name: a, kind: ClusterTrainingRuntime}", "runtimeRef: {name: a}"),
    ("TrainJob", "runtimeRef: {name: a, apiGroup: trainer.kubeflow.org}", "runtimeRef: {name: a}"),
    ("Job", "completionMode: NonIndexed", "a: b"),
    ("Job", _pod("image: 'a:1', imagePullPolicy: IfNotPresent"), _pod("image: 'a:1'")),
    ("Job", _pod("image: 'a:latest', imagePullPolicy: Always"), _pod("image: 'a:latest'")),
    ("Job", _pod("terminationMessagePath: /dev/termination-log"), _pod("image: ")),
    ("Job", _pod("ports: [{containerPort: 1, protocol: TCP}]"), _pod("ports: [{containerPort: 1}]")),
    ("Job", _pod("image: a", ", dnsPolicy: ClusterFirst"), _pod("image: a")),
    ("Job", _pod("image: a", ", terminationGracePeriodSeconds: 30"), _pod("image: a")),
    ("PersistentVolumeClaim", "volumeMode: Filesystem", "a: b"),
]  # fmt: skip

OBSERVED: list[tuple[str, str, str, Verdict | None]] = [
    # Changing the image of a live PyTorchJob was accepted; its pods kept the old image.
    ("PyTorchJob", _replica("image: 'a:1'"), _replica("image: 'a:2'"), N),
    # batch/v1 Job: changing the template is refused as immutable.
    ("Job", _pod("image: 'a:1'"), _pod("image: 'a:2'"), R),
    # Suspended TrainJob: of runtimePatches only these may change.
    *(("TrainJob", _HELD + _patch(a), _HELD + _patch(b), P) for a, b in _GO_THROUGH),
    *(("TrainJob", _HELD + _patch(a), _HELD + _patch(b), R) for a, b in _REFUSED),
    *(("TrainJob", _patch(a), _patch(b), R) for a, b in (*_GO_THROUGH, *_REFUSED)),
    # TrainingRuntime: template.spec.network and .failurePolicy are refused.
    *(
        (
            kind,
            f"template: {{spec: {{network: {{{a}}}, failurePolicy: {{maxRestarts: 1}}}}}}",
            f"template: {{spec: {{network: {{{b}}}, failurePolicy: {{maxRestarts: {n}}}}}}}",
            R,
        )
        for kind in ("TrainingRuntime", "ClusterTrainingRuntime")
        for a, b, n in (
            ("enableDNSHostnames: true", "enableDNSHostnames: false", 1),
            ("subdomain: a", "subdomain: a", 2),
        )
    ),
    ("TrainingRuntime", "mlPolicy: {numNodes: 1}", "mlPolicy: {numNodes: 2}", N),
    # activeDeadlineSeconds, schedulingPolicy.queue: a change is refused, adding is accepted.
    ("TrainJob", "activeDeadlineSeconds: 1", "activeDeadlineSeconds: 2", R),
    ("TrainJob", "suspend: false", "suspend: false, activeDeadlineSeconds: 2", P),
    ("TrainJob", "suspend: false, activeDeadlineSeconds: 2", "suspend: false", P),
    (
        "PyTorchJob",
        "runPolicy: {schedulingPolicy: {queue: a}}",
        "runPolicy: {schedulingPolicy: {queue: b}}",
        R,
    ),
    (
        "PyTorchJob",
        "runPolicy: {schedulingPolicy: {minAvailable: 1}}",
        "runPolicy: {schedulingPolicy: {minAvailable: 1, queue: b}}",
        P,
    ),
    ("PyTorchJob", "runPolicy: {}", "runPolicy: {schedulingPolicy: {queue: b}}", P),
    # Job on 1.36: container resources of a suspended Job may change.
    (
        "Job",
        _HELD + _pod("resources: {limits: {cpu: 1}}"),
        _HELD + _pod("resources: {limits: {cpu: 2}}"),
        P,
    ),
    ("Job", _pod("resources: {limits: {cpu: 1}}"), _pod("resources: {limits: {cpu: 2}}"), R),
    ("Job", _HELD + _pod("image: 'a:1'"), _HELD + _pod("image: 'a:2'"), R),
    # maxDuration added to a live JobSet adds a rule of its failurePolicy: refused.
    (
        "JobSet",
        "failurePolicy: {maxRestarts: 1}",
        "failurePolicy: {maxRestarts: 1, rules: [{name: a, action: FailJobSet}]}",
        R,
    ),
    # Kueue: nodeSelector and tolerations of a live Job and JobSet are immutable.
    ("Job", _pod("image: a", ", nodeSelector: {a: b}"), _pod("image: a"), R),
    ("JobSet", _jobs("nodeSelector: {a: b}"), _jobs("nodeSelector: {}"), R),
    # Taking out a value that equals the default is accepted everywhere, and so is writing it out.
    *((kind, before, after.replace("a: b", ""), None) for kind, before, after in _DEFAULTS),
    *((kind, after.replace("a: b", ""), before, None) for kind, before, after in _DEFAULTS),
]


@pytest.mark.parametrize(("kind", "before", "after", "verdict"), OBSERVED)
def test_what_was_observed(kind: str, before: str, after: str, verdict: Verdict | None) -> None:
    expected = {verdict} if verdict else set()
    assert _verdicts(kind, before, after, _environment()) == expected
    assert _verdicts(kind, before, after) == expected  # nothing known: the newest versions


def test_a_claim_grows_only_once_it_is_bound() -> None:
    """The cluster knows whether it is bound, and git does not."""
    grown = (
        "resources: {requests: {storage: 1Gi}}",
        "resources: {requests: {storage: 2Gi}}",
    )
    kind = "PersistentVolumeClaim"
    assert _verdicts(kind, *grown, status={"phase": "Pending"}) == {R}
    assert _verdicts(kind, *grown, status={"phase": "Bound"}) == {P}
    old, new = (_manifest(kind, yaml.safe_load(f"{{{text}}}")) for text in grown)
    (outcome,) = evaluate(old, new)
    assert "if the claim is bound" in outcome.why
    assert _verdicts(kind, *reversed(grown), status={"phase": "Bound"}) == {R}


@pytest.mark.parametrize(
    ("kubernetes", "verdict"), [("1.31", R), ("1.35", R), ("1.36", P), ("1.37", P)]
)
def test_resources_of_a_suspended_job_may_change_since_1_36(
    kubernetes: str, verdict: Verdict
) -> None:
    before, after = (_HELD + _pod(f"resources: {{limits: {{cpu: {n}}}}}") for n in (1, 2))
    environment = _environment(kubernetes=kubernetes)
    assert _verdicts("Job", before, after, environment) == {verdict}


@pytest.mark.parametrize(
    ("trainer", "field", "expected"),
    [
        ("2.1", "trainer: {image: 'a:%s'}", {N}),
        ("2.1", "suspend: true, trainer: {image: 'a:%s'}", {B}),
        ("2.3", "trainer: {image: 'a:%s'}", {R}),
        ("2.1", "suspend: true, podTemplateOverrides: [{spec: {serviceAccountName: a%s}}]", {B}),
        ("2.1", "suspend: true, podTemplateOverrides: [{spec: {nodeSelector: {a: 'a%s'}}}]", {P}),
        ("2.1", "podTemplateOverrides: [{spec: {nodeSelector: {a: 'a%s'}}}]", {R}),
    ],
)
def test_what_a_trainjob_accepts_its_jobset_may_refuse(
    trainer: str, field: str, expected: set[Verdict]
) -> None:
    environment = _environment(trainer)
    assert _verdicts("TrainJob", field % 1, field % 2, environment) == expected


@pytest.mark.parametrize(
    ("rest", "verdict"), [(a, P) for a, _ in _GO_THROUGH] + [(a, B) for a, _ in _REFUSED]
)
def test_a_patch_that_comes_or_goes_is_accepted_and_may_be_refused_by_the_jobset(
    rest: str, verdict: Verdict
) -> None:
    """The definition compares what is there before and after, so not what is new."""
    with_it, without = _HELD + _patch(rest), _HELD + "runtimePatches: []"
    assert _verdicts("TrainJob", without, with_it) == {verdict}
    assert _verdicts("TrainJob", with_it, without) == {verdict}
    assert _verdicts("TrainJob", _HELD + _patch("spec: {}"), with_it) == {verdict}


# --- the rules of the definitions ------------------------------------------------------------------

_KEYS = {"runtimePatches": {"manager": "example.com/a"}, "replicatedJobs": {"name": "node"}}
_DEFINITIONS = [
    *(("TrainJob", path, minor) for minor, path in TRAINJOBS.items()),
    ("JobSet", CRDS["JobSet"], "2.3"),
    ("PyTorchJob", CRDS["PyTorchJob"], "2.3"),
    ("TrainingRuntime", CRDS["TrainingRuntime"], "2.3"),
    ("ClusterTrainingRuntime", "crds/trainer.kubeflow.org/clustertrainingruntimes.yaml", "2.3"),
]


def _fixed(schema: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Where a definition says that a field never changes, in lists too, and its schema."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if rule["rule"] == "self == oldSelf":
            yield at, schema
    for name, field in schema.get("properties", {}).items():
        yield from _fixed(field, (*at, name))
    if isinstance(schema.get("items"), Mapping):
        yield from _fixed(schema["items"], (*at, "*"))


def _value(schema: Any, which: str) -> Any:
    """A value of a schema, another one for each word."""
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {})
        scalars = [n for n, f in fields.items() if f.get("type") in ("string", "integer")]
        name = next(iter([*scalars, *fields]))
        return {name: _value(fields[name], which)}
    if kind == "array":
        return [_value(schema["items"], which)]
    return {"integer": len(which), "boolean": which == "a"}.get(kind, which)


def _nested(path: tuple[str, ...], value: Any, name: str = "") -> Any:
    """A value at a path, which goes through the one item of each list; None leaves it out."""
    if not path:
        return value
    if path[0] == "*":
        return [{**_KEYS[name], **_nested(path[1:], value)}]
    inner = _nested(path[1:], value, path[0])
    return {} if inner is None else {path[0]: inner}


def _body(kind: str, path: tuple[str, ...], value: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": API[kind], "kind": kind, "metadata": {"name": "a"}}
    return {**body, "spec": {}, **_nested(path, value)}


@pytest.mark.parametrize(("kind", "path", "trainer"), _DEFINITIONS)
def test_fields_that_a_definition_fixes(
    kind: str, path: str, trainer: str, shared: Callable[[str], Path]
) -> None:
    """A change is refused by the real rule and in the table; the rule lets it come and go."""
    (known,), _ = crds.load(shared(path), kubernetes_schemas.NEWEST)
    fixed = [(at, schema) for at, schema in _fixed(known.root) if at[-1] not in ("manager",)]
    assert fixed
    for at, schema in fixed:
        without, one, two = (
            _body(kind, at, value) for value in (None, _value(schema, "a"), _value(schema, "bb"))
        )
        environment = _environment(trainer)

        def message(
            old: dict[str, Any], new: dict[str, Any], environment: Environment = environment
        ) -> set[Verdict]:
            found = evaluate(Manifest(body=old), Manifest(body=new), environment)
            return {outcome.verdict for outcome in found}

        assert [type(o) for o in cel.transition(known, one, two)] == [cel.Broken], at
        assert message(one, two) == {R}, at
        # A suspended object may be another matter to webhooks, not to the definition.
        for body in (one, two):
            body["spec"]["suspend"] = True
        assert message(one, two) == {R}, at
        without["spec"]["suspend"] = True
        # A TrainJob without a runtime is none.
        for old, new in ((without, one), (one, without)) if at[-1] != "runtimeRef" else ():
            webhook = kind == "JobSet" and at[1] not in ("failurePolicy", "volumeClaimPolicies")
            refused = bool(cel.transition(known, old, new))
            assert (R in message(old, new)) is (refused or webhook), at


def test_the_rows_are_reported_by_rules_of_their_outcome() -> None:
    for edit in EDITS:
        assert EDIT_RULES[edit.rule].verdict is edit.outcome, edit
        assert edit.why
        assert not edit.why.endswith(".")
        assert edit.source
    assert {edit.basis for edit in EDITS} == set(Basis)


def test_the_page_is_that_of_the_table() -> None:
    spec = spec_from_file_location("edit_table", ROOT / "scripts/edit_table.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs/edits.md").read_text(encoding="utf-8") == module.page()


# --- what Kueue holds back, and what is beside a run ------------------------------------------------

QUEUE = {"kueue.x-k8s.io/queue-name": "a"}
U = Verdict.UNTIL_ADMITTED


def _labelled(kind: str, api: str, labels: dict[str, str], spec: Data, **rest: Data) -> Manifest:
    metadata = {"name": "a", "labels": labels, **rest}
    return Manifest(body={"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec})


QUEUED = [
    # the spec before and after, the labels after, and the outcome
    ("Job", {}, {}, {"kueue.x-k8s.io/queue-name": "b"}, {U}),
    ("Job", {"suspend": True}, {"suspend": True}, {"kueue.x-k8s.io/queue-name": "b"}, {P}),
    ("Job", {"suspend": False}, {"suspend": False}, {"kueue.x-k8s.io/queue-name": "b"}, {R}),
    ("PyTorchJob", {}, {}, {"kueue.x-k8s.io/queue-name": "b"}, {U}),
    (
        "PyTorchJob",
        {"runPolicy": {"suspend": False}},
        {"runPolicy": {"suspend": False}},
        {"kueue.x-k8s.io/queue-name": "b"},
        {R},
    ),
    ("JobSet", {}, {}, {**QUEUE, "kueue.x-k8s.io/priority-class": "high"}, {U}),
    ("JobSet", {}, {}, {}, {U}),
    (
        "Job",
        {"template": {"spec": {"nodeSelector": {"a": "b"}}}},
        {"template": {"spec": {"nodeSelector": {"a": "c"}}}},
        QUEUE,
        {U},
    ),
    (
        "Job",
        {"template": {"spec": {"hostNetwork": True}}},
        {"template": {"spec": {"hostNetwork": False}}},
        QUEUE,
        {R},
    ),
]


@pytest.mark.parametrize(("kind", "before", "after", "labels", "expected"), QUEUED)
def test_what_waits_in_a_queue_takes_what_is_suspended_takes(
    kind: str, before: Data, after: Data, labels: dict[str, str], expected: set[Verdict]
) -> None:
    old = _labelled(kind, API[kind], QUEUE, before)
    found = evaluate(old, _labelled(kind, API[kind], labels, after), _environment())
    assert {outcome.verdict for outcome in found} == expected


@pytest.mark.parametrize(
    ("kind", "api"),
    [
        ("ConfigMap", "v1"),
        ("Service", "v1"),
        ("ServiceAccount", "v1"),
        ("PersistentVolumeClaim", "v1"),
        ("TrainingRuntime", "trainer.kubeflow.org/v1alpha1"),
        ("TrainingJob", "breezeml.ai/v1"),
    ],
)
def test_labels_of_kueue_mean_nothing_on_what_it_does_not_admit(kind: str, api: str) -> None:
    after = {
        "kueue.x-k8s.io/queue-name": "b",
        "kueue.x-k8s.io/priority-class": "high",
        "kueue.x-k8s.io/max-exec-time-seconds": "5",
    }
    found = evaluate(_labelled(kind, api, QUEUE, {}), _labelled(kind, api, after, {}))
    assert {outcome.verdict for outcome in found} == {P}


@pytest.mark.parametrize(
    ("version", "spec", "was", "is_", "expected"),
    [
        # of validateJobUpdateForWorkloadPriorityClassName in v0.11.0, v0.12.0, v0.15.0 and v0.19.2
        ("", {"suspend": False}, "low", "high", {P}),
        ("0.19", {"suspend": False}, "low", "high", {P}),
        ("0.15", {"suspend": False}, "low", "high", {P}),
        ("0.14", {"suspend": False}, "low", "high", {R}),
        ("0.14", {"suspend": True}, "low", "high", {P}),
        ("0.14", {}, "low", "high", {U}),
        ("0.11", {"suspend": True}, "low", "high", {R}),
        ("0.19", {"suspend": False}, None, "high", {R}),
        ("0.19", {"suspend": True}, None, "high", {P}),
        ("0.19", {"suspend": False}, "low", None, {R}),
        ("0.19", {"suspend": True}, "low", None, {R}),
        ("0.19", {}, "low", None, {R}),
        ("0.14", {"suspend": True}, "low", None, {R}),
    ],
)
def test_a_priority_is_changed_as_the_version_of_kueue_lets_it(
    version: str, spec: Data, was: str | None, is_: str | None, expected: set[Verdict]
) -> None:
    old, new = (
        _labelled("Job", API["Job"], {**QUEUE, **({KEY: value} if value else {})}, spec)
        for value in (was, is_)
    )
    environment = dataclasses.replace(_environment(), kueue=Kueue(version=version))
    assert {outcome.verdict for outcome in evaluate(old, new, environment)} == expected


KEY = "kueue.x-k8s.io/priority-class"
GATE = "kueue.x-k8s.io/admission-gated-by"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, "example.com/a", R),
        ("example.com/a", None, P),
        ("example.com/a", "example.com/a,example.com/b", R),
        ("example.com/a, example.com/b", "example.com/b", P),
        ("example.com/a", "example.com/b", R),
        ("", "example.com/a", R),
    ],
)
def test_a_gate_of_the_admission_is_only_taken_away(
    before: str | None, after: str | None, expected: Verdict
) -> None:
    annotations = [{} if gate is None else {GATE: gate} for gate in (before, after)]
    old, new = (_labelled("Job", API["Job"], QUEUE, {}, annotations=each) for each in annotations)
    assert {outcome.verdict for outcome in evaluate(old, new)} == {expected}


WEBHOOKS = [
    ("PyTorchJob", "pytorchReplicaSpecs: {Master: {replicas: 1}}", "pytorchReplicaSpecs: {Master: {replicas: 2}}", R),
    ("PyTorchJob", "pytorchReplicaSpecs: {Master: {replicas: 1}}", "pytorchReplicaSpecs: {Master: {}}", R),
    ("PyTorchJob", "pytorchReplicaSpecs: {Master: {replicas: 1}}", "pytorchReplicaSpecs: {Master: {replicas: 1}}, elasticPolicy: {minReplicas: 1}", R),
    ("PyTorchJob", "elasticPolicy: {minReplicas: 1}, pytorchReplicaSpecs: {Worker: {replicas: 1}}", "elasticPolicy: {minReplicas: 1}, pytorchReplicaSpecs: {}", R),
    ("Job", "completionMode: Indexed", "completionMode: Indexed, maxFailedIndexes: 2", R),
    ("Job", "backoffLimitPerIndex: 1, maxFailedIndexes: 1", "backoffLimitPerIndex: 1, maxFailedIndexes: 2", P),
    ("Job", "backoffLimitPerIndex: 1, maxFailedIndexes: 1", "backoffLimitPerIndex: 1", P),
    ("Service", "clusterIP: None", "clusterIP: 10.0.0.1", R),
    ("Service", "ports: []", "clusterIP: None, ports: []", R),
    ("PersistentVolumeClaim", "volumeAttributesClassName: a", "volumeAttributesClassName: b", P),
    ("PersistentVolumeClaim", "volumeAttributesClassName: a", "{}", R),
    ("PersistentVolumeClaim", "{}", "volumeName: v", R),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "before", "after", "expected"), WEBHOOKS)
def test_what_other_webhooks_refuse(kind: str, before: str, after: str, expected: Verdict) -> None:
    texts = ["" if text == "{}" else text for text in (before, after)]
    assert _verdicts(kind, *texts) == {expected}


def test_a_claim_without_a_volume_is_given_one() -> None:
    assert _verdicts("PersistentVolumeClaim", "", "volumeName: v", None, {"phase": "Pending"}) == {
        P
    }
