"""The outcome of an edit, a removal and a change of identity: a table, samples and real CRDs."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from crds import CRDS, TRAINJOBS
from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import lookup
from trainwright.documents.yamlio import Document
from trainwright.rule_model.edit import EditRule, EditSample, Verdict
from trainwright.rules.edits.outcomes import EDIT_RULES, EditOutcome, evaluate
from trainwright.rules.registry import RULES
from trainwright.specs import resolve


def _manifest(text: str) -> Manifest:
    return Manifest(body=yaml.safe_load(text))


def _judged(step: EditSample) -> tuple[EditOutcome, ...]:
    return evaluate(Manifest(body=step.before), Manifest(body=step.after) if step.after else None)


def _trainer(minor: str) -> Environment:
    data = {
        "namespace": "n",
        "kubernetes": {"version": "1.34"},
        "targets": {"trainjob": {"version": minor}},
    }
    return resolve.environment("prod", Document("environment.yaml", data, {}, {}))


@pytest.mark.parametrize("transition", EDIT_RULES.values(), ids=lambda t: t.id)
def test_samples(transition: EditRule) -> None:
    found = [j for j in _judged(transition.failing) if j.rule is transition]
    assert found, "the failing sample is judged otherwise"
    for outcome in found:
        assert outcome.why
        assert not outcome.why.endswith(".")
        assert outcome.source
        assert outcome.verdict is transition.verdict
        body = transition.failing.after or transition.failing.before
        assert outcome.pointer == "" or lookup(body, outcome.pointer) is not None
    assert transition not in {j.rule for j in _judged(transition.passing)}
    for text in (transition.summary, transition.effect, transition.remedy):
        assert text.endswith(".")


def test_ids_are_no_rules_and_in_order() -> None:
    assert not set(EDIT_RULES) & set(RULES)
    assert list(EDIT_RULES) == sorted(EDIT_RULES)
    assert len({t.name for t in (*EDIT_RULES.values(), *RULES.values())}) == len(RULES) + len(
        EDIT_RULES
    )


def _edit(kind: str, before: str, after: str) -> EditSample:
    head = f"kind: {kind}\nmetadata: {{name: a, namespace: n"
    return EditSample(yaml.safe_load(head + before), yaml.safe_load(head + after))


def _spec(kind: str, before: str, after: str) -> EditSample:
    return _edit(kind, f"}}\nspec: {{{before}}}", f"}}\nspec: {{{after}}}")


def _replica(restart: str, rest: str) -> str:
    return f"pytorchReplicaSpecs: {{Worker: {{restartPolicy: {restart}, {rest}}}}}"


POD = "template: {{spec: {{containers: [{{name: a, image: '{}'}}]}}}}"
ONE, TWO = POD.format("a:1"), POD.format("a:2")
JOBS = "replicatedJobs: [{{name: node, template: {{spec: {{{}}}}}}}]"
R, N, M, D, P = Verdict.REJECTED, Verdict.IGNORED, Verdict.MIXED, Verdict.DELETED, Verdict.IN_PLACE

EDITS: list[tuple[EditSample, Verdict | None]] = [
    # expectations.md 0.1, line by line
    (_spec("PyTorchJob", _replica("OnFailure", ONE), _replica("OnFailure", TWO)), M),
    (_spec("PyTorchJob", _replica("ExitCode", ONE), _replica("ExitCode", TWO)), M),
    (_spec("PyTorchJob", _replica("Never", ONE), _replica("Never", TWO)), N),
    (_spec("PyTorchJob", "nprocPerNode: '1'", "nprocPerNode: '2'"), M),
    (_spec("PyTorchJob", _replica("Never", "replicas: 1"), _replica("Never", "replicas: 2")), M),
    (
        _spec(
            "PyTorchJob",
            "elasticPolicy: {}, " + _replica("OnFailure", "replicas: 1"),
            "elasticPolicy: {}, " + _replica("OnFailure", "replicas: 2"),
        ),
        P,
    ),
    (
        _spec(
            "PyTorchJob",
            "elasticPolicy: {maxReplicas: 2}, " + _replica("OnFailure", "replicas: 1"),
            "elasticPolicy: {maxReplicas: 4}, " + _replica("OnFailure", "replicas: 1"),
        ),
        M,
    ),
    (_spec("PyTorchJob", "runPolicy: {suspend: false}", "runPolicy: {suspend: true}"), P),
    (_spec("PyTorchJob", "runPolicy: {backoffLimit: 1}", "runPolicy: {backoffLimit: 2}"), P),
    (_spec("PyTorchJob", "runPolicy: {managedBy: a}", "runPolicy: {managedBy: b}"), P),
    (
        _spec(
            "PyTorchJob",
            "runPolicy: {suspend: true}, " + _replica("OnFailure", ONE),
            "runPolicy: {suspend: false}, " + _replica("OnFailure", TWO),
        ),
        P,  # a suspended job has no pods
    ),
    (
        _spec(
            "PyTorchJob",
            "runPolicy: {schedulingPolicy: {queue: a}}",
            "runPolicy: {schedulingPolicy: {queue: b}}",
        ),
        R,
    ),
    *(
        (_spec("TrainJob", f"{field}: {{a: 1}}", f"{field}: {{a: 2}}"), R)
        for field in ("runtimeRef", "initializer", "trainer", "activeDeadlineSeconds", "managedBy")
    ),
    (_spec("TrainJob", "runtimePatches: []", "runtimePatches: [{manager: a/b}]"), R),
    (_spec("TrainJob", "runtimePatches: []", "suspend: true, runtimePatches: [{manager: a/b}]"), P),
    (_spec("TrainJob", "suspend: true, runtimePatches: []", "runtimePatches: [{manager: a/b}]"), P),
    (_spec("TrainJob", "suspend: true", "suspend: false"), P),
    (_spec("TrainingRuntime", "mlPolicy: {numNodes: 1}", "mlPolicy: {numNodes: 2}"), N),
    (_spec("ClusterTrainingRuntime", "mlPolicy: {numNodes: 1}", "mlPolicy: {numNodes: 2}"), N),
    (_spec("JobSet", JOBS.format(ONE), JOBS.format(TWO)), R),
    (_spec("JobSet", "suspend: true, " + JOBS.format(ONE), JOBS.format(TWO)), R),
    (
        _spec(
            "JobSet",
            "suspend: true, " + JOBS.format("template: {spec: {nodeSelector: {a: b}}}"),
            "suspend: true, " + JOBS.format("template: {spec: {nodeSelector: {a: c}}}"),
        ),
        P,
    ),
    (
        _spec(
            "JobSet",
            JOBS.format("template: {spec: {nodeSelector: {a: b}}}"),
            JOBS.format("template: {spec: {nodeSelector: {a: c}}}"),
        ),
        R,
    ),
    (_spec("JobSet", "ttlSecondsAfterFinished: 1", "ttlSecondsAfterFinished: 2"), P),
    (_spec("JobSet", "network: {}", "network: {publishNotReadyAddresses: false}"), R),
    (_spec("Job", ONE, TWO), R),
    (_spec("Job", "suspend: true, " + ONE, "suspend: true, " + TWO), R),
    (_spec("Job", "backoffLimit: 1", "backoffLimit: 2"), P),
    (_spec("Job", "completions: 1", "completions: 2"), R),
    (_spec("Job", "completionMode: NonIndexed", "completionMode: Indexed"), R),
    (
        _spec(
            "Job",
            "completionMode: Indexed, completions: 1, parallelism: 1",
            "completionMode: Indexed, completions: 2, parallelism: 2",
        ),
        M,
    ),
    (_spec("TrainingJob", f"replicaSpecs: {{{ONE}}}", f"replicaSpecs: {{{TWO}}}"), M),
    (_spec("TrainingJob", "maxSize: 1", "maxSize: 2"), P),
    *(
        (
            _edit(
                kind,
                ", labels: {kueue.x-k8s.io/queue-name: a}}",
                ", labels: {kueue.x-k8s.io/queue-name: b}}",
            ),
            Verdict.UNTIL_ADMITTED,
        )
        for kind in ("PyTorchJob", "TrainJob", "JobSet", "Job")
    ),
    (
        _edit(
            "JobSet",
            ", labels: {kueue.x-k8s.io/queue-name: a}}\nspec: {suspend: true}",
            ", labels: {kueue.x-k8s.io/queue-name: b}}\nspec: {suspend: true}",
        ),
        P,
    ),
    (_edit("Job", "}", ", labels: {kueue.x-k8s.io/priority-class: a}}"), R),
    (
        _edit(
            "Job",
            ", labels: {kueue.x-k8s.io/priority-class: a}}",
            ", labels: {kueue.x-k8s.io/priority-class: b}}",
        ),
        P,
    ),
    (_edit("ConfigMap", "}\nimmutable: true\ndata: {a: b}", "}\nimmutable: true\ndata: {a: c}"), R),
    (_edit("ConfigMap", "}\ndata: {a: b}", "}\ndata: {a: c}"), P),
    (_spec("PersistentVolumeClaim", "storageClassName: a", "storageClassName: b"), R),
    (
        _spec(
            "PersistentVolumeClaim",
            "resources: {requests: {storage: 1Gi}}",
            "resources: {requests: {storage: 2Gi}}",
        ),
        P,
    ),
    (_edit("Job", ", resourceVersion: '1'}", ", resourceVersion: '2'}"), None),
    (_edit("Job", "}\nstatus: {active: 1}", "}\nstatus: {active: 2}"), None),
    (_edit("Job", "}", ", annotations: {a: b}}"), P),
]


@pytest.mark.parametrize(("step", "expected"), EDITS)
def test_edits(step: EditSample, expected: Verdict | None) -> None:
    verdicts = {j.verdict for j in _judged(step)}
    assert verdicts == ({expected} if expected else set()), _judged(step)


@pytest.mark.parametrize(
    ("minor", "field", "expected"),
    [
        ("2.1", "trainer", N),
        ("2.1", "runtimeRef", R),
        ("2.2", "trainer", R),
        ("2.3", "initializer", R),
        ("2.0", "initializer", N),
    ],
)
def test_a_trainjob_before_2_2_accepts_what_its_jobset_never_sees(
    minor: str, field: str, expected: Verdict
) -> None:
    step = _spec("TrainJob", f"{field}: {{a: 1}}", f"{field}: {{a: 2}}")
    found = evaluate(Manifest(body=step.before), Manifest(body=step.after), _trainer(minor))
    assert {j.verdict for j in found} == {expected}


@pytest.mark.parametrize(
    ("kind", "annotations", "expected"),
    [
        ("PyTorchJob", "", D),
        ("TrainJob", "", D),
        ("PersistentVolumeClaim", "", D),
        ("Service", "", None),
        ("PyTorchJob", "argocd.argoproj.io/sync-options: 'ServerSideApply=true,Prune=confirm'", N),
        ("PyTorchJob", "argocd.argoproj.io/sync-options: Prune=false", N),
        ("JobSet", "kustomize.toolkit.fluxcd.io/prune: disabled", N),
        ("PersistentVolumeClaim", "kustomize.toolkit.fluxcd.io/prune: disabled", N),
        ("ConfigMap", "kustomize.toolkit.fluxcd.io/prune: disabled", None),
    ],
)
def test_removals(kind: str, annotations: str, expected: Verdict | None) -> None:
    text = f"kind: {kind}\nmetadata: {{name: a, annotations: {{{annotations}}}}}"
    found = evaluate(_manifest(text), None)
    assert [j.verdict for j in found] == ([expected] if expected else [])


def test_a_new_object_changes_nothing_and_another_name_removes_the_first() -> None:
    first, second = (_manifest(f"kind: Job\nmetadata: {{name: {n}}}") for n in "ab")
    assert evaluate(None, first) == ()
    assert evaluate(first, first) == ()
    assert [j.verdict for j in evaluate(first, second)] == [D]


def test_what_is_refused_leaves_nothing_else_to_happen() -> None:
    step = _spec("Job", f"backoffLimit: 1, {ONE}", f"backoffLimit: 2, {TWO}")
    assert [j.pointer for j in _judged(step)] == ["/spec/template/spec/containers/0/image"]


def _fixed(schema: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a definition says that a field never changes."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if rule["rule"] == "self == oldSelf":
            yield at
    for name, field in schema.get("properties", {}).items():
        if "managedFields" not in at and len(at) < 6:
            yield from _fixed(field, (*at, name))


@pytest.mark.parametrize(
    ("kind", "path", "minor"),
    [
        *(("TrainJob", path, f"2.{n}") for n, path in enumerate(TRAINJOBS.values())),
        ("JobSet", CRDS["JobSet"], ""),
        ("PyTorchJob", CRDS["PyTorchJob"], ""),
    ],
)
def test_every_field_that_a_real_definition_fixes_is_refused(
    kind: str, path: str, minor: str, shared: Callable[[str], Path]
) -> None:
    crd: Any = yaml.safe_load(shared(path).read_text())
    (version,) = [v for v in crd["spec"]["versions"] if v["served"]]
    fixed = list(_fixed(version["schema"]["openAPIV3Schema"]))
    assert fixed
    for field in fixed:
        before: dict[str, Data] = {"kind": kind, "metadata": {"name": "a"}}
        after = copy.deepcopy(before)
        for body, value in ((before, "x"), (after, "y")):
            holder: Any = body
            for key in field[:-1]:
                holder = holder.setdefault(key, {})
            holder[field[-1]] = value
        found = evaluate(
            Manifest(body=before), Manifest(body=after), _trainer(minor) if minor else None
        )
        assert [j.verdict for j in found] == [R], field


_value = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                "spec metadata labels template pytorchReplicaSpecs Worker runPolicy suspend "
                "replicatedJobs restartPolicy elasticPolicy data immutable".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_body = st.dictionaries(
    st.sampled_from(["spec", "metadata", "data", "immutable", "status"]), _value, max_size=4
)


@given(_body, _body, st.sampled_from(["PyTorchJob", "TrainJob", "JobSet", "Job", "ConfigMap"]))
def test_any_two_objects_can_be_compared(
    before: dict[str, Data], after: dict[str, Data], kind: str
) -> None:
    old, new = Manifest(body={**before, "kind": kind}), Manifest(body={**after, "kind": kind})
    checked = evaluate(old, new)
    assert evaluate(old, new) == checked
    if json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True):
        assert checked == ()
    evaluate(old, None)
