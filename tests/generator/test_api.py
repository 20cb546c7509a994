"""The Python API: frozen by name and signature, and saying what the command says."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import git_repository
from git_repository import git
from repository import Repository as Specs
from trainwright import api
from trainwright.api import Repository, SelectionError, TrainwrightError

# A change of these lines is a new major version.
SIGNATURES = """\
check(self, *selections: 'str') -> 'Check'
explain(self, job: 'str', path: 'str' = '') -> 'tuple[Explanation, ...]'
find(start: 'str | Path' = '.', *, today: 'str' = '') -> 'Repository'
jobs(self) -> 'dict[str, JobRun]'
plan(self, *selections: 'str', against: 'str' = 'origin/HEAD', head: 'str | None' = None, \
crds: 'Path | None' = None, helm: 'str | None' = None, \
edits: 'Mapping[str, str] | None' = None) -> 'Plan'
propose(self, path: 'str', text: 'str') -> 'Proposal'
render(self, *selections: 'str', write: 'bool' = False) -> 'Rendering'
"""
FIELDS = {
    "Check": ("findings", "jobs"),
    "Rendering": ("check", "written", "removed"),
    "Proposal": ("diff", "check", "fixed", "added"),
    "Location": ("file", "line", "column"),
    "Finding": (
        "rule", "severity", "place", "message", "remedy", "subject", "path", "note", "effect",
        "related", "manifest", "pointer",
    ),
}  # fmt: skip
OWN = {"build"}  # of the command


@pytest.fixture
def specs(tmp_path: Path) -> Specs:
    made = Specs(git_repository.init(tmp_path / "specs"))
    made.environment("prod")
    made.job("prod/llm")
    assert made.run("render").exit_code == 0
    git_repository.commit(made.root, "Begin")
    git(made.root, "checkout", "--quiet", "-b", "change")
    return made


@pytest.fixture
def repository(specs: Specs) -> Repository:
    return Repository(specs.root, today="2026-06-01")


def test_names_and_signatures_stay() -> None:
    public = [name for name in vars(Repository) if not name.startswith("_") and name not in OWN]
    found = [f"{name}{inspect.signature(getattr(Repository, name))}" for name in sorted(public)]
    assert "\n".join(found) + "\n" == SIGNATURES
    assert {name: tuple(getattr(api, name).__dataclass_fields__) for name in FIELDS} == FIELDS
    assert set(api.__all__) == {
        *FIELDS, "Repository", "SelectionError", "Severity", "TrainwrightError",
    }  # fmt: skip
    assert all(getattr(api, name).__doc__ for name in api.__all__)


def test_a_check_finds_what_the_command_finds(specs: Specs, repository: Repository) -> None:
    assert repository.check() == api.Check((), ("prod/llm",))
    specs.job("prod/llm", "node: 3\n")
    found = repository.check("prod")
    assert not found.ok
    printed = json.loads(specs.run("check", "-o", "json").output)["report"]["results"]
    assert [f.message for f in found.findings] == [one["message"] for one in printed]
    with pytest.raises(SelectionError, match="did you mean prod"):
        repository.check("prode")


def test_nothing_is_written_unless_asked_for(specs: Specs, repository: Repository) -> None:
    specs.job("prod/llm", "procsPerNode: 2\n")
    before = specs.tree()
    found = repository.render()
    assert "environments/prod/rendered/llm/pytorchjob.yaml" in found.written
    assert specs.tree() == before
    repository.render(write=True)
    assert specs.tree() != before
    assert specs.run("render", "--check").exit_code == 0
    assert repository.render().written == {}


def test_with_errors_nothing_is_written(specs: Specs, repository: Repository) -> None:
    specs.job("prod/llm", "node: 3\n")
    before = specs.tree()
    found = repository.render(write=True)
    assert (found.check.ok, found.written, found.removed) == (False, {}, ())
    assert specs.tree() == before


def test_plan_jobs_and_explain(specs: Specs, repository: Repository) -> None:
    specs.job("prod/llm", "procsPerNode: 2\n")
    (change,) = repository.plan(against="main").changes
    assert (str(change.file), change.action) == ("prod/llm", "new run")
    assert repository.jobs()["prod/llm"].object.startswith("llm-")
    (found,) = repository.explain("prod/llm", "procsPerNode")
    assert (found.value, found.decided.place) == (2, "environments/prod/jobs/llm.yaml:10:15")


def test_a_proposal_is_an_edit_that_is_not_made(specs: Specs, repository: Repository) -> None:
    path = "environments/prod/jobs/llm.yaml"
    old = (specs.root / path).read_text()
    bad = repository.propose(path, f"{old}node: 3\n")
    assert f"+++ b/{path}" in bad.diff
    assert bad.diff.endswith("+node: 3\n")
    assert [finding.rule for finding in bad.added] == ["TW010"]
    assert (specs.root / path).read_text() == old
    (specs.root / path).write_text(f"{old}node: 3\n")
    good = repository.propose(path, f"{old}nodes: 3\n".replace("nodes: 2\n", ""))
    assert (good.check.ok, good.added, len(good.fixed)) == (True, (), 1)
    unended = repository.propose(path, old.removesuffix("\n"))
    assert unended.diff.endswith(f"{old.splitlines()[-1]}\n\\ No newline at end of file\n")
    new = repository.propose("environments/prod/jobs/new.yaml", old.replace("llm", "new"))
    assert new.diff.startswith("--- /dev/null")
    assert "prod/new" in new.check.jobs


GITOPS = "gitops: {engine: flux, repository: {url: https://git.example.com/ml.git}}\n"
FORCED = "annotations: {kustomize.toolkit.fluxcd.io/force: enabled}\n"


def test_a_proposal_adds_and_fixes_nothing_that_it_only_moves(
    specs: Specs, repository: Repository
) -> None:
    """Lines move, and the name of the next run changes; stale wiring is stale before and after."""
    specs.environment("prod", GITOPS)
    specs.job("prod/llm", f"{FORCED}env: {{A: b}}\n")
    assert specs.run("gitops", "wire", "--out", "wiring").exit_code == 0
    (specs.root / "wiring/prod/kustomizations.yaml").unlink()
    path = "environments/prod/jobs/llm.yaml"
    old = (specs.root / path).read_text()
    found = {finding.rule for finding in repository.check().findings}
    assert {"TW043", "TW503"} <= found
    edited = repository.propose(path, f"# Why.\n{old}".replace("A: b", "A: c"))
    assert (edited.added, edited.fixed) == ((), ())
    assert {finding.rule for finding in edited.check.findings} >= found
    fixed = repository.propose(path, old.replace(FORCED, ""))
    assert [finding.rule for finding in fixed.fixed] == ["TW503"]
    assert fixed.added == ()


def test_a_second_finding_of_a_field_is_an_added_one(specs: Specs, repository: Repository) -> None:
    specs.job("prod/llm", "node: 3\n")
    path = "environments/prod/jobs/llm.yaml"
    old = (specs.root / path).read_text()
    more = repository.propose(path, f"# Why.\n{old}nodez: 3\n")
    assert [(it.rule, it.path.dotted) for it in more.added] == [("TW010", "nodez")]
    assert more.fixed == ()


def test_a_proposal_shows_no_credential(specs: Specs, repository: Repository) -> None:
    secret = "hf_abcdefghijklmnopqrstuvwxyz012345"
    path = "environments/prod/jobs/llm.yaml"
    old = (specs.root / path).read_text()
    proposed = repository.propose(
        path, f"{old}env: {{HUB_TOKEN: {secret}}}\nflags: {{{secret}: 1}}\n"
    )
    assert proposed.added
    assert secret not in str(proposed)


@pytest.mark.parametrize("path", ["../x", "environments/../x", "README.md", "/etc/passwd", "environments/prod/rendered/llm/run.lock"])  # fmt: skip
def test_only_specs_are_proposed(repository: Repository, path: str) -> None:
    with pytest.raises(TrainwrightError, match="is not the path of a spec"):
        repository.propose(path, "x")


def test_the_nearest_repository_is_found(specs: Specs, tmp_path: Path) -> None:
    assert Repository.find(specs.root / "environments/prod").root == specs.root
    with pytest.raises(TrainwrightError, match="no environments/ folder"):
        Repository.find(tmp_path)
    with pytest.raises(ValueError, match="Invalid isoformat"):
        Repository(specs.root, today="tomorrow")


def test_what_is_undone_leaves_no_lock(
    specs: Specs, repository: Repository, monkeypatch: Any
) -> None:
    """The lock of one call is not held by the next."""
    for _ in range(2):
        repository.render(write=True)
    assert "TRAINWRIGHT_HELD" not in __import__("os").environ
