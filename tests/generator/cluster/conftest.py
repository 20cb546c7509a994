"""A repository that is rendered, an API server beside it, and a kubeconfig that leads there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from apiserver import ApiServer
from cluster_objects import manifest
from repository import Repository


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    yield server
    server.close()


@pytest.fixture
def rendered(repository: Repository) -> Repository:
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    return repository


Run = Callable[..., Result]


@pytest.fixture
def run(rendered: Repository, api: ApiServer, tmp_path: Path) -> Run:
    """The command line against the server."""
    config = api.kubeconfig(tmp_path / "kubeconfig")

    def invoke(*arguments: str) -> Result:
        return rendered.run(*arguments, "--kubeconfig", str(config))

    return invoke


@pytest.fixture
def applied(rendered: Repository, api: ApiServer) -> Callable[..., dict[str, Any]]:
    """Put a rendered job into the cluster, with a status."""

    def put(job: str, status: dict[str, Any] | None = None) -> dict[str, Any]:
        return api.put({**manifest(rendered, job), "status": status or {}})

    return put
