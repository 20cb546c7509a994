"""`trainwright gitops wire` as people call it: to a screen, into a folder, and only to compare."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from repository import ENVIRONMENT, Repository

GITOPS = "gitops: {repository: {url: https://git.example.com/ml/training.git}}\n"
WHERE = """\
apiVersion: trainwright.io/v1alpha1
kind: Defaults
gitops: {repository: {url: https://git.example.com/ml/training.git, revision: release}}
"""


@pytest.fixture
def wired(repository: Repository) -> Repository:
    """Three environments: one of Argo CD, one of Flux, one that nothing applies."""
    repository.environment("dev", "gitops: {engine: none}\n")
    repository.environment("prod", GITOPS)
    repository.environment("west", GITOPS.replace("{repo", "{engine: flux, repo"))
    repository.run("render")
    return repository


def _objects(text: str) -> list[tuple[str, str]]:
    return [(body["kind"], body["metadata"]["name"]) for body in yaml.safe_load_all(text)]


def test_the_screen_shows_objects_that_can_be_applied_as_they_are(wired: Repository) -> None:
    done = wired.run("gitops", "wire")
    assert done.exit_code == 0, done.output
    assert not done.stderr
    assert _objects(done.stdout) == [
        ("AppProject", "training-prod"),
        ("ApplicationSet", "training-prod"),
        ("GitRepository", "training-west"),
    ]
    # Applied like the others it would replace what else is in there.
    assert "argocd-cm" not in done.stdout


def test_a_new_run_without_its_kustomization_is_named(wired: Repository) -> None:
    """Flux applies a run by a Kustomization of its own: without one it never starts."""
    out = wired.root / "wiring"
    assert "wiring" not in wired.run("render").stderr  # nothing is committed there
    wired.run("gitops", "wire", "--out", str(out))
    assert "wiring" not in wired.run("render").stderr
    wired.job("west/new")
    for arguments in (("render",), ("render", "--check")):
        done = wired.run(*arguments)
        assert "run `trainwright gitops wire --out wiring`" in done.stderr, arguments
        assert "wiring/west/" in done.stderr
    diagnosed = wired.run("doctor").stdout
    assert "wiring/west/" in diagnosed
    assert "a run without a Kustomization of its own does not start" in " ".join(diagnosed.split())
    checked = wired.run("gitops", "wire", "west", "--out", str(out), "--check")
    assert f"run `trainwright gitops wire west --out {out}`" in checked.stderr
    wired.run("gitops", "wire", "--out", str(out))
    assert "wiring" not in wired.run("render").stderr


def test_one_environment_is_that_and_no_other(wired: Repository) -> None:
    done = wired.run("gitops", "wire", "prod")
    assert {name for _, name in _objects(done.stdout)} == {"training-prod"}
    assert done.stdout == wired.run("gitops", "wire", "prod").stdout


def test_a_folder_has_one_for_each_environment(wired: Repository, tmp_path: Path) -> None:
    out = tmp_path / "wiring"
    assert wired.run("gitops", "wire", "--out", str(out)).exit_code == 0
    files = sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert files == [
        "argocd-cm.yaml",
        "argocd-values.yaml",
        "prod/applicationset.yaml",
        "prod/appproject.yaml",
        "west/source.yaml",
    ]
    for path in files:
        text = (out / path).read_text()
        assert text.startswith("# Written by Trainwright from ")
        assert "trainwright gitops wire" in text.split("\n")[0] + text.split("\n")[1]
        assert str(tmp_path) not in text
    again = wired.run("gitops", "wire", "--out", str(out))
    assert again.stdout == f"up to date in {out}\n"


def test_check_writes_nothing_and_names_every_difference(wired: Repository, tmp_path: Path) -> None:
    out = tmp_path / "wiring"
    missing = wired.run("gitops", "wire", "--out", str(out), "--check")
    assert missing.exit_code == 1
    assert not out.exists()
    assert missing.stdout.count(": missing\n") == 5
    wired.run("gitops", "wire", "--out", str(out))
    assert wired.run("gitops", "wire", "--out", str(out), "--check").exit_code == 0
    edited = out / "prod/appproject.yaml"
    edited.write_text(edited.read_text().replace("training", "everything"))
    (out / "prod/application.yaml").write_text("# Written by Trainwright from before.\n")
    own = out / "prod/rbac.yaml"
    own.write_text("# by hand\n")
    done = wired.run("gitops", "wire", "--out", str(out), "--check")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"{out}/prod/application.yaml: no longer needed",
        f"{out}/prod/appproject.yaml: out of date",
    ]
    wired.run("gitops", "wire", "--out", str(out))
    assert wired.run("gitops", "wire", "--out", str(out), "--check").exit_code == 0
    assert own.read_text() == "# by hand\n", "what is not ours stays"


def test_writing_one_environment_leaves_the_others_alone(wired: Repository, tmp_path: Path) -> None:
    out = tmp_path / "wiring"
    wired.run("gitops", "wire", "--out", str(out))
    before = (out / "west/source.yaml").read_text()
    wired.environment("west", GITOPS.replace("{repo", "{name: other, engine: flux, repo"))
    wired.run("gitops", "wire", "prod", "--out", str(out))
    assert (out / "west/source.yaml").read_text() == before


def _remove(wired: Repository, name: str) -> None:
    shutil.rmtree(wired.root / "environments" / name)


def _unapply(wired: Repository, name: str) -> None:
    wired.environment(name, "gitops: {engine: none}\n")


@pytest.mark.parametrize("leave", [_remove, _unapply])
def test_the_wiring_of_what_no_engine_applies_any_more_is_removed(
    leave: Callable[[Repository, str], None], wired: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(wired.root)
    wire = ("gitops", "wire", "--out", "wiring")
    wired.run(*wire)
    own = wired.root / "wiring/prod/rbac.yaml"
    own.write_text("# by hand\n")
    leave(wired, "prod")
    wired.run("render")
    left = "iles of wiring/ are needed by no engine any more: wiring/prod, wiring/argocd-cm.yaml"
    for verb in (("check",), ("render", "--check"), ("doctor",)):
        assert left in " ".join(wired.run(*verb).output.split()), verb
    assert "wiring/prod" not in wired.run("check", "west").output
    done = wired.run(*wire, "--check")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"wiring/{path}: no longer needed"
        for path in (
            "argocd-cm.yaml",
            "argocd-values.yaml",
            "prod/applicationset.yaml",
            "prod/appproject.yaml",
        )
    ]
    done = wired.run(*wire)
    assert "wiring/prod/applicationset.yaml: removed\n" in done.stdout
    deleted = "git show HEAD:./wiring/prod/applicationset.yaml | kubectl delete --filename -"
    assert f"stay in the cluster until `{deleted}`" in done.stderr
    assert "HEAD:./wiring/argocd" not in done.stderr, "which would delete all of argocd-cm"
    assert [path.name for path in (wired.root / "wiring/prod").iterdir()] == ["rbac.yaml"]
    assert wired.run(*wire, "--check").stdout == "up to date in wiring\n"
    assert "no engine needs" not in wired.run("check").output


def test_what_applied_objects_of_ones_own_is_to_be_deleted(
    wired: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the Application goes with the last object, and nothing deletes what it made."""
    monkeypatch.chdir(wired.root)
    quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: a, namespace: training}\n"
    path = wired.write("prod/objects/quota.yaml", f"{quota}spec: {{hard: {{pods: '8'}}}}\n")
    wired.run("render")
    wired.run("gitops", "wire", "--out", "wiring")
    path.unlink()
    wired.run("render")
    done = wired.run("gitops", "wire", "prod", "--out", "wiring")
    assert "wiring/prod/objects.yaml: removed\n" in done.stdout
    deleted = "git show HEAD:./wiring/prod/objects.yaml | kubectl delete --filename -"
    assert f"stay in the cluster until `{deleted}`" in done.stderr


def test_a_folder_that_others_may_write_keeps_what_is_theirs(
    wired: Repository, tmp_path: Path
) -> None:
    out = tmp_path / "shared"
    wired.run("gitops", "wire", "--out", str(out))
    _remove(wired, "prod")
    done = wired.run("gitops", "wire", "--out", str(out))
    assert f"{out}/prod is of no environment that an engine applies here" in done.stderr
    assert (out / "prod/applicationset.yaml").exists()


def test_what_all_of_argo_cd_needs_stays_beside_an_environment_of_flux(
    wired: Repository, tmp_path: Path
) -> None:
    out = tmp_path / "wiring"
    wired.run("gitops", "wire", "--out", str(out))
    assert wired.run("gitops", "wire", "west", "--out", str(out)).stdout.startswith("up to date")
    assert (out / "argocd-cm.yaml").exists()


def test_errors_of_one_environment_do_not_hide_what_is_stale_of_others(wired: Repository) -> None:
    wire = ("gitops", "wire", "--out", str(wired.root / "wiring"))
    wired.run(*wire)
    wired.job("west/new")
    wired.run("render")
    wired.environment("prod", "gitops: {engine: argocd}\n")  # without a repository
    stale = "files of wiring/ are not up to date: wiring/west/"
    refused = "in which the engine finds this environment is not set"
    for verb in (("check",), ("render", "--check"), ("doctor",)):
        said = wired.run(*verb).output
        assert stale in said.lower(), verb
        assert refused in said or "The files of wiring/ cannot be written, by " in said, verb
        assert "argocd-cm" not in said, verb
    done = wired.run(*wire, "--check")
    assert (done.exit_code, refused in done.stderr) == (1, True)
    assert "1 file to write: mend the errors, and run `trainwright gitops wire" in done.stderr
    assert "wiring/west/" in done.stdout
    assert "prod" not in done.stdout


def test_a_new_job_changes_no_wiring_but_that_which_lists_them(wired: Repository) -> None:
    shared = GITOPS.replace("{repo", "{engine: flux, applications: environment, repo")
    wired.environment("east", shared)
    wired.run("render")
    before = wired.run("gitops", "wire", "prod", "east").stdout
    for name in ("prod", "east", "west"):
        wired.job(f"{name}/new")
    wired.run("render")
    assert wired.run("gitops", "wire", "prod", "east").stdout == before
    assert [name for _, name in _objects(wired.run("gitops", "wire", "west").stdout)] == [
        "training-west",
        "training-west-new",
    ]
    wired.environment("west", CHART)
    wired.run("render")
    assert [kind for kind, _ in _objects(wired.run("gitops", "wire", "west").stdout)] == [
        "OCIRepository",
        "HelmRelease",
    ]


CHART = """\
gitops:
  engine: flux
  mode: chart
  chart: {oci: oci://registry.example.com/c/training-job, version: 0.1.0}
"""


def test_a_run_that_cannot_be_read_is_never_left_out(wired: Repository) -> None:
    """Flux would uninstall its release."""
    wired.environment("prod", CHART)
    wired.run("render", "prod")
    assert wired.run("gitops", "wire", "prod").stdout.count("kind: HelmRelease") == 2
    (wired.root / "environments/prod/rendered/llm/values.yaml").write_text("[")
    done = wired.run("gitops", "wire", "prod")
    assert done.exit_code == 1
    assert not done.stdout
    assert "environments/prod/rendered/llm/values.yaml" in done.stderr


def test_defaults_are_below_what_an_environment_says(wired: Repository) -> None:
    wired.write("defaults.yaml", WHERE)
    wired.environment("prod", "gitops: {repository: {revision: main}}\n")
    wired.environment("west", "gitops: {engine: flux}\n")
    found = {
        body["kind"]: body["spec"]
        for body in yaml.safe_load_all(wired.run("gitops", "wire").stdout)
    }
    assert found["GitRepository"]["ref"] == {"branch": "release"}
    source = found["ApplicationSet"]["template"]["spec"]["source"]
    assert source["targetRevision"] == "main"
    assert source["repoURL"] == "https://git.example.com/ml/training.git"


def test_where_files_are_says_nothing_about_what_is_rendered(wired: Repository) -> None:
    before = wired.tree()
    wired.write("defaults.yaml", WHERE)
    wired.run("render", "--no-cache")
    assert wired.tree() == before


@pytest.mark.parametrize(
    ("settings", "annotations"),
    [
        ("{}", {"argocd.argoproj.io/sync-options": "Prune=false,Delete=false"}),
        ("{engine: flux}", {"kustomize.toolkit.fluxcd.io/prune": "disabled"}),
        ("{engine: none}", None),
        ("{prune: immediate}", None),
        ("{engine: flux, prune: immediate}", None),
    ],
)
def test_a_run_is_protected_and_its_name_does_not_depend_on_it(
    settings: str, annotations: dict[str, str] | None, wired: Repository
) -> None:
    path = wired.root / "environments/prod/rendered/mnist/pytorchjob.yaml"
    before = yaml.safe_load(path.read_text())["metadata"]
    wired.environment("prod", f"gitops: {settings}\n")
    assert wired.run("render", "prod").exit_code == 0
    assert yaml.safe_load(path.read_text())["metadata"] == before  # it goes on as it began
    path.parent.joinpath("run.lock").unlink()
    assert wired.run("render", "prod").exit_code == 0
    metadata = yaml.safe_load(path.read_text())["metadata"]
    assert metadata["name"] == before["name"]
    assert metadata.get("annotations") == annotations


@pytest.mark.parametrize(
    ("own", "together"),
    [
        ("Prune=confirm", "Prune=confirm,Delete=false"),
        ("Validate=false, Delete=confirm", "Prune=false,Delete=confirm,Validate=false"),
        ("", "Prune=false,Delete=false"),
    ],
)
def test_a_job_s_own_options_are_added_and_are_the_last_word(
    own: str, together: str, wired: Repository
) -> None:
    key = "argocd.argoproj.io/sync-options"
    wired.job("prod/llm", f'annotations: {{{key}: "{own}", example.com/a: b}}\n')
    assert wired.run("render", "prod").exit_code == 0
    path = wired.root / "environments/prod/rendered/llm/pytorchjob.yaml"
    metadata = yaml.safe_load(path.read_text())["metadata"]
    assert metadata["annotations"] == {key: together, "example.com/a": "b"}


def test_what_kueue_writes_into_is_applied_by_the_server(wired: Repository) -> None:
    wired.environment("prod", "gitops: {prune: immediate}\nqueueing: kueue\nqueues: {team: {}}\n")
    wired.job("prod/fresh", "queue: team\n")
    wired.run("render", "prod")
    found = {
        job: yaml.safe_load(
            (wired.root / f"environments/prod/rendered/{job}/pytorchjob.yaml").read_text()
        )
        for job in ("fresh", "mnist")
    }
    options = {"argocd.argoproj.io/sync-options": "ServerSideApply=true"}
    assert found["fresh"]["metadata"]["annotations"] == options
    began = {"argocd.argoproj.io/sync-options": "Prune=false,Delete=false"}
    assert found["mnist"]["metadata"]["annotations"] == began  # before that edit


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pord"], 'there is no environment "pord"; did you mean prod?'),
        (["prod/llm"], 'there is no environment "prod/llm"'),
        (["dev"], "nothing applies dev: its gitops.engine is none"),
    ],
)
def test_inability_is_one_line(arguments: list[str], message: str, wired: Repository) -> None:
    done = wired.run("gitops", "wire", *arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"trainwright: {message}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("gitops", "message"),
    [
        ('version: "3.1"', "Argo CD 3.1 does not know syncPolicy.retry.refresh"),
        ('engine: flux, version: "2.8"', "Flux 2.8 does not know spec.ignore of a Kustomization"),
        ('engine: flux, version: "2.4"', "Flux 2.4 does not know healthCheckExprs"),
        (
            'engine: flux, mode: chart, version: "2.6", '
            "chart: {oci: oci://registry.example.com/c/training-job, version: 0.1.0}",
            "Flux 2.6 does not know strategy RetryOnFailure",
        ),
    ],
)
def test_what_an_engine_does_not_know_yet_is_not_written(
    gitops: str, message: str, wired: Repository
) -> None:
    kueue = "queueing: kueue\nqueues: {team: {}}\n"
    wired.environment("prod", f"{GITOPS.replace('{repo', f'{{{gitops}, repo')}{kueue}")
    done = wired.run("gitops", "wire", "prod")
    assert done.exit_code == 1
    assert not done.stdout
    assert f"error[TW040]: {message}" in done.stderr


@pytest.mark.parametrize("gitops", ['version: "3.2"', 'engine: flux, version: "2.9.1"'])
def test_an_engine_that_knows_it_is_wired(gitops: str, wired: Repository) -> None:
    kueue = "queueing: kueue\nqueues: {team: {}}\n"
    wired.environment("prod", f"{GITOPS.replace('{repo', f'{{{gitops}, repo')}{kueue}")
    assert wired.run("gitops", "wire", "prod").exit_code == 0


def test_check_needs_a_folder(wired: Repository) -> None:
    done = wired.run("gitops", "wire", "--check")
    assert done.exit_code == 2
    assert "--check needs --out" in done.stderr


def test_a_folder_that_is_in_the_way(wired: Repository, tmp_path: Path) -> None:
    (tmp_path / "wiring").mkdir()
    (tmp_path / "wiring/prod").symlink_to("/nowhere")
    done = wired.run("gitops", "wire", "prod", "--out", str(tmp_path / "wiring"))
    assert done.exit_code == 2
    assert "is in the way: it should be a folder" in done.stderr


def test_a_broken_environment_is_spoken_of_and_nothing_is_written(
    wired: Repository, tmp_path: Path
) -> None:
    wired.write("prod/environment.yaml", "kind: Environment\n")
    done = wired.run("gitops", "wire", "--out", str(tmp_path / "wiring"))
    assert done.exit_code == 1
    assert "environments/prod/environment.yaml" in done.stderr
    assert not (tmp_path / "wiring").exists()


def test_a_credential_in_a_url_is_refused_and_not_shown(wired: Repository) -> None:
    wired.environment(
        "prod", "gitops: {repository: {url: https://ml:hunter2hunter2@git.example.com/a}}\n"
    )
    done = wired.run("gitops", "wire", "prod")
    assert done.exit_code == 1
    assert "hunter2" not in done.output


def test_two_environments_with_one_object_are_a_warning(wired: Repository) -> None:
    """They may be in different clusters, which only people can know."""
    done = wired.run("gitops", "wire", "prod")
    assert "TW041" not in done.stderr
    wired.environment("dev", GITOPS)
    wired.run("render")
    done = wired.run("gitops", "wire", "prod")
    assert done.exit_code == 0
    assert done.stdout
    assert "warning[TW041]: dev renders the same objects into training: mnist-" in done.stderr


def test_a_namespace_is_shared_by_the_runs_that_are_in_it(wired: Repository) -> None:
    """A run stays where it began, whatever environment.yaml says since."""
    apart = wired.environment("dev", GITOPS)
    apart.write_text(apart.read_text().replace("namespace: training", "namespace: elsewhere"))
    wired.run("render")
    done = wired.run("gitops", "wire", "prod")
    assert "warning[TW041]: dev renders the same objects into training: mnist-" in done.stderr


def test_a_namespace_is_wired_while_a_run_is_in_it(wired: Repository) -> None:
    place = wired.root / "environments/prod/environment.yaml"
    place.write_text(place.read_text().replace("namespace: training", "namespace: moved"))

    def destinations() -> set[str]:
        assert wired.run("render").exit_code == 0
        bodies = yaml.safe_load_all(wired.run("gitops", "wire", "prod").stdout)
        (project,) = (body for body in bodies if body["kind"] == "AppProject")
        return {it["namespace"] for it in project["spec"]["destinations"]}

    assert destinations() == {"moved", "training"}
    assert wired.run("cancel", "prod", "--orphan").exit_code == 0
    assert destinations() == {"moved"}


_ISSUER, _SUBJECT = r"^https://accounts\.example\.com$", r"^https://github\.com/example/jobs/"


@pytest.mark.parametrize(
    ("issuer", "subject", "wrong"),
    [
        (_ISSUER, _SUBJECT, ""),
        (_ISSUER, r"^(a|b|[|)]\|)@example\.com$", ""),
        (r"https://accounts\.example\.com", _SUBJECT, "issuer"),
        (r"^https://accounts\.example\.com", _SUBJECT, "issuer"),
        (r"^https://accounts\.example\.com\$", _SUBJECT, "issuer"),
        (_ISSUER, r"github\.com/example/jobs/", "subject"),
        (_ISSUER, r"\^github\.com/example/jobs/", "subject"),
        (_ISSUER, r"^a@example\.com$|b@example\.com$", "subject"),
        (_ISSUER, ".*", "subject"),
    ],
)
def test_an_identity_is_not_found_in_the_middle_of_a_stranger_s(
    issuer: str, subject: str, wrong: str, wired: Repository
) -> None:
    """The workflow of anyone has an identity that ends in a branch, whose name is theirs."""
    identities = json.dumps([{"issuer": issuer, "subject": subject}])
    url = "oci://registry.example.com/ml/training"
    wired.environment(
        "west",
        f"gitops: {{engine: flux, repository: {{url: '{url}', revision: latest, "
        f"verify: {{identities: {identities}}}}}}}\n",
    )
    done = wired.run("gitops", "wire", "west")
    if not wrong:
        assert done.exit_code == 0, done.output
        return
    assert done.exit_code == 1
    assert not done.stdout
    assert f"error[TW040]: the {wrong} of others would match too: " in done.stderr


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        ("^https://github.com/(a|b/", "missing ), unterminated subpattern at 20"),
        ("^https://github.com/a)/", "unbalanced parenthesis at 21"),
        ("^https://github.com/[a-z/", "unterminated character set at 20"),
        (r"^https://github.com/\Q(a\E/", ""),
        (r"^https://github.com/\pL\z", ""),  # which Go alone reads
        ("^https://github.com/[]a(]/", ""),
    ],
)
def test_an_expression_that_go_refuses_is_refused(
    subject: str, why: str, wired: Repository
) -> None:
    identities = json.dumps([{"issuer": _ISSUER, "subject": subject}])
    url = "oci://registry.example.com/ml/training"
    wired.environment(
        "west",
        f"gitops: {{engine: flux, repository: {{url: '{url}', revision: latest, "
        f"verify: {{identities: {identities}}}}}}}\n",
    )
    done = wired.run("gitops", "wire", "west")
    assert done.exit_code == bool(why), done.output
    if why:
        expected = f"error[TW040]: the subject is not a valid regular expression, {why}: {subject}"
        assert expected in done.stderr


@pytest.mark.parametrize(
    ("settings", "warnings"),
    [
        ("repository: {url: 'http://git.example.com/ml/training.git'}", 1),
        (
            "mode: chart, repository: {url: 'https://git.example.com/ml/training.git'}, "
            "chart: {url: 'http://git.example.com/charts.git', path: chart, revision: refs/tags/v1}",
            1,
        ),
        ("repository: {url: 'https://git.example.com/ml/training.git'}", 0),
        (
            "repository: {url: 'http://git.example.com/a.git', verify: {keys: [4AEE18F83AFDEB23]}}",
            0,
        ),
    ],
)
def test_a_repository_without_encryption_is_a_warning(
    settings: str, warnings: int, wired: Repository
) -> None:
    wired.environment("west", f"gitops: {{{settings}}}\n")
    done = wired.run("gitops", "wire", "west")
    assert done.exit_code == 0, done.output
    assert done.stderr.count("warning[TW044]") == warnings
    assert ("http://git.example.com/" in done.stderr) == bool(warnings)
    assert done.stdout


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_check_warns_of_it_where_files_of_wiring_are_beside_the_specs(
    scheme: str, wired: Repository
) -> None:
    repository = f"{{url: '{scheme}://git.example.com/ml/training.git'}}"
    wired.environment("west", f"gitops: {{repository: {repository}}}\n")
    assert wired.run("gitops", "wire", "west", "--out", "wiring").exit_code == 0
    assert ("warning[TW044]" in wired.run("check").output) == (scheme == "http")


@pytest.mark.parametrize(
    ("gitops", "namespace", "refused"),
    [
        (GITOPS, "argocd", "Argo CD"),
        (GITOPS.replace("{repo", "{namespace: cd, repo"), "cd", "Argo CD"),
        (GITOPS.replace("{repo", "{namespace: cd, repo"), "argocd", ""),
        (GITOPS.replace("{repo", "{engine: flux, repo"), "flux-system", "Flux"),
        (GITOPS.replace("{repo", "{engine: flux, repo"), "argocd", ""),
    ],
)
def test_no_run_is_let_into_the_namespace_of_the_engine(
    gitops: str, namespace: str, refused: str, wired: Repository
) -> None:
    """Where its ServiceAccounts and the credentials of clusters and repositories are."""
    path = wired.environment("north", gitops)
    path.write_text(path.read_text().replace("namespace: training", f"namespace: {namespace}", 1))
    wired.run("render", "north")
    done = wired.run("gitops", "wire", "north")
    assert done.exit_code == bool(refused), done.output
    if refused:
        assert f"error[TW040]: the namespace {namespace} is that of {refused} itself" in done.stderr
        assert "environments/north/environment.yaml:3:" in done.stderr


@pytest.mark.parametrize("hidden", ["", "\u202e", "\u200b", "\x9b", "\xad"])
def test_what_nobody_sees_is_in_no_object_of_the_engine(hidden: str, wired: Repository) -> None:
    """Not in YAML's own escapes either, which a reviewer of environment.yaml does see."""
    said = json.dumps(f"^a{hidden}b$")
    identities = f"{{engine: flux, repository: {{url: 'oci://a.b/c', revision: a, verify: {{identities: [{{issuer: {said}, subject: {said}}}]}}}}}}"
    for environment, gitops in (
        ("west", identities),
        ("prod", f"{{notifications: {{slack: {{on-deployed: [{said}]}}}}, {GITOPS[9:]}"),
    ):
        wired.environment(environment, f"gitops: {gitops}\n")
        done = wired.run("gitops", "wire", environment)
        assert done.exit_code == bool(hidden), done.output
        assert bool(done.stdout) is not bool(hidden)
        assert not hidden or hidden not in done.output


_OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: training}\n"
# Whose runs have runtimes, which Flux applies before.
_TRAINER = re.sub(r"(?m)^targets: .*", 'targets: {trainjob: {version: "2.3"}}', ENVIRONMENT)
_FLUX = GITOPS.replace("{repo", "{engine: flux, repo")
_CHART = """\
gitops:
  engine: %s
  mode: chart
  repository: {url: https://git.example.com/ml/training.git}
  chart: {oci: oci://registry.example.com/charts/training-job, version: 0.1.0}
"""


@pytest.mark.parametrize(
    ("engine", "job", "kind", "name"),
    [
        (GITOPS, "objects", "Application", "training-north-objects"),
        (_CHART % "argocd", "objects", "Application", "training-north-objects"),
        (_FLUX, "objects", "Kustomization", "training-north-objects"),
        (_FLUX, "mnist-prerequisites", "Kustomization", "training-north-mnist-prerequisites"),
        (GITOPS, "object", "", ""),
        (_FLUX, "prerequisites", "", ""),
        (_CHART % "flux", "objects", "", ""),
        (GITOPS.replace("{repo", "{applications: environment, repo"), "objects", "", ""),
    ],
)
def test_a_job_is_never_applied_by_what_applies_something_else(
    engine: str, job: str, kind: str, name: str, wired: Repository
) -> None:
    runtimes = job.endswith("prerequisites")
    wired.write("north/environment.yaml", (_TRAINER if runtimes else ENVIRONMENT) + engine)
    for named in ("mnist", job):
        wired.job(f"north/{named}")
    if not runtimes:
        wired.write("north/objects/a.yaml", _OBJECT)
    assert wired.run("render", "north").exit_code == 0
    done = wired.run("gitops", "wire", "north")
    if not kind:
        assert done.exit_code == 0, done.output
        return
    assert done.exit_code == 1
    assert not done.stdout
    assert f"error[TW040]: the {kind} {name} would be there twice, for different files" in (
        done.stderr
    )


@pytest.mark.parametrize(
    ("engine", "kind"),
    [(GITOPS, "Application"), (_FLUX, "Kustomization"), (_CHART % "argocd", "Application")],
)
def test_an_environment_whose_name_begins_another_s_may_take_what_applies_its_jobs(
    engine: str, kind: str, wired: Repository
) -> None:
    """A warning, since they may be in different clusters."""
    for environment, job in (("north", "east-llm"), ("north-east", "llm"), ("northern", "llm")):
        path = wired.environment(environment, engine)
        path.write_text(
            path.read_text().replace("namespace: training", f"namespace: {environment}")
        )
        wired.job(f"{environment}/{job}")
    wired.run("render")
    for environment, other in (("north", "north-east"), ("north-east", "north")):
        done = wired.run("gitops", "wire", environment)
        assert done.exit_code == 0, done.output
        assert (
            f"warning[TW041]: {other} has an object of the same name: "
            f"{kind} training-north-east-llm" in done.stderr
        )
        assert "northern" not in done.stderr


def test_environments_of_one_name_for_the_engine_share_all_of_its_objects(
    wired: Repository,
) -> None:
    """The AppProject of one would let in the other's namespace, and not its own."""
    for environment in ("north", "south"):
        wired.environment(environment, GITOPS.replace("{repo", "{name: ml, repo"))
    wired.environment("flux", _FLUX.replace("{engine", "{name: ml, engine"))
    done = wired.run("gitops", "wire", "south")
    assert done.exit_code == 0
    assert (
        "warning[TW041]: north has objects of the same names: AppProject ml, "
        "ApplicationSet ml" in done.stderr
    )
    assert "flux" not in done.stderr


@pytest.mark.parametrize("revision", ["main", "environments/prod"])
def test_flux_follows_a_branch(revision: str, wired: Repository) -> None:
    wired.environment(
        "west",
        f"gitops: {{engine: flux, repository: {{url: https://a/b, revision: {revision}}}}}\n",
    )
    (source, *_) = yaml.safe_load_all(wired.run("gitops", "wire", "west").stdout)
    assert source["spec"]["ref"] == {"branch": revision}


@pytest.mark.parametrize(
    ("revision", "reference"),
    [
        ("refs/tags/v1", {"name": "refs/tags/v1"}),
        ("a" * 40, {"commit": "a" * 40}),
    ],
)
def test_flux_stays_at_a_tag_or_a_commit(
    revision: str, reference: dict[str, str], wired: Repository
) -> None:
    wired.environment(
        "west",
        f"gitops: {{engine: flux, repository: {{url: https://a/b, revision: {revision}}}}}\n",
    )
    (source, *_) = yaml.safe_load_all(wired.run("gitops", "wire", "west").stdout)
    assert source["spec"]["ref"] == reference
