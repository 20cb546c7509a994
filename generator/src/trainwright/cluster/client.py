"""The API server over HTTP, as plain data: lists, watches, logs and dry runs, and nothing else.

The only module that uses the kubernetes library. Every failure becomes a `ClusterError` of one
line, except that a refused dry run is an answer, in the API server's words.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from io import BytesIO
from math import inf
from queue import Empty, SimpleQueue
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, cast

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
from trainwright.cluster.shape import is_object
from trainwright.datatypes.data import Data, mappings, text
from trainwright.datatypes.frozen import dataclass

if TYPE_CHECKING:
    from kubernetes.dynamic import DynamicClient
    from urllib3 import HTTPResponse

T = TypeVar("T")

_PAGE = 500  # objects a request, as kubectl does it
_PAGES = 1000  # of one list
_CONNECT = 10  # seconds
_READ = 60  # seconds without a byte; the API server itself gives up on a list after 60
_DEADLINE = 120  # seconds for a whole answer, however slowly it comes
_LARGEST = (
    256 * 2**20
)  # bytes of an answer: 500 objects of the half megabyte that etcd keeps of one
_LARGEST_LINE = 2**20  # of a log; what is longer is cut
_LARGEST_ERROR = 2**20
_CHUNK = 2**16
_MISSING = (
    "cluster commands need the kubernetes client: pip install 'trainwright[cluster]' "
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
DRY_RUN = "dry-run"  # the role that what compares with git needs
EVENTS = Resource(api_version="v1", plural="events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Which cluster, and as whom; empty values leave it to the kubeconfig."""

    kubeconfig: str = ""
    context: str = ""


class Cluster:
    """A Kubernetes cluster, accessed with the credentials of one kubeconfig context."""

    def __init__(self, access: Access):
        self._client, self.context = _connect(access)

    @property
    def where(self) -> str:
        """The cluster for messages: the address of its API server, and its context."""
        return f"{self._client.configuration.host} ({self.context})"

    def all(self, resource: Resource, namespace: str, **selectors: str) -> list[Data]:
        """Return all matching objects, page by page. Raise NoKind if the kind is unknown."""
        return self.all_at(resource, namespace, **selectors)[0]

    def all_at(
        self, resource: Resource, namespace: str, **selectors: str
    ) -> tuple[list[Data], str]:
        """Return all matching objects, and the resourceVersion from which to `watch`."""
        items: list[Data] = []
        page: Data = {}
        path, more = resource.path(namespace), ""
        for _ in range(_PAGES):
            parameters = {"limit": _PAGE, **({"_continue": more} if more else {}), **selectors}
            try:
                page = self._json(
                    Answer("list", str(resource), namespace), "get", path, **parameters
                )
            except Expired:  # the list is older than what etcd keeps: read it anew
                items, page, more = [], {}, ""
                continue
            items += map(_typed(page), self._listed(page))
            more = page["metadata"].get("continue") or ""
            if not more:
                break
        else:
            raise ClusterError(f"{self.where} answers without end when asked to list {resource}")
        return items, page["metadata"].get("resourceVersion") or ""

    def get(self, resource: Resource, namespace: str, name: str, role: str = "read") -> Data | None:
        """Return an object, or None if it does not exist. Raise NoKind if its kind is unknown."""
        try:
            answer = Answer("get", str(resource), namespace, role=role)
            return self._object(self._json(answer, "get", resource.path(namespace, name)))
        except NoKind:
            raise
        except Unknown:
            return None

    def watch(
        self, resource: Resource, namespace: str, name: str, version: str, seconds: int
    ) -> Iterator[tuple[str, Data]]:
        """Yield each watch event of one object after a resourceVersion: its type, and the object.

        Ends after some seconds. BOOKMARK events hold the version alone. Raise Expired if the
        version is too old, and Unreachable if the connection broke.
        """
        answer = Answer("watch", str(resource), namespace)
        with self._explained(answer):
            lines = self._lines(
                answer,
                resource.path(namespace),
                deadline=seconds + _CONNECT,
                field_selector=f"metadata.name={name}",
                resource_version=version,
                timeout_seconds=seconds,
                allow_watch_bookmarks=True,
                watch=True,
                _request_timeout=(_CONNECT, seconds + _CONNECT),
            )
            for line in lines:
                event = self._parsed(line)
                if event.get("type") == "ERROR":
                    status = event.get("object") or {}
                    raise failed(answer, status.get("code") or 0, json.dumps(status), self.where)
                yield str(event.get("type")), self._object(event.get("object"))

    def log(
        self, namespace: str, pod: str, options: Mapping[str, str], *, follow: bool = False
    ) -> Iterator[tuple[str, str]]:
        """Yield the log lines of one container, each as the time when it was written and its text.

        `options` are those of PodLogOptions: container, previous, sinceTime, tailLines. Raise
        Waiting if the container has not started, and Unreachable if the stream breaks off.
        """
        query = [("timestamps", "true"), ("follow", str(follow).lower()), *options.items()]
        with self._explained(Answer("get", LOG, namespace)):
            lines = self._lines(
                Answer("get", LOG, namespace),
                f"{PODS.path(namespace, pod)}/log",
                deadline=None if follow else _DEADLINE,
                query_params=query,
                header_params={"Accept": "*/*"},
                _request_timeout=(_CONNECT, None if follow else _READ),
            )
            for line in lines:
                time, _, text = line.partition(" ")
                yield time, text

    def resource(self, api_version: str, kind: str) -> Resource:
        """Return the API resource of a kind. Raise NoKind if the server does not serve it."""
        prefix = "apis" if "/" in api_version else "api"
        answer = Answer("get", f"{kind} ({api_version})")
        listing = self._json(answer, "get", f"/{prefix}/{api_version}")
        for entry in mappings(listing.get("resources")):
            plural = text(entry.get("name"))
            if entry.get("kind") == kind and plural and "/" not in plural:
                return Resource(
                    api_version=api_version,
                    plural=plural,
                    namespaced=bool(entry.get("namespaced")),
                )
        raise NoKind(f"{self.where} knows {api_version}, but no {kind}")

    def dry_run(
        self, resource: Resource, namespace: str, body: Mapping[str, Data], manager: str
    ) -> Data:
        """Return the object as a server-side apply would leave it, without applying it.

        Conflicts with other field managers are forced, as GitOps engines do. Raise Refused, with
        the API server's words, if the object would not be accepted.
        """
        name = body["metadata"]["name"]
        return self._json(
            Answer("patch", str(resource), namespace, about_object=True, role=DRY_RUN),
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
            response = self._opened(answer, method, path, **arguments)
            with closing(response):
                return self._parsed(b"".join(self._chunks(response, answer, _DEADLINE, _LARGEST)))

    def _opened(self, answer: Answer, method: str, path: str, **arguments: Data) -> HTTPResponse:
        """Return an answer whose body is yet to be read. Raise Unreachable if it takes too long."""
        request = partial(self._client.request, method, path, serialize=False, **arguments)
        response: HTTPResponse = _within(_DEADLINE, request, Unreachable(self._slow(answer)))
        return response

    def _lines(
        self, answer: Answer, path: str, *, deadline: float | None, **arguments: Data
    ) -> Iterator[str]:
        """Yield the lines of an answer as they come; the last one may be incomplete."""
        response = self._opened(answer, "get", path, **arguments)
        with closing(response):
            rest = b""
            for chunk in self._chunks(response, answer, deadline):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line.decode(errors="replace") for line in whole)
                if len(rest) > _LARGEST_LINE:
                    rest = rest[:_LARGEST_LINE]
            if rest:
                yield rest.decode(errors="replace")

    def _chunks(
        self, response: HTTPResponse, answer: Answer, deadline: float | None, most: float = inf
    ) -> Iterator[bytes]:
        """Yield a body within a deadline: a socket's own timeout restarts with each byte."""
        end = inf if deadline is None else monotonic() + deadline
        size = 0
        while chunk := response.read1(_CHUNK, decode_content=True):
            size += len(chunk)
            if size > most:
                raise ClusterError(f"{self.where} answers more than {most:,} bytes to {answer}")
            if monotonic() > end:
                raise Unreachable(self._slow(answer))
            yield chunk

    def _slow(self, answer: Answer) -> str:
        return f"{self.where} does not come to an end when asked to {answer}"

    def _parsed(self, text: bytes | str) -> Data:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise ClusterError(self._foreign)
        return data

    def _listed(self, page: Mapping[str, Data]) -> list[Data]:
        """Return the items of a list, each an object. Raise ClusterError for anything else."""
        items = page.get("items") or []
        if not (isinstance(items, list) and isinstance(page.get("metadata"), dict)):
            raise ClusterError(self._foreign)
        return [self._object(item) for item in items]

    def _object(self, data: Data) -> Data:
        """Return data if it is an object. Raise ClusterError if not: this is no Kubernetes API."""
        if not is_object(data):
            raise ClusterError(self._foreign)
        return data

    @property
    def _foreign(self) -> str:
        return f"{self.where} answers, but is not a Kubernetes API"

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
    """Return a function that adds apiVersion and kind to items: lists of built-in kinds omit them.

    https://kubernetes.io/docs/reference/using-api/api-concepts/#collections
    """
    kind = (page.get("kind") or "").removesuffix("List")
    head = {"apiVersion": page.get("apiVersion") or "", "kind": kind}
    return lambda item: {**head, **item}


def _within(seconds: float, call: Callable[[], T], slow: ClusterError) -> T:
    """Return what a call returns; raise `slow` after a number of seconds, and let the call run on.

    What it returns then is closed: it is not read any more.
    """
    answers: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()
    given_up = Event()

    def run() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:  # noqa: BLE001 - raised by who waits
            answers.put((None, error))
        if given_up.is_set():
            _close_late(answers)

    Thread(target=run, daemon=True).start()
    try:
        value, error = answers.get(timeout=seconds)
    except Empty:
        given_up.set()
        _close_late(answers)
        raise slow from None
    if error is not None:
        raise error
    return cast(T, value)


def _close_late(answers: SimpleQueue[tuple[T | None, BaseException | None]]) -> None:
    with suppress(Empty):
        value, _ = answers.get_nowait()
        if value is not None and hasattr(value, "close"):
            value.close()


def _bounded(request: Callable[..., Any]) -> Callable[..., Any]:
    """Return a request that cuts answers which are errors: the library reads them whole."""

    def bounded(*arguments: Data, **named: Data) -> Any:
        from urllib3 import HTTPResponse

        response = request(*arguments, **named)
        if response.status < 300:
            return response
        body = b""
        with closing(response):  # also where the rest does not come
            while len(body) < _LARGEST_ERROR and (chunk := response.read1(_CHUNK)):
                body += chunk
        # Of empty bytes it would have no data at all, which the library takes for a mistake.
        return HTTPResponse(body=BytesIO(body), status=response.status, reason=response.reason)

    return bounded


# --- credentials ---------------------------------------------------------------------------------


class _Heard(logging.Handler):
    """Errors that the library only logs, above all that a credential plug-in failed."""

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
    api = client.ApiClient(configuration)
    pool = api.rest_client.pool_manager
    pool.request = _bounded(pool.request)  # type: ignore[method-assign]
    return DynamicClient(api, discoverer=_undiscovered), context


def _undiscovered(_client: Data, _cache: Data) -> None:
    """Do nothing for discovery, which requests every group and keeps the answers in /tmp."""


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
