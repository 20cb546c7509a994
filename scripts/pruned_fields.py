"""Write pruned.json of each kind: the fields of pods that an API server drops from its objects.

python scripts/pruned_fields.py [--check]

A CRD holds the pods of the Kubernetes that it was made with, and what came to pods since is pruned
in silence. The CRDs are those that tests read (`python3 scripts/fetch_upstream.py`); where they are
not, nothing is written and nothing is held against them.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#field-pruning
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from generated import ROOT, pages

from trainwright.documents.validation import kubernetes_schemas

COMMAND = "python scripts/pruned_fields.py"
KINDS = ROOT / "generator/src/trainwright/kinds"
_SOURCES = (ROOT.parent / "shared/crds", ROOT / "tests/.upstream/crds")
# By folder and kind, which versions of an operator have which definition: from the first one that
# has it, or "" for any. Where it is no file, it is the minor of Kubernetes in its go.mod.
# https://github.com/kubeflow/trainer/blob/v1.8.1/go.mod
DEFINITIONS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "trainingjob": {"TrainingJob": {"": "breezeml.ai/trainingjobs.yaml"}},
    "pytorchjob": {
        "PyTorchJob": {
            "": "1.25",
            "1.7": "1.27",
            "1.8": "1.29",
            "1.9": "kubeflow.org/pytorchjobs.yaml",
        }
    },
    "trainjob": {
        "TrainJob": {
            "": "trainer.kubeflow.org/trainjobs-v2.0.1.yaml",
            "2.1": "trainer.kubeflow.org/trainjobs-v2.1.0.yaml",
            "2.2": "trainer.kubeflow.org/trainjobs-v2.2.1.yaml",
            "2.3": "trainer.kubeflow.org/trainjobs.yaml",
        },
        "TrainingRuntime": {"2.3": "trainer.kubeflow.org/trainingruntimes.yaml"},
    },
    "jobset": {"JobSet": {"0.12": "jobset.x-k8s.io/jobsets.yaml"}},
    "rayjob": {
        "RayJob": {
            "": "1.30",
            "1.4": "1.33",
            "1.5": "1.34",
            "1.6": "1.35",
            "1.7": "ray.io/rayjobs.yaml",
        }
    },
}
# What no template has, and what is no field of a training.
_LEFT_OUT = ("ephemeralContainers", "metadata")

Schema = Mapping[str, Any]


def found(crd: str) -> Path | None:
    """Where a definition is, if anywhere."""
    return next((path for path in (f / crd for f in _SOURCES) if path.is_file()), None)


def written() -> dict[Path, str]:
    """Each file with its text, but for kinds whose definitions are not all there."""
    there = (item for item in DEFINITIONS.items() if all(map(found, _files(item[1]))))
    return {
        KINDS / name / "pruned.json": json.dumps(_of_kinds(kinds), indent=2) + "\n"
        for name, kinds in there
    }


def _files(kinds: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    for versions in kinds.values():
        yield from (source for source in versions.values() if "/" in source)


def _of_kinds(kinds: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    return {kind: _of_versions(versions) for kind, versions in kinds.items()}


def _of_versions(versions: Mapping[str, str]) -> dict[str, Any]:
    """By version: the fields that are missing, by where the object has the specs of its pods."""
    files = {v: dict(_pods(_crd(file))) for v, file in versions.items() if "/" in file}
    newest = files[max(files)]
    return {
        version: {
            at: _pruned(frozenset(_fields(pod)) if pod else _of_kubernetes(source))
            for at, pod in sorted(files.get(version, dict.fromkeys(newest, None)).items())
        }
        for version, source in versions.items()
    }


def _crd(file: str) -> Schema:
    path = found(file)
    assert path is not None
    crd = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    (version,) = (v for v in crd["spec"]["versions"] if v["storage"])
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def _pods(schema: Schema, at: str = "") -> Iterator[tuple[str, Schema]]:
    """Every schema of a pod's spec below another, with where it is."""
    if "containers" in schema.get("properties", {}):
        yield at, schema
        return
    for key, below in _below(schema):
        yield from _pods(below, f"{at}/{key}")


def _below(schema: Schema) -> Iterator[tuple[str, Schema]]:
    yield from schema.get("properties", {}).items()
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield "*", schema[key]


def _fields(schema: Schema, definitions: Schema | None = None, at: str = "") -> Iterator[str]:
    """Every field below a schema; `definitions` are the definitions that it refers to."""
    if definitions is not None and "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    for key, below in _below(schema):
        if key not in _LEFT_OUT:
            yield f"{at}/{key}"
            yield from _fields(below, definitions, f"{at}/{key}")


@cache
def _of_kubernetes(version: str) -> frozenset[str]:
    definitions = kubernetes_schemas.definitions(version)["$defs"]
    return frozenset(_fields(definitions["io.k8s.api.core.v1.PodSpec"], definitions))


def _pruned(kept_fields: frozenset[str]) -> list[str]:
    """The fields that a minor of Kubernetes has of a pod and a definition has not, the upmost."""
    every = frozenset[str]().union(*map(_of_kubernetes, kubernetes_schemas.VERSIONS))
    missing = every - kept_fields
    return sorted(path for path in missing if path.rpartition("/")[0] not in missing)


if __name__ == "__main__":
    if files := written():
        pages(__doc__, KINDS, files, COMMAND)
