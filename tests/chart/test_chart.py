"""The chart on its own: as somebody without Python would use it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import helm_python
import jsonschema_rs
import pytest
import yaml

import crds
from trainwright.model import Data

ROOT = Path(__file__).parents[2]
CHART = ROOT / "chart"
SCENARIOS = sorted((CHART / "ci").glob("*-values.yaml"))
CRDS = {
    "PyTorchJob": "crds/kubeflow.org/pytorchjobs.yaml",
    "TrainingJob": "crds/breezeml.ai/trainingjobs.yaml",
}
IMAGE = {"repository": "registry.example.com/a", "tag": "1"}


def _render(values: Data, name: str = "release") -> dict[str, str]:
    with helm_python.Chart.load(CHART) as chart:
        rendered: dict[str, str] = chart.render(values, name=name, namespace="training")
    return {path.rpartition("/")[2]: text for path, text in rendered.items() if text.strip()}


def _object(values: Data, name: str = "release") -> Data:
    (text,) = [text for file, text in _render(values, name).items() if file.endswith(".yaml")]
    return yaml.load(text, Loader=yaml.CSafeLoader)


def _pods(body: Data) -> list[Data]:
    spec = body["spec"]
    replicas = spec.get("pytorchReplicaSpecs") or {"Worker": spec["replicaSpecs"]}
    return [replica["template"] for replica in replicas.values()]


@pytest.mark.parametrize("path", [None, *SCENARIOS], ids=lambda p: p.name if p else "defaults")
def test_lint_has_nothing_to_say(path: Path | None) -> None:
    values = yaml.safe_load(path.read_text()) if path else {"image": IMAGE}
    report = helm_python.lint(CHART, values, strict=True)
    assert report["errors"] == []
    assert report["messages"] == []


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.name)
def test_the_real_crd_and_every_kubernetes_accept_a_scenario(
    path: Path, shared: Callable[[str], Path]
) -> None:
    body = _object(yaml.safe_load(path.read_text()))
    assert crds.errors(shared(CRDS[body["kind"]]), body) == []
    for minor in range(29, 38):
        for pod in _pods(body):
            assert not list(_pod_schema(f"1.{minor}").iter_errors(pod)), minor


def _pod_schema(version: str) -> jsonschema_rs.Validator:
    from trainwright import schema

    definitions = schema._definitions(version)
    uri = definitions["$id"]
    return jsonschema_rs.Draft202012Validator(
        {"$ref": f"{uri}#/$defs/io.k8s.api.core.v1.PodTemplateSpec"},
        registry=jsonschema_rs.Registry([(uri, dict(definitions))]),
    )


def test_an_image_is_all_it_takes() -> None:
    body = _object({"image": IMAGE}, name="mnist")
    assert body["metadata"]["name"] == "mnist-training-job"
    assert list(body["spec"]["pytorchReplicaSpecs"]) == ["Master"]
    (pod,) = _pods(body)
    assert pod["spec"]["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert body["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"


@pytest.mark.parametrize("release", ["a", "x" * 53, "my.release", "training-job", "r-" + "y" * 50])
def test_names_leave_room_for_what_controllers_append(release: str) -> None:
    name = _object({"image": IMAGE}, name=release)["metadata"]["name"]
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
    assert len(f"{name}-worker-999") <= 63


REFUSED: dict[str, tuple[Data, str]] = {
    "a number of processes": ({"nprocPerNode": 8}, "nprocPerNode"),
    "two masters": ({"replicas": {"master": 2}}, "replicas/master"),
    "a TTL": ({"runPolicy": {"ttlSecondsAfterFinished": 60}}, "ttlSecondsAfterFinished"),
    "an unknown key": ({"replicaCount": 1}, "replicaCount"),
    "a target nobody has": ({"target": "mpijob"}, "target"),
    "a numeric variable": ({"env": {"A": 1}}, "env/A"),
    "a variable name with a dash": ({"env": {"A-B": "1"}}, "A-B"),
    "a short digest": ({"image": {"repository": "a", "digest": "sha256:abc"}}, "digest"),
    "a quantity with a space": ({"shm": {"sizeLimit": "1 Gi"}}, "sizeLimit"),
    "a bare number of GPUs": ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, "gpu"),
    "two sources": (
        {"volumes": [{"name": "a", "mountPath": "/a", "source": {"emptyDir": {}, "nfs": {"server": "a", "path": "/"}}}]},
        "volumes/0/source",
    ),
    "a volume in the way of shared memory": (
        {"volumes": [{"name": "dshm", "mountPath": "/a", "source": {"emptyDir": {}}}]},
        "volumes/0/name",
    ),
    "an unknown restart policy": ({"restartPolicy": "Sometimes"}, "restartPolicy"),
    "clean nothing, misspelt": ({"runPolicy": {"cleanPodPolicy": "none"}}, "cleanPodPolicy"),
    "half a range": ({"elastic": {"minReplicas": 1}}, "elastic"),
    "elastic with a master": (
        {"elastic": {"minReplicas": 1, "maxReplicas": 2}, "replicas": {"worker": 1}},
        "set replicas.master to 0",
    ),
    "a range upside down": (
        {"elastic": {"minReplicas": 3, "maxReplicas": 2}, "replicas": {"master": 0, "worker": 2}},
        "is more than",
    ),
    "workers that cannot meet": ({"replicas": {"master": 0, "worker": 2}}, "cannot find each other"),
    "no image": ({"image": {"repository": ""}}, "image.repository is required"),
    "an agent without a command": (
        {"target": "trainingjob", "lattice": {"inject": True}},
        "explicit command",
    ),
    "sizes upside down": (
        {"target": "trainingjob", "lattice": {"minSize": 3, "maxSize": 2}},
        "is more than",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("values", "said"), REFUSED.values(), ids=REFUSED)
def test_plain_helm_refuses(values: Data, said: str) -> None:
    with pytest.raises(helm_python.HelmError, match=re.escape(said)):
        _render({"image": IMAGE, **values})


HOSTILE = ["yes", "1e3", "0x10", "0o7", "12:30", "=", "<<", "~", "", "a: b", "#x", "\u2028", "\x7f"]
HOSTILE += [
    "'",
    '"',
    "\\n",
    "tab\there",
    "new\nline",
    "{{ .Values }}",
    "%",
    "é",
    "1_000",
    ".5",
    "y",
]


def test_hostile_values_are_read_back_the_same_by_pyyaml_and_go() -> None:
    labels = {f"l{i}": re.sub(r"[^A-Za-z0-9]", "", v) for i, v in enumerate(HOSTILE)}
    values = {
        "image": IMAGE,
        "command": HOSTILE,
        "args": HOSTILE,
        "env": {f"V{i}": v for i, v in enumerate(HOSTILE)},
        "annotations": {f"a{i}": v for i, v in enumerate(HOSTILE)},
        "podAnnotations": {f"a{i}": v for i, v in enumerate(HOSTILE)},
        "commonLabels": labels,
        "nodeSelector": labels,
        "tolerations": [{"key": v, "operator": "Exists", "tolerationSeconds": 2_000_000} for v in HOSTILE],
        "affinity": {"x": [v for v in HOSTILE if v != "\x7f"], "n": [1, 1.5, 2_000_000, True, None]},
        "volumes": [
            {"name": "v", "mountPath": "/yes", "subPath": "1e3", "source": {"hostPath": {"path": "/12:30"}}}
        ],
    }  # fmt: skip
    text = _render(values)["pytorchjob.yaml"]
    for body in (yaml.load(text, Loader=yaml.CSafeLoader), helm_python.values_from_yaml(text)):
        (pod,) = _pods(body)
        (container,) = pod["spec"]["containers"]
        assert container["command"] == container["args"] == HOSTILE
        assert {e["name"]: e["value"] for e in container["env"]} == values["env"]
        assert body["metadata"]["annotations"] == values["annotations"]
        assert pod["metadata"]["annotations"] == values["podAnnotations"]
        assert pod["spec"]["nodeSelector"] == labels
        assert labels.items() <= pod["metadata"]["labels"].items()
        assert pod["spec"]["tolerations"] == values["tolerations"]
        assert pod["spec"]["affinity"] == values["affinity"]
        assert pod["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/12:30"}}]
        assert container["volumeMounts"] == [{"name": "v", "mountPath": "/yes", "subPath": "1e3"}]


def _keys(data: Data, path: str = "") -> Iterator[str]:
    for key, value in data.items():
        yield f"{path}{key}"
        if isinstance(value, dict) and f"{path}{key}" not in (
            "podSecurityContext",
            "securityContext",
        ):
            yield from _keys(value, f"{path}{key}.")


def _schema_keys(schema: Data, defaults: Data, path: str = "") -> Iterator[str]:
    for key, child in schema.get("properties", {}).items():
        yield f"{path}{key}"
        if isinstance(defaults.get(key), dict) and defaults[key]:
            yield from _schema_keys(child, defaults[key], f"{path}{key}.")


def test_every_value_is_in_the_schema_and_documented() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert sorted(_schema_keys(schema, values)) == sorted([*_keys(values), "global"])
    readme = (CHART / "README.md").read_text()
    for key in _keys(values):
        inner = key.rpartition(".")[0]
        assert f"`{key}`" in readme or any(
            f"`{key}.{k}`" in readme for k in values.get(key) or ()
        ), key
        assert inner == "" or f"`{key}`" in readme


def test_the_readme_is_fresh() -> None:
    subprocess.run([sys.executable, ROOT / "scripts/chart_readme.py", "--check"], check=True)


def test_the_package_leaves_out_what_only_tests_need(tmp_path: Path) -> None:
    archive = helm_python.package(CHART, destination=tmp_path)
    import tarfile

    with tarfile.open(archive) as packed:
        names = packed.getnames()
    assert "training-job/templates/_pod.tpl" in names
    assert "training-job/values.schema.json" in names
    assert not [name for name in names if "/ci/" in name]


def test_notes_tell_how_to_look_and_how_to_end() -> None:
    notes = _render({"image": IMAGE}, name="mnist")["NOTES.txt"]
    assert "kubectl get pytorchjob mnist-training-job --namespace training" in notes
    assert "kubectl logs --follow mnist-training-job-master-0" in notes
    assert "helm uninstall mnist" in notes


def test_nothing_in_the_chart_depends_on_a_cluster_or_on_chance() -> None:
    text = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    assert not re.search(r"\b(lookup|now|rand\w+|uuidv4|genCA|Capabilities|ttl\w+)\b", text)
