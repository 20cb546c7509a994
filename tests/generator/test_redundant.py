"""Overrides that do nothing: each finding is proved by removing the key and looking again."""

from __future__ import annotations

import copy
import json
import shutil
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repository import Repository
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.pointer import leaves
from trainwright.documents.yamlio import Document, parse
from trainwright.render import batch
from trainwright.render import build as plan
from trainwright.runs.record import RECORD_FILE
from trainwright.specs import redundant
from trainwright.specs.merge import Layer, merge, stack

LINTS = {"TW060", "TW061", "TW063"}


def _plan(repository: Repository, *patterns: str, use_cache: bool = False) -> plan.Build:
    options = plan.BuildOptions(today="2026-06-01", use_cache=use_cache)
    return plan.build(repository.root, patterns, options)


def _findings(repository: Repository, *patterns: str, use_cache: bool = False) -> list[Finding]:
    found = _plan(repository, *patterns, use_cache=use_cache).findings
    return [finding for finding in found if finding.rule in LINTS]


def _said(repository: Repository, *patterns: str) -> list[tuple[str, str, str]]:
    return [(f.rule, str(f.place), f.message) for f in _findings(repository, *patterns)]


def _job(repository: Repository, name: str, text: str) -> None:
    folder, _, job = name.partition("/")
    head = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\n"
    repository.write(f"{folder}/jobs/{job}.yaml", f"{head}name: {job}\n{text}")


BASE = """\
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
resources: {cpu: "1", memory: 1Gi}
maxDuration: 1h
nodes: 2
"""


@pytest.fixture
def base(tmp_path: Any) -> Repository:
    repository = Repository(tmp_path)
    repository.environment("prod")
    _job(repository, "base/common", BASE)
    return repository


def test_a_key_equal_to_what_is_inherited(base: Repository) -> None:
    _job(base, "prod/llm", "extends: base/common\nnodes: 2\nresources: {cpu: '1', memory: 2Gi}\n")
    assert _said(base) == [
        ("TW060", "environments/prod/jobs/llm.yaml:5:1", "nodes is what the job inherits anyway"),
        (
            "TW060",
            "environments/prod/jobs/llm.yaml:6:13",
            "resources.cpu is what the job inherits anyway",
        ),
    ]


def test_writing_down_a_default_of_the_tool_is_no_repetition(base: Repository) -> None:
    _job(base, "prod/llm", "extends: base/common\ntarget: pytorchjob\nretries: 0\n")
    assert _said(base) == []


def test_a_null_that_removes_nothing(base: Repository) -> None:
    _job(base, "prod/llm", "extends: base/common\nqueue: null\nmaxDuration: null\n")
    assert [(rule, message) for rule, _, message in _said(base)] == [
        ("TW060", "queue: null removes nothing, since no layer sets it")
    ]


def test_an_override_that_comes_to_the_same_job(base: Repository) -> None:
    _job(base, "prod/llm", "extends: base/common\nmaxDuration: 60m\n")
    assert _said(base) == [
        (
            "TW061",
            "environments/prod/jobs/llm.yaml:5:1",
            "maxDuration changes nothing: the inherited value is the same",
        )
    ]


@pytest.mark.parametrize("started", ["argv: [accelerate, launch, train.py]", "image: true"])
def test_a_launcher_beside_a_whole_command_starts_nothing(started: str, base: Repository) -> None:
    command = f"extends: base/common\nentrypoint: {{script: null, {started}}}\n"
    _job(base, "prod/llm", f"{command}launcher: accelerate\n")
    (key, *_) = started.partition(":")
    assert _said(base) == [
        (
            "TW061",
            "environments/prod/jobs/llm.yaml:6:1",
            f"launcher changes nothing: entrypoint.{key} is the whole command",
        )
    ]
    _job(base, "prod/llm", f"{command}launcher: python\n")
    assert _said(base) == []
    _job(base, "prod/llm", "extends: base/common\nlauncher: accelerate\n")
    assert _said(base) == []


def test_an_override_that_changes_something_is_left_alone(base: Repository) -> None:
    _job(base, "prod/llm", "extends: base/common\nmaxDuration: 61m\nnodes: 3\n")
    assert _said(base) == []


def test_a_list_that_drops_items(base: Repository) -> None:
    base.environment(
        "prod",
        "defaults: {tolerations: [{key: a, operator: Exists}, {key: b, operator: Exists}]}\n",
    )
    _job(base, "prod/llm", "extends: base/common\ntolerations: [{key: b, operator: Exists}]\n")
    ((rule, place, message),) = _said(base)
    assert (rule, place) == ("TW063", "environments/prod/jobs/llm.yaml:5:14")
    assert message.startswith("tolerations replaces the inherited list and drops ")
    assert '"a"' in message


def test_a_list_that_adds_and_a_command_that_replaces_drop_nothing(base: Repository) -> None:
    base.environment("prod", "defaults: {tolerations: [{key: a, operator: Exists}]}\n")
    both = "[{key: a, operator: Exists}, {key: b, operator: Exists}]"
    _job(base, "base/shell", BASE.replace("{script: train.py}", "{argv: [python, a.py]}"))
    _job(
        base,
        "prod/llm",
        f"extends: base/shell\nentrypoint: {{argv: [python, b.py]}}\ntolerations: {both}\n",
    )
    assert _said(base) == []


def _two(repository: Repository, first: str, second: str) -> None:
    _job(repository, "prod/one", f"extends: base/common\n{first}\n")
    _job(repository, "prod/two", f"extends: base/common\n{second}\n")


def test_the_cache_remembers(base: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(base.root / "cache"))
    _two(base, "nodes: 3", "nodes: 4\nmaxDuration: 60m")
    first = _findings(base, use_cache=True)
    assert {finding.rule for finding in first} == {"TW061"}
    _write(base)
    assert _findings(base, use_cache=True) == first
    monkeypatch.setattr(batch, "run", _only_nothing)
    assert _findings(base, use_cache=True) == first


def _write(repository: Repository) -> None:
    """Render, as unchanged files on disk are what the cache is about."""
    assert repository.run("render").exit_code == 0


def _only_nothing(tree: object, files: list[object], *_: object) -> list[object]:
    assert not files, "something was rendered again"
    return []


def test_they_are_weighted_and_waived_like_rules(base: Repository) -> None:
    _two(base, "nodes: 3\nretries: 5", "nodes: 4\nmaxDuration: 60m")
    base.environment("prod", "severities: {TW061: error}\n")
    (finding,) = _findings(base)
    assert (finding.rule, finding.severity.value) == ("TW061", "error")
    base.environment(
        "prod",
        "waivers:\n- {rule: TW061, reason: habit, until: '2027-01-01'}\n",
    )
    assert [f.rule for f in _plan(base).findings if f.rule[:4] in ("TW03", "TW06")] == []


# --- the proof -----------------------------------------------------------------------------------


def _rendered(repository: Repository) -> dict[str, str]:
    """What begins where there was no run."""
    shutil.rmtree(repository.root / "environments/prod/rendered", ignore_errors=True)
    for environment in _plan(repository).environments:
        assert environment.changes is not None
    assert repository.run("render").exit_code == 0
    return {
        path: text for path, text in repository.tree().items() if not path.endswith(RECORD_FILE)
    }


def test_without_the_keys_every_rendered_byte_is_the_same(base: Repository) -> None:
    base.environment("prod", "defaults: {gracePeriod: 90s}\n")
    _two(
        base,
        "nodes: 3\ngracePeriod: 1m\nmaxDuration: 60m\nresources: {cpu: '1'}",
        "nodes: 4\ngracePeriod: 2m",
    )
    before = _rendered(base)
    removed = {"TW060", "TW061"}
    assert {finding.rule for finding in _findings(base)} == removed
    base.environment("prod")
    _job(base, "base/common", BASE.replace("nodes: 2\n", ""))
    _two(base, "nodes: 3\ngracePeriod: 1m", "nodes: 4\ngracePeriod: 2m")
    assert _rendered(base) == before
    assert _findings(base) == []


_leaf = st.none() | st.integers(0, 1) | st.just("x") | st.lists(st.integers(0, 1), max_size=2)
_names = st.sampled_from(["env", "flags", "a/b", "c~d"])
_spec = st.dictionaries(
    _names, _leaf | st.dictionaries(_names, _leaf | st.dictionaries(_names, _leaf, max_size=2), max_size=3), max_size=3,
)  # fmt: skip


def _layer(index: int, data: dict[str, Any]) -> Layer:
    # Keys of the first level are names of fields, which need no escaping.
    plain = {key.replace("/", "").replace("~", ""): value for key, value in data.items()}
    document = parse(f"{index}.yaml", json.dumps(plain).encode())
    assert isinstance(document, Document)
    return Layer("base", document)


@given(st.lists(_spec, min_size=2, max_size=4))
def test_what_is_called_idle_can_be_removed(specs: list[dict[str, Any]]) -> None:
    spec = stack(tuple(_layer(index, data) for index, data in enumerate(specs)))
    for one in redundant.read(spec):
        if one.idle:
            datas = [layer.data for layer in spec.layers]
            index = spec.layers.index(one.layer)
            datas[index] = _removed(datas[index], one.pointer)
            assert _full(reduce(merge, datas, {})) == _full(spec.data), (index, one.pointer)


def _removed(data: Any, pointer: str) -> Any:
    keys = [t.replace("~1", "/").replace("~0", "~") for t in pointer.split("/")[1:]]
    rest = copy.deepcopy(data)
    holder = rest
    for key in keys[:-1]:
        holder = holder[key]
    del holder[keys[-1]]
    return rest


def _full(data: Any) -> dict[str, Any]:
    """What is in it: a mapping with nothing inside says nothing."""
    return {pointer: value for pointer, value in leaves(data) if value != {}}


def test_a_flag_without_a_value_stays_for_a_person_to_decide(base: Repository) -> None:
    path = "prod/llm"
    _job(base, path, "extends: base/common\nflags: {do_train: , seed: 1}\n")
    assert ("TW060", "flags.do_train has no value, and null passes no option") in [
        (rule, message) for rule, _, message in _said(base)
    ]
    base.run("check", "--fix", "--yes")
    assert "do_train" in (base.root / "environments/prod/jobs/llm.yaml").read_text()
