"""CustomResourceDefinitions: read from a folder, and what each requires of an object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.documents.validation import kubernetes_schemas
from trainwright.documents.validation.schema import Schema, with_kubernetes
from trainwright.findings import diagnostics as dx
from trainwright.manifests import reading, structural, unrendered
from trainwright.manifests.reading import Chunk
from trainwright.manifests.structural import Structural

_READ, _KIND = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
_DEFINITION = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
_METADATA = {"$ref": f"{kubernetes_schemas.URI}#/$defs/{kubernetes_schemas.OBJECT_META}"}


@dataclass(frozen=True)
class Crd:
    """One served version of a CustomResourceDefinition."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    root: Structural
    kubernetes: str  # minor version, whose ObjectMeta is the schema of its metadata
    with_status: bool = False  # a subresource: the server drops `status` from what is applied

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @cached_property
    def schema(self) -> Schema:
        """The JSON Schema of what strict field validation accepts."""
        root = dict(self.root)
        if self.with_status:
            fields = {k: v for k, v in root.get("properties", {}).items() if k != "status"}
            root["properties"] = {
                **fields,
                "status": {"x-kubernetes-preserve-unknown-fields": True},
            }
        return with_kubernetes(structural.strict(root, _METADATA), self.kubernetes)

    @cached_property
    def described(self) -> Structural:
        """The CRD's own schema, with that of the metadata."""
        return {
            **self.root,
            "properties": {**self.root.get("properties", {}), "metadata": _METADATA},
        }

    def prepared(self, body: Mapping[str, Data]) -> Mapping[str, Data]:
        """Return an object as the server sees it once it has defaults."""
        if self.with_status and "status" in body:
            body = {key: value for key, value in body.items() if key != "status"}
        done: Mapping[str, Data] = structural.prepared(body, self.root)
        return done


def load(folder: Path, kubernetes: str) -> tuple[tuple[Crd, ...], tuple[Finding, ...]]:
    """Return every served version of all CRDs below a folder (or in a file), and what is wrong.

    If a version of a kind is defined twice, the file that sorts last counts; one among the
    templates of a chart counts only if no other file has it. A definition that the API server would
    refuse is left out.
    """
    valid = with_kubernetes({"$ref": f"{kubernetes_schemas.URI}#/$defs/{_DEFINITION}"}, kubernetes)
    by_kind: dict[tuple[str, str], Crd] = {}
    findings: list[Finding] = []
    gathered = unrendered.gather((str(folder),))
    parts = {source.file for source in gathered.parts}
    for source in (*gathered.parts, *gathered.manifests):  # of two definitions, the last counts
        for chunk in reading.split(source):
            bodies, wrong = _definitions(chunk, valid)
            # A chart's templates may contain plain CRDs; what is wrong there is left to Helm.
            findings += () if source.file in parts else wrong
            for crd in (crd for body in bodies for crd in _versions(body, kubernetes)):
                by_kind[crd.api_version, crd.kind] = crd
    if not by_kind and not findings:
        raise SourceError(f"{folder} holds no CustomResourceDefinition of {_READ}")
    return tuple(by_kind.values()), tuple(findings)


def _definitions(chunk: Chunk, valid: Schema) -> tuple[list[Mapping[str, Data]], list[Finding]]:
    """Return the valid CRDs of a text, and findings for what is invalid; ignore other objects."""
    glanced = reading.glance(chunk)
    if glanced is not None:
        bodies = [body for _, body in _in(glanced[0])]
        if all(map(valid.accepts, bodies)):
            return bodies, []
    good: list[Mapping[str, Data]] = []
    findings: list[Finding] = []
    for document in reading.documents(chunk):
        if isinstance(document, tuple):
            findings += document
            continue
        for prefix, body in _in(document.data):
            wrong = valid.explain(body)
            if not wrong:
                good.append(body)
            for each in wrong:
                at = document.key_place if each.key else document.place
                place = at(prefix + each.pointer)
                findings.append(dx.RENDERED_SCHEMA.at(place, each.message, remedy=each.remedy))
    return good, findings


def _in(data: Data) -> Iterator[tuple[str, Mapping[str, Data]]]:
    for item in reading.objects(data):
        body = item.body
        is_definition = isinstance(body, Mapping) and body.get("kind") == _KIND
        if is_definition and body.get("apiVersion") == _READ:
            yield item.prefix, body


def _versions(body: Mapping[str, Data], kubernetes: str) -> Iterator[Crd]:
    spec = _without_nulls(body["spec"])
    for version in spec["versions"]:
        if version["served"]:
            root = version.get("schema", {}).get("openAPIV3Schema")
            yield Crd(
                group=spec["group"],
                version=version["name"],
                kind=spec["names"]["kind"],
                plural=spec["names"]["plural"],
                namespaced=spec["scope"] != "Cluster",
                root=root or {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                kubernetes=kubernetes,
                with_status="status" in version.get("subresources", {}),
            )


def _without_nulls(value: Data) -> Data:
    """Return a schema without nulls, which mean nothing except in defaults, enums and examples."""
    if isinstance(value, Mapping):
        return {
            key: field if key in _LITERAL else _without_nulls(field)
            for key, field in value.items()
            if field is not None or key in _LITERAL
        }
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


_LITERAL = ("default", "enum", "example")
