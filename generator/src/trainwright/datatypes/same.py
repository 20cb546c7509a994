"""What "the same" means: there are three notions, and nothing else decides it.

* **The same bytes**: `digest`. For rendered files, whose line ends git converts, it is
  `files.filetree.digest_of`; a job's file is identified by `model.file_digest`.
* **The same data**: `identical`, whatever order keys stand in; `digest_of_data` hashes what was
  read, and `differences` tells where two values differ, by pointers.
* **The same run**: `runs.same_spec`, two specs that render to the same. `runs.identity` names
  runs by it, and `runs.meaning` applies it to the changed lines of a job's own file.

Other comparisons are not further notions of it, but rules about two things that are not the same:
what the API server does with an edit (`rule_model.edit`), what a cluster adds to an object
(`cluster.drift`), and how two trainings differ that were written for different systems
(`equivalence.comparison`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from trainwright.datatypes.pointer import Pointer

_SCALARS = frozenset({str, int, bool, float, type(None)})


def digest(raw: bytes) -> str:
    """SHA-256 of some bytes, in hex."""
    return hashlib.sha256(raw).hexdigest()


def digest_of_data(data: Any) -> str:
    """Return the SHA-256 of data in hex, whatever the order of keys in its mappings."""
    return digest(json.dumps(data, sort_keys=True, separators=(",", ":")).encode())


def identical(one: Any, other: Any) -> bool:
    """Return whether two values are the same data. To Python 1, 1.0 and true are equal."""
    if isinstance(one, (dict, Mapping)) and isinstance(other, (dict, Mapping)):
        if one.keys() != other.keys():
            return False
        for key, value in one.items():
            there = other[key]
            if type(value) not in _SCALARS:
                if not identical(value, there):
                    return False
            elif type(value) is not type(there) or value != there:  # most are decided here
                return False
        return True
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(identical, one, other))
    return type(one) is type(other) and bool(one == other)


class Difference(NamedTuple):
    """A value that differs between two mappings; None is an absent value."""

    path: Pointer
    before: Any
    after: Any


ORDER = "(order)"  # the last key of a path: the order of the keys of a mapping


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], ordered: Collection[str] = ()
) -> Iterator[Difference]:
    """Yield the differences of two mappings: in the order of the new one, then what was removed.

    They are walked through as far as both have keys. `ordered` are keys of the whole below which
    the order of keys counts.
    """
    if repr(old) == repr(new):  # as nearly always, in a fifth of the time
        return
    was, now = dict(_leaves(old, (), ordered)), dict(_leaves(new, (), ordered))
    for path in (*now, *(path for path in was if path not in now)):
        if not identical(was.get(path, _ABSENT), now.get(path, _ABSENT)):
            before, after = (_at(data, path, leaves) for data, leaves in ((old, was), (new, now)))
            yield Difference(Pointer.of(*path), before, after)


_ABSENT = object()


def _leaves(
    data: Any, path: tuple[str, ...], ordered: Collection[str]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every scalar, list and empty mapping by its keys: a pointer is made of few of them."""
    if isinstance(data, Mapping) and (data or not path):
        for key, value in data.items():
            yield from _leaves(value, (*path, key), ordered)
        if len(path) == 1 and path[0] in ordered and len(data) > 1:
            yield (*path, ORDER), list(data)
    else:
        yield path, data


def _at(data: Any, path: tuple[str, ...], leaves: Mapping[tuple[str, ...], Any]) -> Any:
    if path in leaves:
        return leaves[path]
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data
