"""Credentials of what is imported: in no spec, and in none of the reports."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from trainwright.importing import ImportInput, json, text
from trainwright.importing.batch import ImportOptions, run

HERE = Path(__file__).parent
KEY, WORD, IN_URL = "0123456789abcdef0123456789abcdef01234567", "correcthorse9battery", "s3cr3tpw"
CONTAINER = {"name": "pytorch", "image": "a.example.com/a:1", "command": ["python", "train.py"]}
PLACES = {
    "option": {"args": ["--lr=1", f"--api-key={KEY}"]},
    "words": {"args": ["--wandb-key", KEY, "--password", WORD, "--lr", "1"]},
    "url": {"args": ["--db", f"postgres://me:{IN_URL}@db/x"]},
    "argv": {"command": ["./train", "--password", WORD, "-x", "z"]},
    "script": {"command": ["bash", "-c", f"export WANDB_API_KEY={KEY} && ./a --password {WORD}"]},
    "env": {"env": [{"name": "MY_PASSWORD", "value": WORD}, {"name": "API_KEY", "value": KEY}]},
    "probe": {"livenessProbe": {"exec": {"command": ["curl", "--password", WORD]}}},
    "postStart": {"lifecycle": {"postStart": {"exec": {"command": ["login", f"--token={KEY}"]}}}},
}


@pytest.mark.parametrize("place", [*PLACES, "annotation", "init"])
def test_a_credential_is_in_no_spec_and_no_report(place: str, tmp_path: Path) -> None:
    pod = {"containers": [{**CONTAINER, **PLACES.get(place, {})}]}
    if place == "init":
        pod["initContainers"] = [{**CONTAINER, "name": "i", "args": ["--password", WORD]}]
    metadata = {"annotations": {"vault/password": WORD}} if place == "annotation" else {}
    replica = {"template": {"metadata": metadata, "spec": pod}}
    body = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "a", **metadata},
        "spec": {"pytorchReplicaSpecs": {"Master": replica}},
    }
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    done = run(HERE, found, ImportOptions(environment="lab", write=False))
    (one,) = done.imported
    lines = [text.spec(one), *text.report(one, lambda words, _: words)]
    lines.append(json.render(found, done, "lab", written=False))
    for secret in (KEY, WORD, IN_URL):
        assert not [line for line in lines if secret in line]
    assert any("a credential is never copied" in line for line in lines)


def test_the_rest_of_a_script_is_there_to_be_edited(tmp_path: Path) -> None:
    command = {"name": "a", "image": "a:1", **PLACES["script"]}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [command]}}},
    }
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    (one,) = run(HERE, found, ImportOptions(environment="lab", write=False)).imported
    assert one.spec["entrypoint"] == {
        "argv": ["bash", "-c", "export WANDB_API_KEY=*** && ./a --password ***"]
    }
