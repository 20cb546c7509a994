"""Each row of the table of fields is what an edit does to a run that is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from environment_fields import ENVIRONMENT, EnvironmentField

from repository import Copied, Repository, launcher
from trainwright.datatypes.fields import spelled
from trainwright.datatypes.job import POD_FIELDS
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.validation import schema
from trainwright.files.tree import Folder
from trainwright.helm import engines
from trainwright.kinds import TARGETS
from trainwright.kinds.capabilities import unsupported
from trainwright.render import objects
from trainwright.runs.decision import Decision, Step
from trainwright.runs.fields import JOB, STATE, Effect
from trainwright.runs.record import VALUES_FILE
from trainwright.runs.same_spec import Surroundings
from trainwright.runs.workspace import ResolvedJob, Workspace
from trainwright.specs import fields as contract

ROOT = Path(__file__).resolve().parents[3]
Schema = Mapping[str, Any]

# --- every field has a row ------------------------------------------------------------------------


def _schema(name: str) -> Schema:
    read: Schema = json.loads((schema.FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    return read


def _leaves(of: Schema, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The fields of environment.yaml in which nothing else is named by us."""
    below = {**of.get("properties", {})}
    if isinstance(of.get("additionalProperties"), dict):
        below["*"] = of["additionalProperties"]
    if not below and not (path and path[0] == "targets" and len(path) == 2):  # a kind without any
        yield path
    for key, part in below.items():
        yield from _leaves(part, (*path, key))


def environment_field(path: tuple[str, ...]) -> EnvironmentField | None:
    """The row of a field of environment.yaml: the first that is its own, or stands around it."""
    return next((row for row in ENVIRONMENT if row.covers(path)), None)


def test_every_field_of_a_job_has_a_row_and_no_row_is_of_another() -> None:
    fields = _schema("job")["$defs"]["fields"]["properties"]
    assert [row.name for row in JOB if "." not in row.name] == list(fields)
    for key, below in (row.name.split(".") for row in JOB if "." in row.name):
        assert below in fields[key]["properties"]


def test_every_field_of_an_environment_has_a_row_and_no_row_is_of_another() -> None:
    leaves = [path for path in _leaves(_schema("environment")) if path != ("defaults",)]
    assert [path for path in leaves if environment_field(path) is None] == []
    used = {environment_field(path) for path in leaves}
    assert [row.path for row in ENVIRONMENT if row not in used] == []


def test_the_defaults_of_all_environments_are_of_fields_with_rows() -> None:
    assert set(_schema("defaults")["properties"]) == {"apiVersion", "kind", "defaults", "gitops"}


def test_a_new_field_would_be_missing() -> None:
    for path in (("new",), ("pools", "*", "new"), ("gitops", "new"), ("targets", "job", "new")):
        assert environment_field(path) is None


def test_the_page_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import field_table

    assert field_table.PAGE.read_text(encoding="utf-8") == field_table.page()


# --- and does what it says ------------------------------------------------------------------------

PLACE: dict[str, Any] = {
    "apiVersion": "trainwright.io/v1alpha1",
    "kind": "Environment",
    "namespace": "training",
    "kubernetes": {"version": "1.33"},
    "queues": {"team": {}, "other": {}},
    "pools": {
        "p": {"resource": "nvidia.com/gpu", "nodeSelector": {"a": "b"}},
        "q": {"resource": "nvidia.com/gpu", "nodeSelector": {"a": "c"}},
    },
    "targets": {
        "pytorchjob": {"version": "1.9", "restrictedInitContainer": True},
        "trainingjob": {},
        "trainjob": {"version": "2.3"},
        "jobset": {},
        "job": {},
        "compose": {},
        "rayjob": {"version": "1.7"},
    },
}
BASE: dict[str, Any] = {
    "apiVersion": "trainwright.io/v1alpha1",
    "kind": "JobSpec",
    "name": "llm",
    "image": {"repository": "registry.example.com/ml/train", "tag": "1.0"},
    "entrypoint": {"script": "train.py"},
    "resources": {"cpu": "8", "memory": "64Gi", "gpu": 2},
    "pool": "p",
}
VOLUME = {"volumes": {"v": {"claim": "c", "mountPath": "/v"}}}
PROBE = {"exec": {"command": ["true"]}}
QUEUED = {"queue": "team"}
KUEUE = {**PLACE, "queueing": "kueue", "kueue": {"version": "0.18"}}
OPEN = {
    **PLACE,
    "podSecurity": "privileged",
    "allow": ["hostNetwork", "hostIPC", "hostPID", "serviceAccountToken", "podPatch"],
}
VOLCANO = {**PLACE, "queueing": "volcano"}
# What a field says after the edit, and what must be there for it: of the job, of the environment.
EDITS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "description": ("another one", {}, PLACE),
    "extends": ("base/other", {}, PLACE),
    "target": ("jobset", {}, PLACE),
    "image": ({"repository": "registry.example.com/ml/train", "tag": "2.0"}, {}, PLACE),
    "entrypoint": ({"script": "other.py"}, {}, PLACE),
    "launcher": ("torchrun", {}, PLACE),
    "launcherOptions": ({"max-restarts": 3}, {"launcher": "torchrun"}, PLACE),
    "flags": ({"epochs": 3}, {}, PLACE),
    "flagStyle": ("--k v", {"flags": {"epochs": 3}}, PLACE),
    "nodes": (2, {}, PLACE),
    "procsPerNode": (1, {}, PLACE),
    "backend": ("gloo", {}, PLACE),
    "elastic": ({"minNodes": 1, "maxNodes": 2}, {}, PLACE),
    "pool": ("q", {}, PLACE),
    "resources": ({"cpu": "9", "memory": "64Gi", "gpu": 2}, {}, PLACE),
    "resourceClaims": ({"nic": {"template": "rdma"}}, {}, PLACE),
    "shm": ("8Gi", {}, PLACE),
    "env": ({"A": "1"}, {}, PLACE),
    "envFrom": ([{"configMap": "nccl"}], {}, PLACE),
    "secrets": ({"T": {"name": "s", "key": "k"}}, {}, PLACE),
    "volumes": (VOLUME["volumes"], {}, PLACE),
    "initContainers": ({"get": {"image": "registry.example.com/get:1"}}, {}, PLACE),
    "sidecars": ({"daemon": {"image": "registry.example.com/daemon:1"}}, {}, PLACE),
    "code": (
        {"git": {"url": "https://git.example.com/a.git", "commit": "5" * 40}},
        {},
        PLACE,
    ),
    "files": ({"/etc/a": {"content": "b"}}, {}, PLACE),
    "checkpoint": ({"volume": "v", "path": "ckpt"}, VOLUME, PLACE),
    "queue": ("other", QUEUED, KUEUE),
    "queuePriority": ("high", QUEUED, KUEUE),
    "topology": ({"preferred": "rack"}, QUEUED, KUEUE),
    "gang": (True, {"nodes": 2}, VOLCANO),
    "maxDuration": ("3h", {}, PLACE),
    "retries": (2, {}, PLACE),
    "gracePeriod": ("90s", {}, PLACE),
    "run": (2, {}, PLACE),
    "state": ("suspended", {}, PLACE),
    "nodeSelector": ({"zone": "a"}, {}, PLACE),
    "tolerations": ([{"key": "x", "operator": "Exists"}], {}, PLACE),
    "affinity": ({"nodeAffinity": {}}, {}, PLACE),
    "labels": ({"team": "a"}, {}, PLACE),
    "annotations": ({"owner": "b"}, {}, PLACE),
    "podLabels": ({"team": "a"}, {}, PLACE),
    "podAnnotations": ({"owner": "b"}, {}, PLACE),
    "serviceAccount": ("trainer", {}, PLACE),
    "createServiceAccount": (True, {}, PLACE),
    "serviceAccountToken": (True, {}, OPEN),
    "network": ("isolated", {}, PLACE),
    "hostNetwork": (True, {}, OPEN),
    "hostIPC": (True, {}, OPEN),
    "hostPID": (True, {}, OPEN),
    "hostUsers": (False, {}, PLACE),
    "shareProcessNamespace": (True, {}, PLACE),
    "enableServiceLinks": (False, {}, PLACE),
    "workingDir": ("/workspace", {}, PLACE),
    "livenessProbe": (PROBE, {}, PLACE),
    "readinessProbe": (PROBE, {}, PLACE),
    "startupProbe": (PROBE, {}, PLACE),
    "lifecycle": ({"preStop": PROBE}, {}, PLACE),
    "terminationMessagePath": ("/tmp/last", {}, PLACE),
    "terminationMessagePolicy": ("File", {}, PLACE),
    "metrics": ({"port": 9090}, {}, PLACE),
    "preflight": ({"shm": "8Gi"}, {}, PLACE),
    "tracking": ({"project": "llm"}, {}, PLACE),
    "security": ({"runAsUser": 1000}, {}, PLACE),
    "podPatch": ({"spec": {"hostUsers": False}}, {}, OPEN),
    "roles": ({"judge": {"entrypoint": {"script": "serve.py"}}}, {"target": "jobset"}, PLACE),
    "lattice": ({"framework": "generic"}, {"target": "trainingjob"}, PLACE),
    "lattice.priority": (5, {"target": "trainingjob"}, PLACE),
    "waivers": ({"TW111": {"reason": "because", "until": "2030-01-01"}}, {}, PLACE),
}
# What pods have as it is written, as the example of the schema says it.
EDITS = {
    **{
        field: (known.examples[0], {}, PLACE)
        for field in map(spelled, POD_FIELDS)
        if (known := contract.field("job", Pointer.of(field))).examples
    },
    **EDITS,
}
CONSTANT = {"apiVersion", "kind", "name"}  # which have no other value in the same file


def _write(root: Path, place: dict[str, Any], job: dict[str, Any]) -> None:
    repository = Repository(root)
    repository.write(
        "prod/environment.yaml", yaml.dump(place, sort_keys=False, Dumper=yaml.CSafeDumper)
    )
    repository.write("prod/jobs/llm.yaml", yaml.dump(job, sort_keys=False, Dumper=yaml.CSafeDumper))


def _recorded(
    copied: Copied, root: Path, place: dict[str, Any], job: dict[str, Any]
) -> dict[str, str]:
    """What is rendered of a job, with its record."""
    return copied(_recording(json.dumps([place, job])), root).tree()


@cache
def _recording(given: str) -> Callable[[Path], None]:
    """Return what renders a job in a folder, the same function for the same job."""

    def record(root: Path) -> None:
        other = {**BASE, "name": "other", "flags": {"lr": 1}}
        Repository(root).write("base/jobs/other.yaml", yaml.dump(other, Dumper=yaml.CSafeDumper))
        _write(root, *json.loads(given))
        done = Repository(root).run("render", "--no-cache")
        assert done.exit_code == 0, done.output

    return record


def _decided(root: Path) -> Decision:
    decision = Workspace(Folder(root)).job(JobFile("prod", "llm")).decision
    assert decision is not None
    return decision


def _effect(decision: Decision, field: str) -> Effect:
    """What was decided, in the words of the table."""
    if decision.step is Step.BEGIN:
        return Effect.NEW_RUN
    held = any(".".join((*value.path.parts, "")).startswith(f"{field}.") for value in decision.held)
    if decision.step is Step.ADJUST:
        assert not held
        return Effect.IN_PLACE if field == STATE else Effect.OPERATION
    return Effect.NEXT_RUN if held else Effect.NONE


def test_there_is_an_edit_of_every_field() -> None:
    assert EDITS.keys() | CONSTANT == {row.name for row in JOB}


@pytest.mark.parametrize("row", JOB, ids=lambda row: row.name)
def test_an_edit_of_the_own_file_does_what_the_table_says(
    tmp_path: Path, copied: Copied, row: Any
) -> None:
    if row.name in CONSTANT:
        assert row.own is (Effect.NEW_RUN if row.name == "name" else Effect.NONE)
        return
    value, job, place = EDITS[row.name]
    before = _recorded(copied, tmp_path, place, {**BASE, **job})
    _write(tmp_path, place, {**BASE, **job, **_written(row.name, value)})
    assert _effect(_decided(tmp_path), row.name) is row.own
    done = Repository(tmp_path).run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    manifests = {path: text for path, text in before.items() if "run.lock" not in path}
    after = Repository(tmp_path).tree()
    if row.own is not Effect.OPERATION:
        assert (manifests.items() <= after.items()) == (row.own is Effect.NONE)
    assert (_object(before) == _object(after)) == (row.own is not Effect.NEW_RUN)


def _written(field: str, value: Any) -> dict[str, Any]:
    """A field of a job as it is written, which may be one below another."""
    key, *below = field.split(".")
    return {key: {below[0]: value} if below else value}


def _object(files: dict[str, str]) -> str:
    name: str = json.loads(files["prod/rendered/llm/run.lock"])["object"]
    return name


@pytest.mark.parametrize("row", JOB, ids=lambda row: row.name)
def test_an_edit_of_a_shared_layer_does_what_the_table_says(
    tmp_path: Path, copied: Copied, row: Any
) -> None:
    if row.name in ("apiVersion", "kind"):
        assert row.shared is Effect.NONE
        return
    value, job, place = EDITS.get(row.name, ("other", {}, PLACE))
    own = {key: value for key, value in {**BASE, **job}.items() if key != row.name}
    shared = {**job, **BASE}.get(row.name)
    defaults = {} if shared is None or row.name == "name" else {row.name: shared}
    job = {**own, "name": "llm"}
    before = _recorded(copied, tmp_path, {**place, "defaults": defaults}, job)
    _write(tmp_path, {**place, "defaults": _written(row.name, value)}, job)
    done = Repository(tmp_path).run("render", "--no-cache")
    if row.shared is Effect.REFUSED:
        assert done.exit_code == 1
        return
    assert done.exit_code == 0, done.output
    after = Repository(tmp_path).tree()
    assert (before == after) == (row.shared is not Effect.IN_PLACE)
    if row.shared is not Effect.IN_PLACE:
        assert _effect(_decided(tmp_path), row.name) is row.shared


def _manifests(found: ResolvedJob, engine: engines.Engine) -> dict[str, str]:
    """What is rendered of a job, by whatever name it is called."""
    assert found.sources is not None
    job = replace(found.sources.job, name="llm", source="")
    texts = objects.texts(job, found.sources.environment, "llm-run", engine)
    return {file: text for file, text in texts.items() if file != VALUES_FILE}


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_an_edit_begins_a_run_where_it_changes_what_is_rendered(
    tmp_path: Path, target: str
) -> None:
    """Of every field, and for every target: where the manifests are others but for their name."""
    other = {"extends", "target", *(row.name for row in JOB if row.own is not Effect.NEW_RUN)}
    pairs, repository = {}, Repository(tmp_path)
    base = {
        **BASE,
        "security": {"runAsUser": 1},
        **yaml.load(launcher(target) or "{}", Loader=yaml.CSafeLoader),
    }
    if target == "compose":
        base = {**_without(base, "pool"), "resources": {"cpu": "8", "memory": "64Gi"}}
    for field in EDITS.keys() - other:  # those of operation are in test_operation
        value, job, place = EDITS[field]
        environment = ("plain", "queued", "open", "gangs")[
            [PLACE, KUEUE, OPEN, VOLCANO].index(place)
        ]
        repository.write(
            f"{environment}/environment.yaml", yaml.dump(place, Dumper=yaml.CSafeDumper)
        )
        specs = {"before": {**base, **job, "target": target}}
        specs["after"] = {**specs["before"], field: value}
        for when, spec in specs.items():
            name = f"{when}-{field.lower()}"
            text = yaml.dump({**spec, "name": name}, sort_keys=False, Dumper=yaml.CSafeDumper)
            repository.write(f"{environment}/jobs/{name}.yaml", text)
        pairs[field] = [JobFile(environment, f"{when}-{field.lower()}") for when in specs]
    workspace, engine = Workspace(Folder(tmp_path)), engines.engine()
    seen = set()
    for field, files in pairs.items():
        before, after = (workspace.job(file) for file in files)
        if not all(_is_supported(found) for found in (before, after)):
            continue
        assert before.sources
        assert after.sources
        surroundings = Surroundings(after.sources.spec, after.sources.environment, files[1].path)
        specs = [found.sources.spec.data for found in (before, after) if found.sources]
        same = surroundings.same(*specs)
        assert (field, same) == (field, _manifests(before, engine) == _manifests(after, engine))
        seen.add(field)
    assert len(seen) > 20


def _is_supported(found: ResolvedJob) -> bool:
    sources = found.sources
    return sources is not None and not any(
        True for _ in unsupported(sources.job, sources.environment)
    )


CHART = {
    "engine": "argocd",
    "mode": "chart",
    "chart": {"oci": "oci://ghcr.io/a/b", "version": "1.0.0"},
}
GIT_CHART = {
    "engine": "argocd",
    "mode": "chart",
    "chart": {"url": "https://git.example.com/a.git", "path": "chart", "revision": "refs/tags/v1"},
}
# Before, and after: properties of environment.yaml over those that are there.
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "namespace": ({}, {"namespace": "elsewhere"}),
    "description": ({}, {"description": "other"}),
    "kubernetes.version": ({}, {"kubernetes": {"version": "1.34"}}),
    "kubernetes.context": ({}, {"kubernetes": {"version": "1.33", "context": "gpu"}}),
    "podSecurity": ({}, {"podSecurity": "baseline"}),
    "serviceMesh": ({}, {"serviceMesh": "istio"}),
    "queueing": (KUEUE, {"queueing": "volcano"}),
    "kubernetes.features": ({}, {"kubernetes": {"version": "1.33", "features": {"ImageVolume": True}}}),
    "targets.jobset.featureGates": ({}, {"targets": {**PLACE["targets"], "jobset": {"featureGates": {"RestartJob": True}}}}),
    "kueue": (KUEUE, {"kueue": {"version": "0.17", "frameworks": ["kubeflow.org/pytorchjob"], "waitForPodsReady": {"timeout": "1h"}, "featureGates": {"TASBalancedPlacement": True}}}),
    "queues": ({}, {"queues": {"team": {"quota": 64, "description": "ours"}, "other": {}}}),
    "secrets": ({}, {"secrets": {"hf": {"description": "by hand"}}}),
    "sharedChanges": ({}, {"sharedChanges": "start"}),
    "allow": ({}, {"allow": ["hostNetwork"]}),
    "images.registries": ({}, {"images": {"registries": ["registry.example.com/"]}}),
    "images.requireDigest": ({}, {"images": {"requireDigest": False}}),
    "images.gitSync": ({}, {"images": {"gitSync": f"r.example.com/git-sync@sha256:{'6' * 64}"}}),
    "budget": ({}, {"budget": {"gpuHours": 9, "cost": 9, "owner": "a"}}),
    "currency": ({}, {"currency": "EUR"}),
    "severities": ({}, {"severities": {"TW111": "off"}}),
    "waivers": ({}, {"waivers": [{"rule": "TW111", "reason": "because", "until": "2030-01-01"}]}),
    "gitops.engine": ({}, {"gitops": {"engine": "flux"}}),
    "gitops.prune": ({}, {"gitops": {"prune": "immediate"}}),
    "gitops.mode": ({}, {"gitops": CHART}),
    "gitops.chart.oci": ({"gitops": CHART}, {"gitops": {**CHART, "chart": {"oci": "oci://ghcr.io/a/c", "version": "1.0.0"}}}),
    "gitops.chart.version": ({"gitops": CHART}, {"gitops": {**CHART, "chart": {"oci": "oci://ghcr.io/a/b", "version": "1.1.0"}}}),
    "gitops.chart.secret": ({"gitops": CHART}, {"gitops": {**CHART, "chart": {**CHART["chart"], "secret": "s"}}}),
    "gitops.chart.verify": ({"gitops": CHART}, {"gitops": {**CHART, "chart": {**CHART["chart"], "verify": {"keys": ["4AEE18F83AFDEB23"]}}}}),
    "gitops.chart.url": ({"gitops": GIT_CHART}, {"gitops": {**GIT_CHART, "chart": {**GIT_CHART["chart"], "url": "https://git.example.com/b.git"}}}),
    "gitops.chart.path": ({"gitops": GIT_CHART}, {"gitops": {**GIT_CHART, "chart": {**GIT_CHART["chart"], "path": "other"}}}),
    "gitops.chart.revision": ({"gitops": GIT_CHART}, {"gitops": {**GIT_CHART, "chart": {**GIT_CHART["chart"], "revision": "refs/tags/v2"}}}),
    "gitops.version": ({}, {"gitops": {"version": "3.5"}}),
    "gitops.name": ({}, {"gitops": {"name": "other"}}),
    "gitops.namespace": ({}, {"gitops": {"namespace": "cd"}}),
    "gitops.repository": ({}, {"gitops": {"repository": {"url": "https://git.example.com/a.git"}}}),
    "gitops.destination": ({}, {"gitops": {"destination": {"name": "gpu"}}}),
    "gitops.applications": ({}, {"gitops": {"applications": "environment"}}),
    "gitops.project": ({}, {"gitops": {"project": "ml"}}),
    "gitops.serviceAccount": ({}, {"gitops": {"serviceAccount": "flux"}}),
    "gitops.notifications": ({}, {"gitops": {"notifications": {"slack": {"on-failed": ["ml"]}}}}),
}  # fmt: skip
_POOL = PLACE["pools"]["p"]
# What is held of a pool's layers: fields of the effective spec.
LAYERS = {"pools.*.defaults": {"shm"}, "pools.*.fabric": {"env", "resources"}}
CHANGES |= {
    f"pools.*.{key}": ({}, {"pools": {**PLACE["pools"], "p": {**_POOL, key: value}}})
    for key, value in {
        "description": "other",
        "resource": "amd.com/gpu",
        "tolerations": [{"key": "x", "operator": "Exists"}],
        "nodeSelector": {"a": "z"},
        "gpusPerNode": 8,
        "capacity": 64,
        "pricePerGpuHour": 2,
        "spot": True,
        "node": {"cpu": "96", "memory": "1Ti", "ephemeralStorage": "1Ti", "nics": 4},
        "fabric": "efa-p5",
        "defaults": {"shm": "8Gi"},
    }.items()
}
OPTIONS = {
    "pytorchjob": {"version": "1.10", "restrictedInitContainer": False},
    "trainingjob": {
        "version": "0.3",
        "rendezvous": {"backend": "etcd-v2", "endpoint": "a:2379"},
    },
    "trainjob": {"version": "2.2", "runtime": "own"},
    "jobset": {
        "version": "0.12",
        "inPlaceRestart": {"image": f"r.example.com/agent@sha256:{'7' * 64}"},
    },
}
_TARGETS = PLACE["targets"]
CHANGES |= {
    f"targets.{target}.{key}": (
        {},
        {"targets": {**_TARGETS, target: {**_TARGETS[target], key: value}}},
    )
    for target, options in OPTIONS.items()
    for key, value in options.items()
}
CHANGES["targets.jobset.inPlaceRestart"] = (
    {"kubernetes": {"version": "1.36"}},
    CHANGES["targets.jobset.inPlaceRestart"][1],
)
# With a runtime of its own a job without a deadline is the same under all versions.
CHANGES["targets.trainjob.version"] = tuple(
    {"targets": {**_TARGETS, "trainjob": {"version": version, "runtime": "own"}}}
    for version in ("2.3", "2.2")
)
JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "retries": {"retries": 2},
    "cpu": {"pool": None, "resources": {"cpu": "8", "memory": "64Gi"}},
    "queue": QUEUED,
    "gang": {"gang": True},
    "torchrun": {"launcher": "torchrun"},
    "code": {"code": {"git": {"url": "https://git.example.com/a.git", "commit": "5" * 40}}},
}


def test_there_is_a_change_of_every_field_of_an_environment() -> None:
    changed = {environment_field(tuple(name.split("."))) for name in CHANGES}
    constant = {("apiVersion",), ("kind",)}
    assert [r.path for r in ENVIRONMENT if r not in changed and r.path not in constant] == []


def _is_rendered(workspace: Workspace, job: str) -> bool:
    return _is_supported(workspace.job(JobFile("prod", job)))


@pytest.fixture(scope="module")
def every_job(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Repository]:
    """Every kind of job that can be rendered in an environment, recorded in it once for all tests.

    A test writes another environment, and nothing else.
    """

    @cache
    def recorded(environment: str) -> Repository:
        repository = Repository(tmp_path_factory.mktemp("recorded"))
        repository.write("prod/environment.yaml", environment)
        paths = {}
        for target, job in product(TARGETS, JOBS):
            spec = {**BASE, **JOBS[job], "name": f"{target}-{job}", "target": target}
            written = repository.write(
                f"prod/jobs/{target}-{job}.yaml", yaml.dump(spec, Dumper=yaml.CSafeDumper)
            )
            paths[f"{target}-{job}"] = written
        workspace = Workspace(Folder(repository.root))
        for job, path in paths.items():
            if not _is_rendered(workspace, job):
                path.unlink()
        rendered = repository.run("render", "--no-cache")
        assert rendered.exit_code == 0, rendered.output
        return repository

    return recorded


@pytest.mark.parametrize("name", CHANGES)
def test_an_edit_of_an_environment_does_what_the_table_says(
    every_job: Callable[[str], Repository], name: str
) -> None:
    """To every kind of job that can be rendered in both; one of them has to show the effect."""
    row = environment_field(tuple(name.split(".")))
    assert row is not None
    here, there = CHANGES[name]
    before = {**PLACE, **here}
    repository = every_job(yaml.dump(before, Dumper=yaml.CSafeDumper))
    repository.write(
        "prod/environment.yaml", yaml.dump({**before, **there}, Dumper=yaml.CSafeDumper)
    )
    workspace = Workspace(Folder(repository.root))
    seen = set()
    for file in workspace.survey.jobs["prod"]:
        decision = workspace.job(file).decision
        if decision is not None:
            assert decision.step is Step.KEEP or name == "sharedChanges"
            held = {value.path.parts[0] for value in decision.held}
            # Without Kueue it is the pool that places the pods of a job or jobset.
            also = {"pools"} if name == "queueing" else set()
            also |= LAYERS.get(name, set())
            assert held <= {name.partition(".")[0]} | also
            seen |= {Effect.NEXT_RUN if held else Effect.NONE}
    assert (Effect.NEXT_RUN in seen) == (row.effect is Effect.NEXT_RUN)


def test_a_pool_by_another_name_is_the_same_pool(tmp_path: Path, copied: Copied) -> None:
    place = {**PLACE, "pools": {"p": _POOL, "same": _POOL}}
    before = _recorded(
        copied, tmp_path, {**place, "defaults": {"pool": "p"}}, _without(BASE, "pool")
    )
    _write(tmp_path, {**place, "defaults": {"pool": "same"}}, _without(BASE, "pool"))
    assert _decided(tmp_path).held == ()
    _write(tmp_path, place, {**BASE, "pool": "same"})
    assert _decided(tmp_path).step is Step.KEEP
    manifest = "prod/rendered/llm/pytorchjob.yaml"
    assert Repository(tmp_path).run("render").exit_code == 0
    assert Repository(tmp_path).tree()[manifest] == before[manifest]


def _without(spec: dict[str, Any], field: str) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != field}
