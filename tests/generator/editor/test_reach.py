"""What a lens says of a shared value: how many jobs it reaches, and what a change does to them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("pytest_lsp", reason="pytest-lsp is not installed")

from lsprotocol import types

from editing import editing
from repository import Repository
from trainwright.authoring.session import Session
from trainwright_editor.language_server.lenses import lenses

DEFAULTS = "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\ndefaults: {retries: 2}\n"
BASE = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: shared\n"
ENVIRONMENT = """\
pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8}}
defaults: {retries: 1}
"""


@pytest.fixture
def written(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path)
    repository.write("defaults.yaml", DEFAULTS)
    repository.write("base/jobs/shared.yaml", BASE)
    repository.environment("dev", ENVIRONMENT)
    for name in ("one", "two", "three"):
        repository.job(f"dev/{name}", "extends: base/shared\n")
    return repository


def found(repository: Repository, path: str) -> list[str]:
    session = Session(repository.root)
    while not session.is_checked:
        session.check_next()
    session.refresh("2026-06-01")
    return [one.title for one in lenses(session, f"environments/{path}")]


def test_a_shared_value_starts_runs_that_have_not_begun_and_is_held_back_from_others(written):
    assert found(written, "defaults.yaml") == ["inherited by 3 jobs: a change starts 3 runs"]
    assert written.run("render", "dev/one", "dev/two").exit_code == 0
    sentence = "3 jobs: a change outdates 2 runs and starts 1 run"
    assert found(written, "defaults.yaml") == [f"inherited by {sentence}"]
    assert found(written, "base/jobs/shared.yaml") == [f"extended by {sentence}"]
    assert f"inherited by {sentence}" in found(written, "dev/environment.yaml")


def test_what_is_over_is_neither_held_nor_started(written):
    written.run("render")
    written.run("cancel", "dev/one", "--orphan")
    written.job("dev/two", "extends: base/shared\nstate: cancelled\n")
    written.run("render")
    written.run("retire", "dev/three")
    assert found(written, "defaults.yaml") == ["inherited by 3 jobs"]


def test_a_job_whose_own_file_asks_for_another_run_starts_it_with_the_change(written):
    written.run("render")
    written.job("dev/one", "extends: base/shared\nflags: {lr: 1}\n")
    assert found(written, "defaults.yaml") == [
        "inherited by 3 jobs: a change outdates 2 runs and starts 1 run"
    ]


def test_a_playground_starts_runs_anew_and_a_broken_job_starts_none(written):
    written.environment("dev", f"sharedChanges: start\n{ENVIRONMENT}")
    written.run("render")
    written.job("dev/four", "extends: base/shared\nnodse: 2\n")
    assert found(written, "base/jobs/shared.yaml") == ["extended by 4 jobs: a change starts 3 runs"]


def test_a_pool_reaches_the_jobs_that_a_shared_layer_puts_there(written):
    written.write("base/jobs/shared.yaml", f"{BASE}pool: h100\n")
    written.run("render", "dev/one")
    assert found(written, "dev/environment.yaml")[-1] == (
        "named on 3 lines: a change outdates 1 run and starts 2 runs"
    )


@pytest.mark.asyncio
async def test_lenses_are_asked_for_again_when_other_jobs_are_checked(written) -> None:
    async with editing(written) as editor:
        asked = asyncio.Event()
        editor.client.feature(types.WORKSPACE_CODE_LENS_REFRESH)(lambda _: asked.set())
        await editor.checked()
        asked.clear()
        editor.open("defaults.yaml")
        editor.type("defaults.yaml", DEFAULTS.replace("2", "3"))
        await asyncio.wait_for(asked.wait(), 60)


def test_what_is_most_on_the_screen_is_checked_first(written):
    written.environment("prod", ENVIRONMENT)
    written.environment("test", ENVIRONMENT)
    written.job("prod/other")
    written.job("prod/based", "extends: base/shared\n")
    written.job("test/wrong", "nodse: 2\n")
    written.job("test/right")
    session = Session(written.root)
    while not session.is_checked:
        session.check_next()
    session.refresh("2026-06-01")
    session.put("environments/base/jobs/shared.yaml", BASE)
    session.put("environments/prod/environment.yaml", "")
    session.changed(["environments/defaults.yaml"])
    session.put("environments/defaults.yaml", DEFAULTS.replace("2", "3"))
    order = []
    while not session.is_checked:
        before = set(session.check.stale)
        session.check_next()
        order += [str(file) for file in before - set(session.check.stale)]
    assert order[-1] == "test/right"
    assert order[-2] == "test/wrong"
    assert order.index("prod/based") < order.index("prod/other") < order.index("test/wrong")
    assert order.index("dev/one") < order.index("prod/other")
