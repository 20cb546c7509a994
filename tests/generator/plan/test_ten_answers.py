"""What a reviewer reads first: what a merge ends or keeps, of which run, and the command for it.

Ten merges, each in the text for a terminal, the comment and the page.
"""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

import git_repository
from git_repository import git
from repository import Repository

CONFIRMED, AT_ONCE = "{engine: argocd}", "{engine: argocd, prune: immediate}"
ENVIRONMENT = """\
pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 64}}
defaults: {env: {LEVEL: info}}
gitops: """
JOB = """\
name: llm
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
resources: {cpu: "1", memory: 1Gi, gpu: 8}
pool: h100
maxDuration: 2h
state: active
nodes: 2
"""
CLAIM = "volumes: {out: {claim: ckpt, mountPath: /out}}\n"
SAVES = CLAIM + "checkpoint: {volume: out, path: runs}\n"
SAVES_THERE = CLAIM + "flags: {output_dir: /out/llm}\n"
SAVES_REMOTELY = "flags: {output_dir: 's3://models/llm'}\n"
DELETION = "kubectl --namespace training delete pytorchjob/OLD"
GONE = "job spec removed"


@dataclass(frozen=True)
class Merge:
    """A change of a job, and what of it is read; OLD and NEW are the names of its runs."""

    headline: str
    happens: str
    gitops: str = CONFIRMED
    saves: str = ""
    old: str = "nodes: 2"
    new: str = "nodes: 3"
    begun: str = "state: active"


MERGES = {
    "it stops, and its progress is lost": Merge(
        "Replaces 1 running job · 1 job loses its progress",
        "new run: the merge stops OLD (16 GPUs), and its progress is lost: no variable or flag mak"
        "es it save checkpoints; NEW starts from scratch",
        gitops=AT_ONCE,
    ),
    "it stops, and another saves to its folder": Merge(
        "Replaces 1 running job · +",
        "new run: the merge stops OLD (16 GPUs), and what it saved stays in /out/llm on claim ckpt; "
        "NEW saves to the same folder, /out/llm on claim ckpt",
        gitops=AT_ONCE,
        saves=SAVES_THERE,
    ),
    "it stops, and its checkpoints stay": Merge(
        "Replaces 1 running job · +",
        "new run: the merge stops OLD (16 GPUs), and what it saved stays in /out/runs/OLD on claim "
        "ckpt; NEW starts from scratch (`checkpoint.resumeFrom: runs/OLD` would resume)",
        gitops=AT_ONCE,
        saves=SAVES,
    ),
    "it keeps training, and another saves to its folder": Merge(
        "Starts 1 run beside the old one · 1 job writes over its checkpoints · +",
        "new run: after the merge NEW saves to the same folder, /out/llm on claim ckpt, and OLD "
        f"keeps training (16 GPUs) beside it until `{DELETION}`; until then each of the two "
        "overwrites the checkpoints of the other: with `${{ run.name }}` in that path each run has "
        "a folder of its own",
        saves=SAVES_THERE,
    ),
    "it keeps training until it is deleted": Merge(
        "Starts 1 run beside the old one · +",
        "new run: after the merge NEW starts from scratch, and OLD keeps training (16 GPUs) beside "
        f"it until `{DELETION}`; after that its progress is lost: "
        "no variable or flag makes it save checkpoints",
    ),
    "no engine is named, and nothing is known to delete it": Merge(
        "Starts 1 run beside the old one · +",
        "new run: after the merge NEW starts from scratch, and OLD keeps training (16 GPUs) beside "
        f"it until `{DELETION}`; after that its progress is lost: "
        "no variable or flag makes it save checkpoints",
        gitops="{engine: none}",
    ),
    "its spec is gone, and it with it": Merge(
        "Deletes 1 running job · 1 job loses its progress",
        "deleted: its spec is gone; OLD: the next sync that prunes deletes the object and stops "
        "what it runs; its progress is lost: no variable or flag makes it save checkpoints",
        gitops=AT_ONCE,
        new=GONE,
    ),
    "its spec is gone, and it goes on": Merge(
        "Leaves 1 job running",
        f"left running: its spec is gone; OLD stays in the cluster until `{DELETION}`, and holds 16 "
        "GPUs until then; after that what it saved stays in /out/runs/OLD on claim ckpt",
        saves=SAVES,
        new=GONE,
    ),
    "its spec is gone, and it stays without pods": Merge(
        "Leaves 1 job suspended",
        f"left suspended: its spec is gone; OLD stays in the cluster until `{DELETION}`",
        begun="state: suspended",
        new=GONE,
    ),
    "it is cancelled, and what is saved elsewhere stays": Merge(
        "Cancels 1 running job · -",
        "cancelled: OLD: the next sync that prunes deletes the object and stops what it runs; what "
        "it saved stays in s3://models/llm",
        gitops=AT_ONCE,
        saves=SAVES_REMOTELY,
        old="state: active",
        new="state: cancelled",
    ),
    "it is suspended": Merge(
        "Suspends 1 job · 1 job loses its progress",
        "suspends: the pods of OLD are deleted, the object stays; its progress is lost: "
        "no variable or flag makes it save checkpoints",
        old="state: active",
        new="state: suspended",
    ),
    "it is extended in place": Merge(
        "Updates 1 job in place · +",
        "in place: OLD stays: accepted, and read by the controller",
        old="maxDuration: 2h",
        new="maxDuration: 3h",
    ),
    "it keeps an old value": Merge(
        "Outdates 1 job",
        "prod/llm is outdated until the next run",
        new="LEVEL: debug",
    ),
}


@pytest.mark.parametrize(
    ("gitops", "end"),
    [
        (CONFIRMED, "  NEW will start; OLD stays in the cluster until it is deleted\n"),
        (AT_ONCE, "  NEW will replace OLD\n"),
        ("{engine: none}", "  NEW will start; OLD stays in the cluster until it is deleted\n"),
    ],
    ids=["confirm", "immediate", "no engine"],
)
def test_rendering_names_what_becomes_of_the_run_before(
    gitops: str, end: str, tmp_path: Path
) -> None:
    made = Repository(git_repository.init(tmp_path / "clone"))
    made.environment("prod", f"{ENVIRONMENT}{gitops}\n")
    made.write("prod/jobs/llm.yaml", JOB)
    assert made.run("render").exit_code == 0
    git_repository.commit(made.root, "Begin")
    old = _run(made)
    made.write("prod/jobs/llm.yaml", JOB.replace("nodes: 2", "nodes: 3"))
    done = made.run("render")
    assert end.replace("OLD", old).replace("NEW", _run(made)) in done.stdout


_STAYS = "  OLD stays in the cluster until it is deleted\n"


@pytest.mark.parametrize(
    ("gitops", "spec", "said"),
    [
        (CONFIRMED, "", _STAYS),
        (AT_ONCE, "", "  OLD will be deleted\n"),
        (CONFIRMED, JOB.replace("name: llm", "name: other"), f"  other-RUN will start\n{_STAYS}"),
        (CONFIRMED, JOB.replace("state: active", "state: cancelled"), _STAYS),
        (CONFIRMED, JOB.replace("nodes: 2", "nodes: 3").replace("state: active", "state: suspended"),
         "  llm-RUN will be added as suspended; OLD stays in the cluster until it is deleted\n"),
    ],
    ids=["removed", "removed and pruned", "renamed", "cancelled", "suspended"],
)  # fmt: skip
def test_rendering_names_the_run_that_git_no_longer_has(
    gitops: str, spec: str, said: str, tmp_path: Path
) -> None:
    made = Repository(git_repository.init(tmp_path / "clone"))
    made.environment("prod", f"{ENVIRONMENT}{gitops}\n")
    path = made.write("prod/jobs/llm.yaml", JOB)
    made.write("prod/jobs/stays.yaml", JOB.replace("name: llm", "name: stays"))
    assert made.run("render").exit_code == 0
    git_repository.commit(made.root, "Begin")
    said = said.replace("OLD", _run(made))
    path.unlink()
    name = next(iter(re.findall("name: (.*)", spec)), "")
    if spec:
        made.write(f"prod/jobs/{name}.yaml", spec)
    printed = made.run("render").stdout
    assert re.sub(rf"(?<=  {name}-)\w{{8}}(?= will (?:start|be added))", "RUN", printed).endswith(
        said
    )


def test_rendering_and_the_plan_say_the_same_of_a_run_from_before_another_setting(
    tmp_path: Path,
) -> None:
    """Its object keeps what it was rendered with, by which no sync prunes it."""
    made = Repository(git_repository.init(tmp_path / "clone"))
    made.environment("prod", f"{ENVIRONMENT}{CONFIRMED}\n")
    made.write("prod/jobs/llm.yaml", JOB)
    assert made.run("render").exit_code == 0
    made.environment("prod", f"{ENVIRONMENT}{AT_ONCE}\n")
    for number, (rendered, planned) in enumerate(
        (
            ("NEW will start; OLD stays in the cluster until it is deleted", "OLD keeps training"),
            ("NEW will replace OLD", "the merge stops OLD"),
        ),
        3,
    ):
        git_repository.commit(made.root, "Begin")
        old = _run(made)
        made.write("prod/jobs/llm.yaml", JOB.replace("nodes: 2", f"nodes: {number}"))
        said = made.run("render").stdout
        assert rendered.replace("OLD", old).replace("NEW", _run(made)) in said
        plan = made.run("plan", "--against", "HEAD").stdout
        assert planned.replace("OLD", old) in plan


@pytest.fixture(params=MERGES)
def merge(request: pytest.FixtureRequest) -> Merge:
    return MERGES[request.param]


@pytest.fixture
def repository(merge: Merge, tmp_path: Path) -> Repository:
    """A repository in which a run was merged, and a branch that changes it."""
    made = Repository(git_repository.init(tmp_path / "clone"))
    made.environment("prod", f"{ENVIRONMENT}{merge.gitops}\n")
    made.write("prod/jobs/llm.yaml", JOB.replace("state: active", merge.begun) + merge.saves)
    assert made.run("render").exit_code == 0
    git_repository.commit(made.root, "Begin")
    git(made.root, "checkout", "--quiet", "-b", "change")
    return made


def _edit(repository: Repository, merge: Merge) -> None:
    spec = repository.root / "environments/prod/jobs/llm.yaml"
    if merge.new == GONE:
        spec.unlink()
    elif merge.new.startswith("LEVEL"):
        shared = f"{ENVIRONMENT}{merge.gitops}\n".replace("LEVEL: info", merge.new)
        repository.environment("prod", shared)
    else:
        spec.write_text(spec.read_text().replace(merge.old, merge.new))


def _run(repository: Repository) -> str:
    record = repository.root / "environments/prod/rendered/llm/run.lock"
    name: str = json.loads(record.read_text())["object"] if record.exists() else ""
    return name


def _plain(comment: str) -> str:
    """The text that a forge shows of a comment."""
    return html.unescape(re.sub(r"\\(.)", r"\1", comment)).replace("**", "").replace("\u2060", "")


def _page(text: str) -> tuple[str, str]:
    """The headline of a page and what it has of jobs and of shared files."""
    packed = max(re.findall(r"eN[A-Za-z0-9+/]{100,}={0,2}", text), key=len)
    data = json.loads(zlib.decompress(base64.b64decode(packed)))
    jobs = [f"{one['action']}: {one['why']}" for one in data["changes"]]
    return html.unescape(text), "\n".join([*jobs, *(one["reach"] for one in data["shared"])])


def test_it_is_in_the_first_words_of_the_terminal_the_comment_and_the_page(
    merge: Merge, repository: Repository
) -> None:
    old = _run(repository)
    _edit(repository, merge)
    assert repository.run("render").exit_code == 0
    happens = merge.happens.replace("OLD", old).replace("NEW", _run(repository))

    text = repository.run("plan", "--against", "main").stdout
    assert text.startswith(merge.headline)
    assert happens in text.replace(";\n  ", "; ")  # a line per clause

    comment = _plain(repository.run("plan", "--against", "main", "-o", "markdown").stdout)
    assert comment.splitlines()[1].startswith(f"### Trainwright: {merge.headline}")
    command = DELETION.replace("OLD", old)
    brief = happens.replace(f"until `{command}`", "until it is deleted")
    assert brief in comment.replace(";<br>", "; ")
    assert (f"- `{command}`\n" in comment) is (command in happens)

    shown, jobs = _page(repository.run("plan", "--against", "main", "-o", "html").stdout)
    assert f"<title>Plan: {merge.headline}" in shown
    assert happens in jobs


def test_programs_read_the_same_of_it(merge: Merge, repository: Repository) -> None:
    """What is lost, for each job and in sum, and the command that a person confirms it by."""
    old = _run(repository)
    _edit(repository, merge)
    assert repository.run("render").exit_code == 0
    plan = json.loads(repository.run("plan", "--against", "main", "-o", "json").stdout)["plan"]
    lost = re.search(r"(\d+) job loses its progress", merge.headline)
    assert plan["losesProgress"] == (int(lost[1]) if lost else 0)
    endings = [change["ending"] for change in plan["changes"] if change["ending"]]
    waits = DELETION in merge.happens and merge.begun == "state: active"
    ends = waits or "the merge stops" in merge.happens or "are deleted" in merge.happens
    assert len(endings) == (ends or "deletes the object" in merge.happens)
    for ending in endings:
        assert ending == {
            "object": old,
            "losesProgress": "progress is lost" in merge.happens,
            "waits": waits,
            "command": DELETION.replace("OLD", old) if waits else "",
        }
