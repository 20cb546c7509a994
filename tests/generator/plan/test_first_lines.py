"""What the first lines of a plan name: money, rights, what holds for runs, and what comes first."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import git_repository
from repository import Copied, Repository

ENVIRONMENT = """\
pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, pricePerGpuHour: 2}}
queueing: kueue
queues: {team: {}}
gitops: {engine: argocd, prune: confirm, repository: {url: https://example.com/a.git, revision: a}}
"""
DENIED = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: training}
spec: {podSelector: {}, policyTypes: [Egress]}
"""
BOUND = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: NAME, namespace: training}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: training}]
"""
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain, namespace: training}\n"


def _prod(folder: Path) -> None:
    made = Repository(git_repository.init(folder))
    made.environment("prod", ENVIRONMENT)
    made.write("prod/objects/plain.yaml", f'{MAP}data: {{a: "1"}}\n')
    for name in ("llm", "vit"):
        path = made.job(f"prod/{name}", "pool: h100\nqueue: team\n")
        path.write_text(path.read_text().replace("memory: 1Gi}", "memory: 1Gi, gpu: 8}"))
    done = made.run("render")
    assert done.exit_code == 0, done.output
    git_repository.commit(made.root)


def _lines(repository: Repository) -> list[str]:
    return repository.run("plan", "--against", "HEAD").stdout.splitlines()


@pytest.mark.parametrize(
    ("price", "shown"),
    [("3", "+$64"), ("1", "-$64")],
)
def test_another_price_is_money(price: str, shown: str, copied: Copied, tmp_path: Path) -> None:
    """2 jobs of 32 GPU-hours each. What a job that begins anew costs is in the sum, once."""
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/environment.yaml", "pricePerGpuHour: 2", f"pricePerGpuHour: {price}")
    assert _lines(prod)[0] == f"No job changes · {shown} at the new price"


def test_a_price_and_a_run_that_begins_are_one_sum(copied: Copied, tmp_path: Path) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/environment.yaml", "pricePerGpuHour: 2", "pricePerGpuHour: 3")
    prod.edit("prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    lines = _lines(prod)
    # llm as it was goes on beside the new one: 48, 32 and 32 GPU-hours by 3, not 64 by 2.
    assert lines[0] == "Starts 1 run beside the old one · +48 GPU-h · +$208 at the new price"
    assert any("$128 → $336" in line for line in lines)


def test_hours_and_money_are_called_the_most_once(copied: Copied, tmp_path: Path) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/environment.yaml", "pricePerGpuHour: 2", "pricePerGpuHour: 3")
    counts = []
    for edited in (True, False):
        if not edited:
            prod.write("prod/environment.yaml", git_repository.git(prod.root, "show", _FILE))
        for output in ("text", "markdown", "html"):
            shown = prod.run("plan", "--against", "HEAD", "-o", output).stdout
            counts.append(shown.count("GPU-hours and cost: at most, with the whole maxDuration"))
    assert counts == [1, 1, 1, 0, 0, 0]


_FILE = "HEAD:environments/prod/environment.yaml"


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        ({"deny": DENIED}, "NetworkPolicy/deny affects runs · objects: 1 added"),
        ({"a": BOUND}, "RoleBinding/a grants rights · objects: 1 added"),
        ({"a": BOUND, "b": BOUND}, "RoleBinding grant rights · objects: 2 added"),
        (
            {"a": BOUND, "deny": DENIED},
            "RoleBinding/a grants rights · NetworkPolicy/deny affects runs · objects: 2 added",
        ),
        ({"plain": f'{MAP}data: {{a: "2"}}\n'}, "Objects: 1 changed"),
    ],
)
def test_what_grants_rights_or_holds_for_runs_is_named(
    files: dict[str, str], shown: str, copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_prod, tmp_path / "clone")
    for name, text in files.items():
        prod.write(f"prod/objects/{name}.yaml", text.replace("NAME", name))
    assert _lines(prod)[0] == shown
    comment = prod.run("plan", "--against", "HEAD", "-o", "markdown").stdout
    named = [name for name in ("a", "deny") if name in files]
    assert all(f"/{name}" in comment.partition("Needs attention")[2][:200] for name in named)


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("name: default", "name: other", "RoleBinding/a grants rights · objects: 1 changed"),
        ("subjects: [", "subjects: [{kind: User, name: b}, ", "RoleBinding/a grants rights · "),
        ("{kind: ServiceAccount, name: default, namespace: training}", "", "Objects: 1 changed"),
    ],
)
def test_a_binding_that_loses_a_subject_grants_nothing(
    old: str, new: str, shown: str, copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.write("prod/objects/a.yaml", BOUND.replace("NAME", "a"))
    git_repository.commit(prod.root)
    prod.edit("prod/objects/a.yaml", old, new)
    assert _lines(prod)[0].startswith(shown)


def test_another_branch_of_the_engine_is_no_policy(copied: Copied, tmp_path: Path) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/environment.yaml", "revision: a", "revision: b")
    assert _lines(prod)[0] == "Applies prod from elsewhere · no job changes"


def test_an_object_shows_its_values(copied: Copied, tmp_path: Path) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/objects/plain.yaml", '"1"', '"2"')
    lines = _lines(prod)
    at = "environments/prod/objects/plain.yaml"
    assert lines[2:4] == [
        f"prod  ConfigMap/plain is changed  ({at}:3:18)",
        f'  data.a: "1" → "2"  ({at}:4:11)',
    ]


def test_one_mistake_is_one_error_for_all_jobs_that_have_it(copied: Copied, tmp_path: Path) -> None:
    """And nothing is to be committed before it is corrected."""
    prod = copied(_prod, tmp_path / "clone")
    base = "kind: JobSpec\nname: shared\napiVersion: trainwright.io/v1alpha1\n"
    prod.write("base/jobs/shared.yaml", base + "nodez: 3\n")
    for name in ("llm", "vit"):
        prod.edit(
            f"prod/jobs/{name}.yaml", "kind: JobSpec\n", "kind: JobSpec\nextends: base/shared\n"
        )
    lines = _lines(prod)
    assert lines[0].startswith("Cannot render 2 jobs")
    assert lines[0].endswith("1 error")
    assert sum("nodez" in line and line.startswith("error[") for line in lines) == 1


def test_what_is_not_rendered_for_errors_is_corrected_first(copied: Copied, tmp_path: Path) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/jobs/llm.yaml", "nodes: 2", "nodez: 2")
    prod.edit("prod/jobs/vit.yaml", "nodes: 2", "nodes: 3")
    stale = (
        "nothing of this happens until you correct prod/llm and commit what `trainwright render`"
    )
    assert any(stale in line for line in _lines(prod))


def test_the_first_line_precedes_files_that_no_source_renders(
    copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_prod, tmp_path / "clone")
    (rendered,) = (prod.root / "environments/prod/rendered/llm").glob("pytorchjob.yaml")
    rendered.write_text(rendered.read_text() + "# by hand\n")
    first, second, *_ = _lines(prod)
    assert first.startswith("1 rendered file that no source renders")
    assert second.startswith("no source renders this: ")


def test_runs_and_jobs_that_start_are_one_phrase(copied: Copied, tmp_path: Path) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    prod.job("prod/new")
    assert _lines(prod)[0].startswith("Starts 1 run beside the old one and 1 job · ")


POOL = "h100: {resource: nvidia.com/gpu, gpusPerNode: 8, pricePerGpuHour: 2}"
SELECTED = POOL.replace("resource", "nodeSelector: {gpu: a100}, resource").replace("h100:", "a100:")
RENAMED = [
    'prod: pool h100 removed: pools.h100: {"pricePerGpuHour": 2} → (unset) (ENV:6:8)',
    'prod: pool h200 added: pools.h200: (unset) → {"pricePerGpuHour": 3} (ENV:6:112)',
]
AT_3 = POOL.replace("h100", "h200").replace("Hour: 2", "Hour: 3")


@pytest.mark.parametrize(
    ("pools", "llm", "first", "lines", "rows"),
    [
        (
            f"{SELECTED}, {AT_3}",
            "pool: h200",
            "No job changes · +$32",
            RENAMED,
            ["h100 16 → 0 GPUs 32 → 0 $64 → $0", "h200 0 → 16 GPUs 0 → 32 $0 → $96"],
        ),
        (
            f"{SELECTED}, {AT_3.replace(', pricePerGpuHour: 3', '')}",
            "pool: h200",
            "Nothing changes for any job",
            [RENAMED[0], "prod: pool h200 added: pools.h200: (unset) → {} (ENV:6:112)"],
            ["h100 16 → 0 GPUs 32 → 0 $64 → $0", "h200 0 → 16 GPUs 0 → 32"],
        ),
        (
            SELECTED,
            "pool: a100",
            "Starts 1 run beside the old one · removes pool h100 under 1 run · +32 GPU-h · +$64",
            ["prod: pool h100 removed, on which RUN stays: pools.h100: "
             '{"pricePerGpuHour": 2} → (unset) (ENV:6:8)'],
            ["a100 0 → 16 GPUs 0 → 32 $0 → $64", "h100 16 GPUs 32 $64"],
        ),
        (
            SELECTED,
            "pool: h100",
            "Cannot render 1 job · removes pool h100 under 1 run · 1 error",
            ["prod: pool h100 removed, on which RUN stays: pools.h100: "
             '{"pricePerGpuHour": 2} → (unset) (ENV:6:8)'],
            ["h100 16 GPUs 32 $64"],
        ),
        (f"{SELECTED}, {POOL}, {AT_3}", "pool: h100", "Nothing changes for any job", [], []),
    ],
    ids=["renamed", "renamed without a price", "its job moves", "its job stays", "one more"],
)  # fmt: skip
def test_a_pool_that_goes_is_told_with_the_runs_on_it(
    pools: str,
    llm: str,
    first: str,
    lines: list[str],
    rows: list[str],
    copied: Copied,
    tmp_path: Path,
) -> None:
    prod = copied(_prod, tmp_path / "clone")
    (prod.root / "environments/prod/jobs/vit.yaml").unlink()
    prod.edit("prod/environment.yaml", POOL, f"{SELECTED}, {POOL}")
    assert prod.run("render").exit_code == 0
    git_repository.commit(prod.root)
    prod.edit("prod/environment.yaml", f"{SELECTED}, {POOL}", pools)
    prod.edit("prod/jobs/llm.yaml", "pool: h100", llm)
    shown = _lines(prod)
    run = git_repository.git(prod.root, "show", "HEAD:environments/prod/rendered/llm/run.lock")
    told = [it for it in shown if it.startswith("prod: ")]
    names = {"RUN": json.loads(run)["object"], "ENV": "environments/prod/environment.yaml"}
    for short, name in names.items():
        lines = [it.replace(short, name) for it in lines]
    assert shown[0] == first
    assert told == lines
    table = (" ".join(it.split()) for it in shown)
    assert [it.removeprefix("prod pool ") for it in table if it.startswith("prod pool ")] == rows
    comment = prod.run("plan", "--against", "HEAD", "-o", "markdown").stdout
    assert all(("pool h100 removed" in it) is bool(lines) for it in (comment, "".join(told)))


def test_a_pool_goes_under_a_run_that_left_git_before(
    copied: Copied, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2026-01-01")  # the day of the commits
    prod = copied(_prod, tmp_path / "clone")
    jobs = prod.root / "environments/prod/jobs"
    prod.edit("prod/environment.yaml", POOL, f"{SELECTED}, {POOL}")
    prod.edit("prod/jobs/llm.yaml", "pool: h100", "pool: a100")
    (jobs / "vit.yaml").unlink()
    assert prod.run("render").exit_code == 0
    git_repository.commit(prod.root)
    prod.edit("prod/environment.yaml", f", {POOL}", "")
    first, *lines = _lines(prod)
    assert first == "Removes pool h100 under 2 runs"
    assert any(
        re.match(r"prod: pool h100 removed, on which llm-\w+, vit-\w+ stay: ", it) for it in lines
    )
    assert any(it.startswith("prod counts 2 runs no longer in git: ") for it in lines)
    assert any(re.match(r"prod +pool h100 +32 GPUs +64 +\$128$", it) for it in lines)


WAIVES = 'waivers: {TW626: {reason: the cohort lends, until: "2027-01-01"}}\n'
LOOSENS = "No job changes · loosens 1 policy of prod"


@pytest.mark.parametrize(
    ("quota", "queue", "extra", "first", "told"),
    [
        (" 16", "team", "", f"{LOOSENS} · admits 1 job · +32 GPU-h · +$64", True),
        ("", "team", "", f"{LOOSENS} · admits 1 job · +32 GPU-h · +$64", True),
        (" 12", "team", "", LOOSENS, False),
        (" 16", "team", WAIVES, LOOSENS, False),
        (" 8", "big", "", "May fail to sync 1 job · admits 1 job · +32 GPU-h · +$64", True),
        (" 16", "team\nstate: cancelled", "", f"Leaves 1 job running · {LOOSENS[17:]}", False),
    ],
    ids=["raised", "removed", "less", "lent", "another queue", "cancelled"],
)
def test_a_job_that_no_queue_admitted_begins_once_one_does(
    quota: str,
    queue: str,
    extra: str,
    first: str,
    told: bool,
    copied: Copied,
    tmp_path: Path,
) -> None:
    """Its hours and money were in no first line: what is never admitted begins nothing."""
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/environment.yaml", "{team: {}}", "{team: {quota: 8}, big: {}}")
    (prod.root / "environments/prod/jobs/vit.yaml").unlink()
    prod.edit("prod/jobs/llm.yaml", "queue: team", f"{extra}queue: team")
    assert prod.run("render").exit_code == 0
    git_repository.commit(prod.root)
    new = f"{{team: {{quota:{quota}}}" if quota else "{team: {}"
    prod.edit("prod/environment.yaml", "{team: {quota: 8}", new)
    prod.edit("prod/jobs/llm.yaml", "queue: team", f"queue: {queue}")
    shown, comment = _lines(prod), prod.run("plan", "--against", "HEAD", "-o", "markdown").stdout
    assert shown[0] == first
    line = (
        "prod/llm fits the quota of its queue now, and begins once that has room: +32 GPU-h, +$64"
    )
    assert (line in shown) is told
    assert ("fits the quota of its queue now" in comment) is told


@pytest.mark.parametrize(
    ("old", "new", "extra", "told"),
    [
        (
            "{quota: 32}",
            "{quota: 8}",
            "",
            "prod: queue team has 8 GPUs after the merge (32 before), and prod/llm, prod/vit need "
            "more than that each: what Kueue has admitted goes on, and what waits or is evicted is "
            "not admitted any more, unless the cohort lends",
        ),
        (
            "{quota: 32}",
            "{quota: 24}",
            "",
            "prod: queue team has 24 GPUs after the merge (32 before), and runs request 32, so not "
            "all of these run at once: prod/llm, prod/vit",
        ),
        (
            "{quota: 32}",
            "{quota: 8}",
            WAIVES,
            "prod: queue team has 8 GPUs after the merge (32 before), and prod/vit needs more than "
            "that: what Kueue has admitted goes on, and what waits or is evicted is not admitted "
            "any more, unless the cohort lends",
        ),
        (
            "capacity: 40",
            "capacity: 8",
            "",
            "prod: pool h100 has 8 GPUs after the merge (40 before), and prod/llm, prod/vit need "
            "more than that each: pods that run go on, and new ones, in place of failed ones too, "
            "stay Pending",
        ),
        ("{quota: 32}", "{quota: 64}", "", ""),
        ("capacity: 40", "capacity: 32", "", ""),
    ],
    ids=["each", "together", "lent", "pool", "raised", "room"],
)
def test_a_limit_that_is_lowered_names_the_jobs_that_do_not_fit(
    old: str, new: str, extra: str, told: str, copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/environment.yaml", "{team: {}}", "{team: {quota: 32}}")
    prod.edit("prod/environment.yaml", "gpusPerNode: 8", "gpusPerNode: 8, capacity: 40")
    prod.edit("prod/jobs/llm.yaml", "queue: team", f"{extra}queue: team")
    assert prod.run("render").exit_code == 0
    git_repository.commit(prod.root)
    prod.edit("prod/environment.yaml", old, new)
    page = tmp_path / "plan.html"
    shown = prod.run("plan", "--against", "HEAD", "--page", str(page)).stdout.splitlines()
    comment = prod.run("plan", "--against", "HEAD", "-o", "markdown").stdout
    found = [it for it in shown if "after the merge (" in it]
    assert found == [told] * bool(told)
    for text in (comment, page.read_text()):
        assert ("GPUs after the merge" in text) is bool(told)


CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: made, namespace: training}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
"""
NAMES = """\
queue: team
serviceAccount: tuner
volumes: {d: {claim: data, mountPath: /d}, m: {claim: made, mountPath: /m}}
secrets: {TOKEN: {name: hub, key: token}}
"""


def test_a_new_namespace_is_named_with_what_its_runs_need_there(
    copied: Copied, tmp_path: Path
) -> None:
    """What git has as an object is left out, and an environment in a namespace that is there."""
    prod = copied(_prod, tmp_path / "clone")
    prod.environment("lab", ENVIRONMENT)
    prod.job("lab/tune", f"pool: h100\n{NAMES}")
    assert not any("namespace training is new" in line for line in _lines(prod))
    prod.edit("lab/environment.yaml", "namespace: training", "namespace: lab")
    prod.write("lab/objects/made.yaml", CLAIM.replace("namespace: training", "namespace: lab"))
    needs = "claim data, Secret hub, LocalQueue team, ServiceAccount tuner"
    said = (
        f"lab: namespace lab is new. It has to exist before runs start, with {needs}: no file here "
        "creates these"
    )
    assert said in _lines(prod)
    for output in ("markdown", "html"):
        shown = prod.run("plan", "--against", "HEAD", "-o", output).stdout
        assert "namespace lab is new" in shown


SAVES = "volumes: {o: {claim: ckpt, mountPath: /o}}\nflags: {output_dir: PLACE}\n"
BASE = SAVES.replace("PLACE", "/o/base")
OF_RUN = SAVES.replace("PLACE", "'/o/${{ run.name }}'")
FIELD = "volumes: {o: {claim: ckpt, mountPath: /o}}\ncheckpoint: {volume: o, path: base}\n"


@pytest.mark.parametrize(
    ("there", "new", "place"),
    [
        (BASE, BASE, "/o/base"),
        (BASE, BASE.replace("/o", "/mnt"), "/mnt/base"),
        (OF_RUN, OF_RUN, ""),
        (FIELD, FIELD, ""),  # which has a folder for each run
        (SAVES.replace("PLACE", "/o/other"), BASE, ""),
        (BASE.replace("ckpt", "more"), BASE, ""),
        (f"{BASE}state: cancelled\n", BASE, ""),
    ],
    ids=["same", "mounted elsewhere", "run.name", "checkpoint", "folder", "claim", "cancelled"],
)
@pytest.mark.parametrize("added", [True, False])
def test_two_jobs_that_save_to_one_folder_are_named(
    there: str, new: str, place: str, added: bool, copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_prod, tmp_path / "clone")
    (prod.root / "environments/prod/jobs/vit.yaml").unlink()
    prod.job("prod/base", there)
    if not added:
        prod.job("prod/new")
    assert prod.run("render").exit_code == 0
    git_repository.commit(prod.root)
    prod.job("prod/new", new)
    done = prod.run("plan", "--against", "HEAD", "-o", "json")
    (change,) = json.loads(done.stdout)["plan"]["changes"]
    shared = (
        f"saves to {place} on claim ckpt, as prod/base does: each of the two overwrites the "
        "checkpoints of the other: with `${{ run.name }}` in that path each run has a folder of its"
    )
    assert (shared in change["why"]) is bool(place)
    assert ("overwrites the checkpoints" in change["why"]) is bool(place)
    assert ("1 job writes over" in _lines(prod)[0]) is bool(place)


def test_pages_have_the_jobs_without_javascript(copied: Copied, tmp_path: Path) -> None:
    """The script only puts searching, diffs and details to what is there."""
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    for verb in (("plan", "--against", "HEAD"), ("report",)):
        done = prod.run(*verb, "-o", "html")
        assert done.exit_code == 0, done.output
        shown = done.stdout.partition("<template")[0].partition("<body>")[2]
        assert '<span class="job">prod/llm</span>' in shown
        assert ("nodes: 2 → 3" in shown) is (verb[0] == "plan")
        assert '<details class="part" id="filters" hidden>' in shown


@pytest.mark.parametrize(
    ("prod_has", "dev_has", "queue", "told"),
    [
        (
            "{quota: 40}",
            "{quota: 40}",
            "a",
            "dev and prod share ClusterQueue a (queue team of dev, queue team of prod): each fits "
            "alone, and together they request 48 of 40 GPUs: 8 too few",
        ),
        ("{quota: 48}", "{quota: 48}", "a", ""),
        ("{quota: 40}", "{quota: 40}", "b", ""),
        ("{quota: 8}", "{quota: 40}", "a", ""),  # which has a line of its own
        (
            "capacity: 40, nodeSelector: {gpu: h100}",
            "capacity: 40, nodeSelector: {gpu: h100}",
            "",
            "dev and prod share the same nodes (pool h100 of dev, pool h100 of prod): each fits "
            "alone, and together they request 48 of 40 GPUs: 8 too few",
        ),
        (
            "capacity: 40, nodeSelector: {gpu: h100}",
            "capacity: 40, nodeSelector: {gpu: a100}",
            "",
            "",
        ),
    ],
)
def test_environments_that_share_a_limit_are_named_where_only_both_exceed_it(
    prod_has: str, dev_has: str, queue: str, told: str, copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_prod, tmp_path / "clone")
    for name, has, cluster_queue in (("prod", prod_has, "a"), ("dev", dev_has, queue)):
        if name == "dev":
            prod.environment("dev", ENVIRONMENT)
            prod.edit("dev/environment.yaml", "namespace: training", "namespace: dev")
        if queue:
            prod.edit(f"{name}/environment.yaml", "{team: {}}", f"{{team: {has}}}")
            prod.write(
                f"{name}/objects/queue.yaml",
                "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: team, "
                f"namespace: {'dev' if name == 'dev' else 'training'}}}\n"
                f"spec: {{clusterQueue: {cluster_queue}}}\n",
            )
        else:
            prod.edit(f"{name}/environment.yaml", "gpusPerNode: 8", f"gpusPerNode: 8, {has}")
    assert prod.run("render").exit_code == 0
    git_repository.commit(prod.root)
    path = prod.job("dev/new", "pool: h100\nqueue: team\n")
    path.write_text(path.read_text().replace("memory: 1Gi}", "memory: 1Gi, gpu: 8}"))
    shown = _lines(prod)
    assert [it for it in shown if " share " in it] == [told] * bool(told)
    if told:
        for form in ("markdown", "html"):
            done = prod.run("plan", "--against", "HEAD", "-o", form)
            assert "each fits alone, and together" in done.stdout
