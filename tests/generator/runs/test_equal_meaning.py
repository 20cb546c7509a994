"""What means the same is the same run: a default that is written out, and any other spelling."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

import remembered_engine
from repository import Repository
from trainwright.datatypes.layout import JobFile
from trainwright.documents.validation import schema
from trainwright.files.tree import Folder
from trainwright.helm import values
from trainwright.kinds import TARGETS
from trainwright.kinds.capabilities import unsupported
from trainwright.render import batch, dropped, objects
from trainwright.runs import identity
from trainwright.runs.decision import Decision, Sources, Step
from trainwright.runs.workspace import Workspace
from trainwright.specs.merge import merge

Spec: TypeAlias = dict[str, Any]
Pair: TypeAlias = tuple[Spec, Spec]  # what a job says, and what is laid over it

ENGINE = remembered_engine.engine()
PLACE: Spec = {
    "apiVersion": "trainwright.io/v1alpha1",
    "kind": "Environment",
    "namespace": "training",
    "kubernetes": {"version": "1.35"},
    "podSecurity": "privileged",
    "allow": ["hostNetwork", "hostIPC", "hostPID", "serviceAccountToken", "podPatch"],
    "pools": {"p": {"resource": "nvidia.com/gpu", "nodeSelector": {"a": "b"}}},
    "targets": {
        "pytorchjob": {"version": "1.9", "restrictedInitContainer": True},
        "trainingjob": {},
        "trainjob": {"version": "2.3"},
        "jobset": {},
        "job": {},
        "rayjob": {},
        "compose": {},
    },
}
JOB: Spec = {
    "apiVersion": "trainwright.io/v1alpha1",
    "kind": "JobSpec",
    "image": {"repository": "registry.example.com/ml/train", "tag": "1.0"},
    "entrypoint": {"script": "train.py"},
    "resources": {"cpu": "8", "memory": "64Gi"},
    "volumes": {"v": {"claim": "c", "mountPath": "/v"}},
}
CODE: Spec = {"code": {"image": f"registry.example.com/code@sha256:{'5' * 64}"}}
AGENT = "registry.example.com/agent"
BESIDE = "registry.example.com/beside:1"
TORCHRUN: Spec = {"launcher": "torchrun"}


def _over(path: str, value: Any) -> Spec:
    """A value at a path of a spec."""
    first, _, rest = path.partition("/")
    return {first: _over(rest, value) if rest else value}


def _volume(source: Spec) -> Spec:
    return {"volumes": {"s": {**source, "mountPath": "/s"}}}


def _ephemeral(annotations: Spec) -> Spec:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template = {"metadata": {"annotations": annotations}, "spec": spec}
    return _volume({"ephemeral": {"volumeClaimTemplate": template}})


def _beside(field: str, more: Spec) -> Spec:
    return {field: {"beside": {"image": BESIDE, **more}}}


def _security(field: str, name: str) -> Pair:
    return _beside(field, {"security": {"runAsUser": 1}}), _beside(
        field, {"security": {name: False}}
    )


KEY = {"name": "s", "key": "k"}
EXTERNAL = {"store": "vault", "key": "a"}
SWITCHES = ("privileged", "allowPrivilegeEscalation", "readOnlyRootFilesystem")
CHECKS = ("shm", "memory", "disk", "ports", "names", "checkpoint", "collective")
# For each default of the schema what must be there, and the default written out.
JUDGE = _over(
    "roles/judge", {"entrypoint": {"script": "serve.py"}, "port": 80, "ready": {"path": "/"}}
)
OF_JOBS: dict[str, Pair] = {
    "mountPropagation": ({}, _over("volumes/v/mountPropagation", "None")),
    "recursiveReadOnly": ({}, _over("volumes/v/recursiveReadOnly", "Disabled")),
    "mount/readOnly": (
        _beside("initContainers", {"mounts": {"v": {"mountPath": "/v"}}}),
        _over("initContainers/beside/mounts/v/readOnly", False),
    ),
    "variable/divisor": (
        _over("env/A", {"resource": "limits.memory"}),
        _over("env/A/divisor", "1"),
    ),
    "variable/optional": (
        _over("env/A", {"configMap": "c", "key": "k"}),
        _over("env/A/optional", False),
    ),
    "environmentSource/optional": (
        {"envFrom": [{"configMap": "c"}]},
        {"envFrom": [{"configMap": "c", "optional": False}]},
    ),
    "volume/configMap/optional": (
        _volume({"configMap": {"name": "c"}}),
        _over("volumes/s/configMap/optional", False),
    ),
    "volume/secret/optional": (
        _volume({"secret": {"secretName": "c"}}),
        _over("volumes/s/secret/optional", False),
    ),
    "volume/nfs/readOnly": (
        _volume({"nfs": {"server": "s", "path": "/"}}),
        _over("volumes/s/nfs/readOnly", False),
    ),
    "volume/persistentVolumeClaim/readOnly": (
        _volume({"persistentVolumeClaim": {"claimName": "d"}}),
        _over("volumes/s/persistentVolumeClaim/readOnly", False),
    ),
    "volume/readOnly": ({}, _over("volumes/v/readOnly", False)),
    "mountOfVolume/readOnly": (
        {"volumes": {"v": {"mounts": [{"mountPath": "/w"}]}}},
        {"volumes": {"v": {"mounts": [{"mountPath": "/w", "readOnly": False}]}}},
    ),
    **{
        f"{kind}/secrets/*/optional": (
            _beside(field, {"secrets": {"A": KEY}}),
            _over(f"{field}/beside/secrets/A/optional", False),
        )
        for kind, field in (("initContainer", "initContainers"), ("sidecar", "sidecars"))
    },
    **{
        f"{kind}/security/{name}": _security(field, name)
        for kind, field in (("initContainer", "initContainers"), ("sidecar", "sidecars"))
        for name in SWITCHES
    },
    "fields/target": ({}, {"target": "pytorchjob"}),
    "fields/image/pullPolicy": ({}, _over("image/pullPolicy", "IfNotPresent")),
    "fields/launcher": ({}, {"launcher": "trainwright"}),
    "fields/procsPerNode": ({}, {"procsPerNode": "auto"}),
    "fields/backend": ({}, {"backend": "auto"}),
    "fields/resources/gpu": ({}, _over("resources/gpu", 0)),
    "fields/shm": ({}, {"shm": "auto"}),
    "fields/secrets/*/optional": ({"secrets": {"A": KEY}}, _over("secrets/A/optional", False)),
    "fields/secrets/*/external/kind": (
        {"secrets": {"A": {"external": EXTERNAL}}},
        _over("secrets/A/external/kind", "SecretStore"),
    ),
    "fields/code/mountPath": (CODE, _over("code/mountPath", "/code")),
    "fields/gang": ({}, {"gang": False}),
    "fields/retries": ({}, {"retries": 0}),
    "fields/gracePeriod": ({}, {"gracePeriod": "60s"}),
    "fields/run": ({}, {"run": 1}),
    "fields/state": ({}, {"state": "active"}),
    "fields/createServiceAccount": ({}, {"createServiceAccount": False}),
    "fields/serviceAccountToken": ({}, {"serviceAccountToken": False}),
    "fields/network": ({}, {"network": "open"}),
    "fields/hostNetwork": ({}, {"hostNetwork": False}),
    "fields/hostIPC": ({}, {"hostIPC": False}),
    "fields/hostPID": ({}, {"hostPID": False}),
    "fields/hostUsers": ({}, {"hostUsers": True}),
    "fields/shareProcessNamespace": ({}, {"shareProcessNamespace": False}),
    "fields/enableServiceLinks": ({}, {"enableServiceLinks": True}),
    "fields/terminationMessagePolicy": (
        {},
        {"terminationMessagePolicy": "FallbackToLogsOnError"},
    ),
    **{
        f"fields/preflight/{name}": (
            {},
            _over(f"preflight/{name}", name in CHECKS[0::2][:2] + CHECKS[5:6]),
        )
        for name in CHECKS
    },
    **{f"fields/security/{name}": ({}, _over(f"security/{name}", False)) for name in SWITCHES},
    "role/nodes": (JUDGE, _over("roles/judge/nodes", 1)),
    "role/ready/within": (JUDGE, _over("roles/judge/ready/within", "10m")),
    "fields/lattice/framework": ({}, _over("lattice/framework", "pytorch")),
    "fields/lattice/priority": ({}, _over("lattice/priority", 0)),
}
# Other words for the same, with one name and the same bytes.
SPELLINGS: dict[str, Pair] = {
    "the mode that files have": (
        _over("files", {"/etc/a": {"content": "b"}}),
        {"files": {"/etc/a": {"mode": "0644"}}},
    ),
    "where code is": (CODE, {"workingDir": "/code"}),
    "where code is mounted": (
        {"code": {**CODE["code"], "mountPath": "/src"}},
        {"workingDir": "/src"},
    ),
    "an option with underscores": (
        {**TORCHRUN, "launcherOptions": {"max-restarts": 3}},
        {"launcherOptions": {"max-restarts": None, "max_restarts": 3}},
    ),
    "an option as text": (
        {**TORCHRUN, "launcherOptions": {"max-restarts": 3, "monitor-interval": 0.5}},
        {"launcherOptions": {"max-restarts": "3", "monitor-interval": "0.5"}},
    ),
    "an option as a number": (
        {**TORCHRUN, "launcherOptions": {"tee": "3"}},
        {"launcherOptions": {"tee": 3}},
    ),
    "a switch that is off": (TORCHRUN, {"launcherOptions": {"run-path": False}}),
    "a list of one mount": (
        {"volumes": {"v": {"claim": "c", "mountPath": None, "mounts": [{"mountPath": "/v"}]}}},
        {"volumes": {"v": {"mountPath": "/v", "mounts": None}}},
    ),
    "the first of several mounts": (
        _over("volumes/v/mounts", [{"mountPath": "/w"}]),
        {
            "volumes": {
                "v": {"mountPath": None, "mounts": [{"mountPath": "/v"}, {"mountPath": "/w"}]}
            }
        },
    ),
    "a mount by its path": (
        _beside("initContainers", {"mounts": {"v": "/v"}}),
        _over("initContainers/beside/mounts/v", [{"mountPath": "/v", "mountPropagation": "None"}]),
    ),
    "an init container that goes on": (
        _beside("sidecars", {}),
        {
            "sidecars": None,
            "initContainers": {"beside": {"image": BESIDE, "restartPolicy": "Always"}},
        },
    ),
    "init containers of which the last goes on": (
        {"initContainers": {"first": {"image": BESIDE}}, **_beside("sidecars", {})},
        {
            "sidecars": None,
            "initContainers": {"beside": {"image": BESIDE, "restartPolicy": "Always"}},
        },
    ),
    "a number as text in flags": ({"flags": {"epochs": 3}}, {"flags": {"epochs": "3"}}),
    "a form of flags": (
        {"flags": {"a": True}},
        {"flagStyle": {"form": "--k=v", "booleans": "switch"}},
    ),
    "recovery of an elastic job": (
        {"elastic": {"minNodes": 1, "maxNodes": 2}},
        _over("elastic/recovery", "restart"),
    ),
    "the nodes of an elastic job": ({"elastic": {"minNodes": 1, "maxNodes": 2}}, {"nodes": 2}),
    "one node": ({}, {"nodes": 1}),
    "minutes": ({"gracePeriod": "120s"}, {"gracePeriod": "2m"}),
    "thousandths": ({}, _over("resources/cpu", "8000m")),
    "the limit that memory has": ({}, _over("resources/limits/memory", "64Gi")),
    "the limit that a disk has": (
        _over("resources/ephemeralStorage", "8Gi"),
        _over("resources/limits/ephemeralStorage", "8Gi"),
    ),
    "a limit in other units": ({}, _over("resources/limits/memory", "65536Mi")),
    "a request and a limit in other units": (
        {},
        {
            "resources": {
                "memory": None,
                "requests": {"memory": "64Gi"},
                "limits": {"memory": "65536Mi"},
            }
        },
    ),
    "a repeated flag as a list": (
        {"flags": {"x": {"repeat": [1, 2]}}},
        {"flags": {"x": [1, 2]}},
    ),
    "a list as a repeated flag": (
        {"flags": {"x": [1, 2]}},
        {"flags": {"x": {"repeat": [1, 2]}}},
    ),
    "an empty list": ({"flags": {"x": {"repeat": []}}}, {"flags": {"x": []}}),
    "a boolean without its form": (
        {"flagStyle": {"booleans": "value"}, "flags": {"x": {"value": False}}},
        {"flags": {"x": False}},
    ),
    "a boolean with its form": (
        {"flagStyle": {"booleans": "value"}, "flags": {"x": False}},
        {"flags": {"x": {"value": False}}},
    ),
    "a secret by its name": (
        _volume({"secret": {"secretName": "s"}}),
        _over("volumes/s/secret", "s"),
    ),
    "a secret with its field": (
        _volume({"secret": "s"}),
        _over("volumes/s/secret", {"secretName": "s"}),
    ),
    "checks that are made anyway": (
        {"preflight": {"ports": True}},
        {"preflight": {"shm": True, "names": False}},
    ),
}
# What comes to the same only with the rest of the job: the run stays, another job is called so.
DERIVED: dict[str, Pair] = {
    "half of the memory": ({}, {"shm": "32Gi"}),
    "an amount of shared memory": ({"shm": "8Gi"}, {"shm": "8192Mi"}),
    "the size of a claim": (
        {"volumes": {"n": {"create": {"size": "1Ti"}, "mountPath": "/n"}}},
        _over("volumes/n/create/size", "1024Gi"),
    ),
    "the size of a folder": (
        _volume({"emptyDir": {"sizeLimit": "1Gi"}}),
        _over("volumes/s/emptyDir/sizeLimit", "1024Mi"),
    ),
    "the size of an ephemeral volume": (
        _ephemeral({}),
        _over("volumes/s/ephemeral/volumeClaimTemplate/spec/resources/requests/storage", "1024Mi"),
    ),
    "decimal numbers in another spelling and form": (
        {"flags": {"x": [0.1, 0.2], "y": 0.5, "z": 1.5}},
        {"flags": {"x": {"repeat": ["1e-1", ".2"]}, "y": "5e-1", "z": "1.5"}},
    ),
    "a decimal number in the only item of a list": (
        _over("flags/x", [0.1]),
        _over("flags/x", "1e-1"),
    ),
    "how a claim of one node is mounted": (
        {"volumes": {"n": {"create": {"size": "1Ti"}, "mountPath": "/n"}}},
        _over("volumes/n/create/accessModes", ["ReadWriteOnce"]),
    ),
    "an amount beside": (
        _beside("initContainers", {"resources": {"requests": {"cpu": "100m"}}}),
        _over("initContainers/beside/resources/requests/cpu", "0.1"),
    ),
    "an amount beside as a number": (
        _beside("initContainers", {"resources": {"requests": {"cpu": 1}, "limits": {"cpu": "2"}}}),
        _over("initContainers/beside/resources", {"requests": {"cpu": "1"}, "limits": {"cpu": 2}}),
    ),
    "the commit of the code": (
        {
            "code": {"git": {"url": "https://git.example.com/a", "commit": "5" * 40}},
            "tracking": {"project": "llm"},
        },
        _over("tracking/commit", "5" * 40),
    ),
    "the name servers of a host's network": (
        {"hostNetwork": True},
        {"dnsPolicy": "ClusterFirstWithHostNet"},
    ),
    "two at once": ({}, {"shm": "32Gi", "resources": {"cpu": "8000m"}, "nodes": 1}),
}
# The same amounts, of which each manifest keeps its own spelling.
OTHER_UNITS = {
    "thousandths",
    "a limit in other units",
    "a request and a limit in other units",
}
CASES = {**OF_JOBS, **SPELLINGS, **DERIVED}


def _defaults(of: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Where a schema says what is meant where nothing is written."""
    if not isinstance(of, Mapping):
        return
    if "default" in of:
        yield "/".join(path)
    for name, part in of.get("properties", {}).items():
        yield from _defaults(part, (*path, name))
    yield from _defaults(of.get("additionalProperties"), (*path, "*"))
    for word in ("oneOf", "anyOf", "allOf"):
        for part in of.get(word, ()):
            yield from _defaults(part, path)


def _schema(name: str) -> Mapping[str, Any]:
    read: Mapping[str, Any] = json.loads((schema.FOLDER / f"{name}.schema.json").read_text())
    return read


# What must be in environment.yaml for each of its defaults, and the default written out.
OF_ENVIRONMENTS: dict[str, Spec] = {
    "targets/pytorchjob/restrictedInitContainer": _over(
        "targets/pytorchjob/restrictedInitContainer", False
    ),
    "targets/jobset/inPlaceRestart/serviceAccount": _over(
        "targets/jobset/inPlaceRestart/serviceAccount", "jobset-in-place-restart"
    ),
    "kueue/waitForPodsReady/enable": _over("kueue/waitForPodsReady/enable", True),
    "queues/*/multiKueue": _over("queues/team/multiKueue", False),
    "currency": _over("currency", "USD"),
    "gitops/engine": _over("gitops/engine", "argocd"),
    "gitops/mode": _over("gitops/mode", "rendered"),
    "gitops/prune": _over("gitops/prune", "confirm"),
    "gitops/repository/revision": _over("gitops/repository/revision", "main"),
    "gitops/applications": _over("gitops/applications", "job"),
    "images/requireDigest": _over("images/requireDigest", False),
    "pools/*/spot": _over("pools/p/spot", False),
    "queueing": {"queueing": "none"},
    "podSecurity": {"podSecurity": "restricted"},
    "serviceMesh": {"serviceMesh": "none"},
    "sharedChanges": {"sharedChanges": "hold"},
}


def test_each_default_of_a_job_is_here() -> None:
    parts = _schema("job")["$defs"]
    assert {path for name, part in parts.items() for path in _defaults(part, (name,))} == set(
        OF_JOBS
    )


def test_each_default_of_an_environment_is_here() -> None:
    assert set(_defaults(_schema("environment"))) == set(OF_ENVIRONMENTS)


def _name(case: str) -> str:
    return f"case-{[*CASES].index(case)}"


def _file(case: str) -> JobFile:
    return JobFile("prod", _name(case))


def _is_refused(found: Sources) -> bool:
    job, place = found.job, found.environment
    if any(True for _ in unsupported(job, place)):
        return True
    manifests = objects.manifests(objects.texts(job, place, job.name, ENGINE), job.target)
    return any(True for _ in dropped.refusals(manifests, job, place, {}))


def _started(target: str) -> Spec:
    return dict(zip(("launcher",), TARGETS[target].launchers, strict=False))


def _written(repository: Repository, target: str, cases: Collection[str]) -> dict[str, Spec]:
    """Write the cases that the target can render, and return each as it is edited later."""
    repository.write("prod/environment.yaml", yaml.dump(PLACE, Dumper=yaml.CSafeDumper))
    after = {}
    for case in cases:
        before, over = CASES[case]
        job = merge({**JOB, "target": target, "name": _name(case), **_started(target)}, before)
        _write(repository, case, job)
        after[case] = merge(job, over)
    workspace = Workspace(Folder(repository.root))
    for case in cases:
        found = workspace.job(_file(case)).sources
        if found is None or _is_refused(found):
            (repository.root / _file(case).path).unlink()
            after.pop(case)
    return after


def _write(repository: Repository, case: str, job: Spec) -> None:
    text = yaml.dump(job, sort_keys=False, Dumper=yaml.CSafeDumper)
    repository.write(f"prod/jobs/{_name(case)}.yaml", text)


def test_each_case_is_rendered_on_some_target(tmp_path: Path) -> None:
    left = {*CASES}
    for target in TARGETS:
        left -= _written(Repository(tmp_path / target), target, left).keys()
    assert left == set()


@pytest.mark.parametrize("target", TARGETS)
def test_what_means_the_same_begins_no_run(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "processors", lambda: 1)  # here, where Helm has rendered each
    repository = Repository(tmp_path)
    cases = _written(repository, target, CASES)
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    before = Workspace(Folder(tmp_path))
    sources = {case: before.job(_file(case)).sources for case in cases}
    for case, job in cases.items():
        _write(repository, case, job)
    after = Workspace(Folder(tmp_path))
    problems = {}
    for case, was in sources.items():
        found = after.job(_file(case))
        if was is None or found.sources is None or found.decision is None:
            problems[case] = ["cannot be rendered", *found.findings]
        elif case == "fields/target" and target != "pytorchjob":
            continue
        elif not _is_refused(found.sources):
            problems[case] = [*_differing(case, was, found.sources, found.decision)]
    assert problems == {case: [] for case in problems}
    assert problems


def _differing(case: str, was: Sources, now: Sources, decision: Decision) -> Iterator[object]:
    """Yield what is not the same of a run and of the job as it is written since."""
    if decision.step != Step.KEEP:
        yield decision.step
    yield from decision.held
    if case in DERIVED:
        return
    if identity.spec_hash(was.job, was.environment) != identity.spec_hash(now.job, now.environment):
        yield "hash"
    if case not in OTHER_UNITS:
        first, second = (values.build(of.job, of.environment, "run") for of in (was, now))
        if first != second:
            yield first, second


# --- another meaning ------------------------------------------------------------------------------


def _driver(name: str, value: str) -> Spec:
    return _volume({"csi": {"driver": "csi.example.com", "volumeAttributes": {name: value}}})


RATE: Spec = _over("flags/lr", 0.1)
# What reads much alike and is another run.
OTHERS: dict[str, Pair] = {
    "a flag beside attributes called limits": (_driver("limits", "10"), RATE),
    "a flag beside attributes called requests": (_driver("requests", "10"), RATE),
    "a flag beside annotations called limits": (_ephemeral({"limits": "10"}), RATE),
    "an attribute called size": (_driver("size", "1.10"), _driver("size", "1.1")),
    "an attribute called sizeLimit": (_driver("sizeLimit", "1000m"), _driver("sizeLimit", "1")),
    "an annotation called size": (_ephemeral({"size": "1.10"}), _ephemeral({"size": "1.1"})),
    "the name of the run": ({"flags": {"name": "run"}}, {"flags": {"name": "${{ run.name }}"}}),
    "a name in place of that of the run": (
        {"env": {"NAME": "a-${{ run.name }}"}},
        {"env": {"NAME": "a-run"}},
    ),
    "a version as text": (_over("flags/py", "3.10"), _over("flags/py", "3.1")),
    "another version as text": (_over("flags/py", "3.1"), _over("flags/py", "3.10")),
    "a version as text in a list": (
        _over("flags/py", {"words": ["3.10", "3.9"]}),
        _over("flags/py", {"words": ["3.1", "3.9"]}),
    ),
    "another list": (_over("flags/x", {"repeat": [1, 2]}), _over("flags/x", [1, 3])),
    "another secret": (
        _volume({"secret": {"secretName": "s"}}),
        _over("volumes/s/secret", "t"),
    ),
    "a lower limit": (_over("resources/limits/memory", "65Gi"), _over("resources/memory", "63Gi")),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_means_something_else_begins_a_run(case: str, tmp_path: Path) -> None:
    before, over = OTHERS[case]
    repository = Repository(tmp_path)
    repository.write("prod/environment.yaml", yaml.dump(PLACE, Dumper=yaml.CSafeDumper))
    job = merge({**JOB, "target": "job", "name": "llm"}, before)
    repository.write("prod/jobs/llm.yaml", yaml.dump(job, sort_keys=False, Dumper=yaml.CSafeDumper))
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    repository.write(
        "prod/jobs/llm.yaml", yaml.dump(merge(job, over), sort_keys=False, Dumper=yaml.CSafeDumper)
    )
    found = Workspace(Folder(tmp_path)).job(JobFile("prod", "llm"))
    assert found.decision is not None, found.findings
    assert found.decision.step == Step.BEGIN


def test_what_a_shorter_form_hid_of_a_base_comes_with_the_longer_one(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.write("prod/environment.yaml", yaml.dump(PLACE, Dumper=yaml.CSafeDumper))
    head = {key: JOB[key] for key in ("apiVersion", "kind")}
    optional = _volume({"secret": {"secretName": "s", "optional": True}})
    repository.write(
        "base/jobs/half.yaml",
        yaml.dump({**head, "name": "half", **optional}, Dumper=yaml.CSafeDumper),
    )
    job = {**JOB, "target": "job", "name": "llm", "extends": "base/half"}
    repository.write(
        "prod/jobs/llm.yaml",
        yaml.dump(merge(job, _volume({"secret": "s"})), Dumper=yaml.CSafeDumper),
    )
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    longer = merge(job, _volume({"secret": {"secretName": "s"}}))
    repository.write("prod/jobs/llm.yaml", yaml.dump(longer, Dumper=yaml.CSafeDumper))
    found = Workspace(Folder(tmp_path)).job(JobFile("prod", "llm"))
    assert found.decision is not None, found.findings
    assert found.decision.step == Step.BEGIN


# --- shared files ---------------------------------------------------------------------------------

RESTRICTED = {
    **PLACE,
    "podSecurity": None,
    "targets": {
        **PLACE["targets"],
        "pytorchjob": {"version": "1.10"},
        "jobset": {"inPlaceRestart": {"image": f"{AGENT}@sha256:{'6' * 64}"}},
    },
}


@pytest.mark.parametrize("start", [False, True], ids=["hold", "start"])
def test_a_default_in_a_shared_file_is_behind_nothing(tmp_path: Path, start: bool) -> None:
    """Neither of environment.yaml itself, nor of the jobs below it."""
    place: Spec = {**RESTRICTED, **({"sharedChanges": "start"} if start else {})}
    repository = Repository(tmp_path)
    repository.write("prod/environment.yaml", yaml.dump(place, Dumper=yaml.CSafeDumper))
    for target in TARGETS:
        job = {**JOB, **_started(target), "target": target, "name": target}
        job |= {"security": {"runAsUser": 1}}
        job |= {"retries": 2} if target == "jobset" else {}  # which the agents are for
        repository.write(f"prod/jobs/{target}.yaml", yaml.dump(job, Dumper=yaml.CSafeDumper))
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    alone = {name for name, (before, _) in OF_JOBS.items() if not before} - {"fields/target"}
    of_jobs: Spec = {}
    for name in alone:
        over = OF_JOBS[name][1]
        of_jobs = merge(of_jobs, {"defaults": over})
    for over in [*OF_ENVIRONMENTS.values(), of_jobs]:
        if start and "sharedChanges" in over:
            continue
        repository.write(
            "prod/environment.yaml", yaml.dump(merge(place, over), Dumper=yaml.CSafeDumper)
        )
        workspace = Workspace(Folder(tmp_path))
        for file in workspace.survey.jobs["prod"]:
            found = workspace.job(file)
            assert found.decision is not None, found.findings
            assert (file, over, found.decision.step) == (file, over, Step.KEEP)
            assert found.decision.held == ()
