"""Every cell of the table in docs/targets.md, and what the targets decide."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import crds
from repository import Repository, launcher
from trainwright.datatypes.data import Data
from trainwright.kinds import TARGETS

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/target_table.py"
# What says who or what a job is, not what it needs; `run` is in every name.
IDENTITY = {"apiVersion", "kind", "name", "description", "extends", "target", "run", "waivers"}


def _table() -> ModuleType:
    spec = spec_from_file_location("target_table", SCRIPT)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules["target_table"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


TABLE = _table()
COLUMNS = {"targets": TABLE.VARIANTS, "minors": TABLE.MINORS}


def _title(value: Data) -> str:
    return str(value.name).replace(" ", "-")


@pytest.mark.parametrize("columns", ["targets", pytest.param("minors", marks=pytest.mark.slow)])
@pytest.mark.parametrize("feature", TABLE.FEATURES, ids=_title)
def test_a_feature_is_rendered_or_refused(
    feature: Data, columns: str, shared: Callable[[str], Path]
) -> None:
    for variant in COLUMNS[columns]:
        _is_rendered_or_refused(feature, variant, shared)


def _is_rendered_or_refused(feature: Data, variant: Data, shared: Callable[[str], Path]) -> None:
    refusals = TABLE.refusals(feature, variant)
    if refusals:
        assert {finding.rule for finding in refusals} == {"TW021"}
        asked = yaml.load(feature.spec, Loader=yaml.CSafeLoader)
        assert {finding.path.parts[0] for finding in refusals} <= {*asked, "nodes"}
        assert TABLE.rendered(feature, variant).files == {}
        return
    text, plain = TABLE.manifests(feature, variant), TABLE.manifests(None, variant)
    seen = [words for words in feature.shows if words in text]
    assert seen
    if feature.name != "backend":  # gloo is what a job without GPUs uses anyhow
        assert any(words not in plain for words in seen), "it is there without being asked for"
    version = yaml.load(variant.options, Loader=yaml.CSafeLoader).get("version", "")
    for body in filter(None, yaml.load_all(text, Loader=yaml.CSafeLoader)):
        crd = crds.at_hand(body, version)
        assert crd is None or crds.errors(shared(crd), body) == []


def test_the_samples_ask_for_every_field() -> None:
    schema = json.loads((ROOT / "schemas/job.schema.json").read_text())["$defs"]
    fields = set(schema["fields"]["properties"]) - IDENTITY
    asked = {
        key
        for feature in TABLE.FEATURES
        for key in yaml.load(feature.spec, Loader=yaml.CSafeLoader)
    }
    assert asked == fields
    sources = set(schema["volume"]["properties"]) - {"mountPath"}
    asked_for = [
        yaml.load(feature.spec, Loader=yaml.CSafeLoader).get("volumes", {})
        for feature in TABLE.FEATURES
    ]
    volumes = [volume for asked in asked_for for volume in asked.values()]
    assert {key for volume in volumes for key in volume} - {"mountPath"} == sources


def test_every_target_has_a_column_and_every_minor_two() -> None:
    assert [variant.target for variant in TABLE.VARIANTS] == list(TARGETS)
    assert len(TABLE.MINORS) == 2 * len(crds.TRAINJOBS)


def test_elastic_jobs_are_told_where_they_can_run() -> None:
    elastic = next(f for f in TABLE.FEATURES if f.name == "elastic range")
    for variant in TABLE.VARIANTS:
        refused = [f for f in TABLE.refusals(elastic, variant) if f.path == "/elastic"]
        assert bool(refused) is not TARGETS[variant.target].elastic
        for finding in refused:
            assert "Use target pytorchjob or trainingjob" in finding.remedy


# --- decisions -----------------------------------------------------------------------------------

OPTIONS = {**dict.fromkeys(TARGETS, "{}"), "trainjob": '{version: "2.3"}'}


def _environment(*without: str) -> str:
    targets = ", ".join(
        f"{name}: {given}" for name, given in OPTIONS.items() if name not in without
    )
    return f"""\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {{version: "1.34"}}
targets: {{{targets}}}
podSecurity: baseline
"""


ENVIRONMENT = _environment("pytorchjob", "trainingjob")
ALL = _environment()


def _render(
    repository: Repository, name: str, extra: str, environment: str = ALL
) -> dict[str, Data]:
    """The rendered objects of a job in an environment with all new targets, by file name."""
    repository.write("all/environment.yaml", environment)
    repository.write(
        f"all/jobs/{name}.yaml",
        f"apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: {name}\n"
        "image: {repository: registry.example.com/train, tag: '1.0'}\n"
        f"resources: {{cpu: '1', memory: 1Gi}}\n{extra}",
    )
    done = repository.run("render", f"all/{name}")
    assert done.exit_code == 0, done.output
    prefix = f"all/rendered/{name}/"
    return {
        path.removeprefix(prefix): yaml.load(text, Loader=yaml.CSafeLoader)
        for path, text in repository.tree().items()
        if path.startswith(prefix) and path.endswith(".yaml")
    }


def _container(files: dict[str, Data], target: str) -> Data:
    spec = files[f"{target}.yaml"]["spec"]
    if target == "trainjob":
        return spec["trainer"]
    job = spec["replicatedJobs"][0]["template"]["spec"] if target == "jobset" else spec
    return job["template"]["spec"]["containers"][0]


def _address(files: dict[str, Data], target: str) -> str:
    name = files[f"{target}.yaml"]["metadata"]["name"]
    return f"{name}-0.{name}" if target == "job" else f"{name}-node-0-0.{name}"


INDEX = {
    "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
}


@pytest.mark.parametrize("target", list(TARGETS))
def test_the_only_target_of_an_environment_is_that_of_its_jobs(
    target: str, repository: Repository
) -> None:
    only = _environment(*(TARGETS.keys() - {target}))
    script = "entrypoint: {script: train.py}\n" + launcher(target)
    assert f"{target}.yaml" in _render(repository, "chosen", script, only)
    done = repository.run("explain", "all/chosen", "target")
    assert f'target: "{target}"' in done.stdout
    if target != "pytorchjob":  # which is built in
        assert "only target: environments/all/environment.yaml:5:" in done.stdout
    _render(repository, "chosen", f"{script}target: {target}\n", only)
    assert "TW060" not in repository.run("check", "all/chosen").stdout


def test_a_target_is_chosen_among_several_or_asked_for(repository: Repository) -> None:
    repository.write("all/environment.yaml", ENVIRONMENT)
    unsaid = repository.job("all/unsaid").read_text()
    done = repository.run("check", "all/unsaid")
    assert done.exit_code == 1
    assert "no target is chosen: all has compose, job, jobset, rayjob, trainjob" in done.stdout
    assert "environments/all/jobs/unsaid.yaml:2:1" in done.stdout
    written = re.findall(r"`(target: \w+)`", done.stdout)
    assert written
    for line in written:
        repository.write("all/jobs/unsaid.yaml", f"{unsaid}{line}\n")
        assert "TW020" not in repository.run("check", "all/unsaid").stdout


@pytest.mark.parametrize("target", ["jobset", "job"])
def test_our_entrypoint_is_told_where_rank_0_is(target: str, repository: Repository) -> None:
    files = _render(repository, "a", f"target: {target}\nentrypoint: {{script: t.py}}\nnodes: 3\n")
    env = {e["name"]: e["value"] for e in _container(files, target)["env"]}
    assert env == {
        "TRAINWRIGHT_MASTER_ADDR": _address(files, target),
        "TRAINWRIGHT_MASTER_PORT": "29500",
        "TRAINWRIGHT_NNODES": "3",
    }


@pytest.mark.parametrize("target", ["jobset", "job"])
def test_torchrun_gets_a_static_rendezvous(target: str, repository: Repository) -> None:
    spec = f"target: {target}\nentrypoint: {{script: t.py}}\nnodes: 3\nlauncher: torchrun\n"
    files = _render(repository, "a", spec)
    container = _container(files, target)
    assert container["command"] == [
        "torchrun",
        "--nproc-per-node=1",
        "--nnodes=3",
        "--node-rank=$(JOB_COMPLETION_INDEX)",
        f"--master-addr={_address(files, target)}",
        "--master-port=29500",
        "t.py",
    ]
    # Only what the manifest declares is put into the command.
    assert container["env"] == [{"name": "JOB_COMPLETION_INDEX", "valueFrom": INDEX}]


@pytest.mark.parametrize("target", ["trainjob", "jobset", "job"])
def test_plain_python_finds_what_a_pytorchjob_gives_it(target: str, repository: Repository) -> None:
    spec = f"target: {target}\nentrypoint: {{script: t.py}}\nnodes: 3\nlauncher: python\n"
    files = _render(repository, "a", spec)
    found = {
        e["name"]: e.get("value", e.get("valueFrom")) for e in _container(files, target)["env"]
    }
    address = _address(files, target)
    assert found == {
        "MASTER_ADDR": address,
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "3",
        "RANK": INDEX,
    }


@pytest.mark.parametrize("target", ["jobset", "job"])
def test_a_command_that_may_be_torchrun_finds_its_options(
    target: str, repository: Repository
) -> None:
    spec = f"target: {target}\nentrypoint: {{argv: [torchrun, t.py]}}\nnodes: 3\nprocsPerNode: 2\n"
    files = _render(repository, "a", spec)
    env = {e["name"]: e.get("value", e.get("valueFrom")) for e in _container(files, target)["env"]}
    assert env["PET_NNODES"] == "3"
    assert env["PET_NPROC_PER_NODE"] == "2"
    assert env["PET_NODE_RANK"] == INDEX
    assert env["WORLD_SIZE"] == "6"


def test_trainer_is_left_its_own_variables(repository: Repository) -> None:
    for name, entry in (("own", "{script: t.py}"), ("argv", "{argv: [torchrun, t.py]}")):
        files = _render(repository, name, f"target: trainjob\nentrypoint: {entry}\nnodes: 2\n")
        env = [e["name"] for e in _container(files, "trainjob").get("env", [])]
        assert not [variable for variable in env if variable.startswith("PET_")]


@pytest.mark.parametrize(("retries", "nodes", "limit"), [(0, 4, 0), (1, 1, 1), (2, 4, 8)])
def test_an_indexed_job_counts_all_the_pods_that_fail_with_one(
    retries: int, nodes: int, limit: int, repository: Repository
) -> None:
    spec = f"target: job\nentrypoint: {{script: t.py}}\nnodes: {nodes}\nretries: {retries}\n"
    body = _render(repository, "a", spec)["job.yaml"]["spec"]
    assert body["backoffLimit"] == limit
    assert ("podFailurePolicy" in body) is bool(retries)


@pytest.mark.parametrize(
    ("target", "nodes", "longest"),
    [
        # 63 characters, less what the controllers append and the nine of the run's hash.
        ("jobset", 10, 63 - len("-node-0-9-abcde") - 9),
        ("jobset", 11, 63 - len("-node-0-10-abcde") - 9),
        ("trainjob", 1000, 63 - len("-node-0-999-abcde") - 9),
        ("job", 10, 63 - len("-9") - 9),
        ("job", 101, 63 - len("-100") - 9),
    ],
)
def test_names_leave_room_for_what_controllers_append(
    target: str, nodes: int, longest: int, repository: Repository
) -> None:
    spec = f"target: {target}\nentrypoint: {{script: t.py}}\nnodes: {nodes}\n"
    assert _render(repository, "a" * longest, spec)
    over = repository.root / f"environments/all/jobs/{'a' * longest}.yaml"
    longer = over.with_name(f"{'a' * (longest + 1)}.yaml")
    longer.write_text(over.read_text().replace("a" * longest, "a" * (longest + 1)))
    done = repository.run("check", f"all/{longer.stem}")
    assert done.exit_code == 1
    assert "TW024" in done.output
    assert f"Shorten the name to at most {longest} characters" in done.output


def test_a_run_s_own_objects_are_its_and_claims_are_the_job_s(repository: Repository) -> None:
    spec = "entrypoint: {inline: print()}\ntarget: job\ncreateServiceAccount: true\n"
    spec += "volumes: {v: {create: {size: 1Gi}, mountPath: /v}}\n"
    first = _render(repository, "a", spec)
    second = _render(repository, "a", f"{spec}run: 2\n")
    for file in ("job.yaml", "configmap.yaml", "serviceaccount.yaml"):
        assert first[file]["metadata"]["name"] != second[file]["metadata"]["name"]
    claims = {f["persistentvolumeclaim.yaml"]["metadata"]["name"] for f in (first, second)}
    assert claims == {"a-v"}


def test_a_gang_is_part_of_a_run_s_name(repository: Repository) -> None:
    names = set()
    for queueing in ("volcano", "coscheduling"):
        repository.environment("q", f"queueing: {queueing}\n")
        repository.job("q/a", "gang: true\n")
        done = repository.run("render", "q")
        assert done.exit_code == 0, done.output
        names.add(json.loads(repository.tree()["q/rendered/a/run.lock"])["object"])
        shutil.rmtree(repository.root / "environments/q/rendered")
    assert len(names) == 2


def test_gitops_applies_no_compose_file(repository: Repository) -> None:
    files = _render(repository, "a", "target: compose\nentrypoint: {script: t.py}\n")
    assert set(files) == {"compose.yaml", "values.yaml"}
    kustomization = yaml.load(
        repository.tree()["all/rendered/kustomization.yaml"], Loader=yaml.CSafeLoader
    )
    assert kustomization["resources"] == []


def test_image_and_secret_rules_see_a_compose_file(repository: Repository) -> None:
    spec = "target: compose\nentrypoint: {script: t.py}\n"
    _render(repository, "a", spec)
    path = repository.root / "environments/all/jobs/a.yaml"
    path.write_text(path.read_text().replace("'1.0'", "latest") + "env: {DB_PASSWORD: hunter22x}\n")
    done = repository.run("check", "all/a")
    assert {"TW709", "TW710"} <= set(re.findall(r"\[(TW\d+)\]", done.output)), done.output


@pytest.mark.parametrize(
    ("target", "extra", "path"),
    [
        *((t, "launcher: python\nprocsPerNode: 2\n", "launcher") for t in TARGETS if t != "trainingjob"),
        ("trainingjob", "launcher: python\nprocsPerNode: 2\nlattice: {inject: false}\n", "launcher"),
        ("trainingjob", "nodes: 2\nlattice: {inject: false}\n", "lattice.inject"),
        ("pytorchjob", "launcher: python\nelastic: {minNodes: 1, maxNodes: 2}\n", "launcher"),
        ("compose", "env: {PRICE: 5$$}\n", "env.PRICE"),
    ],
)  # fmt: skip
def test_what_would_start_otherwise_is_refused(
    target: str, extra: str, path: str, repository: Repository
) -> None:
    repository.write("all/environment.yaml", ALL)
    repository.write(
        "all/jobs/a.yaml",
        "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: a\n"
        "image: {repository: registry.example.com/train, tag: '1.0'}\n"
        f"entrypoint: {{script: t.py}}\ntarget: {target}\n{extra}",
    )
    done = repository.run("check", "all/a", "-o", "json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)["report"]["results"]
    assert [(f["rule"], f["path"]) for f in found] == [("TW021", path)], done.stdout


_ALONE = (
    "[python, t.py]",
    "[/usr/bin/python3.11, -u, -m, pkg.t, --lr, '1']",
    "[env, A=1, python, t.py]",
    "[bash, -c, 'pip install x && exec python t.py --lr 1 2>&1 | tee log']",
    '[sh, -ec, "python prepare.py\\npython t.py"]',
)
_SEVERAL = (
    "[python, -m, torch.distributed.launch, t.py]",
    "[python, -m, llamafactory.cli, train]",
    "[bash, -c, 'exec torchrun t.py']",
    "[bash, -c, 'for i in 0 1; do python t.py $i & done; wait']",
    "[bash, -c, 'LOCAL_RANK=0 python t.py']",
    "[bash, train.sh]",
)


@pytest.mark.parametrize("target", ["job", "trainjob", "pytorchjob"])
@pytest.mark.parametrize(
    ("argv", "alone"),
    [*((argv, True) for argv in _ALONE), *((argv, False) for argv in _SEVERAL)],
)
def test_a_command_of_python_is_one_process(
    argv: str, alone: bool, target: str, repository: Repository
) -> None:
    repository.write("all/environment.yaml", ALL)
    job = (
        "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: a\nnodes: 2\n"
        "image: {repository: registry.example.com/train, tag: '1.0'}\n"
        f"target: {target}\nentrypoint: {{argv: {argv}}}\nprocsPerNode: "
    )
    refusal = "python starts one process per node, but 8 are requested"
    for processes in (1, 8):
        repository.write("all/jobs/a.yaml", f"{job}{processes}\n")
        found = repository.run("check", "all/a").output
        assert (refusal in found) is (alone and processes == 8), found
        assert ("Write `launcher: torchrun` and `entrypoint: {" in found) is (refusal in found)


@pytest.mark.parametrize("entry", ["{script: t.py}\nlauncher: python", "{argv: [python, t.py]}"])
def test_the_only_pod_of_a_trainingjob_is_told_so(entry: str, repository: Repository) -> None:
    files = _render(repository, "a", f"target: trainingjob\nentrypoint: {entry}\n")
    spec = files["trainingjob.yaml"]["spec"]
    container = spec["replicaSpecs"]["template"]["spec"]["containers"][0]
    env = {e["name"]: e["value"] for e in container["env"]}
    assert env | {"MASTER_ADDR": "127.0.0.1", "RANK": "0", "WORLD_SIZE": "1"} == env
    assert ("PYTHONUNBUFFERED" in env) is ("argv" in entry)


def test_the_exit_code_of_our_entrypoint_counts_on_a_trainingjob_too(
    repository: Repository,
) -> None:
    spec = "target: trainingjob\nentrypoint: {script: t.py}\nretries: 2\n"
    assert _render(repository, "a", spec)["trainingjob.yaml"]["spec"]["replicaSpecs"]["restartPolicy"] == "ExitCode"  # fmt: skip


@pytest.mark.parametrize(
    ("security", "user", "expected"),
    [
        ("restricted", "", True),
        ("baseline", "", False),
        ("privileged", "security: {runAsUser: 0}\n", False),
        ("privileged", "security: {runAsUser: 1000}\n", True),
    ],
)
def test_root_is_refused_where_the_environment_or_the_spec_says_so(
    security: str, user: str, expected: bool, repository: Repository
) -> None:
    repository.environment("x", f"podSecurity: {security}\n")
    repository.job("x/a", user)
    assert repository.run("render", "x").exit_code == 0
    body = yaml.load(repository.tree()["x/rendered/a/pytorchjob.yaml"], Loader=yaml.CSafeLoader)
    pod = body["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is expected


SCRIPT_JOB = "entrypoint: {script: train.py}\n"
# Sizes at which the number of a pod gets one more digit, and what its longest name ends with.
LONGEST = [
    ("pytorchjob", "nodes: 1", "-master-0"),
    ("pytorchjob", "nodes: 11", "-master-0"),
    ("pytorchjob", "nodes: 12", "-worker-10"),
    ("pytorchjob", "elastic: {minNodes: 1, maxNodes: 10}", "-worker-9"),
    ("pytorchjob", "elastic: {minNodes: 1, maxNodes: 11}", "-worker-10"),
    ("pytorchjob", "elastic: {minNodes: 10, maxNodes: 100}", "-worker-99"),
    ("pytorchjob", "elastic: {minNodes: 10, maxNodes: 101}", "-worker-100"),
    ("trainingjob", "nodes: 10", "-worker-9"),
    ("trainingjob", "nodes: 11", "-worker-10"),
    ("trainingjob", "elastic: {minNodes: 1, maxNodes: 10}", "-worker-9"),
    ("trainingjob", "elastic: {minNodes: 1, maxNodes: 11}", "-worker-10"),
    ("trainjob", "nodes: 10", "-node-0-9-abcde"),
    ("trainjob", "nodes: 11", "-node-0-10-abcde"),
    ("jobset", "nodes: 10", "-node-0-9-abcde"),
    ("jobset", "nodes: 11", "-node-0-10-abcde"),
    ("job", "nodes: 10", "-9"),
    ("job", "nodes: 11", "-10"),
    ("rayjob", "launcher: ray\nnodes: 10", "-abcde-head-abcde"),
    ("compose", "nodes: 1", ""),
]


@pytest.mark.parametrize(("target", "size", "suffix"), LONGEST)
def test_the_longest_name_of_a_pod_has_63_characters_and_no_more(
    target: str, size: str, suffix: str, repository: Repository
) -> None:
    room = 63 - len("-12345678") - len(suffix)  # the object's own suffix is the run's
    spec = f"{SCRIPT_JOB}target: {target}\n{size}\n"
    _render(repository, "n" * room, spec)
    with pytest.raises(AssertionError, match=re.escape(f'{suffix}" would have 64 characters')):
        _render(repository, "n" * (room + 1), spec)


@pytest.mark.parametrize(
    ("size", "least"),
    [
        ("nodes: 3", 3),
        ("nodes: 3\nelastic: {minNodes: 2, maxNodes: 5}", 2),
        ("nodes: 5\nelastic: {minNodes: 1, maxNodes: 5}", 1),
    ],
)
def test_a_gang_of_a_pytorchjob_waits_for_the_fewest_nodes(
    size: str, least: int, repository: Repository
) -> None:
    spec = f"{SCRIPT_JOB}target: pytorchjob\ngang: true\n{size}\n"
    files = _render(repository, "gang", spec, ALL + "queueing: volcano\n")
    policy = files["pytorchjob.yaml"]["spec"]["runPolicy"]["schedulingPolicy"]
    assert policy["minAvailable"] == least


@pytest.mark.parametrize(
    ("size", "mode"),
    [
        ("nodes: 1", "ReadWriteOnce"),
        ("nodes: 1\nelastic: {minNodes: 1, maxNodes: 1}", "ReadWriteOnce"),
        ("nodes: 1\nelastic: {minNodes: 1, maxNodes: 2}", "ReadWriteMany"),
        ("nodes: 2", "ReadWriteMany"),
    ],
)
def test_a_claim_is_for_the_most_nodes(size: str, mode: str, repository: Repository) -> None:
    volume = "volumes: {v: {create: {size: 1Gi}, mountPath: /v}}\n"
    spec = f"{SCRIPT_JOB}target: pytorchjob\n{size}\n{volume}"
    files = _render(repository, "claims", spec)
    assert files["persistentvolumeclaim.yaml"]["spec"]["accessModes"] == [mode]
