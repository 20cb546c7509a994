"""RayJobs: the way of a command to the program, the pods of KubeRay, and what is imported."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from subprocess import list2cmdline
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from repository import Repository
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import operators
from trainwright.kinds.rayjob import entrypoint
from trainwright.kinds.rayjob.status import STATUS
from trainwright.objects.pods import rank_prediction
from trainwright.objects.pods.pod import ManifestError, expand

# --- the command ---------------------------------------------------------------------------------

HARD = (
    ["two words", "", "tab\there", "line\nbreak"],
    ["it's", 'a "quoted" word', '{"a": [1, 2]}', '{"a":1,"b":2}'],
    ["$HOME", "$(date)", "`date`", "$$", "a $1 b", "${A}"],
    ["back\\slash", "ends\\", "ends so \\", 'slash\\"quote', 'a slash\\\\" b', "\\$A"],
    ["*", "?", "[a]", "{a,b}", "~", "#", "a;b", "a&b", "a|b", "<a>", "!x", "(a)", "é", "=a"],
)


def _submitted(text: str) -> list[str]:
    """What the program gets: KubeRay writes the text into a script of bash, which calls Ray."""
    kept = f"{sys.executable} -c 'import json, sys; print(json.dumps(sys.argv[1:]))'"
    script = f"{kept} {expand(text, {})} ;"  # as an argument of the submitter's container
    first = subprocess.run(["/bin/bash", "-ec", script], capture_output=True, text=True, check=True)
    started = f"{kept} {list2cmdline(json.loads(first.stdout))}"  # ray.scripts: job submit
    second = subprocess.run(started, shell=True, capture_output=True, text=True, check=True)
    words: list[str] = json.loads(second.stdout)
    return words


@pytest.mark.parametrize("words", HARD, ids=str)
def test_the_program_gets_the_words_that_are_written(words: list[str]) -> None:
    assert _submitted(entrypoint.text(words)) == words


def test_plain_words_are_left_as_they_are() -> None:
    words = ["python", "-u", "-m", "a.b", "--lr=0.5", "/data/a,b"]
    assert entrypoint.text(words) == shlex.join(words)


@given(st.lists(st.text("ab \t\n\"'\\$`!(){}[]*;&|<>~#=-é", max_size=6), min_size=1, max_size=3))
@example(['a\\\\"b c', "\\", 'x"'])
def test_words_are_read_back(words: list[str]) -> None:
    assert list(entrypoint.words(entrypoint.text(words))) == words


@given(st.text("ab \t\n\"'\\$", max_size=8))
def test_a_word_is_written_as_ray_does(word: str) -> None:
    assert entrypoint._for_windows(word) == list2cmdline([word])


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("python /home/ray/a.py --x 1", ("python", "/home/ray/a.py", "--x", "1")),
        ('python a.py --x "a b"', ("python", "a.py", "--x", "a b")),
        ("cd /app && python a.py", ("/bin/sh", "-c", "cd /app && python a.py")),
        ("python a.py --x $HOME", ("/bin/sh", "-c", "python a.py --x $HOME")),
        ("python 'a", ("/bin/sh", "-c", "python 'a")),
    ],
)
def test_entrypoints_of_others(written: str, words: tuple[str, ...]) -> None:
    assert entrypoint.words(written) == words


# --- pods ----------------------------------------------------------------------------------------

RAYJOB: dict[str, Any] = yaml.safe_load(
    """\
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: grpo}
spec:
  entrypoint: python -u -m rl.train --lr=0.5
  backoffLimit: 2
  activeDeadlineSeconds: 60
  rayClusterSpec:
    headGroupSpec:
      rayStartParams: {num-cpus: "4"}
      template: &pod
        spec:
          containers:
          - name: ray
            image: registry.example.com/rl:1
            resources: {limits: {cpu: "4", memory: 8Gi}}
    workerGroupSpecs:
    - {groupName: gpus, replicas: 2, minReplicas: 2, maxReplicas: 2, rayStartParams: {num-cpus: "4"}, template: *pod}
"""
)


def test_the_head_has_the_program_and_the_others_join_it() -> None:
    made = operators.workload((Manifest(body=RAYJOB),))
    assert [pod.role for pod in made.pods] == ["head", "worker", "worker"]
    assert made.pods.names == ("grpo-head", "grpo-gpus-worker-0", "grpo-gpus-worker-1")
    (driver,) = rank_prediction.predict(made.pods)
    assert driver.pod == "grpo-head"
    assert made.deciding == ("grpo-head",)
    assert made.pods[0].argv[-4:] == ("--", "-m", "rl.train", "--lr=0.5")
    assert made.pods[0].restart.limit == 2
    assert made.deadline is not None
    assert made.deadline.attempt


def test_ray_has_shared_memory_where_none_is_mounted() -> None:
    (pod, *_) = operators.pods((Manifest(body=RAYJOB),))
    (mount,) = pod.mounts
    assert mount.path == "/dev/shm"
    assert mount.source == {"emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}


@pytest.mark.parametrize(
    ("given", "params", "cpus"),
    [
        ({"limits": {"cpu": "3500m"}, "requests": {"cpu": "1"}}, {}, "4"),
        ({"requests": {"cpu": "2"}}, {}, "2"),
        ({"limits": {"cpu": "8"}}, {"num-cpus": "6"}, "6"),
        ({}, {}, ""),
    ],
)
def test_ray_counts_the_cpus_of_its_pods(given: Any, params: Any, cpus: str) -> None:
    body = json.loads(json.dumps(RAYJOB))
    _head(body)["rayStartParams"] = params
    (container,) = _head(body)["template"]["spec"]["containers"]
    container["resources"] = given
    (head, *_) = operators.pods((Manifest(body=body),))
    assert [word for word in head.argv if "num-cpus" in word] == [f"--num-cpus={cpus}"] * bool(cpus)


def test_a_cluster_that_is_there_already_has_no_pods_of_its_own() -> None:
    body = {**RAYJOB, "spec": {"clusterSelector": {"ray.io/cluster": "a"}}}
    with pytest.raises(ManifestError, match="no head"):
        operators.workload((Manifest(body=body),))


# --- import --------------------------------------------------------------------------------------


def _head(body: Any) -> Any:
    return body["spec"]["rayClusterSpec"]["headGroupSpec"]


def _cpu_head(body: Any) -> None:
    (container,) = _head(body)["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"cpu": "1", "memory": "2Gi"}}


def _idle_head(body: Any) -> None:
    _head(body)["rayStartParams"] = {"num-cpus": "0"}


def _two_groups(body: Any) -> None:
    groups = body["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    groups.append({**groups[0], "groupName": "cpus"})


def _growing(body: Any) -> None:
    body["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"] = True


def _shared(body: Any) -> None:
    body["spec"] = {"entrypoint": "python a.py", "clusterSelector": {"ray.io/cluster": "a"}}


def _by_hand(body: Any) -> None:
    body["spec"]["submissionMode"] = "InteractiveMode"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_cpu_head, "has a head that is unlike its workers"),
        (_idle_head, "has a head that is unlike its workers"),
        (_two_groups, "has 2 groups of workers"),
        (_growing, "has a cluster that grows and shrinks"),
        (_shared, "runs on a cluster that is there already"),
        (_by_hand, "has no program: people submit it"),
    ],
)
def test_what_no_spec_can_say_is_refused_by_name(
    change: Any, why: str, repository: Repository
) -> None:
    repository.write("ray/environment.yaml", ENVIRONMENT)
    body = json.loads(json.dumps(RAYJOB))  # without what YAML makes one object
    change(body)
    path = repository.root / "input.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    done = repository.run("import", str(path), "--env", "ray")
    assert done.exit_code == 1
    assert f"RayJob/grpo {why}" in done.output
    assert not (repository.root / "environments/ray/jobs").exists()


@pytest.mark.parametrize(
    ("target", "runs"), [("rayjob: {version: '1.5'}", True), ("jobset: {version: '0.11'}", False)]
)
def test_without_kuberay_the_image_needs_our_runtime(
    target: str, runs: bool, repository: Repository
) -> None:
    text = f"apiVersion: trainwright.io/v1alpha1\nkind: Environment\nnamespace: training\nkubernetes: {{version: '1.34'}}\ntargets: {{{target}}}\n"  # fmt: skip
    repository.write("ray/environment.yaml", text)
    path = repository.root / "input.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(RAYJOB))), encoding="utf-8")
    done = repository.run("import", str(path), "--env", "ray")
    assert (done.exit_code == 0) is runs, done.output
    needs = "the package trainwright_runtime starts Ray: install it into the image"
    assert (needs in done.output) is not runs
    spec = yaml.safe_load((repository.root / "environments/ray/jobs/grpo.yaml").read_text())
    assert (spec.get("launcher", "ray"), spec["entrypoint"]) == ("ray", {"module": "rl.train"})
    assert "became nccl" not in done.output
    assert "options.num-cpus" not in done.output


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "where"),
    [
        ("entrypoint: {argv: [python, -m, trainwright_runtime, --ray, --, a.py]}", "/entrypoint/argv"),
        ("launcher: ray\nentrypoint: {script: a.py}\nprocsPerNode: 3", "/procsPerNode"),
        ("launcher: ray\nentrypoint: {script: a.py, args: [$(HOME)]}", "/entrypoint/args"),
        ("launcher: torchrun\nentrypoint: {script: a.py}", "/launcher"),
        (
            "launcher: ray\nentrypoint: {script: a.py}\ngracePeriod: 1m\n"
            "checkpoint: {volume: v, path: a, peerCopies: {volume: m, every: 9}}\n"
            "volumes:\n  v: {claim: d, mountPath: /v}\n"
            "  m: {emptyDir: {medium: Memory, sizeLimit: 1Gi}, mountPath: /m}",
            "/checkpoint/peerCopies",
        ),
    ],
)  # fmt: skip
def test_what_would_not_do_what_it_says(extra: str, where: str, repository: Repository) -> None:
    repository.write("ray/environment.yaml", ENVIRONMENT)
    repository.write("ray/jobs/a.yaml", f"{JOB}{extra}\n")
    done = repository.run("check", "ray", "-o", "json")
    found = json.loads(done.stdout)["report"]["results"]
    assert [(f["rule"], f["path"]) for f in found] == [
        ("TW021", where.strip("/").replace("/", "."))
    ]


@pytest.mark.parametrize(("version", "refused"), [("1.1", True), ("1.2", False)])
def test_retries_came_with_kuberay_1_2(version: str, refused: bool, repository: Repository) -> None:
    repository.write("ray/environment.yaml", ENVIRONMENT.replace("1.7", version))
    repository.write(
        "ray/jobs/a.yaml", f"{JOB}launcher: ray\nentrypoint: {{script: a.py}}\nretries: 1\n"
    )
    assert ("backoffLimit came with 1.2" in repository.run("check", "ray").output) is refused


ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
targets: {rayjob: {version: "1.7"}}
"""
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: a
image: {repository: registry.example.com/rl, tag: "1.0"}
resources: {cpu: "1", memory: 1Gi}
"""


_HEAD = {"type": "HeadPodReady"}


@pytest.mark.parametrize(
    ("cluster", "ready"),
    [
        ({}, 0),
        ({"head": {"podIP": "10.0.0.1"}}, 1),  # KubeRay 1.2 has no conditions
        ({"head": {"podIP": "10.0.0.1"}, "conditions": [_HEAD | {"status": "False"}]}, 0),
        ({"conditions": [_HEAD | {"status": "True"}], "readyWorkerReplicas": 1}, 2),
        ({"state": "ready", "readyWorkerReplicas": 2}, 3),
    ],
)
def test_how_many_nodes_are_ready(cluster: dict[str, Any], ready: int) -> None:
    status = {"jobDeploymentStatus": "Initializing", "rayClusterStatus": cluster}
    body = {"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": {}, "status": status}
    assert STATUS.state_of(body).ready == ready
