"""Flux' Kustomizations as a real kustomize builds them, and the order in which Helm installs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.kinds import TARGETS

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[2] / "golden"
WIRED = Path(__file__).parent / "golden/flux-one-kustomization-for-the-environment/expected/prod"
OF_JOBS = Path(__file__).parent / "golden/flux-rendered-files-in-a-repository/expected/prod"
CASES = (
    "job-with-what-it-needs",
    "jobset-gpu-many-nodes-in-a-kueue-queue",
    "pytorchjob-with-what-it-needs",
    "trainingjob-elastic-with-the-agent",
    "trainjob-with-what-it-needs",
)
JOBS = {target.kind for target in TARGETS.values()}


def _build(kubectl: str, folder: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [body for body in yaml.safe_load_all(done.stdout) if body]


def _patched(folder: Path, kustomization: dict[str, Any]) -> None:
    """What Flux does: its own patches are added to those of the file."""
    path = folder / "kustomization.yaml"
    own = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**own, "patches": kustomization["spec"]["patches"]}))


@pytest.mark.parametrize("case", CASES)
def test_each_object_is_in_one_of_the_two(case: str, kubectl: str, tmp_path: Path) -> None:
    (rendered,) = (GOLDEN / case / "expected").glob("*/rendered")
    everything = _build(kubectl, rendered)
    parts = []
    for wired in yaml.safe_load_all((WIRED / "kustomizations.yaml").read_text()):
        folder = tmp_path / wired["metadata"]["name"]
        shutil.copytree(rendered, folder)
        _patched(folder, wired)
        parts.append(_build(kubectl, folder))
    first, then = parts
    assert {body["kind"] for body in then} <= JOBS
    assert not {body["kind"] for body in first} & JOBS
    assert then
    key = str
    assert sorted([*first, *then], key=key) == sorted(everything, key=key)


@pytest.mark.parametrize("case", CASES)
def test_a_kustomization_of_a_job_has_all_its_objects(
    case: str, kubectl: str, tmp_path: Path
) -> None:
    """Flux lists every YAML file of a folder in which nothing lists them, as far as it has it."""
    (rendered,) = (GOLDEN / case / "expected").glob("*/rendered")
    source = yaml.safe_load((OF_JOBS / "source.yaml").read_text())
    ignored = [line.rpartition("/")[2] for line in source["spec"]["ignore"].splitlines()]
    parts = []
    for path in (path for path in rendered.iterdir() if path.is_dir()):
        folder = tmp_path / path.name
        shutil.copytree(path, folder, ignore=shutil.ignore_patterns(*ignored))
        listed = {"resources": [each.name for each in sorted(folder.glob("*.y*ml"))]}
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(listed))
        parts += _build(kubectl, folder)
    assert sorted(parts, key=str) == sorted(_build(kubectl, rendered), key=str)


def test_helm_makes_a_trainjob_before_its_runtime(binary: Callable[[str], str]) -> None:
    """Which is why a HelmRelease of both is refused: the webhook wants the runtime first."""
    values = next(GOLDEN.glob("trainjob-2-3-with-own-runtime/expected/*/rendered/*/values.yaml"))
    chart = Path(__file__).parents[3] / "chart"
    done = subprocess.run(
        [binary("helm"), "template", "a", str(chart), "--values", str(values)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    kinds = [body["kind"] for body in yaml.safe_load_all(done.stdout) if body]
    assert kinds.index("TrainJob") < kinds.index("TrainingRuntime")
