"""A small registry over real HTTP, which wants a token as Docker Hub and GHCR do."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

INDEX = "application/vnd.oci.image.index.v1+json"


class Registry(ThreadingHTTPServer):
    """`manifests` are texts by `name:tag`; `private` names need `user:password`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.manifests: dict[str, bytes] = {}
        self.private: dict[str, str] = {}
        self.requests: list[str] = []
        self.says: dict[str, str] = {}  # headers instead of the right ones
        self.fails = 0  # how many times to answer 503 first

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def add(self, named: str) -> str:
        """An index of images under a name and a tag; its digest."""
        self.manifests[named] = json.dumps({"mediaType": INDEX, "about": named}).encode()
        return digest(self.manifests[named])


def digest(raw: bytes) -> str:
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/token":
            self._token(parse_qs(parts.query)["scope"][0])
        else:
            self._answer(None)

    def _token(self, scope: str) -> None:
        name = scope.split(":")[1]
        wanted = self.server.private.get(name)
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        if wanted and base64.b64decode(given).decode() != wanted:
            self._send(401, b"{}")
        else:
            self._send(200, json.dumps({"token": f"for {name}"}).encode())

    def _answer(self, body: bytes | None) -> None:
        self.server.requests.append(f"{self.command} {self.path}")
        if self.server.fails:
            self.server.fails -= 1
            self._send(503, b"")
            return
        name, _, tag = self.path.removeprefix("/v2/").partition("/manifests/")
        if self.headers.get("Authorization") != f"Bearer for {name}":
            realm = f'Bearer realm="http://{self.server.host}/token",service="registry"'
            scope = f'{realm},scope="repository:{name}:pull"'
            self._send(401, b"{}", {"Www-Authenticate": scope})
            return
        raw = self.server.manifests.get(f"{name}:{tag}")
        if raw is None or INDEX not in self.headers.get("Accept", ""):
            self._send(404, b'{"errors": [{"message": "manifest unknown"}]}')
            return
        headers = {"Docker-Content-Digest": digest(raw), **self.server.says}
        self._send(200, raw if body is None else body, {k: v for k, v in headers.items() if v})

    def _send(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Registry]:
    registry = Registry()
    thread = threading.Thread(target=registry.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield registry
    finally:
        registry.shutdown()
        thread.join()
        registry.server_close()
