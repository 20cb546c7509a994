"""Groups of pods of which one trains and the others serve it: they become roles, or are refused."""

from __future__ import annotations

import re
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from repository import Repository
from trainwright.files.tree import Folder
from trainwright.importing import ImportInput
from trainwright.importing.batch import ImportOptions, run
from trainwright.importing.equivalence import NormalForm
from trainwright.importing.equivalence.comparison import values
from trainwright.importing.trial import ImportContext

ROOT = Path(__file__).parents[3]
ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
podSecurity: privileged
targets: {jobset: {version: "0.12"}, trainjob: {version: "2.3"}, compose: {}}
pools: {gpu: {resource: nvidia.com/gpu, gpusPerNode: 8}}
"""
SERVER = """\
  - name: rollout
    template:
      spec:
        parallelism: 2
        completions: 2
        backoffLimit: 2
        template:
          spec:
            restartPolicy: OnFailure
            containers:
            - name: vllm
              image: registry.example.com/vllm:1
              command: [vllm, serve, m]
              env: [{name: A, value: b}]
              ports: [{containerPort: 8000}]
              readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 5}
              startupProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 5, failureThreshold: 180}
              resources: {limits: {nvidia.com/gpu: 2}}
  - name: reward
    template:
      spec:
        parallelism: 1
        completions: 1
        backoffLimit: 2
        template:
          spec:
            restartPolicy: OnFailure
            containers: [{name: judge, image: "registry.example.com/judge:1", command: [python, serve.py]}]
"""
TRAINER = """\
  - name: NAME
    dependsOn: [{name: rollout, status: Ready}, {name: reward, status: Ready}]
    template:
      LABEL
      spec:
        parallelism: 2
        completions: 2
        completionMode: Indexed
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: node
              image: registry.example.com/grpo:1
              command: [python, train.py, --rollouts, "http://grpo-rollout-0-0.grpo:8000,http://grpo-rollout-0-1.grpo:8000", --judge, grpo-reward-0-0.grpo]
              env: [{name: SEED, value: "7"}]
              resources: {limits: {nvidia.com/gpu: 4}}
"""
_BARE = TRAINER.replace("NAME", "trainer").replace("      LABEL\n", "")
SET = f"""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: grpo}}
spec:
  successPolicy: {{operator: All, targetReplicatedJobs: [trainer]}}
  failurePolicy: {{maxRestarts: 2}}
  replicatedJobs:
{SERVER}{_BARE}"""
LABEL = "metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}"
_MARKED = TRAINER.replace("NAME", "node").replace("LABEL", LABEL)
GROUPS = textwrap.indent(f"{SERVER}{_MARKED}", "    ")
TRAINJOB = f"""\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: grpo}}
spec:
  runtimeRef: {{kind: TrainingRuntime, name: grpo}}
  trainer: {{numNodes: 2, numProcPerNode: 1}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {{name: grpo}}
spec:
  mlPolicy: {{torch: {{}}}}
  template:
    spec:
      successPolicy: {{operator: All, targetReplicatedJobs: [node]}}
      failurePolicy: {{maxRestarts: 2}}
      replicatedJobs:
{GROUPS}"""
COMPOSE = """\
name: grpo
services:
  reward:
    image: registry.example.com/judge:1
    command: [python, serve.py]
    healthcheck: {test: [CMD, curl, -f, "http://localhost:9000/"], interval: 5s, start_period: 60s}
    expose: ["9000"]
    restart: on-failure:2
  train:
    image: registry.example.com/grpo:1
    command: [python, train.py, --judge, "http://reward:9000", --log, reward]
    depends_on: {reward: {condition: service_healthy}}
    restart: on-failure:2
"""


@pytest.fixture
def place(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path)
    repository.write("prod/environment.yaml", ENVIRONMENT)
    return repository


def _imported(place: Repository, text: str) -> tuple[dict[str, Any], str]:
    """The spec, and what is said of it."""
    path = place.root / "in.yaml"
    path.write_text(text, encoding="utf-8")
    done = place.run("import", "--dry-run", "--env", "prod", str(path))
    assert done.exit_code == 0, done.output
    return yaml.safe_load(done.stdout), done.stderr


def _words(spec: dict[str, Any]) -> list[str]:
    entrypoint = spec["entrypoint"]
    return [str(word) for word in (*entrypoint.get("argv", ()), *entrypoint.get("args", ()))]


@pytest.mark.parametrize("text", [SET, TRAINJOB], ids=["jobset", "trainjob"])
def test_groups_become_a_job_and_its_roles(text: str, place: Repository) -> None:
    spec, said = _imported(place, text)
    assert spec["nodes"] == 2
    assert spec["resources"] == {"gpu": 4}
    assert spec["retries"] == 2
    references = ["${{ roles.rollout.urls }}", "${{ roles.reward.hosts }}"]
    assert [word for word in _words(spec) if "roles." in word] == references
    rollout, reward = spec["roles"]["rollout"], spec["roles"]["reward"]
    assert rollout["image"] == {"repository": "registry.example.com/vllm"}
    assert rollout["entrypoint"] == {"argv": ["vllm", "serve", "m"]}
    assert (rollout["nodes"], rollout["port"]) == (2, 8000)
    assert rollout["ready"] == {"path": "/health", "within": "15m"}
    assert rollout["resources"] == {"gpu": 2}
    assert rollout["env"] == {"SEED": None, "A": "b"}
    assert reward["entrypoint"] == {"argv": ["python", "serve.py"]}
    assert "port" not in reward
    assert "ready" not in reward
    assert "cannot run" not in said
    assert "rest.container" not in said, said  # no probe is lost or added


def test_a_service_is_a_role_of_the_one_that_depends_on_it(place: Repository) -> None:
    spec, said = _imported(place, COMPOSE)
    assert spec["name"] == "grpo-train"
    assert _words(spec)[-3:] == ["${{ roles.reward.url }}", "--log", "reward"]
    reward = spec["roles"]["reward"]
    # Failures count after the start_period: with three tries, five seconds apart.
    assert reward["ready"] == {"command": ["curl", "-f", "http://localhost:9000/"], "within": "75s"}
    assert reward["port"] == 9000
    assert "cannot run" not in said


URLS = "http://grpo-rollout-0-0.grpo:8000,http://grpo-rollout-0-1.grpo:8000"


@pytest.mark.parametrize(
    ("written", "referring"),
    [
        (
            "http://grpo-rollout-0-0.grpo:8000/v1,http://grpo-rollout-0-1.grpo:8000/v1",
            "${{ roles.rollout.url }}/v1,http://${{ roles.rollout.hosts[1] }}:8000/v1",
        ),
        (
            "grpo-rollout-0-0.grpo.x.svc.cluster.local:8000,grpo-rollout-0-1.grpo.x.svc:8000",
            "${{ roles.rollout.hosts[0] }}:8000,${{ roles.rollout.hosts[1] }}:8000",
        ),
        ("grpo-rollout-0-1.grpo", "${{ roles.rollout.hosts[1] }}"),
        ("http://rollout-first:8000", "${{ roles.rollout.url }}"),
    ],
)
@pytest.mark.parametrize("text", [SET, TRAINJOB], ids=["jobset", "trainjob"])
def test_a_single_pod_of_a_role_is_referred_to(
    text: str, written: str, referring: str, place: Repository
) -> None:
    spec, said = _imported(place, SERVICE + text.replace(URLS, written))
    assert referring in _words(spec)
    assert "cannot run" not in said
    assert "differs, cannot" not in said


SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: rollout-first}
spec:
  clusterIP: None
  selector:
    jobset.sigs.k8s.io/jobset-name: grpo
    jobset.sigs.k8s.io/replicatedjob-name: rollout
    batch.kubernetes.io/job-completion-index: "0"
  ports: [{port: 8000}]
---
"""


def test_a_service_of_several_pods_of_a_role_is_told(place: Repository) -> None:
    several = SERVICE.replace('    batch.kubernetes.io/job-completion-index: "0"\n', "")
    path = place.root / "in.yaml"
    path.write_text(several + SET.replace(URLS, "http://rollout-first:8000"), encoding="utf-8")
    done = place.run("import", "--dry-run", "--env", "prod", str(path))
    assert done.exit_code == 1
    assert "it names rollout-first, which a rendered run calls otherwise" in done.stderr


def test_a_probe_may_name_its_port(place: Repository) -> None:
    named = SET.replace("{containerPort: 8000}", "{containerPort: 8000, name: api}")
    spec, said = _imported(place, named.replace("port: 8000}", "port: api}"))
    assert spec["roles"]["rollout"]["port"] == 8000
    assert "Probe" not in said


def test_pods_of_a_role_are_replaced_as_often_as_those_of_any_target(place: Repository) -> None:
    _, said = _imported(place, TRAINJOB)
    assert "use retries" not in said


def test_what_is_outside_of_a_compose_file_is_told(place: Repository) -> None:
    text = COMPOSE.replace('expose: ["9000"]', 'ports: ["19000:9000", "7000"]')
    text = f"{text}x-common: {{a: b}}\n".replace("http://reward:9000", "http://reward:9000/score")
    spec, said = _imported(place, text)
    assert spec["roles"]["reward"]["port"] == 9000
    for port in ("/services/reward/ports/0 19000:9000", "/services/reward/ports/1 7000"):
        assert said.count(f"{port}: a role is found by the containers of its run") == 1
    assert "/x-common {a}: Compose itself ignores it" in said


NAMES = {
    "its own name": ("", "reward"),
    "a host name": ("hostname: judge", "judge"),
    "the name of the container": ("container_name: judge-1", "judge-1"),
    "an alias": ("networks: {default: {aliases: [scorer]}}", "scorer"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_service_is_found_by_each_of_its_names(case: str, place: Repository) -> None:
    written, name = NAMES[case]
    text = COMPOSE.replace("    expose:", f"    {written}\n    expose:")
    spec, said = _imported(place, text.replace("http://reward:9000", f"tcp://{name}:9000"))
    assert "tcp://${{ roles.reward.hosts }}:9000" in _words(spec)
    assert "cannot run" not in said


BARE = COMPOSE.replace(
    '--judge, "http://reward:9000", --log, reward', '--judge_host, reward, --judge_port, "9000"'
)


def test_a_name_that_may_be_any_word_still_leads_to_the_role(place: Repository) -> None:
    path = place.root / "in.yaml"
    path.write_text(BARE, encoding="utf-8")
    assert place.run("import", "--env", "prod", str(path)).exit_code == 0
    assert place.run("render", "prod").exit_code == 0
    (rendered,) = (place.root / "environments/prod/rendered").glob("*/compose.yaml")
    services = yaml.safe_load(rendered.read_text())["services"]
    assert services["reward-0"]["networks"] == {"default": {"aliases": ["reward"]}}
    assert services["train"]["entrypoint"][2:4] == ["--judge_host", "reward"]


def test_a_name_that_may_be_any_word_is_told_where_it_leads_nowhere(place: Repository) -> None:
    place.write(
        "prod/environment.yaml",
        ENVIRONMENT.replace(", compose: {}", "") + "defaults: {target: jobset}\n",
    )
    path = place.root / "in.yaml"
    path.write_text(BARE, encoding="utf-8")
    done = place.run("import", "--env", "prod", str(path))
    assert done.exit_code == 1
    assert "refer to all of its pods as ${{ roles.reward.hosts }}" in done.stderr


def test_a_name_of_several_containers_leads_to_all_of_them(place: Repository) -> None:
    text = COMPOSE.replace("    expose:", "    deploy: {replicas: 2}\n    expose:")
    spec, said = _imported(place, text)
    assert spec["roles"]["reward"]["nodes"] == 2
    assert "http://reward:9000" in _words(spec)
    assert "cannot run" not in said


def test_what_a_role_cannot_say_is_told(place: Repository) -> None:
    text = SET.replace("httpGet: {path: /health, port: 8000}, periodSeconds: 5}", "httpGet: {path: /health, port: 8000}, periodSeconds: 50}", 1)  # fmt: skip
    _, said = _imported(place, text)
    assert "readinessProbe/periodSeconds 50" in said


def test_how_a_role_ends_and_restarts_is_kept(place: Repository) -> None:
    text = SET.replace("        backoffLimit: 2\n", "        backoffLimit: 5\n", 1)
    graces = iter((120, 30, 90))
    text = re.sub(
        r"(?<=\n)( +)containers:",
        lambda m: f"{m[1]}terminationGracePeriodSeconds: {next(graces)}\n{m[0]}",
        text,
    )
    spec, said = _imported(place, text)
    rollout, reward = spec["roles"]["rollout"], spec["roles"]["reward"]
    assert (rollout["retries"], rollout["gracePeriod"]) == (5, "2m")
    assert (reward.get("retries"), reward["gracePeriod"]) == (None, "30s")
    assert spec["gracePeriod"] == "90s"
    assert "backoffLimit" not in said
    assert "terminationGracePeriodSeconds" not in said


@pytest.mark.parametrize(
    ("check", "within"),
    [
        ("interval: 500ms, retries: 4", "4s"),
        ("interval: 1m30s", "4m30s"),
        ("interval: 10s, start_period: 1m, retries: 1", "70s"),
        ("timeout: 1s", "90s"),
    ],
)
def test_a_role_is_ready_when_docker_would_have_it_healthy(
    check: str, within: str, place: Repository
) -> None:
    spec, _ = _imported(place, COMPOSE.replace("interval: 5s, start_period: 60s", check))
    assert spec["roles"]["reward"]["ready"]["within"] == within


def test_a_role_may_take_as_long_as_the_kubelet_tries_its_probe(place: Repository) -> None:
    probe = "failureThreshold: 180, initialDelaySeconds: 60"
    spec, _ = _imported(place, SET.replace("failureThreshold: 180", probe))
    assert spec["roles"]["rollout"]["ready"]["within"] == "16m"


def test_a_duration_that_is_none_is_named(place: Repository) -> None:
    path = place.root / "in.yaml"
    path.write_text(COMPOSE.replace("interval: 5s", "interval: soon"), encoding="utf-8")
    done = place.run("import", str(path), "--env", "prod")
    assert 'interval is "soon", expected a duration such as 1m30s' in done.output


DEPENDS = "dependsOn: [{name: rollout, status: Ready}, {name: reward, status: Ready}]"
REFUSED = {
    "success of all": (
        SET.replace("  successPolicy: {operator: All, targetReplicatedJobs: [trainer]}\n", ""),
        "rollout and reward and trainer decide together whether it succeeds",
    ),
    "no order": (
        SET.replace(DEPENDS, "dependsOn: [{name: rollout, status: Ready}]"),
        "trainer does not wait until reward is ready",
    ),
    "what ends before": (
        SET.replace("reward, status: Ready", "reward, status: Complete"),
        "trainer starts once reward has ended",
    ),
    "a role that waits": (
        SET.replace("  - name: reward\n", "  - name: reward\n    dependsOn: [{name: rollout, status: Ready}]\n"),
        "reward waits for rollout, and roles start at once",
    ),
    "replicas": (
        SET.replace("  - name: reward\n", "  - name: reward\n    replicas: 3\n"),
        "has 3 replicas of one role",
    ),
    "a name": (
        SET.replace("name: reward", "name: reward-of-a-judge"),
        '"reward-of-a-judge" is not a valid name in roles',
    ),
    "an initializer of a runtime": (
        TRAINJOB.replace("reward, status: Ready", "reward, status: Complete"),
        "its TrainingRuntime grpo has 3 roles",
    ),
    "a service that ends before": (
        COMPOSE.replace("service_healthy", "service_completed_successfully"),
        "it starts once reward has ended",
    ),
    "a service that waits": (
        COMPOSE.replace("    expose:", "    depends_on: [db]\n    expose:") + "  db: {image: 'registry.example.com/db:1'}\n",
        "reward itself waits for db",
    ),
    "an address of a service that is no role": (
        COMPOSE.replace("    depends_on:", "    environment: {CACHE: 'redis:6379'}\n    depends_on:")
        + "  redis: {image: 'redis:7'}\n",
        "train has an address of redis, which would be a job of its own",
    ),
    "a role without an image": (
        COMPOSE.replace("image: registry.example.com/judge:1", "build: ."),
        "Compose/grpo-train has no image in its role reward",
    ),
    "a name of a job that has none yet": (
        SET.replace("name: grpo}", "generateName: grpo-}").replace("reward, status: Ready", "reward, status: Complete"),
        "JobSet/grpo- has 3 roles",
    ),
    "patches of groups of a runtime that is not there": (
        TRAINJOB.split("---", maxsplit=1)[0]
        + "  runtimePatches: [{manager: a, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: reward}]}}}}]\n",
        "it patches several groups of pods (reward) of a runtime that is not among the files",
    ),
    "a service of two": (
        COMPOSE + "  other: {image: 'registry.example.com/a:1', command: [a], depends_on: [reward]}\n",
        "reward serves other too",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_are_no_roles_is_refused_by_name(case: str, place: Repository) -> None:
    text, message = REFUSED[case]
    path = place.root / "in.yaml"
    path.write_text(text, encoding="utf-8")
    done = place.run("import", "--dry-run", "--env", "prod", str(path))
    assert done.exit_code == 1
    assert done.stdout == ""
    assert message in done.stderr, done.stderr


def test_arguments_of_a_service_are_those_of_what_its_image_starts(place: Repository) -> None:
    text = COMPOSE.replace("command: [python, serve.py]", "command: [--model, m]")
    assert text != COMPOSE
    path = place.root / "in.yaml"
    path.write_text(text, encoding="utf-8")
    done = place.run("import", "--env", "prod", str(path))
    assert done.exit_code == 0, done.output
    (spec,) = (place.root / "environments/prod/jobs").glob("*.yaml")
    roles = yaml.safe_load(spec.read_text())["roles"]
    assert roles["reward"]["entrypoint"] == {"image": True, "args": ["--model", "m"]}


RENDERED = [
    pytest.param(
        folder,
        marks=[pytest.mark.slow] if folder.name == "grpo" else [],  # five containers
        id="-".join((folder.parts[-5], folder.name)),
    )
    for case in ("jobset", "trainjob", "compose")
    for folder in sorted((ROOT / f"tests/golden/{case}-with-roles/expected").glob("*/rendered/*"))
    if folder.is_dir()
]


@pytest.mark.parametrize("folder", RENDERED)
def test_a_rendered_run_with_roles_comes_back_as_the_same_run(folder: Path, tmp_path: Path) -> None:
    environment = folder.parts[-3]
    inputs = folder.parents[3] / "input" / environment
    shutil.copytree(inputs, tmp_path / "environments" / environment)
    found = ImportInput()
    found.files((str(folder),))
    done = run(tmp_path, found, ImportOptions(environment=environment, name="again", write=False))
    (imported,) = done.imported
    assert imported.spec["roles"].keys() == imported.source.workload().serving.keys()
    after = ImportContext(Folder(tmp_path), environment).run(imported.spec)
    assert isinstance(after, NormalForm)
    one, other = values(imported.source.run()), values(after)
    differing = [path for path in sorted({**one, **other}) if one.get(path) != other.get(path)]
    assert [p for p in differing if "/labels/" not in p and "/annotations/" not in p] == []
