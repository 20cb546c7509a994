"""Random edits and requests, broken and interleaved: no error, and no answer about earlier text."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

pytest.importorskip("pytest_lsp", reason="pytest-lsp is not installed")

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from editing import Editor, editing
from repository import Repository
from trainwright.files.tree import Edited, Folder
from trainwright.findings.visibility import visible
from trainwright.render import build
from trainwright.render.build import BuildOptions

TODAY = "2026-06-01"
FILES = {
    "defaults.yaml": "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\ndefaults: {retries: 3}\n",
    "base/jobs/shared.yaml": "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: shared\nretries: 4\n",
    "dev/environment.yaml": "",
    "prod/environment.yaml": "",
    "dev/jobs/one.yaml": "extends: base/shared\n",
    "dev/jobs/two.yaml": "pool: h100\nvolumes: {data: {claim: x, mountPath: /x}}\n",
    "prod/jobs/one.yaml": "extends: dev/one\nqueue: gone\n",
}
LINES = (
    "retries: 5\n", "pool: h100\n", "pool: gone\n", "extends: base/shared\n", "extends: prod/one\n", "labels: {a: b}\n",
    "pool:h100\n", "labels: {\n", "- x\n", "\t\n", "'\n", "🚂: 1\n", "a: &a [*a]\n", "<<: *b\n", "---\n", "? x\n", "waivers: {TW060: {\n",
    "pools: {h100: {resource: nvidia.com/gpu}}\n", "defaults: {labels: {a: b}}\n", "name: other\n", "image: []\n", "\u2028\n", "x: |\n  y\n",
    "volumes: 1\n", "checkpoint: {volume: data}\n", "secrets: {A: {name: b}}\n", "defaults: 1\n", "entrypoint: \n", "run: 1e999\n",
)  # fmt: skip
ALPHABET = " \n\t:{}[]'\"#-&*!|>%@`,abz019é🚂\u2028\\"


class Person:
    """A user who types anything."""

    def __init__(self, editor: Editor, chance: random.Random):
        self.editor = editor
        self.chance = chance
        self.texts: dict[str, str] = {}  # of what is open
        self.asked: Counter[str] = Counter()

    def path(self) -> str:
        return self.chance.choice(list(FILES))

    def text(self, path: str) -> str:
        known = self.texts.get(path)
        full = self.editor.root / "environments" / path
        return known if known is not None else full.read_text() if full.exists() else ""

    def mutated(self, text: str) -> str:
        chance = self.chance
        lines = text.splitlines(keepends=True)
        at = chance.randrange(len(lines) + 1)
        kind = chance.randrange(6)
        if kind < 2:
            lines.insert(at, chance.choice(LINES))
        elif kind == 2 and lines:
            del lines[min(at, len(lines) - 1)]
        elif kind == 3:
            return original(self.editor, self.chance.choice(list(FILES)))
        else:
            offset = chance.randrange(len(text) + 1)
            return text[:offset] + chance.choice(ALPHABET) + text[offset + chance.randrange(3) :]
        return "".join(lines)

    async def act(self) -> None:
        """One edit, or a few requests at once."""
        do = self.chance.choice(
            (self.type, self.type, self.type, self.save, self.close, self.ask, self.ask)
        )
        await do()

    async def type(self) -> None:
        path = self.path()
        if path not in self.texts:
            self.texts[path] = self.text(path)
            self.editor.open(path, self.texts[path])
        self.asked["edit"] += 1
        self.texts[path] = self.mutated(self.texts[path])
        self.editor.type(path, self.texts[path])

    async def save(self) -> None:
        path = self.path()
        full = self.editor.root / "environments" / path
        if self.chance.randrange(4):
            full.write_text(self.text(path), encoding="utf-8", newline="")
        elif path not in self.texts:
            full.unlink(missing_ok=True)
        self.editor.changed(path)

    async def close(self) -> None:
        if self.texts:
            path = self.chance.choice(list(self.texts))
            del self.texts[path]
            self.editor.close(path)

    async def ask(self) -> None:
        """Requests at any position, not all of which are waited for before the next edit."""
        asked = [self.request() for _ in range(self.chance.randrange(1, 4))]
        if self.chance.randrange(2):
            await self.type()
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, BaseException) and not isinstance(answer, JsonRpcInvalidParams):
                raise answer

    def request(self) -> Any:
        client, path, chance = self.editor.client, self.path(), self.chance
        document = self.editor.document(path)
        lines = self.text(path).count("\n") + 2
        at = types.Position(chance.randrange(lines), chance.randrange(40))
        around = types.Range(types.Position(0, 0), at)
        context = types.CodeActionContext(diagnostics=[])
        requests = {
            "hover": types.HoverParams(document, at),
            "definition": types.DefinitionParams(document, at),
            "references": types.ReferenceParams(types.ReferenceContext(False), document, at),
            "completion": types.CompletionParams(document, at),
            "code_action": types.CodeActionParams(document, around, context),
            "code_lens": types.CodeLensParams(document),
            "prepare_rename": types.PrepareRenameParams(document, at),
            "rename": types.RenameParams(document, at, chance.choice(("data", "x-1", "No"))),
            "document_symbol": types.DocumentSymbolParams(document),
            "folding_range": types.FoldingRangeParams(document),
            "inlay_hint": types.InlayHintParams(document, around),
        }
        name = chance.choice(list(requests))
        self.asked[name] += 1
        return getattr(client, f"text_document_{name}_async")(requests[name])

    async def compare(self) -> None:
        """Hold what was published against a cold check of the same texts."""
        await self.editor.checked()
        folder = Folder(self.editor.root)
        unsaved = {f"environments/{path}": text.encode() for path, text in self.texts.items()}
        options = BuildOptions(today=TODAY, use_cache=False)
        tree = Edited(folder, unsaved)
        cold = build.build(self.editor.root, (), options, specs=tree, rendered=folder)
        wanted = Counter(
            (f.place.file, f.rule, f.place.line - 1, visible(f.message)) for f in cold.findings
        )
        root = f"{self.editor.root.as_uri()}/"
        found = Counter(
            (uri.removeprefix(root), one.code, one.range.start.line, one.message.split("\n")[0])
            for uri, published in self.editor.client.diagnostics.items()
            for one in published
        )
        assert found == wanted


def original(editor: Editor, path: str) -> str:
    """A file as it was in the beginning."""
    return (editor.root / "original" / path).read_text()


def prepare(root: Path) -> Repository:
    repository = Repository(root)
    for path, extra in FILES.items():
        if path.endswith("environment.yaml"):
            repository.environment(path.partition("/")[0], extra)
        elif path.startswith(("dev/", "prod/")):
            repository.job(path.removesuffix(".yaml").replace("/jobs/", "/"), extra)
        else:
            repository.write(path, extra)
    for path in FILES:
        copy = root / "original" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((root / "environments" / path).read_text())
    return repository


async def live(root: Path, seed: int, acts: int, every: int) -> Counter[str]:
    async with editing(prepare(root)) as editor:
        person = Person(editor, random.Random(seed))
        for number in range(acts):
            await person.act()
            if number % every == every - 1:
                await person.compare()
        assert editor.client.log_messages == []
        return person.asked


def test_a_hundred_random_acts_leave_no_stale_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_TODAY", TODAY)
    asyncio.run(live(tmp_path, seed=3, acts=100, every=5))


@pytest.mark.slow
def test_many_random_acts_leave_no_stale_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_TODAY", TODAY)
    acts = 30 * settings.default.max_examples  # 30,000 each night
    asked = asyncio.run(live(tmp_path, seed=7, acts=acts, every=20))
    assert len(asked) == 12
    assert sum(asked.values()) >= acts
