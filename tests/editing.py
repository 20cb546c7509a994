"""An editor over a small repository: a client of the protocol, and the server as a process."""

from __future__ import annotations

import atexit
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import preloaded_command
from repository import Repository

pytest_lsp = pytest.importorskip("pytest_lsp", reason="pytest-lsp is not installed")

from lsprotocol import types  # noqa: E402

CLIENT = "visual-studio-code"
_WAIT = 60  # seconds for one answer, on a busy machine


class Editor:
    """What a person does in an editor, over the protocol."""

    def __init__(self, client: Any, root: Path):
        self.client = client
        self.root = root
        self._version = 0

    def uri(self, path: str) -> str:
        return (self.root / "environments" / path).as_uri()

    def document(self, path: str) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(uri=self.uri(path))

    def open(self, path: str, text: str | None = None) -> None:
        text = (self.root / "environments" / path).read_text() if text is None else text
        item = types.TextDocumentItem(uri=self.uri(path), language_id="yaml", version=0, text=text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))

    def type(self, path: str, text: str) -> None:
        """Replace all of a text, without saving it."""
        self._version += 1
        change = types.TextDocumentContentChangeWholeDocument(text=text)
        document = types.VersionedTextDocumentIdentifier(uri=self.uri(path), version=self._version)
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(text_document=document, content_changes=[change])
        )

    def replace(self, path: str, line: int, start: int, end: int, text: str) -> None:
        """Type over a part of a line."""
        self._version += 1
        change = types.TextDocumentContentChangePartial(
            range=types.Range(types.Position(line, start), types.Position(line, end)), text=text
        )
        document = types.VersionedTextDocumentIdentifier(uri=self.uri(path), version=self._version)
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(text_document=document, content_changes=[change])
        )

    def close(self, path: str) -> None:
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(self.document(path)))

    def changed(self, path: str) -> None:
        """Report a file that something else has changed."""
        event = types.FileEvent(uri=self.uri(path), type=types.FileChangeType.Changed)
        self.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))

    async def checked(self) -> None:
        """Wait until nothing is left to check."""
        await self.client.protocol.send_request_async("trainwright/checked", {})

    async def diagnostics(self, path: str) -> list[types.Diagnostic]:
        await self.checked()
        return list(self.client.diagnostics.get(self.uri(path), ()))

    async def rules(self, path: str) -> list[tuple[str, int]]:
        """Rule and line, from 1, of each diagnostic."""
        found = await self.diagnostics(path)
        return [(str(one.code), one.range.start.line + 1) for one in found]


@cache
def _trainwright() -> Path:
    """One that has imported the language server, which takes longer than most sessions."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(preloaded_command.serving("trainwright_editor.language_server"))


@asynccontextmanager
async def editing(
    repository: Repository, *arguments: str, client: str = CLIENT
) -> AsyncIterator[Editor]:
    """An editor that has a repository open."""
    spoken = pytest_lsp.make_test_lsp_client()
    await spoken.start_io(str(_trainwright()), *arguments, "editor", "lsp")
    folder = types.WorkspaceFolder(uri=repository.root.as_uri(), name="repository")
    capabilities = pytest_lsp.client_capabilities(client)
    if capabilities.workspace and capabilities.workspace.did_change_watched_files:
        capabilities.workspace.did_change_watched_files.dynamic_registration = False
    params = types.InitializeParams(
        capabilities=capabilities, root_uri=folder.uri, workspace_folders=[folder]
    )
    await spoken.initialize_session(params)
    try:
        yield Editor(spoken, repository.root)
        assert [m.message for m in spoken.messages] == []
    finally:
        await spoken.shutdown_session()
        await spoken.stop()
