"""Which files are read, and which are refused by name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from repository import Repository

HEAD = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\n"


def _findings(repository: Repository, *selection: str) -> list[str]:
    done = repository.run("check", "--no-cache", "-o", "json", *selection)
    assert done.exit_code in (0, 1), done.output
    results = json.loads(done.stdout)["report"]["results"]
    return [f"{r['rule']} {r['place']['file']}: {r['message']}" for r in results]


def test_an_environment_is_a_folder_with_an_environment_file(repository: Repository) -> None:
    repository.write("notes/readme.txt", "")
    repository.write("base/jobs/half.yaml", HEAD + "name: half\n")
    assert _findings(repository) == []


def test_an_environment_needs_a_name_that_labels_can_have(repository: Repository) -> None:
    repository.environment("My Env")
    (found,) = _findings(repository)
    assert found.startswith('TW008 environments/My Env: "My Env" is no name')


def test_a_file_has_to_say_its_own_name(repository: Repository) -> None:
    repository.write(
        "base/jobs/llm.yaml",
        (repository.root / "environments/prod/jobs/llm.yaml").read_text(),
    )
    repository.write("prod/jobs/other.yaml", HEAD + "extends: base/llm\n")
    (found,) = _findings(repository, "prod")
    assert found == "TW007 environments/prod/jobs/other.yaml: the file does not say its name, other"


@pytest.mark.parametrize("kind", ["job", "folder", "environment", "environment file", "base"])
def test_links_are_never_followed(kind: str, repository: Repository, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.yaml").write_text("password: canary-value\n")
    places = repository.root / "environments"
    if kind == "job":
        (places / "prod/jobs/link.yaml").symlink_to(outside / "secret.yaml")
    elif kind == "folder":
        repository.environment("linked")
        (places / "linked/jobs").symlink_to(outside)
    elif kind == "environment":
        (places / "linked").symlink_to(places / "prod")
    elif kind == "environment file":
        (places / "linked/jobs").mkdir(parents=True)
        (places / "linked/environment.yaml").symlink_to(outside / "secret.yaml")
    else:
        (places / "base/jobs").mkdir(parents=True)
        (places / "base/jobs/link.yaml").symlink_to(outside / "secret.yaml")
        repository.job("prod/llm", "extends: base/link\n")
    found = _findings(repository)
    assert len(found) == 1
    assert "symbolic link" in found[0]
    assert "canary" not in repository.run("check", "--no-cache").output


def test_a_chain_of_bases_has_an_end(repository: Repository) -> None:
    for number in range(12):
        repository.write(
            f"base/jobs/b{number}.yaml", HEAD + f"name: b{number}\nextends: base/b{number + 1}\n"
        )
    repository.job("prod/llm", "extends: base/b0\n")
    (found,) = _findings(repository, "prod/llm")
    assert "more than 8 specs extend each other" in found


ODD = [
    b"\xff.yaml",
    "é.yaml".encode(),
    b"a b.yaml",
    b"new\nline.yaml",
    b"-x.yaml",
    b"UP.yaml",
    b"x.yml",
]
ODD += [b"\x1b[31m.yaml", b"a.b.yaml", b"no-suffix"]


@pytest.mark.parametrize("output", ["text", "json", "sarif", "github", "junit", "markdown"])
def test_odd_file_names_are_findings_in_every_format(output: str, repository: Repository) -> None:
    folder = repository.root / "environments/prod/jobs"
    for name in ODD:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_text("name: x\n")
    (folder / "folder.yaml").mkdir()
    (folder / ".hidden.yaml").write_text("")
    (folder / "backup.yaml~").write_text("")
    done = repository.run("check", "--no-cache", "-o", output)
    assert done.exit_code == 1, done.output
    assert "\x1b" not in done.stdout
    if output == "json":
        results = json.loads(done.stdout)["report"]["results"]
        assert [r["rule"] for r in results] == ["TW008"] * (len(ODD) + 1)
    assert len(repository.run("list", "jobs").stdout.splitlines()) == 4
