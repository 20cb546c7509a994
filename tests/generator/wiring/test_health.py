"""What every state of every kind means to Argo CD and to Flux, asked of a real Lua and a real CEL.

A state is an entry in states/<kind>.yaml; those of a real operator are in ../shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import crds
import gitops_engines
from trainwright.datatypes.environment import Environment, TargetOptions
from trainwright.datatypes.finding import Location
from trainwright.documents import yamlio
from trainwright.gitops.wiring import customizations, workload
from trainwright.kinds import SERVED, TARGETS

HERE = Path(__file__).parent
GOLDEN = Path(__file__).parents[2] / "golden"
WORKLOADS = "crds/kueue.x-k8s.io/workloads.yaml"
POD = {"containers": [{"name": "node", "image": "a", "resources": {}}]}
ARGO = {"Progressing", "Healthy", "Degraded", "Suspended"}


def _load(path: Path) -> Any:
    return yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)


def _spec(kind: str) -> Any:
    """The spec of a rendered object of the kind, so that samples are whole objects."""
    if kind == "Workload":
        return {"podSets": [{"name": "main", "count": 1, "template": {"spec": POD}}]}
    path = next(iter(sorted(GOLDEN.glob(f"*/expected/*/rendered/*/{kind.lower()}.yaml"))))
    return _load(path)["spec"]


SCRIPTS = {
    **{kind.kind: (kind.api_version, kind.health.lua) for kind in SERVED.values()},
    "Workload": ("kueue.x-k8s.io/v1beta2", workload.health()),
}
FLUX = {kind.kind: kind.health for kind in SERVED.values()}  # which applies no Workload


def _managers(sample: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Who wrote what, as an API server keeps it: the engine the spec, an operator the status."""
    yield _manager("engine", "f:spec")
    if "status" in sample:
        yield {**_manager("operator", "f:status"), "operation": "Update", "subresource": "status"}


def _manager(name: str, field: str) -> dict[str, Any]:
    return {
        "manager": name,
        "operation": "Apply",
        "apiVersion": "v1",
        "time": "2026-06-01T10:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {field: {}},
    }


def _states() -> Iterator[Any]:
    for kind, (api_version, _) in SCRIPTS.items():
        for sample in _load(HERE / "states" / f"{kind.lower()}.yaml"):
            body = {
                "apiVersion": api_version,
                "kind": kind,
                "metadata": {
                    "name": "a",
                    "namespace": "training",
                    "generation": 1,
                    "labels": sample.get("labels", {}),
                    "managedFields": list(_managers(sample)),
                },
                "spec": _spec(kind) | sample.get("spec", {}),
            }
            if "status" in sample:
                body["status"] = sample["status"]
            yield pytest.param(kind, body, sample, id=f"{kind}-{sample['state'].replace(' ', '-')}")


STATES = list(_states())
RECORDED = _load(HERE / "states/recorded.yaml")


def _agrees(kind: str, body: dict[str, Any], expected: dict[str, Any]) -> None:
    shown = gitops_engines.run_lua(SCRIPTS[kind][1], body)
    assert set(shown) == {"status", "message"}
    assert shown["status"] == expected["argocd"]
    assert shown["status"] in ARGO
    assert shown["message"] == expected.get("says", shown["message"])
    assert shown["message"].strip()
    if kind in FLUX:
        assert gitops_engines.flux_status(FLUX[kind], body) == expected["flux"]


@pytest.mark.parametrize(("kind", "body", "sample"), STATES)
def test_a_state(kind: str, body: dict[str, Any], sample: dict[str, Any]) -> None:
    _agrees(kind, body, sample)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_state(name: str, shared: Callable[[str], Path]) -> None:
    body = _load(shared(f"observed/status/{name}.yaml"))
    _agrees("PyTorchJob", body, RECORDED[name])


def test_every_recording_is_among_them(shared: Callable[[str], Path]) -> None:
    folder = shared("observed/status")
    assert {path.stem for path in folder.iterdir()} == set(RECORDED)


@pytest.mark.parametrize(("kind", "body", "sample"), STATES)
def test_a_sample_is_what_the_real_kind_can_say(
    kind: str, body: dict[str, Any], sample: dict[str, Any], shared: Callable[[str], Path]
) -> None:
    if kind == "Job":
        kubernetes_validate.validate(body, "1.34", strict=True)
        return
    path = shared(WORKLOADS if kind == "Workload" else str(crds.path_of(body)))
    assert crds.errors(path, body, body["apiVersion"].rpartition("/")[2]) == []


@pytest.mark.parametrize("kind", SCRIPTS)
def test_every_outcome_is_among_the_samples(kind: str) -> None:
    outcomes = {p.values[2]["argocd"] for p in STATES if p.values[0] == kind}
    if kind == "PyTorchJob":
        outcomes |= {expected["argocd"] for expected in RECORDED.values()}
    assert outcomes == ARGO - ({"Suspended"} if kind == "TrainingJob" else set())


@pytest.mark.parametrize("kind", SCRIPTS)
@pytest.mark.parametrize("status", [None, {}, {"conditions": []}, {"conditions": [{}]}])
def test_half_an_object_is_no_error(kind: str, status: Any) -> None:
    body = {"metadata": {"name": "a"}, "spec": {}, "status": status}
    shown = gitops_engines.run_lua(SCRIPTS[kind][1], body)
    assert shown["status"] == "Progressing"


@pytest.mark.parametrize("library", ["string", "math", "io", "debug", "require('io')"])
def test_the_sandbox_has_no_more_than_argo_s(library: str) -> None:
    with pytest.raises(Exception, match=r"attempt to|not found"):
        gitops_engines.run_lua(f"return {library}.x", {})
    with pytest.raises(Exception, match="attempt to"):
        gitops_engines.run_lua("return ('a'):upper()", {})


# --- actions -------------------------------------------------------------------------------------


def _workload(*, active: bool | None, finished: bool) -> dict[str, Any]:
    conditions = [{"type": "Finished", "status": "True", "reason": "Succeeded", "message": ""}]
    spec: dict[str, Any] = {"podSets": []} | ({} if active is None else {"active": active})
    return {"spec": spec, "status": {"conditions": conditions if finished else []}}


@pytest.mark.parametrize(
    ("active", "finished", "possible"),
    [
        (None, False, {"hold"}),
        (True, False, {"hold"}),
        (False, False, {"release"}),
        (True, True, set()),
        (False, True, set()),
    ],
)
def test_a_workload_can_be_held_and_released(
    active: bool | None, finished: bool, possible: set[str]
) -> None:
    found = gitops_engines.run_lua(
        workload.discovery(), _workload(active=active, finished=finished)
    )
    assert set(found) == set(workload.ACTIONS)
    assert {name for name, action in found.items() if not action["disabled"]} == possible


@pytest.mark.parametrize(("action", "active"), [("hold", False), ("release", True)])
def test_an_action_changes_one_field(action: str, active: bool) -> None:
    body = {"kind": "Workload", "spec": {"active": not active, "podSets": [{"name": "main"}]}}
    changed = gitops_engines.run_lua(workload.action(action), body)
    assert changed == {**body, "spec": {**body["spec"], "active": active}}


def test_what_git_says_has_no_action() -> None:
    """Self-healing would take it back in the same minute."""
    settings = customizations.settings([_environment(*TARGETS)])
    having = {key for key in settings if ".actions." in key}
    assert having == {"resource.customizations.actions.kueue.x-k8s.io_Workload"}


# --- what Argo CD is given -----------------------------------------------------------------------


def _environment(*targets: str) -> Environment:
    return Environment(
        name="prod",
        namespace="training",
        place=Location("environment.yaml"),
        kubernetes_version="1.34",
        targets={name: TargetOptions(version="2.3") for name in targets},
    )


def test_argocd_cm_holds_the_scripts_that_were_tested() -> None:
    settings = customizations.settings([_environment(*TARGETS)])
    text = yamlio.dump(customizations.config_map(settings))
    read = yaml.load(text, Loader=yaml.CSafeLoader)
    assert read["data"] == settings
    for kind, (api_version, lua) in SCRIPTS.items():
        group = api_version.partition("/")[0]
        assert read["data"][f"resource.customizations.health.{group}_{kind}"] == lua
    actions = yaml.load(
        read["data"]["resource.customizations.actions.kueue.x-k8s.io_Workload"],
        Loader=yaml.CSafeLoader,
    )
    assert actions["discovery.lua"] == workload.discovery()
    assert {d["name"]: d["action.lua"] for d in actions["definitions"]} == {
        name: workload.action(name) for name in workload.ACTIONS
    }
    values = yaml.load(yamlio.dump(customizations.helm_values(settings)), Loader=yaml.CSafeLoader)
    assert values == {"configs": {"cm": settings}}
    assert text.count("\\n") == 0, "scripts are blocks that people can read"


def test_the_check_of_batch_jobs_is_replaced_only_where_runs_are_jobs() -> None:
    ours = "resource.customizations.health.batch_Job"
    others = [name for name, target in TARGETS.items() if target.kind != "Job"]
    assert ours not in customizations.settings([_environment(*others)])
    assert ours in customizations.settings([_environment(*others), _environment(*TARGETS)])
