"""The protocol: what an editor reports, the work that follows, and the findings it results in.

Everything runs in one thread, on one event loop. Background work goes job by job, so that a request
waits a few milliseconds at most, and no answer is based on half an edit.
https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.io_ import StdoutWriter, run_async
from pygls.lsp.server import LanguageServer

from trainwright import __version__
from trainwright.authoring.session import Session
from trainwright.datatypes.errors import SourceError
from trainwright.files.tree import find_root
from trainwright_editor.language_server import diagnostics
from trainwright_editor.language_server.answers import Answers
from trainwright_editor.language_server.connection import Connection, file_path
from trainwright_editor.language_server.watch import Watch

_SETTLE = 0.5  # seconds between two reports of what background checks found, at least
_SHARE = 10  # and this many times as long as the last report took
_YIELDS = 4  # turns of the event loop between two jobs: to read a message, to answer it, to write
_LOOK = 1.0  # seconds between two polls of the disk, for editors that don't report changed files
_LONGEST_HEADER = 1024 * 1024  # bytes in one line
_WATCHED = "**/*"  # a job may name any file
CHECKED = "trainwright/checked"  # a request that is answered when nothing is left to check


class Server:
    """One editor, and the repositories that it has open."""

    def __init__(self, today: Callable[[], str], root: Path | None = None):
        self._today = today
        self._root = root
        self._published: dict[str, tuple[types.Diagnostic, ...]] = {}
        self._awaited: dict[tuple[Path, str], None] = {}  # files whose text has not been answered
        self._working: asyncio.Task[None] | None = None
        self._edited = False
        self._looking: asyncio.Task[None] | None = None
        self._shown_problem = ""
        self.protocol = LanguageServer("trainwright", __version__)
        self._connection = Connection(self.protocol)
        for name, handler in self._notifications().items():
            self.protocol.feature(name)(partial(handler))  # pygls marks what it is given
        for name, answer, options in Answers(self._connection, today).requests():
            self.protocol.feature(name, options)(partial(answer))
        self.protocol.feature(CHECKED)(partial(self._checked))

    def run(self) -> None:
        """Serve one editor over standard input and output, until it disconnects."""
        logging.basicConfig(level=logging.WARNING, format="trainwright: %(message)s")
        logging.getLogger("pygls.protocol.json_rpc").addFilter(_is_unexpected)
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        """Read messages on the loop itself: pygls would hand each line of them to a thread."""
        reader = asyncio.StreamReader(limit=_LONGEST_HEADER)
        try:
            await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
            )
        except ValueError:  # a file, which is there already
            reader.feed_data(sys.stdin.buffer.read())
            reader.feed_eof()
        self.protocol.protocol.set_writer(StdoutWriter(sys.stdout.buffer))
        with suppress(asyncio.IncompleteReadError, BrokenPipeError):  # the editor is gone
            await run_async(
                stop_event=Event(),
                reader=reader,
                protocol=self.protocol.protocol,
                error_handler=self.protocol.report_server_error,
            )

    def _notifications(self) -> dict[str, Callable[..., None]]:
        return {
            types.INITIALIZED: self._initialized,
            types.TEXT_DOCUMENT_DID_OPEN: self._did_open,
            types.TEXT_DOCUMENT_DID_CHANGE: self._did_change,
            types.TEXT_DOCUMENT_DID_SAVE: self._did_save,
            types.TEXT_DOCUMENT_DID_CLOSE: self._did_close,
            types.WORKSPACE_DID_CHANGE_WATCHED_FILES: self._did_change_files,
        }

    # --- what the editor has open ----------------------------------------------------------------

    def _initialized(self, _: types.InitializedParams) -> None:
        folders = [self._root] if self._root else []
        for folder in self.protocol.workspace.folders.values():
            path = file_path(folder.uri)
            folders += [path] if path else []
        for folder_path in folders:
            with suppress(SourceError, OSError):
                self._connection.session(find_root(folder_path))
        if not self._watch():
            self._looking = asyncio.get_running_loop().create_task(self._look())
        self._work()

    def _watch(self) -> bool:
        """Have the editor report files that change; return False if it cannot."""
        capabilities = self.protocol.client_capabilities.workspace
        watched = capabilities and capabilities.did_change_watched_files
        if not (watched and watched.dynamic_registration):
            return False
        options = types.DidChangeWatchedFilesRegistrationOptions(
            watchers=[types.FileSystemWatcher(glob_pattern=_WATCHED)]
        )
        registration = types.Registration(
            id="files",
            method=types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
            register_options=options,
        )
        params = types.RegistrationParams(registrations=[registration])
        self.protocol.client_register_capability(params)
        return True

    async def _look(self) -> None:
        """Poll for files that change, as long as the editor is there."""
        watches: dict[Path, Watch] = {}
        pause = 0.0
        while True:
            await asyncio.sleep(pause)
            started = time.monotonic()
            for root, session in list(self._connection.sessions.items()):
                watch = watches.setdefault(root, Watch(root))
                others = session.check.inputs_elsewhere()
                session.changed(await asyncio.to_thread(watch.changed, others))
            if any(not each.is_checked for each in self._connection.sessions.values()):
                self._work()
            pause = max(_LOOK, 20 * (time.monotonic() - started))

    def _did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        self._put(params.text_document.uri)

    def _did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self._put(params.text_document.uri)

    def _put(self, uri: str) -> None:
        if located := self._connection.find(uri):
            session, path = located
            self._connection.opened[session.root, path] = uri
            self._awaited[session.root, path] = None
            session.put(path, self.protocol.workspace.get_text_document(uri).source)
            self._work()

    def _did_save(self, params: types.DidSaveTextDocumentParams) -> None:
        self._work()

    def _did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        if located := self._connection.find(params.text_document.uri):
            session, path = located
            self._connection.opened.pop((session.root, path), None)
            self._awaited.pop((session.root, path), None)
            session.close(path)
            self._work()

    def _did_change_files(self, params: types.DidChangeWatchedFilesParams) -> None:
        changed: dict[Path, set[str]] = {}
        for event in params.changes:
            if located := self._connection.concerned(event.uri):
                session, path = located
                changed.setdefault(session.root, set()).add(path)
        for root, paths in changed.items():
            self._connection.sessions[root].changed(paths)
        self._work()

    # --- work ------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Start the background checks of what is stale, unless they are running."""
        self._edited = True
        if self._working is None or self._working.done():
            self._working = asyncio.get_running_loop().create_task(self._check())

    async def _checked(self, _: object) -> None:
        while self._working is not None and not self._working.done():
            await asyncio.wait([self._working])

    async def _check(self) -> None:
        """Check job by job until all are checked, and publish findings at most every `_SETTLE`."""
        await asyncio.sleep(0)  # whatever the editor has sent by now counts as one edit
        due, has_checked = 0.0, False
        while True:
            if self._edited:
                self._edited = False
                for session in self._connection.sessions.values():
                    session.check_open()
                due = 0.0
            pending = [each for each in self._connection.sessions.values() if not each.is_checked]
            started = time.monotonic()
            if not pending or started > due:
                for session in self._connection.sessions.values():
                    self._publish(session)
                spent = time.monotonic() - started
                due = time.monotonic() + max(_SETTLE, _SHARE * spent)
            if not pending:
                if has_checked:
                    self._refresh()
                return
            has_checked = True
            pending[0].check_next()
            for _ in range(_YIELDS):
                await asyncio.sleep(0)

    def _refresh(self) -> None:
        """Have the editor request open files' lenses again: they depend on other files, too."""
        capabilities = self.protocol.client_capabilities.workspace
        lens = capabilities and capabilities.code_lens
        if lens and lens.refresh_support:
            self.protocol.workspace_code_lens_refresh(None)

    def _publish(self, session: Session) -> None:
        changed = session.refresh(self._today())
        answered = [
            path
            for root, path in self._awaited
            if root == session.root and session.is_answered(path)
        ]
        for path in {*changed, *answered}:
            self._publish_file(session, path, always=path in answered)
        for path in answered:
            del self._awaited[session.root, path]
        if session.problem and session.problem != self._shown_problem:
            self._shown_problem = session.problem
            message = types.LogMessageParams(types.MessageType.Warning, session.problem)
            self.protocol.window_log_message(message)

    def _publish_file(self, session: Session, path: str, *, always: bool) -> None:
        uri = self._connection.uri(session, path)
        # Several jobs may inherit a line, and the same finding with it.
        unique = {(it.rule, it.place, it.message): it for it in reversed(session.findings(path))}
        published = tuple(
            diagnostics.diagnostic(session, finding, self._connection.to(session))
            for finding in reversed(unique.values())
        )
        if always or published != self._published.get(uri, ()):
            self._published[uri] = published
            opened = self.protocol.workspace.text_documents.get(uri)
            self.protocol.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(
                    uri=uri, diagnostics=published, version=opened.version if opened else None
                )
            )


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Whether a log record is about anything but a refusal, which the editor shows itself."""
    return not (record.exc_info and isinstance(record.exc_info[1], JsonRpcInvalidParams))
