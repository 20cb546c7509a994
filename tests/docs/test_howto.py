"""Each answer of docs/howto.md is a repository without a finding."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from documentation import ROOT, Block, blocks
from repository import Repository

_PAGE = ROOT / "docs/howto.md"
_ENVIRONMENT = "environments/prod/environment.yaml"
_BASE = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training-prod
kubernetes: {version: "1.34"}
targets: {trainjob: {version: "2.3"}}
gitops: {engine: argocd}
podSecurity: restricted
defaults: {target: trainjob}
pools:
  h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 64}
"""


def _answers() -> dict[str, list[Block]]:
    """Blocks of files, by the heading that they are under."""
    headings = [
        (number, line)
        for number, line in enumerate(_PAGE.read_text(encoding="utf-8").splitlines(), 1)
        if line.startswith("## ")
    ]
    answers: dict[str, list[Block]] = {}
    for block in blocks(_PAGE):
        if block.language == "yaml":
            heading = [line for number, line in headings if number < block.line][-1]
            answers.setdefault(heading, []).append(block)
    return answers


@pytest.mark.parametrize("question", _answers())
def test_an_answer_has_no_finding(question: str, tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.write("prod/environment.yaml", _BASE)
    for block in _answers()[question]:
        path = block.text.splitlines()[0].removeprefix("# ")
        text = block.text
        if path == _ENVIRONMENT:
            environment, more = yaml.safe_load(_BASE), yaml.safe_load(text)
            pools = {**environment["pools"], **more.pop("pools", {})}
            text = yaml.safe_dump({**environment, **more, "pools": pools})
        repository.write(path.removeprefix("environments/"), text)
    if not list(tmp_path.glob("environments/prod/jobs/*.yaml")):  # it is about environments alone
        repository.job("prod/llm")
    checked = repository.run("check", "--fail-on", "note")
    assert checked.exit_code == 0, checked.output


def test_the_policy_of_a_team_refuses_a_job_without_its_label(tmp_path: Path) -> None:
    (policy,) = (
        block.text
        for found in _answers().values()
        for block in found
        if block.text.startswith("# policies/team.yaml")
    )
    for name, labels, code in (("a", "team: nlp", 0), ("b", "team: other", 1), ("c", "a: b", 1)):
        repository = Repository(tmp_path / name)
        repository.environment("prod")
        repository.write("prod/environment.yaml", yaml.safe_dump(yaml.safe_load(_BASE)))
        repository.job("prod/llm", f"target: trainjob\nlabels: {{{labels}}}\n")
        (tmp_path / name / "team.yaml").write_text(policy, encoding="utf-8")
        assert repository.run("render").exit_code == 0
        rendered, crds = (str(tmp_path / name / p) for p in ("environments", "team.yaml"))
        done = repository.run("validate", f"{rendered}/prod/rendered", "--crds", crds)
        assert ("labels.team of the job is nlp or speech" in done.output) == bool(code), done.output
        assert done.exit_code == code
