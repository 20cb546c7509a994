"""Containers beside the one that trains: what the target hardens in them is not lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.importing import ImportInput
from trainwright.importing.batch import ImportOptions, run
from trainwright.importing.convert import Imported
from trainwright.kinds.reading import Loss

HERE = Path(__file__).parent
NATIVE = {"name": "fluent", "image": "fluent/fluent-bit:2", "restartPolicy": "Always"}
WAIT = {"name": "wait", "image": "registry.example.com/busybox:1", "command": ["true"]}
SIDE = {"name": "side", "image": "registry.example.com/side:1"}


def _template(kind: str, init: list[Any], beside: list[Any]) -> dict[str, Any]:
    name = "pytorch" if kind == "PyTorchJob" else "a"
    main = {"name": name, "image": "registry.example.com/a:1", "command": ["python", "train.py"]}
    spec: dict[str, Any] = {"initContainers": init, "containers": [main, *beside]}
    if kind != "PyTorchJob":
        spec["restartPolicy"] = "Never"
    return {"spec": spec}


def _body(kind: str, init: list[Any], beside: list[Any]) -> dict[str, Any]:
    template = _template(kind, init, beside)
    job = {"completionMode": "Indexed", "completions": 1, "parallelism": 1, "template": template}
    versions = {
        "Job": ("batch/v1", job),
        "JobSet": (
            "jobset.x-k8s.io/v1alpha2",
            {"replicatedJobs": [{"name": "node", "template": {"spec": job}}]},
        ),
        "PyTorchJob": (
            "kubeflow.org/v1",
            {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}},
        ),
    }
    version, spec = versions[kind]
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "mini"}, "spec": spec}


def _imported(folder: Path, body: Any, root: Path = HERE) -> Imported:
    path = folder / "input.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    (one,) = run(root, found, ImportOptions(environment="lab", write=False)).imported
    return one


@pytest.mark.parametrize("kind", ["Job", "JobSet", "PyTorchJob"])
@pytest.mark.parametrize(
    ("init", "beside"),
    [
        ([NATIVE], []),
        ([WAIT, NATIVE], []),
        ([NATIVE, WAIT], []),
        ([NATIVE, {**NATIVE, "name": "proxy"}], []),
        ([], [SIDE]),
        ([WAIT], [SIDE]),
    ],
)
def test_sidecars_are_carried(
    kind: str, init: list[Any], beside: list[Any], tmp_path: Path
) -> None:
    one = _imported(tmp_path, _body(kind, init, beside))
    names = [container["name"] for container in (*init, *beside)]
    assert {*one.spec.get("sidecars", {}), *one.spec.get("initContainers", {})} == set(names)
    assert one.severity is not Loss.CANNOT_RUN
    others = [left.field for left in one.left if "/initContainers/" in left.field]
    others += [left.field for left in one.left if "/containers/1/" in left.field]
    assert others == []
    assert any("/security/" in added.path for added in one.added)


@pytest.mark.parametrize("kind", ["Job", "PyTorchJob"])
def test_a_security_context_is_no_more_than_behaviour(kind: str, tmp_path: Path) -> None:
    context = {"securityContext": {"procMount": "Unmasked"}}
    one = _imported(tmp_path, _body(kind, [{**NATIVE, **context}], []))
    left = [item for item in one.left if "/initContainers/" in item.field]
    assert {item.severity for item in left} <= {Loss.BEHAVIOUR}


def test_the_restart_policy_of_the_pod_is_said_alone(tmp_path: Path) -> None:
    one = _imported(tmp_path, _body("Job", [NATIVE], []))
    left = [item.field for item in one.left if item.field.endswith("restartPolicy")]
    assert left == ["/spec/template/spec/restartPolicy"]


@pytest.mark.parametrize("kind", ["Job", "JobSet", "PyTorchJob"])
@pytest.mark.parametrize("context", [{"runAsUser": 0}, {"runAsUser": 1000}, {}])
@pytest.mark.parametrize("level", ["restricted", "privileged"])
def test_an_init_container_that_needs_root_cannot_run(
    kind: str, context: dict[str, int], level: str, tmp_path: Path
) -> None:
    lab = yaml.safe_load((HERE / "environments/lab/environment.yaml").read_text("utf-8"))
    path = tmp_path / "environments/lab/environment.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump({**lab, "podSecurity": level}), "utf-8")
    one = _imported(
        tmp_path, _body(kind, [{**WAIT, "securityContext": context}], []), root=tmp_path
    )
    refused = [item.why for item in one.left if item.severity is Loss.CANNOT_RUN]
    is_refused = context.get("runAsUser") == 0 and level == "restricted"
    assert bool(refused) == is_refused, refused
    assert all("init container 0 is refused: podSecurity" in why for why in refused)
    assert (one.severity is Loss.CANNOT_RUN) == is_refused
