"""podPatches: the chart applies strategic merge patches as Kubernetes does."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import helm_python
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helm_chart import CHART, IMAGE, ROOT, load, objects, pods, render
from strategic_merge import patched
from trainwright.datatypes.data import Data

TARGETS = {
    "pytorchjob": {"replicas": {"master": 1, "worker": 1}},
    "trainingjob": {},
    "jobset": {"nodes": 2},
    "job": {"nodes": 2},
    "trainjob": {"nodes": 2, "trainer": {"version": "2.3"}},
}
BASE: dict[str, Data] = {
    "image": IMAGE,
    "command": ["python", "train.py"],
    "env": {"A": "1", "B": "$(A)", "C": "3"},
    "ports": [
        {"name": "dns", "containerPort": 53},
        {"name": "dns-udp", "containerPort": 53, "protocol": "UDP"},
        {"name": "metrics", "containerPort": 9090},
    ],
    "volumes": [
        {"name": "data", "mountPath": "/data", "source": {"emptyDir": {"medium": "Memory"}}},
        {"name": "home", "mountPath": "/home", "source": {"emptyDir": {}}},
    ],
    "nodeSelector": {"pool": "a", "zone": "b"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "imagePullSecrets": [{"name": "one"}, {"name": "two"}],
    "podLabels": {"team": "vision"},
    "podAnnotations": {"team": "vision", "pool": "a"},
}


def _pods(target: str, *patches: Data) -> list[Data]:
    values = BASE | {"target": target} | TARGETS[target]
    if patches:
        values["podPatches"] = list(patches)
    return [pod for item in objects(values) for pod in pods(item)]


_CONTAINER = {
    "pytorchjob": "pytorch",
    "trainingjob": "trainingjob",
    "jobset": "node",
    "job": "node",
    "trainjob": "node",
}


def _name(target: str) -> str:
    return _CONTAINER[target]


# --- any patch --------------------------------------------------------------------------------

_TEXT = st.sampled_from(["1", "yes", "1e3", "a: b", "new\nline", "é"])
_FLAG = st.one_of(st.none(), st.booleans())
_NO_MAP = st.sampled_from([None, {}, {"$patch": "delete"}])
_NUMBER = st.one_of(st.none(), st.integers(0, 2**31 - 1))


def _items(
    key: str, names: list[Data], more: dict[str, st.SearchStrategy[Data]]
) -> st.SearchStrategy[list[Data]]:
    """Items of a list with a merge key, some of which are deleted, or replace all others."""
    some = st.fixed_dictionaries({key: st.sampled_from(names)}, optional=more)
    gone = st.fixed_dictionaries({key: st.sampled_from(names), "$patch": st.just("delete")})
    whole = st.just({"$patch": "replace"})
    drawn = st.lists(st.one_of(some, some, some, gone, whole), max_size=4)
    # Of two patches of one item, kubectl applies one after the other; one is enough here.
    return drawn.map(lambda items: list({repr(i.get(key)): i for i in items}.values()))


def _map(values: st.SearchStrategy[Data]) -> st.SearchStrategy[Data]:
    keys = st.sampled_from(["pool", "zone", "team", "new"])
    patch = st.dictionaries(keys, st.one_of(st.none(), values), max_size=3)
    return patch.flatmap(
        lambda data: st.sampled_from(
            [data, data, data | {"$patch": "replace"}, {"$patch": "delete"}]
        )
    )


def _container(name: str) -> st.SearchStrategy[Data]:
    fields: dict[str, st.SearchStrategy[Data]] = {
        "env": _items("name", ["A", "B", "C", "X", "Y"], {"value": _TEXT, "valueFrom": st.none()}),
        "ports": _items("containerPort", [53, 9090, 8080], {"name": _TEXT}),
        "volumeMounts": _items("mountPath", ["/data", "/home", "/new"], {"name": _TEXT, "readOnly": _FLAG}),
        "command": st.lists(_TEXT, max_size=2),
        "args": st.one_of(st.none(), st.lists(_TEXT, max_size=2)),
        "tty": _FLAG,
        "securityContext": st.one_of(
            st.none(),
            st.fixed_dictionaries({}, optional={
                "capabilities": st.fixed_dictionaries({}, optional={"add": st.lists(_TEXT, max_size=2), "drop": st.none()}),
                "runAsUser": _NUMBER,
                "$patch": st.sampled_from(["replace", "delete"]),
            }),
        ),
        "lifecycle": st.fixed_dictionaries({}, optional={"preStop": _NO_MAP}),
    }  # fmt: skip
    return _items("name", [name, "side", "other"], fields)


def _patches(target: str) -> st.SearchStrategy[Data]:
    spec: dict[str, st.SearchStrategy[Data]] = {
        "containers": _container(_name(target)),
        "initContainers": _items("name", ["a", "b"], {"image": _TEXT}),
        "volumes": _items(
            "name", ["data", "home", "dshm", "new"],
            {"emptyDir": st.one_of(_NO_MAP, st.just({"medium": None, "sizeLimit": "1Gi"})), "hostPath": st.just({"path": "/a"})},
        ),
        "imagePullSecrets": _items("name", ["one", "two", "three"], {}),
        "nodeSelector": _map(_TEXT),
        "tolerations": st.one_of(st.none(), st.lists(st.fixed_dictionaries({"key": _TEXT}), max_size=2)),
        "topologySpreadConstraints": _items("topologyKey", ["zone", "rack"], {"maxSkew": st.integers(1, 5)}),
        "terminationGracePeriodSeconds": st.one_of(st.none(), st.integers(0, 10**7)),
        "hostUsers": _FLAG,
        "securityContext": st.one_of(
            st.none(),
            st.fixed_dictionaries({}, optional={"runAsUser": _NUMBER, "seccompProfile": _NO_MAP, "$patch": st.just("replace")}),
        ),
    }  # fmt: skip
    metadata = {"labels": _map(_TEXT), "annotations": _map(_TEXT)}
    return st.fixed_dictionaries(
        {},
        optional={
            "metadata": st.fixed_dictionaries({}, optional=metadata),
            "spec": st.fixed_dictionaries({}, optional=spec),
        },
    )


@settings(max_examples=settings.default.max_examples // 2)  # each renders once or twice
@given(data=st.data())
def test_any_patch_has_the_result_that_kubernetes_gives_it(data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(sorted(TARGETS)))
    patches = data.draw(st.lists(_patches(target), min_size=1, max_size=2))
    before, after = _pods(target), _pods(target, *patches)
    assert [patched(pod, *patches) for pod in before] == after


# --- what kubectl 1.32 made of BASE as a PyTorchJob -------------------------------------------

RECORDED = json.loads((Path(__file__).parent / "kubectl_patches.json").read_text())


def _without_empty(data: Data) -> Data:
    """Without what kubectl leaves out of an object that it has read: zeros and what is empty."""
    if isinstance(data, dict):
        kept = {key: _without_empty(value) for key, value in data.items()}
        return {key: value for key, value in kept.items() if value}
    return [_without_empty(item) for item in data] if isinstance(data, list) else data


@pytest.mark.parametrize("case", RECORDED, ids=range(len(RECORDED)))
def test_the_result_is_kubectl_s(case: Data) -> None:
    for pod in _pods("pytorchjob", case["patch"]):
        for part, fields in case["result"].items():
            found = {field: pod[part].get(field) for field in fields}
            assert _without_empty(found) == _without_empty(fields)


# --- where there are pods ---------------------------------------------------------------------

PATCH = {"metadata": {"labels": {"a": "b"}}, "spec": {"hostUsers": False}}


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
def test_a_job_patches_what_it_overrides_of_a_runtime_of_the_cluster(version: str) -> None:
    values = load(CHART / "ci/trainjob-override-values.yaml")
    values["trainer"]["version"] = version
    (job,) = objects(values | {"podPatches": [PATCH]})
    (before,) = objects(values)
    assert patched(_override(before), PATCH) == _override(job)


def _override(job: Data) -> Data:
    if "podTemplateOverrides" in job["spec"]:
        (found,) = job["spec"]["podTemplateOverrides"]
        del found["targetJobs"]
        return found
    (patch,) = job["spec"]["runtimePatches"]
    (node,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    return node["template"]["spec"]["template"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"target": "compose"}, "Docker has nothing like podPatches"),
        ({"target": "trainjob", "trainer": {"version": "2.0", "runtime": "a"}}, "podPatches need"),
        ({"podPatches": [{"spec": {"$setElementOrder/containers": []}}]}, "$setElementOrder"),
        ({"podPatches": [{"spec": {"$retainKeys": ["a"]}}]}, "$retainKeys"),
        ({"podPatches": [{"spec": {"containers": [{"tty": True}]}}]}, "an item of containers has no name"),
        ({"podPatches": [{"spec": {"containers": ["a"]}}]}, "every item of containers is a mapping"),
        ({"podPatches": [{"spec": {"volumes": [{"name": "a", "$patch": "merge"}]}}]}, "$patch is merge"),
        ({"podPatches": [{"spec": {"securityContext": {"$patch": 1}}}]}, "$patch is 1"),
        ({"podPatches": [{"status": {}}]}, "status"),
        ({"podPatches": {"spec": {}}}, "podPatches"),
    ],
)  # fmt: skip
def test_what_cannot_be_applied_is_refused(values: Data, message: str) -> None:
    with pytest.raises(helm_python.HelmError) as refused:
        render({"image": IMAGE, "podPatches": [PATCH], **values})
    assert message in str(refused.value)


def test_the_merge_keys_are_those_of_kubernetes() -> None:
    script = runpy.run_path(str(ROOT / "scripts/merge_keys.py"))
    assert script["template"]() == (CHART / "templates/_mergekeys.tpl").read_text()
