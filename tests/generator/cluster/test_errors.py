"""What goes wrong with a cluster: one line that says what to do, exit 2, no traceback."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from apiserver import ApiServer
from repository import Repository

Run = Callable[..., Result]


def last(done: Result) -> str:
    """The one line, of a run that could not do it."""
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    lines = [line for line in done.stderr.splitlines() if line.startswith("trainwright: ")]
    assert len(lines) == 1, done.stderr
    return lines[0].removeprefix("trainwright: ")


VERBS = (
    ("status", "prod"),
    ("logs", "prod/llm"),
    ("status", "prod/llm", "--for", "succeeded"),
    ("status", "--diff", "prod"),
)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_no_server_there(
    rendered: Repository, api: ApiServer, tmp_path: Path, verb: tuple[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        config = api.kubeconfig(tmp_path / "k", url=url)
        message = last(rendered.run(*verb, "--kubeconfig", str(config)))
    assert message == f"cannot reach {url} (context here): Connection refused"


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_credentials_that_are_not_accepted(
    rendered: Repository, api: ApiServer, tmp_path: Path, verb: tuple[str]
) -> None:
    config = api.kubeconfig(tmp_path / "k", token="expired")
    message = last(rendered.run(*verb, "--kubeconfig", str(config)))
    assert (
        message == f"{api.url} (context here) does not accept the credentials: sign in again (401)"
    )


@pytest.mark.parametrize(
    ("verb", "denied"),
    [
        (VERBS[0], ("list", "pytorchjobs")),
        (VERBS[1], ("get", "pytorchjobs")),
        (VERBS[2], ("list", "pytorchjobs")),
        (VERBS[3], ("get", "pytorchjobs")),
    ],
)
def test_what_is_forbidden_names_verb_resource_and_role(
    run: Run, api: ApiServer, verb: tuple[str], denied: tuple[str, str]
) -> None:
    api.forbidden.add(denied)
    message = last(run(*verb))
    assert message.startswith(
        f"not allowed to {denied[0]} pytorchjobs.kubeflow.org in namespace training:"
    )
    assert 'User "eve"' in message
    role = "dry-run" if "--diff" in verb else "read"
    assert message.endswith(
        f"`trainwright status --print-rbac {role}` prints the role that allows it"
    )


@pytest.mark.parametrize("verb", VERBS[:3], ids=lambda verb: verb[0])
def test_an_operator_that_is_not_installed(run: Run, api: ApiServer, verb: tuple[str]) -> None:
    del api.kinds["kubeflow.org/v1", "PyTorchJob"]
    assert last(run(*verb)) == (
        f"{api.url} (context here) knows no pytorchjobs.kubeflow.org: what makes it is not "
        "installed, or this is another cluster than the environment's"
    )


def test_a_declared_target_without_jobs_need_not_be_installed(
    repository: Repository, run: Run, api: ApiServer
) -> None:
    path = repository.root / "environments/prod/environment.yaml"
    path.write_text(path.read_text().replace("targets: {", "targets: {jobset: {}, "))
    del api.kinds["jobset.x-k8s.io/v1alpha2", "JobSet"]
    assert run("status", "prod").exit_code == 0


def test_no_kubeconfig(
    rendered: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    message = last(rendered.run("status"))
    assert (
        message == f"no kubeconfig in {tmp_path / 'none'}: name one with --kubeconfig or KUBECONFIG"
    )


def test_a_context_that_is_not_there(run: Run) -> None:
    message = last(run("status", "--context", "prodd"))
    assert message == 'the kubeconfig has no context "prodd": see `kubectl config get-contexts`'


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "a: b", "contexts: 5\nclusters: x\nusers: y\n", "\x00"]
)
def test_a_kubeconfig_that_is_none(rendered: Repository, tmp_path: Path, text: str) -> None:
    (tmp_path / "k").write_text(text)
    assert "kubeconfig" in last(rendered.run("status", "--kubeconfig", str(tmp_path / "k")))


def test_a_credential_plug_in_that_fails(
    rendered: Repository, api: ApiServer, tmp_path: Path
) -> None:
    config = api.kubeconfig(tmp_path / "k")
    data = yaml.safe_load(config.read_text())
    plugin = tmp_path / "plugin"
    plugin.write_text("#!/bin/sh\necho 'please run: az login' >&2\nexit 1\n")
    plugin.chmod(0o755)
    run = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(plugin),
        "interactiveMode": "Never",
    }
    data["users"] = [{"name": "u", "user": {"exec": run}}]
    config.write_text(yaml.safe_dump(data))
    message = last(rendered.run("status", "--kubeconfig", str(config)))
    assert message.startswith("no credentials for the context here: exec: process returned 1")
    assert "az login" in message


def test_something_else_than_an_api_server(
    rendered: Repository, api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def page(self: Any, _: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"<html>")

    monkeypatch.setattr(api.server.RequestHandlerClass, "_serve", page)
    config = api.kubeconfig(tmp_path / "k")
    message = last(rendered.run("status", "--kubeconfig", str(config)))
    assert message == f"{api.url} (context here) answers, but is not a Kubernetes API"


def test_tls_where_there_is_none(rendered: Repository, api: ApiServer, tmp_path: Path) -> None:
    config = api.kubeconfig(tmp_path / "k", url=api.url.replace("http:", "https:"))
    message = last(rendered.run("status", "--kubeconfig", str(config)))
    assert message.startswith("cannot reach https://")


def test_the_library_is_missing(rendered: Repository) -> None:
    # A real interpreter in which the library cannot be imported.
    code = (
        "import sys; sys.modules['kubernetes'] = None; from trainwright.cli import main; "
        f"main(['-C', {str(rendered.root)!r}, 'status'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "trainwright: cluster commands need the kubernetes client: pip install"
    )
    assert done.stderr.count("\n") == 1


def test_other_verbs_do_not_import_it() -> None:
    code = (
        "import sys, trainwright.cli.cluster, trainwright.cli.render, trainwright.cluster.live, "
        "trainwright.cluster.sessions; print('kubernetes' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_an_environment_that_is_broken(repository: Repository, run: Run) -> None:
    repository.write("prod/environment.yaml", "kind: Environment\n")
    assert "run `trainwright check prod`" in last(run("status", "prod"))


@pytest.mark.parametrize("verb", [("logs",), ("status", "--for", "running")], ids=" ".join)
def test_one_job_is_one(run: Run, verb: tuple[str, ...]) -> None:
    assert last(run(*verb, "prod")).partition(", ")[0].endswith("name one as ENV/JOB")
    assert "did you mean" in last(run(*verb, "prod/lm"))


def test_a_wait_is_for_one_job(run: Run) -> None:
    assert "name it as ENV/JOB" in run("status", "--for", "running").stderr
    assert "--timeout is for --for" in run("status", "prod", "--timeout", "1m").stderr
