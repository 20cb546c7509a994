"""`check --fix`: the diff first, then the files, and only what is beyond doubt."""

from __future__ import annotations

from pathlib import Path

import pytest

from repository import Repository

POOLS = "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 8}}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.environment("prod", POOLS)
    made.job("prod/llm")
    return made


def text(repository: Repository, name: str = "llm") -> str:
    return (repository.root / f"environments/prod/jobs/{name}.yaml").read_text()


def test_the_diff_comes_first_and_nothing_is_written_without_consent(
    repository: Repository,
) -> None:
    repository.job("prod/llm", "retires: 2  # often enough\n")
    before = text(repository)
    shown = repository.run("check", "--fix")
    assert "-retires: 2  # often enough\n+retries: 2  # often enough\n" in shown.output
    assert "nothing is written without --yes" in shown.output
    assert 'unknown key "retires"' in shown.output
    assert (shown.exit_code, text(repository)) == (1, before)
    written = repository.run("check", "--fix", "--yes")
    assert written.exit_code == 0
    assert "no findings in 1 job" in written.output
    assert text(repository) == before.replace("retires", "retries")


def test_several_remedies_one_after_the_other(repository: Repository) -> None:
    """What a first mistake hides is found after it, and fixed as well."""
    repository.job("prod/llm", "retires: 0\npool: h10\n")
    done = repository.run("check", "--fix", "--yes")
    found = text(repository)
    assert "pool: h100\n" in found
    assert "retires" not in found
    assert "findings (TW010, TW0" in done.output


def test_what_brings_another_finding_is_undone(repository: Repository) -> None:
    repository.job("prod/llm", "node: 3\n")  # there is nodes already
    before = text(repository)
    done = repository.run("check", "--fix", "--yes")
    assert (done.exit_code, text(repository)) == (1, before)
    assert "nothing to fix by itself" in done.output


def test_others_are_left_alone(repository: Repository) -> None:
    repository.job("prod/llm", "retires: 2\n")
    repository.job("prod/other", "retires: 2\n")
    repository.run("check", "--fix", "--yes", "prod/other")
    assert "retires" in text(repository)
    assert "retries" in text(repository, "other")


def test_bytes_that_are_not_text_stay(repository: Repository) -> None:
    path = repository.root / "environments/prod/jobs/llm.yaml"
    raw = path.read_bytes() + b"retires: 2 # \xff\n"
    path.write_bytes(raw)
    repository.run("check", "--fix", "--yes")
    assert path.read_bytes() == raw


def test_a_credential_is_not_shown(repository: Repository) -> None:
    secret = "hf_abcdefghijklmnopqrstuvwxyz012345"
    repository.job("prod/llm", f"env: {{HUB_TOKEN: {secret}}}\nretires: 2\n")
    done = repository.run("check", "--fix", "--yes")
    assert secret not in done.output
    assert secret in text(repository)
    assert "retries: 2" in text(repository)


GPUS = "resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 64"


@pytest.mark.parametrize(
    ("environment", "job"),
    [
        ("", "target: jobset\n"),  # there is such a target, and it is not installed
        ("queueing: none\nqueues: {main: {}, others: {}}\n", "queue: main\n"),
        ("queueing: none\nqueues: {main: {}}\n", "queue: main\n"),
        (f"pools: {{l40: {{{GPUS}}}}}\n", "pool: l40s\n"),  # of another environment
        (f"pools: {{a100-40gb: {{{GPUS}}}}}\n", "pool: a100-80gb\n"),
        (f"pools: {{h100-east: {{{GPUS}}}, h100-west: {{{GPUS}}}}}\n", "pool: h100-est\n"),
        (f"pools: {{cpu: {{}}, h100: {{{GPUS}}}}}\n", "pool: gb200\n"),
        (f"pools: {{h100: {{{GPUS}}}}}\n", "pool: gb200\n"),
        ("", "target: tfjob\n"),
        ("queueing: kueue\nqueues: {team-a: {}, team-b: {}}\n", "queue: team-c\n"),
        ("", "extends: base/bert-v3\n"),
        ("", "extends: base/bert-v\n"),
    ],
)
def test_what_trains_where_is_never_chosen(
    repository: Repository, environment: str, job: str
) -> None:
    """Neither a value that exists and does not suit, nor one that is like several or like none."""
    repository.environment("other", f"pools: {{l40s: {{{GPUS}}}}}\n")
    for version in (1, 2):
        repository.job(f"base/bert-v{version}")
    repository.environment("prod", environment)
    repository.job("prod/llm", job)
    before = text(repository)
    done = repository.run("check", "--fix", "--yes", "prod/llm")
    assert "error[TW0" in done.output
    assert (done.exit_code, text(repository)) == (1, before)


@pytest.mark.parametrize(
    ("environment", "job", "fixed"),
    [
        (f"pools: {{cpu: {{}}, h100: {{{GPUS}}}}}\n", "pool: h10\n", "pool: h100\n"),
        ("", "target: pytorchjb\n", "target: pytorchjob\n"),
        ("", "target: PyTorchJob\n", "target: pytorchjob\n"),
        ("", "extends: base/bert-lage\n", "extends: base/bert-large\n"),
    ],
)
def test_a_slip_of_one_name_is_mended(
    repository: Repository, environment: str, job: str, fixed: str
) -> None:
    repository.environment("prod", environment)
    repository.job("base/bert-large")
    repository.job("prod/llm", job)
    repository.run("check", "--fix", "--yes", "prod/llm")
    assert fixed in text(repository)


@pytest.mark.parametrize(
    ("written", "fixed"),
    [
        ("flags: {lr 0.1, epochs: 3}\n", "flags: {lr: 0.1, epochs: 3}\n"),
        ("flags:\n  lr 0.1\n  epochs: 3\n", "flags:\n  lr: 0.1\n  epochs: 3\n"),
        ("env: {LEVEL: “info”, “OTHER”: x}\n", 'env: {LEVEL: "info", OTHER: x}\n'),
        ("flags: {lr: 0,1}\n", "flags: {lr: 0,1}\n"),  # 0.1, or two devices
    ],
)
def test_entries_that_yaml_reads_otherwise(
    repository: Repository, written: str, fixed: str
) -> None:
    repository.job("prod/llm", written)
    repository.run("check", "--fix", "--yes")
    assert text(repository).endswith(fixed)


# --- a spec that is wrapped like a Kubernetes object -----------------------------------------------

WRAPPED = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
metadata:
  name: llm
  labels: {team: nlp}
spec:  # as in a Deployment
  # who asks for it
  image: {repository: registry.example.com/ml/train, tag: "1.0"}
  entrypoint:
    inline: |
      import torch

      print(torch.__version__)
  resources: {cpu: "1", memory: 1Gi}
  nodes: 2
  maxDuration: 2h
"""
UNWRAPPED = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
labels: {team: nlp}
# who asks for it
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint:
  inline: |
    import torch

    print(torch.__version__)
resources: {cpu: "1", memory: 1Gi}
nodes: 2
maxDuration: 2h
"""


def test_a_wrapped_spec_is_one_finding_and_is_unwrapped(repository: Repository) -> None:
    repository.write("prod/jobs/llm.yaml", WRAPPED)
    shown = repository.run("check", "--no-cache").stdout
    assert shown.count("error[") == 1
    assert "llm.yaml:6:1" in shown
    assert "without metadata and spec: `name: llm`, `image`, `entrypoint`, `resources`" in shown
    done = repository.run("check", "--fix", "--yes")
    assert done.exit_code == 0, done.output
    assert text(repository) == UNWRAPPED


@pytest.mark.parametrize(
    ("written", "fixed"),
    [
        (WRAPPED.replace("nodes: 2", "nods: 2"), UNWRAPPED),  # another mistake in it
        (WRAPPED.replace("\n", "\r\n"), UNWRAPPED.replace("\n", "\r\n")),
        ("kind: JobSpec\nmetadata: {name: llm}\nspec: {nodes: 2}\n", "kind: JobSpec\nname: llm\nnodes: 2\n"),
    ],
)  # fmt: skip
def test_it_is_unwrapped_however_it_is_written(
    repository: Repository, written: str, fixed: str
) -> None:
    path = repository.root / "environments/prod/jobs/llm.yaml"
    path.write_bytes(written.encode())
    repository.run("check", "--fix", "--yes")
    assert path.read_bytes() == fixed.encode()


@pytest.mark.parametrize(
    "written",
    [
        WRAPPED.replace("  name: llm\n", "  name: llm\n  namespace: other\n"),
        WRAPPED.replace("spec:  #", "nodes: 3\nspec:  #"),
    ],
)
def test_what_would_be_lost_is_left_to_people(repository: Repository, written: str) -> None:
    repository.write("prod/jobs/llm.yaml", written)
    repository.run("check", "--fix", "--yes")
    assert text(repository) == written


def test_a_wrapped_environment_and_a_wrapped_base_are_unwrapped(repository: Repository) -> None:
    head = "apiVersion: trainwright.io/v1alpha1\nkind: Environment\n"
    path = repository.root / "environments/prod/environment.yaml"
    path.write_text(
        f'{head}spec:\n  namespace: t\n  kubernetes: {{version: "1.31"}}\n  targets: {{pytorchjob: {{}}}}\n'
    )
    repository.write("base/jobs/big.yaml", WRAPPED.replace("llm", "big"))
    repository.write("prod/jobs/llm.yaml", "kind: JobSpec\nname: llm\nextends: base/big\n")
    assert repository.run("check", "--no-cache").stdout.count("error[") == 1
    assert repository.run("check", "--fix", "--yes").exit_code == 0
    assert "spec" not in path.read_text()
