"""An edit between two rendered texts, laid onto a third: line by line, as `diff3` does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

from trainwright.datatypes.data import Data
from trainwright.documents import yamlio

Change: TypeAlias = tuple[tuple[str, ...], str, str]  # where, before and after as JSON

_ABSENT = ""  # as JSON, nothing


def merge(base: str, edited: str, recorded: str) -> str | None:
    """Return the recorded text with the edit of the base, or None if it lacks the edited lines."""
    old, new, lines = (text.splitlines(keepends=True) for text in (base, edited, recorded))
    here = _matching(old, lines)
    changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for tag, start, stop, first, last in reversed(changes):
        if tag == "equal":
            continue
        place = _place(here, start, stop)
        if place is None:
            return None
        lines[place : place + stop - start] = new[first:last]
    return "".join(lines)


def _matching(base: Sequence[str], recorded: Sequence[str]) -> dict[int, int]:
    """Return where lines of the base are in the recorded text, by line numbers."""
    blocks = SequenceMatcher(None, base, recorded, autojunk=False).get_matching_blocks()
    return {at + n: place + n for at, place, size in blocks for n in range(size)}


def _place(places: Mapping[int, int], start: int, stop: int) -> int | None:
    """Return where lines of the base begin in the recorded text; None if not contiguous there."""
    if start == stop:  # something is inserted: behind the line above, or in front of the next
        if start - 1 in places:
            return places[start - 1] + 1
        return places.get(stop)
    place = places.get(start)
    if place is None or any(places.get(n) != place + n - start for n in range(start, stop)):
        return None
    return place


def same_edit(base: str, edited: str, recorded: str, merged: str) -> bool:
    """Whether two pairs of texts differ by the same values at the same places."""
    expected, actual = _changes(base, edited), _changes(recorded, merged)
    return expected is not None and expected == actual


def _changes(before: str, after: str) -> Counter[Change] | None:
    """Return the changes between the documents of two texts, or None if their number differs."""
    old, new = yamlio.load_rendered(before), yamlio.load_rendered(after)
    if len(old) != len(new):
        return None
    return Counter(
        change
        for number, pair in enumerate(zip(old, new, strict=True))
        for change in _between(*pair, (str(number),))
    )


def _between(old: Data, new: Data, path: tuple[str, ...]) -> Iterator[Change]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in (*old, *(key for key in new if key not in old)):
            at = (*path, str(key))
            if key in old and key in new:
                yield from _between(old[key], new[key], at)
            else:
                yield (
                    at,
                    _json(old[key]) if key in old else _ABSENT,
                    (_json(new[key]) if key in new else _ABSENT),
                )
    elif isinstance(old, list) and isinstance(new, list):
        yield from _between_lists(old, new, path)
    elif _json(old) != _json(new):
        yield path, _json(old), _json(new)


def _between_lists(old: list[Data], new: list[Data], path: tuple[str, ...]) -> Iterator[Change]:
    """Yield the changes between two lists, with items under their name if they have one and not
    their index: another version may put others in front of them.
    """
    if len(old) == len(new):
        for old_item, new_item in zip(old, new, strict=True):
            yield from _between(old_item, new_item, (*path, _label(old_item)))
        return
    was, now = Counter(map(_json, old)), Counter(map(_json, new))
    for item in (was - now).elements():
        yield (*path, "*"), item, _ABSENT
    for item in (now - was).elements():
        yield (*path, "*"), _ABSENT, item


def _label(item: Data) -> str:
    return str(item["name"]) if isinstance(item, Mapping) and "name" in item else "*"


def _json(data: Data) -> str:
    return json.dumps(data, sort_keys=True)
