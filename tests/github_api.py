"""The part of GitHub's REST API that keeps comments on pull requests, over real HTTP."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token-of-this-test"
BOT = "github-actions[bot]"


@dataclass
class Api:
    """Comments by number of their pull request, and the requests that were made."""

    url: str = ""
    comments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    refuse: int = 0  # a status to answer everything with
    elsewhere: str = ""  # where to send everything
    answer: tuple[int, bytes] | None = None  # a status and a body for everything
    seen: list[str] = field(default_factory=list)  # Authorization headers

    def add(self, number: int, body: str, login: str) -> dict[str, Any]:
        made = {
            "id": 1 + sum(map(len, self.comments.values())),
            "body": body,
            "user": {"login": login},
            "html_url": f"https://github.com/example/training/pull/{number}#issuecomment-1",
        }
        self.comments.setdefault(number, []).append(made)
        return made

    def bodies(self, number: int) -> list[str]:
        return [comment["body"] for comment in self.comments.get(number, [])]


@contextmanager
def serving() -> Iterator[Api]:
    """The API of the repository example/training, until the block ends."""
    api = Api()

    class Handler(_Handler):
        store = api

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Api

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.store.requests.append(f"{self.command} {self.path}")
        self.store.seen.append(self.headers.get("Authorization", ""))
        if self.store.elsewhere:
            self._answer(302, {}, Location=f"{self.store.elsewhere}{self.path}")
        elif self.store.answer:
            self._send(*self.store.answer)
        elif self.store.refuse:
            self._answer(self.store.refuse, {"message": "Resource not accessible by integration"})
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer(401, {"message": "Bad credentials"})
        else:
            self._comments(urlsplit(self.path), json.loads(body or b"{}"))

    def _comments(self, url: Any, data: dict[str, str]) -> None:
        base = "/repos/example/training/issues"
        of_number = re.fullmatch(rf"{base}/(\d+)/comments", url.path)
        by_id = re.fullmatch(rf"{base}/comments/(\d+)", url.path)
        every = [comment for comments in self.store.comments.values() for comment in comments]
        if of_number and self.command == "POST":
            self._answer(201, self.store.add(int(of_number[1]), data["body"], BOT))
        elif of_number:
            query = parse_qs(url.query)
            size, page = int(query["per_page"][0]), int(query["page"][0])
            found = self.store.comments.get(int(of_number[1]), [])
            self._answer(200, found[(page - 1) * size : page * size])
        elif by_id and self.command == "PATCH":
            (comment,) = [comment for comment in every if comment["id"] == int(by_id[1])]
            comment["body"] = data["body"]
            self._answer(200, comment)
        else:
            self._answer(404, {"message": "Not Found"})

    def _answer(self, status: int, data: Any, **headers: str) -> None:
        self._send(status, json.dumps(data).encode(), **headers)

    def _send(self, status: int, text: bytes, **headers: str) -> None:
        self.send_response(status)
        for key, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PATCH = _handle  # noqa: N815 - names of http.server

    def log_message(self, *_arguments: object) -> None:
        """Nothing: a test's output is its own."""
