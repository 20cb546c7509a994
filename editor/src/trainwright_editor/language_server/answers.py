"""The answers to requests, in the types of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from trainwright.authoring.place import Place, Target
from trainwright.authoring.remedies import Action
from trainwright.authoring.text import Span
from trainwright.findings.visibility import visible
from trainwright_editor.language_server import (
    actions,
    completion,
    diagnostics,
    hover,
    lenses,
    navigation,
    outline,
    renaming,
)

if TYPE_CHECKING:
    from trainwright.authoring.session import Session
    from trainwright_editor.language_server.connection import Connection

_MOST_JOBS = 500  # in one answer; an editor sends another request as more is typed
_START = types.Position(0, 0)


class Answers:
    """The answers to an editor's requests about its open files."""

    def __init__(self, connection: Connection, today: Callable[[], str]):
        self._connection = connection
        self._today = today

    def requests(self) -> tuple[tuple[str, Callable[..., object], object], ...]:
        """Return each request's LSP method, handler, and registration options, if any."""
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

    def _hover(self, params: types.HoverParams) -> types.Hover | None:
        place = self._connection.place(params.text_document, params.position)
        shown = hover.hover(place, self._connection.link(place.session)) if place else None
        if place is None or shown is None:
            return None
        contents = types.MarkupContent(types.MarkupKind.Markdown, shown.markdown)
        return types.Hover(
            contents, self._connection.to(place.session)(place.path, shown.span).range
        )

    def _definition(self, params: types.DefinitionParams) -> list[types.Location]:
        place = self._connection.place(params.text_document, params.position)
        return self._locations(place, navigation.definition(place)) if place else []

    def _references(self, params: types.ReferenceParams) -> list[types.Location]:
        place = self._connection.place(params.text_document, params.position)
        declared = params.context.include_declaration
        targets = navigation.references(place, declared=declared) if place else ()
        return self._locations(place, targets) if place else []

    def _locations(self, place: Place, targets: Iterable[Target]) -> list[types.Location]:
        to = self._connection.to(place.session)
        return [to(target.path, target.span) for target in targets]

    def _completion(self, params: types.CompletionParams) -> types.CompletionList | None:
        place = self._connection.place(params.text_document, params.position)
        if place is None:
            return None
        completed = completion.complete(place)
        span = self._connection.to(place.session)(place.path, completed.span).range
        items = [
            _item(suggestion, span, index) for index, suggestion in enumerate(completed.suggestions)
        ]
        return types.CompletionList(is_incomplete=not completed.whole, items=items)

    # --- edits that the editor makes -------------------------------------------------------------

    def _actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        place = self._connection.place(params.text_document, params.range.start)
        if place is None:
            return []
        end = self._connection.position(place.session, place.path, params.range.end)
        span = Span(place.at, end)
        offered = actions.actions(place.session, place.path, span, self._today())
        return [self._action(place.session, action) for action in offered]

    def _action(self, session: Session, action: Action) -> types.CodeAction:
        changes = {}
        for path, raw in action.files.items():
            old = session.workspace.reader.raw(path)
            text = old.decode("utf-8", "replace") if isinstance(old, bytes) else ""
            span, new = actions.difference(text, raw.decode("utf-8", "replace"))
            edit = types.TextEdit(self._connection.to(session)(path, span).range, new)
            changes[self._connection.uri(session, path)] = [edit]
        solved = action.finding
        return types.CodeAction(
            title=visible(action.title),
            kind=types.CodeActionKind.QuickFix if solved else types.CodeActionKind.Refactor,
            diagnostics=[diagnostics.diagnostic(session, solved, self._connection.to(session))]
            if solved
            else None,
            is_preferred=action.preferred or None,
            edit=types.WorkspaceEdit(changes=changes),
        )

    def _prepare_rename(self, params: types.PrepareRenameParams) -> types.Range | None:
        place = self._connection.place(params.text_document, params.position)
        span = renaming.span_of(place) if place else None
        return (
            self._connection.to(place.session)(place.path, span).range if place and span else None
        )

    def _rename(self, params: types.RenameParams) -> types.WorkspaceEdit | None:
        place = self._connection.place(params.text_document, params.position)
        if place is None:
            return None
        try:
            renamed = renaming.rename(place, params.new_name)
            if renamed.moved and not self._moves:
                raise renaming.CannotRename("this editor does not rename files")
        except renaming.CannotRename as refused:
            raise JsonRpcInvalidParams(str(refused)) from None
        return self._renamed(place.session, renamed)

    @property
    def _moves(self) -> bool:
        """Whether the editor can rename a file."""
        workspace = self._connection.protocol.client_capabilities.workspace
        edit = workspace.workspace_edit if workspace else None
        operations = edit.resource_operations if edit else None
        return types.ResourceOperationKind.Rename in (operations or ())

    def _renamed(self, session: Session, renamed: renaming.Renaming) -> types.WorkspaceEdit:
        to = self._connection.to(session)
        changes: dict[str, list[types.TextEdit]] = {}
        for path, edits in renamed.edits.items():
            changes[self._connection.uri(session, path)] = [
                types.TextEdit(to(path, span).range, text) for span, text in edits
            ]
        if renamed.moved is None:
            return types.WorkspaceEdit(changes=changes)
        operations: list[types.TextDocumentEdit | types.RenameFile] = [
            types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri), edits)
            for uri, edits in changes.items()
        ]
        old, new = (self._connection.uri(session, path) for path in renamed.moved)
        return types.WorkspaceEdit(document_changes=[*operations, types.RenameFile(old, new)])

    # --- the shape of files ----------------------------------------------------------------------

    def _lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        place = self._connection.place(params.text_document, _START)
        shown = lenses.lenses(place.session, place.path) if place else ()
        return [
            types.CodeLens(
                types.Range(types.Position(lens.line, 0), types.Position(lens.line, 0)),
                command=types.Command(title=visible(lens.title), command=""),
            )
            for lens in shown
        ]

    def _symbols(self, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        place = self._connection.place(params.text_document, _START)
        if place is None:
            return []
        return [self._symbol(place, symbol) for symbol in outline.symbols(place.text)]

    def _symbol(self, place: Place, symbol: outline.Symbol) -> types.DocumentSymbol:
        to = self._connection.to(place.session)
        kinds = {"mapping": types.SymbolKind.Object, "sequence": types.SymbolKind.Array}
        return types.DocumentSymbol(
            name=visible(symbol.name),
            detail=visible(symbol.detail) or None,
            kind=kinds.get(symbol.shape, types.SymbolKind.Field),
            range=to(place.path, symbol.span).range,
            selection_range=to(place.path, symbol.key).range,
            children=[self._symbol(place, child) for child in symbol.children],
        )

    def _jobs(self, params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
        wanted = params.query.lower()
        matching = (
            (session, file)
            for session in self._connection.sessions.values()
            for file in session.jobs()
            if wanted in str(file)
        )
        return [
            types.WorkspaceSymbol(
                name=str(file),
                kind=types.SymbolKind.File,
                location=types.LocationUriOnly(self._connection.uri(session, file.path)),
            )
            for session, file in islice(matching, _MOST_JOBS)
        ]

    def _folds(self, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        place = self._connection.place(params.text_document, _START)
        return [
            types.FoldingRange(start, end, kind=types.FoldingRangeKind.Comment if comment else None)
            for start, end, comment in (outline.folds(place.text) if place else ())
        ]

    def _hints(self, params: types.InlayHintParams) -> list[types.InlayHint]:
        place = self._connection.place(params.text_document, params.range.start)
        if place is None:
            return []
        span = Span(
            place.at, self._connection.position(place.session, place.path, params.range.end)
        )
        to = self._connection.to(place.session)
        return [
            types.InlayHint(
                to(place.path, Span(hint.at, hint.at)).range.start,
                visible(hint.label),
                tooltip=types.MarkupContent(types.MarkupKind.Markdown, hint.tooltip),
                padding_left=True,
            )
            for hint in outline.hints(place.session, place.path, span)
        ]


def _item(suggestion: completion.Suggestion, span: types.Range, index: int) -> types.CompletionItem:
    kinds = {
        "key": types.CompletionItemKind.Field,
        "value": types.CompletionItemKind.EnumMember,
        "name": types.CompletionItemKind.Reference,
    }
    return types.CompletionItem(
        label=suggestion.label,
        kind=kinds[suggestion.what],
        detail=suggestion.detail or None,
        label_details=types.CompletionItemLabelDetails(description=suggestion.detail)
        if suggestion.what == "name" and suggestion.detail
        else None,
        documentation=types.MarkupContent(types.MarkupKind.Markdown, suggestion.documentation),
        sort_text=f"{index:04}",
        filter_text=suggestion.label,
        text_edit=types.TextEdit(span, suggestion.text),
    )
