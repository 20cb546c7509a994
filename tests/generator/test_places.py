"""Where findings stand: at the line that decides, and not at the first of the file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from repository import Repository

ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
targets: {pytorchjob: {version: "1.9", restrictedInitContainer: true}}
queueing: kueue
kueue: {version: "0.19", frameworks: [kubeflow.org/pytorchjob]}
queues: {main: {}}
pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8}}
"""
JOB = """\
# Who is asked about it: the team of language models.

apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
resources: {cpu: "1", memory: 1Gi, gpu: 8}
pool: h100
nodes: 2
queue: main
maxDuration: 2h
"""


def _with(lines: str) -> str:
    """The job with lines in place of those of the same keys, or at its end."""
    written = JOB
    for line in lines.splitlines():
        key = line.partition(":")[0]
        kept = re.sub(rf"^{key}:.*$", lambda _, line=line: line, written, flags=re.MULTILINE)
        written = kept if kept != written else f"{written}{line}\n"
    return written


@pytest.mark.parametrize(
    ("lines", "rule", "at"),
    [
        ("entrypoint: {argv: [torchrun, --standalone, train.py]}", "TW721", "{argv:"),
        ("entrypoint: {argv: [torchrun, --master-addr=127.0.0.1, a.py]}", "TW721", "{argv:"),
        ("entrypoint: {argv: [python, -m, torch.distributed.launch, a.py]}", "TW766", "{argv:"),
        ("flags: {output_dir: /workspace/out}\nretries: 3", "TW754", "/workspace"),
        ("entrypoint: {script: a.py, args: [--output_dir=/workspace/out]}\nretries: 3", "TW754", "{script:"),
        ("flags: {model_name_or_path: meta-llama/Llama-3.1-8B}", "TW765", "meta-llama"),
        ("flags: {report_to: wandb}", "TW770", "wandb"),
        ("env: {HF_HOME: /cache}\nflags: {model_name_or_path: a/b}", "TW773", "/cache"),
        ("queue: null", "TW756", "2"),
        ("image: null", "TW010", "null"),
        ("resources: {cpu: 1, gpu: 8, memory: 1}", "TW010", "1}"),
        ("entrypoint: {}", "TW010", "{}"),
        ("target: jobset", "TW020", "jobset"),
    ],
)  # fmt: skip
def test_a_finding_is_at_what_decides_it(tmp_path: Path, lines: str, rule: str, at: str) -> None:
    repository = Repository(tmp_path)
    repository.write("prod/environment.yaml", ENVIRONMENT)
    repository.write("prod/jobs/llm.yaml", _with(lines))
    report = json.loads(repository.run("check", "--no-cache", "-o", "json").stdout)["report"]
    places = [result["place"] for result in report["results"] if result["rule"] == rule]
    assert places, report
    written = [_with(lines).splitlines()[p["line"] - 1][p["column"] - 1 :] for p in places]
    assert all(text.startswith(at) for text in written), written


@pytest.mark.parametrize(
    ("lines", "rule"),
    [("entrypoint:", "TW010"), ("image:", "TW010")],
)
def test_what_is_nowhere_is_at_the_mapping_that_lacks_it(
    tmp_path: Path, lines: str, rule: str
) -> None:
    """Below the comments that a file begins with."""
    repository = Repository(tmp_path)
    repository.write("prod/environment.yaml", ENVIRONMENT)
    job = "".join(line for line in JOB.splitlines(True) if not line.startswith(lines))
    repository.write("prod/jobs/llm.yaml", job)
    report = json.loads(repository.run("check", "--no-cache", "-o", "json").stdout)["report"]
    (place,) = (result["place"] for result in report["results"] if result["rule"] == rule)
    assert (place["line"], place["column"]) == (3, 1)
