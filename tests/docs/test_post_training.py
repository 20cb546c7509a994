"""Every example of docs/post-training.md is sound, short, and renders to the commands below it."""

from __future__ import annotations

import re
import shlex
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from documentation import ROOT, Block, blocks
from repository import Repository
from trainwright.cli import main
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import operators
from trainwright.objects.pods.pod import Pod

PAGE = ROOT / "docs/post-training.md"
LINES = 25  # of a spec, without what every file begins with
ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
targets: {jobset: {version: "0.12"}}
gitops: {engine: argocd}
pools:
  h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 64}
  cpu: {}
queueing: kueue
queues: {team: {}}
defaults: {target: jobset, queue: team, maxDuration: 1d}
"""
EXAMPLES = [
    (spec, shown)
    for spec, shown in pairwise(blocks(PAGE))
    if spec.language == "yaml" and shown.language == "text"
]


def _commands(folder: Path) -> str:
    """The command of each group of pods, as the page has them."""
    bodies = [
        body
        for path in sorted(folder.glob("*.yaml"))
        if path.name != "values.yaml"
        for body in yaml.safe_load_all(path.read_text())
    ]
    workload = operators.workload(tuple(Manifest(body=body) for body in bodies))
    groups: dict[str, list[Pod]] = {}
    for pod in (*workload.training, *workload.pods):
        groups.setdefault(pod.role, []).append(pod)
    lines = [
        f"{role} ({len({pod.name for pod in pods})}): {shlex.join(pods[0].argv)}\n"
        for role, pods in groups.items()
    ]
    return re.sub(r"-[0-9a-f]{8}\b", "-HASH", "".join(lines))


@pytest.mark.parametrize(("spec", "shown"), EXAMPLES, ids=lambda block: block.place)
def test_an_example_renders_to_what_the_page_shows(
    spec: Block, shown: Block, tmp_path: Path
) -> None:
    name = yaml.safe_load(spec.text)["name"]
    assert len(spec.text.splitlines()) - 2 <= LINES
    repository = Repository(tmp_path)
    repository.write("prod/environment.yaml", ENVIRONMENT)
    repository.write(f"prod/jobs/{name}.yaml", spec.text)
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    checked = repository.run("check", "--fail-on", "warning")
    assert checked.exit_code == 0, checked.output
    assert _commands(tmp_path / "environments/prod/rendered" / name) == shown.text


def test_the_page_has_all_of_them() -> None:
    assert len(EXAMPLES) == 8


@pytest.mark.slow
@pytest.mark.parametrize("job", ["judged", "grpo"])
def test_an_example_with_a_judge_learns(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if job == "grpo":
        pytest.importorskip("trl", reason="needs TRL: pip install trl")
    folder = tmp_path / "example"
    shutil.copytree(ROOT / "docs/examples/post-training", folder)
    monkeypatch.chdir(folder)
    checked = CliRunner().invoke(main, ["check", "--fail-on", "note"])
    assert checked.exit_code == 0, checked.output
    done = CliRunner().invoke(main, ["rehearse", f"dev/{job}"])
    assert done.exit_code == 0, done.output
    scores = re.search(r"(?:score|reward) ([0-9.]+) to ([0-9.]+), 2 ranks", done.stdout)
    assert scores, done.output
    first, last = map(float, scores.groups())
    assert last > 2 * first
