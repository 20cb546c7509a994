"""The chart as a user without Python has it: values in, Kubernetes objects out."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import helm_python
import jsonschema_rs
import yaml

from trainwright.datatypes.data import Data

ROOT = Path(__file__).parents[1]
CHART = ROOT / "chart"
SCENARIOS = sorted((CHART / "ci").glob("*-values.yaml"))
IMAGE = {"repository": "registry.example.com/a", "tag": "1"}


def load(path: Path) -> Data:
    return yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)


def render(values: Data, name: str = "release") -> dict[str, str]:
    """What is not empty, by file name; the schema and the notes take part."""
    with helm_python.Chart.load(CHART) as chart:
        rendered: dict[str, str] = chart.render(values, name=name, namespace="training")
    return {path.rpartition("/")[2]: text for path, text in rendered.items() if text.strip()}


def text(values: Data, name: str = "release") -> str:
    """The manifest of the job itself."""
    return render(values, name)[f"{values.get('target', 'pytorchjob')}.yaml"]


def objects(values: Data, name: str = "release") -> list[Data]:
    """Everything that the values give."""
    texts = [text for file, text in render(values, name).items() if file.endswith(".yaml")]
    return [body for text in texts for body in yaml.load_all(text, Loader=yaml.CSafeLoader)]


def body(values: Data, name: str = "release") -> Data:
    return yaml.load(text(values, name), Loader=yaml.CSafeLoader)


def pods(job: Data) -> list[Data]:
    """The pod templates of an object; those of a TrainJob are its runtime's."""
    spec = job.get("spec", {})
    if job.get("kind") == "TrainingRuntime":
        spec = spec["template"]["spec"]
    if "replicatedJobs" in spec:
        return [job["template"]["spec"]["template"] for job in spec["replicatedJobs"]]
    if job.get("kind") == "Job":
        return [spec["template"]]
    if "rayClusterSpec" in spec:
        cluster = spec["rayClusterSpec"]
        groups = [cluster["headGroupSpec"], *cluster.get("workerGroupSpecs", [])]
        return [spec["submitterPodTemplate"], *(group["template"] for group in groups)]
    single = [spec["replicaSpecs"]] if "replicaSpecs" in spec else []
    return [r["template"] for r in (*spec.get("pytorchReplicaSpecs", {}).values(), *single)]


@cache
def pod_schema(minor: int) -> jsonschema_rs.Validator:
    """PodTemplateSpec of Kubernetes 1.<minor>, unknown fields refused."""
    found = find_spec("kubernetes_validate")
    assert found
    assert found.origin
    folder = Path(found.origin).parent / "kubernetes-json-schema" / f"v1.{minor}.0-local-strict"
    definitions = json.loads((folder / "_definitions.json").read_bytes())
    uri = "https://kubernetes.example/definitions.json"
    return jsonschema_rs.Draft202012Validator(
        {"$ref": f"{uri}#/$defs/io.k8s.api.core.v1.PodTemplateSpec"},
        registry=jsonschema_rs.Registry([(uri, {**definitions, "$id": uri})]),
    )
