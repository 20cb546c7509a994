"""What a plan says of the objects of a GitOps engine, which a merge alone does not apply."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import git_repository
from git_repository import git
from opened_page import Visit
from repository import Copied, Repository
from trainwright.api import wired
from trainwright.files.tree import Folder
from trainwright.runs.wiring_files import WiringFiles
from trainwright.runs.workspace import Workspace

GITOPS = (
    "gitops: {engine: ENGINE, prune: PRUNE, repository: "
    "{url: https://git.example.com/ml.git, revision: main}}\n"
)
POOLS = "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 64}}\n"
JOB = "pool: h100\nstate: active\n"


def _environment(repository: Repository, engine: str, prune: str) -> None:
    gitops = GITOPS.replace("ENGINE", engine).replace("PRUNE", prune)
    repository.environment("lab", POOLS + gitops)


def _job(repository: Repository, name: str) -> None:
    path = repository.job(f"lab/{name}", JOB)
    path.write_text(path.read_text().replace('{cpu: "1", memory: 1Gi}', "{gpu: 4}"))


def _wire(repository: Repository) -> None:
    assert repository.run("gitops", "wire", "--out", "wiring").exit_code == 0


def _begun(folder: Path, engine: str = "flux", prune: str = "immediate") -> Repository:
    repository = Repository(git_repository.init(folder))
    _environment(repository, engine, prune)
    for name in ("probe", "train"):
        _job(repository, name)
    assert repository.run("render").exit_code == 0
    _wire(repository)
    git_repository.commit(repository.root, "Begin")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    return repository


@pytest.fixture
def flux(tmp_path: Path, copied: Copied) -> Repository:
    return copied(_begun, tmp_path / "clone")


def _plan(repository: Repository, output: str = "text") -> str:
    result = repository.run("plan", "--against", "main", "-o", output)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def _data(repository: Repository) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(_plan(repository, "json"))["plan"]
    return data


STALE = (
    "wiring/ is not up to date (wiring/lab/kustomizations.yaml): run `trainwright gitops wire "
    "--out wiring`, and apply wiring/lab after the merge."
)


def test_a_job_without_a_kustomization_does_not_start(flux: Repository) -> None:
    _job(flux, "new")
    assert flux.run("render").exit_code == 0
    text = _plan(flux)
    assert STALE in text
    row = "lab/new  starts: only once its Kustomization is in wiring/lab/kustomizations.yaml, and"
    assert row in text
    assert "at once" not in text
    assert "run `trainwright gitops wire --out wiring`" in _plan(flux, "markdown")
    wire = "`trainwright gitops wire --out wiring`"
    marked = STALE.replace(wire, f"<code>{wire.strip('`')}</code>")
    assert marked in _plan(flux, "html")
    assert _data(flux)["wiring"]["stale"] == ["wiring/lab/kustomizations.yaml"]


def test_wiring_that_the_merge_changes_is_to_be_applied(flux: Repository) -> None:
    _job(flux, "new")
    assert flux.run("render").exit_code == 0
    _wire(flux)
    text = _plan(flux)
    assert "not up to date" not in text
    assert "lab/new  starts: once wiring/lab/kustomizations.yaml is applied" in text
    apply = "After the merge apply wiring/lab/kustomizations.yaml, unless what is in wiring/ is"
    assert apply in text


ADMIN = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: helper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: User, name: mallory}]
"""


@pytest.mark.parametrize(
    "path", ["wiring/lab/rbac.yaml", "wiring/rbac.yml", "wiring/lab/in/a.json"]
)
def test_a_file_that_nothing_writes_is_said_first(path: str, flux: Repository) -> None:
    file = flux.root / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(ADMIN)
    (flux.root / "wiring/lab/README.md").write_text("# No manifest\n")
    line = f"{path} is not written by `trainwright gitops wire`, and is applied by whatever applies"
    first, second, *_ = _plan(flux).splitlines()
    assert first.startswith("1 file in wiring/ that nothing writes")
    assert second.startswith(line)
    assert "README" not in _plan(flux).partition("After the merge")[0]
    assert "rbac" not in _plan(flux).partition("After the merge")[2]
    assert line in _plan(flux, "markdown")
    assert "is not written by" in _plan(flux, "html")
    assert _data(flux)["wiring"]["foreign"] == [path]


def _first_line(flux: Repository) -> str:
    return (flux.root / "wiring/lab/kustomizations.yaml").read_text().splitlines(keepends=True)[0]


@pytest.mark.parametrize("path", ["wiring/rbac.yaml", "wiring/other/rbac.yaml"])
def test_the_first_line_of_ours_makes_no_file_one_of_ours(path: str, flux: Repository) -> None:
    file = flux.root / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(_first_line(flux) + ADMIN)
    _, second, *_ = text = _plan(flux).splitlines()
    assert second.startswith(f"{path} is not written by `trainwright gitops wire`")
    assert not [line for line in text if line.startswith("After the merge apply")]


def test_what_errors_keep_from_being_compared_is_not_to_be_applied(flux: Repository) -> None:
    (flux.root / "wiring/lab/rbac.yaml").write_text(_first_line(flux) + ADMIN)
    path = flux.root / "environments/lab/environment.yaml"
    path.write_text(path.read_text().replace("https://git.example.com/ml.git", ""))
    text = flux.run("plan", "--against", "main").stdout
    assert "After the merge apply" not in text
    assert "wiring/ is not up to date (wiring/lab/rbac.yaml)" in text


def test_nobody_is_told_to_apply_a_file_that_was_edited_by_hand(flux: Repository) -> None:
    file = flux.root / "wiring/lab/kustomizations.yaml"
    file.write_text(file.read_text().replace("prune: true", "prune: false"))
    text = _plan(flux)
    assert STALE in text
    assert "After the merge apply" not in text


def test_a_file_of_wiring_that_was_edited_by_hand_is_said_first(flux: Repository) -> None:
    path = "wiring/lab/kustomizations.yaml"
    file = flux.root / path
    file.write_text(file.read_text() + "---\n" + ADMIN)
    line = f"{path} is not written as it is by `trainwright gitops wire`, and is applied by"
    first, second, *_ = _plan(flux).splitlines()
    assert first.startswith("1 file in wiring/ was edited by hand")
    assert second.startswith(line)
    assert line in _plan(flux, "markdown")
    assert "is not written as it is by" in _plan(flux, "html")
    assert _data(flux)["wiring"]["foreign"] == [path]


def test_wiring_from_before_the_last_edit_was_not_edited_by_hand(flux: Repository) -> None:
    """It is applied as it is, all the same: the first line has it, with what to do."""
    _job(flux, "new")
    assert flux.run("render").exit_code == 0
    _wire(flux)
    git_repository.commit(flux.root, "One more job")
    _job(flux, "newer")
    assert flux.run("render").exit_code == 0
    git_repository.commit(flux.root, "Yet another one")
    first, second, *_ = _plan(flux).splitlines()
    assert first.startswith("1 file in wiring/ from before the last edit · ")
    path = "wiring/lab/kustomizations.yaml"
    assert second.startswith(f"{path} is as an earlier commit of this branch has made it, and")
    assert second.endswith("run `trainwright gitops wire --out wiring`")
    assert "read it" not in _plan(flux)
    file = flux.root / path
    file.write_text(file.read_text() + "---\n" + ADMIN)
    assert _plan(flux).startswith("1 file in wiring/ was edited by hand")


def test_a_file_of_wiring_that_the_merge_leaves_behind_is_no_foreign_one(flux: Repository) -> None:
    _job(flux, "new")
    assert flux.run("render").exit_code == 0
    assert STALE in _plan(flux)
    assert _data(flux)["wiring"]["foreign"] == []


def test_the_wiring_of_a_commit_is_that_of_the_commit(flux: Repository) -> None:
    _job(flux, "new")
    assert flux.run("render").exit_code == 0
    git_repository.commit(flux.root, "Add")
    _wire(flux)
    assert STALE in flux.run("plan", "--against", "main", "--head", "HEAD").stdout


def test_wiring_of_what_no_engine_applies_any_more_is_left_over(flux: Repository) -> None:
    _set(flux, "engine: flux", "engine: none")
    text = _plan(flux)
    left = "wiring/ has files that no engine needs any more (wiring/lab)"
    assert f"{left}: run `trainwright gitops wire --out wiring`, which removes the files" in text
    assert "is not up to date" not in text
    assert "apply wiring/lab" not in text


def test_what_cannot_be_written_hides_no_file_of_others(flux: Repository) -> None:
    flux.environment("other", "gitops: {engine: argocd}\n")  # without a repository
    path = "wiring/lab/rbac.yaml"
    (flux.root / "wiring/other").mkdir()
    (flux.root / "wiring/other/a.yaml").write_text(ADMIN)
    (flux.root / path).write_text(ADMIN)
    _job(flux, "new")
    assert flux.run("render").exit_code == 0
    data = json.loads(flux.run("plan", "--against", "main", "-o", "json").stdout)["plan"]
    assert data["wiring"]["foreign"] == [path]
    assert data["wiring"]["stale"] == ["wiring/lab/kustomizations.yaml", "wiring/other/a.yaml"]


def test_without_wiring_nothing_is_said_of_it(flux: Repository) -> None:
    for file in (flux.root / "wiring/lab").iterdir():
        file.unlink()
    (flux.root / "wiring/lab").rmdir()
    git_repository.commit(flux.root, "Wire elsewhere")
    git(flux.root, "branch", "--force", "main", "HEAD")
    _job(flux, "new")
    assert flux.run("render").exit_code == 0
    assert "lab/new  starts: at once" in _plan(flux)
    nothing = {"stale": [], "foreign": [], "changed": [], "missing": [], "settings": []}
    assert _data(flux)["wiring"] == nothing


@pytest.mark.parametrize("wired", [False, True])
def test_the_run_of_a_removed_job_goes_on_with_its_kustomization(
    wired: bool, flux: Repository
) -> None:
    """A Kustomization whose path is gone prunes nothing, and applying wiring/ deletes nothing."""
    (flux.root / "environments/lab/jobs/probe.yaml").unlink()
    assert flux.run("render").exit_code == 0
    if wired:
        _wire(flux)
    data = _data(flux)
    (gone,) = data["changes"]
    command = "kubectl --namespace flux-system delete kustomization/training-lab-probe"
    assert gone["action"] == "left running"
    assert f"it stays in the cluster until `{command}` prunes it" in gone["why"]
    assert "next sync" not in gone["why"]
    assert gone["ending"]["waits"]
    assert gone["ending"]["command"] == command
    assert gone["requests"]["gpus"] == {"low": 0, "high": 0}


def test_an_edited_job_is_pruned_by_its_kustomization(flux: Repository) -> None:
    path = flux.root / "environments/lab/jobs/probe.yaml"
    path.write_text(path.read_text().replace("nodes: 2", "nodes: 3"))
    assert flux.run("render").exit_code == 0
    (change,) = _data(flux)["changes"]
    assert change["action"] == "new run"
    assert "the merge stops probe-" in change["why"]


@pytest.mark.parametrize("engine", ["argocd", "flux"])
@pytest.mark.parametrize(
    ("old", "new", "holds"),
    [
        ("immediate", "confirm", "no sync deletes a run, whenever it began"),
        ("confirm", "immediate", "syncs delete what leaves git. Runs that began before stay until"),
    ],
)
def test_what_prune_is_holds_with_the_wiring(
    engine: str, old: str, new: str, holds: str, tmp_path: Path
) -> None:
    """It is no setting of a training: nothing is behind it, and nothing has to begin again."""
    repository = _begun(tmp_path / "clone", engine, old)
    _environment(repository, engine, new)
    text = _plan(repository)
    assert f'gitops.prune: "{old}" → "{new}" in lab (environments/lab/environment.yaml:' in text
    assert f"once wiring/ is applied {holds}" in text
    assert "run `trainwright gitops wire --out wiring`" in text
    assert "outdated" not in text
    assert "rerun" not in text
    assert _data(repository)["changes"] == []
    rendered = repository.run("render")
    assert "rerun" not in rendered.stdout + rendered.stderr


def test_another_engine_applies_the_runs_that_there_are(tmp_path: Path) -> None:
    repository = _begun(tmp_path / "clone", "argocd", "confirm")
    _environment(repository, "flux", "confirm")
    text = _plan(repository)
    assert "Flux applies the runs as they are, once wiring/ is applied" in text
    assert "rerun" not in text


def _set(repository: Repository, old: str, new: str, file: str = "lab/environment.yaml") -> None:
    path = repository.root / "environments" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


CLUSTER = (
    "once wiring/ is applied all active runs begin anew in the other cluster, and those in the "
    "old one go on until they are deleted there"
)


@pytest.mark.parametrize(
    ("cluster", "shown"),
    [("name: second", "name: (unset)"), ("server: https://b.example.com", "server: (unset)")],
)
def test_another_cluster_begins_all_runs_anew(cluster: str, shown: str, tmp_path: Path) -> None:
    repository = _begun(tmp_path / "clone", "argocd", "confirm")
    _set(repository, "prune: confirm", f"prune: confirm, destination: {{{cluster}}}")
    value = cluster.partition(": ")[2]
    line = f'gitops.destination.{shown} → "{value}" in lab (environments/lab/environment.yaml:'
    first, *others = _plan(repository).splitlines()
    assert first == "Active runs of lab begin anew in another cluster"
    (said,) = (it for it in others if it.startswith(line))
    assert said.endswith(CLUSTER)
    for output in ("markdown", "html"):
        assert first in _plan(repository, output)
        assert CLUSTER in _plan(repository, output)


SOURCES = {
    "another repository": ("git.example.com/ml.git", "git.example.com/other.git", "repository.url"),
    "another branch": ("revision: main", "revision: next", "repository.revision"),
    "another folder": ("revision: main", "revision: main, path: clusters", "repository.path"),
}


@pytest.mark.parametrize(("old", "new", "setting"), SOURCES.values(), ids=SOURCES)
def test_other_files_that_an_engine_follows_are_a_looser_policy(
    old: str, new: str, setting: str, flux: Repository
) -> None:
    _set(flux, old, new)
    first, second, *_ = _plan(flux).splitlines()
    assert first == "Applies lab from elsewhere · no job changes"
    assert second.startswith(f"lab is applied from elsewhere: gitops.{setting}: ")
    assert "(environments/lab/environment.yaml:" in second
    assert second.endswith("those who can write there start trainings")
    for output in ("markdown", "html"):
        assert "Applies lab from elsewhere" in _plan(flux, output)
        assert "lab is applied from elsewhere" in _plan(flux, output)
    (policy,) = _data(flux)["policies"]
    assert (policy["cause"]["path"], policy["loosens"]) == (f"gitops.{setting}", True)


def test_the_source_of_shared_defaults_is_named_with_its_line(flux: Repository) -> None:
    source = "repository: {url: https://git.example.com/ml.git, revision: main}"
    _set(flux, f", {source}", "")
    kind = "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n"
    flux.write("defaults.yaml", f"{kind}gitops: {{{source}}}\n")
    git_repository.commit(flux.root, "Share")
    git(flux.root, "branch", "--force", "main", "HEAD")
    _set(flux, "revision: main", "revision: next", "defaults.yaml")
    changed = 'gitops.repository.revision: "main" → "next" (environments/defaults.yaml:3:'
    assert f"lab is applied from elsewhere: {changed}" in _plan(flux)


def test_another_version_of_the_chart_renders_new_runs(tmp_path: Path) -> None:
    repository = _begun(tmp_path / "clone", "argocd", "confirm")
    chart = "mode: chart, chart: {oci: oci://registry.example.com/chart, version: 1.0.0}"
    _set(repository, "prune: confirm", f"prune: confirm, {chart}")
    git_repository.commit(repository.root, "Use the chart")
    git(repository.root, "branch", "--force", "main", "HEAD")
    _set(repository, "version: 1.0.0", "version: 1.1.0")
    text = _plan(repository)
    assert 'lab is applied from elsewhere: gitops.chart.version: "1.0.0" → "1.1.0"' in text
    assert "loosens 1 policy of lab" in text.splitlines()[0]


def test_the_first_repository_is_no_other_one(tmp_path: Path) -> None:
    repository = _begun(tmp_path / "clone", "none", "confirm")
    _set(repository, "url: https://git.example.com/ml.git, ", "")
    git_repository.commit(repository.root, "Begin without")
    git(repository.root, "branch", "--force", "main", "HEAD")
    _environment(repository, "argocd", "confirm")
    text = _plan(repository)
    assert "gitops.engine" in text
    assert "elsewhere" not in text


def _stale(repository: Repository, *selections: str) -> list[str]:
    result = repository.run("check", *selections, "-o", "json")
    assert result.exit_code == 0, result.output
    results = json.loads(result.stdout)["report"]["results"]
    return [it["message"] for it in results if it["rule"] == "TW043"]


def test_check_names_wiring_that_is_not_up_to_date(flux: Repository) -> None:
    assert _stale(flux) == []
    _job(flux, "fresh")
    assert flux.run("render").exit_code == 0
    said = ["files of wiring/ are not up to date: wiring/lab/kustomizations.yaml"]
    assert _stale(flux) == said
    assert _stale(flux, "lab/probe") == said  # of the same environment
    flux.environment("other", "gitops: {engine: none}\n")
    assert _stale(flux, "other") == []
    _wire(flux)
    assert _stale(flux) == []
    (flux.root / "wiring/lab/kustomizations.yaml").unlink()
    assert _stale(flux) == said
    shutil.rmtree(flux.root / "wiring")
    assert _stale(flux) == []


def test_wiring_that_came_back_is_compared(flux: Repository) -> None:
    """What a check remembers holds while wiring/ is, or is not, there."""
    (flux.root / "wiring/lab/kustomizations.yaml").unlink()
    assert len(_stale(flux)) == 1
    shutil.move(flux.root / "wiring", flux.root / "away")
    assert _stale(flux) == []
    shutil.move(flux.root / "away", flux.root / "wiring")
    assert len(_stale(flux)) == 1


def test_wiring_is_that_of_the_tree_that_is_looked_at(flux: Repository) -> None:
    workspace = Workspace(Folder(flux.root))
    assert wired(workspace).current
    shutil.move(flux.root / "wiring", flux.root / "away")
    workspace.edit({"wiring", "wiring/lab"})
    assert wired(workspace) == WiringFiles()
    shutil.move(flux.root / "away", flux.root / "wiring")
    workspace.edit({"wiring", "wiring/lab"})
    assert wired(workspace).current


def test_the_report_has_the_findings_of_check(flux: Repository, visit: Visit) -> None:
    _job(flux, "fresh")
    assert flux.run("render").exit_code == 0
    assert _stale(flux)
    rules = visit(flux.run("report").stdout).page.locator("#findings summary").all_inner_texts()
    assert [text for text in rules if text.startswith("TW043")]


def test_wiring_that_cannot_be_written_is_no_silence(flux: Repository) -> None:
    """`gitops wire` refuses the settings, and so nothing is known of what is applied."""
    _job(flux, "fresh")
    assert flux.run("render").exit_code == 0
    path = flux.root / "environments/lab/environment.yaml"
    repository = ", repository: {url: https://git.example.com/ml.git, revision: main}"
    path.write_text(path.read_text().replace(repository, ""))
    wire = ("gitops", "wire", "--check", "--out", "wiring")
    for verb in (("check",), ("plan", "--against", "main"), wire, ("doctor",)):
        done = flux.run(*verb)
        assert done.exit_code == 1, (verb, done.output)
        assert "in which the engine finds this environment is not set" in done.output, verb
    assert "error[TW040]" in flux.run("check").output
    assert "The files of wiring/ cannot be written, by environments/lab/environment.yaml:" in (
        flux.run("render", "--check").stderr
    )


def test_wiring_is_compared_whatever_environments_beside_it_lack(flux: Repository) -> None:
    _job(flux, "fresh")
    assert flux.run("render").exit_code == 0
    flux.environment("unwired", "gitops: {engine: argocd}\n")  # without a repository
    assert _stale(flux) == ["files of wiring/ are not up to date: wiring/lab/kustomizations.yaml"]
    assert "Files of wiring/ are not up to date" in flux.run("render", "--check").stderr


def test_another_namespace_lacks_what_the_one_before_has(tmp_path: Path) -> None:
    repository = Repository(git_repository.init(tmp_path / "clone"))
    repository.environment("prod")
    repository.job("prod/llm")
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: team, namespace: training}\n"
    repository.write("prod/objects/team.yaml", head)
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root)
    path = repository.root / "environments/prod/environment.yaml"
    path.write_text(path.read_text().replace("namespace: training", "namespace: other"))
    done = repository.run("plan", "--against", "HEAD")
    assert done.exit_code == 1
    first, error, note = done.stdout.splitlines()[:3]
    head = "1 error · further runs of prod begin in another namespace · outdates"
    assert first.startswith(head)
    assert error.startswith('error[TW055]: metadata.namespace is "training", the environment\'s is')
    assert note.startswith('namespace: "training" → "other" in prod (environments/prod/')
    assert "a run that goes on stays in training, and one that begins is in other, where" in note
    comment = repository.run("plan", "--against", "HEAD", "-o", "markdown").stdout
    assert comment.index("❌ [TW055]") < comment.index("⚠️ namespace:")
    data = json.loads(repository.run("plan", "--against", "HEAD", "-o", "json").stdout)["plan"]
    (setting,) = data["wiring"]["settings"]
    assert setting["cause"]["path"] == "namespace"
