"""What a plan says of an environment's own objects: what follows for jobs, and what stays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import git_repository
from repository import Copied, Repository

HEAD = "metadata: {name: NAME, namespace: training}\n"
RBAC = "rbac.authorization.k8s.io"
OBJECTS = {
    "quota": f"apiVersion: v1\nkind: ResourceQuota\n{HEAD}"
    'spec: {hard: {requests.nvidia.com/gpu: "64", pods: "9"}}\n',
    "range": f"apiVersion: v1\nkind: LimitRange\n{HEAD}"
    "spec: {limits: [{type: Container, max: {cpu: 8}}]}\n",
    "policy": f"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n{HEAD}"
    "spec: {podSelector: {}, policyTypes: [Egress]}\n",
    "role": f"apiVersion: {RBAC}/v1\nkind: Role\n{HEAD}"
    "rules: [{apiGroups: [''], resources: [pods], verbs: [get, delete]}]\n",
    "binding": f"apiVersion: {RBAC}/v1\nkind: RoleBinding\n{HEAD}"
    f"roleRef: {{apiGroup: {RBAC}, kind: Role, name: role}}\n"
    "subjects: [{kind: ServiceAccount, name: tuner, namespace: training}]\n",
    "team": f"apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\n{HEAD}"
    "spec: {clusterQueue: a}\n",
    "data": f"apiVersion: v1\nkind: PersistentVolumeClaim\n{HEAD}"
    "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n",
    "plain": f"apiVersion: v1\nkind: ConfigMap\n{HEAD}",
}
POOLS = """\
pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8}}
queueing: kueue
queues: {team: {}}
gitops: {prune: PRUNE}
"""
LLM = "pool: h100\nserviceAccount: tuner\nvolumes: {d: {claim: data, mountPath: /d}}\n"
QUEUED, SAVES = f"{LLM}queue: team\n", f"{LLM}checkpoint: {{volume: d, path: ck}}\n"


def _prod(folder: Path, prune: str, llm: str = QUEUED) -> None:
    made = Repository(git_repository.init(folder))
    made.environment("prod", POOLS.replace("PRUNE", prune))
    path = made.job("prod/llm", llm)
    path.write_text(path.read_text().replace("memory: 1Gi}", "memory: 1Gi, gpu: 8}"))
    made.job("prod/idle", "state: suspended\n")
    for name, text in OBJECTS.items():
        made.write(f"prod/objects/{name}.yaml", text.replace("NAME", name))
    done = made.run("render")
    assert done.exit_code == 0, done.output
    git_repository.commit(made.root)


def _immediate(folder: Path) -> None:
    _prod(folder, "immediate")


def _confirm(folder: Path) -> None:
    _prod(folder, "confirm")


def _immediate_saving(folder: Path) -> None:
    _prod(folder, "immediate", SAVES)


def _confirm_saving(folder: Path) -> None:
    _prod(folder, "confirm", SAVES)


def told(repository: Repository, until: str = "") -> list[str]:
    """What a plan says of the only object that changes; each format has it."""
    done = repository.run("plan", "--against", "HEAD", "-o", "json")
    (change,) = json.loads(done.stdout)["plan"]["objects"]
    effects: list[str] = change["effects"]
    assert change["until"] == until
    text = repository.run("plan", "--against", "HEAD").stdout
    assert all(f"\n  {effect}\n" in text for effect in effects)
    return effects


IMMUTABLE = "the API server refuses it: the field is immutable"
STAYS = "pods that run stay as they are"
REFUSED = (
    f"pods beyond it are refused when they are made, those in place of failed ones too; {STAYS}"
)


@pytest.mark.parametrize(
    ("name", "old", "new", "effects"),
    [
        (
            "quota",
            '"64"',
            '"8"',
            [
                f"allows less (requests.nvidia.com/gpu 64 → 8): {REFUSED}",
                "active runs request 16 nvidia.com/gpu, more than that: prod/llm",
            ],
        ),
        ("quota", '"64"', '"65"', []),
        ("quota", '"64"', '"16"', []),  # all that its runs request
        ("quota", 'pods: "9"', 'pods: "2"', []),
        (
            "quota",
            'pods: "9"',
            'pods: "1", requests.cpu: 2, memory: 1Gi',
            [
                "allows less (pods 9 → 1, requests.cpu (no limit) → 2, memory (no limit) → 1Gi): "
                f"{REFUSED}",
                "active runs have 2 pods, more than that: prod/llm",
                "active runs request 2 cpu: prod/llm",
                "active runs request 2Gi memory, more than that: prod/llm",
            ],
        ),
        (
            "quota",
            'pods: "9"',
            'pods: "9", services: "1"',
            [
                f"allows less (services (no limit) → 1): {REFUSED}",
            ],
        ),
        (
            "range",
            "cpu: 8",
            "cpu: 4",
            [f"new pods get its defaults; {STAYS}"],
        ),
        (
            "range",
            "cpu: 8",
            "nvidia.com/gpu: 4",
            [
                f"new pods get its defaults; {STAYS}",
                "new pods of these are refused, those in place of failed ones too: prod/llm",
            ],
        ),
        (
            "range",
            "max: {cpu: 8}",
            "max: {memory: 2Gi}, min: {cpu: 2}",
            [
                f"new pods get its defaults; {STAYS}",
                "new pods of these are refused, those in place of failed ones too: prod/llm",
            ],
        ),
        (
            "policy",
            "Egress",
            "Ingress",
            [
                "holds for all pods of the namespace, those that run too, which lose what no "
                "policy allows: prod/llm"
            ],
        ),
        (
            "role",
            "get, delete",
            "get",
            [
                "no longer allows delete of pods",
                "pods of ServiceAccount/tuner lose that at once: prod/llm",
            ],
        ),
        ("role", "get, delete", "get, delete, list", []),
        (
            "binding",
            "name: tuner",
            "name: other",
            ["pods of ServiceAccount/tuner lose that at once: prod/llm"],
        ),
        (
            "binding",
            "kind: Role,",
            "kind: ClusterRole,",
            [f"{IMMUTABLE} (roleRef.kind Role → ClusterRole), and the sync fails"],
        ),
        (
            "team",
            "clusterQueue: a",
            "clusterQueue: b",
            [f"{IMMUTABLE} (spec.clusterQueue a → b), and the sync fails"],
        ),
        (
            "team",
            "clusterQueue: a",
            "clusterQueue: a, stopPolicy: HoldAndDrain",
            ["admits no run any more, and evicts those that are admitted: prod/llm"],
        ),
        ("plain", "name: plain,", "labels: {a: b}, name: plain,", []),
    ],
)
def test_what_follows_from_an_edit(
    name: str, old: str, new: str, effects: list[str], copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_confirm, tmp_path / "clone")
    path = prod.root / f"environments/prod/objects/{name}.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert told(prod) == effects


TERMINATING = (
    "it stays Terminating until the pods that mount it have ended, then its data may go, and no "
    "new pod starts without it"
)


@pytest.mark.parametrize(
    ("name", "kind", "effects"),
    [
        ("team", "localqueue", ["what waits in it is not admitted any more: prod/llm"]),
        (
            "data",
            "persistentvolumeclaim",
            [f"{TERMINATING}: prod/llm"],
        ),
        (
            "policy",
            "networkpolicy",
            ["no longer holds for all pods of the namespace, those that run too: prod/llm"],
        ),
        ("quota", "resourcequota", []),
    ],
)
@pytest.mark.parametrize("prune", ["confirm", "immediate"])
def test_what_follows_from_a_removal(
    name: str, kind: str, effects: list[str], prune: str, copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_immediate if prune == "immediate" else _confirm, tmp_path / "clone")
    (prod.root / f"environments/prod/objects/{name}.yaml").unlink()
    until = f"`kubectl --namespace training delete {kind}/{name}`"
    if prune == "immediate":
        assert told(prod) == effects
        return
    later = [f"once it is deleted: {effect}" for effect in effects]
    if name == "data":
        later = ["do not delete it before the runs that mount it have ended: prod/llm"]
    assert told(prod, until) == later


FURTHER = "further runs of these are not admitted without it: "
WAITS = "what waits in it is not admitted any more: "
LAB = POOLS.replace("PRUNE", "immediate").replace("h100:", "pool:")


def _job(prod: Repository, name: str, extra: str) -> None:
    path = prod.job(name, extra)
    path.write_text(path.read_text().replace("memory: 1Gi}", "memory: 1Gi, gpu: 8}"))


@pytest.mark.parametrize(
    ("namespace", "destination", "llm", "lab", "effects"),
    [
        ("training", "", "queue: other", "queue: other", []),
        ("training", "", "queue: team", "queue: team", [f"{WAITS}prod/llm, lab/llm"]),
        ("training", "", "queue: other", "queue: team", [f"{WAITS}lab/llm"]),
        ("lab", "", "queue: other", "queue: team", []),
        ("training", "\n  destination: {name: b}", "queue: other", "queue: team", []),
        ("training", "", "queue: other", "queue: team\nstate: cancelled", []),
    ],
)
def test_a_queue_that_goes_has_the_jobs_of_all_environments_there(
    namespace: str,
    destination: str,
    llm: str,
    lab: str,
    effects: list[str],
    copied: Copied,
    tmp_path: Path,
) -> None:
    prod = copied(_immediate, tmp_path / "clone")
    _edit(prod, "environment.yaml", "team: {}", "team: {}, other: {}")
    _edit(prod, "jobs/llm.yaml", "queue: team", llm)
    prod.environment("lab", LAB.replace("team: {}", "team: {}, other: {}"))
    prod.edit("lab/environment.yaml", "namespace: training", f"namespace: {namespace}")
    prod.edit(
        "lab/environment.yaml", "gitops: {prune: immediate}", f"gitops:{destination or ' {}'}"
    )
    _job(prod, "lab/llm", f"pool: pool\n{lab}\n")
    _rendered(prod)
    (prod.root / "environments/prod/objects/team.yaml").unlink()
    assert told(prod) == effects
    assert ("affects runs" in _first(prod)) is bool(effects)


def test_a_queue_that_goes_has_the_jobs_whose_next_run_is_in_it(
    copied: Copied, tmp_path: Path
) -> None:
    """A run that began without a queue takes none until another one begins."""
    prod = copied(_immediate, tmp_path / "clone")
    _job(prod, "prod/vit", "pool: h100\n")
    _rendered(prod)
    _edit(prod, "jobs/vit.yaml", "pool: h100", "pool: h100\nqueue: team")
    _rendered(prod)
    (prod.root / "environments/prod/objects/team.yaml").unlink()
    assert told(prod) == [f"{WAITS}prod/llm", f"{FURTHER}prod/vit"]


def _rendered(prod: Repository) -> None:
    done = prod.run("render")
    assert done.exit_code == 0, done.output
    git_repository.commit(prod.root)


def _first(prod: Repository) -> str:
    return prod.run("plan", "--against", "HEAD").stdout.partition("\n")[0]


@pytest.mark.parametrize(
    ("namespace", "lab", "effects"),
    [
        ("elsewhere", "gpu: 8}", []),
        ("training", "", ["active runs request 16 nvidia.com/gpu, more than that: prod/llm"]),
        (
            "training",
            "gpu: 8}",
            ["active runs request 32 nvidia.com/gpu, more than that: prod/llm, lab/llm"],
        ),
    ],
)
def test_a_quota_holds_for_the_runs_of_its_namespace_alone(
    namespace: str, lab: str, effects: list[str], copied: Copied, tmp_path: Path
) -> None:
    """Also for those of another environment, whatever that calls its pools; for a namespace without
    runs nothing follows, and the first line has no runs that it affects.
    """
    prod = copied(_confirm, tmp_path / "clone")
    if lab:
        prod.environment("lab", LAB)
        _job(prod, "lab/llm", "pool: pool\n")
    _rendered(prod)
    quota = OBJECTS["quota"].replace("NAME", "new").replace("training", namespace)
    prod.write("prod/objects/new.yaml", quota.replace('"64", pods: "9"', "8"))
    less = f"allows less (requests.nvidia.com/gpu (no limit) → 8): {REFUSED}"
    assert told(prod) == [*([less] if effects else ()), *effects]
    assert ("affects runs" in _first(prod)) is bool(effects)


SAVED = "what these have saved there may go with it: prod/llm"
PENDING = "runs that begin cannot start, as their pods stay Pending without it: prod/llm"


def _remove_claim(prod: Repository, llm: str) -> Path:
    """Return the spec of a job that is edited, or removed, as the claim is to which it saves."""
    (prod.root / "environments/prod/objects/data.yaml").unlink()
    path = prod.root / "environments/prod/jobs/llm.yaml"
    if llm:
        path.write_text(path.read_text() + llm)
    else:
        path.unlink()
    return path


def _run(prod: Repository) -> str:
    found = re.search("llm-[0-9a-f]{8}", prod.tree()["prod/rendered/llm/pytorchjob.yaml"])
    assert found
    return found[0]


@pytest.mark.parametrize(
    ("llm", "action", "effect"),
    [
        ("", "deleted", SAVED),
        ("state: suspended\n", "suspends", SAVED),
        ("flags: {lr: 1}\n", "new run", PENDING),
    ],
    ids=["its job is removed", "it is suspended", "another run replaces it"],
)
def test_what_a_run_saved_is_lost_with_the_claim_that_a_merge_deletes(
    llm: str, action: str, effect: str, copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_immediate_saving, tmp_path / "clone")
    old = _run(prod)
    _remove_claim(prod, llm)
    assert told(prod) == [effect]
    done = prod.run("plan", "--against", "HEAD", "-o", "json")
    plan = json.loads(done.stdout)["plan"]
    (change,) = plan["changes"]
    assert change["action"] == action
    lost = f"its progress is lost: /d/ck/{old} is on claim data, which the merge deletes"
    assert lost in change["why"]
    assert plan["losesProgress"] == 1
    assert re.search("1 (job )?loses (its )?progress", plan["verdict"])
    assert plan["verdict"].startswith("Deletes claim data with the checkpoints of prod/llm · ")


def test_a_claim_that_a_run_saves_to_is_deleted_before_another_resumes_from_it(
    copied: Copied, tmp_path: Path
) -> None:
    """The old run goes on, and the new one has no claim: each format says both first."""
    prod = copied(_immediate_saving, tmp_path / "clone")
    resumes = SAVES.replace("path: ck", f"path: ck, resumeFrom: ck/{_run(prod)}")
    _job(prod, "prod/eval", resumes)
    (prod.root / "environments/prod/objects/data.yaml").unlink()
    assert prod.run("render").exit_code == 0
    assert told(prod) == [
        f"{TERMINATING}: prod/llm",
        "runs that begin cannot start, as their pods stay Pending without it: prod/eval",
    ]
    deletes = "Deletes claim data with the checkpoints of prod/llm · prod/eval cannot start · "
    stays = "its pods stay Pending, as the merge deletes claim data"
    text, comment, page = (
        prod.run("plan", "--against", "HEAD", "-o", it).stdout
        for it in ("text", "markdown", "html")
    )
    assert text.startswith(deletes)
    assert "starts 1 job" not in text
    assert f"\nprod/eval  cannot start: {stays};\n" in text
    assert deletes in comment
    assert stays in comment
    assert "goes with the checkpoints of prod/llm; it stays Terminating" in page


def test_no_run_resumes_from_a_claim_that_the_merge_deletes(copied: Copied, tmp_path: Path) -> None:
    prod = copied(_immediate_saving, tmp_path / "clone")
    old = _run(prod)
    _edit(prod, "jobs/llm.yaml", "path: ck", f"path: ck, resumeFrom: ck/{old}")
    _edit(prod, "jobs/llm.yaml", "nodes: 2", "nodes: 3")
    resumes = f"resumes from the checkpoints in /d/ck/{old} on claim data"
    assert resumes in _why(prod)
    _remove_claim(prod, "flags: {lr: 1}\n")
    assert f"cannot resume from /d/ck/{old}: the merge deletes claim data" in _why(prod)


@pytest.mark.parametrize("llm", ["", "state: suspended\n"], ids=["removed", "suspended"])
def test_a_claim_that_a_person_deletes_or_another_environment_has_keeps_what_is_saved(
    llm: str, copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_confirm_saving, tmp_path / "clone")
    old = _run(prod)
    _remove_claim(prod, llm)
    assert f"what it saved stays in /d/ck/{old} on claim data" in _why(prod)
    there = copied(_immediate_saving, tmp_path / "other")
    text = (there.root / "environments/prod/objects/data.yaml").read_text()
    _remove_claim(there, llm)
    there.environment("live")
    there.write("live/objects/data.yaml", text)
    assert f"what it saved stays in /d/ck/{old} on claim data" in _why(there)


def _why(prod: Repository) -> str:
    done = prod.run("plan", "--against", "HEAD", "-o", "json")
    why: str = next(
        it["why"] for it in json.loads(done.stdout)["plan"]["changes"] if it["job"] == "prod/llm"
    )
    return why


def test_what_a_file_with_errors_has_is_not_removed(copied: Copied, tmp_path: Path) -> None:
    prod = copied(_confirm, tmp_path / "clone")
    prod.write("prod/objects/quota.yaml", "kind: [")
    done = prod.run("plan", "--against", "HEAD")
    assert done.exit_code == 1
    assert done.stdout.startswith("1 error\n")
    assert "is removed" not in done.stdout
    assert "error[TW001]" in done.stdout


def _edit(prod: Repository, path: str, old: str, new: str) -> None:
    full = prod.root / "environments/prod" / path
    assert old in full.read_text()
    full.write_text(full.read_text().replace(old, new))


def _larger(folder: Path) -> None:
    """Beside prod/llm are one with less, and one without GPUs."""
    _prod(folder, "confirm")
    made = Repository(folder)
    elastic = "launcher: torchrun\nelastic: {minNodes: 1, maxNodes: 3}\n"
    small = made.job("prod/a-small", f"pool: h100\n{elastic}")
    small.write_text(small.read_text().replace("memory: 1Gi}", "memory: 1Gi, gpu: 1}"))
    made.job("prod/a-cpu")
    done = made.run("render")
    assert done.exit_code == 0, done.output
    git_repository.commit(made.root)


def test_the_runs_that_request_most_of_a_quota_are_named_first(
    copied: Copied, tmp_path: Path
) -> None:
    """And those that request nothing of it are not."""
    prod = copied(_larger, tmp_path / "clone")
    _edit(prod, "objects/quota.yaml", '"64"', '"16"')
    assert told(prod)[1:] == [
        "active runs request 17 to 19 nvidia.com/gpu, more than that: prod/llm, prod/a-small"
    ]


def test_a_run_that_begins_beyond_a_quota_is_refused(copied: Copied, tmp_path: Path) -> None:
    """The old one goes on beside it."""
    prod = copied(_confirm, tmp_path / "clone")
    _edit(prod, "objects/quota.yaml", '"64"', '"24"')
    _edit(prod, "jobs/llm.yaml", "nodes: 2", "nodes: 3")
    assert told(prod)[1:] == [
        "active runs request 40 nvidia.com/gpu, more than that: prod/llm",
        "pods of runs that begin are refused until there is room: prod/llm",
    ]


def test_what_another_namespace_has_concerns_only_runs_that_begin_there(
    copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_confirm, tmp_path / "clone")
    for path in (prod.root / "environments/prod/objects").iterdir():
        path.write_text(path.read_text().replace("namespace: training", "namespace: other"))
    _edit(prod, "environment.yaml", "namespace: training", "namespace: other")

    def quotas() -> dict[str, list[str]]:
        done = prod.run("plan", "--against", "HEAD", "-o", "json")
        objects = json.loads(done.stdout)["plan"]["objects"]
        return {it["object"]: it["effects"][1:] for it in objects if "Quota" in it["object"]}

    there = "ResourceQuota/other/quota"
    assert quotas() == {there: [], "ResourceQuota/training/quota": []}
    _edit(prod, "jobs/llm.yaml", "nodes: 2", "nodes: 3")
    assert quotas()[there] == [
        "active runs request 24 nvidia.com/gpu: prod/llm",
        "active runs have 3 pods: prod/llm",
    ]


@pytest.mark.parametrize(
    ("required", "begin", "code", "severity"),
    [
        (False, _immediate, 0, ["warning"]),
        (True, _immediate, 1, ["error"]),
        (False, _confirm, 0, []),
    ],
)
def test_a_claim_that_is_deleted_under_a_run_is_a_finding(
    required: bool,
    begin: Callable[[Path], None],
    code: int,
    severity: list[str],
    copied: Copied,
    tmp_path: Path,
) -> None:
    """An environment can have it block the merge; a claim that stays in the cluster is none."""
    prod = copied(begin, tmp_path / "clone")
    if required:
        path = prod.root / "environments/prod/environment.yaml"
        path.write_text(path.read_text() + "severities: {TW511: required}\n")
    (prod.root / "environments/prod/objects/data.yaml").unlink()
    done = prod.run("plan", "--against", "HEAD", "-o", "json")
    findings = json.loads(done.stdout)["plan"]["findings"]
    assert [it["severity"] for it in findings if it["rule"] == "TW511"] == severity
    assert done.exit_code == code
    shown = prod.run("plan", "--against", "HEAD", "-o", "markdown").stdout
    assert ("PersistentVolumeClaim/data is deleted" in shown) is bool(severity)
