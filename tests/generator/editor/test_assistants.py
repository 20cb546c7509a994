"""The MCP server, by a real client over pipes: it answers, and writes nothing."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import git_repository
from apiserver import ApiServer
from cluster_objects import RUNNING, conditions, pod
from repository import Repository

JOB = "environments/prod/jobs/llm.yaml"


@pytest.fixture
def specs(tmp_path: Path) -> Repository:
    made = Repository(git_repository.init(tmp_path / "specs"))
    made.environment("prod")
    made.job("prod/llm", "env: {TOKEN_FOR_HUB: hf_abcdefghijklmnopqrstuvwxyz012345}\n")
    git_repository.commit(made.root, "Begin")
    return made


def talk(specs: Repository, to: Callable[[Any], Awaitable[None]]) -> None:
    """A session with `trainwright editor mcp` as a process of its own."""
    mcp = pytest.importorskip("mcp", reason="mcp is not installed")
    command = ["-m", "trainwright", "-C", str(specs.root), "editor", "mcp"]
    parameters = mcp.StdioServerParameters(
        command=sys.executable, args=command, env=dict(os.environ)
    )

    async def session() -> None:
        async with mcp.Client(parameters) as client:
            await to(client)

    asyncio.run(session())


async def call(client: Any, name: str, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    text = "".join(block.text for block in result.content)
    return (text, True) if result.is_error else (result.structured_content, False)


def test_tools_answer_and_write_nothing(specs: Repository) -> None:
    def files() -> dict[str, bytes]:
        found = (path for path in specs.root.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in found if ".git" not in path.parts}

    before = files()

    async def to(client: Any) -> None:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == {
            "list_jobs", "list_specs", "read_spec", "check", "explain", "plan", "search_reference",
            "propose", "status", "logs",
        }  # fmt: skip
        assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
        for tool in tools:
            assert tool.input_schema["additionalProperties"] is False
            for name, parameter in tool.input_schema.get("properties", {}).items():
                assert parameter.get("description", "").endswith("."), (tool.name, name)
        jobs, failed = await call(client, "list_jobs")
        assert (list(jobs), failed) == (["prod/llm"], False)
        found, _ = await call(client, "check", selections=["prod"])
        assert not found["ok"]
        assert {one["place"]["file"] for one in found["findings"]} == {JOB}
        explained, _ = await call(client, "explain", job="prod/llm", path="env")
        assert "hf_abc" not in json.dumps([found, explained])
        review, _ = await call(client, "plan", against="main")
        assert review["kind"] == "Plan"
        reference, _ = await call(client, "search_reference", words="how often retries")
        assert reference["result"][0]["field"] == "retries"
        old = (specs.root / JOB).read_text()
        proposed, _ = await call(client, "propose", path=JOB, text=f"{old}node: 3\n")
        assert proposed["diff"].endswith("+node: 3\n")
        assert [one["rule"] for one in proposed["added"]] == ["TW010"]
        assert "hf_abc" not in json.dumps(proposed)

    talk(specs, to)
    assert files() == before


def test_what_cannot_be_done_is_said(specs: Repository) -> None:
    async def to(client: Any) -> None:
        message, failed = await call(client, "explain", job="prod/lm")
        assert failed
        assert 'there is no job "prod/lm"' in message
        message, failed = await call(client, "propose", path="../x", text="")
        assert failed
        assert "is not the path of a spec" in message
        assert "Traceback" not in message

    talk(specs, to)


def test_specs_are_listed_and_read_without_their_credentials(specs: Repository) -> None:
    specs.write("base/jobs/shared.yaml", "kind: JobSpec\nname: shared\n")

    async def to(client: Any) -> None:
        paths, _ = await call(client, "list_specs")
        assert {
            "environments/prod/environment.yaml": "environment",
            JOB: "job",
        }.items() <= paths.items()
        assert "environments/base/jobs/shared.yaml" in paths
        text, _ = await call(client, "read_spec", path=JOB)
        assert "name: llm" in text["result"]
        assert "hf_abc" not in text["result"]
        for path in ("../x", "environments/prod/rendered/x.yaml", "README.md", "/etc/passwd"):
            message, failed = await call(client, "read_spec", path=path)
            assert failed
            assert f'there is no spec "{path}"' in message

    talk(specs, to)


def test_what_is_proposed_is_planned(specs: Repository) -> None:
    specs.job("prod/llm")
    specs.run("render")
    git_repository.commit(specs.root, "Render")

    async def to(client: Any) -> None:
        old = (specs.root / JOB).read_text()
        same, _ = await call(client, "propose", path=JOB, text=old)
        assert (same["plan"]["plan"]["changes"], same["diff"]) == ([], "")
        proposed, _ = await call(
            client, "propose", path=JOB, text=old.replace("nodes: 2", "nodes: 3")
        )
        (change,) = proposed["plan"]["plan"]["changes"]
        assert (change["job"], change["action"]) == ("prod/llm", "new run")
        assert proposed["reason"] == ""
        new = "environments/prod/jobs/new.yaml"
        begun, _ = await call(client, "propose", path=new, text=old.replace("llm", "new"))
        assert '"prod/new"' in json.dumps(begun["plan"])
        unknown, _ = await call(client, "propose", path=JOB, text=old, against="nowhere")
        assert unknown["plan"] is None
        assert "nowhere" in unknown["reason"]

    talk(specs, to)


def test_an_argument_that_a_tool_lacks_is_an_error(specs: Repository) -> None:
    async def to(client: Any) -> None:
        message, failed = await call(client, "check", selection=["prod"])
        assert failed
        assert "unknown argument selection: check takes selections" in message
        message, failed = await call(client, "logs", job="prod/llm", tail=0)
        assert failed
        assert "greater than or equal to 1" in message

    talk(specs, to)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """A cluster, and the kubeconfig of who starts the server."""
    server = ApiServer()
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
    yield server
    server.close()


def test_runs_and_their_logs_are_read_from_the_cluster(specs: Repository, api: ApiServer) -> None:
    specs.job("prod/llm")
    assert specs.run("render").exit_code == 0
    rendered = yaml.safe_load(
        (specs.root / "environments/prod/rendered/llm/pytorchjob.yaml").read_text()
    )

    async def to(client: Any) -> None:
        message, failed = await call(client, "logs", job="prod/llm")
        assert failed
        assert "is not applied" in message
        body = api.put({**rendered, "status": conditions("Created", "Running")})
        name = f"{body['metadata']['name']}-master-0"
        api.put(pod(body, name, **RUNNING))
        stamp = "2026-11-21T03:04:00.000000000Z"
        api.logs[name] = [f"{stamp} begin", f"{stamp} \x1b[2Jtoken hf_{'a' * 34}"]
        states, _ = await call(client, "status", selections=["prod"])
        (run,) = states["runs"]
        assert (run["job"], run["cluster"], states["unread"]) == ("prod/llm", "running", [])
        lines, _ = await call(client, "logs", job="prod/llm", rank=0, tail=2)
        first, second = lines["result"]
        assert first == "rank 0 | begin"
        assert "hf_aaa" not in second
        assert "\x1b" not in second
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        reaching = {name for name, tool in tools.items() if tool.annotations.open_world_hint}
        assert reaching == {"status", "logs"}

    talk(specs, to)
