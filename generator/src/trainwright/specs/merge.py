"""Merging layers into one spec: maps merge, scalars and lists replace, null removes (RFC 7396).

A podPatch is merged into the pods later, so its nulls stay: two layers' podPatches merge into one
that has the effect of both, one after the other. So do the nulls of a role, which is laid over its
job later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import reduce
from typing import TYPE_CHECKING, Any

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import DIRECTIVE, PATCH
from trainwright.datatypes.pointer import Pointer, lookup

if TYPE_CHECKING:
    from trainwright.documents.yamlio import Document
    from trainwright.findings.diagnostics import Diagnostic

ROLES = "roles"
# Labels of layers, lowest first: see `layers`. Labels of pools and fabrics have the pool's name.
BUILT_IN = "built-in"  # not a file of the repository
ONLY_TARGET = "only target"  # people wrote the target, but not that jobs default to it
DEFAULTS, ENVIRONMENT, BASE, JOB = "defaults", "environment", "base", "job"


def merge(below: Data, above: Data) -> Data:
    """Return `above` laid over `below`. Neither is changed; the result may share parts of them."""
    if not isinstance(above, dict):  # which parsers build: a check for an abstract class is slow
        return above
    merged = dict(below) if isinstance(below, dict) else {}
    for key, value in above.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _MERGES.get(key, merge)(merged.get(key), value)
        else:
            merged[key] = value
    return merged


def _patches(below: Data, above: Mapping[str, Data]) -> dict[str, Data]:
    """Return two layers' podPatches merged; null for a whole part removes what is set below."""
    merged = dict(below) if isinstance(below, Mapping) else {}
    for part, value in above.items():
        if value is None:
            merged.pop(part, None)
        else:
            there = merged.get(part)
            merged[part] = _patch(there, value) if isinstance(value, Mapping) else value
    return merged


def _patch(below: Data, above: Mapping[str, Data]) -> dict[str, Data]:
    """Return one patch for two in turn: what the lower one replaces or deletes stays so."""
    if not isinstance(below, Mapping) or DIRECTIVE in above:
        return dict(above)
    merged = dict(below)
    if DIRECTIVE in below and above:
        merged[DIRECTIVE] = "replace"
    for key, value in above.items():
        merged[key] = _patch(merged.get(key), value) if isinstance(value, Mapping) else value
    return merged


def _roles(below: Data, above: Mapping[str, Data]) -> dict[str, Data]:
    """Return two layers' roles merged; null inside a role removes what it inherits from its job."""
    merged = dict(below) if isinstance(below, Mapping) else {}
    for name, role in above.items():
        if role is None:
            merged.pop(name, None)
        else:
            merged[name] = _over(merged.get(name), role)
    return merged


def _over(below: Data, above: Data) -> Data:
    if not isinstance(above, Mapping):
        return above
    merged = dict(below) if isinstance(below, Mapping) else {}
    return {**merged, **{key: _over(merged.get(key), value) for key, value in above.items()}}


def without_nulls(data: Mapping[str, Data]) -> Mapping[str, Data]:
    """Return a merged spec without the nulls in roles, as its schema expects it."""
    roles = data.get(ROLES)
    return {**data, ROLES: merge({}, dict(roles))} if isinstance(roles, Mapping) else data


_MERGES = {PATCH: _patches, ROLES: _roles}


@dataclass(frozen=True, slots=True)
class Layer:
    """One file's contribution to a spec: the part of the document under `root`.

    If people did not write the document, `by` is the line of theirs that names the layer: their
    document and a pointer into it. The keys in `without` are left out of the layer.
    """

    label: str  # see `layers`
    document: Document
    root: Pointer = Pointer()
    by: tuple[Document, Pointer] | None = None
    without: frozenset[str] = frozenset()

    @property
    def data(self) -> Mapping[str, Data]:
        value = lookup(self.document.data, self.root)
        if not isinstance(value, Mapping):
            return {}
        return {k: v for k, v in value.items() if k not in self.without} if self.without else value

    def place(self, pointer: str) -> Location:
        """Return where people wrote a value of the layer."""
        document, at = self.written_as(pointer)
        return document.place(at)

    def key_place(self, pointer: str) -> Location:
        """Return where people wrote the key of a value of the layer."""
        document, at = self.written_as(pointer)
        return document.place(at) if self.by else document.key_place(at)

    def written_as(self, pointer: str) -> tuple[Document, Pointer]:
        """Return where people wrote a value: the document and the pointer into it."""
        return self.by or (self.document, Pointer(self.root + pointer))

    def wrote(self, pointer: str) -> bool:
        """Whether this layer has a value, null included, at the pointer."""
        if self.without.intersection(Pointer(pointer).parts[:1]):
            return False
        return self.root + pointer in self.document.places


_NULL = re.compile(r" \([^ ()]+: null\)")


@dataclass(frozen=True, slots=True)
class Layered:
    """A merged spec, with the line that set each of its values.

    Nothing is recorded while merging: since maps merge and everything else replaces, the origin
    of an effective value is simply the topmost layer that wrote its pointer. `contents` are the
    bytes of the files of the repository that it names, by path (see `files`).
    """

    data: Mapping[str, Data]
    layers: tuple[Layer, ...]  # lowest first
    contents: Mapping[str, bytes] = field(default_factory=dict)

    def origin(self, pointer: str) -> Location:
        """Return where the effective value was written, or else the nearest mapping around it."""
        layer, nearest = self._setter(pointer)
        return layer.place(nearest)

    def finding(self, kind: Diagnostic, at: Pointer, message: str, **more: Any) -> Finding:
        """Return a finding about the effective value, at the place where that was written."""
        remedy = self.removing(at, more.pop("remedy", ""))
        return kind.at(self.origin(at), message, path=at, remedy=remedy, **more)

    def removing(self, at: Pointer, remedy: str) -> str:
        """Return a remedy, without the null in it where only the job's own file has the value."""
        own = [layer for layer, _ in self.history(at)] == [self.layers[-1]]
        return _NULL.sub("", remedy) if own else remedy

    def authored(self, pointer: str) -> Location:
        """Return the line of a file that decides a value; without one, where the nearest mapping of
        the job's own file begins.
        """
        if self.setter(pointer).label != BUILT_IN:
            return self.origin(pointer)
        own, at = self.layers[-1], Pointer(pointer)
        while at and not own.wrote(at):
            at = at.parent
        return own.place(at)

    def origin_in(self, pointer: str, line: int, column: int) -> Location:
        """Return where a character of an effective text, by line and column from 0, was written."""
        layer, nearest = self._setter(pointer)
        if nearest != pointer:
            return layer.place(nearest)
        return layer.document.place_in(layer.root + nearest, line, column)

    def key_origin(self, pointer: str) -> Location:
        """Return where the key of the effective value was written."""
        layer, nearest = self._setter(pointer)
        return layer.key_place(nearest)

    def history(self, pointer: str) -> Iterator[tuple[Layer, Data]]:
        """Yield each layer that writes a value at the pointer, with that value, topmost first."""
        for layer in reversed(self.layers):
            if layer.wrote(pointer):
                yield layer, lookup(layer.data, pointer)

    def setter(self, pointer: str) -> Layer:
        """Return the layer that decides the value, or the mapping around it; else the job's own."""
        return self._setter(pointer)[0]

    def _setter(self, pointer: str) -> tuple[Layer, str]:
        while pointer:
            for layer in reversed(self.layers):
                if layer.wrote(pointer):
                    return layer, pointer
            pointer = Pointer(pointer).parent
        return self.layers[-1], ""


def stack(layers: tuple[Layer, ...]) -> Layered:
    """Return all layers, given lowest first, merged into one spec."""
    return Layered(reduce(merge, (layer.data for layer in layers), {}), layers)
