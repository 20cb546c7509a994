"""What each pattern takes and refuses, and that none of them is slow."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from trainwright.documents.validation import schema

ROOT = Path(__file__).parents[2]
VERSION = "trainwright.io/v1alpha1"
JOB = {"apiVersion": VERSION, "kind": "JobSpec", "name": "a"}
ENVIRONMENT = {
    "apiVersion": VERSION,
    "kind": "Environment",
    "namespace": "a",
    "kubernetes": {"version": "1.31"},
    "targets": {"pytorchjob": {}},
}
LATER = "2027-12-31"

# Where a value stands in a job ("*" is the value as a key), what is fine there, and what is not.
JOBS: dict[str, tuple[list[Any], list[Any]]] = {
    "name": (["a", "a1-b", "a" * 63], ["1a", "-a", "a-", "A", "a.b", "a_b", "é", "", "a" * 64, 1]),
    "extends": (["base/a"], ["a", "/a/b", "../a", "base/../a", "base/a.yaml", "base/a/b"]),
    "image.repository": (
        [
            "pytorch/pytorch",
            "registry.example.com/ml/train",
            "localhost:5000/x",
            "nvcr.io/nvidia/pytorch",
            "us-east4-docker.pkg.dev/hf-notebooks/gpu-transformers/gpu_transformers",
            "123456789012.dkr.ecr.eu-west-1.amazonaws.com/a",
            "a__b/c--d",
        ],
        [
            "A/b",
            "a:tag",
            "pytorch:2",
            "a@sha256:0",
            "a//b",
            "/a",
            "a/",
            "https://a/b",
            "a/b___c",
            "",
        ],
    ),
    "image.tag": (
        ["1.0", "latest", "_a", "a" * 128],
        ["-a", ".a", "a b", "a:b", "", "a" * 129, 1.1],
    ),
    "image.digest": (
        [f"sha256:{'0' * 64}"],
        ["0" * 64, f"sha256:{'0' * 63}", f"sha256:{'A' * 64}", f"sha512:{'0' * 64}"],
    ),
    "entrypoint.module": (["a", "a.b_c"], ["a-b", "a..b", ".a", "1a", ""]),
    "entrypoint.script": (["train.py", "/app/train it.py"], ["-m", "", "a\tb"]),
    "entrypoint.argv": ([["a", ""]], [[], "a", ["a\0"], [1]]),
    "entrypoint.inline": (["print()\n", "é"], ["", "a\0", 1]),
    "flags.*": (
        ["lr", "batch-size", "optim.name", "_a", "+a.b", "~c/d@e"],
        ["-a", "a b", "a=b", ""],
    ),
    "flags.a": (
        ["", 1, 0.5, True, [1, "x"], {"words": [1, "x"]}, {"value": True}, {"switch": False}],
        [None, {"x": 1}, {"words": 1}, {"switch": 1}, [[1]], "a\0", ["a\0"]],
    ),
    "launcherOptions.*": (["max-restarts", "use_fsdp", "t"], ["-t", "a b", "1a", "a=b", ""]),
    "launcherOptions.a": ([1, "", "x", 0.5, True], [None, {}, [1], "a\0"]),
    "flagStyle": (
        ["--k=v", "--k v", "-k v", "k=v", {"form": "k=v"}, {"lists": "words", "booleans": "value"}],
        ["", "k v", "--k", {}, {"form": "k v"}, {"lists": "x"}, 1],
    ),
    "nodes": ([1, 1000], [0, 1001, "3", 1.5, True]),
    "procsPerNode": ([1, 64, "auto"], [0, 65, "1", "gpu", True]),
    "pool": (["h100", "a" * 63], ["H100", "a_b", "-a", "a" * 64]),
    "resources.cpu": (
        ["4", "0.3", "300m", 4, 0.5],
        ["4Gi", "1e3", ".5", "1.", "-1", "01", "0.5m", "", -1, True],
    ),
    "resources.memory": (
        ["64Gi", "1024Mi", "1.5Gi", "128974848", "1k"],
        ["64GB", "64gi", "64G i", "500m", "1K", "1e3", "+1", "-1Gi", "", 1],
    ),
    "resources.gpu": ([0, 64], [-1, 65, 1.5, "1", True]),
    "resources.extended.*": (
        ["rdma/ib", "vpc.amazonaws.com/efa", "example.com/a_b.c"],
        ["ib", "a/b/c", "/b", "a/", "A/b", "a..b/c", f"{'a' * 254}/b"],
    ),
    "shm": (["auto", "none", "16Gi", "0.5Gi"], ["0", "0Gi", "0.0", "64m", "half", ""]),
    "env.*": (["A", "_a1"], ["1a", "a-b", "a=b", "a.b", "é", ""]),
    "env.A": (["", "1", "a\nb"], ["a\0", 1, True, None, []]),
    "secrets.A.key": (["token", ".dockerconfigjson"], ["", ".", "..", "..a", "a/b", "a b"]),
    "volumes.*": (["v", "data-1"], ["dshm", "V", "a.b", "-a", "a" * 64]),
    "volumes.v.mountPath": (
        ["/v", "/a/b/", "/a/.cache", "/a..b", "/...", "/with space"],
        ["/", "a", "//a", "/a//b", "/a/./b", "/a/../b", "/a/..", "/a:b", "/a\0", ""],
    ),
    "volumes.v.hostPath.path": (["/", "/data"], ["a", "/a/../b", "/a:b"]),
    "volumes.v.subPath": (
        ["a", "a/b", "a/", ".a", "a..", "a:b"],
        ["/a", "..", "../a", "a/../b", "a/..", "./a", "a//b", "", "a\0"],
    ),
    "volumes.v.claim": (["a", "a.b", "1a"], ["A", "a..b", "a_b", "-a", "", "a" * 254]),
    "volumes.v.create.accessModes": ([["ReadWriteMany"]], [[], ["RWX"], "ReadWriteMany"]),
    "secrets.A.external.key": (["ml/wandb", "é"], ["", "a\tb", 1]),
    "topology.required": (["cloud.example.com/rack"], ["", "a b", "a/b/c"]),
    "gang": ([True, False], ["yes", 1]),
    "network": (["open", "isolated"], ["closed", ""]),
    "metrics.port": ([1024, 65000], [80, 65001, "9090"]),
    "checkpoint.path": (["ckpt", "a/b"], ["/ckpt", "../a", ""]),
    "maxDuration": (
        ["12h", "90m", "1h30m", "3d", "1d2h3m4s", "0h1m"],
        ["", "0s", "0h0m", "60", "1w", "1m2h", "h", "1.5h", "-1h", "99999d", "2 days", 60],
    ),
    "labels.*": (
        ["team", "a" * 63, "kueue.x-k8s.io/queue-name", f"{'a' * 253}/b"],
        ["", "-a", "a/b/c", "/a", "a/", "A/b", "a..b/c", "a-/b", "é", "a" * 64, f"{'a' * 254}/b"],
    ),
    "labels.a": (["", "a_b.C-d", "a" * 63], ["a b", "-a", "a/b", "a" * 64, 1, True]),
    "annotations.a": (["", "any text\nat all"], [1, True, {}]),
    "security.capabilities": ([["IPC_LOCK"]], [["CAP_IPC_LOCK"], ["ipc_lock"], ["A", "A"], "A"]),
    "waivers.*": (["TW101"], ["tw101", "TW1", "TW1011", "P01"]),
    "waivers.TW101.until": (
        [LATER, "2028-02-29", "2027-11-30"],
        ["2027-02-30", "2027-11-31", "2027-13-01", "2027-00-10", "27-1-1", "never"],
    ),
    "waivers.TW101.reason": (["because"], ["", "no", "    "]),
    "tolerations": (
        [
            [],
            [{"operator": "Exists"}],
            [{"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}],
            [{"key": "sku", "effect": "NoExecute", "tolerationSeconds": 30}],
        ],
        [
            [{}],
            [{"operator": "Equal", "value": "gpu"}],
            [{"key": "sku", "operator": "Exists", "value": "gpu"}],
            [{"key": "sku", "operator": "Exist"}],
            [{"key": "sku", "tolerationSeconds": 30}],
            [{"key": "sku", "effect": "NoSchedule", "tolerationSeconds": 30}],
            [{"key": "a b"}],
            [{"key": "sku", "value": "a b"}],
        ],
    ),
}
# What must be beside a value for the rest to be fine.
BESIDE = {
    "secrets.A.key": {"name": "a"},
    "waivers.TW101.until": {"reason": "because"},
    "waivers.TW101.reason": {"until": LATER},
}
VALUE_OF_KEY = {
    "flags.*": 1,
    "launcherOptions.*": 1,
    "resources.extended.*": 1,
    "env.*": "x",
    "volumes.*": {"claim": "c", "mountPath": "/v"},
    "labels.*": "x",
    "waivers.*": {"reason": "because", "until": LATER},
    "pools.*": {},
    "queues.*": {},
    "secrets.*": {},
    "severities.*": "off",
    "defaults.*": "a",
}
ENVIRONMENTS: dict[str, tuple[list[Any], list[Any]]] = {
    "namespace": (["a", "1a"], ["A", "a.b", "", "a" * 64]),
    "kubernetes.version": (["1.29", "1.37"], ["1.28", "1.38", "1.3", 1.31, "1.31.0"]),
    "targets": ([{"pytorchjob": {"version": "1.9"}}, {"trainingjob": {}}], [{}, {"mpijob": {}}]),
    "targets.trainingjob.rendezvous.endpoint": (
        ["lattice-rdzv-client.lattice:2379"],
        ["lattice-rdzv-client.lattice", "http://a:1", ":1", "a:"],
    ),
    "images.registries": (
        [[], ["registry.example.com/"], ["localhost:5000/"], ["myorg.jfrog.io/ml/"]],
        [["registry.example.com"], ["https://a/"], ["a//"], [""], ["a/", "a/"]],
    ),
    "pools.*": (["h100", "a" * 63], ["H100", "a.b", "", "a" * 64]),
    "pools.a.resource": (["nvidia.com/gpu"], ["gpu", "nvidia.com/", "a..b/c"]),
    "pools.a.pricePerGpuHour": ([0, 6.98], [-1, "6.98"]),
    "gitops.engine": (["argocd", "flux", "none"], ["argo", "fluxcd"]),
    "gitops.prune": (["confirm", "immediate"], ["never", False]),
    "gitops.name": (["vision-prod"], ["Vision", "a.b", "{{.x}}"]),
    "gitops.repository.url": (
        [
            "https://git.example.com/ml/training.git",
            "ssh://git@git.example.com:22/ml/training",
            "oci://registry.example.com:5000/ml/training",
        ],
        [
            "https://user:password@git.example.com/a",
            "https://token@git.example.com/a",
            "git@git.example.com:a/b",
            "https://git.example.com/a b",
            "https://git.example.com/{{.a}}",
            "oci://registry.example.com/ml/training:1",
            "file:///etc/passwd",
            "https://git.example.com",
        ],
    ),
    "gitops.repository.revision": (
        ["main", "environments/prod", "refs/tags/v1.0", "0" * 40],
        ["", "-main", "a..b", "a b", "a/", "a//b", "{{.a}}"],
    ),
    "gitops.repository.path": (["ml", "ml/training"], ["/ml", "..", "ml/../..", "ml/", "a b", ""]),
    "gitops.chart.oci": (
        ["oci://registry.example.com/charts/training-job"],
        ["registry.example.com/charts/training-job", "oci://registry.example.com", "oci://a/b:1"],
    ),
    "gitops.chart.version": (["0.1.0", "1.2.3-rc.1"], ["0.1", "latest", 1.0, ">=1.0.0"]),
    "gitops.destination": (
        [{}, {"server": "https://10.0.0.1:6443"}, {"name": "gpu-west"}],
        [{"server": "https://a", "name": "b"}, {"server": "http://a"}, {"name": "{{.a}}"}],
    ),
    "gitops.notifications": (
        [{}, {"slack": {"on-sync-failed": ["#ml", "ml@example.com"]}}],
        [
            {"Slack": {"on-sync-failed": ["a"]}},
            {"slack": {"on sync": ["a"]}},
            {"slack": {"on-sync-failed": []}},
            {"slack": {"on-sync-failed": ["a;b"]}},
            {"slack": {"on-sync-failed": ["{{.a}}"]}},
        ],
    ),
    "queueing": (["kueue", "volcano", "coscheduling"], ["slurm"]),
    "queues.*": (["team-vision"], ["Team", "a b"]),
    "secrets.*": (["hf"], ["HF", "a b"]),
    "severities.*": (["TW101"], ["P01"]),
    "severities.TW101": (["error", "required", "off"], ["fatal", True]),
    "defaults.*": (["description"], ["name", "extends", "node"]),
    "waivers": (
        [[], [{"rule": "TW101", "job": "demo-*", "reason": "because", "until": LATER}]],
        [[{"rule": "TW101", "reason": "because", "until": "2027-02-30"}], [{"rule": "TW101"}]],
    ),
}


def _with(base: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of the base in which the value stands at the path."""
    *parents, last = path.split(".")
    data: Any = dict(base)
    root = data
    for key in parents:
        data[key] = dict(data.get(key, {}))
        data = data[key]
    if last == "*":
        data[value] = VALUE_OF_KEY[path]
    else:
        data.update({**BESIDE.get(path, {}), last: value})
    if path == "targets.trainingjob.rendezvous.endpoint":
        data["backend"] = "etcd-v2"
    return root


@pytest.mark.parametrize(
    ("against", "base", "table"),
    [
        (schema.job_file, JOB, JOBS),
        (schema.environment_file, ENVIRONMENT, ENVIRONMENTS),
    ],
    ids=["job", "environment"],
)
def test_values(
    against: Callable[[], schema.Schema], base: dict[str, Any], table: dict[str, Any]
) -> None:
    problems = [
        (path, value, problem)
        for path, (fine, wrong) in table.items()
        for valid, samples in ((True, fine), (False, wrong))
        for value in samples
        for problem in _problems(against(), _with(base, path, value), path, valid)
    ]
    assert problems == []


def _problems(
    against: schema.Schema, data: dict[str, Any], path: str, valid: bool
) -> Iterator[str]:
    """Yield in what a schema does not take or refuse data for the value at the path alone."""
    violations = against.explain(data)
    if against.accepts(data) is not valid:
        yield "refused" if valid else "accepted"
    if bool(violations) is valid:
        yield f"explained by {violations}"
    pointer = "/" + path.removesuffix(".*").replace(".", "/")
    for violation in violations:
        if not violation.pointer.startswith(pointer):
            yield f"at {violation.pointer}"
        if not violation.remedy.strip():
            yield f"no remedy: {violation.message}"


@pytest.mark.parametrize("path", [path for path, (fine, _) in JOBS.items() if type(fine[0]) is str])
def test_a_trailing_newline_is_refused(path: str) -> None:
    """It is invisible in a review, and `$` lets it through in some languages."""
    free = {"annotations.a", "env.A", "entrypoint.inline", "waivers.TW101.reason", "flags.a"}
    data = _with(JOB, path, f"{JOBS[path][0][0]}\n")
    assert schema.job_file().accepts(data) is (path in free)
    assert (schema.job_file().explain(data) == ()) is (path in free)


def test_what_json_cannot_carry_is_refused() -> None:
    for value in (float("inf"), float("nan")):
        assert schema.job_file().explain({**JOB, "flags": {"lr": value}})


def _patterns(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("pattern"), str):
            yield node["pattern"]
        for child in node.values():
            yield from _patterns(child)
    elif isinstance(node, list):
        for child in node:
            yield from _patterns(child)


PATTERNS = sorted(
    {
        p
        for path in (ROOT / "schemas").rglob("*.json")
        for p in _patterns(json.loads(path.read_text()))
    }
)
HOSTILE = "a - / . 1 a- a. a/ /a a_ a/b. 1.1 1h .. /..".split()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_holds_for_the_whole_text_and_is_quick(pattern: str) -> None:
    assert (pattern.startswith("^") and pattern.endswith("$")) or pattern == r"[^\s]"
    gate = jsonschema_rs.validator_for({"type": "string", "pattern": pattern})
    explainer = schema.Schema({"type": "string", "pattern": pattern}, ())
    started = time.process_time()
    for piece in HOSTILE:
        text = piece * 5000 + "\0"
        if not gate.is_valid(text):
            assert explainer.explain(text)
    assert time.process_time() - started < 1
