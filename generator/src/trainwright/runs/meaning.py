"""Whether a job's own file requests another run than the one that is recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from trainwright.datatypes.data import Data, text
from trainwright.datatypes.job import ORDERED
from trainwright.datatypes.pointer import Pointer, lookup, with_value, without_value
from trainwright.datatypes.same import ORDER, Difference, differences, digest_of_data, identical
from trainwright.runs.fields import ABOUT_THE_FILE, OPERATION, STATE, is_trained, operation
from trainwright.runs.record import Record

Spec: TypeAlias = Mapping[str, Data]
Same: TypeAlias = Callable[[Spec, Spec], bool]  # whether two effective specs train the same

_ABSENT = object()
# Lines that choose layers; a base may choose the pools.
_BASES = (re.compile("/extends"), re.compile("(?:/roles/[^/]+)?/pool"))


def recorded(data: Spec) -> dict[str, Data]:
    """Return the part of a spec, or of one of its layers, that a record keeps."""
    return {key: value for key, value in data.items() if key not in ABOUT_THE_FILE}


def inherited(data: Spec) -> dict[str, Data]:
    """Return the part of the merged layers below a job's own file that a record keeps."""
    return {key: value for key, value in recorded(data).items() if key != "extends"}


def requests_new_run(
    record: Record, own: Spec, chosen: Mapping[str, Spec], spec: Spec, same: Same
) -> bool:
    """Whether the changed lines of the job's own file request another run.

    `own` is the file's present content, `spec` the effective spec with all that it inherits, and
    `chosen`, by key, what a line that selects layers (`extends`, `pool`, the pool of a role) brings
    in. A changed line only counts if the effective value has changed too: an explicit default, a
    value that moved to a base as it is, or a base under another name requests nothing.
    """
    changed = _changed(record.job, recorded(own))
    for line in _BASES:
        if selecting := next(filter(line.fullmatch, changed), None):
            brought = _changed({}, recorded(chosen[selecting.parts[0]]))
            changed += [
                path
                for path in _changed(recorded(record.spec), recorded(spec))
                if path in brought or _at(spec, path) is _ABSENT
            ]
    changed = [path for path in changed if is_trained(path) and not path.within("/extends")]
    wanted = _taken(record.spec, spec, changed)
    if wanted is record.spec:
        return False
    return bool(_changed(record.spec, wanted)) and not same(record.spec, wanted)


def operated(record: Record, own: Spec) -> tuple[Pointer, ...]:
    """Return the paths of operation at which the job's own file differs from that of its run."""
    return tuple(path for path in _changed(record.job, recorded(own)) if operation(path))


def with_operation(record: Record, own: Spec, spec: Spec, names: Collection[str]) -> Spec:
    """Return a run's spec with the job's own changes to some operational fields."""
    paths = (path for path in operated(record, own) if operation(path) in names)
    return _taken(record.spec, spec, paths)


def _taken(run: Spec, spec: Spec, paths: Iterable[Pointer]) -> Spec:
    """Return a run's spec with the values at these paths replaced by the effective ones."""
    wanted: Data = run
    for path in paths:
        value = _at(spec, path)
        if not (isinstance(value, Mapping) and isinstance(_at(run, path), Mapping)):
            wanted = _with(wanted, path, value)
    updated: Spec = wanted
    return updated


def held(record: Record, spec: Spec) -> Iterator[Difference]:
    """Yield each difference between the effective spec and the one recorded for the run."""
    for difference in differences(recorded(record.spec), recorded(spec), ORDERED):
        if difference.path.parts[0] in ("extends", STATE):
            continue
        if difference.path.last == ORDER and not is_reordered(
            difference.before or (), difference.after or ()
        ):
            continue  # one is added, or gone, which is a difference of its own
        yield difference


def is_reordered(before: Iterable[str], after: Iterable[str]) -> bool:
    """Whether keys that are in both mappings stand in another order."""
    old, new = dict.fromkeys(before), dict.fromkeys(after)
    return [key for key in old if key in new] != [key for key in new if key in old]


def says_the_same(one: Spec, other: Spec) -> bool:
    """Whether two specs are equal, also in the order of keys if that order has a meaning."""
    return identical(one, other) and all(
        list(one.get(key) or ()) == list(other.get(key) or ()) for key in ORDERED
    )


def digest(own: Spec, run: int) -> str:
    """Return the SHA-256, in hex, of a run's number and what the job's own file has for it.

    State and operational fields are left out: a finished run stays finished, whatever they are.
    """
    written: Data = {key: value for key, value in recorded(own).items() if key != STATE}
    for path in OPERATION.values():
        written = _without(written, path)
    data: dict[str, Data] = {"job": written, "run": run}
    order = {
        key: list(written[key])
        for key in ORDERED & written.keys()
        if isinstance(written[key], Mapping) and len(written[key]) > 1
    }
    if order:
        data["order"] = order
    return digest_of_data(data)


def attributed(
    record: Record, own: Spec, spec: Spec, held: Collection[str] = ()
) -> tuple[dict[str, Data], dict[str, Data]]:
    """Return `job` and `inherited` for the same effective spec, split as it is written now.

    What moved between the job's file and its base belongs to where it is now: a later change of
    the base is then not the job's own, and is held. Operational fields that are `held` stay as they
    are recorded.
    """
    job: Data = recorded(own)
    for name in held:
        at = OPERATION[name]
        was = _at(record.job, at)
        job = _without(job, at) if was is _ABSENT else _with(job, at, was)
    inherited: Data = record.inherited
    for path in _changed(record.job, job):
        if path.last == ORDER:
            continue
        in_place = not is_trained(path)
        if in_place and _at(job, path) is not _ABSENT:
            continue  # the inherited value has no effect, and comes back when this goes
        value = _at(spec if in_place else record.spec, path)
        if not isinstance(value, Mapping):
            inherited = _with(inherited, path, value)
    return job, inherited


def pools_by_name(facts: Spec, was: Spec, now: Spec) -> dict[str, Data]:
    """Return the recorded facts of pools by the names that a spec has for them now: those of a run
    that goes on are the same nodes under another name at most.
    """
    then = _pools(was)
    names = {new: then.get(group, new) for group, new in _pools(now).items()}
    return {new: facts[old] for new, old in names.items() if old in facts}


def _pools(spec: Spec) -> dict[str, str]:
    """Return the name of the pool of a job ("") and of each of its roles that names one."""
    groups = {"": spec, **(spec.get("roles") or {})}
    return {group: text(data.get("pool")) for group, data in groups.items() if data.get("pool")}


def _changed(old: Spec, new: Spec) -> list[Pointer]:
    """Return where two specs differ, in the order of the new one."""
    return [difference.path for difference in differences(old, new, ORDERED)]


def _at(data: Data, path: Pointer) -> Data:
    for index, key in enumerate(path.parts):
        if key == ORDER and index == 1 and path.parts[0] in ORDERED:
            return list(data) if isinstance(data, Mapping) and len(data) > 1 else _ABSENT
        if not isinstance(data, Mapping) or key not in data:
            return _ABSENT
        data = data[key]
    return data


def _without(data: Data, path: Pointer) -> Data:
    """Return the data without the value at a path, if there is one."""
    return data if _at(data, path) is _ABSENT else _with(data, path, _ABSENT)


def _with(data: Data, path: Pointer, value: Data) -> Data:
    """Return the data with a value at a path, or without it if `value` is `_ABSENT`; a mapping that
    this empties is removed too, as a container without an image is none.
    """
    if value is _ABSENT:
        return data if path.last == ORDER else without_value(data, path, prune=True)
    if path.last == ORDER:
        path = path.parent
        found = lookup(data, path)
        below = dict(found) if isinstance(found, Mapping) else {}
        value = {name: below[name] for name in value if name in below} | below
    return with_value(data, path, value)
