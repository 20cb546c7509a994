"""A later version of the tool and the chart over runs that began before it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

import pytest

import second_version
from repository import ENVIRONMENT, JOB, Repository
from second_version import Version

pytestmark = pytest.mark.slow

TARGETS = {
    "pytorchjob": '{version: "1.9", restrictedInitContainer: true}',
    "trainjob": '{version: "2.1"}',
    "jobset": '{version: "0.8"}',
    "job": "{}",
    "trainingjob": '{version: "0.3"}',
    "compose": "{}",
}
COMPOSE = JOB.replace("nodes: 2\nmaxDuration: 2h\n", "security: {runAsUser: 1000}\n")
SUSPENDED = tuple(target for target in TARGETS if target != "trainingjob")
EXTENDED = ("pytorchjob", "job")


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Version:
    return second_version.install(tmp_path_factory.mktemp("later"))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A running job of each target, rendered by this version."""
    made = Repository(tmp_path / "repository")
    only = 'targets: {pytorchjob: {version: "1.9", restrictedInitContainer: true}}\n'
    assert only in ENVIRONMENT
    every = "".join(f"  {name}: {options}\n" for name, options in TARGETS.items())
    made.write("prod/environment.yaml", ENVIRONMENT.replace(only, f"targets:\n{every}"))
    for target in TARGETS:
        spec = COMPOSE if target == "compose" else JOB
        text = spec.replace("NAME", target) + f"target: {target}\n"
        made.write(f"prod/jobs/{target}.yaml", text)
    done = made.run("render")
    assert done.exit_code == 0, done.output
    return made


def run(later: Version, repository: Repository, *arguments: str) -> None:
    done = later.run(repository.root, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, list[str]]:
    """The changed lines of each file, records left out."""
    assert before.keys() == after.keys()
    lines = {}
    for path in before:
        if before[path] != after[path] and not path.endswith("run.lock"):
            diff = difflib.ndiff(before[path].splitlines(), after[path].splitlines())
            lines[path] = [f"{line[0]} {line[2:].strip()}" for line in diff if line[0] in "+-"]
    return lines


def test_it_changes_no_byte(repository: Repository, later: Version) -> None:
    before = repository.tree()
    run(later, repository, "render", "--check")
    run(later, repository, "render")
    assert repository.tree() == before


def test_suspended_and_resumed_by_it_only_that_line_changes(
    repository: Repository, later: Version
) -> None:
    before = repository.tree()
    jobs = [f"prod/{target}" for target in SUSPENDED]
    run(later, repository, "suspend", *jobs)
    lines = changed(before, repository.tree())
    for target in SUSPENDED:
        manifest = lines.pop(f"prod/rendered/{target}/{target}.yaml")
        if target == "compose":
            assert manifest == ["+ replicas: 0"]
        else:
            assert manifest == ["- suspend: false", "+ suspend: true"]
        values = lines.pop(f"prod/rendered/{target}/values.yaml")
        assert values == ["- suspend: false", "+ suspend: true"]
    assert not lines
    run(later, repository, "resume", *jobs)
    assert repository.tree() == before


def test_extended_by_it_only_that_line_changes(repository: Repository, later: Version) -> None:
    before = repository.tree()
    run(
        later, repository, "set", *(f"prod/{target}" for target in EXTENDED), "--max-duration", "5h"
    )
    after = repository.tree()
    line = ["- activeDeadlineSeconds: 7200", "+ activeDeadlineSeconds: 18000"]
    files = [f"prod/rendered/{t}/{file}.yaml" for t in EXTENDED for file in (t, "values")]
    assert changed(before, after) == dict.fromkeys(sorted(files), line)


@pytest.mark.parametrize("target", [t for t in TARGETS if t != "compose"])
def test_a_deadline_that_is_edited_leaves_all_other_lines(
    repository: Repository, later: Version, target: str
) -> None:
    """Wherever it is rendered: in a JobSet and a TrainingRuntime it is in a list."""
    before = repository.tree()
    spec = repository.root / f"environments/prod/jobs/{target}.yaml"
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace("maxDuration: 2h", "maxDuration: 5h"), encoding="utf-8")
    run(later, repository, "render")
    for lines in changed(before, repository.tree()).values():
        assert {line[:2] + line[2:].split(":")[0].strip('"') for line in lines} <= {
            "- activeDeadlineSeconds",
            "+ activeDeadlineSeconds",
        }
        assert len(lines) == 2
    spec.write_text(text, encoding="utf-8")
    run(later, repository, "render")
    assert repository.tree() == before


def test_only_rerun_takes_it_up(repository: Repository, later: Version) -> None:
    before = repository.tree()
    run(later, repository, "rerun", "prod/job")
    lines = changed(before, repository.tree())
    assert {path.rpartition("/")[0] for path in lines} == {"prod/rendered/job"}
    assert f"+ {second_version.LINE}" in lines["prod/rendered/job/job.yaml"]
    assert "+ terminationGracePeriodSeconds: 90" in lines["prod/rendered/job/job.yaml"]
    record = repository.tree()["prod/rendered/job/run.lock"]
    assert record.count(f'"{second_version.VERSION}"') == 2


def test_finished_and_cancelled_runs_stay_so(repository: Repository, later: Version) -> None:
    assert repository.run("retire", "prod/job", "--outcome", "succeeded").exit_code == 0
    assert repository.run("cancel", "prod/jobset", "--orphan").exit_code == 0
    before = repository.tree()
    assert "prod/rendered/job/job.yaml" not in before
    run(later, repository, "render")
    assert repository.tree() == before
