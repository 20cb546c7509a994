"""What users of another tool write first, and whether the message cures it.

`first_mistakes.yaml` has the mistakes. What is told is done as it stands: by `check --fix`, or where
a person has to decide, by the edit that is given with the mistake.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from repository import ENVIRONMENT, Repository
from trainwright.datatypes import quantity

MISTAKES = {
    f"{of}: {name}": mistake
    for of, group in yaml.load(
        Path(__file__).with_name("first_mistakes.yaml").read_text("utf-8"), Loader=yaml.CSafeLoader
    ).items()
    for name, mistake in group.items()
}
POOLS = "pools: {a100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 16}}\n"
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
resources: {cpu: "1", memory: 1Gi}
nodes: 2
maxDuration: 2h
pool: a100
"""
BASE = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: mnist\n"
DEFAULTS = "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n"
JOB_FILE, ENVIRONMENT_FILE = "prod/jobs/llm.yaml", "prod/environment.yaml"


def _with(text: str, written: str, without: list[str]) -> str:
    """A file with lines of their own for what is written, in place of those of the same keys."""
    keys = {*re.findall(r"^(\w+):", written, re.MULTILINE), *without}
    lines = (line for line in text.splitlines(True) if line.partition(":")[0] not in keys)
    return "".join(lines) + (f"{written.rstrip()}\n" if written else "")


def _errors(repository: Repository) -> list[dict[str, str]]:
    done = repository.run("check", "--no-cache", "-o", "json")
    results = json.loads(done.stdout)["report"]["results"]
    return [result for result in results if result["severity"] == "error"]


def _write(repository: Repository, mistake: dict[str, str], job: str, environment: str) -> None:
    without = [*mistake.get("without", ())]
    repository.write(ENVIRONMENT_FILE, _with(ENVIRONMENT + POOLS, environment, []))
    repository.write(JOB_FILE, mistake.get("whole") or _with(JOB, job, without))
    repository.write("base/jobs/mnist.yaml", BASE)
    if "defaults" in mistake:
        repository.write("defaults.yaml", _with(DEFAULTS, mistake["defaults"], []))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def _by_hand() -> Iterator[str]:
    yield from (name for name, mistake in MISTAKES.items() if "done" in mistake)


def _by_command() -> Iterator[str]:
    yield from (name for name, mistake in MISTAKES.items() if "done" not in mistake)


@pytest.mark.parametrize("name", [*_by_command()])
def test_it_is_cured_by_what_the_message_tells(name: str, repository: Repository) -> None:
    mistake = MISTAKES[name]
    _write(repository, mistake, mistake.get("written", ""), mistake.get("environment", ""))
    told = _errors(repository)
    assert told, "it is a mistake"
    if mistake.get("by") == "import":
        assert len(told) == 1, "one message, and not one for each field"
        (command,) = re.findall(r"`trainwright ([^`]+)`", told[0]["remedy"])
        imported = repository.run(*command.split())
        assert imported.exit_code in (0, 1), imported.output
    else:
        fixed = repository.run("check", "--fix", "--yes")
        assert fixed.exit_code == 0, [error["remedy"] for error in told]
    assert _errors(repository) == []


@pytest.mark.parametrize("name", [*_by_hand()])
def test_a_person_who_does_what_the_message_tells_cures_it(
    name: str, repository: Repository
) -> None:
    mistake = MISTAKES[name]
    _write(repository, mistake, mistake.get("written", ""), mistake.get("environment", ""))
    told = _errors(repository)
    assert any(mistake["told"] in f"{one['message']} {one['remedy']}" for one in told), told
    before = (repository.root / "environments" / JOB_FILE).read_text()
    repository.run("check", "--fix", "--yes")
    assert (repository.root / "environments" / JOB_FILE).read_text() == before, "nothing is guessed"
    in_job = "written" in mistake
    job, environment = (mistake["done"], "") if in_job else ("", mistake["done"])
    _write(repository, {**mistake, "whole": ""}, job, environment)
    assert _errors(repository) == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("script: python train.py --lr 0.1", {"script": "train.py", "args": ["--lr", "0.1"]}),
        ("script: train.py --lr 0.1", {"script": "train.py", "args": ["--lr", "0.1"]}),
        ("module: trainer.main --lr 0.1", {"module": "trainer.main", "args": ["--lr", "0.1"]}),
        ("module: -m trainer.main", {"module": "trainer.main"}),
        ("script: -m trainer.main", {"module": "trainer.main"}),
        ("script: python -m llm.train --lr 1", {"module": "llm.train", "args": ["--lr", "1"]}),
        ("script: python3 -m trainer.main", {"module": "trainer.main"}),
    ],
)
def test_a_command_line_keeps_its_words(
    written: str, meant: dict[str, list[str]], repository: Repository
) -> None:
    _write(repository, {}, f"entrypoint: {{{written}}}", "")
    assert repository.run("check", "--fix", "--yes").exit_code == 0
    text = (repository.root / "environments" / JOB_FILE).read_text()
    assert yaml.load(text, Loader=yaml.CSafeLoader)["entrypoint"] == meant


_TORCHRUN = {"entrypoint": {"script": "train.py"}, "launcher": "torchrun"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (
            "{script: torchrun --nproc_per_node=8 train.py}",
            {**_TORCHRUN, "procsPerNode": 8},
        ),
        ("{script: torchrun --standalone --nproc_per_node gpu train.py}", _TORCHRUN),
        ("torchrun --nnodes=2 train.py", _TORCHRUN),
        ("{script: torchrun train.py}", _TORCHRUN),
        ("{script: python train.py}", {"entrypoint": {"script": "train.py"}}),
        ("{script: my train.py}", {"entrypoint": {"script": "my train.py"}}),
        ("{script: torchrun.py}", {"entrypoint": {"script": "torchrun.py"}}),
        (
            "{script: torchrun --max-restarts=3 -m trainer.main --lr 1}",
            {
                "entrypoint": {"module": "trainer.main", "args": ["--lr", "1"]},
                "launcher": "torchrun",
                "launcherOptions": {"max-restarts": 3},
            },
        ),
        (
            "{module: torchrun --tee 3 -m trainer.main --lr 1}",
            {
                "entrypoint": {"module": "trainer.main", "args": ["--lr", "1"]},
                "launcher": "torchrun",
                "launcherOptions": {"tee": 3},
            },
        ),
        (
            "{script: accelerate launch --num_processes 8 --mixed_precision bf16 train.py}",
            {
                "entrypoint": {"script": "train.py"},
                "launcher": "accelerate",
                "launcherOptions": {"mixed-precision": "bf16"},
                "procsPerNode": 8,
            },
        ),
        (
            "{script: deepspeed --num_gpus=8 train.py --deepspeed ds.json}",
            {
                "entrypoint": {"script": "train.py", "args": ["--deepspeed", "ds.json"]},
                "launcher": "deepspeed",
                "procsPerNode": 8,
            },
        ),
        ("{script: python -m torch.distributed.run train.py}", _TORCHRUN),
        (
            "{script: bash run.sh --lr 1}",
            {"entrypoint": {"argv": "bash run.sh --lr 1".split()}},
        ),
        ("{script: run.sh --lr 1}", {"entrypoint": {"argv": "bash run.sh --lr 1".split()}}),
        (
            "{script: OMP_NUM_THREADS=8 python train.py --lr 1}",
            {"entrypoint": {"argv": ["bash", "-c", "OMP_NUM_THREADS=8 python train.py --lr 1"]}},
        ),
        (
            "cd /app && python train.py",
            {"entrypoint": {"argv": ["bash", "-c", "cd /app && python train.py"]}},
        ),
    ],
)
def test_what_starts_a_program_is_no_argument_of_python(
    written: str, meant: dict[str, object], repository: Repository
) -> None:
    _write(repository, {}, f"entrypoint: {written}", "")
    done = repository.run("check", "--fix", "--yes")
    text = (repository.root / "environments" / JOB_FILE).read_text()
    spec = yaml.load(text, Loader=yaml.CSafeLoader)
    keys = ("entrypoint", "launcher", "launcherOptions", "procsPerNode")
    assert {key: spec[key] for key in keys if key in spec} == meant, done.output
    assert spec["nodes"] == 2


@pytest.mark.parametrize("beside", ["launcher: deepspeed", "procsPerNode: 4"])
def test_a_launcher_replaces_nothing_that_is_written(beside: str, repository: Repository) -> None:
    line = f"entrypoint: {{script: torchrun --nproc_per_node=8 train.py}}\n{beside}"
    _write(repository, {}, line, "")
    before = (repository.root / "environments" / JOB_FILE).read_text()
    assert repository.run("check", "--fix", "--yes").exit_code == 1
    assert (repository.root / "environments" / JOB_FILE).read_text() == before


_GPUS = "resources: {cpu: '8', memory: 64Gi, gpu: 8}\n"


@pytest.mark.parametrize(
    ("written", "rule", "told", "done"),
    [
        (
            "entrypoint: {argv: [torchrun, --standalone, --nproc_per_node=8, train.py]}\n"
            "target: pytorchjob\nnodes: 1\nprocsPerNode: 1\n",
            "TW112",
            "Write `procsPerNode: 8`.",
            "entrypoint: {argv: [torchrun, --standalone, --nproc_per_node=8, train.py]}\n"
            "target: pytorchjob\nnodes: 1\nprocsPerNode: 8\n",
        ),
        (
            "entrypoint: {argv: [torchrun, --standalone, --nproc_per_node=4, train.py]}\n"
            "target: pytorchjob\nnodes: 1\nprocsPerNode: 8\n",
            "TW112",
            "Leave the option out",
            "entrypoint: {argv: [torchrun, --standalone, train.py]}\n"
            "target: pytorchjob\nnodes: 1\nprocsPerNode: 8\n",
        ),
    ],
)
def test_a_warning_is_cured_without_another(
    written: str, rule: str, told: str, done: str, repository: Repository
) -> None:
    targets = "targets: {trainjob: {version: '2.3'}, pytorchjob: {version: '1.9'}}\n"
    _write(repository, {}, f"{_GPUS}{written}", targets)
    assert told in _remedies(repository)[rule]
    _write(repository, {}, f"{_GPUS}{done}", targets)
    assert _remedies(repository) == {}


@pytest.mark.parametrize(
    ("written", "told", "done"),
    [
        (
            "flags: {nnodes: 2}",
            "Set nodes in place of it; an option of the program itself goes to entrypoint.args.",
            "nodes: 2",
        ),
        (
            "flags: {max_restarts: 3}",
            "Move it to launcherOptions; an option of the program itself goes to entrypoint.args.",
            "launcherOptions: {max_restarts: 3}",
        ),
        (
            "flags: {rdzv_endpoint: 'a:1'}",
            "Move it to launcherOptions; an option of the program itself goes to entrypoint.args.",
            "entrypoint: {script: train.py, args: [--rdzv_endpoint=a]}",
        ),
        (
            "flags: {batch-size: 1, batch_size: 2}",
            "Keep the one that the program has.",
            "flags: {batch_size: 2}",
        ),
    ],
)
def test_a_flag_that_sets_no_other_option_is_told(
    written: str, told: str, done: str, repository: Repository
) -> None:
    _write(repository, {}, f"launcher: torchrun\n{_GPUS}{written}", "")
    assert _remedies(repository) == {"TW061": told}
    before = (repository.root / "environments" / JOB_FILE).read_text()
    repository.run("check", "--fix", "--yes")
    assert (repository.root / "environments" / JOB_FILE).read_text() == before
    _write(repository, {}, f"launcher: torchrun\n{_GPUS}{done}", "")
    assert _remedies(repository) == {}


def _remedies(repository: Repository) -> dict[str, str]:
    report = repository.run("check", "--no-cache", "-o", "json").stdout
    return {one["rule"]: one["remedy"] for one in json.loads(report)["report"]["results"]}


@pytest.mark.parametrize("name", ["123", "2024-01-01"])
@pytest.mark.parametrize("written", ["name: {}", "name: '{}'", "labels: {{a: b}}"])
def test_a_file_by_a_number_gets_the_name_of_a_job(
    name: str, written: str, repository: Repository
) -> None:
    text = _with(JOB, written.format(name), ["name"])
    _write(repository, {}, "", "")
    repository.write(f"prod/jobs/{name}.yaml", text)
    (told,) = _errors(repository)
    assert told["remedy"] == f"Rename it to job-{name}.yaml, and write `name: job-{name}`."
    assert repository.run("check", "--fix", "--yes").exit_code == 1
    assert (repository.root / f"environments/prod/jobs/{name}.yaml").read_text() == text
    (repository.root / f"environments/prod/jobs/{name}.yaml").unlink()
    repository.write(f"prod/jobs/job-{name}.yaml", _with(text, f"name: job-{name}", []))
    assert _errors(repository) == []


@pytest.mark.parametrize(
    "written",
    [
        "elastic: {min: 2, max: 4}",
        "secrets: {TOKEN: {secretKeyRef: {name: hf, key: token}}}",
        "checkpoint: {url: 's3://bucket/x', every: 500}",
        "image: {registry: registry.example.com, name: ml/train, tag: '1.0'}",
        "name: LLM",
    ],
)
def test_what_is_missing_is_told_by_what_stands_in_its_place(
    written: str, repository: Repository
) -> None:
    _write(repository, {}, written, "")
    assert not [one for one in _errors(repository) if "missing" in one["message"]]
    assert len({one["remedy"] for one in _errors(repository)}) == len(_errors(repository))


@pytest.mark.parametrize("base", ["", "queue: main\n"])
def test_a_null_is_told_where_a_base_has_the_value(base: str, repository: Repository) -> None:
    _write(repository, {}, "queue: main" if not base else "extends: base/mnist", "")
    repository.write("base/jobs/mnist.yaml", BASE + base)
    (told,) = _errors(repository)
    assert ("(queue: null)" in told["remedy"]) == bool(base)


@pytest.mark.parametrize("written", ["$LOCAL_RANK", "$(LOCAL_RANK)"])
def test_a_flag_that_a_launcher_sets_is_left_out(written: str, repository: Repository) -> None:
    _write(repository, {}, f"launcher: torchrun\nflags: {{rank: {written}}}\n{_GPUS}", "")
    told = "Leave it out: torchrun sets LOCAL_RANK for each process, which reads it by itself."
    assert [*_remedies(repository).values()] == [told]


_IN_SHELL = 'Only a shell runs a command, as in `argv: [bash, -c, "…"]`'
_IN_CONTAINER = "Write a path in the container, such as one below the `mountPath` of a volume."


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("~/data", _IN_CONTAINER),
        ("${run.name}", "Write `${{ run.name }}`."),
        ("{{ job.name }}", "Write `${{ job.name }}`."),
        ("${macros.replica_id}", "Write `${{ node.rank }}`."),
        ("$SLURM_JOB_ID", "Write `${{ run.name }}`."),
        ("$SKYPILOT_NUM_NODES", "Write `${{ nodes }}`."),
        ("log-%j", "Write `${{ run.name }}`."),
        ("$HOME", "Write its value; or `$(HOME)`, with HOME under env."),
        ("$(hostname)", _IN_SHELL),
        ("$(date +%s)", _IN_SHELL),
        ("`date`", _IN_SHELL),
    ],
)
@pytest.mark.parametrize(
    "where", ["flags: {{name: {}}}", "entrypoint: {{script: t.py, args: [{}]}}"]
)
def test_what_another_tool_replaces_is_told_as_it_is_written_here(
    where: str, written: str, told: str, repository: Repository
) -> None:
    job = f"launcher: torchrun\n{_GPUS}"
    _write(repository, {}, job + where.format(json.dumps(written)), "")
    (remedy,) = _remedies(repository).values()
    assert remedy.startswith(told)
    if meant := re.search(r"(?:Write|or) `(\$[^`]+)`", remedy):
        env = "\nenv: {HOME: /x}" if "$(HOME)" in remedy else ""
        _write(repository, {}, job + where.format(json.dumps(meant[1])) + env, "")
        assert _remedies(repository) == {}


@pytest.mark.parametrize("written", ["%Y-%j", "100%", "a ~/b", "${oc.env:HOME}", "`x` is code"])
def test_what_a_program_may_read_itself_is_told_nothing(
    written: str, repository: Repository
) -> None:
    flags = f"flags: {{name: {json.dumps(written)}}}"
    _write(repository, {}, f"launcher: torchrun\n{_GPUS}{flags}", "")
    assert _remedies(repository) == {}


def test_a_command_has_references_for_what_a_launcher_names(repository: Repository) -> None:
    argv = "entrypoint: {argv: [torchrun, --node_rank=$NODE_RANK, train.py]}"
    _write(repository, {}, argv, "")
    assert _remedies(repository)["TW774"] == "Write `${{ node.rank }}`."


@pytest.mark.parametrize(
    ("missing", "environment", "declared"),
    [
        ("pool: h100", "queueing: none", "h100: {resource: nvidia.com/gpu, gpusPerNode: 1"),
        ("pool: h100", "pools: {}", "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 1"),
        ("pool: null", "pools: {}", "pools: {gpu: {resource: nvidia.com/gpu, gpusPerNode: 1"),
        ("pool: null", "pools: {cpu: {}}", "gpu: {resource: nvidia.com/gpu, gpusPerNode: 1"),
        ("queue: nlp", "queueing: kueue\nqueues: {vision: {}}", "nlp: {}"),
        ("target: jobset", "queueing: none", "jobset: {}"),
    ],
)
def test_what_an_environment_lacks_is_told_as_lines_to_write(
    missing: str, environment: str, declared: str, repository: Repository
) -> None:
    job = "resources: {cpu: '1', memory: 4Gi, gpu: 1}\n"
    job += "pool: a100\n" * (not missing.startswith("pool"))
    _write(repository, {}, f"{job}{missing}".replace("pool: null", "pool: gpu"), environment)
    if missing == "pool: null":
        text = (repository.root / "environments" / JOB_FILE).read_text()
        repository.write(JOB_FILE, text.replace("pool: gpu\n", ""))
    (told,) = _errors(repository)
    shown = re.search(f"`({re.escape(declared)}[^`]*)`", told["remedy"])
    assert shown, told
    written = yaml.load(shown[1], Loader=yaml.CSafeLoader)
    path = repository.root / "environments" / ENVIRONMENT_FILE
    data = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    field = "targets" if "target" in missing else f"{missing.partition(':')[0]}s"
    data |= written if field in written else {field: {**data.get(field, {}), **written}}
    repository.write(ENVIRONMENT_FILE, yaml.safe_dump(data))
    if "pool: gpu" in told["remedy"]:
        repository.write(JOB_FILE, f"{text}pool: gpu\n".replace("pool: gpu\npool", "pool"))
    assert _errors(repository) == []


_SET = re.compile(r"Set `resources[.](\w+)` to \"(\w+)\" or more")


@pytest.mark.parametrize("written", ["cpu: '2'", "memory: 64Mi", "cpu: '2', memory: 64Mi", ""])
@pytest.mark.parametrize("inherited", ["cpu: '2', memory: 4Gi", "cpu: '96', memory: 64Gi", ""])
@pytest.mark.parametrize(
    "beside",
    [
        "nodes: 2",
        "launcher: torchrun\nflags: {num_workers: 4}",
        "launcher: torchrun\nenv: {OMP_NUM_THREADS: '8'}",
        "procsPerNode: 4",
    ],
)
def test_no_rule_finds_fault_with_what_another_proposes(
    written: str, inherited: str, beside: str, repository: Repository
) -> None:
    defaults = f"{POOLS}defaults: {{resources: {{{inherited}}}}}"
    amounts = yaml.safe_load(f"{{gpu: 8, {written}}}")
    done = set[str]()
    for _ in ("errors", "warnings", "nothing"):
        _write(repository, {}, f"resources: {json.dumps(amounts)}\n{beside}", defaults)
        told = _of_resources(repository)
        assert not done & told.keys(), "a rule complains of the value that another proposed"
        amounts |= told
        done |= told.keys()
    assert told == {}


def _of_resources(repository: Repository) -> dict[str, str]:
    """Return what is told to write for CPU and memory: of several amounts the largest."""
    report = repository.run("check", "--no-cache", "-o", "json").stdout
    told = dict[str, str]()
    for one in json.loads(report)["report"]["results"]:
        if re.search(r"resources[./]?(cpu|memory|)$", one["path"]):
            proposed = _SET.search(one["remedy"])
            assert proposed, f"it tells no value: {one}"
            amounts = (proposed[2], told.get(proposed[1], "0"))
            told[proposed[1]] = max(amounts, key=quantity.parse)
    return told


def test_there_are_enough_of_them() -> None:
    assert len(MISTAKES) >= 534


@pytest.mark.parametrize(
    ("resource", "meant"),
    [
        ("nvidia/gpu", "nvidia.com/gpu"),
        ("nvidia.com/gpus", "nvidia.com/gpu"),
        ("amd/gpu", "amd.com/gpu"),
        ("nvidia.com/gpu.shared", ""),
        ("nvidia.com/mig-1g.10gb", ""),
        ("gpu.intel.com/i915", ""),
    ],
)
def test_a_misspelt_resource_of_a_pool_is_no_device(
    resource: str, meant: str, repository: Repository
) -> None:
    pool = f"pools: {{a100: {{resource: {resource}, gpusPerNode: 8, capacity: 16}}}}"
    _write(repository, {}, _GPUS, pool)
    remedies = [one["remedy"] for one in _errors(repository)]
    told = f"Write `resource: {meant}` in pools.a100 of the environment."
    assert remedies == ([told] if meant else [])
