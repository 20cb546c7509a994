"""`check --fix`: the diff first, then the files, and only what is beyond doubt."""

from __future__ import annotations

from pathlib import Path

import pytest

from repository import Repository

POOLS = "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 8}}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.environment("prod", POOLS)
    made.job("prod/llm")
    return made


def text(repository: Repository, name: str = "llm") -> str:
    return (repository.root / f"environments/prod/jobs/{name}.yaml").read_text()


def test_the_diff_comes_first_and_nothing_is_written_without_consent(
    repository: Repository,
) -> None:
    repository.job("prod/llm", "retires: 2  # often enough\n")
    before = text(repository)
    shown = repository.run("check", "--fix")
    assert "-retires: 2  # often enough\n+retries: 2  # often enough\n" in shown.output
    assert "nothing is written without --yes" in shown.output
    assert 'unknown key "retires"' in shown.output
    assert (shown.exit_code, text(repository)) == (1, before)
    written = repository.run("check", "--fix", "--yes")
    assert written.exit_code == 0
    assert "no findings in 1 job" in written.output
    assert text(repository) == before.replace("retires", "retries")


def test_several_remedies_one_after_the_other(repository: Repository) -> None:
    """What a first mistake hides is found after it, and fixed as well."""
    repository.job("prod/llm", "retires: 0\npool: h10\n")
    done = repository.run("check", "--fix", "--yes")
    found = text(repository)
    assert "pool: h100\n" in found
    assert "retires" not in found
    assert "findings (TW010, TW0" in done.output


def test_what_brings_another_finding_is_undone(repository: Repository) -> None:
    repository.job("prod/llm", "node: 3\n")  # there is nodes already
    before = text(repository)
    done = repository.run("check", "--fix", "--yes")
    assert (done.exit_code, text(repository)) == (1, before)
    assert "nothing to fix by itself" in done.output


def test_others_are_left_alone(repository: Repository) -> None:
    repository.job("prod/llm", "retires: 2\n")
    repository.job("prod/other", "retires: 2\n")
    repository.run("check", "--fix", "--yes", "prod/other")
    assert "retires" in text(repository)
    assert "retries" in text(repository, "other")


def test_bytes_that_are_not_text_stay(repository: Repository) -> None:
    path = repository.root / "environments/prod/jobs/llm.yaml"
    raw = path.read_bytes() + b"retires: 2 # \xff\n"
    path.write_bytes(raw)
    repository.run("check", "--fix", "--yes")
    assert path.read_bytes() == raw


def test_a_credential_is_not_shown(repository: Repository) -> None:
    secret = "hf_abcdefghijklmnopqrstuvwxyz012345"
    repository.job("prod/llm", f"env: {{HUB_TOKEN: {secret}}}\nretires: 2\n")
    done = repository.run("check", "--fix", "--yes")
    assert secret not in done.output
    assert secret in text(repository)
    assert "retries: 2" in text(repository)
