"""What a run is behind, where the version that recorded it knew other facts of an environment."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repository import Repository
from trainwright.kinds import TARGETS
from trainwright.kinds.pytorchjob import KIND
from trainwright.kinds.target import POOL, Fact

PATH = "prod/rendered/llm/run.lock"
POOLS = "pools: {h100: {resource: nvidia.com/gpu, nodeSelector: {pool: h100}}}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """prod/llm, in a pool, rendered."""
    made = Repository(tmp_path)
    made.environment("prod", POOLS)
    path = made.job("prod/llm", "pool: h100\n")
    text = path.read_text(encoding="utf-8").replace("memory: 1Gi", "memory: 1Gi, gpu: 1")
    path.write_text(text, encoding="utf-8")
    assert made.run("render").exit_code == 0
    return made


def behind(repository: Repository) -> list[str]:
    done = repository.run("list", "jobs", "-o", "json")
    assert done.exit_code == 0, done.output
    (item,) = json.loads(done.stdout)["items"]
    return [value["path"] for value in item["outdated"]]


def edit(repository: Repository, old: str, new: str) -> None:
    path = repository.root / "environments/prod/environment.yaml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def knows(monkeypatch: pytest.MonkeyPatch, *facts: Fact) -> None:
    known = replace(TARGETS["pytorchjob"], facts=facts)
    monkeypatch.setitem(vars(KIND), "target", known)  # looked up once per kind


KNOWN = TARGETS["pytorchjob"].facts
VERSION = Fact(("kubernetes", "version"), lambda _job, environment: environment.kubernetes_version)
# What one version knows and the one before it does not, an edit of it, and its path.
NEW = {
    "not ours": ((), (*KNOWN, VERSION), ('"1.31"', '"1.32"'), "kubernetes.version"),
    "of the environment": (
        ("serviceMesh",),
        KNOWN,
        ("namespace:", "serviceMesh: istio\nnamespace:"),
        "serviceMesh",
    ),
    "of a pool": (
        ("pools", POOL, "resource"),
        KNOWN,
        ("nvidia.com/gpu", "amd.com/gpu"),
        "pools.h100.resource",
    ),
}


@pytest.mark.parametrize("new", NEW)
@pytest.mark.parametrize("begins", ["hold", "start"])
def test_a_fact_that_a_later_version_adds_holds_no_older_run_back(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, new: str, begins: str
) -> None:
    added, later, change, path = NEW[new]
    edit(repository, "namespace:", f"sharedChanges: {begins}\nnamespace:")
    knows(monkeypatch, *(fact for fact in KNOWN if fact.path != added))
    assert repository.run("rerun", "prod/llm").exit_code == 0
    before = repository.tree()
    knows(monkeypatch, *later)
    for old, after in (("", ""), change):  # as it was, and otherwise
        edit(repository, old, after)
        assert behind(repository) == []
        assert repository.run("render").exit_code == 0
        assert repository.tree() == before
    # The next run knows it.
    assert repository.run("rerun", "prod/llm").exit_code == 0
    edit(repository, *reversed(change))
    if begins == "hold":
        assert behind(repository) == [path]
    else:
        before = repository.tree()
        assert repository.run("render").exit_code == 0
        assert repository.tree() != before


@pytest.mark.parametrize("fact", ["podSecurity", "serviceMesh"])
def test_a_record_without_a_fact_is_not_behind_it(repository: Repository, fact: str) -> None:
    record: dict[str, Any] = json.loads(repository.tree()[PATH])
    del record["environment"][fact], record["digest"]
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    record["digest"] = hashlib.sha256(text.encode()).hexdigest()
    repository.write(PATH, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    edit(repository, "namespace:", "serviceMesh: istio\npodSecurity: baseline\nnamespace:")
    assert behind(repository) == [
        {"podSecurity": "serviceMesh", "serviceMesh": "podSecurity"}[fact]
    ]


def test_a_fact_that_a_later_version_does_not_know_holds_nothing_back(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = TARGETS["pytorchjob"].facts
    knows(
        monkeypatch,
        *(fact for fact in facts if fact.path[-1] not in ("podSecurity", "nodeSelector")),
    )
    assert behind(repository) == []
    edit(repository, "pool: h100", "pool: b200")
    assert behind(repository) == []
    edit(repository, "namespace:", "serviceMesh: istio\nnamespace:")
    assert behind(repository) == ["serviceMesh"]


def test_what_was_not_set_when_a_run_began_does_not_get_into_it(tmp_path: Path) -> None:
    """A runtime of the cluster: the run has brought its own, and is only suspended."""
    made = Repository(tmp_path)
    made.environment("prod", "defaults: {target: trainjob}\n")
    edit(made, "targets: {", 'targets: {trainjob: {version: "2.2"}, ')
    made.job("prod/llm", "gracePeriod: 30s\n")
    assert made.run("render").exit_code == 0
    before = made.tree()["prod/rendered/llm/trainjob.yaml"]
    edit(made, 'version: "2.2"', 'version: "2.2", runtime: own')
    assert behind(made) == ["targets.trainjob.runtime"]
    suspended = made.run("suspend", "prod/llm")
    assert suspended.exit_code == 0, suspended.output
    after = made.tree()["prod/rendered/llm/trainjob.yaml"]
    assert after == before.replace("suspend: false", "suspend: true")
