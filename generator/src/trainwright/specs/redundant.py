"""Overrides that do nothing, or more than they seem to.

All of them but dropped list items are proven: without the key, the effective spec (or at least
the job that it describes, and so every rendered byte) is the same. Trainwright's own defaults do
not count as inherited: writing one down keeps it when the tool's default changes. Neither does the
only target of an environment, which is no longer the default once there is a second one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import reduce

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Finding, Related
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import DERIVED, PATCH, Job
from trainwright.datatypes.listing import listed
from trainwright.datatypes.pointer import Pointer, leaves, without_value
from trainwright.datatypes.same import identical
from trainwright.documents.validation import schema
from trainwright.documents.yaml_syntax import missing_space
from trainwright.findings import diagnostics as dx
from trainwright.objects.pods.launchers import LAUNCHERS, plain
from trainwright.specs import resolve
from trainwright.specs.merge import (
    BUILT_IN,
    ONLY_TARGET,
    ROLES,
    Layer,
    Layered,
    merge,
    without_nulls,
)

# Fields that describe the file, and not the job.
_OF_THE_FILE = frozenset({"apiVersion", "kind", "name", "extends", "description", "waivers"})
# A command is replaced as a whole: its arguments are not a set from which some are dropped.
_COMMANDS = frozenset({"/entrypoint/argv"})

# What a patch of the pods removes from them is a value of the patch, as of a role from its job.
_REMOVING, _NULL = (Pointer.of(PATCH), Pointer.of(ROLES)), object()


@dataclass(slots=True)
class _Written:
    """A value that a layer writes, what it inherits there, and whether a layer above hides it.

    `source` is None when no layer below has it; `inherited` is then None too. An
    inherited mapping is {} here, whatever it contains.
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


def findings(spec: Layered, job: Job, place: Environment) -> Iterator[Finding]:
    """Yield findings for values that change nothing, and for lists that drop inherited items."""
    yield from _other_flags(spec, job)
    own = spec.layers[-1]
    for entry in read(spec):
        if isinstance(entry.value, list) and isinstance(entry.inherited, list) and not entry.hidden:
            yield from _dropped(entry)
        if entry.layer is not own:
            continue
        if entry.idle:
            yield _removes_nothing(entry) if entry.value is None else _equal(entry)
        elif entry.pointer == "/launcher" and not job.entrypoint.launched:
            yield from _launches_nothing(entry, job)
        elif entry.source is not None and entry.pointer.parts[0] in DERIVED:
            yield from _unread(spec, job, place, entry)


def read(spec: Layered) -> tuple[_Written, ...]:
    """Return every value that the layers of a job write, with what it overrides, lowest layer
    first. Built-in defaults and an only target do not count.
    """
    current: dict[Pointer, _Written] = {}  # by pointer, of the layers so far
    mappings: dict[Pointer, Layer] = {}  # where one of them has a mapping
    written: list[_Written] = []
    for layer in spec.layers:
        if layer.label not in (BUILT_IN, ONLY_TARGET):
            for pointer, value in _leaves(layer):
                entry = _over(current, mappings, _Written(layer, pointer, value))
                if not pointer.within("/files") or layer.wrote(pointer):  # else a folder's
                    written.append(entry)
    return tuple(written)


def _over(
    current: dict[Pointer, _Written], mappings: dict[Pointer, Layer], entry: _Written
) -> _Written:
    """Lay one value over what lower layers have written; return it with what it inherits."""
    pointer = entry.pointer
    before = current.get(pointer)
    if pointer in mappings:
        entry.inherited, entry.source = {}, mappings[pointer]
        if entry.value != {}:
            for inner, hidden in list(current.items()):
                if inner != pointer and inner.within(pointer):
                    hidden.hidden = True
                    del current[inner]
            for inside in [mapping for mapping in mappings if mapping.within(pointer)]:
                del mappings[inside]
    elif before is not None:
        # Under a mapping, even an empty one, what a lower layer removed or replaced stays gone.
        before.hidden = entry.value != {}
        if before.value is not None:
            entry.inherited, entry.source = before.value, before.layer
    current[pointer] = entry
    above = pointer.parent
    while above and above not in mappings:
        mappings[above] = entry.layer
        above = above.parent
    return entry


def _leaves(layer: Layer) -> Iterator[tuple[Pointer, Data]]:
    """Yield each value that a layer writes, after its pointer."""
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


def _from(entry: _Written) -> tuple[Related, ...]:
    assert entry.source is not None
    message = f"{entry.source.label} sets {entry.pointer.dotted}"
    return (Related("from", message, entry.source.place(entry.pointer)),)


def _equal(entry: _Written) -> Finding:
    return dx.SAME_AS_INHERITED.at(
        entry.layer.key_place(entry.pointer),
        f"{entry.pointer.dotted} is what the job inherits anyway",
        path=entry.pointer,
        related=_from(entry),
    )


def _removes_nothing(entry: _Written) -> Finding:
    message = f"{entry.pointer.dotted}: null removes nothing, since no layer sets it"
    meant = missing_space(entry.pointer.parts[-1])
    remedy = f"A colon needs a space behind it: `{meant}`." if meant else ""
    if not meant and entry.pointer.parent == Pointer.of("flags"):
        message = f"{entry.pointer.dotted} has no value, and null passes no option"
        remedy = "Keep it with a value, which is `true` for a switch."
    place = entry.layer.key_place(entry.pointer)
    return dx.SAME_AS_INHERITED.at(place, message, remedy=remedy, path=entry.pointer)


def _launches_nothing(entry: _Written, job: Job) -> Iterator[Finding]:
    """Yield a finding for a launcher beside a whole command; `python` is none, as it says."""
    started = "image" if job.entrypoint.image else "argv"
    if job.launcher != "python":
        yield dx.UNREAD.at(
            entry.layer.key_place(entry.pointer),
            f"launcher changes nothing: entrypoint.{started} is the whole command",
            remedy=f"Remove it, or write entrypoint.script or .module in place of {started}.",
            path=entry.pointer,
        )


# Names that only launchers have for their options.
_OF_LAUNCHERS = re.compile(
    "nproc-per-node|nnodes|rdzv-.+|max-restarts|machine-rank|main-process-(ip|port)"
)


def _other_flags(spec: Layered, job: Job) -> Iterator[Finding]:
    """Yield a finding for each flag that does not set the option of the launcher that has its name,
    or that is beside the same flag in another spelling and does not override it.
    """
    launcher, seen = LAUNCHERS[job.launcher], dict[str, str]()
    for name in job.flags if job.entrypoint.launched else ():
        at, message, remedy = Pointer.of("flags", name), "", ""
        if (first := seen.setdefault(plain(name), name)) != name:
            message = f"{at.dotted} does not override {Pointer.of('flags', first).dotted}"
            remedy = "Keep the one that the program has."
            effect = "The program refuses one of them, or reads the last."
        elif _OF_LAUNCHERS.fullmatch(plain(name)) and launcher.has(name):
            message = f"{at.dotted} sets nothing of {job.launcher}: flags are the program's"
            by = launcher.decided.get(plain(name), "")
            remedy = f"Set {by} in place of it" if by else "Move it to launcherOptions"
            remedy = "Leave it to the target" if by.startswith("the target") else remedy
            remedy += "; an option of the program itself goes to entrypoint.args."
            effect = "The program ends at once, with unrecognized arguments."
        if message:
            place = spec.key_origin(at)
            yield dx.UNREAD.at(place, message, path=at, remedy=remedy, effect=effect)


def _dropped(entry: _Written) -> Iterator[Finding]:
    """Yield a finding if a list drops items of the inherited list that it replaces."""
    lost = [item for item in entry.inherited if item not in entry.value]
    if lost and entry.pointer not in _COMMANDS:
        shown = listed([json.dumps(item, ensure_ascii=False) for item in lost])
        yield dx.DROPPED_ITEMS.at(
            entry.layer.place(entry.pointer),
            f"{entry.pointer.dotted} replaces the inherited list and drops {shown}",
            path=entry.pointer,
            related=_from(entry),
        )


def _unread(spec: Layered, job: Job, place: Environment, entry: _Written) -> Iterator[Finding]:
    if entry.pointer == "/nodes" and job.elastic is None:
        return
    rest = without(spec, entry.pointer)
    accepted = schema.effective_job().accepts(without_nulls(rest.data))
    if resolve.job(rest, place, job.source) == job and accepted:
        message = f"{entry.pointer.dotted} changes nothing: the inherited value is the same"
        yield dx.UNREAD.at(entry.layer.key_place(entry.pointer), message, path=entry.pointer)


def without(spec: Layered, pointer: Pointer) -> Layered:
    """The spec as it would be if its last layer did not write a pointer."""
    *below, own = (layer.data for layer in spec.layers)
    return Layered(reduce(merge, (*below, without_value(own, pointer)), {}), spec.layers)
