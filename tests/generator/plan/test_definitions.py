"""`plan --crds`: what the rules of real definitions say about the changes of a merge."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import git_repository
from git_repository import git
from repository import Copied, Repository

TARGETS = 'trainjob: {version: "2.3"}, jobset: {version: "0.10"}, job: {}'
PLACE = {"file": "environments/prod/jobs/other.yaml", "line": 9}


@pytest.fixture
def cloned(tmp_path: Path, copied: Copied) -> Repository:
    """A repository whose main branch has a TrainJob and one of another kind."""
    return copied(_begin, tmp_path / "clone")


def _begin(folder: Path) -> None:
    repository = Repository(git_repository.init(folder))
    path = repository.environment("prod")
    path.write_text(path.read_text().replace("targets: {", f"targets: {{{TARGETS}, "))
    repository.job("prod/llm", "target: trainjob\n")
    repository.job("prod/other", "target: pytorchjob\n")
    git_repository.commit(repository.root)
    git(repository.root, "checkout", "--quiet", "-b", "change")
    merge(repository)


def merge(repository: Repository) -> None:
    """Render, and let main have what is on disk."""
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    git_repository.commit(repository.root)
    git(repository.root, "branch", "--force", "main", "HEAD")


def edit(repository: Repository, job: str, old: str, new: str) -> None:
    path = repository.root / f"environments/prod/jobs/{job}.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def plan(repository: Repository, *arguments: str, code: int) -> dict[str, Any]:
    done = repository.run("plan", "--against", "main", "-o", "json", *arguments)
    assert done.exit_code == code, done.output
    found: dict[str, Any] = json.loads(done.stdout)["plan"]
    return found


@pytest.fixture
def trainjobs(shared: Callable[[str], Path]) -> str:
    return str(shared("crds/trainer.kubeflow.org/trainjobs.yaml").resolve())


@pytest.fixture
def strict(shared: Callable[[str], Path], tmp_path: Path) -> str:
    """A definition of PyTorchJobs that is stricter than what is known of the kind."""
    definition = yaml.load(
        shared("crds/kubeflow.org/pytorchjobs.yaml").read_text(), Loader=yaml.CSafeLoader
    )
    root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    policy = root["properties"]["spec"]["properties"]["runPolicy"]["properties"]
    rule = {"rule": "self == oldSelf", "message": "field is immutable"}
    policy["activeDeadlineSeconds"]["x-kubernetes-validations"] = [rule]
    path = tmp_path / "strict.yaml"
    path.write_text(yaml.dump(definition, Dumper=yaml.CSafeDumper))
    return str(path)


def findings(found: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(f["rule"], f["severity"], f["place"]["line"]) for f in found["findings"]]


def test_a_broken_rule_is_an_error_at_the_line_that_breaks_it(
    cloned: Repository, strict: str
) -> None:
    edit(cloned, "other", "maxDuration: 2h", "maxDuration: 3h")
    found = plan(cloned, "--crds", strict, code=1)
    (finding,) = found["findings"]
    name = found["changes"][0]["after"]["object"]
    assert {key: finding["place"][key] for key in PLACE} == PLACE
    assert {key: finding[key] for key in ("rule", "severity", "subject", "message")} == {
        "rule": "TW015",
        "severity": "error",
        "subject": "prod/other",
        "message": f"PyTorchJob/{name}: spec.runPolicy.activeDeadlineSeconds: field is immutable",
    }
    assert "`trainwright rerun prod/other`" in finding["remedy"]
    assert found["changes"][0]["action"] == "rejected"
    assert found["verdict"] == "Cannot sync 1 job · 1 error"
    assert found["command"].endswith(f"--crds {strict}")


def test_without_crds_nothing_is_asked(cloned: Repository) -> None:
    edit(cloned, "other", "maxDuration: 2h", "maxDuration: 3h")
    assert plan(cloned, code=0)["findings"] == []


def test_what_is_held_is_asked_of_no_definition(cloned: Repository, trainjobs: str) -> None:
    edit(cloned, "llm", "maxDuration: 2h", "maxDuration: 3h")
    found = plan(cloned, "--crds", trainjobs, code=0)
    assert [change["action"] for change in found["changes"]] == ["outdated"]
    assert found["findings"] == []


@pytest.mark.parametrize("extra", ["state: active", "state: active\ngracePeriod: 60s"])
def test_of_several_lines_the_one_whose_value_is_there(
    cloned: Repository, strict: str, extra: str
) -> None:
    edit(cloned, "other", "maxDuration: 2h", f"{extra}\nmaxDuration: 3h")
    (finding,) = plan(cloned, "--crds", strict, code=1)["findings"]
    assert finding["place"]["line"] == 9 + len(extra.splitlines())


def test_what_no_line_of_a_spec_changed_is_at_the_file(cloned: Repository, trainjobs: str) -> None:
    """As when another version of the tool renders the same spec otherwise."""
    (rendered,) = cloned.root.glob("environments/prod/rendered/llm/trainjob.yaml")
    rendered.write_text(rendered.read_text().replace("numNodes: 2", "numNodes: 4"))
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    assert cloned.run("render").exit_code == 0
    assert findings(plan(cloned, "--crds", trainjobs, code=1)) == [("TW015", "error", 1)]


def test_what_is_allowed_is_allowed(cloned: Repository, trainjobs: str) -> None:
    edit(cloned, "llm", "maxDuration: 2h", "maxDuration: 2h\nstate: suspended")
    found = plan(cloned, "--crds", trainjobs, code=0)
    assert found["findings"] == []
    assert found["changes"][0]["action"] == "suspends"


def test_a_new_run_is_compared_with_nothing(cloned: Repository, trainjobs: str) -> None:
    edit(cloned, "llm", "nodes: 2", "nodes: 3")
    found = plan(cloned, "--crds", trainjobs, code=0)
    assert found["findings"] == []


def test_a_kind_without_its_definition_is_said_once(cloned: Repository, trainjobs: str) -> None:
    cloned.job("prod/second", "target: pytorchjob\n")
    merge(cloned)
    for name in ("other", "second"):
        edit(cloned, name, "maxDuration: 2h", "maxDuration: 3h")
    found = plan(cloned, "--crds", trainjobs, code=0)
    (note,) = found["findings"]
    assert (note["rule"], note["severity"]) == ("TW016", "note")
    assert note["message"].endswith("no definition of kubeflow.org/v1 was given")
    text = cloned.run("plan", "--against", "main", "--crds", trainjobs).stdout
    assert f"note[TW016]: {note['message']}" in text


def test_kinds_of_kubernetes_have_no_definition(cloned: Repository, trainjobs: str) -> None:
    cloned.job("prod/plain", "target: job\n")
    merge(cloned)
    edit(cloned, "plain", "maxDuration: 2h", "maxDuration: 3h")
    assert plan(cloned, "--crds", trainjobs, code=0)["findings"] == []


def test_a_definition_refuses_what_no_rule_of_ours_knows(
    cloned: Repository, shared: Callable[[str], Path], tmp_path: Path
) -> None:
    path = shared("crds/kubeflow.org/pytorchjobs.yaml")
    definition = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    policy = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "properties"
    ]["runPolicy"]
    rules = [{"rule": "self == oldSelf", "message": "the cluster's own policy"}]
    policy["x-kubernetes-validations"] = rules
    crd = tmp_path / "crd.yaml"
    crd.write_text(yaml.dump(definition, Dumper=yaml.CSafeDumper))
    edit(cloned, "other", "maxDuration: 2h", "maxDuration: 3h")
    assert plan(cloned, code=0)["changes"][0]["action"] == "in place"
    (change,) = (found := plan(cloned, "--crds", str(crd), code=1))["changes"]
    assert (change["action"], change["why"]) == (
        "rejected",
        "the cluster's own policy (/spec/runPolicy)",
    )
    assert findings(found) == [("TW015", "error", 9)]


def test_what_the_server_fills_in_anyway_is_not_a_change(
    cloned: Repository, shared: Callable[[str], Path]
) -> None:
    """Where git had nothing, the webhook has filled in what now stands there."""
    cloned.job("prod/set", "target: jobset\n")
    assert cloned.run("render").exit_code == 0
    rendered = cloned.root / "environments/prod/rendered/set/jobset.yaml"
    text = rendered.read_text()
    assert "publishNotReadyAddresses: true\n" in text
    rendered.write_text(re.sub(r" *publishNotReadyAddresses: true\n", "", text))
    git_repository.commit(cloned.root)
    git(cloned.root, "branch", "--force", "main", "HEAD")
    rendered.write_text(text)
    found = plan(cloned, "--crds", str(shared("crds/jobset.x-k8s.io")), code=0)
    assert (found["changes"], found["findings"]) == ([], [])


def test_every_format_shows_it(cloned: Repository, strict: str) -> None:
    edit(cloned, "other", "maxDuration: 2h", "maxDuration: 3h")
    for output in ("text", "json", "markdown"):
        done = cloned.run("plan", "--against", "main", "--crds", strict, "-o", output)
        again = cloned.run("plan", "--against", "main", "--crds", strict, "-o", output)
        assert "TW015" in done.stdout
        assert done.stdout == again.stdout


def test_a_definition_that_the_server_would_refuse_is_said(
    cloned: Repository, tmp_path: Path
) -> None:
    (tmp_path / "crd.yaml").write_text(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
        "metadata: {name: a}\nspec: {}\n"
    )
    found = plan(cloned, "--crds", str(tmp_path / "crd.yaml"), code=1)
    assert {finding["rule"] for finding in found["findings"]} == {"TW011"}
    assert cloned.run("plan", "--against", "main", "--crds", str(cloned.root)).exit_code == 2
