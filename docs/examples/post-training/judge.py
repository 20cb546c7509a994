"""A judge that scores texts: the share of letters that are vowels."""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Judge(BaseHTTPRequestHandler):
    """GET answers once it serves, POST has the scores of a list of texts."""

    def do_GET(self) -> None:
        """Be ready."""
        self._answer({"status": "ok"})

    def do_POST(self) -> None:
        """Score texts."""
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer([sum(letter in "aeiou" for letter in text) / len(text) for text in texts])

    def _answer(self, data: Any) -> None:
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Write no line for each request."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    ThreadingHTTPServer(("", parser.parse_args().port), Judge).serve_forever()
