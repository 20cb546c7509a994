"""A real object store: SeaweedFS, a process that speaks S3, and a relay that makes it fail."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from trainwright_runtime.launch.machine import free_port

WEED = Path(sys.executable).parent / "weed"
"""SeaweedFS, which comes from PyPI as one file: https://github.com/seaweedfs/seaweedfs"""

KEYS = {"writer": ["Admin"], "reader": ["Read", "List"], "keeper": ["Read", "List", "Write"]}
"""Who there is, whose secret is his name, and what he may do in any bucket."""

_TIMEOUT = 120.0  # seconds; only against hanging for ever


def environment(endpoint: str, key: str = "writer") -> dict[str, str]:
    """What s3fs finds the store by, whatever its user has configured."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": f"{key}-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "FSSPEC_CONFIG_DIR": "/dev/null",
    }


@contextmanager
def serving() -> Iterator[str]:
    """The endpoint of a store that lives until the end."""
    with tempfile.TemporaryDirectory(prefix="objects-") as name:
        folder = Path(name)
        identities = [
            {
                "name": key,
                "credentials": [{"accessKey": key, "secretKey": f"{key}-secret"}],
                "actions": actions,
            }
            for key, actions in KEYS.items()
        ]
        (folder / "identities.json").write_text(json.dumps({"identities": identities}))
        while True:
            port = free_port()
            with (folder / "log").open("wb") as log:
                process = subprocess.Popen(
                    _command(folder, port), stdout=log, stderr=log, stdin=subprocess.DEVNULL
                )
            try:
                if _answers(process, port):
                    yield f"http://127.0.0.1:{port}"
                    return
            finally:
                process.kill()
                process.wait()


def _command(folder: Path, port: int) -> list[str]:
    """All its servers in one process, each at free ports: its sockets in /tmp are named by them."""
    parts = ("master", "volume", "filer", "s3")
    ports = [f"-{part}.port.grpc={free_port()}" for part in parts]
    return [
        str(WEED), "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}",
        "-filer", "-s3", f"-s3.port={port}", f"-s3.config={folder / 'identities.json'}",
        *ports, *(f"-{part}.port={free_port()}" for part in parts[:3]),
        "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false",
        "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.minFreeSpace=1", "-volume.max=100",
        f"-filer.localSocket={folder / 'filer.sock'}", f"-s3.localSocket={folder / 's3.sock'}",
    ]  # fmt: skip


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    """Whether it is there; not so where another process has taken one of its ports."""
    deadline = time.monotonic() + _TIMEOUT
    while process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=_TIMEOUT).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return True
    return False


Fault = Callable[[str, str], int | None]
"""Of a request's method and path: the status to answer with, 0 to hang up, None to pass it on."""


class Relay:
    """Passes requests on to a store, but for those that a fault is for."""

    def __init__(self, endpoint: str) -> None:
        self.fault: Fault = lambda _method, _path: None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, endpoint))
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


_ERRORS = {403: "AccessDenied", 404: "NoSuchKey", 500: "InternalError", 503: "SlowDown"}


def _handler(relay: Relay, endpoint: str) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"relay": relay, "store": urlsplit(endpoint).netloc})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    relay: Relay
    store: str

    def _relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status = self.relay.fault(self.command, self.path)
        if status == 0:
            self.close_connection = True
        elif status is not None:
            self._answer(status, [("Content-Type", "application/xml")], _error(status))
        else:
            self._pass_on(body)

    def _pass_on(self, body: bytes) -> None:
        connection = http.client.HTTPConnection(self.store, timeout=_TIMEOUT)
        with closing(connection):
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                if name.lower() not in {"expect", "connection"}:
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            self._answer(answer.status, answer.getheaders(), answer.read())

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        length = str(len(content))
        for name, value in headers:
            if name.lower() == "content-length":
                length = value  # of what HEAD does not bring
            elif name.lower() not in {"transfer-encoding", "connection"}:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _relay  # noqa: N815

    def log_message(self, *_arguments: object) -> None:
        """Nothing: what is of interest is what the client makes of it."""


def _error(status: int) -> bytes:
    return f"<Error><Code>{_ERRORS[status]}</Code><Message>as set</Message></Error>".encode()
