"""A run keeps its name and its bytes until a line of the job's own file asks for another."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from repository import Copied, Repository

POOLS = """\
pools:
  h100:
    resource: nvidia.com/gpu
    nodeSelector: {pool: h100}
    tolerations: [{key: sku, operator: Equal, value: gpu, effect: NoSchedule}]
"""
BASE = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: BASE
flags: {lr: 0.1, epochs: 3}
"""
EXTENDING = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
extends: base/llm
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
resources: {cpu: "8", memory: 64Gi, gpu: 1}
pool: h100
nodes: 2
maxDuration: 2h
"""


@pytest.fixture
def repository(tmp_path: Path, copied: Copied) -> Repository:
    """prod/llm, which extends a base and has a pool, rendered."""
    return copied(_begin, tmp_path)


def _begin(folder: Path) -> None:
    made = Repository(folder)
    made.environment("prod", POOLS)
    made.write("base/jobs/llm.yaml", BASE.replace("BASE", "llm"))
    made.write("prod/jobs/llm.yaml", EXTENDING)
    rendered(made)


def rendered(repository: Repository, *arguments: str) -> dict[str, str]:
    result = repository.run("render", *arguments)
    assert result.exit_code == 0, result.output
    return repository.tree()


def runs(tree: Mapping[str, str]) -> dict[str, str]:
    """The rendered files, without the records."""
    return {path: text for path, text in tree.items() if not path.endswith("run.lock")}


def record(repository: Repository, job: str = "prod/llm") -> dict[str, object]:
    environment, _, name = job.partition("/")
    path = f"{environment}/rendered/{name}/run.lock"
    found: dict[str, object] = json.loads(repository.tree()[path])
    return found


def edit(repository: Repository, path: str, old: str, new: str) -> None:
    full = repository.root / "environments" / path
    text = full.read_text(encoding="utf-8")
    assert old in text
    full.write_text(text.replace(old, new), encoding="utf-8")


SHARED = {
    "the version of an operator": ("prod/environment.yaml", 'version: "1.9"', 'version: "1.10"'),
    "a remedy of our own": ("prod/environment.yaml", "Container: true", "Container: false"),
    "pod security": ("prod/environment.yaml", "namespace:", "podSecurity: baseline\nnamespace:"),
    "a service mesh": ("prod/environment.yaml", "namespace:", "serviceMesh: istio\nnamespace:"),
    "another namespace": ("prod/environment.yaml", "namespace: training", "namespace: other"),
    "a toleration of a pool": ("prod/environment.yaml", "[{key: sku", "[{key: a}, {key: sku"),
    "a selector of a pool": ("prod/environment.yaml", "{pool: h100}", "{pool: b200}"),
    "a GitOps engine": (
        "prod/environment.yaml",
        "namespace:",
        "gitops: {engine: flux}\nnamespace:",
    ),
    "a default": ("prod/environment.yaml", "pools:", "defaults: {gracePeriod: 5m}\npools:"),
    "a lowered default": ("prod/environment.yaml", "pools:", "defaults: {maxDuration: 1h}\npools:"),
    "a base": ("base/jobs/llm.yaml", "epochs: 3", "epochs: 5"),
    "a value less in a base": ("base/jobs/llm.yaml", ", epochs: 3", ""),
    "a run number in a base": ("base/jobs/llm.yaml", "flags:", "run: 7\nflags:"),
}


@pytest.mark.parametrize("shared", SHARED)
def test_no_edit_of_a_shared_file_changes_a_run(repository: Repository, shared: str) -> None:
    before = repository.tree()
    edit(repository, *SHARED[shared])
    assert repository.run("render", "--check").exit_code == 0
    assert rendered(repository) == before


@pytest.mark.parametrize("shared", SHARED)
def test_no_edit_of_a_shared_file_revives_a_finished_run(
    repository: Repository, shared: str
) -> None:
    assert repository.run("retire", "prod/llm", "--outcome", "succeeded").exit_code == 0
    before = repository.tree()
    assert "prod/rendered/llm/pytorchjob.yaml" not in before
    edit(repository, *SHARED[shared])
    assert rendered(repository) == before
    assert "retired: succeeded" in repository.run("list", "jobs").output


@pytest.mark.parametrize("shared", SHARED)
def test_no_edit_of_a_shared_file_revives_a_cancelled_run(
    repository: Repository, shared: str
) -> None:
    assert repository.run("cancel", "prod/llm", "--orphan").exit_code == 0
    before = repository.tree()
    assert "prod/rendered/llm/pytorchjob.yaml" not in before
    edit(repository, *SHARED[shared])
    assert rendered(repository) == before


def test_cancelled_by_the_environment_stays_cancelled(repository: Repository) -> None:
    """Taking a shared line back must not train every job of an environment again."""
    before = repository.tree()
    edit(repository, "prod/environment.yaml", "pools:", "defaults: {state: cancelled}\npools:")
    assert "prod/rendered/llm/pytorchjob.yaml" not in rendered(repository)
    edit(repository, "prod/environment.yaml", "defaults: {state: cancelled}\n", "")
    assert "prod/rendered/llm/pytorchjob.yaml" not in rendered(repository)
    edit(repository, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 2\nrun: 2")
    after = rendered(repository)
    assert after["prod/rendered/llm/pytorchjob.yaml"] != before["prod/rendered/llm/pytorchjob.yaml"]


def test_an_environment_is_suspended_and_resumed_as_a_whole(repository: Repository) -> None:
    before = repository.tree()
    edit(repository, "prod/environment.yaml", "pools:", "defaults: {state: suspended}\npools:")
    suspended = rendered(repository)["prod/rendered/llm/pytorchjob.yaml"]
    manifest = before["prod/rendered/llm/pytorchjob.yaml"]
    assert suspended == manifest.replace("suspend: false", "suspend: true")
    edit(repository, "prod/environment.yaml", "defaults: {state: suspended}\n", "")
    assert rendered(repository) == before


OWN = {
    "a flag": ("nodes: 2", "nodes: 2\nflags: {epochs: 9}"),
    "fewer nodes": ("nodes: 2", "nodes: 1"),
    "a run number": ("nodes: 2", "nodes: 2\nrun: 2"),
    "another base": ("extends: base/llm\n", ""),
    "a removed value": ("nodes: 2", "nodes: 2\nflags: {epochs: null}"),
}


@pytest.mark.parametrize("own", OWN)
def test_a_line_of_the_jobs_own_file_starts_a_run(repository: Repository, own: str) -> None:
    before = record(repository)["object"]
    edit(repository, "prod/jobs/llm.yaml", *OWN[own])
    assert repository.run("render", "--check").exit_code == 1
    rendered(repository)
    assert record(repository)["object"] != before


SAME = {
    "a comment": ("nodes: 2", "# two machines\nnodes: 2"),
    "a default that is spelled out": ("nodes: 2", "nodes: 2\nbackend: auto"),
    "an inherited value that is spelled out": ("nodes: 2", "nodes: 2\nflags: {lr: 0.1}"),
    "a number as text": ("nodes: 2", 'nodes: 2\nflags: {epochs: "3"}'),
    "another spelling of an amount": ('cpu: "8"', "cpu: 8000m"),
    "another spelling of a time": ("maxDuration: 2h", "maxDuration: 120m"),
    "another order": ("nodes: 2\nmaxDuration: 2h", "maxDuration: 2h\nnodes: 2"),
    "a description": ("nodes: 2", "description: what it is for\nnodes: 2"),
}


@pytest.mark.parametrize("same", SAME)
def test_what_means_the_same_is_the_same_run(repository: Repository, same: str) -> None:
    before = runs(repository.tree())
    edit(repository, "prod/jobs/llm.yaml", *SAME[same])
    assert runs(rendered(repository)) == before
    assert repository.run("render", "--check").exit_code == 0
    edit(repository, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    assert runs(rendered(repository)) == before


@pytest.mark.parametrize("state", ["active", "cancelled"])
@pytest.mark.parametrize("same", ["a comment", "another order", "a description"])
def test_what_no_record_has_leaves_nothing_to_render(
    same: str, state: str, repository: Repository
) -> None:
    edit(repository, "prod/jobs/llm.yaml", "pool: h100", f"pool: h100\nstate: {state}")
    before = rendered(repository)
    edit(repository, "prod/jobs/llm.yaml", *SAME[same])
    assert repository.run("render", "--check").exit_code == 0
    assert rendered(repository) == before


def test_a_value_that_moves_to_a_base_stays_what_it_is(repository: Repository) -> None:
    before = runs(repository.tree())
    edit(repository, "prod/jobs/llm.yaml", "nodes: 2\n", "")
    edit(repository, "base/jobs/llm.yaml", "flags:", "nodes: 2\nflags:")
    assert runs(rendered(repository)) == before
    # From now on it is the base's: a change of it holds.
    edit(repository, "base/jobs/llm.yaml", "nodes: 2", "nodes: 4")
    assert runs(rendered(repository)) == before
    assert "nodes (environments/base/jobs/llm.yaml" in repository.run("list", "jobs").output


def test_a_run_goes_on_though_another_has_finished_with_what_its_file_says_now(
    repository: Repository,
) -> None:
    assert repository.run("retire", "prod/llm").exit_code == 0
    edit(repository, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 2\nflags: {epochs: 5}")
    before = runs(rendered(repository))
    assert "prod/rendered/llm/pytorchjob.yaml" in before
    edit(repository, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    edit(repository, "prod/jobs/llm.yaml", "\nflags: {epochs: 5}", "")
    for _ in range(2):  # the second finds what the first has recorded
        assert runs(rendered(repository)) == before


def test_a_base_under_another_name_starts_nothing(repository: Repository) -> None:
    before = runs(repository.tree())
    edit(repository, "prod/environment.yaml", "pools:", "defaults: {gracePeriod: 5m}\npools:")
    repository.write("base/jobs/language.yaml", BASE.replace("BASE", "language"))
    (repository.root / "environments/base/jobs/llm.yaml").unlink()
    edit(repository, "prod/jobs/llm.yaml", "extends: base/llm", "extends: base/language")
    assert runs(rendered(repository)) == before
    edit(repository, "base/jobs/language.yaml", "epochs: 3", "epochs: 5")
    assert runs(rendered(repository)) == before


def test_rerun_takes_up_what_changed_around_a_run(repository: Repository) -> None:
    edit(repository, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    listed = repository.run("list", "jobs").output
    assert "flags.epochs (environments/base/jobs/llm.yaml:4" in listed
    assert repository.run("rerun", "prod/llm").exit_code == 0
    assert "--epochs=5" in repository.tree()["prod/rendered/llm/pytorchjob.yaml"]
    assert "flags.epochs" not in repository.run("list", "jobs").output


def test_a_playground_starts_runs_for_shared_changes(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.environment("dev", f"{POOLS}sharedChanges: start\n")
    repository.write("base/jobs/llm.yaml", BASE.replace("BASE", "llm"))
    repository.write("dev/jobs/llm.yaml", EXTENDING)
    rendered(repository)
    before = record(repository, "dev/llm")["object"]
    edit(repository, "dev/environment.yaml", "namespace:", "gitops: {prune: immediate}\nnamespace:")
    rendered(repository)
    assert record(repository, "dev/llm")["object"] == before
    edit(repository, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    rendered(repository)
    assert record(repository, "dev/llm")["object"] != before


def test_a_waiver_for_what_is_not_checked_is_not_without_effect(tmp_path: Path) -> None:
    """Neither of a run that is only suspended, nor of one that has finished."""
    repository = Repository(tmp_path)
    repository.environment("prod", "podSecurity: privileged\n")
    repository.job(
        "prod/llm",
        "volumes: {data: {hostPath: {path: /data}, mountPath: /data}}\n"
        'waivers: {TW717: {reason: scratch space, until: "2999-12-31"}}\n',
    )
    rendered(repository)
    edit(repository, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 2\nstate: suspended")
    suspended = repository.run("render")
    assert "3 changed" in suspended.output
    assert repository.run("retire", "prod/llm", "--outcome", "succeeded").exit_code == 0
    for output in (suspended.output, repository.run("check", "prod/llm").output):
        assert "TW031" not in output


# --- records that are missing --------------------------------------------------------------------


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", *arguments],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def commit(repository: Repository, message: str) -> None:
    git(repository.root, "add", "-A")
    git(repository.root, "commit", "-qm", message)


@pytest.fixture
def committed(repository: Repository) -> Repository:
    git(repository.root, "init", "-q")
    commit(repository, "A run")
    return repository


def remove_rendered(repository: Repository, path: str = "") -> None:
    import shutil

    shutil.rmtree(repository.root / "environments/prod/rendered" / path)


@pytest.mark.parametrize("path", ["", "llm"])
@pytest.mark.parametrize("since", ["on disk", "in a commit", "long ago"])
def test_a_deleted_rendering_comes_back_from_git(
    committed: Repository, since: str, path: str
) -> None:
    before = committed.tree()
    remove_rendered(committed, path)
    if since != "on disk":
        commit(committed, "Delete it")
    edit(committed, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    if since == "long ago":
        commit(committed, "Train longer")
    assert rendered(committed) == before


@pytest.mark.parametrize("path", ["", "other"])
def test_a_job_rendered_alone_ends_no_other_whose_rendering_is_lost(
    committed: Repository, path: str
) -> None:
    committed.job("prod/other")
    before = rendered(committed)
    commit(committed, "Another job")
    remove_rendered(committed, path)
    commit(committed, "Delete it")
    assert rendered(committed, "prod/llm") == before


def test_a_run_does_not_move_with_its_folder(repository: Repository) -> None:
    folder = repository.root / "environments/prod"
    (folder / "rendered/llm").rename(folder / "rendered/chat")
    (folder / "jobs/llm.yaml").rename(folder / "jobs/chat.yaml")
    edit(repository, "prod/jobs/chat.yaml", "name: llm", "name: chat")
    rendered(repository)
    assert str(record(repository, "prod/chat")["object"]).startswith("chat-")
    assert repository.run("retire", "prod/chat", "--outcome", "succeeded").exit_code == 0
    assert repository.run("render", "--check").exit_code == 0


def test_a_job_that_comes_back_is_a_new_one(committed: Repository) -> None:
    """Its file was deleted with its run: adding it again asks for training."""
    text = (committed.root / "environments/prod/jobs/llm.yaml").read_text(encoding="utf-8")
    committed.job("prod/other")
    (committed.root / "environments/prod/jobs/llm.yaml").unlink()
    rendered(committed)
    commit(committed, "Delete the job")
    edit(committed, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    committed.write("prod/jobs/llm.yaml", text)
    assert "--epochs=5" in rendered(committed)["prod/rendered/llm/pytorchjob.yaml"]


def test_in_a_shallow_clone_a_missing_rendering_is_asked_for(
    committed: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    remove_rendered(committed)
    commit(committed, "Delete it")
    edit(committed, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    commit(committed, "Train longer")
    folder = tmp_path_factory.mktemp("clone")
    git(folder, "clone", "-q", "--depth=1", f"file://{committed.root}", ".")
    clone = Repository(folder)
    refused = clone.run("render")
    assert refused.exit_code == 1
    assert "TW054" in refused.output
    assert not clone.tree()
    assert rendered(clone, "--new-runs")


def test_a_record_that_cannot_be_read_begins_nothing(repository: Repository) -> None:
    path = repository.root / "environments/prod/rendered/llm/run.lock"
    path.write_text("<<<<<<< ours\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    before = repository.tree()
    refused = repository.run("render")
    assert refused.exit_code == 1
    assert "TW054" in refused.output
    assert repository.tree() == before


def test_an_edited_rendering_is_put_right(committed: Repository) -> None:
    before = committed.tree()
    edit(committed, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    edit(committed, "prod/rendered/llm/pytorchjob.yaml", "--epochs=3", "--epochs=4")
    assert "edited by hand" in committed.run("render", "--check").output
    assert rendered(committed) == before


# --- two jobs ------------------------------------------------------------------------------------


def test_two_jobs_that_make_one_object_are_errors_at_both_lines(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.environment("prod")
    claim = "volumes: {{{}: {{create: {{size: 1Gi}}, mountPath: /data}}}}\n"
    repository.job("prod/a", claim.format("b-c"))
    repository.job("prod/a-b", claim.format("c"))
    for verb in ("check", "render"):
        refused = repository.run(verb)
        assert refused.exit_code == 1
        assert refused.output.count("error[TW053]: PersistentVolumeClaim/a-b-c") == 2
        assert "prod/jobs/a.yaml:10" in refused.output
        assert "prod/jobs/a-b.yaml:10" in refused.output


# --- where runs are published --------------------------------------------------------------------


def test_a_published_run_is_retired_where_it_is_not_rendered(repository: Repository) -> None:
    """The specs' branch has no records: what of the job's own file ran tells which run it is."""
    remove_rendered(repository)
    git(repository.root, "init", "-q", "-b", "main")
    commit(repository, "Specs alone")
    publish = ("gitops", "publish", "prod", "--branch", "rendered", "--path", ".")
    assert repository.run(*publish).exit_code == 0
    edit(repository, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    commit(repository, "Train longer")
    kept = repository.run(*publish)
    assert "up to date" in kept.output
    retired = repository.run("retire", "prod/llm", "--outcome", "succeeded", "--no-render")
    assert retired.exit_code == 0, retired.output
    commit(repository, "It is done")
    assert repository.run(*publish).exit_code == 0
    files = git(repository.root, "ls-tree", "-r", "--name-only", "rendered").split()
    assert "llm/run.lock" in files
    assert "llm/pytorchjob.yaml" not in files


def test_jobs_are_listed_with_what_their_runs_are_behind(repository: Repository) -> None:
    edit(repository, "base/jobs/llm.yaml", "epochs: 3}", "epochs: 5, hub_token: hunter2-hunter2}")
    edit(repository, "prod/environment.yaml", "{pool: h100}", "{pool: b200}")
    done = repository.run("list", "jobs", "-o", "json")
    (item,) = json.loads(done.stdout)["items"]
    assert [(one["path"], one["before"], one["after"]) for one in item["outdated"]] == [
        ("flags.epochs", 3, 5),
        ("flags.hub_token", None, "***"),
        ("pools.h100.nodeSelector.pool", "h100", "b200"),
    ]
    places = [(one["place"]["file"], one["place"]["line"]) for one in item["outdated"]]
    assert places[0] == ("environments/base/jobs/llm.yaml", 4)
    assert places[2][0] == "environments/prod/environment.yaml"
    assert "hunter2" not in done.stdout + repository.run("list").stdout


def test_a_job_that_went_with_its_record_is_new_when_it_comes_again(
    committed: Repository,
) -> None:
    """Though an earlier commit had taken its record alone."""
    remove_rendered(committed)
    commit(committed, "Delete what is rendered")
    rendered(committed)
    commit(committed, "Render")
    text = (committed.root / "environments/prod/jobs/llm.yaml").read_text(encoding="utf-8")
    before = record(committed)["object"]
    (committed.root / "environments/prod/jobs/llm.yaml").unlink()
    remove_rendered(committed)
    commit(committed, "No llm")
    edit(committed, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    committed.write("prod/jobs/llm.yaml", text)
    commit(committed, "llm again")
    rendered(committed)
    assert record(committed)["object"] != before


def test_a_merge_does_not_hide_who_deleted_a_record(committed: Repository) -> None:
    git(committed.root, "branch", "side")
    before = committed.tree()
    remove_rendered(committed)
    commit(committed, "Delete what is rendered")
    edit(committed, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    commit(committed, "Train longer")
    git(committed.root, "checkout", "-q", "side")
    (committed.root / "NOTES.md").write_text("", encoding="utf-8")
    commit(committed, "Notes")
    git(committed.root, "checkout", "-q", "-")
    git(committed.root, "merge", "-q", "--no-edit", "side")
    assert rendered(committed) == before


def test_a_plan_counts_the_runs_that_a_shared_edit_begins_in_a_playground(
    committed: Repository,
) -> None:
    edit(committed, "prod/environment.yaml", "namespace:", "sharedChanges: start\nnamespace:")
    committed.job("prod/other", "extends: base/llm\n")
    rendered(committed)
    commit(committed, "A playground")
    edit(committed, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    assert committed.run("plan", "--against", "HEAD").output.startswith(
        "Starts 2 runs beside old ones"
    )
