"""What a plan says of environments and jobs under another name, and what its commands delete."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import git_repository
from git_repository import git
from repository import Copied, Repository
from trainwright.documents import yamlio
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Folder
from trainwright.plan import names
from trainwright.runs.workspace import Workspace

ENVIRONMENT = """\
pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 64, pricePerGpuHour: 2}}
queueing: kueue
queues: {team: {}}
gitops:
  engine: argocd
  prune: confirm
  repository: {url: "https://git.example.com/ml.git", revision: main}
"""
HEAD = "metadata: {name: NAME, namespace: training}\n"
OBJECTS = {
    "quota": f"apiVersion: v1\nkind: ResourceQuota\n{HEAD}"
    'spec: {hard: {requests.nvidia.com/gpu: "64"}}\n',
    "work": f"apiVersion: v1\nkind: PersistentVolumeClaim\n{HEAD}"
    "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n",
    "team": f"apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\n{HEAD}"
    "spec: {clusterQueue: a}\n",
    "plain": f"apiVersion: v1\nkind: ConfigMap\n{HEAD}data: {{a: b}}\n",
}
SAVES = (
    "volumes: {work: {claim: work, mountPath: /work}, own: {create: {size: 1Gi}, mountPath: /own}}\n"
    "checkpoint: {volume: work, path: llm}\n"
)


def _job(made: Repository, name: str, extra: str = "") -> None:
    path = made.job(name, f"pool: h100\n{extra}")
    path.write_text(path.read_text().replace("memory: 1Gi}", "memory: 1Gi, gpu: 8}"))


def _prod(folder: Path, gitops: str = "prune: confirm") -> None:
    made = Repository(git_repository.init(folder))
    made.environment("prod", ENVIRONMENT.replace("prune: confirm", gitops))
    _job(made, "prod/llm", SAVES)
    _job(made, "prod/vit")
    for name, text in OBJECTS.items():
        made.write(f"prod/objects/{name}.yaml", text.replace("NAME", name))
    merged(made)


def _immediate(folder: Path) -> None:
    _prod(folder, "prune: immediate")


def _flux(folder: Path) -> None:
    _prod(folder, "prune: immediate")
    made = Repository(folder)
    made.edit("prod/environment.yaml", "argocd", "flux")
    merged(made)


def merged(made: Repository) -> None:
    done = made.run("render")
    assert done.exit_code == 0, done.output
    git_repository.commit(made.root)


@pytest.fixture
def prod(copied: Copied, tmp_path: Path) -> Repository:
    """Two runs of 16 GPUs each, one of which saves checkpoints, and four objects beside them."""
    return copied(_prod, tmp_path / "clone")


def rename(made: Repository, old: str = "prod", new: str = "live") -> None:
    (made.root / f"environments/{old}").rename(made.root / f"environments/{new}")


def copy(made: Repository) -> None:
    shutil.copytree(made.root / "environments/prod", made.root / "environments/live")


def render(made: Repository) -> None:
    done = made.run("render")
    assert done.exit_code == 0, done.output


def plan(made: Repository, *patterns: str, code: int = 0) -> dict[str, Any]:
    done = made.run("plan", *patterns, "--against", "HEAD", "-o", "json")
    assert done.exit_code == code, done.output
    found: dict[str, Any] = json.loads(done.stdout)["plan"]
    return found


def said(made: Repository, output: str = "text", *patterns: str) -> str:
    done = made.run("plan", *patterns, "--against", "HEAD", "-o", output)
    assert done.exit_code in (0, 1), done.output  # 1 before it is rendered
    return re.sub(r"\\([-()])", r"\1", done.stdout) if output == "markdown" else done.stdout


def applied(made: Repository) -> set[tuple[str, str, str]]:
    """Namespace, kind and name of each object that git has, in whatever environment."""
    rendered = made.root.glob("environments/*/rendered/*/*.yaml")
    bodies = [
        body
        for path in rendered
        if path.name != "values.yaml"
        for body in yamlio.load_rendered(path.read_text())
    ]
    return {
        (body["metadata"]["namespace"], body["kind"].lower(), body["metadata"]["name"])
        for body in bodies
    }


def deleted(text: str) -> set[tuple[str, str, str]]:
    """The same of each object that a command in a text deletes."""
    commands = re.findall(r"kubectl --namespace (\S+) delete ((?:[a-z.]+/[-a-z0-9.]+ ?)+)", text)
    return {
        (namespace, *one.split("/")) for namespace, objects in commands for one in objects.split()
    }


def _quota(made: Repository) -> None:
    rename(made)
    made.edit("live/objects/quota.yaml", '"64"', '"8"')


def _trains_otherwise(made: Repository) -> None:
    rename(made)
    made.edit("live/jobs/llm.yaml", "nodes: 2", "nodes: 1")


def _lets_a_job_go(made: Repository) -> None:
    rename(made)
    (made.root / "environments/live/jobs/vit.yaml").unlink()


def _moves_an_object(made: Repository) -> None:
    """To an environment that was there, in the same namespace."""
    other = made.root / "environments/other/objects"
    other.mkdir()
    (made.root / "environments/prod/objects/work.yaml").rename(other / "work.yaml")


def _splits_a_copy(made: Repository) -> None:
    """The run that one of two jobs leaves is that of the other one."""
    copy(made)
    merged(made)
    made.edit("live/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    (made.root / "environments/live/jobs/vit.yaml").unlink()
    shutil.rmtree(made.root / "environments/live/objects")


EDITS: dict[str, tuple[Callable[[Repository], None], set[str]]] = {
    "as it is": (rename, set()),
    "with a lower quota": (_quota, set()),
    "with another run": (_trains_otherwise, {"llm"}),
    "without a job": (_lets_a_job_go, {"vit"}),
    "an object": (_moves_an_object, set()),
    "a copy": (_splits_a_copy, set()),
}


@pytest.mark.parametrize("case", EDITS)
def test_no_command_deletes_what_another_environment_has_after_the_merge(
    case: str, prod: Repository
) -> None:
    change, gone = EDITS[case]
    prod.environment("other", ENVIRONMENT)
    merged(prod)
    change(prod)
    if not gone:
        assert deleted(said(prod)) == set()
    render(prod)
    kept = applied(prod)
    assert ("training", "persistentvolumeclaim", "work") in kept
    if change is _splits_a_copy:
        assert said(prod).startswith("Starts 1 run beside the old one")
    for output in ("text", "markdown", "json"):
        told = deleted(said(prod, output))
        assert told & kept == set()
        assert {name.rpartition("-")[0] for *_, name in told} == gone


@pytest.mark.parametrize("patterns", [("prod",), ("live",), ("prod", "live"), ("live/llm",)])
def test_so_it_is_where_a_part_is_planned(patterns: tuple[str, ...], prod: Repository) -> None:
    rename(prod)
    render(prod)
    assert deleted(said(prod, "text", *patterns)) == set()


def test_a_renamed_environment_reads_as_what_it_is(prod: Repository) -> None:
    rename(prod)
    render(prod)
    found = plan(prod)
    assert found["verdict"] == (
        "Renames environment prod · every sync of live fails · 2 runs go on under live "
        "· objects: 4 moved"
    )
    changes = {it["job"]: it for it in found["changes"]}
    assert {name: (it["action"], it["was"]) for name, it in changes.items()} == {
        "live/llm": ("goes on", "prod/llm"),
        "live/vit": ("goes on", "prod/vit"),
    }
    assert all(it["ending"] is None for it in changes.values())
    assert {it["requests"]["gpus"]["high"] for it in changes.values()} == {0}
    assert {it["name"]: [it[side]["gpus"]["low"] for side in ("before", "after")]
            for it in found["environments"]} == {"live": [32, 32], "prod": [0, 0]}  # fmt: skip
    text, comment = said(prod), said(prod, "markdown")
    assert "ENVIRONMENT  LIMIT" not in text
    assert "\nlive/llm and 1 more  goes on: llm-" in text
    assert text.count("live/llm") == text.count("live/vit") == 1
    objects = "ConfigMap/plain, PersistentVolumeClaim/work, ResourceQuota/quota, LocalQueue/team"
    assert f"\nlive  {objects} go on: they were in prod\n" in text
    assert f"- live {objects} go on: they were in prod\n" in comment.replace("  ", " ")
    for output in (text, comment):
        assert (
            "its runs in git and its objects are those of the new name: delete none of them"
            in output
        )
        assert "allows less" not in output


@pytest.mark.parametrize("forged", [False, True])
def test_what_is_not_rendered_again_after_a_rename_is_one_error(
    forged: bool, prod: Repository
) -> None:
    """Of what differs from what was rendered under the former name each file is one, as ever."""
    rename(prod)
    prod.edit("live/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    if forged:
        prod.edit("live/rendered/llm/pytorchjob.yaml", "train.py", "mine.py")
        prod.edit("live/rendered/_objects/quota.yaml", "64", "640")
    errors = [it for it in plan(prod, code=1)["findings"] if it["rule"] == "TW057"]
    files = [it["message"] for it in errors if "are as rendered for prod" in it["message"]]
    assert files == [f"{6 if forged else 8} files in live/rendered are as rendered for prod"]
    text, comment = said(prod), said(prod, "markdown")
    assert text.count("TW057") == 1
    for output in (text, comment):
        assert output.count(files[0]) == 1
        assert output.count("no source renders this") == (2 if forged else 0)
    assert ("new run: after the merge llm-" in text) is not forged
    first = '1 rendered file was edited by hand (llm: command "train.py" → "mine.py") · 1 rendered '
    assert text.startswith(first) is forged


def test_what_is_edited_as_well_is_compared_with_what_was_there(prod: Repository) -> None:
    rename(prod)
    prod.edit("live/environment.yaml", "capacity: 64", "capacity: 16")
    prod.edit("live/jobs/vit.yaml", "nodes: 2", "nodes: 2\nmaxDuration: 9h")
    prod.edit("live/jobs/vit.yaml", "maxDuration: 2h\n", "")
    prod.edit("live/objects/quota.yaml", '"64"', '"8"')
    render(prod)
    found = plan(prod)
    quota = next(it for it in found["objects"] if it["object"] == "ResourceQuota/quota")
    assert (quota["action"], quota["other"]) == ("changed", "prod")
    assert quota["effects"][0].startswith("allows less (requests.nvidia.com/gpu 64 → 8)")
    vit = next(it for it in found["changes"] if it["job"] == "live/vit")
    assert [(it["path"], it["before"], it["after"]) for it in vit["causes"]] == [
        ("maxDuration", '"2h"', '"9h"')
    ]
    pool = next(it for it in found["environments"] if it["name"] == "live")["capacity"][0]
    assert (pool["hasBefore"], pool["short"], pool["shortBefore"]) == (64, 16, 0)


@pytest.mark.parametrize("named", [False, True])
def test_argo_cd_refuses_what_bears_the_mark_of_another_name(named: bool, prod: Repository) -> None:
    """Unless its objects keep the name."""
    rename(prod)
    if named:
        prod.edit("live/environment.yaml", "  engine", "  name: training-prod\n  engine")
    render(prod)
    refused = (
        "every sync of training-live fails, since Argo CD's tracking annotation of these objects "
        "names training-prod: before the merge write `gitops.name: training-prod` in "
        "environments/live/environment.yaml, which keeps the name, and then delete nothing"
    )
    assert (" · every sync of live fails · " in said(prod).split("\n")[0]) is not named
    for output in ("text", "markdown"):
        assert (refused in said(prod, output)) is not named


def test_an_engine_that_deletes_has_runs_made_again(copied: Copied, tmp_path: Path) -> None:
    """They are called as before, and find what they saved; all their hours count again."""
    prod = copied(_immediate, tmp_path / "clone")
    rename(prod)
    render(prod)
    found = plan(prod)
    assert found["verdict"].startswith(
        "Renames environment prod · every sync of live fails · replaces 2 running jobs · "
    )
    assert found["losesProgress"] == 1
    changes = {it["job"]: it for it in found["changes"]}
    assert changes.keys() == {"live/llm", "live/vit"}
    name = changes["live/llm"]["after"]["object"]
    assert changes["live/llm"]["why"] == (
        f"the merge deletes {name}, the run of prod/llm, and live/llm makes it again, which finds "
        f"what it saved in /work/llm/{name} on claim work"
    )
    assert "which trains from the start; its progress is lost" in changes["live/vit"]["why"]
    assert {key: [it["requests"][key]["high"] for it in changes.values()] for key in
            ("gpus", "gpuHours", "cost")} == {
        "gpus": [0, 0], "gpuHours": [32, 32], "cost": [64, 64],
    }  # fmt: skip
    text = said(prod)
    assert "`prune: immediate` has its runs deleted and made again: to keep them, merge " in text
    assert deleted(text) == set()


@pytest.mark.parametrize("engine", ["argocd", "flux"])
def test_an_engine_that_finds_no_folder_deletes_nothing(
    engine: str, copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_immediate, tmp_path / "clone")
    prod.edit("prod/environment.yaml", "argocd", f"{engine}\n  applications: environment")
    merged(prod)
    rename(prod)
    render(prod)
    assert {it["action"] for it in plan(prod)["changes"]} == {"goes on"}
    assert deleted(said(prod)) == set()


def test_flux_deletes_nothing_until_its_kustomization_is_deleted(
    copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_flux, tmp_path / "clone")
    rename(prod)
    render(prod)
    assert {it["action"] for it in plan(prod)["changes"]} == {"goes on"}
    text = said(prod)
    assert "Argo CD" not in text
    assert (
        "; delete the Flux Kustomizations `training-prod` and `training-prod-*` in namespace "
        "flux-system only once training-live has synced, and nothing in namespace training" in text
    )
    assert deleted(text) == set()


@pytest.mark.parametrize(
    ("make", "by", "told"),
    [
        (_prod, "job", "deletes them at once, and no run with them"),
        (
            _immediate,
            "job",
            "",
        ),  # the ApplicationSet deletes its Applications, wiring/ synced or not
        (_immediate, "environment", "deletes them at once, and no run with them"),
        (
            _flux,
            "job",
            "deletes them at once, and with them each run that training-live has not applied by "
            "then: merge `prune: confirm` and apply wiring/ first, or keep them by `gitops.name: "
            "training-prod` in environments/live/environment.yaml",
        ),
    ],
)
def test_what_a_sync_of_wiring_deletes_at_a_rename(
    make: Callable[[Path], None], by: str, told: str, copied: Copied, tmp_path: Path
) -> None:
    """Of what `gitops wire` writes a Kustomization deletes what it applied, an Application only
    with a finalizer. Nothing is told where wiring/ is elsewhere, or has the same names.
    """
    prod = copied(make, tmp_path / "clone")
    prod.edit("prod/environment.yaml", "  engine", f"  applications: {by}\n  engine")
    wired = ("gitops", "wire", "--out", str(prod.root / "wiring"))
    merged(prod)
    for has_wiring, name in ((False, ""), (True, ""), (True, "training-prod")):
        if has_wiring:
            assert prod.run(*wired).exit_code == 0
            merged(prod)
        rename(prod)
        if name:
            prod.edit("live/environment.yaml", "  engine", f"  name: {name}\n  engine")
        render(prod)
        notes = (said(prod), said(prod, "markdown"))
        rename(prod, "live", "prod")
        git(prod.root, "checkout", "--quiet", "--", ".")
        is_told = bool(has_wiring and told and not name)
        assert ["a sync of wiring/ that prunes" in it for it in notes] == [is_told] * 2
        assert not is_told or all(f"a sync of wiring/ that prunes {told}" in it for it in notes)


def test_what_a_copied_environment_begins_with_is_there_already(prod: Repository) -> None:
    copy(prod)
    render(prod)
    found = plan(prod)
    assert found["verdict"] == "Shares 2 runs with prod · objects: 4 added"
    for change in found["changes"]:
        assert change["action"] == "goes on"
        assert change["was"] == change["job"].replace("live", "prod")
        assert change["requests"]["cost"]["high"] == change["requests"]["gpus"]["high"] == 0
        assert change["why"].endswith(
            ", too: nothing starts, and both apply it: every sync of the second fails"
        )
    assert {(it["action"], it["other"]) for it in found["objects"]} == {("added", "prod")}
    assert not any(it["effects"] for it in found["objects"])
    for output in ("text", "markdown"):
        assert "PersistentVolumeClaim/work is added (prod has it, too)" in said(prod, output)
    assert "shared run 2 (live/llm, live/vit)" in said(prod, "markdown")


BOTH = {
    "argocd": "every sync of the second fails",
    "flux": "it is of whichever has applied it last, and goes with that one",
}


@pytest.mark.parametrize("engine", BOTH)
def test_a_copy_in_the_same_namespace_collides_in_the_plan_of_the_merge_that_makes_it(
    engine: str, prod: Repository
) -> None:
    """TW041, which `check` has of every tree then; a later merge has it no more."""
    wired = ("gitops", "wire", "--out", str(prod.root / "wiring"))
    prod.edit("prod/environment.yaml", "argocd", engine)
    assert prod.run(*wired).exit_code == 0
    merged(prod)
    copy(prod)
    render(prod)
    assert prod.run(*wired).exit_code == 0
    (found,) = (it for it in plan(prod)["findings"] if it["rule"] == "TW041")
    assert found["message"].startswith("prod renders the same objects into training: llm-")
    assert found["place"]["file"] == "environments/live/environment.yaml"
    assert f"nothing starts, and both apply it: {BOTH[engine]}" in " ".join(said(prod).split())
    assert "TW041" in said(prod, "markdown")
    git_repository.commit(prod.root)
    prod.edit("live/jobs/vit.yaml", "nodes: 2", "nodes: 2\nlabels: {a: b}")
    assert all(it["rule"] != "TW041" for it in plan(prod)["findings"])


GOES_ON = "its runs in git and its objects are those of the new name: delete none of them"


@pytest.mark.parametrize(
    ("make", "first", "told"),
    [
        (_prod, "leaves 2 runs to other jobs · objects: 4 moved", GOES_ON),
        (_flux, "leaves 2 runs to other jobs · objects: 4 moved", GOES_ON),
        (
            _immediate,
            "deletes 2 running jobs · 1 loses progress · +64 GPU-h · +$128",
            "`prune: immediate` has its runs deleted and made again",
        ),
    ],
)
def test_a_rename_in_two_merges_reads_as_one(
    make: Callable[[Path], None], first: str, told: str, copied: Copied, tmp_path: Path
) -> None:
    """The first one copies the environment, the second one removes what it was."""
    prod = copied(make, tmp_path / "clone")
    copy(prod)
    merged(prod)
    shutil.rmtree(prod.root / "environments/prod")
    fails = "" if make is _flux else " · every sync of live fails"
    assert plan(prod)["verdict"] == f"Renames environment prod{fails} · {first}"
    for output in ("text", "markdown"):
        assert f"environment prod is renamed to live; {told}" in said(prod, output)
        assert "sync a folder that is gone" not in said(prod, output)
    assert deleted(said(prod)) == set()


def test_the_part_that_is_gone_names_what_has_its_runs_and_objects(prod: Repository) -> None:
    rename(prod)
    render(prod)
    verdict = "Renames environment prod · every sync of live fails · leaves 2 runs to other jobs"
    assert said(prod, "text", "prod").startswith(f"{verdict} · objects: 4 moved\n")
    changes = {it["job"]: it["why"] for it in plan(prod, "prod")["changes"]}
    assert re.fullmatch(r"llm-\w{8} is the run of live/llm", changes["prod/llm"])
    assert "prod  PersistentVolumeClaim/work stays: live has it  (" in said(prod, "text", "prod")


def test_a_renamed_environment_that_cannot_be_read_keeps_its_sums(prod: Repository) -> None:
    rename(prod)
    prod.edit("live/environment.yaml", "queueing", "queueing: [")
    done = prod.run("plan", "--against", "HEAD", "-o", "json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)["plan"]
    assert found["changes"] == []
    assert {it["name"]: [it[side]["gpus"]["low"] for side in ("before", "after")]
            for it in found["environments"]} == {"live": [32, 32], "prod": [0, 0]}  # fmt: skip


@pytest.mark.parametrize("change", [rename, copy])
def test_a_new_environment_that_nothing_applies_is_told(
    change: Callable[[Repository], None], prod: Repository
) -> None:
    missing = "wiring/ has nothing of live, which no engine applies then unless it is wired"
    change(prod)
    assert missing not in said(prod)  # nothing is wired here
    git(prod.root, "checkout", "--quiet", "--", ".")
    shutil.rmtree(prod.root / "environments/live")
    assert prod.run("gitops", "wire", "--out", "wiring").exit_code == 0
    merged(prod)
    change(prod)
    render(prod)
    assert missing in said(prod)
    assert plan(prod)["wiring"]["missing"] == ["live"]
    assert prod.run("gitops", "wire", "--out", "wiring").exit_code == 0
    assert missing not in said(prod)


@pytest.mark.parametrize("prune", ["confirm", "immediate", "flux"])
def test_a_renamed_job_trains_again(prune: str, copied: Copied, tmp_path: Path) -> None:
    """And says whether the new run goes on from the checkpoints of the old one."""
    make = {"confirm": _prod, "immediate": _immediate, "flux": _flux}[prune]
    prod = copied(make, tmp_path / "clone")
    jobs = prod.root / "environments/prod/jobs"
    (jobs / "llm.yaml").rename(jobs / "llama.yaml")
    prod.edit("prod/jobs/llama.yaml", "name: llm", "name: llama")
    _job(prod, "prod/other", "flags: {lr: 0.1}\n")
    render(prod)
    changes = {it["job"]: it for it in plan(prod)["changes"]}
    assert changes.keys() == {"prod/llama", "prod/other"}
    assert (changes["prod/other"]["action"], changes["prod/other"]["was"]) == ("starts", "")
    llama = changes["prod/llama"]
    assert (llama["action"], llama["was"]) == ("new run", "prod/llm")
    old, new = (llama[side]["object"] for side in ("before", "after"))
    resumed = f"{new} starts from scratch (`checkpoint.resumeFrom: llm/{old}` would resume)"
    assert resumed in llama["why"]
    assert llama["why"].endswith("; it is prod/llm under another name")
    requests = {key: llama["requests"][key]["high"] for key in ("gpus", "gpuHours", "cost")}
    held = 0 if prune == "immediate" else 16  # by the old run, which goes on
    assert requests == {"gpus": held, "gpuHours": 32, "cost": 64}
    assert (f"{old} keeps training (16 GPUs) beside it" in llama["why"]) is (prune != "immediate")
    command = {"confirm": f"delete pytorchjob/{old}", "flux": "delete kustomization/"}
    assert command.get(prune, "stops") in llama["why"]
    assert deleted(said(prod)) & applied(prod) == set()


@pytest.mark.parametrize(
    ("new", "extra", "linked"),
    [
        ("nodes: 3", "", True),
        ("nodes: 2", "flags: {lr: 0.1}\n", True),
        ("nodes: 3", "env: {A: '1', B: '2', C: '3', D: '4', E: '5', F: '6', G: '7'}\n", False),
    ],
)
def test_a_job_that_is_renamed_and_edited_is_the_one_with_most_of_its_values(
    new: str, extra: str, linked: bool, prod: Repository
) -> None:
    (prod.root / "environments/prod/jobs/vit.yaml").unlink()
    _job(prod, "prod/vision", extra)
    prod.edit("prod/jobs/vision.yaml", "nodes: 2", new)
    _job(prod, "prod/other")  # is vit as it was, but for another program
    prod.edit("prod/jobs/other.yaml", "train.py", "evaluate.py")
    render(prod)
    changes = {it["job"]: (it["action"], it["was"]) for it in plan(prod)["changes"]}
    alone = {"prod/vision": ("starts", ""), "prod/vit": ("left running", "")}
    renamed = {"prod/vision": ("new run", "prod/vit")}
    assert changes == {"prod/other": ("starts", ""), **(renamed if linked else alone)}
    assert ("it has most values of prod/vit, which is gone" in said(prod)) is linked


def test_a_job_that_is_edited_is_not_one_that_another_is_as_it_was(prod: Repository) -> None:
    """Though it has as much in common with that."""
    _job(prod, "prod/ada")
    _job(prod, "prod/vit", "flags: {lr: 0.1}\n")
    merged(prod)
    for name in ("ada", "vit"):
        (prod.root / f"environments/prod/jobs/{name}.yaml").unlink()
    _job(prod, "prod/same")
    _job(prod, "prod/next")
    prod.edit("prod/jobs/next.yaml", "nodes: 2", "nodes: 3")
    render(prod)
    changes = {it["job"]: (it["action"], it["was"]) for it in plan(prod)["changes"]}
    assert changes == {
        "prod/same": ("new run", "prod/ada"),
        "prod/next": ("new run", "prod/vit"),
    }


def _elsewhere(made: Repository, old: str, new: str) -> None:
    made.environment("dev", ENVIRONMENT)
    made.edit("dev/environment.yaml", old, new)
    jobs = made.root / "environments/prod/jobs/next.yaml"
    jobs.rename(made.write("dev/jobs/next.yaml", ""))


def _without_claim(made: Repository) -> None:
    made.edit("prod/environment.yaml", "confirm", "immediate")
    (made.root / "environments/prod/objects/work.yaml").unlink()
    made.edit("prod/objects/plain.yaml", "a: b", "a: c")


def _in_another_environment(made: Repository) -> None:
    _elsewhere(made, "prune: confirm", "prune: immediate")
    _without_claim(made)


IN_WORK = "/work/llm/LLM on claim work"
RESUMED: dict[str, tuple[Callable[[Repository], object], str]] = {
    "it goes on": (lambda _: None, f"resumes from the checkpoints in {IN_WORK}"),
    "it has left git": (
        lambda made: made.edit("prod/jobs/next.yaml", "LLM", "OLD"),
        "resumes from the checkpoints in /work/llm/OLD on claim work",
    ),
    "it never was": (
        lambda made: made.edit("prod/jobs/next.yaml", "LLM", "llm-deadbeef"),
        "loads the checkpoints in /work/llm/llm-deadbeef on claim work, if there are any: git has "
        "no run llm-deadbeef",
    ),
    "another claim": (
        lambda made: made.edit("prod/jobs/next.yaml", "claim: work", "claim: other"),
        "cannot resume from /work/llm/LLM on claim other, unless what LLM saved on claim work is "
        "copied there",
    ),
    "another namespace": (
        lambda made: _elsewhere(made, "namespace: training", "namespace: dev"),
        f"cannot resume from {IN_WORK}, unless what LLM saved in namespace training is copied there",
    ),
    "another cluster": (
        lambda made: _elsewhere(made, "prune:", "destination: {name: other}\n  prune:"),
        f"cannot resume from {IN_WORK}, unless what LLM saved in another cluster is copied there",
    ),
    "no claim": (_without_claim, "cannot resume from /work/llm/LLM: the merge deletes claim work"),
    "no claim of another environment": (
        _in_another_environment,
        "cannot resume from /work/llm/LLM: the merge deletes claim work",
    ),
}


@pytest.mark.parametrize("case", RESUMED)
def test_a_new_job_says_what_it_resumes_from(case: str, prod: Repository) -> None:
    """The run after which the folder is called is found in git, though it has left it."""
    change, told = RESUMED[case]
    old = _object(prod)
    prod.edit("prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    merged(prod)
    names = {"OLD": old, "LLM": _object(prod)}
    _job(prod, "prod/next", SAVES.replace("path: llm", "path: next, resumeFrom: llm/LLM"))
    change(prod)
    spec = next(prod.root.glob("environments/*/jobs/next.yaml"))
    for short, name in names.items():
        spec.write_text(spec.read_text().replace(short, name))
        told = told.replace(short, name)
    (found,) = (it for it in plan(prod)["changes"] if it["job"].endswith("/next"))
    assert found["action"] == "starts"
    assert found["why"].partition("; ")[2] == told
    assert told in " ".join(said(prod).split())
    assert told in " ".join(said(prod, "markdown").split())


def _object(made: Repository) -> str:
    lock = made.root / "environments/prod/rendered/llm/run.lock"
    name: str = json.loads(lock.read_text())["object"]
    return name


def test_a_claim_that_leaves_git_is_not_to_be_deleted_under_a_run(prod: Repository) -> None:
    (prod.root / "environments/prod/objects/work.yaml").unlink()
    render(prod)
    for output in ("text", "markdown", "json"):
        told = "do not delete it before the runs that mount it have ended: prod/llm"
        assert told in said(prod, output)


@pytest.mark.parametrize("engine", ["argocd", "flux"])
@pytest.mark.parametrize("named", [False, True])
def test_the_wiring_of_the_former_name_is_deleted_only_where_it_is_not_that_of_the_new_one(
    engine: str, named: bool, prod: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(prod.root)
    prod.edit("prod/environment.yaml", "argocd", engine)
    wire = ("gitops", "wire", "--out", "wiring")
    assert prod.run(*wire).exit_code == 0
    merged(prod)
    before = _wired(prod, "prod")
    rename(prod)
    if named:
        prod.edit("live/environment.yaml", "  engine", "  name: training-prod\n  engine")
    render(prod)
    done = prod.run(*wire)
    after = _wired(prod, "live")
    assert bool(before & after) is named
    shown = [git(prod.root, "show", it) for it in re.findall(r"git show (\S+) \|", done.stderr)]
    bodies = [body for text in shown for body in yamlio.load_rendered(text)]
    told = {_identity(body) for body in bodies} | deleted(done.stderr)
    assert told & after == set()
    assert told == before - after


def _identity(body: dict[str, Any]) -> tuple[str, str, str]:
    metadata = body["metadata"]
    return (metadata.get("namespace", ""), body["kind"].lower(), metadata["name"])


def _wired(made: Repository, environment: str) -> set[tuple[str, str, str]]:
    paths = (made.root / f"wiring/{environment}").glob("*.yaml")
    return {_identity(it) for path in paths for it in yamlio.load_rendered(path.read_text())}


def _leaves(made: Repository, name: str) -> None:
    """One run replaced, and one job removed."""
    made.edit(f"{name}/jobs/vit.yaml", "nodes: 2", "nodes: 1")
    (made.root / f"environments/{name}/jobs/llm.yaml").unlink()


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("other", [False, True], ids=["some go on", "none goes on"])
def test_runs_that_are_left_count_against_the_limits_of_the_new_name(
    other: bool, earlier: bool, prod: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of this merge and of an earlier one, as without the rename; also where the new
    environment has the namespace alone of what was there.
    """
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2026-01-01")  # the day of the commits
    if other:
        shutil.rmtree(prod.root / "environments/prod/objects")
    else:
        _job(prod, "prod/asr")
    merged(prod)
    if earlier:
        prod.edit("prod/jobs/vit.yaml", "nodes: 2", "nodes: 3")
        merged(prod)
        prod.edit("prod/jobs/vit.yaml", "nodes: 3", "nodes: 2")
    _leaves(prod, "prod")
    prod.edit("prod/environment.yaml", "queueing", "budget: {gpuHours: 79}\nqueueing")
    rename(prod)
    checked = prod.run("check", "--against", "HEAD").stdout
    rename(prod, "live", "prod")
    render(prod)
    there, before = said(prod), plan(prod)
    rename(prod)
    render(prod)
    here, after = said(prod), plan(prod)
    over = r"the runs of \w+, (\d no longer in git, request \d+ GPU-hours)"
    (found,) = re.findall(over, str(before["findings"]))
    assert found.startswith(f"{2 + earlier} ")
    assert re.findall(over, str(after["findings"])) == re.findall(over, checked) == [found]
    assert "(removed)" not in here
    assert "(renamed)" not in here
    row = r"^(?:prod|live) +(pool h100 .*? GPUs|budget .*? few)"
    assert re.findall(row, here, re.MULTILINE) == re.findall(row, there, re.MULTILINE) != []


def test_a_renamed_environment_alone_is_not_called_removed(prod: Repository) -> None:
    rename(prod)
    _leaves(prod, "live")
    render(prod)
    text = said(prod, "text", "prod")
    assert re.search(r"^prod \(renamed\) +pool h100 ", text, re.MULTILINE)
    assert "(removed)" not in text


def test_a_job_that_moves_to_an_environment_of_the_same_namespace_goes_on(prod: Repository) -> None:
    """Though objects bear the name of the environment, in templates of pods too."""
    prod.environment("nlp", ENVIRONMENT)
    jobs = prod.root / "environments/nlp/jobs"
    jobs.mkdir()
    (prod.root / "environments/prod/jobs/vit.yaml").rename(jobs / "vit.yaml")
    render(prod)
    (change,) = plan(prod)["changes"]
    assert (change["job"], change["action"], change["was"]) == ("nlp/vit", "goes on", "prod/vit")
    prod.edit("nlp/jobs/vit.yaml", "nodes: 2", "nodes: 2\nretries: 9")
    render(prod)
    (change,) = plan(prod)["changes"]
    assert change["action"] != "goes on"


def test_one_of_two_new_environments_is_the_former_one(prod: Repository, tmp_path: Path) -> None:
    """Both have its runs: what is left of it must not count twice."""
    before = tmp_path / "before"
    shutil.copytree(prod.root, before)
    copy(prod)
    rename(prod, "prod", "second")
    sides = (Workspace(Tracked(Folder(it))) for it in (before, prod.root))
    assert names.environments(*sides) == {"live": "prod"}
