"""Findings in an editor, over the protocol and in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pytest_lsp", reason="pytest-lsp is not installed")

from lsprotocol import types

import git_repository
from editing import editing
from repository import JOB, Repository
from trainwright.authoring.session import Session


@pytest.mark.asyncio
async def test_findings_are_those_of_unsaved_text(repository: Repository) -> None:
    repository.environment("dev")
    path = repository.job("dev/train")
    async with editing(repository) as editor:
        editor.open("dev/jobs/train.yaml")
        assert await editor.rules("dev/jobs/train.yaml") == []
        text = JOB.replace("NAME", "train")
        editor.type("dev/jobs/train.yaml", text + "pool: h100\n")
        assert await editor.rules("dev/jobs/train.yaml") == [("TW020", 10)]
        (found,) = await editor.diagnostics("dev/jobs/train.yaml")
        message, effect, remedy = found.message.split("\n")
        assert message == 'the pool "h100" does not exist in dev'
        assert effect.startswith("It is not known which nodes the pods are for")
        assert remedy.startswith("help: Declare it in environment.yaml")
        assert found.range == types.Range(types.Position(9, 6), types.Position(9, 10))
        assert path.read_text() == text
        editor.type("dev/jobs/train.yaml", text)
        assert await editor.rules("dev/jobs/train.yaml") == []


@pytest.mark.asyncio
async def test_a_shared_file_is_answered_for_in_every_job_that_it_reaches(
    repository: Repository,
) -> None:
    repository.environment("dev")
    repository.write(
        "base/jobs/shared.yaml",
        "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: shared\n",
    )
    for name in ("one", "two"):
        repository.job(f"dev/{name}", "extends: base/shared\n")
    async with editing(repository) as editor:
        editor.open("base/jobs/shared.yaml")
        assert await editor.rules("base/jobs/shared.yaml") == []
        shared = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: shared\nqueue: gone\n"
        editor.type("base/jobs/shared.yaml", shared)
        assert await editor.rules("base/jobs/shared.yaml") == [("TW020", 4)]
        editor.open("dev/environment.yaml")
        editor.type(
            "dev/environment.yaml", repository.environment("dev").read_text() + "namespce: x\n"
        )
        assert ("TW010", 6) in await editor.rules("dev/environment.yaml")
        assert await editor.rules("base/jobs/shared.yaml") == []  # as `check`, which stops there
        editor.close("dev/environment.yaml")
        assert await editor.rules("base/jobs/shared.yaml") == [("TW020", 4)]


@pytest.mark.asyncio
async def test_a_finding_has_the_positions_in_other_layers(repository: Repository) -> None:
    repository.environment("dev", "defaults: {resources: {cpu: '4'}, labels: {team: vision}}\n")
    repository.job("dev/train", "labels: {team: vision}\n")
    async with editing(repository) as editor:
        editor.open("dev/jobs/train.yaml")
        (found,) = await editor.diagnostics("dev/jobs/train.yaml")
        assert found.code == "TW060"
        assert list(found.tags or ()) == [types.DiagnosticTag.Unnecessary]
        assert found.code_description
        assert found.code_description.href.endswith("/docs/rules/TW060.md")
        (related,) = found.related_information or ()
        assert related.location.uri == editor.uri("dev/environment.yaml")
        assert related.location.range.start.line == 5
        assert "labels.team" in related.message


@pytest.mark.asyncio
async def test_positions_are_in_the_units_of_the_editor(repository: Repository) -> None:
    repository.environment("dev")
    repository.job("dev/train", 'labels: {"🚂": a, pool: {}}\n')
    async with editing(repository) as editor:
        editor.open("dev/jobs/train.yaml")
        found = await editor.diagnostics("dev/jobs/train.yaml")
        text = 'labels: {"🚂": a, pool: '
        units = len(text.encode("utf-16-le")) // 2
        assert types.Position(9, units) in [one.range.start for one in found]


@pytest.mark.asyncio
async def test_files_that_change_on_disk_are_read_again(repository: Repository) -> None:
    repository.environment("dev")
    repository.job("dev/train")
    async with editing(repository) as editor:
        assert await editor.rules("dev/jobs/train.yaml") == []
        repository.job("dev/train", "pool: gone\n")
        editor.changed("dev/jobs/train.yaml")
        assert await editor.rules("dev/jobs/train.yaml") == [("TW020", 10)]
        (repository.root / "environments/dev/jobs/train.yaml").unlink()
        repository.job("dev/other", "queue: gone\n")
        editor.changed("dev/jobs/train.yaml")
        editor.changed("dev/jobs/other.yaml")
        assert await editor.rules("dev/jobs/train.yaml") == []
        assert await editor.rules("dev/jobs/other.yaml") == [("TW020", 10)]


@pytest.mark.asyncio
async def test_files_are_looked_at_for_an_editor_that_reports_none(repository: Repository) -> None:
    repository.environment("dev")
    repository.job("dev/train")
    async with editing(repository) as editor:
        editor.open("dev/jobs/train.yaml")
        assert await editor.rules("dev/jobs/train.yaml") == []
        repository.environment("dev", "namespce: x\n")
        while not editor.client.diagnostics.get(editor.uri("dev/environment.yaml")):
            await editor.client.wait_for_notification("textDocument/publishDiagnostics")


def ignoring(repository: Repository) -> None:
    """A job with a folder of whose files git ignores the only one."""
    repository.environment("dev")
    repository.job("dev/train", "files: {/etc/conf: {from: conf}}\n")
    (repository.root / "conf/deep").mkdir(parents=True)
    (repository.root / "conf/deep/a.json").write_text("{}")
    (repository.root / ".gitignore").write_text("*.json\n")


@pytest.mark.asyncio
async def test_what_git_ignores_is_asked_again(repository: Repository) -> None:
    git_repository.init(repository.root)
    ignoring(repository)
    async with editing(repository) as editor:
        editor.open("dev/jobs/train.yaml")
        assert await editor.rules("dev/jobs/train.yaml") == [("TW029", 10)]
        (repository.root / ".gitignore").write_text("")
        editor.changed("../.gitignore")
        assert await editor.rules("dev/jobs/train.yaml") == []
        (repository.root / "conf/.gitignore").write_text("deep\n.gitignore\n")
        editor.changed("../conf/.gitignore")
        assert await editor.rules("dev/jobs/train.yaml") == [("TW029", 10)]
        (repository.root / "conf/new.json").write_text("{}")
        editor.changed("../conf/new.json")
        assert await editor.rules("dev/jobs/train.yaml") == []


@pytest.mark.parametrize("path", ["clone/.git/info/exclude", "clone/.gitignore", "git/ignore"])
def test_what_git_ignores_by_elsewhere_is_noticed_with_the_next_edit(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    git_repository.init(tmp_path / "clone")
    repository = Repository(tmp_path / "clone/team")
    ignoring(repository)
    (repository.root / ".gitignore").write_text("")
    session = Session(repository.root)

    def rules() -> list[str]:
        while not session.is_checked:
            session.check_next()
        session.refresh("2026-06-01")
        return [finding.rule for finding in session.findings("environments/dev/jobs/train.yaml")]

    assert rules() == []
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text("*.json\n")
    session.changed({"environments/dev/jobs/train.yaml"})
    assert rules() == ["TW029"]


@pytest.mark.asyncio
async def test_what_git_ignores_is_looked_at_for_an_editor_that_reports_no_files(
    repository: Repository,
) -> None:
    git_repository.init(repository.root)
    ignoring(repository)
    async with editing(repository) as editor:
        uri = editor.uri("dev/jobs/train.yaml")
        assert len(await editor.rules("dev/jobs/train.yaml")) == 1
        (repository.root / ".gitignore").write_text("")
        while editor.client.diagnostics.get(uri):
            await editor.client.wait_for_notification("textDocument/publishDiagnostics")


@pytest.mark.asyncio
async def test_a_name_that_was_meant_is_found_once_it_is_there(repository: Repository) -> None:
    """Why a file is missing may follow from another one that no job has named."""
    repository.environment("dev")
    repository.job("dev/train", "extends: base/shared\n")
    async with editing(repository) as editor:
        (missing,) = await editor.diagnostics("dev/jobs/train.yaml")
        assert "did you mean" not in missing.message
        repository.job("base/shraed")
        editor.changed("base/jobs/shraed.yaml")
        (missing,) = await editor.diagnostics("dev/jobs/train.yaml")
        assert "did you mean shraed.yaml?" in missing.message


@pytest.mark.asyncio
async def test_a_file_outside_of_a_repository_has_no_findings(
    repository: Repository, tmp_path: Path
) -> None:
    repository.environment("dev")
    async with editing(repository) as editor:
        editor.open("../README.yaml", "pool: [")
        editor.open("/nowhere/at/all.yaml", "pool: [")
        await editor.checked()
        assert editor.client.diagnostics == {}


def test_an_editor_that_goes_away_ends_the_server(repository: Repository) -> None:
    command = [sys.executable, "-m", "trainwright", "-C", str(repository.root), "editor", "lsp"]
    done = subprocess.run(command, input=b"", capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"")
