"""Manifests at an earlier commit: each object that has changed since, with its present form."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.files import git
from trainwright.manifests import reading
from trainwright.manifests.checking import ObjectLocation
from trainwright.manifests.reading import Chunk, Source

_Identity = tuple[str, str, str, str]
_Key = tuple[Path, _Identity]


@dataclass(frozen=True, slots=True)
class Pair:
    """One object before and after an edit, with the index of its text and its place in that."""

    before: Manifest
    after: Manifest
    chunk: int
    at: ObjectLocation


def pairs(paths: tuple[str, ...], chunks: Sequence[Chunk], against: str) -> Iterator[Pair]:
    """Yield every object that has changed since the newest commit shared with a revision.

    Objects with one identity are the same if they are in the same file. One that left a file is the
    same as one that came into another, if there is only one of each. Raise GitError.
    """
    were = {file: raw for path in paths for file, raw in _differing(Path(path), against)}
    old: dict[_Key, Manifest] = {}
    for file, raw in were.items():
        for _, manifest in _objects(reading.split(Source("", raw))):
            old.setdefault((file, manifest.identity), manifest)
    new: dict[_Key, tuple[Manifest, int, ObjectLocation]] = {}
    for number, chunk in enumerate(chunks):
        lies = _absolute(Path(chunk.file))
        if lies in were:
            for at, manifest in _objects([chunk]):
                new.setdefault((lies, manifest.identity), (manifest, number, at))
    for was, now in _matched(old, new):
        before, (after, number, at) = old[was], new[now]
        if before.body != after.body:
            yield Pair(before, after, number, at)


def _differing(path: Path, against: str) -> Iterator[tuple[Path, bytes]]:
    """Yield each file at a path that differs from the commit, and its content there, if any."""
    folder = path if path.is_dir() else path.parent
    repository, inside = git.find(folder)
    base = repository.merge_base(against, "HEAD")
    changed = repository.changed(base, inside)
    wanted = filter(reading.is_manifest, changed) if path.is_dir() else changed & {path.name}
    in_commit = {f"{inside}/{file}" if inside else file: file for file in sorted(wanted)}
    were = repository.tree(base).several(in_commit) if in_commit else {}
    for name, file in in_commit.items():
        yield folder.resolve() / file, were.get(name, b"")


def _absolute(file: Path) -> Path:
    """Return a file's absolute path, resolving links of its folder but not the file itself."""
    return file.parent.resolve() / file.name


def _objects(chunks: Iterable[Chunk]) -> Iterator[tuple[ObjectLocation, Manifest]]:
    for chunk in chunks:
        for document, pointer, manifest in reading.manifests(chunk):
            if manifest.name:
                yield ObjectLocation(document, pointer), manifest


def _matched(old: Iterable[_Key], new: Iterable[_Key]) -> Iterator[tuple[_Key, _Key]]:
    """Yield the keys of each object that is on both sides."""
    left, came = dict.fromkeys(old), dict.fromkeys(new)
    yield from ((key, key) for key in left if key in came)
    gone, fresh = _by_identity(left, came), _by_identity(came, left)
    for identity, keys in gone.items():
        if len(keys) == len(fresh.get(identity, ())) == 1:
            yield keys[0], fresh[identity][0]


def _by_identity(keys: Iterable[_Key], others: Container[_Key]) -> dict[_Identity, list[_Key]]:
    """Return the keys that are not among others, by identity."""
    by_identity: dict[_Identity, list[_Key]] = {}
    for key in keys:
        if key not in others:
            by_identity.setdefault(key[1], []).append(key)
    return by_identity
