"""`doctor`: each thing that can be missing is named, with a way out; what is there is not."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import git_repository as git
from repository import Copied, Repository
from trainwright.cli import main
from trainwright.helm import own_chart
from trainwright.setup.doctor.examination import CHECKS

WORKFLOW = """\
name: review
on: {pull_request: {}}
permissions: {contents: read}
jobs:
  review:
    runs-on: ubuntu-latest
    permissions: {contents: read, pull-requests: write}
    steps:
      - uses: actions/checkout@v6
        with: {fetch-depth: 0}
      - uses: trainwright/trainwright@COMMIT
""".replace("COMMIT", "a" * 40)
MARKED = "environments/*/rendered/** linguist-generated=true\n"
LISTS = """\
environments/*/rendered/kustomization.yaml merge=union
environments/*/ledger.yaml merge=union
"""
ATTRIBUTES = f"* text=auto eol=lf\n{MARKED}{LISTS}"


@pytest.fixture
def healthy(tmp_path: Path, copied: Copied, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository in which nothing is wrong."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    (tmp_path / "config").write_text("apiVersion: v1\nkind: Config\n")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    return copied(_begin, tmp_path / "repository")


def _begin(folder: Path) -> None:
    made = Repository(git.init(folder))
    made.environment("dev")
    made.job("dev/llm")
    (made.root / ".gitattributes").write_text(ATTRIBUTES)
    (made.root / ".pre-commit-config.yaml").write_text("repos: []\n")
    (made.root / ".git/hooks").mkdir(exist_ok=True)
    (made.root / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
    workflow(made, WORKFLOW)
    made.run("render")
    git.commit(made.root)


def workflow(repository: Repository, text: str) -> None:
    path = repository.root / ".github/workflows/review.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def states(repository: Repository) -> dict[str, str]:
    """What is not ok, but for the wiring that these repositories do not have."""
    done = repository.run("doctor", "-o", "json")
    found = json.loads(done.stdout)["items"]
    items = [it for it in found if not it["message"].startswith(_UNWIRED)]
    assert done.exit_code == int(any(item["state"] == "error" for item in items))
    for item in items:
        if item["state"] != "error":  # an error may be of another program
            assert (item["state"] == "warning") == bool(item["remedy"]), item
    return {item["about"]: item["state"] for item in items if item["state"] != "ok"}


_UNWIRED = ("there is no wiring/", "no engine is known to follow one of this repository, as")


def test_nothing_is_wrong(healthy: Repository) -> None:
    source = f'{{url: "{URL}", revision: main}}'
    healthy.environment("dev", f"gitops: {{engine: argocd, repository: {source}}}\n")
    for command in (("render",), ("gitops", "wire", "--out", str(healthy.root / "wiring"))):
        assert healthy.run(*command).exit_code == 0
    git.commit(healthy.root)
    done = healthy.run("doctor")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("nothing is wrong in ")
    assert {line.split()[1] for line in lines if line} >= set(CHECKS)
    assert states(healthy) == {}


URL = "https://git.example.com/ml/training.git"


@pytest.mark.parametrize(
    ("url", "revision", "made", "state", "message"),
    [
        (URL, "main", (), "ok", "dev: Flux follows main"),
        (URL, "master", (), "warning", "follows master, which is not a branch here: there is main"),
        (URL, "environments/dev", (), "warning", "follows environments/dev, which is not a branch"),
        (URL, "environments/dev", ("environments/dev",), "ok", "Flux follows environments/dev"),
        ("https://git.example.com/ml/other.git", "master", (), "ok", ""),  # which is not this one
        (URL, "refs/tags/v1", (), "ok", ""),
        (URL, "a" * 40, (), "ok", ""),
        ("oci://registry.example.com/ml/rendered", "latest", (), "ok", ""),
        ("ssh://git@git.example.com/ml/training", "master", (), "warning", "follows master"),
    ],
)
def test_the_branch_that_an_engine_follows(
    url: str, revision: str, made: tuple[str, ...], state: str, message: str, healthy: Repository
) -> None:
    git.git(healthy.root, "remote", "add", "origin", "git@git.example.com:ml/training.git")
    for name in made:
        git.git(healthy.root, "branch", name)
    wired = f'engine: flux, repository: {{url: "{url}", revision: "{revision}"}}'
    healthy.environment("dev", f"gitops: {{{wired}}}\n")
    healthy.run("render")
    assert states(healthy) == ({} if state == "ok" else {"branch": state})
    done = healthy.run("doctor")
    assert message in done.stdout
    if state == "warning":
        assert "Set `gitops.repository.revision: main` in environment.yaml" in done.stdout


def test_the_branch_that_pull_requests_go_into(healthy: Repository) -> None:
    git.git(healthy.root, "branch", "master")
    git.git(healthy.root, "remote", "add", "origin", URL)
    git.git(healthy.root, "update-ref", "refs/remotes/origin/main", "HEAD")
    git.git(healthy.root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    healthy.environment(
        "dev", f'gitops: {{engine: argocd, repository: {{url: "{URL}", revision: master}}}}\n'
    )
    healthy.run("render")
    assert states(healthy) == {"branch": "warning"}
    assert "follows master, and pull requests go into main" in healthy.run("doctor").stdout


def test_a_clone_of_one_branch_knows_of_no_other(healthy: Repository) -> None:
    git.git(healthy.root, "remote", "add", "-t", "main", "origin", URL)
    healthy.environment(
        "dev", f'gitops: {{engine: argocd, repository: {{url: "{URL}", revision: release}}}}\n'
    )
    healthy.run("render")
    workflow(healthy, WORKFLOW.replace("pull_request: {}", "pull_request: {branches: [release]}"))
    assert states(healthy) == {}


@pytest.mark.parametrize(
    ("branches", "state"),
    [("[main]", ""), ("[master]", "warning"), ("['release/**']", ""), ("[master, main]", "")],
)
def test_the_branches_that_a_workflow_runs_for(
    branches: str, state: str, healthy: Repository
) -> None:
    workflow(
        healthy, WORKFLOW.replace("pull_request: {}", f"pull_request: {{branches: {branches}}}")
    )
    assert states(healthy) == ({"workflow": state} if state else {})
    assert ("it runs for master: there is main" in healthy.run("doctor").stdout) == bool(state)


CHART = "gitops: {mode: chart, chart: {CHART}}\n"
OCI = "oci: oci://registry.example.com/charts/training-job, version"


@pytest.mark.parametrize(
    ("chart", "state", "message"),
    [
        (f"{OCI}: VERSION", "ok", "dev takes chart VERSION"),
        (f"{OCI}: 9.8.7", "warning", "takes chart 9.8.7, and values are written for chart VERSION"),
        ("path: chart, revision: refs/tags/v1", "ok", "dev takes chart refs/tags/v1"),
        ("path: chart, revision: release", "error", "from release, which pins nothing"),
        ("path: chart", "error", "from main, which pins nothing"),
    ],
)
def test_the_chart_that_an_engine_renders(
    chart: str, state: str, message: str, healthy: Repository
) -> None:
    version = own_chart.version()
    healthy.environment("dev", CHART.replace("CHART", chart.replace("VERSION", version)))
    healthy.job("dev/llm", "run: 2\n")
    assert healthy.run("render").exit_code == 0
    assert states(healthy) == ({} if state == "ok" else {"chart": state})
    done = healthy.run("doctor")
    assert message.replace("VERSION", version) in done.stdout
    assert "earlier chart" not in done.stdout


def test_runs_that_keep_an_earlier_chart_are_nothing_wrong(healthy: Repository) -> None:
    version = own_chart.version()
    healthy.environment("dev", CHART.replace("CHART", f"{OCI}: 0.0.1"))
    healthy.job("dev/llm", "run: 2\n")
    assert healthy.run("render").exit_code == 0
    healthy.environment("dev", CHART.replace("CHART", f"{OCI}: {version}"))
    assert states(healthy) == {}
    assert "dev: 1 run keeps its earlier chart\n" in healthy.run("doctor").stdout


@pytest.mark.parametrize(
    ("gitops", "state", "message"),
    [
        ("{}", "ok", "dev needs Argo CD 3.2 or later"),
        ('{version: "3.5.1"}', "ok", "dev has Argo CD 3.5.1, and needs Argo CD 3.2 or later"),
        ('{version: "3.1"}', "error", "dev: Argo CD 3.1 does not know syncPolicy.retry.refresh"),
        ("{engine: flux}", "ok", "dev needs Flux 2.5 or later"),
        ('{engine: flux, version: "2.4"}', "error", "does not know healthCheckExprs"),
        ("{engine: none}", "skipped", "none applies an environment"),
    ],
)
def test_the_version_of_an_engine(
    gitops: str, state: str, message: str, healthy: Repository
) -> None:
    healthy.environment("dev", f"gitops: {gitops}\n")
    assert states(healthy) == ({} if state == "ok" else {"engine": state})
    assert message in healthy.run("doctor").stdout


def test_runs_that_were_rendered_for_another_engine(healthy: Repository) -> None:
    healthy.environment("dev", "gitops: {engine: flux}\n")
    healthy.job("dev/llm", "run: 2\n")
    assert healthy.run("render").exit_code == 0
    record = healthy.root / "environments/dev/rendered/llm/run.lock"
    run = json.loads(record.read_text())["object"]
    healthy.environment("dev", "gitops: {engine: argocd}\n")
    assert states(healthy) == {"engine": "warning"}
    shown = healthy.run("doctor").stdout
    assert "dev: 1 run was rendered for another engine" in shown
    mark = f"training-dev-llm:kubeflow.org/PyTorchJob:training/{run}"
    assert f"annotate pytorchjob.kubeflow.org/{run} argocd.argoproj.io/tracking-id={mark}`" in shown


def test_stale_rendered_files(healthy: Repository) -> None:
    healthy.job("dev/llm", "podLabels: {another: run}\n")
    done = healthy.run("doctor")
    assert done.exit_code == 1
    assert re.search(r"\nerror\[rendered\]: \d files not as the specs render\n", done.stdout)
    assert "= help: Run `trainwright render` and commit the result." in done.stdout
    assert done.stdout.endswith(" checks\n")


def test_errors_in_specs(healthy: Repository) -> None:
    healthy.job("dev/llm", "bogus: 9\n")
    assert states(healthy) == {"environments": "error"}


def test_no_environment(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    git.init(tmp_path)
    assert states(Repository(tmp_path))["environments"] == "error"


def test_outside_of_git_the_rest_is_looked_at(healthy: Repository, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    (healthy.root / "environments").rename(alone)
    alone.rename(alone.with_name("environments"))
    found = states(Repository(tmp_path))
    assert found == {"clone": "error", "hooks": "skipped", "workflow": "skipped"}


def test_a_shallow_clone(healthy: Repository, tmp_path: Path) -> None:
    git.commit(healthy.root, "Again")
    git.git(tmp_path, "clone", "--quiet", "--depth=1", healthy.root.as_uri(), "shallow")
    found = states(Repository(tmp_path / "shallow"))
    assert found == {"clone": "warning", "hooks": "warning"}


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (MARKED + LISTS, "line ends"),
        (f"* text=auto\n{MARKED}{LISTS}", "line ends"),
        (f"* -text\n{LISTS}", "not marked"),
        (f"* text eol=lf\n{LISTS}", "not marked"),
        (ATTRIBUTES.replace("environments/*/ledger", "other"), "conflict in ledger.yaml"),
        (ATTRIBUTES.replace("/kustomization", "/other"), "conflict in kustomization.yaml"),
        ("", "Write `environments/*/ledger.yaml merge=union` into .gitattributes."),
    ],
)
def test_attributes(healthy: Repository, attributes: str, message: str) -> None:
    (healthy.root / ".gitattributes").write_text(attributes)
    assert states(healthy) == {"attributes": "warning"}
    assert message in healthy.run("doctor").stdout


def test_rendered_files_that_git_ignores(healthy: Repository) -> None:
    (healthy.root / ".gitignore").write_text("rendered/\n")
    assert states(healthy) == {"ignored": "error"}


@pytest.mark.parametrize(
    ("file", "text", "place", "message"),
    [
        (".gitignore", "a\n*.lock\n", ".gitignore:2:1", "/run.lock and "),
        (".gitignore", "rendered/\n", ".gitignore:1:1", "and "),
        (".gitignore", "ledger.yaml\n", ".gitignore:1:1", "environments/dev/ledger.yaml by the"),
        (".gitignore", "environments/\n", ".gitignore:1:1", "environments/defaults.yaml and "),
        (".gitignore", "*.lock.yaml\n", ".gitignore:1:1", "environments/images.lock.yaml by the"),
        ("environments/dev/.gitignore", "jobs\n", "environments/dev/.gitignore:1:1", "/jobs/"),
        (".git/info/exclude", "\n\n*.lock\n", ".git/info/exclude:3:1", "pattern *.lock"),
    ],
)
def test_the_line_by_which_git_ignores_what_has_to_be_in_it(
    healthy: Repository, file: str, text: str, place: str, message: str
) -> None:
    (healthy.root / file).write_text(text)
    (found,) = ignored(healthy)
    assert (found["state"], found["place"]) == ("error", place)
    assert message in found["message"]
    top = healthy.root / ".gitignore"
    before = top.read_text() if top.exists() else ""
    lines = re.findall("`(!.*?)`", found["remedy"])
    if file.startswith("environments/") or text == "environments/\n":
        assert not lines
        assert f"Remove line 1 of {healthy.root / file}" in found["remedy"]
        (healthy.root / file).write_text("")
    else:
        top.write_text("\n".join([before, *lines, ""]))
    assert ignored(healthy) == []


@pytest.mark.parametrize(
    "text", ["*.lock", "rendered/", "rendered/**", "llm", "*.yaml", "ledger.*"]
)
def test_what_else_git_ignores_stays_ignored(healthy: Repository, text: str) -> None:
    """A file of credentials below environments/, which `files` of a spec may name the folder of."""
    folders = ["", "dev/", "dev/config/", "dev/jobs/", "dev/rendered/", "dev/rendered/llm/"]
    others = [f"environments/{folder}{name}" for folder in folders for name in (".env", "a.bin")]
    for name in others:
        (healthy.root / name).parent.mkdir(parents=True, exist_ok=True)
        (healthy.root / name).write_text("HF_TOKEN=a\n")
    file = healthy.root / ".gitignore"
    file.write_text(f".env\n*.bin\n{text}\n*.pem\n")
    while found := ignored(healthy):
        lines = re.findall("`(!.*?)`", found[0]["remedy"])
        assert lines
        assert not set(lines) & set(file.read_text().splitlines())
        file.write_text("\n".join([file.read_text(), *lines, ""]))
    assert git.git(healthy.root, "check-ignore", "--no-index", *others).split() == others
    others = [f"environments/{folder}x.lock" for folder in folders]
    if text == "*.lock":
        assert git.git(healthy.root, "check-ignore", "--no-index", *others).split() == others


def test_a_folder_that_git_cannot_be_asked_about(healthy: Repository, tmp_path: Path) -> None:
    rendered = healthy.root / "environments/dev/rendered"
    shutil.move(rendered, tmp_path / "elsewhere")
    rendered.symlink_to(tmp_path / "elsewhere")
    (healthy.root / ".gitignore").write_text("ledger.yaml\n")
    found = {item["state"]: item["message"] for item in ignored(healthy)}
    assert "environments/dev/ledger.yaml by the pattern ledger.yaml" in found["error"]
    assert "environments/dev/rendered" in found["warning"]
    assert "is beyond a symbolic link" in found["warning"]
    assert len(ignored(healthy)) == 2


def test_a_pattern_of_the_user_is_found_as_well(
    healthy: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    excludes = tmp_path / "xdg/git/ignore"
    excludes.parent.mkdir(parents=True)
    excludes.write_text("*.lock\n")
    (found,) = ignored(healthy)
    assert found["place"] == f"{excludes.resolve()}:1:1"


@pytest.mark.parametrize("text", ["*.lock\n!run.lock\n", "__pycache__/\n*.pyc\n", "*.swp\n"])
def test_what_git_may_ignore(healthy: Repository, text: str) -> None:
    (healthy.root / ".gitignore").write_text(text)
    assert ignored(healthy) == []


def ignored(repository: Repository) -> list[dict[str, str]]:
    items = json.loads(repository.run("doctor", "-o", "json").stdout)["items"]
    return [item for item in items if item["about"] == "ignored"]


def test_a_repository_in_a_folder_of_another(healthy: Repository, tmp_path: Path) -> None:
    outer = git.init(tmp_path / "outer")
    shutil.copytree(healthy.root / "environments", outer / "ml/training/environments")
    (outer / ".gitignore").write_text("*.lock\n")
    (outer / "ml/.gitignore").write_text("ledger.yaml\n")
    found = ignored(Repository(outer / "ml/training"))
    places = {item["place"] for item in found}
    assert places == {f"{outer / '.gitignore'}:1:1", f"{outer / 'ml/.gitignore'}:1:1"}
    for item in found:
        lines = re.findall("`(!.*?)`", item["remedy"])
        file = Path(item["place"].rpartition(":1:1")[0])
        file.write_text("\n".join([file.read_text(), ".env", *lines, ""]))
    assert ignored(Repository(outer / "ml/training")) == []


def test_hooks_that_were_never_installed(healthy: Repository) -> None:
    (healthy.root / ".git/hooks/pre-commit").unlink()
    assert states(healthy) == {"hooks": "warning"}
    (healthy.root / ".pre-commit-config.yaml").unlink()
    assert states(healthy) == {"hooks": "skipped"}


def test_no_cluster_is_nothing_wrong(healthy: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    assert states(healthy) == {"cluster": "skipped"}


@pytest.mark.parametrize(
    ("old", "new", "state", "message"),
    [
        ("a" * 40, "v1", "warning", "trainwright/trainwright@v1 can be moved"),
        ("fetch-depth: 0", "fetch-depth: 1", "error", "the checkout is shallow"),
        ("with: {fetch-depth: 0}", "with: {}", "error", "the checkout is shallow"),
        (", pull-requests: write", "", "warning", "the job may not comment"),
        ("on: {pull_request: {}}", "on: push", "warning", "no workflow reviews pull requests"),
        ("trainwright/trainwright", "another/action", "warning", "no workflow reviews"),
        ("a" * 40, "v0.1.0", "", ""),
        (
            f"trainwright/trainwright@{'a' * 40}",
            "fork/trainwright@v0.1.0",
            "warning",
            "can be moved",
        ),
        ("COMMIT", "", "", ""),
        ("fetch-depth: 0", "fetch-depth: 2", "", ""),
        ("{contents: read, pull-requests: write}", "write-all", "", ""),
        ("on: {pull_request: {}}", "on: pull_request", "", ""),
        ("on: {pull_request: {}}", "on: [push, pull_request]", "", ""),
    ],
)
def test_workflows(healthy: Repository, old: str, new: str, state: str, message: str) -> None:
    workflow(healthy, WORKFLOW.replace(old, new))
    assert states(healthy) == ({"workflow": state} if state else {})
    assert message in healthy.run("doctor").stdout


@pytest.mark.parametrize("text", ["", "jobs: [", "- a list\n", "jobs: {x: {steps: 3}}\n", "on: 1\njobs: {x: 2, y: {steps: [a, {uses: 3}]}}\n", "\xff"])  # fmt: skip
def test_workflows_that_are_none(healthy: Repository, text: str) -> None:
    path = healthy.root / ".github/workflows/review.yaml"
    path.write_bytes(text.encode("latin-1"))
    assert states(healthy) == {"workflow": "warning"}


def test_places_are_those_of_the_workflow(healthy: Repository) -> None:
    workflow(healthy, WORKFLOW.replace("a" * 40, "v1"))
    assert " --> .github/workflows/review.yaml:11:15\n" in healthy.run("doctor").stdout


def test_git_that_is_missing(healthy: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = states_without_git(healthy)
    assert found["git"] == "error"
    assert "git is not installed" in healthy.run("doctor").stdout


def test_a_folder_outside_of_any_repository_is_one_error(tmp_path: Path) -> None:
    made = Repository(tmp_path / "made")
    options = ("--engine", "argocd", "--target", "job", "--env", "prod", "--repository", URL)
    done = CliRunner().invoke(main, ["-C", str(tmp_path), "init", "made", *options])
    assert done.exit_code == 0, done.output
    found = states_without_git(made)
    assert [about for about, state in found.items() if state == "error"] == ["clone"]
    assert {about for about, state in found.items() if state == "skipped"} >= {"hooks", "workflow"}
    shown = made.run("doctor")
    assert shown.exit_code == 1
    assert "is not in a git repository" in shown.stdout
    assert "`plan` and `gitops publish` have no commits" in " ".join(shown.stdout.split())


def states_without_git(repository: Repository) -> dict[str, str]:
    items = json.loads(repository.run("doctor", "-o", "json").stdout)["items"]
    return {item["about"]: item["state"] for item in items if item["state"] != "ok"}


def test_an_environment_that_no_engine_can_find_is_no_state_that_is_ok(
    healthy: Repository,
) -> None:
    def of(about: str) -> tuple[str, str, str]:
        items = json.loads(healthy.run("doctor", "-o", "json").stdout)["items"]
        (found,) = (it for it in items if it["about"] == about)
        return found["state"], found["message"], found["remedy"]

    state, message, remedy = of("wiring")
    assert state == "warning"
    assert message == "there is no wiring/, and gitops.repository.url of dev is not set"
    assert "Set `gitops.repository.url` in environment.yaml" in remedy
    state, message, _ = of("branch")
    assert state == "skipped"
    assert message.endswith(", as gitops.repository.url of dev is not set")
    healthy.environment("dev", f'gitops: {{engine: argocd, repository: {{url: "{URL}"}}}}\n')
    there = "there is no wiring/: that of dev is elsewhere, or not written"
    assert of("wiring") == ("skipped", there, "")
    healthy.environment("dev", "gitops: {engine: none}\n")
    assert of("wiring")[:2] == ("ok", "there is no wiring/, and no engine that needs it")
    assert of("branch")[:2] == ("ok", "no engine is known to follow one of this repository")


def test_help_tells_when_it_fails(healthy: Repository) -> None:
    """A warning is no failure: see `states`."""
    assert "exit 1 on errors, 0 on warnings" in " ".join(
        healthy.run("doctor", "--help").stdout.split()
    )
