"""`validate --against`: rules that compare, over real CRDs and real git repositories."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

import git_repository
from git_repository import git
from trainwright.cli import main
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.manifest import Manifest
from trainwright.manifests import crd_edits, crds, webhooks
from trainwright.manifests.catalog import Catalog
from trainwright.manifests.crd_edits import Refusal

KUBERNETES = "1.33"
TRAINJOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: NAME}
spec:
  runtimeRef: {name: torch}
  trainer:
    image: registry.example.com/a:1
    command: [torchrun, a.py]
"""
JOBSET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: a}
spec:
  network: {enableDNSHostnames: true}
  successPolicy: {operator: All}
  replicatedJobs:
  - name: node
    template: {spec: {template: {spec: {containers: [{name: a, image: "a:1", command: [torchrun, a.py]}]}}}}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two TrainJobs on main, and a branch to change them on."""
    folder = git_repository.init(tmp_path / "clone")
    (folder / "deploy/.hidden").mkdir(parents=True)
    one, two = (TRAINJOB.replace("NAME", name) for name in ("one", "two"))
    (folder / "deploy/jobs.yaml").write_text(f"{one}---\n{two}")
    (folder / "deploy/.hidden/a.yaml").write_text(one.replace("a:1", "a:0"))
    (folder / "deploy/notes.txt").write_text(one.replace("a:1", "a:0"))
    git_repository.commit(folder)
    git(folder, "checkout", "--quiet", "-b", "change")
    monkeypatch.chdir(folder)
    return folder


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.fixture
def trainjobs(shared: Callable[[str], Path]) -> Path:
    return shared("crds/trainer.kubeflow.org/trainjobs.yaml").resolve()


def check(crds: Path, *arguments: str, code: int | None = None) -> list[dict[str, Any]]:
    """The findings of TW015 and TW016."""
    done = invoke("--crds", str(crds), "--against", "main", *arguments, "-o", "json")
    assert done.exit_code in ((0, 1) if code is None else (code,)), done.output
    results = json.loads(done.stdout)["report"]["results"]
    return [result for result in results if result["rule"] in {"TW015", "TW016"}]


def invoke(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["validate", *arguments], input=stdin)


def said(results: list[dict[str, Any]]) -> list[tuple[str, str, int, str]]:
    return [(r["rule"], r["severity"], r["place"]["line"], r["message"]) for r in results]


IMMUTABLE = "field is immutable (compared with main)"


@pytest.mark.parametrize("path", [".", "deploy", "deploy/jobs.yaml"])
def test_a_field_that_may_not_change_at_its_line(here: Path, trainjobs: Path, path: str) -> None:
    assert check(trainjobs, path, code=0) == []
    text = (here / "deploy/jobs.yaml").read_text()
    (here / "deploy/jobs.yaml").write_text("# moved down\n" + text.replace("a:1", "a:2"))
    found = check(trainjobs, path, code=1)
    assert said(found) == [("TW015", "error", 8, IMMUTABLE), ("TW015", "error", 17, IMMUTABLE)]
    assert found[0]["remedy"] == "Leave it as it was, or make another object under another name."


def test_staged_committed_or_neither(here: Path, trainjobs: Path) -> None:
    edit(here / "deploy/jobs.yaml", "a:1", "a:2")
    plain = check(trainjobs, "deploy")
    git(here, "add", "--all")
    staged = check(trainjobs, "deploy")
    git_repository.commit(here)
    assert plain == staged == check(trainjobs, "deploy")
    assert len(plain) == 1


def test_what_others_merged_meanwhile_is_not_undone(here: Path, trainjobs: Path) -> None:
    git(here, "checkout", "--quiet", "main")
    edit(here / "deploy/jobs.yaml", "a:1", "a:2")
    git_repository.commit(here)
    git(here, "checkout", "--quiet", "change")
    assert check(trainjobs, "deploy") == []


def test_only_objects_that_are_on_both_sides(here: Path, trainjobs: Path) -> None:
    edit(here / "deploy/jobs.yaml", "name: one", "name: three")
    edit(here / "deploy/jobs.yaml", "a:1", "a:2")
    (here / "deploy/new.yaml").write_text(TRAINJOB.replace("NAME", "four"))
    assert check(trainjobs, "deploy") == []


def test_an_object_that_moves_to_another_file_is_the_same(here: Path, trainjobs: Path) -> None:
    one, two = (here / "deploy/jobs.yaml").read_text().split("---\n")
    (here / "deploy/jobs.yaml").write_text(two)
    (here / "deploy/a.yaml").write_text(one.replace("a:1", "a:2"))
    assert [r[2] for r in said(check(trainjobs, "deploy"))] == [7]
    # As one of two: which of them it was is unknown.
    (here / "deploy/b.yaml").write_text(one.replace("a:1", "a:3"))
    assert check(trainjobs, "deploy") == []


def test_the_same_name_in_the_folders_of_two_environments(here: Path, trainjobs: Path) -> None:
    for folder in ("dev", "prod"):
        (here / folder).mkdir()
        text = TRAINJOB.replace("a:1", f"{folder}:1").replace("NAME", "one")
        (here / folder / "a.yaml").write_text(text)
    git_repository.commit(here)
    git(here, "branch", "--force", "main", "HEAD")
    edit(here / "prod/a.yaml", "prod:1", "prod:2")
    found = check(trainjobs, "dev", "prod")
    assert [result["place"]["file"] for result in found] == ["prod/a.yaml"]


def test_suspending_is_allowed_and_comments_are_nothing(here: Path, trainjobs: Path) -> None:
    edit(here / "deploy/jobs.yaml", "spec:\n", "spec: # new\n  suspend: true\n")
    assert check(trainjobs, "deploy") == []


def test_without_its_definition_a_kind_is_said_once(here: Path, trainjobs: Path) -> None:
    jobset = here / "deploy/jobset.yaml"
    jobset.write_text(f"{JOBSET}---\n{JOBSET.replace('{name: a}', '{name: b}')}")
    git_repository.commit(here)
    git(here, "branch", "--force", "main", "HEAD")
    jobset.write_text(jobset.read_text().replace("operator: All", "operator: Any"))
    note = (
        "JobSet: not evaluated: the rules that compare with the object before: no definition of "
        "jobset.x-k8s.io/v1alpha2 was given"
    )
    assert said(check(trainjobs, "deploy")) == [("TW016", "note", 1, note)]


def test_another_version_of_a_kind_is_not_compared_and_said(
    here: Path, trainjobs: Path, tmp_path: Path
) -> None:
    definition = yaml.load(trainjobs.read_text(), Loader=yaml.CSafeLoader)
    definition["spec"]["versions"][0]["name"] = "v1"
    (tmp_path / "crd.yaml").write_text(yaml.dump(definition, Dumper=yaml.CSafeDumper))
    edit(here / "deploy/jobs.yaml", "v1alpha1", "v1")
    (found,) = said(check(tmp_path / "crd.yaml", "deploy"))
    assert found[0] == "TW016"
    assert found[3].endswith(
        "it moves from trainer.kubeflow.org/v1alpha1 to trainer.kubeflow.org/v1, and only the "
        "cluster can convert it"
    )


def _with_definition(
    here: Path, folder: Path, spec: dict[str, Any], whole: dict[str, Any], before: str
) -> None:
    """An object whose one field changes, and a definition with more in its schemas."""
    fields = {"type": "object", "properties": {"a": {"type": "string"}}, **spec}
    schema = {"type": "object", "properties": {"spec": fields}, **whole}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "xs.x.io"},
        "spec": {
            "group": "x.io",
            "names": {"kind": "X", "plural": "xs"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
    (folder / "crd.yaml").write_text(yaml.dump(definition, Dumper=yaml.CSafeDumper))
    body = "apiVersion: x.io/v1\nkind: X\nmetadata: {name: a}\nspec: {a: VALUE}\n"
    (here / "x.yaml").write_text(body.replace("VALUE", before))
    git_repository.commit(here)
    git(here, "branch", "--force", "main", "HEAD")
    (here / "x.yaml").write_text(body.replace("VALUE", "other"))


def test_a_rule_that_cannot_be_evaluated_is_a_note(here: Path, tmp_path: Path) -> None:
    rule = {"rule": "oldSelf.a.indexOf([self.a]) == 0"}
    _with_definition(here, tmp_path, {"x-kubernetes-validations": [rule]}, {}, "b")
    (found,) = said(check(tmp_path / "crd.yaml", ".", code=0))
    assert found[:2] == ("TW016", "note")
    assert "oldSelf.a.indexOf([self.a]) == 0" in found[3]


def test_a_rule_of_the_whole_object_and_a_message_with_a_credential(
    here: Path, tmp_path: Path
) -> None:
    token = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
    rule = {"rule": "self.spec.a == oldSelf.spec.a", "messageExpression": "'was ' + oldSelf.spec.a"}
    _with_definition(here, tmp_path, {}, {"x-kubernetes-validations": [rule]}, token)
    (found,) = check(tmp_path / "crd.yaml", ".", code=1)
    assert (found["place"]["line"], found["message"]) == (1, "was *** (compared with main)")


def test_what_was_broken_before_was_never_there(here: Path, trainjobs: Path) -> None:
    broken = here / "deploy/broken.yaml"
    broken.write_text(TRAINJOB.replace("image:", "image: [").replace("NAME", "x"))
    wrong = here / "deploy/wrong.yaml"
    good = TRAINJOB.replace("NAME", "y")
    wrong.write_text(good.replace("command: [torchrun, a.py]", "command: 3"))
    git_repository.commit(here)
    git(here, "branch", "--force", "main", "HEAD")
    broken.write_text(TRAINJOB.replace("NAME", "x"))
    wrong.write_text(good)
    assert check(trainjobs, "deploy") == []


def test_what_cannot_be_compared_is_refused(here: Path, trainjobs: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_text(TRAINJOB)
    crds = ("--crds", str(trainjobs))
    for arguments, why in (
        (("-", *crds, "--against", "main"), "--against needs files"),
        (("--against", "main"), "Missing argument 'PATH...'"),
        ((".", *crds, "--against", "nowhere"), 'there is no commit "nowhere" here'),
        ((str(outside), *crds, "--against", "main"), "is not in a git repository"),
    ):
        done = invoke(*arguments)
        assert done.exit_code == 2
        assert why in done.stderr


def test_the_command_to_reproduce_it_names_the_revision(here: Path, trainjobs: Path) -> None:
    done = invoke(".", "--crds", str(trainjobs), "--against", "main", "-o", "markdown")  # fmt: skip
    assert "--against main" in done.stdout


# --- without definitions --------------------------------------------------------------------------


PYTORCHJOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a, labels: {team: x}}
spec:
  runPolicy: {backoffLimit: 1, cleanPodPolicy: Running}
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: {spec: {containers: [{name: pytorch, image: "a:1"}]}}
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: pytorch, image: "a:1"}]}}
"""


def _becomes(here: Path, before: str, old: str, new: str, *more: str) -> list[dict[str, Any]]:
    """What is said of a change on the branch, that was not said of the object before it."""
    (here / "a.yaml").write_text(before)
    git_repository.commit(here)
    git(here, "branch", "--force", "main", "HEAD")
    edit(here / "a.yaml", old, new)
    results = []
    for options in ((), ("--against", "main")):
        done = invoke("a.yaml", *options, *more, "-o", "json")
        results.append(json.loads(done.stdout)["report"]["results"])
    plain, against = results
    return [found for found in against if found not in plain]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("replicas: 2", "replicas: 3", 11),
        ('"a:1"}]}}\n    Worker', '"a:2"}]}}\n    Worker', 9),
    ],
)
def test_what_becomes_of_a_live_object(here: Path, old: str, new: str, line: int) -> None:
    (found,) = _becomes(here, PYTORCHJOB, old, new)
    assert (found["rule"], found["place"]["line"]) == ("TW122", line), found
    assert "(compared with main)" in found["message"]


def test_what_a_live_object_takes_in_its_stride_is_not_mentioned(here: Path) -> None:
    assert _becomes(here, PYTORCHJOB, "team: x", "team: y") == []


def test_a_refusal_is_told_once(here: Path, trainjobs: Path) -> None:
    """The definition and our own rule know that a TrainJob's trainer may not change."""
    before = TRAINJOB.replace("NAME", "b")
    found = _becomes(here, before, "a:1", "a:2", "--crds", str(trainjobs))
    assert [f["rule"] for f in found] == ["TW015"]
    assert [f["rule"] for f in _becomes(here, before, "a:1", "a:2")] == ["TW504"]


# --- what a webhook fills in ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "sure"),
    [
        # The webhook fills in publishNotReadyAddresses: true, and nothing has changed.
        ({}, {"publishNotReadyAddresses": True}, False),
        ({"publishNotReadyAddresses": True}, {}, False),
        # Whatever it fills in, the subdomain is another one.
        ({"subdomain": "a"}, {"subdomain": "b", "publishNotReadyAddresses": True}, True),
        ({"publishNotReadyAddresses": True}, {"publishNotReadyAddresses": False}, True),
    ],
)
def test_no_finding_on_a_field_that_a_webhook_fills_in_is_certain(
    shared: Callable[[str], Path], old: dict[str, Any], new: dict[str, Any], sure: bool
) -> None:
    known, _ = crds.load(shared("crds/jobset.x-k8s.io"), KUBERNETES)
    before, after = (yaml.load(JOBSET, Loader=yaml.CSafeLoader) for _ in range(2))
    before["spec"]["network"], after["spec"]["network"] = old, new
    (found,) = crd_edits.evaluate(
        Catalog(KUBERNETES, known), Manifest(body=before), Manifest(body=after)
    )
    assert found == Refusal("/spec/network", "Value is immutable", sure)


def test_bodies_complete_each_other_with_what_a_webhook_fills_in_alone() -> None:
    body = yaml.load(JOBSET, Loader=yaml.CSafeLoader)
    like = copy.deepcopy(body)
    like["spec"] |= {
        "suspend": True,
        "managedBy": "x",
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
    }
    like["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    like["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"] = "Indexed"
    done = webhooks.completed(GroupKind.of("", "JobSet"), body, like)
    like["spec"].pop("managedBy")
    like["metadata"].pop("labels")  # which no webhook makes: it adds one to those that are there
    assert done == like
    assert webhooks.completed(GroupKind.of("", "PyTorchJob"), body, like) == body
