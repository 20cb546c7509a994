"""What operators make of objects, held against pods that real ones made, and against upstream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

import crds
from trainwright.datatypes.data import Data
from trainwright.datatypes.manifest import Manifest
from trainwright.documents import yamlio
from trainwright.kinds import TARGETS, operators
from trainwright.objects.pods import command as commands
from trainwright.objects.pods import rank_prediction
from trainwright.objects.pods.groups import Pods
from trainwright.objects.pods.pod import Deadline, EnvVar, Gang, ManifestError, Pod, Restart, expand
from trainwright.objects.pods.template import ROLE_LABEL

ROOT = Path(__file__).parents[2]
OBSERVED = (
    "elastic-with-master",
    "elastic-worker-only",
    "master-only",
    "nproc-gpu-word",
    "nproc-two-three-pods",
    "one-master-one-worker",
    "user-env-collides",
    "workers-without-elastic",
)


def manifests(*texts: str) -> tuple[Manifest, ...]:
    return tuple(Manifest(body=yaml.safe_load(text)) for text in texts)


def pods(*texts: str, size: int | None = None) -> Pods:
    return operators.pods(manifests(*texts), size)


def declared(pod: Pod) -> list[tuple[str, str]]:
    return [(variable.name, variable.value) for variable in pod.declared]


# --- PyTorchJob ----------------------------------------------------------------------------------


def _recorded(shared: Callable[[str], Path], case: str) -> tuple[Manifest, list[Data]]:
    path = shared(f"observed/pytorchjob/{case}.yaml")
    job, *made = yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader)
    return Manifest(body=job), made


def test_every_recording_is_a_case(shared: Callable[[str], Path]) -> None:
    assert sorted(path.stem for path in shared("observed/pytorchjob").iterdir()) == list(OBSERVED)


@pytest.mark.parametrize("case", OBSERVED)
def test_pods_are_those_that_a_real_training_operator_made(
    case: str, shared: Callable[[str], Path]
) -> None:
    job, made = _recorded(shared, case)
    real = {pod["metadata"]["name"]: pod["spec"] for pod in made if pod["kind"] == "Pod"}
    labels = [pod["metadata"]["labels"] for pod in made if pod["kind"] == "Pod"]
    services = {service["metadata"]["name"] for service in made if service["kind"] == "Service"}
    ours = operators.pods((job,))
    assert [pod.name for pod in ours] == list(real)
    assert {pod.hostname for pod in ours} == services
    assert [{**pod.labels, **pod.controller_labels} for pod in ours] == labels
    for pod in ours:
        spec = real[pod.name]
        (container,) = spec["containers"]
        env = [(entry["name"], entry.get("value", "")) for entry in container["env"]]
        assert declared(pod) == env
        assert list(pod.argv) == container["command"]
        assert pod.image == container["image"]
        assert pod.resources == container["resources"]
        assert pod.grace_period == spec["terminationGracePeriodSeconds"]
        assert [(p.name, p.number) for p in pod.ports] == [
            (port["name"], port["containerPort"]) for port in container["ports"]
        ]
        assert [(c.name, c.image, list(c.command_line)) for c in (*pod.before, *pod.added)] == [
            (c["name"], c["image"], c["command"]) for c in spec.get("initContainers", ())
        ]


def test_the_operator_s_entries_win_over_the_user_s(shared: Callable[[str], Path]) -> None:
    job, _ = _recorded(shared, "user-env-collides")
    master, worker = (dict(pod.env) for pod in operators.pods((job,)))
    assert (master["WORLD_SIZE"], master["MASTER_PORT"], master["MINE"]) == ("2", "23456", "x")
    assert worker["RANK"] == "1"


PYTORCHJOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: run, namespace: training}
spec:
  nprocPerNode: "2"
  runPolicy: {backoffLimit: 3}
  pytorchReplicaSpecs:
    Master: &replica
      replicas: 1
      restartPolicy: ExitCode
      template:
        spec:
          containers:
            - name: sidecar
              image: proxy
            - name: pytorch
              image: train
              command: [python, train.py, "--name=$(POD)", "--token=$(TOKEN)"]
              ports: [{name: pytorchjob-port, containerPort: 4444}]
              env:
                - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
                - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
                - {name: TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}
                - {name: EMPTY}
    Worker: {<<: *replica, replicas: 2}
"""
ELASTIC = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: run}
spec:
  elasticPolicy: {minReplicas: 1, maxReplicas: 4, nProcPerNode: 2, rdzvId: one, rdzvConf: [{key: a, value: "1"}, {key: b, value: "2"}], standalone: true}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: pytorch, image: train, command: [torchrun, train.py]}]}}
"""


def test_the_container_of_the_operator_s_name_counts_with_its_own_port() -> None:
    master = pods(PYTORCHJOB)[0]
    assert master.image == "train"
    assert [port.number for port in master.ports] == [4444]
    assert dict(master.env)["MASTER_PORT"] == "4444"


def test_what_only_the_cluster_knows_is_named_and_left_open() -> None:
    worker = pods(PYTORCHJOB)[1]
    assert dict(worker.env)["POD"] == "run-worker-0"
    assert [(variable.name, variable.source) for variable in worker.unresolved] == [
        ("NODE", "field spec.nodeName of the pod"),
        ("TOKEN", "key token of Secret hf"),
    ]
    assert "TOKEN" not in dict(worker.env)
    assert worker.argv[2:] == ("--name=run-worker-0", "--token=$(TOKEN)")
    argv, env = worker.resolve({"TOKEN": "t", "UNASKED": "x"})
    assert argv[3] == "--token=t"
    assert env["TOKEN"] == "t"
    assert "UNASKED" not in env


def test_the_deprecated_number_of_processes_suppresses_the_other() -> None:
    names = [name for name, _ in declared(pods(ELASTIC)[0])]
    assert names == [
        "PYTHONUNBUFFERED",
        "PET_RDZV_ENDPOINT",
        "PET_RDZV_BACKEND",
        "PET_NNODES",
        "PET_NPROC_PER_NODE",
        "PET_RDZV_ID",
        "PET_RDZV_CONF",
        "PET_STANDALONE",
    ]
    assert dict(pods(ELASTIC)[0].env)["PET_RDZV_CONF"] == "a=1,b=2"


def test_only_an_elastic_job_can_be_given_a_size() -> None:
    assert len(pods(ELASTIC, size=4)) == 4
    assert len(pods(PYTORCHJOB, size=4)) == 3


@pytest.mark.parametrize(
    ("text", "codes", "expected"),
    [
        (PYTORCHJOB, {"run-master-0": 0}, True),
        (PYTORCHJOB, {"run-master-0": 0, "run-worker-0": 1}, True),
        (PYTORCHJOB, {"run-worker-0": 0, "run-worker-1": 0}, False),
        (PYTORCHJOB, {"run-master-0": 1, "run-worker-0": 0, "run-worker-1": 0}, False),
        (ELASTIC, {"run-worker-1": 0}, True),
        (ELASTIC, {"run-worker-1": 1}, False),
        (ELASTIC.split("  elastic", maxsplit=1)[0] + "  pytorch" + ELASTIC.split("  pytorch")[1],
         {"run-worker-1": 0}, False),
    ],
)  # fmt: skip
def test_who_decides_whether_a_pytorchjob_succeeded(
    text: str, codes: dict[str, int], expected: bool
) -> None:
    assert operators.workload(manifests(text)).succeeded(codes) is expected


def test_what_a_failure_leads_to() -> None:
    exit_code = pods(PYTORCHJOB)[0].restart
    assert exit_code.limit == 3
    assert [exit_code.helps(code) for code in (1, 127, 128, 143)] == [False, False, True, True]
    never = pods(PYTORCHJOB.replace("ExitCode", "Never"))[0].restart
    assert not never.helps(143)
    assert pods(ELASTIC)[0].restart == Restart(
        limit=None, in_pod=True
    )  # OnFailure, without any limit


# --- TrainingJob ---------------------------------------------------------------------------------

TRAININGJOB = """\
apiVersion: breezeml.ai/v1
kind: TrainingJob
metadata: {name: run}
spec:
  minSize: 1
  maxSize: 3
  injectLattice: true
  runPolicy: {backoffLimit: 2}
  replicaSpecs:
    restartPolicy: OnFailure
    template:
      spec:
        containers:
          - name: trainingjob
            image: train
            command: [python, train.py]
            env: [{name: LATTICE_NPROC_PER_NODE, value: "2"}]
"""


def test_the_lattice_agent_gives_each_process_its_place() -> None:
    first, second = pods(TRAININGJOB, size=2)
    assert [variable.name for variable in first.declared] == [
        "LATTICE_NPROC_PER_NODE",
        "LATTICE_JFROG_USER",
        "LATTICE_JFROG_KEY",
        "LATTICE_NNODES",
        "LATTICE_RDZV_ID",
        "LATTICE_FRAMEWORK",
        "LATTICE_RDZV_BACKEND",
        "LATTICE_RDZV_CLIENT_SERVICE_HOST",
        "LATTICE_RDZV_CLIENT_SERVICE_PORT",
        "LATTICE_CHECKPOINT_TYPE",
        "LATTICE_CHECKPOINT_CONFIG",
        "LATTICE_AUTOPATCH",
    ]
    assert dict(first.env)["LATTICE_NNODES"] == "1:3"
    places = [{v.name: v.value for v in added} for pod in (first, second) for added in pod.agent]
    assert [(p["RANK"], p["LOCAL_RANK"], p["WORLD_SIZE"]) for p in places] == [
        ("0", "0", "4"),
        ("1", "1", "4"),
        ("2", "0", "4"),
        ("3", "1", "4"),
    ]
    assert {p["MASTER_ADDR"] for p in places} == {"run-worker-0"}
    assert {p["OMP_NUM_THREADS"] for p in places} == {"1"}
    assert first.restart == Restart(limit=0)  # forced, whatever the spec says


def test_without_lattice_nothing_is_injected() -> None:
    found = pods(TRAININGJOB.replace("true", "false"))
    assert len(found) == 3  # maxSize
    assert all(
        declared(pod) == [("LATTICE_NPROC_PER_NODE", "2")] and not pod.agent for pod in found
    )
    assert found[0].restart == Restart(limit=2, in_pod=True)


@pytest.mark.parametrize(
    ("change", "size", "message"),
    [
        (("minSize: 1", "minSize: 4"), None, "WrongConfiguration"),
        (("  minSize: 1\n", ""), None, "minSize None"),
        ((" 3", " 3"), 4, "runs on 1 to 3 pods, not 4"),
        (("command: [python, train.py]", "args: [train.py]"), None, "needs an explicit command"),
    ],
)
def test_trainingjobs_that_lattice_does_not_run(
    change: tuple[str, str], size: int | None, message: str
) -> None:
    with pytest.raises(ManifestError, match=message):
        pods(TRAININGJOB.replace(*change), size=size)


# --- Job and JobSet ------------------------------------------------------------------------------

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: run}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  backoffLimit: 4
  podFailurePolicy:
    rules:
      - {action: Ignore, onPodConditions: [{type: DisruptionTarget, status: "True"}]}
      - {action: Ignore, onExitCodes: {operator: In, values: [42]}}
      - {action: FailJob, onExitCodes: {operator: In, values: [1, 2, 42]}}
  template:
    spec:
      subdomain: net
      restartPolicy: Never
      containers:
        - name: node
          image: train
          command: [torchrun, --node-rank=$(RANK), --nnodes=2, --nproc-per-node=2, train.py]
          env: [{name: RANK, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}]
"""
JOBSET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: run}
spec:
  successPolicy: {operator: Any, targetReplicatedJobs: [node]}
  failurePolicy: {maxRestarts: 5}
  replicatedJobs:
    - name: coordinator
      template: &template
        spec:
          completions: 1
          backoffLimit: 0
          template: {spec: {containers: [{name: c, image: train, command: [python, -m, trainwright_runtime, coordinator, --port=29510]}]}}
    - name: node
      replicas: 2
      template:
        spec:
          completions: 2
          backoffLimit: 0
          template:
            spec:
              containers:
                - name: node
                  image: train
                  command: [python, train.py]
                  env: [{name: JOB_COMPLETION_INDEX, value: mine}]
"""


def test_pods_of_an_indexed_job() -> None:
    first, second = pods(JOB)
    assert [pod.hostname for pod in (first, second)] == ["run-0.net", "run-1.net"]
    assert declared(second) == [("RANK", "1"), ("JOB_COMPLETION_INDEX", "1")]
    assert second.argv[1] == "--node-rank=1"


def test_init_containers_of_an_indexed_job_get_the_index_as_well() -> None:
    body = yaml.safe_load(JOB)
    own = {"name": "JOB_COMPLETION_INDEX", "value": "mine"}
    before = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1", "env": [own]}]
    body["spec"]["template"]["spec"]["initContainers"] = before
    _, second = operators.pods((Manifest(body=body),), None)
    first, other = second.before
    assert first.env == ({"name": "JOB_COMPLETION_INDEX", "value": "1"},)
    assert other.env == (own,)


def test_the_first_rule_that_matches_an_exit_code_decides() -> None:
    restart = pods(JOB)[0].restart
    assert restart.limit == 4
    assert [code for code in (1, 2, 3, 42, 143) if not restart.helps(code)] == [1, 2]
    opposite = JOB.replace("operator: In, values: [1, 2, 42]", "operator: NotIn, values: [143]")
    restart = pods(opposite)[0].restart
    assert [code for code in (1, 42, 143) if not restart.helps(code)] == [1]


def test_pods_of_a_jobset_and_who_decides() -> None:
    workload = operators.workload(manifests(JOBSET))
    assert [(pod.name, pod.hostname) for pod in workload.pods] == [
        ("run-coordinator-0-0", "run-coordinator-0-0.run"),
        ("run-node-0-0", "run-node-0-0.run"),
        ("run-node-0-1", "run-node-0-1.run"),
        ("run-node-1-0", "run-node-1-0.run"),
        ("run-node-1-1", "run-node-1-1.run"),
    ]
    assert dict(workload.pods[2].env) == {"JOB_COMPLETION_INDEX": "mine"}  # an own entry stays
    assert workload.pods[0].restart == Restart(limit=5, gang=True)
    assert not workload.succeeded({"run-coordinator-0-0": 0})
    assert workload.succeeded({"run-node-1-0": 0})


def test_upstream_takes_these_objects(shared: Callable[[str], Path]) -> None:
    for text, crd in (
        (PYTORCHJOB, "kubeflow.org/pytorchjobs.yaml"),
        (ELASTIC, "kubeflow.org/pytorchjobs.yaml"),
        (TRAININGJOB, "breezeml.ai/trainingjobs.yaml"),
        (JOBSET, "jobset.x-k8s.io/jobsets.yaml"),
        (RUNTIME, "trainer.kubeflow.org/trainingruntimes.yaml"),
        (TRAINJOB, "trainer.kubeflow.org/trainjobs.yaml"),
        (TRAINJOB + PATCHES["2.2"], "trainer.kubeflow.org/trainjobs-v2.2.1.yaml"),
        (TRAINJOB + PATCHES["2.1"], "trainer.kubeflow.org/trainjobs-v2.1.0.yaml"),
        (TRAINJOB + PATCHES["2.0"], "trainer.kubeflow.org/trainjobs-v2.0.1.yaml"),
    ):
        assert crds.errors(shared(f"crds/{crd}"), yaml.safe_load(text)) == [], crd


# --- TrainJob ------------------------------------------------------------------------------------

RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: torch}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec:
              template:
                spec:
                  terminationGracePeriodSeconds: 60
                  volumes: [{name: dshm, emptyDir: {medium: Memory}}]
                  containers:
                    - name: node
                      image: base
                      env: [{name: A, value: runtime}, {name: B, value: runtime}]
                      volumeMounts: [{name: dshm, mountPath: /dev/shm}]
"""
TRAINJOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: run}
spec:
  runtimeRef: {kind: TrainingRuntime, name: torch}
  trainer:
    image: train
    command: [torchrun, train.py]
    args: [--epochs=1]
    numNodes: 2
    numProcPerNode: 3
    env: [{name: C, value: job}, {name: A, value: job}]
    resourcesPerNode: {limits: {nvidia.com/gpu: 3, cpu: 8}}
"""
_POD = """\
                volumes: [{name: data, persistentVolumeClaim: {claimName: d}}]
                containers: [{name: node, volumeMounts: [{name: data, mountPath: /data}]}]
"""
PATCHES = {
    "2.0": "  podSpecOverrides:\n    - targetJobs: [{name: node}]\n"
    + _POD.replace("                ", "      "),
    "2.1": "  podTemplateOverrides:\n    - targetJobs: [{name: node}]\n      spec:\n"
    + _POD.replace("                ", "        "),
    "2.2": """\
  runtimePatches:
    - manager: example.io/team
      trainingRuntimeSpec:
        template:
          spec:
            replicatedJobs:
              - name: node
                template:
                  spec:
                    template:
                      spec:
"""
    + _POD.replace("                ", "                        "),
}


def test_a_trainjob_lays_itself_over_its_runtime() -> None:
    first, second = pods(TRAINJOB, RUNTIME)
    assert (first.name, second.hostname) == ("run-node-0-0", "run-node-0-1.run")
    assert second.image == "train"
    assert second.argv == ("torchrun", "train.py", "--epochs=1")
    assert declared(second) == [
        ("A", "job"),  # where the runtime has it
        ("B", "runtime"),
        ("C", "job"),
        ("PET_NNODES", "2"),
        ("PET_NPROC_PER_NODE", "3"),
        ("PET_NODE_RANK", "1"),
        ("PET_MASTER_ADDR", "run-node-0-0.run"),
        ("PET_MASTER_PORT", "29500"),
        ("JOB_COMPLETION_INDEX", "1"),
    ]
    assert [port.number for port in second.ports] == [29500]
    assert second.resources["limits"] == {"nvidia.com/gpu": "3", "cpu": "8"}
    assert second.grace_period == 60


@pytest.mark.parametrize("minor", PATCHES)
def test_each_minor_version_s_way_to_change_the_pods(minor: str) -> None:
    (pod,) = pods(TRAINJOB.replace("numNodes: 2", "numNodes: 1") + PATCHES[minor], RUNTIME)
    assert [(mount.path, mount.source) for mount in pod.mounts] == [
        ("/dev/shm", {"emptyDir": {"medium": "Memory"}}),
        ("/data", {"persistentVolumeClaim": {"claimName": "d"}}),
    ]


@pytest.mark.parametrize(
    ("written", "resources", "expected"),
    [
        ("numProcPerNode: 3", "{limits: {cpu: 8}}", "3"),
        ("", "{limits: {nvidia.com/gpu: 4}}", "auto"),
        ("", "{limits: {cpu: 2500m}}", "3"),
        ("", "{requests: {memory: 1Gi}}", "1"),
        ("", "{requests: {cpu: 2}, limits: {cpu: 8}}", "2"),
        ("", "{requests: {cpu: 0}, limits: {cpu: 8}}", "8"),
        ("", "{limits: {nvidia.com/gpu: 0, cpu: 4}}", "4"),
    ],
)
def test_how_many_processes_trainer_starts(written: str, resources: str, expected: str) -> None:
    text = TRAINJOB.replace("numProcPerNode: 3\n", f"{written}\n")
    text = text.replace("{limits: {nvidia.com/gpu: 3, cpu: 8}}", resources)
    assert dict(pods(text, RUNTIME)[0].env)["PET_NPROC_PER_NODE"] == expected


def test_processes_are_counted_by_the_runtimes_resources_where_the_job_asks_for_none() -> None:
    job = TRAINJOB.replace("    numProcPerNode: 3\n", "").partition("    resourcesPerNode")[0]
    for resources, expected in (
        ("", "1"),
        ("                      resources: {requests: {cpu: 6}}\n", "6"),
        ("                      resources: {limits: {amd.com/gpu: 2}}\n", "auto"),
    ):
        found = pods(job, RUNTIME.replace("image: base\n", f"image: base\n{resources}"))
        assert dict(found[0].env)["PET_NPROC_PER_NODE"] == expected


def test_resources_are_laid_over_those_of_the_runtime_by_name() -> None:
    own = "resources: {requests: {memory: 4Gi, cpu: 2}, limits: {memory: 4Gi}}"
    runtime = RUNTIME.replace("image: base\n", f"image: base\n                      {own}\n")
    limits = {"nvidia.com/gpu": "3", "cpu": "8"}
    (found, _) = pods(TRAINJOB, runtime)
    assert found.resources == {
        "requests": {"memory": "4Gi", "cpu": "2", "nvidia.com/gpu": "3"},
        "limits": {"memory": "4Gi", **limits},
    }
    (found, _) = pods(TRAINJOB + PATCHES["2.1"], runtime)  # before 2.2 it replaces them
    assert found.resources == {"requests": limits, "limits": limits}


def test_without_a_trainer_there_is_no_rendezvous_either() -> None:
    bare = TRAINJOB.split("  trainer:", maxsplit=1)[0]
    (pod,) = pods(bare, RUNTIME)
    assert declared(pod) == [("A", "runtime"), ("B", "runtime"), ("JOB_COMPLETION_INDEX", "0")]


def test_a_runtime_that_is_not_there_is_named() -> None:
    with pytest.raises(ManifestError, match="refers to the TrainingRuntime torch, which is not"):
        pods(TRAINJOB)


# --- Compose -------------------------------------------------------------------------------------

COMPOSE = """\
name: run
services:
  train:
    image: train
    entrypoint: [python, train.py]
    command: --price=5$$ "two words"
    environment: {A: $$(B), DEBUG: false, TOKEN: "${TOKEN:?set it}", PASSED: }
    volumes:
      - {type: volume, source: data, target: /data, volume: {subpath: mnist}}
      - /home/me:/code:ro
      - {type: tmpfs, target: /scratch}
    configs: [{source: script, target: /opt/main.py}]
    ports: ["8080:80/tcp", {target: 9090}]
    stop_grace_period: 1m30s
    restart: on-failure:3
    deploy:
      replicas: 2
      resources:
        limits: {cpus: "2", memory: 4g}
        reservations: {devices: [{driver: nvidia, count: 2, capabilities: [gpu]}]}
configs: {script: {content: "cost = '5$$'"}}
"""


def test_containers_of_a_compose_file() -> None:
    first, second = pods(COMPOSE)
    assert (first.name, second.name, second.hostname) == ("run-train-1", "run-train-2", "train")
    assert first.argv == ("python", "train.py", "--price=5$", "two words")
    assert first.env == (("A", "$(B)"), ("DEBUG", "false"))
    assert [(v.name, v.source) for v in first.unresolved] == [
        ("TOKEN", "variable TOKEN of the shell"),
        ("PASSED", "variable PASSED of the shell"),
    ]
    assert [(mount.path, mount.sub_path, mount.read_only) for mount in first.mounts] == [
        ("/data", "mnist", False),
        ("/code", "", True),
        ("/scratch", "", False),
        ("/opt/main.py", "main.py", True),
    ]
    assert operators.configs(manifests(COMPOSE)) == {"script": {"content": "cost = '5$'"}}
    assert [port.number for port in first.ports] == [80, 9090]
    assert first.grace_period == 90
    assert first.restart == Restart(limit=3)
    assert first.resources["limits"] == {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "2"}


NVIDIA = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        ("gpus: all", {NVIDIA: "all"}),
        ("gpus: [{driver: nvidia, count: 2}]", {NVIDIA: "2"}),
        ("gpus: [{driver: amd, device_ids: ['0', '3']}]", {"amd.com/gpu": "2"}),
        ("devices: [nvidia.com/gpu=all]", {NVIDIA: "all"}),
        ("devices: [nvidia.com/gpu=0, nvidia.com/gpu=1, /dev/fuse]", {NVIDIA: "2"}),
        ("devices: [/dev/fuse:/dev/fuse:rwm]", {}),
        ("runtime: nvidia", {NVIDIA: "all"}),
        ('{runtime: nvidia, environment: ["NVIDIA_VISIBLE_DEVICES=0,2"]}', {NVIDIA: "2"}),
        ("{runtime: nvidia, environment: {NVIDIA_VISIBLE_DEVICES: all}}", {NVIDIA: "all"}),
        ("{runtime: nvidia, environment: {NVIDIA_VISIBLE_DEVICES: 0}}", {NVIDIA: "1"}),
        ("{runtime: nvidia, environment: {NVIDIA_VISIBLE_DEVICES: $GPUS}}", {NVIDIA: "all"}),
        ("{runtime: nvidia, environment: {NVIDIA_VISIBLE_DEVICES: none}}", {}),
        ("{runtime: nvidia, environment: [NVIDIA_VISIBLE_DEVICES=]}", {}),
        ("{runtime: nvidia, gpus: [{count: 1}]}", {NVIDIA: "1"}),
        ("runtime: runc", {}),
        ("environment: {NVIDIA_VISIBLE_DEVICES: all}", {}),
    ],
)
def test_gpus_of_a_compose_service(service: str, expected: dict[str, str]) -> None:
    written = {"image": "a", **yaml.safe_load(service)}
    (pod,) = pods(yaml.safe_dump({"services": {"train": written}}))
    assert pod.resources.get("limits", {}) == expected


@pytest.mark.parametrize(
    ("policy", "limit"), [("no", 0), ('"no"', 0), ("always", None), ("on-failure", None)]
)
def test_restart_policies_of_compose(policy: str, limit: int | None) -> None:
    assert pods(COMPOSE.replace("on-failure:3", policy))[0].restart.limit == limit


# --- which object, and the kubelet's part --------------------------------------------------------


def test_exactly_one_object_is_run() -> None:
    for texts in ((), (RUNTIME,), (PYTORCHJOB, JOB)):
        with pytest.raises(ManifestError, match="expected one object"):
            pods(*texts)


def test_every_target_s_kind_has_its_operator() -> None:
    for target in TARGETS.values():
        assert target.of.group_kind in operators.OPERATORS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(A)", "x1y1"),
        ("$(B)", "$(B)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $(A", "$A ${A} $(A"),
        ("", ""),
    ],
)
def test_references_are_expanded_as_the_kubelet_does(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected


def test_a_reference_sees_only_what_stands_before_it() -> None:
    pod = Pod(
        name="p", hostname="p", role="node", index=0, image="i", command=("$(A)", "$(B)"),
        declared=(EnvVar("B", "$(A)"), EnvVar("A", "1"), EnvVar("A", "2"), EnvVar("C", "$(A)")),
        restart=Restart(limit=0),
    )  # fmt: skip
    assert dict(pod.env) == {"B": "$(A)", "A": "2", "C": "2"}
    hidden = replace(pod, declared=(*pod.declared, EnvVar("A", source="key a of Secret s")))
    assert dict(hidden.env) == {"B": "$(A)", "C": "2"}  # the last entry counts, known or not
    assert pod.argv == ("2", "$(A)")


# --- ranks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "launcher", "program"),
    [
        ("python train.py --x", "none", "train.py"),
        ("python3.11 -u -X dev train.py", "none", "train.py"),
        ("/usr/bin/python3 -m pkg.train --x", "none", "pkg.train"),
        ("python -c pass", "none", None),
        ("bash -c train.sh", "none", None),
        ("torchrun --nproc-per-node=2 train.py -m x", "torchrun", "train.py"),
        ("torchrun --nproc_per_node 2 --standalone train.py", "torchrun", "train.py"),
        ("torchrun --nnodes=2 -m pkg.train", "torchrun", "pkg.train"),
        ("python -m torch.distributed.run --nnodes 2 train.py", "torchrun", "train.py"),
        ("python -m trainwright_runtime --backend=gloo -- train.py --x", "trainwright", "train.py"),
        ("python -m trainwright_runtime -- -m pkg.train -- y", "trainwright", "pkg.train"),
        ("python -m trainwright_runtime coordinator --port=1", "tool", "trainwright_runtime"),
    ],
)
def test_who_starts_what(line: str, launcher: str, program: str | None) -> None:
    argv = tuple(line.split())
    command = commands.parse(argv)
    assert command.launcher == launcher
    assert (None if command.program is None else argv[command.program]) == program


def _predicted(text: str, *more: str, size: int | None = None) -> list[tuple[int | None, ...]]:
    return [
        (process.local_rank, process.rank, process.world_size)
        for process in rank_prediction.predict(pods(text, *more, size=size))
    ]


def test_ranks_of_each_launcher() -> None:
    own = "[python, -m, trainwright_runtime, --nproc-per-node=2, --, train.py]"
    job = PYTORCHJOB.replace('[python, train.py, "--name=$(POD)", "--token=$(TOKEN)"]', own)
    counted = [(0, 0, 6), (1, 1, 6), (0, 2, 6), (1, 3, 6), (0, 4, 6), (1, 5, 6)]
    assert _predicted(job) == counted
    assert _predicted(job.replace(own, "[torchrun, --nproc-per-node=2, train.py]")) == counted
    # The operator counts processes, and python starts one: they would wait for ever.
    assert _predicted(PYTORCHJOB) == [(0, 0, 6), (0, 1, 6), (0, 2, 6)]
    assert _predicted(JOB) == [(0, 0, 4), (1, 1, 4), (0, 2, 4), (1, 3, 4)]
    # torchrun starts one process unless it is told another number, whatever the node has.
    gpus = "image: train\n          resources: {limits: {nvidia.com/gpu: 2}}\n"
    many = JOB.replace("image: train\n", gpus)
    told = "--nproc-per-node=2,"
    assert _predicted(many.replace(told, "")) == [(0, 0, 2), (0, 1, 2)]
    for number in ("gpu", "auto"):
        assert _predicted(many.replace(told, f"--nproc-per-node={number},")) == _predicted(JOB)
    # torchrun that is not told of other nodes trains alone on each of them.
    assert _predicted(JOB.replace(" --nnodes=2,", "")) == [(0, 0, 2), (1, 1, 2)] * 2
    assert _predicted(TRAINJOB, RUNTIME)[-1] == (2, 5, 6)
    assert _predicted(TRAININGJOB, size=2)[-1] == (1, 3, 4)
    # Ranks that a rendezvous hands out are not known; that there will be four processes is.
    assert _predicted(ELASTIC) == [(0, None, 4), (1, None, 4)] * 2
    # The coordinator trains nothing, and no node has an address of another.
    assert _predicted(JOBSET) == [(0, None, None)] * 4


def _job_folders() -> list[Path]:
    found = [
        *ROOT.glob("environments/*/rendered/*/values.yaml"),
        *ROOT.glob("tests/golden/*/expected/*/rendered/*/values.yaml"),
    ]
    # A runtime of the cluster's own is not among the manifests: there is nothing to count.
    return sorted(path.parent for path in found if not _without_runtime(path.parent))


def _without_runtime(folder: Path) -> bool:
    job = folder / "trainjob.yaml"
    return job.exists() and "\nkind: TrainingRuntime\n" not in job.read_text()


def _rendered(folder: Path) -> tuple[Manifest, ...]:
    files = [path for path in sorted(folder.glob("*.yaml")) if path.name != "values.yaml"]
    return tuple(
        Manifest(body=body) for path in files for body in yamlio.load_rendered(path.read_text())
    )


@pytest.mark.parametrize("folder", _job_folders(), ids=lambda f: f.relative_to(ROOT).as_posix())
def test_every_rendered_job_counts_its_ranks_from_zero(folder: Path) -> None:
    found = _rendered(folder)
    workload = operators.workload(found)
    assert workload.pods
    assert len({pod.name for pod in workload.pods}) == len(workload.pods)
    serving = {pod.name for pod in workload.pods if ROLE_LABEL in pod.labels}
    made = Pods.of(pod for pod in workload.pods if pod.name not in serving)
    foreseen = rank_prediction.predict(made)
    reported = [process.rank for process in foreseen if process.rank is not None]
    if reported:
        assert reported == list(range(len(foreseen)))
        assert {process.world_size for process in foreseen} == {len(foreseen)}


# --- what the equivalence of targets reads -------------------------------------------------------


def test_what_an_object_says_about_its_run() -> None:
    job = PYTORCHJOB.replace(
        "backoffLimit: 3",
        "backoffLimit: 3, activeDeadlineSeconds: 60, suspend: true, schedulingPolicy: {queue: q}",
    )
    found = operators.workload(manifests(job))
    assert (found.deadline, found.suspended) == (Deadline(seconds=60), True)
    assert found.gang == Gang(3, "q")
    assert found.sizes is None
    assert operators.workload(manifests(ELASTIC)).sizes == (1, 4)
    assert operators.workload(manifests(TRAININGJOB)).sizes == (1, 3)
    same = TRAININGJOB.replace("maxSize: 3", "maxSize: 1\n  priority: 7\n  framework: pytorch")
    found = operators.workload(manifests(same))
    assert (found.sizes, found.own) == (None, {"priority": 7})


def test_a_jobset_s_deadline_is_that_of_an_attempt_and_a_job_s_of_the_run() -> None:
    job = JOB.replace("backoffLimit: 4", "backoffLimit: 4\n  activeDeadlineSeconds: 9")
    assert operators.workload(manifests(job)).deadline == Deadline(seconds=9)
    jobset = JOBSET.replace("backoffLimit: 0", "backoffLimit: 0\n          activeDeadlineSeconds: 9", 1)  # fmt: skip
    assert operators.workload(manifests(jobset)).deadline == Deadline(seconds=9, attempt=True)
    train_job = f"{TRAINJOB}  activeDeadlineSeconds: 9\n  suspend: true\n"
    found = operators.workload(manifests(RUNTIME, train_job))
    assert (found.deadline, found.suspended) == (Deadline(seconds=9), True)


def test_the_pod_group_that_pods_belong_to_is_their_gang() -> None:
    group = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: NAME}\nspec: {minMember: 2, queue: q}\n"
    job = JOB.replace("  template:\n", "  template:\n    metadata: {annotations: {scheduling.k8s.io/group-name: g}}\n")  # fmt: skip
    assert operators.workload(manifests(job, group.replace("NAME", "g"))).gang == Gang(2, "q")
    assert operators.workload(manifests(job, group.replace("NAME", "h"))).gang is None
    runtime = RUNTIME.replace("mlPolicy", "podGroupPolicy: {volcano: {}}\n  mlPolicy")
    assert operators.workload(manifests(runtime, TRAINJOB)).gang == Gang(2, "")


@pytest.mark.parametrize(
    ("written", "expected"),
    [("64m", "64Mi"), ("8gb", "8Gi"), (1024, "1024"), ("1.5g", "1.5Gi"), ("2TiB", "2Ti"), ("9b", "9")],
)  # fmt: skip
def test_docker_counts_in_powers_of_1024(written: object, expected: str) -> None:
    (pod,) = pods(f"services: {{a: {{image: i, command: [c], shm_size: {written}}}}}")
    assert pod.mounts[0].source == {"emptyDir": {"medium": "Memory", "sizeLimit": expected}}


def test_a_service_s_security_is_that_of_a_container() -> None:
    (pod,) = pods(
        "services: {a: {image: i, user: '1000:0', group_add: [2000], cap_drop: [ALL], cap_add: [IPC_LOCK],"
        " security_opt: ['no-new-privileges:true'], network_mode: none, deploy: {replicas: 0}}}"
    )
    assert pod.security == {
        "pod": {
            "runAsUser": 1000,
            "runAsGroup": 0,
            "fsGroup": 2000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "container": {
            "capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]},
            "allowPrivilegeEscalation": False,
        },
    }
    assert not pod.token
    assert pod.starts_image


@pytest.mark.parametrize(
    "written",
    [
        "{a: 10.0.0.7, b: '[fd00::1]', c: [10.0.0.7, 'fd00::1']}",
        "['a:10.0.0.7', 'b=[fd00::1]', 'c=10.0.0.7', 'c:fd00::1']",
    ],
)
def test_extra_hosts_are_a_list_or_a_mapping_to_one_address_or_several(written: str) -> None:
    (pod,) = pods(f"services: {{a: {{image: i, command: [c], extra_hosts: {written}}}}}")
    assert pod.rest["pod"]["hostAliases"] == [
        {"ip": "10.0.0.7", "hostnames": ["a", "c"]},
        {"ip": "fd00::1", "hostnames": ["b", "c"]},
    ]


@pytest.mark.parametrize("written", ["no", "'no'", ""])
def test_a_service_without_restarts_is_never_started_again(written: str) -> None:
    (pod,) = pods(f"services:\n  a:\n    image: i\n    command: [c]\n    restart: {written}\n")
    assert pod.restart == Restart(limit=0)


@pytest.mark.parametrize(
    ("own", "account", "token"),
    [
        ("", "", True),
        ("", "automountServiceAccountToken: false", False),
        ("", "automountServiceAccountToken: true", True),
        ("automountServiceAccountToken: true, ", "automountServiceAccountToken: false", True),
        ("automountServiceAccountToken: false, ", "", False),
    ],
)
def test_a_pod_has_the_token_that_it_or_its_account_says(
    own: str, account: str, token: bool
) -> None:
    job = (
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {completionMode: Indexed, "
        "completions: 1, parallelism: 1, template: {spec: {serviceAccountName: sa, "
        f"{own}containers: [{{name: a, image: i, command: [a]}}]}}}}}}"
    )
    made = f"apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: sa}}\n{account}"
    other = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: b}\nautomountServiceAccountToken: false"
    assert [pod.has_token for pod in pods(job, made, other)] == [token]
