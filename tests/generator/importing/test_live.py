"""Objects that a cluster has, the marks of what applies them, and what one container is of many."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.importing import ImportInput
from trainwright.importing.batch import ImportBatch, ImportOptions, run
from trainwright.importing.generated import engine_of
from trainwright.kinds import SERVED
from trainwright.kinds.reading import Loss

HERE = Path(__file__).parent
TEMPLATE: dict[str, Any] = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "pytorch",
                "image": "registry.example.com/a:1",
                "command": ["python", "train.py"],
            }
        ],
    }
}
PYTORCHJOB: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "llm"},
    "spec": {"pytorchReplicaSpecs": {"Master": {"template": TEMPLATE}}},
}
OBJECTS: dict[str, dict[str, Any]] = {
    "PyTorchJob": PYTORCHJOB,
    "Job": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "llm"},
        "spec": {"template": TEMPLATE},
    },
    "JobSet": {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "llm"},
        "spec": {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": TEMPLATE}}}]},
    },
    "RayJob": {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "llm"},
        "spec": {
            "entrypoint": "python train.py",
            "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": TEMPLATE}},
        },
    },
    "TrainJob": {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "llm"},
        "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {"image": "registry.example.com/a:1", "command": ["python", "train.py"]},
        },
    },
    "TrainingJob": {
        "apiVersion": "breezeml.ai/v1",
        "kind": "TrainingJob",
        "metadata": {"name": "llm"},
        "spec": {"size": 1, "template": TEMPLATE},
    },
}


def imported(tmp_path: Path, *bodies: Any, new_runs: bool = False) -> ImportBatch:
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump_all(bodies, sort_keys=False), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    options = ImportOptions(environment="lab", write=False, new_runs=new_runs)
    done = run(HERE, found, options)
    return ImportBatch(done.imported, (*found.problems, *done.problems))


def test_every_served_kind_is_tried() -> None:
    assert {kind.kind for kind in SERVED} == set(OBJECTS)


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize(
    "written",
    [
        {"status": {"conditions": [{"type": "Created", "status": "True"}]}},
        {"status": {"active": 1}},
        {"metadata": {"uid": "7e1b0ef6-31b1-4a2c-9f37-5b6d2b1f6f1e"}},
        {"metadata": {"resourceVersion": "12345"}},
        {"metadata": {"deletionTimestamp": "2026-11-01T00:00:00Z"}},
        {"status": {"conditions": 7}},
        {"status": {"conditions": [None], "replicaStatuses": [1]}},
    ],
    ids=lambda written: "-".join(map(str, next(iter(written.values())))),
)
def test_what_a_cluster_has_begins_no_second_run(
    kind: str, written: Mapping[str, Any], tmp_path: Path
) -> None:
    body = copy.deepcopy(OBJECTS[kind])
    for key, value in written.items():
        body[key] = {**body.get(key, {}), **value}
    done = imported(tmp_path, body)
    assert done.imported == ()
    (problem,) = done.problems
    assert f"{kind}/llm is in a cluster" in problem
    assert "--new-runs" in problem
    again = imported(tmp_path, body, new_runs=True)
    assert "in a cluster" not in "".join(again.problems)


@pytest.mark.parametrize("status", [{}, None, {"conditions": []}, {"conditions": None}])
def test_an_empty_status_is_no_cluster(status: object, tmp_path: Path) -> None:
    """Generators of manifests print it: kubebuilder's types have no way to leave it out."""
    done = imported(tmp_path, {**PYTORCHJOB, "status": status})
    assert done.problems == ()
    assert len(done.imported) == 1


def test_a_list_is_told_object_by_object(tmp_path: Path) -> None:
    running = {**copy.deepcopy(PYTORCHJOB), "status": {"conditions": [{"type": "Running", "status": "True"}]}}  # fmt: skip
    over = {**copy.deepcopy(PYTORCHJOB), "status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}  # fmt: skip
    over["metadata"] = {"name": "bert"}
    new = {**copy.deepcopy(PYTORCHJOB), "metadata": {"name": "mnist"}}
    done = imported(tmp_path, {"apiVersion": "v1", "kind": "List", "items": [running, over, new]})
    assert [one.file.name for one in done.imported] == ["mnist"]
    assert ["(running)" in done.problems[0], "(succeeded)" in done.problems[1]] == [True, True]


MARKS = [
    "argocd.argoproj.io/hook",
    "argocd.argoproj.io/hook-delete-policy",
    "argocd.argoproj.io/tracking-id",
    "argocd.argoproj.io/instance",
    "argocd.argoproj.io/sync-wave",
    "applyset.kubernetes.io/part-of",
    "config.kubernetes.io/origin",
    "helm.sh/hook",
    "helm.sh/hook-delete-policy",
    "helm.sh/resource-policy",
    "helm.toolkit.fluxcd.io/name",
    "kapp.k14s.io/app",
    "kustomize.toolkit.fluxcd.io/name",
    "kustomize.toolkit.fluxcd.io/prune",
    "meta.helm.sh/release-name",
    "objectset.rio.cattle.io/hash",
]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("holder", ["labels", "annotations"])
@pytest.mark.parametrize("of_pod", [False, True])
def test_a_mark_of_an_engine_stays_behind(
    mark: str, holder: str, of_pod: bool, tmp_path: Path
) -> None:
    body = copy.deepcopy(PYTORCHJOB)
    master = body["spec"]["pytorchReplicaSpecs"]["Master"]
    metadata = master["template"].setdefault("metadata", {}) if of_pod else body["metadata"]
    metadata[holder] = {mark: "x", "team": "vision"}
    (one,) = imported(tmp_path, body).imported
    assert mark not in str(one.spec)
    assert "vision" in str(one.spec)
    (left,) = [left for left in one.left if mark.replace("/", "~1") in left.field]
    assert engine_of(mark) in left.why


def test_a_hook_is_more_than_cosmetic(tmp_path: Path) -> None:
    body = copy.deepcopy(PYTORCHJOB)
    body["metadata"]["annotations"] = {"argocd.argoproj.io/hook": "Sync"}
    (one,) = imported(tmp_path, body).imported
    (left,) = [left for left in one.left if "a hook" in left.why]
    assert left.severity is Loss.BEHAVIOUR
    assert "train again" in left.why


def command(text: str) -> Any:
    found = ImportInput()
    found.commands("run.sh", text)
    (one,) = run(HERE, found, ImportOptions(environment="lab", write=False)).imported
    return one


@pytest.mark.parametrize(
    "words",
    [
        "torchrun --no-python python3 -c 'print(1)'",
        "torchrun --no_python ./train.sh --lr 1",
        "/app/.venv/bin/torchrun --nproc_per_node=2 train.py",
        "/opt/conda/bin/python -m torch.distributed.run --nproc_per_node=2 train.py",
        "/opt/conda/bin/accelerate launch train.py",
    ],
)
def test_what_starts_the_program_is_what_was_written(words: str) -> None:
    one = command(f"docker run registry.example.com/a:1 {words}")
    assert "argv" in one.spec["entrypoint"], one.spec
    assert one.spec["entrypoint"]["argv"][0] == words.split(maxsplit=1)[0]
    assert one.severity in (None, Loss.COSMETIC)


@pytest.mark.parametrize("path", ["", "/usr/local/bin/", "/usr/bin/"])
def test_a_launcher_that_every_image_has_on_its_path_is_a_launcher(path: str) -> None:
    one = command(f"docker run registry.example.com/a:1 {path}torchrun train.py")
    assert one.spec["launcher"] == "torchrun"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("torchrun --nnodes=2 --node_rank=0 --nproc_per_node=8 --master_addr=10.0.0.1 t.py", "16"),
        ("torchrun --nnodes=4 --nproc_per_node=2 --rdzv_backend=c10d --rdzv_endpoint=h:1 t.py", "8"),
        ("accelerate launch --num_machines 2 --num_processes 4 --machine_rank 0 t.py", "4"),
    ],
)  # fmt: skip
def test_one_container_of_several_waits_for_the_others(words: str, expected: str) -> None:
    one = command(f"docker run registry.example.com/a:1 {words}")
    (left,) = [left for left in one.left if left.field == "world size"]
    assert (left.value, left.severity) == (expected, Loss.CANNOT_RUN)


@pytest.mark.parametrize("words", ["torchrun --nnodes=1 --nproc_per_node=2 t.py", "torchrun --standalone t.py", "torchrun --nnodes=1:2 --rdzv_backend=c10d --rdzv_endpoint=h:1 t.py", "python t.py"])  # fmt: skip
def test_one_container_alone_waits_for_nobody(words: str) -> None:
    one = command(f"docker run registry.example.com/a:1 {words}")
    assert not [left for left in one.left if left.field == "world size"]


@pytest.mark.parametrize(("gpus", "waits"), [(8, False), (4, True)])
@pytest.mark.parametrize("words", [["bash", "/scripts/launch.sh"], ["python", "spawn.py"]])
def test_what_no_launcher_starts_may_start_a_process_per_gpu(
    words: list[str], gpus: int, waits: bool, tmp_path: Path
) -> None:
    body = copy.deepcopy(OBJECTS["Job"])
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container |= {"command": words, "env": [{"name": "WORLD_SIZE", "value": "8"}]}
    container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
    found = ImportInput()
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    found.files((str(path),))
    (one,) = run(HERE, found, ImportOptions(environment="lab", write=False)).imported
    assert bool([left for left in one.left if left.field == "world size"]) == waits


@pytest.mark.parametrize("option", ["--ipc=host", "--ipc host", "--ipc=host --shm-size=1g"])
def test_the_shared_memory_of_the_machine_has_no_limit_of_its_own(option: str) -> None:
    one = command(f"docker run {option} registry.example.com/a:1 python t.py")
    (volume,) = one.spec["volumes"].values()
    assert volume == {"emptyDir": {"medium": "Memory"}, "mountPath": "/dev/shm"}


def test_a_variable_of_the_shell_has_no_value_here() -> None:
    one = command("docker run -e HF_TOKEN -e A=b registry.example.com/a:1 python t.py")
    assert one.spec["env"] == {"A": "b"}
    (left,) = [left for left in one.left if left.severity is Loss.CANNOT_RUN]
    assert "under secrets" in left.why


@pytest.mark.parametrize(
    "environment", [["HF_TOKEN"], {"HF_TOKEN": None}, {"HF_TOKEN": "${HF_TOKEN}"}]
)
def test_nor_has_one_of_a_compose_file(environment: object, tmp_path: Path) -> None:
    service = {"image": "registry.example.com/a:1", "entrypoint": ["python", "t.py"]}
    body = {"services": {"train": {**service, "environment": environment}}}
    (one,) = imported(tmp_path, body).imported
    assert [left.severity for left in one.left if "under env" in left.why] == [Loss.CANNOT_RUN]


def test_roles_together_are_as_large_as_the_largest(tmp_path: Path) -> None:
    body = copy.deepcopy(PYTORCHJOB)
    replicas = body["spec"]["pytorchReplicaSpecs"]
    worker = copy.deepcopy(replicas["Master"])
    worker["template"]["metadata"] = {"labels": {"only": "workers"}}
    worker["template"]["spec"]["nodeSelector"] = {"disk": "fast"}
    worker["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"memory": "12Gi", "rdma/hca": "1k"}
    }
    replicas["Master"]["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"memory": "512Mi", "cpu": "2"}
    }
    replicas["Worker"] = worker
    (one,) = imported(tmp_path, body).imported
    assert one.spec["resources"]["memory"] == "12Gi"
    assert one.spec["resources"]["extended"] == {"rdma/hca": 1000}
    assert one.spec["nodeSelector"] == {"disk": "fast"}
    assert one.spec["podLabels"] == {"only": "workers"}
    lost = [left.field for left in one.left if left.severity is not Loss.COSMETIC]
    assert [field for field in lost if not field.endswith("/restartPolicy")] == ["/spec/pytorchReplicaSpecs/Master/template/spec/containers/0/resources/limits/memory"]  # fmt: skip


def test_a_queue_that_there_is_none_of_is_no_queue(tmp_path: Path) -> None:
    body = copy.deepcopy(PYTORCHJOB)
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "there-is-none"}
    done = imported(tmp_path, body)
    assert len(done.broken) == 1, "it would start at once, past its quota"


PLACEHOLDERS = ["${IMAGE_URI}", "$IMAGE_URI", "<IMAGE_URI>", "${IMAGE_URI:-none}", "V_IMAGE_URI"]


def _with_image(tmp_path: Path, image: str, values: dict[str, str], option: str = "") -> ImportBatch:  # fmt: skip
    body = copy.deepcopy(PYTORCHJOB)
    pod = body["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    pod["containers"][0] |= {
        "image": image,
        "resources": {"limits": {"cpu": "${CPUS}"}},
        "command": ["bash", "-c", "python train.py --out=$OUT"],
    }
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    found = ImportInput(values)
    found.files((str(path),))
    return run(HERE, found, ImportOptions(environment="lab", write=False, image=option))


@pytest.mark.parametrize("image", PLACEHOLDERS)
def test_placeholders_are_all_named_at_once(image: str, tmp_path: Path) -> None:
    done = _with_image(tmp_path, image, {})
    (problem,) = done.problems
    name = "V_IMAGE_URI" if image.startswith("V_") else "IMAGE_URI"
    assert all(text in problem for text in (image, f"--set {name}=", "${CPUS}", "--set CPUS="))
    assert "OUT" not in problem, "which is the shell's"


@pytest.mark.parametrize(
    ("value", "unfilled"),
    [
        ("<HF_token>", True),
        ("${BUCKET}", True),
        ("V_BUCKET", True),
        ("YOUR_BUCKET", True),
        ("TOKEN_PLACEHOLDER", True),
        ("gs://BUCKET_NAME/out", False),
        ("PLACEHOLDERS", False),
        ("<pad>", False),
        ("$(BUCKET)", False),
        ("a<b>c", False),
        ("/data/$RUN", False),
    ],
)
def test_a_variable_that_is_a_placeholder_is_named(
    value: str, unfilled: bool, tmp_path: Path
) -> None:
    body = copy.deepcopy(PYTORCHJOB)
    pod = body["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    pod["containers"][0] |= {"env": [{"name": "A", "value": value}]}
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    (one,) = run(HERE, found, ImportOptions(environment="lab", write=False)).imported
    assert [value in note for note in one.notes] == [True] * unfilled


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("--out=gs://BUCKET_NAME/a", "BUCKET_NAME"),
        ("--out=s3://YOUR_BUCKET", "YOUR_BUCKET"),
        ("--key=KEY_PLACEHOLDER", "KEY_PLACEHOLDER"),
        ("--out=gs://bucket/BUCKET_NAME", ""),
        ("--mode=TRAIN_NAME", ""),
    ],
)
def test_words_that_people_replace_are_placeholders(word: str, name: str, tmp_path: Path) -> None:
    body = copy.deepcopy(PYTORCHJOB)
    pod = body["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    pod["containers"][0] |= {"command": ["python", "a.py"], "args": [word]}
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    problems = run(HERE, found, ImportOptions(environment="lab", write=False)).problems
    assert [f"--set {name}=" in problem for problem in problems] == [True] * bool(name)


@pytest.mark.parametrize("image", PLACEHOLDERS)
def test_placeholders_are_filled_in(image: str, tmp_path: Path) -> None:
    name = "V_IMAGE_URI" if image.startswith("V_") else "IMAGE_URI"
    values = {name: "registry.example.com/a:2", "CPUS": "4"}
    (one,) = _with_image(tmp_path, image, values).imported
    assert one.spec["image"] == {"repository": "registry.example.com/a", "tag": "2"}
    assert "4" in str(one.spec["resources"])
    assert "$OUT" in str(one.spec["entrypoint"])


def test_an_image_of_its_own_is_in_the_place_of_a_placeholder(tmp_path: Path) -> None:
    done = _with_image(tmp_path, "<IMAGE>", {"CPUS": "4"}, "registry.example.com/a:3")
    (one,) = done.imported
    assert one.spec["image"]["tag"] == "3"


def test_a_template_of_helm_is_one_note(tmp_path: Path) -> None:
    folder = tmp_path / "recipe" / "templates"
    folder.mkdir(parents=True)
    for name in ("a.yaml", "b.yaml"):
        text = "{{- if .Values.on }}\napiVersion: v1\nkind: Job\nmetadata: {name: {{ .Release.Name }}}\n{{- end }}\n"
        (folder / name).write_text(text, encoding="utf-8")
    for paths in ((str(tmp_path),), (str(folder / "a.yaml"),)):
        found = ImportInput()
        found.files(paths)
        assert (found.findings, found.problems) == ([], [])
        (left,) = found.beside
        assert f"helm template {tmp_path / 'recipe'}" in left.why


def _job_set(value: str) -> dict[str, Any]:
    body = copy.deepcopy(OBJECTS["JobSet"])
    job = body["spec"]["replicatedJobs"][0]
    job["name"] = "workload"
    job["template"]["spec"] |= {"parallelism": 2, "completions": 2}
    pod = job["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["env"] = [{"name": "X", "value": value}]
    return body


@pytest.mark.parametrize("domain", ["llm.default.svc.cluster.local", "llm.team-a.svc"])
def test_the_domain_of_the_pods_is_a_reference(domain: str, tmp_path: Path) -> None:
    (one,) = imported(tmp_path, _job_set(f"tcp://{domain}:29500")).imported
    assert one.spec["env"] == {
        "X": "tcp://${{ run.name }}.${{ namespace }}.svc.cluster.local:29500"
    }
    assert one.severity is not Loss.CANNOT_RUN


@pytest.mark.parametrize(
    ("prefix", "reference"),
    [
        ("llm-workload-", "${{ run.name }}-node-"),
        ("llm-workload-0-", "${{ run.name }}-node-0-"),
        ("p=llm-workload-0-;", "p=${{ run.name }}-node-0-;"),
    ],
)
def test_what_names_of_pods_begin_with_is_a_reference(
    prefix: str, reference: str, tmp_path: Path
) -> None:
    (one,) = imported(tmp_path, _job_set(prefix)).imported
    assert one.spec["target"] == "jobset"
    assert one.spec["env"] == {"X": reference}
    assert one.severity is not Loss.CANNOT_RUN


@pytest.mark.parametrize("prefix", ["llm-worker-", "p=llm-worker-;"])
def test_what_names_of_pods_begin_with_cannot_stay_elsewhere(prefix: str, tmp_path: Path) -> None:
    """Pods of a PyTorchJob have the names of their roles, and ranks that differ from the numbers."""
    body = copy.deepcopy(PYTORCHJOB)
    roles = body["spec"]["pytorchReplicaSpecs"]
    roles["Worker"] = {"replicas": 2, "template": copy.deepcopy(TEMPLATE)}
    for role in roles.values():
        role["template"]["spec"]["containers"][0]["env"] = [{"name": "X", "value": prefix}]
    (one,) = imported(tmp_path, body).imported
    assert one.severity is Loss.CANNOT_RUN


@pytest.mark.parametrize("text", ["llm-workload", "my-llm-workload-0-", "llm.example.com", "llm"])
def test_what_only_looks_like_one_stays(text: str, tmp_path: Path) -> None:
    (one,) = imported(tmp_path, _job_set(text)).imported
    assert one.spec["env"] == {"X": text}
    assert one.severity is not Loss.CANNOT_RUN
