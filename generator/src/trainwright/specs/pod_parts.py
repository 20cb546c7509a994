"""Parts of a spec that are written as Kubernetes has them, held against its own schemas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.validation import kubernetes_schemas, schema
from trainwright.documents.validation.list_maps import ListMaps
from trainwright.documents.validation.violation import Violation
from trainwright.findings import diagnostics as dx
from trainwright.specs.merge import Layered


@dataclass(frozen=True, slots=True)
class PodPart:
    """A value of a spec, its pointer, and the Kubernetes field that takes it unchanged: the type in
    io.k8s.api.core.v1 ("PodSpec", "Container", "Volume") and the field's name there.
    """

    at: Pointer
    value: Data
    type_: str
    field: str


def problems(parts: Iterable[PodPart], spec: Layered, version: str) -> Iterator[Finding]:
    """Yield what a Kubernetes minor version does not know or accept, at the lines that set it."""
    for part in parts:
        for violation in _violations(part, version):
            at = violation.pointer
            place = spec.key_origin(at) if violation.key else spec.origin(at)
            effect, remedy = dx.RENDERED_SCHEMA.effect, violation.remedy
            yield dx.SCHEMA.at(place, violation.message, effect=effect, remedy=remedy, path=at)


def _violations(part: PodPart, version: str) -> Iterator[Violation]:
    """Yield how a part of a pod breaks the schema of its field in a Kubernetes version."""
    *above, key = part.at.parts
    field_schema = schema.core_field(part.type_, part.field, key, len(above), version)
    if field_schema is None:
        when = kubernetes_schemas.when_core(part.type_, part.field, version)
        message = f"{part.at.dotted} is not a field of Kubernetes {version}: {when}"
        yield Violation(part.at, message, "Remove it, or raise kubernetes.version.", key)
        return
    written = part.value
    for step in reversed(part.at.parts):
        written = {step: written}
    for violation in field_schema.explain(written):
        yield schema.dated(violation, field_schema.root, version)
    yield from ListMaps(field_schema.root, version).repeated(written)
