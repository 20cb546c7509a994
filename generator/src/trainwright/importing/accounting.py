"""What became of every single value of the imported input.

There is no list of the fields that matter. Each value is removed, and then changed. If the normal
form changes with it, the value has a meaning, and the rendered run has to agree in just those
places. A value that changes nothing at all is one that no operator model reads, so there is no
promise that it was carried over.

Most values are texts that come out unchanged. Those of one field, such as all values of variables,
are changed at once, each with a mark of its own; only values whose marks cannot be told apart are
changed one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, TypeVar

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer, lookup, scalars, with_value, without_value
from trainwright.importing.equivalence import comparison, form
from trainwright.importing.equivalence.comparison import in_every_pod, values
from trainwright.importing.equivalence.form import NormalForm
from trainwright.importing.source import Source, naming, read
from trainwright.kinds.reading import ImportingError
from trainwright.kinds.target import in_group

Fate = Literal["carried", "left"]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One value of the input and its fate.

    `changed` are the paths of the normal form that depend on it and came out differently; a value
    that is `left` without any is one that nothing here reads.
    """

    part: int
    pointer: Pointer
    value: Data
    fate: Fate
    changed: tuple[Pointer, ...] = ()


def accounts(source: Source, of_all: NormalForm, rendered: NormalForm) -> tuple[Account, ...]:
    """Return every value of the input with its fate, from the normal forms before and after."""
    manifests, workload = source.manifests(), source.workload()
    numbers = form.sample(workload)
    run = read(manifests, workload, sampled=True)
    before, after = values(run), values(_sampled(rendered, numbers))
    differing = frozenset(comparison.changed(of_all, rendered))
    all_accounts: list[Account] = []
    touched: list[_Touched] = []
    for index, part in enumerate(source.parts):
        of_part = _Part(
            source=source,
            index=index,
            run=run,
            before=before,
            after=after,
        )
        fates = dict(of_part.fates())
        for pointer, value in scalars(part.body):
            fate, sets = fates.get(pointer, ("carried", ()))
            changed = tuple(dict.fromkeys(path for paths in sets for path in paths))
            changed = tuple(p for p in changed if before.get(p) != after.get(p))
            all_accounts.append(
                Account(part=index, pointer=pointer, value=value, fate=fate, changed=changed)
            )
            touched.append(sets)
    return tuple(
        replace(account, changed=tuple(_in_each(account.changed, numbers, differing)))
        for account in _blamed(all_accounts, touched, after)
    )


def _in_each(
    paths: tuple[Pointer, ...], numbers: tuple[int, ...], differing: frozenset[Pointer]
) -> Iterator[Pointer]:
    """Yield paths of the sample in all pods that they represent, where these came out changed."""
    for path in paths:
        yield from (pod_path for pod_path in _in_all(path, numbers) if pod_path in differing)


_NUMBERED = re.compile(r"/pods/(\d+)(/.*)", re.DOTALL)


def _sampled(run: NormalForm, numbers: tuple[int, ...]) -> NormalForm:
    """Return a run with only those pods that represent all of them."""
    return replace(run, pods=tuple(run.pods[at] for at in numbers if at < len(run.pods)))


def _in_all(path: Pointer, numbers: tuple[int, ...]) -> Iterator[Pointer]:
    """Yield a path of the sample in every pod that it represents."""
    match = _NUMBERED.fullmatch(path)
    if match is None:
        yield path
        return
    place = int(match[1])
    first = numbers[place - 1] + 1 if place else 0
    for number in range(first, numbers[place] + 1):
        yield Pointer(f"/pods/{number}{match[2]}")


_Touched: TypeAlias = tuple[tuple[Pointer, ...], ...]  # paths that change together


def _blamed(
    all_accounts: list[Account], touched: list[_Touched], rendered: Mapping[Pointer, Data]
) -> Iterator[Account]:
    """Yield the accounts: a path that one value decides alone counts for no other value, and a
    value without paths left is carried.
    """
    deciding = [
        {touched_paths for touched_paths in map(_in_any_pod, sets) if len(touched_paths) == 1}
        for sets in touched
    ]
    rendered_paths = _in_any_pod(tuple(rendered))
    alone = frozenset(
        path for sets in deciding for paths in sets for path in paths if path in rendered_paths
    )
    for account, own in zip(all_accounts, deciding, strict=True):
        kept = tuple(
            path
            for path in account.changed
            if not _in_any_pod((path,)) & alone or _in_any_pod((path,)) in own
        )
        carried = account.fate == "left" and account.changed and not kept
        yield replace(account, changed=kept, fate="carried" if carried else account.fate)


def _in_any_pod(paths: tuple[Pointer, ...]) -> frozenset[Pointer]:
    return frozenset(map(in_every_pod, paths))


# --- one part of the input, with its values changed ----------------------------------------------

_Paths: TypeAlias = tuple[Pointer, ...] | None  # None if the object can no longer be read
_OF_A_POD = re.compile(r"(?:/roles/[^/]+)?/pods/\d+/(?!processes/)")
_CONTAINER = re.compile(r"((?:/roles/[^/]+)?/pods/\d+/(?:init|sidecars)/[^/]+/)(.*)", re.DOTALL)
_SIZES = frozenset({Pointer("/nodes"), Pointer("/elastic/0"), Pointer("/elastic/1")})
_KEPT = "/pods/*/restart/keeps/*"
# What makes an object this object; the name becomes the spec's.
_IDENTITY = frozenset(
    {"/apiVersion", "/kind", "/metadata/name", "/metadata/generateName", "/spec/name"}
)
_NUMBER = re.compile(r"/\d+(?=/|$)")
_MARK = re.compile(r"x(\d+)-mark")
_ASSIGNS = re.compile(r"[A-Za-z_]\w*=")
_TOO_FEW = 3  # to be worth it to mark them
# Words that an API defines, in place of which it takes no others: OnFailure, Exists.
_ENUMERATED = re.compile(r"[A-Z][a-zA-Z]*")
_NAMES_A_VOLUME = re.compile(
    r"(?P<pod>.*)/(?:volumes|(?:c|initC)ontainers/\d+/(?P<mounts>volumeMounts))/\d+/name"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A part of the input, and what the normal form of the whole comes to if the part changes.

    `run` is the form of a sample of the pods, `before` are its values, and `after` those of the
    rendered run.
    """

    source: Source
    index: int
    run: NormalForm
    before: Mapping[Pointer, Data]
    after: Mapping[Pointer, Data]

    @property
    def body(self) -> Mapping[str, Data]:
        return self.source.parts[self.index].body

    def fates(self) -> Iterator[tuple[Pointer, tuple[Fate, _Touched]]]:
        """Yield the fate of each value that may not be carried, and the paths that it affects."""
        carried = frozenset(self._carried_together()) | _IDENTITY
        removals = {
            pointer: self._paths(without_value(self.body, pointer))
            for pointer, _ in scalars(self.body)
            if pointer not in carried
        }
        unread = frozenset(self._unread([p for p, paths in removals.items() if paths == ()]))
        for pointer, removal in removals.items():
            yield pointer, ("left", ()) if pointer in unread else self._fate(pointer, removal)

    # --- values that are tried together ----------------------------------------------------------

    def _carried_together(self) -> Iterator[Pointer]:
        """Yield the texts that come out unchanged, trying all those of one field at once, and then
        all those of fields that have few.
        """
        fields: dict[str, list[Pointer]] = {}
        for pointer, value in scalars(self.body):
            if isinstance(value, str) and not _MARK.search(value):
                fields.setdefault(_NUMBER.sub("/*", pointer), []).append(pointer)
        for pointers in fields.values():
            yield from self._marked(pointers)
        for volume in _passing(_names_of_volumes(self.body), self._are_mounted):
            yield from volume
        few = (p for pointers in fields.values() if len(pointers) < _TOO_FEW for p in pointers)
        yield from self._marked(list(filter(self._is_free, few)), mixed=True)

    def _is_free(self, pointer: Pointer) -> bool:
        """Whether any other text could be in the place of one."""
        is_name = pointer in _IDENTITY or _NAMES_A_VOLUME.fullmatch(pointer)
        return not is_name and not _ENUMERATED.fullmatch(lookup(self.body, pointer))

    def _are_mounted(self, volumes: Sequence[tuple[Pointer, ...]]) -> bool:
        """Whether without the names of volumes only values would go that are the same in the
        rendered run.
        """
        body: Data = self.body
        for pointer in (pointer for places in volumes for pointer in places):
            body = without_value(body, pointer)
        paths = self._own(self._paths(body))
        return bool(paths and self._agree(paths))

    def _marked(self, pointers: Sequence[Pointer], *, mixed: bool = False) -> Iterator[Pointer]:
        """Yield the places whose marks are in the normal form, and only in paths for which the
        rendered run still agrees with the original.

        If places of several fields are `mixed`, one can decide whether another is read: marks in
        paths that are new prove nothing.
        """
        if len(pointers) < _TOO_FEW:
            return
        body: Data = self.body
        for number, pointer in enumerate(pointers):
            body = with_value(body, pointer, f"{lookup(body, pointer)}x{number}-mark")
        changed = self._form_with(body)
        paths = None if changed is None else self._own(self._changed(changed))
        if paths is not None and changed is not None:
            marked = values(changed)
            marks = {
                p: set(_MARK.findall(f"{p} {marked.get(p, '')}"))
                for p in paths
                if not mixed or p in self.before
            }
            lost = [p for p in paths if self.before.get(p) != self.after.get(p)]
            seen = set().union(*marks.values())
            if not seen:  # such as names of volumes: no mark of theirs shows, however few are tried
                return
            if all(marks.get(path) for path in lost):
                seen.difference_update(*(marks[path] for path in lost))
                yield from (pointers[int(number)] for number in seen)
                return
        middle = len(pointers) // 2
        yield from self._marked(pointers[:middle], mixed=mixed)
        yield from self._marked(pointers[middle:], mixed=mixed)

    def _unread(self, pointers: Sequence[Pointer]) -> Iterator[Pointer]:
        """Yield those pointers whose values can be changed without effect.

        They are texts: of anything else there are few others.
        """

        def change_nothing(some: Sequence[Pointer]) -> bool:
            return all(self._paths(body) == () for body in _all_otherwise(self.body, some))

        texts = [pointer for pointer in pointers if isinstance(lookup(self.body, pointer), str)]
        return _passing(texts, change_nothing)

    # --- a value by itself -----------------------------------------------------------------------

    def _fate(self, pointer: Pointer, removal: _Paths) -> tuple[Fate, _Touched]:
        """Return a value's fate and, if it is left, the paths that it affects."""
        value = lookup(self.body, pointer)

        def touched_of(found: _Paths) -> _Paths:
            paths = self._own(found)
            return paths if paths is None else _without_kept(paths, pointer)

        without = touched_of(removal)
        if without and self._agree(without):
            return "carried", ()
        touched = [without]
        for other in _others(value):
            paths = touched_of(self._paths(with_value(self.body, pointer, other)))
            # One change that affects only paths that come out the same is enough.
            if paths and self._agree(paths):
                return "carried", ()
            touched.append(paths)
        effects = tuple(paths for paths in touched if paths)
        if effects:
            return "left", effects
        # A value is needed if the object cannot be read with any other: then the values around it
        # show whether it was carried. An empty mapping without effect means nothing.
        needed = all(paths is None for paths in touched)
        return ("carried" if needed or value in ({}, []) else "left"), ()

    def _agree(self, paths: tuple[Pointer, ...]) -> bool:
        return all(self.before.get(path) == self.after.get(path) for path in paths)

    def _own(self, paths: _Paths) -> _Paths:
        """Return the paths without those of containers that come and go whole, and were carried.

        Their own values are accountable for what is otherwise in them: no name, no restartPolicy.
        """
        if paths is None:
            return None
        carried = {path for path in paths if self.before.get(path) == self.after.get(path)}
        matches = {path: _CONTAINER.fullmatch(path) for path in paths}
        return tuple(
            path
            for path, match in matches.items()
            if match is None or match[2] == "image" or f"{match[1]}image" not in carried
        )

    # --- the normal form with another body -------------------------------------------------------

    def _paths(self, body: Data) -> _Paths:
        """Return the paths that change with another body; None if it cannot be read any more."""
        changed = self._form_with(body)
        return None if changed is None else self._changed(changed)

    def _form_with(self, body: Data) -> NormalForm | None:
        """Return the normal form with another body; None if it cannot be read any more."""
        bodies = [part.body for part in self.source.parts]
        bodies[self.index] = body
        manifests = (*(Manifest(body=each) for each in bodies), *self.source.assumed)
        try:
            with naming(self.source.title):
                return read(manifests, self.source.made_of(manifests), sampled=True)
        except ImportingError:
            return None

    def _changed(self, other: NormalForm) -> tuple[Pointer, ...]:
        changed = comparison.changed(self.run, other)
        # When the number of pods changes, all paths of these pods come or go: other values account
        # for those.
        if _SIZES & set(changed) or any(path.matches("/roles/*/nodes") for path in changed):
            changed = [path for path in changed if not _OF_A_POD.match(path)]
        return tuple(changed)


def _names_of_volumes(body: Data) -> list[tuple[Pointer, ...]]:
    """Return the places of the name of each volume that a container mounts."""
    named: dict[tuple[str, Data], list[tuple[bool, Pointer]]] = {}
    for pointer, value in scalars(body):
        if match := _NAMES_A_VOLUME.fullmatch(pointer):
            use = (match["mounts"] is not None, pointer)
            named.setdefault((match["pod"], str(value)), []).append(use)
    return [
        tuple(pointer for _, pointer in uses)
        for uses in named.values()
        if {is_mount for is_mount, _ in uses} == {True, False}
    ]


def _passing(items: Sequence[_Item], test: Callable[[Sequence[_Item]], bool]) -> Iterator[_Item]:
    """Yield the items that pass a test together: all, or of each half those that do."""
    if items and test(items):
        yield from items
    elif len(items) > 1:
        middle = len(items) // 2
        yield from _passing(items[:middle], test)
        yield from _passing(items[middle:], test)


def _all_otherwise(body: Data, pointers: Sequence[Pointer]) -> Iterator[Data]:
    """Yield a part with all of the values otherwise, in as many ways as there are."""
    others = [(pointer, _others(lookup(body, pointer))) for pointer in pointers]
    for ways in zip(*(ways_of_one for _, ways_of_one in others), strict=True):
        changed = body
        for (pointer, _), other in zip(others, ways, strict=True):
            changed = with_value(changed, pointer, other)
        yield changed


def _without_kept(paths: tuple[Pointer, ...], pointer: Pointer) -> tuple[Pointer, ...]:
    """Return the paths without volumes that a restart keeps, but for the value that decides it."""
    if pointer.last == "restartPolicy":
        return paths
    return tuple(path for path in paths if not in_group(path).matches(_KEPT))


def _others(value: Data) -> tuple[Data, ...]:
    """Return values of the same type that would mean something else in any field."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int | float):
        return (value + 1, 0)
    if isinstance(value, str) and _ASSIGNS.match(value):  # without its name it is another variable
        return (f"{value}x",)
    if isinstance(value, str):
        return (f"{value}x", "Never", "1", "true")
    return ()
