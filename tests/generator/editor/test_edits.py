"""What an editor offers to change: remedies, waivers, verbs and other names."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pytest_lsp", reason="pytest-lsp is not installed")

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.workspace import TextDocument

from editing import Editor, editing
from repository import JOB, Repository

pytestmark = pytest.mark.asyncio

ENVIRONMENT = """\
pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8}, cpu: {}}
defaults: {labels: {team: vision}}
"""
TEXT = JOB.replace("NAME", "train")
PATH = "dev/jobs/train.yaml"


@pytest.fixture
def written(repository: Repository) -> Repository:
    repository.environment("dev", ENVIRONMENT)
    repository.job("dev/train")
    return repository


def applied(text: str, edits: Any) -> str:
    """A text with the edits of an answer, which are in UTF-16 units."""
    document = TextDocument("file:///x", source=text, version=0)
    for edit in sorted(
        edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True
    ):
        document.apply_change(
            types.TextDocumentContentChangePartial(range=edit.range, text=edit.new_text)
        )
    return str(document.source)


async def offered(editor: Editor, line: int, path: str = PATH) -> dict[str, types.CodeAction]:
    """What is offered on a line, from 1, by title."""
    await editor.checked()
    at = types.Position(line - 1, 0)
    params = types.CodeActionParams(
        editor.document(path), types.Range(at, at), types.CodeActionContext(diagnostics=[])
    )
    found = await editor.client.text_document_code_action_async(params)
    return {one.title: one for one in found or ()}


async def result(editor: Editor, text: str, line: int, title: str) -> str:
    """The text of the job's file once an action was taken."""
    editor.type(PATH, text)
    found = await offered(editor, line)
    assert title in found, found.keys()
    edit = found[title].edit
    assert edit is not None
    assert edit.changes is not None
    (uri,) = edit.changes
    assert uri == editor.uri(PATH)
    return applied(text, edit.changes[uri]).removeprefix(TEXT)


REMEDIES = (
    ("labels: {team: vision}\n", "Remove labels.team", ""),
    (
        "# 🚂\nlabels: {team: vision, a: b} # 🚂\n",
        "Remove labels.team",
        "# 🚂\nlabels: {a: b} # 🚂\n",
    ),
    ("poool: h100\n", "Replace poool by pool", "pool: h100\n"),
    ("pool: h10\n", "Replace h10 by h100", "pool: h100\n"),
    ("state: activ\n", "Replace activ by active", "state: active\n"),
    ("pool:h100\n", "Write pool: h100", "pool: h100\n"),
    ("backoffLimit: 3\n", "Write retries: 3", "retries: 3\n"),
    ("shm: 8\n", 'Write shm: "8Gi"', 'shm: "8Gi"\n'),
    ("env: [{name: A, value: b}]\n", "Write env: {A: b}", "env: {A: b}\n"),
    ("namespace: a\n", "Remove namespace", ""),
    (
        "envFrom:\n  - configMapRef: {name: a}\n",
        "Write configMap: a",
        "envFrom:\n  - configMap: a\n",
    ),
    ("waivers: {TW704: {reason: none, until: 2000-01-01}}\n", "Remove waivers.TW704", ""),
)


async def test_a_mechanical_remedy_is_one_edit(written: Repository) -> None:
    async with editing(written) as editor:
        editor.open(PATH)
        for typed, title, wanted in REMEDIES:
            line = 11 if typed.startswith(("#", "envFrom")) else 10
            assert await result(editor, TEXT + typed, line, title) == wanted, typed
        misnamed = TEXT.replace("name: train", "name: trian")
        editor.type(PATH, misnamed)
        (edit,) = (await offered(editor, 4))["Set name: train"].edit.changes[editor.uri(PATH)]
        assert applied(misnamed, [edit]) == TEXT


async def test_a_name_that_is_there_already_is_not_offered(written: Repository) -> None:
    async with editing(written) as editor:
        editor.open(PATH)
        assert "Replace poool by pool" in await _offered_for(editor, "poool: h100\n")
        for typed in ("poool: h100\npool: h100\n", "nodse: 2\n"):  # there are nodes in it
            titles = await _offered_for(editor, typed)
            assert not [title for title in titles if title.startswith("Replace")], titles


async def _offered_for(editor: Editor, typed: str) -> list[str]:
    editor.type(PATH, TEXT + typed)
    return list(await offered(editor, 10))


async def test_a_waiver_is_for_the_job_and_ends(
    written: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2026-06-01")
    async with editing(written) as editor:
        editor.open(PATH)
        title = "Waive TW060 for dev/train until 2026-08-30"
        text = TEXT + "labels: {team: vision}\n"
        waived = await result(editor, text, 10, title)
        assert "waivers: {TW060: {reason: " in waived
        editor.type(PATH, TEXT + waived)
        assert await editor.rules(PATH) == []


async def test_verbs_are_offered_where_a_job_has_its_name(written: Repository) -> None:
    written.run("render", "dev")
    async with editing(written) as editor:
        editor.open(PATH)
        titles = [title.partition(":")[0] for title in await offered(editor, 4)]
        # No engine deletes what runs, so cancelling it would leave it running.
        assert titles == ["Rerun dev/train", "Suspend dev/train"]
        (rerun, *_) = await offered(editor, 4)
        assert await result(editor, TEXT, 4, rerun) == "run: 2\n"
        assert (written.root / "environments" / PATH).read_text() == TEXT
        # With an edit that is not rendered, one that keeps the run would begin another.
        editor.type(PATH, f"{TEXT}flags: {{lr: 0.5}}\n")
        titles = [title.partition(":")[0] for title in await offered(editor, 4)]
        assert titles == ["Rerun dev/train"]


async def renamed(editor: Editor, path: str, found: str, name: str) -> dict[str, str]:
    """The texts of files once a name was changed, and the files that are called otherwise."""
    text = (editor.root / "environments" / path).read_text()
    before = text[: text.index(found)]
    at = types.Position(before.count("\n"), len(before) - before.rfind("\n") - 1)
    params = types.RenameParams(editor.document(path), at, name)
    edit = await editor.client.text_document_rename_async(params)
    changes = dict(edit.changes or {})
    moved = {}
    for one in edit.document_changes or ():
        if isinstance(one, types.RenameFile):
            moved[one.old_uri.rpartition("environments/")[2]] = one.new_uri.rpartition(
                "environments/"
            )[2]
        else:
            changes[one.text_document.uri] = one.edits
    texts = {uri.rpartition("environments/")[2]: edits for uri, edits in changes.items()}
    root = editor.root / "environments"
    return {p: applied((root / p).read_text(), edits) for p, edits in texts.items()} | moved


async def test_a_name_changes_wherever_it_is_written(written: Repository) -> None:
    written.job(
        "dev/train",
        "pool: h100\nvolumes:\n  data: {claim: x, mountPath: /x}\ncheckpoint: {volume: data, path: p}\n",
    )
    written.job("dev/other", "extends: dev/train\npool: h100\n")
    async with editing(written) as editor:
        await editor.checked()
        found = await renamed(editor, "dev/environment.yaml", "h100", "h200")
        assert set(found) == {"dev/environment.yaml", PATH, "dev/jobs/other.yaml"}
        assert "pools: {h200: {resource" in found["dev/environment.yaml"]
        assert all("pool: h200\n" in found[path] for path in (PATH, "dev/jobs/other.yaml"))
        found = await renamed(editor, PATH, "data: {claim", "disk")
        assert "  disk: {claim" in found[PATH]
        assert "checkpoint: {volume: disk, path" in found[PATH]
        found = await renamed(editor, PATH, "train\nimage", "bert")
        assert found[PATH] == "dev/jobs/bert.yaml"
        assert "extends: dev/bert\n" in found["dev/jobs/other.yaml"]


async def test_a_volume_of_a_base_is_renamed_in_all_jobs_that_extend_it(
    written: Repository,
) -> None:
    written.job("base/shared", "volumes:\n  data: {claim: x, mountPath: /x}\n")
    for name in ("dev/train", "dev/other"):
        written.job(name, "extends: base/shared\ncheckpoint: {volume: data, path: p}\n")
    written.job("dev/apart", "volumes:\n  data: {claim: y, mountPath: /y}\n")
    async with editing(written) as editor:
        await editor.checked()
        found = await renamed(editor, PATH, "data, path", "disk")
        assert set(found) == {"base/jobs/shared.yaml", PATH, "dev/jobs/other.yaml"}
        assert "  disk: {claim: x" in found["base/jobs/shared.yaml"]
        assert "volume: disk, path" in found["dev/jobs/other.yaml"]


async def test_what_cannot_be_renamed_says_why(written: Repository) -> None:
    async with editing(written) as editor:
        for path, found, name, why in (
            ("dev/environment.yaml", "h100", "cpu", "dev has cpu already"),
            ("dev/environment.yaml", "h100", "H 1", "is not a valid name"),
            (PATH, "nodes: 2", "x", "pools, queues, volumes and jobs can be renamed"),
            (PATH, "train\nimage", "mnist", "environments/dev/jobs/mnist.yaml is there already"),
        ):
            with pytest.raises(JsonRpcException, match=why):
                await renamed(editor, path, found, name)
