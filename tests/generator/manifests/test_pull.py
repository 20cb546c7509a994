"""`crds pull` against an API server over real HTTP, which answers what a real one has answered."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from trainwright.datatypes.errors import SourceError
from trainwright.manifests import pull

pytest.importorskip("kubernetes")

# A list item as kube-apiserver 1.31 gives it, shortened in its schema alone.
RECORDED: dict[str, Any] = {
    "metadata": {
        "name": "xs.x.io",
        "uid": "5a8b2f0e-3d6e-4f0b-a2a8-0d6f8a0f6a11",
        "resourceVersion": "81234",
        "generation": 2,
        "creationTimestamp": "2026-02-03T04:05:06Z",
        "labels": {"app": "x"},
        "annotations": {
            "controller-gen.kubebuilder.io/version": "v0.16.1",
            "kubectl.kubernetes.io/last-applied-configuration": '{"kind":"CustomResourceDefinition"}',
        },
        "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "group": "x.io",
        "names": {"plural": "xs", "singular": "x", "kind": "X", "listKind": "XList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
                    }
                },
            }
        ],
        "conversion": {
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": {"caBundle": "c2VjcmV0", "service": {"name": "w", "namespace": "x"}},
            },
        },
    },
    "status": {"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]},
}  # fmt: skip


class Server:
    """Lists definitions, `page` at a time."""

    def __init__(self, items: list[dict[str, Any]], page: int = 500):
        self.items, self.page = items, page
        self.paths: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = server.answer(self.path)
                raw = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: object) -> None: ...

        return Handler

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        self.paths.append(path)
        parts = urlsplit(path)
        if parts.path != "/apis/apiextensions.k8s.io/v1/customresourcedefinitions":
            return 404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "no"}
        begin = int(parse_qs(parts.query).get("continue", ["0"])[0])
        end = begin + self.page
        metadata = {"resourceVersion": "9", "continue": str(end) if end < len(self.items) else ""}
        return 200, {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinitionList",
            "metadata": metadata,
            "items": self.items[begin:end],
        }

    def kubeconfig(self, path: Path) -> Path:
        url = f"http://127.0.0.1:{self._server.server_port}"
        contexts = [
            {"name": n, "context": {"cluster": "c", "user": "u"}} for n in ("here", "there")
        ]
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": contexts,
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def named(plural: str, group: str = "x.io") -> dict[str, Any]:
    item = copy.deepcopy(RECORDED)
    item["metadata"]["name"] = f"{plural}.{group}"
    item["spec"]["group"], item["spec"]["names"]["plural"] = group, plural
    return item


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server([named("xs"), named("ys"), named("zs", "z.io")], page=2)
    yield made
    made.close()


def trainwright(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "trainwright", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_definitions_become_files_that_stay_the_same(server: Server, tmp_path: Path) -> None:
    config = str(server.kubeconfig(tmp_path / "config"))
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "mine.yaml").write_text("kind: Other")
    done = trainwright(
        tmp_path, "admin", "crds", "pull", "--kubeconfig", config, "--context", "there"
    )
    assert (done.returncode, done.stdout) == (0, "crds: 3 added\n"), done.stderr
    assert "context there" in done.stderr
    files = sorted(
        p.relative_to(tmp_path / "crds").as_posix() for p in tmp_path.glob("crds/**/*.yaml")
    )
    assert files == ["mine.yaml", "x.io/xs.yaml", "x.io/ys.yaml", "z.io/zs.yaml"]
    assert len(server.paths) == 2  # in pages

    for item in server.items:  # what changes without anybody's doing
        item["metadata"].update(resourceVersion="99999", managedFields=[], uid="other")
        item["status"] = {}
        client = item["spec"]["conversion"]["webhook"]["clientConfig"]
        client["caBundle"] = "bmV3"
        item["spec"] = dict(reversed(item["spec"].items()))
    again = trainwright(tmp_path, "admin", "crds", "pull", "--kubeconfig", config)
    assert (again.returncode, again.stdout) == (0, "crds: up to date\n"), again.stderr

    server.items[0]["spec"]["scope"] = "Cluster"
    del server.items[2]
    third = trainwright(tmp_path, "admin", "crds", "pull", "--kubeconfig", config)
    assert third.stdout == "crds: 1 changed\n"
    assert (tmp_path / "crds" / "z.io" / "zs.yaml").is_file()


def test_what_is_kept_of_a_definition() -> None:
    (text,) = pull.changes(Path("none"), [RECORDED]).added.values()
    kept = yaml.safe_load(text)
    assert list(kept) == ["apiVersion", "kind", "metadata", "spec"]
    assert kept["kind"] == "CustomResourceDefinition"  # which items of a list do not say
    assert kept["metadata"] == {
        "annotations": {"controller-gen.kubebuilder.io/version": "v0.16.1"},
        "labels": {"app": "x"},
        "name": "xs.x.io",
    }
    assert kept["spec"]["versions"] == RECORDED["spec"]["versions"]
    assert kept["spec"]["conversion"]["webhook"]["clientConfig"] == {
        "service": {"name": "w", "namespace": "x"}
    }
    assert RECORDED["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]  # left as it was


def test_what_was_pulled_takes_part(server: Server, tmp_path: Path) -> None:
    config = str(server.kubeconfig(tmp_path / "config"))
    trainwright(tmp_path, "admin", "crds", "pull", "--kubeconfig", config, "--out", "defs")
    (tmp_path / "a.yaml").write_text(
        "apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\nspec: {b: 1}"
    )
    done = trainwright(tmp_path, "validate", "a.yaml", "--crds", "defs")
    assert done.returncode == 1
    assert 'unknown key "b" in spec' in done.stdout


@pytest.mark.parametrize("plural", ["../../up", "a/b", "..", "", "A", "a\n", None])
def test_names_cannot_leave_the_folder(plural: str | None) -> None:
    item = named("xs")
    item["spec"]["names"]["plural"] = plural
    with pytest.raises(SourceError, match="no file can be named after"):
        pull.changes(Path("none"), [item])


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    server = Server([])
    config = server.kubeconfig(tmp_path / "config")
    server.close()
    done = trainwright(tmp_path, "admin", "crds", "pull", "--kubeconfig", str(config))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 2
    assert "Traceback" not in done.stderr
