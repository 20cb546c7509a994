"""Copies of the state in the memory of two nodes: what a spec says, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from repository import Repository

MEMORY = "copies: {emptyDir: {medium: Memory, sizeLimit: 512Mi}, mountPath: /copies}"


@pytest.fixture
def place(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path)
    repository.environment("prod")
    return repository


def _job(place: Repository, volume: str = MEMORY, more: str = "") -> None:
    place.job(
        "prod/llm",
        "volumes:\n"
        "  v: {claim: data, mountPath: /v}\n"
        f"  {volume}\n"
        "checkpoint: {volume: v, path: runs, peerCopies: {volume: copies, every: 20}}\n"
        f"gracePeriod: 2m\n{more}",
    )


def test_the_run_has_a_folder_in_memory_and_its_cadence(place: Repository) -> None:
    _job(place)
    done = place.run("render", "prod")
    assert done.exit_code == 0, done.output
    values = place.root / "environments/prod/rendered/llm/values.yaml"
    env = json.dumps(yaml.safe_load(values.read_text()))
    assert '"TRAINWRIGHT_PEER_COPIES_EVERY": "20"' in env
    assert '"TRAINWRIGHT_PEER_COPIES_DIR": "/copies/llm' in env


@pytest.mark.parametrize(
    ("volume", "more", "message"),
    [
        ("other: {emptyDir: {}, mountPath: /o}", "", "which the job does not mount"),
        ("copies: {emptyDir: {}, mountPath: /o}", "", "which is not in memory"),
        ("copies: {claim: data, mountPath: /o}", "", "which is not in memory"),
        (
            MEMORY,
            "elastic: {minNodes: 1, maxNodes: 2, recovery: live}\n",
            "with live recovery the other workers go on",
        ),
    ],
)
def test_what_cannot_hold_a_copy_is_refused(
    place: Repository, volume: str, more: str, message: str
) -> None:
    _job(place, volume, more)
    done = place.run("check", "prod")
    assert done.exit_code == 1
    assert message in done.output
    assert "checkpoint" in done.output


READ_ONLY = MEMORY.replace("mountPath", "readOnly: true, mountPath")
CLAIM = "v: {claim: data, mountPath: /v}"


@pytest.mark.parametrize(
    ("written", "path", "cause"),
    [
        ((MEMORY, READ_ONLY), "checkpoint.peerCopies.volume", "volumes.copies.readOnly"),
        (
            (CLAIM, "v: {claim: data, mountPath: /v, readOnly: true}"),
            "checkpoint.volume",
            "volumes.v.readOnly",
        ),
        (
            (CLAIM, "v: {claim: data, mounts: [{mountPath: /v, readOnly: true}, {mountPath: /w}]}"),
            "checkpoint.volume",
            "volumes.v.mounts.0.readOnly",
        ),
        (
            (CLAIM, "v: {nfs: {server: a, path: /a, readOnly: true}, mountPath: /v}"),
            "checkpoint.volume",
            "volumes.v.nfs.readOnly",
        ),
        ((CLAIM, "v: {claim: data, mounts: [{mountPath: /v}, {mountPath: /w, readOnly: true}]}"), "", ""),
    ],
)  # fmt: skip
def test_a_volume_that_cannot_be_written_to(
    place: Repository, written: tuple[str, str], path: str, cause: str
) -> None:
    _job(place)
    job = place.root / "environments/prod/jobs/llm.yaml"
    job.write_text(job.read_text().replace(*written))
    line = 1 + job.read_text().splitlines().index(
        "checkpoint: {volume: v, path: runs, peerCopies: {volume: copies, every: 20}}"
    )
    done = place.run("check", "prod", "-o", "json")
    found = [
        (each["path"], each["place"]["line"], cause in each["remedy"])
        for each in json.loads(done.stdout)["report"]["results"]
        if "read-only" in each["message"] and each["path"].startswith("checkpoint")
    ]
    assert found == ([(path, line, True)] if path else [])
    assert done.exit_code == (1 if path else 0), done.output


def test_memory_for_copies_is_charged_to_the_pod(place: Repository) -> None:
    _job(place, more="shm: 600Mi\n")  # and the memory limit is 1Gi
    done = place.run("check", "prod")
    assert "volumes in memory may take" in done.output
    assert "512Mi (copies)" in done.output
    assert "the memory limit is 1Gi" in done.output
    _job(place, more="shm: 100Mi\n")
    assert "TW703" not in place.run("check", "prod").output
