"""Kinds of other operators: read where a spec can say what they hold, named where it cannot."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from repository import Repository
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.pointer import Pointer
from trainwright.importing import ImportInput
from trainwright.importing.batch import ImportBatch, ImportOptions, run
from trainwright.importing.equivalence.comparison import values
from trainwright.kinds.reading import Loss

HERE = Path(__file__).parent
SCHEMA = json.loads((HERE.parents[2] / "schemas/import.schema.json").read_text(encoding="utf-8"))

CONTAINER = {"name": "pytorch", "image": "registry.example.com/a:1", "command": ["python", "a.py"]}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}
PYTORCHJOB: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "inner"},
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {"template": TEMPLATE},
            "Worker": {"replicas": 2, "template": TEMPLATE},
        }
    },
}
APPWRAPPER = {
    "apiVersion": "workload.codeflare.dev/v1beta2",
    "kind": "AppWrapper",
    "metadata": {"name": "outer", "labels": {"kueue.x-k8s.io/queue-name": "team-nlp"}},
    "spec": {"components": [{"template": PYTORCHJOB, "podSets": [{"replicas": 3}]}]},
}
HYPERPOD = {
    "apiVersion": "sagemaker.amazonaws.com/v1",
    "kind": "HyperPodPyTorchJob",
    "metadata": {"name": "inner"},
    "spec": {
        "nprocPerNode": "8",
        "runPolicy": {"jobMaxRetryCount": 4, "cleanPodPolicy": "All"},
        "replicaSpecs": [{"name": "pods", "replicas": 3, "template": TEMPLATE}],
    },
}
VOLCANO = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "inner"},
    "spec": {
        "maxRetry": 4,
        "plugins": {"pytorch": ["--master=first", "--worker=rest", "--port=23456"]},
        "tasks": [
            {"name": "first", "replicas": 1, "template": TEMPLATE},
            {"name": "rest", "replicas": 2, "template": TEMPLATE},
        ],
    },
}


def imported(tmp_path: Path, *bodies: Any) -> tuple[ImportInput, ImportBatch]:
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump_all(bodies, sort_keys=False), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    return found, run(HERE, found, ImportOptions(environment="lab", write=False))


@pytest.mark.parametrize("body", [APPWRAPPER, HYPERPOD, VOLCANO], ids=lambda b: str(b["kind"]))
def test_what_it_holds_is_the_run(body: Any, tmp_path: Path) -> None:
    found, done = imported(tmp_path, body)
    assert (found.problems, done.problems) == ([], ())
    (one,) = done.imported
    assert one.file.path == "environments/lab/jobs/inner.yaml"
    assert one.severity in (None, Loss.COSMETIC, Loss.BEHAVIOUR)
    run_of_it = values(one.source.run())
    assert run_of_it[Pointer("/nodes")] == 3
    assert run_of_it[Pointer("/pods/2/image")] == "registry.example.com/a:1"
    assert one.spec["nodes"] == 3


def test_the_queue_of_a_wrapper_is_that_of_what_it_holds(tmp_path: Path) -> None:
    _, done = imported(tmp_path, APPWRAPPER)
    (one,) = done.imported
    assert one.spec["queue"] == "team-nlp"
    left = {item.field: (item.severity, item.place.line) for item in one.left}
    assert left["/spec/components/0/podSets/0/replicas"][0] is Loss.COSMETIC


@pytest.mark.parametrize(("body", "retries"), [(HYPERPOD, 4), (VOLCANO, 4), (APPWRAPPER, 6)])
def test_restarts_have_a_limit(body: Any, retries: int, tmp_path: Path) -> None:
    """A PyTorchJob that says nothing restarts for ever, which a spec bounds and never forbids."""
    (one,) = imported(tmp_path, body)[1].imported
    assert one.spec["retries"] == retries


@pytest.mark.parametrize(
    ("spec", "gang"), [({}, 3), ({"minAvailable": 1}, None), ({"minAvailable": 2}, 2)]
)
def test_volcano_waits_for_all_pods_unless_told_otherwise(
    spec: Any, gang: int | None, tmp_path: Path
) -> None:
    body = copy.deepcopy(VOLCANO)
    body["spec"] |= {"schedulerName": "volcano", **spec}  # type: ignore[operator]
    (one,) = imported(tmp_path, body)[1].imported
    assert values(one.source.run()).get(Pointer("/gang")) == gang
    assert one.spec["schedulerName"] == "volcano"
    left = {item.field: item.severity for item in one.left if "restartPolicy" in item.field}
    assert set(left.values()) <= {Loss.COSMETIC}
    assert [item.severity for item in one.left if item.field.endswith("/minAvailable")] == (
        [Loss.COSMETIC] if spec.get("minAvailable") == 1 else [Loss.BEHAVIOUR]
    )


def test_positions_are_those_of_the_wrapper(tmp_path: Path) -> None:
    body = copy.deepcopy(HYPERPOD)
    group = body["spec"]["replicaSpecs"][0]  # type: ignore[index]
    group["template"] = {"spec": {**TEMPLATE["spec"], "hostname": "x"}}
    _, done = imported(tmp_path, body)
    (one,) = done.imported
    (left,) = [item for item in one.left if item.field.endswith("/hostname")]
    assert left.field == "/spec/replicaSpecs/0/template/spec/hostname"
    lines = (tmp_path / "input.yaml").read_text(encoding="utf-8").splitlines()
    assert "hostname" in lines[left.place.line - 1]


def test_a_launcher_that_waits_for_another_operator_cannot_run(tmp_path: Path) -> None:
    body = copy.deepcopy(HYPERPOD)
    group = body["spec"]["replicaSpecs"][0]  # type: ignore[index]
    container = {**CONTAINER, "command": ["hyperpodrun", "--nnodes=3", "a.py"]}
    group["template"] = {"spec": {"containers": [container]}}
    _, done = imported(tmp_path, body)
    (one,) = done.broken
    (left,) = [item for item in one.left if item.severity is Loss.CANNOT_RUN]
    assert left.field == "/spec/replicaSpecs/0/template/spec/containers/0/command/0"


@pytest.mark.parametrize(
    ("body", "field"),
    [(VOLCANO, "tasks"), (HYPERPOD, "replicaSpecs"), (APPWRAPPER, "components")],
)
@pytest.mark.parametrize("odd", [None, 5, "x", {}, [], [None], [[]]])
def test_odd_values_are_refused_in_words(body: Any, field: str, odd: Any, tmp_path: Path) -> None:
    broken = copy.deepcopy(body)
    broken["spec"][field] = odd
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump(broken), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    with suppress(TrainwrightError):  # that there is nothing to import
        assert run(HERE, found, ImportOptions(environment="lab", write=False)).imported == ()


OTHERS = {
    "MPIJob": {
        "apiVersion": "kubeflow.org/v2beta1",
        "spec": {
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": TEMPLATE},
                "Worker": {"replicas": 4, "template": TEMPLATE},
            }
        },
    },
    "LeaderWorkerSet": {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "spec": {
            "replicas": 2,
            "leaderWorkerTemplate": {"size": 4, "workerTemplate": TEMPLATE},
        },
    },
    "ElasticJob": {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "spec": {"replicaSpecs": {"worker": {"replicas": 8, "template": TEMPLATE}}},
    },
    "RayJob": {
        "apiVersion": "ray.io/v1",
        "spec": {
            "rayClusterSpec": {
                "headGroupSpec": {"template": TEMPLATE},
                "workerGroupSpecs": [{"groupName": "gpu", "replicas": 2, "template": TEMPLATE}],
            }
        },
    },
}
HELD = {
    "MPIJob": ("Launcher (1 pod: ", "Worker (4 pods: "),
    "LeaderWorkerSet": ("8 pods: container pytorch of registry.example.com/a:1",),
    "ElasticJob": ("worker (8 pods: ",),
    "RayJob": ("headGroupSpec (1 pod: ", "gpu (2 pods: "),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_kinds_that_are_not_read_are_named_with_what_they_hold(
    kind: str, repository: Repository, tmp_path: Path
) -> None:
    body = {"kind": kind, "metadata": {"name": "train"}, **OTHERS[kind]}
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump(body, sort_keys=False), encoding="utf-8")
    done = repository.run("import", str(path), "--env", "dev", "-o", "json")
    assert done.exit_code == 1
    data = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(data)
    (refused,) = data["import"]["refused"]
    assert f"{kind}/train" in refused
    for held in HELD[kind]:
        assert held in refused
    assert data["import"]["imported"] == []


def test_what_is_imported_and_left_is_said_as_json(repository: Repository, tmp_path: Path) -> None:
    body = copy.deepcopy(PYTORCHJOB)
    body["spec"]["runPolicy"] = {"ttlSecondsAfterFinished": 60}
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump(body, sort_keys=False), encoding="utf-8")
    done = repository.run("import", str(path), "--env", "dev", "-o", "json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    Draft202012Validator(SCHEMA).validate(data)
    (one,) = data["import"]["imported"]
    assert (one["source"], one["written"], one["severity"]) == (
        "PyTorchJob/inner",
        True,
        "cosmetic",
    )
    assert one["spec"]["retries"] == 6
    left = {item["field"]: item["severity"] for item in one["left"]}
    assert left["/spec/runPolicy"] == "cosmetic"
    assert data["import"]["summary"]["cosmetic"] == 1
    assert (repository.root / one["path"]).is_file()


def test_servers_stay_beside_and_are_no_failure(tmp_path: Path) -> None:
    server = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "etcd"},
        "spec": {"template": TEMPLATE},
    }
    found, done = imported(tmp_path, PYTORCHJOB, server)
    assert (found.problems, done.problems) == ([], ())
    assert [left.field for left in found.beside] == ["Deployment/etcd"]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Pod"])
def test_a_server_that_starts_a_launcher_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    image = "registry.example.com/a:1"
    line = ["bash", "-c", "torchrun --nnodes=2 --node_rank=${HOSTNAME##*-} train.py"]
    pod = {"containers": [{"name": "a", "image": image, "command": line}]}
    body = {
        "apiVersion": "v1" if kind == "Pod" else "apps/v1",
        "kind": kind,
        "metadata": {"name": "trainer"},
        "spec": pod if kind == "Pod" else {"replicas": 2, "template": {"spec": pod}},
    }
    found, _ = imported(tmp_path, PYTORCHJOB, body)
    (problem,) = found.problems
    assert f"{kind}/trainer" in problem
    assert f"container a of {image}" in problem
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "b", "controller": True}
    owned = {**body, "metadata": {"name": "trainer", "ownerReferences": [owner]}}
    found, _ = imported(tmp_path, PYTORCHJOB, owned)
    assert found.problems == [], "its owner is the training"


def test_an_image_is_asked_for_and_never_made_up(repository: Repository, tmp_path: Path) -> None:
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "train"},
        "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {"numNodes": 2, "command": ["torchrun", "train.py"]},
        },
    }
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump(job), encoding="utf-8")
    done = repository.run("import", str(path), "--env", "dev", "--dry-run")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "--image" in done.stderr
    named = repository.run(
        "import", str(path), "--env", "dev", "--dry-run", "--image", "registry.example.com/a:1"
    )
    assert named.exit_code == 0, named.stderr
    assert "repository: registry.example.com/a" in named.stdout


RESOURCE = {"action": "create", "manifest": yaml.safe_dump(PYTORCHJOB)}
TRAIN = {"container": {"image": "registry.example.com/a:1", "command": ["torchrun", "a.py"]}}


def workflow(kind: str, template: dict[str, Any]) -> dict[str, Any]:
    spec = {"templates": [{"name": "prepare", "container": {"image": "a"}}, {"name": "train", **template}]}  # fmt: skip
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "nightly"},
        "spec": {"workflowSpec": spec} if kind == "CronWorkflow" else spec,
    }


@pytest.mark.parametrize("kind", ["Workflow", "CronWorkflow", "WorkflowTemplate"])
@pytest.mark.parametrize(
    ("template", "what"),
    [
        ({"resource": RESOURCE}, "a PyTorchJob. Write the text of resource.manifest"),
        *(
            (
                {"resource": {**RESOURCE, "manifest": f"{RESOURCE['manifest']}x: {odd}\n"}},
                "a PyTorchJob. Write the text of resource.manifest",
            )
            for odd in ("{{inputs.a}}", "{{a}}:{{b}}", '{{= a == "b" ? c : "d" }}')
        ),
        (TRAIN, "a launcher of training. Write the container into a Job"),
        (
            {"script": {"image": "a", "command": ["bash"], "source": "set -e\ntorchrun a.py"}},
            "a launcher of training. Write the script into a Job",
        ),
        ({"container": {"image": "a", "command": ["python", "/opt/train.py"]}}, "train.py. Write"),
        ({"container": {"image": "a", "args": ["python -m lab.pretrain"]}}, "lab.pretrain. Write"),
        (
            {"container": {"image": "a", "resources": {"limits": {"nvidia.com/gpu": "{{n}}"}}}},
            "a program with {{n}} nvidia.com/gpu. Write the container into a Job",
        ),
    ],
)
def test_training_of_a_workflow_is_named_with_what_to_take_out(
    kind: str, template: dict[str, Any], what: str, tmp_path: Path
) -> None:
    found, _ = imported(tmp_path, workflow(kind, template), PYTORCHJOB)
    (problem,) = found.problems
    assert f'{kind}/nightly (argoproj.io): its template "train" starts {what}' in problem
    assert [source.name for source in found.sources] == ["inner"]


@pytest.mark.parametrize(
    "template",
    [
        {"container": {"image": "a", "command": ["python", "report.py"]}},
        {"container": {"image": "a", "resources": {"limits": {"nvidia.com/gpu": 0, "cpu": 4}}}},
        {"script": {"image": "a", "command": ["bash"], "source": "# train.py\npython -m report"}},
        {"resource": {"action": "get", "manifest": RESOURCE["manifest"]}},
        {"resource": {"action": "create", "manifest": "kind: ConfigMap\napiVersion: v1"}},
        {"resource": {"action": "create", "manifest": "a: [b"}},
        {"resource": 5, "container": "a", "script": {"source": 7}},
    ],
)
def test_a_workflow_that_trains_nothing_stands_beside(
    template: dict[str, Any], tmp_path: Path
) -> None:
    found, _ = imported(tmp_path, workflow("Workflow", template), PYTORCHJOB)
    assert found.problems == []
    assert [left.field for left in found.beside] == ["Workflow/nightly"]


STEP = {"name": "fit", "image": "a", "command": ["torchrun"], "args": ["a.py"]}
SCRIPTED = {"name": "fit", "image": "a", "script": "#!/bin/sh\npython finetune.py"}
GPUS = {"name": "fit", "image": "a", "computeResources": {"limits": {"nvidia.com/gpu": 2}}}
OTHER = {"name": "fetch", "image": "a", "script": "git clone https://example.com/a.git"}


def tekton(kind: str, *steps: dict[str, Any]) -> dict[str, Any]:
    task = {"taskSpec": {"steps": steps}}
    spec: dict[str, Any] = {
        "Task": {"steps": steps},
        "TaskRun": task,
        "Pipeline": {"tasks": [{"name": "a", "taskRef": {"name": "b"}}], "finally": [task]},
        "PipelineRun": {"pipelineSpec": {"tasks": [task]}},
        "StepAction": steps[-1],
    }[kind]
    body = {"apiVersion": "tekton.dev/v1", "kind": kind, "metadata": {"name": "nightly"}}
    return json.loads(json.dumps({**body, "spec": spec}))  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["Task", "TaskRun", "Pipeline", "PipelineRun", "StepAction"])
@pytest.mark.parametrize(
    ("step", "what"),
    [
        (STEP, "a launcher of training"),
        (SCRIPTED, "finetune.py"),
        (GPUS, "a program with 2 nvidia.com/gpu"),
    ],
)
def test_training_of_tekton_is_named_with_what_to_take_out(
    kind: str, step: dict[str, Any], what: str, tmp_path: Path
) -> None:
    found, _ = imported(tmp_path, tekton(kind, OTHER, step), PYTORCHJOB)
    (problem,) = found.problems
    assert f'{kind}/nightly (tekton.dev): its step "fit" starts {what}. Write' in problem
    assert [source.name for source in found.sources] == ["inner"]


def test_tekton_that_trains_nothing_stands_beside(tmp_path: Path) -> None:
    found, _ = imported(tmp_path, tekton("Task", OTHER), PYTORCHJOB)
    assert found.problems == []
    (beside,) = found.beside
    assert (beside.field, beside.why.partition(":")[0]) == (
        "Task/nightly",
        "no step that is written in it starts a training",
    )


TRAINJOB = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}},
}
MPI = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "spec": {"tasks": [{"name": "mpi", "replicas": 2, "template": TEMPLATE}]},
}


@pytest.mark.parametrize("held", [TRAINJOB, workflow("Workflow", TRAIN)], ids=lambda b: b["kind"])
def test_an_object_inside_of_another_is_named(held: dict[str, Any], tmp_path: Path) -> None:
    outer = {
        "apiVersion": "kubeflow.org/v1beta1",
        "kind": "Experiment",
        "metadata": {"name": "sweep"},
        "spec": {"trialTemplate": {"trialSpec": held}},
    }
    (problem,) = imported(tmp_path, outer)[0].problems
    assert "Experiment/sweep (kubeflow.org) is of a kind that is not read" in problem
    assert f"It holds a {held['kind']}: import that" in problem


@pytest.mark.parametrize(
    ("group", "kind", "spec"),
    [
        ("kubeflow.org/v1", "XGBoostJob", {"runPolicy": {"backoffLimit": 1}}),
        ("training.kubedl.io/v1alpha1", "PyTorchJob", {"foo": "bar"}),
    ],
)
def test_a_job_whose_pods_are_elsewhere_is_named(
    group: str, kind: str, spec: dict[str, Any], tmp_path: Path
) -> None:
    body = {"apiVersion": group, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    (problem,) = imported(tmp_path, body, PYTORCHJOB)[0].problems
    assert f"{kind}/a ({group.partition('/')[0]}) is of a kind that is not read, and" in problem


def test_a_workflow_that_starts_pods_of_another_operator(tmp_path: Path) -> None:
    step = {"resource": {"action": "create", "manifest": yaml.safe_dump(MPI)}}
    (problem,) = imported(tmp_path, workflow("WorkflowTemplate", step))[0].problems
    assert 'its template "train" starts a Job' in problem


LAPTOP = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: lab
kubernetes: {version: "1.34"}
targets: {compose: {}}
podSecurity: baseline
"""
POOL = "pools: {gpu: {resource: nvidia.com/gpu, gpusPerNode: 1}}\n"


@pytest.mark.parametrize(("pools", "severity"), [("", Loss.CANNOT_RUN), (POOL, Loss.COSMETIC)])
def test_gpus_of_a_service_are_those_of_a_pool(pools: str, severity: Loss, tmp_path: Path) -> None:
    place = tmp_path / "environments/laptop/environment.yaml"
    place.parent.mkdir(parents=True)
    place.write_text(LAPTOP + pools)
    device = {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
    service = {
        "image": "registry.example.com/a:1",
        "command": ["torchrun", "--nproc-per-node=1", "a.py"],
        "stop_grace_period": "60s",
        "deploy": {"resources": {"reservations": {"devices": [device]}}},
    }
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump({"services": {"train": service}}))
    found = ImportInput()
    found.files((str(tmp_path / "compose.yaml"),))
    done = run(tmp_path, found, ImportOptions(environment="laptop", write=False))
    (one,) = done.imported
    assert max((one.severity or Loss.COSMETIC, Loss.COSMETIC), key=lambda s: s.weight) is severity
    assert bool(done.broken) is not bool(pools)
    texts = [left.why for left in one.left if left.severity is Loss.CANNOT_RUN]
    assert all("no nvidia.com/gpu without a pool" in why for why in texts)
    assert bool(texts) is not bool(pools)
