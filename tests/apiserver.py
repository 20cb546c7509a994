"""A small API server over real HTTP: objects, watches, logs and dry runs as the real one answers.

Every request is recorded with the verb, group and resource that RBAC would see.
"""

from __future__ import annotations

import copy
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

KINDS = {
    ("kubeflow.org/v1", "PyTorchJob"): "pytorchjobs",
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): "trainjobs",
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): "trainingruntimes",
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): "jobsets",
    ("batch/v1", "Job"): "jobs",
    ("breezeml.ai/v1", "TrainingJob"): "trainingjobs",
    ("ray.io/v1", "RayJob"): "rayjobs",
    ("kueue.x-k8s.io/v1beta1", "Workload"): "workloads",
    ("kueue.x-k8s.io/v1beta2", "Workload"): "workloads",
    ("v1", "Pod"): "pods",
    ("v1", "Event"): "events",
    ("apps/v1", "Deployment"): "deployments",
    ("v1", "Service"): "services",
    ("v1", "Secret"): "secrets",
    ("v1", "ConfigMap"): "configmaps",
    ("v1", "PersistentVolumeClaim"): "persistentvolumeclaims",
    ("v1", "ServiceAccount"): "serviceaccounts",
    ("networking.k8s.io/v1", "NetworkPolicy"): "networkpolicies",
    ("external-secrets.io/v1", "ExternalSecret"): "externalsecrets",
    ("monitoring.coreos.com/v1", "PodMonitor"): "podmonitors",
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): "podgroups",
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"): "podgroups",
}
PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<gv>[^/]+/[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>log))?)?)?"
)


@dataclass(frozen=True)
class Request:
    verb: str
    group: str
    resource: str
    path: str
    query: dict[str, str]
    body: str = ""


@dataclass
class Stored:
    body: dict[str, Any]
    version: int


@dataclass
class ApiServer:
    """State that tests set, and the requests that came."""

    page: int = 500
    watch_seconds: float = 5.0  # after which the server ends a watch by itself
    kinds: dict[tuple[str, str], str] = field(default_factory=lambda: dict(KINDS))
    forbidden: set[tuple[str, str]] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)  # namespaces in which nothing is allowed
    refused: dict[str, dict[str, Any]] = field(default_factory=dict)  # status by object name
    logs: dict[str, list[str]] = field(default_factory=dict)  # timestamped, by pod[/previous]
    not_started: dict[str, str] = field(default_factory=dict)  # message by pod
    lost_logs: dict[str, str] = field(
        default_factory=dict
    )  # message by pod, of a node that is gone
    open_logs: set[str] = field(default_factory=set)  # pods that still write
    drop: list[str] = field(default_factory=list)  # streams to break once: "watch", "log"
    expire_continue: int = 0
    requests: list[Request] = field(default_factory=list)
    read_logs: list[str] = field(default_factory=list)  # pods whose log was sent to its end
    listed: list[Any] = field(default_factory=list)  # what every list has, where there is any

    def __post_init__(self) -> None:
        self.objects: dict[tuple[str, str], Stored] = {}
        self.events: list[tuple[int, str, dict[str, Any]]] = []
        self.oldest = 0
        self.version = 100
        self.changed = threading.Condition()
        self.server = _Server(("127.0.0.1", 0), Handler)
        self.server.api = self
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def kubeconfig(self, path: Path, *, token: str = "good", url: str = "") -> Path:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [
                {"name": name, "context": {"cluster": "c", "user": "u"}}
                for name in ("here", "there")
            ],
            "clusters": [{"name": "c", "cluster": {"server": url or self.url}}],
            "users": [{"name": "u", "user": {"token": token}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    # --- what tests do to it ---------------------------------------------------------------------

    def put(self, body: dict[str, Any]) -> dict[str, Any]:
        """Create or change an object; watchers hear of it."""
        body = copy.deepcopy(body)
        metadata = body["metadata"]
        metadata.setdefault("namespace", "training")
        metadata.setdefault("uid", f"uid-{body['kind']}-{metadata['name']}")
        with self.changed:
            self.version += 1
            metadata["resourceVersion"] = str(self.version)
            key = self._key(body)
            kind = "MODIFIED" if key in self.objects else "ADDED"
            self.objects[key] = Stored(body, self.version)
            self.events.append((self.version, kind, body))
            self.changed.notify_all()
        return body

    def remove(self, body: dict[str, Any]) -> None:
        with self.changed:
            self.version += 1
            stored = self.objects.pop(self._key(body)).body
            stored = {
                **stored,
                "metadata": {**stored["metadata"], "resourceVersion": str(self.version)},
            }
            self.events.append((self.version, "DELETED", stored))
            self.changed.notify_all()

    def forget(self) -> None:
        """As after compaction of etcd: older versions are gone."""
        with self.changed:
            self.oldest = self.version
            self.changed.notify_all()

    def write(self, pod: str, line: str) -> None:
        with self.changed:
            self.logs.setdefault(pod, []).append(line)
            self.changed.notify_all()

    def finish(self, pod: str) -> None:
        with self.changed:
            self.open_logs.discard(pod)
            self.changed.notify_all()

    @staticmethod
    def _key(body: dict[str, Any]) -> tuple[str, str]:
        return (f"{body['apiVersion']}/{body['kind']}", body["metadata"]["name"])

    # --- what it answers -------------------------------------------------------------------------

    def matching(self, gv: str, kind: str, query: dict[str, str]) -> list[dict[str, Any]]:
        # v1beta1 and v1beta2 of Kueue are one resource.
        found = [s.body for (k, _), s in sorted(self.objects.items()) if k == f"{gv}/{kind}"]
        return [b for b in found if _selected(b, query)]


def _selected(body: dict[str, Any], query: dict[str, str]) -> bool:
    labels = body["metadata"].get("labels") or {}
    for part in re.findall(r"[^,(]+(?:\([^)]*\))?", query.get("labelSelector", "")):
        if " in " in part:
            name, _, names = part.partition(" in ")
            if labels.get(name) not in names.strip("()").split(","):
                return False
        else:
            name, _, value = part.partition("=")
            if labels.get(name) != value:
                return False
    for part in filter(None, query.get("fieldSelector", "").split(",")):
        name, _, value = part.partition("=")
        have = body["metadata"]["name"] if name == "metadata.name" else body.get(name)
        if have != value:
            return False
    return True


def _listed(body: dict[str, Any]) -> dict[str, Any]:
    """An item of a list: of built-in kinds without apiVersion and kind, which the list has."""
    group = body["apiVersion"].rpartition("/")[0]
    built_in = "." not in group or group.endswith(".k8s.io")
    return {k: v for k, v in body.items() if not built_in or k not in ("apiVersion", "kind")}


def status(
    code: int, reason: str, message: str, causes: tuple[dict[str, str], ...] = ()
) -> dict[str, Any]:
    details = {"details": {"causes": list(causes)}} if causes else {}
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
            "message": message, "code": code, **details}  # fmt: skip


def _merge(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{k: _merge(below.get(k), v) for k, v in above.items()}}
    return above


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    api: ApiServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    @property
    def api(self) -> ApiServer:
        return self.server.api

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve("")

    def do_PATCH(self) -> None:
        self._serve(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def do_POST(self) -> None:
        self._serve("")

    # --- routing -----------------------------------------------------------------------------

    def _serve(self, body: str) -> None:
        url = urlsplit(self.path)
        query = {k: v[-1] for k, v in parse_qs(url.query).items()}
        match = PATH.fullmatch(url.path)
        if self.headers.get("Authorization") != "Bearer good":
            return self._json(401, status(401, "Unauthorized", "Unauthorized"))
        if match is None:
            return self._not_found()
        gv = match["core"] or match["gv"]
        if match["plural"] is None:
            return self._discovery(gv)
        plural, name = match["plural"], match["name"]
        group = gv.rpartition("/")[0]
        resource = f"{plural}/log" if match["sub"] else plural
        verb = self._verb(query, name)
        self.api.requests.append(Request(verb, group, resource, url.path, query, body))
        kind = next((k for (g, k), p in self.api.kinds.items() if (g, p) == (gv, plural)), None)
        if kind is None:
            return self._not_found()
        if (verb, resource) in self.api.forbidden or match["namespace"] in self.api.closed:
            message = (
                f'{plural}.{group} is forbidden: User "eve" cannot {verb} resource "{plural}" '
                f'in API group "{group}" in the namespace "{match["namespace"]}"'
            )
            return self._json(403, status(403, "Forbidden", message))
        if match["sub"]:
            return self._log(name, query)
        self.namespace = match["namespace"]
        if verb in ("watch", "list"):
            return getattr(self, f"_{verb}")(gv, kind, query)
        stored = self.api.objects.get((f"{gv}/{kind}", name))
        if stored and stored.body["metadata"]["namespace"] != self.namespace:
            stored = None
        return self._one(stored, verb, body, query)

    def _one(self, stored: Stored | None, verb: str, body: str, query: dict[str, str]) -> None:
        if verb == "patch":
            return self._apply(stored, body, query)
        if stored is None:
            return self._json(404, status(404, "NotFound", "the object was not found"))
        return self._json(200, stored.body)

    def _verb(self, query: dict[str, str], name: str | None) -> str:
        if self.command != "GET":
            return self.command.lower()
        if query.get("watch") in ("True", "true", "1"):
            return "watch"
        return "get" if name else "list"

    def _discovery(self, gv: str) -> None:
        known = [(k, p) for (g, k), p in self.api.kinds.items() if g == gv]
        if not known:
            return self._not_found()
        found = [{"name": p, "kind": k, "namespaced": True, "verbs": []} for k, p in known]
        found += [{"name": f"{p}/status", "kind": k, "namespaced": True} for k, p in known]
        return self._json(200, {"kind": "APIResourceList", "groupVersion": gv, "resources": found})

    def _list(self, gv: str, kind: str, query: dict[str, str]) -> None:
        found = [
            body
            for body in self.api.matching(gv, kind, query)
            if body["metadata"]["namespace"] == self.namespace
        ]
        found = self.api.listed or found
        start = int(query.get("continue", "0"))
        if start and self.api.expire_continue:
            self.api.expire_continue -= 1
            return self._json(
                410, status(410, "Expired", "The provided continue parameter is too old")
            )
        size = min(self.api.page, int(query.get("limit", "500")))
        more = {"continue": str(start + size)} if start + size < len(found) else {}
        metadata = {"resourceVersion": str(self.api.version), **more}
        page = [body if self.api.listed else _listed(body) for body in found[start : start + size]]
        return self._json(200, {"kind": f"{kind}List", "apiVersion": gv,
                                "metadata": metadata, "items": page})  # fmt: skip

    def _apply(self, stored: Stored | None, text: str, query: dict[str, str]) -> None:
        body = yaml.safe_load(text)
        name = body["metadata"]["name"]
        assert self.headers["Content-Type"] == "application/apply-patch+yaml"
        assert query["dryRun"] == "All", "tests never change anything"
        if name in self.api.refused:
            return self._json(self.api.refused[name]["code"], self.api.refused[name])
        merged = _merge(stored.body if stored else {}, body)
        merged["metadata"] = {
            **merged["metadata"], "uid": "random", "generation": 7, "resourceVersion": "9",
            "managedFields": [{"manager": query["fieldManager"]}],
        }  # fmt: skip
        return self._json(200 if stored else 201, merged)

    # --- streams -----------------------------------------------------------------------------

    def _watch(self, gv: str, kind: str, query: dict[str, str]) -> None:
        seen = int(query["resourceVersion"])
        if seen < self.api.oldest:
            return self._json(410, status(410, "Expired", f"too old resource version: {seen}"))
        end = time.monotonic() + min(self.api.watch_seconds, float(query["timeoutSeconds"]))
        self._start("application/json")
        while time.monotonic() < end:
            with self.api.changed:
                new = [e for e in self.api.events if e[0] > seen]
                if seen < self.api.oldest:
                    gone = status(410, "Expired", f"too old resource version: {seen}")
                    self._chunk(json.dumps({"type": "ERROR", "object": gone}) + "\n")
                    return self._end()
                if not new:
                    self.api.changed.wait(0.05)
            for version, event, body in new:
                seen = version
                if f"{body['apiVersion']}/{body['kind']}" == f"{gv}/{kind}" and _selected(
                    body, query
                ):
                    line = json.dumps({"type": event, "object": body}) + "\n"
                    self._chunk(line[:20])  # events do not arrive in one piece
                    self._chunk(line[20:])
            if "watch" in self.api.drop:
                self.api.drop.remove("watch")
                return self._break()
        return self._end()

    def _log(self, pod: str, query: dict[str, str]) -> None:
        if pod in self.api.not_started:
            return self._json(400, status(400, "BadRequest", self.api.not_started[pod]))
        if pod in self.api.lost_logs:
            deleted = self.api.lost_logs[pod].startswith("nodes ")
            code, reason = (404, "NotFound") if deleted else (500, "InternalError")
            return self._json(code, status(code, reason, self.api.lost_logs[pod]))
        key = f"{pod}/previous" if query.get("previous") == "true" else pod
        if key not in self.api.logs:
            return self._json(404, status(404, "NotFound", f'pods "{pod}" not found'))
        self._start("text/plain")
        sent = max(0, len(self.api.logs[key]) - int(query.get("tailLines", "1000000")))
        since = query.get("sinceTime", "")
        while True:
            with self.api.changed:
                lines = self.api.logs[key][sent:]
                open_ = query.get("follow") == "true" and pod in self.api.open_logs
                if not lines and open_:
                    self.api.changed.wait(0.05)
            for line in lines:
                sent += 1
                if line[:19] >= since[:19]:  # whole seconds, as the kubelet does it
                    self._chunk(line + "\n")
            if lines and "log" in self.api.drop:
                self.api.drop.remove("log")
                return self._break()
            if not open_ and sent == len(self.api.logs[key]):
                self._end()
                return self.api.read_logs.append(pod)

    # --- bytes -------------------------------------------------------------------------------

    def _json(self, code: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _not_found(self) -> None:
        self.send_response(404)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", "19")
        self.end_headers()
        self.wfile.write(b"404 page not found\n")

    def _start(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _chunk(self, text: str) -> None:
        data = text.encode()
        if data:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

    def _end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def _break(self) -> None:
        """The connection goes in the middle of a chunked answer."""
        self.close_connection = True
        self.wfile.flush()
