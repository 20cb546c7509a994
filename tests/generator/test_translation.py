"""What people write as other tools have it: the remedy, done as it stands, is a valid spec."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from repository import ENVIRONMENT, Repository
from trainwright.documents.validation import translation

HEAD = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: llm\n"
IMAGE = 'image: {repository: registry.example.com/a, tag: "1.0"}\n'
SCRIPT = "entrypoint: {script: train.py}\n"
# What is written, the key that goes away with it, and what the remedy makes of it.
WRITTEN = {
    "an image in one text": (
        SCRIPT + "image: registry.example.com:5000/a:1.0\n",
        "image",
        {"image": {"repository": "registry.example.com:5000/a", "tag": "1.0"}},
    ),
    "an image by digest": (
        SCRIPT + f"image: registry.example.com/a@sha256:{'0' * 64}\n",
        "image",
        {"image": {"repository": "registry.example.com/a", "digest": f"sha256:{'0' * 64}"}},
    ),
    "variables of a container": (
        SCRIPT + IMAGE + "env: [{name: A, value: b}, {name: C, value: '1'}]\n",
        "env",
        {"env": {"A": "b", "C": "1"}},
    ),
    "a variable of a Secret": (
        SCRIPT + IMAGE + "env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]\n",
        "env",
        {"secrets": {"A": {"name": "s", "key": "k"}}},
    ),
    "variables of docker": (SCRIPT + IMAGE + "env: [A=b=c]\n", "env", {"env": {"A": "b=c"}}),
    "volumes of a pod": (
        SCRIPT + IMAGE + "volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]\n",
        "volumes",
        {"volumes": {"d": {"claim": "data", "mountPath": "/d"}}},
    ),
    "flags as words": (
        SCRIPT + IMAGE + "flags: [--lr, 0.1, --amp, --x=3]\n",
        "flags",
        {"flags": {"lr": 0.1, "amp": True, "x": "3"}},
    ),
    "flags in one text": (
        SCRIPT + IMAGE + "flags: --name 'a b'\n", "flags", {"flags": {"name": "a b"}},
    ),
    "a flag as a key": (SCRIPT + IMAGE + "--lr: 0.1\n", "--lr", {"flags": {"lr": 0.1}}),
    "a command line": (
        IMAGE + "entrypoint: python train.py --lr 1\n",
        "entrypoint",
        {"entrypoint": {"script": "train.py", "args": ["--lr", "1"]}},
    ),
    "a command": (
        IMAGE + "command: [/bin/train, -v]\n",
        "command",
        {"entrypoint": {"argv": ["/bin/train", "-v"]}},
    ),
    "a script": (IMAGE + "script: train.py\n", "script", {"entrypoint": {"script": "train.py"}}),
    "time of Slurm": (SCRIPT + IMAGE + "time: 1-12:00:00\n", "time", {"maxDuration": "36h"}),
    "a walltime": (SCRIPT + IMAGE + 'walltime: "01:30:00"\n', "walltime", {"maxDuration": "90m"}),
    "a timeout": (SCRIPT + IMAGE + "timeout: 2h\n", "timeout", {"maxDuration": "2h"}),
    "replicas": (SCRIPT + IMAGE + "replicas: 4\n", "replicas", {"nodes": 4}),
    "nodes of torchrun": (SCRIPT + IMAGE + "nnodes: 4\n", "nnodes", {"nodes": 4}),
    "retries of a Job": (SCRIPT + IMAGE + "backoffLimit: 3\n", "backoffLimit", {"retries": 3}),
    "processes of torchrun": (
        SCRIPT + IMAGE + "nproc_per_node: 2\n", "nproc_per_node", {"procsPerNode": 2},
    ),
    "memory": (SCRIPT + IMAGE + "memory: 8Gi\n", "memory", {"resources": {"memory": "8Gi"}}),
}  # fmt: skip


def _remedies(repository: Repository, written: str) -> list[str]:
    repository.write("prod/jobs/llm.yaml", HEAD + written)
    done = repository.run("check", "prod/llm", "--no-cache", "-o", "json")
    results = json.loads(done.stdout)["report"]["results"]
    return [result["remedy"] for result in results if result["rule"] == "TW010"]


@pytest.mark.parametrize("case", WRITTEN)
def test_the_remedy_holds_the_value_and_is_valid(case: str, repository: Repository) -> None:
    written, key, expected = WRITTEN[case]
    remedy = next(it for it in _remedies(repository, written) if it.startswith("Write `"))
    found = {}
    for line in re.findall(r"`([^`]+)`", remedy):
        found |= yaml.safe_load(line)
    assert found == expected
    spec = {name: value for name, value in yaml.safe_load(written).items() if name != key}
    assert _remedies(repository, yaml.safe_dump(spec | found)) == []


@pytest.mark.parametrize(
    ("written", "remedy"),
    [
        ("resources: {memory: 1800}", 'Write the unit: `memory: "1800Mi"` or `memory: "1800Gi"`.'),
        ("shm: 8", 'Write the unit: `shm: "8Gi"` or `shm: "8Mi"`.'),
        (
            "maxDuration: 3600",
            'Write the unit: `maxDuration: "3600s"`, `maxDuration: "3600m"` or '
            '`maxDuration: "3600h"`.',
        ),
        ("resources: {requests: {nvidia.com/gpu: 8}}", "Write `resources: {gpu: 8}`."),
        ("resources: {rdma/ib: 1}", "Write `resources: {extended: {rdma/ib: 1}}`."),
        ("namespace: x", "Remove it: environment.yaml has the namespace of all its jobs."),
        ("env: [{name: HF_TOKEN, value: hf_0123456789abcdefghijABCDEFGHIJ}]", 'Write `env: {HF_TOKEN: "***"}`.'),
        ("--api-key: hf_0123456789abcdefghijABCDEFGHIJ", 'Write `flags: {api-key: "***"}`.'),
        ("target: mpijob", "It must be one of: pytorchjob, trainingjob, trainjob, jobset, job, rayjob, compose."),
    ],
)  # fmt: skip
def test_the_remedy_of(written: str, remedy: str, repository: Repository) -> None:
    assert _remedies(repository, f"{SCRIPT}{IMAGE}{written}\n") == [remedy]


@pytest.mark.parametrize(
    ("written", "remedy"),
    [
        ("resources: {gpu: 8}\ngres: gpu:4", "Write `resources: {gpu: 4}` in place of that on line 6."),
        ("resources: {gpu: 8}\nmem: 64G", 'Write `resources: {gpu: 8, memory: "64Gi"}` in place of that on line 6.'),
        ("nodes: 3\nnum_nodes: 2", "Keep one: `nodes: 3` on line 6, or `nodes: 2` there."),
        ("command: python t.py", "Write `entrypoint: {script: t.py}` in place of that on line 4."),
        (
            "resources: {requests: {cpu: 32, memory: 128Gi}, limits: {nvidia.com/gpu: 8}}",
            'Write `resources: {requests: {cpu: 32, memory: "128Gi"}, gpu: 8}`.',
        ),
        ("resources: {limits: {gpu: 8}}", "Write `resources: {gpu: 8}`."),
        ("resources: {memory: 128GB}", 'Write `memory: "128G"`.'),
        ("resources: {memory: 128gib}", 'Write `memory: "128Gi"`.'),
        ("memory: 64 kB", 'Write `resources: {memory: "64k"}`.'),
        ("nodes: two", "Write `nodes: 2`."),
        ("suspend: yes", "Write `state: suspended`."),
    ],
)  # fmt: skip
def test_a_field_that_is_there_keeps_what_it_has_and_is_written_once(
    written: str, remedy: str, repository: Repository
) -> None:
    assert _remedies(repository, f"{SCRIPT}{IMAGE}{written}\n") == [remedy]


def test_what_is_elsewhere_is_not_in_place_of_what_is_written_here(repository: Repository) -> None:
    repository.write("base/jobs/llm.yaml", f"{HEAD}resources: {{gpu: 8}}\n")
    written = f"extends: base/llm\n{SCRIPT}{IMAGE}gres: gpu:4\n"
    assert _remedies(repository, written) == ["Write `resources: {gpu: 4}`."]


def test_an_image_without_a_tag_needs_one_in_the_same_step(repository: Repository) -> None:
    (remedy,) = _remedies(repository, f"{SCRIPT}image: pytorch/pytorch\n")
    assert remedy == (
        'Write `image: {repository: pytorch/pytorch, tag: "…"}` with the tag to run, or its '
        "`digest`."
    )


def test_a_name_that_is_not_valid_is_one_that_exists(repository: Repository) -> None:
    environment = ENVIRONMENT + (
        "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 16}}\n"
        "queueing: kueue\nqueues: {team-a: {}}\n"
    )
    repository.write("prod/environment.yaml", environment)
    written = f"{SCRIPT}{IMAGE}pool: h10O\nqueue: Team_A\n"
    assert _remedies(repository, written) == ["Did you mean h100?", "Did you mean team-a?"]
    assert _remedies(repository, f"{SCRIPT}{IMAGE}pool: X_Y\n") == ["There are: h100."]
    named = f"{HEAD}{SCRIPT}{IMAGE}".replace("name: llm", "name: My_Job")
    repository.write("prod/jobs/llm.yaml", named)
    told = repository.run("check", "prod/llm", "--no-cache").stdout
    assert "Write `name: llm`, as the file is called." in told


def test_fields_below_spec_are_named_as_jobs_have_them(repository: Repository) -> None:
    (remedy,) = _remedies(repository, f"{SCRIPT}{IMAGE}spec: {{replicas: 2, pool: a}}\n")
    assert remedy.endswith(": `nodes: 2` for `replicas`, `pool`.")


# Nothing is made of what only looks like another tool's form.
OTHER = [
    "env: [[], 3]", "volumes: [3]", "volumes: [{emptyDir: {}}]", "flags: [3]", "flags: '--a \"b'",
    "command: {}", "time: []", "time: soon", "--: 3", "replicas: {a: b}", "image: ''",
    "image: a b", "entrypoint: ''", "entrypoint: [[]]", "env: [{value: b}]",
]  # fmt: skip


@pytest.mark.parametrize("written", OTHER)
def test_what_cannot_be_translated_is_described(written: str, repository: Repository) -> None:
    key = written.partition(":")[0]
    beside = (SCRIPT if key != "entrypoint" else "") + (IMAGE if key != "image" else "")
    found = _remedies(repository, f"{beside}{written}\n")
    assert found
    assert not any(remedy.startswith("Write `") for remedy in found)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("PyTorchJob", "trainwright import --force --env dev environments/dev/jobs/x.yaml"),
        ("JobSet", "trainwright import"),
        ("List", "trainwright import"),
        ("ConfigMap", "`git mv environments/dev/jobs/x.yaml environments/dev/objects/`"),
        ("Service", "A Service does not train"),
        ("CronJob", "A CronJob does not train"),
        ("Deployment", "stands beside the jobs as it is"),
        ("Secret", "Create it in the cluster, not in git"),
    ],
)
def test_a_manifest_goes_where_it_is_taken(kind: str, told: str) -> None:
    data = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}}
    assert told in translation.of_manifest("environments/dev/jobs/x.yaml", data)


def test_a_spec_of_a_newer_version_is_no_manifest() -> None:
    assert translation.of_manifest("environments/dev/jobs/x.yaml", {"kind": "JobSpec"}) == ""
