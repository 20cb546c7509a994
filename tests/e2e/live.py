"""A cluster as it is, by the plain client of Kubernetes: nothing here is read as the product reads."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient

Data = dict[str, Any]
T = TypeVar("T")

MANAGER = "trainwright-e2e"
_PAUSE = 1.0


class Refused(Exception):
    """What the API server answered instead of doing it, in its words."""

    def __init__(self, code: int, message: str):
        super().__init__(f"{code}: {message}")
        self.code = code


class Differs(Exception):
    """What was expected did not hold; the message has both."""


class Missing(Exception):
    """Why a step cannot be taken on this cluster."""


@dataclass(frozen=True)
class Place:
    """The objects of a kind, as paths name them."""

    api_version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "") -> str:
        prefix = "apis" if "/" in self.api_version else "api"
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"/{prefix}/{self.api_version}{inside}/{self.plural}" + (f"/{name}" if name else "")


class Live:
    """One cluster. `tick` is called while something is waited for."""

    def __init__(self, kubeconfig: str, context: str):
        configuration = client.Configuration()
        config.load_kube_config(
            config_file=kubeconfig, context=context or None, client_configuration=configuration
        )
        self._client = DynamicClient(client.ApiClient(configuration), discoverer=lambda *_: None)
        self._places: dict[tuple[str, str], Place] = {}
        self.host: str = configuration.host
        self.tick: Callable[[], None] = lambda: None

    def request(self, method: str, path: str, body: Any = None, **arguments: Any) -> Data:
        try:
            answer = self._client.request(
                method, path, body=body, serialize=False, _request_timeout=30, **arguments
            )
        except ApiException as error:
            raise Refused(error.status, _words(error)) from None
        found: Data = json.loads(answer.data)
        return found

    def place(self, api_version: str, kind: str) -> Place:
        """Raises Missing when the server does not have the kind."""
        if (api_version, kind) not in self._places:
            prefix = "apis" if "/" in api_version else "api"
            try:
                served = self.request("get", f"/{prefix}/{api_version}")["resources"]
            except Refused:
                served = []
            for entry in served:
                if entry["kind"] == kind and "/" not in entry["name"]:
                    place = Place(api_version, entry["name"], entry["namespaced"])
                    self._places[api_version, kind] = place
                    break
            else:
                raise Missing(f"the API server has no {kind} ({api_version})")
        return self._places[api_version, kind]

    def _at(self, body: Mapping[str, Any]) -> str:
        metadata = body["metadata"]
        place = self.place(body["apiVersion"], body["kind"])
        return place.path(metadata.get("namespace", ""), metadata["name"])

    def get(self, body: Mapping[str, Any]) -> Data | None:
        """The object of the same kind and name, if there is one."""
        try:
            return self.request("get", self._at(body))
        except Refused as refused:
            if refused.code != 404:
                raise
            return None

    def list(
        self, api_version: str, kind: str, namespace: str = "", labels: str = ""
    ) -> list[Data]:
        path = self.place(api_version, kind).path(namespace)
        items = self.request("get", path, label_selector=labels)["items"]
        return [{"apiVersion": api_version, "kind": kind, **item} for item in items]

    def create(self, body: Mapping[str, Any]) -> Data:
        path, _, _ = self._at(body).rpartition("/")
        return self.request("post", path, dict(body))

    def apply(self, body: Mapping[str, Any], *, manager: str = MANAGER, dry: bool = False) -> Data:
        """Server-side apply with strict validation, as Argo CD and Flux send it."""
        options = {"dry_run": "All"} if dry else {}
        return self.request(
            "patch",
            self._at(body),
            dict(body),
            content_type="application/apply-patch+yaml",
            field_manager=manager,
            force_conflicts="true",
            query_params=[("fieldValidation", "Strict")],
            **options,
        )

    def merge(self, body: Mapping[str, Any], patch: Data, *, subresource: str = "") -> Data:
        path = self._at(body) + (f"/{subresource}" if subresource else "")
        return self.request("patch", path, patch, content_type="application/merge-patch+json")

    def delete(self, body: Mapping[str, Any], *, grace: int | None = None) -> None:
        options = {} if grace is None else {"grace_period_seconds": grace}
        try:
            self.request("delete", self._at(body), propagation_policy="Background", **options)
        except Refused as refused:
            if refused.code != 404:
                raise

    def until(self, seconds: float, what: str, look: Callable[[], T | None]) -> T:
        """What `look` finds, as soon as it finds something; raises Differs when it does not."""
        end = time.monotonic() + seconds
        while True:
            self.tick()
            found = look()
            if found is not None:
                return found
            if time.monotonic() > end:
                raise Differs(f"not within {seconds:.0f} s: {what}")
            time.sleep(_PAUSE)


def _words(error: ApiException) -> str:
    try:
        return str(json.loads(error.body or "")["message"])
    except (TypeError, ValueError, KeyError):
        return str(error.reason)
