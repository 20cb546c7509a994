"""How fast the language server answers in a large repository: 120 environments of 25 jobs.

    .venv/bin/python benchmarks/editor.py [--environments 120] [--edits 200] [--keep DIR]

A client of the protocol starts the server as an editor does, over pipes, types into files and asks.
Each figure is in milliseconds, from the moment at which the client writes to the one at which it
has read the answer: median and 99th percentile. CPU time of the server beside it says how much of
that others on the machine had. The last lines are of an edit that reaches every job.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from pipeline import trainwright
from repository import fill

COMMAND = [sys.executable, "-m", "trainwright"]


class Client:
    """What an editor does, and when the server has answered it."""

    def __init__(self, root: Path):
        self.root = root
        self.client = LanguageClient("benchmark", "1")
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(partial(self._published))
        self.client.feature(types.WINDOW_LOG_MESSAGE)(lambda _: None)
        self._awaited: dict[tuple[str, int], asyncio.Future[None]] = {}
        self.versions: dict[str, int] = {}

    def _published(self, params: types.PublishDiagnosticsParams) -> None:
        for (uri, version), future in list(self._awaited.items()):
            if uri == params.uri and (params.version or 0) >= version and not future.done():
                future.set_result(None)

    async def start(self) -> None:
        await self.client.start_io(*COMMAND, "editor", "lsp")
        folder = types.WorkspaceFolder(uri=self.root.as_uri(), name="repository")
        await self.client.initialize_async(
            types.InitializeParams(
                capabilities=types.ClientCapabilities(), workspace_folders=[folder]
            )
        )
        self.client.initialized(types.InitializedParams())

    @property
    def process(self) -> int:
        server: Any = self.client._server
        return int(server.pid)

    def open(self, path: Path) -> Awaitable[None]:
        uri, self.versions[path.as_uri()] = path.as_uri(), 1
        item = types.TextDocumentItem(
            uri=uri, language_id="yaml", version=1, text=path.read_text(encoding="utf-8")
        )
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
        return self._answer(uri, 1)

    def type(self, path: Path, text: str) -> Awaitable[None]:
        uri = path.as_uri()
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(uri=uri, version=self.versions[uri])
        change = types.TextDocumentContentChangeWholeDocument(text=text)
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(text_document=document, content_changes=[change])
        )
        return self._answer(uri, self.versions[uri])

    def _answer(self, uri: str, version: int) -> Awaitable[None]:
        future = asyncio.get_running_loop().create_future()
        self._awaited = {(uri, version): future}
        return future

    async def hover(self, path: Path, line: int, column: int) -> None:
        document = types.TextDocumentIdentifier(path.as_uri())
        params = types.HoverParams(document, types.Position(line, column))
        await self.client.text_document_hover_async(params)

    async def complete(self, path: Path, line: int, column: int) -> None:
        document = types.TextDocumentIdentifier(path.as_uri())
        params = types.CompletionParams(document, types.Position(line, column))
        found = await self.client.text_document_completion_async(params)
        assert found

    async def lenses(self, path: Path) -> None:
        """What a change of the file does to runs is said there."""
        document = types.TextDocumentIdentifier(path.as_uri())
        found = await self.client.text_document_code_lens_async(types.CodeLensParams(document))
        assert found

    async def checked(self) -> None:
        await self.client.protocol.send_request_async("trainwright/checked", {})

    async def stop(self) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        stop: Callable[[], Awaitable[None]] = self.client.stop  # which has no types
        await stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--environments", type=int, default=120)
    parser.add_argument("--jobs", type=int, default=25, help="jobs in each environment")
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--keep", type=Path, help="a repository of an earlier run, or one to make")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as folder:
        root = options.keep or Path(folder)
        os.environ["XDG_CACHE_HOME"] = str(root / "cache")
        if not (root / "environments").exists():
            fill(root, options.environments, options.jobs)
        trainwright(root, "check")  # which is remembered where this is another version's repository
        asyncio.run(measure(root.absolute(), options.edits))


@asynccontextmanager
async def serving(root: Path) -> AsyncIterator[Client]:
    client = Client(root)
    await client.start()
    try:
        yield client
    finally:
        await client.stop()


async def measure(root: Path, edits: int) -> None:
    jobs = sorted(root.glob("environments/*-*/jobs/*.yaml"))
    chance = random.Random(1)
    print(f"{len(jobs)} jobs{'':30}{'median':>8}{'p99':>8}{'most':>8}   wanted")
    for cache in ("with what `check` remembers", "without a cache"):
        if cache.startswith("without"):
            os.environ["XDG_CACHE_HOME"] = "/nonexistent"
        taken = [await _start(root, chance.choice(jobs)) for _ in range(5)]
        show(f"start, {cache}", taken, "1500")
        async with serving(root) as client:
            before = time.perf_counter()
            await client.checked()
            show(f"all checked, {cache}", [time.perf_counter() - before], "")
    async with serving(root) as client:
        await client.checked()
        print(f"memory, all checked: {_memory(client.process):.0f} MB (wanted: at most 400)")
        await _edits(client, jobs, edits, chance)
        await _shared(client, root, jobs)
        print(f"memory at the end:   {_memory(client.process):.0f} MB (wanted: at most 400)")


async def _start(root: Path, path: Path) -> float:
    before = time.perf_counter()
    async with serving(root) as client:
        await client.open(path)
        return time.perf_counter() - before


async def _edits(client: Client, jobs: Sequence[Path], edits: int, chance: random.Random) -> None:
    taken: dict[str, list[float]] = {"edit": [], "broken edit": [], "hover": [], "completion": []}
    cpu = _cpu(client.process)
    count = 0
    for path in chance.sample(list(jobs), 20):
        await client.open(path)
        text = path.read_text(encoding="utf-8")
        for number in range(edits // 20):
            line = "pool:h100" if number % 4 == 3 else f"retries: {number % 5}"
            kind = "broken edit" if number % 4 == 3 else "edit"
            body = "\n".join(x for x in text.splitlines() if not x.startswith("retries:"))
            taken[kind].append(await timed(client.type(path, f"{body}\n{line}\n")))
            lines = body.splitlines()
            at = chance.randrange(len(lines))
            asked = client.hover(path, at, 2)
            taken["hover"].append(await timed(asked))
            asked = client.complete(path, len(lines) + 1, 0)
            taken["completion"].append(await timed(asked))
            count += 3
    spent = (_cpu(client.process) - cpu) / count * 1000
    for name, wanted in (
        ("edit", "50 / 150"),
        ("broken edit", "50 / 150"),
        ("hover", "20"),
        ("completion", "20"),
    ):
        show(name, taken[name], wanted)
    print(f"CPU time of the server for one of these: {spent:.1f} ms")


async def _shared(client: Client, root: Path, jobs: Sequence[Path]) -> None:
    """Edits that reach many jobs, and what an editor waits for meanwhile."""
    for name, path in (
        ("an environment's default", jobs[0].parents[1] / "environment.yaml"),
        ("a default of all environments", root / "environments" / "defaults.yaml"),
    ):
        await client.open(path)
        text = path.read_text(encoding="utf-8")
        changed = text.replace("defaults:\n", "defaults:\n  gracePeriod: 77s\n", 1)
        assert changed != text, path
        await client.open(jobs[1])
        own = jobs[1].read_text(encoding="utf-8")
        before = time.perf_counter()
        client.type(path, changed)
        first = await timed(client.type(jobs[1], f"{own}\n"))
        consequences = await timed(client.lenses(path))
        waiting = []
        done = asyncio.ensure_future(client.checked())
        while not done.done():
            waiting.append(await timed(client.hover(jobs[1], 3, 2)))
            await asyncio.sleep(0.01)
        taken = time.perf_counter() - before
        show(f"{name}: the open job", [first], "")
        show(f"{name}: what it holds back and starts", [first + consequences], "1000")
        show(f"{name}: all jobs", [taken], "")
        if waiting:
            show(f"{name}: hover meanwhile", waiting, "20")
        client.type(path, text)
        await client.checked()


async def timed(work: Awaitable[None]) -> float:
    before = time.perf_counter()
    await work
    return time.perf_counter() - before


def show(name: str, seconds: Sequence[float], wanted: str) -> None:
    taken = sorted(second * 1000 for second in seconds)
    p99 = taken[min(len(taken) - 1, int(len(taken) * 0.99))]
    print(f"{name:44}{statistics.median(taken):8.1f}{p99:8.1f}{taken[-1]:8.1f}   {wanted}")


def _memory(process: int) -> float:
    """The proportional set size of a process, in MB."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _cpu(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
