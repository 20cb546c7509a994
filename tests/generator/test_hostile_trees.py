"""Reading a repository runs nothing of it: no verb leaves the mark of what was planted in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import git_repository
import trainwright
from hostile_trees import INCLUDED, PLANTS, PYTHON, Plant, Site, variable
from repository import Copied, Repository
from trainwright.authoring.session import Session
from trainwright.plan.upgrade import versions

_SPEC = "environments/prod/jobs/llm.yaml"
_FILES = "files: {/etc/ds: {from: conf}}\n"

READING = (
    ("check", "--no-cache"),
    ("render", "--check"),
    ("plan", "--files", "--against", "base"),
    ("list",),
    ("explain", "prod/llm"),
    ("report",),
    ("doctor",),
    ("gitops", "publish", "--branch", "rendered"),
    ("gitops", "verify", "HEAD"),
)


def begin(folder: Path) -> None:
    """Two commits, of which the first is what to compare with; all is rendered."""
    made = Repository(git_repository.init(folder))
    made.environment("prod")
    made.write("../conf/zero.json", "{}\n")
    made.job("prod/llm", _FILES)
    assert made.run("render").exit_code == 0
    git_repository.commit(folder, "Begin")
    git_repository.git(folder, "branch", "base")
    made.job("prod/other", "retries: 1\n")
    made.run("render")
    git_repository.commit(folder, "Another")


@pytest.fixture
def site(tmp_path: Path, copied: Copied, monkeypatch: pytest.MonkeyPatch) -> Site:
    root, marks = tmp_path / "tree", tmp_path / "marks"
    marks.mkdir()
    copied(begin, root)  # files whose times are not in the index: git has to read them
    with (root / _SPEC).open("a") as file:
        file.write("# An edit that is not committed.\n")
    monkeypatch.chdir(root)
    return Site(root, marks)


def put(plant: Plant, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    plant.put(site)
    for name, value in plant.environment.items():
        monkeypatch.setenv(name, value.format(tree=site.root, marks=site.marks))


def marks(site: Site) -> list[str]:
    return sorted(path.name for path in site.marks.iterdir())


@pytest.mark.parametrize("name", [name for name, plant in PLANTS.items() if plant.control])
def test_what_is_planted_would_run(name: str, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    put(PLANTS[name], site, monkeypatch)
    subprocess.run(
        PLANTS[name].control, cwd=site.root, capture_output=True, check=False,
        env={k: v for k, v in os.environ.items() if k != "GIT_OPTIONAL_LOCKS"},
    )  # fmt: skip
    assert marks(site) == ["mark"]


@pytest.mark.parametrize("name", PLANTS)
def test_no_verb_that_reads_leaves_a_mark(
    name: str, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(PLANTS[name], site, monkeypatch)
    for verb in READING:
        done = Repository(site.root).run(*verb)
        assert done.exit_code in (0, 1, 2), (verb, done.output, done.exception)
        assert marks(site) == [], verb
    session = Session(site.root)
    session.put(_SPEC, (site.root / _SPEC).read_text())
    session.changed({_SPEC})
    while not session.is_checked:
        session.check_next()
    assert marks(site) == []


# --- Python ----------------------------------------------------------------------------------------


def everything_python(site: Site) -> None:
    for plant in PYTHON.values():
        plant.put(site)


def process(site: Site, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in the checkout; servers end with their input."""
    return subprocess.run(
        words, cwd=site.root, input="", capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", [name for name, plant in PYTHON.items() if plant.control])
def test_python_would_import_it(name: str, site: Site) -> None:
    PYTHON[name].put(site)
    process(site, *PYTHON[name].control)
    assert marks(site) == ["mark"]


@pytest.mark.parametrize(
    "verb",
    [("check",), ("plan", "--against", "base"), ("editor", "lsp"), ("editor", "mcp")],
    ids=" ".join,
)
def test_the_command_imports_nothing_of_the_checkout(verb: tuple[str, ...], site: Site) -> None:
    everything_python(site)
    command = Path(sys.executable).with_name("trainwright")
    done = process(site, str(command), *verb)
    assert done.returncode == 0, done.stderr
    assert marks(site) == []


def test_the_module_imports_no_library_of_the_checkout(site: Site) -> None:
    """Python itself looks in the working folder before anything of ours has begun."""
    for name in ("a library", "a library that is not there"):
        PYTHON[name].put(site)
    done = process(site, sys.executable, "-m", "trainwright", "check")
    assert done.returncode == 0, done.stderr
    assert marks(site) == []


def test_workers_import_nothing_of_the_checkout(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainwright.render.batch._WORTH_A_PROCESS", 1)
    monkeypatch.setattr("trainwright.render.batch.processors", lambda: 2)
    monkeypatch.setattr("multiprocessing.resource_tracker._resource_tracker._fd", None)
    everything_python(site)
    assert Repository(site.root).run("check", "--no-cache").exit_code == 0
    assert marks(site) == []
    assert "PYTHONSAFEPATH" not in os.environ


def test_another_version_imports_nothing_of_the_checkout(site: Site) -> None:
    everything_python(site)
    found = versions.find(Path(sys.executable).parents[1], {}, site.root)
    assert found.version == trainwright.__version__
    assert found.run(site.root, "check").code == 0
    assert marks(site) == []


def test_helm_is_not_of_the_checkout(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    put(variable(PATH=f":.:tools:{os.environ['PATH']}"), site, monkeypatch)
    Repository(site.root).run("check", "--no-cache", "--helm", "helm")
    assert marks(site) == []


STARTING = {
    "helm/engines.py",
    "rehearsal/probes.py",  # the commands of probes, of a training that is rehearsed
    "rehearsal/processes.py",  # the training itself, which `rehearse` is for
    "rehearsal/session.py",
    "files/git_command.py",
    "plan/upgrade/versions.py",
}


def test_programs_are_started_in_these_places_alone() -> None:
    package = Path(trainwright.__file__).parent
    starts = re.compile(
        r"\bsubprocess\.(?:Popen|run|check_\w+|call)|\bos\.(?:exec|spawn|system|popen)"
    )
    found = {path for path in package.rglob("*.py") if starts.search(path.read_text())}
    assert {path.relative_to(package).as_posix() for path in found} == STARTING


# --- what the user has configured ----------------------------------------------------------------


def test_hooks_and_filters_of_the_user_run_where_the_user_commits(site: Site) -> None:
    site.config(f"filter.own.clean=touch {site.marks}/clean; cat")
    site.write(".git/info/attributes", "*.yaml filter=own\n")
    site.write(".git/hooks/pre-commit", f"#!/bin/sh\ntouch {site.marks}/hook\n", 0o755)
    git_repository.git(site.root, "checkout", "--", ".")
    shutil.rmtree(site.marks)
    site.marks.mkdir()
    done = Repository(site.root).run("suspend", "prod/llm", "--commit")
    assert done.exit_code == 0, done.output
    assert marks(site) == ["clean", "hook"]


@pytest.mark.parametrize("name", INCLUDED)
def test_nothing_is_done_for_the_user_with_settings_of_the_tree(name: str, site: Site) -> None:
    INCLUDED[name].put(site)
    git_repository.git(site.root, "-c", "include.path=/dev/null", "config", "--list")
    for verb in (
        ("gitops", "publish", "--branch", "new"),
        ("gitops", "publish", "--branch", "new", "--push"),
    ):
        done = Repository(site.root).run(*verb)
        assert done.exit_code == 2, done.output
    assert marks(site) == []
