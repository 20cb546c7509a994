"""Rehearsals with real processes on this machine: they meet, fail, are stopped, leave nothing."""

from __future__ import annotations

import ctypes
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result

from repository import Repository
from trainwright.cli import main
from trainwright.cli.rehearse import rehearse
from trainwright.objects.pods.pod import Mount, Pod, Port, Restart
from trainwright.rehearsal import RehearsalError, processes, staging
from trainwright.rehearsal.names import Names
from trainwright.rehearsal.volumes import Volumes

ROOT = Path(__file__).parents[2]
PATIENCE = 120  # seconds: only to end a test that hangs

# Ranks meet at MASTER_ADDR as torch would have them do, in a twentieth of the time. Each reports
# what it was told, as the runtime does.
MEET = """\
import json, os, pathlib, socket, sys, time
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(place) as server:
        total = 0
        for _ in range(world - 1):
            with server.accept()[0] as peer:
                total += int(peer.makefile().readline())
    print("sum", total, "of", world, sys.argv[1:])
else:
    while True:
        try:
            with socket.create_connection(place) as peer:
                peer.sendall(f"{rank}\\n".encode())
            break
        except OSError:
            time.sleep(0.02)
report = {"rank": rank, "local_rank": int(os.environ.get("LOCAL_RANK", 0)), "world_size": world}
folder = pathlib.Path(os.environ["TRAINWRIGHT_REPORT_DIR"])
(folder / f"{os.getpid()}.json").write_text(json.dumps(report))
"""

ALL_REDUCE = """\
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
ranks = torch.tensor([float(dist.get_rank())])
dist.all_reduce(ranks)
print("sum", int(ranks), "of", dist.get_world_size(), flush=True)
dist.destroy_process_group()
"""

CHECKPOINT = """\
volumes: {ckpt: {claim: ckpt, mountPath: /ckpt}}
checkpoint: {volume: ckpt, path: runs}
"""

EVERY_TARGET = """\
targets:
  pytorchjob: {version: "1.9", restrictedInitContainer: true}
  trainingjob: {}
  trainjob: {version: "2.3"}
  jobset: {}
  job: {}
  compose: {}
pools:
  h100: {resource: nvidia.com/gpu, gpusPerNode: 4, capacity: 64}
"""


@pytest.fixture
def code(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the scripts, which is also the current one."""
    path = repository.root / "environments/dev/environment.yaml"
    text = "".join(line for line in path.read_text().splitlines(True) if "targets" not in line)
    path.write_text(text + EVERY_TARGET)
    folder = repository.root / "code"
    folder.mkdir()
    (folder / "train.py").write_text(MEET)
    monkeypatch.chdir(folder)
    return folder


def _job(repository: Repository, extra: str = "", name: str = "mnist") -> None:
    repository.job(f"dev/{name}", f"launcher: python\n{extra}")


def _elastic(repository: Repository, extra: str = "") -> None:
    """A script whose nodes come and go, with a command of its own instead of a launcher."""
    path = repository.job("dev/mnist", f"elastic: {{minNodes: 1, maxNodes: 3}}\n{extra}")
    path.write_text(path.read_text().replace("{script: train.py}", "{argv: [python, train.py]}"))


def _run(repository: Repository, *arguments: str) -> Result:
    done = repository.run("rehearse", "dev/mnist", *arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done


def _last(done: Result) -> str:
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("saves", [True, False])
def test_a_checkpoint_folder_in_which_nothing_is_saved_is_named(
    repository: Repository, code: Path, saves: bool
) -> None:
    _job(repository, CHECKPOINT)
    script = 'import os, pathlib\nfolder = pathlib.Path(os.environ["TRAINWRIGHT_CHECKPOINT_DIR"])\n'
    if saves:
        script += 'folder.mkdir(parents=True, exist_ok=True)\n(folder / "a.pt").touch()\n'
    (code / "train.py").write_text(script)
    done = _run(repository)
    assert done.exit_code == 0, done.output
    assert ("checkpoints: nothing was saved" in done.stderr) is not saves


# --- what runs -----------------------------------------------------------------------------------


def test_ranks_meet_and_are_those_that_were_foreseen(repository: Repository, code: Path) -> None:
    _job(repository, "flags: {epochs: 2}\n")
    done = _run(repository)
    assert done.exit_code == 0, done.output
    name = _object(repository)
    assert done.stdout == f"{name}-master-0 | sum 1 of 2 ['--epochs=2']\n"
    assert "ranks: 2 expected, 2 reported, all as expected" in done.stderr
    assert _last(done) == "trainwright: dev/mnist succeeded"


def _object(repository: Repository, job: str = "mnist") -> str:
    repository.run("render", "dev", "--no-cache")
    record = json.loads(repository.tree()[f"dev/rendered/{job}/run.lock"])
    name: str = record["object"]
    return name


def test_what_differs_from_the_cluster_is_said_first(repository: Repository, code: Path) -> None:
    _job(repository, "secrets: {TOKEN: {name: hf, key: token}}\nretries: 3\n")
    done = _run(repository, "--dry-run")
    assert done.exit_code == 0
    assert not done.stdout
    name = _object(repository)
    lines = [line.strip() for line in done.stderr.splitlines()]
    assert lines[0] == (
        f"dev/mnist as {name}, with the env that the Kubeflow training operator v1 gives its pods"
    )
    assert [line.split() for line in lines[2:5]] == [
        ["POD", "RANKS", "WORLD", "SIZE"],
        [f"{name}-master-0", "0", "2"],
        [f"{name}-worker-0", "1", "2"],
    ]
    assert lines[6] == "$ python -u train.py"
    message = dict(line.split(": ", 1) for line in lines[9:] if ": " in line)
    assert message["device"] == "CPU with gloo, whatever this machine has"
    assert message["code"] == f"train.py of the image is {code / 'train.py'}"
    assert "registry.example.com/ml/train:1.0 is not used" in message["image"]
    assert message["init container"] == "init-pytorch (alpine:3.10) is not run"
    assert message["address"].startswith(f"{name}-master-0:23456 is 127.0.0.1:")
    assert message["env"].startswith("TOKEN is not set, on the cluster key token of Secret hf")
    assert message["restarts"] == "none, on the cluster a failed pod up to 3 times"


def test_fewer_nodes_are_a_smaller_world(repository: Repository, code: Path) -> None:
    path = repository.job("dev/mnist", "launcher: python\n")
    path.write_text(path.read_text().replace("nodes: 2", "nodes: 5"))
    done = _run(repository, "--nodes", "3")
    assert done.exit_code == 0, done.output
    assert "| sum 3 of 3 " in done.stdout
    assert "nodes: 3 instead of 5" in done.stderr
    assert "3 reported, all as expected" in done.stderr


def test_gpus_are_replaced_by_one_process_and_nccl_by_gloo(
    repository: Repository, code: Path
) -> None:
    (code / "train.py").write_text(
        "import os, sys; print(sys.argv[1:], repr(os.environ['CUDA_VISIBLE_DEVICES']))"
    )
    path = repository.job("dev/mnist", "launcher: torchrun\nflags: {backend: nccl}\npool: h100\n")
    path.write_text(path.read_text().replace("memory: 1Gi", "memory: 1Gi, gpu: 4"))
    done = _run(repository, "--nodes", "1")
    assert done.exit_code == 0, done.output
    assert "| ['--backend=gloo'] ''\n" in done.stdout
    assert "processes per node: 1 instead of 4" in done.stderr
    assert "backend: gloo on CPU instead of nccl on GPUs" in done.stderr
    assert "flag: --backend=gloo instead of --backend=nccl" in done.stderr


@pytest.mark.slow
def test_processes_of_deepspeeds_launcher_see_no_gpu_either(
    repository: Repository, code: Path
) -> None:
    pytest.importorskip("deepspeed")
    program = "import os; print('sees ' + os.environ['CUDA_VISIBLE_DEVICES'])"  # in one write
    (code / "train.py").write_text(program)
    options = "launcherOptions: {no_local_rank: true, quiet: true}\n"
    repository.job("dev/mnist", f"launcher: deepspeed\n{options}procsPerNode: 2\n")
    done = _run(repository, "--nodes", "1")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("sees -1,-1") == 2  # of two processes into one pipe: lines may mix


@pytest.mark.parametrize("target", ["pytorchjob", "trainingjob", "trainjob", "jobset", "job"])
def test_ranks_meet_on_every_target(target: str, repository: Repository, code: Path) -> None:
    _job(repository, f"target: {target}\n")
    done = _run(repository)
    assert done.exit_code == 0, done.output
    assert "| sum 1 of 2 []" in done.stdout
    assert "ranks: 2 expected, 2 reported, all as expected" in done.stderr


def test_one_machine_needs_no_peers(repository: Repository, code: Path) -> None:
    path = repository.job("dev/mnist", "launcher: python\ntarget: compose\n")
    text = path.read_text().replace("nodes: 2\n", "").replace("maxDuration: 2h\n", "")
    path.write_text(f"{text}security: {{runAsUser: 1000}}\n")
    done = _run(repository)
    assert done.exit_code == 0, done.output
    assert "| sum 0 of 1 []" in done.stdout


def test_an_agent_s_processes_get_the_env_of_their_rank(repository: Repository, code: Path) -> None:
    _job(repository, "target: trainingjob\nprocsPerNode: 2\n")
    done = _run(repository)
    assert done.exit_code == 0, done.output
    assert "-worker-0/0 | sum 6 of 4 []" in done.stdout
    assert "ranks: 4 expected, 4 reported, all as expected" in done.stderr


@pytest.mark.slow
def test_torch_meets_under_our_own_entrypoint(repository: Repository, code: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("trainwright_runtime")
    (code / "train.py").write_text(ALL_REDUCE)
    path = repository.job("dev/mnist", "procsPerNode: 2\n")
    path.write_text(path.read_text().replace("nodes: 2", "nodes: 3"))
    done = _run(repository)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("sum 15 of 6") == 6
    assert "-master-0  0-1    6" in done.stderr
    assert "-worker-1  4-5    6" in done.stderr


@pytest.mark.slow
def test_torch_meets_where_python_starts_the_script(repository: Repository, code: Path) -> None:
    pytest.importorskip("torch")
    (code / "train.py").write_text(ALL_REDUCE)
    _job(repository)
    done = _run(repository)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("sum 1 of 2") == 2


def test_arguments_after_two_dashes_are_added(repository: Repository, code: Path) -> None:
    _job(repository, "flags: {epochs: 9}\n")
    done = _run(repository, "--nodes", "1", "--", "--epochs=1", "x y")
    assert "| sum 0 of 1 ['--epochs=9', '--epochs=1', 'x y']" in done.stdout
    (shown,) = (line for line in done.stderr.splitlines() if line.startswith("$ "))
    assert shown.endswith("--epochs=9 --epochs=1 'x y'")


def test_processes_of_a_command_are_those_that_it_names(repository: Repository, code: Path) -> None:
    (code / "run.py").write_text("")
    argv = '[python, run.py, torchrun, "--nproc-per-node=3"]'
    path = repository.job("dev/mnist", "procsPerNode: 3\n")
    path.write_text(path.read_text().replace("{script: train.py}", f"{{argv: {argv}}}"))
    done = _run(repository, "--procs", "1")
    assert "processes per node: 3, as entrypoint.argv has it, whatever --procs says" in done.stderr
    assert "instead of 3" not in done.stderr


def test_a_command_has_the_world_of_the_cluster(repository: Repository, code: Path) -> None:
    """No launcher is seen to count the ranks anew, so that it fails here as it would there."""
    (code / "run.sh").write_text("echo of $WORLD_SIZE\n")
    path = repository.job("dev/mnist", "pool: h100\n")
    text = path.read_text().replace("{script: train.py}", "{argv: [bash, run.sh]}")
    path.write_text(re.sub("resources: .*", "resources: {cpu: 8, memory: 64Gi, gpu: 4}", text))
    done = _run(repository)
    assert done.stdout.count("| of 8") == 2, done.output
    fewer = _run(repository, "--procs", "1")
    assert fewer.stdout.count("| of 2") == 2
    assert "WORLD_SIZE: 2 instead of 8, which the command may read" in fewer.stderr


def test_what_a_command_brings_itself_is_told(repository: Repository, code: Path) -> None:
    path = repository.job("dev/mnist")
    argv = "[bash, -c, 'pip install -q x && torchrun --nnodes=3 t.py']"
    path.write_text(path.read_text().replace("{script: train.py}", f"{{argv: {argv}}}"))
    shown = _run(repository, "--dry-run", "--nodes", "1").stderr
    assert "nodes: 3, as entrypoint.argv has it, whatever --nodes says" in shown
    assert "packages: pip install changes what is installed on this machine" in shown


def test_it_has_the_name_that_is_rendered(repository: Repository, code: Path) -> None:
    path = repository.job("dev/mnist", "launcher: python\n")
    repository.run("render", "dev/mnist")
    path.write_text(f"{path.read_text()}run: 2\n")
    repository.run("render", "dev/mnist")
    done = _run(repository, "--dry-run")
    name = re.search(r"^dev/mnist as (\S+),", done.stderr, re.MULTILINE)
    rendered = repository.root / "environments/dev/rendered/mnist/pytorchjob.yaml"
    assert name is not None
    assert f'name: "{name[1]}"' in rendered.read_text()


def test_the_spec_s_errors_end_it_before_anything_starts(
    repository: Repository, code: Path
) -> None:
    _job(repository, "backend: nccl\n")
    done = _run(repository)
    assert done.exit_code == 1
    assert "backend is nccl, but resources.gpu is 0" in done.stderr
    assert "POD" not in done.stderr


# --- what processes are given --------------------------------------------------------------------


def test_processes_get_what_a_container_has_and_no_more(
    repository: Repository, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-this-shell")
    monkeypatch.setenv("WORLD_SIZE", "99")
    (code / "train.py").write_text(
        "import json, os; print(json.dumps(dict(os.environ)), flush=True)"
    )
    _job(repository, "env: {MODE: fast, PYTHONPATH: /opt/lib}\n")
    done = _run(repository, "--nodes", "1")
    env = json.loads(done.stdout.partition(" | ")[2])
    assert "AWS_SESSION_TOKEN" not in env
    assert env["WORLD_SIZE"] == "1"
    assert env["MODE"] == "fast"
    assert env["HOSTNAME"] == f"{_object(repository)}-master-0"
    assert env["PYTHONPATH"].split(":")[:2] == [str(code), "/opt/lib"]
    assert env["PATH"].split(":")[0] == str(Path(sys.executable).parent)


SECRET = "hunter2-and-more"


def test_secrets_reach_the_process_and_no_output(
    repository: Repository, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    (code / "train.py").write_text(
        "import os, sys; t = os.environ['TOKEN']; print(len(t), t, sys.argv[1:]); sys.exit(t)"
    )
    _job(
        repository,
        "secrets: {TOKEN: {name: hf, key: token}, OTHER: {name: hf, key: other}}\n"
        "flags: {token: $(TOKEN)}\n",
    )
    keep = repository.root / "kept"
    for given in ("TOKEN", f"TOKEN={SECRET}"):
        done = _run(repository, "--nodes", "1", "--variable", given, "--keep", str(keep))
        assert done.exit_code == 1
        assert f"| {len(SECRET)} *** ['--token=***']" in done.stdout
        assert SECRET not in done.output
        assert "env: TOKEN as given here" in done.stderr
        assert "env: OTHER is not set" in done.stderr
    logs = [path.read_text() for path in keep.rglob("*.log")]
    assert logs
    assert not [text for text in logs if SECRET in text]


def test_a_variable_that_is_not_in_this_shell_is_no_value(
    repository: Repository, code: Path
) -> None:
    _job(repository)
    done = _run(repository, "--variable", "NOT_SET_HERE")
    assert done.exit_code == 2
    assert _last(done) == (
        "trainwright: --variable NOT_SET_HERE: the variable is not set here; write NAME=VALUE"
    )


WRITE = """\
import os, pathlib, sys
out = pathlib.Path(sys.argv[1].removeprefix("--out="))
(out / os.environ["RANK"]).write_text(os.environ["HF_HOME"])
pathlib.Path(os.environ["SCRATCH"], "mine").touch(exist_ok=False)
"""


def test_volumes_are_folders_that_pods_share_or_not(repository: Repository, code: Path) -> None:
    (code / "train.py").write_text(WRITE)
    _job(
        repository,
        "volumes:\n"
        "  data: {claim: d, mountPath: /volume, subPath: runs}\n"
        "  scratch: {emptyDir: {}, mountPath: /scratch}\n"
        "env: {HF_HOME: /volume/.cache, SCRATCH: /scratch}\n"
        "flags: {out: /volume}\n",
    )
    keep, volumes = repository.root / "kept", repository.root / "volumes"
    done = _run(repository, "--keep", str(keep))
    assert done.exit_code == 0, done.output
    runs = keep / "volumes/data/runs"
    assert {path.name: path.read_text() for path in runs.iterdir()} == {
        "0": f"{runs}/.cache",
        "1": f"{runs}/.cache",
    }
    assert len(list((keep / "volumes/scratch").iterdir())) == 2
    assert f"volume: /volume is {keep}/volumes/data" in done.stderr
    volumes.mkdir()
    assert _run(repository, "--volumes", str(volumes)).exit_code == 0
    assert sorted(path.name for path in (volumes / "data/runs").iterdir()) == ["0", "1"]


@pytest.mark.parametrize("target", ["pytorchjob", "compose"])
def test_a_script_in_the_spec_is_run(target: str, repository: Repository, code: Path) -> None:
    path = repository.job("dev/mnist", f"launcher: python\ntarget: {target}\n")
    text = path.read_text().replace("{script: train.py}", "{inline: \"print('5$')\"}")
    text = text.replace("nodes: 2\n", "").replace("maxDuration: 2h\n", "")
    path.write_text(f"{text}security: {{runAsUser: 1000}}\n")
    done = _run(repository)
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith("| 5$\n")


def test_files_of_the_run_have_exactly_their_bytes_where_they_are_named(
    repository: Repository, code: Path
) -> None:
    """In argv and env, by their own path or by that of the folder around them."""
    (code / "train.py").write_text(
        "import os, pathlib, subprocess, sys\n"
        "folder = pathlib.Path(sys.argv[1].partition('=')[2])\n"
        "print(sorted(str(p.relative_to(folder)) for p in folder.rglob('*') if p.is_file()))\n"
        "print(pathlib.Path(os.environ['TABLE']).read_bytes())\n"
        "print((folder / 'db/mysql.yaml').read_text(), end='')\n"
        "print(subprocess.check_output([os.environ['TOOL']]))\n"
    )
    (repository.root / "configs").mkdir()
    (repository.root / "configs/mysql.yaml").write_text("db: ${{ run.name }}\nport: 3306\n")
    (repository.root / "configs/table.bin").write_bytes(b"\x00\xff")
    _job(
        repository,
        """\
flags: {config-dir: /etc/hydra}
env: {TABLE: /etc/hydra/table.bin, TOOL: /usr/local/bin/tool}
files:
  /etc/hydra/config.yaml: {content: "defaults: [db: mysql]\\n"}
  /etc/hydra/db/mysql.yaml: {from: configs/mysql.yaml}
  /etc/hydra/table.bin: {from: configs/table.bin}
  /usr/local/bin/tool: {content: "#!/bin/sh\\necho here\\n", mode: "0755"}
""",
    )
    volumes = repository.root / "volumes"
    volumes.mkdir()
    done = _run(repository, "--nodes", "1", "--volumes", str(volumes))
    assert done.exit_code == 0, done.output
    assert list(volumes.iterdir()) == []  # these are people's own
    assert "['config.yaml', 'db/mysql.yaml', 'table.bin']" in done.stdout
    assert r"b'\x00\xff'" in done.stdout
    assert re.search(r"db: mnist-[0-9a-f]{8}\n.*port: 3306", done.stdout)
    assert r"b'here\n'" in done.stdout
    assert "file: /etc/hydra/config.yaml is " in done.stderr


# --- code ----------------------------------------------------------------------------------------


def test_code_that_is_only_in_the_image_is_named_and_can_be_mapped(
    repository: Repository, code: Path
) -> None:
    path = repository.job("dev/mnist", "launcher: python\n")
    path.write_text(path.read_text().replace("train.py", "/srv/app/src/train.py"))
    done = _run(repository)
    assert done.exit_code == 2
    assert _last(done) == (
        "trainwright: /srv/app/src/train.py is in the image, and this machine has no such file; "
        f"name the folder that holds the code with --code {code}"
    )
    done = _run(repository, "--code", str(code))
    assert done.exit_code == 0, done.output
    assert f"/srv/app/src/train.py of the image is {code}/train.py" in done.stderr
    (code / "src").mkdir()
    (code / "src/train.py").write_text("print('the nearer one')")
    assert "the nearer one" in _run(repository, "--code", str(code)).stdout
    done = _run(repository, "--code", str(repository.root / "environments"))
    assert done.exit_code == 2
    assert "was not found in" in _last(done)


def test_modules_are_found_below_the_root_or_missed_at_once(
    repository: Repository, code: Path
) -> None:
    path = repository.job("dev/mnist", "launcher: python\n")
    path.write_text(path.read_text().replace("{script: train.py}", "{module: pkg.train}"))
    done = _run(repository)
    assert done.exit_code == 2
    assert f"{sys.executable} finds no module pkg.train; install it there" in _last(done)
    (code / "sub/pkg").mkdir(parents=True)
    (code / "sub/pkg/train.py").write_text(MEET)
    done = _run(repository, "--code", "code/sub")
    assert done.exit_code == 0, done.output


def test_code_of_the_image_is_found_in_the_repository(repository: Repository, code: Path) -> None:
    path = repository.job("dev/mnist", "launcher: python\n")
    path.write_text(path.read_text().replace("{script: train.py}", "{module: pkg.train}"))
    package = repository.root / "packages/trainer/src/pkg"
    for folder in (package, repository.root / ".venv/pkg", repository.root / "env/lib/pkg"):
        folder.mkdir(parents=True)
        (folder / "train.py").write_text(MEET)
    (repository.root / "env/pyvenv.cfg").touch()
    done = _run(repository)
    assert done.exit_code == 0, done.output
    assert f"code: pkg.train is imported from {package.parent}" in done.stderr
    (repository.root / "src/pkg/train").mkdir(parents=True)
    (repository.root / "src/pkg/train/__init__.py").write_text(MEET)
    done = _run(repository)
    assert done.exit_code == 2
    assert _last(done) == (
        f"trainwright: pkg.train is in 2 folders of {repository.root}; choose one: "
        f"--code {repository.root}/src or --code {package.parent}"
    )


@pytest.mark.parametrize("script", ["main.py", "/srv/app/main.py", "app/main.py"])
def test_the_folder_of_a_script_is_named(script: str, repository: Repository, code: Path) -> None:
    path = repository.job("dev/mnist", "launcher: python\n")
    path.write_text(path.read_text().replace("train.py", script))
    folder = repository.root / "trainer/src"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text(MEET)
    done = _run(repository)
    assert done.exit_code == 2
    assert _last(done).endswith(f"with --code {folder}")


@pytest.mark.parametrize("job", ["mnist-gloo", "elastic-mnist"])
def test_shipped_jobs_find_their_code(job: str, only_torch: str) -> None:
    """From the root, by an interpreter that has nothing of the image but PyTorch."""
    arguments = ["-C", str(ROOT), "rehearse", f"dev/{job}", "--python", only_torch, "--dry-run"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert f"code: trainwright_runtime is imported from {ROOT / 'runtime/src'}" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("job", ["mnist-gloo", "elastic-mnist"])
def test_shipped_jobs_train_without_a_flag(job: str, only_torch: str) -> None:
    command = [str(Path(sys.executable).with_name("trainwright")), "rehearse", f"dev/{job}"]
    done = subprocess.run(
        [*command, "--python", only_torch], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "epoch 1: loss" in done.stdout
    assert "training on the digits of scikit-learn" in done.stdout


def test_a_script_on_a_volume_is_looked_for_there(repository: Repository, code: Path) -> None:
    path = repository.job(
        "dev/mnist", "launcher: python\nvolumes: {data: {claim: d, mountPath: /volume}}\n"
    )
    path.write_text(path.read_text().replace("script: train.py", "script: /volume/train.py"))
    assert "put the file there, or name a folder" in _last(_run(repository))
    (code / "data").mkdir()
    (code / "data/train.py").write_text(MEET)
    assert _run(repository, "--volumes", "code").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--python", "no-such-python"), "--python no-such-python is not a program"),
        (("--variable", "=x"), '--variable is "=x", expected NAME=VALUE or NAME'),
    ],
)
def test_wrong_options_are_one_line(
    arguments: tuple[str, ...], message: str, repository: Repository, code: Path
) -> None:
    _job(repository)
    done = _run(repository, *arguments)
    assert done.exit_code == 2
    assert message in _last(done)


def test_one_job_at_a_time_and_only_one_that_is_to_run(repository: Repository, code: Path) -> None:
    _job(repository)
    done = repository.run("rehearse", "*/mnist")
    assert done.exit_code == 2
    assert '"*/mnist" selects 2 jobs, and one is rehearsed at a time' in _last(done)
    _job(repository, "state: cancelled\n")
    assert "state: cancelled, so there is nothing to run" in _last(_run(repository))
    _elastic(repository)
    assert "--nodes is 4, expected 1 to 3" in _last(_run(repository, "--nodes", "4"))


def test_a_program_that_is_not_here_is_named(repository: Repository, code: Path) -> None:
    path = repository.job("dev/mnist")
    path.write_text(path.read_text().replace("{script: train.py}", "{argv: [no-such-program]}"))
    done = _run(repository)
    assert done.exit_code == 2
    assert "starts no-such-program, which is not on this machine's PATH" in _last(done)


# --- how it ends ---------------------------------------------------------------------------------

SLEEP = "import time; time.sleep(600)"


def _of_rank(**scripts: str) -> str:
    """A script in which each rank does something of its own, and the others sleep."""
    return f"import os, sys\nexec({scripts!r}.get('r' + os.environ['RANK'], {SLEEP!r}))\n"


def test_the_failing_pod_s_code_is_the_exit_code(repository: Repository, code: Path) -> None:
    (code / "train.py").write_text(_of_rank(r1="sys.exit(7)"))
    _job(repository, "retries: 2\n")
    done = _run(repository)
    name = _object(repository)
    assert done.exit_code == 7
    assert f"{name}-worker-0 ended with exit code 7: stopping 1 more" in done.stderr
    assert f"ended: {name}-worker-0 7, {name}-master-0 143" in done.stderr
    assert _last(done) == (
        f"trainwright: dev/mnist failed: {name}-worker-0 (rank 1) ended with exit code 7, after "
        "which on the cluster the pod is started again, at most 2 times"
    )


def test_a_signal_is_128_and_more(repository: Repository, code: Path) -> None:
    (code / "train.py").write_text(_of_rank(r0="os.kill(os.getpid(), 9)"))
    _job(repository)
    done = _run(repository)
    assert done.exit_code == 137
    assert "exit code 137 (SIGKILL), which ends the job on the cluster too" in _last(done)


def test_a_pytorchjob_succeeds_with_its_master(
    repository: Repository, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_LINGER", 0.2)
    (code / "train.py").write_text(_of_rank(r0="print('done')"))
    _job(repository)
    done = _run(repository)
    assert done.exit_code == 0, done.output
    assert "the job has succeeded: stopping 1 more" in done.stderr
    # Elsewhere every pod has to succeed.
    (code / "train.py").write_text(_of_rank(r0="print('done')", r1="sys.exit(3)"))
    _job(repository, "target: job\n")
    assert _run(repository).exit_code == 3


def test_an_elastic_job_goes_on_without_a_pod_that_would_come_back(
    repository: Repository, code: Path
) -> None:
    (code / "train.py").write_text(
        "import os, pathlib, sys, time\n"
        "if os.environ['HOSTNAME'].startswith('127.'):\n"
        "    pathlib.Path(f'ends-{os.getpid()}').touch()\n"
        "    sys.exit(143)\n"
        "while not (ends := [*pathlib.Path().glob('ends-*')]): time.sleep(0.05)\n"
        "while any(pathlib.Path('/proc', path.name[5:]).exists() for path in ends): time.sleep(0.05)\n"
        "time.sleep(1); print('done')\n"
    )
    _elastic(repository, "retries: 3\n")
    done = _run(repository)
    assert done.exit_code == 0, done.output
    assert "-worker-0 | done" in done.stdout
    for ended in code.glob("ends-*"):
        ended.unlink()
    _elastic(repository)  # no retries: it would not
    assert _run(repository).exit_code == 143


def test_ranks_that_are_not_as_foreseen_are_told_and_fail_it(
    repository: Repository, code: Path
) -> None:
    (code / "train.py").write_text(MEET.replace('"rank": rank', '"rank": 0'))
    _job(repository)
    done = _run(repository)
    name = _object(repository)
    assert done.exit_code == 1
    assert "ranks: 2 expected, 2 reported, not as expected" in done.stderr
    assert f"{name}-worker-0, local rank 0: rank 1 was expected, 0 reported" in done.stderr
    assert "rank 0 was reported by" in done.stderr
    assert _last(done).endswith("succeeded, but not with the ranks that were expected")


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ("{'rank': r, 'local_rank': 0, 'world_size': 9}", "world_size 2 was expected, 9 reported"),
        ("{'rank': r, 'local_rank': r, 'world_size': 2}", "worker-0, local rank 0: not reported"),
        ("{'rank': r, 'local_rank': r, 'world_size': 2}", "local rank 1: reported, but not"),
        ("{'rank': r, 'local_rank': 0, 'world_size': 2}", "2 reported, all as expected"),
        ("[]", "ranks: 2 expected; only launcher: trainwright reports its own"),
    ],
)
def test_reports_are_compared(
    report: str, message: str, repository: Repository, code: Path
) -> None:
    (code / "train.py").write_text(
        "import json, os, pathlib\n"
        "r = int(os.environ['RANK'])\n"
        "folder = pathlib.Path(os.environ['TRAINWRIGHT_REPORT_DIR'])\n"
        "(folder / 'a.json').write_text('{\"cut off')\n"
        f"(folder / 'b.json').write_text(json.dumps({report}))\n"
    )
    _job(repository)
    assert message in _run(repository).stderr


def test_lines_of_any_kind_come_through(repository: Repository, code: Path) -> None:
    (code / "train.py").write_text(
        "import sys\n"
        "sys.stdout.buffer.write(b'\\xff bytes\\n' + b'x' * 200_000 + b'\\n10%\\r99%\\nno newline')\n"
        "sys.stdout.flush(); print(' and stderr', file=sys.stderr)\n"
    )
    _job(repository)
    done = _run(repository, "--nodes", "1")
    lines = [line.partition(" | ")[2] for line in done.stdout.splitlines()]
    assert lines == ["\ufffd bytes", "x" * 200_000, "99%", "no newline and stderr"]


def test_what_is_kept(repository: Repository, code: Path) -> None:
    _job(repository)
    keep = repository.root / "kept"
    for _ in range(2):  # reports of the run before do not count again
        done = _run(repository, "--keep", str(keep))
        assert "2 expected, 2 reported, all as expected" in done.stderr
    name = _object(repository)
    assert (keep / f"logs/{name}-master-0.log").read_text() == "sum 1 of 2 []\n"
    assert len(list((keep / "reports").glob("*/*.json"))) == 2


# --- Ctrl-C --------------------------------------------------------------------------------------

# Each pod has a child in a session of its own, as torchrun's workers are, and says so.
STRAY = """\
import os, signal, subprocess, sys, time
if "--deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
ignore = "import signal, time; signal.signal(15, 1); signal.signal(2, 1); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", ignore], start_new_session=True)
print("up", os.getpid(), child.pid, flush=True)
time.sleep(600)
"""


def _start(repository: Repository, *arguments: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A rehearsal of two pods in a process of its own, and every process in it once it is up."""
    started = subprocess.Popen(
        [sys.executable, "-m", "trainwright", "-C", str(repository.root), "rehearse", "dev/mnist", *arguments],
        cwd=repository.root / "code", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert started.stdout is not None
    pids = []
    while len(pids) < 4:
        words = started.stdout.readline().split()
        assert words, started.stderr and started.stderr.read()
        pids += map(int, words[-2:]) if "up" in words else ()
    return started, pids


def _alive(pids: list[int]) -> list[int]:
    def runs(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return [pid for pid in pids if runs(pid)]


@pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_everything(
    number: int, exit_code: int, repository: Repository, code: Path
) -> None:
    (code / "train.py").write_text(STRAY)
    _job(repository)
    started, pids = _start(repository)
    assert _alive(pids) == pids
    started.send_signal(number)
    _, stderr = started.communicate(timeout=PATIENCE)
    assert _alive(pids) == []
    assert started.returncode == exit_code
    assert stderr.splitlines()[-1] == (
        f"trainwright: dev/mnist was stopped by signal {number:d}: exit code {exit_code}"
    )


def test_a_signal_that_does_not_wake_the_main_thread_ends_everything(
    repository: Repository, code: Path
) -> None:
    """To another thread, which stands for the moment before the main one begins to wait."""
    (code / "train.py").write_text(STRAY)
    _job(repository)
    started, pids = _start(repository)
    thread = max(int(task.name) for task in Path(f"/proc/{started.pid}/task").iterdir())
    assert thread != started.pid
    assert ctypes.CDLL(None).tgkill(started.pid, thread, signal.SIGTERM) == 0
    started.communicate(timeout=PATIENCE)
    assert _alive(pids) == []
    assert started.returncode == 143


def test_who_does_not_listen_is_killed_after_its_grace_period(
    repository: Repository, code: Path
) -> None:
    (code / "train.py").write_text(STRAY)
    _job(repository, "gracePeriod: 1s\nflags: {deaf: true}\n")
    started, pids = _start(repository)
    started.send_signal(signal.SIGINT)
    _, stderr = started.communicate(timeout=PATIENCE)
    assert _alive(pids) == []
    assert started.returncode == 130
    assert "out of time: killing" in stderr
    assert "137" in stderr


def test_a_second_ctrl_c_does_not_wait(repository: Repository, code: Path) -> None:
    (code / "train.py").write_text(STRAY)
    _job(repository, "gracePeriod: 30m\nflags: {deaf: true}\n")
    started, pids = _start(repository)
    started.send_signal(signal.SIGINT)
    assert started.stderr is not None
    while "SIGINT received" not in started.stderr.readline():
        pass
    assert set(pids[::2]) <= set(_alive(pids))
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=PATIENCE)
    assert _alive(pids) == []
    assert started.returncode == 130


def test_what_a_pod_leaves_behind_ends_with_it(repository: Repository, code: Path) -> None:
    (code / "train.py").write_text(STRAY.replace("time.sleep(600)\n", "sys.exit(0)\n"))
    _job(repository)
    done = _run(repository)
    assert done.exit_code == 0, done.output
    pids = [int(line.split()[-1]) for line in done.stdout.splitlines()]
    assert len(pids) == 2
    assert _alive(pids) == []


def test_no_group_is_killed_whose_number_may_be_another_s(
    repository: Repository, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number is its process's until that is reaped."""
    owned = []
    send = os.killpg

    def watched(group: int, number: int) -> None:
        owned.append(Path(f"/proc/{group}").exists())
        send(group, number)

    monkeypatch.setattr(os, "killpg", watched)
    (code / "train.py").write_text("")
    _job(repository)
    assert _run(repository).exit_code == 0
    assert len(owned) >= 2
    assert all(owned)


def test_a_stray_that_becomes_another_program_all_the_time_is_found(tmp_path: Path) -> None:
    """In the moment of exec a process shows no env, by which it is known."""
    script = tmp_path / "again.sh"
    script.write_text("exec sh again.sh\n")
    for number in range(20):  # one look at them missed one of six
        mark = f"{tmp_path.name}-{number}"
        environ = {**os.environ, staging.MARK: mark}
        with subprocess.Popen(
            ["sh", script.name], cwd=tmp_path, env=environ, start_new_session=True
        ) as stray:
            time.sleep(0.02)
            processes._kill_marked(mark)
            try:
                assert stray.wait(PATIENCE) == -signal.SIGKILL
            finally:
                stray.kill()


def test_temporary_folders_are_gone(repository: Repository, code: Path) -> None:
    (code / "train.py").write_text("import os; print(os.environ['TRAINWRIGHT_REPORT_DIR'])")
    _job(repository)
    folder = Path(_run(repository, "--nodes", "1").stdout.split()[-1])
    assert folder.name.endswith("-master-0")
    assert not folder.parent.parent.exists()


def test_rehearsals_side_by_side_have_a_coordinator_each(
    repository: Repository, code: Path
) -> None:
    (code / "train.py").write_text("import os; print(os.environ['TRAINWRIGHT_COORDINATOR_PORT'])")
    _job(repository)
    ports = [{line.split()[-1] for line in _run(repository).stdout.splitlines()} for _ in range(2)]
    assert [len(found) for found in ports] == [1, 1]  # all pods of one agree on it
    assert ports[0] != ports[1]
    (reported,) = (line.split()[-1] for line in _run(repository, "--nodes=1", "--variable", "TRAINWRIGHT_COORDINATOR_PORT=4000").stdout.splitlines())  # fmt: skip
    assert reported == "4000"


# --- names and volumes ---------------------------------------------------------------------------


def _pod(name: str, **more: object) -> Pod:
    basics = {"role": "node", "index": 0, "image": "i", "command": ("x",), "declared": ()}
    return Pod(name=name, restart=Restart(limit=0), **{"hostname": name, **basics, **more})  # type: ignore[arg-type]


def _names(*pods: Pod) -> Names:
    ports = iter(range(50000, 60000))
    return Names(pods, "here", lambda: next(ports))


def test_every_pod_has_its_own_port_where_all_used_the_same() -> None:
    first, second = _pod("run-0"), _pod("run-1", ports=(Port("web", 80),))
    names = _names(first, second)
    env = {
        "MASTER_ADDR": "run-0",
        "MASTER_PORT": "29500",
        "PET_MASTER_ADDR": "run-0",
        "PET_MASTER_PORT": "29500",
        "PEERS": "run-0:29500,run-1.ns.svc.cluster.local:29500 run-10 xrun-0 run-0.net",
        "TRAINWRIGHT_METRICS_PORT": "9090",
        "WEB_PORT": "80",
        "OTHER_PORT": "81",
    }
    expected = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "50000",
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": "50000",
        "PEERS": "127.0.0.1:50000,127.0.0.1:50001 run-10 xrun-0 run-0.net",
        "TRAINWRIGHT_METRICS_PORT": "50002",
        "WEB_PORT": "80",
        "OTHER_PORT": "81",
    }
    assert names.env(first, env) == expected
    changed = {"TRAINWRIGHT_METRICS_PORT": "50003", "WEB_PORT": "50004"}
    assert names.env(second, env) == {**expected, **changed}


def test_addresses_in_a_command_line() -> None:
    first, second = _pod("run-0", hostname="run-0.run"), _pod("run-1", hostname="run-1.run")
    argv = (
        "torchrun --master-addr=run-0.run --master-port=29500 --rdzv-endpoint run-0.run:29500 "
        "--master_port 29500 --port 29500 train.py tcp://run-1.run:1/x 29500"
    )
    local = (
        "torchrun --master-addr=127.0.0.1 --master-port=50000 --rdzv-endpoint 127.0.0.1:50000 "
        "--master_port 50000 --port 29500 train.py tcp://127.0.0.1:50001/x 29500"
    )
    assert _names(first, second).argv(second, tuple(argv.split()), {}) == tuple(local.split())


def test_a_service_with_a_common_name_is_no_address_by_itself() -> None:
    pod = _pod("run-train-1", hostname="train")
    env = {"MODE": "train", "URL": "http://train:80/", "MASTER_ADDR": "train"}
    assert _names(pod).env(pod, env) == {
        "MODE": "train",
        "URL": "http://127.0.0.1:50000/",
        "MASTER_ADDR": "127.0.0.1",
    }


def test_nodes_that_meet_by_rendezvous_are_told_apart_by_names_that_lead_here() -> None:
    pods = [_pod(f"run-worker-{index}") for index in range(3)]
    names, env = _names(*pods), {"PET_RDZV_ENDPOINT": "run-worker-1:23456"}
    assert names.env(pods[0], env) == {"PET_RDZV_ENDPOINT": "here:50000"}
    assert [names.hostname(pod, env) for pod in pods] == ["127.0.0.2", "here", "127.0.0.4"]
    assert [names.hostname(pod, {}) for pod in pods] == [pod.name for pod in pods]


def test_paths_on_volumes_are_replaced_and_others_are_not(tmp_path: Path) -> None:
    claim = {"persistentVolumeClaim": {"claimName": "c"}}
    pod = _pod(
        "p",
        mounts=(
            Mount(path="/data", volume="a", source=claim),
            Mount(path="/data/cache/", volume="b", source={"emptyDir": {}}),
            Mount(path=str(tmp_path), volume="c", source=claim),
            Mount(path="/dev/shm", volume="dshm", source={"emptyDir": {"medium": "Memory"}}),
        ),
    )
    volumes = Volumes(tmp_path, (pod,), {})
    for text, expected in {
        "/data": "{}/a",
        "--in=/data/x:/data/cache/y": "--in={0}/a/x:{0}/b/p/y",
        "s3://bucket/data /database /my/data ./data data": "s3://bucket/data /database /my/data ./data data",
        "/dev/shm/x": "/dev/shm/x",
        f"{tmp_path}/x": "{}/c/x",
    }.items():
        assert volumes.path(pod, text) == expected.format(tmp_path)
    assert set(volumes.folders) == {tmp_path / "a", tmp_path / "b/p", tmp_path / "c"}


@pytest.mark.parametrize("sub_path", ["..", "a/../../b", "/etc"])
def test_no_volume_leads_out_of_its_folder(sub_path: str, tmp_path: Path) -> None:
    mount = Mount(path="/x", volume="a", source={"hostPath": {"path": "/"}}, sub_path=sub_path)
    with pytest.raises(RehearsalError, match="leads out of the volume"):
        _ = Volumes(tmp_path, (_pod("p", mounts=(mount,)),), {}).folders


# --- the command ---------------------------------------------------------------------------------


def test_help_says_what_it_does_and_imports_nothing_for_it(repository: Repository) -> None:
    done = repository.run("rehearse", "--help")
    assert done.exit_code == 0
    assert "Run a rendered job on this machine" in done.stdout
    for option in ("--nodes", "--procs", "--code", "--python", "--volumes", "--keep", "--variable"):
        assert option in done.stdout
    source = (
        "import sys; from click.testing import CliRunner; from trainwright.cli import main;"
        "before = set(sys.modules); CliRunner().invoke(main, ['run', '--help']);"
        "print([m for m in sys.modules if m.startswith(('rich', 'trainwright.rehearsal',"
        " 'trainwright.kinds', 'trainwright.render'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_page_about_it_names_every_option() -> None:
    page = (Path(__file__).parents[2] / "docs/rehearsal.md").read_text()
    named = set(re.findall(r"`(--[a-z-]+)", page)) - {"--master-port", "--data"}
    assert named == {option for p in rehearse.params for option in p.opts if option[:2] == "--"}


def test_progress_is_shown_on_a_terminal_only(repository: Repository, code: Path) -> None:
    (code / "train.py").write_text(
        "import pathlib, time\nwhile not pathlib.Path('shown').exists(): time.sleep(0.02)\n"
    )
    _job(repository)
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "trainwright",
        "-C",
        str(repository.root),
        "rehearse",
        "dev/mnist",
    ]
    with subprocess.Popen(command, cwd=code, stderr=theirs, stdout=subprocess.PIPE) as started:
        os.close(theirs)
        shown, until = b"", time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if b"2 pods running, 0 ended" in shown:
                (code / "shown").touch()
        (code / "shown").touch()
    os.close(ours)
    assert started.returncode == 0
    assert b"2 pods running, 0 ended" in shown
    assert b"running, 0 ended" not in _run(repository).stderr.encode()
