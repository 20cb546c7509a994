"""What an editor is answered about a place: hover, definition, references, completion."""

from __future__ import annotations

import pytest

pytest.importorskip("pytest_lsp", reason="pytest-lsp is not installed")

from lsprotocol import types

from editing import Editor, editing
from repository import Repository

pytestmark = pytest.mark.asyncio

POOLS = """\
pools:
  h100: {resource: nvidia.com/gpu, gpusPerNode: 8, pricePerGpuHour: 4, description: The fast ones}
  cpu: {}
queues: {vision: {description: "Pictures", quota: 8}}
queueing: kueue
secrets: {hf: {description: The hub}}
defaults: {pool: cpu, retries: 3, labels: {team: vision}}
"""
BASE = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: shared
description: What all of us extend
retries: 5
volumes: {data: {claim: data, mountPath: /data}}
"""
OWN = """\
extends: base/shared
pool: h100
queue: vision
secrets: {TOKEN: {name: hf, key: token}}
checkpoint: {volume: data, path: ckpt}
"""


@pytest.fixture
def written(repository: Repository) -> Repository:
    repository.write(
        "defaults.yaml",
        "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\ndefaults: {run: 1, retries: 2}\n",
    )
    repository.environment("dev", POOLS)
    repository.write("base/jobs/shared.yaml", BASE)
    repository.job("dev/train", OWN)
    repository.job("dev/other", "extends: base/shared\n")
    return repository


def at(editor: Editor, path: str, found: str) -> types.Position:
    """The position of a `|` in a part of a file."""
    text = (editor.root / "environments" / path).read_text()
    offset = text.index(found.replace("|", "")) + found.index("|")
    before = text[:offset]
    return types.Position(before.count("\n"), offset - before.rfind("\n") - 1)


async def hover(editor: Editor, path: str, found: str) -> str:
    params = types.HoverParams(editor.document(path), at(editor, path, found))
    answer = await editor.client.text_document_hover_async(params)
    return answer.contents.value if answer else ""


async def lines(
    editor: Editor, path: str, found: str, *, uses: bool = False, declared: bool = False
) -> list[str]:
    """Where a definition or references lead, as file:line."""
    position = at(editor, path, found)
    if uses:
        context = types.ReferenceContext(include_declaration=declared)
        asked = types.ReferenceParams(context, editor.document(path), position)
        answer = await editor.client.text_document_references_async(asked)
    else:
        params = types.DefinitionParams(editor.document(path), position)
        answer = await editor.client.text_document_definition_async(params)
    return [
        f"{one.uri.rpartition('environments/')[2]}:{one.range.start.line + 1}"
        for one in answer or ()
    ]


async def test_hover_says_the_value_who_set_it_and_what_that_overrode(written: Repository) -> None:
    async with editing(written) as editor:
        editor.open("dev/jobs/train.yaml")
        message = await hover(editor, "dev/jobs/train.yaml", "po|ol: h100")
        assert '**`pool`: `"h100"`**, set by job' in message
        assert "environments/dev/jobs/train.yaml:11" in message
        assert (
            'overrides `"cpu"` of environment, [environments/dev/environment.yaml:12](' in message
        )
        assert "The fast ones" in message
        assert "pricePerGpuHour: 4" in message
        assert "The pool of nodes to run on" in message
        message = await hover(editor, "base/jobs/shared.yaml", "ret|ries: 5")
        assert "overrides `2` of defaults" in message
        message = await hover(editor, "dev/environment.yaml", "gpus|PerNode")
        assert "How many one node has" in message


async def test_hover_on_a_finding_says_what_its_rule_says(written: Repository) -> None:
    written.job(
        "dev/train",
        "labels: {team: vision}\nwaivers: {TW060: {reason: we know, until: 2000-01-01}}\n",
    )
    async with editing(written) as editor:
        editor.open("dev/jobs/train.yaml")
        await editor.checked()
        assert "The rule: " in await hover(editor, "dev/jobs/train.yaml", "te|am: vision")
        assert "redundant-value" in await hover(editor, "dev/jobs/train.yaml", "TW0|60")


async def test_a_definition_is_the_declaration_or_the_line_that_is_overridden(
    written: Repository,
) -> None:
    async with editing(written) as editor:
        train = "dev/jobs/train.yaml"
        assert await lines(editor, train, "pool: h1|00") == ["dev/environment.yaml:7"]
        assert await lines(editor, train, "queue: vis|ion") == ["dev/environment.yaml:9"]
        assert await lines(editor, train, "name: h|f") == ["dev/environment.yaml:11"]
        assert await lines(editor, train, "extends: base/sh|ared") == ["base/jobs/shared.yaml:3"]
        assert await lines(editor, train, "volume: da|ta") == ["base/jobs/shared.yaml:6"]
        assert await lines(editor, "base/jobs/shared.yaml", "retri|es: 5") == ["defaults.yaml:3"]
        assert await lines(editor, train, "maxDur|ation") == []


async def test_the_definition_of_what_a_fabric_says_is_the_line_that_names_it(
    written: Repository,
) -> None:
    pools = "pools: {p5: {resource: nvidia.com/gpu, fabric: efa-p5, defaults: {shm: 8Gi}}}\n"
    written.environment("prod", pools)
    written.job("prod/fast", "pool: p5\nenv: {FI_PROVIDER: tcp}\nshm: 9Gi\n")
    async with editing(written) as editor:
        fast = "prod/jobs/fast.yaml"
        assert await lines(editor, fast, "FI_PRO|VIDER: tcp") == ["prod/environment.yaml:6"]
        assert await lines(editor, fast, "sh|m: 9Gi") == ["prod/environment.yaml:6"]
        editor.open(fast)
        assert "fabric efa-p5 of pool p5" in await hover(editor, fast, "FI_PRO|VIDER: tcp")
        place = "prod/environment.yaml"
        editor.open(place)
        assert "Elastic Fabric Adapter on p5.48xlarge" in await hover(editor, place, "efa|-p5")


async def test_references_are_the_lines_and_jobs_that_a_name_or_value_reaches(
    written: Repository,
) -> None:
    async with editing(written) as editor:
        await editor.checked()
        environment, shared = "dev/environment.yaml", "base/jobs/shared.yaml"
        assert await lines(editor, environment, "h1|00: {", uses=True) == ["dev/jobs/train.yaml:11"]
        assert await lines(editor, environment, "c|pu: {}", uses=True) == [
            "dev/environment.yaml:12"
        ]
        extending = ["dev/jobs/other.yaml:10", "dev/jobs/train.yaml:10"]
        assert await lines(editor, shared, "name: sha|red", uses=True) == extending
        reached = ["dev/jobs/other.yaml:4", "dev/jobs/train.yaml:4"]
        assert await lines(editor, shared, "retri|es: 5", uses=True) == reached
        reached.insert(0, "dev/jobs/mnist.yaml:4")
        assert await lines(editor, environment, "te|am: vision", uses=True) == reached
        assert await lines(editor, environment, "retri|es: 3", uses=True) == reached[:1]


@pytest.mark.parametrize(
    ("path", "found", "declared"),
    [
        ("dev/environment.yaml", "h1|00: {", "dev/environment.yaml:7"),
        ("dev/jobs/train.yaml", "pool: h1|00", "dev/environment.yaml:7"),
        ("base/jobs/shared.yaml", "name: sha|red", "base/jobs/shared.yaml:3"),
        ("dev/jobs/train.yaml", "extends: base/sh|ared", "base/jobs/shared.yaml:3"),
        ("base/jobs/shared.yaml", "retri|es: 5", "base/jobs/shared.yaml:5"),
        ("base/jobs/shared.yaml", "da|ta: {claim", "base/jobs/shared.yaml:6"),
    ],
)
async def test_references_have_the_declaration_where_the_editor_requests_it(
    written: Repository, path: str, found: str, declared: str
) -> None:
    async with editing(written) as editor:
        await editor.checked()
        uses = await lines(editor, path, found, uses=True)
        assert declared not in uses
        assert await lines(editor, path, found, uses=True, declared=True) == [declared, *uses]


async def suggested(editor: Editor, path: str, text: str) -> dict[str, types.CompletionItem]:
    """What completion suggests at the `|` of a text, by label."""
    before = text[: text.index("|")]
    position = types.Position(before.count("\n"), len(before) - before.rfind("\n") - 1)
    editor.type(path, text.replace("|", "", 1))
    params = types.CompletionParams(editor.document(path), position)
    answer = await editor.client.text_document_completion_async(params)
    return {item.label: item for item in answer.items}


CASES = (
    ("pool: |\n", {"h100", "cpu"}, {"nodes"}),
    ("pool: h|\n", {"h100"}, {"cpu"}),
    ("queue: |\n", {"vision"}, set()),
    ("extends: |\n", {"base/shared", "dev/other"}, {"dev/train"}),
    ("state: |\n", {"active", "suspended", "cancelled"}, set()),
    ("tar|\n", {"target"}, {"image", "flags"}),
    ("|\n", {"target", "flags"}, {"image", "name"}),
    ("checkpoint: {volume: |}\n", set(), {"h100"}),
    ("secrets: {A: {name: |\n", {"hf"}, set()),
    ("elastic:\n  |\n", {"minNodes", "maxNodes"}, {"pool"}),
    ("elastic:\n  minNodes: 1\n  ma|\n", {"maxNodes"}, {"minNodes", "pool"}),
    ("elastic: {minNodes: 1, |}\n", {"maxNodes"}, {"minNodes"}),
    ("backoffL|\n", {"backoffLimit"}, {"retries"}),
    ("replicas|\n", set(), {"replicas"}),  # nodes is there
    ("fullname|\n", set(), {"fullnameOverride"}),
    ("waivers:\n  |\n", {"TW704"}, {"pool"}),
    ("waivers: {TW704: {|\n", {"reason", "until"}, set()),
    ("backend: |\nflags: [broken\n", {"nccl", "gloo"}, set()),
    ("# |\n", set(), {"pool"}),
)  # fmt: skip


async def test_completion_knows_keys_values_and_names(written: Repository) -> None:
    path = "dev/jobs/train.yaml"
    async with editing(written) as editor:
        editor.open(path)
        text = (editor.root / "environments" / path).read_text().removesuffix(OWN)
        for typed, there, absent in CASES:
            found = await suggested(editor, path, text + typed)
            assert there <= set(found), typed
            assert not absent & set(found), typed
            assert all(item.documentation for item in found.values()), typed


async def test_completion_says_what_a_pool_and_a_queue_have_left(written: Repository) -> None:
    path = "dev/jobs/train.yaml"
    text = POOLS.replace("gpusPerNode: 8", "gpusPerNode: 8, capacity: 64, spot: true")
    written.environment("dev", text)
    other = "pool: h100\nqueue: vision\nresources: {gpu: 2}\n"
    job = written.job("dev/other", f"extends: base/shared\n{other}")
    job.write_text(job.read_text().replace('resources: {cpu: "1", memory: 1Gi}\n', ""))
    async with editing(written) as editor:
        editor.open(path)
        await editor.checked()
        assert "60 of 64 GPUs free" in await hover(editor, path, "pool: h1|00")
        own = (editor.root / "environments" / path).read_text().removesuffix(OWN)
        pools = await suggested(editor, path, own + "pool: |\n")
        facts = "60 of 64 GPUs free · 8 per node · 4 USD per GPU-hour · spot"
        assert (pools["h100"].detail, pools["cpu"].detail) == (facts, None)
        assert pools["h100"].label_details.description == facts
        queues = await suggested(editor, path, own + "queue: |\n")
        assert queues["vision"].detail == "4 of 8 GPUs free"


async def test_completion_knows_what_a_pool_may_say(written: Repository) -> None:
    path = "prod/environment.yaml"
    written.environment("prod")
    async with editing(written) as editor:
        editor.open(path)
        text = (editor.root / "environments" / path).read_text()
        for typed, there, absent in (
            ("pools:\n  a:\n    fabric: |\n", {"efa-p5", "tcpxo"}, {"h100"}),
            ("pools:\n  a:\n    |\n", {"fabric", "defaults", "node"}, {"env"}),
            ("pools:\n  a:\n    defaults:\n      |\n", {"env", "shm"}, {"pool", "target", "state"}),
            ("defaults:\n  |\n", {"env", "pool"}, {"name", "extends"}),
        ):
            found = await suggested(editor, path, text + typed)
            assert there <= set(found), typed
            assert not absent & set(found), typed


async def test_completion_inserts_what_can_be_read_back(written: Repository) -> None:
    async with editing(written) as editor:
        text = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: train\nque|"
        editor.open("dev/jobs/train.yaml")
        found = await suggested(editor, "dev/jobs/train.yaml", text)
        edit = found["queue"].text_edit
        assert isinstance(edit, types.TextEdit)
        assert (edit.new_text, edit.range.start.character, edit.range.end.character) == (
            "queue: ",
            0,
            3,
        )
        assert "The queue to wait in" in found["queue"].documentation.value


async def test_completion_writes_another_tools_name_as_it_is_here(written: Repository) -> None:
    async with editing(written) as editor:
        head = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: train\n"
        editor.open("dev/jobs/train.yaml")
        for typed, name, new in (
            ("repl|", "replicas", "nodes: "),
            ("gres|", "gres", "resources:\n  gpu: "),
        ):
            item = (await suggested(editor, "dev/jobs/train.yaml", head + typed))[name]
            assert isinstance(item.text_edit, types.TextEdit)
            assert item.text_edit.new_text == new
        assert item.detail == "resources.gpu, as Slurm calls it"
