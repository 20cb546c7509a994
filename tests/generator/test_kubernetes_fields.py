"""Every field that Kubernetes has of a pod has a place in a spec, or a reason why not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from repository import ENVIRONMENT, EVERY_TARGET, Repository
from trainwright.documents.validation import kubernetes_fields, kubernetes_schemas

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "schemas/job.schema.json").read_text(encoding="utf-8")
)
HEAD = ENVIRONMENT.partition("targets")[0].replace('"1.31"', '"1.34"') + "podSecurity: baseline\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.write("dev/environment.yaml", HEAD + EVERY_TARGET)
    return made


@pytest.mark.parametrize("kind", kubernetes_fields.FIELDS)
def test_the_newest_kubernetes_has_no_other_fields(kind: str) -> None:
    known = kubernetes_schemas.definitions(kubernetes_schemas.NEWEST)["$defs"]
    there = known[f"io.k8s.api.core.v1.{kind}"]["properties"]
    assert set(kubernetes_fields.FIELDS[kind]) == set(there)


@pytest.mark.parametrize("kind", kubernetes_fields.FIELDS)
def test_what_a_spec_has_is_in_its_schema(kind: str) -> None:
    top = {"VolumeMount": SCHEMA["$defs"]["mount"]}.get(kind, SCHEMA["$defs"]["fields"])
    for place in kubernetes_fields.FIELDS[kind].values():
        assert place.fields or place.patch or place.why
        for field in place.fields:
            if not field.startswith("volumes.<name>"):
                assert field.split(".")[0] in top["properties"], field


def _names() -> Iterator[str]:
    known = SCHEMA["$defs"]["fields"]["properties"]
    for name in {**kubernetes_fields.POD, **kubernetes_fields.CONTAINER}:
        if name not in known:
            yield name


@pytest.mark.parametrize("name", tuple(_names()))
def test_a_name_of_kubernetes_is_answered(name: str, repository: Repository) -> None:
    repository.job("dev/llm", f"{name}: x\n")
    done = repository.run("check", "--no-cache")
    assert f'unknown key "{name}"' in done.output
    place = kubernetes_fields.of_job(name)
    assert place is not None
    fields = "|".join({field.partition(".")[0] for field in place.fields} | {"-"})
    written = re.search(
        rf"help: (Write `({fields}): .*x.*`(?:\.| in place of that on line \d+\.)|Remove it: |Write image)",
        done.output,
    )
    assert written or place.remedy.rpartition(". Write ")[2] in " ".join(done.output.split())


GIVEN = {"hostUsers": False, "shareProcessNamespace": True, "enableServiceLinks": False}


def _pods(repository: Repository, written: str) -> list[dict[str, Any]]:
    repository.job("dev/llm", f"target: job\n{written}")
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    (text,) = [text for path, text in repository.tree().items() if path.endswith("/job.yaml")]
    return [yaml.safe_load(text)["spec"]["template"]["spec"]]


def test_switches_of_the_pod(repository: Repository) -> None:
    (pod,) = _pods(repository, yaml.safe_dump(GIVEN))
    assert {key: pod.get(key) for key in GIVEN} == GIVEN
    (pod,) = _pods(repository, yaml.safe_dump({key: not value for key, value in GIVEN.items()}))
    assert not GIVEN.keys() & pod.keys()


VOLUMES = """\
volumes:
  raw: {claim: raw, devicePath: /dev/xvda}
  node: {hostPath: {path: /mnt}, mountPath: /mnt, readOnly: true, recursiveReadOnly: Enabled}
"""


def test_devices_and_mounts_that_are_read_only_below(repository: Repository) -> None:
    repository.write("dev/environment.yaml", HEAD.replace("baseline", "privileged") + EVERY_TARGET)
    (pod,) = _pods(repository, VOLUMES)
    (container,) = pod["containers"]
    assert container["volumeDevices"] == [{"name": "raw", "devicePath": "/dev/xvda"}]
    (mount,) = [m for m in container["volumeMounts"] if m["name"] == "node"]
    assert mount["recursiveReadOnly"] == "Enabled"
    assert {volume["name"] for volume in pod["volumes"]} >= {"raw", "node"}


@pytest.mark.parametrize(
    ("volume", "said"),
    [
        ("{create: {size: 1Gi}, devicePath: /dev/a}", "a claim of files, which is not a block"),
        ("{claim: a, devicePath: /dev/a, mountPath: /a}", "is mounted, and cannot be a device"),
        ("{claim: a, mountPath: /a, recursiveReadOnly: Enabled}", "needs readOnly: true"),
        ("{claim: a, devicePath: dev/a}", "devicePath"),
    ],
)
def test_what_the_api_refuses_of_them(volume: str, said: str, repository: Repository) -> None:
    repository.job("dev/llm", f"target: job\nvolumes: {{a: {volume}}}\n")
    done = repository.run("check", "--no-cache")
    assert done.exit_code == 1
    assert said in done.output


def test_import_keeps_them(repository: Repository, tmp_path: Path) -> None:
    repository.write("dev/environment.yaml", HEAD.replace("baseline", "privileged") + EVERY_TARGET)
    container = {
        "name": "a",
        "image": "a:1",
        "command": ["/run"],
        "volumeDevices": [{"name": "raw", "devicePath": "/dev/xvda"}],
        "volumeMounts": [
            {"name": "node", "mountPath": "/n", "readOnly": True, "recursiveReadOnly": "Enabled"}
        ],
    }
    volumes = [
        {"name": "raw", "persistentVolumeClaim": {"claimName": "raw"}},
        {"name": "node", "hostPath": {"path": "/mnt"}},
    ]
    pod = {**GIVEN, "restartPolicy": "Never", "containers": [container], "volumes": volumes}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "llm"},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    done = repository.run("import", "--env", "dev", "--dry-run", str(path))
    assert done.exit_code == 0, done.output
    assert "left, behaviour" not in done.stderr
    assert "raw" not in done.stderr
    spec = yaml.safe_load(done.stdout)
    assert {key: spec.get(key) for key in GIVEN} == GIVEN
    assert spec["volumes"] == {
        "raw": {"claim": "raw", "devicePath": "/dev/xvda"},
        "node": {
            "hostPath": {"path": "/mnt"},
            "mountPath": "/n",
            "readOnly": True,
            "recursiveReadOnly": "Enabled",
        },
    }
    assert "podPatch" not in spec
