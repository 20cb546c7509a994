"""The commands as people run them: what they print, what they write, how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

import git_repository
from repository import Repository
from trainwright.cli import main
from trainwright.cli.common import FORMATS
from trainwright.cli.explain import LISTS

HEADER = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\n"


def test_render_writes_and_a_second_time_has_nothing_to_do(repository: Repository) -> None:
    first = repository.run("render")
    assert first.exit_code == 0, first.output
    assert "prod     2 jobs  written in environments/prod/rendered: 7 added" in first.stdout
    tree = repository.tree()
    assert sorted(path for path in tree if path.startswith("prod/")) == [
        "prod/rendered/kustomization.yaml",
        "prod/rendered/llm/pytorchjob.yaml",
        "prod/rendered/llm/run.lock",
        "prod/rendered/llm/values.yaml",
        "prod/rendered/mnist/pytorchjob.yaml",
        "prod/rendered/mnist/run.lock",
        "prod/rendered/mnist/values.yaml",
    ]
    second = repository.run("render")
    assert second.exit_code == 0
    assert "up to date" in second.stdout
    assert repository.tree() == tree


def test_every_rendered_file_names_its_source_and_command(repository: Repository) -> None:
    repository.run("render")
    for path, text in repository.tree().items():
        environment, _, file = path.split("/", 2)
        if file.endswith("run.lock"):
            message = json.loads(text)["$comment"]
            job = file.split("/")[0]
            assert f"environments/{environment}/jobs/{job}.yaml" in message
        elif "/" in file:
            job = file.split("/")[0]
            assert f"environments/{environment}/jobs/{job}.yaml" in text.split("\n")[0]
            assert f"trainwright render {environment}/{job}" in text.split("\n")[1]
        else:
            assert f"trainwright render {environment}" in text


def test_rendering_again_from_nothing_gives_the_same_bytes(repository: Repository) -> None:
    repository.run("render")
    tree = repository.tree()
    for path in tree:
        (repository.root / "environments" / path).unlink()
    repository.run("render", "--no-cache")
    assert repository.tree() == tree


def test_render_names_jobs_that_are_outdated(repository: Repository) -> None:
    repository.write("base/jobs/common.yaml", f"{HEADER}name: common\nretries: 1\n")
    for job in ("llm", "mnist"):
        repository.job(f"prod/{job}", "extends: base/common\n")
    assert "outdated" not in repository.run("render").stdout
    assert "outdated" not in repository.run("render").stdout
    repository.write(
        "base/jobs/common.yaml", f"{HEADER}name: common\nretries: 1\nflags: {{lr: 1}}\n"
    )
    done = repository.run("render", "prod/llm")
    assert done.stdout.splitlines()[1:] == [
        "prod/llm is outdated until its next run: `trainwright rerun prod/llm` applies the change."
    ]
    # One begins another run by a line of its own: it takes all changes, and the other is named.
    repository.job("prod/llm", "extends: base/common\nflags: {epochs: 3}\n")
    done = repository.run("render")
    lines = done.stdout.splitlines()
    assert [line for line in lines if "outdated" in line] == [
        "prod/mnist is outdated until its next run: `trainwright rerun prod/mnist` applies "
        "the change."
    ]


def test_render_names_jobs_that_are_outdated_where_a_commit_edits_specs(
    repository: Repository,
) -> None:
    base = f"{HEADER}name: common\nretries: 1\n"
    repository.write("base/jobs/common.yaml", base)
    for job in ("llm", "mnist"):
        repository.job(f"prod/{job}", "extends: base/common\n")
    repository.run("render")
    git_repository.init(repository.root)
    git_repository.commit(repository.root)
    repository.write("base/jobs/common.yaml", f"{base}flags: {{lr: 1}}\n")
    named = "prod/llm, prod/mnist are outdated until their next run"
    assert named in repository.run("render").stdout
    git_repository.git(repository.root, "switch", "--quiet", "--create", "edit")
    git_repository.commit(repository.root)
    assert named in repository.run("render").stdout
    # They still do once that is merged: `list jobs` names them, and `render` what an edit does.
    git_repository.git(repository.root, "switch", "--quiet", "main")
    git_repository.git(repository.root, "merge", "--quiet", "edit")
    assert "outdated" not in repository.run("render").stdout
    # What an earlier edit outdated is counted, and what this one does is named.
    earlier = "2 jobs were outdated before: see `trainwright list jobs`.\n"
    repository.job("prod/new")
    done = repository.run("render").stdout
    assert done.endswith(earlier)
    assert done.count("outdated") == 1
    repository.write("base/jobs/common.yaml", f"# Why.\n{base}flags: {{lr: 1}}\n")
    assert repository.run("render").stdout.endswith(earlier)
    repository.job("prod/other", "extends: base/common\n")
    repository.run("render")
    git_repository.commit(repository.root)
    repository.environment("prod", "defaults: {env: {A: b}}\n")
    repository.job("prod/mnist", "extends: base/common\nenv: {A: c}\n")
    lines = repository.run("render").stdout.splitlines()
    assert lines[-1].startswith("prod/llm, prod/new, prod/other are outdated until")
    repository.environment("prod")
    repository.write("base/jobs/common.yaml", f"{base}flags: {{lr: 1}}\n")
    repository.write("base/jobs/rare.yaml", f"{HEADER}name: rare\nextends: base/common\n")
    repository.job("prod/other", "extends: base/common\nretries: 4\n")
    lines = repository.run("render").stdout.splitlines()
    assert lines[-1] == "1 job was outdated before: see `trainwright list jobs`."


def test_render_names_no_job_of_a_renamed_environment_that_was_outdated_before(
    repository: Repository,
) -> None:
    base = f"{HEADER}name: common\nretries: 1\n"
    repository.write("base/jobs/common.yaml", base)
    repository.environment("old")
    repository.job("old/llm", "extends: base/common\n")
    repository.run("render")
    repository.write("base/jobs/common.yaml", f"{base}flags: {{lr: 1}}\n")
    repository.run("render")
    git_repository.init(repository.root)
    git_repository.commit(repository.root)
    environments = repository.root / "environments"
    (environments / "old").rename(environments / "new")
    lines = repository.run("render").stdout.splitlines()
    assert lines[-1] == "1 job was outdated before: see `trainwright list jobs`."


def test_check_of_a_fresh_tree_says_nothing_is_wrong(repository: Repository) -> None:
    repository.run("render")
    done = repository.run("render", "--check")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("cache", [True, False])
def test_drift_is_named_file_by_file(repository: Repository, cache: bool) -> None:
    repository.run("render")
    rendered = repository.root / "environments" / "prod" / "rendered"
    edited = rendered / "llm" / "pytorchjob.yaml"
    edited.write_text(edited.read_text().replace("replicas: 1", "replicas: 9"))
    (rendered / "mnist" / "values.yaml").unlink()
    (rendered / "left" / "over.yaml").parent.mkdir()
    (rendered / "left" / "over.yaml").write_text("kind: Secret\n")
    repository.job("dev/mnist", "nodeSelector: {a: b}\n")
    options = () if cache else ("--no-cache",)
    done = repository.run("render", "--check", *options)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "environments/dev/rendered/mnist/pytorchjob.yaml: out of date",
        "environments/dev/rendered/mnist/run.lock: out of date",
        "environments/dev/rendered/mnist/values.yaml: out of date",
        "environments/prod/rendered/left/over.yaml: no longer rendered",
        "environments/prod/rendered/llm/pytorchjob.yaml: edited by hand",
        "environments/prod/rendered/mnist/values.yaml: missing",
    ]
    assert repository.run("render", *options).exit_code == 0
    assert repository.run("render", "--check").exit_code == 0
    assert not (rendered / "left").exists()


def test_a_deleted_spec_takes_its_files_along(repository: Repository) -> None:
    repository.run("render")
    (repository.root / "environments/prod/jobs/llm.yaml").unlink()
    assert repository.run("render", "--check").exit_code == 1
    repository.run("render")
    assert not [path for path in repository.tree() if "llm" in path]
    assert "llm" not in repository.tree()["prod/rendered/kustomization.yaml"]


def test_rendering_one_job_leaves_the_others_alone(repository: Repository) -> None:
    repository.run("render")
    before = repository.tree()
    repository.job("prod/llm", "nodeSelector: {a: b}\n")
    repository.job("prod/mnist", "nodeSelector: {a: b}\n")
    done = repository.run("render", "prod/llm")
    assert done.exit_code == 0, done.output
    after = repository.tree()
    changed = {path for path in after if after[path] != before.get(path)}
    assert changed == {
        "prod/rendered/llm/pytorchjob.yaml",
        "prod/rendered/llm/run.lock",
        "prod/rendered/llm/values.yaml",
    }
    assert set(after) == set(before)


def test_a_comment_changes_no_byte(repository: Repository) -> None:
    repository.run("render")
    before = repository.tree()
    path = repository.root / "environments/prod/jobs/llm.yaml"
    lines = path.read_text().splitlines()
    path.write_text("# another comment\n" + "\n".join(reversed(lines)) + "\n")
    assert repository.run("render", "--check").exit_code == 0
    assert repository.tree() == before


def test_errors_write_nothing(repository: Repository) -> None:
    repository.run("render")
    before = repository.tree()
    repository.job("dev/mnist", "retries: 4\n")
    repository.job("prod/llm", "retrys: 4\n")
    done = repository.run("render")
    assert done.exit_code == 1
    assert 'unknown key "retrys"' in done.stderr
    assert 'Did you mean "retries"?' in done.stderr
    assert "Nothing was written" in done.stderr
    assert repository.tree() == before


def test_explain_says_which_file_set_a_value_and_what_it_overrode(repository: Repository) -> None:
    repository.write(
        "defaults.yaml",
        "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\ndefaults: {retries: 1}\n",
    )
    repository.environment("prod", "defaults:\n  retries: 2\n")
    repository.job("prod/llm", "retries: 4\n")
    done = repository.run("explain", "prod/llm", "retries")
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[:3] == [
        "retries: 4 # job: environments/prod/jobs/llm.yaml:10:10",
        "# overrides 2 (environment: environments/prod/environment.yaml:7:12)",
        "# overrides 1 (defaults: environments/defaults.yaml:3:21)",
    ]
    whole = repository.run("explain", "prod/llm").stdout
    assert "image.repository" in whole
    assert "built-in" in whole
    items = json.loads(repository.run("explain", "prod/llm", "-o", "json").stdout)["items"]
    assert {item["path"] for item in items} >= {"name", "retries", "image.tag"}


def test_explain_shows_a_value_that_a_mapping_lies_over(repository: Repository) -> None:
    repository.write("base/jobs/llm.yaml", f"{HEADER}name: llm\nflagStyle: --k v\n")
    repository.job("prod/llm", "extends: base/llm\nflagStyle: {form: k=v}\n")
    shown = repository.run("explain", "prod/llm", "flagStyle").stdout
    assert 'overrides "--k v" (base: environments/base/jobs/llm.yaml:4:12)' in shown


def test_explain_of_what_is_not_there_names_what_comes_near(repository: Repository) -> None:
    done = repository.run("explain", "prod/llm", "image.tga")
    assert done.exit_code == 2
    assert "did you mean image.tag?" in done.stderr
    assert repository.run("explain", "prod/nothing").exit_code == 2


@pytest.mark.parametrize("what", LISTS)
def test_lists(repository: Repository, what: str) -> None:
    repository.write(
        "prod/objects/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    )
    text = repository.run("list", what)
    assert text.exit_code == 0, text.output
    items = json.loads(repository.run("list", what, "-o", "json").stdout)["items"]
    assert len(text.stdout.splitlines()) == len(items) + 1
    assert items


def _listed(repository: Repository, *arguments: str) -> list[dict[str, Any]]:
    result = repository.run("list", *arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    items: list[dict[str, Any]] = json.loads(result.stdout)["items"]
    return items


def test_lists_of_an_environment(repository: Repository) -> None:
    for name in ("lab", "field"):
        repository.environment(name)
        repository.job(f"{name}/a")
        repository.job(f"{name}/b")
        text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: of-{name}}}\n"
        repository.write(f"{name}/objects/a.yaml", text)
    jobs: list[tuple[tuple[str, ...], list[str]]] = [
        (("lab",), ["lab/a", "lab/b"]),
        (("lab/a", "field/b"), ["field/b", "lab/a"]),
        (("lab", "fi*"), ["field/a", "field/b", "lab/a", "lab/b"]),
    ]
    for chosen, names in jobs:
        assert [it["job"] for it in _listed(repository, "jobs", *chosen)] == names
    (only,) = _listed(repository, "own-objects", "field")
    assert only["object"] == "ConfigMap/of-field"
    for arguments, said in (
        (("jobs", "feld"), 'nothing matches "feld"; did you mean field'),
        (("own-objects", "lab/a"), "environments are listed whole"),
        (("rules", "lab"), "`list rules` takes no ENV"),
    ):
        result = repository.run("list", *arguments)
        assert result.exit_code == 2
        assert said in result.stderr


def test_a_list_has_replaced_runs_that_train_on(repository: Repository) -> None:
    path = repository.job("prod/llm", "network: isolated\n")
    assert repository.run("render").exit_code == 0
    (first,) = (it["object"] for it in _listed(repository, "jobs", "prod/llm"))
    assert "REPLACED" not in repository.run("list", "jobs").stdout
    git_repository.commit(git_repository.init(repository.root))
    path.write_text(path.read_text().replace("nodes: 2", "nodes: 3"))
    assert repository.run("render").exit_code == 0
    (now,) = _listed(repository, "jobs", "prod/llm")
    assert now["state"] == "active"
    command = f"kubectl --namespace training delete pytorchjob/{first} networkpolicy/{first}"
    assert now["replaced"] == {"object": first, "command": command}
    assert command in repository.run("list", "jobs").stdout
    # A near miss: an engine that prunes has ended it.
    repository.environment("prod", "gitops: {engine: argocd, prune: immediate}\n")
    assert [it["replaced"] for it in _listed(repository, "jobs", "prod/llm")] == [None]


@pytest.mark.parametrize("output", FORMATS)
def test_every_format_of_a_report(repository: Repository, output: str) -> None:
    repository.job("prod/llm", "nodez: 4\n")
    done = repository.run("check", "-o", output)
    assert done.exit_code == 1, done.output
    assert "nodez" in done.stdout


def test_warnings_fail_only_when_asked_to(repository: Repository) -> None:
    repository.job(
        "prod/llm",
        'waivers: {TW104: {reason: unused, until: "2027-01-01"}}\n',
    )
    assert repository.run("check").exit_code == 0
    assert repository.run("check", "--fail-on", "warning").exit_code == 1


def test_no_environments_is_one_line_and_exit_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trainwright", "check"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("trainwright: no environments/ folder")
    assert len(done.stderr.splitlines()) == 1


def test_a_closed_pipe_is_no_traceback(repository: Repository) -> None:
    done = subprocess.run(
        f"{sys.executable} -m trainwright -C {repository.root} list rules | head -1",
        shell=True, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "Traceback" not in done.stderr


def test_a_bug_is_exit_3_with_a_traceback(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainwright.render.build.build", lambda *_, **__: 1 / 0)
    done = repository.run("check")
    assert done.exit_code == 3
    assert "ZeroDivisionError" in done.stderr
    assert "Please report it" in done.stderr


def test_options_come_from_the_environment_too(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_CHECK_OUTPUT", "json")
    assert json.loads(repository.run("check").stdout)["kind"] == "Report"


def test_completion_knows_the_paths_of_a_job(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.root)

    def completed(job: str, typed: str) -> list[str]:
        shell = ShellComplete(main, {}, "trainwright", "_TRAINWRIGHT_COMPLETE")
        return [item.value for item in shell.get_completions(["explain", job], typed)]

    assert completed("prod/llm", "resources.") == ["resources.cpu", "resources.memory"]
    assert {"image", "nodes"} <= set(completed("prod/llm", ""))
    assert completed("prod/nothing", "") == []


@pytest.mark.parametrize("option", ["-C", "--root"])
def test_completion_is_of_the_folder_that_is_named(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, option: str
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    shell = ShellComplete(main, {}, "trainwright", "_TRAINWRIGHT_COMPLETE")

    def completed(*words: str) -> list[str]:
        found = shell.get_completions([option, str(repository.root), *words[:-1]], words[-1])
        return [item.value for item in found]

    assert completed("render", "pr") == ["prod", "prod/llm", "prod/mnist"]
    assert completed("explain", "prod/llm", "resources.") == ["resources.cpu", "resources.memory"]
    assert [item.value for item in shell.get_completions(["render"], "pr")] == []


def test_the_list_of_jobs_tells_which_are_suspended(repository: Repository) -> None:
    assert repository.run("render").exit_code == 0
    assert repository.run("suspend", "prod/llm").exit_code == 0
    items = json.loads(repository.run("list", "jobs", "-o", "json").stdout)["items"]
    states = {item["job"]: item["state"] for item in items}
    assert (states["prod/llm"], states["prod/mnist"]) == ("suspended", "active")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(repository: Repository, shell: str) -> None:
    script = repository.run("admin", "completion", shell)
    assert "_TRAINWRIGHT_COMPLETE" in script.stdout
    done = subprocess.run(
        [sys.executable, "-m", "trainwright"],
        cwd=repository.root, capture_output=True, text=True, check=False,
        env={**os.environ, "_TRAINWRIGHT_COMPLETE": "bash_complete", "COMP_WORDS": "trainwright render pr", "COMP_CWORD": "2"},
    )  # fmt: skip
    assert done.stdout.split() == ["plain,prod", "plain,prod/llm", "plain,prod/mnist"]


@pytest.mark.parametrize(
    ("color", "colored"), [("always", True), ("auto", False), ("never", False)]
)
def test_colors_are_kept_in_a_pipe_where_they_are_asked_for(
    repository: Repository, color: str, colored: bool
) -> None:
    repository.job("prod/broken", "nodez: 3\n")
    done = subprocess.run(
        [sys.executable, "-m", "trainwright", "--color", color, "check", "prod/broken"],
        cwd=repository.root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "TW010" in done.stdout
    assert ("\x1b[" in done.stdout) is colored


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from trainwright.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'yaml', 'jsonschema', 'jsonschema_rs', 'helm_python', 'rich', 'kubernetes'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("queue: team", "TW020"),
        ("hostNetwork: true", "TW027"),
        ("livenessProbe: {foo: 1}", "TW010"),
        ("hostAliases: [{ip: nas, hostnames: [a]}]", "TW739"),
    ],
)
def test_a_line_that_several_jobs_inherit_is_reported_for_all_of_them(
    repository: Repository, line: str, rule: str
) -> None:
    head = f"{HEADER}name: common\n"
    repository.write("base/jobs/common.yaml", f"{head}{line}\n")
    for job in ("llm", "mnist"):
        repository.job(f"prod/{job}", "extends: base/common\n")
    results = json.loads(repository.run("check", "prod", "-o", "json").stdout)["report"]["results"]
    found = [(one["subject"], one["rule"]) for one in results if "common" in one["place"]["file"]]
    assert found == [("prod/llm", rule), ("prod/mnist", rule)]
    text = repository.run("check", "prod").stdout
    assert text.count(f"error[{rule}]") == 1
    assert "= also in: prod/mnist" in text
