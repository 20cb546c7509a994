"""The MCP server, by a real client over pipes: it answers, and writes nothing."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import git_repository
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
    parameters = mcp.StdioServerParameters(command=sys.executable, args=command)

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
            "list_jobs", "check", "explain", "plan", "search_reference", "propose",
        }  # fmt: skip
        assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
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
