"""Numbers in flags reach the program as they were written; anywhere else they are numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from repository import Repository
from trainwright.specs import load

NUMBERS = [
    "1e3", "1E3", "1.10", "1.0", "0o14", "0x1F", "+1", "+1.5", "-0", "-0.0", "1_000", "1e-4", ".5", "1.",
    "0.1000", "1e-05", "123456789.123456789123", "0.30000000000000004", "99999999999999999999",
    "1e22", "007", "3", "-7", "0.1", "12:30",
]  # fmt: skip


def _arguments(repository: Repository, job: str) -> list[str]:
    environment, _, name = job.partition("/")
    folder = repository.root / "environments" / environment / "rendered" / name
    return yaml.safe_load((folder / "values.yaml").read_text())["args"]


def _objects(repository: Repository) -> dict[str, str]:
    folder = repository.root / "environments/prod/rendered"
    records = sorted(folder.glob("*/run.lock"))
    return {path.parent.name: json.loads(path.read_text())["object"] for path in records}


def test_a_number_is_passed_as_written(repository: Repository) -> None:
    flags = "".join(f"  n{i}: {text}\n" for i, text in enumerate(NUMBERS))
    many = ", ".join(NUMBERS)
    repository.job("prod/llm", f"flags:\n{flags}  many: [{many}]\n")
    done = repository.run("render", "prod")
    assert done.exit_code == 0, done.output
    wanted = [f"--many={text}" for text in NUMBERS]
    wanted += [f"--n{i}={text}" for i, text in enumerate(NUMBERS)]
    assert sorted(_arguments(repository, "prod/llm")) == sorted(wanted)
    manifest = repository.root / "environments/prod/rendered/llm/pytorchjob.yaml"
    spec = yaml.safe_load(manifest.read_text())["spec"]["pytorchReplicaSpecs"]["Master"]
    assert sorted(spec["template"]["spec"]["containers"][0]["args"]) == sorted(wanted)


@pytest.mark.parametrize("layer", ["base", "environment", "defaults"])
def test_a_number_is_passed_as_written_from_any_layer(layer: str, repository: Repository) -> None:
    flags = "{lr: &rate 1e3, betas: [1.10, *rate]}"
    if layer == "base":
        head = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: half\n"
        repository.write("base/jobs/half.yaml", f"{head}flags: {flags}\n")
        repository.job("prod/llm", "extends: base/half\n")
    elif layer == "environment":
        repository.environment("prod", f"defaults: {{flags: {flags}}}\n")
    else:
        head = "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n"
        repository.write("defaults.yaml", f"{head}defaults: {{flags: {flags}}}\n")
    done = repository.run("render", "prod")
    assert done.exit_code == 0, done.output
    assert _arguments(repository, "prod/llm") == ["--betas=1.10", "--betas=1e3", "--lr=1e3"]
    shown = repository.run("explain", "prod/llm", "flags.lr").stdout
    assert "1e3" in shown


def _names(repository: Repository, texts: list[str], job: str = "llm") -> list[str]:
    """The run after each of these values of lr, written one after the other."""
    found = []
    for text in texts:
        repository.job(f"prod/{job}", f"flags: {{lr: {text}}}\n")
        assert repository.run("render", "prod").exit_code == 0
        found.append(_objects(repository)[job])
    return found


@pytest.mark.parametrize(
    "spellings",
    [
        ["0.0001", "1e-4", "1E-4", "'1e-4'", ".0001", "1.0e-04"],
        ["1e3", '"1e3"', "1000.0", "1e+3", "1000."],
        ["[0.1, 5e-1]", "[1e-1, 0.5]"],
        ["{words: [0.9, 0.95]}", "{words: [9e-1, 95e-2]}"],
    ],
)
def test_another_spelling_is_the_same_run(spellings: list[str], repository: Repository) -> None:
    assert len(set(_names(repository, spellings))) == 1
    assert repository.run("render", "--check", "prod").exit_code == 0
    listed = json.loads(repository.run("list", "jobs", "-o", "json").stdout)
    assert not any(job["outdated"] for job in listed["items"])


def test_another_number_is_another_run(repository: Repository) -> None:
    # 1e3 is not an int to argparse, and what comes of 010 or 1_000 depends on the program
    texts = ["0.1", "0.2", "1e3", "1000", "1_000", "01000", "0x3e8", "-0.1", "0.1f", '"0.1,0.2"']
    assert len(set(_names(repository, texts))) == len(texts)


def test_an_override_in_another_form_decides(repository: Repository) -> None:
    head = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: half\n"
    repository.write("base/jobs/half.yaml", f"{head}flags: {{lr: 1000.0}}\n")
    repository.job("prod/llm", "extends: base/half\nflags: {lr: 1e3}\n")
    done = repository.run("render", "prod")
    assert done.exit_code == 0
    assert "TW7" not in done.output
    assert _arguments(repository, "prod/llm") == ["--lr=1e3"]


def test_an_edit_leaves_the_run_what_it_is(repository: Repository) -> None:
    repository.job("prod/llm", "flags: {lr: 1e3}\nstate: active\n")
    assert repository.run("render", "prod").exit_code == 0
    before = _objects(repository)
    assert repository.run("suspend", "prod/llm").exit_code == 0
    assert _objects(repository) == before
    assert _arguments(repository, "prod/llm") == ["--lr=1e3"]
    repository.job("dev/llm", "flags: {lr: 2e-1}\n")
    done = repository.run("promote", "llm", "--from", "dev", "--to", "prod", "--only", "flags")
    assert done.exit_code == 0, done.output
    assert _arguments(repository, "prod/llm") == ["--lr=2e-1"]


def test_a_whole_number_is_one_in_any_form(repository: Repository) -> None:
    repository.job("prod/mnist", "procsPerNode: 4\n")
    path = repository.job("prod/llm", "procsPerNode: 4.0\n")
    path.write_text(path.read_text().replace("nodes: 2", "nodes: 2.0"))
    done = repository.run("render", "prod")
    assert done.exit_code == 0, done.output
    folder = repository.root / "environments/prod/rendered"
    texts = {
        name: (folder / name / "values.yaml").read_text().replace(_objects(repository)[name], "-")
        for name in ("llm", "mnist")
    }
    assert texts["llm"].replace("llm", "mnist") == texts["mnist"]


def test_a_number_where_text_belongs_is_shown_as_written(repository: Repository) -> None:
    path = repository.job("prod/llm")
    path.write_text(path.read_text().replace('tag: "1.0"', "tag: 1.10"))
    done = repository.run("check", "prod")
    assert done.exit_code == 1
    assert "image.tag must be a string, found a number: 1.10\n" in done.stdout


def test_plain_numbers_keep_their_names(tmp_path: Path) -> None:
    document = load.read_spec("f.yaml", b"flags: {a: 3, b: 0.1, c: [1, 2.5], d: 1.0, e: true}\n")
    assert not isinstance(document, tuple)
    flags = document.data["flags"]
    assert flags == {"a": 3, "b": 0.1, "c": [1, 2.5], "d": 1.0, "e": True}
    assert [type(flags[name]) for name in "abde"] == [int, float, float, bool]
