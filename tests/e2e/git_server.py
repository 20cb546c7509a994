"""A git repository over HTTP, for engines that run in the cluster: git's own http-backend."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import git_repository as git

_NAME = "training.git"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    root: Path


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self._body())

    def log_message(self, *_: object) -> None:
        pass

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, body: bytes) -> None:
        """As RFC 3875 has it: headers, an empty line, and the rest. Nothing can be pushed."""
        url = urlsplit(self.path)
        done = subprocess.run(
            ["git", "http-backend"],
            input=body, capture_output=True, check=False, env={
                **os.environ, **git.ENVIRONMENT,
                "GIT_PROJECT_ROOT": str(self.server.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": url.path,
                "QUERY_STRING": url.query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_ADDR": self.client_address[0],
            },
        )  # fmt: skip
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(headers.pop("Status", "200 OK").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(rest)


class Served:
    """A bare repository beside a checkout, and its URL."""

    def __init__(self, folder: Path, url: str):
        self._bare, self.url = folder / _NAME, url
        git.git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self._bare))

    def push(self, checkout: Path) -> str:
        """The branch main of a checkout; its commit."""
        git.git(checkout, "push", "--quiet", "--force", str(self._bare), "HEAD:main")
        return git.git(checkout, "rev-parse", "HEAD")


@contextmanager
def serving(folder: Path, address: str) -> Iterator[Served]:
    """Serves a new repository below a folder, at an address of this machine."""
    host, _, port = address.partition(":")
    folder.mkdir(parents=True)
    server = _Server((host, int(port or 0)), _Handler)
    server.root = folder
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Served(folder, f"http://{host}:{server.server_port}/{_NAME}")
    finally:
        server.shutdown()
        server.server_close()
