"""CustomResourceDefinitions: read from a folder, and what one says about an object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from trainwright import kube
from trainwright.errors import SourceError
from trainwright.manifests import reading, structural
from trainwright.manifests.structural import Structural
from trainwright.model import Data, Finding
from trainwright.schema import Schema, with_kubernetes
from trainwright.yamlio import Document

_READ = "apiextensions.k8s.io/v1"


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
        """What strict field validation accepts."""
        metadata = {"$ref": f"{kube.URI}#/$defs/{kube.OBJECT_META}"}
        root = dict(self.root)
        if self.with_status:
            fields = {k: v for k, v in root.get("properties", {}).items() if k != "status"}
            root["properties"] = {
                **fields,
                "status": {"x-kubernetes-preserve-unknown-fields": True},
            }
        return with_kubernetes(structural.strict(root, metadata), self.kubernetes)

    def prepared(self, body: Mapping[str, Data]) -> Mapping[str, Data]:
        """An object as the server sees it once it has defaults."""
        if self.with_status and "status" in body:
            body = {key: value for key, value in body.items() if key != "status"}
        done: Mapping[str, Data] = structural.prepared(body, self.root)
        return done


def load(folder: Path, kubernetes: str) -> tuple[tuple[Crd, ...], tuple[Finding, ...]]:
    """Every served version of every CRD below a folder (or in a file), and what could not be read.

    Where a version of a kind is defined twice, the file that sorts last counts.
    """
    found: dict[tuple[str, str], Crd] = {}
    findings: list[Finding] = []
    for source in reading.gather((str(folder),)):
        for chunk in reading.split(source):
            glanced = reading.glance(chunk)
            for data in (glanced,) if glanced else reading.documents(chunk):
                if isinstance(data, Document):
                    found |= _defined(data.data, kubernetes)
                elif glanced:
                    found |= _defined(glanced[0], kubernetes)
                else:
                    findings += data
    if not found:
        raise SourceError(f"{folder} holds no CustomResourceDefinition of {_READ}")
    return tuple(found.values()), tuple(findings)


def _defined(data: Data, kubernetes: str) -> dict[tuple[str, str], Crd]:
    """The CRDs of a document, other objects left alone, by apiVersion and kind."""
    return {
        (crd.api_version, crd.kind): crd
        for item in reading.objects(data)
        if isinstance(item.body, Mapping)
        for crd in _versions(item.body, kubernetes)
    }


def _versions(body: Mapping[str, Data], kubernetes: str) -> Iterator[Crd]:
    if body.get("kind") != "CustomResourceDefinition" or body.get("apiVersion") != _READ:
        return
    try:
        spec = body["spec"]
        for version in spec["versions"]:
            if version.get("served"):
                root = version.get("schema", {}).get("openAPIV3Schema")
                yield Crd(
                    group=spec["group"],
                    version=version["name"],
                    kind=spec["names"]["kind"],
                    plural=spec["names"]["plural"],
                    namespaced=spec.get("scope") != "Cluster",
                    root=root or {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    kubernetes=kubernetes,
                    with_status="status" in (version.get("subresources") or {}),
                )
    except (KeyError, TypeError, AttributeError) as error:
        name = reading.name_of(body)
        raise SourceError(f"the CustomResourceDefinition {name} cannot be used: {error}") from error
