"""Objects of a cluster as the runs of jobs: none begins, changes or ends because of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import settings

from adoption import (
    ENVIRONMENT,
    OBJECTS,
    SPECS,
    adopted_by,
    before,
    is_over,
    job_file,
    live,
    live_as_it_is,
    planned,
    recorded,
    template,
    unlike,
)
from apiserver import ApiServer
from cluster_objects import RUNNING, pod
from credential_examples import SECRETS
from git_repository import commit, git
from repository import Copied, Repository
from trainwright.datatypes.manifest import Manifest
from trainwright.importing.object_as_written import as_written
from trainwright.kinds import SERVED


def everything(root: Path) -> None:
    """All of them, adopted on a branch that is not merged yet."""
    before(root)
    git(root, "switch", "--quiet", "--create", "adopt")
    done = adopted_by(root, *OBJECTS)
    assert done.exit_code == 0, done.output
    assert "16 go on, 8 have finished; 0 begin, 0 end." in done.output
    rendered = Repository(root).run("render")
    assert rendered.exit_code == 0, rendered.output
    commit(root, "Adopt")


@pytest.fixture
def adopted(copied: Copied, tmp_path: Path) -> Repository:
    return copied(everything, tmp_path / "team")


def test_nothing_begins_changes_or_ends(adopted: Repository) -> None:
    goes_on = {b["metadata"]["name"] for b in OBJECTS if not is_over(b)}
    assert planned(adopted, "main") == {f"prod/{name}": "adopted" for name in goes_on}
    for verb in ("check", "render --check", "gitops verify HEAD"):
        done = adopted.run(*verb.split())
        assert done.exit_code == 0, (verb, done.output)
    listed = adopted.run("list", "jobs").output
    assert listed.count(" active ") == 12
    assert listed.count(" suspended ") == 4
    assert listed.count("retired: succeeded") == listed.count("retired: failed") == 4


@pytest.mark.parametrize("output", ["text", "markdown", "html"])
def test_every_format_of_a_plan_has_what_is_adopted(output: str, team: Repository) -> None:
    done = team.run("plan", "--against", "HEAD~1", "-o", output)
    assert done.exit_code == 0, done.output
    words = "</html>" if output == "html" else "the object goes on as it is in the cluster"
    assert words in done.output


def test_what_is_rendered_is_the_object(adopted: Repository) -> None:
    files = adopted.tree()
    for body in OBJECTS:
        name, kind = body["metadata"]["name"], body["kind"].lower()
        path = f"prod/rendered/{name}/{kind}.yaml"
        if is_over(body):
            assert path not in files
            continue
        rendered = yaml.safe_load(files[path])
        assert set(rendered) == {"apiVersion", "kind", "metadata", "spec"}
        assert set(rendered["metadata"]) == {"name", "namespace", "labels"}
        assert unlike(rendered, body) == []
        assert f"{name}/{kind}.yaml" in files["prod/rendered/kustomization.yaml"]
        # By which an ApplicationSet finds the folders of runs.
        assert yaml.safe_load(files[f"prod/rendered/{name}/values.yaml"])["target"] == kind


def test_kueue_alone_resumes_what_waits_in_a_queue(adopted: Repository) -> None:
    files = adopted.tree()
    assert "suspend" not in files["prod/rendered/job-queued/job.yaml"]
    assert "suspend: true" in files["prod/rendered/job-suspended/job.yaml"]
    assert "state: suspended" not in job_file(adopted, "job-queued").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", SPECS)
def test_what_a_controller_has_made_is_not_adopted(kind: str, tmp_path: Path) -> None:
    before(tmp_path / "team")
    body = live(kind, "running")
    body["metadata"]["ownerReferences"] = [{"kind": "CronJob", "name": "all", "controller": True}]
    done = adopted_by(tmp_path / "team", body, live("Job", "waiting"), options=("--dry-run",))
    assert done.exit_code == 0, done.output
    assert (
        f"{kind}/{body['metadata']['name']} belongs to CronJob/all, which makes it" in done.output
    )
    assert "1 go on" in done.output


def edited(change: Callable[[dict[str, Any]], object], kind: str = "Job") -> dict[str, Any]:
    body = live(kind, "running")
    change(body)
    return body


UNKNOWN = {
    "apiVersion": "example.com/v1",
    "kind": "DanceJob",
    "metadata": {"name": "dance", "namespace": "training", "uid": "u"},
    "spec": {"dancers": {"Lead": {"replicas": 1, "template": template("dance")}}},
}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (edited(lambda b: b["metadata"].update(deletionTimestamp="2026-11-21T03:00:00Z")), "is being deleted"),
        (edited(lambda b: b["metadata"].update(namespace="other")), "the namespace is other"),
        (edited(lambda b: b["metadata"].update(name="1-job")), "is not a valid name of a run"),
        (edited(lambda b: b["metadata"].update(annotations={"argocd.argoproj.io/hook": "Sync"})), "is a hook of Argo CD"),
        (edited(lambda b: b["metadata"].update(labels={"app.kubernetes.io/managed-by": "trainwright"})), "is a run of Trainwright already"),
        ({key: value for key, value in edited(lambda b: b.update(metadata={"name": "a"})).items() if key != "status"}, "was not read from a cluster"),
        (UNKNOWN, "DanceJob/dance (example.com) is of a kind that is not read"),
    ],
    ids=["deleted", "namespace", "name", "hook", "ours", "file", "kind"],
)  # fmt: skip
def test_what_cannot_be_adopted_is_refused_by_name(
    body: dict[str, Any], why: str, tmp_path: Path
) -> None:
    root = tmp_path / "team"
    before(root)
    done = adopted_by(root, body)
    assert done.exit_code == 1, done.output
    assert why in done.output
    assert not git(root, "status", "--porcelain")


def test_a_chart_that_the_engine_renders_has_no_place_for_an_object(tmp_path: Path) -> None:
    root = tmp_path / "team"
    before(root)
    file = root / "environments" / "prod" / "environment.yaml"
    file.write_text(ENVIRONMENT.replace("mode: rendered", "mode: chart"), encoding="utf-8")
    done = adopted_by(root, live("Job", "running"))
    assert done.exit_code == 1
    assert "gitops.mode is chart" in done.output


TOKEN = {"name": "HF_TOKEN", "value": "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"}


def with_token(body: dict[str, Any]) -> None:
    body["spec"]["template"]["spec"]["containers"][0]["env"] = [TOKEN]


@pytest.mark.parametrize("state", ["running", "succeeded"])
def test_an_object_with_a_credential_is_not_adopted(state: str, tmp_path: Path) -> None:
    root = tmp_path / "team"
    before(root)
    body = live("Job", state)
    with_token(body)
    done = adopted_by(root, body)
    assert done.exit_code == 1
    assert f"Job/job-{state} is not adopted: HF_TOKEN" in done.output
    assert "[TW710]" in done.output
    assert "trainwright import" in done.output
    assert TOKEN["value"] not in done.output
    assert not (root / "environments/prod/adopted").exists()
    assert not (root / "environments/prod/jobs").exists()


def test_a_credential_of_an_object_does_not_come_into_what_is_rendered(tmp_path: Path) -> None:
    root = tmp_path / "team"
    before(root)
    adopted_by(root, live("Job", "running"))
    file = root / "environments/prod/adopted/job-running.yaml"
    body = yaml.safe_load(file.read_text(encoding="utf-8"))
    with_token(body)
    file.write_text(yaml.safe_dump(body), encoding="utf-8")
    done = Repository(root).run("render")
    assert done.exit_code == 1
    assert "environments/prod/adopted/job-running.yaml" in done.output
    assert TOKEN["value"] not in done.output
    assert not (root / "environments/prod/rendered/job-running").exists()


FORBIDDING = pytest.mark.parametrize(
    ("environment", "rule", "message"),
    [
        ("podSecurity: baseline\n", "TW707", "hostPID"),
        ("podSecurity: privileged\nimages: {requireDigest: true}\n", "TW715", "has no digest"),
        ("podSecurity: privileged\nimages: {registries: [ghcr.io/]}\n", "TW716", "not below ghcr"),
    ],
)


def forbidding(root: Path, environment: str) -> dict[str, Any]:
    """A team's repository with that in its environment, and what runs in it all the same."""
    before(root)
    file = root / "environments/prod/environment.yaml"
    text = file.read_text(encoding="utf-8").replace("podSecurity: privileged\n", "")
    file.write_text(text + environment, encoding="utf-8")
    commit(root)
    return edited(lambda b: b["spec"]["template"]["spec"].update(hostPID=True))


@FORBIDDING
def test_what_an_environment_forbids_of_a_running_object_is_waived_for_its_job(
    environment: str, rule: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2026-12-01")
    root = tmp_path / "team"
    done = adopted_by(root, forbidding(root, environment))
    assert done.exit_code == 0, done.output
    team = Repository(root)
    spec = yaml.safe_load(job_file(team, "job-running").read_text(encoding="utf-8"))
    assert list(spec["waivers"]) == [rule]
    assert spec["waivers"][rule]["until"] == "2027-03-01"
    assert "Job/job-running" in spec["waivers"][rule]["reason"]
    assert re.search(rf"waives {rule} until 2027-03-01: .*{message}", done.output), done.output
    assert planned(team, "HEAD") == {"prod/job-running": "adopted"}
    for verb in ("render", "check"):
        assert rule not in team.run(verb).output, verb
    commit(root, "Adopt")
    assert "TW0" not in team.run("check").output  # the waiver waives something as long as it runs
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2027-03-02")
    late = team.run("check")
    assert late.exit_code == 1
    assert f"error[{rule}]" in late.output
    assert team.run("retire", "prod/job-running", "--outcome", "failed").exit_code == 0
    assert rule not in team.run("check").output


@FORBIDDING
def test_what_no_job_may_waive_is_not_adopted(
    environment: str, rule: str, message: str, tmp_path: Path
) -> None:
    root = tmp_path / "team"
    required = f"{environment}severities: {{{rule}: required}}\n"
    done = adopted_by(root, forbidding(root, required), live("PyTorchJob", "succeeded"))
    assert done.exit_code == 1
    refusal = next(line for line in done.output.splitlines() if "is not adopted" in line)
    assert rule in refusal
    assert message in refusal
    assert "environments/prod/environment.yaml:" in refusal  # who requires it
    assert not (root / "environments/prod/adopted/job-running.yaml").exists()
    assert not job_file(Repository(root), "job-running").exists()
    # What is over is in the ledger, and its object nowhere.
    assert "0 go on, 1 have finished" in done.output
    assert Repository(root).run("render").exit_code == 0


@FORBIDDING
@pytest.mark.parametrize(
    "weighed", ["severities: {RULE: warning}", "waivers: [{rule: RULE, job: job-*, reason: it runs, until: '2999-01-01'}]"]
)  # fmt: skip
def test_what_an_environment_lets_pass_needs_no_waiver(
    weighed: str, environment: str, rule: str, message: str, tmp_path: Path
) -> None:
    root = tmp_path / "team"
    body = forbidding(root, f"{environment}{weighed.replace('RULE', rule)}\n")
    assert adopted_by(root, body).exit_code == 0
    text = job_file(Repository(root), "job-running").read_text(encoding="utf-8")
    assert "waivers" not in text
    assert Repository(root).run("render").exit_code == 0


@pytest.mark.parametrize("kind", ["MPIJob", "StatefulSet"])
def test_what_goes_on_as_it_is_has_its_waivers_too(kind: str, tmp_path: Path) -> None:
    root = tmp_path / "team"
    forbidding(root, "podSecurity: privileged\nimages: {requireDigest: true}\n")
    done = adopted_by(root, live_as_it_is(kind, "running"))
    assert done.exit_code == 0, done.output
    assert "waives TW715 until" in done.output
    assert Repository(root).run("render").exit_code == 0


@FORBIDDING
def test_an_environment_takes_no_object_that_it_forbids(
    environment: str, rule: str, message: str, tmp_path: Path
) -> None:
    root = tmp_path / "team"
    adopted_by(root, forbidding(root, environment))
    spec = root / "environments/prod/jobs/job-running.yaml"
    written = spec.read_text(encoding="utf-8")
    waived = Repository(root).run("render").output
    assert f"error[{rule}]" not in waived
    own = {key: it for key, it in yaml.safe_load(written).items() if key != "waivers"}
    spec.write_text(yaml.safe_dump(own), encoding="utf-8")
    done = Repository(root).run("render")
    assert done.exit_code == 1
    assert f"error[{rule}]" in done.output
    assert "environments/prod/adopted/job-running.yaml:" in done.output
    assert message in done.output


# --- the life of an adopted run ------------------------------------------------------------------


def one_running(root: Path) -> None:
    """A running PyTorchJob, adopted and merged."""
    before(root)
    adopted_by(root, live("PyTorchJob", "running"))
    assert Repository(root).run("render").exit_code == 0
    commit(root, "Adopt")


@pytest.fixture
def team(copied: Copied, tmp_path: Path) -> Repository:
    return copied(one_running, tmp_path / "team")


JOB, OBJECT = "prod/pytorchjob-running", "pytorchjob-running"


def merged(team: Repository) -> dict[str, str]:
    """What the merge of the working tree comes to, and then its commit, which is proved."""
    done = team.run("render")
    assert done.exit_code == 0, done.output
    plan = planned(team, "HEAD")
    commit(team.root)
    proved = team.run("gitops", "verify", "HEAD")
    assert proved.exit_code == 0, proved.output
    return plan


def manifest_of(team: Repository) -> dict[str, Any]:
    text = team.tree().get(f"prod/rendered/{OBJECT}/pytorchjob.yaml", "{}")
    body: dict[str, Any] = yaml.safe_load(text)
    return body


def test_an_edit_of_training_begins_a_run_of_ours(team: Repository) -> None:
    file = job_file(team, OBJECT)
    file.write_text(file.read_text(encoding="utf-8").replace("train.py", "other.py"), "utf-8")
    assert merged(team) == {JOB: "new run"}
    name = manifest_of(team)["metadata"]["name"]
    assert name != OBJECT
    git(team.root, "revert", "--no-edit", "HEAD")
    assert manifest_of(team)["metadata"]["name"] == OBJECT
    assert team.run("gitops", "verify", "HEAD").exit_code == 0
    assert team.run("render", "--check").exit_code == 0


def test_an_adopted_run_is_suspended_and_resumed_alone(team: Repository) -> None:
    was = manifest_of(team)
    team.run("suspend", JOB)
    assert merged(team) == {JOB: "suspends"}
    assert manifest_of(team)["spec"].pop("runPolicy") == {"suspend": True}
    team.run("resume", JOB)
    assert merged(team) == {JOB: "resumes"}
    now = manifest_of(team)
    assert now["spec"].pop("runPolicy") == {"suspend": False}
    assert now == was


def test_an_adopted_run_is_retired_and_runs_again_under_a_name_of_ours(team: Repository) -> None:
    assert team.run("retire", JOB, "--outcome", "succeeded").exit_code == 0
    assert merged(team) == {JOB: "retires"}
    assert manifest_of(team) == {}
    done = team.run("rerun", JOB)
    assert done.exit_code == 0, done.output
    assert merged(team) == {JOB: "starts"}
    assert manifest_of(team)["metadata"]["name"].startswith(f"{OBJECT}-")


def test_what_has_finished_runs_again_though_nothing_is_rendered_of_it_yet(tmp_path: Path) -> None:
    root = tmp_path / "team"
    before(root)
    adopted_by(root, live("Job", "failed"))
    team = Repository(root)
    done = team.run("rerun", "prod/job-failed", "--no-render")
    assert done.exit_code == 0, done.output
    assert team.run("render").exit_code == 0
    body = yaml.safe_load(team.tree()["prod/rendered/job-failed/job.yaml"])
    assert body["metadata"]["name"].startswith("job-failed-")


@pytest.mark.parametrize(
    ("reason", "kept"),
    [("BackoffLimitExceeded", True), (SECRETS["github-classic"][1], False)],
    ids=["harmless", "a credential"],
)
def test_why_it_failed_is_in_the_ledger_without_credentials(
    reason: str, kept: bool, tmp_path: Path
) -> None:
    root = tmp_path / "team"
    before(root)
    body = live("Job", "failed")
    body["status"]["conditions"][0]["reason"] = reason
    assert adopted_by(root, body).exit_code == 0
    ledger = (root / "environments/prod/ledger.yaml").read_text(encoding="utf-8")
    assert "outcome: failed" in ledger
    assert (reason in ledger) is kept


@pytest.mark.parametrize("rendered", [False, True])
def test_an_edit_of_what_has_finished_begins_a_run(rendered: bool, tmp_path: Path) -> None:
    """Also where nothing is rendered of what was adopted."""
    root = tmp_path / "team"
    before(root)
    adopted_by(root, live("Job", "failed"))
    team = Repository(root)
    if rendered:
        assert team.run("render").exit_code == 0
    commit(root, "Adopt it")
    file = job_file(team, "job-failed")
    text = file.read_text(encoding="utf-8")
    file.write_text(f"{text}# Why it failed is in the wiki.\n", encoding="utf-8")
    assert planned(team, "HEAD") == {}
    file.write_text(text.replace("train.py", "other.py"), encoding="utf-8")
    assert planned(team, "HEAD") == {"prod/job-failed": "starts"}
    assert team.run("render").exit_code == 0
    body = yaml.safe_load(team.tree()["prod/rendered/job-failed/job.yaml"])
    assert body["metadata"]["name"].startswith("job-failed-")


def test_what_is_not_committed_is_not_run_again(tmp_path: Path) -> None:
    root = tmp_path / "team"
    before(root)
    team = Repository(root)
    assert team.run("render").exit_code == 0
    commit(root, "Keep what is rendered in git")
    adopted_by(root, live("PyTorchJob", "running"))
    assert team.run("render").exit_code == 0
    done = team.run("rerun", JOB)
    assert f"has not adopted {OBJECT} yet" in done.output
    again = adopted_by(root, live("PyTorchJob", "running"))
    assert again.exit_code == 1
    assert "is there already: name the job otherwise by --name" in again.output


def test_an_adopted_run_is_cancelled_once_it_is_suspended(team: Repository) -> None:
    assert "would go on" in team.run("cancel", JOB).output
    team.run("suspend", JOB)
    merged(team)
    assert team.run("cancel", JOB).exit_code == 0
    assert merged(team) == {JOB: "cancelled"}


def moved(team: Repository) -> None:
    """The environment's later runs are in another namespace."""
    environment = team.root / "environments/prod/environment.yaml"
    replaced(environment, "namespace: training", "namespace: research")


def test_an_adopted_run_stays_where_it_is_when_its_environment_moves(team: Repository) -> None:
    was = manifest_of(team)
    moved(team)
    assert merged(team) == {JOB: "outdated"}
    assert manifest_of(team) == was
    for verb, plan in (("suspend", "suspends"), ("resume", "resumes")):
        assert team.run(verb, JOB).exit_code == 0
        assert merged(team) == {JOB: plan}
        assert manifest_of(team)["metadata"]["namespace"] == "training"
    assert team.run("retire", JOB, "--outcome", "succeeded").exit_code == 0
    assert merged(team) == {JOB: "retires"}
    assert team.run("rerun", JOB).exit_code == 0
    assert merged(team) == {JOB: "starts"}
    assert manifest_of(team)["metadata"]["namespace"] == "research"


def test_a_run_that_replaced_an_adopted_one_stays_when_its_environment_moves(
    team: Repository,
) -> None:
    replaced(job_file(team, OBJECT), "train.py", "other.py")
    assert merged(team) == {JOB: "new run"}
    was = manifest_of(team)
    moved(team)
    assert merged(team) == {JOB: "outdated"}
    assert manifest_of(team) == was


def test_what_has_finished_stays_in_the_ledger_when_its_environment_moves(tmp_path: Path) -> None:
    root = tmp_path / "team"
    before(root)
    adopted_by(root, live("Job", "succeeded"))
    team = Repository(root)
    moved(team)
    assert team.run("render").exit_code == 0
    assert "retired: succeeded" in team.run("list", "jobs").output


def test_no_object_of_another_namespace_is_adopted_by_an_edit_of_the_environment(
    tmp_path: Path,
) -> None:
    """Until it is rendered, nothing has recorded where the object is."""
    root = tmp_path / "team"
    before(root)
    adopted_by(root, live("PyTorchJob", "running"))
    team = Repository(root)
    moved(team)
    done = team.run("render")
    assert done.exit_code == 1
    assert f"environments/prod/adopted/{OBJECT}.yaml:" in done.output
    assert "the namespace is training, that of prod research" in done.output


@pytest.mark.parametrize("ended", [False, True])
def test_an_engine_that_renders_the_chart_has_no_place_for_an_adopted_run(
    ended: bool, team: Repository
) -> None:
    """It would apply its own object of that name: the run is over, or the mode stays."""
    if ended:
        assert team.run("retire", JOB, "--outcome", "succeeded").exit_code == 0
        merged(team)
    environment = team.root / "environments/prod/environment.yaml"
    chart = "chart: {oci: 'oci://registry.example.com/charts/training-job', version: 0.1.0}"
    replaced(environment, "mode: rendered", f"mode: chart, {chart}")
    done = team.run("check")
    assert done.exit_code == (0 if ended else 1), done.output
    assert ("gitops.mode is chart" in done.output) is not ended


def test_a_lost_folder_is_the_object_again(team: Repository) -> None:
    was = team.tree()
    for path in was:
        (team.root / "environments" / path).unlink()
    assert team.run("render").exit_code == 0
    assert team.tree() == was


SEQUENCES = settings.default.max_examples // 15  # 66 each night
STEPS = 6
VERBS = {
    "suspend": ("suspends",),
    "resume": ("resumes",),
    "cancel": ("cancelled",),
    "retire": ("retires",),
    "rerun": ("new run", "starts"),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_an_object_is_what_it_was_until_its_job_begins_another(
    seed: int, copied: Copied, tmp_path: Path
) -> None:
    """Random sequences of edits, verbs and reverts, each planned, merged and proved."""
    chance, team = Random(seed), copied(one_running, tmp_path / str(seed))
    was, log = manifest_of(team)["spec"], list[str]()
    for _ in range(STEPS):
        act = chance.choice([*VERBS, "edit", "revert"])
        log.append(act)
        before, plan = manifest_of(team).get("metadata"), _acted(team, act, len(log))
        assert set(plan) <= {JOB}, log
        now = manifest_of(team)
        if now.get("metadata", {}).get("name") == OBJECT:
            assert {key: now["spec"][key] for key in was} == was, log
            assert before is None or before["name"] == OBJECT or act == "revert", log
        if plan and act in VERBS:
            assert plan[JOB] in VERBS[act], log


def _acted(team: Repository, act: str, number: int) -> dict[str, str]:
    """One act, merged: what the plan says of it."""
    if act == "revert":
        if git(team.root, "rev-list", "--count", "HEAD") == "2":
            return {}  # the adoption itself stays
        git(team.root, "revert", "--no-commit", "HEAD")
    elif act == "edit":
        file = job_file(team, OBJECT)
        text = re.sub(r"script: \S+?}", f"script: train{number}.py}}", file.read_text("utf-8"))
        file.write_text(text, encoding="utf-8")
    else:
        outcome = ("--outcome", "failed") if act == "retire" else ()
        if team.run(act, JOB, *outcome).exit_code:
            assert not git(team.root, "status", "--porcelain")
            return {}
    return merged(team)


def test_an_adopted_run_is_published(tmp_path: Path) -> None:
    """From a branch of specs to one of rendered files, which is proved from the former."""
    root = tmp_path / "team"
    before(root)
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "remote.git")
    git(root, "remote", "add", "origin", str(tmp_path / "remote.git"))
    adopted_by(root, live("PyTorchJob", "running"), live("Job", "succeeded"))
    commit(root, "Adopt")
    git(root, "push", "--quiet", "origin", "main")
    published = Repository(root).run("gitops", "publish", "prod", "--branch", "deploy")
    assert published.exit_code == 0, published.output
    branch = git(root, "for-each-ref", "--format=%(refname)", "refs/heads/*")
    assert "deploy" in branch
    there = git(root, "ls-tree", "-r", "--name-only", "deploy")
    assert f"{OBJECT}/pytorchjob.yaml" in there
    assert "job-succeeded/job.yaml" not in there
    assert Repository(root).run("gitops", "verify", "deploy").exit_code == 0


# --- what is believed ----------------------------------------------------------------------------


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_nothing_is_smuggled_under_rendered_files(team: Repository) -> None:
    rendered = team.root / "environments/prod/rendered" / OBJECT / "pytorchjob.yaml"
    replaced(rendered, "registry.example.com/a:1", "evil.example.com/a:1")
    commit(team.root)
    done = team.run("gitops", "verify", "HEAD", "--against", "HEAD~1")
    assert done.exit_code == 1
    assert "pytorchjob.yaml" in done.output


def test_a_run_that_is_recorded_takes_nothing_more_from_its_adopted_file(team: Repository) -> None:
    was = manifest_of(team)
    file = team.root / "environments/prod/adopted" / f"{OBJECT}.yaml"
    replaced(file, "registry.example.com/a:1", "evil.example.com/a:1")
    assert merged(team) == {}
    assert manifest_of(team) == was


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("kind: PyTorchJob", "kind: Secret", "is not a training workload"),
        ("namespace: training", "namespace: kube-system", "the namespace is kube-system"),
        ("apiVersion: kubeflow.org/v1\n", "---\na: 1\n---\n", "exactly one object"),
        (
            "kind: PyTorchJob",
            "kind: PyTorchJob\nitems: [{kind: ClusterRoleBinding}]",
            "for the list of its items",
        ),
        ("metadata:", "metadata: {", "TW001"),
    ],
)
def test_an_adopted_file_is_one_object_of_the_environment(
    old: str, new: str, why: str, tmp_path: Path
) -> None:
    root = tmp_path / "team"
    before(root)
    adopted_by(root, live("PyTorchJob", "running"))
    replaced(root / "environments/prod/adopted" / f"{OBJECT}.yaml", old, new)
    done = Repository(root).run("render")
    assert done.exit_code == 1
    assert why in done.output


def test_the_state_of_an_object_is_that_of_its_job(tmp_path: Path) -> None:
    root = tmp_path / "team"
    before(root)
    adopted_by(root, live("PyTorchJob", "running"))
    repository = Repository(root)
    replaced(job_file(repository, OBJECT), "launcher:", "state: suspended\nlauncher:")
    done = repository.run("render")
    assert done.exit_code == 1
    assert "state is suspended, and the adopted object is not suspended" in done.output


# --- engines and clusters ------------------------------------------------------------------------


MARKED = {
    "argocd": ("annotations", {"argocd.argoproj.io/tracking-id": "old:kubeflow.org/PyTorchJob:training/a"}),
    "flux": ("labels", {"kustomize.toolkit.fluxcd.io/name": "old", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}),
    "helm": ("annotations", {"meta.helm.sh/release-name": "old", "meta.helm.sh/release-namespace": "training"}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("argocd", ["app set old --sync-policy none", "argocd.argoproj.io/sync-options=Prune=false,Delete=false", "Merge what", "Take their manifests", "app delete old --cascade=false"]),
        ("flux", ["flux suspend kustomization old --namespace flux-system", "kustomize.toolkit.fluxcd.io/prune=disabled", "Merge what", "Take their manifests", "flux resume kustomization old"]),
        ("helm", ["helm.sh/resource-policy=keep", "Merge what", "release old"]),
    ],
)  # fmt: skip
def test_objects_are_kept_before_their_source_lets_go(
    engine: str, expected: list[str], tmp_path: Path
) -> None:
    root = tmp_path / "team"
    before(root)
    body = live("PyTorchJob", "running")
    field, marks = MARKED[engine]
    body["metadata"][field] = marks
    done = adopted_by(root, body)
    assert done.exit_code == 0, done.output
    places = [done.output.index(words) for words in expected]
    assert places == sorted(places)
    rendered = root / "environments/prod/adopted/pytorchjob-running.yaml"
    assert not any(mark in rendered.read_text(encoding="utf-8") for mark in marks)


def test_what_is_kept_already_is_not_annotated_again(tmp_path: Path) -> None:
    root = tmp_path / "team"
    before(root)
    body = live("PyTorchJob", "running")
    kept = "argocd.argoproj.io/sync-options"
    body["metadata"]["annotations"] = {**MARKED["argocd"][1], kept: "Prune=false,Delete=false"}
    done = adopted_by(root, body)
    assert "annotate" not in done.output
    text = (root / "environments/prod/adopted/pytorchjob-running.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["metadata"]["annotations"] == {kept: "Prune=false,Delete=false"}


@pytest.fixture
def api() -> Iterator[ApiServer]:
    server = ApiServer()
    yield server
    server.close()


def test_status_finds_an_object_that_has_none_of_our_labels(
    team: Repository, api: ApiServer, tmp_path: Path
) -> None:
    body = api.put(live("PyTorchJob", "running"))
    worker = pod(body, f"{OBJECT}-master-0", **RUNNING)
    worker["metadata"]["labels"] = {
        "training.kubeflow.org/job-name": OBJECT,
        "training.kubeflow.org/replica-type": "master",
        "training.kubeflow.org/replica-index": "0",
    }
    api.put(worker)
    config = api.kubeconfig(tmp_path / "kubeconfig")
    done = team.run("status", "prod", "-o", "json", "--kubeconfig", str(config))
    (item,) = json.loads(done.stdout)["items"]
    assert (item["job"], item["object"], item["cluster"]) == (JOB, OBJECT, "running")
    assert len(item["pods"]) == 1


def test_applied_again_a_real_object_stays_as_it_is(shared: Callable[[str], Path]) -> None:
    for name, applied, body in recorded(shared("observed/controllers")):
        kind = SERVED[Manifest(body=body).group_kind]
        written = as_written(body, kind)
        assert unlike(written, body) == [], name
        assert set(written["spec"]) >= set(applied["spec"]) - {"suspend"}, name


def test_an_object_that_deletes_itself_is_named_as_long_as_it_runs(tmp_path: Path) -> None:
    """An engine makes it again, and it trains again: nothing did that before it was adopted."""
    root = tmp_path / "team"
    before(root)
    body = live("PyTorchJob", "running")
    body["spec"]["runPolicy"] = {"ttlSecondsAfterFinished": 86400}
    team = Repository(root)
    adopting = adopted_by(root, body)
    assert adopting.exit_code == 0, adopting.output
    said = [adopting.output, team.run("check").output]
    said.append(team.run("plan", "--against", "HEAD").output)
    assert team.run("render").exit_code == 0
    commit(root, "Adopt")
    said.append(team.run("check").output)
    for output in said:
        assert "TW502" in output
        assert "deletes itself 86400 seconds after it is finished" in output
    assert "adopted/pytorchjob-running.yaml" in said[-1]
    assert "trainwright retire" in said[-1]
    rendered = yaml.safe_load(
        (root / "environments/prod/rendered/pytorchjob-running/pytorchjob.yaml").read_text("utf-8")
    )
    assert rendered["spec"]["runPolicy"] == {"ttlSecondsAfterFinished": 86400}
    assert team.run("retire", "prod/pytorchjob-running", "--outcome", "succeeded").exit_code == 0
    assert "TW502" not in team.run("check").output
