"""One editor: the files that it has open, the repositories they are in, and its positions."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from trainwright.authoring.place import Place
from trainwright.authoring.session import Link, Session
from trainwright.authoring.text import Position, Span
from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.layout import ENVIRONMENTS
from trainwright.files.tree import find_root
from trainwright_editor.language_server.diagnostics import To


class Connection:
    """What an editor has open, as sessions and paths in them.

    `opened` has each file's URI as the editor writes it, by root and path.
    """

    def __init__(self, protocol: LanguageServer):
        self.protocol = protocol
        self.sessions: dict[Path, Session] = {}
        self.opened: dict[tuple[Path, str], str] = {}

    def session(self, root: Path) -> Session:
        """Return the session of a repository; it begins with the first request for it."""
        if root not in self.sessions:
            self.sessions[root] = Session(root)
        return self.sessions[root]

    def find(self, uri: str) -> tuple[Session, str] | None:
        """Return the session of a file and its path there, or None if it is in no repository."""
        path = file_path(uri)
        if path is None:
            return None
        for root, session in self.sessions.items():
            if path.is_relative_to(root):
                inside = path.relative_to(root).as_posix()
                if inside.startswith(f"{ENVIRONMENTS}/") or session.check.reached(inside):
                    return session, inside
        with suppress(SourceError, OSError):
            root = find_root(path.parent)
            if path.is_relative_to(root / ENVIRONMENTS):
                return self.session(root), path.relative_to(root).as_posix()
        return None

    def concerned(self, uri: str) -> tuple[Session, str] | None:
        """The session that a file may decide a job of, open or not, and its path there."""
        path = file_path(uri)
        for root, session in self.sessions.items() if path else ():
            if path and path.is_relative_to(root):
                inside = path.relative_to(root).as_posix()
                if session.check.concerns(inside):
                    return session, inside
        return self.find(uri)

    def place(self, document: types.TextDocumentIdentifier, at: types.Position) -> Place | None:
        """Return the place that a request is about, or None if it is in no repository."""
        located = self.find(document.uri)
        if located is None:
            return None
        session, path = located
        return Place(session, path, self.position(session, path, at))

    def uri(self, session: Session, path: str) -> str:
        """A file as the editor knows it."""
        opened = self.opened.get((session.root, path))
        return opened or file_uri(session.root / path)

    def to(self, session: Session) -> To:
        """Return a converter of positions in characters to the editor's, mostly UTF-16 units."""
        codec = self.protocol.workspace.position_codec

        def located(path: str, span: Span) -> types.Location:
            lines = session.lines(path)
            ends = (types.Position(p.line, p.column) for p in (span.start, span.end))
            client_range = codec.range_to_client_units(lines, types.Range(*ends))
            return types.Location(self.uri(session, path), client_range)

        return located

    def link(self, session: Session) -> Link:
        return lambda path, line: f"{self.uri(session, path)}#L{line}"

    def position(self, session: Session, path: str, at: types.Position) -> Position:
        """A position of the editor in characters."""
        codec = self.protocol.workspace.position_codec
        converted = codec.position_from_client_units(session.lines(path), at)
        return Position(converted.line, converted.character)


def file_path(uri: str) -> Path | None:
    """Return the absolute path that a URI means, or None if it is not a file on this machine."""
    try:
        path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    except ValueError:
        return None
    return Path(os.path.normpath(path)) if path else None


def file_uri(path: Path) -> str:
    """The URI of a file, as most editors write it."""
    return uris.from_fs_path(str(path)) or path.as_uri()
