"""Incremental computation: a value holds while everything that it was made of is the same.

A value is made by a method that reads others: answers of a tree (`files.tracked`) and values. What
it reads is recorded while it is made, so dependencies need not be declared. After an edit, the tree
is read again wherever the edited paths may have contributed. An answer that has changed outdates
the values that were made of it, and in turn those made of them. An outdated value is brought up to
date when it is needed: first what it read, in the same order. While each of these is the same as
before, so is the value; at the first that is not, it is made again. If the new value equals the
old, by `same`, nothing changes for those that read it: an edit of a job ends where what it extends
is compared, and the list of all jobs stays.
A value is kept from one process to the next with the answers that it was made of (`files.memory`).
This is the red-green algorithm of salsa, which rust-analyzer and ty are built on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast

_Value = TypeVar("_Value")
_Parameters = ParamSpec("_Parameters")
_Same = Callable[[Any, Any], bool]


class Memo:
    """Values that are computed from each other."""

    def __init__(self) -> None:
        self.being_made: list[dict[Cell[Any], int]] = []  # what each of these has read so far

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Record no dependencies for what is read meanwhile."""
        self.being_made.append({})
        try:
            yield
        finally:
            self.being_made.pop()


class _Missing:
    """The absence of a value: it was never made, or it is forgotten."""


_MISSING: Any = _Missing()


class Cell(Generic[_Value]):
    """A cached value, the cells that it was computed from, and those computed from it."""

    __slots__ = ("_make", "_memo", "_read", "_same", "_version", "is_current", "readers", "value")

    def __init__(
        self,
        memo: Memo,
        make: Callable[[], _Value],
        same: _Same | None = None,
        value: _Value = _MISSING,
    ):
        self._memo = memo
        self._make = make
        self._same = same
        self.value = value  # as it was last made
        self._version = 0  # counts the values that were not the same as the one before
        # The cells it was computed from, each with its version then; None if it must be computed.
        self._read: tuple[tuple[Cell[Any], int], ...] | None = None if value is _MISSING else ()
        self.readers: set[Cell[Any]] = set()
        self.is_current = value is not _MISSING

    def get(self) -> _Value:
        """Return the current value, and note it as read by what is being computed."""
        if not self.is_current:
            self._settle()
        self.note()
        if self.value is _MISSING:
            self._restore()
        return self.value

    def holds(self) -> bool:
        """Whether the value is what would be made now."""
        if not self.is_current and self._read is not None and self.value is not _MISSING:
            self.is_current = self._has_read_the_same(self._read)
        return self.is_current

    def outdate(self) -> None:
        """Mark this value, and all that were made of it, as possibly outdated."""
        outdated: list[Cell[Any]] = [self]
        while outdated:
            cell = outdated.pop()
            if cell.is_current:
                cell.is_current = False
                outdated += cell.readers

    def drop(self) -> None:
        """Have the value made again when it is needed, even if nothing that it read has changed."""
        self.outdate()
        self._read = None

    def detach(self) -> None:
        """Drop the value, and unregister from all cells that it read."""
        self._detach_from(self._read or ())
        self.drop()

    def _detach_from(self, read: Iterable[tuple[Cell[Any], int]]) -> None:
        for cell, _ in read:
            cell.readers.discard(self)

    def forget(self) -> None:
        """Drop a value that takes memory: it is made again when it is needed."""
        self.value = _MISSING

    def put(self, value: _Value) -> None:
        """Replace the value of a cell that was computed from no other cell."""
        if self.value is _MISSING or not (self._same and self._same(self.value, value)):
            self.outdate()
            self._version += 1
            self.value, self._read, self.is_current = value, (), True

    def note(self) -> None:
        """Record this cell, which is current, as a dependency of the value being computed."""
        being_made = self._memo.being_made
        if being_made:
            being_made[-1][self] = self._version

    def _restore(self) -> None:
        """Make a value again that was forgotten: of the same as before."""
        with self._memo.apart():
            self.value = self._make()

    def _settle(self) -> None:
        """Make the value current."""
        if self._read is None or not self._has_read_the_same(self._read):
            self._remake()
        self.is_current = True

    def _has_read_the_same(self, read: Iterable[tuple[Cell[Any], int]]) -> bool:
        """Whether all that was read to make the value is now as it was then."""
        for cell, version in read:
            try:
                if not cell.is_current:
                    cell._settle()
            except Exception:  # noqa: BLE001 - it is raised where it is read, if it still is
                return False
            if cell._version != version:
                return False
        return True

    def _remake(self) -> None:
        """Make the value, and note what is read for it."""
        before, read = self._read or (), dict[Cell[Any], int]()
        being_made = self._memo.being_made
        being_made.append(read)
        try:
            value = self._make()
        except BaseException:
            self._version += 1
            self.value, self._read = _MISSING, None
            if len(being_made) > 1:  # an error is an answer for who handles it
                being_made[-2].update(read)
            raise
        finally:
            being_made.pop()
            if before:
                self._detach_from(before)
        self._read = tuple(read.items())
        for cell in read:
            cell.readers.add(self)
        if self.value is _MISSING or not (self._same and self._same(self.value, value)):
            self._version += 1
            self.value = value


class Owner:
    """An object with tracked methods."""

    def __init__(self, memo: Memo):
        self.memo = memo
        self.cells: dict[tuple[Any, ...], Cell[Any]] = {}

    def detach(self) -> None:
        """Unregister from all that its values were made of, once another object replaces it."""
        for cell in self.cells.values():
            cell.detach()


_Owner = TypeVar("_Owner", bound=Owner)
_Method = Callable[Concatenate[_Owner, _Parameters], _Value]


def tracked(
    same: _Same | None = None,
) -> Callable[[_Method[_Owner, _Parameters, _Value]], _Method[_Owner, _Parameters, _Value]]:
    """Return a decorator: the method is not called again while what it has read is the same.

    `same` compares the new value with the old, if a value made again may equal the old one.
    """

    def decorate(
        method: _Method[_Owner, _Parameters, _Value],
    ) -> _Method[_Owner, _Parameters, _Value]:
        @wraps(method)
        def current(
            self: _Owner, *arguments: _Parameters.args, **none: _Parameters.kwargs
        ) -> _Value:
            key = (method, *arguments)
            cell = self.cells.get(key)
            if cell is None:
                cell = self.cells[key] = Cell(
                    self.memo, lambda: method(self, *arguments, **none), same
                )
            value: _Value = cell.get()
            return value

        return cast(_Method[_Owner, _Parameters, _Value], current)

    return decorate


def cell_of(owner: Owner, method: Callable[..., Any], *arguments: object) -> Cell[Any] | None:
    """Return the cell of a tracked method for some arguments, or None if it was never called."""
    return owner.cells.get((method.__wrapped__, *arguments))  # type: ignore[attr-defined]
