"""Which objects beside a workload become fields of its spec, and which stay what they are."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.importing import ImportInput
from trainwright.importing.batch import ImportOptions, run
from trainwright.importing.convert import Imported
from trainwright.kinds.reading import Loss
from trainwright.specs.merge import merge

HERE = Path(__file__).parent
JOB = yaml.safe_load("""
apiVersion: batch/v1
kind: Job
metadata: {name: finetune, namespace: lab}
spec:
  template:
    metadata: {labels: {app: finetune}}
    spec:
      restartPolicy: Never
      containers:
      - name: a
        image: registry.example.com/a:1
        command: [python, -u, /code/train.py]
        ports: [{name: metrics, containerPort: 8000}]
        env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}]
        volumeMounts: [{name: code, mountPath: /code}]
      volumes: [{name: code, configMap: {name: code}}]
""")
EXTERNAL = yaml.safe_load("""
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: hf}
spec: {secretStoreRef: {name: vault}, data: [{secretKey: token, remoteRef: {key: ml/hf}}]}
""")
MONITOR = yaml.safe_load("""
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: ml}
spec: {selector: {matchLabels: {app: finetune}}, podMetricsEndpoints: [{port: metrics}]}
""")
CONFIG = yaml.safe_load("""
apiVersion: v1
kind: ConfigMap
metadata: {name: code}
data: {train.py: print(1)}
""")


def imported(folder: Path, *bodies: Any) -> tuple[Imported, list[str]]:
    """The job with other objects, and the names of those that stay beside."""
    path = folder / "all.yaml"
    path.write_text(yaml.safe_dump_all(bodies))
    found = ImportInput()
    found.files((str(path),))
    done = run(HERE, found, ImportOptions(environment="lab", write=False))
    assert done.problems == ()
    (one,) = done.imported
    return one, [left.field.partition("/")[0] for left in found.beside]


def test_all_three_at_once(tmp_path: Path) -> None:
    one, beside = imported(tmp_path, JOB, EXTERNAL, MONITOR, CONFIG)
    assert beside == []
    spec = {key: one.spec.get(key) for key in ("entrypoint", "secrets", "metrics", "volumes")}
    assert spec == {
        "entrypoint": {"inline": "print(1)"},
        "secrets": {"HF_TOKEN": {"external": {"store": "vault", "key": "ml/hf"}}},
        "metrics": {"port": 8000},
        "volumes": None,
    }
    assert "/code/train.py is /opt/trainwright/main.py in the rendered run" in one.notes


def _changed(body: Any, more: str) -> Any:
    """A body with more in it, lists replaced."""
    return merge(copy.deepcopy(body), yaml.safe_load(more))


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (EXTERNAL, "{metadata: {namespace: elsewhere}}"),
        (EXTERNAL, "{spec: {target: {name: other}}}"),
        (EXTERNAL, "{spec: {data: [], dataFrom: [{extract: {key: ml/hf}}]}}"),
        (EXTERNAL, "{spec: {target: {template: {data: {token: 'Bearer {{ .token }}'}}}}}"),
        (EXTERNAL, "{spec: {secretStoreRef: null}}"),
        (EXTERNAL, "{spec: {data: nonsense}}"),
        (MONITOR, "{metadata: {namespace: elsewhere}}"),
        (MONITOR, "{spec: {selector: {matchLabels: {app: other}}}}"),
        (MONITOR, "{spec: {selector: {matchLabels: null}}}"),
        (MONITOR, "{spec: {selector: {matchExpressions: [{key: app, operator: Exists}]}}}"),
        (MONITOR, "{spec: {podMetricsEndpoints: [{port: other}]}}"),
        (CONFIG, "{metadata: {namespace: elsewhere}}"),
        (CONFIG, "{binaryData: {a: 'no base64'}}"),
        (
            CONFIG,
            "{binaryData: {a: dG9rZW4gPSAiaGZfQWJDZEVmR2hJaktsTW5PcFFyU3RVdld4WVowMTIzNDU2Nzg5Ig==}}",
        ),
        (CONFIG, "{data: {train.py: 'token = \"hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789\"'}}"),
        (CONFIG, "{data: {train.py: ''}}"),
    ],
)
def test_what_no_field_says_stays_beside(body: Any, more: str, tmp_path: Path) -> None:
    other = _changed(body, more)
    one, beside = imported(tmp_path, JOB, other)
    assert beside == [other["kind"]]
    alone, _ = imported(tmp_path, JOB)
    assert one.spec == alone.spec


def test_binary_data_is_a_file_of_the_same_bytes(tmp_path: Path) -> None:
    other = _changed(CONFIG, "{binaryData: {model.bin: AAEC/w==}}")
    one, beside = imported(tmp_path, JOB, other)
    assert beside == []
    assert one.spec["files"] == {
        "/code/train.py": {"content": "print(1)"},
        "/code/model.bin": {"binaryData": "AAEC/w=="},
    }
    assert not [left for left in one.left if "Data" in left.field]


@pytest.mark.parametrize(
    "more",
    [
        "{volumes: [{name: hf, secret: {secretName: hf}}, {name: code, configMap: {name: code}}]}",
        "{imagePullSecrets: [{name: hf}]}",
    ],
)
def test_a_secret_that_is_used_otherwise_as_well_stays(more: str, tmp_path: Path) -> None:
    job = _changed(JOB, f"{{spec: {{template: {{spec: {more}}}}}}}")
    if "volumes" in more:
        mounts = job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
        mounts.append({"name": "hf", "mountPath": "/hf"})
    one, beside = imported(tmp_path, job, EXTERNAL)
    assert beside == ["ExternalSecret"]
    assert "external" not in str(one.spec.get("secrets"))


@pytest.mark.parametrize(
    ("command", "inline"),
    [
        (["python", "/code/train.py", "--lr", "0.1"], True),
        (["torchrun", "--nproc-per-node=2", "/code/train.py"], True),
        (["python", "-m", "train"], False),
        (["python3", "/code/train.py"], False),  # a spec says python
        (["python", "/code/train.py", "positional"], False),
        (["bash", "-c", "python /code/train.py"], False),
        (["python", "train.py"], False),  # in a folder that the image chooses
        (["python", "-u", "/other/train.py"], False),
    ],
)
def test_only_a_script_that_a_spec_would_start_alike(
    command: list[str], inline: bool, tmp_path: Path
) -> None:
    job = copy.deepcopy(JOB)
    job["spec"]["template"]["spec"]["containers"][0]["command"] = command
    one, beside = imported(tmp_path, job, CONFIG)
    assert ("inline" in one.spec["entrypoint"]) is inline
    assert beside == []
    assert "volumes" not in one.spec
    held = {} if inline else {"/code/train.py": {"content": "print(1)"}}
    assert one.spec.get("files", {}) == held


def test_a_script_stays_beside_the_files_that_it_may_import(tmp_path: Path) -> None:
    one, beside = imported(tmp_path, JOB, _changed(CONFIG, "{data: {settings.py: a = 1}}"))
    assert beside == []
    assert one.spec["entrypoint"] == {"script": "/code/train.py"}
    assert one.spec["files"] == {
        "/code/train.py": {"content": "print(1)"},
        "/code/settings.py": {"content": "a = 1"},
    }


@pytest.mark.parametrize(
    "other",
    [
        "{initContainers: [{name: a, image: a, volumeMounts: [{name: code, mountPath: /c}]}]}",
        "{containers: [{name: a, image: a, envFrom: [{configMapRef: {name: code}}]}]}",
    ],
)
def test_a_config_that_more_than_one_container_needs_stays(other: str, tmp_path: Path) -> None:
    job = copy.deepcopy(JOB)
    pod = job["spec"]["template"]["spec"]
    for field, more in yaml.safe_load(other).items():
        pod[field] = [*pod.get(field, []), *more]
    config = _changed(CONFIG, "{data: {settings.py: a = 1}}")
    one, beside = imported(tmp_path, job, config)
    assert beside == ["ConfigMap"]
    assert one.spec["volumes"]["code"] == {"configMap": "code", "mountPath": "/code"}


def test_one_file_of_a_config_mounted_by_itself(tmp_path: Path) -> None:
    job = copy.deepcopy(JOB)
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [
        {"name": "code", "mountPath": "/code/train.py", "subPath": "train.py"}
    ]
    one, beside = imported(tmp_path, job, CONFIG)
    assert (one.spec["entrypoint"], beside) == ({"inline": "print(1)"}, [])


@pytest.mark.parametrize(
    ("interval", "left"), [("60m", False), ("1h", False), ("1h0m0s", False), ("5m", True)]
)
def test_an_interval_is_the_same_however_it_is_written(
    interval: str, left: bool, tmp_path: Path
) -> None:
    one, _ = imported(
        tmp_path, JOB, _changed(EXTERNAL, f"{{spec: {{refreshInterval: {interval}}}}}")
    )
    assert ("/spec/refreshInterval" in {found.field for found in one.left}) is left


def test_two_workloads_share_a_fetched_secret(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump_all([JOB, _changed(JOB, "{metadata: {name: other}}"), EXTERNAL]))
    found = ImportInput()
    found.files((str(path),))
    done = run(HERE, found, ImportOptions(environment="lab", write=False))
    specs = [one.spec["secrets"]["HF_TOKEN"] for one in done.imported]
    assert specs == [{"external": {"store": "vault", "key": "ml/hf"}}] * 2
    assert found.beside == []


def test_files_keep_their_permissions_and_unmounted_keys_are_named(tmp_path: Path) -> None:
    volumes = """
    {spec: {template: {spec: {volumes: [
      {name: code, configMap: {name: code, items: [{key: run.sh, path: run.sh, mode: 493}]}},
    ]}}}}
    """
    job = _changed(JOB, volumes)
    job["spec"]["template"]["spec"]["containers"][0]["command"] = ["bash", "/code/run.sh", "--a=b"]
    config = _changed(CONFIG, "{data: {train.py: null, run.sh: 'echo hi', other.sh: 'echo no'}}")
    one, beside = imported(tmp_path, job, config)
    assert beside == []
    assert one.spec["files"] == {"/code/run.sh": {"content": "echo hi", "mode": "0755"}}
    (other,) = [left for left in one.left if "other.sh" in left.field]
    assert (other.why, other.severity) == ("no container mounts it", Loss.COSMETIC)
    assert not [left for left in one.left if "mode" in left.field]
