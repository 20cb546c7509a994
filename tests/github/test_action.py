"""action.yml, its steps run for real in clones of a repository with a pull request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import git_repository as git
import github_api
from github_action import ACTION, ROOT, Runner, evaluate
from github_api import TOKEN, Api
from repository import Repository

NUMBER = 7
CHECKS = ("Check job specs", "Check rendered files", "Verdict")
MARKER = "<!-- trainwright-plan -->"


@pytest.fixture
def api() -> Iterator[Api]:
    with github_api.serving() as running:
        yield running


class Pull:
    """A repository on a forge, with a pull request that goes from `topic` into `main`.

        main   A ── B          B: another user's job, merged after the pull request was opened
                \\    \\
        topic    C ── M        C: this pull request; M: refs/pull/7/merge, as GitHub makes it
    """

    def __init__(self, folder: Path, api: Api, trainwright: Path):
        self.folder, self.api, self.trainwright = folder, api, trainwright
        self.origin = git.init(folder / "origin")
        self.files = Repository(self.origin)
        self.files.environment("dev")
        self.files.job("dev/mnist")
        self.render()
        self.opened_on = git.committed(self.origin, "Start")

    def render(self) -> None:
        done = self.files.run("render", "--no-cache")
        assert done.exit_code == 0, done.output

    def propose(self, *, rendered: bool = True) -> None:
        """Commit what is on disk to `topic`, let `main` go on, and merge them for checking."""
        if rendered:
            self.render()
        git.git(self.origin, "switch", "--quiet", "--create", "topic")
        self.head = git.committed(self.origin, "Propose")
        git.git(self.origin, "switch", "--quiet", "main")
        self.files.environment("prod")
        self.files.job("prod/theirs")
        self.render()
        git.commit(self.origin, "Another user's")
        self.merge()

    def go_on(self) -> None:
        """Another commit on `topic`, of what `change` did there."""
        self.render()
        self.head = git.committed(self.origin, "Go on")
        self.merge()

    def merge(self) -> None:
        git.git(self.origin, "switch", "--quiet", "--detach", "main")
        git.git(self.origin, "merge", "--quiet", "--no-edit", "--no-ff", "topic")
        self.merged = git.git(self.origin, "rev-parse", "HEAD")
        git.git(self.origin, "update-ref", f"refs/pull/{NUMBER}/merge", self.merged)
        git.git(self.origin, "switch", "--quiet", "main")

    def event(self, *, fork: bool = False) -> dict[str, Any]:
        owner = "somebody/training" if fork else "example/training"
        return {
            "repository": "example/training",
            "token": TOKEN,
            "sha": self.merged,
            "event": {
                "pull_request": {
                    "number": NUMBER,
                    "base": {"sha": self.opened_on},
                    "head": {"sha": self.head, "repo": {"full_name": owner}},
                }
            },
        }

    def runner(self, *, depth: int = 0, fork: bool = False, plans: bool = False) -> Runner:
        """A checkout as actions/checkout makes it, and a runner in it.

        One that `plans` leaves out the checks, which take most of the time of a run.
        """
        name = f"checkout-{len(list(self.folder.iterdir()))}"
        workspace, temp = self.folder / name, self.folder / f"{name}-temp"
        (temp / "trainwright").mkdir(parents=True)
        git.init(workspace)
        git.git(workspace, "remote", "add", "origin", self.origin.as_uri())
        shallow = [f"--depth={depth}"] if depth else []
        reference = f"+refs/pull/{NUMBER}/merge:refs/remotes/pull/{NUMBER}/merge"
        every = [] if depth else ["+refs/heads/*:refs/remotes/origin/*"]
        git.git(workspace, "fetch", "--quiet", *shallow, "origin", reference, *every)
        git.git(workspace, "checkout", "--quiet", "--detach", f"refs/remotes/pull/{NUMBER}/merge")
        return Runner(
            workspace=workspace,
            temp=temp,
            github=self.event(fork=fork),
            path=f"{self.trainwright.parent}{os.pathsep}{os.environ['PATH']}",
            api=self.api.url,
            skip=("Install trainwright", *(CHECKS if plans else ())),
        )


@pytest.fixture
def pull(
    tmp_path: Path, api: Api, preloaded_trainwright: Path, monkeypatch: pytest.MonkeyPatch
) -> Pull:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2026-06-01")
    for name in ("GITHUB_TOKEN", "GITHUB_REPOSITORY", "GITHUB_API_URL", "GITHUB_SHA"):
        monkeypatch.delenv(name, raising=False)
    return Pull(tmp_path, api, preloaded_trainwright)


# --- what a pull request sees ----------------------------------------------------------------


def test_a_pull_request_gets_its_own_changes_and_one_comment(pull: Pull, api: Api) -> None:
    pull.files.job("dev/mnist", "retries: 7\n")
    pull.files.job("dev/llm")
    pull.propose()
    done = pull.runner().run()
    assert not done.failed, done.log
    (body,) = api.bodies(NUMBER)
    assert body.startswith(MARKER)
    assert "dev/llm" in body
    assert "retries" in body
    assert "theirs" not in body, "what others merged meanwhile is not this pull request's"
    assert body in done.summary
    assert done.outputs["result"] == "success"
    assert done.outputs["comment"].startswith("https://github.com/example/training/pull/7#")
    assert Path(done.outputs["plan"]).read_text() == body
    assert TOKEN not in done.log + done.summary


def test_the_plan_is_made_once_and_the_comment_links_its_page(pull: Pull, api: Api) -> None:
    pull.files.job("dev/mnist", "retries: 7\n")
    pull.propose()
    runner = pull.runner(plans=True)
    address = "https://github.com/example/training/actions/runs/1/artifacts/2"
    runner.uploads = {"uploaded": {"artifact-url": address}}
    counted = runner.temp / "bin"
    counted.mkdir()
    (counted / "trainwright").write_text(
        f'#!/bin/sh\necho "$*" >> "{runner.temp}/calls"\nPATH="{runner.path}" exec trainwright "$@"\n'
    )
    (counted / "trainwright").chmod(0o755)
    runner.path = f"{counted}{os.pathsep}{runner.path}"
    done = runner.run()
    assert not done.failed, done.log
    calls = (runner.temp / "calls").read_text().splitlines()
    assert [" ".join(call.split()[:2]) for call in calls] == ["plan --against", "gitops comment"]
    assert Path(done.outputs["page"]).read_text().startswith("<!doctype html>")
    (body,) = api.bodies(NUMBER)
    assert body.endswith(f"[The plan as a page]({address})\n")


def test_the_comment_is_updated_in_place(pull: Pull, api: Api) -> None:
    api.add(NUMBER, f"{MARKER}\nI can write this too.", "somebody")
    for index in range(150):
        api.add(NUMBER, f"Comment {index}", "somebody")
    pull.files.job("dev/llm")
    pull.propose()
    pull.runner(plans=True).run()
    first = api.bodies(NUMBER)
    assert len(first) == 152
    writes = [request for request in api.requests if not request.startswith("GET")]
    pull.runner(plans=True).run()
    assert api.bodies(NUMBER) == first
    assert [r for r in api.requests if not r.startswith("GET")] == writes, "nothing new to say"
    git.git(pull.origin, "switch", "--quiet", "topic")
    pull.files.job("dev/bert")
    pull.go_on()
    done = pull.runner(plans=True).run()
    assert "updated https://" in done.log
    assert len(api.bodies(NUMBER)) == 152
    assert "dev/bert" in api.bodies(NUMBER)[-1]
    assert api.bodies(NUMBER)[0] == f"{MARKER}\nI can write this too."


def test_a_fork_gets_annotations_and_summary_and_no_request_is_made(pull: Pull, api: Api) -> None:
    pull.files.job("dev/llm")
    pull.propose()
    done = pull.runner(fork=True).run()
    assert not done.failed, done.log
    assert not api.requests
    assert not any("sarif" in used for used in done.used), "and nothing to code scanning"
    assert MARKER in done.summary
    assert "dev/llm" in done.summary


def test_a_comment_that_is_refused_fails_nothing(pull: Pull, api: Api) -> None:
    api.refuse = 403
    pull.files.job("dev/llm")
    pull.propose()
    done = pull.runner(plans=True).run()
    assert not done.failed, done.log
    assert "trainwright: GitHub answers 403 Resource not accessible" in done.log
    assert "::warning title=No comment::" in done.log
    assert done.outputs["comment"] == ""


def test_findings_are_annotated_on_the_authored_line_and_fail_at_the_end(pull: Pull) -> None:
    pull.files.job("dev/llm", "nodes: 3\n")
    pull.propose(rendered=False)
    done = pull.runner().run()
    assert done.failed
    assert done.outputs["result"] == "failure"
    assert "::error file=environments/dev/jobs/llm.yaml,line=10,col=1," in done.log
    assert "is here twice" in done.summary
    assert MARKER in done.summary, "the plan is made all the same"
    results = json.loads(Path(done.outputs["sarif"]).read_text())["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == ["TW002"]
    (upload,) = [inputs for used, inputs in done.used.items() if "upload-sarif" in used]
    assert upload["sarif_file"] == done.outputs["sarif"]


def test_stale_rendered_files_fail_and_are_listed(pull: Pull) -> None:
    pull.files.job("dev/mnist", "podLabels: {another: run}\n")
    rendered = pull.origin / "environments/dev/rendered"
    (rendered / "##[error]left").write_text("over\n")
    pull.propose(rendered=False)
    done = pull.runner().run()
    assert done.failed
    assert "::error title=Rendered files are stale::" in done.log
    assert "environments/dev/rendered/mnist/pytorchjob.yaml: out of date" in done.summary
    assert "##[error]" not in done.log, "a file's name is shown, and never obeyed"


@pytest.mark.parametrize(("inputs", "failed"), [({}, False), ({"fail_on": "warning"}, True)])
def test_what_fails_is_the_users_choice(pull: Pull, inputs: dict[str, str], failed: bool) -> None:
    pull.files.job("dev/llm", "env: {NCCL_IB_HCA: mlx5_0}\n")
    pull.propose()
    done = pull.runner().run(**inputs)
    assert "::warning file=environments/dev/jobs/llm.yaml" in done.log
    assert done.failed == failed, done.log


def test_a_shallow_clone_is_told_what_to_set(pull: Pull) -> None:
    pull.files.job("dev/llm")
    pull.propose()
    done = pull.runner(depth=1).run()
    assert done.failed
    assert "this clone is shallow: set `fetch-depth: 0` in actions/checkout" in done.log
    assert "Check rendered files" in done.ran
    assert done.outputs["plan"] == ""


def test_both_parents_of_the_merge_are_enough(pull: Pull, api: Api) -> None:
    pull.files.job("dev/llm")
    pull.propose()
    done = pull.runner(depth=2, plans=True).run()
    assert not done.failed, done.log
    assert "dev/llm" in api.bodies(NUMBER)[0]


def test_a_push_is_checked_and_compared_with_nothing(pull: Pull, api: Api) -> None:
    pull.files.job("dev/llm")
    pull.propose()
    runner = pull.runner()
    runner.github = {"repository": "example/training", "token": TOKEN, "event": {}}
    done = runner.run()
    assert not done.failed, done.log
    assert "Plan" not in done.ran
    assert not api.requests
    assert any("upload-sarif" in used for used in done.used)


def test_a_merge_queue_and_a_commit_of_ones_own_choice(pull: Pull, api: Api) -> None:
    pull.files.job("dev/llm")
    pull.propose()
    runner = pull.runner(plans=True)
    base = git.git(pull.origin, "rev-parse", "main")
    runner.github = {"repository": "example/training", "event": {"merge_group": {"base_sha": base}}}
    assert "dev/llm" in runner.run().summary
    runner = pull.runner(plans=True)
    done = runner.run(against=pull.opened_on, comment="false")
    assert "prod/theirs" in done.summary
    assert not api.requests


def test_one_environment_can_be_selected(pull: Pull) -> None:
    pull.files.job("dev/llm")
    pull.propose()
    done = pull.runner().run(selections="dev/mnist prod")
    assert not done.failed, done.log
    assert "2 jobs" in done.log
    assert "dev/llm" not in done.summary


def test_a_repository_without_environments_is_told_so(pull: Pull) -> None:
    pull.propose()
    runner = pull.runner()
    for path in sorted((runner.workspace / "environments").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (runner.workspace / "environments").rmdir()
    done = runner.run()
    assert done.failed
    assert "no environments/ folder in" in done.log
    assert done.outputs["sarif"] == ""


def test_installing_only(pull: Pull) -> None:
    pull.propose()
    runner = pull.runner()
    runner.skip = ("Install trainwright",)
    assert runner.run(install_only="true").ran == ["Set up Python"]


def test_an_environment_is_attested_after_a_push_that_is_verified(pull: Pull) -> None:
    pull.propose()
    runner = pull.runner(plans=True)
    runner.github = {"repository": "example/training", "event": {}}
    done = runner.run(attest="prod")
    assert not done.failed, done.log
    (given,) = [found for used, found in done.used.items() if used.startswith("actions/attest@")]
    statement = json.loads(Path(done.outputs["statement"]).read_text())
    assert given["predicate-type"] == statement["predicateType"]
    assert json.loads(Path(given["predicate-path"]).read_text()) == statement["predicate"]
    assert statement["predicate"]["source"]["digest"] == {"gitCommit": pull.merged}
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", given["subject-checksums"]],
        cwd=runner.workspace, capture_output=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
    assert b"environments/prod/rendered/theirs/pytorchjob.yaml: OK" in checked.stdout


def test_nothing_is_attested_for_a_pull_request_or_where_a_file_is_not_equal(pull: Pull) -> None:
    pull.propose()
    done = pull.runner(plans=True).run(attest="prod", comment="false")
    assert not any(used.startswith("actions/attest@") for used in done.used)
    runner = pull.runner(plans=True)
    runner.github = {"repository": "example/training", "event": {}}
    forged = runner.workspace / "environments/prod/rendered/theirs/pytorchjob.yaml"
    forged.write_text(forged.read_text().replace("train.py", "steal.py"))
    git.commit(runner.workspace, "Steal")
    done = runner.run(attest="prod")
    assert done.failed
    assert "theirs/pytorchjob.yaml" in done.log
    assert not any(used.startswith("actions/attest@") for used in done.used)


# Modules that Python, pip, what builds the tool, or the tool itself would import from the checkout.
MODULES = (
    "venv", "ensurepip", "pip", "hatchling", "packaging", "sitecustomize", "usercustomize", "yaml",
    "trainwright", "multiprocessing", "subprocess", "json", "click",
)  # fmt: skip


def plant(folder: Path, mark: Path) -> None:
    """Modules, configuration and programs at the top of a checkout, each of which leaves a mark."""
    for name in MODULES:
        done = f"open({str(mark / name)!r}, 'w').close()\nraise SystemExit(9)\n"
        (folder / f"{name}.py").write_text(done)
    for name in ("pip", "trainwright"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text((folder / f"{name}.py").read_text())
    (folder / "evil.pth").write_text(f"import os; os.mkdir({str(mark / 'pth')!r})\n")
    (folder / "setup.py").write_text((folder / "venv.py").read_text())
    index = "no-index = true\nfind-links = .\nconstraint = constraints.txt\ntarget = here\n"
    (folder / "pip.conf").write_text(f"[global]\n{index}")
    (folder / "setup.cfg").write_text(f"[install]\nprefix = {mark}\n[easy_install]\n{index}")
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["evil"]\nbuild-backend = "venv"\n'
    )
    (folder / ".env").write_text(f"PYTHONSTARTUP={folder}/venv.py\nPIP_INDEX_URL=file:///nowhere\n")
    for name in ("git", "python3", "trainwright.sh"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {mark}/{name}\nexit 9\n")
        (folder / name).chmod(0o755)


@pytest.mark.slow
def test_the_whole_action_with_its_own_installation(
    pull: Pull, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a checkout that lays modules and programs out, with a job that has PYTHONPATH lead there."""
    pull.files.job("dev/llm")
    marks = tmp_path / "marks"
    marks.mkdir()
    plant(pull.origin, marks)
    pull.propose()
    runner = pull.runner()
    runner.skip = ()
    runner.path = os.environ["PATH"].replace(str(Path(sys.executable).parent), "/nowhere")
    monkeypatch.setenv("PYTHONPATH", str(runner.workspace))
    monkeypatch.setenv("PYTHONSTARTUP", str(runner.workspace / "venv.py"))
    done = runner.run()
    assert list(marks.iterdir()) == []
    assert not done.failed, done.log
    monkeypatch.delenv("PYTHONPATH")
    assert "dev/llm" in api.bodies(NUMBER)[0]
    tool = runner.temp / "trainwright/bin/trainwright"
    message = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True)
    assert message.stdout.startswith("trainwright ")
    assert [path.name for path in tool.parent.iterdir()] == ["trainwright"], "no pip, no python"
    new = [tool, "init", runner.temp / "new", "--engine", "flux", "--target", "jobset"]
    subprocess.run(new, capture_output=True, check=True)
    assert (runner.temp / "new/.github/workflows/pull-request.yaml").is_file()


# --- workflows around it ---------------------------------------------------------------------


def step(workflow: str, name: str) -> dict[str, Any]:
    """A step of one of this repository's workflows."""
    jobs = yaml.safe_load((ROOT / ".github/workflows" / workflow).read_text())["jobs"]
    (found,) = [s for job in jobs.values() for s in job.get("steps", []) if s.get("name") == name]
    return dict(found)


def test_the_comment_for_a_fork_is_made_without_checking_it_out(pull: Pull, api: Api) -> None:
    pull.files.job("dev/llm")
    pull.propose()
    runner = pull.runner()
    git.git(runner.workspace, "checkout", "--quiet", "--detach", pull.opened_on)
    runner.github["token"] = TOKEN
    runner.github["event"]["workflow_run"] = {"head_sha": pull.head}
    found = {"steps": {"find": {"outputs": {"number": str(NUMBER)}}}}
    done = runner.run_step(step("fork-comment.yaml", "Plan and comment"), found)
    assert not done.failed, done.log
    (body,) = api.bodies(NUMBER)
    assert "dev/llm" in body
    assert "prod/theirs" not in body
    assert git.git(runner.workspace, "rev-parse", "HEAD") == pull.opened_on
    assert not (runner.workspace / "environments/dev/jobs/llm.yaml").exists()


def test_a_fork_gets_no_comment_on_a_commit_that_was_not_merged(pull: Pull, api: Api) -> None:
    """As where its branch conflicts: the plan would be that of an earlier commit of it."""
    pull.files.job("dev/llm")
    pull.propose()
    runner = pull.runner()
    git.git(runner.workspace, "checkout", "--quiet", "--detach", pull.opened_on)
    runner.github["event"]["workflow_run"] = {"head_sha": "f" * 40}
    found = {"steps": {"find": {"outputs": {"number": str(NUMBER)}}}}
    done = runner.run_step(step("fork-comment.yaml", "Plan and comment"), found)
    assert not done.failed, done.log
    assert f"::warning title=No comment::GitHub has no merge of {'f' * 40}" in done.log
    assert not api.bodies(NUMBER)


def test_a_promotion_and_a_new_image_become_commits_for_a_pull_request(pull: Pull) -> None:
    pull.files.job("dev/theirs")
    pull.propose()
    runner = pull.runner()
    digest = f"sha256:{'a' * 64}"
    pin = step("image.yaml", "Pin")
    pin["env"] = {"IMAGE": f"registry.example.com/ml/train@{digest}"}
    done = runner.run_step(pin, {})
    assert not done.failed, done.log
    assert done.outputs == {"branch": f"image/{'a' * 64}"}
    again = runner.run_step(pin, {})
    assert not again.failed, again.log
    assert again.outputs == {}, "it runs already: there is nothing to propose"
    inputs = {"inputs": {"job": "theirs", "from": "dev", "to": "prod"}}
    promoted = runner.run_step(step("promote.yaml", "Promote"), inputs)
    assert promoted.outputs == {"branch": "promote/theirs-to-prod"}, promoted.log
    assert digest in git.git(runner.workspace, "show", "HEAD:environments/prod/jobs/theirs.yaml")
    assert git.git(runner.workspace, "status", "--porcelain") == ""
    assert git.git(runner.workspace, "log", "-2", "--format=%an: %s").splitlines()[0] == (
        "github-actions[bot]: Promote theirs from dev to prod"
    )
    runner.skip += ("Comment",)
    assert not runner.run().failed, "the proposal passes the checks that await it"


def test_each_environment_is_published_to_its_branch(pull: Pull) -> None:
    pull.propose()
    runner = pull.runner()
    git.git(runner.workspace, "checkout", "--quiet", "-B", "main", "origin/main")
    publish = step("publish.yaml", "Publish")
    done = runner.run_step(publish, {})
    assert not done.failed, done.log
    rendered = "environments/prod/rendered/theirs/pytorchjob.yaml"
    published = git.git(pull.origin, "show", f"environments/prod:{rendered}")
    assert published == (pull.origin / rendered).read_text().rstrip("\n")
    tip = git.git(pull.origin, "rev-parse", "environments/prod")
    assert not runner.run_step(publish, {}).failed
    assert git.git(pull.origin, "rev-parse", "environments/prod") == tip, "nothing new"


# --- the file itself -------------------------------------------------------------------------


def test_expressions_are_read_as_github_reads_them() -> None:
    context = {"a": {"b-c": "x", "empty": ""}, "t": True}
    for expression, value in (
        ("a.b-c", "x"),
        ("a.b-c == 'x' && 'yes' || 'no'", "yes"),
        ("a.empty || a.none.at.all", ""),
        ("!a.empty && (a.b-c != 'y')", True),
        ("'true'", "true"),
    ):
        assert evaluate(expression, context) == value, expression
    with pytest.raises(AssertionError):
        evaluate("format('{0}', a)", context)


def test_no_expression_is_pasted_into_a_script() -> None:
    for step in yaml.safe_load(ACTION.read_text())["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


def test_every_input_and_output_is_described_and_in_the_documentation() -> None:
    action = yaml.safe_load(ACTION.read_text())
    page = (ROOT / "docs/ci.md").read_text()
    for kind in ("inputs", "outputs"):
        for name, spec in action[kind].items():
            assert spec["description"].endswith("."), name
            assert f"| `{name}` |" in page, name


def test_the_lock_has_what_the_tool_asks_for() -> None:
    import tomllib

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    folder = ROOT / "generator"
    lines = (folder / "requirements.txt").read_text().splitlines()
    pins = dict(line.split(" ")[0].split("==") for line in lines if "==" in line)
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for requirement in map(Requirement, wanted):
        name = canonicalize_name(requirement.name)
        assert name in pins, f"{name}: regenerate generator/requirements.txt as it says"
        assert requirement.specifier.contains(pins[name]), name
