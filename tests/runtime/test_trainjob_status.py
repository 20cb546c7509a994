"""What Kubeflow Trainer's status server receives of a training, over real TLS."""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

import crds
from trainwright_runtime.metrics import Metrics
from trainwright_runtime.observe.trainjob import TrainJobStatus

PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ml/trainjobs/llm/status"

TRAINJOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "llm"},
    "spec": {"runtimeRef": {"name": "torch-distributed"}},
}


class Server(ThreadingHTTPServer):
    """The status server: it asks for the token that is valid now, and keeps what was posted."""

    daemon_threads = True

    def __init__(self, authority: trustme.CA) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.token = "first"
        self.speaks_http = True
        self.posted: list[dict[str, Any]] = []
        self.arrived = threading.Semaphore(0)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.server.speaks_http:
            self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
            self.server.arrived.release()
            return
        known = self.headers["Authorization"] == f"Bearer {self.server.token}"
        valid = known and self.path == PATH
        if valid:
            self.server.posted.append(json.loads(body)["trainerStatus"])
        self.send_response(200 if valid else 403)
        self.end_headers()
        self.server.arrived.release()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[Server]:
    with Server(authority) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def environ(server: Server, authority: trustme.CA, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "token").write_text("first\n")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    return {
        "KUBEFLOW_TRAINER_SERVER_URL": f"https://localhost:{server.server_port}{PATH}",
        "KUBEFLOW_TRAINER_SERVER_CA_CERT": str(tmp_path / "ca.crt"),
        "KUBEFLOW_TRAINER_SERVER_TOKEN": str(tmp_path / "token"),
        "RANK": "0",
    }


def _step(metrics: Metrics, step: int) -> None:
    metrics.step(step=step, samples=64, seconds=0.5, world_size=2)


def _values(status: dict[str, Any]) -> dict[str, str]:
    return {metric["name"]: metric["value"] for metric in status["metrics"]}


def test_progress_and_values_arrive_and_the_definition_takes_them(
    server: Server, environ: dict[str, str], shared: Callable[[str], Path]
) -> None:
    with Metrics.from_environment(environ=environ) as metrics:
        metrics.expect(8)
        metrics.values(loss=0.25)
        _step(metrics, 2)
        assert server.arrived.acquire(timeout=60)
        _step(metrics, 8)
    first, last = server.posted[0], server.posted[-1]
    assert (first["progressPercentage"], last["progressPercentage"]) == (25, 100)
    assert last["estimatedRemainingSeconds"] == 0
    assert _values(last) == {
        "step": "8",
        "step_seconds": "0.5",
        "samples_per_second": "256",
        "world_size": "2",
        "loss": "0.25",
    }
    for status in server.posted:
        body = {**TRAINJOB, "status": {"trainerStatus": status}}
        assert crds.errors(shared(crds.TRAINJOBS["2.3"]), body) == []


def test_a_token_that_was_replaced_is_read_again(
    server: Server, environ: dict[str, str], tmp_path: Path
) -> None:
    with Metrics.from_environment(environ=environ) as metrics:
        _step(metrics, 1)
        assert server.arrived.acquire(timeout=60)
        server.token = "second"
        (tmp_path / "token").write_text("second\n")
        _step(metrics, 2)
    assert _values(server.posted[-1])["step"] == "2"


def test_without_a_total_there_is_no_progress(server: Server, environ: dict[str, str]) -> None:
    with Metrics.from_environment(environ=environ) as metrics:
        _step(metrics, 3)
    assert server.posted[-1].keys() == {"metrics", "lastUpdatedTime"}


def test_a_restart_goes_on_where_it_was_and_reckons_from_its_own_steps() -> None:
    now = 100.0
    status = TrainJobStatus(lambda _: None, clock=lambda: now)
    status.total = 100
    for step in (51, 52):
        now += 2.0
        status.step(step, 1, 2.0, 0.0, 1)
    found = status.status()["trainerStatus"]
    assert (found["progressPercentage"], found["estimatedRemainingSeconds"]) == (52, 96)
    status.close()


@pytest.mark.parametrize(
    "change",
    [{"RANK": "1"}, {"RANK": "", "PET_NODE_RANK": "1"}, {"KUBEFLOW_TRAINER_SERVER_URL": ""}],
)
def test_only_rank_0_of_a_trainjob_posts(
    change: dict[str, str], server: Server, environ: dict[str, str]
) -> None:
    with Metrics.from_environment(environ={**environ, **change}) as metrics:
        _step(metrics, 1)
    assert server.posted == []


def test_a_rank_that_is_given_counts(server: Server, environ: dict[str, str]) -> None:
    with Metrics.from_environment(rank=1, environ=environ) as metrics:
        _step(metrics, 1)
    assert server.posted == []


def test_workers_without_ranks_post_nothing(server: Server, environ: dict[str, str]) -> None:
    """Under live recovery ranks come with each quorum, and each worker would post."""
    del environ["RANK"]
    with Metrics.from_environment(environ={**environ, "TRAINWRIGHT_REPLICA": "n-0"}) as metrics:
        _step(metrics, 1)
    assert server.posted == []


def test_a_server_that_speaks_no_http_is_one_warning(
    server: Server, environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    server.speaks_http = False
    with Metrics.from_environment(environ=environ) as metrics:
        _step(metrics, 1)
        assert server.arrived.acquire(timeout=60)
        _step(metrics, 2)
    assert caplog.text.count("TrainJob could not be posted: BadStatusLine: SSH-2.0") == 1


def test_without_tls_nothing_is_posted(
    environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """The token would be readable on its way."""
    environ["KUBEFLOW_TRAINER_SERVER_URL"] = "http://localhost/status"
    with Metrics.from_environment(environ=environ) as metrics:
        _step(metrics, 1)
    assert "http://localhost/status is not an https address" in caplog.text


def test_a_server_that_refuses_is_one_warning(
    server: Server, environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    server.token = "another"
    with caplog.at_level(logging.WARNING), Metrics.from_environment(environ=environ) as metrics:
        _step(metrics, 1)
        assert server.arrived.acquire(timeout=60)
        _step(metrics, 2)
    assert server.posted == []
    assert caplog.text.count("TrainJob could not be posted") == 1
    assert "403" in caplog.text
    assert "first" not in caplog.text


def test_a_server_that_another_authority_vouches_for_gets_no_token(
    server: Server, environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    trustme.CA().cert_pem.write_to_path(environ["KUBEFLOW_TRAINER_SERVER_CA_CERT"])
    with Metrics.from_environment(environ=environ) as metrics:
        _step(metrics, 1)
    assert server.posted == []
    assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
