"""The protocol: messages of an editor to sessions and back.

Everything runs in one thread, on one loop: a piece of background work is one job, so that a request
waits a few milliseconds at most and no answer is about half an edit.
https://microsoft.github.io/language-server-protocol/specifications/lsp/3.17/specification/
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

from lsprotocol import types
from pygls import uris
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from trainwright import __version__
from trainwright.editor import (
    actions,
    completion,
    diagnostics,
    hover,
    lenses,
    navigation,
    outline,
    renaming,
)
from trainwright.editor.place import Place, Target
from trainwright.editor.session import Session
from trainwright.editor.text import Position, Span
from trainwright.editor.watch import Watch
from trainwright.errors import SourceError
from trainwright.reports.report import visible
from trainwright.specs.load import ENVIRONMENTS
from trainwright.specs.tree import find_root

_SETTLE = 0.5  # seconds between two reports of what the background has found
_MOST_JOBS = 500  # in one answer; an editor asks again as more is typed
_LOOK = 1.0  # seconds between two looks at the disk, for editors that do not report files
_WATCHED = "**/*"  # a job may name any file
CHECKED = "trainwright/checked"  # a request that is answered when nothing is left to check


class Server:
    """One editor, and the repositories that it has open."""

    def __init__(self, today: Callable[[], str], root: Path | None = None):
        self._today = today
        self._sessions: dict[Path, Session] = {}
        self._root = root
        self._opened: dict[tuple[Path, str], str] = {}  # URIs as the editor writes them
        self._published: dict[str, tuple[types.Diagnostic, ...]] = {}
        self._awaited: dict[tuple[Path, str], None] = {}  # files whose text nobody has answered yet
        self._working: asyncio.Task[None] | None = None
        self._edited = False
        self._looking: asyncio.Task[None] | None = None
        self._said = ""
        self.protocol = LanguageServer("trainwright", __version__)
        for name, handler in self._notifications().items():
            self.protocol.feature(name)(partial(handler))  # pygls marks what it is given
        for name, answer, options in self._requests():
            self.protocol.feature(name, options)(partial(answer))
        self.protocol.feature(CHECKED)(partial(self._checked))

    def run(self) -> None:
        """Serve one editor over standard input and output, until it goes away."""
        logging.basicConfig(level=logging.WARNING, format="trainwright: %(message)s")
        logging.getLogger("pygls.protocol.json_rpc").addFilter(_is_unexpected)
        self.protocol.start_io()

    def _notifications(self) -> dict[str, Callable[..., None]]:
        return {
            types.INITIALIZED: self._initialized,
            types.TEXT_DOCUMENT_DID_OPEN: self._did_open,
            types.TEXT_DOCUMENT_DID_CHANGE: self._did_change,
            types.TEXT_DOCUMENT_DID_SAVE: self._did_save,
            types.TEXT_DOCUMENT_DID_CLOSE: self._did_close,
            types.WORKSPACE_DID_CHANGE_WATCHED_FILES: self._did_change_files,
        }

    def _requests(self) -> tuple[tuple[str, Callable[..., object], object], ...]:
        completion = types.CompletionOptions(trigger_characters=[" ", "/", "{", "["])
        return (
            (types.TEXT_DOCUMENT_HOVER, self._hover, None),
            (types.TEXT_DOCUMENT_DEFINITION, self._definition, None),
            (types.TEXT_DOCUMENT_REFERENCES, self._references, None),
            (types.TEXT_DOCUMENT_COMPLETION, self._completion, completion),
            (types.TEXT_DOCUMENT_CODE_ACTION, self._actions, None),
            (types.TEXT_DOCUMENT_CODE_LENS, self._lenses, None),
            (types.TEXT_DOCUMENT_PREPARE_RENAME, self._prepare_rename, None),
            (types.TEXT_DOCUMENT_RENAME, self._rename, types.RenameOptions(prepare_provider=True)),
            (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, self._symbols, None),
            (types.WORKSPACE_SYMBOL, self._jobs, None),
            (types.TEXT_DOCUMENT_FOLDING_RANGE, self._folds, None),
            (types.TEXT_DOCUMENT_INLAY_HINT, self._hints, None),
        )

    # --- what the editor has open ----------------------------------------------------------------

    def _initialized(self, _: types.InitializedParams) -> None:
        folders = [self._root] if self._root else []
        for folder in self.protocol.workspace.folders.values():
            path = _path(folder.uri)
            folders += [path] if path else []
        for folder_path in folders:
            with suppress(SourceError, OSError):
                self._session(find_root(folder_path))
        if not self._watch():
            self._looking = asyncio.get_running_loop().create_task(self._look())
        self._work()

    def _watch(self) -> bool:
        """Ask the editor to report files that change; False for one that cannot."""
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
        """Look for files that change, as long as the editor is there."""
        watches: dict[Path, Watch] = {}
        pause = 0.0
        while True:
            await asyncio.sleep(pause)
            started = time.monotonic()
            for root, session in list(self._sessions.items()):
                if root not in watches:
                    watches[root] = Watch(root)
                    continue
                others = session.check.inputs_elsewhere()
                session.changed(await asyncio.to_thread(watches[root].changed, others))
            if any(not each.is_checked for each in self._sessions.values()):
                self._work()
            pause = max(_LOOK, 20 * (time.monotonic() - started))

    def _session(self, root: Path) -> Session:
        if root not in self._sessions:
            self._sessions[root] = Session(root)
        return self._sessions[root]

    def find(self, uri: str) -> tuple[Session, str] | None:
        """The session of a file and its path there; None for a file that is not of a repository."""
        path = _path(uri)
        if path is None:
            return None
        for root, session in self._sessions.items():
            if path.is_relative_to(root):
                inside = path.relative_to(root).as_posix()
                if inside.startswith(f"{ENVIRONMENTS}/") or session.check.reached(inside):
                    return session, inside
        with suppress(SourceError, OSError):
            root = find_root(path.parent)
            if path.is_relative_to(root / ENVIRONMENTS):
                return self._session(root), path.relative_to(root).as_posix()
        return None

    def _did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        self._put(params.text_document.uri)

    def _did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self._put(params.text_document.uri)

    def _put(self, uri: str) -> None:
        if found := self.find(uri):
            session, path = found
            self._opened[session.root, path] = uri
            self._awaited[session.root, path] = None
            session.put(path, self.protocol.workspace.get_text_document(uri).source)
            self._work()

    def _did_save(self, params: types.DidSaveTextDocumentParams) -> None:
        self._work()

    def _did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        if found := self.find(params.text_document.uri):
            session, path = found
            self._opened.pop((session.root, path), None)
            self._awaited.pop((session.root, path), None)
            session.close(path)
            self._work()

    def _did_change_files(self, params: types.DidChangeWatchedFilesParams) -> None:
        changed: dict[Path, set[str]] = {}
        for event in params.changes:
            if found := self.find(event.uri):
                session, path = found
                changed.setdefault(session.root, set()).add(path)
        for root, paths in changed.items():
            self._sessions[root].changed(paths)
        self._work()

    # --- work ------------------------------------------------------------------------------------

    def _work(self) -> None:
        """See to it that what is stale is checked."""
        self._edited = True
        if self._working is None or self._working.done():
            self._working = asyncio.get_running_loop().create_task(self._check())

    async def _checked(self, _: object) -> None:
        while self._working is not None and not self._working.done():
            await asyncio.wait([self._working])

    async def _check(self) -> None:
        await asyncio.sleep(0)  # whatever the editor has sent by now is one edit
        settled = 0.0
        while True:
            if self._edited:
                self._edited = False
                for session in self._sessions.values():
                    session.check_open()
                    self._publish(session)
                settled = time.monotonic()
            pending = [each for each in self._sessions.values() if not each.is_checked]
            for session in pending[:1]:
                session.check_next()
            if not pending or time.monotonic() - settled > _SETTLE:
                for session in self._sessions.values():
                    self._publish(session)
                settled = time.monotonic()
            if not pending:
                return
            await asyncio.sleep(0)

    def _publish(self, session: Session) -> None:
        changed = session.settle(self._today())
        answered = [
            path
            for root, path in self._awaited
            if root == session.root and session.is_answered(path)
        ]
        for path in {*changed, *answered}:
            self._publish_file(session, path, always=path in answered)
        for path in answered:
            del self._awaited[session.root, path]
        if session.problem and session.problem != self._said:
            self._said = session.problem
            message = types.LogMessageParams(types.MessageType.Warning, session.problem)
            self.protocol.window_log_message(message)

    def _publish_file(self, session: Session, path: str, *, always: bool) -> None:
        uri = self.uri(session, path)
        found = tuple(
            diagnostics.diagnostic(session, finding, self._to(session))
            for finding in session.findings(path)
        )
        if always or found != self._published.get(uri, ()):
            self._published[uri] = found
            opened = self.protocol.workspace.text_documents.get(uri)
            self.protocol.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(
                    uri=uri, diagnostics=found, version=opened.version if opened else None
                )
            )

    # --- answers ---------------------------------------------------------------------------------

    def _place(self, document: types.TextDocumentIdentifier, at: types.Position) -> Place | None:
        """Where something is asked about; None outside of all repositories."""
        found = self.find(document.uri)
        if found is None:
            return None
        session, path = found
        return Place(session, path, self.position(session, path, at))

    def _hover(self, params: types.HoverParams) -> types.Hover | None:
        place = self._place(params.text_document, params.position)
        found = hover.hover(place, self._link(place.session)) if place else None
        if place is None or found is None:
            return None
        contents = types.MarkupContent(types.MarkupKind.Markdown, found.markdown)
        return types.Hover(contents, self._to(place.session)(place.path, found.span).range)

    def _definition(self, params: types.DefinitionParams) -> list[types.Location]:
        place = self._place(params.text_document, params.position)
        return self._locations(place, navigation.definition(place)) if place else []

    def _references(self, params: types.ReferenceParams) -> list[types.Location]:
        place = self._place(params.text_document, params.position)
        return self._locations(place, navigation.references(place)) if place else []

    def _locations(self, place: Place, targets: Iterable[Target]) -> list[types.Location]:
        to = self._to(place.session)
        return [to(found.path, found.span) for found in targets]

    def _completion(self, params: types.CompletionParams) -> types.CompletionList | None:
        place = self._place(params.text_document, params.position)
        if place is None:
            return None
        found = completion.complete(place)
        span = self._to(place.session)(place.path, found.span).range
        items = [_item(one, span, index) for index, one in enumerate(found.suggestions)]
        return types.CompletionList(is_incomplete=not found.whole, items=items)

    # --- edits that the editor makes -------------------------------------------------------------

    def _actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        place = self._place(params.text_document, params.range.start)
        if place is None:
            return []
        end = self.position(place.session, place.path, params.range.end)
        span = Span(place.at, end)
        found = actions.actions(place.session, place.path, span, self._today())
        return [self._action(place.session, one) for one in found]

    def _action(self, session: Session, action: actions.Action) -> types.CodeAction:
        changes = {}
        for path, raw in action.files.items():
            old = session.workspace.reader.raw(path)
            text = old.decode("utf-8", "replace") if isinstance(old, bytes) else ""
            span, new = actions.difference(text, raw.decode("utf-8", "replace"))
            edit = types.TextEdit(self._to(session)(path, span).range, new)
            changes[self.uri(session, path)] = [edit]
        solved = action.finding
        return types.CodeAction(
            title=visible(action.title),
            kind=types.CodeActionKind.QuickFix if solved else types.CodeActionKind.Refactor,
            diagnostics=[diagnostics.diagnostic(session, solved, self._to(session))]
            if solved
            else None,
            is_preferred=action.preferred or None,
            edit=types.WorkspaceEdit(changes=changes),
        )

    def _prepare_rename(self, params: types.PrepareRenameParams) -> types.Range | None:
        place = self._place(params.text_document, params.position)
        span = renaming.span_of(place) if place else None
        return self._to(place.session)(place.path, span).range if place and span else None

    def _rename(self, params: types.RenameParams) -> types.WorkspaceEdit | None:
        place = self._place(params.text_document, params.position)
        if place is None:
            return None
        try:
            found = renaming.rename(place, params.new_name)
            if found.moved and not self._moves:
                raise renaming.CannotRename("this editor does not rename files")
        except renaming.CannotRename as refused:
            raise JsonRpcInvalidParams(str(refused)) from None
        return self._renamed(place.session, found)

    @property
    def _moves(self) -> bool:
        """Whether the editor can rename a file."""
        workspace = self.protocol.client_capabilities.workspace
        edit = workspace.workspace_edit if workspace else None
        known = edit.resource_operations if edit else None
        return types.ResourceOperationKind.Rename in (known or ())

    def _renamed(self, session: Session, found: renaming.Renaming) -> types.WorkspaceEdit:
        to = self._to(session)
        changes: dict[str, list[types.TextEdit]] = {}
        for path, edits in found.edits.items():
            changes[self.uri(session, path)] = [
                types.TextEdit(to(path, span).range, text) for span, text in edits
            ]
        if found.moved is None:
            return types.WorkspaceEdit(changes=changes)
        operations: list[types.TextDocumentEdit | types.RenameFile] = [
            types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri), edits)
            for uri, edits in changes.items()
        ]
        old, new = (self.uri(session, path) for path in found.moved)
        return types.WorkspaceEdit(document_changes=[*operations, types.RenameFile(old, new)])

    # --- the shape of files ----------------------------------------------------------------------

    def _lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        place = self._place(params.text_document, types.Position(0, 0))
        found = lenses.lenses(place.session, place.path) if place else ()
        return [
            types.CodeLens(
                types.Range(types.Position(one.line, 0), types.Position(one.line, 0)),
                command=types.Command(title=visible(one.title), command=""),
            )
            for one in found
        ]

    def _symbols(self, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        place = self._place(params.text_document, types.Position(0, 0))
        if place is None:
            return []
        return [self._symbol(place, one) for one in outline.symbols(place.text)]

    def _symbol(self, place: Place, one: outline.Symbol) -> types.DocumentSymbol:
        to = self._to(place.session)
        kinds = {"mapping": types.SymbolKind.Object, "sequence": types.SymbolKind.Array}
        return types.DocumentSymbol(
            name=visible(one.name),
            detail=visible(one.detail) or None,
            kind=kinds.get(one.shape, types.SymbolKind.Field),
            range=to(place.path, one.span).range,
            selection_range=to(place.path, one.key).range,
            children=[self._symbol(place, child) for child in one.children],
        )

    def _jobs(self, params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
        wanted = params.query.lower()
        found = (
            (session, file)
            for session in self._sessions.values()
            for file in session.jobs()
            if wanted in str(file)
        )
        return [
            types.WorkspaceSymbol(
                name=str(file),
                kind=types.SymbolKind.File,
                location=types.LocationUriOnly(self.uri(session, file.path)),
            )
            for session, file in islice(found, _MOST_JOBS)
        ]

    def _folds(self, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        place = self._place(params.text_document, types.Position(0, 0))
        return [
            types.FoldingRange(start, end, kind=types.FoldingRangeKind.Comment if comment else None)
            for start, end, comment in (outline.folds(place.text) if place else ())
        ]

    def _hints(self, params: types.InlayHintParams) -> list[types.InlayHint]:
        place = self._place(params.text_document, params.range.start)
        if place is None:
            return []
        span = Span(place.at, self.position(place.session, place.path, params.range.end))
        to = self._to(place.session)
        return [
            types.InlayHint(
                to(place.path, Span(one.at, one.at)).range.start,
                visible(one.label),
                tooltip=types.MarkupContent(types.MarkupKind.Markdown, one.tooltip),
                padding_left=True,
            )
            for one in outline.hints(place.session, place.path, span)
        ]

    # --- positions -------------------------------------------------------------------------------

    def uri(self, session: Session, path: str) -> str:
        """A file as the editor knows it."""
        opened = self._opened.get((session.root, path))
        return opened or _uri(session.root / path)

    def _to(self, session: Session) -> diagnostics.To:
        """Positions in characters as those of the editor, which mostly counts UTF-16 units."""
        codec = self.protocol.workspace.position_codec

        def to(path: str, span: Span) -> types.Location:
            lines = session.lines(path)
            ends = (types.Position(p.line, p.column) for p in (span.start, span.end))
            found = codec.range_to_client_units(lines, types.Range(*ends))
            return types.Location(self.uri(session, path), found)

        return to

    def _link(self, session: Session) -> hover.Link:
        return lambda path, line: f"{self.uri(session, path)}#L{line}"

    def position(self, session: Session, path: str, at: types.Position) -> Position:
        """A position of the editor in characters."""
        codec = self.protocol.workspace.position_codec
        found = codec.position_from_client_units(session.lines(path), at)
        return Position(found.line, found.character)


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Whether a record is not of a refusal, which the editor shows to whoever asked."""
    return not (record.exc_info and isinstance(record.exc_info[1], JsonRpcInvalidParams))


def _item(one: completion.Suggestion, span: types.Range, index: int) -> types.CompletionItem:
    kinds = {
        "key": types.CompletionItemKind.Field,
        "value": types.CompletionItemKind.EnumMember,
        "name": types.CompletionItemKind.Reference,
    }
    return types.CompletionItem(
        label=one.label,
        kind=kinds[one.what],
        detail=one.detail or None,
        documentation=types.MarkupContent(types.MarkupKind.Markdown, one.documentation),
        sort_text=f"{index:04}",
        filter_text=one.label,
        text_edit=types.TextEdit(span, one.text),
    )


def _path(uri: str) -> Path | None:
    """The absolute path that a URI means; None for what is not a file of this machine."""
    try:
        found = uris.to_fs_path(uri) if uri.startswith("file:") else None
    except ValueError:
        return None
    return Path(os.path.normpath(found)) if found else None


def _uri(path: Path) -> str:
    return uris.from_fs_path(str(path)) or path.as_uri()
