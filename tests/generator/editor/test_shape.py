"""Lenses, symbols, folding, and what a job inherits, in an editor."""

from __future__ import annotations

import pytest

pytest.importorskip("pytest_lsp", reason="pytest-lsp is not installed")

from lsprotocol import types

from editing import Editor, editing
from repository import Repository

pytestmark = pytest.mark.asyncio

PATH = "dev/jobs/train.yaml"
ENVIRONMENT = """\
pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, pricePerGpuHour: 2}}
defaults: {retries: 1, labels: {team: vision}}
"""
OWN = """\
pool: h100
resources:
  gpu: 4
# One comment
# of two lines.
labels:
  a: b
"""


@pytest.fixture
def written(repository: Repository) -> Repository:
    repository.environment("dev", ENVIRONMENT)
    text = (
        repository.job("dev/train").read_text().replace('resources: {cpu: "1", memory: 1Gi}\n', "")
    )
    repository.write(PATH, text + OWN)
    return repository


async def lenses(editor: Editor, path: str = PATH) -> list[str]:
    found = await editor.client.text_document_code_lens_async(
        types.CodeLensParams(editor.document(path))
    )
    return [f"{one.range.start.line + 1}: {one.command.title}" for one in found]


async def test_a_lens_says_what_becomes_of_a_job(written: Repository) -> None:
    async with editing(written) as editor:
        editor.open(PATH)
        await editor.checked()
        begins, asked = (await lenses(editor))[1:]
        assert begins.startswith("4: plan: begins train-")
        assert asked == "4: 8 GPUs, at most 16 GPU-hours, cost 32"
        written.run("render", "dev/train")
        editor.changed("dev/rendered/train/run.lock")
        await editor.checked()
        object_, unchanged, _ = await lenses(editor)
        assert object_.endswith(": active")
        assert unchanged == "4: plan: unchanged"
        editor.type(PATH, (written.root / "environments" / PATH).read_text() + "flags: {lr: 1}\n")
        assert " instead of train-" in (await lenses(editor))[1]
        assert "7: inherited by 2 jobs: a change starts 2 runs" in await lenses(
            editor, "dev/environment.yaml"
        )
        assert "6: named on 1 line: a change starts 1 run" in await lenses(
            editor, "dev/environment.yaml"
        )


async def test_symbols_and_folding_follow_the_keys(written: Repository) -> None:
    async with editing(written) as editor:
        params = types.DocumentSymbolParams(editor.document(PATH))
        found = await editor.client.text_document_document_symbol_async(params)
        names = {one.name: one for one in found}
        assert list(names)[-3:] == ["pool", "resources", "labels"]
        assert names["pool"].detail == "h100"
        assert [child.name for child in names["labels"].children] == ["a"]
        folds = await editor.client.text_document_folding_range_async(
            types.FoldingRangeParams(editor.document(PATH))
        )
        assert {(f.start_line, f.end_line, f.kind) for f in folds} == {
            (9, 10, None), (11, 12, types.FoldingRangeKind.Comment), (13, 14, None),
        }  # fmt: skip
        jobs = await editor.client.workspace_symbol_async(types.WorkspaceSymbolParams("tra"))
        assert [one.name for one in jobs] == ["dev/train"]


async def test_hints_show_what_is_inherited_beside_what_is_written(written: Repository) -> None:
    async with editing(written) as editor:
        whole = types.Range(types.Position(0, 0), types.Position(99, 0))
        params = types.InlayHintParams(editor.document(PATH), whole)
        found = await editor.client.text_document_inlay_hint_async(params)
        hints = {one.position.line + 1: one.label for one in found}
        assert hints[4] == "inherits retries: 1"
        assert hints[14] == 'inherits team: "vision"'
