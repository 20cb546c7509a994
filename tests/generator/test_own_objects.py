"""objects/: what an environment needs beside its runs, checked, rendered, planned and listed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml

import git_repository
from documentation import ROOT, blocks
from git_repository import git
from repository import ENVIRONMENT, EVERY_TARGET, Repository, launcher
from trainwright.datatypes.listing import article
from trainwright.kinds import TARGETS

QUOTA = """\
# What the team may hold.
apiVersion: v1
kind: ResourceQuota
metadata: {name: team, namespace: training}
spec:
  hard: {requests.nvidia.com/gpu: "8"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: training}
data: {a: "1"}
"""
HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: training}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(git_repository.init(tmp_path / "repository"))
    repository.environment("dev")
    repository.job("dev/mnist")
    return repository


def _ok(repository: Repository, *arguments: str) -> str:
    done = repository.run(*arguments)
    assert done.exit_code == 0, done.output
    return done.output


def _listed(repository: Repository) -> list[str]:
    path = repository.root / "environments/dev/rendered/kustomization.yaml"
    resources: list[str] = yaml.safe_load(path.read_text())["resources"]
    return resources


def _findings(repository: Repository) -> list[tuple[str, int, str]]:
    done = repository.run("check", "--no-cache", "-o", "json")
    results = json.loads(done.output)["report"]["results"]
    return [(f["rule"], f["place"]["line"], f["message"]) for f in results]


# --- rendered -----------------------------------------------------------------------------------


def test_what_is_applied_is_a_copy_that_the_list_names(repository: Repository) -> None:
    repository.write("dev/objects/quota.yaml", QUOTA)
    _ok(repository, "render", "--no-cache")
    assert "_objects/quota.yaml" in _listed(repository)
    tree = repository.tree()
    copy = tree["dev/rendered/_objects/quota.yaml"]
    assert copy.endswith(QUOTA)
    assert copy.startswith("# Copied by Trainwright from environments/dev/objects/quota.yaml.")
    _ok(repository, "render", "--check", "--no-cache")


def test_objects_begin_and_end_no_run(repository: Repository) -> None:
    _ok(repository, "render", "--no-cache")
    before = repository.tree()
    repository.write("dev/objects/quota.yaml", QUOTA)
    _ok(repository, "render", "--no-cache")
    after = repository.tree()
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    assert changed == {"dev/rendered/_objects/quota.yaml", "dev/rendered/kustomization.yaml"}
    (repository.root / "environments/dev/objects/quota.yaml").unlink()
    _ok(repository, "render", "--no-cache")
    assert repository.tree() == before


def test_a_stale_copy_fails_the_check(repository: Repository) -> None:
    repository.write("dev/objects/quota.yaml", QUOTA)
    _ok(repository, "render", "--no-cache")
    repository.write("dev/objects/quota.yaml", QUOTA.replace('"8"', '"16"'))
    assert repository.run("render", "--check", "--no-cache").exit_code == 1
    _ok(repository, "render", "--no-cache")
    (repository.root / "environments/dev/rendered/_objects/quota.yaml").write_text("{}\n")
    assert repository.run("render", "--check", "--no-cache").exit_code == 1


def test_rendering_one_job_leaves_the_objects_as_they_are(repository: Repository) -> None:
    repository.write("dev/objects/quota.yaml", QUOTA)
    repository.job("dev/other")
    _ok(repository, "render", "--no-cache")
    repository.write("dev/objects/quota.yaml", QUOTA.replace('"8"', '"16"'))
    repository.write("dev/objects/more.yaml", HEAD.replace("settings", "more"))
    repository.job("dev/mnist", "env: {A: b}\n")
    before = repository.tree()["dev/rendered/_objects/quota.yaml"]
    _ok(repository, "render", "--no-cache", "dev/mnist")
    assert repository.tree()["dev/rendered/_objects/quota.yaml"] == before
    assert [path for path in _listed(repository) if "_objects" in path] == ["_objects/quota.yaml"]


# --- checked ------------------------------------------------------------------------------------

WRONG = {
    "a Secret": ("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", "TW055", 2, "read by everybody"),
    "a run": ("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n", "TW055", 2, "a Job is a run"),
    "another namespace": (HEAD.replace("training", "other"), "TW055", 3, '"other"'),
    "no namespace": (HEAD.replace(", namespace: training", ""), "TW055", 3, "is not set"),
    "no name": (HEAD.replace("name: settings, ", ""), "TW055", 3, "what the object is called"),
    "an object of the cluster": (
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: a}\n", "TW055", 2, "whole cluster",
    ),
    "a list": ("apiVersion: v1\nkind: List\nitems: []\n", "TW055", 2, "List"),
    "a file for tools": (
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", "TW055", 2, "Kustomization",
    ),
    "an unknown field": (HEAD + "dat: {a: b}\n", "TW011", 4, "dat"),
    "another type": (HEAD + "data: {a: 1}\n", "TW011", 4, "string"),
    "a word of YAML 1.1": (HEAD + "data: {a: yes}\n", "TW011", 4, "string"),
    "a kind nobody serves": (HEAD.replace("ConfigMap", "ConfigMaps"), "TW011", 1, "ConfigMaps"),
    "a name that is refused": (HEAD.replace("settings", "Settings"), "TW516", 3, "Settings"),
    "an object that kustomize leaves out": (
        HEAD.replace("name: settings", 'annotations: {config.kubernetes.io/local-config: "true"}, name: settings'),
        "TW055", 3, "kustomize leaves out",
    ),
    "a credential": (HEAD + "data: {a: AKIAIOSFODNN7EXAMPLQ}\n", "TW710", 4, "holds"),
    "one object twice": (HEAD + "---\n" + HEAD, "TW053", 7, "twice"),
    "no object": ("- a\n", "TW005", 1, "must say"),
    "no YAML": ("a: [\n", "TW001", 2, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_at_its_line(repository: Repository, name: str) -> None:
    text, rule, line, message = WRONG[name]
    repository.write("dev/objects/a.yaml", text)
    found = _findings(repository)
    assert any((r, at) == (rule, line) and message in m for r, at, m in found), found
    assert repository.run("render", "--no-cache").exit_code == 1


# Kubernetes' own, as `kubectl api-resources --namespaced=false` lists them.
_OF_THE_CLUSTER = """
v1/Namespace v1/Node v1/PersistentVolume
admissionregistration.k8s.io/v1/MutatingWebhookConfiguration
admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration
admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy
admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding
admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy
admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicyBinding
apiextensions.k8s.io/v1/CustomResourceDefinition apiregistration.k8s.io/v1/APIService
certificates.k8s.io/v1/CertificateSigningRequest certificates.k8s.io/v1beta1/ClusterTrustBundle
flowcontrol.apiserver.k8s.io/v1/FlowSchema flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration
internal.apiserver.k8s.io/v1alpha1/StorageVersion networking.k8s.io/v1/IngressClass
networking.k8s.io/v1/IPAddress networking.k8s.io/v1/ServiceCIDR node.k8s.io/v1/RuntimeClass
rbac.authorization.k8s.io/v1/ClusterRole rbac.authorization.k8s.io/v1/ClusterRoleBinding
resource.k8s.io/v1/DeviceClass resource.k8s.io/v1/ResourceSlice
resource.k8s.io/v1alpha3/DeviceTaintRule scheduling.k8s.io/v1/PriorityClass
storage.k8s.io/v1/CSIDriver storage.k8s.io/v1/CSINode storage.k8s.io/v1/StorageClass
storage.k8s.io/v1/VolumeAttachment storage.k8s.io/v1/VolumeAttributesClass
storagemigration.k8s.io/v1alpha1/StorageVersionMigration
""".split()
_OF_ENGINES = """
kustomize.toolkit.fluxcd.io/v1/Kustomization helm.toolkit.fluxcd.io/v2/HelmRelease
fluxcd.controlplane.io/v1/ResourceSet fluxcd.controlplane.io/v1/FluxInstance
argoproj.io/v1alpha1/Application argoproj.io/v1alpha1/ApplicationSet
argoproj.io/v1alpha1/AppProject helm.cattle.io/v1/HelmChart helm.cattle.io/v1/HelmChartConfig
""".split()


def _object(kind: str, rest: str = "") -> str:
    version, _, name = kind.rpartition("/")
    # A server takes no notice of the namespace of what has none.
    metadata = "metadata: {name: a, namespace: training}\n"
    return f"apiVersion: {version}\nkind: {name}\n{metadata}{rest}"


def _misplaced(repository: Repository, text: str) -> list[str]:
    repository.write("dev/objects/a.yaml", text)
    return [message for rule, _, message in _findings(repository) if rule == "TW055"]


def test_what_reaches_beyond_its_namespace_is_refused(repository: Repository) -> None:
    of_cluster = _misplaced(repository, "---\n".join(map(_object, _OF_THE_CLUSTER)))
    kinds = [kind.rpartition("/")[2] for kind in _OF_THE_CLUSTER]
    belongs = "belongs to the whole cluster, and not to one environment"
    assert sorted(of_cluster) == sorted(f"{article(kind)} {belongs}" for kind in kinds)
    of_engines = _misplaced(repository, "---\n".join(map(_object, _OF_ENGINES)))
    kinds = [kind.rpartition("/")[2] for kind in _OF_ENGINES]
    applies = "has an engine apply more, into any namespace"
    assert sorted(of_engines) == sorted(f"{article(kind)} {applies}" for kind in kinds)


@pytest.mark.parametrize("kind", ["example.com/v1/ThingList", "example.com/v1/Thing"])
def test_what_engines_take_for_a_list_is_refused(kind: str, repository: Repository) -> None:
    """They apply the items of anything that has some, whatever it is called."""
    role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}}"
    name = kind.rpartition("/")[2]
    (found,) = _misplaced(repository, _object(kind, f"items: [{role}]\n"))
    assert found == f"an engine takes a {name} for the list of its items"
    assert not _misplaced(repository, _object("example.com/v1/Thing", "items: {}\n"))


@pytest.mark.parametrize(
    "kind",
    ["argoproj.io/v1alpha1/Workflow", "notification.toolkit.fluxcd.io/v1beta3/Alert"],
)
def test_what_stays_in_its_namespace_is_fine(kind: str, repository: Repository) -> None:
    assert not _misplaced(repository, _object(kind))


def test_a_secret_is_in_no_output(repository: Repository) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringdata: {a: hunter2hunter2}\n"
    repository.write("dev/objects/a.yaml", secret)
    for command in ("check", "render", "list"):
        arguments = (command, "own-objects") if command == "list" else (command, "--no-cache")
        assert "hunter2" not in repository.run(*arguments).output


def test_what_a_run_renders_is_not_rendered_twice(repository: Repository) -> None:
    repository.job("dev/mnist", "createServiceAccount: true\nserviceAccount: trainer\n")
    account = (
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: trainer, namespace: training}\n"
    )
    repository.write("dev/objects/a.yaml", account)
    assert [m for r, _, m in _findings(repository) if r == "TW053"] == [
        "ServiceAccount/trainer is rendered by mnist, too"
    ]


@pytest.mark.parametrize(
    "file", ["values.yaml", "A.yaml", "a.yml", "a.json", "folder/a.yaml", "a b.yaml"]
)
def test_other_files_are_out_of_place(repository: Repository, file: str) -> None:
    repository.write(f"dev/objects/{file}", HEAD)
    assert [rule for rule, _, _ in _findings(repository)] == ["TW008"]


def test_a_folder_that_was_meant_is_named(repository: Repository) -> None:
    repository.write("dev/projects/a.yaml", HEAD)
    assert _findings(repository) == []
    repository.write("dev/object/a.yaml", HEAD)
    assert [m for _, _, m in _findings(repository)] == ["object is not read: did you mean objects?"]


def test_a_link_is_not_followed(repository: Repository, tmp_path: Path) -> None:
    outside = tmp_path / "outside.yaml"
    outside.write_text(HEAD)
    folder = repository.root / "environments/dev/objects"
    folder.mkdir()
    (folder / "a.yaml").symlink_to(outside)
    assert "symbolic link" in _findings(repository)[0][2]
    (folder / "a.yaml").unlink()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert "symbolic link" in _findings(repository)[0][2]


def test_an_edit_is_seen_by_a_check_that_remembers(repository: Repository) -> None:
    repository.write("dev/objects/a.yaml", HEAD)
    assert repository.run("check").exit_code == 0
    repository.write("dev/objects/a.yaml", HEAD + "dat: {}\n")
    assert repository.run("check").exit_code == 1


# --- planned, published and listed ----------------------------------------------------------------


def test_a_plan_names_each_object_and_its_line(repository: Repository) -> None:
    repository.write("dev/objects/quota.yaml", QUOTA)
    repository.write("dev/objects/gone.yaml", HEAD.replace("settings", "gone"))
    _ok(repository, "render", "--no-cache")
    git_repository.commit(repository.root, "Before")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    repository.write("dev/objects/quota.yaml", QUOTA.replace('"8"', '"16"'))
    repository.write("dev/objects/new.yaml", HEAD.replace("settings", "new"))
    (repository.root / "environments/dev/objects/gone.yaml").unlink()
    message = _ok(repository, "plan", "--against", "main")
    assert "Objects: 1 added, 1 changed, 1 left in the cluster" in message
    assert (
        "dev  ResourceQuota/team is changed  (environments/dev/objects/quota.yaml:4:18)" in message
    )
    assert "ConfigMap/new is added" in message
    deletion = "kubectl --namespace training delete configmap/gone"
    assert f"ConfigMap/gone leaves git, and stays in the cluster until `{deletion}`" in message
    assert "ConfigMap/settings" not in message
    found = json.loads(_ok(repository, "plan", "--against", "main", "-o", "json"))["plan"]
    assert found["changes"] == []
    assert [(one["object"], one["action"]) for one in found["objects"]] == [
        ("ConfigMap/gone", "removed"), ("ConfigMap/new", "added"), ("ResourceQuota/team", "changed"),
    ]  # fmt: skip
    assert "ResourceQuota/team is changed" in _ok(
        repository, "plan", "--against", "main", "-o", "markdown"
    )
    assert "ResourceQuota/team is changed" in _ok(
        repository, "plan", "--against", "main", "-o", "html"
    )


@pytest.mark.parametrize(
    ("gitops", "others", "goes"),
    [
        ("{prune: immediate}", True, True),
        ("{engine: flux, prune: immediate}", True, True),
        # With the last one its folder goes, of which an engine then applies nothing.
        ("{prune: immediate}", False, False),
        ("{prune: immediate, applications: environment}", False, True),
        ("{prune: confirm}", True, False),
        ("{engine: none}", True, False),
    ],
)
def test_an_object_that_leaves_git_is_deleted_or_stays(
    gitops: str, others: bool, goes: bool, repository: Repository
) -> None:
    repository.environment("dev", f"gitops: {gitops}\n")
    repository.write("dev/objects/gone.yaml", HEAD.replace("settings", "gone"))
    if others:
        repository.write("dev/objects/quota.yaml", QUOTA)
    _ok(repository, "render", "--no-cache")
    git_repository.commit(repository.root, "Before")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    (repository.root / "environments/dev/objects/gone.yaml").unlink()
    for output in ("text", "markdown", "html"):
        text = _ok(repository, "plan", "--against", "main", "-o", output)
        assert ("ConfigMap/gone is removed" in text) == goes, output
        assert ("stays in the cluster until" in text) != goes, output
        assert ("1 left in the cluster" in text) != goes, output


def test_a_plan_shows_how_an_object_changes(repository: Repository) -> None:
    repository.write("dev/objects/quota.yaml", QUOTA)
    repository.write("dev/objects/gone.yaml", HEAD.replace("settings", "gone"))
    _ok(repository, "render", "--no-cache")
    git_repository.commit(repository.root, "Before")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    repository.write("dev/objects/quota.yaml", QUOTA.replace('"8"', '"16"'))
    repository.write("dev/objects/new.yaml", f"{HEAD}data: {{api_token: hunter2hunter2}}\n")
    path = repository.root / "environments/dev/objects/new.yaml"
    path.write_text(path.read_text().replace("settings", "new"))
    (repository.root / "environments/dev/objects/gone.yaml").unlink()
    plan = ("plan", "--against", "main")
    shown = _ok(repository, *plan)
    assert '"8" → "16"' in shown
    assert "+++ b/" not in shown
    text = _ok(repository, *plan, "--files")
    assert "--- a/environments/dev/objects/quota.yaml\n+++ b/environments/dev/objects/quota" in text
    comment, page = (_ok(repository, *plan, "-o", output) for output in ("markdown", "html"))
    assert "<summary>dev: ResourceQuota/team is changed</summary>" in comment
    assert "<summary>dev: ConfigMap/new is added</summary>" in comment
    assert "<summary>dev: ConfigMap/gone leaves git</summary>" in comment
    for shown in (text, comment, unescape(page).replace("<br>", "\n")):
        old, new = (
            next(
                i
                for i, line in enumerate(shown.splitlines())
                if line[:1] == mark and number in line
            )
            for mark, number in (("-", '"8"'), ("+", '"16"'))
        )
        assert new == old + 1
        assert "hunter2" not in shown


def test_a_plan_is_blocked_by_a_wrong_object(repository: Repository) -> None:
    _ok(repository, "render", "--no-cache")
    git_repository.commit(repository.root, "Before")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    repository.write("dev/objects/a.yaml", HEAD + "dat: {}\n")
    done = repository.run("plan", "--against", "main")
    assert "TW011" in done.output
    assert done.exit_code == 1


def test_objects_are_published_and_taken_back(repository: Repository) -> None:
    repository.write("dev/objects/quota.yaml", QUOTA)
    git_repository.commit(repository.root, "Specs")
    for path in ("", "--path=dev"):
        branch = "top" if not path else "folder"
        options = ["--branch", branch, path or "--path=."]
        _ok(repository, "gitops", "publish", "dev", *options)
        place = "" if not path else "dev/"
        assert QUOTA in git(repository.root, "show", f"{branch}:{place}_objects/quota.yaml") + "\n"
        tip = git(repository.root, "rev-parse", branch)
        _ok(repository, "gitops", "publish", "dev", *options)
        assert (
            git(repository.root, "rev-parse", branch) == tip
        )  # nothing changes, and nothing is an edit
    (repository.root / "environments/dev/objects/quota.yaml").unlink()
    git_repository.commit(repository.root, "Gone")
    _ok(repository, "gitops", "publish", "dev", "--branch", "top", "--path=.")
    assert "_objects" not in git(repository.root, "ls-tree", "-r", "--name-only", "top")


def test_objects_are_listed(repository: Repository) -> None:
    repository.write("dev/objects/quota.yaml", QUOTA)
    message = _ok(repository, "list", "own-objects")
    assert "ResourceQuota/team" in message
    assert "environments/dev/objects/quota.yaml:4" in message


# --- a policy for the network --------------------------------------------------------------------


def _policy() -> str:
    """The one of docs/ports.md."""
    (block,) = (b for b in blocks(ROOT / "docs/ports.md") if "kind: NetworkPolicy" in b.text)
    return block.text


def test_the_policy_of_the_page_of_ports_is_applied_with_the_runs(repository: Repository) -> None:
    repository.write("dev/objects/trainings.yaml", _policy())
    assert _findings(repository) == []
    _ok(repository, "render")
    assert "_objects/trainings.yaml" in _listed(repository)
    repository.write("dev/objects/trainings.yaml", _policy().replace("podSelector:", "pods:"))
    assert _findings(repository)


@pytest.mark.parametrize(
    "target", [name for name, target in TARGETS.items() if not target.envelope]
)
def test_the_policy_of_the_page_of_ports_selects_the_pods_of_every_target(
    target: str, tmp_path: Path
) -> None:
    repository = Repository(tmp_path)
    repository.write("prod/environment.yaml", ENVIRONMENT.partition("targets:")[0] + EVERY_TARGET)
    repository.job("prod/llm", f"target: {target}\n{launcher(target)}")
    _ok(repository, "render")
    spec = yaml.safe_load(_policy())["spec"]
    wanted = spec["podSelector"]["matchLabels"]
    assert spec["ingress"] == [{"from": [{"podSelector": {"matchLabels": wanted}}]}]
    found = [
        labels
        for name, text in repository.tree().items()
        if not name.endswith(("kustomization.yaml", "values.yaml", "run.lock"))
        for document in yaml.safe_load_all(text)
        for labels in _labels_of_pods(document)
    ]
    assert found
    assert all(wanted.items() <= labels.items() for labels in found)


def _labels_of_pods(data: Any) -> Iterator[dict[str, str]]:
    if isinstance(data, dict):
        if "containers" in data.get("spec", {}):
            yield data.get("metadata", {}).get("labels", {})
        for value in data.values():
            yield from _labels_of_pods(value)
    elif isinstance(data, list):
        for one in data:
            yield from _labels_of_pods(one)


RBAC = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tuner, namespace: training}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get, list], resourceNames: [hf-token]}
- {apiGroups: ["", apps], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tuner, namespace: training}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects:
- {kind: ServiceAccount, name: default, namespace: training}
- {kind: Group, name: "system:authenticated", apiGroup: rbac.authorization.k8s.io}
"""
BOUND = "binds ClusterRole/view to ServiceAccount/training/default, Group/system:authenticated"
ALLOWED = "allows get, list of secrets named hf-token; * of * of core, apps"


def test_a_plan_says_what_a_role_allows_and_to_whom_a_binding_gives_it(
    repository: Repository,
) -> None:
    _ok(repository, "render", "--no-cache")
    git_repository.commit(repository.root, "Before")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    repository.write("dev/objects/rbac.yaml", RBAC)
    text = _ok(repository, "plan", "--against", "main")
    assert f"dev  RoleBinding/tuner is added: {BOUND}  (" in text
    assert f"dev  Role/tuner is added: {ALLOWED}  (" in text
    assert f"RoleBinding/tuner is added: {BOUND}" in _ok(
        repository, "plan", "--against", "main", "-o", "html"
    )
    markdown = _ok(repository, "plan", "--against", "main", "-o", "markdown")
    assert "RoleBinding/tuner is added: binds ClusterRole/view to" in markdown.replace("\\", "")
    found = json.loads(_ok(repository, "plan", "--against", "main", "-o", "json"))["plan"]
    assert [one["grants"] for one in found["objects"]] == [ALLOWED, BOUND]


def test_a_plan_says_what_a_changed_binding_gave_before(repository: Repository) -> None:
    repository.write("dev/objects/rbac.yaml", RBAC)
    _ok(repository, "render", "--no-cache")
    git_repository.commit(repository.root, "Before")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    labelled = RBAC.replace("{name: tuner,", "{name: tuner, labels: {a: b},")
    repository.write("dev/objects/rbac.yaml", labelled.replace("name: view", "name: cluster-admin"))
    done = repository.run("plan", "--against", "main")
    assert done.exit_code == 1  # another roleRef is refused
    text = done.stdout
    admin = BOUND.replace("view", "cluster-admin")
    assert f"RoleBinding/tuner is changed: {admin}; before, it {BOUND}  (" in text
    assert f"Role/tuner is changed: {ALLOWED}  (" in text


def test_a_file_that_nothing_renders_names_its_objects(repository: Repository) -> None:
    _ok(repository, "render", "--no-cache")
    git_repository.commit(repository.root, "Before")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    repository.write("dev/rendered/rbac.yaml", RBAC)
    repository.write("dev/rendered/mnist/more.yaml", HEAD)
    repository.write("dev/rendered/notes.txt", "nothing: [")
    done = repository.run("plan", "--against", "main").output
    both = f"Role/tuner ({ALLOWED}), RoleBinding/tuner ({BOUND})"
    assert f"rbac.yaml is rendered by nothing: {both}  (" in done
    assert "more.yaml is rendered by nothing: ConfigMap/settings  (" in done
    assert "notes.txt is rendered by nothing  (" in done
