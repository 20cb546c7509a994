"""Where rules begin and end to hold, kind by kind: each line is a manifest and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds import TRAINJOBS
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.manifest import Manifest
from trainwright.documents.yamlio import Document
from trainwright.kinds.subjects import subject_of
from trainwright.kinds.trainjob import spec_rules as trainjob
from trainwright.objects.bundle import Bundle
from trainwright.rule_model.subject import Hit
from trainwright.rules import families
from trainwright.rules.registry import RULES
from trainwright.specs import resolve


def environment(keys: str = "") -> Environment:
    data = {"namespace": "n", "kubernetes": {"version": "1.34"}, "targets": {"pytorchjob": {}}}
    given = yaml.safe_load(keys) or {}
    return resolve.environment(
        "prod", Document("environment.yaml", {**data, "podSecurity": "privileged", **given}, {}, {})
    )


def hits(rule: str, manifest: str, keys: str = "") -> list[Hit]:
    """What a rule says of the first document, the others beside it."""
    around = Bundle(Manifest(body=body) for body in yaml.safe_load_all(manifest))
    subject = subject_of(around[0], environment(keys), None, around)
    return [hit for found, hit in families.run(subject) if found.id == rule]


def test_a_variable_with_two_values_is_one_finding() -> None:
    entry = "{name: A, value: a, valueFrom: {fieldRef: {fieldPath: metadata.name}}}"
    pod = f"kind: Pod\nmetadata: {{name: a}}\nspec: {{containers: [{{name: c, env: [{entry}]}}]}}"
    body = {"apiVersion": "v1", **yaml.safe_load(pod)}
    found = families.run(subject_of(Manifest(body=body), environment()))
    assert [rule.id for rule, hit in found if "/env/0" in hit.pointer] == ["TW751"]


V = 'targets: {{trainjob: {{version: "{}"}}}}'
RUNTIME = """
---
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec: {mlPolicy: {torch: {}}, template: {spec: {replicatedJobs: [{name: node, template: {spec:
  {template: {spec: {containers: [{name: node}], initContainers: [{name: fetch}]}}}}}]}}}
"""


def trainjob_of(spec: str, name: str = "a") -> str:
    return (
        f"kind: TrainJob\nmetadata: {{name: {name}}}\nspec: {{runtimeRef: {{name: torch}}, {spec}}}"
    )


def patch(inside: str, manager: str = "a.example.com/b") -> str:
    spec = f"template: {{spec: {{replicatedJobs: [{inside}]}}}}"
    return f"runtimePatches: [{{manager: {manager}, trainingRuntimeSpec: {{{spec}}}}}]"


def containers(names: str) -> str:
    return f"{{name: node, template: {{spec: {{template: {{spec: {names}}}}}}}}}"


TRAINJOB = [
    # the minor of the environment decides, else the fields agree among themselves or not
    ("TW201", trainjob_of("podSpecOverrides: []"), V.format("2.0"), 0),
    ("TW201", trainjob_of("podSpecOverrides: []"), V.format("2.1"), 1),
    ("TW201", trainjob_of("podSpecOverrides: []"), V.format("2.3"), 1),
    ("TW201", trainjob_of("podTemplateOverrides: []"), V.format("2.1"), 0),
    ("TW201", trainjob_of("podTemplateOverrides: []"), V.format("2.2"), 1),
    ("TW201", trainjob_of("runtimePatches: []"), V.format("2.1"), 1),
    ("TW201", trainjob_of("runtimePatches: []"), V.format("2.2"), 0),
    ("TW201", trainjob_of("runtimePatches: []"), V.format("2.3.1"), 0),
    ("TW201", trainjob_of("labels: {}, annotations: {}"), V.format("2.1"), 0),
    ("TW201", trainjob_of("labels: {}, annotations: {}"), V.format("2.2"), 2),
    ("TW201", trainjob_of("activeDeadlineSeconds: 9"), V.format("2.1"), 1),
    ("TW201", trainjob_of("runtimePatches: []"), "", 0),
    ("TW201", trainjob_of("podSpecOverrides: []"), "", 0),
    ("TW201", trainjob_of("podSpecOverrides: [], labels: {}"), "", 0),
    ("TW201", trainjob_of("podSpecOverrides: [], runtimePatches: []"), "", 1),
    ("TW201", trainjob_of("labels: {}, activeDeadlineSeconds: 9"), "", 1),
    ("TW202", trainjob_of("trainer: {numProcPerNode: gpu}"), V.format("2.1"), 0),
    ("TW202", trainjob_of("trainer: {numProcPerNode: gpu}"), V.format("2.2"), 1),
    ("TW202", trainjob_of("trainer: {numProcPerNode: gpu}"), "", 0),
    ("TW202", trainjob_of("trainer: {numProcPerNode: gpu}, runtimePatches: []"), "", 1),
    ("TW202", trainjob_of("trainer: {numProcPerNode: many}"), "", 1),
    ("TW202", trainjob_of("trainer: {numProcPerNode: true}"), "", 1),
    ("TW202", trainjob_of("trainer: {numProcPerNode: '8'}"), V.format("2.0"), 0),
    ("TW203", trainjob_of("suspend: false"), "", 1),
    ("TW203", trainjob_of("suspend: false") + RUNTIME, "", 1),
    ("TW203", trainjob_of("suspend: false") + RUNTIME.replace("torch: {}", "mpi: {}"), "", 0),
    ("TW204", trainjob_of("trainer: {numNodes: 10}", "a" * 48), "", 0),
    ("TW204", trainjob_of("trainer: {numNodes: 10}", "a" * 49), "", 1),
    ("TW204", trainjob_of("trainer: {numNodes: 100}", "a" * 47), "", 0),
    ("TW204", trainjob_of("trainer: {numNodes: 101}", "a" * 47), "", 1),
    ("TW205", trainjob_of("trainer: {}"), "", 0),  # a runtime of the cluster is in no file
    ("TW205", trainjob_of("trainer: {}") + RUNTIME, "", 0),
    ("TW205", "kind: TrainJob\nspec: {trainer: {}}", "", 1),
    ("TW205", "kind: TrainJob\nspec: {runtimeRef: {kind: Runtime, name: a}}", "", 1),
    (
        "TW205",
        "kind: TrainJob\nspec: {runtimeRef: {kind: TrainingRuntime, name: torch}}" + RUNTIME,
        "",
        1,
    ),
    ("TW206", trainjob_of("trainer: {env: [{name: PET_NODE_RANK, value: '0'}]}"), "", 1),
    ("TW206", trainjob_of("trainer: {env: [{name: PET_MAX_RESTARTS, value: '0'}]}"), "", 0),
    (
        "TW206",
        trainjob_of(patch(containers("{containers: [{name: node, env: [{name: A}]}]}"))),
        "",
        1,
    ),
    (
        "TW206",
        trainjob_of(patch(containers("{containers: [{name: side, env: [{name: A}]}]}"))),
        "",
        0,
    ),
    ("TW207", trainjob_of(patch(containers("{containers: [{name: node}]}"))) + RUNTIME, "", 0),
    ("TW207", trainjob_of(patch(containers("{containers: [{name: trainer}]}"))) + RUNTIME, "", 1),
    ("TW207", trainjob_of(patch(containers("{initContainers: [{name: fetch}]}"))) + RUNTIME, "", 0),
    ("TW207", trainjob_of(patch("{name: worker}")) + RUNTIME, "", 1),
    ("TW207", trainjob_of(patch("{name: worker}")), "", 0),
    ("TW207", trainjob_of(patch("{name: node}", "kueue.x-k8s.io/manager")), "", 1),
    ("TW207", trainjob_of(patch("{name: node}", "team")), "", 1),
    ("TW210", trainjob_of("ttlSecondsAfterFinished: 9, failurePolicy: {}"), "", 2),
    ("TW210", trainjob_of("labels: {}"), V.format("2.3"), 0),  # TW201 says it better
    ("TW213", trainjob_of("trainer: {numNodes: 1, command: [python, a.py]}"), "", 0),
    ("TW213", trainjob_of("trainer: {numNodes: 2, command: [python, a.py]}"), "", 1),
    ("TW213", trainjob_of("trainer: {numProcPerNode: 2, command: [python, a.py]}"), "", 1),
    ("TW213", trainjob_of("trainer: {numNodes: 2, command: [bash, -c, torchrun a.py]}"), "", 0),
    (
        "TW213",
        trainjob_of(
            "trainer: {numNodes: 2, command: [python], env: [{name: RANK}, {name: WORLD_SIZE}]}"
        ),
        "",
        0,
    ),
    ("TW214", trainjob_of("initializer: {model: {storageUri: gpt2}}"), V.format("2.2"), 0),
    ("TW214", trainjob_of("initializer: {model: {storageUri: gpt2}}"), V.format("2.3"), 1),
    ("TW214", trainjob_of("initializer: {model: {storageUri: ''}}"), V.format("2.3"), 0),
    ("TW214", trainjob_of("initializer: {model: {storageUri: gpt2}}"), "", 0),
]

STEP = "trainer.kubeflow.org/trainjob-ancestor-step: trainer"


def runtime_of(job: str, more: str = "") -> str:
    return f"kind: TrainingRuntime\nmetadata: {{name: a}}\nspec: {{{more}template: {{spec: {{replicatedJobs: [{job}]}}}}}}"


def node(labels: str = f"metadata: {{labels: {{{STEP}}}}}, ", rest: str = "", pod: str = "") -> str:
    inner = f"template: {{{pod}spec: {{containers: [{{name: node}}]}}}}"
    return f"{{name: node, {rest}template: {{{labels}spec: {{{inner}}}}}}}"


RUNTIMES = [
    ("TW208", runtime_of(node()), "", 0),
    ("TW208", runtime_of(node(rest="replicas: 1, ")), "", 0),
    ("TW208", runtime_of(node(rest="replicas: 2, ")), "", 1),
    ("TW208", runtime_of(node(labels="")), "", 1),
    ("TW208", runtime_of(node(labels="", pod=f"metadata: {{labels: {{{STEP}}}}}, ")), "", 1),
    ("TW209", runtime_of("{name: node, template: {spec: {ttlSecondsAfterFinished: 9}}}"), "", 1),
    ("TW211", "kind: TrainingRuntime\nspec: {mlPolicy: {torch: {elasticPolicy: {}}}}", "", 0),
    ("TW211", "kind: TrainingRuntime\nspec: {mlPolicy: {torch: {elasticPolicy: {}}}}", V.format("2.1"), 0),
    ("TW211", "kind: TrainingRuntime\nspec: {mlPolicy: {torch: {elasticPolicy: {}}}}", V.format("2.2"), 1),
    ("TW212", runtime_of(node(), "podGroupPolicy: {coscheduling: {}}, "), "", 1),
    ("TW212", runtime_of(node()), "", 0),
    ("TW304", runtime_of("{name: n, template: {spec: {podFailurePolicy: {rules: []}}}}"), "", 1),
    # a runtime that a job here refers to is looked at once, as the job's own pods
    ("TW710", runtime_of("{name: node, template: {spec: {template: {spec: {containers: [{name: node, env: "
                         "[{name: DB_PASSWORD, value: correct-horse}]}]}}}}}"), "", 1),
    ("TW710", runtime_of("{name: node, template: {spec: {template: {spec: {containers: [{name: node, env: "
                         "[{name: DB_PASSWORD, value: correct-horse}]}]}}}}}")
     + "\n---\nkind: TrainJob\nspec: {runtimeRef: {kind: TrainingRuntime, name: a}}", "", 0),
]  # fmt: skip


def job_of(
    spec: str,
    container: str = "command: [torchrun, --nnodes=2, a.py]",
    pod: str = "",
    name: str = "a",
) -> str:
    template = f"template: {{spec: {{containers: [{{name: c, {container}}}]{pod}}}}}"
    return f"kind: Job\nmetadata: {{name: {name}, namespace: n}}\nspec: {{{spec}{template}}}"


BATCH = "apiVersion: batch/v1\n"


def service(spec: str, name: str = "a") -> str:
    return f"\n---\nkind: Service\nmetadata: {{name: {name}, namespace: n}}\nspec: {{{spec}}}"


GOOD = (
    "clusterIP: None, publishNotReadyAddresses: true, selector: {batch.kubernetes.io/job-name: a}"
)
TWO = "completionMode: Indexed, parallelism: 2, completions: 2, "
ADDRESS = "command: [torchrun, --nnodes=2, --master-addr=a-0.a]"


def jobset_of(
    job: str, spec: str = "", name: str = "a", container: str = "command: [torchrun, --nnodes=2]"
) -> str:
    pod = f"template: {{spec: {{containers: [{{name: c, {container}}}]}}}}"
    return (
        f"kind: JobSet\nmetadata: {{name: {name}}}\n"
        f"spec: {{{spec}replicatedJobs: [{{name: node, template: {{spec: {{{job}{pod}}}}}}}]}}"
    )


def sets_of(first: str, second: str) -> str:
    return f"kind: JobSet\nspec: {{replicatedJobs: [{{name: a{first}}}, {{name: b{second}}}]}}"


BUCKET = (
    "kind: Pod\nspec: {containers: [{name: a}], "
    "volumes: [{name: d, csi: {driver: gcsfuse.csi.storage.gke.io}}]}\nmetadata: {name: a"
)


def in_memory(mounts: str) -> str:
    """A container with these mounts of a volume in memory that takes all of its limit."""
    limits = "resources: {limits: {memory: 1Gi}}"
    volumes = "volumes: [{name: m, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]"
    one = f"{{name: a, {limits}, volumeMounts: [{mounts}]}}"
    return f"kind: Job\nspec: {{template: {{spec: {{containers: [{one}], {volumes}}}}}}}"


def mounted(outer: str, inner: str) -> str:
    """A pod that mounts a ConfigMap at /etc/a, and a folder."""
    mounts = f"{{name: c, mountPath: /etc/a/b, {outer}}}, {{name: d, mountPath: {inner}}}"
    return (
        f"kind: Pod\nspec: {{containers: [{{name: a, volumeMounts: [{mounts}]}}], "
        "volumes: [{name: c, configMap: {name: c}}, {name: d, emptyDir: {}}]}"
    )


JOBS = [
    ("TW301", job_of(TWO), "", 0),
    ("TW301", job_of("parallelism: 2, completions: 2, "), "", 1),
    ("TW301", job_of("parallelism: 4, completions: 9, ", "command: [sort]"), "", 0),  # no training
    ("TW301", jobset_of("parallelism: 2, completions: 2, "), "", 0),  # Indexed is filled in
    ("TW301", jobset_of("parallelism: 2, "), "", 1),
    ("TW302", job_of(TWO, ADDRESS), "", 1),
    ("TW302", job_of(TWO, ADDRESS, ", subdomain: a"), "", 0),  # the Service may be elsewhere
    ("TW302", job_of(TWO, ADDRESS, ", subdomain: a") + service(GOOD), "", 0),
    ("TW302", job_of(TWO, ADDRESS, ", subdomain: a") + service(GOOD, "b"), "", 1),
    ("TW302", job_of(TWO, ADDRESS, ", subdomain: a") + service("selector: {job-name: a}"), "", 2),
    ("TW302", job_of(TWO, ADDRESS, ", subdomain: a") + service(GOOD.replace(": a}", ": b}")), "", 1),
    ("TW302", job_of(TWO, "command: [torchrun], env: [{name: MASTER_ADDR, value: a-0.a}]"), "", 1),
    ("TW302", job_of(TWO, "command: [torchrun, --rdzv-endpoint=etcd:2379]"), "", 0),
    ("TW302", jobset_of("parallelism: 2, ", "network: {enableDNSHostnames: false}, "), "", 1),
    *(("TW311", f"kind: Job\nmetadata: {{name: a}}\nspec: {{{spec}}}", "", expected) for spec, expected in (
        ("template: {metadata: {labels: {job-name: a, batch.kubernetes.io/job-name: a}}}", 0),
        ("template: {metadata: {labels: {job-name: b, batch.kubernetes.io/job-name: b}}}", 2),
        ("template: {metadata: {labels: {controller-uid: u, batch.kubernetes.io/controller-uid: u}}}", 2),
        ("selector: {matchLabels: {controller-uid: u}}, template: {}", 1),
        ("manualSelector: true, selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u}}}", 0),
    )),
    ("TW303", job_of("completionMode: Indexed, completions: 100, ", name="a" * 60), "", 0),
    ("TW303", job_of("completionMode: Indexed, completions: 101, ", name="a" * 60), "", 1),
    ("TW303", job_of("completionMode: Indexed, completions: 1, ", name="a.b"), "", 1),
    ("TW303", job_of("completions: 1, ", name="a.b"), "", 0),
    ("TW303", jobset_of("completions: 10, ", name="a" * 48), "", 0),
    ("TW303", jobset_of("completions: 10, ", name="a" * 49), "", 1),
    ("TW303", jobset_of("completions: 10, ", name="1a"), "", 1),
    ("TW304", job_of(""), "", 1),
    ("TW304", job_of("", pod=", restartPolicy: OnFailure"), "", 0),
    ("TW304", job_of("podFailurePolicy: {rules: []}, ", pod=", restartPolicy: OnFailure"), "", 1),
    ("TW304", jobset_of(""), "", 0),
    ("TW305", job_of("backoffLimitPerIndex: 1, " + TWO), "", 1),
    ("TW305", job_of("backoffLimitPerIndex: 1, " + TWO, "command: [sort]"), "", 0),
    ("TW306", job_of(TWO, "command: [torchrun, a.py]"), "", 1),
    ("TW306", job_of(TWO, "command: [torchrun, --standalone, --nnodes=1, a.py]"), "", 1),
    ("TW306", job_of(TWO, "command: [torchrun, --nnodes, '2', a.py]"), "", 0),
    ("TW306", job_of(TWO, "command: [torchrun, --nnodes=4, a.py]"), "", 1),
    ("TW306", job_of(TWO, "command: [torchrun, --nnodes=1:4, a.py]"), "", 0),
    ("TW306", job_of(TWO, "command: [bash, -c, 'exec torchrun --nnodes=2 a.py']"), "", 0),
    ("TW306", job_of(TWO, "command: [bash, -c, 'exec torchrun a.py']"), "", 1),
    ("TW306", job_of(TWO, "command: [python, -m, torch.distributed.run, a.py]"), "", 1),
    ("TW306", job_of(TWO, "command: [torchrun], env: [{name: PET_NNODES, value: '2'}]"), "", 0),
    ("TW306", job_of("parallelism: 1, ", "command: [torchrun, a.py]"), "", 0),
    ("TW745", job_of(TWO, "command: [accelerate, launch, a.py]"), "", 1),
    ("TW745", job_of(TWO, "command: [accelerate, config]"), "", 0),
    ("TW745", job_of(TWO, "command: [accelerate, launch, --num_machines, '2', a.py]"), "", 1),
    (
        "TW745",
        job_of(TWO, "command: [accelerate, launch, --num_machines=2, --main_process_ip=$IP, a.py]"),
        "",
        0,
    ),
    ("TW745", job_of(TWO, "command: [accelerate, launch, --num-machines=3, a.py]"), "", 1),
    ("TW745", job_of(TWO, "command: [accelerate, launch, --config_file=c.yaml, a.py]"), "", 0),
    (
        "TW745",
        job_of(TWO, "command: [accelerate, launch, --num_machines=2, --num_processes=5, a.py]"),
        "",
        1,
    ),
    ("TW745", job_of("parallelism: 1, ", "command: [accelerate, launch, a.py]"), "", 0),
    ("TW745", job_of(TWO, "command: [bash, -c, 'cd /a && accelerate launch a.py']"), "", 1),
    ("TW745", job_of(TWO, "command: [bash, -c, 'accelerate launch --num_machines $N a.py']"), "", 0),
    ("TW745", job_of(TWO, "command: [bash, -c, 'pip install deepspeed && python a.py']"), "", 0),
    ("TW745", job_of(TWO, "command: [deepspeed, a.py, --deepspeed, ds.json]"), "", 1),
    ("TW745", job_of(TWO, "command: [deepspeed, --hostfile=/h, a.py]"), "", 0),
    ("TW745", job_of(TWO, "command: [torchrun, a.py, --deepspeed, ds.json]"), "", 0),
    (
        "TW745",
        job_of(TWO, "command: [python, -m, deepspeed.launcher.launch, --world_info=eyJhIjpbMF19, a]"),
        "",
        1,
    ),
    ("TW306", job_of(TWO, "command: [my-torchrun-wrapper, a.py]"), "", 0),
    ("TW307", job_of("", "command: [a, '$(JOB_COMPLETION_INDEX)']"), "", 0),
    ("TW307", job_of("", "command: [a, '$(RANK)']"), "", 1),
    ("TW307", job_of("", "command: [a, '$$(RANK)']"), "", 0),
    ("TW307", job_of("", "command: [a, '$(RANK)'], env: [{name: RANK, value: '0'}]"), "", 0),
    ("TW307", job_of("", "command: [a, '$(RANK)'], envFrom: [{configMapRef: {name: a}}]"), "", 0),
    ("TW307", job_of("", "command: [bash, -c, 'echo $(hostname)']"), "", 0),
    ("TW307", job_of("", "command: [bash, -ec, 'echo $(hostname)', '$(RANK)']"), "", 1),
    ("TW307", job_of("", "command: [a, '$(DB_SERVICE_HOST):$(DB_SERVICE_PORT)']"), "", 0),
    ("TW307", job_of("", "env: [{name: A, value: b}, {name: B, value: '$(A)'}]"), "", 0),
    ("TW307", job_of("", "env: [{name: B, value: '$(A)'}, {name: A, value: b}]"), "", 1),
    ("TW307", job_of("", "env: [{name: A, value: '$(A):/x'}]"), "", 1),
    ("TW307", job_of("", "env: [{name: A, value: '$(NOPE) $(NOPE)'}]"), "", 1),
    ("TW307", job_of("", "env: [{name: A, value: '$$(NOPE)'}]"), "", 0),
    ("TW307", job_of("", "env: [{name: A, value: '$(NOPE)'}], envFrom: [{secretRef: {name: a}}]"), "", 0),
    ("TW307", "kind: Pod\nspec: {containers: [{name: a, args: [$(NOPE)]}]}", "", 1),
    ("TW740", job_of("", "volumeMounts: [{name: d, subPathExpr: $(POD)/a}]"), "", 1),
    ("TW740", job_of("", "volumeMounts: [{name: d, subPathExpr: $(JOB_COMPLETION_INDEX)}]"), "", 0),
    ("TW740", job_of("", "volumeMounts: [{name: d, subPathExpr: $(POD)}], envFrom: [{secretRef: {name: a}}]"), "", 0),
    ("TW703", in_memory("{name: m, mountPath: /m}"), "", 1),
    ("TW703", in_memory("{name: m, mountPath: /m, readOnly: false}"), "", 1),
    ("TW703", in_memory("{name: m, mountPath: /m, readOnly: true}"), "", 0),  # of who writes
    ("TW703", in_memory("{name: m, mountPath: /m, readOnly: true}, {name: m, mountPath: /w}"), "", 1),
    ("TW703", in_memory("{name: m, mountPath: /dev/shm, readOnly: true}"), "", 0),
    ("TW703", in_memory("{name: m, mountPath: /dev/shm}"), "", 1),
    ("TW741", mounted("subPath: a", "/etc/a/b/c"), "", 1),
    ("TW741", mounted("subPath: a", "/etc/ab"), "", 0),
    ("TW741", mounted("readOnly: true", "/etc/a/b/c"), "", 0),
    ("TW741", mounted("readOnly: true", "/proc/b"), "", 1),
    ("TW741", mounted("readOnly: true", "/sys"), "", 1),
    ("TW741", mounted("readOnly: true", "/dev/shm"), "", 0),
    ("TW742", mounted("readOnly: true", "/etc/a/b/c"), "", 1),
    ("TW742", mounted("subPath: a", "/etc/a/b/c"), "", 0),  # TW741 says it
    ("TW742", mounted("readOnly: true", "/etc/a"), "", 0),
    ("TW743", f"{BUCKET}, annotations: {{gke-gcsfuse/volumes: 'false'}}}}", "", 1),
    ("TW743", f"{BUCKET}, annotations: {{gke-gcsfuse/volumes: 'true'}}}}", "", 0),
    ("TW308", sets_of("", ", dependsOn: [{name: a, status: Ready}]"), "", 0),
    ("TW308", sets_of(", dependsOn: [{name: b, status: Ready}]", ""), "", 1),
    ("TW308", jobset_of("", "startupPolicy: {startupPolicyOrder: InOrder}, "), "", 0),
    ("TW308", jobset_of("", "successPolicy: {operator: All, targetReplicatedJobs: [other]}, "), "", 1),
    ("TW308", jobset_of("", "failurePolicy: {rules: [{onJobFailureReasons: [Boredom]}]}, "), "", 1),
    ("TW308", jobset_of("", "coordinator: {replicatedJob: other}, "), "", 1),
    ("TW308", jobset_of("", "managedBy: kueue.x-k8s.io/multikueue, "), "", 0),
    ("TW308", jobset_of("", "managedBy: mine, "), "", 1),
    ("TW308", jobset_of("", "network: {subdomain: A.b}, "), "", 1),
    ("TW308", jobset_of("", "network: {subdomain: 1st}, "), "", 1),
    ("TW308", jobset_of("", "network: {subdomain: first}, "), "", 0),
    ("TW308", sets_of(", groupName: 1st", ""), "", 1),
    ("TW308", sets_of(", groupName: first", ""), "", 0),
    ("TW308", jobset_of("", "failurePolicy: {rules: [{name: 1st, action: FailJobSet}]}, "), "", 1),
    ("TW308", jobset_of("", "failurePolicy: {rules: [{name: 'a:b,c', action: FailJobSet}]}, "), "", 0),
    ("TW308", sets_of("", ", groupName: A_b"), "", 1),
    ("TW308", jobset_of("", "volumeClaimPolicies: [{templates: [{metadata: {name: v}}]}], "), "", 1),
    ("TW519", BATCH + job_of("completionMode: Indexed, completions: 2, maxFailedIndexes: 1, "), "", 1),
    ("TW519", BATCH + job_of("podFailurePolicy: {rules: [{action: Ignore}]}, "), "", 1),
    ("TW519", BATCH + job_of("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [0, 1]}}]}, "), "", 1),
    ("TW519", BATCH + job_of("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [2, 1]}}]}, "), "", 1),
    ("TW519", BATCH + job_of("podFailurePolicy: {rules: [{action: FailIndex, onPodConditions: [{type: A}]}]}, "), "", 1),
    ("TW309", jobset_of("parallelism: 2, backoffLimit: 0, "), "", 0),
    ("TW309", jobset_of("parallelism: 2, backoffLimit: 6, "), "", 1),
    ("TW309", jobset_of("parallelism: 2, ", "failurePolicy: {maxRestarts: 1}, "), "", 1),
    ("TW309", jobset_of("parallelism: 2, ", container="command: [torchrun, '--nnodes=1:2']"), "", 0),
    ("TW309", jobset_of("parallelism: 1, "), "", 0),
]  # fmt: skip

CKPT = "env: [{name: TRAINWRIGHT_CHECKPOINT_DIR, value: /v/c}], volumeMounts: [{name: v, mountPath: /v}]"
SCRATCH = ", volumes: [{name: v, emptyDir: {}}]"


def pytorchjob_of(replica: str, policy: str, container: str = CKPT, pod: str = SCRATCH) -> str:
    template = f"template: {{spec: {{containers: [{{name: pytorch, {container}}}]{pod}}}}}"
    return (
        f"kind: PyTorchJob\nspec: {{runPolicy: {{{policy}}}, pytorchReplicaSpecs: "
        f"{{Worker: {{{replica}{template}}}}}}}"
    )


def lattice_of(spec: str) -> str:
    template = f"template: {{spec: {{containers: [{{name: trainingjob, {CKPT}}}]{SCRATCH}}}}}"
    return f"kind: TrainingJob\nspec: {{{spec}replicaSpecs: {{{template}}}}}"


TRAINJOB_CKPT = (
    "kind: TrainJob\nspec: {runtimeRef: {name: torch}, trainer: {env: "
    "[{name: TRAINWRIGHT_CHECKPOINT_DIR, value: /v/c}]}}"
)
MOUNTING = """
---
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec: {template: {spec: {%sreplicatedJobs: [{name: node, template: {spec: {%stemplate: {spec:
  {containers: [{name: node, volumeMounts: [{name: v, mountPath: /v}]}],
   volumes: [{name: v, emptyDir: {}}]}}}}}]}}}
"""

SCRATCH_CHECKPOINTS = [
    (pytorchjob_of("restartPolicy: ExitCode, ", "backoffLimit: 3"), 1),
    (pytorchjob_of("restartPolicy: ExitCode, ", "cleanPodPolicy: Running"), 1),
    (pytorchjob_of("restartPolicy: ExitCode, ", "backoffLimit: 0"), 0),
    (pytorchjob_of("restartPolicy: Never, ", "backoffLimit: 3"), 0),
    (lattice_of("minSize: 1, maxSize: 3, "), 1),
    (lattice_of("minSize: 2, maxSize: 2, runPolicy: {backoffLimit: 0}, "), 0),
    (lattice_of("minSize: 2, maxSize: 2, runPolicy: {backoffLimit: 2}, "), 1),
    (job_of("", CKPT, SCRATCH), 1),  # batch/v1 retries six times by default
    (job_of("backoffLimit: 0, ", CKPT, SCRATCH), 0),
    (job_of("backoffLimit: 2, ", CKPT, SCRATCH), 1),
    (TRAINJOB_CKPT, 0),  # nothing is known of the runtime
    (TRAINJOB_CKPT + MOUNTING % ("failurePolicy: {maxRestarts: 2}, ", "backoffLimit: 0, "), 1),
    (TRAINJOB_CKPT + MOUNTING % ("", "backoffLimit: 0, "), 0),
    (TRAINJOB_CKPT + MOUNTING % ("", ""), 1),
]  # fmt: skip

QUEUE = "metadata: {name: a, namespace: n, labels: {kueue.x-k8s.io/queue-name: team}}"
LOCAL = "\n---\nkind: LocalQueue\nmetadata: {name: team, namespace: n}\nspec: {clusterQueue: all}"
GPUS = "\nspec: {pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 8}}}]}}}}}"

LEAST = "kueue.x-k8s.io/job-min-parallelism"
QUOTA = "\n---\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {requests.nvidia.com/gpu: '%s'}%s}"
SCOPE = ", scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: Exists}]}"


def quota_of(flavors: str, more: str = "") -> str:
    return f"\n---\nkind: ClusterQueue\nmetadata: {{name: all}}\nspec: {{{more}resourceGroups: [{{flavors: [{flavors}]}}]}}"


def flavor(name: str, quota: str) -> str:
    return f"{{name: {name}, resources: [{{name: nvidia.com/gpu, {quota}}}]}}"


def grouped_of(*pods: str) -> str:
    """A PyTorchJob with a Master, workers, ..., each of the Kueue annotations `podset-…: …`."""
    roles = ("Master", "Worker", "Other")
    sets = []
    for role, asked in zip(roles, pods, strict=False):
        replicas = 1 if role == "Master" else 3
        written = ", ".join(f"kueue.x-k8s.io/podset-{a}" for a in asked.split(", ") if a)
        metadata = f"metadata: {{annotations: {{{written}}}}}"
        sets.append(f"{role}: {{replicas: {replicas}, template: {{{metadata}}}}}")
    return f"kind: PyTorchJob\nspec: {{pytorchReplicaSpecs: {{{', '.join(sets)}}}}}"


RACK, PREFER, GROUP = "required-topology: rack", "preferred-topology: rack", "group-name: a"

TAINTED = "pools: {h100: {resource: nvidia.com/gpu, tolerations: [{key: sku, operator: Exists}]}}"
FLAVORS = [
    ("TW705", f"kind: PyTorchJob\nmetadata: {{name: a, namespace: n}}{GPUS}", TAINTED, 1),
    ("TW705", f"kind: PyTorchJob\n{QUEUE}{GPUS}", TAINTED, 0),
    ("TW612", f"kind: Job\n{QUEUE}\nspec: {{template: {{spec: {{tolerations: [{{}}]}}}}}}", "", 1),
    ("TW612", "kind: Job\nspec: {template: {spec: {nodeSelector: {a: b}}}}", "", 0),
    ("TW612", f"kind: Job\n{QUEUE}\nspec: {{template: {{spec: {{nodeSelector: {{}}}}}}}}", "", 0),
    ("TW612", f"kind: JobSet\n{QUEUE}\nspec: {{replicatedJobs: [{{template: {{spec: {{template: "
              "{spec: {nodeSelector: {a: b}, tolerations: [{key: a}]}}}}}]}", "", 2),
]  # fmt: skip

TOPOLOGIES = [
    ("TW610", grouped_of(RACK, RACK), 1),
    ("TW610", grouped_of(PREFER, PREFER), 1),
    ("TW610", grouped_of(RACK, "required-topology: block"), 0),
    ("TW610", grouped_of("", RACK), 0),
    ("TW610", grouped_of(f"{RACK}, {GROUP}", f"{RACK}, {GROUP}"), 0),
    ("TW610", grouped_of(*[f"{RACK}, slice-required-topology: host, slice-size: 1"] * 2), 0),
    ("TW604", grouped_of(f"{RACK}, {GROUP}", f"{RACK}, {GROUP}"), 0),
    ("TW604", grouped_of(f"{RACK}, {GROUP}, slice-required-topology: host, slice-size: 1"), 1),
    ("TW604", grouped_of(f"{RACK}, {GROUP}, slice-required-topology-constraints: '[]'"), 1),
    ("TW604", grouped_of(GROUP), 1),
    ("TW604", grouped_of(f"{RACK}, group-name: '42'"), 1),
    ("TW611", grouped_of(f"{RACK}, {GROUP}", f"{RACK}, {GROUP}"), 0),
    ("TW611", grouped_of(f"{RACK}, {GROUP}", f"{RACK}, group-name: b"), 2),
    ("TW611", grouped_of(f"{RACK}, {GROUP}", f"{RACK}, {GROUP}", f"{RACK}, {GROUP}"), 1),
    ("TW611", grouped_of("", f"{RACK}, {GROUP}", f"{RACK}, {GROUP}"), 1),
    ("TW611", grouped_of(f"{RACK}, {GROUP}", f"{PREFER}, {GROUP}"), 1),
]

POOLS = "pools: {{h100: {{resource: nvidia.com/gpu{}}}}}"

SMALL = "pools: {{small: {{node: {{cpu: '8', memory: 32Gi, ephemeralStorage: 100Gi}}{}}}}}"


def asks(amounts: str, more: str = "") -> str:
    return f"{{name: a{more}, resources: {{requests: {{{amounts}}}}}}}"


def worker(pods: int, amounts: str) -> str:
    template = f"{{spec: {{containers: [{asks(amounts)}]}}}}"
    return f"kind: PyTorchJob\nspec: {{pytorchReplicaSpecs: {{Worker: {{replicas: {pods}, template: {template}}}}}}}"


SIDECAR = ", restartPolicy: Always"
# Of one pod: requests are summed as the scheduler sums them.
NODES = [
    (f"containers: [{asks('cpu: 8, memory: 32Gi')}]", SMALL.format(""), 0),
    (f"containers: [{asks('cpu: 8001m')}]", SMALL.format(""), 1),
    (f"containers: [{asks('cpu: 9999, memory: 1Ti')}]", SMALL.format(""), 2),
    (f"containers: [{asks('cpu: 9999')}]", "", 0),
    (f"containers: [{asks('cpu: 9999')}]", "pools: {a: {node: {memory: 1Gi}}}", 0),
    (f"containers: [{asks('ephemeral-storage: 101Gi')}]", SMALL.format(""), 1),
    (f"containers: [{asks('cpu: 5')}, {asks('cpu: 4')}]", SMALL.format(""), 1),
    # Init containers run before the others, one by one: the largest counts.
    (f"containers: [{asks('cpu: 8')}], initContainers: [{asks('cpu: 8')}]", SMALL.format(""), 0),
    (f"containers: [{asks('cpu: 1')}], initContainers: [{asks('cpu: 9')}]", SMALL.format(""), 1),
    # Sidecars run on, beside the containers and beside the init containers behind them.
    (
        f"containers: [{asks('cpu: 8')}], initContainers: [{asks('cpu: 1', SIDECAR)}]",
        SMALL.format(""),
        1,
    ),
    (
        f"containers: [{asks('cpu: 1')}], initContainers: [{asks('cpu: 1', SIDECAR)}, {asks('cpu: 8')}]",
        SMALL.format(""),
        1,
    ),
    (
        f"containers: [{asks('cpu: 1')}], initContainers: [{asks('cpu: 8')}, {asks('cpu: 1', SIDECAR)}]",
        SMALL.format(""),
        0,
    ),
    # The pod as a whole, its overhead, and limits where there is no request.
    (f"containers: [{asks('cpu: 9')}], resources: {{requests: {{cpu: 7}}}}", SMALL.format(""), 0),
    (f"containers: [{asks('cpu: 8')}], overhead: {{cpu: 250m}}", SMALL.format(""), 1),
    ("containers: [{name: a, resources: {limits: {cpu: 9}}}]", SMALL.format(""), 1),
    # One pool that holds it is enough, and one of which nothing is known.
    (
        f"containers: [{asks('cpu: 9')}]",
        "pools: {a: {node: {cpu: '8'}}, b: {node: {cpu: '16'}}}",
        0,
    ),
    (f"containers: [{asks('cpu: 9')}]", "pools: {a: {node: {cpu: '8'}}, b: {}}", 0),
]
EIGHTS = (
    "pools: {{a: {{resource: nvidia.com/gpu, gpusPerNode: 8, capacity: {}, node: {{cpu: '8'}}}}}}"
)
CROWDS = [
    (4, "cpu: 4", SMALL.format(", capacity: 2"), 0),
    (5, "cpu: 4", SMALL.format(", capacity: 2"), 1),
    (3, "cpu: 5", SMALL.format(", capacity: 2"), 1),
    (3, "cpu: 5", SMALL.format(""), 0),
    (3, "cpu: 9", SMALL.format(", capacity: 2"), 0),  # no node holds one: TW728
    (3, "nvidia.com/gpu: 5", EIGHTS.format(16), 1),
    (2, "nvidia.com/gpu: 5", EIGHTS.format(16), 0),
    (2, "nvidia.com/gpu: 5", EIGHTS.format(12), 1),  # on a part of a node 5 need not fit
    (5, "nvidia.com/gpu: 4", EIGHTS.format(16), 0),  # TW722
]

HCA = "env: [{name: NCCL_IB_HCA, value: mlx5}]"


def two(container: str, volume: str = "") -> str:
    volumes = f", volumes: [{{name: v, hostPath: {{path: {volume}}}}}]" if volume else ""
    template = f"{{spec: {{containers: [{{name: a, {container}}}]{volumes}}}}}"
    return f"kind: PyTorchJob\nspec: {{pytorchReplicaSpecs: {{Worker: {{replicas: 2, template: {template}}}}}}}"


# A node's own devices, drivers and sockets are no data, and a fabric may come without a count.
FABRICS = [
    ("TW717", two("image: a", "/data"), "", 1),
    ("TW717", two("image: a", "/device"), "", 1),
    *(
        ("TW717", two("image: a", path), "", 0)
        for path in ("/dev/infiniband", "/sys", "/proc/sys", "/run/tcpx")
    ),
    ("TW706", two(HCA), "", 1),
    (
        "TW706",
        two(f"{HCA}, volumeMounts: [{{name: v, mountPath: /dev/infiniband}}]", "/dev/infiniband"),
        "",
        0,
    ),
    ("TW706", two(f"{HCA}, volumeMounts: [{{name: v, mountPath: /data}}]", "/data"), "", 1),
    ("TW706", two(f"{HCA}, resources: {{claims: [{{name: rdma}}]}}"), "", 0),
    ("TW706", two(f"{HCA}, resources: {{limits: {{rdma/ib: 8}}}}"), "", 0),
    (
        "TW704",
        two(
            "command: [torchrun, --nproc-per-node=32, a.py], resources: {limits: {aws.amazon.com/neuron: 16}}"
        ),
        "",
        0,
    ),
    (
        "TW704",
        two(
            "command: [torchrun, --nproc-per-node=1, a.py], resources: {limits: {google.com/tpu: 4}}"
        ),
        "",
        0,
    ),
    (
        "TW704",
        two(
            "command: [torchrun, --nproc-per-node=1, a.py], resources: {limits: {nvidia.com/gpu: 4}}"
        ),
        "",
        1,
    ),
]

FITS = [
    *FABRICS,
    ("TW722", "kind: PyTorchJob" + GPUS, POOLS.format(""), 0),
    ("TW722", "kind: PyTorchJob" + GPUS, POOLS.format(", capacity: 16, gpusPerNode: 8"), 0),
    ("TW722", "kind: PyTorchJob" + GPUS, POOLS.format(", capacity: 15"), 1),
    ("TW722", "kind: PyTorchJob" + GPUS, POOLS.format(", gpusPerNode: 4"), 1),
    ("TW722", "kind: PyTorchJob" + GPUS, "pools: {tpu: {resource: google.com/tpu, capacity: 1}}", 0),
    ("TW722", "kind: PyTorchJob" + GPUS,
     "pools: {a: {resource: nvidia.com/gpu, capacity: 1}, b: {resource: nvidia.com/gpu, capacity: 99}}", 0),
    *(("TW728", f"kind: Pod\nspec: {{{spec}}}", keys, times) for spec, keys, times in NODES),
    *(("TW729", worker(pods, amounts), keys, times) for pods, amounts, keys, times in CROWDS),
    ("TW609", f"kind: PyTorchJob\n{QUEUE}{GPUS}{LOCAL}" + quota_of(flavor("a", "nominalQuota: 16")), "", 0),
    ("TW609", f"kind: PyTorchJob\n{QUEUE}{GPUS}{LOCAL}" + quota_of(flavor("a", "nominalQuota: 15")), "", 1),
    ("TW609", f"kind: PyTorchJob\n{QUEUE}{GPUS}{LOCAL}"
     + quota_of(flavor("a", "nominalQuota: 4") + ", " + flavor("b", "nominalQuota: 16")), "", 0),
    ("TW609", f"kind: PyTorchJob\n{QUEUE}{GPUS}{LOCAL}"
     + quota_of(flavor("a", "nominalQuota: 4"), "cohort: c, "), "", 0),
    ("TW609", f"kind: PyTorchJob\n{QUEUE}{GPUS}{LOCAL}"
     + quota_of(flavor("a", "nominalQuota: 4, borrowingLimit: 4"), "cohort: c, "), "", 1),
    ("TW609", f"kind: PyTorchJob\n{QUEUE}{GPUS}{LOCAL}", "", 0),  # the ClusterQueue is not known
    ("TW626", f"kind: PyTorchJob\n{QUEUE}{GPUS}", "queues: {team: {quota: 15}}", 1),
    ("TW626", f"kind: PyTorchJob\n{QUEUE}{GPUS}", "queues: {team: {quota: 16}}", 0),
    ("TW626", f"kind: PyTorchJob\n{QUEUE}{GPUS}", "queues: {team: {}, other: {quota: 1}}", 0),
    ("TW626", f"kind: PyTorchJob\n{QUEUE}{GPUS}{LOCAL}"  # TW609 knows the ClusterQueue itself
     + quota_of(flavor("a", "nominalQuota: 16")), "queues: {team: {quota: 1}}", 0),
    *(
        ("TW625", f"kind: Job\nmetadata: {{annotations: {{{LEAST}: '{least}'}}}}\nspec: {{{pods}}}", "", times)
        for least, pods, times in (
            ("1", "parallelism: 4, completions: 4", 0),
            ("3", "parallelism: 4, completions: 4", 0),
            ("4", "parallelism: 4, completions: 4", 1),  # nothing is left to give up
            ("2", "parallelism: 4, completions: 2", 1),  # no more than two ever run at once
            ("0", "parallelism: 4, completions: 4", 1),
        )
    ),
    ("TW723", f"kind: PyTorchJob{GPUS}{QUOTA % ('15', '')}", "", 1),
    ("TW723", f"kind: PyTorchJob{GPUS}{QUOTA % ('16', '')}", "", 0),
    # Such a quota only counts the pods of some priority classes.
    ("TW723", f"kind: PyTorchJob{GPUS}{QUOTA % ('1', SCOPE)}", "", 0),
    ("TW606", f"kind: PyTorchJob\n{QUEUE}", "", 0),
    ("TW606", f"kind: PyTorchJob\n{QUEUE}", 'kueue: {version: "1.0"}', 1),
    ("TW607", "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue", 'kueue: {version: "0.12"}', 0),
    ("TW605", f"kind: TrainJob\n{QUEUE}\nspec: {{runtimePatches: [{{}}]}}", "gitops: {engine: flux}", 0),
    ("TW605", f"kind: TrainJob\n{QUEUE}\nspec: {{runtimePatches: [{{}}]}}\n---\nkind: Application\n"
     "spec: {syncPolicy: {syncOptions: [ServerSideApply=true]}}", "", 0),
    ("TW605", f"kind: TrainJob\n{QUEUE}\nspec: {{runtimePatches: []}}", "", 0),
]  # fmt: skip

APPLICATION = "kind: Application\nspec: {source: {path: %s}, %s}"
SECRET = "\n---\nkind: Secret\nmetadata: {name: s%s}"
USES = "kind: Job\nmetadata: {name: a%s}\nspec: {template: {spec: {containers: [{env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}]}}}"
CLAIM = "\n---\nkind: PersistentVolumeClaim\nmetadata: {name: c%s}"
MOUNTS = "kind: Job\nmetadata: {name: a}\nspec: {template: {spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]}}}"
WAVE = ", annotations: {argocd.argoproj.io/sync-wave: '%d'}"

DELIVERY = [
    ("TW507", USES % "" + SECRET % "", "", 0),  # Argo CD applies a Secret before a Job of its wave
    ("TW507", USES % "" + SECRET % (WAVE % 1), "", 1),
    ("TW507", USES % (WAVE % 2) + SECRET % (WAVE % 1), "", 0),
    ("TW507", MOUNTS + CLAIM % "", "", 0),  # may wait for its first pod, so it has no wave of its own
    ("TW507", MOUNTS + CLAIM % (WAVE % 5), "", 1),
    ("TW507", f"kind: PyTorchJob\n{QUEUE}" + LOCAL, "", 1),
    ("TW507", f"kind: PyTorchJob\n{QUEUE}" + LOCAL.replace("namespace: n", "namespace: n" + WAVE % -1), "", 0),
    ("TW507", f"kind: PyTorchJob\n{QUEUE}" + LOCAL, "gitops: {engine: flux}", 0),
    ("TW507", f"kind: PyTorchJob\n{QUEUE}" + LOCAL, "gitops: {engine: none}", 0),
    ("TW507", f"kind: PyTorchJob\n{QUEUE}" + LOCAL.replace("namespace: n", "namespace: n" + WAVE % 1), "gitops: {engine: none}", 1),
    ("TW507", trainjob_of("trainer: {}") + RUNTIME, "gitops: {engine: flux}", 0),
    ("TW507", trainjob_of("trainer: {}") + RUNTIME, "", 1),
    ("TW510", "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nspec: {wait: true, "
              "healthCheckExprs: [{apiVersion: batch/v1, kind: Job}]}\n---\nkind: Job", "", 0),
    ("TW508", APPLICATION % ("environments/prod/rendered", "project: a"), "", 1),
    ("TW508", APPLICATION % ("infra/nginx", "project: a"), "", 0),
    ("TW508", APPLICATION % ("infra/nginx", "project: a") + "\n---\nkind: JobSet", "", 1),
    ("TW508", APPLICATION % ("environments/prod/rendered", "ignoreDifferences: [{kind: A}]"), "", 0),
    ("TW508", APPLICATION % ("environments/prod/rendered",
                             "ignoreDifferences: [{}], syncPolicy: {automated: {selfHeal: true}}"), "", 1),
    ("TW508", APPLICATION % ("environments/prod/rendered",
                             "ignoreDifferences: [{}], syncPolicy: {automated: {selfHeal: true}, "
                             "syncOptions: [RespectIgnoreDifferences=true]}"), "", 0),
    ("TW508", "kind: ApplicationSet\nspec: {template: {metadata: {annotations: "
              "{argocd.argoproj.io/compare-options: ServerSideDiff=true}}, "
              "spec: {source: {path: environments/prod/rendered}}}}", "", 0),
    ("TW509", "kind: HelmRelease\nspec: {chart: {spec: {chart: nginx}}, install: {remediation: {retries: 3}}}", "", 0),
    ("TW509", "kind: HelmRelease\nspec: {chart: {spec: {chart: training-job}}}", "", 0),
    ("TW509", "kind: HelmRelease\nspec: {chart: {spec: {chart: training-job}}, install: {strategy: {name: "
              "RetryOnFailure}, remediation: {retries: 3}}, upgrade: {remediation: {retries: 3}}}", "", 1),
    ("TW510", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nspec: {wait: true}\n---\nkind: Job", "", 0),
    ("TW510", "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n"
              "spec: {wait: true, path: ./environments/prod/rendered}", "", 0),
    ("TW510", "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n"
              "spec: {wait: true, path: ./environments/prod/rendered}", "targets: {job: {}}", 1),
    ("TW513", "kind: ConfigMap\nmetadata: {name: argocd-cm}", "", 0),
    ("TW513", "kind: ConfigMap\nmetadata: {name: argocd-cm}\n---\nkind: Job", "", 0),  # built in
    ("TW513", "kind: ConfigMap\nmetadata: {name: argocd-cm}\ndata: {resource.customizations: 'jobset.x-k8s.io/JobSet: {}'}"
              "\n---\nkind: JobSet", "", 0),
    ("TW513", "kind: ConfigMap\nmetadata: {name: other}\n---\nkind: JobSet", "", 0),
    ("TW506", "kind: JobSet\nspec: {replicatedJobs: [{name: a, replicas: 1}]}", "", 1),
    ("TW506", "kind: JobSet\nspec: {replicatedJobs: [{name: a, replicas: 1}]}", "gitops: {engine: flux}", 0),
    ("TW503", "kind: JobSet\nmetadata: {labels: {kustomize.toolkit.fluxcd.io/force: enabled}}", "", 1),
]  # fmt: skip

SPOT_POOL = "pools: {spot: {resource: nvidia.com/gpu, spot: true, nodeSelector: {pool: spot}}}"


def on(selector: str, container: str = "command: [a]") -> str:
    return job_of(
        "", container + ", resources: {limits: {nvidia.com/gpu: 8}}", f", nodeSelector: {selector}"
    )


PODS = [
    ("TW718", on("{pool: spot}"), SPOT_POOL, 1),
    ("TW718", on("{pool: spot}", "command: [a, --checkpoint-dir=/c]"), SPOT_POOL, 0),
    *(
        ("TW718", on("{pool: spot}", f"command: [a, {option}]"), SPOT_POOL, found)
        for option, found in {
            "--work_dir=/c": 0,
            "--run-dir, /c": 0,
            "--model_dir=/c": 0,
            "--save_path=/c": 0,
            "--exp-dir=/c": 0,
            "--out_dir=/c": 0,
            "trainer.default_local_dir=/c": 0,
            "--snapshot_path=/c": 0,
            "--load_model_dir=/c": 1,
            "--data_dir=/c": 1,
            "--log_dir=/c": 1,
        }.items()
    ),
    ("TW718", on("{pool: other}"), SPOT_POOL, 0),
    ("TW718", on("{cloud.google.com/gke-spot: 'true'}"), "", 1),
    ("TW718", on("{karpenter.sh/capacity-type: on-demand}"), "", 0),
    ("TW704", on("{}", "command: [torchrun, --nproc-per-node=8, a.py]"), "", 0),
    ("TW704", on("{}", "command: [torchrun, --nproc_per_node=4, a.py]"), "", 1),
    ("TW704", on("{}", "command: [torchrun, --nproc-per-node=gpu, a.py]"), "", 0),
    ("TW704", trainjob_of("trainer: {numProcPerNode: 2, resourcesPerNode: {limits: {nvidia.com/gpu: 4}}}"), "", 1),
    # what a runtime that is not here may hold is not missed
    ("TW702", trainjob_of("trainer: {resourcesPerNode: {limits: {nvidia.com/gpu: 4}}}"), "", 0),
    ("TW707", trainjob_of("trainer: {}"), "podSecurity: restricted", 0),
    ("TW707", trainjob_of("trainer: {}") + RUNTIME, "podSecurity: restricted", 8),
    ("TW708", trainjob_of("trainer: {}"), "serviceMesh: istio", 0),
    ("TW710", "kind: ConfigMap\ndata: {a.py: 'key = \"AKIAABCDEFGHIJKLMNOP\"'}", "", 1),
    ("TW710", "kind: ConfigMap\ndata: {a.py: 'TOKEN = os.environ[\"TOKEN\"]'}", "", 0),
    ("TW710", "kind: Compose\nspec: {services: {a: {environment: ['DB_PASSWORD=correct-horse']}}}", "", 1),
    ("TW710", "kind: Compose\nspec: {services: {a: {environment: {DB_PASSWORD: '${DB_PASSWORD}'}}}}", "", 0),
    ("TW714", "kind: JobSet\nspec: {replicatedJobs: [{name: a, template: {spec: {parallelism: 3, template: {spec: "
              "{topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname, minDomains: 3, whenUnsatisfiable: "
              "DoNotSchedule}]}}}}}]}", "pools: {cpu: {capacity: 2}}", 1),
    ("TW714", "kind: JobSet\nspec: {replicatedJobs: [{name: a, template: {spec: {parallelism: 3, template: {spec: "
              "{topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname, minDomains: 3, whenUnsatisfiable: "
              "ScheduleAnyway}]}}}}}]}", "pools: {cpu: {capacity: 2}}", 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "manifest", "keys", "expected"),
    [*TRAINJOB, *RUNTIMES, *JOBS, *FITS, *DELIVERY, *PODS, *FLAVORS,
     *((rule, manifest, "", expected) for rule, manifest, expected in TOPOLOGIES),
     *(("TW719", manifest, "", expected) for manifest, expected in SCRATCH_CHECKPOINTS)],
)  # fmt: skip
def test_where_a_rule_begins_and_ends(rule: str, manifest: str, keys: str, expected: int) -> None:
    assert rule in RULES
    found = hits(rule, manifest, keys)
    assert len(found) == expected, found


def test_what_is_missing_is_said_in_numbers() -> None:
    (hit,) = hits("TW722", "kind: PyTorchJob" + GPUS, POOLS.format(", capacity: 8"))
    assert hit.message == 'needs 16 GPUs, the pool "h100" has 8: 8 too few'


@pytest.mark.parametrize("minor", range(4))
def test_the_fields_of_a_trainjob_are_those_of_its_real_definition(
    minor: int, shared: Callable[[str], Path]
) -> None:
    crd: Any = yaml.safe_load(shared(TRAINJOBS[f"2.{minor}"]).read_text())
    (version,) = [v for v in crd["spec"]["versions"] if v["served"]]
    real = set(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])
    known = {f for f, minors in trainjob._MINORS.items() if minor in minors}
    assert real == trainjob._ALWAYS | known


def test_thousands_of_objects_are_looked_up_and_never_scanned() -> None:
    """Rules about what lies beside an object would otherwise cost the square of their number."""

    class Counting(Bundle):
        scans = 0

        def __iter__(self) -> Any:
            Counting.scans += 1
            return super().__iter__()

    one = f"kind: TrainJob\n{QUEUE}\nspec: {{runtimeRef: {{name: torch}}, trainer: {{}}}}"
    body = yaml.safe_load(one)
    around = Counting(
        Manifest(body={**body, "metadata": {**body["metadata"], "name": f"a{n}"}})
        for n in range(50)
    )
    Counting.scans = 0
    for manifest in around:
        list(families.run(subject_of(manifest, environment(), None, around)))
    assert Counting.scans <= 6  # once an index, and the loop above


# --- of templates, of older versions, and of what people apply by hand --------------------------

UNLABELLED = "{spec: {replicatedJobs: [{name: launcher}, {name: worker}]}}"


@pytest.mark.parametrize(
    ("rule", "manifest", "wrong"),
    [
        ("TW501", "kind: Job\nmetadata: {name: a, generateName: a-}", False),
        ("TW501", "kind: Job\nmetadata: {generateName: a-}", True),
        ("TW208", f"kind: TrainingRuntime\nspec: {{mlPolicy: {{mpi: {{}}}}, template: {UNLABELLED}}}", False),
        ("TW208", f"kind: TrainingRuntime\nspec: {{mlPolicy: {{torch: {{}}}}, template: {UNLABELLED}}}", True),
        ("TW709", "kind: Job\nspec: {template: {spec: {containers: [{name: a, image: '${IMAGE_URI}'}]}}}", False),
        ("TW709", "kind: Job\nspec: {template: {spec: {containers: [{name: a, image: a}]}}}", True),
    ],
)  # fmt: skip
def test_what_public_manifests_have_is_no_false_alarm(
    rule: str, manifest: str, wrong: bool
) -> None:
    assert bool(hits(rule, manifest)) is wrong
