"""Why a job changes: the values that differ, each at the line that people changed."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.model import Location
from trainwright.plan.model import Cause
from trainwright.pointer import Pointer
from trainwright.specs import files
from trainwright.specs.merge import BUILT_IN, Layered, leaves, lookup
from trainwright.specs.yamlio import Document

# What of environment.yaml decides how a job is rendered, besides its defaults and the job's pool.
_FACTS = ("/namespace", "/targets", "/kubernetes", "/queueing", "/podSecurity", "/serviceMesh")
_META = frozenset({"/apiVersion", "/kind", "/extends"})


def of_specs(before: Layered, after: Layered) -> Iterator[Cause]:
    """Each leaf of the effective spec that differs, in the order of the new one."""
    old, new = dict(leaves(before.data)), dict(leaves(after.data))
    for pointer in (*new, *(p for p in old if p not in new)):
        was, now = lookup(before.data, pointer), lookup(after.data, pointer)
        if was != now and pointer not in _META:
            yield Cause(pointer, was, now, _changed(before, after, pointer))


def _changed(before: Layered, after: Layered, pointer: Pointer) -> Location:
    """The line of the new spec that decides; where the value is gone, the line that had it."""
    if file := files.decided_by(after, pointer):
        return file
    if lookup(after.data, pointer) is None and not any(True for _ in after.history(pointer)):
        return before.origin(pointer)
    if after.setter(pointer).label == BUILT_IN:
        return Location(after.layers[-1].document.file)
    return after.origin(pointer)


def of_environments(before: Document, after: Document, pool: str) -> Iterator[Cause]:
    """Each fact of environment.yaml that differs and matters to a job in this pool."""
    watched = (*_FACTS, Pointer.of("pools", pool)) if pool else _FACTS
    layer = Pointer.of("pools", pool, "defaults")  # in the effective spec, and causes there
    old, new = dict(leaves(before.data)), dict(leaves(after.data))
    for pointer in (*new, *(p for p in old if p not in new)):
        inside = any(pointer.within(fact) for fact in watched) and not pointer.within(layer)
        was, now = old.get(pointer), new.get(pointer)
        if inside and was != now:
            place = (after if pointer in new else before).place(pointer)
            yield Cause(pointer, was, now, place)
