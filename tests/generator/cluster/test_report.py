"""`trainwright report --live` against an API server: the page has what `status` answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from apiserver import ApiServer
from cluster_objects import RUNNING, conditions, pod
from opened_page import Visit
from repository import Repository

Applied = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def _reached(api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path / "kubeconfig")))


def test_each_run_has_its_state_in_the_cluster(
    visit: Visit, rendered: Repository, applied: Applied, api: ApiServer
) -> None:
    body = applied("prod/llm", conditions("Created", "Running"))
    for role in ("master", "worker"):
        api.put(pod(body, f"{body['metadata']['name']}-{role}-0", **RUNNING))
    done = rendered.run("report", "prod", "--live")
    assert done.exit_code == 0, done.stderr
    opened = visit(done.stdout)
    rows = {
        row.locator(".job").inner_text(): row for row in opened.page.locator("details.row").all()
    }
    assert "in the cluster: running" in rows["prod/llm"].inner_text()
    assert "in the cluster: not applied" in rows["prod/mnist"].inner_text()
    opened.page.keyboard.press("/")
    opened.page.get_by_role("button", name="cluster: running 1").click()
    assert opened.page.locator("details.row .job").all_inner_texts() == ["prod/llm"]
    opened.assert_quiet()
    assert {request.verb for request in api.requests} == {"list"}


def test_a_message_of_the_cluster_cannot_run(
    visit: Visit, rendered: Repository, applied: Applied
) -> None:
    failed = conditions("Created", "Failed")
    failed["conditions"][-1]["message"] = "</script><img src=x onerror=alert(1)>"
    applied("prod/llm", failed)
    opened = visit(rendered.run("report", "prod", "--live").stdout)
    assert opened.page.locator("img").count() == 0
    opened.assert_quiet()


def test_a_cluster_that_does_not_answer_is_an_error_and_no_page(
    rendered: Repository, api: ApiServer
) -> None:
    api.close()
    done = rendered.run("report", "prod", "--live")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "trainwright: " in done.stderr


def test_a_namespace_that_cannot_be_read_hides_no_other(
    visit: Visit, rendered: Repository, applied: Applied, api: ApiServer
) -> None:
    applied("prod/llm", conditions("Created", "Running"))
    path = rendered.environment("other")
    path.write_text(path.read_text().replace("namespace: training", "namespace: closed"))
    rendered.job("other/llm")
    assert rendered.run("render", "other").exit_code == 0
    api.closed.add("closed")
    done = rendered.run("report", "--live")
    assert done.exit_code == 2
    assert "other: namespace closed was not read: not allowed to list" in done.stderr
    opened = visit(done.stdout)
    texts = {
        row.locator(".job").inner_text(): row.inner_text()
        for row in opened.page.locator("details.row").all()
    }
    assert "in the cluster: running" in texts["prod/llm"]
    assert "in the cluster: not read" in texts["other/llm"]
    needs = opened.page.locator("ul.attention").inner_text()
    assert "other: namespace closed" in needs
    assert "not allowed to list" in needs
    opened.page.keyboard.press("/")
    opened.page.get_by_role("button", name="cluster: not read 1").click()
    assert opened.page.locator("details.row .job").all_inner_texts() == ["other/llm"]
    opened.assert_quiet()
