"""An edit of how a run is operated begins no other run, on any target."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from repository import Repository
from trainwright.datatypes.layout import JobFile
from trainwright.files.tree import Folder
from trainwright.kinds import TARGETS
from trainwright.kinds.capabilities import unsupported
from trainwright.render import objects
from trainwright.rule_model.edit import Verdict
from trainwright.rules.edits import outcomes
from trainwright.runs.decision import Step
from trainwright.runs.fields import OPERATION
from trainwright.runs.record import RECORD_FILE
from trainwright.runs.workspace import Workspace

PLACE: dict[str, Any] = {
    "apiVersion": "trainwright.io/v1alpha1",
    "kind": "Environment",
    "namespace": "training",
    "kubernetes": {"version": "1.36"},
    "targets": {
        "pytorchjob": {"version": "1.9"},
        "trainingjob": {},
        "trainjob": {"version": "2.3"},
        "jobset": {},
        "job": {},
        "rayjob": {},
        "compose": {},
    },
    "queueing": "kueue",
    "kueue": {"version": "0.18"},
    "queues": {"team": {}, "other": {}},
}
JOB: dict[str, Any] = {
    "apiVersion": "trainwright.io/v1alpha1",
    "kind": "JobSpec",
    "image": {"repository": "registry.example.com/ml/train", "tag": "1.0"},
    "entrypoint": {"script": "train.py"},
    "resources": {"cpu": "8", "memory": "64Gi"},
}
# What is written before and after; None is nothing.
EDITS: dict[str, list[tuple[Any, Any]]] = {
    "queue": [("team", "other"), (None, "team"), ("team", None)],
    "queuePriority": [("low", "high"), (None, "high"), ("high", None)],
    "priorityClass": [("low", "high"), (None, "high"), ("high", None)],
    "maxDuration": [("1h", "2h"), (None, "2h"), ("2h", None)],
    "retries": [(1, 3), (None, 3), (3, None)],
    "gracePeriod": [("60s", "90s"), (None, "90s"), ("90s", None)],
    "labels": [({"team": "a"}, {"team": "b"}), (None, {"team": "b"}), ({"team": "a"}, None)],
    "annotations": [({"by": "a"}, {"by": "b"}), (None, {"by": "b"}), ({"by": "a"}, None)],
    "lattice.priority": [(1, 5), (None, 5), (5, None)],
}
QUEUED = {"queuePriority": {"queue": "team"}}
ALWAYS = ("changed", "added", "removed")
_QUEUED = {
    "queue": ("changed",),
    "queuePriority": ("changed", "added"),  # Kueue lets none be taken away
    "annotations": ALWAYS,
}
# What the live objects take; anything else waits for the next run. A label is one of pods, too, and
# retries that come or go change what a failure of a pod means.
TAKEN: dict[str, dict[str, tuple[str, ...]]] = {
    "pytorchjob": {**_QUEUED, "maxDuration": ALWAYS, "retries": ("changed",)},
    "trainingjob": {
        "annotations": ALWAYS,
        "maxDuration": ALWAYS,
        "retries": ("changed",),
        "lattice.priority": ALWAYS,
    },
    "trainjob": {**_QUEUED, "maxDuration": ("added", "removed")},
    "jobset": _QUEUED,
    "job": {**_QUEUED, "maxDuration": ALWAYS, "retries": ("changed",)},
    "rayjob": {**_QUEUED, "maxDuration": ALWAYS, "retries": ALWAYS},
    "compose": {},
}


def _spec(name: str, target: str, field: str, value: Any) -> dict[str, Any]:
    own = dict(zip(("launcher",), TARGETS[target].launchers, strict=False))
    spec = {**JOB, **own, "name": name, "target": target, **QUEUED.get(field, {})}
    if value is not None:
        key, *below = field.split(".")
        spec[key] = {below[0]: value} if below else value
    return spec


def _cases() -> Iterator[tuple[str, str, str, Any, Any]]:
    for target in TARGETS:
        for field, edits in EDITS.items():
            for number, (before, after) in enumerate(edits):
                name = f"{target}-{field.lower().replace('.', '-')}-{number}"
                yield name, target, field, before, after


def _write(repository: Repository, name: str, spec: dict[str, Any]) -> None:
    repository.write(f"prod/jobs/{name}.yaml", yaml.dump(spec, Dumper=yaml.CSafeDumper))


def _is_supported(workspace: Workspace, name: str) -> bool:
    sources = workspace.job(JobFile("prod", name)).sources
    return sources is not None and not any(
        True for _ in unsupported(sources.job, sources.environment)
    )


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, dict[str, str]]:
    """Every field of operation edited on every target, and the files before."""
    repository = Repository(tmp_path_factory.mktemp("operation"))
    repository.write("prod/environment.yaml", yaml.dump(PLACE, Dumper=yaml.CSafeDumper))
    for name, target, field, *values in _cases():
        for value in values:
            _write(repository, name, _spec(name, target, field, value))
            if not _is_supported(Workspace(Folder(repository.root)), name):
                (repository.root / f"environments/prod/jobs/{name}.yaml").unlink()
                break
        else:
            _write(repository, name, _spec(name, target, field, values[0]))
    assert repository.run("render", "--no-cache").exit_code == 0
    before = repository.tree()
    for name, target, field, _, value in _cases():
        if f"prod/rendered/{name}/{RECORD_FILE}" in before:
            _write(repository, name, _spec(name, target, field, value))
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    return repository, before


def test_there_is_an_edit_of_every_field() -> None:
    assert EDITS.keys() == {*OPERATION}


@pytest.mark.parametrize("target", TARGETS)
def test_an_edit_begins_no_run_and_reaches_what_the_live_object_takes(
    edited: tuple[Repository, dict[str, str]], target: str
) -> None:
    repository, before = edited
    after = repository.tree()
    workspace = Workspace(Folder(repository.root))
    taken = set()
    for name, of, field, *values in _cases():
        if of != target or f"prod/rendered/{name}/{RECORD_FILE}" not in before:
            continue
        was, now = (_folder(files, name) for files in (before, after))
        old, new = (json.loads(files.pop(RECORD_FILE)) for files in (was, now))
        assert new["object"] == old["object"]
        assert was.keys() == now.keys()
        changed = was != now
        decision = workspace.job(JobFile("prod", name)).decision
        assert decision is not None
        assert decision.step is Step.KEEP
        behind = [".".join(held.path.parts) for held in decision.held]
        assert all(path.startswith(field) for path in behind)
        about = (name, values, behind)
        assert bool(behind) != changed, about
        assert new.get("held", []) == ([] if changed else [field]), about
        verdicts = {outcome.verdict for outcome in _outcomes(was, now, target)}
        assert verdicts <= {Verdict.IN_PLACE, Verdict.UNTIL_ADMITTED}, about
        if changed:
            taken.add((field, _edit(*values)))
    assert taken == {(field, how) for field, ways in TAKEN[target].items() for how in ways}


@pytest.mark.parametrize(
    ("target", "taken"),
    [("pytorchjob", True), ("jobset", True), ("job", True), ("trainjob", False)],
)
def test_labels_reach_object_and_pods_together_while_a_run_is_suspended(
    target: str, taken: bool, repository: Repository
) -> None:
    """One of the two alone would split what selectors, policies and cost reports find."""
    repository.write("prod/environment.yaml", yaml.dump(PLACE, Dumper=yaml.CSafeDumper))
    for label in ("a", "b"):
        spec = _spec("llm", target, "labels", {"team": label})
        _write(repository, "llm", {**spec, "state": "suspended"})
        done = repository.run("render", "prod")
        assert done.exit_code == 0, done.output
    assert ("labels.team waits for the next run" in done.output) is not taken
    (object_,) = [
        text for path, text in repository.tree().items() if path.endswith(f"llm/{target}.yaml")
    ]
    found = re.findall(r"\"team\": \"(\w)\"", object_)
    assert set(found) == {"b" if taken else "a"}
    assert len(found) >= 1 + (target != "trainjob")  # whose pods are in its TrainingRuntime


def _edit(before: Any, after: Any) -> str:
    return "added" if before is None else "removed" if after is None else "changed"


def _folder(files: dict[str, str], job: str) -> dict[str, str]:
    folder = f"prod/rendered/{job}/"
    return {path.removeprefix(folder): files[path] for path in files if path.startswith(folder)}


def _outcomes(
    was: dict[str, str], now: dict[str, str], target: str
) -> Iterator[outcomes.EditOutcome]:
    after = {m.identity: m for m in objects.manifests(now, target)}
    for manifest in objects.manifests(was, target):
        yield from outcomes.evaluate(manifest, after[manifest.identity])


def test_a_run_is_current_once_it_has_an_edit_over_a_shared_value(repository: Repository) -> None:
    """Then its specs are not parsed; what it would inherit comes back when the line goes."""
    repository.environment("prod", "defaults: {maxDuration: 2h}\n")
    path = repository.job("prod/llm")
    without = path.read_text().replace("maxDuration: 2h\n", "")
    for text in (without, f"{without}maxDuration: 4h\n", without):
        path.write_text(text)
        assert repository.run("render").exit_code == 0
        job = Workspace(Folder(repository.root)).current_job(JobFile("prod", "llm"))
        assert job is not None
        assert job.max_duration == (4 if "4h" in text else 2) * 3600


@pytest.mark.parametrize("target", TARGETS)
def test_an_edit_that_the_target_has_no_field_for_is_refused_while_a_run_goes_on(
    target: str, repository: Repository
) -> None:
    """Recorded as if it had reached the run, it would be believed by everyone who reads it."""
    repository.write("prod/environment.yaml", yaml.dump(PLACE, Dumper=yaml.CSafeDumper))
    job = {**_spec("llm", target, "retries", None), "security": {"runAsUser": 1000}}
    _write(repository, "llm", job)
    assert repository.run("render").exit_code == 0
    before = repository.tree()
    fields = ({"state": "suspended"}, {"queue": "team"}, {"lattice": {"priority": 1}})
    for field in fields:
        _write(repository, "llm", {**job, **field})
        is_supported = _is_supported(Workspace(Folder(repository.root)), "llm")
        done = repository.run("render")
        assert (done.exit_code == 0) is is_supported, (field, done.output)
        if not is_supported:
            there = repository.tree()
            assert {k: v for k, v in there.items() if "/rendered/" in k} == {
                k: v for k, v in before.items() if "/rendered/" in k
            }
        _write(repository, "llm", job)
        assert repository.run("render").exit_code == 0
