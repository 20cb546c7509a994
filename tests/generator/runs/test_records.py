"""A record decides what goes on training: one that is not as it was written is not believed."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import git_repository
from repository import Repository
from trainwright.runs import record as records

PATH = "prod/rendered/llm/run.lock"
ODD: list[Any] = [
    None, True, -1, 1.5, 10**400, float("nan"), "", "x", "\ud800", "\0", "../x", "a/b",
    [], [1], ["x"], {}, {"x": 1}, {"": {}}, {"../x": "y"}, {"x": {"y": [{}]}}, "jobset",
]  # fmt: skip
VERBS = [
    ("render", "--check"),
    ("list", "jobs"),
    ("check", "--no-cache"),
    ("suspend", "prod/llm", "--dry-run"),
    ("rerun", "prod/llm", "--dry-run"),
    ("retire", "prod/llm", "--outcome", "failed", "--dry-run"),
]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """prod/llm, rendered with all that a record can hold."""
    made = Repository(tmp_path_factory.mktemp("rendered"))
    pool = "{resource: nvidia.com/gpu, nodeSelector: {a: b}, tolerations: [{key: sku}]}"
    made.environment("prod", f"pools: {{h100: {pool}}}\n")
    made.write("base/jobs/llm.yaml", "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\n"
               "name: llm\nflags: {epochs: 3}\n")  # fmt: skip
    made.job("prod/llm", "extends: base/llm\npool: h100\n")
    result = made.run("render")
    assert result.exit_code == 0, result.output
    return made


def sealed(data: Any) -> str:
    """A record with the digest that its other values have."""
    rest = {key: value for key, value in data.items() if key != "digest"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return json.dumps({**rest, "digest": hashlib.sha256(canonical.encode()).hexdigest()})


def paths(data: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else ()
    for key, value in items if not isinstance(data, list) else enumerate(data):
        yield (*above, key)
        yield from paths(value, (*above, key))


def edited(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    made = copy.deepcopy(data)
    below = made
    for key in path[:-1]:
        below = below[key]
    below[path[-1]] = value
    return made


def test_every_edit_of_a_record_by_hand_is_refused(rendered: Repository) -> None:
    raw = rendered.tree()[PATH]
    good = json.loads(raw)
    assert records.parse(raw.encode()) is not None
    for path in paths(good):
        for value in ODD:
            text = json.dumps(edited(good, path, value))
            assert json.loads(text) == good or records.parse(text.encode()) is None, path


EDITS = {
    "a state": ('"state": "active"', '"state": "cancelled"'),
    "what the file said": ('"nodes": 2', '"nodes": 4'),
    "what lay below it": ('"epochs": 3', '"epochs": 4'),
    "a key more": ('"kind": "Run",', '"kind": "Run", "note": "mine",'),
    "lines of another branch": ("{", "<<<<<<< ours\n{"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_record_begins_nothing(tmp_path: Path, rendered: Repository, edit: str) -> None:
    repository = Repository(tmp_path)
    for path in sorted((rendered.root / "environments").rglob("*.*")):
        name = path.relative_to(rendered.root / "environments").as_posix()
        repository.write(name, path.read_text(encoding="utf-8"))
    whole = repository.tree()
    repository.write(PATH, whole[PATH].replace(*EDITS[edit], 1))
    before = repository.tree()
    assert before != whole
    for arguments in ((), ("--check",)):
        refused = repository.run("render", *arguments)
        assert refused.exit_code == 1
        assert "TW054" in refused.output
    listed = repository.run("list", "jobs").output
    assert re.search(r"prod/llm +unreadable +environments", listed), listed
    assert repository.tree() == before
    # The last commit has it as it was.
    git_repository.init(tmp_path)
    repository.write(PATH, whole[PATH])
    git_repository.commit(tmp_path)
    repository.write(PATH, before[PATH])
    assert "run.lock: out of date" in repository.run("render", "--check").output
    assert repository.run("render").exit_code == 0
    assert repository.tree() == whole


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_record_ends_in_a_traceback(rendered: Repository, data: st.DataObject) -> None:
    """Also one whose digest was made to fit: what a record may hold is a schema's to say."""
    raw = rendered.tree()[PATH]
    good = json.loads(raw)
    path = data.draw(st.sampled_from(sorted(paths(good), key=str)))
    value = data.draw(st.sampled_from(ODD) | st.recursive(st.text(), st.lists, max_leaves=3))
    verb = data.draw(st.sampled_from(VERBS))
    rendered.write(PATH, sealed(edited(good, path, value)))
    try:
        result = rendered.run(*verb)
    finally:
        rendered.write(PATH, raw)
    assert result.exit_code in (0, 1, 2), (path, value, verb, result.output)
    assert "Traceback" not in result.output


def test_a_record_of_what_is_no_text_is_refused(rendered: Repository) -> None:
    good = json.loads(rendered.tree()[PATH])
    for path in (("environment", "gitops", "engine"), ("job", "entrypoint", "script")):
        assert records.parse(sealed(edited(good, path, "\ud800")).encode()) is None
        assert records.parse(sealed(edited(good, path, "\U0001f600")).encode()) is not None


@pytest.mark.parametrize("name", ["../llm.yaml", "/etc/passwd", "a/b.yaml", "..", ".", "", "a\0b"])
def test_a_record_names_files_of_its_own_folder_only(rendered: Repository, name: str) -> None:
    good = json.loads(rendered.tree()[PATH])
    assert records.parse(sealed(edited(good, ("files", name), "0" * 64)).encode()) is None


# --- a record that is lost where no commit has it ------------------------------------------------


@pytest.fixture
def unrecorded(tmp_path: Path) -> Repository:
    """prod/llm with the files of its second run, whose record is in no commit and gone."""
    made = Repository(tmp_path)
    made.environment("prod")
    for flags in ("", "flags: {epochs: 3}\n"):
        made.job("prod/llm", flags)
        assert made.run("render").exit_code == 0
    (made.root / "environments" / PATH).unlink()
    return made


WRITING = [
    ("render",), ("render", "--check"), ("rerun", "prod/llm"), ("retire", "prod/llm"),
    ("suspend", "prod/llm"), ("cancel", "prod/llm", "--orphan"), ("set", "prod/llm", "--max-duration", "+1h"),
]  # fmt: skip


@pytest.mark.parametrize("verb", WRITING, ids=" ".join)
def test_files_without_a_record_are_those_of_a_run(
    unrecorded: Repository, verb: tuple[str, ...]
) -> None:
    """Another would take its place: `*.lock` in .gitignore is enough for that in each clone."""
    before = unrecorded.tree()
    job = unrecorded.root / "environments/prod/jobs/llm.yaml"
    text = job.read_text(encoding="utf-8")
    refused = unrecorded.run(*verb)
    assert refused.exit_code == 1
    assert f"environments/{PATH} is missing, and no commit at hand has it" in refused.output
    assert (unrecorded.tree(), job.read_text(encoding="utf-8")) == (before, text)
    assert not (unrecorded.root / "environments/prod/ledger.yaml").exists()


def test_a_plan_refuses_files_without_a_record(unrecorded: Repository) -> None:
    git_repository.init(unrecorded.root)
    (unrecorded.root / ".gitignore").write_text("*.lock\n", encoding="utf-8")
    git_repository.commit(unrecorded.root)
    unrecorded.job("prod/llm", "flags: {epochs: 4}\n")
    planned = unrecorded.run("plan", "--against", "HEAD").output
    assert "prod/llm  broken: " in planned
    assert f"environments/{PATH} is missing, and no commit at hand has it" in planned


def test_a_word_of_consent_begins_a_run_in_place_of_such_files(unrecorded: Repository) -> None:
    assert unrecorded.run("render", "--new-runs").exit_code == 0
    assert unrecorded.run("render", "--check").exit_code == 0


def test_files_of_the_run_that_would_begin_are_recorded_again(unrecorded: Repository) -> None:
    assert unrecorded.run("render", "--new-runs").exit_code == 0
    before = unrecorded.tree()
    (unrecorded.root / "environments" / PATH).unlink()
    assert unrecorded.run("render").exit_code == 0
    assert unrecorded.tree() == before


def test_a_record_that_is_removed_is_named_and_comes_back(tmp_path: Path) -> None:
    """It is what is wrong, whatever follows from it: no edit, and not the list of all jobs."""
    made = Repository(git_repository.init(tmp_path / "specs"))
    made.environment("prod")
    for job in ("prod/llm", "prod/mnist"):
        made.job(job)
    assert made.run("render").exit_code == 0
    git_repository.commit(made.root)
    record = made.root / "environments" / PATH
    before = record.read_bytes()
    record.unlink()
    done = made.run("check")
    assert done.exit_code == 1
    assert re.findall(r"error\[(\w+)\]: (.*)", done.stdout) == [("TW057", "run.lock is missing")]
    git_repository.commit(made.root)
    done = made.run("check")
    assert done.exit_code == 1
    assert re.findall(r"\[(\w+)\]: (.*)", done.stdout) == [
        ("TW054", "run.lock is missing, and the files of its run are there")
    ]
    assert "`trainwright render`, which takes it from git's history" in done.stdout
    assert made.run("render").exit_code == 0
    assert record.read_bytes() == before
    assert made.run("check").exit_code == 0
