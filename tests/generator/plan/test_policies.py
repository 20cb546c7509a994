"""What a plan says of a merge that changes what an environment allows, and no job."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import git_repository
from git_repository import git
from repository import Repository
from trainwright.datatypes.environment import ChartSource, Environment, GitOps, Identity, Verify
from trainwright.datatypes.environment import Repository as Source
from trainwright.datatypes.finding import Location
from trainwright.datatypes.pointer import Pointer
from trainwright.plan import policies, words
from trainwright.specs.demand import Demand, Range

POOLS = "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 64}}\n"
WAIVER = "waivers: [{rule: TW715, reason: old image, until: 'UNTIL', job: JOB}]\n"


def _waiver(until: str = "2030-01-01", job: str = "train") -> str:
    return WAIVER.replace("UNTIL", until).replace("JOB", job)


def _planned(folder: Path, before: str, after: str) -> Repository:
    repository = Repository(git_repository.init(folder))
    repository.environment("lab", POOLS + before)
    path = repository.job("lab/train", "pool: h100\nstate: active\n")
    text = path.read_text().replace('{cpu: "1", memory: 1Gi}', "{gpu: 4}")
    path.write_text(text.replace('tag: "1.0"', f"digest: sha256:{'0' * 64}"))
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root, "Begin")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    repository.environment("lab", POOLS + after)
    return repository


def _plan(repository: Repository, output: str = "text") -> str:
    result = repository.run("plan", "--against", "main", "-o", output)
    assert result.exit_code == 0, result.output
    return result.stdout


def _data(repository: Repository) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(_plan(repository, "json"))["plan"]
    return data


KEY, OTHER = "4AEE18F83AFDEB23", "07E6C1A94B6D5F20"


def _signed(source: str, verify: str) -> str:
    return f"gitops: {{{source}: {{verify: {verify}}}}}\n"


def _by(subject: str) -> str:
    return f"{{issuer: '^https://accounts.example.com$', subject: '^{subject}$'}}"


LOOSENED = {
    "pod security": (
        "podSecurity: restricted\n",
        "podSecurity: baseline\n",
        'podSecurity: "restricted" → "baseline"',
    ),
    "default pod security": (
        "",
        "podSecurity: privileged\n",
        'podSecurity: "restricted" → "privileged"',
    ),
    "digests": (
        "images: {requireDigest: true}\n",
        "images: {requireDigest: false}\n",
        "images.requireDigest: true → false",
    ),
    "a wider registry": (
        "images: {registries: [registry.example.com/ml/]}\n",
        "images: {registries: [registry.example.com/]}\n",
        'images.registries: ["registry.example.com/ml/"] → ["registry.example.com/"]',
    ),
    "one registry more": (
        "images: {registries: [registry.example.com/]}\n",
        "images: {registries: [registry.example.com/, other.example.com/]}\n",
        'images.registries: ["registry.example.com/"] → ["registry.example.com/", "other.',
    ),
    "every registry": (
        "images: {registries: [registry.example.com/]}\n",
        "",
        'images.registries: ["registry.example.com/"] → (unset)',
    ),
    "one more permission": (
        "allow: [hostIPC]\n",
        "allow: [hostIPC, privileged]\n",
        'allow: ["hostIPC"] → ["hostIPC", "privileged"]',
    ),
    "a rule that is off": (
        "",
        "severities: {TW715: 'off'}\n",
        'severities.TW715: (unset) → "off"',
    ),
    "a rule that may be waived": (
        "severities: {TW715: required}\n",
        "severities: {TW715: error}\n",
        'severities.TW715: "required" → "error"',
    ),
    "a waiver": (
        "",
        _waiver(),
        'waivers.0: (unset) → "TW715 for train until 2030-01-01"',
    ),
    "a longer waiver": (
        _waiver(),
        _waiver(until="2031-01-01"),
        'waivers.0: "TW715 for train until 2030-01-01" → "TW715 for train until 2031-01-01"',
    ),
    "a waiver for all": (
        _waiver(),
        _waiver(job="'*'"),
        'waivers.0: (unset) → "TW715 for all jobs until 2030-01-01"',
    ),
    "a budget": ("budget: {cost: 100}\n", "budget: {cost: 900}\n", "budget.cost: 100"),
    "no budget": ("budget: {gpuHours: 100}\n", "", "budget.gpuHours: 100"),
    "no signature": (
        _signed("repository", f"{{keys: ['{KEY}']}}"),
        "",
        f'gitops.repository.verify: {{"keys": ["{KEY}"]}} → (unset)',
    ),
    "one more signer": (
        _signed("repository", f"{{keys: ['{KEY}']}}"),
        _signed("repository", f"{{keys: ['{KEY}', '{OTHER}']}}"),
        f'gitops.repository.verify: {{"keys": ["{KEY}"]}} → ',
    ),
    "only the last commit": (
        _signed("repository", f"{{keys: ['{KEY}'], mode: strict}}"),
        _signed("repository", f"{{keys: ['{KEY}']}}"),
        f'gitops.repository.verify: {{"keys": ["{KEY}"], "mode": "strict"}} → ',
    ),
    "one more identity": (
        _signed("chart", f"{{identities: [{_by('a')}]}}"),
        _signed("chart", f"{{identities: [{_by('a')}, {_by('b')}]}}"),
        'gitops.chart.verify: {"identities": ',
    ),
}


@pytest.mark.parametrize(("before", "after", "shown"), LOOSENED.values(), ids=LOOSENED.keys())
def test_what_loosens_a_policy_is_said_first(
    before: str, after: str, shown: str, tmp_path: Path
) -> None:
    repository = _planned(tmp_path / "clone", before, after)
    text = _plan(repository)
    first, second, *_ = text.splitlines()
    assert "loosens 1 policy of lab" in first.lower()
    assert second.startswith(f"lab allows more than before: {shown}")
    assert "(environments/lab/environment.yaml:" in second
    (policy,) = [it for it in _data(repository)["policies"] if it["loosens"]]
    assert policy["environment"] == "lab"


@pytest.mark.parametrize(("after", "before", "_"), LOOSENED.values(), ids=LOOSENED.keys())
def test_what_tightens_one_is_said_and_is_no_alarm(
    before: str, after: str, _: str, tmp_path: Path
) -> None:
    repository = _planned(tmp_path / "clone", before, after)
    text = _plan(repository)
    if "waivers: " in before and "'*'" in before:
        assert "lab allows more than before: waivers.0: (unset)" in text  # for one that had none
    else:
        assert "oosens" not in text
    assert "lab allows less than before: " in text


ONE, TWO = Identity(issuer="^a$", subject="^one$"), Identity(issuer="^a$", subject="^two$")
OTHER_SIGNERS = {
    "a key": (Verify(keys=(KEY,)), Verify(keys=(OTHER,))),
    "a Secret": (Verify(secret="trusted"), Verify(secret="all")),
    "what signs": (Verify(secret="trusted"), Verify(secret="trusted", provider="notation")),
    "an identity": (Verify(identities=(ONE,)), Verify(identities=(TWO,))),
    "nobody": (Verify(keys=(KEY,), mode="strict"), Verify(mode="strict")),
}


@pytest.mark.parametrize(("was", "now"), OTHER_SIGNERS.values(), ids=OTHER_SIGNERS.keys())
def test_other_signers_of_a_source_are_a_looser_policy(was: Verify, now: Verify) -> None:
    def environment(gitops: GitOps) -> Environment:
        return Environment(
            name="lab",
            namespace="training",
            place=Location("environments/lab/environment.yaml"),
            kubernetes_version="1.33",
            targets={},
            gitops=gitops,
        )

    for old, new, source in (
        (
            GitOps(repository=Source(verify=was)),
            GitOps(repository=Source(verify=now)),
            "repository",
        ),
        (GitOps(chart=ChartSource(verify=was)), GitOps(chart=ChartSource(verify=now)), "chart"),
    ):
        limits = policies.limits(environment(old), environment(new))
        (policy,) = (it for it in limits if it.before != it.after)
        assert policy.path == Pointer.of("gitops", source, "verify")
        assert policy.loosens


SAME = {
    "a default of signatures": (
        _signed("repository", f"{{keys: ['{KEY}', '{OTHER}'], mode: head}}"),
        _signed("repository", f"{{keys: ['{OTHER}', '{KEY}']}}"),
    ),
    "an order": (
        "images: {registries: [registry.example.com/, b.io/]}\nallow: [hostIPC, hostPID]\n",
        "images: {registries: [b.io/, registry.example.com/]}\nallow: [hostPID, hostIPC]\n",
    ),
    "a default": ("", "podSecurity: restricted\nimages: {requireDigest: false}\n"),
    "another reason": (_waiver(), _waiver().replace("old image", "it is pinned in code")),
}


@pytest.mark.parametrize(("before", "after"), SAME.values(), ids=SAME.keys())
def test_what_changes_no_policy_is_not_said(before: str, after: str, tmp_path: Path) -> None:
    repository = _planned(tmp_path / "clone", before, after)
    assert "than before" not in _plan(repository)
    assert _data(repository)["policies"] == []


def test_every_format_names_it(tmp_path: Path) -> None:
    repository = _planned(
        tmp_path / "clone", "podSecurity: restricted\n", "podSecurity: baseline\n"
    )
    for output in ("text", "markdown", "html"):
        assert "lab allows more than before: podSecurity" in _plan(repository, output), output


def test_what_loosens_stands_before_what_does_not(tmp_path: Path) -> None:
    repository = _planned(
        tmp_path / "clone",
        "allow: [hostIPC]\nimages: {requireDigest: true}\n",
        "images: {requireDigest: false}\n",
    )
    _, more, less, *_ = _plan(repository).splitlines()
    assert more.startswith("lab allows more than before: images.requireDigest")
    assert less.startswith("lab allows less than before: allow")


CAPACITY, PRICE = "capacity: 64", "pricePerGpuHour: 2"
COUNTED = {
    "a capacity": (
        "{}",
        "capacity: 128",
        "capacity of h100 raised: pools.h100.capacity: 64 → 128",
    ),
    "less capacity": (
        "{}",
        "capacity: 32",
        "capacity of h100 lowered: pools.h100.capacity: 64 → 32",
    ),
    "no capacity": ("{}", "", "capacity of h100 removed: pools.h100.capacity: 64 → (unset)"),
    "a price": (
        "{}",
        f"{CAPACITY}, {PRICE}",
        "price of h100 set: pools.h100.pricePerGpuHour: (unset) → 2",
    ),
    "a currency": ("EUR", CAPACITY, 'currency changed: currency: "USD" → "EUR"'),
}


@pytest.mark.parametrize(("currency", "pool", "shown"), COUNTED.values(), ids=COUNTED)
def test_what_the_sums_are_counted_by_is_named_and_loosens_nothing(
    currency: str, pool: str, shown: str, tmp_path: Path
) -> None:
    repository = _planned(tmp_path / "clone", "", "")
    pools = POOLS.replace(CAPACITY, pool).replace(", }", "}")
    money = "" if currency == "{}" else f"currency: {currency}\n"
    repository.environment("lab", pools + money)
    first, second, *_ = _plan(repository).splitlines()
    assert first == "Nothing changes for any job"
    assert second.startswith(f"lab: {shown} (environments/lab/environment.yaml:")
    data = _data(repository)
    assert data["policies"] == []
    assert [it["environment"] for it in data["amounts"]] == ["lab"]
    for output in ("markdown", "html"):
        assert f"lab: {shown.partition(':')[0]}: " in _plan(repository, output)


PRICED = POOLS.replace(CAPACITY, f"{CAPACITY}, {PRICE}")


@pytest.mark.parametrize(
    ("was", "now", "shown"),
    [(PRICED, POOLS, "$32 → unknown"), (POOLS, PRICED, "unknown → $32")],
    ids=["removed", "added"],
)
def test_a_job_without_a_price_is_not_free(was: str, now: str, shown: str, tmp_path: Path) -> None:
    budget = "budget: {cost: 100}\n"
    repository = _planned(tmp_path / "clone", "", "")
    repository.environment("lab", was + budget)
    git_repository.commit(repository.root, "Before")
    git(repository.root, "branch", "--force", "main", "HEAD")
    repository.environment("lab", now + budget)
    rows = [it for it in _plan(repository).splitlines() if it.startswith("lab   ")]
    pool, limit = rows
    assert pool.endswith(shown)
    assert limit.endswith(f"{shown} of $100")
    assert "$0" not in _plan(repository, "markdown")
    before, after = (_data(repository)["environments"][0][side] for side in ("before", "after"))
    assert before["unpricedJobs"] + after["unpricedJobs"] == 1


@pytest.mark.parametrize(
    ("cost", "unpriced", "shown"),
    [
        (32, 0, "$32"),
        (32, 2, "$32 and 2 jobs without a price"),
        (-32, 0, "-$32"),
        (-32, 1, "unknown"),
        (32, -1, "$32"),
    ],
)
def test_a_cost_names_the_jobs_that_it_lacks(cost: int, unpriced: int, shown: str) -> None:
    assert words.cost(Demand(cost=Range(cost, cost), unpriced=unpriced), "USD") == shown


def test_the_same_amounts_are_not_named(tmp_path: Path) -> None:
    repository = _planned(tmp_path / "clone", "", "currency: USD\n")
    assert "counts with" not in _plan(repository)
    assert _data(repository)["amounts"] == []


@pytest.mark.parametrize(
    "user", ["", "security: {runAsUser: 1000}\n", "security: {runAsNonRoot: true}\n"]
)
def test_pod_security_outdates_a_run_only_where_its_pods_differ(user: str, tmp_path: Path) -> None:
    repository = Repository(git_repository.init(tmp_path / "clone"))
    repository.environment("lab", POOLS)
    path = repository.job("lab/train", f"pool: h100\n{user}")
    path.write_text(path.read_text().replace('{cpu: "1", memory: 1Gi}', "{gpu: 4}"))
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root, "Begin")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    repository.environment("lab", POOLS + "podSecurity: privileged\n")
    text = _plan(repository)
    assert text.count('podSecurity: "restricted" → "privileged"') == (1 if user else 2)
    assert "baseline" not in text
    assert ("outdates 1 run" in text) is (not user)
    files = {name: body for name, body in repository.tree().items() if "pytorchjob" in name}
    assert repository.run("rerun", "lab/train").exit_code == 0
    assert repository.run("render").exit_code == 0
    again = {name: body for name, body in repository.tree().items() if "pytorchjob" in name}
    lines = [
        line
        for name, body in files.items()
        for line in set(body.splitlines()) ^ set(again[name].splitlines())
    ]
    assert any("runAsNonRoot" in line for line in lines) is (not user)


def test_gpus_outside_of_pools_are_counted(tmp_path: Path) -> None:
    """Without a pool they have no price, and are GPUs and hours all the same."""
    repository = _planned(
        tmp_path / "clone", "budget: {gpuHours: 100}\n", "budget: {gpuHours: 100}\n"
    )
    path = repository.root / "environments/lab/jobs/stealth.yaml"
    text = (repository.root / "environments/lab/jobs/train.yaml").read_text()
    text = text.replace("name: train", "name: stealth").replace("pool: h100\n", "")
    path.write_text(
        text.replace("{gpu: 4}", "{extended: {nvidia.com/gpu: 4, nvidia.com/mig-1g.10gb: 2}}")
    )
    data = _data(repository)
    (change,) = data["changes"]
    nodes = change["requests"]["nodes"]["high"]
    assert change["requests"]["gpus"]["high"] == 4 * nodes
    assert f"+{4 * nodes:g} GPU" in _plan(repository)


@pytest.mark.parametrize("bound", ["", "maxDuration: null\n"])
def test_a_version_of_trainer_outdates_a_run_only_where_its_objects_differ(
    bound: str, tmp_path: Path
) -> None:
    repository = Repository(git_repository.init(tmp_path / "clone"))
    path = repository.environment("lab")
    old, new = (
        re.sub("targets: .*", f"targets: {{trainjob: {{version: '2.{it}'}}}}", path.read_text())
        for it in (2, 1)
    )
    path.write_text(old)
    job = repository.job("lab/train", "target: trainjob\n")
    job.write_text(re.sub("maxDuration: .*\n", bound or "maxDuration: 2h\n", job.read_text()))
    assert repository.run("render").exit_code == 0, repository.run("render").output
    git_repository.commit(repository.root, "Begin")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    path.write_text(new)
    assert ("outdates 1 run" in _plan(repository)) is (not bound)
    files = {name: body for name, body in repository.tree().items() if "trainjob" in name}
    assert repository.run("rerun", "lab/train").exit_code == 0
    assert repository.run("render").exit_code == 0
    again = {name: body for name, body in repository.tree().items() if "trainjob" in name}
    nameless = [
        re.sub(r'train-[0-9a-f]{8}|/run": "\d"', "NAME", "".join(it.values()))
        for it in (files, again)
    ]
    assert (nameless[0] == nameless[1]) is bool(bound)
