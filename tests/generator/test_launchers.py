"""Launchers and their options: held against their own parsers, on every target, and started."""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from normal_forms import normal_form
from repository import EVERY_TARGET, Repository
from trainwright.datatypes.manifest import Manifest
from trainwright.documents import yamlio
from trainwright.importing.equivalence import NormalForm
from trainwright.kinds import TARGETS
from trainwright.objects.pods import command
from trainwright.objects.pods.launchers import LAUNCHERS, NUMBER, SWITCH, Spelled, Whole, plain

ENVIRONMENT = (
    """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
podSecurity: baseline
pools: {gpu: {resource: nvidia.com/gpu}}
"""
    + EVERY_TARGET
)
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
flags: {lr: 0.1}
resources: {cpu: "1", memory: 1Gi}
maxDuration: null
"""
SEVERAL = ("pytorchjob", "trainjob", "jobset", "job")
ALL = [name for name, target in TARGETS.items() if not target.launchers]


def _written(repository: Repository, target: str, text: str) -> None:
    repository.write("prod/environment.yaml", ENVIRONMENT)
    repository.write("prod/jobs/llm.yaml", f"{JOB}target: {target}\n{text}")


def _rendered(repository: Repository, target: str, text: str) -> NormalForm:
    _written(repository, target, text)
    done = repository.run("render", "prod")
    assert done.exit_code == 0, done.output
    folder = repository.root / "environments/prod/rendered/llm"
    envelope = TARGETS[target].envelope or dict
    manifests = tuple(
        Manifest(body=envelope(body), path=path.name)
        for path in sorted(folder.glob("*.yaml"))
        if path.name != "values.yaml"
        for body in yamlio.load_rendered(path.read_text(encoding="utf-8"))
    )
    name = json.loads((folder / "run.lock").read_text(encoding="utf-8"))["object"]
    return normal_form(manifests, name)


def _command(repository: Repository) -> list[str]:
    path = repository.root / "environments/prod/rendered/llm/values.yaml"
    found: list[str] = yaml.safe_load(path.read_text(encoding="utf-8"))["command"]
    return found


# --- the options are those of the parsers --------------------------------------------------------


def _of_parser(actions: Iterable[argparse.Action]) -> dict[str, Any]:
    """What each long option takes, by its name with dashes."""
    found: dict[str, Any] = {}
    for action in actions:
        for option in action.option_strings:
            if option.startswith("--") and option != "--help":
                found[plain(option[2:])] = SWITCH if action.nargs == 0 else action
    return found


def _agrees(launcher: str, actions: Iterable[argparse.Action], *, foreign: str = "") -> None:
    known, parsed = LAUNCHERS[launcher], _of_parser(actions)
    assert set(foreign.split()) <= set(parsed)
    ours = set(known.options) | (set(known.decided) & set(parsed))
    assert ours == set(parsed) - set(foreign.split())
    for name, takes in known.options.items():
        action = parsed[name]
        assert (takes == SWITCH) == (action == SWITCH), name
        if action != SWITCH:
            assert not isinstance(takes, tuple) or set(takes) <= set(action.choices or takes), name
            # recovery: live is of elastic jobs
            assert name == "recovery" or not action.choices or set(action.choices) == set(takes)
            assert (action.type is int) <= isinstance(takes, Whole), name
            is_number = takes == NUMBER or (isinstance(takes, Spelled) and takes.called == NUMBER)
            assert (action.type is float) <= is_number, name


def test_options_of_torchrun() -> None:
    run = pytest.importorskip("torch.distributed.run")
    actions = run.get_args_parser()._actions
    # every option also has a spelling with underscores, and -m, -t and -r have a long one
    _agrees("torchrun", actions)
    assert set(LAUNCHERS["torchrun"].decided) <= set(_of_parser(actions))


def test_options_of_accelerate() -> None:
    launch = pytest.importorskip("accelerate.commands.launch")
    actions = launch.launch_command_parser()._actions
    # what is for TPU pods, SageMaker, mpirun and ssh has no place in a container of a job
    foreign = (
        "tpu tpu-cluster no-tpu-cluster tpu-use-sudo vm env aws-access-key-id "
        "aws-secret-access-key mpirun-hostfile deepspeed-exclusion-filter "
        "deepspeed-inclusion-filter"
    )
    _agrees("accelerate", actions, foreign=foreign)
    assert set(LAUNCHERS["accelerate"].decided) <= set(_of_parser(actions))


def test_options_of_deepspeed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job sets what both the command and what it starts on a node take, and decides the rest."""
    node = pytest.importorskip("deepspeed.launcher.launch")
    command = importlib.import_module("deepspeed.launcher.runner")
    with monkeypatch.context() as patch:  # their parsers are made where they parse
        patch.setattr(argparse.ArgumentParser, "parse_args", lambda self, args=None: self)
        of_node, of_command = (module.parse_args()._actions for module in (node, command))
    _agrees("deepspeed", of_node)
    known = LAUNCHERS["deepspeed"]
    both = set(_of_parser(of_node)) | set(_of_parser(of_command))
    assert both == set(known.options) | set(known.decided)
    assert set(known.options) <= set(_of_parser(of_command))


def test_words_of_accelerate_that_its_parser_leaves_open() -> None:
    constants = pytest.importorskip("accelerate.utils.constants")
    for option in ("sharding-strategy", "auto-wrap-policy", "backward-prefetch", "state-dict-type"):
        takes = LAUNCHERS["accelerate"].options[f"fsdp-{option}"]
        assert isinstance(takes, Spelled)
        names = getattr(constants, f"FSDP_{option.upper().replace('-', '_')}")
        assert takes.called == f"one of {', '.join(names)}"
        assert all(map(takes.takes, [*names, names[0].lower(), "1", str(len(names))]))
        assert not takes.takes(str(len(names) + 1))


def test_streams_are_read_as_torchrun_reads_them() -> None:
    api = pytest.importorskip("torch.distributed.elastic.multiprocessing.api")
    takes = LAUNCHERS["torchrun"].options["tee"]
    assert isinstance(takes, Spelled)
    for text in ("0", "3", "0:3", "0:1,1:2"):
        assert api.Std.from_str(text) is not None
        assert takes.takes(text)
    for text in ("4", "0:4", "0:1,", "out", ""):
        with pytest.raises(ValueError, match="does not match"):
            api.Std.from_str(text)
        assert not takes.takes(text)


def test_options_of_the_entrypoint() -> None:
    options = pytest.importorskip("trainwright_runtime.launch.options")
    actions = options.argument_parser({})._actions
    _agrees("trainwright", actions)
    _agrees("ray", actions)


def test_options_of_ray() -> None:
    """What a job sets of `ray start` is called as there, and what it may not set is there too."""
    ray = pytest.importorskip("ray.scripts.scripts")
    parsed = {plain(option[2:]) for each in ray.start.params for option in each.opts}
    of_entrypoint = {"rendezvous-timeout", "log-format"}
    known = LAUNCHERS["ray"]
    assert set(known.options) - of_entrypoint <= parsed
    decided = {name for name, by in known.decided.items() if by.startswith("the target")}
    assert {*decided, "num-gpus"} <= parsed


# --- on every target -----------------------------------------------------------------------------

OPTIONS = {
    "torchrun": "{max-restarts: 3, tee: '3', local_ranks_filter: '0', rdzv-conf: timeout=900}",
    "accelerate": "{mixed_precision: bf16, dynamo-backend: inductor, debug: true}",
    "deepspeed": "{no-local-rank: true, log_level: error}",
    "trainwright": "{log-format: json, max-restarts: 2, recovery: restart}",
}
SHOWN = {
    "torchrun": {"max-restarts": "3", "tee": "3", "local-ranks-filter": "0", "rdzv-conf": "timeout=900"},
    "accelerate": {"mixed-precision": "bf16", "dynamo-backend": "inductor", "debug": ""},
    "deepspeed": {"no-local-rank": "", "log-level": "error"},
    "trainwright": {"log-format": "json", "max-restarts": "2", "recovery": "restart"},
}  # fmt: skip


@pytest.mark.parametrize("launcher", OPTIONS)
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("nodes", [1, 3])
def test_each_pod_gets_its_ranks_and_options(
    launcher: str, target: str, nodes: int, repository: Repository
) -> None:
    if nodes > 1 and target not in SEVERAL:
        return
    text = (
        f"launcher: {launcher}\nlauncherOptions: {OPTIONS[launcher]}\nnodes: {nodes}\n"
        "procsPerNode: 2\n"
    )
    if target == "trainingjob":
        text += "lattice: {inject: false}\n"
    found = _rendered(repository, target, text)
    ranks = [
        (p.rank, p.local_rank, p.world_size, p.meets_at)
        for pod in found.pods
        for p in pod.processes
    ]
    world = 2 * nodes
    if (launcher, target) != ("torchrun", "compose"):  # --standalone has c10d
        assert ranks == [(n, n % 2, world, "rank 0") for n in range(world)]
    for pod in found.pods:
        shown = {k: v for k, v in pod.program.options.items() if k in SHOWN[launcher]}
        assert shown == SHOWN[launcher]
        assert pod.program.launcher == launcher
        assert (pod.program.path, pod.program.flags) == ("train.py", {"lr": ("0.1",)})


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("nodes", [1, 3])
def test_ray_runs_the_program_on_rank_0(target: str, nodes: int, repository: Repository) -> None:
    if nodes > 1 and target not in SEVERAL:
        return
    lattice = "lattice: {inject: false}\n" if target == "trainingjob" else ""
    options = "launcherOptions: {object-store-memory: 256Mi, log_format: json}\n"
    text = f"launcher: ray\n{options}nodes: {nodes}\ngracePeriod: 40s\n{lattice}"
    found = _rendered(repository, target, text)
    assert [len(pod.processes) for pod in found.pods] == [1, *([0] * (nodes - 1))]
    (driver,) = found.pods[0].processes
    assert (driver.rank, driver.meets_at) == (None, "rank 0")
    assert _command(repository) == [
        "python", "-m", "trainwright_runtime", "--backend=gloo", "--ray", "--num-cpus=1",
        "--grace-period=40", "--log-format=json", "--object-store-memory=256Mi", "--", "train.py",
    ]  # fmt: skip
    for pod in found.pods:
        assert (pod.program.launcher, pod.program.path) == ("ray", "train.py")
        assert pod.program.flags == {"lr": ("0.1",)}


@pytest.mark.parametrize("launcher", ["accelerate", "deepspeed", "ray", "torchrun"])
def test_a_module_is_started(launcher: str, repository: Repository) -> None:
    text = f"launcher: {launcher}\nentrypoint: {{script: null, module: a.b}}\nnodes: 2\n"
    repository.write("base/jobs/half.yaml", JOB.replace("name: llm", "name: half"))
    repository.write("prod/environment.yaml", ENVIRONMENT)
    head = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: llm\nextends: base/half\n"
    repository.write("prod/jobs/llm.yaml", f"{head}target: job\n{text}")
    assert repository.run("render", "prod").exit_code == 0
    found = command.parse((*_command(repository), "--x"))
    assert found.is_module
    assert (*_command(repository), "--x")[found.program or 0] == "a.b"


def test_the_words_of_accelerate(repository: Repository) -> None:
    _rendered(repository, "pytorchjob", "launcher: accelerate\nnodes: 2\nprocsPerNode: 4\n")
    address = _command(repository)[6]
    assert _command(repository) == [
        "accelerate", "launch", "--num_machines=2", "--num_processes=8", "--multi_gpu",
        "--machine_rank=$(RANK)", address, "--main_process_port=23456", "train.py",
    ]  # fmt: skip
    assert address.startswith("--main_process_ip=llm-")
    assert address.endswith("-master-0")
    options = "launcherOptions: {use-fsdp: true, fsdp_version: 2}\n"
    _rendered(repository, "job", f"launcher: accelerate\nnodes: 2\n{options}")
    words = _command(repository)
    assert "--multi_gpu" not in words
    assert {"--use_fsdp", "--fsdp_version=2", "--deepspeed_multinode_launcher=standard"} < {*words}


@pytest.mark.parametrize("target", SEVERAL)
def test_another_rendezvous_of_torchrun_is_at_rank_0(target: str, repository: Repository) -> None:
    options = "launcherOptions: {rdzv-backend: c10d, rdzv-id: x}\n"
    found = _rendered(repository, target, f"launcher: torchrun\nnodes: 2\n{options}")
    assert [p.meets_at for pod in found.pods for p in pod.processes] == ["rank 0", "rank 0"]
    assert [p.rank for pod in found.pods for p in pod.processes] == [None, None]
    endpoint = "launcherOptions: {rdzv-backend: etcd-v2, rdzv-endpoint: 'etcd:2379'}\n"
    _rendered(repository, target, f"launcher: torchrun\nnodes: 2\n{endpoint}")
    assert [w for w in _command(repository) if "endpoint" in w] == ["--rdzv-endpoint=etcd:2379"]


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "text", "reported"),
    [
        ("job", "launcher: torchrun\nlauncherOptions: {nnodes: 2}",
         "nnodes of torchrun follows from nodes"),
        ("job", "launcher: torchrun\nlauncherOptions: {max_restart: 2}",
         "max_restart is not an option of torchrun\n"),
        ("job", "launcher: torchrun\nlauncherOptions: {max-restarts: many}",
         "max-restarts of torchrun takes a whole number"),
        ("job", "launcher: torchrun\nlauncherOptions: {start-method: thread}",
         "start-method of torchrun takes one of spawn, fork, forkserver"),
        ("job", "launcher: accelerate\nlauncherOptions: {main_process_port: 1}",
         "main_process_port of accelerate follows from the target"),
        ("job", "launcher: accelerate\nlauncherOptions: {use_fsdp: 'yes'}",
         "use_fsdp of accelerate takes a switch"),
        ("job", "launcher: torchrun\nlauncherOptions: {max_restarts: 3, max-restarts: 3}",
         "max-restarts and max_restarts are one option"),
        ("job", "launcher: torchrun\nlauncherOptions: {max-restarts: -1}",
         "max-restarts of torchrun takes a whole number, 0 or more"),
        ("job", "launcher: torchrun\nlauncherOptions: {tee: 4}", "tee of torchrun takes 0 to 3"),
        ("job", "launcher: torchrun\nlauncherOptions: {redirects: '0:3,1'}",
         "redirects of torchrun takes 0 to 3"),
        ("job", "launcher: torchrun\nlauncherOptions: {local-ranks-filter: all}",
         "local-ranks-filter of torchrun takes ranks with commas"),
        ("job", "launcher: torchrun\nlauncherOptions: {monitor-interval: -1}",
         "monitor-interval of torchrun takes a number, 0 or more"),
        ("job", "launcherOptions: {coordinator-port: 70000}",
         "coordinator-port of trainwright takes a whole number, 1 to 65535"),
        ("job", "launcher: accelerate\nlauncherOptions: {mixed_precision: fp61}",
         "mixed_precision of accelerate takes one of no, fp16, bf16, fp8"),
        ("job", "launcher: accelerate\nlauncherOptions: {dynamo_backend: INDUCTOR}",
         "dynamo_backend of accelerate takes one of no, eager, "),
        ("job", "launcher: accelerate\nlauncherOptions: {zero_stage: 4}",
         "zero_stage of accelerate takes a whole number, 0 to 3"),
        ("job", "launcher: accelerate\nlauncherOptions: {fsdp_sharding_strategy: FULL}",
         "fsdp_sharding_strategy of accelerate takes one of FULL_SHARD, "),
        ("job", "launcher: accelerate\nlauncherOptions: {gradient_clipping: auto}",
         "gradient_clipping of accelerate takes a number, 0 or more"),
        ("job", "launcher: deepspeed\nlauncherOptions: {hostfile: /h}",
         "hostfile of deepspeed follows from nodes and procsPerNode"),
        ("job", "launcherOptions: {preflight: shm}", "preflight of trainwright follows from preflight"),
        ("job", "launcher: python\nlauncherOptions: {a: 1}", "plain python has none"),
        ("pytorchjob", "launcher: accelerate\nelastic: {minNodes: 1, maxNodes: 2}",
         "accelerate starts a fixed number of nodes"),
        ("pytorchjob",
         "launcher: torchrun\nlauncherOptions: {rdzv-backend: c10d}\nelastic: {minNodes: 1, maxNodes: 2}",
         "rdzv-backend has no effect here: elasticPolicy"),
        ("compose", "launcher: torchrun\nlauncherOptions: {rdzv-id: a}",
         "rdzv-id has no effect here: one machine meets itself"),
        ("trainingjob", "launcher: deepspeed\nnodes: 2",
         "deepspeed has to know where the nodes meet"),
        ("pytorchjob", "launcher: ray\nelastic: {minNodes: 1, maxNodes: 2}",
         "ray starts a fixed number of nodes"),
        ("pytorchjob", "launcher: ray\nelastic: {minNodes: 1, maxNodes: 2, recovery: live}",
         "ray starts a fixed number of nodes"),
        ("trainingjob", "launcher: ray\nnodes: 2", "ray has to know where the nodes meet"),
        ("job", "launcher: ray\nlauncherOptions: {recovery: restart}",
         "recovery of ray follows from retries"),
        ("job", "launcher: ray\nlauncherOptions: {include-dashboard: true}",
         "include-dashboard of ray follows from the target"),
        ("job", "launcher: ray\nlauncherOptions: {object-store-memory: many}",
         "object-store-memory of ray takes a size such as 8Gi"),
        ("job", "launcher: ray\nlauncherOptions: {object-store-memory: 8Gi}",
         "object-store-memory is 8Gi, but /dev/shm has 512Mi"),
        ("job", "launcher: ray\nshm: none",
         "launcher: ray keeps its objects in /dev/shm, and shm is none"),
        ("job", "launcherOptions: {num-cpus: 2}",
         "num-cpus of trainwright follows from launcher: ray"),
        ("trainingjob", "launcher: accelerate\nlattice: {inject: true}",
         "accelerate has to know where the nodes meet"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    target: str, text: str, reported: str, repository: Repository
) -> None:
    _written(repository, target, f"{text}\n")
    done = repository.run("check", "prod")
    assert done.exit_code == 1, done.output
    assert reported in done.stdout


def test_an_unknown_option_is_at_its_line(repository: Repository) -> None:
    _written(repository, "job", "launcher: torchrun\nlauncherOptions:\n  max_restart: 2\n")
    message = repository.run("check", "prod").stdout
    assert "llm.yaml:12:3" in message
    assert "help: Did you mean max-restarts?" in message


def test_what_the_target_decides_is_only_to_be_removed(repository: Repository) -> None:
    _written(repository, "job", "launcher: torchrun\nlauncherOptions: {master-addr: a}\n")
    assert "help: Remove it.\n" in repository.run("check", "prod").stdout


# --- reading them --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "launcher", "program", "options"),
    [
        ("accelerate launch --multi_gpu --num_processes 8 -m a.b --x 1", "accelerate", "a.b",
         {"multi-gpu": "", "num-processes": "8"}),
        ("accelerate-launch --config_file c.yaml train.py", "accelerate", "train.py",
         {"config-file": "c.yaml"}),
        ("/opt/bin/accelerate launch train.py --num_processes 3", "accelerate", "train.py", {}),
        ("python -m trainwright_runtime --ray --num-cpus=4 -- t.py", "ray", "t.py",
         {"ray": "", "num-cpus": "4"}),
        ("python -m accelerate.commands.launch --use_fsdp t.py", "accelerate", "t.py", {"use-fsdp": ""}),
        ("deepspeed --num_gpus=8 --no_ssh --module a.b", "deepspeed", "a.b",
         {"num-gpus": "8", "no-ssh": ""}),
        ("deepspeed -H hosts train.py --deepspeed ds.json", "deepspeed", "train.py", {"hostfile": "hosts"}),
        ("python -m deepspeed.launcher.launch --world_info=e30= t.py", "deepspeed", "t.py",
         {"world-info": "e30="}),
        ("torchrun -t 3 --virtual-local-rank -m --nnodes 2 a.b", "torchrun", "a.b",
         {"tee": "3", "virtual-local-rank": "", "nnodes": "2"}),
        ("accelerate config", "none", None, {}),
    ],
)  # fmt: skip
def test_command_lines_are_read(
    line: str, launcher: str, program: str | None, options: dict[str, str]
) -> None:
    argv = tuple(line.split())
    found = command.parse(argv)
    assert (found.launcher, dict(found.options)) == (launcher, options)
    assert (found.program is not None and argv[found.program]) == (program or False)


def _actions(launcher: str, monkeypatch: pytest.MonkeyPatch) -> list[argparse.Action]:
    """Those of the parser that reads a command line of some words."""
    if launcher == "torchrun":
        return list(importlib.import_module("torch.distributed.run").get_args_parser()._actions)
    if launcher == "accelerate launch":
        module = importlib.import_module("accelerate.commands.launch")
        return list(module.launch_command_parser()._actions)
    module = launcher.rpartition(" ")[2] if " " in launcher else "deepspeed.launcher.runner"
    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", lambda self, args=None: self)
        return list(importlib.import_module(module).parse_args()._actions)


@pytest.mark.parametrize(
    "launcher",
    ["torchrun", "accelerate launch", "deepspeed", "python -m deepspeed.launcher.launch"],
)
def test_no_option_hides_the_program(launcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each option of the launcher's own parser, in each spelling, with its value or without."""
    for action in _actions(launcher, monkeypatch):
        long = [option[2:] for option in action.option_strings if option.startswith("--")]
        for option in action.option_strings if long != ["help"] else ():
            value = ["1"] if action.nargs != 0 else []
            argv = (*launcher.split(), option, *value, "train.py", "--x")
            found = command.parse(argv)
            if "no-python" in map(plain, long):
                assert found.program is None, "it is any executable, and no file of Python"
                continue
            assert found.program is not None, option
            assert argv[found.program] == "train.py", option
            read = {*found.options, *(["module"] if found.is_module else [])}
            assert read <= set(map(plain, long)), option
            assert len(read) == 1, option


MANIFEST = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: job, namespace: training}
spec:
  pytorchReplicaSpecs:
    Master: &pods
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch
              image: registry.example.com/ml/train:1
              resources: {limits: {nvidia.com/gpu: 8}}
              command: COMMAND
    Worker: *pods
"""


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            "accelerate launch --config_file c.yaml --num_machines 2 --num_processes 16 "
            "--machine_rank $(RANK) --main_process_ip $(MASTER_ADDR) "
            "--main_process_port $(MASTER_PORT) train.py --lr 1e-4",
            {"launcher": "accelerate", "launcherOptions": {"config-file": "c.yaml"},
             "flags": {"lr": "1e-4"}},
        ),
        (
            "torchrun --nproc_per_node 8 --max_restarts=3 -t 3 train.py c.yaml a.lr=0.1 +b=c",
            {"launcher": "torchrun", "launcherOptions": {"max-restarts": 3, "tee": 3},
             "entrypoint": {"script": "train.py", "args": ["c.yaml"]},
             "flags": {"a.lr": 0.1, "+b": "c"}, "flagStyle": "k=v"},
        ),
        (
            "deepspeed --no_ssh --node_rank $(RANK) --num_nodes 2 --num_gpus 8 --no_local_rank "
            "--master_addr job-master-0 train.py --deepspeed",
            {"launcher": "deepspeed", "launcherOptions": {"no-local-rank": True},
             "flags": {"deepspeed": True}},
        ),
        (
            "torchrun --nproc-per-node=8 train.py --data-path 0.5 a 0.5 b --seed 1 --x 1 --x 2",
            {"launcher": "torchrun", "flags": {"data-path": {"words": [0.5, "a", 0.5, "b"]},
             "seed": 1, "x": {"repeat": [1, 2]}}},
        ),
    ],
)  # fmt: skip
def test_command_lines_are_imported(
    line: str, wanted: dict[str, Any], repository: Repository
) -> None:
    repository.write("prod/environment.yaml", ENVIRONMENT)
    path = repository.root / "job.yaml"
    path.write_text(MANIFEST.replace("COMMAND", json.dumps(line.split())), encoding="utf-8")
    done = repository.run("import", str(path), "--env", "prod")
    assert done.exit_code == 0, done.output
    written = repository.root / "environments/prod/jobs/job.yaml"
    spec = yaml.safe_load(written.read_text(encoding="utf-8"))
    assert {key: spec.get(key) for key in wanted} == wanted
    assert spec["nodes"] == 2


# --- and started ---------------------------------------------------------------------------------

STARTED = {
    "accelerate": """\
import accelerate, torch
running = accelerate.Accelerator()
total = running.reduce(torch.tensor([float(running.process_index + 1)], device=running.device))
print(f"process {running.process_index} of {running.num_processes}: {total.item():g}", flush=True)
running.wait_for_everyone()
running.end_training()
""",
    "ray": """\
import ray, time
ray.init()

@ray.remote(num_cpus=1)
def one(seconds):
    time.sleep(seconds)
    return ray.get_runtime_context().get_node_id()

nodes = set(ray.get([one.remote(1), one.remote(1)]))
for process, _ in enumerate(nodes):
    print(f"process {process} of {len(nodes)}: 3", flush=True)
""",
    "torchrun": """\
import torch, torch.distributed as group
group.init_process_group("gloo")
total = torch.tensor([float(group.get_rank() + 1)])
group.all_reduce(total)
print(f"process {group.get_rank()} of {group.get_world_size()}: {total.item():g}", flush=True)
group.destroy_process_group()
""",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "options"),
    [
        ("accelerate", "{mixed_precision: 'no'}"),
        ("torchrun", "{rdzv-backend: c10d, tee: '3'}"),
        ("ray", "{object-store-memory: 80Mi}"),
    ],
)
def test_processes_of_two_nodes_meet(
    launcher: str, options: str, repository: Repository, tmp_path: Path
) -> None:
    pytest.importorskip("torch" if launcher == "torchrun" else launcher)
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text(STARTED[launcher], encoding="utf-8")
    text = f"launcher: {launcher}\nlauncherOptions: {options}\nnodes: 2\n"
    _written(repository, "pytorchjob", text)
    done = subprocess.run(
        [sys.executable, "-m", "trainwright", "rehearse", "prod/llm", "--code", str(code)],
        cwd=repository.root, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "process 0 of 2: 3" in done.stdout + done.stderr
    assert "process 1 of 2: 3" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("command", "told", "other"),
    [
        ("[torchrun, --nnodes=4, a.py]", "Write --nnodes=${{ nodes }}, or leave it out", "accel"),
        ("[accelerate, launch, a.py]", "Set launcher: accelerate", "nnodes"),
        ("[deepspeed, a.py]", "Set launcher: deepspeed", "accelerate"),
    ],
)
def test_how_many_nodes_there_are_is_told_for_the_launcher_that_starts(
    tmp_path: Path, command: str, told: str, other: str
) -> None:
    repository = Repository(tmp_path)
    repository.environment("prod", "queueing: none\n")
    path = tmp_path / "environments/prod/environment.yaml"
    path.write_text(
        path.read_text().replace("targets: {", 'targets: {trainjob: {version: "2.3"}, ')
    )
    job = repository.job("prod/llm", "target: trainjob\n")
    job.write_text(job.read_text().replace("{script: train.py}", f"{{argv: {command}}}"))
    results = json.loads(repository.run("check", "--no-cache", "-o", "json").stdout)
    (found,) = (r for r in results["report"]["results"] if r["rule"] == "TW745")
    assert told in found["remedy"]
    assert other not in found["remedy"]


_NEEDED = "prod/llm: the image needs trainwright-runtime"


def test_what_the_default_launcher_needs_is_told_at_the_first_render(tmp_path: Path) -> None:
    """Once for an image: not for a run that replaces another, nor for a job of the same image."""
    repository = Repository(tmp_path)
    repository.environment("prod")
    repository.job("prod/llm")
    first = repository.run("render")
    assert _NEEDED in first.stderr
    assert "launcher" not in first.stdout
    repository.job("prod/other")
    repository.job("prod/llm", "flags: {lr: 0.1}\n")
    later = repository.run("render")
    assert "other-" in later.stdout
    assert "runtime" not in later.output


@pytest.mark.parametrize(
    "lines",
    [
        "launcher: torchrun\n",
        "launcher: trainwright\n",  # it was chosen
        "entrypoint: {argv: [python, train.py]}\n",
        'image: {repository: registry.example.com/ml/trainwright-runtime, tag: "1.0"}\n',
    ],
)
def test_what_needs_no_package_of_ours_is_rendered_without_a_word(
    tmp_path: Path, lines: str
) -> None:
    repository = Repository(tmp_path)
    repository.environment("prod")
    key = lines.partition(":")[0]
    written = repository.job("prod/llm").read_text().splitlines(True)
    kept = "".join(line for line in written if not line.startswith(f"{key}:"))
    repository.write("prod/jobs/llm.yaml", kept + lines)
    done = repository.run("render")
    assert done.exit_code == 0
    assert "needs trainwright-runtime" not in done.output
