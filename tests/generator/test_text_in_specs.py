"""Odd text on its whole way: from a spec in YAML or JSON to the object that the API server gets."""

from __future__ import annotations

import json

import pytest
import yaml

from repository import JOB, Repository

TEXTS = {
    "separators": "a \u2028 b\u2029 c",
    "beyond 16 bits": "x\U0001f600\U0010fffd y",
    "quotes": "\"'\\ # : {}[]&*!|>%@`",
    "blanks": "  a \n  b\t\n\n",
    "looks like numbers": "1e3",
}


@pytest.mark.parametrize("ascii_only", [True, False], ids=["escapes", "characters"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_a_json_spec_says_is_what_the_container_gets(
    text: str, ascii_only: bool, repository: Repository
) -> None:
    repository.environment("prod", "severities: {TW780: off}\n")  # separators are not seen
    spec = yaml.safe_load(JOB.replace("NAME", "llm"))
    spec |= {"env": {"A": text}, "annotations": {"a": text}, "flags": {"a": text, "b": [text]}}
    spec["entrypoint"] = {"argv": ["sh", "-c", text]}
    spec["launcher"] = "python"
    repository.write("prod/jobs/llm.yaml", json.dumps(spec, ensure_ascii=ascii_only, indent=1))
    done = repository.run("render", "prod/llm")
    assert done.exit_code == 0, done.output
    folder = repository.root / "environments/prod/rendered/llm"
    manifest = yaml.safe_load((folder / "pytorchjob.yaml").read_text())
    container = manifest["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    assert {"name": "A", "value": text} in container[0]["env"]
    assert container[0]["command"] == ["sh", "-c", text]
    assert container[0]["args"] == [f"--a={text}", f"--b={text}"]
    assert manifest["metadata"]["annotations"]["a"] == text
    assert repository.run("render", "--check", "prod/llm").exit_code == 0


def test_a_verb_edits_a_json_spec_with_escapes(repository: Repository) -> None:
    spec = yaml.safe_load(JOB.replace("NAME", "llm")) | {"annotations": {"a": "\U0001f600"}}
    before = json.dumps({**spec, "state": "active", "run": 2})
    path = repository.write("prod/jobs/llm.yaml", before)
    assert repository.run("suspend", "prod/llm").exit_code == 0
    assert path.read_text() == before.replace('"active"', '"suspended"')


def test_a_finding_below_a_separator_shows_its_own_line(repository: Repository) -> None:
    repository.job("prod/llm", 'description: "a\u2028b\u2029c"\nnodez: 3\n')
    done = repository.run("check", "prod")
    line = next(line for line in done.stdout.splitlines() if "nodez: 3" in line)
    assert line.startswith("11 |")
