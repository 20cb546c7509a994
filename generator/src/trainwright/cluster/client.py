"""The API server over HTTP, as plain data: lists, watches, logs and dry runs, and nothing else.

The only module that knows the kubernetes library. Whatever goes wrong becomes a `ClusterError` of
one line, but for the refusal of a dry run, which is an answer.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from trainwright.cluster.errors import (
    LOG,
    Answer,
    ClusterError,
    Expired,
    NoKind,
    Unknown,
    Unreachable,
    failed,
    unreachable,
)
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.model import Data

if TYPE_CHECKING:
    from kubernetes.dynamic import DynamicClient

_PAGE = 500  # objects a request, as kubectl does it
_CONNECT = 10  # seconds
_READ = 60  # seconds without a byte; the API server itself gives up on a list after 60
_MISSING = (
    "cluster verbs need the kubernetes client: pip install 'trainwright[cluster]' "
    "(pip install './generator[cluster]' in a clone)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The objects of one kind, as the API names them: ("kubeflow.org/v1", "pytorchjobs")."""

    api_version: str
    plural: str
    namespaced: bool = True

    def __str__(self) -> str:
        group = self.api_version.rpartition("/")[0]
        return f"{self.plural}.{group}" if group else self.plural

    def path(self, namespace: str, name: str = "") -> str:
        prefix = "apis" if "/" in self.api_version else "api"
        inside = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"/{prefix}/{self.api_version}{inside}/{self.plural}" + (f"/{name}" if name else "")


PODS = Resource(api_version="v1", plural="pods")
EVENTS = Resource(api_version="v1", plural="events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Which cluster, and as whom; empty values leave it to the kubeconfig."""

    kubeconfig: str = ""
    context: str = ""


class Cluster:
    """One cluster, reached with the credentials of one context."""

    def __init__(self, access: Access):
        self._client, self.context = _connect(access)

    @property
    def where(self) -> str:
        """The cluster in words: its context and the address of its API server."""
        return f"{self._client.configuration.host} ({self.context})"

    def all(self, resource: Resource, namespace: str, **selectors: str) -> list[Data]:
        """All objects that match, page by page. Raises NoKind when there is no such kind."""
        return self.all_at(resource, namespace, **selectors)[0]

    def all_at(
        self, resource: Resource, namespace: str, **selectors: str
    ) -> tuple[list[Data], str]:
        """The same, and the version of the list, from which `watch` goes on."""
        items: list[Data] = []
        page: Data = {}
        path, more = resource.path(namespace), ""
        while not page or more:
            asked = {"limit": _PAGE, **({"_continue": more} if more else {}), **selectors}
            try:
                page = self._json(Answer("list", str(resource), namespace), "get", path, **asked)
            except Expired:  # the list is older than what etcd keeps: read it anew
                items, page, more = [], {}, ""
                continue
            items += map(_typed(page), page.get("items") or ())
            more = page["metadata"].get("continue") or ""
        return items, page["metadata"].get("resourceVersion") or ""

    def get(self, resource: Resource, namespace: str, name: str) -> Data | None:
        """One object, or None when it is not there. Raises NoKind when none could be."""
        try:
            answer = Answer("get", str(resource), namespace)
            return self._json(answer, "get", resource.path(namespace, name))
        except NoKind:
            raise
        except Unknown:
            return None

    def watch(
        self, resource: Resource, namespace: str, name: str, version: str, seconds: int
    ) -> Iterator[tuple[str, Data]]:
        """What happens to one object from a version on: type of event, and object.

        Ends after some seconds. BOOKMARK events tell the version alone. Raises Expired when the
        version is too old, and Unreachable when the connection broke.
        """
        from kubernetes.watch import Watch

        def request(**arguments: Data) -> Data:
            return self._client.request("get", resource.path(namespace), **arguments)

        with self._explained(Answer("watch", str(resource), namespace)):
            for event in Watch().stream(
                request,
                serialize=False,
                field_selector=f"metadata.name={name}",
                resource_version=version,
                timeout_seconds=seconds,
                allow_watch_bookmarks=True,
                _request_timeout=(_CONNECT, seconds + _CONNECT),
            ):
                yield event["type"], event["object"]

    def log(
        self, namespace: str, pod: str, options: Mapping[str, str], *, follow: bool = False
    ) -> Iterator[tuple[str, str]]:
        """The lines of one container, each after the time at which it was written.

        `options` are those of PodLogOptions: container, previous, sinceTime, tailLines. Raises
        Waiting when the container has not started and Unreachable when the stream broke.
        """
        query = [("timestamps", "true"), ("follow", str(follow).lower()), *options.items()]
        with self._explained(Answer("get", LOG, namespace)):
            response = self._client.request(
                "get",
                f"{PODS.path(namespace, pod)}/log",
                query_params=query,
                header_params={"Accept": "*/*"},
                serialize=False,
                _request_timeout=(_CONNECT, None if follow else _READ),
            )
            with closing(response):
                for line in _lines(response.stream(amt=None, decode_content=True)):
                    time, _, text = line.partition(" ")
                    yield time, text

    def resource(self, api_version: str, kind: str) -> Resource:
        """How the API names a kind. Raises NoKind when it does not know it."""
        prefix = "apis" if "/" in api_version else "api"
        answer = Answer("get", f"{kind} ({api_version})")
        known = self._json(answer, "get", f"/{prefix}/{api_version}")
        for entry in known.get("resources") or ():
            if entry["kind"] == kind and "/" not in entry["name"]:
                return Resource(
                    api_version=api_version, plural=entry["name"], namespaced=entry["namespaced"]
                )
        raise NoKind(f"{self.where} knows {api_version}, but no {kind}")

    def dry_run(
        self, resource: Resource, namespace: str, body: Mapping[str, Data], manager: str
    ) -> Data:
        """What the object would be after a server-side apply, without applying it.

        Conflicts with other managers are overruled, as GitOps engines do it. Raises Refused with
        the API server's words when it would not be accepted.
        """
        name = body["metadata"]["name"]
        return self._json(
            Answer("patch", str(resource), namespace, about_object=True),
            "patch",
            resource.path(namespace, name),
            body=dict(body),
            content_type="application/apply-patch+yaml",
            dry_run="All",
            field_manager=manager,
            force_conflicts="true",
        )

    # --- requests --------------------------------------------------------------------------------

    def _json(self, answer: Answer, method: str, path: str, **arguments: Data) -> Data:
        arguments.setdefault("_request_timeout", (_CONNECT, _READ))
        with self._explained(answer):
            response = self._client.request(method, path, serialize=False, **arguments)
            try:
                return json.loads(response.data)
            except ValueError:
                raise ClusterError(f"{self.where} answers, but is not a Kubernetes API") from None

    @contextmanager
    def _explained(self, answer: Answer) -> Iterator[None]:
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError, MaxRetryError, ProtocolError, ReadTimeoutError

        try:
            yield
        except ApiException as error:
            raise failed(answer, error.status, error.body or error.reason, self.where) from None
        except (ProtocolError, ReadTimeoutError) as error:
            raise Unreachable(f"{self.where} broke the connection: {error}") from None
        except MaxRetryError as error:
            raise unreachable(self.where, error.reason) from None
        except HTTPError as error:
            raise unreachable(self.where, error) from None


def _typed(page: Mapping[str, Data]) -> Callable[[Mapping[str, Data]], Data]:
    """Items with the apiVersion and kind that those of built-in kinds leave to their list.

    https://kubernetes.io/docs/reference/using-api/api-concepts/#collections
    """
    kind = (page.get("kind") or "").removesuffix("List")
    head = {"apiVersion": page.get("apiVersion") or "", "kind": kind}
    return lambda item: {**head, **item}


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    """Text by lines, the last of which may not have ended."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


# --- credentials ---------------------------------------------------------------------------------


class _Heard(logging.Handler):
    """What the library only logs: that a credential plug-in failed, above all."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.message: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.message.append(record.getMessage())


def _connect(access: Access) -> tuple[DynamicClient, str]:
    try:
        from kubernetes import client, config
        from kubernetes.dynamic import DynamicClient
    except ImportError:
        raise ClusterError(_MISSING) from None
    import urllib3
    import yaml

    heard = _Heard()
    logging.getLogger().addHandler(heard)
    try:
        configuration = client.Configuration()
        context = _configure(config, configuration, access)
    except config.ConfigException as error:
        raise ClusterError(_no_config(str(error), access)) from None
    except (yaml.YAMLError, TypeError, AttributeError, UnicodeDecodeError):
        raise ClusterError(f"the kubeconfig {access.kubeconfig or ''} cannot be read") from None
    except OSError as error:
        raise ClusterError(f"cannot read {error.filename}: {error.strerror}") from None
    finally:
        logging.getLogger().removeHandler(heard)
    if heard.message:
        message = heard.message[0].splitlines()[0]
        raise ClusterError(f"no credentials for the {context}: {message}")
    configuration.retries = urllib3.Retry(total=4, connect=1, read=2, backoff_factor=0.2)
    return DynamicClient(client.ApiClient(configuration), discoverer=_undiscovered), context


def _undiscovered(_client: Data, _cache: Data) -> None:
    """No discovery: it asks for every group there is, and keeps the answers in /tmp."""


def _configure(config: Data, configuration: Data, access: Access) -> str:
    """Fill in the configuration, in a pod from its service account; returns the context's name."""
    inside = "KUBERNETES_SERVICE_HOST" in os.environ
    if inside and not (access.kubeconfig or access.context or os.environ.get("KUBECONFIG")):
        config.load_incluster_config(client_configuration=configuration)
        return "service account of this pod"
    file = access.kubeconfig or os.environ.get("KUBECONFIG") or None
    config.load_kube_config(
        config_file=file,
        context=access.context or None,
        client_configuration=configuration,
        persist_config=False,
    )
    name: str = access.context or config.list_kube_config_contexts(file)[1]["name"]
    return f"context {name}"


def _no_config(error: str, access: Access) -> str:
    if access.context and f"name {access.context} " in error:
        return (
            f'the kubeconfig has no context "{access.context}": see `kubectl config get-contexts`'
        )
    if "No configuration found" in error:
        where = access.kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        return f"no kubeconfig in {where}: name one with --kubeconfig or KUBECONFIG"
    return f"the kubeconfig cannot be used: {error.splitlines()[0]}"
