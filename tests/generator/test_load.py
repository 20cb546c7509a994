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
    assert found.startswith('TW008 environments/My Env: "My Env" is not a valid name')


def test_a_file_has_to_say_its_own_name(repository: Repository) -> None:
    repository.write(
        "base/jobs/llm.yaml",
        (repository.root / "environments/prod/jobs/llm.yaml").read_text(),
    )
    repository.write("prod/jobs/other.yaml", HEAD + "extends: base/llm\n")
    (found,) = _findings(repository, "prod")
    assert found == "TW007 environments/prod/jobs/other.yaml: the file does not set its name: other"


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


# --- names that nearly are those that are read ---------------------------------------------------


@pytest.mark.parametrize(
    "name", ["enviroment.yaml", "environment.yml", "Environment.yaml", "environment.json"]
)
@pytest.mark.parametrize("selection", [(), ("prod",), ("prod/llm",)], ids=" ".join)
def test_an_environment_whose_file_is_misspelt_does_not_vanish(
    name: str, selection: tuple[str, ...], repository: Repository
) -> None:
    path = repository.root / "environments/prod/environment.yaml"
    path.rename(path.with_name(name))
    (found,) = _findings(repository, *selection)
    assert found == (
        "TW008 environments/prod/environment.yaml: environments/prod/environment.yaml does not "
        f"exist; did you mean {name}?"
    )
    assert repository.run("check", *selection).exit_code == 1
    assert f"Rename environments/prod/{name} to environment.yaml." in repository.run("check").stdout


@pytest.mark.parametrize("trace", ["jobs/llm.yaml", "rendered/kustomization.yaml", "ledger.yaml"])
def test_an_environment_without_its_file_is_an_error(trace: str, repository: Repository) -> None:
    repository.write(f"staging/{trace}", "")
    (found,) = _findings(repository)
    assert found.endswith("environments/staging/environment.yaml does not exist")
    assert repository.run("check").exit_code == 1


@pytest.mark.parametrize("extends", ["extends: common/half\n", '"extends": "common/half"\n'])
def test_a_folder_that_is_extended_needs_no_environment(
    extends: str, repository: Repository
) -> None:
    repository.write("common/jobs/half.yaml", HEAD + "name: half\nnodes: 3\n")
    assert len(_findings(repository)) == 1
    repository.job("prod/llm", extends)
    assert _findings(repository) == []


MISSPELT = {
    "ledger.yml": "prod/ledger.yml",
    "defaults.yml": "defaults.yml",
    "default.yaml": "default.yaml",
    "Images.lock.yaml": "Images.lock.yaml",
}


@pytest.mark.parametrize("path", MISSPELT.values(), ids=MISSPELT)
def test_a_misspelt_file_is_not_left_unread_silently(path: str, repository: Repository) -> None:
    repository.write(path, "")
    (found,) = _findings(repository)
    assert found.startswith(f"TW008 environments/{path}: ")
    assert "is not read: did you mean" in found


def test_a_misspelt_folder_of_jobs_is_a_finding(repository: Repository) -> None:
    repository.environment("staging")
    assert _findings(repository) == []
    repository.write("staging/job/x.yaml", "")
    (found,) = _findings(repository)
    assert found == "TW008 environments/staging/job: job is not read: did you mean jobs?"


def test_a_job_with_another_suffix_is_told_its_name(repository: Repository) -> None:
    path = repository.root / "environments/prod/jobs/llm.yaml"
    path.rename(path.with_suffix(".yml"))
    done = repository.run("check")
    assert done.exit_code == 1
    assert "Rename it to llm.yaml." in done.stdout


def test_a_base_that_is_nearly_there_is_named(repository: Repository) -> None:
    repository.write("base/jobs/half.yml", HEAD + "name: half\n")
    repository.job("prod/llm", "extends: base/half\n")
    (found,) = _findings(repository)
    assert found.endswith("base/jobs/half.yaml does not exist; did you mean half.yml?")


def test_a_file_of_code_that_is_nearly_there_is_named(repository: Repository) -> None:
    repository.write("../train.py", "print()\n")
    repository.job("prod/llm", "files: {/app/train.py: {from: trian.py}}\n")
    done = repository.run("check")
    assert "trian.py does not exist; did you mean train.py?" in done.stdout
    assert "help: Write train.py where trian.py is named." in done.stdout


@pytest.mark.parametrize("name", ["jobs", "rendered"])
def test_an_environment_is_not_called_as_a_folder_inside_one(
    name: str, repository: Repository
) -> None:
    repository.environment(name)
    repository.job(f"{name}/llm")
    (found,) = _findings(repository)
    assert found.startswith(f'TW008 environments/{name}: "{name}" cannot be the name')
    assert repository.run("render").exit_code == 1


def test_an_environment_may_be_called_base(repository: Repository) -> None:
    repository.environment("base")
    repository.job("base/half")
    repository.job("prod/llm", "extends: base/half\n")
    assert repository.run("render").exit_code == 0
    assert "base/rendered/half/pytorchjob.yaml" in repository.tree()
    assert repository.run("render", "--check").exit_code == 0


@pytest.mark.parametrize("verb", ["check", "render", "suspend prod", "gitops wire --out wired"])
def test_nothing_to_select_from_is_said(verb: str, tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    done = Repository(tmp_path).run(*verb.split())
    assert done.exit_code == 2
    assert done.stderr.startswith("trainwright: no environment below environments/")


@pytest.mark.parametrize("verb", ["suspend", "rerun", "cancel"])
def test_no_job_to_edit_is_said(verb: str, repository: Repository) -> None:
    repository.environment("staging")
    done = repository.run(verb, "staging")
    assert done.exit_code == 2
    assert done.stderr == "trainwright: no job in staging\n"


# --- specs in folders where none is read -----------------------------------------------------------

SPEC = f"{HEAD}name: new\nentrypoint: {{script: train.py}}\n"


@pytest.mark.parametrize(
    ("path", "to"),
    [
        ("environments/prod/new.yaml", "environments/prod/jobs/new.yaml."),
        ("environments/prod/new.yml", "environments/prod/jobs/new.yaml."),
        ("environments/prod/llms/new.yaml", "environments/prod/jobs/new.yaml."),
        ("environments/prod/jobs/team/new.yaml", "environments/prod/jobs/new.yaml."),
        (
            "environments/prod/jobs/team/llm.yaml",
            "environments/prod/jobs/team-llm.yaml, with `name: team-llm`.",
        ),
        ("environments/prod/jobs/new.yml", "Rename it to new.yaml."),
        (
            "environments/jobs/new.yaml",
            "environments/<env>/jobs/new.yaml; <env> is one of dev, prod.",
        ),
        ("environments/jobs/prod/new.yaml", "environments/prod/jobs/new.yaml."),
        ("environments/new.yaml", "environments/<env>/jobs/new.yaml; <env> is one of dev, prod."),
        ("environments/base/new.yaml", "environments/base/jobs/new.yaml."),
        ("jobs/new.yaml", "environments/<env>/jobs/new.yaml; <env> is one of dev, prod."),
        ("jobs/prod/new.yaml", "environments/prod/jobs/new.yaml."),
        ("prod/jobs/new.yaml", "environments/prod/jobs/new.yaml."),
    ],
)
def test_a_spec_in_a_wrong_folder_is_told_where_it_belongs(
    path: str, to: str, repository: Repository
) -> None:
    full = repository.root / path
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_text(SPEC)
    (found,) = _findings(repository)
    assert found.startswith(f"TW008 {path}: ")
    done = repository.run("check")
    assert done.exit_code == 1
    assert to in done.stdout


def test_an_only_environment_is_named(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.environment("prod")
    repository.write("new.yaml", SPEC)
    assert "Move it to environments/prod/jobs/new.yaml." in repository.run("check").stdout


def test_an_environment_in_a_folder_of_another_is_found(repository: Repository) -> None:
    repository.environment("team/staging")
    (found,) = _findings(repository)
    assert found.startswith("TW008 environments/team/staging: ")
    assert "Move it to environments/staging." in repository.run("check").stdout


@pytest.mark.parametrize(
    "path",
    [
        "environments/notes/values.yaml",
        "environments/prod/values.yaml",
        "environments/prod/charts/values.yaml",
        "environments/prod/jobs/.backup/old.yaml",
        "environments/values.yaml",
        "jobs/values.yaml",
        "jobs/pipelines/values.yaml",
    ],
)
def test_files_of_other_tools_may_lie_anywhere_else(path: str, repository: Repository) -> None:
    full = repository.root / path
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_text("kind: ConfigMap\ndata: {entrypoint: a}\n")
    assert _findings(repository) == []
    full.write_bytes(b"\xff\xfe")
    assert _findings(repository) == []
