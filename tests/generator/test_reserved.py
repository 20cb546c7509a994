"""What a job says under a name that its kind sets itself is refused, and nothing of it is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from repository import Repository

TARGETS = {
    "pytorchjob": '{version: "1.9"}', "trainingjob": "{}", "trainjob": '{version: "2.3"}',
    "jobset": "{}", "job": "{}", "compose": "{}",
}  # fmt: skip
ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
podSecurity: baseline
targets:
""" + "".join(f"  {name}: {options}\n" for name, options in TARGETS.items())
VARIABLES = (
    "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "PET_NNODES", "PET_NODE_RANK",
    "TRAINWRIGHT_MASTER_PORT", "TRAINWRIGHT_NNODES", "TRAINWRIGHT_CHECKPOINT_DIR",
    "TRAINWRIGHT_METRICS_PORT", "LATTICE_NPROC_PER_NODE", "JOB_COMPLETION_INDEX",
    "PYTHONUNBUFFERED", "ORDINARY",
)  # fmt: skip
LABELS = (
    "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by",
    "trainwright.io/environment", "trainwright.io/run", "app.kubernetes.io/part-of",
    "batch.kubernetes.io/job-name", "jobset.sigs.k8s.io/job-key", "controller-uid",
    "training.kubeflow.org/job-role",
)  # fmt: skip
SHAPES = {
    "python": "launcher: python\nentrypoint: {script: train.py}\n",
    "a command": "entrypoint: {argv: [/bin/train]}\n",
    "trainwright": "launcher: trainwright\nentrypoint: {script: train.py}\n"
    "volumes: {v: {claim: v, mountPath: /v}}\ncheckpoint: {volume: v, path: c}\n"
    "metrics: {port: 9000}\ngracePeriod: 2m\n",
    "torchrun": "launcher: torchrun\nentrypoint: {script: train.py}\n",
}
CASES = [
    (target, shape, nodes)
    for target in TARGETS
    for shape in SHAPES
    for nodes in ((1,) if target == "compose" else (1, 2))
    if (target, shape, nodes) != ("trainingjob", "torchrun", 2)
]


def _job(repository: Repository, target: str, shape: str, nodes: int, extra: str) -> Path:
    repository.write("prod/environment.yaml", ENVIRONMENT)
    text = (
        "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: own\n"
        f"image: {{repository: r.example.com/x, tag: '1'}}\ntarget: {target}\nnodes: {nodes}\n"
        f"maxDuration: {'null' if target == 'compose' else '1h'}\n{SHAPES.get(shape, '')}{extra}"
    )
    return repository.write("prod/jobs/own.yaml", text)


def _strings(data: object) -> Iterator[tuple[str, object]]:
    if isinstance(data, dict):
        if isinstance(data.get("name"), str) and "value" in data:
            yield data["name"], data["value"]
        for key, value in data.items():
            yield key, value
            yield from _strings(value)
    elif isinstance(data, list):
        for item in data:
            yield from _strings(item)


@pytest.mark.parametrize(("target", "shape", "nodes"), CASES)
def test_what_is_written_is_rendered_or_refused_at_its_line(
    target: str, shape: str, nodes: int, repository: Repository
) -> None:
    own = {name: f"own-{index}" for index, name in enumerate((*VARIABLES, *LABELS))}
    extra = "env:\n" + "".join(f"  {name}: {own[name]}\n" for name in VARIABLES)
    extra += "labels:\n" + "".join(f"  {name}: {own[name]}\n" for name in LABELS)
    job = _job(repository, target, shape, nodes, extra)
    done = repository.run("check", "--no-cache", "-o", "json", "prod/own")
    lines = job.read_text().splitlines()
    refused = set()
    for finding in json.loads(done.stdout)["report"]["results"]:
        if finding["rule"] == "TW026":
            line = lines[finding["place"]["line"] - 1]
            assert f"  {line.split(':')[0].strip()}" in line
            assert line.split(":")[0].strip() in finding["message"]
            refused.add(line.split(":")[0].strip())
        else:
            assert finding["severity"] != "error" or finding["rule"] == "TW206", finding
    assert {"app.kubernetes.io/name", "trainwright.io/run"} <= refused
    kept = {name: value for name, value in own.items() if name not in refused}
    field = {True: "env", False: "labels"}
    parts: dict[str, dict[str, str]] = {"env": {}, "labels": {}}
    for name, value in kept.items():
        if (name != "PET_NNODES" and name != "PET_NODE_RANK") or target != "trainjob":
            parts[field[name in VARIABLES]][name] = value
    _job(repository, target, shape, nodes, yaml.safe_dump(parts))
    assert repository.run("render", "prod/own").exit_code == 0
    rendered = [
        found
        for path, text in repository.tree().items()
        if path.startswith("prod/rendered/own/") and not path.endswith("values.yaml")
        for document in yaml.safe_load_all(text)
        for found in _strings(document)
    ]
    for name, value in {**parts["env"], **parts["labels"]}.items():
        assert (name, value) in rendered, name
        if name in VARIABLES:
            assert {message for found, message in rendered if found == name} == {value}


LAUNCHED = [
    (target, launcher)
    for target in ("pytorchjob", "trainjob", "jobset", "job")
    for launcher in ("trainwright", "torchrun", "accelerate", "deepspeed")
]
OF_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
OF_NODES = (
    "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT",
    "PET_RDZV_ENDPOINT",
)  # fmt: skip


def _refused(repository: Repository) -> set[str]:
    done = repository.run("check", "--no-cache", "-o", "json", "prod/own")
    results = json.loads(done.stdout)["report"]["results"]
    return {finding["path"] for finding in results if finding["rule"] == "TW026"}


@pytest.mark.parametrize(("target", "launcher"), LAUNCHED)
def test_what_a_launcher_sets_in_its_processes_is_refused(
    target: str, launcher: str, repository: Repository
) -> None:
    started = f"launcher: {launcher}\nentrypoint: {{script: train.py}}\n"
    env = "".join(f"  {name}: '1'\n" for name in (*OF_RANKS, *OF_NODES, "PET_LOG_DIR", "NODE_RANK"))
    _job(repository, target, "", 2, f"{started}env:\n{env}")
    assert _refused(repository) == {f"env.{name}" for name in (*OF_RANKS, *OF_NODES)}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", ["python", "a command"])
def test_a_program_that_no_launcher_starts_may_be_given_its_local_rank(
    target: str, shape: str, repository: Repository
) -> None:
    _job(repository, target, shape, 1, "env: {LOCAL_RANK: '0'}\n")
    assert not _refused(repository)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("target", ["trainjob", "jobset", "job"])
def test_no_two_pods_are_given_the_same_index(
    target: str, shape: str, repository: Repository
) -> None:
    _job(repository, target, shape, 2, "env: {JOB_COMPLETION_INDEX: '0'}\n")
    assert _refused(repository) == {"env.JOB_COMPLETION_INDEX"}


@pytest.mark.parametrize("value", ["0", "1"])
@pytest.mark.parametrize("target", ["jobset", "trainjob"])
def test_a_role_of_one_pod_has_the_index_0(value: str, target: str, repository: Repository) -> None:
    role = "image: {repository: r.example.com/s}, entrypoint: {argv: [serve]}, port: 80"
    roles = f"roles: {{server: {{{role}, env: {{JOB_COMPLETION_INDEX: '{value}'}}}}}}\n"
    _job(repository, target, "torchrun", 2, roles)
    refused = {"roles.server.env.JOB_COMPLETION_INDEX"} if value == "1" else set()
    assert _refused(repository) == refused


def test_a_command_may_be_given_the_index_from_its_annotation(repository: Repository) -> None:
    source = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    index = f'env: {{JOB_COMPLETION_INDEX: {{field: "{source}"}}}}\n'
    _job(repository, "job", "a command", 2, index)
    assert not _refused(repository)
    assert repository.run("render", "prod/own").exit_code == 0


@pytest.mark.parametrize("value", ["b", "a", "9", "1"])
def test_which_value_is_set_does_not_depend_on_the_values(
    value: str, repository: Repository
) -> None:
    _job(repository, "job", "a command", 1, f"env: {{PYTHONUNBUFFERED: '{value}'}}\n")
    assert repository.run("render", "prod/own").exit_code == 0
    values = yaml.safe_load(repository.tree()["prod/rendered/own/values.yaml"])
    assert values["env"]["PYTHONUNBUFFERED"] == value


def test_a_secret_under_a_name_that_is_set_is_refused(repository: Repository) -> None:
    _job(repository, "jobset", "python", 2, "secrets:\n  MASTER_ADDR: {name: a, key: b}\n")
    done = repository.run("check", "-o", "json", "prod/own")
    (found,) = [f for f in json.loads(done.stdout)["report"]["results"] if f["rule"] == "TW026"]
    assert found["path"] == "secrets.MASTER_ADDR"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("nodes", [1, 2])
def test_nobody_is_told_to_remove_what_was_rendered_for_them(
    shape: str, nodes: int, repository: Repository
) -> None:
    _job(repository, "trainingjob", shape, nodes, "")
    done = repository.run("check", "-o", "json", "prod/own")
    assert "TW111" not in {f["rule"] for f in json.loads(done.stdout)["report"]["results"]}


@pytest.mark.parametrize("field", ["labels", "podLabels"])
@pytest.mark.parametrize(
    ("label", "instead"), [("queue-name", "queue"), ("priority-class", "queuePriority")]
)
def test_a_label_of_kueue_is_one_finding_that_names_the_field(
    repository: Repository, field: str, label: str, instead: str
) -> None:
    _job(repository, "job", "python", 1, f"{field}: {{kueue.x-k8s.io/{label}: main}}\n")
    kueue = f'{ENVIRONMENT}queueing: kueue\nkueue: {{version: "0.19", frameworks: [batch/job]}}\n'
    repository.write("prod/environment.yaml", kueue)
    done = repository.run("check", "-o", "json")
    assert done.exit_code == 1
    (finding,) = json.loads(done.stdout)["report"]["results"]
    assert (finding["rule"], finding["severity"]) == ("TW026", "error")
    assert finding["remedy"] == f"Write `{instead}: main` instead."


@pytest.mark.parametrize(("value", "refused"), [("true", True), ("", True), ("false", False)])
def test_a_run_that_kustomize_would_leave_out_is_refused(
    repository: Repository, value: str, refused: bool
) -> None:
    extra = f"annotations: {{config.kubernetes.io/local-config: '{value}'}}\n"
    _job(repository, "job", "python", 1, extra)
    done = repository.run("check")
    assert done.exit_code == refused, done.output
    assert ("error[TW026]: kustomize leaves out what has the annotation" in done.output) == refused


@pytest.mark.parametrize(
    ("target", "address", "nodes", "refused"),
    [
        ("pytorchjob", "localhost", 2, True),
        ("pytorchjob", "127.0.0.1", 2, True),
        ("trainingjob", "localhost", 2, True),
        ("pytorchjob", "localhost", 1, False),
        ("pytorchjob", "head.example.com", 2, False),
    ],
)
def test_several_nodes_that_would_meet_at_their_own_address_are_refused(
    repository: Repository, target: str, address: str, nodes: int, refused: bool
) -> None:
    _job(repository, target, "python", nodes, f"env: {{MASTER_ADDR: {address}}}\n")
    assert _refused(repository) == ({"env.MASTER_ADDR"} if refused else set())
