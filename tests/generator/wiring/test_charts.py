"""Each run keeps the chart that it began with, where the engine renders the chart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import gitops_engines
from repository import Repository

REPOSITORY = "https://git.example.com/ml/training.git"
CHARTS = "https://git.example.com/ml/charts.git"
OCI = "oci: oci://registry.example.com/charts/training-job, version"
MOVED = "oci: oci://mirror.example.com/ml/training-job, version"
GIT = f"path: chart, url: {CHARTS}, revision"
COMMIT = "0123456789abcdef0123456789abcdef01234567"

ENGINES = ("argocd", "flux")


def _environment(repository: Repository, engine: str, chart: str, **changes: str) -> None:
    settings = f"engine: {engine}, repository: {{url: {REPOSITORY}}}"
    if chart:
        settings += f", mode: chart, chart: {{{chart}}}"
    repository.environment("prod", f"gitops: {{{settings}}}\n")
    path = repository.root / "environments/prod/environment.yaml"
    text = path.read_text(encoding="utf-8")
    for key, value in changes.items():
        text = text.replace(f"{key}: training", f"{key}: {value}")
    path.write_text(text, encoding="utf-8")


def _render(repository: Repository) -> None:
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output


def _objects(repository: Repository) -> list[dict[str, Any]]:
    done = repository.run("gitops", "wire", "prod")
    assert done.exit_code == 0, done.output
    return list(yaml.safe_load_all(done.stdout))


def _of_kind(repository: Repository, kind: str) -> list[dict[str, Any]]:
    return [body for body in _objects(repository) if body["kind"] == kind]


def _charts(repository: Repository, engine: str) -> dict[str, tuple[str, ...]]:
    """Where each job's chart comes from, and its version or revision, and the run's namespace."""
    if engine == "argocd":
        (applicationset,) = _of_kind(repository, "ApplicationSet")
        return dict(map(_of_application, _applications(applicationset, repository.root)))
    objects = _objects(repository)
    sources = {body["metadata"]["name"]: body["spec"] for body in objects}
    return dict(_of_release(body, sources) for body in objects if body["kind"] == "HelmRelease")


def _applications(applicationset: dict[str, Any], root: Path) -> list[dict[str, Any]]:
    return gitops_engines.applications(applicationset, root)


def _of_application(body: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    chart, values = body["spec"]["sources"]
    job = body["metadata"]["labels"]["app.kubernetes.io/name"]
    assert body["metadata"]["name"] == f"training-prod-{job}"
    assert chart["helm"]["valueFiles"] == [f"$values/environments/prod/rendered/{job}/values.yaml"]
    assert values["ref"] == "values"
    name = f"{chart['repoURL']}/{chart.get('chart', '')}{chart.get('path', '')}"
    return job, (name, chart["targetRevision"], body["spec"]["destination"]["namespace"])


def _of_release(body: dict[str, Any], sources: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    spec = body["spec"]
    assert spec["storageNamespace"] == spec["targetNamespace"]
    job = spec["values"]["commonLabels"]["app.kubernetes.io/name"]
    if "chartRef" in spec:
        source = sources[spec["chartRef"]["name"]]
        found = source["url"].removeprefix("oci://"), source["ref"]["tag"]
    else:
        chart = spec["chart"]["spec"]
        source = sources[chart["sourceRef"]["name"]]
        (revision,) = source["ref"].values()
        found = f"{source['url']}/{chart['chart'].removeprefix('./')}", revision
    return job, (*found, spec["targetNamespace"])


IN_REGISTRY = "registry.example.com/charts/training-job"
IN_MIRROR = "mirror.example.com/ml/training-job"
IN_GIT = f"{CHARTS}/chart"

MOVES = {
    "a version": (f"{OCI}: 0.1.0", f"{OCI}: 0.2.0", (IN_REGISTRY, "0.1.0"), (IN_REGISTRY, "0.2.0")),
    "a registry": (
        f"{OCI}: 0.1.0",
        f"{MOVED}: 0.2.0",
        (IN_REGISTRY, "0.1.0"),
        (IN_MIRROR, "0.2.0"),
    ),
    "a tag": (
        f"{GIT}: refs/tags/v1",
        f"{GIT}: refs/tags/v2",
        (IN_GIT, "refs/tags/v1"),
        (IN_GIT, "refs/tags/v2"),
    ),
    "a commit in the same repository": (
        f"path: chart, revision: {COMMIT}",
        f"path: deploy/chart, revision: {COMMIT}",
        (f"{REPOSITORY}/chart", COMMIT),
        (f"{REPOSITORY}/deploy/chart", COMMIT),
    ),
    "from git to a registry": (
        f"{GIT}: {COMMIT}",
        f"{OCI}: 0.2.0",
        (IN_GIT, COMMIT),
        (IN_REGISTRY, "0.2.0"),
    ),
    "from a registry to git": (
        f"{OCI}: 0.1.0",
        f"{GIT}: refs/tags/v2",
        (IN_REGISTRY, "0.1.0"),
        (IN_GIT, "refs/tags/v2"),
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("move", MOVES)
def test_a_moved_chart_is_that_of_new_runs_only(
    engine: str, move: str, repository: Repository
) -> None:
    before, after, old, new = MOVES[move]
    _environment(repository, engine, before)
    _render(repository)
    wired = _charts(repository, engine)
    assert wired == {"llm": (*old, "training"), "mnist": (*old, "training")}
    _environment(repository, engine, after)
    _render(repository)
    assert _charts(repository, engine) == wired
    repository.job("prod/new")
    assert repository.run("rerun", "prod/llm").exit_code == 0
    _render(repository)
    both = {"llm": (*new, "training"), "mnist": (*old, "training"), "new": (*new, "training")}
    assert _charts(repository, engine) == both


@pytest.mark.parametrize("move", MOVES)
def test_the_project_lets_in_every_chart_in_use(move: str, repository: Repository) -> None:
    before, after, *_ = MOVES[move]
    _environment(repository, "argocd", before)
    _render(repository)
    _environment(repository, "argocd", after)
    (project,) = _of_kind(repository, "AppProject")
    (applicationset,) = _of_kind(repository, "ApplicationSet")
    for body in _applications(applicationset, repository.root):
        for source in body["spec"]["sources"]:
            assert source["repoURL"] in project["spec"]["sourceRepos"]


def test_no_source_of_flux_ever_becomes_another_chart(repository: Repository) -> None:
    """A release that still refers to it would be upgraded, and its run with it."""
    seen: dict[str, Any] = {}
    for version in ("0.1.0", "0.2.0", "0.3.0"):
        _environment(repository, "flux", f"{OCI}: {version}")
        repository.job(f"prod/of-{version.replace('.', '-')}")
        _render(repository)
        for source in _of_kind(repository, "OCIRepository"):
            name = source["metadata"]["name"]
            assert seen.setdefault(name, source["spec"]) == source["spec"]
    assert len(seen) == 3


def test_a_moved_version_leaves_the_wiring_of_argo_cd_alone(repository: Repository) -> None:
    _environment(repository, "argocd", f"{OCI}: 0.1.0")
    _render(repository)
    before = repository.run("gitops", "wire", "prod").stdout
    _environment(repository, "argocd", f"{OCI}: 0.2.0")
    repository.job("prod/new")
    _render(repository)
    assert repository.run("gitops", "wire", "prod").stdout == before


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_over_has_no_application_and_no_release(
    engine: str, repository: Repository
) -> None:
    _environment(repository, engine, f"{OCI}: 0.1.0")
    repository.job("prod/paused", "state: suspended\n")
    repository.job("prod/stopped")
    _render(repository)
    assert set(_charts(repository, engine)) == {"llm", "mnist", "paused", "stopped"}
    repository.job("prod/stopped", "state: cancelled\n")
    assert repository.run("retire", "prod/mnist", "--outcome", "succeeded").exit_code == 0
    _render(repository)
    assert set(_charts(repository, engine)) == {"llm", "paused"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_chart_of_defaults_is_recorded_too(engine: str, repository: Repository) -> None:
    shared = f"gitops: {{repository: {{url: {REPOSITORY}}}, chart: {{{OCI}: VERSION}}}}\n"
    shared = f"apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n{shared}"
    repository.write("defaults.yaml", shared.replace("VERSION", "0.1.0"))
    repository.environment("prod", f"gitops: {{engine: {engine}, mode: chart}}\n")
    _render(repository)
    repository.write("defaults.yaml", shared.replace("VERSION", "0.2.0"))
    _render(repository)
    assert _charts(repository, engine)["llm"] == (IN_REGISTRY, "0.1.0", "training")
    assert "gitops.chart.version (environments/defaults.yaml:3" in (
        repository.run("list", "jobs").output
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_that_began_as_files_keeps_the_chart_that_rendered_them(
    engine: str, repository: Repository
) -> None:
    _environment(repository, engine, "")
    _render(repository)
    _environment(repository, engine, f"{OCI}: 7.0.0")
    repository.job("prod/new")
    _render(repository)
    found = _charts(repository, engine)
    assert found["llm"][1] == yaml.safe_load(_record(repository, "llm"))["renderedBy"]["chart"]
    assert found["new"][1] == "7.0.0"


def _record(repository: Repository, job: str) -> str:
    path = repository.root / f"environments/prod/rendered/{job}/run.lock"
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chart", ["path: chart", "path: chart, revision: main", f"{GIT}: v1"])
def test_a_chart_that_moves_by_itself_is_refused(
    engine: str, chart: str, repository: Repository
) -> None:
    _environment(repository, engine, chart)
    _render(repository)
    done = repository.run("gitops", "wire", "prod")
    assert done.exit_code == 1
    assert not done.stdout
    assert "could change the chart under runs that train" in done.stderr
    assert "Set chart.revision to refs/tags/TAG or to a commit" in done.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_of_which_nothing_says_the_chart_have_that_of_now_and_are_named(
    engine: str, repository: Repository
) -> None:
    _environment(repository, engine, "path: chart, revision: main")
    _render(repository)
    _environment(repository, engine, f"path: chart, revision: {COMMIT}")
    repository.job("prod/new")
    _render(repository)
    done = repository.run("gitops", "wire", "prod")
    assert done.exit_code == 0
    assert "warning[TW042]: the chart with which these runs began is not recorded: llm, mnist" in (
        done.stderr
    )
    assert set(_charts(repository, engine).values()) == {
        (f"{REPOSITORY}/chart", COMMIT, "training")
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_stays_in_the_namespace_that_it_began_in(engine: str, repository: Repository) -> None:
    _environment(repository, engine, f"{OCI}: 0.1.0")
    _render(repository)
    _environment(repository, engine, f"{OCI}: 0.1.0", namespace="elsewhere")
    repository.job("prod/new")
    _render(repository)
    found = {job: namespace for job, (_, _, namespace) in _charts(repository, engine).items()}
    assert found == {"llm": "training", "mnist": "training", "new": "elsewhere"}


@pytest.mark.parametrize("chart", ["", f"{OCI}: 0.1.0"])
def test_the_project_reaches_every_namespace_that_runs_are_in(
    chart: str, repository: Repository
) -> None:
    _environment(repository, "argocd", chart)
    _render(repository)
    _environment(repository, "argocd", chart, namespace="elsewhere")
    (project,) = _of_kind(repository, "AppProject")
    namespaces = [to["namespace"] for to in project["spec"]["destinations"]]
    assert namespaces == ["elsewhere", "training"]


@pytest.mark.parametrize("engine", ENGINES)
def test_kinds_and_queues_of_runs_that_began_before_an_edit_stay_wired(
    engine: str, repository: Repository
) -> None:
    kueue = "queueing: kueue\nqueues: {team: {}}\n"
    path = repository.root / "environments/prod/environment.yaml"
    _environment(repository, engine, "")
    path.write_text(path.read_text() + kueue)
    repository.job("prod/llm", "queue: team\n")
    _render(repository)
    queued = _waiting(_objects(repository), engine)
    assert queued == {"PyTorchJob"}
    text = path.read_text().replace(kueue, "")
    path.write_text(text.replace("targets: {", "targets: {jobset: {version: '0.12'}, "))
    assert "PyTorchJob" in _waiting(_objects(repository), engine)


def _waiting(objects: list[dict[str, Any]], engine: str) -> set[str]:
    """The kinds in which the engine leaves to Kueue what Kueue writes."""
    if engine == "argocd":
        (spec,) = [body["spec"] for body in objects if body["kind"] == "ApplicationSet"]
        rules = spec["template"]["spec"].get("ignoreDifferences", ())
        return {rule["kind"] for rule in rules if "kueue" in str(rule)}
    kustomizations = [body for body in objects if body["kind"] == "Kustomization"]
    rules = [rule for body in kustomizations for rule in body["spec"].get("ignore", ())]
    return {rule["target"]["kind"] for rule in rules}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("chart", ["", f"{OCI}: 0.1.0"])
def test_a_run_whose_record_cannot_be_read_is_never_left_out(
    engine: str, chart: str, repository: Repository
) -> None:
    """As after a merge with a conflict: its release, its kind or its namespace would go."""
    _environment(repository, engine, chart)
    _render(repository)
    path = repository.root / "environments/prod/rendered/llm/run.lock"
    path.write_text("<<<<<<< ours\n" + _record(repository, "llm"), encoding="utf-8")
    done = repository.run("gitops", "wire", "prod")
    assert done.exit_code == 1
    assert not done.stdout
    assert "error[TW054]: what this run began with cannot be read" in done.stderr
    assert "environments/prod/rendered/llm/run.lock" in done.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_that_are_rendered_elsewhere_are_not_left_out(
    engine: str, repository: Repository
) -> None:
    """As `publish` does: nothing lies beside the specs."""
    _environment(repository, engine, f"{OCI}: 0.1.0")
    done = repository.run("gitops", "wire", "prod")
    if engine == "flux":  # each run is an object of its own, which would be deleted
        assert done.exit_code == 1
        assert done.stdout == ""
        assert "nothing is rendered beside the specs" in " ".join(done.output.split())
        _render(repository)
        assert repository.run("gitops", "wire", "prod").exit_code == 0
    else:  # Argo CD reads the records where they are
        assert done.exit_code == 0, done.output
        (listed,) = _of_kind(repository, "ApplicationSet")
        assert "renderedBy" in json.dumps(listed) or "environment" in json.dumps(listed)
