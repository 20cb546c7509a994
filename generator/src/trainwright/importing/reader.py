"""The reader type: what is to be known of a kind beyond the model of its operator."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from trainwright.importing import beside
from trainwright.importing.source import (
    ImportingError,
    NotImported,
    Source,
    SourceObject,
    malformed,
)
from trainwright.kinds import TARGETS, predicted
from trainwright.model import Data, Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a reader makes of an object: what to import, what else is in it, what is not there."""

    parts: tuple[SourceObject, ...]
    left: tuple[NotImported, ...] = ()
    groups: tuple[NotImported, ...] = ()  # of pods, which no spec is made of
    assumed: tuple[Manifest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One kind of workload. `read` takes the object and all others that were given with it.

    `container` is the name that the operator looks for; without one it takes the first. `reasons`
    are patterns of JSON pointers and why what matches is left behind.
    """

    kind: str
    group: str
    container: str = ""
    read: Callable[[SourceObject, Sequence[SourceObject]], Read] = lambda part, _: Read(
        parts=(part,)
    )
    reasons: tuple[tuple[str, str], ...] = ()

    def source(self, part: SourceObject, others: Sequence[SourceObject], name: str) -> Source:
        """The workload with everything that belongs to it."""
        found = self.read(part, others)
        return Source(
            kind=self.kind,
            name=name,
            target=target_of(self.kind),
            parts=found.parts,
            left=found.left,
            groups=found.groups,
            assumed=found.assumed,
            reasons=self.reasons,
            container=self.container,
        )


def target_of(kind: str) -> str:
    """The target that renders a kind."""
    for target in TARGETS.values():
        if target.kind == kind:
            return target.name
    raise ImportingError(f"no target renders a {kind}")


def with_entrypoint(source: Source, words: tuple[str, ...]) -> Source:
    """The workload with the command that its image would start, where it has none itself."""
    parts = []
    for part in source.parts:
        body = copy.deepcopy(dict(part.body))
        for container in _containers(body, source.container):
            key = "entrypoint" if source.kind == "Compose" else "command"
            container.setdefault(key, list(words))
        parts.append(replace(part, body=body))
    return replace(source, parts=tuple(parts))


def with_beside(source: Source, others: Sequence[SourceObject]) -> Source:
    """The workload with the objects that are there for it, as far as a spec can ask for them."""
    try:
        with malformed(source.title):
            _, workload = predicted.find(source.manifests())
            pod = source.pod()
            found = [part for part in others if beside.belongs(part.body, workload, pod)]
    except ImportingError:  # which is said where it is imported
        return source
    return replace(source, parts=(*source.parts, *(replace(p, beside=True) for p in found)))


def _containers(body: Data, name: str) -> Iterator[dict[str, Data]]:
    """The container of each pod template that the operator looks for, and what stands for one."""
    if isinstance(body, list):
        for item in body:
            yield from _containers(item, name)
    if not isinstance(body, dict):
        return
    for key, value in body.items():
        if key == "containers" and isinstance(value, list):
            named = [c for c in value if isinstance(c, dict) and c.get("name") == name]
            yield from (named or [c for c in value if isinstance(c, dict)])[:1]
        elif key == "trainer" and isinstance(value, dict):
            yield value
        elif key == "services" and isinstance(value, dict):
            yield from (service for service in value.values() if isinstance(service, dict))
        else:
            yield from _containers(value, name)


def mapping(value: Data) -> Mapping[str, Data]:
    """A mapping wherever one should be; an empty one where something else stands."""
    return value if isinstance(value, Mapping) else {}
