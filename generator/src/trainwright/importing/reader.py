"""Objects of any kind as workloads to import."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trainwright.datatypes.data import Data, mapping, sequence
from trainwright.datatypes.pointer import holders
from trainwright.importing import companions, kept_names, services
from trainwright.importing.placeholders import is_placeholder
from trainwright.importing.source import Source, naming
from trainwright.kinds import TARGETS, operators
from trainwright.kinds.kind import Kind
from trainwright.kinds.reading import ImportingError, SourceObject
from trainwright.objects.pods.pod import Workload


def source_of(kind: Kind, part: SourceObject, others: Sequence[SourceObject], name: str) -> Source:
    """Return the workload with everything that belongs to it."""
    reading = kind.reader.read(part, others)
    return Source(
        kind=kind.kind,
        name=name,
        target=kind.name,
        parts=reading.parts,
        left=(*part.left, *reading.left),
        assumed=reading.assumed,
        reasons=(*reading.reasons, *kind.reader.reasons),
        container=kind.container,
    )


def object_of(kind: Kind, metadata: Data, spec: Data) -> dict[str, Data]:
    """Return an object of a kind."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": spec,
    }


def with_entrypoint(source: Source, words: tuple[str, ...]) -> Source:
    """Return the workload with its image's own command filled in if it has no command."""
    return _filled(source, TARGETS[source.target].of.reader.entrypoint, list(words))


def with_image(source: Source, image: str) -> Source:
    """Return the workload with an image filled in if it has none, or only a placeholder."""
    return _filled(source, "image", image)


def _filled(source: Source, field: str, value: Data) -> Source:
    """Return the workload with a field of the training container filled in if it has no value."""
    parts = []
    for part in source.parts:
        body = copy.deepcopy(dict(part.body))
        for container in _containers(body, source.container):
            if field not in container or is_placeholder(container[field]):
                container[field] = value
        parts.append(replace(part, body=body))
    return replace(source, parts=tuple(parts))


def with_beside(source: Source, others: Sequence[SourceObject]) -> Source:
    """Return the workload with its companion objects, as far as a spec can request them."""
    try:
        with naming(source.title):
            _, workload = operators.find(source.manifests())
            pod = source.pod()
            pods = (pod, *source.serving())
            companion_parts = [
                part
                for part in others
                if any(companions.belongs(part, workload, candidate) for candidate in pods)
            ]
            led = services.find(others, workload, _at_its_largest(source))
    except ImportingError:  # which is said where it is imported
        return source
    named = kept_names.in_configs(
        [o for o in others if o not in companion_parts], source.workload()
    )
    parts = (*source.parts, *(replace(p, beside=True) for p in companion_parts))
    return replace(
        source,
        parts=tuple(services.with_hosts(part, led, workload.namespace) for part in parts),
        services=led.leading,
        left=(*source.left, *named),
    )


def _at_its_largest(source: Source) -> Workload:
    """Return the pods that there may be, of an elastic workload all that join."""
    workload = source.workload()
    if workload.sizes is None:
        return workload
    return operators.workload(source.manifests(), workload.sizes[1])


def _containers(body: Data, name: str) -> Iterator[dict[str, Data]]:
    """Yield each pod template's training container, or its equivalent: a trainer or a service."""
    for _, holder in holders(body):
        listed = [c for c in sequence(holder.get("containers")) if isinstance(c, dict)]
        yield from ([c for c in listed if c.get("name") == name] or listed)[:1]
        others = (holder.get("trainer"), *mapping(holder.get("services")).values())
        yield from (other for other in others if isinstance(other, dict))
