"""Init containers and sidecars: from the spec into the pods, in order, and into the run's record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from repository import EVERY_TARGET, Repository
from trainwright.documents import yamlio

ENVIRONMENT = (
    """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
podSecurity: privileged
"""
    + EVERY_TARGET
)
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
resources: {cpu: "1", memory: 1Gi}
maxDuration: null
"""
CONTAINERS = """\
volumes:
  shared: {emptyDir: {}, mountPath: /shared}
  data: {claim: data}
initContainers:
  z-first:
    image: registry.example.com/tools/prepare:1.0
    command: [sh, -c, "set -eu\\n\\ncp -r /plugin/. /shared\\n"]
    mounts: {shared: /shared, data: [{mountPath: /a, subPath: x}, {mountPath: /b, readOnly: true}]}
    env: {A: $(NODE), NODE: {field: spec.nodeName}}
    secrets: {TOKEN: {name: hf, key: token}}
    envFrom: [{configMap: settings}]
    workingDir: /work
  a-second:
    image: registry.example.com/tools/get:1.0
    args: ["", "yes", "1e3"]
    resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}
    security: {runAsUser: 7, capabilities: [CHOWN]}
sidecars:
  daemon:
    image: registry.example.com/net/daemon:1.0
    mounts: {shared: {mountPath: /shared, readOnly: true}}
    ports: [{name: http, containerPort: 8080}]
    startupProbe: {exec: {command: [test, -e, /ready]}}
"""
NOTHING_MORE = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
EXPECTED = [
    {
        "name": "z-first",
        "image": "registry.example.com/tools/prepare:1.0",
        "command": ["sh", "-c", "set -eu\n\ncp -r /plugin/. /shared\n"],
        "workingDir": "/work",
        "env": [
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "A", "value": "$(NODE)"},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
        ],
        "envFrom": [{"configMapRef": {"name": "settings"}}],
        "volumeMounts": [
            {"name": "data", "mountPath": "/a", "subPath": "x"},
            {"name": "data", "mountPath": "/b", "readOnly": True},
            {"name": "shared", "mountPath": "/shared"},
        ],
        "securityContext": NOTHING_MORE,
    },
    {
        "name": "a-second",
        "image": "registry.example.com/tools/get:1.0",
        "args": ["", "yes", "1e3"],
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
            "runAsUser": 7,
        },
    },
    {
        "name": "daemon",
        "image": "registry.example.com/net/daemon:1.0",
        "restartPolicy": "Always",
        "volumeMounts": [{"name": "shared", "mountPath": "/shared", "readOnly": True}],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "startupProbe": {"exec": {"command": ["test", "-e", "/ready"]}},
        "securityContext": NOTHING_MORE,
    },
]


def _write(repository: Repository, text: str, target: str, environment: str = "") -> None:
    repository.write("prod/environment.yaml", ENVIRONMENT + environment)
    repository.write("prod/jobs/llm.yaml", f"{JOB}target: {target}\n{text}")


def _pods(repository: Repository) -> list[dict[str, Any]]:
    """The specs of the pods that are rendered."""
    folder = repository.root / "environments/prod/rendered/llm"
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.yaml")):
        if path.name != "values.yaml":
            for body in yamlio.load_rendered(path.read_text(encoding="utf-8")):
                found += _specs(body)
    return found


def _specs(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [spec for item in node for spec in _specs(item)]
    if not isinstance(node, dict):
        return []
    if "containers" in node:
        return [node]
    return [spec for item in node.values() for spec in _specs(item)]


def _render(repository: Repository) -> None:
    done = repository.run("render", "prod")
    assert done.exit_code == 0, done.output


def _findings(repository: Repository, text: str, target: str = "job") -> str:
    _write(repository, text, target)
    done = repository.run("check", "prod")
    assert done.exit_code == 1, done.output
    return done.output


@pytest.mark.parametrize("target", ["pytorchjob", "trainjob", "jobset", "job"])
def test_containers_start_in_the_order_in_which_they_are_written(
    repository: Repository, target: str
) -> None:
    _write(repository, CONTAINERS, target)
    _render(repository)
    for spec in _pods(repository):
        assert spec["initContainers"] == EXPECTED
        assert [volume["name"] for volume in spec["volumes"]] == ["dshm", "data", "shared"]
        mounted = {mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
        assert mounted == {"dshm", "shared"}


def test_containers_of_lower_layers_come_first(repository: Repository) -> None:
    shared = "defaults: {initContainers: {z: {image: a/z:1}, y: {image: a/y:1}}}\n"
    text = "initContainers: {a: {image: a/a:1}, y: {image: a/y:2}}\n"
    _write(repository, text, "job", shared)
    _render(repository)
    (spec,) = _pods(repository)
    images = [container["image"] for container in spec["initContainers"]]
    assert images == ["a/z:1", "a/y:2", "a/a:1"]


def test_a_sidecar_can_stand_among_the_init_containers(repository: Repository) -> None:
    text = "initContainers: {proxy: {image: a/p:1, restartPolicy: Always}, get: {image: a/g:1}}\n"
    _write(repository, f"{text}sidecars: {{last: {{image: a/l:1}}}}\n", "job")
    _render(repository)
    (spec,) = _pods(repository)
    found = [(c["name"], c.get("restartPolicy")) for c in spec["initContainers"]]
    assert found == [("proxy", "Always"), ("get", None), ("last", "Always")]


# --- the order is part of the run ----------------------------------------------------------------

TWO = "initContainers: {b: {image: a/b:1}, a: {image: a/a:1}}\n"
TURNED = "initContainers: {a: {image: a/a:1}, b: {image: a/b:1}}\n"


def _object(repository: Repository) -> str:
    path = repository.root / "environments/prod/rendered/llm/run.lock"
    return str(json.loads(path.read_text(encoding="utf-8"))["object"])


def test_another_order_is_another_run(repository: Repository) -> None:
    _write(repository, TWO, "job")
    _render(repository)
    before = _object(repository)
    _render(repository)
    assert _object(repository) == before
    _write(repository, TURNED, "job")
    _render(repository)
    assert _object(repository) != before
    assert [c["name"] for c in _pods(repository)[0]["initContainers"]] == ["a", "b"]


def test_another_order_of_variables_is_the_same_run(repository: Repository) -> None:
    _write(repository, "initContainers: {b: {image: a/b:1, env: {B: x, A: y}}}\n", "job")
    _render(repository)
    before = _object(repository)
    _write(repository, "initContainers: {b: {env: {A: y, B: x}, image: a/b:1}}\n", "job")
    _render(repository)
    assert _object(repository) == before


def test_a_run_that_goes_on_keeps_its_order(repository: Repository) -> None:
    _write(repository, TWO, "job")
    _render(repository)
    before = _object(repository)
    _write(repository, f"{TWO}state: suspended\n", "job")
    folder = repository.root / "environments/prod/rendered/llm"
    (folder / "job.yaml").unlink()  # rendered anew from the record
    _render(repository)
    assert _object(repository) == before
    assert [c["name"] for c in _pods(repository)[0]["initContainers"]] == ["b", "a"]


def test_another_order_below_the_job_is_held(repository: Repository) -> None:
    _write(repository, "", "job", f"defaults: {{{TWO.strip()}}}\n")
    _render(repository)
    before = _object(repository)
    _write(repository, "", "job", f"defaults: {{{TURNED.strip()}}}\n")
    _render(repository)
    assert _object(repository) == before
    assert [c["name"] for c in _pods(repository)[0]["initContainers"]] == ["b", "a"]
    assert "initContainers" in repository.run("list").output  # it is behind that
    assert repository.run("rerun", "prod/llm").exit_code == 0
    _render(repository)
    assert [c["name"] for c in _pods(repository)[0]["initContainers"]] == ["a", "b"]


# --- what cannot be ------------------------------------------------------------------------------

WRONG = {
    "initContainers: {a: {command: [x]}}": "initContainers.a.image is missing",
    "initContainers: {a: {image: 'a b'}}": "which is not a valid image",
    "initContainers: {a: {image: a/a:1, mounts: {dat: /d}}}\n"
    "volumes: {data: {claim: c, mountPath: /d}}": 'initContainers.a mounts "dat"',
    "sidecars: {a: {image: a/a:1, mounts: {d: {subPath: x}}}}\n"
    "volumes: {d: {claim: c, mountPath: /d}}": "sidecars.a.mounts.d.mountPath is missing",
    "sidecars: {a: {image: a/a:1, mounts: {d: /x, e: /x/}}}\n"
    "volumes: {d: {claim: c}, e: {claim: e}}": "are both mounted at /x",
    "volumes: {d: {claim: c}}\ninitContainers: {a: {image: a/a:1}}": "volumes.d is mounted nowhere",
    "sidecars: {a: {image: a/a:1}}\ninitContainers: {a: {image: a/a:1}}": "have one name",
    "initContainers: {a: {image: a/a:1, startupProbe: {exec: {command: [x]}}}}": (
        "only sidecars have a startupProbe"
    ),
    "sidecars: {a: {image: a/a:1, startupProbe: {exe: {command: [x]}}}}": (
        'unknown key "exe" in sidecars.a.startupProbe'
    ),
    "sidecars: {a: {image: a/a:1, resources: {request: {cpu: 1}}}}": (
        'unknown key "request" in sidecars.a.resources'
    ),
    "sidecars: {a: {image: a/a:1, env: {A: x}, secrets: {A: {name: b, key: c}}}}": (
        "A is set in env and in secrets of sidecars.a"
    ),
    "sidecars: {a: {image: a/a:1, env: {A: {field: metadata.nam}}}}": "sidecars.a.env.A.field is",
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG.items(), ids=WRONG)
def test_what_cannot_be_is_refused_where_it_stands(
    repository: Repository, text: str, message: str
) -> None:
    found = _findings(repository, f"{text}\n").replace("\n", " ")
    assert message in found
    assert "environments/prod/jobs/llm.yaml:9:" in found


POOLS = """\
pools:
  h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 16}
  mi300: {resource: amd.com/gpu, gpusPerNode: 8, capacity: 16}
"""
TRAINS = JOB.replace('{cpu: "1", memory: 1Gi}', "{gpu: 4}") + "target: job\npool: h100\n"


def _beside(fields: str, resources: str) -> str:
    return f"{fields}image: a/a:1, resources: {{{resources}}}}}}}\n"


def _refused(repository: Repository, text: str) -> list[tuple[str, str, str]]:
    """The errors of a job of 4 GPUs with a container beside it: where, what and what to do."""
    repository.write("prod/environment.yaml", ENVIRONMENT + POOLS)
    repository.write("prod/jobs/llm.yaml", TRAINS + text)
    found = json.loads(repository.run("check", "prod", "-o", "json").output)["report"]["results"]
    wrong = [finding for finding in found if finding["rule"] == "TW022"]
    assert all(finding["place"]["line"] == 10 for finding in wrong)
    return [(finding["path"], finding["message"], finding["remedy"]) for finding in wrong]


SIDECAR, BEFORE = "sidecars: {y: {", "initContainers: {y: {"
UNCOUNTED = {
    "a sidecar": (_beside(SIDECAR, "limits: {nvidia.com/gpu: 8}"), "sidecars.y.resources.limits"),
    "one by its requests": (
        _beside(SIDECAR, "requests: {nvidia.com/gpu: '1'}, limits: {nvidia.com/gpu: '1'}"),
        "sidecars.y.resources.requests",
    ),
    "a sidecar among the init containers": (
        _beside(f"{BEFORE}restartPolicy: Always, ", "limits: {nvidia.com/gpu: 1}"),
        "initContainers.y.resources.limits",
    ),
    "an init container of more than the training": (
        _beside(BEFORE, "limits: {nvidia.com/gpu: 8}"),
        "initContainers.y.resources.limits",
    ),
    "what another pool counts": (
        _beside(BEFORE, "limits: {amd.com/gpu: 1}"),
        "initContainers.y.resources.limits",
    ),
}


@pytest.mark.parametrize(("text", "path"), UNCOUNTED.values(), ids=UNCOUNTED)
def test_accelerators_that_nothing_counts_are_refused(
    repository: Repository, text: str, path: str
) -> None:
    ((where, message, remedy),) = _refused(repository, text)
    assert where.startswith(path)
    assert "plans and quotas count the accelerators of resources.gpu, and no others" in message
    assert remedy


@pytest.mark.parametrize(
    "text",
    [
        _beside(BEFORE, "limits: {nvidia.com/gpu: 4}"),
        _beside(SIDECAR, "limits: {nvidia.com/gpu: 0}"),
        _beside(SIDECAR, "limits: {rdma/hca: 1}"),
    ],
)
def test_what_changes_no_count_of_accelerators_is_taken(repository: Repository, text: str) -> None:
    """A pod asks for what its training or an init container needs, whichever is more."""
    assert _refused(repository, text) == []


def test_a_volume_that_is_not_there_has_a_suggestion(repository: Repository) -> None:
    text = "sidecars: {a: {image: a/a:1, mounts: {dat: /d}}}\nvolumes: {data: {claim: c}}\n"
    assert 'Did you mean "data"?' in _findings(repository, text)


REFUSED = {
    ("compose", "initContainers"): "Docker has nothing like initContainers",
    ("compose", "sidecars"): "Docker has nothing like sidecars",
    ("trainingjob", "sidecars"): "the pods of a TrainingJob have no sidecars",
}


@pytest.mark.parametrize(("where", "message"), REFUSED.items(), ids=str)
def test_a_target_without_them_refuses_them_by_name(
    repository: Repository, where: tuple[str, str], message: str
) -> None:
    target, field = where
    assert message in _findings(repository, f"{field}: {{a: {{image: a/a:1}}}}\n", target)


@pytest.mark.parametrize(
    ("version", "text", "message"),
    [
        ("1.7", "sidecars: {a: {image: a/a:1}}", "of operator 1.7 have no sidecars"),
        (
            "1.7.0",
            "initContainers: {a: {image: a/a:1, restartPolicy: Always}}",
            "of operator 1.7.0 have no sidecars",
        ),
        (
            "1.8",
            "volumes: {v: {image: {reference: a/a:1}, mountPath: /v}}",
            "of operator 1.8 have no volumes of images",
        ),
    ],
)
def test_an_operator_older_than_a_field_refuses_it(
    repository: Repository, version: str, text: str, message: str
) -> None:
    older = ENVIRONMENT.replace('"1.9"', f'"{version}"')
    repository.write("prod/environment.yaml", older)
    repository.write("prod/jobs/llm.yaml", f"{JOB}target: pytorchjob\n{text}\n")
    done = repository.run("check", "prod")
    assert done.exit_code == 1
    assert message in done.output.replace("\n", " ")


def test_a_runtime_of_the_cluster_takes_no_containers(repository: Repository) -> None:
    lent = ENVIRONMENT.replace('{version: "2.3"}', '{version: "2.3", runtime: torch}')
    repository.write("prod/environment.yaml", lent)
    text = "initContainers: {a: {image: a/a:1}}\nsidecars: {b: {image: a/b:1}}\n"
    repository.write("prod/jobs/llm.yaml", f"{JOB}target: trainjob\n{text}")
    found = repository.run("check", "prod").output
    assert "a job cannot set initContainers in a runtime of the cluster" in found
    assert "a job cannot set sidecars in a runtime of the cluster" in found


# --- rules look at them as well ------------------------------------------------------------------

FOUND = {
    "initContainers: {a: {image: a/a:latest}}": ("TW709", "initContainers.a.image", "latest"),
    "sidecars: {a: {image: a/a}}": ("TW709", "sidecars.a.image", "has no tag"),
    "initContainers: {a: {image: a/a:1, env: {DB_PASSWORD: correct-horse-7}}}": (
        "TW710",
        "initContainers.a.env.DB_PASSWORD",
        "DB_PASSWORD holds a credential",
    ),
    "sidecars: {a: {image: a/a:1, args: [--token=hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567]}}": (
        "TW710",
        "sidecars.a",
        "the option --token holds",
    ),
    "sidecars: {a: {image: a/a:1, resources: {requests: {cpu: '2'}, limits: {cpu: '1'}}}}": (
        "TW724",
        "sidecars.a.resources",
        "cpu",
    ),
    "initContainers: {a: {image: a/a:1, resources: {requests: {nvidia.com/gpu: 1}}}}": (
        "TW701",
        "initContainers.a.resources",
        "nvidia.com/gpu",
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", ["job", "pytorchjob", "trainjob"])
@pytest.mark.parametrize(("text", "expected"), FOUND.items(), ids=FOUND)
def test_rules_find_what_is_wrong_in_them_at_its_line(
    repository: Repository, text: str, expected: tuple[str, str, str], target: str
) -> None:
    _write(repository, f"{text}\n", target)
    found = json.loads(repository.run("check", "prod", "-o", "json").output)["report"]["results"]
    rule, path, words = expected
    (one,) = [finding for finding in found if finding["rule"] == rule]
    assert words in one["message"]
    assert one["path"].startswith(path), one
    assert one["place"]["line"] == 9


@pytest.mark.parametrize("target", ["job", "trainjob"])
def test_the_environment_s_images_are_also_theirs(repository: Repository, target: str) -> None:
    text = "sidecars: {a: {image: other.example.com/a:1}}\n"
    _write(repository, text, target, "images: {registries: [registry.example.com/]}\n")
    found = json.loads(repository.run("check", "prod", "-o", "json").output)["report"]["results"]
    (one,) = [finding for finding in found if finding["rule"] == "TW716"]
    assert one["path"] == "sidecars.a.image"
    assert "other.example.com/a is not below" in one["message"]


def test_a_container_called_like_the_one_that_trains_is_found(repository: Repository) -> None:
    _write(repository, "initContainers: {pytorch: {image: a/a:1}}\n", "pytorchjob")
    found = json.loads(repository.run("check", "prod", "-o", "json").output)["report"]["results"]
    (one,) = [finding for finding in found if finding["rule"] == "TW713"]
    assert one["path"] == "initContainers.pytorch"
    assert one["place"]["line"] == 9
