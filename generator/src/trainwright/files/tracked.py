"""A tree that is tracked: each answer is noted by the values that are made of it (see `memo`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast

from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.same import digest
from trainwright.files import filetree
from trainwright.files.entry import Entry, Kind, above, is_ignore_file
from trainwright.files.memo import Cell, Memo
from trainwright.files.tree import NOTHING, Edited, Folder, Tree, paths_below, read_regular

Question = Literal["entries", "kind", "read", "ignored", "digest", "files"]
Answers: TypeAlias = Mapping[Question, Mapping[str, object]]  # by path
Seen: TypeAlias = Mapping[str, Mapping[str, str]]  # by question and path, the answer in few letters

_QUESTIONS: tuple[Question, ...] = ("entries", "kind", "read", "ignored", "digest", "files")
_OF_ALL_INSIDE: tuple[Question, ...] = ("ignored", "files")  # what an edit far below may answer


class Tracked:
    """A tree that looks each path up in another tree only once: edits meanwhile change nothing.

    So the bytes that are hashed are those that were parsed, and the lines that are shown are those
    in which something was found. As in a commit, there is nothing behind a symbolic link. `whole`
    is false once the tree was sent to another process, whose questions are not known here.
    """

    def __init__(self, below: Tree, memo: Memo | None = None, answers: Answers | None = None):
        self.below = below
        self.memo = memo or Memo()
        self.whole = True
        self._cells: dict[Question, dict[str, Cell[object]]] = {
            question: {} for question in _QUESTIONS
        }
        # Answers that are known already, but that no value has been computed from yet.
        self._at_hand = {
            question: dict((answers or {}).get(question, {})) for question in _QUESTIONS
        }
        self._behind_links = {"": False}  # by folder, whether it is one or lies behind one
        self._inside: dict[str, set[str]] = {}  # paths that were read, by their folder
        self._new: list[str] = []  # what is not among these yet

    @classmethod
    def of(cls, tree: Tree, memo: Memo | None = None) -> Tracked:
        """Return the tree itself if it is tracked, else a tracked tree on top of it."""
        return tree if isinstance(tree, Tracked) else cls(tree, memo)

    def __reduce__(self) -> tuple[type[Tracked], tuple[Tree]]:
        self.whole = False
        return (Tracked, (self.below,))

    @property
    def answers(self) -> Answers:
        """All that it has answered."""
        return {
            question: {path: cell.value for path, cell in cells.items()}
            for question, cells in self._cells.items()
        }

    def entries(self, folder: str) -> tuple[Entry, ...]:
        return self._answer("entries", folder)  # type: ignore[no-any-return]

    def kind(self, path: str) -> Kind:
        return self._answer("kind", path)  # type: ignore[no-any-return]

    def read(self, path: str) -> bytes:
        return self._answer("read", path)  # type: ignore[no-any-return]

    def ignored(self, folder: str) -> frozenset[str]:
        return self._answer("ignored", folder)  # type: ignore[no-any-return]

    def digest(self, path: str) -> str:
        """Return the digest of a rendered file, or "" if there is no file."""
        return self._answer("digest", path)  # type: ignore[no-any-return]

    def files(self, folder: str) -> tuple[str, ...]:
        """Return the paths of all files below a folder, relative to it; none if it is missing."""
        return self._answer("files", folder)  # type: ignore[no-any-return]

    def _answer(self, question: Question, path: str) -> Any:
        """Return the answer to a question about a path, noted for the value that is being made."""
        cells = self._cells[question]
        cell = cells.get(path)
        if cell is None:
            at_hand = self._at_hand[question]
            first = at_hand.pop(path) if path in at_hand else self._look_up(question, path)
            cell = cells[path] = Cell(self.memo, _never_made, _is_same, first)
            self._new.append(path)
        cell.note()
        answer = cell.value
        if isinstance(answer, Exception):
            raise answer.with_traceback(None)
        return answer

    def _look_up(self, question: Question, path: str) -> object:
        """Return the answer of the tree below, or the exception that it raises."""
        behind = self._behind_links.get(path.rpartition("/")[0])
        if behind is None:
            behind = self._is_behind_a_link(path)
        below = NOTHING if behind else self.below
        try:
            if question == "kind":  # which most are
                return below.kind(path)
            if question == "files":
                return _files(below, path)
            if question != "digest":
                return getattr(below, question)(path)
            read = self._cells["read"].get(path)
            if read and isinstance(read.value, bytes):
                return filetree.digest_of(read.value)
            return _digest(below, path)
        except (OSError, ValueError, TrainwrightError) as error:
            return error

    def _is_behind_a_link(self, path: str) -> bool:
        folder = path.rpartition("/")[0]
        is_behind = self._behind_links.get(folder)
        if is_behind is None:
            is_behind = self.below.kind(folder) == "link" or self._is_behind_a_link(folder)
            self._behind_links[folder] = is_behind
        return is_behind

    # --- edits -----------------------------------------------------------------------------------

    def edit(self, changed: Iterable[str], below: Tree | None = None) -> None:
        """Look up every answer again that a change of these files and folders may affect."""
        self.below = below or self.below
        self._sort_in()
        again: dict[tuple[Question, str], None] = {}
        for path in changed:
            again |= dict.fromkeys(self._reached(path))
        self._behind_links = {"": False}
        for question, path in again:
            if cell := self._cells[question].get(path):
                cell.put(self._look_up(question, path))

    def _sort_in(self) -> None:
        """Note in which folder each path is that was read."""
        for new in self._new:
            for path in (new, *above(new)):
                beside = self._inside.setdefault(path.rpartition("/")[0], set())
                if path in beside:
                    break
                beside.add(path)
        self._new.clear()

    def _reached(self, path: str) -> Iterator[tuple[Question, str]]:
        """Yield each question, with its path, whose answer an edit of a path may change."""
        folders = ("", *above(path))
        stays = self._is_known_file(path) and self.below.kind(path) == "file"
        around = () if stays else folders
        for reached in (path, *around, *(() if stays else self._paths_inside(path))):
            yield from ((question, reached) for question in _QUESTIONS)
        for question in _OF_ALL_INSIDE:
            yield from ((question, folder) for folder in folders)
        if is_ignore_file(path):
            yield from (("ignored", inner) for inner in self._paths_inside(path.rpartition("/")[0]))

    def _is_known_file(self, path: str) -> bool:
        kind, read = (self._cells[question].get(path) for question in ("kind", "read"))
        return kind.value == "file" if kind else bool(read and isinstance(read.value, bytes))

    def _paths_inside(self, folder: str) -> Iterator[str]:
        for path in self._inside.get(folder, ()):
            yield path
            yield from self._paths_inside(path)

    # --- what is kept from one process to the next -----------------------------------------------

    @property
    def seen(self) -> Seen:
        """The answers that any value was computed from, except those that follow from another
        answer: a kind from the listing of its folder, a digest from the bytes.
        """
        answers = {
            question: {path: cell.value for path, cell in cells.items() if cell.readers}
            for question, cells in self._cells.items()
        }
        listed = {
            f"{folder}/{entry.name}".removeprefix("/"): entry.kind
            for folder, entries in answers["entries"].items()
            for entry in (entries if isinstance(entries, tuple) else ())
        }
        answers["kind"] = {
            path: kind
            for path, kind in answers["kind"].items()
            if listed.get(path, "") != kind or path.rpartition("/")[0] not in answers["entries"]
        }
        answers["digest"] = {
            path: digest
            for path, digest in answers["digest"].items()
            if path not in answers["read"]
        }
        return {
            question: {path: _in_short(question, answer) for path, answer in by_path.items()}
            for question, by_path in answers.items()
        }

    def is_as(self, seen: Seen) -> bool:
        """Whether the tree gives the answers that were recorded from another one."""
        return all(
            self._is_as(question, answers)
            for question, answers in cast(Mapping[Question, Mapping[str, str]], seen).items()
        )

    def _is_as(self, question: Question, answers: Mapping[str, str]) -> bool:
        at_hand = self._at_hand[question]
        for path, expected in answers.items():
            answer = at_hand[path] = self._look_up(question, path)
            if _in_short(question, answer) != expected:
                return False
        return True


def _never_made() -> object:
    raise AssertionError("an answer of a tree is put, and never made")


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, Exception):
        return type(one) is type(other) and str(one) == str(other)
    return one == other


def _in_short(question: Question, answer: Any) -> str:
    """Return an answer in few letters."""
    if isinstance(answer, Exception):
        return f"{type(answer).__name__}: {answer}"
    if question in ("kind", "digest"):
        return str(answer)
    if question == "entries":
        answer = repr([(entry.name, entry.kind) for entry in answer])
    elif question != "read":
        answer = "\0".join(sorted(answer))
    raw = answer if question == "read" else answer.encode("utf-8", "backslashreplace")
    return digest(raw)


def _files(tree: Tree, folder: str) -> tuple[str, ...]:
    if isinstance(tree, Folder):
        there = tree.kind(folder) in ("folder", "link")
        return filetree.listing(tree.root / folder) if there else ()
    if isinstance(tree, Edited) and not any(p.startswith(f"{folder}/") for p in tree.files):
        return _files(tree.below, folder)
    paths = paths_below(tree, folder) if tree.kind(folder) == "folder" else ()
    return tuple(path.removeprefix(f"{folder}/") for path in paths)


def _digest(tree: Tree, path: str) -> str:
    try:
        if isinstance(tree, Folder):
            return filetree.digest_of(read_regular(f"{tree.root}/{path}", follow=False))
        if isinstance(tree, Edited) and path not in tree.files:
            return _digest(tree.below, path)
        return filetree.digest_of(tree.read(path)) if tree.kind(path) == "file" else ""
    except OSError:  # who cannot read one knows no digest
        return ""
