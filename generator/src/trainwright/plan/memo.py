"""What need not be found out again while all that it follows from is the same."""

from __future__ import annotations

from operator import is_
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Memo(Generic[_Key, _Value]):
    """Values by key, each with the objects that it was made of.

    These are frozen, and handed on from one workspace to the next where nothing has reached them:
    that they are the same ones, and not only equal, is quick to see and enough.
    """

    def __init__(self) -> None:
        self._before: dict[_Key, tuple[tuple[object, ...], _Value]] = {}
        self._known: dict[_Key, tuple[tuple[object, ...], _Value]] = {}

    def after(self) -> Memo[_Key, _Value]:
        """One that recalls what was recalled or kept here."""
        found = Memo[_Key, _Value]()
        found._before = self._known
        return found

    def recall(self, key: _Key, *made_of: object) -> _Value | None:
        """The value of a key if it was made of these very objects."""
        found = self._known.get(key) or self._before.get(key)
        if found is None or len(found[0]) != len(made_of) or not all(map(is_, found[0], made_of)):
            return None
        self._known[key] = found
        return found[1]

    def keep(self, key: _Key, value: _Value, *made_of: object) -> _Value:
        """Remember what a value was made of."""
        self._known[key] = made_of, value
        return value
