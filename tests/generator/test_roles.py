"""Roles: what serves a job while it trains, from its spec to its pods and to what a merge costs."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import git_repository
from git_repository import git
from repository import Repository
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.yamlio import Document, parse
from trainwright.files.tree import Folder
from trainwright.kinds import KINDS, TARGETS, operators
from trainwright.runs.recorded_job import job_of
from trainwright.runs.workspace import ResolvedJob, Workspace
from trainwright.specs import layers
from trainwright.specs.demand import Demand, Range
from trainwright.specs.merge import ENVIRONMENT as ENVIRONMENT_LAYER
from trainwright.specs.merge import Layer, Layered, merge, stack
from trainwright_runtime.launch.launchers import recognise

ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
targets: {jobset: {version: "0.12"}, trainjob: {version: "2.3"}}
queueing: kueue
queues: {team: {quota: 640}}
pools:
  h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 640, pricePerGpuHour: 2.0}
  l4: {resource: nvidia.com/gpu, gpusPerNode: 4, capacity: 8, pricePerGpuHour: 0.5}
  cpu: {}
defaults: {target: jobset}
"""
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: grpo
image: {repository: registry.example.com/ml/grpo, tag: "1.0"}
entrypoint: {script: train.py}
flags: {rollouts: "${{ roles.rollout.urls }}", reward: "${{ roles.reward.url }}"}
nodes: 2
pool: h100
queue: team
maxDuration: 10h
resources: {cpu: "8", memory: 64Gi, gpu: 8}
roles:
  rollout: {nodes: 3, entrypoint: {argv: [vllm, serve, m]}, port: 8000, ready: {path: /health}}
  reward:
    pool: l4
    entrypoint: {script: serve.py}
    resources: {cpu: "4", memory: 16Gi, gpu: 2}
    port: 9000
"""


def _repository(root: Path, job: str = JOB, target: str = "jobset") -> Repository:
    repository = Repository(git_repository.init(root))
    repository.write("prod/environment.yaml", ENVIRONMENT.replace("jobset}", f"{target}}}"))
    repository.write("prod/jobs/grpo.yaml", job)
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "first")
    return repository


def _only(root: Path) -> ResolvedJob:
    """Return the only job of a repository."""
    workspace = Workspace(Folder(root))
    [(file,)] = workspace.survey.jobs.values()
    return workspace.job(file)


def _edited(repository: Repository, old: str, new: str) -> None:
    path = repository.root / "environments/prod/jobs/grpo.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def _object(repository: Repository) -> Manifest:
    path = repository.root / "environments/prod/rendered/grpo/jobset.yaml"
    return Manifest(body=yaml.safe_load(path.read_text()), path=path.name)


def _objects(repository: Repository) -> tuple[Manifest, ...]:
    files = (repository.root / "environments/prod/rendered/grpo").glob("*.yaml")
    bodies = {f.name: yaml.safe_load(f.read_text()) for f in files if f.name != "values.yaml"}
    return tuple(Manifest(body=body, path=name) for name, body in bodies.items())


def _job_set(repository: Repository) -> dict[str, Any]:
    """What JobSet gets of a run, from itself or from the runtime that it brings."""
    specs = [dict(manifest.spec) for manifest in _objects(repository)]
    (found,) = (
        s
        for s in (*specs, *(s.get("template", {}).get("spec", {}) for s in specs))
        if "replicatedJobs" in s
    )
    return dict(found)


def _record(repository: Repository) -> dict[str, Any]:
    path = repository.root / "environments/prod/rendered/grpo/run.lock"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _row(planned: str, what: str) -> str:
    line = next(line for line in planned.splitlines() if what in line)
    return line.partition(what)[2].strip()


ABLE = [name for name, target in TARGETS.items() if target.serving]
SETS = [name for name in ABLE if name in ("jobset", "trainjob")]


@pytest.mark.parametrize("target", SETS)
def test_references_are_the_addresses_that_the_pods_will_have(target: str, tmp_path: Path) -> None:
    workload = operators.workload(_objects(_repository(tmp_path, target=target)))
    hosts = {
        role: [pod.hostname for pod in workload.pods if pod.role == role]
        for role in ("rollout", "reward", "node")
    }
    assert {role: len(names) for role, names in hosts.items()} == {
        "rollout": 3,
        "reward": 1,
        "node": 2,
    }
    trainer = next(pod for pod in workload.pods if pod.role == "node")
    assert (
        f"--rollouts={','.join(f'http://{host}:8000' for host in hosts['rollout'])}" in trainer.argv
    )
    assert f"--reward=http://{hosts['reward'][0]}:9000" in trainer.argv
    assert set(workload.deciding) == {pod.name for pod in workload.pods if pod.role == "node"}


@pytest.mark.parametrize("target", SETS)
def test_what_trains_waits_for_what_serves_and_ends_it(target: str, tmp_path: Path) -> None:
    spec = _job_set(_repository(tmp_path, target=target))
    *roles, trainer = spec["replicatedJobs"]
    assert [job["name"] for job in roles] == ["reward", "rollout"]
    assert trainer["dependsOn"] == [{"name": job["name"], "status": "Ready"} for job in roles]
    assert spec["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["node"]}
    probes = [
        job["template"]["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
        for job in roles
    ]
    assert [probe["failureThreshold"] * probe["periodSeconds"] for probe in probes] == [600, 600]
    assert "tcpSocket" in probes[0]
    assert probes[1]["httpGet"] == {"path": "/health", "port": 8000}


def test_a_role_inherits_but_what_runs_how_often_and_what_keeps_state(tmp_path: Path) -> None:
    saved = "volumes: {w: {claim: c, mountPath: /w}}\ncheckpoint: {volume: w, path: c}\nroles:"
    job = JOB.replace("roles:", f"env: {{A: '1', B: '2'}}\n{saved}").replace(
        "port: 9000", "port: 9000\n    env: {B: '3', A: null}"
    )
    reward, rollout, node = (
        job["template"]["spec"]["template"]["spec"]["containers"][0]
        for job in _object(_repository(tmp_path, job)).spec["replicatedJobs"]
    )
    variables = [{e["name"]: e.get("value") for e in c["env"]} for c in (reward, rollout, node)]
    assert variables[0] == {"B": "3"}
    assert variables[1] == {"A": "1", "B": "2"}
    assert variables[2].items() >= {"A": "1", "B": "2"}.items()
    assert "TRAINWRIGHT_CHECKPOINT_DIR" in variables[2]
    assert rollout["resources"] == node["resources"]
    assert reward["resources"]["limits"] == {"memory": "16Gi", "nvidia.com/gpu": "2"}
    assert rollout["command"] == ["vllm", "serve", "m"]
    assert reward["command"] == ["python", "-u", "serve.py"]


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("nodes: 3", "nodes: 4", "roles.rollout.nodes: 3 → 4"),
        ("port: 9000", "port: 9001", "roles.reward.port: 9000 → 9001"),
        ("path: /health", "path: /ready", 'roles.rollout.ready.path: "/health" → "/ready"'),
        ('tag: "1.0"', 'tag: "2.0"', 'image.tag: "1.0" → "2.0"'),
    ],
)
def test_an_edit_of_any_role_is_another_run(old: str, new: str, cause: str, tmp_path: Path) -> None:
    repository = _repository(tmp_path)
    before = _record(repository)["object"]
    _edited(repository, old, new)
    assert repository.run("render").exit_code == 0
    assert _record(repository)["object"] != before
    planned = repository.run("plan", "--against", "main").stdout
    assert cause in planned, planned


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("roles:", "# as upstream has them\nroles:"),
        ("{nodes: 3, entrypoint", "{nodes: 3, launcher: python, entrypoint"),
        ("    port: 9000", "    nodes: 1\n    port: 9000"),
        ("ready: {path: /health}", "ready: {path: /health, within: 600s}"),
        ('resources: {cpu: "4"', "resources: {cpu: 4000m"),
    ],
)
def test_what_says_the_same_of_a_role_is_the_same_run(old: str, new: str, tmp_path: Path) -> None:
    repository = _repository(tmp_path)
    before = _object(repository).body
    _edited(repository, old, new)
    assert repository.run("render").exit_code == 0
    assert _object(repository).body == before
    assert "Nothing changes" in repository.run("plan", "--against", "main").stdout


def test_a_run_keeps_what_its_roles_inherited(tmp_path: Path) -> None:
    """A shared default, and the pool of a role, that change later."""
    repository = _repository(tmp_path)
    text = ENVIRONMENT.replace("{target: jobset}", "{target: jobset, env: {LATER: '1'}}")
    text = text.replace("gpusPerNode: 4, capacity: 8", "gpusPerNode: 4, capacity: 9")
    repository.write("prod/environment.yaml", text)
    before = _object(repository).body
    assert repository.run("render").exit_code == 0
    assert _object(repository).body == before
    _edited(repository, "maxDuration: 10h", "maxDuration: 10h\nstate: cancelled")
    assert repository.run("render").exit_code == 0
    assert not (repository.root / "environments/prod/rendered/grpo/jobset.yaml").exists()


def test_a_plan_counts_every_role_at_its_pool_and_the_job_once(tmp_path: Path) -> None:
    repository = _repository(tmp_path)
    _edited(repository, "nodes: 3", "nodes: 8")
    assert repository.run("render").exit_code == 0
    planned = repository.run("plan", "--against", "main").stdout
    # The former run goes on until somebody confirms its deletion: 40 GPUs of h100, and 2 of l4.
    assert _row(planned, "pool h100").startswith(f"40 → {40 + 80} of 640 GPUs"), planned
    assert _row(planned, "pool l4").startswith("2 → 4 of 8 GPUs"), planned


def test_the_demand_of_a_job_is_that_of_its_groups(tmp_path: Path) -> None:
    _repository(tmp_path)
    resolved = _only(tmp_path)
    assert resolved.job is not None
    demand = Workspace(Folder(tmp_path)).demand(resolved.job)
    assert demand.gpus == Range(42, 42)
    assert demand.cost == Range(10 * (40 * 2.0 + 2 * 0.5), 10 * (40 * 2.0 + 2 * 0.5))
    assert {pool: part.gpus.low for pool, part in demand.pools.items()} == {"h100": 40, "l4": 2}


AMOUNTS = st.integers(0, 9).map(lambda n: Range(n, n))
PARTS = st.dictionaries(
    st.sampled_from(["", "a", "b"]), st.builds(Demand, nodes=AMOUNTS, gpus=AMOUNTS), max_size=3
)


@given(PARTS, PARTS)
def test_pools_of_a_sum_are_the_sums_of_the_pools(
    one: dict[str, Demand], other: dict[str, Demand]
) -> None:
    both = Demand(pools=one) + Demand(pools=other)
    for pool in ("", "a", "b"):
        assert both.of(pool) == Demand(pools=one).of(pool) + Demand(pools=other).of(pool)
    assert (both - Demand(pools=other)).pools == {k: v for k, v in one.items() if v != Demand()}


def test_a_null_in_a_role_removes_what_it_would_inherit(tmp_path: Path) -> None:
    repository = _repository(tmp_path, JOB.replace("roles:", "env: {A: '1'}\nroles:"))
    before = _record(repository)["object"]
    _edited(repository, "port: 9000", "port: 9000\n    env: {A: null}")
    assert repository.run("render").exit_code == 0
    assert _record(repository)["object"] != before
    reward, rollout, _ = (
        job["template"]["spec"]["template"]["spec"]["containers"][0]
        for job in _object(repository).spec["replicatedJobs"]
    )
    assert "env" not in reward
    assert rollout["env"] == [{"name": "A", "value": "1"}]
    assert repository.run("check", "--fail-on", "note").exit_code == 0


def test_explain_says_where_a_role_has_a_value_from(tmp_path: Path) -> None:
    repository = _repository(tmp_path)
    said = {
        path: repository.run("explain", "prod/grpo", path).stdout
        for path in ("roles.rollout.image.tag", "roles.rollout.nodes", "roles.rollout.launcher")
    }
    assert '"1.0"  # job: environments/prod/jobs/grpo.yaml:4:' in said["roles.rollout.image.tag"]
    assert "3  # job: environments/prod/jobs/grpo.yaml:13:" in said["roles.rollout.nodes"]
    assert '"python"  # built-in' in said["roles.rollout.launcher"]


def test_who_has_one_group_of_pods_refuses_roles_by_name() -> None:
    assert ABLE == ["trainjob", "jobset", "compose"]


def test_trainer_lays_what_a_job_says_over_those_that_train_alone(tmp_path: Path) -> None:
    repository = _repository(tmp_path, target="trainjob")
    step = "trainer.kubeflow.org/trainjob-ancestor-step"
    marked = {
        job["name"]: job["template"].get("metadata", {}).get("labels", {}).get(step)
        for job in _job_set(repository)["replicatedJobs"]
    }
    assert marked == {"reward": None, "rollout": None, "node": "trainer"}
    pods = operators.pods(_objects(repository))
    assert {p.role: dict(p.env).get("PET_NNODES") for p in pods} == {
        "reward": None,
        "rollout": None,
        "node": "2",
    }


@pytest.mark.parametrize("target", SETS)
def test_roles_with_other_gpus_than_the_training_have_no_findings(
    target: str, tmp_path: Path
) -> None:
    done = _repository(tmp_path, target=target).run("check", "--fail-on=warning")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("target", SETS)
def test_a_rule_about_a_role_points_at_its_line_once(target: str, tmp_path: Path) -> None:
    volume = "    volumes: {d: {hostPath: {path: /}, mountPath: /d}}\n"
    repository = Repository(git_repository.init(tmp_path))
    repository.write("prod/environment.yaml", ENVIRONMENT.replace("jobset}", f"{target}}}"))
    repository.write("prod/jobs/grpo.yaml", JOB + volume)
    printed = repository.run("check").output
    assert printed.count("error[TW707]") == 1, printed
    assert "TW717" not in printed, printed  # of a single pod
    assert "environments/prod/jobs/grpo.yaml:19:18" in printed, printed


def test_the_status_of_a_trainjob_counts_those_that_train(tmp_path: Path) -> None:
    manifests = _objects(_repository(tmp_path, target="trainjob"))
    job = next(m for m in manifests if m.kind == "TrainJob")
    counts = [{"name": name, "active": 1, "ready": 1} for name in ("reward", "rollout", "node")]
    status = KINDS[job.group_kind].status
    body = {**job.body, "status": {"jobsStatus": counts}}
    assert status.state_of(body).total == 2
    made = [name for kind, name in status.makes(body) if kind.kind == "Job"]
    assert made == [f"{job.name}-{group}-0" for group in ("reward", "rollout", "node")]


VM = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
podSecurity: baseline
targets: {compose: {}}
pools: {vm: {resource: nvidia.com/gpu, gpusPerNode: 8}}
defaults: {target: compose}
"""
ON_ONE_MACHINE = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: grpo
image: {repository: registry.example.com/ml/grpo, tag: "1.0"}
entrypoint: {script: train.py}
flags: {rollouts: "${{ roles.rollout.urls }}"}
pool: vm
resources: {cpu: "8", memory: 64Gi, gpu: 2}
roles:
  rollout: {nodes: 2, entrypoint: {argv: [vllm, serve, m]}, port: 8000, ready: {path: /health}}
  tool: {entrypoint: {script: serve.py}, resources: {gpu: 0}}
"""


def _compose(root: Path, job: str = ON_ONE_MACHINE) -> Manifest:
    repository = Repository(git_repository.init(root))
    repository.write("vm/environment.yaml", VM)
    repository.write("vm/jobs/grpo.yaml", job)
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    path = repository.root / "environments/vm/rendered/grpo/compose.yaml"
    return Manifest(body=yaml.safe_load(path.read_text()), path=path.name)


def test_docker_starts_each_pod_of_a_role_as_a_service_before_the_training(tmp_path: Path) -> None:
    manifest = _compose(tmp_path)
    services = manifest.body["services"]
    assert services["train"]["depends_on"] == {
        "rollout-0": {"condition": "service_healthy"},
        "rollout-1": {"condition": "service_healthy"},
        "tool-0": {"condition": "service_started"},
    }
    workload = operators.workload((manifest,))
    assert workload.serving == {"rollout": "ready", "tool": "ready"}
    assert workload.deciding == tuple(pod.name for pod in workload.training)
    hosts = [pod.hostname for pod in workload.of_role("rollout")]
    expected = f"--rollouts={','.join(f'http://{host}:8000' for host in hosts)}"
    assert expected in workload.training[0].argv
    assert hosts == ["rollout-0", "rollout-1"]


def test_no_gpu_of_a_machine_is_given_to_two_containers(tmp_path: Path) -> None:
    services = _compose(tmp_path).body["services"]
    given = [
        number
        for service in services.values()
        for device in service["deploy"]["resources"]["reservations"].get("devices", [])
        for number in device["device_ids"]
    ]
    assert given == ["0", "1", "2", "3", "4", "5"]


@pytest.mark.parametrize("field", ["hostNetwork: true", "network: isolated"])
def test_containers_without_a_name_in_the_network_have_no_roles(field: str, tmp_path: Path) -> None:
    repository = Repository(git_repository.init(tmp_path))
    repository.write("vm/environment.yaml", f"{VM}allow: [hostNetwork]\n")
    repository.write("vm/jobs/grpo.yaml", f"{ON_ONE_MACHINE}{field}\n")
    printed = repository.run("check").output
    assert "error[TW021]: compose: roles are found by their names" in printed, printed
    assert "environments/vm/jobs/grpo.yaml:12:" in printed, printed


def test_references_in_a_probe_are_those_of_the_role(tmp_path: Path) -> None:
    command = 'ready: {command: [probe, "${{ roles.reward.url }}"]}'
    repository = _repository(
        tmp_path, JOB.replace("    port: 9000", f"    port: 9000\n    {command}")
    )
    reward = _object(repository).spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    probe = reward["containers"][0]["readinessProbe"]
    run = _record(repository)["object"]
    assert probe["exec"]["command"] == ["probe", f"http://{run}-reward-0-0.{run}:9000"]
    _edited(repository, 'roles.reward.url }}"]', 'roles.reword.url }}"]')
    done = repository.run("check", "prod/grpo")
    assert "there is no reference `${{ roles.reword.url }}`" in done.output
    assert "grpo.yaml:19:" in done.output


def _found(repository: Repository, rule: str, job: str = "prod/grpo") -> list[tuple[int, str]]:
    """Where in the job a rule finds something, and what."""
    done = repository.run("check", job, "-o", "json")
    return [
        (one["place"]["line"], one["message"])
        for one in json.loads(done.stdout)["report"]["results"]
        if one["rule"] == rule
    ]


@pytest.mark.parametrize(
    ("edits", "line"),
    [
        ((), None),
        ((('reward: "${{ roles.reward.url }}"', "a: b"),), 15),
        ((('reward: "${{ roles.reward.url }}"', "a: b"), ("    port: 9000\n", "")), None),
        ((('reward: "${{ roles.reward.url }}"', 'a: "${{ roles.reward.hosts }}"'),), None),
        (
            (
                ('reward: "${{ roles.reward.url }}"', "a: b"),
                ("roles:", 'files: {/f/c: {text: "${{ roles.reward.url }}"}}\nroles:'),
            ),
            None,
        ),
        (
            (
                ('rollouts: "${{ roles.rollout.urls }}", ', ""),
                ("port: 9000", 'port: 9000\n    env: {TO: "${{ roles.rollout.url }}"}'),
            ),
            None,
        ),
    ],
)
def test_a_role_that_nothing_refers_to_is_reported(
    edits: tuple[tuple[str, str], ...], line: int | None, tmp_path: Path
) -> None:
    repository = _repository(tmp_path)
    for old, new in edits:
        _edited(repository, old, new)
    expected = [(line, "no other pod has an address of reward")] if line else []
    assert _found(repository, "TW772") == expected


@pytest.mark.parametrize(
    ("within", "init", "expected"),
    [
        ("29m", "1m", []),
        ("31m", "1m", ["rollout: startupProbe of rollout 31m = 31m, and Kueue waits 30m"]),
        ("20m", "15m", ["node: rollout 20m + init container fetch 15m = 35m, and Kueue waits 30m"]),
    ],
)
def test_roles_and_what_starts_after_them_are_ready_while_kueue_waits(
    within: str, init: str, expected: list[str], tmp_path: Path
) -> None:
    """The roles start together: the slowest one counts."""
    repository = _repository(tmp_path)
    repository.write("prod/environment.yaml", ENVIRONMENT + 'kueue: {version: "0.19"}\n')
    fetch = f"initContainers: {{fetch: {{image: i:1, command: [timeout, {init}, fetch]}}}}"
    none = "initContainers: null"
    _edited(repository, "roles:\n", f"{fetch}\nroles:\n")
    _edited(repository, "path: /health}", f"path: /health, within: {within}}}, {none}")
    probe = "ready: {path: /, within: 20m}"
    _edited(repository, "    port: 9000", f"    port: 9000\n    {probe}\n    {none}")
    found = _found(repository, "TW620")
    assert [message for _, message in found] == expected
    text = (repository.root / "environments/prod/jobs/grpo.yaml").read_text().splitlines()
    assert [line for line, _ in found if "within: 31m" in text[line - 1]] == [
        line for line, message in found if "31m" in message
    ]


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ((), []),
        ((("rollouts:", "a: b, rollouts:"),), []),
        ((("roles.rollout.urls", "roles.rollout.url"),), []),  # of the first of two services
        ((("roles.rollout.urls", "run.name"),), [(10, "no other pod has an address of rollout")]),
    ],
)
def test_a_service_that_nothing_refers_to_is_reported_once(
    edits: tuple[tuple[str, str], ...], expected: list[tuple[int, str]], tmp_path: Path
) -> None:
    repository = Repository(git_repository.init(tmp_path))
    repository.write("vm/environment.yaml", VM)
    job = ON_ONE_MACHINE
    for old, new in edits:
        assert old in job
        job = job.replace(old, new)
    repository.write("vm/jobs/grpo.yaml", job)
    assert _found(repository, "TW772", "vm/grpo") == expected


def test_one_machine_has_the_gpus_of_all_services(tmp_path: Path) -> None:
    repository = Repository(git_repository.init(tmp_path))
    repository.write("vm/environment.yaml", VM)
    repository.write("vm/jobs/grpo.yaml", ON_ONE_MACHINE.replace("nodes: 2", "nodes: 3"))
    assert repository.run("check").exit_code == 0
    repository.write("vm/jobs/grpo.yaml", ON_ONE_MACHINE.replace("nodes: 2", "nodes: 4"))
    printed = repository.run("check").output
    assert "compose: one machine has 8 GPUs, and 10 are requested (train 2, rollout 8)" in printed


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (
            "[{name: v, entrypoint: {argv: [serve]}, port: 8000}]",
            "Write `roles: {v: {entrypoint: {argv: [serve]}, port: 8000}}`",
        ),
        ("[v]", "roles must be a mapping, found a list"),
        ("v", "roles must be a mapping, found a string"),
        ("{v: 3}", "roles.v must be a mapping, found"),
        ("{v: {port: 8000}}", "grpo.yaml:9:9\n  |\n9 | roles: {v: {port: 8000}}\n"),
        ("{v: {port: 8000}}", "roles.v: entrypoint is missing"),
        (
            f"{{{', '.join(f'r{i}: {{entrypoint: {{argv: [s]}}}}' for i in range(6))}}}",
            "roles has 6 keys, at most 5 are possible",
        ),
        ("{v: {entrypoint: {argv: [s]}, replicas: 2}}", "Write `nodes: 2`"),
        ("{v: {command: [s]}}", "Write `entrypoint: {argv: [s]}`"),
        (
            "{v: {entrypoint: {argv: [s]}, maxDuration: 1h}}",
            "Remove it: maxDuration is of the whole job, and is written at the top.",
        ),
        (
            "{v: {entrypoint: {argv: [s, '${{ checkpoint.folder }}']}}}",
            "it is of the job that trains, and a role has none of its own",
        ),
    ],
)
def test_a_first_mistake_is_answered(roles: str, expected: str, tmp_path: Path) -> None:
    repository = Repository(git_repository.init(tmp_path))
    repository.write("vm/environment.yaml", VM)
    job = ON_ONE_MACHINE.partition("roles:")[0].replace("roles.rollout.urls", "run.name")
    repository.write("vm/jobs/grpo.yaml", f"{job}roles: {roles}\n")
    done = repository.run("check")
    assert done.exit_code == 1, done.output
    assert expected in done.output, done.output


@pytest.mark.parametrize(
    ("name", "of"), [("train", "train"), ("rollout-0", "rollout"), ("rollout-2", "")]
)
def test_the_name_of_a_role_leads_to_no_service_of_another(
    name: str, of: str, tmp_path: Path
) -> None:
    repository = Repository(git_repository.init(tmp_path))
    repository.write("vm/environment.yaml", VM)
    repository.write("vm/jobs/grpo.yaml", ON_ONE_MACHINE.replace("  tool:", f"  {name}:"))
    done = repository.run("check")
    expected = f"{name} is also what a service of {of} is called, so that the name would lead to"
    assert (expected in done.output) is bool(of), done.output
    assert done.exit_code == int(bool(of)), done.output


@pytest.mark.parametrize("target", SETS)
def test_names_that_yaml_takes_for_something_else_are_names_of_roles(
    target: str, tmp_path: Path
) -> None:
    names = ("no", "null", "y")
    others = "".join(f"  '{name}': {{entrypoint: {{argv: [serve]}}}}\n" for name in names)
    job = JOB.replace("  reward:\n", f"{others}  reward:\n")
    *roles, trainer = _job_set(_repository(tmp_path, job, target))["replicatedJobs"]
    assert [role["name"] for role in roles] == ["no", "null", "reward", "rollout", "y"]
    assert [one["name"] for one in trainer["dependsOn"]] == [role["name"] for role in roles]


@pytest.mark.parametrize("target", ABLE)
@pytest.mark.parametrize("launcher", ["accelerate", "deepspeed", "torchrun", "ray"])
def test_each_pod_of_a_role_is_launched_by_itself(
    launcher: str, target: str, tmp_path: Path
) -> None:
    """And never meets those that train, whatever starts its program."""
    repository = Repository(git_repository.init(tmp_path))
    both = "targets: {jobset: {version: '0.12'}, trainjob: {version: '2.3'}, compose: {}}"
    environment = VM.replace("targets: {compose: {}}", both)
    repository.write("vm/environment.yaml", environment.replace("compose}", f"{target}}}"))
    entrypoint = f"launcher: {launcher}, entrypoint: {{script: serve.py}}"
    job = ON_ONE_MACHINE.replace("entrypoint: {argv: [vllm, serve, m]}", entrypoint)
    repository.write("vm/jobs/grpo.yaml", job)
    assert repository.run("render").exit_code == 0
    path = repository.root / "environments/vm/rendered/grpo/values.yaml"
    command = yaml.safe_load(path.read_text())["roles"]["rollout"]["command"]
    assert "serve.py" in command
    assert [word for word in command if "node-0-0" in word or "COMPLETION_INDEX" in word] == []
    assert not {"--num_machines=2", "--nnodes=2"}.intersection(command)
    worlds = [w.partition("=")[2] for w in command if w.startswith("--world_info=")]
    assert all(len(json.loads(base64.b64decode(world))) == 1 for world in worlds)


@pytest.mark.parametrize("launcher", ["trainwright", "ray"])
@pytest.mark.parametrize("target", SETS)
def test_our_entrypoint_takes_each_pod_of_a_role_for_one_node(
    target: str, launcher: str, tmp_path: Path
) -> None:
    role = f"launcher: {launcher}, entrypoint: {{script: serve.py}}"
    job = JOB.replace("entrypoint: {argv: [vllm, serve, m]}", role)
    pods = operators.workload(_objects(_repository(tmp_path, job, target))).of_role("rollout")
    placed = [recognise(dict(pod.env)) for pod in pods]
    assert [(place.nodes.high, place.node_rank) for place in placed] == [(1, 0)] * 3


def test_a_plan_ends_the_services_of_a_machine_by_docker(tmp_path: Path) -> None:
    _compose(tmp_path)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    repository = Repository(tmp_path)
    repository.write("vm/jobs/grpo.yaml", ON_ONE_MACHINE.replace("nodes: 2", "nodes: 3"))
    assert repository.run("render").exit_code == 0
    planned = repository.run("plan", "--against", "main").stdout
    assert "until `docker compose --project-name grpo-" in planned
    assert "kubectl" not in planned


@pytest.mark.parametrize(("within", "period"), [("10m", 5), ("7s", 1), ("601s", 1), ("12s", 4)])
@pytest.mark.parametrize("target", ABLE)
def test_the_first_answer_of_a_role_may_take_what_is_written(
    target: str, within: str, period: int, tmp_path: Path
) -> None:
    """To the second: by the kubelet, and by Docker, for which the training starts then or never."""
    repository = _on(tmp_path, target, ("path: /health", f"path: /health, within: {within}"))
    seconds = {"10m": 600, "7s": 7, "601s": 601, "12s": 12}[within]
    (pod, _) = operators.workload(_rendered(repository)).of_role("rollout")
    probe = pod.rest["container"]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == seconds
    assert probe["periodSeconds"] == period
    if target == "compose":
        (manifest,) = _rendered(repository)
        check = manifest.body["services"]["rollout-0"]["healthcheck"]
        assert (check["interval"], check["retries"]) == (f"{period}s", seconds // period)
        assert "start_period" not in check


def _on(root: Path, target: str, *edits: tuple[str, str]) -> Repository:
    """The job for one machine, rendered for any target."""
    repository = Repository(git_repository.init(root))
    both = "targets: {jobset: {version: '0.12'}, trainjob: {version: '2.3'}, compose: {}}"
    environment = VM.replace("targets: {compose: {}}", both)
    repository.write("vm/environment.yaml", environment.replace("compose}", f"{target}}}"))
    job = ON_ONE_MACHINE
    for old, new in edits:
        assert old in job
        job = job.replace(old, new)
    repository.write("vm/jobs/grpo.yaml", job)
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    return repository


def _rendered(repository: Repository) -> tuple[Manifest, ...]:
    files = (repository.root / "environments/vm/rendered/grpo").glob("*.yaml")
    bodies = {f.name: yaml.safe_load(f.read_text()) for f in files if f.name != "values.yaml"}
    return tuple(Manifest(body=body, path=name) for name, body in bodies.items())


@pytest.mark.parametrize("target", ABLE)
def test_a_role_ends_and_restarts_by_its_own_fields(target: str, tmp_path: Path) -> None:
    own = ("port: 8000", "port: 8000, gracePeriod: 2m, retries: 3")
    repository = _on(tmp_path, target, own, ("roles:", "gracePeriod: 90s\nretries: 1\nroles:"))
    workload = operators.workload(_rendered(repository))
    graces = {pod.role: pod.grace_period for pod in workload.pods}
    trains = workload.training[0].role
    assert graces == {"rollout": 120, "tool": 90, trains: 90}
    limits = {pod.role: pod.restart.limit for pod in workload.pods}
    assert limits == {"rollout": 3, "tool": 1, trains: 1}


@pytest.mark.parametrize(
    ("field", "other"), [("gracePeriod: 2m", "gracePeriod: 3m"), ("retries: 1", "retries: 2")]
)
def test_what_a_role_says_of_its_end_is_of_the_run(field: str, other: str, tmp_path: Path) -> None:
    """It cannot reach pods that are there, and the job's own is of operation."""
    repository = _repository(tmp_path, JOB.replace("port: 8000", f"port: 8000, {field}"))
    before = _record(repository)["object"]
    _edited(repository, field, other)
    assert repository.run("render").exit_code == 0
    assert _record(repository)["object"] != before
    name = field.partition(":")[0]
    planned = repository.run("plan", "--against", "main").stdout
    assert f"roles.rollout.{name}: " in planned, planned


def test_a_role_has_the_longest_grace_period_of_any_pod(tmp_path: Path) -> None:
    repository = Repository(git_repository.init(tmp_path))
    repository.write("prod/environment.yaml", ENVIRONMENT)
    repository.write(
        "prod/jobs/grpo.yaml", JOB.replace("port: 9000", "port: 9000\n    gracePeriod: 8d")
    )
    printed = repository.run("check").output
    assert "gracePeriod is 8d, the most is 7d" in printed, printed
    assert "grpo.yaml:19:18" in printed, printed


@pytest.mark.parametrize(
    ("target", "launcher", "expected"),
    [
        ("jobset", "python", {"rank": ["0", "1"], "where": "grpo-HASH-node-0-0.grpo-HASH"}),
        ("jobset", "trainwright", {"rank": ["0", "1"], "where": "grpo-HASH-node-0-0.grpo-HASH"}),
        ("trainjob", "trainwright", {"rank": ["0", "1"], "where": "grpo-HASH-node-0-0.grpo-HASH"}),
        ("compose", "python", {"rank": [], "where": "train"}),
    ],
)
def test_a_role_knows_its_own_number_and_where_those_that_train_are(
    target: str, launcher: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    rank = ", '${{ node.rank }}'" if expected["rank"] else ""
    program = f"launcher: {launcher}, entrypoint: {{script: s.py, args: ['${{{{ rank0.address }}}}'{rank}]}}"
    repository = _on(tmp_path, target, ("entrypoint: {argv: [vllm, serve, m]}", program))
    manifests = _rendered(repository)
    pods = operators.workload(manifests).of_role("rollout")
    name = manifests[0].name or "grpo"
    words = [pod.argv[pod.argv.index("s.py") + 1 :] for pod in pods]
    assert {w[0].replace(name, "grpo-HASH") for w in words} == {expected["where"]}
    assert [w[1] for w in words if len(w) > 1] == expected["rank"]


def test_containers_that_have_one_command_have_no_number_of_their_own(tmp_path: Path) -> None:
    repository = Repository(git_repository.init(tmp_path))
    repository.write("vm/environment.yaml", VM)
    number = "port: 8000, env: {A: '${{ node.rank }}'}"
    repository.write("vm/jobs/grpo.yaml", ON_ONE_MACHINE.replace("port: 8000", number))
    printed = repository.run("check").output
    assert "compose: `${{ node.rank }}` is not known: all containers of a role have" in printed


@pytest.mark.parametrize(
    ("field", "remedy"),
    [
        ("readinessProbe: {tcpSocket: {port: 1}}", "Write `ready`, of which the probes of"),
        ("startupProbe: {tcpSocket: {port: 1}}", "Write `ready.within`: how long the first"),
        ("podPatch: {spec: {}}", "Remove it: a patch is of the pods that train alone."),
        ("gracePeriod: 0s", "Days, hours, minutes and seconds, in that order; more than nothing."),
        ("ready: {within: 0 minutes}", "more than nothing. For example"),
        ("queue: team", "Remove it: queue is of the whole job, and is written at the top."),
        (
            "env: {A: '${{ roles.rollout.hosts[2] }}'}",
            "the pods of the role have the numbers 0 to 1",
        ),
        ("env: {A: '${{ roles.tool.hosts[x] }}'}", "the pods of the role have the numbers 0\n"),
    ],
)
def test_what_a_role_has_by_another_field_is_named(field: str, remedy: str, tmp_path: Path) -> None:
    repository = Repository(git_repository.init(tmp_path))
    repository.write("vm/environment.yaml", VM)
    job = ON_ONE_MACHINE.replace(", ready: {path: /health}", "")
    repository.write("vm/jobs/grpo.yaml", job.replace("port: 8000", f"port: 8000, {field}"))
    done = repository.run("check")
    assert done.exit_code == 1
    assert remedy in done.output, done.output


@pytest.mark.parametrize("target", SETS)
def test_the_address_of_a_role_is_not_that_of_one_whose_name_begins_with_it(
    target: str, tmp_path: Path
) -> None:
    repository = _repository(
        tmp_path,
        JOB.replace("reward:", "rollout-b:").replace("roles.reward", "roles.rollout-b"),
        target,
    )
    assert _found(repository, "TW772") == []
    _edited(repository, 'rollouts: "${{ roles.rollout.urls }}", ', "")
    assert [message for _, message in _found(repository, "TW772")] == [
        "no other pod has an address of rollout"
    ]


SCRIPTS = (
    ("entrypoint: {argv: [vllm, serve, m]}", "entrypoint: {inline: 'print(1)'}"),
    ("entrypoint: {script: serve.py}", "entrypoint: {inline: 'print(2)'}"),
)
ONE_BY_ITS_OWN_NAME = (
    ("port: 8000", "port: 8000, files: {/a: {content: mine}}"),
    ("roles:", "files: {/a: {content: theirs}, /rollout-a: {content: another}}\nroles:"),
)


@pytest.mark.parametrize("target", ABLE)
@pytest.mark.parametrize(
    ("edits", "path", "expected"),
    [
        (SCRIPTS, "/opt/trainwright/main.py", {"rollout": "print(1)", "tool": "print(2)"}),
        (ONE_BY_ITS_OWN_NAME, "/a", {"rollout": "mine", "tool": "theirs", "": "theirs"}),
        (ONE_BY_ITS_OWN_NAME, "/rollout-a", dict.fromkeys(("rollout", "tool", ""), "another")),
    ],
)
def test_a_role_has_its_own_files(
    edits: tuple[tuple[str, str], ...],
    path: str,
    expected: dict[str, str],
    target: str,
    tmp_path: Path,
) -> None:
    manifests = _rendered(_on(tmp_path, target, *edits))
    workload, configs = operators.workload(manifests), operators.configs(manifests)
    trains = workload.training[0].role
    read = {
        "" if pod.role == trains else pod.role: texts.get(mount.sub_path, texts.get("content"))
        for pod in workload.pods
        for mount in pod.mounts
        if mount.path == path
        for texts in (configs[mount.config],)
    }
    assert read == expected


@pytest.mark.parametrize("target", SETS)
def test_a_role_has_its_own_secrets(target: str, tmp_path: Path) -> None:
    edits = (
        ("port: 8000", "port: 8000, secrets: {A: {external: {store: s, key: mine}}}"),
        ("roles:", "secrets: {A: {external: {store: s, key: theirs}}}\nroles:"),
    )
    manifests = _rendered(_on(tmp_path, target, *edits))
    (external,) = (dict(m.spec) for m in manifests if m.kind == "ExternalSecret")
    fetched = {one["secretKey"]: one["remoteRef"]["key"] for one in external["data"]}
    groups = next(
        found["replicatedJobs"]
        for m in manifests
        for found in (dict(m.spec), dict(m.spec.get("template", {}).get("spec", {})))
        if "replicatedJobs" in found
    )
    read = {
        group["name"]: fetched[one["valueFrom"]["secretKeyRef"]["key"]]
        for group in groups
        for one in group["template"]["spec"]["template"]["spec"]["containers"][0].get("env", ())
        if one["name"] == "A"
    }
    assert read.items() >= {"rollout": "mine", "tool": "theirs"}.items()
    assert read.get("node", "theirs") == "theirs"


@pytest.mark.parametrize(
    ("size", "mode", "expected"),
    [
        ("1Gi", "ReadWriteMany", 0),
        ("2Gi", "ReadWriteMany", 1),
        ("1Gi", "ReadOnlyMany", 1),
    ],
)
def test_a_claim_of_a_role_is_no_other_than_that_of_the_job(
    size: str, mode: str, expected: int, tmp_path: Path
) -> None:
    repository = Repository(git_repository.init(tmp_path))
    repository.write("prod/environment.yaml", ENVIRONMENT)
    mine = f"volumes: {{w: {{create: {{size: {size}, accessModes: [{mode}]}}}}}}"
    theirs = "volumes: {w: {create: {size: 1Gi, accessModes: [ReadWriteMany]}, mountPath: /w}}"
    job = JOB.replace("roles:", f"{theirs}\nroles:").replace("port: 8000", f"port: 8000, {mine}")
    repository.write("prod/jobs/grpo.yaml", job)
    done = repository.run("check")
    assert done.exit_code == expected, done.output
    message = (
        "roles.rollout.volumes.w.create is another claim than that of volumes.w, and both are "
        "called grpo-w"
    )
    assert (message in done.output) is bool(expected), done.output


# --- the defaults of a role's own pool -----------------------------------------------------------

WITH_DEFAULTS = ENVIRONMENT.replace(
    "pricePerGpuHour: 2.0}",
    "pricePerGpuHour: 2.0, defaults: {env: {NET: ib, BIG: '1'}, queue: team}}",
).replace(
    "pricePerGpuHour: 0.5}",
    """pricePerGpuHour: 0.5,
    defaults: {
      env: {NET: tcp, SMALL: '1', LEVEL: low},
      queue: other, resources: {cpu: '3', memory: 12Gi, gpu: 2}}}""",
)
ON_L4 = JOB.replace('    resources: {cpu: "4", memory: 16Gi, gpu: 2}\n', "").replace(
    "maxDuration: 10h", "maxDuration: 10h\nenv: {LEVEL: high}"
)


def _with_defaults(root: Path, job: str = ON_L4) -> Repository:
    repository = Repository(git_repository.init(root))
    repository.write("prod/environment.yaml", WITH_DEFAULTS)
    repository.write("prod/jobs/grpo.yaml", job)
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "first")
    return repository


def _env(repository: Repository, group: str) -> dict[str, str]:
    groups = {one["name"]: one for one in _job_set(repository)["replicatedJobs"]}
    (container,) = groups[group]["template"]["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", "") for one in container.get("env", ())}


def test_a_role_has_the_defaults_of_the_pool_that_it_names(tmp_path: Path) -> None:
    """Below what its job says itself, and nothing of those of the job's pool."""
    repository = _with_defaults(tmp_path)
    reward = _env(repository, "reward")
    assert reward["NET"] == "tcp"
    assert reward["SMALL"] == "1"
    assert reward["LEVEL"] == "high"
    assert "BIG" not in reward
    rollout = _env(repository, "rollout")
    assert (rollout["NET"], rollout["BIG"]) == ("ib", "1")
    assert "SMALL" not in rollout
    resolved = _only(tmp_path)
    assert resolved.job is not None
    demand = Workspace(Folder(tmp_path)).demand(resolved.job)
    assert demand.of("l4").gpus == Range(2, 2)
    assert resolved.job.queue == "team"
    (_, served) = (role for role in resolved.job.groups[1:])
    assert {role.queue for role in resolved.job.roles} == {"team"}, served


def test_explain_names_the_pool_of_a_role(tmp_path: Path) -> None:
    repository = _with_defaults(tmp_path)
    told = repository.run("explain", "prod/grpo", "roles.reward.env").stdout
    assert "pool l4" in told, told
    assert "BIG" not in told, told
    assert "pool h100" not in told, told
    line = WITH_DEFAULTS.splitlines().index("      env: {NET: tcp, SMALL: '1', LEVEL: low},")
    assert f"environment.yaml:{line + 1}" in told, told


def test_a_run_keeps_what_the_pool_of_a_role_had_then(tmp_path: Path) -> None:
    repository = _with_defaults(tmp_path)
    before = _object(repository).body
    begun = _only(tmp_path).job
    repository.write("prod/environment.yaml", WITH_DEFAULTS.replace("NET: tcp", "NET: udp"))
    assert repository.run("render").exit_code == 0
    assert _object(repository).body == before
    now = _only(tmp_path)
    assert now.record is not None
    assert now.sources is not None
    assert job_of(now.record, now.loaded.file, now.sources.environment) == begun
    assert now.job != begun
    planned = repository.run("plan", "--against", "main").stdout
    assert "roles.reward.env.NET" in planned, planned
    _edited(repository, "maxDuration: 10h", "maxDuration: 10h\nannotations: {by: ada}")
    assert repository.run("render").exit_code == 0
    assert _env(repository, "reward")["NET"] == "tcp"


def test_another_pool_of_a_role_brings_its_defaults(tmp_path: Path) -> None:
    """Also where it leads to the same nodes."""
    repository = _with_defaults(tmp_path, ON_L4.replace("pool: l4", "pool: l4 # here"))
    alike = WITH_DEFAULTS.replace(
        "  cpu: {}",
        "  four: {resource: nvidia.com/gpu, gpusPerNode: 4, defaults: {env: {NEW: '1'},"
        " resources: {cpu: '3', memory: 12Gi, gpu: 2}}}",
    )
    repository.write("prod/environment.yaml", alike)
    before = _object(repository).name
    assert repository.run("render").exit_code == 0
    assert _object(repository).name == before
    _edited(repository, "pool: l4 # here", "pool: four")
    assert repository.run("render").exit_code == 0
    assert _object(repository).name != before
    assert _env(repository, "reward")["NEW"] == "1"
    assert "SMALL" not in _env(repository, "reward")


PARTS = st.dictionaries(
    st.sampled_from(("env", "security", "resources", "nodeSelector", "entrypoint")),
    st.one_of(
        st.none(),
        st.sampled_from(("a", "b")),
        st.dictionaries(
            st.sampled_from(("X", "Y")),
            st.one_of(st.none(), st.just(1), st.dictionaries(st.just("Z"), st.integers(1, 2))),
            max_size=2,
        ),
    ),
    max_size=3,
)
POOLS = st.sampled_from((None, "one", "two", "gone"))
CHOICE = st.one_of(st.just({}), POOLS.map(lambda pool: {"pool": pool}))


def _laid(label: str, data: dict[str, Any], root: str = "") -> Layer:
    document = parse(label, yaml.safe_dump(data).encode())
    assert isinstance(document, Document)
    return Layer(label, document, Pointer(root))


@given(PARTS, PARTS, PARTS, st.tuples(PARTS, CHOICE), st.tuples(PARTS, CHOICE))
def test_what_a_role_is_told_of_its_layers_is_what_it_has(
    shared: dict[str, Any],
    one: dict[str, Any],
    two: dict[str, Any],
    job: tuple[dict[str, Any], dict[str, Any]],
    role: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """By what anybody may write, also where it is no job; and a record of one layer has it all."""
    pools = {"one": {"defaults": one}, "two": {"defaults": two}}
    below = (_laid(ENVIRONMENT_LAYER, {"defaults": shared, "pools": pools}, "/defaults"),)
    own = {**job[0], **job[1], "roles": {"r": {**role[0], **role[1]}}}
    spec = layers.stacked(below, (_laid("job", own),))
    told = layers.of_role(spec, "r")
    assert stack(told.layers).data == told.data
    recorded = Layered(merge(stack(spec.layers[:-1]).data, own), ())
    assert layers.of_role(recorded, "r").data == told.data
    if role[1].get("pool", "gone") == "gone" and "pool" in role[1]:
        others = {**below[0].document.data, "pools": {}}
        alone = layers.stacked((_laid(ENVIRONMENT_LAYER, others, "/defaults"),), spec.layers[-1:])
        assert layers.of_role(alone, "r").data == told.data


def test_files_of_the_repository_travel_with_a_role(tmp_path: Path) -> None:
    """One file, a folder in place of that of the job, and what the pool of a role has."""
    repository = Repository(git_repository.init(tmp_path))
    for name in ("a.txt", "dir/one", "other/two", "pool.txt"):
        (tmp_path / "conf" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "conf" / name).write_text(f"{name}\n")
    files = "defaults: {files: {/p: {from: conf/pool.txt}}}"
    text = ENVIRONMENT.replace("pricePerGpuHour: 0.5", f"pricePerGpuHour: 0.5, {files}")
    repository.write("prod/environment.yaml", text)
    job = JOB.replace("roles:\n", "files: {/d: {from: conf/dir}}\nroles:\n", 1)
    own = "files: {/a: {from: conf/a.txt}, /d: {from: conf/other}}"
    repository.write("prod/jobs/grpo.yaml", job.replace("port: 9000", f"port: 9000\n    {own}"))
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    (held,) = (one.body for one in _objects(repository) if one.kind == "ConfigMap")
    assert sorted(held["data"].values()) == ["a.txt\n", "dir/one\n", "other/two\n", "pool.txt\n"]
    told = repository.run("explain", "prod/grpo", "roles.reward.files").stdout
    assert 'roles.reward.files["/d"].from: "conf/other"' in told
    name = _object(repository).name
    (tmp_path / "conf/a.txt").write_text("edited\n")  # what the job's own file names
    assert repository.run("render").exit_code == 0
    assert _object(repository).name != name
    (tmp_path / "conf/a.txt").unlink()
    done = repository.run("check")
    assert done.exit_code == 1
    assert "conf/a.txt does not exist" in done.output


def test_a_role_may_say_how_long_its_port_may_take(tmp_path: Path) -> None:
    job = JOB.replace("port: 9000", "port: 9000\n    ready: {within: 15m}")
    repository = _repository(tmp_path, job)
    groups = {one["name"]: one for one in _job_set(repository)["replicatedJobs"]}
    (container,) = groups["reward"]["template"]["spec"]["template"]["spec"]["containers"]
    started = container["startupProbe"]
    assert started["tcpSocket"] == {"port": 9000}
    assert started["periodSeconds"] * started["failureThreshold"] == 15 * 60


@pytest.mark.parametrize(
    ("ready", "told"),
    [
        ("{within: 15m}", "a connection is requested at a port, and the role has none"),
        ("{path: /, within: 15m}", "an HTTP path is requested at a port, and the role has none"),
        ("{path: /, command: [a]}", "has keys that exclude each other: command, path"),
    ],
)
def test_what_is_asked_of_a_role_that_has_no_port(tmp_path: Path, ready: str, told: str) -> None:
    repository = Repository(tmp_path)
    repository.write("prod/environment.yaml", ENVIRONMENT)
    job = JOB.replace("port: 9000", f"ready: {ready}").replace("${{ roles.reward.url }}", "none")
    repository.write("prod/jobs/grpo.yaml", job)
    done = repository.run("check")
    assert done.exit_code == 1
    assert told in done.output


def test_roles_of_a_base_are_merged_with_those_of_the_job(tmp_path: Path) -> None:
    """By name; a null removes one, or what one has. The pool that a base names has its defaults."""
    repository = Repository(git_repository.init(tmp_path))
    repository.write("prod/environment.yaml", WITH_DEFAULTS)
    head = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\n"
    base = (
        "roles:\n  reward: {pool: l4, env: {A: '1', B: '1'}}\n  judge: {entrypoint: {script: j}}\n"
    )
    repository.write("base/jobs/shared.yaml", f"{head}name: shared\n{base}")
    job = ON_L4.replace("name: grpo", "name: grpo\nextends: base/shared")
    job = job.replace("    pool: l4\n", "    env: {B: null}\n") + "  judge: null\n"
    repository.write("prod/jobs/grpo.yaml", job)
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    assert [one["name"] for one in _job_set(repository)["replicatedJobs"]] == [
        "reward",
        "rollout",
        "node",
    ]
    env = _env(repository, "reward")
    assert (env["NET"], env["A"], "B" in env, "BIG" in env) == ("tcp", "1", False, False)
    repository.write("base/jobs/shared.yaml", f"{head}name: shared\n{base.replace('l4', 'cpu')}")
    assert repository.run("render").exit_code == 0
    assert _env(repository, "reward")["NET"] == "tcp"  # what a base changes later is held
