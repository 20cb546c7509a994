"""Fields of pods that the definition of a kind does not have: refused where they are asked for."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from repository import Repository

SCRIPT = Path(__file__).parents[2] / "scripts/pruned_fields.py"
ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.37"}
targets:
  trainingjob: {}
  pytorchjob: {version: "1.9"}
  trainjob: {version: "2.3"}
  jobset: {version: "0.12"}
  job: {}
podSecurity: privileged
allow: [podPatch]
"""
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
image: {repository: registry.example.com/train, tag: "1.0"}
entrypoint: {script: train.py}
resources: {cpu: "1", memory: 1Gi}
volumes: {data: {persistentVolumeClaim: {claimName: data}, mountPath: /data}}
"""
TERMS = "[{topologyKey: kubernetes.io/hostname, matchLabelKeys: [app]}]"
# By target and what a job says: the line of the file that says it, and what is not there.
REFUSED = {
    ("trainingjob", "lifecycle: {preStop: {sleep: {seconds: 5}}}"): (8, "lifecycle.preStop.sleep"),
    (
        "trainingjob",
        "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        f"{TERMS}}}}}",
    ): (8, "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution."),
    (
        "trainingjob",
        "topologySpread: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, "
        "nodeTaintsPolicy: Honor}]",
    ): (8, "topologySpreadConstraints.nodeTaintsPolicy"),
    (
        "trainingjob",
        "initContainers:\n  get: {image: a/a:1, security: {appArmorProfile: {type: Unconfined}}}",
    ): (9, "securityContext.appArmorProfile"),
    ("trainingjob", "podPatch: {spec: {schedulingGates: [{name: example.com/a}]}}"): (
        8,
        "schedulingGates",
    ),
    ("jobset", "podPatch: {spec: {evictionResponders: [{name: example.com/a}]}}"): (
        8,
        "evictionResponders",
    ),
}


def _findings(repository: Repository, target: str, text: str, environment: str = "") -> str:
    repository.write("prod/environment.yaml", environment or ENVIRONMENT)
    repository.write("prod/jobs/llm.yaml", f"{JOB}{text}\ntarget: {target}\n")
    return repository.run("check", "prod").output


@pytest.mark.parametrize(("where", "expected"), REFUSED.items(), ids=str)
def test_it_is_refused_at_its_line(
    repository: Repository, where: tuple[str, str], expected: tuple[int, str]
) -> None:
    line, field = expected
    found = _findings(repository, *where)
    assert f"prod/jobs/llm.yaml:{line}:" in found
    assert f"do not have {field}" in found.replace("\n", " ")
    assert "the API server would drop it" in found.replace("\n", " ")


@pytest.mark.parametrize("target", ["pytorchjob", "jobset", "job"])
def test_a_definition_that_has_the_field_takes_it(repository: Repository, target: str) -> None:
    found = _findings(repository, target, "lifecycle: {preStop: {sleep: {seconds: 5}}}")
    assert "TW021" not in found


def test_a_definition_that_is_newer_than_those_known_is_not_judged(repository: Repository) -> None:
    field = "podPatch: {spec: {evictionResponders: [{name: example.com/a}]}}"
    newer = ENVIRONMENT.replace('"0.12"', '"0.99"')
    assert "TW021" not in _findings(repository, "jobset", field, newer)


def _script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("pruned_fields", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "pruned_fields", module)
    spec.loader.exec_module(module)
    return module


def test_the_lists_are_those_of_the_definitions(
    shared: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared("crds/breezeml.ai/trainingjobs.yaml")
    for path, text in _script(monkeypatch).written().items():
        assert path.read_text("utf-8") == text, path
