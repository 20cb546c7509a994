"""Live recovery: its pods are reached by each other alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from repository import Repository
from trainwright.datatypes.data import Data

LIVE = "elastic: {minNodes: 2, maxNodes: 4, recovery: live}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def _policies(repository: Repository, extra: str) -> list[Data]:
    repository.environment("all")
    repository.job("all/a", extra.replace("nodes: 2\n", ""))
    done = repository.run("render", "all/a")
    assert done.exit_code == 0, done.output
    documents = [
        document
        for path, text in repository.tree().items()
        if path.endswith(".yaml") and "/a/" in path
        for document in yaml.safe_load_all(text)
    ]
    return [d for d in documents if d and d.get("kind") == "NetworkPolicy"]


def test_workers_are_reached_by_each_other_alone(repository: Repository) -> None:
    (policy,) = _policies(repository, LIVE)
    own = policy["spec"]["podSelector"]["matchLabels"]
    assert own
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": {"matchLabels": own}}]}]


def test_an_isolated_network_closes_the_way_out_too(repository: Repository) -> None:
    (policy,) = _policies(repository, LIVE + "network: isolated\n")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_other_elastic_jobs_have_no_policy(repository: Repository) -> None:
    assert _policies(repository, "elastic: {minNodes: 2, maxNodes: 4}\n") == []
