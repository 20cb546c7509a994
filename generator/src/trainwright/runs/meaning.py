"""Whether a job's own file asks for another run than the one that is recorded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from trainwright.datatypes.model import ORDERED, Data
from trainwright.datatypes.tolerant import identical
from trainwright.runs.fields import ABOUT_THE_FILE, OPERATION, STATE, is_trained, operation
from trainwright.runs.record import Record

Path: TypeAlias = tuple[str, ...]  # a key per step
Spec: TypeAlias = Mapping[str, Data]
Same: TypeAlias = Callable[[Spec, Spec], bool]  # whether two effective specs train the same

_ABSENT = object()
ORDER = "(order)"  # the last step of a path: the order of the keys of a mapping


def recorded(data: Spec) -> dict[str, Data]:
    """The part of a spec, or of one of its layers, that a record keeps."""
    return {key: value for key, value in data.items() if key not in ABOUT_THE_FILE}


def inherited(data: Spec) -> dict[str, Data]:
    """The part of what lies below a job's own file that a record keeps."""
    return {key: value for key, value in recorded(data).items() if key != "extends"}


def asked(record: Record, own: Spec, chosen: Mapping[str, Spec], spec: Spec, same: Same) -> bool:
    """Whether the lines of the job's own file that changed mean another run.

    `own` is what the file says now, `spec` what that comes to with all it inherits, `chosen` by key
    what a line that chooses layers (`extends`, `pool`) brings with it. A line counts where it
    changed and the effective value with it: a default that is spelled out, a value that moved to a
    base as it is, or a base under another name asks for nothing.
    """
    changed = _changed(record.job, recorded(own))
    for key in ("extends", "pool"):  # a base may choose the pool
        if (key,) in changed:
            brought = dict(_leaves(recorded(chosen[key]), ()))
            changed += [
                path
                for path in _changed(recorded(record.spec), recorded(spec))
                if path in brought or _at(spec, path) is _ABSENT
            ]
    changed = [path for path in changed if is_trained(path) and path[0] != "extends"]
    wanted = _taken(record.spec, spec, changed)
    if wanted is record.spec:
        return False
    return bool(_changed(record.spec, wanted)) and not same(record.spec, wanted)


def operated(record: Record, own: Spec) -> tuple[Path, ...]:
    """Return the paths of operation at which the job's own file differs from that of its run."""
    return tuple(path for path in _changed(record.job, recorded(own)) if operation(path))


def with_operation(record: Record, own: Spec, spec: Spec, names: Collection[str]) -> Spec:
    """Return the spec of a run with what the job's own file changed of some fields of operation."""
    paths = (path for path in operated(record, own) if operation(path) in names)
    return _taken(record.spec, spec, paths)


def _taken(run: Spec, spec: Spec, paths: Iterable[Path]) -> Spec:
    """The spec of a run with the effective values at some paths."""
    wanted: Data = run
    for path in paths:
        value = _at(spec, path)
        if not (isinstance(value, Mapping) and isinstance(_at(run, path), Mapping)):
            wanted = _with(wanted, path, value)
    found: Spec = wanted
    return found


def held(record: Record, spec: Spec) -> Iterator[tuple[Path, Data, Data]]:
    """Each effective value, by path, that is another than the run's: before and after.

    None stands for a value that is not there.
    """
    for path, before, after in differences(recorded(record.spec), recorded(spec)):
        if path[0] in ("extends", STATE):
            continue
        if path[-1] == ORDER and not is_reordered(before or (), after or ()):
            continue  # one is added, or gone, which is a difference of its own
        yield path, before, after


def is_reordered(before: Iterable[str], after: Iterable[str]) -> bool:
    """Whether keys that are in both mappings stand in another order."""
    old, new = dict.fromkeys(before), dict.fromkeys(after)
    return [key for key in old if key in new] != [key for key in new if key in old]


def differences(old: Spec, new: Spec) -> Iterator[tuple[Path, Data, Data]]:
    """Each value, by path, that differs between two mappings: before and after."""
    for path in _changed(old, new):
        yield path, _plain(_at(old, path)), _plain(_at(new, path))


def says_the_same(one: Spec, other: Spec) -> bool:
    """Whether two mappings are equal, and in one order where that means something."""
    return identical(one, other) and all(
        list(one.get(key) or ()) == list(other.get(key) or ()) for key in ORDERED
    )


def digest(own: Spec, run: int) -> str:
    """SHA-256, in hex, of what the job's own file says of a run, and of the run's number.

    State and operation are left out: what has finished stays so, whatever is written of them.
    """
    written: Data = {key: value for key, value in recorded(own).items() if key != STATE}
    for name in OPERATION:
        written = _without(written, tuple(name.split(".")))
    data: dict[str, Data] = {"job": written, "run": run}
    order = {
        key: list(written[key])
        for key in ORDERED & written.keys()
        if _has_order((key,), written[key])
    }
    if order:
        data["order"] = order
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def attributed(
    record: Record, own: Spec, spec: Spec, held: Collection[str] = ()
) -> tuple[dict[str, Data], dict[str, Data]]:
    """`job` and `inherited` such that the same effective spec is told apart as it is written now.

    What moved between the job's file and its base belongs to where it is now: a later change of
    the base is then another job's, and is held. Fields of operation that are `held` stay as they
    are recorded.
    """
    job: Data = recorded(own)
    for name in held:
        at = tuple(name.split("."))
        was = _at(record.job, at)
        job = _without(job, at) if was is _ABSENT else _with(job, at, was)
    inherited: Data = record.inherited
    for path in _changed(record.job, job):
        if path[-1] == ORDER:
            continue
        in_place = not is_trained(path)
        if in_place and _at(job, path) is not _ABSENT:
            continue  # what lies below it decides nothing, and is there again when it goes
        value = _at(spec if in_place else record.spec, path)
        if not isinstance(value, Mapping):
            inherited = _with(inherited, path, value)
    return job, inherited


def _changed(old: Spec, new: Spec) -> list[Path]:
    """Where two specs differ, in the order of the new one."""
    was, now = dict(_leaves(old, ())), dict(_leaves(new, ()))
    paths = (*now, *(path for path in was if path not in now))
    return [path for path in paths if not identical(was.get(path, _ABSENT), now.get(path, _ABSENT))]


def _leaves(data: Data, path: Path) -> Iterator[tuple[Path, Data]]:
    if isinstance(data, Mapping) and (data or not path):
        for key, value in data.items():
            yield from _leaves(value, (*path, key))
        if _has_order(path, data):
            yield (*path, ORDER), list(data)
    else:
        yield path, data


def _has_order(path: Path, data: Data) -> bool:
    """Whether the order of the keys of a mapping means something."""
    return len(path) == 1 and path[0] in ORDERED and isinstance(data, Mapping) and len(data) > 1


def _at(data: Data, path: Path) -> Data:
    for index, key in enumerate(path):
        if key == ORDER and _has_order(path[:index], data):
            return list(data)
        if not isinstance(data, Mapping) or key not in data:
            return _ABSENT
        data = data[key]
    return data


def _plain(value: Data) -> Data:
    return None if value is _ABSENT else value


def _without(data: Data, path: Path) -> Data:
    """The data without a path, if it is there."""
    return data if _at(data, path) is _ABSENT else _with(data, path, _ABSENT)


def _with(data: Data, path: Path, value: Data) -> Data:
    """The data with a value at a path, or without it where the value is absent, and without what is
    empty then: a container without an image is none.
    """
    if value is _ABSENT and (path[-1] == ORDER or not isinstance(data, Mapping)):
        return data  # a shorter form may be there by now, which has nothing below it
    key, rest = path[0], path[1:]
    below = dict(data) if isinstance(data, Mapping) else {}
    if key == ORDER:
        return {name: below[name] for name in value if name in below} | below
    if rest:
        below[key] = _with(below.get(key, {}), rest, value)
        if value is _ABSENT and below[key] == {}:
            del below[key]
    elif value is _ABSENT:
        below.pop(key, None)
    else:
        below[key] = value
    return below
