"""Parts of a spec that are written as Kubernetes has them, held against its own schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data
from trainwright.datatypes.fields import spelled
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import CONTAINER_FIELDS, CONTAINER_PARTS, POD_FIELDS
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.volumes import VOLUME_SOURCES
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


def problems(spec: Layered, version: str) -> Iterator[Finding]:
    """Yield what a Kubernetes minor version does not know or accept, at the lines that set it."""
    for part in _parts(spec):
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


# Fields written as in Kubernetes: pointer in the spec, Kubernetes type, name in that type.
_PARTS = (
    ("affinity", "PodSpec", "affinity"),
    *((spelled(name), "PodSpec", key) for name, key in POD_FIELDS.items()),
    *((spelled(name), "Container", key) for name, key in CONTAINER_FIELDS.items()),
)


_OF_SECURITY = ("seccompProfile", "appArmorProfile", "seLinuxOptions", "sysctls")


# Volume sources for which the job schema is as complete as that of Kubernetes.
_OWN_SOURCES = frozenset(
    {"hostPath", "emptyDir", "configMap", "secret", "nfs", "persistentVolumeClaim"}
)


def _parts(spec: Layered) -> Iterator[PodPart]:
    """Yield the structures of a spec to check against Kubernetes' own schemas. Scalars are checked
    by ours, as otherwise every job would wait for those to load.
    """
    for field, type_, key in _PARTS:
        value = spec.data.get(field)
        if value and isinstance(value, dict | list):
            yield PodPart(Pointer.of(field), value, type_, key)
    yield from _security_parts(spec.data, Pointer(), "PodSecurityContext")
    for name, volume in spec.data.get("volumes", {}).items():
        for key in VOLUME_SOURCES & volume.keys() - _OWN_SOURCES:
            yield PodPart(Pointer.of("volumes", name, key), volume[key], "Volume", key)
    for field in ("initContainers", "sidecars"):
        for name, container in spec.data.get(field, {}).items():
            yield from _container_parts(container, Pointer.of(field, name))


def _container_parts(container: Mapping[str, Data], at: Pointer) -> Iterator[PodPart]:
    for key in container.keys() & set(CONTAINER_PARTS):
        if isinstance(container[key], Mapping | list):
            yield PodPart(at / key, container[key], "Container", key)
    yield from _security_parts(container, at, "SecurityContext")


def _security_parts(holder: Mapping[str, Data], at: Pointer, type_: str) -> Iterator[PodPart]:
    security = holder.get("security", {})
    for key in _OF_SECURITY:
        if key in security:
            yield PodPart(at / "security" / key, security[key], type_, key)
