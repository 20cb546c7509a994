"""Overrides that do nothing, or more than they seem to: in a job's file and in what it inherits.

All of them but the dropped items of lists prove themselves: without the key, the effective spec
(or at least the job that it describes, and so every rendered byte) is the same. Trainwright's own
defaults count as nothing inherited: writing one of them down keeps it when the tool's changes.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from functools import reduce

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ENVIRONMENTS, environment_path
from trainwright.datatypes.listing import listed
from trainwright.datatypes.model import DERIVED, PATCH, Data, Environment, Finding, Job, Related
from trainwright.datatypes.pointer import Pointer, leaves, lookup
from trainwright.datatypes.tolerant import identical
from trainwright.documents.yaml_syntax import missing_space
from trainwright.documents.yamlio import Document
from trainwright.findings import diagnostics as dx
from trainwright.specs import resolve
from trainwright.specs.load import Reader
from trainwright.specs.merge import BUILT_IN, ROLES, Layer, Layered, merge, without_nulls
from trainwright.validation import schema

# What a file says of itself, and not of the job.
_OF_THE_FILE = frozenset({"apiVersion", "kind", "name", "extends", "description", "waivers"})
# A command is replaced as a whole, and its words are no items of a set.
_COMMANDS = frozenset({"/entrypoint/argv"})

# By the part of a file that is a layer (`file#/pools/a/defaults`): pointers of values that decide
# nothing for a job.
# What a patch of the pods removes from them is a value of the patch, as of a role from its job.
_REMOVING, _NULL = (Pointer.of(PATCH), Pointer.of(ROLES)), object()

Idle = Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class _Written:
    """A value that a layer writes, what it inherits there, and whether a layer above hides it.

    `source` is None when no layer below has it; `inherited` is then None too. A mapping that
    is inherited stands for itself, whatever is in it.
    """

    layer: Layer
    pointer: Pointer
    value: Data
    inherited: Data = None
    source: Layer | None = None
    hidden: bool = False

    @property
    def idle(self) -> bool:
        """Whether the spec is the same without it."""
        if self.value is None:
            return self.hidden or self.source is None
        return self.hidden or identical(self.value, self.inherited)


@dataclass(frozen=True, slots=True)
class WrittenLayers:
    """Everything that the layers of one job write, the lowest first."""

    spec: Layered
    written: tuple[_Written, ...]

    def idle(self) -> Idle:
        """The values of each layer that decide nothing for this job: set again, or set alike."""
        found: dict[str, list[str]] = {}
        for one in self.written:
            if one.layer.by:  # what was not written decides nothing beside what was
                continue
            unused = found.setdefault(f"{one.layer.document.file}#{one.layer.root}", [])
            if one.idle:
                unused.append(one.pointer)
        return {file: tuple(pointers) for file, pointers in found.items()}

    def findings(self, job: Job, place: Environment) -> Iterator[Finding]:
        """What is wrong with the job's own overrides, and with lists anywhere below it."""
        own = self.spec.layers[-1]
        for one in self.written:
            if isinstance(one.value, list) and isinstance(one.inherited, list) and not one.hidden:
                yield from _dropped(one)
            if one.layer is own:
                yield from self._own(one, job, place)

    def _own(self, one: _Written, job: Job, place: Environment) -> Iterator[Finding]:
        if one.idle:
            yield _removes_nothing(one) if one.value is None else _equal(one)
        elif one.source is not None and one.pointer.parts[0] in DERIVED:
            yield from _unread(self.spec, job, place, one)


def read(spec: Layered) -> WrittenLayers:
    """Find out who writes what over whom. One pass: this is done for every job."""
    current: dict[Pointer, _Written] = {}  # by pointer, of the layers so far
    mappings: dict[Pointer, Layer] = {}  # where one of them has a mapping
    written: list[_Written] = []
    for layer in spec.layers:
        if layer.label != BUILT_IN:
            for pointer, value in _leaves(layer):
                one = _over(current, mappings, _Written(layer, pointer, value))
                if pointer.parts[0] != "files" or layer.wrote(pointer):  # else a folder's
                    written.append(one)
    return WrittenLayers(spec, tuple(written))


def _over(
    current: dict[Pointer, _Written], mappings: dict[Pointer, Layer], one: _Written
) -> _Written:
    """Lay one value over what the layers so far have written."""
    pointer = one.pointer
    before = current.get(pointer)
    if pointer in mappings:
        one.inherited, one.source = {}, mappings[pointer]
        if one.value != {}:
            for inner, hidden in list(current.items()):
                if inner != pointer and inner.within(pointer):
                    hidden.hidden = True
                    del current[inner]
            for inside in [mapping for mapping in mappings if mapping.within(pointer)]:
                del mappings[inside]
    elif before is not None:
        # A mapping leaves away what was removed or replaced below it, even an empty one.
        before.hidden = one.value != {}
        if before.value is not None:
            one.inherited, one.source = before.value, before.layer
    current[pointer] = one
    above = pointer.parent
    while above and above not in mappings:
        mappings[above] = one.layer
        above = above.parent
    return one


class Inherited:
    """By layer, how many jobs inherit it, and in how many of these each of its values is idle."""

    def __init__(self, jobs: Iterable[Idle] = ()):
        self._jobs: Counter[str] = Counter()
        self._idle: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for idle in jobs:
            self._jobs.update(idle.keys())
            for part, pointers in idle.items():
                self._idle[part].update(pointers)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Inherited) and self._jobs == other._jobs and self._idle == other._idle
        )

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def together(cls, several: Iterable[Inherited]) -> Inherited:
        """What all of several groups of jobs inherit."""
        found = cls()
        for each in several:
            found._jobs.update(each._jobs)
            for part, pointers in each._idle.items():
                found._idle[part].update(pointers)
        return found

    @property
    def parts(self) -> Collection[str]:
        """The layers that any job inherits."""
        return self._jobs.keys()

    def unused(self, part: str) -> tuple[tuple[Pointer, int], ...]:
        """The values that decide nothing in any job, and how many jobs inherit them."""
        jobs = self._jobs[part]
        idle = sorted(pointer for pointer, times in self._idle[part].items() if times == jobs)
        # Of one job there is no telling who will inherit from the file next.
        return tuple((Pointer(pointer), jobs) for pointer in idle) if jobs > 1 else ()


def shared(
    known: Mapping[str, Inherited | None], reader: Reader, *, whole: bool
) -> dict[str, tuple[Finding, ...]]:
    """By environment, the values of files its jobs inherit from that decide nothing in any job.

    `known` is None for an environment of which a job was left out or is broken. Unless the `whole`
    repository was looked at, only an environment's own file is known.
    """
    complete = whole and None not in known.values()
    parts = {
        name: [
            part
            for part in (inherited.parts if inherited else ())
            if complete or file_of(part) == environment_path(name)
        ]
        for name, inherited in known.items()
    }
    return _unused(parts, Inherited.together(filter(None, known.values())), reader)


def file_of(part: str) -> str:
    """The file that a layer is a part of."""
    return part.partition("#")[0]


def _unused(
    parts: Mapping[str, Collection[str]], inherited: Inherited, reader: Reader
) -> dict[str, tuple[Finding, ...]]:
    """By environment, what decides nothing in the layers that its jobs inherit.

    A value that several environments write alike is reported in the first of them.
    """
    found = {}
    reported: set[tuple[str, str, str]] = set()
    known: dict[str, tuple[tuple[Pointer, int], ...]] = {}  # most layers are of all environments
    for name in parts:
        for part in parts[name]:
            if part not in known:
                known[part] = () if _is_job(file_of(part), parts) else inherited.unused(part)
        idle = [
            (document, Pointer(root), pointer, times)
            for part in sorted(part for part in parts[name] if known[part])
            for file, _, root in (part.partition("#"),)
            if isinstance(document := reader.document(file), Document)  # else just edited
            for pointer, times in known[part]
        ]
        found[name] = tuple(
            _shadowed_everywhere(document, root, pointer, times, name)
            for document, root, pointer, times in idle
            if _written(document, root + pointer, name) not in reported
        )
        reported |= {
            _written(document, root + pointer, name) for document, root, pointer, _ in idle
        }
    return found


def _written(document: Document, pointer: str, environment: str) -> tuple[str, str, str]:
    """What tells one value from another: of an environment's own file, not the file.

    Environments that begin from one template write it alike, and one finding is about all of them.
    """
    if document.file != environment_path(environment):
        return document.file, pointer, ""
    return "", pointer, json.dumps(lookup(document.data, pointer), sort_keys=True)


def _is_job(file: str, environments: Container[str]) -> bool:
    """Whether a file that others extend is a job itself, in which its values decide."""
    inside, jobs, _ = file.removeprefix(f"{ENVIRONMENTS}/").rpartition("/jobs/")
    return bool(jobs) and inside in environments


def _shadowed_everywhere(
    document: Document, root: Pointer, pointer: Pointer, jobs: int, environment: str
) -> Finding:
    message = f"{pointer.dotted} decides nothing in any of the {jobs} jobs that inherit it"
    place = document.key_place(root + pointer)
    return dx.SHADOWED.at(place, message, path=pointer, subject=environment)


def _leaves(layer: Layer) -> Iterator[tuple[Pointer, Data]]:
    for key, value in layer.data.items():
        if key == "files":  # digests are not written by hand
            for at, leaf in leaves(value, Pointer.of(key)):
                if layer.wrote(at) or at.parts[-1] != "digest":
                    yield at, leaf
        elif key not in _OF_THE_FILE:
            for pointer, leaf in leaves(value, Pointer.of(key)):
                removed = leaf is None and any(
                    pointer != at and pointer.within(at) for at in _REMOVING
                )
                yield pointer, _NULL if removed else leaf


# --- findings ------------------------------------------------------------------------------------


def _from(one: _Written) -> tuple[Related, ...]:
    assert one.source is not None
    message = f"{one.source.label} sets {one.pointer.dotted}"
    return (Related("from", message, one.source.place(one.pointer)),)


def _equal(one: _Written) -> Finding:
    return dx.SAME_AS_INHERITED.at(
        one.layer.key_place(one.pointer),
        f"{one.pointer.dotted} is what the job inherits anyway",
        path=one.pointer,
        related=_from(one),
    )


def _removes_nothing(one: _Written) -> Finding:
    message = f"{one.pointer.dotted}: null removes nothing, since no layer sets it"
    meant = missing_space(one.pointer.parts[-1])
    remedy = f"A colon needs a space behind it: `{meant}`." if meant else ""
    place = one.layer.key_place(one.pointer)
    return dx.SAME_AS_INHERITED.at(place, message, remedy=remedy, path=one.pointer)


def _dropped(one: _Written) -> Iterator[Finding]:
    lost = [item for item in one.inherited if item not in one.value]
    if lost and one.pointer not in _COMMANDS:
        shown = listed([json.dumps(item, ensure_ascii=False) for item in lost])
        yield dx.DROPPED_ITEMS.at(
            one.layer.place(one.pointer),
            f"{one.pointer.dotted} replaces the inherited list and drops {shown}",
            path=one.pointer,
            related=_from(one),
        )


def _unread(spec: Layered, job: Job, place: Environment, one: _Written) -> Iterator[Finding]:
    if one.pointer == "/nodes" and job.elastic is None:
        return
    rest = without(spec, one.pointer)
    accepted = schema.effective_job().accepts(without_nulls(rest.data))
    if resolve.job(rest, place, job.source) == job and accepted:
        message = f"{one.pointer.dotted} changes nothing: the inherited value is the same"
        yield dx.UNREAD.at(one.layer.key_place(one.pointer), message, path=one.pointer)


def without(spec: Layered, pointer: Pointer) -> Layered:
    """The spec as it would be if its last layer did not write a pointer."""
    *below, own = (layer.data for layer in spec.layers)
    return Layered(reduce(merge, (*below, _removed(own, pointer.parts)), {}), spec.layers)


def _removed(data: Mapping[str, Data], keys: tuple[str, ...]) -> dict[str, Data]:
    key, rest = keys[0], keys[1:]
    kept = {k: v for k, v in data.items() if k != key or rest}
    if rest:
        kept[key] = _removed(data[key], rest)
    return kept
