"""A Kubernetes object as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from trainwright.datatypes.data import Data, mapping, text
from trainwright.datatypes.frozen import cached_property, dataclass
from trainwright.datatypes.groupkind import GroupKind

# An annotation of what `kubectl apply` has applied.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
IDENTIFYING = ("apiVersion", "kind")  # what tells that a mapping is an object


class ObjectBody:
    """Base of what has `spec` and `metadata`: objects and pod templates. Reading never raises."""

    if TYPE_CHECKING:  # most subclasses have it as a field, others compute it

        @property
        def body(self) -> Mapping[str, Data]: ...

    @cached_property
    def spec(self) -> Mapping[str, Data]:
        return mapping(self.body.get("spec"))

    @cached_property
    def metadata(self) -> Mapping[str, Data]:
        return mapping(self.body.get("metadata"))

    @cached_property
    def labels(self) -> Mapping[str, Data]:
        return mapping(self.metadata.get("labels"))

    @cached_property
    def annotations(self) -> Mapping[str, Data]:
        return mapping(self.metadata.get("annotations"))


@dataclass(frozen=True, kw_only=True)
class Manifest(ObjectBody):
    """One Kubernetes object as data, with its identity and the file it is rendered to."""

    body: Mapping[str, Data]
    path: str = ""  # file name inside the job's folder, "pytorchjob.yaml"

    @property
    def api_version(self) -> str:
        return text(self.body.get("apiVersion"))

    @property
    def kind(self) -> str:
        return text(self.body.get("kind"))

    @property
    def is_list(self) -> bool:
        """Whether engines and kubectl apply its items instead, which they do whatever its kind is.

        https://github.com/kubernetes/apimachinery/blob/v0.34.0/pkg/apis/meta/v1/unstructured/unstructured.go#L57
        """
        return isinstance(self.body.get("items"), list)

    @cached_property
    def group_kind(self) -> GroupKind:
        return GroupKind.of(self.api_version, self.kind)

    @property
    def name(self) -> str:
        return text(self.metadata.get("name"))

    @property
    def namespace(self) -> str:
        return text(self.metadata.get("namespace"))

    @property
    def title(self) -> str:
        """Kind and name, for people."""
        return f"{self.kind}/{self.name}"

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Group, kind, namespace and name: what makes two documents the same object."""
        return (self.api_version.rpartition("/")[0], self.kind, self.namespace, self.name)
