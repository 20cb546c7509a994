"""A pool's own layer: `pools.<pool>.defaults`, which a job's effective `pool` chooses."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from repository import JOB, Repository
from trainwright.datatypes.layout import JobFile
from trainwright.files.tree import Folder
from trainwright.render import build
from trainwright.runs.workspace import Workspace

POOLS = """\
defaults: {shm: 2Gi, env: {NCCL_DEBUG: WARN, TEAM: ml}}
pools:
  a3:
    resource: nvidia.com/gpu
    nodeSelector: {pool: a3}
    defaults:
      shm: 64Gi
      env: {NCCL_DEBUG: INFO, NCCL_SOCKET_IFNAME: eth0}
      flags: {lr: 1e-4}
  cpu: {nodeSelector: {pool: cpu}, defaults: {env: {TEAM: null}}}
  bare: {nodeSelector: {pool: bare}}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.environment("prod", POOLS)
    return made


def _effective(repository: Repository, job: str) -> Mapping[str, Any]:
    return Workspace(Folder(repository.root)).spec(JobFile(*job.split("/"))).data


def _explained(repository: Repository, job: str, path: str) -> dict[str, Any]:
    shown = repository.run("explain", job, path, "-o", "json")
    assert shown.exit_code == 0, shown.output
    (item,) = json.loads(shown.output)["items"]
    found: dict[str, Any] = item
    return found


# --- which pool, and over what -------------------------------------------------------------------


def test_it_lies_above_the_environment_and_below_the_job(repository: Repository) -> None:
    repository.job("prod/llm", "pool: a3\nenv: {NCCL_SOCKET_IFNAME: ens3}\n")
    spec = _effective(repository, "prod/llm")
    assert spec["shm"] == "64Gi"
    assert spec["env"] == {"NCCL_DEBUG": "INFO", "TEAM": "ml", "NCCL_SOCKET_IFNAME": "ens3"}
    assert spec["flags"] == {"lr": "1e-4"}  # as it is written, as in every other layer


def test_it_lies_below_what_the_job_extends(repository: Repository) -> None:
    repository.job("base/common", "pool: a3\nshm: 8Gi\n")
    repository.write(
        "prod/jobs/llm.yaml",
        "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: llm\nextends: base/common\n",
    )
    spec = _effective(repository, "prod/llm")
    assert (spec["shm"], spec["env"]["NCCL_DEBUG"]) == ("8Gi", "INFO")


@pytest.mark.parametrize(
    ("below", "own", "shm"),
    [
        ("", "pool: a3\n", "64Gi"),
        ("pool: a3\n", "", "64Gi"),
        ("pool: a3\n", "pool: bare\n", "2Gi"),
        ("pool: bare\n", "pool: a3\n", "64Gi"),
        ("pool: a3\n", "pool: null\n", "2Gi"),
        ("", "", "2Gi"),
    ],
)
def test_the_effective_pool_chooses(tmp_path: Path, below: str, own: str, shm: str) -> None:
    """Whichever layer sets it, and null takes it away as anywhere else."""
    made = Repository(tmp_path)
    made.write(
        "defaults.yaml",
        "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n"
        + (f"defaults: {{{below.strip()}}}\n"),
    )
    made.environment("prod", POOLS)
    made.job("prod/llm", own)
    assert _effective(made, "prod/llm")["shm"] == shm


def test_a_null_of_the_pool_removes_what_the_environment_sets(repository: Repository) -> None:
    repository.job("prod/llm", "pool: cpu\n")
    assert _effective(repository, "prod/llm")["env"] == {"NCCL_DEBUG": "WARN"}


def test_explain_names_the_pool_and_its_line(repository: Repository) -> None:
    repository.job("prod/llm", "pool: a3\nshm: 8Gi\n")
    found = _explained(repository, "prod/llm", "shm")
    assert found["overridden"][0] == {
        "layer": "pool a3",
        "place": "environments/prod/environment.yaml:12:12",
        "value": "64Gi",
    }
    found = _explained(repository, "prod/llm", "env.NCCL_DEBUG")
    assert found["decided"]["layer"] == "pool a3"
    assert found["decided"]["place"] == "environments/prod/environment.yaml:13:25"


# --- what it may hold ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field",
    [
        "apiVersion: trainwright.io/v1alpha1",
        "kind: JobSpec",
        "name: other",
        "description: all of them",
        "extends: base/common",
        "target: jobset",
        "pool: bare",
        "run: 2",
        "state: suspended",
    ],
)
def test_what_is_not_a_pools_to_decide_is_refused(tmp_path: Path, field: str) -> None:
    made = Repository(tmp_path)
    made.environment("prod", f"pools:\n  a3:\n    defaults:\n      {field}\n")
    made.job("prod/llm", "")
    checked = made.run("check", "--no-cache")
    assert checked.exit_code == 1
    assert "environments/prod/environment.yaml:9:7" in checked.output
    assert "not a pool's to decide" in checked.output


def test_a_mistake_in_it_is_found_at_its_line(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    made.environment("prod", "pools:\n  a3:\n    defaults:\n      shn: 64Gi\n")
    made.job("prod/llm", "pool: a3\n")
    checked = made.run("check", "--no-cache")
    assert checked.exit_code == 1
    assert "environments/prod/environment.yaml:9:7" in checked.output
    assert "shm" in checked.output


def test_what_it_makes_wrong_is_found_at_its_line(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    made.environment("prod", "pools:\n  a3:\n    defaults:\n      queue: fast\n")
    made.job("prod/llm", "pool: a3\n")
    found = build.build(made.root, (), build.BuildOptions(today="2026-06-01", use_cache=False))
    assert [(f.rule, str(f.place)) for f in found.findings if f.subject == "prod/llm"] == [
        ("TW020", "environments/prod/environment.yaml:9:14")
    ]


@pytest.mark.parametrize(
    ("resources", "rule", "place"),
    [
        ('{cpu: "9999", memory: 1Gi}', "TW728", "llm.yaml:5:18"),
        ('{cpu: "1", memory: 2Ti}', "TW728", "llm.yaml:5:31"),
        ('{cpu: "5", memory: 1Gi}', "TW729", "llm.yaml:5:18"),
    ],
)
def test_what_no_node_of_the_pool_holds(
    tmp_path: Path, resources: str, rule: str, place: str
) -> None:
    made = Repository(tmp_path)
    made.environment("prod", "pools: {cpu: {capacity: 1, node: {cpu: '8', memory: 32Gi}}}\n")
    head = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: llm\n"
    image = "image: {repository: registry.example.com/ml/train, tag: v1}\n"
    rest = f"{image}entrypoint: {{script: train.py}}\nnodes: 2\nmaxDuration: 1h\npool: cpu\n"
    made.write("prod/jobs/llm.yaml", f"{head}shm: none\nresources: {resources}\n{rest}")
    options = build.BuildOptions(today="2026-06-01", use_cache=False)
    found = [f for f in build.build(tmp_path, (), options).findings if f.rule in ("TW728", "TW729")]
    assert [(f.rule, str(f.place).rpartition("/")[2]) for f in found] == [(rule, place)]


# --- what decides nothing ------------------------------------------------------------------------


def _redundant(repository: Repository) -> list[tuple[str, str, str]]:
    options = build.BuildOptions(today="2026-06-01", use_cache=False)
    found = build.build(repository.root, (), options).findings
    return [(f.rule, str(f.place), f.message) for f in found if f.rule == "TW060"]


def test_a_value_equal_to_the_pools_is_redundant(repository: Repository) -> None:
    large = "resources: {memory: 256Gi}"  # or shm has a finding of its own
    repository.job("prod/llm", "pool: a3\nshm: 64Gi\n")
    path = repository.root / "environments/prod/jobs/llm.yaml"
    path.write_text(re.sub("(?m)^resources:.*$", large, path.read_text()))
    assert _redundant(repository) == [
        ("TW060", "environments/prod/jobs/llm.yaml:11:1", "shm is what the job inherits anyway")
    ]


# --- runs ----------------------------------------------------------------------------------------


def _rendered(repository: Repository, *arguments: str) -> dict[str, str]:
    done = repository.run("render", *arguments)
    assert done.exit_code == 0, done.output
    return repository.tree()


def test_an_edit_of_it_holds_the_runs_of_the_pool(repository: Repository) -> None:
    repository.job("prod/llm", "pool: a3\n")
    repository.job("prod/other", "pool: bare\n")
    before = _rendered(repository)
    repository.environment("prod", POOLS.replace("64Gi", "96Gi"))
    assert _rendered(repository) == before  # also by what the first rendering remembered
    listed = json.loads(repository.run("list", "-o", "json").output)["items"]
    assert {item["job"]: item["outdated"] for item in listed} == {
        "prod/llm": [
            {
                "path": "shm",
                "before": "64Gi",
                "after": "96Gi",
                "place": {
                    "file": "environments/prod/environment.yaml",
                    "line": 12,
                    "column": 12,
                },
            }
        ],
        "prod/other": [],
    }
    assert repository.run("rerun", "prod/llm").exit_code == 0
    assert _rendered(repository) != before


def test_a_pool_that_is_chosen_anew_brings_its_values(tmp_path: Path) -> None:
    """Also where its nodes are the same: the line is the job's own."""
    made = Repository(tmp_path)
    made.environment("prod", "pools: {a: {defaults: {shm: 8Gi}}, b: {}}\n")
    made.job("prod/llm", "pool: a\n")
    before = _rendered(made)
    made.job("prod/llm", "pool: b\n")
    decision = Workspace(Folder(tmp_path)).job(JobFile("prod", "llm")).decision
    assert decision is not None
    assert decision.step == "begin"
    assert _rendered(made) != before


def test_the_environment_may_choose_it_and_that_holds(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    pools = "pools: {a: {defaults: {shm: 8Gi}}, b: {defaults: {shm: 9Gi}}}\n"
    made.environment("prod", f"{pools}defaults: {{pool: a}}\n")
    made.job("prod/llm", "")
    before = _rendered(made)
    made.environment("prod", f"{pools}defaults: {{pool: b}}\n")
    decision = Workspace(Folder(tmp_path)).job(JobFile("prod", "llm")).decision
    assert decision is not None
    assert {held.path.dotted: held.after for held in decision.held} == {"shm": "9Gi", "pool": "b"}
    assert _rendered(made) == before


def test_a_run_that_is_behind_nothing_needs_no_second_look(repository: Repository) -> None:
    repository.job("prod/llm", "pool: a3\n")
    _rendered(repository)
    workspace = Workspace(Folder(repository.root))
    job = workspace.current_job(JobFile("prod", "llm"))
    assert job is not None
    assert job.shm == "64Gi"


# --- import --------------------------------------------------------------------------------------


def test_import_leaves_out_what_the_pool_says_and_removes_what_the_workload_lacks(
    repository: Repository,
) -> None:
    repository.job("prod/llm", "pool: cpu\nshm: 2Gi\nenv: {NCCL_DEBUG: null, OWN: x}\n")
    rendered = _rendered(repository)["prod/rendered/llm/pytorchjob.yaml"]
    path = repository.root / "workload.yaml"
    path.write_text(rendered, encoding="utf-8")
    environment = POOLS.replace("{env: {TEAM: null}}", "{shm: 2Gi, env: {TEAM: null, OWN: x}}")
    repository.environment("prod", environment)
    done = repository.run("import", str(path), "--env", "prod", "--name", "new", "--pool", "cpu")
    assert done.exit_code == 0, done.output
    written = (repository.root / "environments/prod/jobs/new.yaml").read_text(encoding="utf-8")
    spec = yaml.safe_load(written)
    assert spec["pool"] == "cpu"
    assert "shm" not in spec
    assert spec["env"] == {"NCCL_DEBUG": None}
    assert _effective(repository, "prod/new")["env"] == {"OWN": "x"}


# --- a pool of accelerators of which none is requested ---------------------------------------------

_ACCELERATED = "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8}, cpu: {}}\n"


def _unrequested(tmp_path: Path, job: str) -> str:
    repository = Repository(tmp_path)
    version = 'kubernetes: {version: "1.34"}\ntargets: {pytorchjob: {}, jobset: {}}\n'
    repository.write(
        "prod/environment.yaml",
        "apiVersion: trainwright.io/v1alpha1\nkind: Environment\nnamespace: t\n"
        f"{version}{_ACCELERATED}",
    )
    written = JOB.replace("NAME", "llm")
    if "resources:" in job.split("roles:", maxsplit=1)[0]:
        written = written.replace('resources: {cpu: "1", memory: 1Gi}\n', "")
    repository.write("prod/jobs/llm.yaml", written + job)
    done = repository.run("check", "prod", "--no-cache")
    assert "error[" not in done.output, done.output
    return done.stdout


def test_a_pool_whose_accelerators_nobody_requests(tmp_path: Path) -> None:
    found = _unrequested(tmp_path, "pool: h100\n")
    assert "llm.yaml:10:7" in found
    assert 'warning[TW033]: the pool "h100" has accelerators, and the job requests none' in found
    assert "Write `resources: {gpu: 8}`" in found


@pytest.mark.parametrize(
    "job",
    [
        "pool: cpu\n",
        "",
        "pool: h100\nresources: {cpu: '1', memory: 1Gi, gpu: 8}\n",
        "pool: h100\nresources: {cpu: '1', memory: 1Gi, gpu: 0}\n",
        "pool: h100\nresources: {cpu: '1', memory: 1Gi, extended: {nvidia.com/mig-1g.10gb: 1}}\n",
        "pool: h100\nresourceClaims: {gpus: {template: whole}}\n",
        "pool: h100\ntarget: jobset\nroles: {server: {entrypoint: {argv: [vllm]}, resources: {gpu: 8}}}\n",
    ],
)
def test_what_requests_none_on_purpose(tmp_path: Path, job: str) -> None:
    assert "TW033" not in _unrequested(tmp_path, job)
