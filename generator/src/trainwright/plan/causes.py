"""Why a job changes: the values that differ, each at the line that people changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from trainwright.datatypes.durations import seconds
from trainwright.datatypes.finding import Location, ValueChange
from trainwright.datatypes.job import ORDERED
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.datatypes.same import ORDER, differences, identical
from trainwright.documents.yamlio import Document
from trainwright.runs import meaning
from trainwright.runs.record import Record
from trainwright.specs import files
from trainwright.specs.ledger import Ledger
from trainwright.specs.merge import BUILT_IN, Layered

# What of environment.yaml decides how a job is rendered, besides its defaults and the job's pool.
_FACTS = (
    "/namespace",
    "/targets",
    "/kubernetes",
    "/queueing",
    "/podSecurity",
    "/serviceMesh",
    "/images/gitSync",
    "/sharedChanges",
)
# What of a pool is in no manifest: it tells people something, or decides sums.
_UNRENDERED = frozenset({"description", "capacity", "pricePerGpuHour"})
_MAX_DURATION = Pointer("/maxDuration")
_META = frozenset({"/apiVersion", "/kind", "/extends"})


def of_specs(before: Layered, after: Layered) -> Iterator[ValueChange]:
    """Yield each value of the effective spec that differs, in the order of the new one."""
    reordered = []
    for path, was, now in differences(before.data, after.data, ORDERED):
        if path.last == ORDER:
            if meaning.is_reordered(was or (), now or ()):
                place = _reordered(before, after, path.parts[0])
                reordered.append(ValueChange(path.parent, was, now, place))
        elif not identical(was, now) and path not in _META:
            yield ValueChange(path, was, now, _changed(before, after, path))
    yield from sorted(reordered, key=lambda cause: cause.path)


def _reordered(before: Layered, after: Layered, key: str) -> Location:
    """The line of the topmost layer that writes the keys of a mapping in another order now."""
    was = {layer.document.file: list(layer.data.get(key) or ()) for layer in before.layers}
    layers = (layer for layer in reversed(after.layers) if layer.data.get(key))
    moved = (la for la in layers if list(la.data[key]) != was.get(la.document.file))
    topmost = next(moved, None)
    return topmost.key_place(Pointer.of(key)) if topmost else after.origin(Pointer.of(key))


def of_record(record: Record, before: Layered, after: Layered) -> Iterator[ValueChange]:
    """Yield each value that differs now from the one a run began with, first those that the job's
    own file sets otherwise than before the merge.
    """
    waited = []
    was, now = before.layers[-1].data, after.layers[-1].data
    for path, recorded, value in meaning.held(record, after.data):
        at = path.parent if path.last == ORDER else path
        place = files.decided_by(after, at) or after.authored(at)
        change = ValueChange(at, recorded, value, place)
        if identical(lookup(was, at), lookup(now, at)):
            waited.append(replace(change, earlier=True))
        else:
            yield change
    yield from waited


def less_time(changes: Iterable[ValueChange]) -> ValueChange | None:
    """Return the change that lowers the time that a job may take, or None."""
    limits = (change for change in changes if change.path == _MAX_DURATION and change.after)
    return next(
        (it for it in limits if not it.before or seconds(it.after) < seconds(it.before)), None
    )


def of_ledgers(before: Ledger, after: Ledger, job: str) -> Iterator[ValueChange]:
    """Yield each finished run of a job that only one of two ledgers lists."""
    for name in sorted({*before.runs} ^ {*after.runs}):
        entry = after.runs.get(name) or before.runs[name]
        if entry.job == job:
            was, now = (
                ledger.runs[name].outcome if name in ledger.runs else None
                for ledger in (before, after)
            )
            yield ValueChange(Pointer.of("runs", name), was, now, entry.place)


def _changed(before: Layered, after: Layered, pointer: Pointer) -> Location:
    """The line of the new spec that decides; where the value is gone, the line that had it."""
    if file := files.decided_by(after, pointer):
        return file
    if lookup(after.data, pointer) is None and not any(True for _ in after.history(pointer)):
        return before.origin(pointer)
    if after.setter(pointer).label == BUILT_IN:
        return Location(after.layers[-1].document.file)
    return after.origin(pointer)


def of_environments(before: Document, after: Document, pool: str) -> Iterator[ValueChange]:
    """Each fact of environment.yaml that differs and is rendered of a job in this pool."""
    at = Pointer.of("pools", pool)
    watched = (*_FACTS, at) if pool else _FACTS
    # The defaults are in the effective spec, and causes there.
    elsewhere = [at / key for key in ("defaults", *_UNRENDERED)]
    for change in every_difference(before, after):
        path = change.path
        if any(map(path.within, watched)) and not any(map(path.within, elsewhere)):
            yield change


def every_difference(before: Document, after: Document) -> Iterator[ValueChange]:
    """Each value that differs between two files, at its line, or the one that it had."""
    for path, was, now in differences(before.data, after.data):
        if not identical(was, now):
            place = (after if path in after.places else before).place(path)
            yield ValueChange(path, was, now, place)
