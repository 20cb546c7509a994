"""Which ranks pods hold, by real pods of a real operator and by every golden case."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.cluster.pods import assign_slots, pod_slots, read
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import SERVED

Shared = Callable[[str], Path]
GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize(
    ("case", "labels"),
    [
        ("one-master-one-worker", ["rank 0", "rank 1"]),
        ("master-only", ["rank 0"]),
        ("nproc-gpu-word", ["rank 0", "rank 1"]),
        ("nproc-two-three-pods", ["rank 0", "rank 1", "rank 2"]),
    ],
)
def test_pods_of_a_real_operator_find_their_seats(
    shared: Shared, case: str, labels: list[str]
) -> None:
    job, *made = yaml.safe_load_all(shared(f"observed/pytorchjob/{case}.yaml").read_text())
    kind = SERVED["kubeflow.org", "PyTorchJob"]
    pods = [read(body, kind) for body in made if body["kind"] == "Pod"]
    taken = assign_slots(tuple(reversed(pods)), pod_slots(kind, job, ()))
    assert [pod.label for pod in taken] == labels
    assert {pod.container for pod in taken} == {"pytorch"}


def rendered() -> list[Path]:
    values = sorted(GOLDEN.glob("*/expected/*/rendered/*/values.yaml"))
    return [path.parent for path in values if not (path.parent / "compose.yaml").exists()]


@pytest.mark.parametrize("folder", rendered(), ids=lambda path: "/".join(path.parts[-5:]))
def test_every_golden_job_has_seats_or_says_nothing(folder: Path) -> None:
    files = [file for file in sorted(folder.glob("*.yaml")) if file.name != "values.yaml"]
    bodies = [b for file in files for b in yaml.safe_load_all(file.read_text()) if "kind" in b]
    found = [m for m in (Manifest(body=b) for b in bodies) if m.identity[:2] in SERVED]
    (manifest,) = found
    kind = SERVED[manifest.identity[:2]]
    places = pod_slots(kind, manifest.body, tuple(Manifest(body=b) for b in bodies))
    reference = manifest.body["spec"].get("runtimeRef", {}).get("kind")
    if reference == "ClusterTrainingRuntime":  # git does not have what it adds
        assert places == ()
        return
    sets = [b["spec"].get("template", b).get("spec", {}) for b in bodies if "spec" in b]
    groups = {group["name"] for it in sets for group in it.get("replicatedJobs", ())}
    roles = [seat.role if seat.role in groups - {"node"} else "" for seat in places]
    numbers = [seat.index for seat in places]
    assert numbers == [roles[:at].count(role) for at, role in enumerate(roles)]
    ranks = [rank for seat in places for rank in seat.ranks]
    assert ranks in (list(range(len(ranks))), []), "each rank once, in order"
    # The Job controller appends five letters; other operators' pods have exactly the name.
    names = [
        f"{seat.name}-x9z2k" if kind.kind in ("JobSet", "Job", "TrainJob") else seat.name
        for seat in places
    ]
    pods = [pod(name) for name in names]
    for body, role in zip(pods, roles, strict=True):
        body["metadata"]["labels"] = {"trainwright.io/role": role} if role else {}
    taken = assign_slots([read(body, kind) for body in reversed(pods)], places)
    assert [one.name for one in taken] == names
    assert all(one.seat for one in taken)


def pod(name: str, **status: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "istio-proxy"}, {"name": "main"}]}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def test_the_training_container_is_the_one_that_the_mesh_names() -> None:
    body = pod("a")
    body["metadata"]["annotations"] = {"kubectl.kubernetes.io/default-container": "main"}
    assert read(body, SERVED["batch", "Job"]).container == "main"


def test_of_two_pods_on_a_seat_the_newer_is_last() -> None:
    kind = SERVED["batch", "Job"]
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"},
        "spec": {"completionMode": "Indexed", "completions": 1, "template": {"spec": {"containers": [{"name": "c"}]}}},
    }  # fmt: skip
    old, new = pod("a-0-bbbbb"), pod("a-0-aaaaa")
    old["metadata"]["creationTimestamp"] = "2026-11-21T03:00:00Z"
    new["metadata"]["creationTimestamp"] = "2026-11-21T04:00:00Z"
    taken = assign_slots([read(new, kind), read(old, kind)], pod_slots(kind, job, ()))
    assert [one.name for one in taken] == ["a-0-bbbbb", "a-0-aaaaa"]


def test_an_evicted_pod_says_so() -> None:
    body = pod(
        "a", phase="Failed", reason="Evicted", message="The node was low on resource: memory."
    )
    ending = read(body, SERVED["batch", "Job"]).ending
    assert ending is not None
    assert (ending.reason, ending.message) == ("Evicted", "The node was low on resource: memory.")


def test_a_preempted_pod_names_the_preemption_and_not_its_exit_code() -> None:
    state = {
        "terminated": {"exitCode": 143, "reason": "Error", "finishedAt": "2026-11-21T03:00:00Z"}
    }
    body = pod(
        "a", phase="Failed", containerStatuses=[{"name": "istio-proxy", "state": state}],
        conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                     "message": "preempting to accommodate a higher priority pod"}],
    )  # fmt: skip
    ending = read(body, SERVED["batch", "Job"]).ending
    assert ending is not None
    assert ending.reason == "PreemptionByScheduler"
    assert "higher priority" in ending.message
