"""`admin eject`: no object differs, and nothing of what is written needs Trainwright."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from repository import EVERY_TARGET, Repository
from trainwright.files.tree import Folder
from trainwright.helm import own_chart
from trainwright.helm.engines import OtherChart
from trainwright.runs.workspace import Workspace
from trainwright.setup.eject import eject

TARGETS = ("pytorchjob", "trainingjob", "trainjob", "jobset", "job", "compose")
OBJECT = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: shared, namespace: training}
data: {a: b}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "here")
    base = "apiVersion: trainwright.io/v1alpha1\nkind: Environment\nnamespace: training\n"
    text = f'{base}kubernetes: {{version: "1.34"}}\n{EVERY_TARGET}'
    repository.write("prod/environment.yaml", text)
    for target in TARGETS:
        path = repository.job(f"prod/a-{target}", f"target: {target}\n")
        if target == "compose":
            user = "security: {runAsUser: 1000}\n"
            path.write_text(path.read_text().replace("nodes: 2\nmaxDuration: 2h\n", user))
    repository.job("prod/a", "target: job\nfiles: {/etc/a.txt: {content: '# not a header\\n'}}\n")
    repository.write("prod/objects/shared.yaml", OBJECT)
    rendered = repository.run("render")
    assert rendered.exit_code == 0, rendered.output
    return repository


def _objects(folder: Path) -> dict[str, list[Any]]:
    """Of each manifest that a kustomization lists."""
    (listed,) = yaml.safe_load_all((folder / "kustomization.yaml").read_text())
    return {
        path: list(yaml.safe_load_all((folder / path).read_text())) for path in listed["resources"]
    }


def test_every_object_is_the_same(repository: Repository, tmp_path: Path) -> None:
    done = repository.run("admin", "eject", str(tmp_path / "there"))
    assert done.exit_code == 0, done.output
    before = _objects(repository.root / "environments/prod/rendered")
    assert _objects(tmp_path / "there/prod") == before
    assert f"there/prod: {sum(map(len, before.values()))} objects" in done.stdout
    files = [path for path in (tmp_path / "there/prod").rglob("*") if path.is_file()]
    kept = {PurePosixPath(path) for path in repository.tree() if not path.endswith("run.lock")}
    there = {PurePosixPath("prod/rendered") / p.relative_to(tmp_path / "there/prod") for p in files}
    assert there == kept
    assert not [path for path in files if "Rendered by Trainwright" in path.read_text()]
    assert repository.run("render", "--check").exit_code == 0


@pytest.mark.parametrize("target", TARGETS)
def test_the_chart_that_comes_along_renders_them(
    repository: Repository, tmp_path: Path, target: str
) -> None:
    repository.run("admin", "eject", str(tmp_path / "there"), "prod")
    job = tmp_path / f"there/prod/a-{target}"
    chart = OtherChart(tmp_path / "there/chart")
    values = yaml.safe_load((job / "values.yaml").read_text())
    rendered = chart.render(values, f"a-{target}", "training")
    manifests = {path.name: path.read_text() for path in job.iterdir()} | {"values.yaml": ""}
    assert {n: list(yaml.safe_load_all(text)) for n, text in rendered.items()} == {
        n: list(yaml.safe_load_all(text)) for n, text in manifests.items() if text
    }


def test_values_of_another_chart_are_left_out(repository: Repository, tmp_path: Path) -> None:
    """Runs keep what they began with; here the chart makes something else of one target now."""
    chart = Path(shutil.copytree(own_chart.FOLDER, tmp_path / "chart"))
    template = chart / "templates/job.yaml"
    template.write_text(template.read_text().replace("kind: Job\n", "kind: CronJob\n"))
    workspace = Workspace(Folder(repository.root))
    (ejected,) = eject(workspace, ("prod",), OtherChart(chart))
    assert ejected.without_values == ("a", "a-job")
    assert "a-job/values.yaml" not in ejected.files
    assert {"a-job/job.yaml", "a-jobset/values.yaml"} < ejected.files.keys()


def test_what_is_refused(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/README.md").write_text("mine\n")
    done = repository.run("admin", "eject", str(tmp_path / "there"))
    assert done.exit_code == 2
    assert "README.md" in done.stderr
    assert "would be overwritten" in done.stderr
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["README.md"]
    one = repository.run("admin", "eject", str(tmp_path / "new"), "prod/a")
    assert one.exit_code == 2
    assert "whole" in one.stderr
    path = repository.root / "environments/prod/jobs/a.yaml"
    path.write_text(path.read_text().replace("nodes: 2", "nodes: 3"))
    stale = repository.run("admin", "eject", str(tmp_path / "new"))
    assert stale.exit_code == 1
    assert "environments/prod/rendered/" in stale.stderr
    assert "run `trainwright render`, and apply that first" in stale.stderr
    path.write_text("nodes: many\n")
    broken = repository.run("admin", "eject", str(tmp_path / "new"))
    assert broken.exit_code == 1
    assert "the specs have errors" in broken.stderr
    assert not (tmp_path / "new").exists()
