"""Which schema an object is validated by: a given CRD's, our own, or Kubernetes' own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from functools import cached_property

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.documents.validation import kubernetes_schemas, schema
from trainwright.documents.validation.list_maps import ListMaps
from trainwright.documents.validation.schema import Schema
from trainwright.documents.validation.violation import Violation
from trainwright.kinds import SERVED
from trainwright.manifests import structural
from trainwright.manifests.crds import Crd

# Kinds that schemas/kinds describes completely; of others it has only the fields that we render.
_OWN = {
    **{(kind.api_version, kind.kind): kind.kind for kind in SERVED.values() if kind.described},
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): "TrainingRuntime",
    ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime"): "TrainingRuntime",
}


@dataclass(frozen=True)
class KnownKind:
    """The schema and other facts of one kind.

    Our own schemas lack `status`, which is never applied.
    """

    schema: Schema
    kubernetes: str
    crd: Crd | None = None
    own: bool = False
    unchecked: str = ""  # why its regular expressions are left out

    def violations(self, body: Mapping[str, Data]) -> tuple[Violation, ...]:
        """Return every way in which strict field validation would refuse the object."""
        if self.schema.accepts(body):
            return ()
        if self.own and "status" in body:
            body = {key: value for key, value in body.items() if key != "status"}
        if self.crd is not None:  # absent fields may have a default, and null may count as absent
            body = self.crd.prepared(body)
        problems = self.schema.explain(body)
        return tuple(schema.dated(each, self.schema.root, self.kubernetes) for each in problems)

    def repeated(
        self, body: Mapping[str, Data], known: Collection[int] = ()
    ) -> tuple[Violation, ...]:
        """Return a violation for each list item that the server takes for an earlier one, but not
        in values of Kubernetes' own types whose `id` is known.
        """
        if self.crd:
            return self._list_maps.repeated(self.crd.prepared(body))
        return self._list_maps.repeated(body, known)

    @cached_property
    def _list_maps(self) -> ListMaps:
        root = self.crd.described if self.crd else self.schema.root
        return ListMaps(root, self.kubernetes)


def _of(crd: Crd) -> KnownKind:
    if not crd.schema.defect:
        return KnownKind(crd.schema, crd.kubernetes, crd)
    plain = structural.without_patterns(crd.schema.root)
    schema_without = schema.with_kubernetes(plain, crd.kubernetes)
    return KnownKind(schema_without, crd.kubernetes, crd, unchecked=crd.schema.defect)


@dataclass(frozen=True)
class Catalog:
    """The schemas of a run; each is compiled when the first object of its kind is checked."""

    kubernetes: str
    crds: tuple[Crd, ...] = ()
    _found: dict[tuple[str, str], KnownKind | None] = field(default_factory=dict)

    @cached_property
    def _by_kind(self) -> Mapping[tuple[str, str], Crd]:
        return {(crd.api_version, crd.kind): crd for crd in self.crds}

    def find(self, api_version: str, kind: str) -> KnownKind | None:
        """Return the schema and other facts of a kind, or None for an unknown kind."""
        key = (api_version, kind)
        if key not in self._found:
            self._found[key] = self._look(key)
        return self._found[key]

    def _look(self, key: tuple[str, str]) -> KnownKind | None:
        crd = self._by_kind.get(key)
        if crd is not None:
            return _of(crd)
        if key in _OWN:
            own = schema.kind(_OWN[key], self.kubernetes)
            if _OWN[key] != key[1]:  # ClusterTrainingRuntime differs by its name alone
                fields = {**own.root["properties"], "kind": {"const": key[1]}}
                own = replace(own, root={**own.root, "properties": fields})
            return KnownKind(own, self.kubernetes, own=True)
        definition = kubernetes_schemas.kinds(self.kubernetes).get(key)
        if definition is None:
            return None
        root = {"$ref": f"{kubernetes_schemas.URI}#/$defs/{definition}"}
        return KnownKind(schema.with_kubernetes(root, self.kubernetes), self.kubernetes)

    def serves_group(self, api_version: str) -> bool:
        """Whether Kubernetes itself serves this group, so that all of its kinds are known.

        Groups of CRDs may have any kind, however few of them were given.
        """
        group = api_version.rpartition("/")[0]
        return any(served.rpartition("/")[0] == group for served, _ in self._served)

    def nearest(self, api_version: str, kind: str) -> str:
        """Return the kind of an apiVersion with the most similar name; empty if none is similar."""
        kinds = [name for served, name in self._served if served == api_version]
        return next(iter(get_close_matches(kind, kinds, n=1, cutoff=0.75)), "")

    def versions(self, kind: str) -> tuple[str, ...]:
        """Return the apiVersions that serve a kind of this name."""
        return tuple(sorted(served for served, name in self._served if name == kind))

    @property
    def _served(self) -> Iterable[tuple[str, str]]:
        return kubernetes_schemas.kinds(self.kubernetes)
