"""One run, one immutable object name: what changes it, and what does not."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from repository import Repository
from trainwright.datatypes.data import Data

FULL: dict[str, Data] = {
    "apiVersion": "trainwright.io/v1alpha1",
    "kind": "JobSpec",
    "name": "llm",
    "image": {"repository": "registry.example.com/ml/llm", "tag": "1.0", "pullPolicy": "Always", "pullSecrets": ["a"]},
    "entrypoint": {"module": "workloads.llm"},
    "flags": {"epochs": 3, "lr": 0.1, "verbose": True},
    "nodes": 2,
    "procsPerNode": 1,
    "pool": "h100",
    "resources": {"cpu": "8", "memory": "64Gi", "gpu": 2, "ephemeralStorage": "10Gi", "extended": {"rdma/ib": 1}, "limits": {"cpu": "16", "memory": "80Gi"}},
    "shm": "8Gi",
    "env": {"A": "1", "B": "2"},
    "secrets": {"T": {"name": "s", "key": "k"}},
    "volumes": {"v": {"claim": "c", "mountPath": "/v", "subPath": "x"}, "d": {"claim": "d", "mountPath": "/d", "readOnly": False}},
    "checkpoint": {"volume": "v", "path": "ckpt", "every": 5, "keep": 2, "resumeFrom": "old"},
    "run": 1,
    "nodeSelector": {"zone": "a"},
    "tolerations": [{"key": "x", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "serviceAccount": "trainer",
    "security": {"runAsUser": 1000, "runAsGroup": 0, "fsGroup": 1000, "capabilities": ["NET_BIND_SERVICE"]},
}  # fmt: skip
POOL = """\
pools:
  h100: {resource: nvidia.com/gpu, tolerations: [{key: sku, operator: Exists}], nodeSelector: {pool: h100}}
"""
NEW: dict[str, Data] = {
    "image.repository": "registry.example.com/ml/other", "image.pullPolicy": "Never", "image.tag": "2.0",
    "entrypoint.module": "workloads.other", "pool": None, "shm": "auto",
    "resources.gpu": 4, "resources.cpu": "9", "volumes.v.mountPath": "/w", "volumes.d.mountPath": "/e", "checkpoint.volume": None, "affinity.nodeAffinity": None,
}  # fmt: skip


def _object(repository: Repository, spec: dict[str, Data]) -> str:
    """The object of the run that a spec leads to, from the run that there is."""
    repository.write(
        "prod/jobs/llm.yaml", yaml.dump(spec, sort_keys=False, Dumper=yaml.CSafeDumper)
    )
    done = repository.run("render", "prod/llm", "--no-cache")
    assert done.exit_code == 0, done.output
    record = (repository.root / "environments/prod/rendered/llm/run.lock").read_text()
    name: str = json.loads(record)["object"]
    return name


def _first(repository: Repository, spec: dict[str, Data]) -> str:
    """The object of the run that a spec begins where there was none."""
    rendered = repository.root / "environments/prod/rendered"
    shutil.rmtree(rendered, ignore_errors=True)
    return _object(repository, spec)


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    repository = Repository(tmp_path_factory.mktemp("names"))
    repository.environment("prod", POOL)
    return repository


def test_the_name_is_the_job_and_eight_digits_of_the_hash(place: Repository) -> None:
    assert re.fullmatch(r"llm-[0-9a-f]{8}", _object(place, FULL))


def _paths(spec: Data, path: str = "") -> Iterator[str]:
    if isinstance(spec, dict) and spec:
        for key, value in spec.items():
            yield from _paths(value, f"{path}.{key}" if path else key)
    else:
        yield path


def _changed(spec: Data, path: str) -> Data:
    copy = json.loads(json.dumps(spec))
    keys = path.split(".")
    holder = copy
    for key in keys[:-1]:
        holder = holder[key]
    old = holder[keys[-1]]
    holder[keys[-1]] = _other(path, old)
    if path == "checkpoint.volume":
        copy.pop("checkpoint")
    if path == "affinity.nodeAffinity":
        holder[keys[-1]] = {"preferredDuringSchedulingIgnoredDuringExecution": []}
    if path == "pool":
        copy["resources"]["gpu"] = 0
        holder.pop("pool")
    return copy


def _other(path: str, old: Data) -> Data:
    if path in NEW:
        return NEW[path]
    if isinstance(old, bool):
        return not old
    if isinstance(old, int | float):
        return old + 1
    if isinstance(old, list):
        return []
    return re.sub(r"[0-9]", "7", old) if re.search(r"[0-6]", old) else f"{old}z"


META = {"apiVersion", "kind", "name"}


@pytest.mark.parametrize("path", [p for p in _paths(FULL) if p not in META])
def test_any_change_of_meaning_is_a_new_run(place: Repository, path: str) -> None:
    first, other, again = (_object(place, spec) for spec in (FULL, _changed(FULL, path), FULL))
    assert len({first, other, again}) == 3
    assert _first(place, FULL) == first
    assert _first(place, _changed(FULL, path)) not in (first, other, again)


IN_PLACE: list[dict[str, Data]] = [
    {"description": "words"},
    {"maxDuration": "12h"},
    {"state": "suspended"},
    {"waivers": {"TW111": {"reason": "because", "until": "2030-01-01"}}},
    {"backend": "nccl"},  # what auto had decided
    {"launcher": "trainwright"},  # the default, spelled out
]


@pytest.mark.parametrize("extra", IN_PLACE, ids=lambda extra: next(iter(extra)))
def test_what_may_change_in_place_keeps_the_name(place: Repository, extra: dict[str, Data]) -> None:
    assert _object(place, FULL) == _object(place, {**FULL, **extra})
    assert _object(place, FULL) == _first(place, {**FULL, **extra})


@settings(max_examples=settings.default.max_examples // 4)  # each renders three times
@given(st.randoms(use_true_random=False))
def test_order_and_comments_change_nothing(place: Repository, random) -> None:
    def shuffled(data: Data) -> Data:
        if not isinstance(data, dict):
            return data
        items = list(data.items())
        random.shuffle(items)
        return {key: shuffled(value) for key, value in items}

    first = _object(place, FULL)
    tree = place.tree()
    assert _object(place, shuffled(FULL)) == first
    assert place.tree() == tree
    assert _first(place, shuffled(FULL)) == first


FACTS = ["podSecurity: baseline\n", "serviceMesh: istio\n", "key: other"]


@pytest.mark.parametrize("fact", FACTS)
def test_what_the_environment_decides_is_in_the_name_of_a_run_that_begins(
    fact: str, place: Repository
) -> None:
    first = _object(place, FULL)
    text = POOL.replace("key: sku", fact) if fact.startswith("key") else POOL + fact
    place.environment("prod", text)
    assert _object(place, FULL) == first  # it goes on as it began
    assert _first(place, FULL) != first
    rerun = _object(place, {**FULL, "run": 2})
    assert rerun not in (first, _object(place, FULL))


@pytest.mark.parametrize(
    "text",
    [
        POOL.replace("{resource", "{pricePerGpuHour: 3, capacity: 8, resource"),
        POOL + "gitops: {prune: immediate}\n",
        POOL + "budget: {gpuHours: 100}\n",
        POOL.replace("h100", "h200").replace("pool: h200", "pool: h100"),
    ],
    ids=["what a pool costs", "prune", "budget", "name of the pool"],
)
def test_what_only_the_environment_needs_is_in_no_name(text: str, place: Repository) -> None:
    first = _object(place, FULL)
    place.environment("prod", text)
    spec = {**FULL, "pool": "h200"} if "h200" in text else FULL
    assert _object(place, spec) == first
    assert _first(place, spec) == first


def test_the_same_spec_written_through_a_base_is_the_same_run(place: Repository) -> None:
    first = _object(place, FULL)
    base = {**FULL, "name": "llm", "nodes": 5, "flags": {"epochs": 9, "extra": 1}}
    place.write("base/jobs/llm.yaml", yaml.dump(base, Dumper=yaml.CSafeDumper))
    short: dict[str, Data] = {key: FULL[key] for key in META}
    short |= {
        "extends": "base/llm",
        "nodes": 2,
        "flags": {"epochs": 3, "lr": 0.1, "verbose": True, "extra": None},
    }
    assert _object(place, short) == first
    assert _first(place, short) == first
