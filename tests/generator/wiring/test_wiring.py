"""What each wiring writes, held against expected files, real CRDs, and what must never be in it."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import crds
import gitops_engines
from repository import Repository
from trainwright.files import filetree
from trainwright.gitops.wiring import WIRINGS, kinds
from trainwright.kinds import SERVED, TARGETS
from trainwright.objects.naming import bounded

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.name for path in GOLDEN.iterdir())
WORKING = [case for case in CASES if not case.startswith("fails-")]
RENDERED = Path(__file__).parents[2] / "golden"

CRDS = {
    "AppProject": "crds/argoproj.io/appprojects.yaml",
    "Application": "crds/argoproj.io/applications.yaml",
    "ApplicationSet": "crds/argoproj.io/applicationsets.yaml",
    "GitRepository": "crds/source.toolkit.fluxcd.io/gitrepositories.yaml",
    "OCIRepository": "crds/source.toolkit.fluxcd.io/ocirepositories.yaml",
    "Kustomization": "crds/kustomize.toolkit.fluxcd.io/kustomizations.yaml",
    "HelmRelease": "crds/helm.toolkit.fluxcd.io/helmreleases.yaml",
}

QUEUED = [kind.kind for kind in SERVED.values() if kind.suspend]


def _wire(case: str, root: Path) -> tuple[dict[str, str], str]:
    """The files that are written, and what is said instead."""
    shutil.copytree(GOLDEN / case / "input", root / "environments")
    repository = Repository(root)
    rendered = repository.run("render", "--no-cache")
    assert rendered.exit_code == 0, rendered.output
    done = repository.run("gitops", "wire", "--out", str(root / "wiring"))
    assert done.exit_code == (1 if case.startswith("fails-") else 0), done.output
    paths = filetree.listing(root / "wiring")
    files = {path: (root / "wiring" / path).read_text(encoding="utf-8") for path in paths}
    return files, done.stderr


def _expected(case: str) -> tuple[dict[str, str], str]:
    folder, message = GOLDEN / case / "expected", GOLDEN / case / "findings.txt"
    files = {path: (folder / path).read_text("utf-8") for path in filetree.listing(folder)}
    return files, message.read_text("utf-8") if message.exists() else ""


def _update(case: str, files: dict[str, str], message: str) -> None:
    shutil.rmtree(GOLDEN / case / "expected", ignore_errors=True)
    texts = {f"expected/{path}": text for path, text in files.items()}
    for path, text in {**texts, **({"findings.txt": message} if message else {})}.items():
        (GOLDEN / case / path).parent.mkdir(parents=True, exist_ok=True)
        (GOLDEN / case / path).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found = _wire(case, tmp_path)
    if request.config.getoption("--update-golden"):
        _update(case, *found)
    assert found == _expected(case)


def _objects(case: str) -> Iterator[dict[str, Any]]:
    for path in sorted((GOLDEN / case / "expected").glob("*/*.yaml")):
        yield from yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader)


OBJECTS = [
    pytest.param(body, id=f"{case}-{body['kind']}-{body['metadata']['name']}")
    for case in WORKING
    for body in _objects(case)
]
EVERY: list[dict[str, Any]] = [param.values[0] for param in OBJECTS]


def _of(*wanted: str) -> list[Any]:
    return [param for param in OBJECTS if param.values[0]["kind"] in wanted]


def _application(body: dict[str, Any]) -> dict[str, Any]:
    """What an Application is, or those of an ApplicationSet are."""
    found: dict[str, Any] = body["spec"]["template"] if body["kind"] == "ApplicationSet" else body
    return found


@pytest.mark.parametrize("body", OBJECTS)
def test_the_real_crd_accepts_it_strictly(
    body: dict[str, Any], shared: Callable[[str], Path]
) -> None:
    version = body["apiVersion"].rpartition("/")[2]
    assert crds.errors(shared(CRDS[body["kind"]]), body, version) == []


@pytest.mark.parametrize("body", _of("Application", "ApplicationSet"))
def test_strictness_reaches_into_the_template(
    body: dict[str, Any], shared: Callable[[str], Path]
) -> None:
    wrong = copy.deepcopy(body)
    _application(wrong)["spec"]["syncPolicy"]["automated"]["selfheal"] = True
    version = body["apiVersion"].rpartition("/")[2]
    assert crds.errors(shared(CRDS[body["kind"]]), wrong, version)


def test_every_wiring_and_every_kind_is_among_them() -> None:
    assert {body["kind"] for body in EVERY} == set(CRDS)
    assert all(key == (wiring.engine, wiring.mode) for key, wiring in WIRINGS.items())
    for engine, mode in WIRINGS:
        word = "chart" if mode == "chart" else ""
        assert [case for case in WORKING if case.startswith(engine) and word in case]


def test_names_are_valid_and_no_two_objects_of_a_case_share_one() -> None:
    for case in WORKING:
        identities = [
            (b["apiVersion"], b["kind"], b["metadata"].get("namespace"), b["metadata"]["name"])
            for b in _objects(case)
        ]
        assert len(set(identities)) == len(identities)
        for *_, namespace, name in identities:
            assert bounded(name) == name
            assert namespace


@pytest.mark.parametrize("length", [3, 54, 63])
def test_long_names_are_cut_and_still_differ(length: int) -> None:
    names = {bounded(f"training-{end}".rjust(length, "a") * 2, 53) for end in ("a", "b", "c")}
    assert len(names) == 3
    assert all(len(name) <= 53 and not name.startswith("-") for name in names)


# --- the faults of operators.md: drift, uninstalling, never ready, blind ---------------------------


@pytest.mark.parametrize("body", _of("Application", "ApplicationSet"))
def test_argocd_never_reruns_drifts_or_takes_back_what_controllers_write(
    body: dict[str, Any],
) -> None:
    application = _application(body)
    options = application["spec"]["syncPolicy"]["syncOptions"]
    assert {"ServerSideApply=true", "RespectIgnoreDifferences=true"} <= set(options)
    assert not [o for o in options if o.partition("=")[0] in {"Force", "Replace", "PruneLast"}]
    compared = application["metadata"]["annotations"]["argocd.argoproj.io/compare-options"]
    assert compared == "ServerSideDiff=true"
    objects = application["metadata"]["name"].endswith("-objects")
    assert not (objects and application["spec"].get("ignoreDifferences"))
    # What is mended in git is synced by the next attempt, and not what was there before.
    assert application["spec"]["syncPolicy"]["retry"]["refresh"] is True
    for rule in application["spec"].get("ignoreDifferences", ()):
        assert set(rule) == {"group", "kind", "jqPathExpressions"}


_APPROVAL = "argocd.argoproj.io/deletion-approved"
_FINALIZER = "resources-finalizer.argocd.argoproj.io"


def _applying() -> Iterator[Any]:
    for case in WORKING:
        for body in _objects(case):
            environment = body["metadata"].get("labels", {}).get("trainwright.io/environment")
            if body["kind"] in ("Application", "ApplicationSet"):
                said = (GOLDEN / case / "input" / environment / "environment.yaml").read_text()
                identity = f"{case}-{body['metadata']['name']}"
                yield pytest.param(body, "prune: immediate" in said, id=identity)


@pytest.mark.parametrize(("body", "immediate"), list(_applying()))
def test_argocd_deletes_only_where_that_is_wanted_and_waits_for_nobody(
    body: dict[str, Any], *, immediate: bool
) -> None:
    """Whatever a run is annotated with: it may have been rendered for another engine."""
    application = _application(body)
    automated = application["spec"]["syncPolicy"]["automated"]
    assert automated == {"prune": immediate, "selfHeal": True, "allowEmpty": False}
    if body["kind"] == "ApplicationSet":
        assert application["metadata"].get("finalizers", []) == [_FINALIZER] * immediate
        kept = body["spec"].get("syncPolicy", {}).get("preserveResourcesOnDeletion", False)
        assert kept is not immediate, "or the controller adds the finalizer"
        preserved = body["spec"].get("preservedFields", {}).get("annotations", [])
        assert preserved == [_APPROVAL] * immediate


@pytest.mark.parametrize("body", _of("ApplicationSet"))
def test_an_applicationset_fails_on_unknown_words(body: dict[str, Any]) -> None:
    spec = body["spec"]
    assert spec["goTemplate"] is True
    assert spec["goTemplateOptions"] == ["missingkey=error"]
    (generator,) = spec["generators"]
    (files,) = generator["git"]["files"]
    assert files["path"].endswith(("/rendered/*/values.yaml", "/rendered/*/run.lock"))
    assert spec["template"]["spec"]["project"] != "default"
    assert "{{" not in spec["template"]["spec"]["project"], "who writes files chooses no project"


@pytest.mark.parametrize("body", _of("HelmRelease"))
def test_a_release_never_waits_for_training_and_never_uninstalls(body: dict[str, Any]) -> None:
    spec = body["spec"]
    for action in (spec["install"], spec["upgrade"]):
        assert action["disableWait"] is True
        assert action["disableWaitForJobs"] is True
        assert action["strategy"]["name"] == "RetryOnFailure"
        assert action["remediation"] == {"retries": 0, "remediateLastFailure": False}
    assert spec["upgrade"]["cleanupOnFail"] is False
    assert len(spec["releaseName"]) <= 53
    assert spec["values"]["fullnameOverride"] in body["metadata"]["name"]


@pytest.mark.parametrize("body", _of("Kustomization"))
def test_a_kustomization_that_waits_reads_every_kind_that_it_holds(body: dict[str, Any]) -> None:
    spec = body["spec"]
    assert spec["force"] is False
    if not spec["wait"]:
        assert "healthCheckExprs" not in spec
        return
    read = {expression["kind"] for expression in spec["healthCheckExprs"]}
    assert read & {t.kind for t in TARGETS.values() if not t.envelope}
    for patch in spec.get("patches", ()):
        assert not read & set(patch["target"]["kind"].split("|"))
        assert spec["dependsOn"]
    # Without an account Flux reads Jobs in its own way, and waits for their end.
    assert "Job" not in read or spec["serviceAccountName"]


@pytest.mark.parametrize("body", _of("Kustomization"))
def test_flux_deletes_only_where_that_is_wanted(body: dict[str, Any]) -> None:
    """Whatever a run is annotated with: it may have been rendered for another engine."""
    immediate = body["spec"]["prune"]
    assert body["spec"].get("deletionPolicy") == (None if immediate else "Orphan")


def test_what_is_refused_of_one_job_stops_no_other() -> None:
    """Flux tries all objects of a Kustomization out before it applies the first of them."""
    found = {
        b["metadata"]["name"]: b["spec"]
        for b in _objects("flux-rendered-files-in-a-repository")
        if b["kind"] == "Kustomization"
    }
    jobs = {"llm", "pretrain", "tiny"}
    assert set(found) == {
        *(f"training-prod-{job}" for job in jobs),
        "training-prod-pretrain-prerequisites",  # a TrainJob is refused before its runtime is there
    }
    for name, spec in found.items():
        job = name.removeprefix("training-prod-").removesuffix("-prerequisites")
        assert spec["path"] == f"./environments/prod/rendered/{job}"
        needed = [each["name"] for each in spec.get("dependsOn", ())]
        assert all(other.startswith(f"training-prod-{job}-") for other in needed)


def test_files_that_are_no_objects_are_not_in_the_source() -> None:
    """Where nothing lists the manifests Flux takes every YAML file for some."""
    (source,) = (
        b for b in _objects("flux-rendered-files-in-a-repository") if b["kind"] == "GitRepository"
    )
    ignored = {line.rpartition("/")[2] for line in source["spec"]["ignore"].splitlines()}
    assert ignored >= {"values.yaml", "kustomization.yaml", "kustomization.yml", "Kustomization"}


_SHARED = ["flux-one-kustomization-for-the-environment"]


@pytest.mark.parametrize("case", _SHARED)
def test_the_two_kustomizations_share_out_all_kinds(case: str) -> None:
    first, then = (body for body in _objects(case) if body["kind"] == "Kustomization")
    assert then["spec"]["dependsOn"] == [{"name": first["metadata"]["name"]}]
    jobs, others = (
        set(body["spec"]["patches"][0]["target"]["kind"].split("|")) for body in (first, then)
    )
    assert jobs == {kind.kind for kind in SERVED.values()}
    assert not jobs & others


@pytest.mark.parametrize("case", [case for case in WORKING if case.startswith("argocd")])
def test_argocd_is_told_the_health_of_what_it_applies(case: str) -> None:
    reported = yaml.load(
        (GOLDEN / case / "expected/argocd-cm.yaml").read_bytes(), Loader=yaml.CSafeLoader
    )["data"]
    for body in _objects(case):
        if body["kind"] == "AppProject":
            for item in body["spec"]["namespaceResourceWhitelist"]:
                if item["kind"] in {t.kind for t in TARGETS.values()}:
                    assert (
                        f"resource.customizations.health.{item['group']}_{item['kind']}" in reported
                    )


@pytest.mark.parametrize("body", OBJECTS)
def test_nothing_is_applied_but_rendered_folders(body: dict[str, Any]) -> None:
    """Job specs lie beside them, and would be taken for objects."""
    text = yaml.dump(body, Dumper=yaml.CSafeDumper)
    for line in text.splitlines():
        if "environments/" in line and "targetRevision" not in line and "revision" not in line:
            assert "/rendered" in line, line


# --- what a project may hold is what is rendered ---------------------------------------------------


def _rendered_in(folder: Path) -> set[tuple[str, str]]:
    found = set()
    for path in folder.glob("*/*.yaml"):
        if path.name not in {"values.yaml", "compose.yaml"}:
            for body in yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader):
                found.add((body["apiVersion"].rpartition("/")[0], body["kind"]))
    return found - {("", ""), ("", "Kustomization")}


def _environments() -> Iterator[Any]:
    for folder in sorted(RENDERED.glob("*/expected/*/rendered")):
        case, place = folder.parts[-4], folder.parts[-2]
        yield pytest.param(case, place, folder, id=f"{case}-{place}")


@pytest.mark.parametrize(("case", "place", "folder"), list(_environments()))
def test_the_project_lets_in_all_that_is_rendered(
    case: str, place: str, folder: Path, tmp_path: Path
) -> None:
    from trainwright.files.tree import Folder
    from trainwright.specs.load import Reader
    from trainwright.specs.resolve import environment

    shutil.copytree(RENDERED / case / "input", tmp_path / "environments", symlinks=True)
    loaded = Reader(Folder(tmp_path)).environment(place)
    assert loaded.document is not None
    allowed = set(kinds.rendered(environment(place, loaded.document)))
    assert _rendered_in(folder) <= allowed


def test_the_project_lets_in_nothing_that_is_never_rendered() -> None:
    rendered = {
        kind for folder in RENDERED.glob("*/expected/*/rendered") for kind in _rendered_in(folder)
    }
    for path in GOLDEN.glob("*/input/*/objects/*.yaml"):
        for own in yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader):
            rendered.add((own["apiVersion"].rpartition("/")[0], own["kind"]))
    allowed = {
        (item["group"], item["kind"])
        for body in EVERY
        if body["kind"] == "AppProject"
        for item in body["spec"]["namespaceResourceWhitelist"]
    }
    assert allowed <= rendered
    assert all(
        b["spec"]["clusterResourceWhitelist"] == [] for b in EVERY if b["kind"] == "AppProject"
    )


@pytest.mark.parametrize("folder", sorted(RENDERED.glob("*/expected/*/rendered/*")), ids=str)
def test_what_a_run_needs_is_there_before_it(folder: Path) -> None:
    """Argo CD goes from wave to wave, and is done once the last one is applied.

    So runs are in the last, or a sync would wait until they have ended. A claim is with them: it
    may wait for its first pod.
    """
    jobs = {target.kind for target in TARGETS.values()}
    for path in folder.glob("*.yaml"):
        for body in yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader):
            if path.name not in {"values.yaml", "compose.yaml"}:
                annotations = body["metadata"].get("annotations", {})
                wave = annotations.get("argocd.argoproj.io/sync-wave")
                last = body["kind"] in jobs or body["kind"] == "PersistentVolumeClaim"
                assert wave == (None if last else "-1"), path


# --- what Kueue writes is ignored, and nothing else ------------------------------------------------

QUEUED = {
    "PyTorchJob": RENDERED / "pytorchjob-gpu-many-nodes-in-a-kueue-queue",
    "JobSet": RENDERED / "jobset-gpu-many-nodes-in-a-kueue-queue",
    "TrainJob": RENDERED / "trainjob-2-2-with-the-clusters-runtime",
}


def _queued(kind: str) -> dict[str, Any]:
    target = next(t for t in TARGETS.values() if t.kind == kind)
    path = next(iter(sorted(QUEUED[kind].glob(f"expected/*/rendered/*/{target.template}"))))
    body: dict[str, Any] = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team"
    body["spec"].pop("suspend", None)  # as it is rendered for a queue
    return body


def _job() -> dict[str, Any]:
    body = copy.deepcopy(_queued("JobSet"))
    (replicated,) = body["spec"].pop("replicatedJobs")
    return {**body, "apiVersion": "batch/v1", "kind": "Job", "spec": replicated["template"]["spec"]}


def _templates(body: dict[str, Any]) -> list[dict[str, Any]]:
    spec = body["spec"]
    if body["kind"] == "PyTorchJob":
        return [replica["template"] for replica in spec["pytorchReplicaSpecs"].values()]
    if body["kind"] == "JobSet":
        return [job["template"]["spec"]["template"] for job in spec["replicatedJobs"]]
    return [spec["template"]] if body["kind"] == "Job" else []


def _holder(body: dict[str, Any]) -> dict[str, Any]:
    """What has the field suspend."""
    spec: dict[str, Any] = body["spec"]
    return spec.setdefault("runPolicy", {}) if body["kind"] == "PyTorchJob" else spec


def _admitted(body: dict[str, Any]) -> dict[str, Any]:
    """The object as Kueue leaves it once it runs."""
    live = copy.deepcopy(body)
    _holder(live)["suspend"] = False
    for template in _templates(live):
        pod = template["spec"]
        pod["nodeSelector"] = {**pod.get("nodeSelector", {}), "example.com/flavor": "h100"}
        pod["tolerations"] = [*pod.get("tolerations", []), {"key": "h100", "operator": "Exists"}]
        pod["schedulingGates"] = [{"name": "kueue.x-k8s.io/topology"}]
        metadata = template.setdefault("metadata", {})
        metadata.setdefault("labels", {})["kueue.x-k8s.io/podset"] = "main"
        metadata.setdefault("annotations", {})["kueue.x-k8s.io/workload"] = "a-1"
    if live["kind"] == "TrainJob":
        patch = {"manager": "kueue.x-k8s.io/manager", "time": "2026-06-01T10:00:00Z"}
        own = [
            {**p, "time": "2026-06-01T10:00:00Z"} for p in live["spec"].get("runtimePatches", [])
        ]
        live["spec"]["runtimePatches"] = [*own, patch]
    return live


def _ignored(kind: str) -> list[str]:
    (body,) = [
        b for b in _objects("argocd-an-application-for-each-job") if b["kind"] != "AppProject"
    ]
    rules = {rule["kind"]: rule for rule in _application(body)["spec"]["ignoreDifferences"]}
    found: list[str] = rules[kind]["jqPathExpressions"]
    return found


def _comparable(body: dict[str, Any], expressions: list[str]) -> Any:
    return _bare(gitops_engines.without(expressions, copy.deepcopy(body)))


def _bare(value: Any) -> Any:
    """Without empty maps and lists, which no diff of Argo CD tells from absent ones."""
    if isinstance(value, dict):
        kept = {key: _bare(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in ({}, [], None)}
    return [_bare(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", QUEUED)
def test_what_kueue_writes_is_no_difference(kind: str) -> None:
    body = _job() if kind == "Job" else _queued(kind)
    live, ignored = _admitted(body), _ignored(kind)
    assert _bare(live) != _bare(body)
    assert _comparable(live, ignored) == _comparable(body, ignored)


@pytest.mark.parametrize("kind", QUEUED)
def test_what_people_write_is_a_difference(kind: str) -> None:
    body = _job() if kind == "Job" else _queued(kind)
    ignored = _ignored(kind)
    edited = copy.deepcopy(body)
    if kind == "TrainJob":
        edited["spec"]["trainer"]["image"] = "registry.example.com/other:1"
    else:
        _templates(edited)[0]["spec"]["containers"][0]["image"] = "registry.example.com/other:1"
    assert _comparable(edited, ignored) != _comparable(body, ignored)


@pytest.mark.parametrize("kind", QUEUED)
def test_suspend_is_git_s_where_there_is_no_queue(kind: str) -> None:
    """Or suspending a run in git would change nothing."""
    body = _job() if kind == "Job" else _queued(kind)
    del body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    suspended = copy.deepcopy(body)
    _holder(suspended)["suspend"] = True
    assert _comparable(suspended, _ignored(kind)) != _comparable(body, _ignored(kind))


@pytest.mark.parametrize("kind", QUEUED)
def test_flux_ignores_the_same_fields(kind: str) -> None:
    (then,) = [
        b for b in _objects(*_SHARED) if b["kind"] == "Kustomization" and b["spec"].get("ignore")
    ]
    (rule,) = [r for r in then["spec"]["ignore"] if r["target"]["kind"] == kind]
    assert rule["target"]["labelSelector"] == "kueue.x-k8s.io/queue-name"
    body = _job() if kind == "Job" else _queued(kind)
    live = _admitted(body)
    for pointer in rule["paths"]:
        parents, _, last = pointer.rpartition("/")
        for copied in (live, body):
            holder: Any = copied
            for key in parents.split("/")[1:]:
                holder = holder[int(key)] if isinstance(holder, list) else holder.get(key, {})
            holder.pop(last, None)
    if kind != "TrainJob":  # Flux owns no item that it did not write, and never takes one away
        for template in _templates(live):
            del template["metadata"]["labels"]["kueue.x-k8s.io/podset"]
            del template["metadata"]["annotations"]["kueue.x-k8s.io/workload"]
        assert _bare(live) == _bare(body)
