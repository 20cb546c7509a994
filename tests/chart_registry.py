"""A small registry over real HTTP, as much of the OCI distribution protocol as pushing needs.

https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PATH = re.compile(r"/v2/(?P<name>.+?)/(?P<what>blobs|manifests)/(?P<rest>.+?)(\?(?P<query>.*))?")


@dataclass
class Registry:
    """What was pushed: blobs by digest, manifests with their media type by name and reference."""

    host: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def manifest(self, name: str, reference: str) -> Any:
        return json.loads(self.manifests[name, reference][1])


@contextmanager
def serving() -> Iterator[Registry]:
    """A registry on a free port of this machine, until the block ends."""
    registry = Registry()

    class Handler(_Handler):
        store = registry

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.host = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Registry

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.store.requests.append(f"{self.command} {self.path}")
        match = _PATH.fullmatch(self.path)
        if not match:
            self._answer(404)
        elif match["what"] == "manifests":
            self._manifest(match["name"], match["rest"], body)
        elif self.command == "POST":
            self._answer(202, Location=f"/v2/{match['name']}/blobs/uploads/1")
        elif self.command == "PUT":
            self._upload(match["name"], match["query"] or "", body)
        elif match["rest"] in self.store.blobs:
            self._answer(200, self.store.blobs[match["rest"]])
        else:
            self._answer(404)

    def _upload(self, name: str, query: str, body: bytes) -> None:
        wanted = query.removeprefix("digest=").replace("%3A", ":")
        if _digest(body) != wanted:
            self._answer(400)
            return
        self.store.blobs[wanted] = body
        self._answer(201, Location=f"/v2/{name}/blobs/{wanted}")

    def _manifest(self, name: str, reference: str, body: bytes) -> None:
        if self.command == "PUT":
            entry = (self.headers["Content-Type"], body)
            self.store.manifests |= {(name, reference): entry, (name, _digest(body)): entry}
            self._answer(201, Location=f"/v2/{name}/manifests/{_digest(body)}")
            return
        found = self.store.manifests.get((name, reference))
        if not found:
            self._answer(404)
            return
        kind, text = found
        self._answer(200, text, **{"Content-Type": kind, "Docker-Content-Digest": _digest(text)})

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for key, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = _handle  # noqa: N815 - names of http.server

    def log_message(self, *_arguments: object) -> None:
        """Nothing: a test's output is its own."""
