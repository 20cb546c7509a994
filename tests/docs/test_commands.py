"""Every command of the pages: it is run over a prepared repository and prints what is shown.

Those that need what no test machine has carry the reason, in a comment above their block:
`<!-- not run: needs a cluster -->`. Their commands and options are still those that there are.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from documentation import ROOT, Block, blocks, missing, pages, steps
from git_repository import committed, git, init
from repository import ENVIRONMENT, Repository
from trainwright.cli import main

_RUN_BY_ITSELF = "docs/tutorial.md"  # in test_tutorial.py
_SHELL = re.compile(r"[|>&;$]|^cd ")
_COMMENTS = re.compile(r"\s+# .*$")


def _runnable(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "console" and not block.not_run]


def test_every_page_with_commands_is_prepared() -> None:
    found = {page.relative_to(ROOT).as_posix() for page in pages() if _runnable(page)}
    assert set(PREPARED) == found - {_RUN_BY_ITSELF}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test per page that is prepared, without reading any while tests are collected."""
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", PREPARED)


def test_the_commands_of_a_page_work(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2026-06-01")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    PREPARED[page](folder)
    for number, block in enumerate(_runnable(ROOT / page)):
        BEFORE.get((page, number), lambda _: None)(folder)
        for step in steps(block):
            code, printed = _typed(_COMMENTS.sub("", step.command), monkeypatch)
            assert code in ((0, 1) if step.shown else (0,)), (block.place, step.command, printed)
            unseen = missing(step.shown, printed)
            assert not unseen, f"{block.place}: {step.command}\n{unseen!r} not in:\n{printed}"
    AFTER.get(page, lambda _: None)(folder)


def _typed(command: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The exit code and what is printed, in this process where no shell is needed for it."""
    words = shlex.split(command)
    if words[0] == "trainwright" and not _SHELL.search(command):
        ended = CliRunner().invoke(main, words[1:])
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        return ended.exit_code, ended.output
    done = subprocess.run(
        ["bash", "-c", f"set -e; {command}\npwd"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    printed, _, last = done.stdout.rstrip("\n").rpartition("\n")
    if done.returncode:
        return done.returncode, done.stdout
    monkeypatch.chdir(last)
    return 0, printed


def _typed_lines() -> Iterator[tuple[str, str]]:
    """Each command line that starts with trainwright: in blocks, and in the text between them."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for block in blocks(page):
            if block.language == "console":
                yield from ((block.place, step.command) for step in steps(block))
        for inline in re.findall(r"(?<!`)`(trainwright [^`\n]+)`(?!`)", text):
            yield page.name, inline


def test_every_command_and_option_that_is_named_exists() -> None:
    wrong = []
    for place, line in _typed_lines():
        for part in re.split(r"\s*[|;]\s*|&&", _COMMENTS.sub("", line)):
            words = part.split()
            if words[:1] == ["trainwright"] and (problem := _unknown(words[1:])):
                wrong.append((place, part, problem))
    assert wrong == []


def test_every_command_and_option_of_an_example_in_the_help_exists() -> None:
    helped = [command.epilog or "" for command in _commands(main)]
    lines = [line.strip() for text in helped for line in text.splitlines()[2:]]
    assert len(lines) > 40
    assert [line for line in lines if _unknown(shlex.split(line)[1:])] == []


def _commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    context = click.Context(command)
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        assert isinstance(command, click.Group)
        below = command.get_command(context, name)
        assert below is not None
        yield from _commands(below)


def _unknown(words: list[str]) -> str:
    """The first word that is neither a command nor an option of it."""
    command: click.Command = main
    context = click.Context(main)
    for word in words:
        if word == "--":
            return ""
        name = word.partition("=")[0].strip("'\"")
        if isinstance(command, click.Group) and not name.startswith("-"):
            if not re.fullmatch("[a-z]+", name):  # a choice in prose, or the value of an option
                continue
            found = command.get_command(context, name)
            if found is None:
                return "" if _is_a_value(words, word) else word
            command = found
        elif re.fullmatch(r"--[a-z-]+|-[A-Za-z]", name) and name not in _options(command):
            return name
    return ""


def _is_a_value(words: list[str], word: str) -> bool:
    before = words[words.index(word) - 1] if words.index(word) else ""
    return before.startswith("-")


def _options(command: click.Command) -> set[str]:
    own = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    return own | {"--help", "-h", "--version"}


# What each page finds when its first command is typed, and what happens before a later block.

_TARGETS = """\
targets: {pytorchjob: {version: "1.9", restrictedInitContainer: true}, trainjob: {version: "2.3"}}
"""
_POOL = """\
pools:
  h100: {resource: nvidia.com/gpu, gpusPerNode: 4, capacity: 16, pricePerGpuHour: 6.98}
budget: {gpuHours: 1500}
"""
_JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
pool: h100
resources: {cpu: "32", memory: 256Gi, gpu: 4}
nodes: 2
maxDuration: 12h
"""


def _committed(folder: Path) -> None:
    """Everything as a commit of main, as the remote has it."""
    if not (folder / ".git").exists():
        init(folder)
    git(folder, "update-ref", "refs/remotes/origin/main", committed(folder))


def _edit(folder: Path, path: str, old: str, new: str) -> None:
    text = (folder / path).read_text(encoding="utf-8")
    assert old in text, (path, old)
    (folder / path).write_text(text.replace(old, new), encoding="utf-8")


def _with_a_remote(folder: Path) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", folder.parent / "remote"], check=True)
    git(folder, "remote", "add", "origin", str(folder.parent / "remote"))


def _without_a_repository(_: Path) -> None:
    """The page makes one."""


def _environment(folder: Path, extra: str = "", targets: str = _TARGETS) -> Repository:
    repository = Repository(folder)
    text = ENVIRONMENT.partition("targets:")[0] + targets + _POOL + extra
    repository.write("prod/environment.yaml", text)
    return repository


def _one_job(folder: Path) -> None:
    engine = "gitops: {repository: {url: 'https://git.example.com/ml/training.git'}}\n"
    repository = _environment(folder, engine)
    repository.write("prod/jobs/llm.yaml", _JOB)
    repository.run("render")
    _committed(folder)


def _the_job_of_the_readme(folder: Path) -> None:
    block = next(block for block in blocks(ROOT / "README.md") if block.language == "yaml")
    path = folder / "training/environments/prod/jobs/resnet.yaml"
    path.write_text(block.text, encoding="utf-8")


def _its_run_is_the_one_that_is_named(folder: Path) -> None:
    record = folder / "training/environments/prod/rendered/resnet/run.lock"
    name = json.loads(record.read_text(encoding="utf-8"))["object"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"  {name} will start\n" in readme
    assert f"named `{name}`" in readme


def _a_shallow_clone(folder: Path) -> None:
    """Of what the page has made so far, as CI checks it out; with the hooks installed."""
    made = Path.cwd()
    git(made, "config", "user.name", "Ada")
    (made / ".git/hooks/pre-commit").write_text("#!/bin/sh\n", encoding="utf-8")
    head = git(made, "rev-parse", "HEAD")
    (made / ".git/shallow").write_text(f"{head}\n", encoding="utf-8")


_SBATCH = """\
#!/bin/bash
#SBATCH --job-name=llama-ft
#SBATCH --nodes=2
#SBATCH --time=12:00:00
#SBATCH --container-image=registry.example.com#ml/llama:1.4.0

module load cuda
HEAD=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
srun torchrun --nnodes=$SLURM_NNODES --rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500 train.py
"""


def _a_kubeflow_job(folder: Path) -> None:
    _environment(folder)
    (folder / "mnist.yaml").write_text(_KUBEFLOW, encoding="utf-8")
    (folder / "finetune.sbatch").write_text(_SBATCH, encoding="utf-8")


def _a_job_of_the_old_operator(folder: Path) -> None:
    Repository(folder).write(
        "prod/jobs/llm.yaml",
        _JOB.replace(
            "nodes: 2\n", "nodes: 4\ntarget: pytorchjob # the installed base\nretries: 2\n"
        ),
    )
    elastic = "target: pytorchjob\nelastic: {minNodes: 1, maxNodes: 3}\n"
    text = _JOB.replace("name: llm", "name: elastic").replace("nodes: 2\n", elastic)
    Repository(folder).write("prod/jobs/elastic.yaml", text)
    for name in ("pytorch-dist-mnist-nccl", "llama-ft"):
        (folder / f"environments/prod/jobs/{name}.yaml").unlink()


def _behind(folder: Path) -> None:
    """The job extends a base, whose epochs changed after its run had begun."""
    repository = Repository(folder)
    base = _JOB.replace("name: llm\n", "name: llm\nflags: {epochs: 3}\n")
    repository.write("base/jobs/llm.yaml", base)
    own = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: llm\nextends: base/llm\n"
    repository.write("prod/jobs/llm.yaml", own)
    repository.run("render")
    _edit(folder, "environments/base/jobs/llm.yaml", "epochs: 3", "epochs: 5")


def _manifests(folder: Path) -> None:
    _one_job(folder)
    (folder / "deploy").mkdir()
    (folder / "deploy/jobs.yaml").write_text(_WIDGET, encoding="utf-8")
    (folder / "extra.json").write_text(
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra"}}', encoding="utf-8"
    )
    (folder / "crds").mkdir()
    (folder / "crds/widgets.yaml").write_text(_WIDGETS, encoding="utf-8")
    _committed(folder)


def _another_size(folder: Path) -> None:
    _edit(folder, "deploy/jobs.yaml", "size: 1", "size: 2")


def _two_edits(folder: Path) -> None:
    repository = _environment(folder)
    _edit(folder, "environments/prod/environment.yaml", "capacity: 16", "capacity: 8")
    text = _JOB.replace("name: llm\n", "name: bert-mrpc\nflags: {epochs: 3}\n")
    repository.write("prod/jobs/bert-mrpc.yaml", text)
    text = _JOB.replace("name: llm", "name: cifar10-cnn").replace("nodes: 2", "nodes: 1")
    repository.write("prod/jobs/cifar10-cnn.yaml", text)
    repository.write("prod/jobs/resnet.yaml", text.replace("cifar10-cnn", "resnet"))
    repository.run("render")
    _committed(folder)
    _edit(folder, "environments/prod/jobs/bert-mrpc.yaml", "epochs: 3", "epochs: 5")
    path = folder / "environments/prod/jobs/cifar10-cnn.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "state: suspended\n", encoding="utf-8")


def _an_edited_base(folder: Path) -> None:
    shutil.rmtree(folder / "environments")
    repository = _environment(folder)
    base = _JOB.replace("name: llm\n", "name: mnist\nflags: {epochs: 1}\n")
    repository.write("base/jobs/mnist.yaml", base.replace("nodes: 2", "nodes: 1"))
    for name in ("mnist", "mnist-large", "mnist-small"):
        own = f"apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: {name}\n"
        repository.write(f"prod/jobs/{name}.yaml", f"{own}extends: base/mnist\n")
    repository.run("render")
    _committed(folder)
    _edit(folder, "environments/base/jobs/mnist.yaml", "epochs: 1", "epochs: 4")


def _a_larger_budget(folder: Path) -> None:
    _two_edits(folder)
    git(folder, "checkout", "--quiet", "environments")
    _edit(folder, "environments/prod/environment.yaml", "gpuHours: 1500", "gpuHours: 3000")


def _a_longer_job(folder: Path) -> None:
    shutil.rmtree(folder / "environments")
    repository = _environment(folder, targets='targets: {trainjob: {version: "2.3"}}\n')
    job = _JOB.replace("name: llm\n", "name: llm\ntarget: trainjob\n")
    repository.write("prod/jobs/llm.yaml", job)
    repository.run("render")
    _committed(folder)
    _edit(folder, "environments/prod/jobs/llm.yaml", "maxDuration: 12h", "maxDuration: 13h")
    (folder / "crds").mkdir()
    (folder / "crds/trainjobs.yaml").write_text(_TRAINJOBS, encoding="utf-8")


def _a_branch_to_publish_to(folder: Path) -> None:
    _one_job(folder)
    _with_a_remote(folder)


def _a_running_team(folder: Path) -> None:
    _environment(folder, "podSecurity: baseline\n")
    _committed(folder)
    items = [_live("bert", "Running"), _live("llama", "Suspended"), _live("mnist", "Succeeded")]
    live = {"apiVersion": "v1", "kind": "List", "items": items}
    (folder / "live.yaml").write_text(json.dumps(live), encoding="utf-8")


def _live(name: str, state: str) -> dict[str, Any]:
    """A PyTorchJob as an API server gives it, applied by Argo CD."""
    (body,) = yaml.safe_load_all(_KUBEFLOW)
    tracked = f"ml-jobs:kubeflow.org/PyTorchJob:training/{name}"
    body["metadata"] = {
        "name": name,
        "namespace": "training",
        "uid": "7e1b0ef6-31b1-4a2c-9f37-5b6d2b1f6f1e",
        "annotations": {"argocd.argoproj.io/tracking-id": tracked},
    }
    body["spec"]["runPolicy"] = {"suspend": True} if state == "Suspended" else {}
    at = "2026-05-31T10:00:00Z"
    body["status"] = {"conditions": [{"type": state, "status": "True", "lastTransitionTime": at}]}
    return body


PREPARED: dict[str, Callable[[Path], None]] = {
    "README.md": _without_a_repository,
    "docs/adopting.md": _a_running_team,
    "docs/charts.md": _one_job,
    "docs/getting-started.md": _without_a_repository,
    "docs/gitops.md": _one_job,
    "docs/importing.md": _a_kubeflow_job,
    "docs/lifecycle.md": _one_job,
    "docs/manifests.md": _manifests,
    "docs/planning.md": _two_edits,
    "docs/proof.md": _one_job,
    "docs/publishing.md": _a_branch_to_publish_to,
    "docs/report.md": _one_job,
    "docs/skill.md": _one_job,
}
BEFORE: dict[tuple[str, int], Callable[[Path], object]] = {
    ("README.md", 1): _the_job_of_the_readme,
    ("docs/getting-started.md", 1): _a_shallow_clone,
    ("docs/importing.md", 2): _a_job_of_the_old_operator,
    ("docs/lifecycle.md", 1): _behind,
    ("docs/manifests.md", 1): _another_size,
    ("docs/planning.md", 1): _a_larger_budget,
    ("docs/planning.md", 2): _an_edited_base,
    ("docs/planning.md", 3): _a_longer_job,
    ("docs/planning.md", 4): lambda folder: git(folder, "checkout", "--quiet", "environments"),
}
AFTER: dict[str, Callable[[Path], object]] = {"README.md": _its_run_is_the_one_that_is_named}
_KUBEFLOW = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: pytorch-dist-mnist-nccl
spec:
  runPolicy:
    ttlSecondsAfterFinished: 600
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: Never
      template: &template
        spec:
          containers:
            - name: pytorch
              image: registry.example.com/ml/mnist:1.0
              command: [python, mnist.py]
              args: [--epochs, "10"]
              resources: {requests: {cpu: "1", memory: 1Gi}, limits: {memory: 1Gi}}
    Worker: {replicas: 1, restartPolicy: Never, template: *template}
"""
_TRAINJOBS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: trainjobs.trainer.kubeflow.org}
spec:
  group: trainer.kubeflow.org
  scope: Namespaced
  names: {kind: TrainJob, plural: trainjobs}
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              x-kubernetes-preserve-unknown-fields: true
              properties:
                activeDeadlineSeconds:
                  type: integer
                  format: int64
                  x-kubernetes-validations:
                    - {rule: self == oldSelf, message: field is immutable}
"""
_WIDGET = """\
apiVersion: example.com/v1
kind: Widget
metadata:
  name: one
  namespace: training
spec:
  owner: ml
  size: 1
"""
_WIDGETS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                owner: {type: string}
                size:
                  type: integer
                  x-kubernetes-validations:
                    - {rule: self == oldSelf, message: field is immutable}
"""
