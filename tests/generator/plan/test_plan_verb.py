"""What a merge will do, held against real branches of real repositories."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import git_repository
from git_repository import git
from repository import Copied, Repository
from trainwright.datatypes.finding import Finding, Location, Severity, ValueChange
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.validation import schema
from trainwright.plan import markdown, training
from trainwright.plan.model import (
    Action,
    EnvironmentPlan,
    JobChange,
    Plan,
    PlannedRun,
    SharedFileImpact,
)
from trainwright.reports.comment import LIMIT, cell
from trainwright.reports.style import Style
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import Demand, Range

POOLS = """\
pools:
  h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 16, pricePerGpuHour: 2.5}
  cpu: {}
queueing: kueue
queues: {team: {quota: 8}, other: {}}
budget: {gpuHours: 100}
"""
GPUS = "pool: h100\nqueue: team\nresources: {gpu: 4}\n"


def _clone(folder: Path) -> None:
    repository = Repository(git_repository.init(folder))
    repository.environment("prod", POOLS)
    repository.job("prod/llm")
    repository.job("prod/idle", "state: suspended\n")
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root, "Begin")
    git(repository.root, "checkout", "--quiet", "-b", "change")


@pytest.fixture
def cloned(copied: Copied, tmp_path: Path) -> Repository:
    """A repository with one job that runs on main, and a branch to change it on."""
    return copied(_clone, tmp_path / "clone")


def plan(repository: Repository, *arguments: str, code: int = 0) -> dict:
    result = repository.run("plan", "--against", "main", "-o", "json", *arguments)
    assert result.exit_code == code, result.output
    data = json.loads(result.stdout)
    validator = jsonschema.Draft202012Validator(
        json.loads((schema.FOLDER / "plan.schema.json").read_text())
    )
    assert [error.message for error in validator.iter_errors(data)] == []
    return data["plan"]


def changed(repository: Repository, job: str = "prod/llm", code: int = 0) -> dict:
    """The one change that a plan finds."""
    found = plan(repository, code=code)["changes"]
    assert [change["job"] for change in found] == [job]
    return found[0]


def edit(repository: Repository, path: str, old: str, new: str) -> None:
    full = repository.root / "environments" / path
    text = full.read_text()
    assert old in text
    full.write_text(text.replace(old, new))


def job(old: str, new: str) -> Callable[[Repository], None]:
    return lambda repository: edit(repository, "prod/jobs/llm.yaml", old, new)


def add(line: str) -> Callable[[Repository], None]:
    return job("maxDuration: 2h\n", f"maxDuration: 2h\n{line}\n")


@pytest.mark.parametrize(
    ("change", "action", "why", "path", "line"),
    [
        (
            job("nodes: 2", "nodes: 3"),
            "new run",
            " keeps training beside it until `kubectl --namespace training delete pytorchjob/llm-",
            "nodes",
            8,
        ),
        (job('tag: "1.0"', 'tag: "1.1"'), "new run", "starts from scratch", "image.tag", 5),
        (
            job("maxDuration: 2h", "maxDuration: 3h"),
            "in place",
            "activeDeadlineSeconds",
            "maxDuration",
            9,
        ),
        (job("maxDuration: 2h\n", ""), "in place", "activeDeadlineSeconds", "maxDuration", 9),
        (add("state: suspended"), "suspends", "are deleted, the object stays", "state", 10),
        (
            add("state: cancelled"),
            "left running",
            "stays in the cluster until `kubectl --namespace training delete pytorchjob/llm-",
            "state",
            10,
        ),
        (add("nodez: 3"), "broken", "it has 1 error", "", 1),
        (add("run: 2"), "new run", "starts from scratch", "run", 10),
    ],
)
def test_an_edit_of_a_job(
    cloned: Repository,
    change: Callable[[Repository], None],
    action: str,
    why: str,
    path: str,
    line: int,
) -> None:
    change(cloned)
    found = changed(cloned, code=1 if action == "broken" else 0)
    assert found["action"] == action
    assert why in found["why"]
    (cause,) = found["causes"]
    assert cause["path"] == path
    place = {"file": "environments/prod/jobs/llm.yaml", "line": line}
    assert {key: cause["place"][key] for key in place} == place


def test_comments_and_the_order_of_keys_change_nothing(cloned: Repository) -> None:
    path = cloned.root / "environments/prod/jobs/llm.yaml"
    path.write_text("# Another comment.\n" + "\n".join(reversed(path.read_text().splitlines())))
    found = plan(cloned)
    assert found["changes"] == []
    assert found["verdict"] == "Nothing changes for any job"


def test_what_a_job_waives_is_named(cloned: Repository) -> None:
    """Whoever writes a spec can accept what the platform forbids: reviewers have to see it."""
    waiver = 'waivers: {TW709: {reason: quick test, until: "2099-01-01"}}\n'
    latest = cloned.job("prod/new", waiver)
    latest.write_text(latest.read_text().replace('tag: "1.0"', "tag: latest"))
    change = changed(cloned, "prod/new")
    assert [(it["rule"], it["reason"], it["until"]) for it in change["waivers"]] == [
        ("TW709", "quick test", "2099-01-01")
    ]
    assert " · adds 1 waiver" in plan(cloned)["verdict"]
    said = "waiver TW709 mutable-image-tag: quick test, until 2099-01-01"
    for output in ("text", "markdown"):
        done = cloned.run("plan", "--against", "main", "-o", output)
        assert (cell(said) if output == "markdown" else said) in done.stdout, output
    # A near miss: nothing is waived that is in order anyway.
    latest.write_text(latest.read_text().replace("tag: latest", 'tag: "1.0"'))
    assert changed(cloned, "prod/new")["waivers"] == []


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [("", "2099-01-01", True), ("2098-01-01", "2099-01-01", True), ("2099-01-01", "", False)],
    ids=["new", "longer", "gone"],
)
def test_a_waiver_that_a_merge_adds_to_a_job_counts(
    before: str, after: str, says: bool, cloned: Repository
) -> None:
    """Although the run of the job stays as it is."""

    def waived(until: str) -> str:
        return f'waivers: {{TW720: {{reason: later, until: "{until}"}}}}\n' if until else ""

    cloned.job("prod/llm", waived(before))
    assert cloned.run("render").exit_code == 0
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    cloned.job("prod/llm", waived(after))
    assert ("adds 1 waiver" in plan(cloned)["verdict"].lower()) is says


def test_a_new_job_and_one_that_is_gone(cloned: Repository) -> None:
    cloned.job("prod/second", GPUS.replace("resources: {gpu: 4}\n", ""))
    edit(cloned, "prod/jobs/second.yaml", "train.py", "evaluate.py")
    (cloned.root / "environments/prod/jobs/llm.yaml").unlink()
    gone, new = plan(cloned)["changes"]
    assert (gone["job"], gone["action"]) == ("prod/llm", "left running")
    assert "its spec is gone" in gone["why"]
    assert gone["after"] is None
    assert (new["job"], new["action"], new["before"]) == ("prod/second", "starts", None)
    assert new["why"] == "when queue team admits it"


NEVER = "never admitted: needs 16 GPUs, the queue team has 8: 8 too few, unless its cohort lends"


def _large(repository: Repository, name: str, extra: str = "") -> None:
    """A job of 16 GPUs in a queue of 8."""
    repository.job(f"prod/{name}", f"pool: h100\nqueue: team\n{extra}")
    edit(repository, f"prod/jobs/{name}.yaml", "memory: 1Gi}", "memory: 1Gi, gpu: 8}")


def test_a_new_job_that_its_queue_never_admits(cloned: Repository) -> None:
    _large(cloned, "big")
    assert changed(cloned, "prod/big")["why"] == NEVER
    shown = cloned.run("plan", "--against", "main").stdout
    assert shown.startswith("1 job is never admitted (16 of 8 GPUs) · +")
    assert f"\nprod/big  {NEVER}\n" in shown
    comment = cloned.run("plan", "--against", "main", "-o", "markdown").stdout
    assert "| ⛔ prod/big | **never admitted**: needs 16 GPUs" in comment
    assert "starts" not in comment
    # Where the cohort lends the rest, and the waiver says so, it waits like any other.
    waiver = "waivers: {TW626: {reason: its cohort lends, until: '2099-01-01'}}\n"
    _large(cloned, "big", waiver)
    assert changed(cloned, "prod/big")["why"] == "when queue team admits it"


def test_a_new_run_that_its_queue_never_admits(cloned: Repository) -> None:
    _large(cloned, "big")
    assert cloned.run("render").exit_code == 0
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    edit(cloned, "prod/jobs/big.yaml", 'tag: "1.0"', 'tag: "1.1"')
    again = changed(cloned, "prod/big")
    assert again["action"] == "new run"
    assert again["why"].endswith(f"; {NEVER}")
    shown = cloned.run("plan", "--against", "main").stdout
    assert shown.startswith("1 job is never admitted (16 of 8 GPUs) · +")
    assert "prod/big  new run: " in shown


def test_an_edit_that_the_api_server_refuses_waits_for_the_next_run(cloned: Repository) -> None:
    targets = 'targets: {pytorchjob: {version: "1.9", restrictedInitContainer: true}'
    edit(cloned, "prod/environment.yaml", targets, f'{targets}, trainjob: {{version: "2.2"}}')
    edit(cloned, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 2\ntarget: trainjob")
    assert cloned.run("render").exit_code == 0
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    job("maxDuration: 2h", "maxDuration: 3h")(cloned)
    found = changed(cloned)
    assert found["action"] == "outdated"
    assert found["why"] == (
        "maxDuration waits for the next run: the API server refuses it: the field is immutable "
        "(/spec/activeDeadlineSeconds); `trainwright rerun` applies it"
    )
    assert [cause["path"] for cause in found["causes"]] == ["maxDuration"]


@pytest.mark.parametrize(
    ("state", "action"), [("suspended", "resumes"), ("active", "suspends")], ids=str
)
def test_what_waits_is_said_of_a_run_whose_state_changes_too(
    state: str, action: str, cloned: Repository
) -> None:
    targets = 'targets: {pytorchjob: {version: "1.9", restrictedInitContainer: true}'
    edit(cloned, "prod/environment.yaml", targets, f'{targets}, trainjob: {{version: "2.2"}}')
    edit(cloned, "prod/jobs/llm.yaml", "nodes: 2", f"nodes: 2\ntarget: trainjob\nstate: {state}")
    assert cloned.run("render").exit_code == 0
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    job("maxDuration: 2h", "maxDuration: 3h")(cloned)
    job(f"state: {state}", f"state: {'suspended' if state == 'active' else 'active'}")(cloned)
    path = cloned.root / "environments/prod/environment.yaml"
    path.write_text(f"{path.read_text()}defaults: {{env: {{LEVEL: debug}}}}\n")
    found = {it["job"]: it for it in plan(cloned)["changes"]}["prod/llm"]
    assert found["action"] == action
    assert found["why"].endswith(
        "; maxDuration waits for the next run: the API server refuses it: the field is immutable "
        "(/spec/activeDeadlineSeconds); env.LEVEL waits for the next run"
    )
    assert cloned.run("render").exit_code == 0
    applied = {it["job"]: it for it in plan(cloned)["changes"]}["prod/llm"]
    assert applied["why"] == found["why"]


def test_another_queue_is_taken_only_while_the_run_waits(cloned: Repository) -> None:
    """Which git does not have: the first line calls it a risk, and no update."""
    _running(cloned, "", metadata="queue: team\n")
    edit(cloned, "prod/jobs/llm.yaml", "queue: team", "queue: other")
    found = changed(cloned)
    assert found["action"] == "may be refused"
    assert "Kueue's webhook refuses another queue while the job runs" in found["why"]
    assert found["why"].endswith(
        "; the sums count it as accepted, and where it is refused, each sync fails until it is reverted"
    )
    first, *_ = cloned.run("plan", "--against", "main").stdout.splitlines()
    assert first.startswith("May fail to sync 1 job")


def test_without_confirmation_a_running_object_goes_at_once(cloned: Repository) -> None:
    _running(cloned, "gitops: {prune: immediate}\n")
    job("state: active", "state: cancelled")(cloned)
    assert "the next sync that prunes deletes the object" in changed(cloned)["why"]


def test_a_run_leaves_as_it_was_applied(cloned: Repository) -> None:
    """Where engines prune, what the object says counts, which keeps what it began with."""
    cloned.environment("prod", POOLS + "gitops: {prune: immediate}\n")
    add("state: cancelled")(cloned)
    review = plan(cloned)
    found = {change["job"]: change for change in review["changes"]}
    assert {job: change["action"] for job, change in found.items()} == {"prod/llm": "left running"}
    (setting,) = review["wiring"]["settings"]
    assert (setting["environment"], setting["cause"]["path"]) == ("prod", "gitops.prune")
    assert (
        "stays in the cluster until `kubectl --namespace training delete pytorchjob/llm-"
        in found["prod/llm"]["why"]
    )


@pytest.mark.parametrize("now", ["argocd", "flux"])
@pytest.mark.parametrize("then", ["argocd", "flux", "none"])
def test_a_run_leaves_by_the_wiring_that_is_applied(
    then: str, now: str, cloned: Repository
) -> None:
    """That of before the merge, until somebody applies another: what pruned by it still does."""
    _running(cloned, f"gitops: {{engine: {then}, prune: immediate}}\n")
    cloned.environment("prod", POOLS + f"gitops: {{engine: {now}}}\n")
    job("state: active", "state: cancelled")(cloned)
    found = {change["job"]: change for change in plan(cloned)["changes"]}["prod/llm"]
    assert found["action"] == ("left running" if then == "none" else "cancelled")
    stays = "stays in the cluster until `kubectl --namespace training delete pytorchjob/llm-"
    assert (stays in found["why"]) is (then == "none")
    text = cloned.run("plan", "--against", "main").stdout
    assert "to keep that, merge this setting first, by itself, and apply wiring/" in text


FLUX = "gitops: {engine: flux}\n"


def _running(
    repository: Repository, gitops: str, state: str = "active", metadata: str = ""
) -> None:
    """A run of 8 GPUs on main."""
    repository.environment("prod", POOLS + gitops)
    path = repository.job("prod/llm", f"pool: h100\nstate: {state}\n{metadata}")
    path.write_text(path.read_text().replace('{cpu: "1", memory: 1Gi}', "{gpu: 4}"))
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root)
    git(repository.root, "branch", "--force", "main", "HEAD")


BESIDE = """\
network: isolated
files: {/etc/app/a.conf: {content: hello}}
volumes: {ckpt: {mountPath: /ckpt, create: {size: 10Gi, accessModes: [ReadWriteMany]}}}
"""


def test_the_command_that_ends_a_run_names_all_of_its_objects(cloned: Repository) -> None:
    """But not the claim, which is the job's, and has what the run has saved."""
    _running(cloned, "", metadata=BESIDE)
    (record,) = (cloned.root / "environments/prod/rendered").glob("llm/run.lock")
    objects = [each.split("/")[-2:] for each in json.loads(record.read_text())["objects"]]
    kinds = {kind for kind, _ in objects}
    assert {"NetworkPolicy", "ConfigMap", "PersistentVolumeClaim"} <= kinds
    old = json.loads(record.read_text())["object"]
    names = {f"{kind.lower()}/{name}" for kind, name in objects if old in name}
    assert len(names) == len(objects) - 1
    path = cloned.root / "environments/prod/jobs/llm.yaml"
    spec = path.read_text()
    cancelled = spec.replace("state: active", "state: cancelled")
    for edited in (spec.replace("nodes: 2", "nodes: 3"), cancelled, ""):
        path.write_text(edited) if edited else path.unlink()
        found = changed(cloned)
        start = f"`kubectl --namespace training delete pytorchjob/{old} "
        command = next(it for it in re.findall("`[^`]+`", found["why"]) if it.startswith(start))
        assert set(command.strip("`").split()[4:]) == names
        if found["ending"]:
            assert f"`{found['ending']['command']}`" == command


def _gone(repository: Repository) -> None:
    (repository.root / "environments/prod/jobs/llm.yaml").unlink()


@pytest.mark.parametrize(
    ("change", "action", "gpus"),
    [
        (job("state: active", "state: cancelled"), "left running", 0),
        (_gone, "left running", 0),
        (job("nodes: 2", "nodes: 1"), "new run", 4),
        (job("state: active", "state: suspended"), "suspends", -8),
    ],
    ids=["cancelled", "removed", "edited", "suspended"],
)
def test_what_flux_leaves_running_is_not_credited(
    change: Callable[[Repository], None], action: str, gpus: int, cloned: Repository
) -> None:
    """Flux cannot ask: what has left git goes on until it is deleted by hand."""
    _running(cloned, FLUX)
    change(cloned)
    found = plan(cloned)
    (only,) = found["changes"]
    assert only["action"] == action
    assert only["requests"]["gpus"] == {"low": gpus, "high": gpus}
    if action == "new run":
        assert (
            "keeps training (8 GPUs) beside it until `kubectl --namespace training delete"
            in only["why"]
        )
    elif action == "left running":
        assert "stays in the cluster" in only["why"]
    (environment,) = found["environments"]
    assert environment["before"]["gpus"] == {"low": 8, "high": 8}
    assert environment["after"]["gpus"] == {"low": 8 + gpus, "high": 8 + gpus}
    needs = {fit["what"]: fit["need"] for fit in environment["capacity"]}
    assert needs.get("pool h100", 0) == 8 + gpus


@pytest.mark.parametrize("line", ["nodez: 3", "queue: team\nstate: suspended"])
def test_what_cannot_be_rendered_is_not_credited(line: str, cloned: Repository) -> None:
    """Its run stays as it is: what lies in rendered/ does not change."""
    _running(cloned, "")
    job("state: active", line)(cloned)
    found = plan(cloned, code=1)
    (only,) = found["changes"]
    assert only["action"] == "broken"
    assert only["requests"]["gpus"] == {"low": 0, "high": 0}
    assert found["environments"][0]["after"]["gpus"] == {"low": 8, "high": 8}


@pytest.mark.parametrize(
    "change", [lambda _: None, job("nodes: 2", "nodes: 3")], ids=["as it runs", "edited"]
)
def test_what_the_environment_breaks_is_counted_once(
    change: Callable[[Repository], None], cloned: Repository
) -> None:
    """Its run goes on as it is, and nothing of what is written now is added to it."""
    add("podPatch: {spec: {hostUsers: false}}")(cloned)
    edit(cloned, "prod/jobs/llm.yaml", "maxDuration: 2h", GPUS.rstrip() + "\nmaxDuration: 2h")
    edit(cloned, "prod/jobs/llm.yaml", 'resources: {cpu: "1", memory: 1Gi}\n', "")
    cloned.environment("prod", f"{POOLS}allow: [podPatch]\n")
    assert cloned.run("render").exit_code == 0
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    edit(cloned, "prod/environment.yaml", "allow: [podPatch]", "allow: []")
    change(cloned)
    found = plan(cloned, code=1)
    assert [one["action"] for one in found["changes"]] == ["broken"]
    (environment,) = found["environments"]
    for side in ("before", "after"):
        assert environment[side]["gpus"] == {"low": 8, "high": 8}
    assert {fit["what"]: fit["need"] for fit in environment["capacity"]} == {
        "pool h100": 8,
        "queue team": 8,
        "budget": 16,
    }


def test_the_line_of_the_environment_that_breaks_a_job_is_named(cloned: Repository) -> None:
    _running(cloned, "", metadata="queue: other\n")
    edit(cloned, "prod/environment.yaml", ", other: {}", "")
    found = changed(cloned, code=1)
    assert found["action"] == "broken"
    (cause,) = found["causes"]
    assert cause["path"] == "queues.other"
    assert cause["place"]["file"] == "environments/prod/environment.yaml"


def test_a_pool_that_becomes_too_small_is_told_at_its_line(cloned: Repository) -> None:
    """Nothing of the job changes, and the run that it has already goes on."""
    _running(cloned, "")
    edit(cloned, "prod/environment.yaml", "capacity: 16", "capacity: 4")
    found = plan(cloned)
    assert found["changes"] == []
    (finding,) = (it for it in found["findings"] if it["rule"] == "TW023")
    assert finding["severity"] == "warning"
    assert finding["place"] == {
        "file": "environments/prod/environment.yaml", "line": 7, "column": 62,
    }  # fmt: skip
    assert finding["message"].startswith("the next run of prod/llm needs 8 GPUs")
    assert " goes on as it is" in finding["effect"]
    assert found["verdict"] == "No job changes · prod pool h100 lacks 4 GPUs"


def test_a_new_job_with_errors_has_no_run_that_stays(cloned: Repository) -> None:
    cloned.job("prod/second", "nodez: 3")
    assert changed(cloned, "prod/second", code=1)["why"] == "it has 1 error; nothing is rendered"


def test_two_environments_in_different_clusters_have_objects_of_their_own(
    cloned: Repository,
) -> None:
    _running(cloned, "gitops: {destination: {name: west}}\n")
    folder = cloned.root / "environments"
    (folder / "prod").rename(folder / "live")
    edit(cloned, "live/environment.yaml", "name: west", "name: east")
    assert cloned.run("render").exit_code == 0
    changes = {change["job"]: change for change in plan(cloned)["changes"]}
    assert "kubectl --namespace training delete" in changes["prod/llm"]["why"]
    assert changes["live/llm"]["why"] == "at once"


def test_a_finished_run_saves_nothing(cloned: Repository) -> None:
    """It no longer counts among what is active, but its hours are spent."""
    _running(cloned, "")
    assert cloned.run("retire", "prod/llm").exit_code == 0
    found = plan(cloned)
    (only,) = found["changes"]
    assert only["action"] == "retires"
    assert {key: only["requests"][key]["low"] for key in ("gpus", "gpuHours", "cost")} == {
        "gpus": 0, "gpuHours": 0, "cost": 0,
    }  # fmt: skip
    assert found["verdict"] == "Retires 1 job"
    (environment,) = found["environments"]
    assert (environment["before"]["gpus"]["low"], environment["after"]["gpus"]["low"]) == (8, 0)
    text = cloned.run("plan", "--against", "main").output
    assert "requests" not in text
    assert "if its pods still run, its 8 GPUs are held until it is deleted" in text
    assert "THIS CHANGE" not in text


@pytest.mark.parametrize(
    ("gitops", "metadata", "command"),
    [
        ("{engine: flux}", "", "kubectl --namespace training delete pytorchjob/llm-"),
        ("{engine: none}", "", "kubectl --namespace training delete pytorchjob/llm-"),
        (
            "{engine: flux, mode: chart, namespace: gitops, chart: {path: chart}}",
            "",
            "kubectl --namespace gitops delete helmrelease/training-prod-llm-",
        ),
        (
            "{engine: argocd, prune: immediate, applications: job}",
            "annotations: {argocd.argoproj.io/sync-options: Prune=confirm}\n",
            "argocd app confirm-deletion training-prod-llm",
        ),
    ],
    ids=["kept", "no engine", "kept by its release", "confirmed"],
)
@pytest.mark.parametrize(
    "change",
    [job("state: active", "state: cancelled"), job("nodes: 2", "nodes: 1")],
    ids=["cancelled", "replaced"],
)
def test_the_command_that_ends_what_stays_is_there(
    gitops: str,
    metadata: str,
    command: str,
    change: Callable[[Repository], None],
    cloned: Repository,
) -> None:
    _running(cloned, f"gitops: {gitops}\n", metadata=metadata)
    change(cloned)
    (found,) = plan(cloned)["changes"]
    assert f"`{command}" in found["why"]
    comment = cloned.run("plan", "--against", "main", "-o", "markdown").stdout
    assert command in comment.replace("\\", "")


@pytest.mark.parametrize("engine", ["argocd", "flux"])
def test_what_is_deleted_is_credited(engine: str, cloned: Repository) -> None:
    _running(cloned, f"gitops: {{engine: {engine}, prune: immediate}}\n")
    job("state: active", "state: cancelled")(cloned)
    found = changed(cloned)
    assert found["action"] == "cancelled"
    assert found["requests"]["gpus"] == {"low": -8, "high": -8}


def test_what_was_suspended_before_costs_nothing_where_it_is_left(cloned: Repository) -> None:
    _running(cloned, FLUX, "suspended")
    job("state: suspended", "state: cancelled")(cloned)
    found = changed(cloned)
    assert found["action"] == "cancelled"
    assert found["requests"]["gpus"] == {"low": 0, "high": 0}


def test_a_finished_run_that_is_retired(cloned: Repository) -> None:
    add("pool: h100")(cloned)
    edit(cloned, "prod/jobs/llm.yaml", 'resources: {cpu: "1", memory: 1Gi}', "resources: {gpu: 8}")
    assert cloned.run("render").exit_code == 0
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    assert cloned.run("retire", "prod/llm", "--outcome", "succeeded").exit_code == 0
    found = plan(cloned)
    (change,) = found["changes"]
    assert (change["job"], change["action"]) == ("prod/llm", "retires")
    assert found["environments"][0]["before"]["gpus"] == {"low": 16, "high": 16}
    assert found["environments"][0]["after"]["gpus"] == {"low": 0, "high": 0}
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    quiet = plan(cloned)
    assert quiet["changes"] == []
    assert quiet["environments"][0]["after"]["gpus"] == {"low": 0, "high": 0}


def test_resuming(cloned: Repository) -> None:
    edit(cloned, "prod/jobs/idle.yaml", "state: suspended\n", "")
    assert changed(cloned, "prod/idle")["action"] == "resumes"


@pytest.mark.parametrize(("setting", "action"), [("", "outdated"), ("start", "new run")])
def test_an_edit_of_what_is_shared_names_its_line_and_reach(
    setting: str, action: str, cloned: Repository
) -> None:
    """It starts no run, but where the environment asks for that."""
    if setting:
        edit(cloned, "prod/environment.yaml", "pools:\n", f"sharedChanges: {setting}\npools:\n")
        assert cloned.run("render").exit_code == 0
        git_repository.commit(cloned.root)
        git(cloned.root, "branch", "--force", "main", "HEAD")
    cloned.environment("staging")
    cloned.job("staging/llm")
    cloned.write("defaults.yaml", DEFAULTS)
    found = plan(cloned)
    actions = {change["job"]: change["action"] for change in found["changes"]}
    assert actions == {"prod/llm": action, "prod/idle": action, "staging/llm": "starts"}
    changes = [change for change in found["changes"] if change["action"] == action]
    assert [change["causes"][0] for change in changes] == 2 * [
        {
            "path": "shm",
            "note": "",
            "before": '"auto"',
            "after": '"8Gi"',
            "earlier": False,
            "place": {"file": "environments/defaults.yaml", "line": 3, "column": 17},
        }
    ]
    (shared, _) = found["sharedFiles"]
    assert shared["file"] == "environments/defaults.yaml"
    assert (shared["newRuns"], shared["outdated"]) == ((0, 2) if action == "outdated" else (2, 0))
    assert len(shared["jobs"]) == 3
    assert [cause["path"] for cause in shared["causes"]] == ["shm"] * (action == "outdated")
    text = cloned.run("plan", "--against", "main").output
    message = (
        "outdates 2 runs: "
        if action == "outdated"
        else "is read by 3 jobs of this plan, and begins 2 new runs"
    )
    assert message in text


DEFAULTS = """\
apiVersion: trainwright.io/v1alpha1
kind: Defaults
defaults: {shm: 8Gi}
"""


def test_a_fact_of_the_environment_is_a_cause(cloned: Repository) -> None:
    edit(cloned, "prod/environment.yaml", "namespace: training", "namespace: other")
    causes = [change["causes"] for change in plan(cloned)["changes"]]
    assert [cause["path"] for found in causes for cause in found] == ["namespace"] * 2


def test_what_it_asks_for_and_whether_that_fits(cloned: Repository) -> None:
    cloned.job("prod/big", GPUS.replace("gpu: 4", "gpu: 8"))
    edit(cloned, "prod/jobs/big.yaml", 'resources: {cpu: "1", memory: 1Gi}\n', "")
    edit(cloned, "prod/jobs/big.yaml", "maxDuration: 2h", "maxDuration: 2h\nretries: 2")
    found = plan(cloned)
    (environment,) = found["environments"]
    hours = 2 * 8 * 2  # a PyTorchJob has one deadline for all of its attempts
    assert environment["requests"]["gpuHours"] == {"low": hours, "high": hours}
    assert environment["requests"]["cost"] == {"low": hours * 2.5, "high": hours * 2.5}
    assert environment["requests"] == found["changes"][0]["requests"]
    fits = {fit["what"]: fit for fit in environment["capacity"]}
    assert (fits["pool h100"]["need"], fits["pool h100"]["short"]) == (16, 0)
    assert (fits["queue team"]["need"], fits["queue team"]["short"]) == (16, 8)
    assert fits["budget"]["short"] == 0
    assert "prod queue team lacks 8 GPUs" in found["verdict"]


def test_limits_that_a_merge_lowers_although_no_job_changes(cloned: Repository) -> None:
    cloned.job("prod/big", GPUS)
    edit(cloned, "prod/jobs/big.yaml", 'resources: {cpu: "1", memory: 1Gi}\n', "")
    cloned.run("render")
    git_repository.commit(cloned.root, "One that asks for GPUs")
    git(cloned.root, "branch", "--force", "main")
    edit(cloned, "prod/environment.yaml", "capacity: 16", "capacity: 8")
    edit(cloned, "prod/environment.yaml", "quota: 8", "quota: 2")
    edit(cloned, "prod/environment.yaml", "gpuHours: 100", "gpuHours: 5")
    edit(cloned, "prod/environment.yaml", "2.5}", "5}")
    cloned.run("render")
    found = plan(cloned)
    assert found["changes"] == []
    assert found["verdict"] == "No job changes · +$40 at the new price · 2 limits exceeded"
    (environment,) = found["environments"]
    cost = [environment[side]["cost"]["low"] for side in ("before", "after")]
    assert cost == [8 * 2 * 2.5, 8 * 2 * 5]
    assert {
        fit["what"]: (fit["hasBefore"], fit["has"], fit["shortBefore"], fit["short"])
        for fit in environment["capacity"]
    } == {"pool h100": (16, 8, 0, 0), "queue team": (8, 2, 0, 6), "budget": (100, 5, 0, 11)}
    text = cloned.run("plan", "--against", "main").output
    assert "8 of 2 GPUs (8 before): 6 too few" in text
    assert "16 of 5 (100 before): 11 over" in text
    assert "$40 → $80" in text
    # A price alone exceeds nothing, and is shown.
    git(cloned.root, "checkout", "--quiet", ".")
    edit(cloned, "prod/environment.yaml", "2.5}", "5}")
    text = cloned.run("plan", "--against", "main").output
    assert text.startswith("No job changes · +$40 at the new price\n")
    assert "$40 → $80" in text


def test_a_first_quota_that_is_too_small_is_in_the_table(cloned: Repository) -> None:
    _running(cloned, "", metadata="queue: other\n")
    edit(cloned, "prod/environment.yaml", "other: {}", "other: {quota: 4}")
    text = cloned.run("plan", "--against", "main").stdout
    assert text.startswith("No job changes · prod queue other lacks 4 GPUs\n")
    assert re.search(r"\nprod +queue other +8 of 4 GPUs: 4 too few", text)


def test_a_new_price_counts_for_what_a_merge_changes_and_not_before(cloned: Repository) -> None:
    small = 'resources: {cpu: "1", memory: 1Gi}\n'
    for job in ("big", "other"):
        cloned.job(f"prod/{job}", GPUS)
        edit(cloned, f"prod/jobs/{job}.yaml", small, "")
    cloned.run("render")
    git_repository.commit(cloned.root, "Two that ask for GPUs")
    git(cloned.root, "branch", "--force", "main")
    edit(cloned, "prod/environment.yaml", "2.5}", "5}")
    cloned.job("prod/big", f"{GPUS}flags: {{lr: 1}}\n")
    edit(cloned, "prod/jobs/big.yaml", small, "")
    (environment,) = plan(cloned)["environments"]
    cost = [environment[side]["cost"]["low"] for side in ("before", "after")]
    goes_on = 8 * 2 * 5  # the old run, until it is deleted: in the same pool as all others
    assert cost == [2 * 8 * 2 * 2.5, 2 * 8 * 2 * 5 + goes_on]


@pytest.mark.parametrize("budget", ["gpuHours", "cost"])
def test_unknown_duration_is_never_nothing(budget: str, cloned: Repository) -> None:
    cloned.job("prod/big", GPUS)
    edit(cloned, "prod/environment.yaml", "{gpuHours: 100}", f"{{{budget}: 100}}")
    edit(cloned, "prod/jobs/big.yaml", 'resources: {cpu: "1", memory: 1Gi}\n', "")
    edit(cloned, "prod/jobs/big.yaml", "maxDuration: 2h\n", "")
    found = plan(cloned)
    assert found["environments"][0]["requests"]["unboundedJobs"] == 1
    assert "unbounded GPU-h of 1 job without maxDuration" in found["verdict"]
    assert (
        next(f for f in found["environments"][0]["capacity"] if f["what"] == "budget")["unknown"]
        == 1
    )


def test_elastic_jobs_are_ranges(cloned: Repository) -> None:
    cloned.job("prod/wide", GPUS + "elastic: {minNodes: 1, maxNodes: 3}\n")
    edit(cloned, "prod/jobs/wide.yaml", 'resources: {cpu: "1", memory: 1Gi}\n', "")
    asks = plan(cloned)["environments"][0]["requests"]
    assert asks["gpus"] == {"low": 4, "high": 12}
    assert asks["gpuHours"] == {"low": 8, "high": 24}


def test_what_elastic_jobs_may_lack_is_in_the_first_line_and_the_table(cloned: Repository) -> None:
    """4 GPUs per node: it begins with 8, and may have 20 of the 16 that there are."""
    job("nodes: 2\n", "nodes: 2\nelastic: {minNodes: 2, maxNodes: 5}\n")(cloned)
    edit(cloned, "prod/jobs/llm.yaml", 'resources: {cpu: "1", memory: 1Gi}', "resources: {gpu: 4}")
    add("pool: h100\nlauncher: torchrun")(cloned)
    shown = cloned.run("plan", "--against", "main").stdout
    assert shown.splitlines()[0].endswith(" · prod pool h100 may lack 4 GPUs")
    assert "0 → 8 to 20 of 16 GPUs: 4 too few at most" in shown
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    job("maxNodes: 5", "maxNodes: 7")(cloned)
    lines = cloned.run("plan", "--against", "main").stdout.splitlines()
    assert lines[0].endswith(" · prod pool h100 may lack 28 more GPUs")
    assert any("16 to 48 of 16 GPUs: 32 too few at most (4 before)" in line for line in lines)


def test_a_run_that_stays_is_not_asked_for_again(cloned: Repository) -> None:
    cloned.job("prod/big", GPUS)
    edit(cloned, "prod/jobs/big.yaml", 'resources: {cpu: "1", memory: 1Gi}\n', "")
    cloned.run("render")
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    edit(cloned, "prod/jobs/big.yaml", "maxDuration: 2h", "maxDuration: 3h")
    assert changed(cloned, "prod/big")["requests"]["gpuHours"] == {"low": 8, "high": 8}
    edit(cloned, "prod/jobs/big.yaml", "nodes: 2", "nodes: 1")
    found = changed(cloned, "prod/big")
    assert found["requests"]["gpuHours"] == {"low": 12, "high": 12}
    assert found["requests"]["gpus"] == {"low": 4, "high": 4}  # beside the one before


def test_what_others_merged_meanwhile_does_not_show_as_undone(cloned: Repository) -> None:
    git(cloned.root, "checkout", "--quiet", "main")
    cloned.job("prod/theirs")
    cloned.run("render")
    git_repository.commit(cloned.root)
    git(cloned.root, "checkout", "--quiet", "change")
    found = plan(cloned)
    assert found["changes"] == []
    assert found["behind"] == 1
    text = cloned.run("plan", "--against", "main").output
    assert "main has 1 more commit, whose changes are not looked at" in text
    comment = cloned.run("plan", "--against", "main", "-o", "markdown").output
    assert "which has 1 more commit_" in comment


def test_committed_files_count_for_the_base_and_specs_for_the_head(cloned: Repository) -> None:
    """A spec that was merged without being rendered has not reached the cluster yet."""
    edit(cloned, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    assert cloned.run("render").exit_code == 0
    found = changed(cloned)
    assert found["action"] == "new run"
    (cause,) = found["causes"]
    assert (cause["path"], cause["before"], cause["after"]) == ("nodes", "2", "3")


NOT_RENDERED = "job spec that was not rendered before"


@pytest.mark.parametrize("rendered", [False, True])
@pytest.mark.parametrize(
    ("as_merged", "edited"),
    [("nodes: 2", "nodes: 2"), ("nodes: 2", "nodes: 1"), ("nodez: 2", "nodes: 2")],
    ids=["as it was merged", "edited", "merged with an error"],
)
def test_a_spec_that_was_never_rendered_starts_with_the_next_merge(
    as_merged: str, edited: str, rendered: bool, cloned: Repository
) -> None:
    """No run of it is in the sums before, nor a cause that would be one of an edited run."""
    path = cloned.job("prod/first", GPUS.replace("queue: team\n", ""))
    text = path.read_text().replace('resources: {cpu: "1", memory: 1Gi}\n', "")
    path.write_text(text.replace("nodes: 2", as_merged))
    git_repository.commit(cloned.root, "Add first, and do not render it")
    git(cloned.root, "branch", "--force", "main", "HEAD")
    path.write_text(text.replace("nodes: 2", edited))
    cloned.job("prod/second")
    if rendered:
        assert cloned.run("render").exit_code == 0
    found = plan(cloned)
    causes = {it["job"]: (it["action"], it["causes"][0]["note"]) for it in found["changes"]}
    assert causes == {
        "prod/first": ("starts", NOT_RENDERED),
        "prod/second": ("starts", "new job spec"),
    }
    assert all(len(it["causes"]) == 1 for it in found["changes"])
    gpus = 4 * int(edited[-1])
    sums = [found["environments"][0][side]["gpus"]["high"] for side in ("before", "after")]
    assert sums == [0, gpus]
    lines = cloned.run("plan", "--against", "main").stdout.splitlines()
    assert lines[0] == f"Starts 2 jobs · +{2 * gpus} GPU-h · +${5 * gpus}"
    assert any(f"0 → {gpus} of 16 GPUs" in line for line in lines)


def test_a_spec_that_was_never_rendered_leaves_nothing_behind(cloned: Repository) -> None:
    path = cloned.job("prod/first")
    git_repository.commit(cloned.root, "Add first, and do not render it")
    git(cloned.root, "branch", "--force", "main", "HEAD")
    path.unlink()
    assert plan(cloned)["changes"] == []
    cloned.job("prod/renamed")  # with the same content
    (change,) = plan(cloned)["changes"]
    assert (change["job"], change["action"]) == ("prod/renamed", "starts")
    assert change["why"] == "at once"


def test_a_branch_can_be_planned_without_being_checked_out(cloned: Repository) -> None:
    edit(cloned, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    here = plan(cloned)
    commit = git_repository.committed(cloned.root)
    git(cloned.root, "checkout", "--quiet", "main")
    before = sorted(cloned.root.rglob("*"))
    there = plan(cloned, "--head", "change")
    assert there.pop("head") == commit
    assert {**here, "command": ""} == {**there, "head": "", "command": ""}
    assert sorted(cloned.root.rglob("*")) == before


def test_a_selection_limits_it(cloned: Repository) -> None:
    edit(cloned, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    assert plan(cloned, "prod/idle")["changes"] == []
    assert len(plan(cloned, "prod/llm")["changes"]) == 1


def test_the_first_environments_of_a_repository(tmp_path: Path) -> None:
    repository = Repository(git_repository.init(tmp_path / "clone"))
    git_repository.commit(repository.root)
    git(repository.root, "checkout", "--quiet", "-b", "change")
    repository.environment("prod")
    repository.job("prod/llm")
    assert changed(repository)["action"] == "starts"


def test_below_the_top_of_a_repository(tmp_path: Path) -> None:
    top = git_repository.init(tmp_path / "clone")
    repository = Repository(top / "deep/er")
    repository.environment("prod")
    repository.job("prod/llm")
    git_repository.commit(top)
    git(top, "checkout", "--quiet", "-b", "change")
    edit(repository, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    (top / "environments").mkdir()
    assert changed(repository)["causes"][0]["place"]["line"] == 8


def test_findings_are_those_of_touched_jobs(cloned: Repository) -> None:
    edit(cloned, "prod/jobs/llm.yaml", "nodes: 2", "nodez: 2")
    edit(cloned, "prod/jobs/idle.yaml", "nodes: 2", "nodes: 3")
    found = plan(cloned, code=1)
    assert [(f["rule"], f["place"]["line"]) for f in found["findings"]] == [("TW010", 8)]
    assert found["blocked"]


@pytest.mark.parametrize("severities", ["", "severities: {TW710: off}\n"])
@pytest.mark.parametrize("output", ["text", "json", "markdown"])
def test_no_credential_appears(cloned: Repository, output: str, severities: str) -> None:
    cloned.environment("prod", POOLS + severities)
    canary = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
    edit(
        cloned,
        "prod/jobs/llm.yaml",
        "nodes: 2",
        f"nodes: 3\nenv: {{HF_TOKEN: {canary}, DB_PASSWORD: Sup3rS3cretCanary, "
        f'URL: "https://me:Sup3rS3cretCanary@example.com"}}\nflags: {{token: {canary}}}',
    )
    result = cloned.run("plan", "--against", "main", "-o", output)
    assert "llm" in result.output
    assert canary not in result.output
    assert "Sup3rS3cretCanary" not in result.output


def test_the_same_input_gives_the_same_bytes(cloned: Repository) -> None:
    for name in ("a", "b", "c"):
        cloned.job(f"prod/{name}")
    edit(cloned, "prod/environment.yaml", "namespace: training", "namespace: other")
    for output in ("text", "json", "markdown"):
        one, other = (cloned.run("plan", "--against", "main", "-o", output) for _ in range(2))
        assert one.output == other.output


def test_links_lead_to_authored_lines(cloned: Repository) -> None:
    edit(cloned, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    address = "https://github.com/acme/jobs/blob/abc"
    result = cloned.run("plan", "--against", "main", "-o", "markdown", "--link", address)
    assert f"[nodes: 2 → 3]({address}/environments/prod/jobs/llm.yaml#L8)" in result.output
    assert result.output.startswith("<!-- trainwright-plan -->\n")


# --- what a comment holds --------------------------------------------------------------------

TEXTS = st.text(max_size=80)


SHOWN = [action for action in Action if action not in (Action.OUTDATED, Action.UNCHANGED)]


def _change(number: int, text: str = "") -> JobChange:
    def run(word: str) -> PlannedRun:
        body = "\n".join(f"line {n} of {number} {word} {text} ```" for n in range(40))
        files = {"pytorchjob.yaml": body, "values.yaml": "secret: never shown"}
        demand = Demand(gpus=Range(1, 2), hours=Range(3, 4))
        return PlannedRun(
            object=f"job-{word}", target="pytorchjob", image="i", queue="", state="active", retired=False,
            files=files, demand=demand,
        )  # fmt: skip

    cause = ValueChange(
        Pointer("/nodes"), text or 1, 2, Location("environments/prod/jobs/x.yaml", 8, 3)
    )
    return JobChange(
        file=JobFile("prod", f"job-{number:05}"),
        action=SHOWN[number % len(SHOWN)],
        why=f"why {number} {text}",
        before=run("old"),
        after=run("new"),
        causes=(cause,) * (number % 5),
    )


def _review(changes: int, findings: int, text: str = "") -> Plan:
    environment = EnvironmentPlan(
        name="prod",
        jobs=changes,
        changes=tuple(_change(number, text) for number in range(changes)),
        before=Demand(),
        after=Demand(gpus=Range(1, 2)),
        asked=Demand(gpus=Range(1, 2)),
        fits=(CapacityCheck(what="pool a", unit="GPUs", need=3, most=4, has=2),),
    )
    finding = Finding(
        rule="TW010",
        severity=Severity.ERROR,
        place=Location("environments/prod/jobs/x.yaml", 8, 3),
        message=f"message {text}",
        remedy="Remedy.",
    )
    return Plan(
        base="b" * 40,
        head="",
        behind=0,
        environments=(environment,),
        shared_files=(SharedFileImpact("environments/defaults.yaml", (), 3, 5),),
        findings=tuple(replace(finding, pointer=str(number)) for number in range(findings)),
        sources={},
    )


STYLE = Style(against="main", command="trainwright plan --against main")


def _diffs(comment: str) -> list[str]:
    """What happens to the jobs whose diff is in a comment, in order."""
    actions = "|".join(action.value for action in Action)
    return re.findall(rf"<details><summary>[^\n<]*: ({actions})</summary>", comment)


# What has no row is counted of 400 jobs as of thousands, which take a second and more each.
THOUSANDS = [pytest.param(count, marks=pytest.mark.slow) for count in (1000, 5000)]


@pytest.mark.parametrize("findings", [0, 3, 900])
@pytest.mark.parametrize("changes", [0, 1, 2, 7, 30, 150, 400, *THOUSANDS])
def test_a_comment_is_never_too_long(changes: int, findings: int) -> None:
    text = markdown.render(_review(changes, findings), STYLE)
    assert len(text) <= LIMIT
    assert text.endswith("Reproduce with_ `trainwright plan --against main`\n")
    assert text.count("<details>") == text.count("</details>")
    shown = len(_diffs(text))
    if shown < changes:
        assert f"{changes - shown:,} diff" in text
        assert len(text) > LIMIT * 0.8
    else:
        assert "Left out" not in text or findings > 500


def test_what_is_held_back_is_a_line_for_each_shared_file_and_not_for_each_job() -> None:
    held = _review(3000, 0)
    (environment,) = held.environments
    causes = environment.changes[1].causes
    changes = tuple(replace(c, action=Action.OUTDATED, causes=causes) for c in environment.changes)
    environments = (replace(environment, changes=changes),)
    shared = (replace(held.shared_files[0], jobs=tuple(change.file for change in changes)),)
    whole = markdown.render(replace(held, environments=environments, shared_files=shared), STYLE)
    text, _, folded = whole.partition("<details>")
    assert len(text) < 2000
    assert len(whole) < 10_000
    assert "<summary>3,000 jobs are outdated until the next run</summary>" in folded
    assert re.search(r"\n- nodes: prod/job.*-00000, .* and [0-9,]+ more\n", folded)
    assert "Outdates 3,000 jobs" in text
    assert "outdates 5 runs, begins 3" in text


def test_a_comment_names_jobs_that_keep_an_old_value(cloned: Repository) -> None:
    defaults = "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n"
    cloned.write("defaults.yaml", f"{defaults}defaults: {{flags: {{lr: 0.1}}}}\n")
    comment = cloned.run("plan", "--against", "main", "-o", "markdown").stdout
    assert "<summary>2 jobs are outdated until the next run</summary>" in comment
    assert "\n- flags.lr: prod/idle, prod/llm\n" in comment
    assert "| job |" not in comment  # a table without a row
    assert "is not up to date" not in comment


def test_a_plan_says_that_nothing_happens_before_the_render_is_committed(
    cloned: Repository,
) -> None:
    unrendered = "of prod/llm are not up to date: nothing of this happens until"
    job('tag: "1.0"', 'tag: "1.1"')(cloned)
    git_repository.commit(cloned.root)
    for output in ("text", "markdown"):
        assert unrendered in cloned.run("plan", "--against", "main", "-o", output).stdout
    assert cloned.run("render").exit_code == 0
    git_repository.commit(cloned.root)
    for output in ("text", "markdown"):
        assert unrendered not in cloned.run("plan", "--against", "main", "-o", output).stdout


def test_diffs_go_first_and_the_riskiest_stays_longest() -> None:
    text = markdown.render(_review(200, 50), STYLE)
    assert text.count("\n| ") >= 200
    assert text.count("[TW010]") == 50
    folded = _diffs(text)
    assert 0 < len(folded) < 200
    assert set(folded[:10]) == {"rejected"}
    assert "rows" not in text.partition("Left out")[2]


@pytest.mark.parametrize("changes", [150, 400, *THOUSANDS])
def test_a_comment_that_is_cut_says_what_happens_to_every_job(changes: int) -> None:
    """By its row, its name or its number, of each action, and the riskiest first."""
    review = _review(changes, 900)
    text = markdown.render(review, STYLE)
    rows = text.partition("\n<details>")[0].count("\n| ") - 1  # in sight
    numbers = re.findall(r"\*\*([a-z ]+)\*\* as well, ([0-9,]+): ", text)
    assert rows + sum(int(number.replace(",", "")) for _, number in numbers) == changes
    left = [change.action.value for change in review.listed[rows:]]
    assert [action for action, _ in numbers] == list(dict.fromkeys(left))
    if changes <= 400:
        assert all(cell(str(change.file)) in text for change in review.listed)


@given(text=TEXTS, changes=st.integers(0, 6))  # of which no comment is cut
def test_nothing_in_a_value_gets_out_of_its_cell(text: str, changes: int) -> None:
    plain, message = (markdown.render(_review(changes, 2, t), STYLE) for t in ("", text))
    for mark in ("<details>", "</details>", "<!--"):
        assert message.count(mark) == plain.count(mark)
    rows = [line for line in message.splitlines() if line.startswith("| ") and "job" in line]
    assert len(rows) >= changes


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        # Forges set these as mathematics, in which a percent sign hides what follows.
        ("train.py $%; steal$", "train.py &#36;%; steal&#36;"),
        ("#12 of org/x#3", "\\#\u206012 of org/x\\#\u20603"),
        ("GH-12", "GH\u2060\\-12"),
        ("x:o:y and x.yaml:2:18", "x:\u2060o:y and x.yaml:2:18"),
        ("registry:5000/x:1.0", "registry:5000/x:1.0"),
        ("a\u2800b", "a\\\\u2800b"),
    ],
)
def test_a_forge_makes_nothing_of_a_value(text: str, shown: str) -> None:
    assert cell(text) == shown


def test_what_a_run_begins_with_and_no_source_has_comes_first(cloned: Repository) -> None:
    """One commit sets it for all, and the next one takes it back."""
    defaults = "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n"
    cloned.write("defaults.yaml", f"{defaults}defaults: {{env: {{LD_PRELOAD: /x.so}}}}\n")
    cloned.job("prod/short")
    assert cloned.run("render").exit_code == 0
    git_repository.commit(cloned.root)
    (cloned.root / "environments/defaults.yaml").unlink()
    git_repository.commit(cloned.root)
    said = 'prod/short begins with other values than its sources have: env.LD_PRELOAD: "/x.so"'
    assert cloned.run("plan", "--against", "main").output.splitlines()[1].startswith(said)
    for output in ("markdown", "html"):
        shown = cloned.run("plan", "--against", "main", "-o", output).output
        assert "prod/short begins with other values" in shown.replace("\\", "")
    (change,) = (it for it in plan(cloned)["changes"] if it["job"] == "prod/short")
    assert change["why"] == "at once; not with what its sources have now of env.LD_PRELOAD"


def test_the_diff_of_rendered_files_follows_the_text(cloned: Repository) -> None:
    edit(cloned, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    without = cloned.run("plan", "--against", "main").stdout
    shown = cloned.run("plan", "--against", "main", "--files").stdout
    assert shown.startswith(without)
    diff = shown.removeprefix(without)
    assert "+++ b/environments/prod/rendered/llm/pytorchjob.yaml\n" in diff
    assert "-      replicas: 1\n+      replicas: 2\n" in diff
    git_repository.commit(cloned.root)
    against_itself = ("plan", "--against", "change")
    assert cloned.run(*against_itself, "--files").output == cloned.run(*against_itself).output


def test_a_broken_ledger_blocks_the_merge(cloned: Repository) -> None:
    cloned.write("prod/ledger.yaml", "apiVersion: trainwright.io/v1alpha1\nkind: Ledger\nruns: 1\n")
    found = plan(cloned, code=1)
    assert [finding["place"]["file"] for finding in found["findings"]] == [
        "environments/prod/ledger.yaml"
    ]


@pytest.mark.parametrize("retired", ["before the merge", "by the merge"])
def test_a_ledger_with_a_key_twice_is_one_finding(retired: str, cloned: Repository) -> None:
    """As a union merge of two branches leaves it."""
    _running(cloned, "")
    assert cloned.run("retire", "prod/llm", "--outcome", "succeeded").exit_code == 0
    if retired == "before the merge":
        git_repository.commit(cloned.root)
        git(cloned.root, "branch", "--force", "main", "HEAD")
    path = cloned.root / "environments/prod/ledger.yaml"
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")
    found = plan(cloned, code=1)
    errors = [it["rule"] for it in found["findings"] if it["severity"] == "error"]
    assert errors == ["TW002"]
    (environment,) = found["environments"]
    gpus = environment["before"]["gpus"]
    assert gpus == environment["after"]["gpus"]
    if retired == "before the merge":
        assert (found["changes"], gpus["low"]) == ([], 0)
        return
    (change,) = found["changes"]
    assert (change["action"], gpus["low"]) == ("broken", 8)
    assert change["why"].startswith("environments/prod/ledger.yaml has errors; nothing is rendered")
    assert [it["note"] for it in change["causes"]] == ["the ledger has errors"]
    assert change["causes"][0]["place"]["file"] == "environments/prod/ledger.yaml"


@pytest.mark.parametrize(
    ("edited", "named", "shown"),
    [
        ({'image: "': 'image: "evil.'}, "image", "has 'image: \"evil.registry.example.com"),
        ({'"train.py"': '"evil.py"'}, "command", '"evil.py"'),
        ({}, "backoffLimit 0 → 9", "has 'backoffLimit: 9' where 'backoffLimit: 0' is rendered"),
        (
            {"containers:": "hostNetwork: true\n          containers:"},
            "hostNetwork added",
            "adds 'hostNetwork: true'",
        ),
    ],
    ids=["image", "arguments", "nothing else", "host network"],
)
def test_an_edit_of_what_a_pod_executes_is_named_before_others(
    edited: dict[str, str], named: str, shown: str, cloned: Repository
) -> None:
    path = cloned.root / "environments/prod/rendered/llm/pytorchjob.yaml"
    text = path.read_text()
    text = text.replace("backoffLimit: 0", "backoffLimit: 9")
    for old, new in edited.items():
        assert old in text
        text = text.replace(old, new, 1)
    assert text != path.read_text()
    path.write_text(text)
    first, second, *_ = cloned.run("plan", "--against", "main").stdout.splitlines()
    assert first.startswith(f"1 rendered file was edited by hand (llm: {named}")
    assert shown in second
    assert cloned.run("render").exit_code == 0
    assert "evil" not in path.read_text()
    assert "backoffLimit: 9" not in path.read_text()


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_is_in_the_place_of_a_rendered_folder_is_not_replaced(
    kind: str, cloned: Repository
) -> None:
    rendered = cloned.root / "environments/prod/rendered"
    rendered.rename(cloned.root / "elsewhere")
    if kind == "link":
        rendered.symlink_to("../../elsewhere")
    else:
        rendered.write_text("")
    shown = cloned.run("render")
    assert shown.exit_code != 0
    assert "has been replaced" not in shown.output
    what = "a symbolic link" if kind == "link" else "not a folder"
    assert f"rendered is {what}: remove it, and then run `trainwright render`" in shown.output
    rendered.unlink()
    assert cloned.run("render").exit_code == 0


def test_a_change_of_the_image_is_said_as_such(cloned: Repository) -> None:
    edit(cloned, "prod/jobs/llm.yaml", 'tag: "1.0"', 'tag: "1.1"')
    text = cloned.run("plan", "--against", "main").output
    repository = "registry.example.com/ml/train"
    assert f"  image {repository}:1.0 → {repository}:1.1\n" in text
    comment = cloned.run("plan", "--against", "main", "-o", "markdown").output
    assert f"<br>image {repository}:1.0 → {repository}:1.1 | " in comment


ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"


@pytest.mark.parametrize(
    ("tag", "digest", "says"),
    [
        ("1.1", ONE, " (the same content: the digest decides, not the tag)"),
        ("1.0", TWO, " (other content under the same tag)"),
        ("1.1", TWO, ""),
    ],
)
def test_the_digest_of_an_image_decides_and_not_its_tag(
    tag: str, digest: str, says: str, cloned: Repository
) -> None:
    def image(tag: str, digest: str) -> str:
        return f'tag: "{tag}", digest: "{digest}"'

    edit(cloned, "prod/jobs/llm.yaml", 'tag: "1.0"', image("1.0", ONE))
    assert cloned.run("render").exit_code == 0
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    edit(cloned, "prod/jobs/llm.yaml", image("1.0", ONE), image(tag, digest))
    name = "registry.example.com/ml/train"
    head = "apiVersion: trainwright.io/v1alpha1\nkind: ImageLock\n"
    cloned.write("images.lock.yaml", f'{head}images: {{"{name}:1.1": "{TWO}"}}\n')
    text = cloned.run("plan", "--against", "main").output
    assert f"  image {name}:1.0@{ONE[:19]} → {name}:{tag}@{digest[:19]}{says}\n" in text
    locked = f"its digest is not that of 1.1 in environments/images.lock.yaml, {TWO[:19]}"
    assert (locked in text) is ((tag, digest) == ("1.1", ONE))


def test_the_text_names_the_errors_of_a_broken_job(cloned: Repository) -> None:
    edit(cloned, "prod/jobs/llm.yaml", "nodes: 2", "nodez: 2")
    text = cloned.run("plan", "--against", "main").output
    assert "error[TW010]: " in text
    assert "environments/prod/jobs/llm.yaml:8:1" in text


@pytest.mark.parametrize(
    ("old", "new", "action"),
    [
        ("maxDuration: 2h", "maxDuration: 3h", "in place"),
        ("nodes: 2", "nodes: 2\nstate: suspended", "suspends"),
    ],
)
def test_an_edit_in_place_needs_no_files_beside_the_specs(
    tmp_path: Path, old: str, new: str, action: str
) -> None:
    repository = Repository(git_repository.init(tmp_path / "clone"))
    repository.environment("prod", POOLS)
    repository.job("prod/llm")
    git_repository.commit(repository.root, "Rendered elsewhere")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    edit(repository, "prod/jobs/llm.yaml", old, new)
    assert changed(repository)["action"] == action


def test_an_edit_of_a_pool_is_about_its_jobs(cloned: Repository) -> None:
    edit(cloned, "prod/environment.yaml", "  cpu: {}\n", "  cpu: {defaults: {shm: 2Gi}}\n")
    cloned.job("prod/small", "pool: cpu\n")
    assert cloned.run("render").exit_code == 0
    git(cloned.root, "checkout", "--quiet", "main")
    git_repository.commit(cloned.root, "Another job")
    git(cloned.root, "checkout", "--quiet", "-B", "change")
    edit(cloned, "prod/environment.yaml", "shm: 2Gi", "shm: 4Gi")
    (change,) = plan(cloned)["changes"]
    assert (change["job"], change["action"]) == ("prod/small", "outdated")
    assert change["causes"] == [
        {
            "path": "shm",
            "note": "",
            "before": '"2Gi"',
            "after": '"4Gi"',
            "earlier": False,
            "place": {"file": "environments/prod/environment.yaml", "line": 8, "column": 25},
        }
    ]


@pytest.mark.parametrize(("prune", "named"), [("confirm", True), ("immediate", False)])
def test_the_kustomization_of_a_removed_job_is_named(
    prune: str, named: bool, cloned: Repository
) -> None:
    by_job = f"gitops: {{engine: flux, prune: {prune}, applications: job}}\n"
    _running(cloned, by_job)
    _gone(cloned)
    why = changed(cloned)["why"]
    delete = "`kubectl --namespace flux-system delete kustomization/"
    assert why.count(delete) == 1
    assert (
        "its Kustomization stays in the cluster, and fails for want of its path" in why
    ) is named


def test_no_kustomization_of_a_job_is_named_where_there_is_none(cloned: Repository) -> None:
    _running(cloned, "gitops: {engine: flux, applications: environment}\n")
    _gone(cloned)
    assert "Kustomization" not in changed(cloned)["why"]


@pytest.mark.parametrize(("quota", "waits"), [(8, True), (12, False), (9, True)])
def test_a_new_run_waits_for_all_its_gpus_of_which_the_old_one_holds_some(
    quota: int, waits: bool, cloned: Repository
) -> None:
    """So does one that others of the queue leave no room: the table counts all of them."""
    _running(cloned, "", metadata="queue: team\n")
    edit(cloned, "prod/environment.yaml", "team: {quota: 8}", f"team: {{quota: {quota}}}")
    edit(cloned, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 1")
    why = changed(cloned)["why"]
    sums = f"with the other active runs it makes 12 of {quota} GPUs"
    assert (f" waits in queue team for 4 GPUs: {sums}; " in why) is waits
    first = "Queues 1 run beside the old one" if waits else "Starts 1 run beside the old one"
    assert cloned.run("plan", "--against", "main").stdout.startswith(first)


def test_a_run_that_is_left_names_the_gpus_that_it_holds(cloned: Repository) -> None:
    _running(cloned, "")
    job("state: active", "state: cancelled")(cloned)
    assert "`, and holds 8 GPUs until then; after that " in changed(cloned)["why"]


def test_a_new_run_waits_for_nothing_where_the_old_one_ends(cloned: Repository) -> None:
    _running(cloned, "gitops: {prune: immediate}\n", metadata="queue: team\n")
    edit(cloned, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 1")
    assert "of queue team; " not in changed(cloned)["why"]


@pytest.mark.parametrize("saving", ["checkpoint: {volume: out, path: runs}\n", ""])
def test_a_run_in_another_namespace_resumes_from_no_claim(saving: str, cloned: Repository) -> None:
    _running(cloned, "", metadata=CLAIM + saving if saving else "")
    edit(cloned, "prod/environment.yaml", "namespace: training", "namespace: other")
    edit(cloned, "prod/jobs/llm.yaml", "nodes: 2", "nodes: 1")
    (why,) = [it["why"] for it in plan(cloned)["changes"] if it["job"] == "prod/llm"]
    assert "would resume" not in why
    names = ", where claim ckpt has to be (what training has is not there)" if saving else ""
    assert f"starts from scratch in namespace other{names}, and llm-" in why
    claim = "{metadata: {name: ckpt, namespace: other}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}"
    head = "{apiVersion: v1, kind: PersistentVolumeClaim, "
    cloned.write("prod/objects/claim.yaml", f"{head}{claim[1:]}\n")
    (why,) = [it["why"] for it in plan(cloned)["changes"] if it["job"] == "prod/llm"]
    empty = ", where claim ckpt, which the merge adds, is new and empty" if saving else ""
    assert f"starts from scratch in namespace other{empty}, and llm-" in why


# --- what a replaced run has saved ---------------------------------------------------------------

CLAIM = "volumes: {out: {claim: ckpt, mountPath: /out}}\n"
SAVED = {
    "in a folder of the run": (
        CLAIM + "checkpoint: {volume: out, path: runs}\n",
        "",
        "starts from scratch (`checkpoint.resumeFrom: runs/NAME` would resume)",
    ),
    "in a folder of the run that is read": (
        CLAIM,
        "checkpoint: {volume: out, path: runs, resumeFrom: runs/NAME}\n",
        "resumes from the checkpoints in /out/runs/NAME on claim ckpt",
    ),
    "in the same folder": (
        CLAIM + "flags: {output_dir: /out/llm}\n",
        "",
        "saves to the same folder, /out/llm on claim ckpt",
    ),
    "nowhere": ("", "", "its progress is lost: no variable or flag makes it save checkpoints"),
    "in the container": (
        "flags: {output_dir: /tmp/llm}\n",
        "",
        "its progress is lost: /tmp/llm is on no volume",
    ),
    "in a volume of the pod": (
        "volumes: {out: {emptyDir: {}, mountPath: /out}}\nflags: {output_dir: /out/llm}\n",
        "",
        "its progress is lost: /out/llm is on emptyDir volume out",
    ),
}


OTHER_CLAIM = "volumes: {out: {claim: other, mountPath: /out}}\n"
NEVER_SAVES = "no variable or flag makes it save checkpoints"
# The lines of a job before and after, and what the new run begins with.
BEGUN = {
    "from a claim that it does not mount": (
        CLAIM + "checkpoint: {volume: out, path: runs}\n",
        OTHER_CLAIM + "checkpoint: {volume: out, path: runs, resumeFrom: runs/OLD}\n",
        "NEW cannot resume from /out/runs/OLD on claim other, unless what OLD saved on claim ckpt "
        "is copied there, and OLD keeps",
    ),
    "from scratch on another claim": (
        CLAIM + "checkpoint: {volume: out, path: runs}\n",
        OTHER_CLAIM + "checkpoint: {volume: out, path: runs}\n",
        "NEW starts from scratch, and OLD keeps",
    ),
    "from scratch in the folder of another claim": (
        CLAIM + "flags: {output_dir: /out/llm}\n",
        OTHER_CLAIM + "flags: {output_dir: /out/llm}\n",
        "NEW starts from scratch, and OLD keeps",
    ),
    "from scratch on the volume of another driver": (
        "volumes: {out: {csi: {driver: a.csi.example.com}, mountPath: /out}}\n"
        "flags: {output_dir: /out/llm}\n",
        "volumes: {out: {csi: {driver: b.csi.example.com}, mountPath: /out}}\n"
        "flags: {output_dir: /out/llm}\n",
        "NEW starts from scratch, and OLD keeps",
    ),
    "from the same claim, mounted elsewhere": (
        CLAIM + "checkpoint: {volume: out, path: runs}\n",
        "volumes: {out: {claim: ckpt, mountPath: /data}}\n"
        "checkpoint: {volume: out, path: runs, resumeFrom: runs/OLD}\n",
        "NEW resumes from the checkpoints in /data/runs/OLD on claim ckpt, and OLD keeps",
    ),
    "from scratch in another part of the claim": (
        CLAIM + "checkpoint: {volume: out, path: runs}\n",
        "volumes: {out: {claim: ckpt, mountPath: /out, subPath: part}}\n"
        "checkpoint: {volume: out, path: runs}\n",
        "NEW starts from scratch, and OLD keeps",
    ),
    "from one checkpoint": (
        CLAIM + "checkpoint: {volume: out, path: runs}\n",
        CLAIM + "checkpoint: {volume: out, path: runs, resumeFrom: runs/OLD/step-100}\n",
        "NEW resumes from the checkpoints in /out/runs/OLD/step-100 on claim ckpt, and OLD keeps",
    ),
    "from the run of another job": (
        CLAIM + "checkpoint: {volume: out, path: runs}\n",
        CLAIM + "checkpoint: {volume: out, path: runs, resumeFrom: runs/BASE}\n",
        "NEW resumes from the checkpoints in /out/runs/BASE on claim ckpt, and OLD keeps",
    ),
    "from the run of another job, on a claim that this one does not mount": (
        CLAIM + "checkpoint: {volume: out, path: runs}\n",
        OTHER_CLAIM + "checkpoint: {volume: out, path: runs, resumeFrom: runs/BASE}\n",
        "NEW cannot resume from /out/runs/BASE on claim other, unless what BASE saved on claim "
        "ckpt is copied there, and OLD keeps",
    ),
    "from a run that git does not have": (
        CLAIM + "checkpoint: {volume: out, path: runs}\n",
        CLAIM + "checkpoint: {volume: out, path: runs, resumeFrom: runs/llm-00000000}\n",
        "NEW loads the checkpoints in /out/runs/llm-00000000 on claim ckpt, if there are any: git "
        "has no run llm-00000000, and OLD keeps",
    ),
    "from another folder": (
        CLAIM + "checkpoint: {volume: out, path: runs}\n",
        CLAIM + "checkpoint: {volume: out, path: runs, resumeFrom: base-7b}\n",
        "NEW loads the checkpoints in /out/base-7b on claim ckpt, if there are any, and OLD keeps",
    ),
    "from another folder, and saves to that of before": (
        CLAIM + "flags: {output_dir: /out/llm}\n",
        CLAIM + "flags: {output_dir: /out/llm, resume_from: /out/base-7b}\n",
        "NEW loads the checkpoints in /out/base-7b on claim ckpt, if there are any, and saves to "
        "the same folder, /out/llm on claim ckpt, and OLD keeps",
    ),
    "from an address": (
        "flags: {output_dir: 's3://models/llm'}\n",
        "flags: {output_dir: 's3://models/llm2', resume_from: 's3://models/llm/epoch-3'}\n",
        "NEW resumes from the checkpoints in s3://models/llm/epoch-3, and OLD keeps",
    ),
    "from scratch, and saves nothing any more": (
        CLAIM + "checkpoint: {volume: out, path: runs}\n",
        CLAIM,
        f"NEW starts from scratch, and OLD keeps|of NEW nothing is saved any more: {NEVER_SAVES}",
    ),
    "from scratch, and saves to what ends with its pods": (
        CLAIM + "flags: {output_dir: /out/llm}\n",
        "volumes: {out: {emptyDir: {}, mountPath: /out}}\nflags: {output_dir: /out/llm}\n",
        "NEW starts from scratch, and OLD keeps|"
        "of NEW nothing is saved any more: /out/llm is on emptyDir volume out",
    ),
}


@pytest.mark.parametrize("case", BEGUN)
def test_what_a_new_run_begins_with_is_told_by_the_volumes_of_both(
    case: str, repository: Repository
) -> None:
    before, after, sentences = BEGUN[case]
    repository.job("prod/llm", before)
    repository.job("prod/base", before)
    assert repository.run("render").exit_code == 0
    git_repository.init(repository.root)
    git_repository.commit(repository.root, "Begin")
    old, base = (_recorded(repository, name) for name in ("llm", "base"))
    named = after.replace("OLD", old).replace("BASE", base)
    repository.job("prod/llm", f"{named}podLabels: {{another: run}}\n")
    (change,) = plan(repository, "--against", "HEAD")["changes"]
    new = change["after"]["object"]
    for sentence in sentences.split("|"):
        told = sentence.replace("OLD", old).replace("NEW", new).replace("BASE", base)
        assert told in change["why"]
    # Two runs on two volumes overwrite nothing of each other.
    assert ("each of the two overwrites" in change["why"]) is ("saves to the same" in change["why"])
    assert ("nothing is saved any more" in change["why"]) is ("|" in sentences)
    assert "would resume" not in change["why"]


def _recorded(repository: Repository, job: str = "llm") -> str:
    record = repository.root / f"environments/prod/rendered/{job}/run.lock"
    name: str = json.loads(record.read_text(encoding="utf-8"))["object"]
    return name


@pytest.mark.parametrize("case", SAVED)
def test_what_a_replaced_run_has_saved_is_named(case: str, repository: Repository) -> None:
    written, edit, sentence = SAVED[case]
    saving = "checkpoint: {volume: out, path: runs}\n" if "checkpoint" in edit else ""
    repository.job("prod/llm", written + saving)
    assert repository.run("render").exit_code == 0
    git_repository.init(repository.root)
    git_repository.commit(repository.root, "Begin")
    name = _recorded(repository)
    edit = edit.replace("NAME", name)
    repository.job("prod/llm", f"{written}{edit}podLabels: {{another: run}}\n")
    (change,) = plan(repository, "--against", "HEAD")["changes"]
    assert sentence.replace("NAME", name) in change["why"]


@pytest.mark.parametrize("case", SAVED)
def test_a_job_on_spot_nodes_is_warned_where_the_plan_has_its_progress_as_lost(
    case: str, repository: Repository
) -> None:
    written, edit, sentence = SAVED[case]
    repository.environment("prod", "pools: {spot: {resource: nvidia.com/gpu, spot: true}}\n")
    edit = f"{edit.replace('NAME', 'llm-00000000')}pool: spot\n"
    path = repository.job("prod/llm", written + edit)
    path.write_text(path.read_text().replace("memory: 1Gi", "memory: 8Gi, gpu: 1"))
    saves_nothing = "no variable or flag makes it save" in sentence
    assert ("nothing is saved" in repository.run("check", "prod/llm").output) is saves_nothing


# --- prices and currencies that change with jobs -------------------------------------------------

PRICE = "pricePerGpuHour: 2.5"


def _priced(cloned: Repository, *edits: tuple[str, str]) -> tuple[str, str]:
    """The first line and the row of the budget of a merge that edits the environment, too."""
    for old, new in edits:
        edit(cloned, "prod/environment.yaml", old, new)
    assert cloned.run("render").exit_code == 0
    shown = cloned.run("plan", "--against", "main").stdout
    (row,) = re.findall("^prod +budget +(.*)$", shown, re.MULTILINE)
    assert shown.count("requests ") == 1
    return shown.splitlines()[0], " ".join(row.split())


def test_sums_before_are_in_the_currency_before(cloned: Repository) -> None:
    _running(cloned, "")
    job("maxDuration: 2h", "maxDuration: 3h")(cloned)
    first, row = _priced(cloned, ("budget:", "currency: EUR\nbudget:"))
    assert first == "Updates 1 job in place · +8 GPU-h · +€20"
    assert row == "16 → 24 of 100 $40 → €60"
    (environment,) = plan(cloned)["environments"]
    assert (environment["currencyBefore"], environment["currency"]) == ("USD", "EUR")


def test_a_request_is_at_the_price_after_the_merge(cloned: Repository) -> None:
    """What goes on costs more or less by the price, and by that requests nothing: the first line
    has both.
    """
    _running(cloned, "")
    job("maxDuration: 2h", "maxDuration: 3h")(cloned)
    first, row = _priced(cloned, (PRICE, "pricePerGpuHour: 4"))
    assert first == "Updates 1 job in place · +8 GPU-h · +$56 at the new price"
    assert row == "16 → 24 of 100 $40 → $96"  # no run ends, whose hours would be used


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("nodes: 3", "Starts 1 run beside the old one · +24 GPU-h · cost unknown · prod pool h100"),
        ("state: cancelled", "Leaves 1 job running"),
    ],
)
def test_a_removed_price_leaves_all_costs_unknown(
    line: str, first: str, cloned: Repository
) -> None:
    """Also of the run that goes on, which has no lower cost by that."""
    _running(cloned, "")
    job("nodes: 2" if "nodes" in line else "state: active", line)(cloned)
    edit(cloned, "prod/environment.yaml", f", {PRICE}", "")
    assert cloned.run("render").exit_code == 0
    shown = cloned.run("plan", "--against", "main").stdout
    assert shown.startswith(first)
    assert re.search(
        r"^prod +budget .* \$40 → unknown( +\+24 GPU-h, cost unknown)?$", shown, re.MULTILINE
    )
    assert ("requests +12 GPUs, +24 GPU-h, cost unknown\n" in shown) is ("nodes" in line)


def test_no_cost_is_missing_where_nothing_has_a_price(cloned: Repository) -> None:
    free = POOLS.replace(f", {PRICE}", "")
    cloned.environment("prod", free)
    path = cloned.job("prod/llm", "pool: h100\n")
    path.write_text(path.read_text().replace('{cpu: "1", memory: 1Gi}', "{gpu: 4}"))
    assert cloned.run("render").exit_code == 0
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    job("nodes: 2", "nodes: 1")(cloned)
    for form in ("text", "markdown"):
        assert "unknown" not in cloned.run("plan", "--against", "main", "-o", form).stdout


# --- a pool by another name ----------------------------------------------------------------------

TOLERATES = "tolerations: [{key: sku, operator: Equal, value: gpu, effect: NoSchedule}]"
RENAMED = POOLS.replace("h100: {", f"h100: {{{TOLERATES}, ").replace("queueing: kueue", "")
ROLE = (
    "target: jobset\nroles: {data: {entrypoint: {argv: [serve]}, pool: cpu, resources: {gpu: 0}}}\n"
)


@pytest.mark.parametrize("render", [False, True])
def test_a_pool_by_another_name_changes_nothing_but_its_rows(
    render: bool, copied: Copied, tmp_path: Path
) -> None:
    cloned = copied(_pooled, tmp_path / "clone")
    for path in ("prod/environment.yaml", "prod/jobs/llm.yaml", "base/jobs/common.yaml"):
        edit(cloned, path, "h100", "h200")
    if render:
        assert cloned.run("render").exit_code == 0
    found = plan(cloned)
    assert found["changes"] == []
    assert found["sharedFiles"] == []
    assert found["verdict"] == "Nothing changes for any job"
    shown = cloned.run("plan", "--against", "main").stdout
    assert re.search(r"^prod +pool h100 +16 → 0 GPUs +32 → 0 +\$80 → \$0$", shown, re.MULTILINE)
    assert re.search(
        r"^prod +pool h200 +0 → 16 of 16 GPUs +0 → 32 +\$0 → \$80$", shown, re.MULTILINE
    )
    assert "outdate" not in shown
    # The run still knows what its pool was: another toleration outdates it, and that alone.
    edit(cloned, "prod/environment.yaml", "value: gpu", "value: b200")
    if render:
        held = {
            change["job"]: {it["path"]: it["before"] for it in change["causes"]}
            for change in plan(cloned)["changes"]
        }
        assert [*held["prod/llm"]] == ["pools.h200.tolerations"]
        assert held["prod/other"] == {**held["prod/llm"], "pool": '"h100"'}


def test_a_price_with_another_name_is_no_request(copied: Copied, tmp_path: Path) -> None:
    """What a merge requests, and what all cost, are the same sums in each place."""
    cloned = copied(_pooled, tmp_path / "clone")
    for path in ("prod/environment.yaml", "prod/jobs/llm.yaml", "base/jobs/common.yaml"):
        edit(cloned, path, "h100", "h200")
    edit(cloned, "prod/environment.yaml", "pricePerGpuHour: 2.5", "pricePerGpuHour: 3")
    edit(cloned, "prod/environment.yaml", "budget:", "defaults: {env: {LEVEL: debug}}\nbudget:")
    assert cloned.run("render").exit_code == 0
    found = plan(cloned)
    assert [change["action"] for change in found["changes"]] == ["outdated", "outdated"]
    assert found["verdict"] == "Outdates 2 jobs"
    shown = cloned.run("plan", "--against", "main").stdout
    assert re.search(r"^prod +budget +32 of 100 +\$80 → \$96$", shown, re.MULTILINE)
    assert "THIS CHANGE" not in shown


def _pooled(folder: Path) -> None:
    """A job that names its pool, with a role in another, and one that a base puts there."""
    repository = Repository(git_repository.init(folder))
    repository.environment("prod", RENAMED)
    edit(repository, "prod/environment.yaml", "targets: {", "targets: {jobset: {}, ")
    base = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: common\n"
    repository.write("base/jobs/common.yaml", f"{base}pool: h100\n")
    gpus = ("memory: 1Gi}", "memory: 1Gi, gpu: 4}")
    for name, line in (("llm", f"pool: h100\n{ROLE}"), ("other", "extends: base/common\n")):
        path = repository.job(f"prod/{name}", line)
        path.write_text(path.read_text().replace(*gpus))
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root, "Begin")
    git(repository.root, "checkout", "--quiet", "-b", "change")


# --- what decides which runs are applied ---------------------------------------------------------

LISTS = "prod/rendered/kustomization.yaml"
FOUND = "prod/rendered/llm/values.yaml"
CHART = "mode: chart, chart: {oci: oci://registry.example.com/charts/training-job}"


@pytest.mark.parametrize(
    ("gitops", "path", "leaves"),
    [
        ("engine: none", LISTS, True),
        ("engine: argocd, applications: environment", LISTS, True),
        ("engine: argocd", LISTS, False),
        ("engine: argocd", FOUND, True),
        (f"engine: argocd, {CHART}", LISTS, False),
        (f"engine: argocd, {CHART}", FOUND, True),
        ("engine: flux, applications: environment", LISTS, True),
        ("engine: flux, applications: environment", FOUND, False),
        ("engine: flux", LISTS, False),
        (f"engine: flux, {CHART}", LISTS, False),
    ],
)
def test_a_run_leaves_with_the_file_by_which_its_engine_finds_it(
    gitops: str, path: str, leaves: bool, cloned: Repository
) -> None:
    """The list of manifests is no such file where each job is applied by itself."""
    _running(cloned, f"gitops: {{{gitops}}}\n")
    file = cloned.root / "environments" / path
    kept = [line for line in file.read_text().splitlines() if not line.startswith("llm/")]
    file.write_text("\n".join((*kept, ""))) if path == LISTS else file.unlink()
    found = _unproven(cloned)
    assert [it["place"]["file"] for it in found["underived"]] == [f"environments/{path}"]
    whys = [it["why"] for it in found["changes"]]
    assert len(whys) == leaves
    assert all(why.startswith("nothing of it is applied any more; llm-") for why in whys)


def test_what_an_engine_finds_beside_a_run_is_applied_though_no_list_has_it(
    cloned: Repository,
) -> None:
    extra = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n"
    for gitops, objects in (("engine: none", []), ("engine: argocd", ["ConfigMap/extra"])):
        _running(cloned, f"gitops: {{{gitops}}}\n")
        (cloned.root / "environments/prod/rendered/llm/extra.yml").write_text(extra)
        changes = _unproven(cloned)["changes"]
        assert [it for change in changes for it in change["after"]["runs"]["objects"]] == objects


def _unproven(repository: Repository) -> dict:
    result = repository.run("plan", "--against", "main", "-o", "json")
    assert result.exit_code == 1, result.output
    found: dict = json.loads(result.stdout)["plan"]
    return found


# --- rendered files that are behind their sources ------------------------------------------------


RENDERED_RUN = "prod/rendered/llm/pytorchjob.yaml"
BEHIND = "The rendered files of prod/llm are not up to date"


def _planned_run(repository: Repository, *, behind: bool) -> str:
    assert (BEHIND in repository.run("plan", "--against", "main").stdout) is behind
    done = repository.run("plan", "--against", "main", "-o", "json")
    (change,) = json.loads(done.stdout)["plan"]["changes"]
    assert ("; merged as it is rendered now, llm-" in change["why"]) is behind
    name: str = change["after"]["object"]
    return name


def _rendered_run(repository: Repository) -> str:
    assert repository.run("render").exit_code == 0
    found = re.search("llm-[0-9a-f]{8}", repository.tree()[RENDERED_RUN])
    assert found is not None
    return found[0]


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("side", ["one", "two"])
def test_a_half_resolved_merge_begins_the_run_that_render_begins(
    side: str, committed: bool, cloned: Repository
) -> None:
    """Both branches edited the job, and rendered: the merged file is that of no run."""
    path = cloned.root / "environments/prod/jobs/llm.yaml"
    before = path.read_text()
    for branch, old, new in (("one", "nodes: 2", "nodes: 3"), ("two", "1Gi", "2Gi")):
        git(cloned.root, "checkout", "--quiet", "-b", branch, "main")
        path.write_text(before.replace(old, new))
        assert cloned.run("render").exit_code == 0
        git_repository.commit(cloned.root, branch)
    with pytest.raises(AssertionError, match="merge"):
        git(cloned.root, "merge", "--quiet", "one")
    git(cloned.root, "checkout", "--quiet", side, "--", "environments/prod/rendered")
    path.write_text(before.replace("nodes: 2", "nodes: 3").replace("1Gi", "2Gi"))
    if committed:
        git_repository.commit(cloned.root, "Merge")
    planned = _planned_run(cloned, behind=True)
    assert _rendered_run(cloned) == planned
    assert _planned_run(cloned, behind=False) == planned


@pytest.mark.parametrize("committed", [False, True])
def test_an_edit_after_the_last_render_is_planned_as_it_will_be_rendered(
    committed: bool, cloned: Repository
) -> None:
    path = cloned.root / "environments/prod/jobs/llm.yaml"
    before = path.read_text()
    path.write_text(before.replace("nodes: 2", "nodes: 3"))
    assert cloned.run("render").exit_code == 0
    git_repository.commit(cloned.root, "Three")
    path.write_text(before.replace("nodes: 2", "nodes: 4"))
    if committed:
        git_repository.commit(cloned.root, "Four, and not rendered")
    planned = _planned_run(cloned, behind=True)
    assert _rendered_run(cloned) == planned
    assert _planned_run(cloned, behind=False) == planned


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize(
    ("verb", "old", "new", "headline"),
    [
        (
            ("retire", "prod/llm", "--outcome", "succeeded"),
            "nodes: 2",
            "nodes: 3",
            "Starts the next run of 1 job · +24 GPU-h · +$60",
        ),
        (
            ("suspend", "prod/llm"),
            "maxDuration: 2h",
            "maxDuration: 3h",
            "Suspends 1 job · 1 job loses its progress · -16 GPU-h · -$40",
        ),
        (
            ("resume", "prod/llm"),
            "maxDuration: 2h",
            "maxDuration: 3h",
            "Resumes 1 job · +24 GPU-h · +$60",
        ),
    ],
    ids=["retire", "suspend", "resume"],
)
def test_an_edit_after_a_verb_is_planned_as_it_will_be_rendered(
    verb: tuple[str, ...], old: str, new: str, headline: str, committed: bool, cloned: Repository
) -> None:
    """The verb has rendered the state without the edit, and both are one commit."""
    _running(cloned, "", "suspended" if verb[0] == "resume" else "active")
    assert cloned.run(*verb).exit_code == 0
    edit(cloned, "prod/jobs/llm.yaml", old, new)
    if committed:
        git_repository.commit(cloned.root)
    texts = []
    for behind in (True, False):
        shown = cloned.run("plan", "--against", "main")
        assert shown.exit_code == 0, shown.output
        assert shown.stdout.startswith(f"{headline}\n")
        assert (BEHIND in shown.stdout) is behind
        texts.append([line for line in shown.stdout.splitlines() if BEHIND not in line])
        rendered = cloned.run("render")
        assert rendered.exit_code == 0
        assert "TW057" not in rendered.output
    assert texts[0] == texts[1]


def test_a_finished_run_counts_no_more_once_its_job_has_the_next(cloned: Repository) -> None:
    _running(cloned, "")
    assert cloned.run("retire", "prod/llm", "--outcome", "failed").exit_code == 0
    job("nodes: 2", "nodes: 3")(cloned)
    assert cloned.run("render").exit_code == 0
    found = changed(cloned)
    old, new = found["before"]["object"], found["after"]["object"]
    assert (found["action"], found["ending"]) == ("new run", None)
    assert found["why"] == (
        f"after the merge {new} starts from scratch, and {old} is in the ledger of finished runs; "
        f"{old} stays in the cluster until `kubectl --namespace training delete pytorchjob/{old}`; "
        "if its pods still run, its 8 GPUs are held until it is deleted"
    )
    (environment,) = plan(cloned)["environments"]
    assert environment["after"]["gpus"] == {"low": 12, "high": 12}


def test_a_finished_run_whose_job_leaves_git_retires(cloned: Repository) -> None:
    _running(cloned, "")
    assert cloned.run("retire", "prod/llm", "--outcome", "failed").exit_code == 0
    (cloned.root / "environments/prod/jobs/llm.yaml").unlink()
    for _ in range(2):
        git_repository.commit(cloned.root)
        found = changed(cloned)
        assert (found["action"], found["requests"]["gpus"]["high"]) == ("retires", 0)
        assert cloned.run("render").exit_code == 0


@pytest.mark.parametrize(
    ("verb", "undone"),
    [
        (("retire", "prod/llm", "--outcome", "failed"), "environments/prod/ledger.yaml"),
        (("suspend", "prod/llm"), "environments/prod/jobs/llm.yaml"),
    ],
)
def test_what_a_verb_rendered_needs_what_it_wrote(
    verb: tuple[str, ...], undone: str, cloned: Repository
) -> None:
    assert cloned.run(*verb).exit_code == 0
    text = (cloned.root / undone).read_text()
    (cloned.root / undone).write_text(text.replace("state: suspended", "").split("runs:")[0])
    job("maxDuration: 2h", "maxDuration: 3h")(cloned)
    git_repository.commit(cloned.root)
    shown = cloned.run("plan", "--against", "main").stdout
    missing = "pytorchjob.yaml is missing, and its source renders it"
    assert (missing if verb[0] == "retire" else "no source renders this") in shown


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("queueing: kueue", "queueing: kueu", 'queueing cannot be "kueu"'),
        ("queueing: kueue", "queueing: [", ""),
    ],
    ids=["a wrong value", "no YAML"],
)
def test_of_an_environment_that_cannot_be_read_nothing_is_known(
    old: str, new: str, message: str, cloned: Repository
) -> None:
    """Its defaults are unknown, and no value of a job changed by that."""
    _running(cloned, "")
    edit(cloned, "prod/environment.yaml", old, new)
    job("nodes: 2", "nodes: 3")(cloned)
    (cloned.root / "environments/prod/jobs/idle.yaml").unlink()
    found = plan(cloned, code=1)
    assert found["verdict"] == "Cannot read prod · 1 error"
    assert found["blocked"]
    assert (found["changes"], found["sharedFiles"]) == ([], [])
    (environment,) = found["environments"]
    assert environment["unread"]
    for side in ("before", "after"):
        assert environment[side]["gpus"] == {"low": 8, "high": 8}
    said = cloned.run("plan", "--against", "main").stdout
    assert f"environments/prod/environment.yaml cannot be read: {message}" in said
    assert "its runs stay as they are; 1 job of it is not in this plan." in said


def test_files_that_are_applied_are_in_the_plan_whatever_their_environment_is(
    cloned: Repository,
) -> None:
    _running(cloned, "")
    edit(cloned, "prod/environment.yaml", "queueing: kueue", "queueing: kueu")
    edit(cloned, "prod/rendered/llm/pytorchjob.yaml", "train:1.0", "train:2.0")
    found = json.loads(cloned.run("plan", "--against", "main", "-o", "json").stdout)["plan"]
    edited = "1 rendered file was edited by hand (llm: image) · cannot read prod"
    assert found["verdict"].startswith(edited)
    (change,) = found["changes"]
    assert change["action"] == "ignored"
    assert [cause["path"] for cause in change["causes"]] == [""]
    assert change["requests"]["gpus"] == {"low": 0, "high": 0}


@pytest.mark.parametrize(
    ("prune", "headline"),
    [
        ("confirm", "Adds 1 run as suspended beside the old one"),
        ("immediate", "Replaces 1 job"),
    ],
)
def test_a_run_that_begins_suspended_starts_nothing(
    prune: str, headline: str, cloned: Repository
) -> None:
    _running(cloned, f"gitops: {{prune: {prune}}}\n", state="suspended")
    job("nodes: 2", "nodes: 3")(cloned)
    found = plan(cloned)
    assert found["verdict"] == headline
    (change,) = found["changes"]
    assert " is suspended, and once it is resumed starts from scratch" in change["why"]
    assert (change["ending"] is not None) is (prune == "confirm")
    if change["ending"]:
        assert (change["ending"]["losesProgress"], change["ending"]["waits"]) == (False, True)


def test_a_new_job_that_is_suspended_starts_nothing(cloned: Repository) -> None:
    cloned.job("prod/new", "state: suspended\n")
    assert plan(cloned)["verdict"] == "Adds 1 job as suspended"


def test_a_new_run_in_a_queue_begins_when_that_admits_it(cloned: Repository) -> None:
    _running(cloned, "", metadata="queue: other\n")
    job("nodes: 2", "nodes: 3")(cloned)
    assert " starts from scratch, when queue other admits it, and llm-" in changed(cloned)["why"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("state: active", "state: suspended"), ("nodes: 2", "nodes: 300"), ("nodes: 2", "nodes: x")],
)
def test_a_job_with_errors_requests_what_its_run_does(
    old: str, new: str, cloned: Repository
) -> None:
    """Nothing of it is rendered, so its run goes on as it is."""
    _running(cloned, "", metadata="queue: other\n")
    job(old, new)(cloned)
    found = plan(cloned, code=1)
    (change,) = found["changes"]
    assert change["action"] == "broken"
    assert "stays as it is" in change["why"]
    assert change["requests"]["gpus"] == {"low": 0, "high": 0}
    (environment,) = found["environments"]
    assert environment["after"] == environment["before"]
    assert environment["after"]["gpus"] == {"low": 8, "high": 8}


def test_a_state_after_the_last_render_is_planned_as_it_will_be_rendered(
    cloned: Repository,
) -> None:
    path = cloned.root / "environments/prod/jobs/llm.yaml"
    path.write_text(path.read_text().replace("nodes: 2", "nodes: 3"))
    assert cloned.run("render").exit_code == 0
    git_repository.commit(cloned.root, "Three")
    path.write_text(path.read_text() + "state: suspended\n")
    for behind in (True, False):
        assert (BEHIND in cloned.run("plan", "--against", "main").stdout) is behind
        (change,) = plan(cloned)["changes"]
        assert (change["action"], change["after"]["state"]) == ("new run", "suspended")
        assert cloned.run("render").exit_code == 0


def test_rendered_files_are_parsed_once_on_each_side(
    cloned: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    documents = training.documents

    def counted(run: PlannedRun, name: str, text: str) -> Iterator[dict[str, Any]]:
        parsed.append(run.object)
        return documents(run, name, text)

    monkeypatch.setattr(training, "documents", counted)
    job("nodes: 2", "nodes: 3")(cloned)
    change = changed(cloned)
    assert sorted(parsed) == sorted(change[side]["object"] for side in ("before", "after"))


@pytest.mark.parametrize(("old", "new"), [("2h", "1h"), ("2h", "3h"), ("1h30m", "90m")])
def test_a_run_that_gets_less_time_may_end_at_once(old: str, new: str, cloned: Repository) -> None:
    edit(cloned, "prod/jobs/llm.yaml", "maxDuration: 2h", f"maxDuration: {old}")
    assert cloned.run("render").exit_code == 0
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    edit(cloned, "prod/jobs/llm.yaml", f"maxDuration: {old}", f"maxDuration: {new}")
    ends = ";\n  it fails once it has run for 1h, and at once if it has already"
    assert (ends in cloned.run("plan", "--against", "main").stdout) is (new == "1h")
