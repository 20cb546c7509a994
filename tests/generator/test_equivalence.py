"""The same spec is the same training on every target, but for what the targets declare."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

import crds
import remembered_engine
from normal_forms import normal_form
from trainwright.datatypes.environment import Environment, TargetOptions
from trainwright.datatypes.job import Job
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.same import Difference
from trainwright.documents import yamlio
from trainwright.documents.validation import schema
from trainwright.files.tree import Folder
from trainwright.helm import values
from trainwright.importing import equivalence
from trainwright.importing.equivalence import NormalForm
from trainwright.importing.equivalence.comparison import changed
from trainwright.importing.equivalence.comparison import values as leaves
from trainwright.kinds import TARGETS
from trainwright.kinds.capabilities import unsupported
from trainwright.kinds.target import in_group
from trainwright.render import dropped
from trainwright.runs import identity
from trainwright.specs import inventory, resolve
from trainwright.specs.load import Reader

ROOT = Path(__file__).parents[2]
MINORS = ("2.0", "2.1", "2.2", "2.3")
ENGINE = remembered_engine.engine()

# As Kubeflow Trainer ships it, without what a cluster's owner would add.
CLUSTER_RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: torch-distributed
  labels: {trainer.kubeflow.org/framework: torch}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec:
              template:
                spec:
                  containers: [{name: node, image: pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime}]
"""


@dataclass(frozen=True)
class Variant:
    """A target as some cluster has it."""

    target: str
    options: TargetOptions

    def __str__(self) -> str:
        runtime = "-of-the-cluster" if self.options.runtime else ""
        return f"{self.target}{self.options.version and f'-{self.options.version}'}{runtime}"


@dataclass(frozen=True)
class Spec:
    """A spec that ships, or that a golden case renders, with the environment it is written for."""

    title: str
    job: Job
    environment: Environment

    def on(self, variant: Variant) -> Spec | None:
        """The same spec for another target; None where that refuses it."""
        environment = replace(
            self.environment, targets={**self.environment.targets, variant.target: variant.options}
        )
        # Lattice's own settings are an instruction to one operator: the training has none of it.
        roles = tuple(replace(role, target=variant.target) for role in self.job.roles)
        job = replace(self.job, target=variant.target, roles=roles)
        refused = any(unsupported(job, environment))
        longest = f"{_name(job, environment)}{TARGETS[job.target].longest_suffix(job)}"
        if refused or len(longest) > identity.MAX_NAME:
            return None
        spec = Spec(self.title, job, environment)
        is_dropped = any(dropped.refusals(spec.manifests, job, environment, {}))
        return None if is_dropped else spec

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        job, environment = self.job, self.environment
        decided = values.build(job, environment, _name(job, environment))
        envelope = TARGETS[job.target].envelope or dict
        return tuple(
            Manifest(body=envelope(body), path=path)
            for path, text in ENGINE.render(decided, job.name, job.namespace).items()
            for body in yamlio.load_rendered(text)
        )

    @property
    def run(self) -> NormalForm:
        lent = self.environment.targets[self.job.target].runtime
        runtime = (
            (Manifest(body=yaml.load(CLUSTER_RUNTIME, Loader=yaml.CSafeLoader)),) if lent else ()
        )
        return normal_form((*self.manifests, *runtime), _name(self.job, self.environment))


def _name(job: Job, environment: Environment) -> str:
    return identity.object_name(job, identity.spec_hash(job, environment))


def _read(root: Path, title: str) -> Iterator[Spec]:
    reader = Reader(Folder(root))
    for name, files in inventory.discover(Folder(root)).jobs.items():
        loaded = reader.environment(name)
        if loaded.document is None:
            continue
        environment = resolve.environment(name, loaded.document)
        for file in files:
            spec = reader.job(file).spec
            job = resolve.job(spec, environment, file.path) if spec else None
            if isinstance(job, Job):
                yield Spec(f"{title}{file}", job, environment)


def _golden(case: Path) -> Iterator[Spec]:
    with TemporaryDirectory() as folder:
        shutil.copytree(case / "input", Path(folder) / "environments", symlinks=True)
        yield from _read(Path(folder), f"{case.name}:")


def _variants(spec: Spec) -> Iterator[Variant]:
    for target in TARGETS:
        options = spec.environment.targets.get(target, TargetOptions())
        if target != "trainjob":
            yield Variant(target, options)
            continue
        for minor in MINORS:
            yield Variant(target, TargetOptions(version=minor))
            yield Variant(target, TargetOptions(version=minor, runtime="torch-distributed"))


SPECS = [*_read(ROOT, ""), *(s for c in sorted((ROOT / "tests/golden").iterdir()) for s in _golden(c))]  # fmt: skip


@cache
def _on_targets(title: str) -> dict[Variant, Spec]:
    """The spec for every target that takes it."""
    (spec,) = (spec for spec in SPECS if spec.title == title)
    found = {variant: spec.on(variant) for variant in _variants(spec)}
    return {variant: there for variant, there in found.items() if there}


@cache
def _runs(title: str) -> dict[Variant, NormalForm]:
    return {variant: spec.run for variant, spec in _on_targets(title).items()}


TITLES = [spec.title for spec in SPECS]


def _pairs() -> Iterator[tuple[str, Variant, Variant]]:
    for title in TITLES:
        for left, right in combinations(_on_targets(title), 2):
            yield title, left, right


def _declared(spec: Spec, path: str) -> bool:
    return any(
        deviation.covers(path) and deviation.when(spec.job, spec.environment)
        for deviation in TARGETS[spec.job.target].deviations
    )


@pytest.mark.parametrize("title", TITLES)
def test_every_spec_is_the_same_training_on_every_target(title: str) -> None:
    specs, runs = _on_targets(title), _runs(title)
    undeclared = [
        f"{left} or {right}: {difference}"
        for left, right in combinations(runs, 2)
        for difference in equivalence.differences(runs[left], runs[right])
        if not _declared(specs[left], difference.path)
        and not _declared(specs[right], difference.path)
    ]
    assert undeclared == []


def test_the_proof_compares_all_targets_with_all_others() -> None:
    compared = {frozenset((left.target, right.target)) for _, left, right in _pairs()}
    expected = {frozenset(pair) for pair in combinations(TARGETS, 2)}
    assert expected <= compared
    assert {str(v) for _, *pair in _pairs() for v in pair} >= {
        f"trainjob-{minor}{lent}" for minor in MINORS for lent in ("", "-of-the-cluster")
    }
    shipped = [title for title in TITLES if ":" not in title and _on_targets(title)]
    assert len(shipped) == len(list(ROOT.glob("environments/*/jobs/*.yaml"))) - len(
        list(ROOT.glob("environments/base/jobs/*.yaml"))
    )


DEVIATIONS = [
    (target.name, deviation)
    for target in TARGETS.values()
    for deviation in target.deviations
    if deviation.fields
]


@pytest.mark.parametrize(
    ("target", "deviation"), DEVIATIONS, ids=[f"{t}-{d.about}" for t, d in DEVIATIONS]
)
def test_every_declared_deviation_is_seen(target: str, deviation: object) -> None:
    """One that never shows would only hide a difference to come."""
    for title, left, right in _pairs():
        if target not in (left.target, right.target):
            continue
        spec = _on_targets(title)[left if left.target == target else right]
        if not deviation.when(spec.job, spec.environment):  # type: ignore[attr-defined]
            continue
        runs = _runs(title)
        found = {d.path for d in equivalence.differences(runs[left], runs[right])}
        if any(deviation.covers(path) for path in found):  # type: ignore[attr-defined]
            return
    pytest.fail("no spec shows it")


def test_declared_paths_are_paths_of_the_normal_form() -> None:
    runs = [run for title in TITLES for run in _runs(title).values()]
    known = {in_group(path) for run in runs for path in leaves(run)}
    for _, deviation in DEVIATIONS:
        for field in deviation.fields:
            assert any(path.matches(field) for path in known), field


# --- validity ------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", TITLES)
def test_the_real_crds_accept_it_strictly_on_every_target(
    title: str, shared: Callable[[str], Path]
) -> None:
    for variant, spec in _on_targets(title).items():
        for manifest in spec.manifests:
            crd = crds.at_hand(manifest.body, variant.options.version or "2.3")
            assert crd is None or crds.errors(shared(crd), manifest.body) == [], str(variant)


# The first minors that know all fields of a case: claims of devices as they are now, images as
# volumes, rules by which containers restart.
_SINCE = {
    "jobset-pods-as-kubernetes-has-them": 31,
    "pytorchjob-containers-variables-and-volumes": 31,
    "jobset-restarts-in-place": 35,
}


@pytest.mark.slow
@pytest.mark.parametrize("minor", range(29, 38))
def test_every_kubernetes_version_accepts_it_on_every_target(minor: int) -> None:
    for title in TITLES:
        if minor < _SINCE.get(title.partition(":")[0], 0):
            continue
        for variant, spec in _on_targets(title).items():
            for manifest in spec.manifests:
                broken = schema.kind(manifest.kind, f"1.{minor}").explain(manifest.body)
                assert broken == (), f"{title} on {variant}"


# --- the normal form -----------------------------------------------------------------------------


def _run(title: str, target: str) -> NormalForm:
    return next(run for variant, run in _runs(title).items() if variant.target == target)


@pytest.mark.parametrize("title", TITLES)
def test_what_changes_is_found_without_a_walk_through_all_values(title: str) -> None:
    for left, right in combinations(_runs(title).values(), 2):
        before, after = leaves(left), leaves(right)
        paths = before.keys() | after.keys()
        assert changed(left, right) == sorted(p for p in paths if before.get(p) != after.get(p))


def test_annotations_change_with_what_their_json_says() -> None:
    run = _run("prod/cifar10-cnn", "pytorchjob")
    one, same, other = (replace(run, annotations={"a": text}) for text in ("[1]", "[ 1]", "[2]"))
    assert changed(one, same) == []
    assert changed(one, other) == ["/annotations/a"]
    assert changed(one, replace(run, annotations={})) == ["/annotations/a"]


def test_a_difference_is_said_once_for_all_pods() -> None:
    run = _run("prod/cifar10-cnn", "pytorchjob")
    pods = tuple(replace(pod, image="other") for pod in run.pods)
    assert [d.path for d in equivalence.differences(run, replace(run, pods=pods))] == [
        "/pods/*/image"
    ]
    one = (run.pods[0], replace(run.pods[1], image="other"), run.pods[2])
    (difference,) = equivalence.differences(run, replace(run, pods=one))
    assert equivalence.sentence(difference) == f"image of pod 1: {run.pods[1].image} → other"


_POD = """\
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec:
  template:
    spec:
      volumes: [{name: one, emptyDir: {}}, {name: two, emptyDir: {}}]
      initContainers:
        - {name: get, image: "a:1", volumeMounts: [{name: VOLUME, mountPath: /d}]}
      containers:
        - name: a
          image: a:1
          command: [python, train.py]
          env: ENV
          volumeMounts: [{name: one, mountPath: /d}]
"""
_IP = "{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}"
_URL = "{name: URL, value: $(IP):80}"


def _of(volume: str, *env: str) -> NormalForm:
    text = _POD.replace("VOLUME", volume).replace("ENV", f"[{', '.join(env)}]")
    return normal_form((Manifest(body=yaml.load(text, Loader=yaml.CSafeLoader)),))


def test_a_volume_that_containers_share_is_not_one_that_each_has() -> None:
    found = {d.path for d in equivalence.differences(_of("one"), _of("two"))}
    assert found == {
        Pointer.of("pods", 0, "mounts", "/d", "shared", 0),
        Pointer.of("pods", 0, "init", 0, "mounts", "/d", "shared", 0),
    }


def test_a_reference_that_stands_before_its_variable_is_not_met() -> None:
    met, unmet = _of("one", _IP, _URL), _of("one", _URL, _IP)
    assert [d.path for d in equivalence.differences(met, unmet)] == ["/pods/0/env/URL"]
    assert equivalence.differences(met, _of("one", _IP, _URL)) == ()


def test_json_in_an_annotation_is_what_it_says() -> None:
    """As the interfaces of GKE's networks, which every recipe lays out in another way."""
    run = _run("prod/cifar10-cnn", "pytorchjob")

    def annotated(text: str) -> NormalForm:
        pods = tuple(replace(pod, annotations={"example.com/a": text}) for pod in run.pods)
        return replace(run, pods=pods)

    def differ(one: str, other: str) -> bool:
        return bool(equivalence.differences(annotated(one), annotated(other)))

    first = '[{"interfaceName": "eth0", "network": "default"}]'
    assert not differ(first, '[\n {"network":"default","interfaceName":"eth0"}\n]\n')
    assert differ(first, '[{"interfaceName": "eth1", "network": "default"}]')
    assert differ("[a", "[ a")


def test_differences_show_no_credential() -> None:
    token = "hf_" + "aB3" * 12
    for path in (Pointer("/pods/*/env/HF_TOKEN"), Pointer("/pods/*/env/NOTE")):
        message = equivalence.sentence(Difference(path, token, None))
        assert "aB3" not in message
        assert message.endswith("*** → (unset)")
    named = Difference(Pointer("/pods/0/env/DB_PASSWORD"), None, "hunter22x")
    assert "hunter22x" not in equivalence.sentence(named)
