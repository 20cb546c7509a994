"""A stranger opens the page of a plan: what will be lost is in the first screen, whatever the merge.

Ten merges, each on a screen and on a phone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import git_repository
from git_repository import git
from opened_page import Visit
from repository import Repository

SCREEN, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
AT_ONCE = "{engine: argocd, prune: immediate}"
CONFIRMED = "{engine: argocd}"
ENVIRONMENT = """\
pools: {{h100: {{resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 48, pricePerGpuHour: 6.98}}}}
gitops: {gitops}
"""
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: {name}
image: {{repository: registry.example.com/ml/train, tag: "1.0"}}
entrypoint: {{script: train.py}}
flags: {{lr: 0.1}}
resources: {{cpu: "1", memory: 1Gi, gpu: 8}}
pool: h100
maxDuration: 12h
state: active
nodes: {nodes}
"""
SAVES = "volumes: {out: {claim: ckpt, mountPath: /out}}\ncheckpoint: {volume: out, path: runs}\n"
JOBS = {  # one that saves, and three that do not
    "saves": JOB.format(name="saves", nodes=2) + SAVES,
    "bert": JOB.format(name="bert", nodes=1),
    "resnet": JOB.format(name="resnet", nodes=1),
    "wide": JOB.format(name="wide", nodes=1),
}
FASTER = ("lr: 0.1", "lr: 0.2")
LOST = "the run with 8 GPUs ends, and nothing of it is kept"
LATER = "the run with 8 GPUs keeps training until its object is deleted, and nothing of it"


@dataclass(frozen=True)
class Merge:
    """Edits of jobs, a text and what replaces it (all of a new job), or None for a removed one,
    and what the first screen says, in order. Nothing else is lost.
    """

    edits: Mapping[str, tuple[str, str] | None]
    says: tuple[str, ...]
    lost: Mapping[str, int] = field(default_factory=dict)  # trainings by the badge that counts them
    gitops: str = AT_ONCE


MERGES = {
    "a run that saves nothing is replaced": Merge(
        {"bert": FASTER},
        ("Replaces 1 running job", "loses progress 1", f"prod/bert new run: {LOST}"),
        {"loses progress": 1},
    ),
    "a run that saves is replaced": Merge(
        {"saves": FASTER}, ("Replaces 1 running job", "prod/saves", "what it saved stays in")
    ),
    "a run goes on beside the new one": Merge(
        {"bert": FASTER},
        (
            "Starts 1 run beside the old one",
            "loses progress later 1",
            f"prod/bert new run: {LATER} is kept",
        ),
        {"loses progress later": 1},
        CONFIRMED,
    ),
    "a run is suspended": Merge(
        {"bert": ("state: active", "state: suspended")},
        ("Suspends 1 job", "1 job loses its progress", f"prod/bert suspends: {LOST}"),
        {"loses progress": 1},
    ),
    "a run is cancelled": Merge(
        {"bert": ("state: active", "state: cancelled")},
        ("Cancels 1 running job", f"prod/bert cancelled: {LOST}"),
        {"loses progress": 1},
    ),
    "a job is removed": Merge(
        {"bert": None, "saves": None},
        ("Deletes 2 running jobs", "loses progress 1", f"prod/bert deleted: {LOST}"),
        {"loses progress": 1},
    ),
    "a job is removed, and its run goes on": Merge(
        {"bert": None},
        (
            "Leaves 1 job running",
            "loses progress later 1",
            f"prod/bert left running: {LATER} is kept",
        ),
        {"loses progress later": 1},
        CONFIRMED,
    ),
    "a job is new": Merge({"new": ("", JOB.format(name="new", nodes=1))}, ("Starts 1 job · +96",)),
    "a comment": Merge(
        {"bert": ("nodes: 1", "# enough\nnodes: 1")}, ("Nothing changes for any job", "none change")
    ),
    "an error, two lost trainings and a full pool": Merge(
        {
            "resnet": ("nodes: 1", "nodes: two"),
            "bert": ("state: active", "state: suspended"),
            "wide": FASTER,
            "new": ("", JOB.format(name="new", nodes=4)),
        },
        (
            "Cannot render 1 job",
            "broken 1",
            'prod/resnet nodes must be an integer, found a string: "two"',
            "loses progress 2",
            f"prod/wide new run: {LOST}",
            f"prod/bert suspends: {LOST}",
            "over limit 1",
            "prod pool h100 64 of 48 GPUs: 16 too few",
        ),
        {"loses progress": 2},
    ),
}

# The words of a page that a reader sees without scrolling: in the window, and not clipped.
SEEN = """() => {
  const words = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const { 0: word, index } of node.data.matchAll(/\\S+/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      const { x, y, width, height } = range.getBoundingClientRect();
      const hit = width && document.elementFromPoint(x + width / 2, y + height / 2);
      if (hit && (hit === node.parentElement || hit.contains(node))) words.push(word);
    }
  }
  return words.join(" ");
}"""


@pytest.mark.parametrize("merge", MERGES.values(), ids=MERGES)
def test_what_will_be_lost_is_in_the_first_screen(
    merge: Merge, visit: Visit, tmp_path: Path
) -> None:
    made = Repository(git_repository.init(tmp_path / "clone"))
    made.environment("prod", ENVIRONMENT.format(gitops=merge.gitops))
    for name, text in JOBS.items():
        made.write(f"prod/jobs/{name}.yaml", text)
    assert made.run("render").exit_code == 0
    git_repository.commit(made.root, "Begin")
    git(made.root, "checkout", "--quiet", "-b", "change")
    for name, edit in merge.edits.items():
        spec = made.root / f"environments/prod/jobs/{name}.yaml"
        if edit is None:
            spec.unlink()
        else:
            spec.write_text(JOBS.get(name, "").replace(*edit) if edit[0] else edit[1])
    made.run("render")
    text = made.run("plan", "--against", "main", "-o", "html").stdout
    for viewport in (SCREEN, PHONE):
        seen = visit(text, viewport=viewport).page.evaluate(SEEN)
        rest = seen
        for words in merge.says:
            assert words in rest, seen
            rest = rest.partition(words)[2]
        counted = re.findall(r"(loses progress(?: later)?) (\d+)", seen)
        assert {kind: int(count) for kind, count in counted} == dict(merge.lost)
