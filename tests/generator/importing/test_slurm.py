"""Batch scripts of Slurm, in the shapes that public repositories have them, as specs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainwright.importing import ImportInput, shell
from trainwright.importing.batch import ImportBatch, ImportOptions, run
from trainwright.importing.convert import Imported
from trainwright.kinds.reading import Loss

HERE = Path(__file__).parent
HEAD_NODE = """\
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
nodes_array=($nodes)
head_node=${nodes_array[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
"""


def imported(tmp_path: Path, headers: str, body: str, image: str = "a.example.com/a:1") -> ImportBatch:  # fmt: skip
    lines = "".join(f"#SBATCH {header}\n" for header in headers.splitlines())
    path = tmp_path / "finetune.sbatch"
    path.write_text(f"#!/bin/bash\n{lines}\n{body}\n", encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    done = run(HERE, found, ImportOptions(environment="lab", write=False, image=image))
    return ImportBatch(done.imported, (*found.problems, *done.problems))


def spec(tmp_path: Path, headers: str, body: str, image: str = "a.example.com/a:1") -> dict[str, Any]:  # fmt: skip
    done = imported(tmp_path, headers, body, image)
    assert done.problems == ()
    (one,) = done.imported
    assert one.severity is not Loss.CANNOT_RUN, [str(left) for left in one.left]
    return dict(one.spec)


TWO_NODES = "--nodes=2\n--ntasks-per-node=1\n--gpus-per-node=8"
ARGUMENTS = "--nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_backend c10d"


@pytest.mark.parametrize(
    "body",
    [
        f"{HEAD_NODE}srun torchrun {ARGUMENTS} --rdzv_endpoint $head_node_ip:29500 train.py --lr 1",
        f"export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
        f"srun torchrun {ARGUMENTS} --rdzv_endpoint=$MASTER_ADDR:29500 train.py --lr 1",
        f"{HEAD_NODE}ARGS=(\n  {ARGUMENTS}\n  --rdzv_endpoint $head_node_ip:29500\n)\n"
        "srun -l \"${ARGS[@]}\" true\nsrun torchrun ${ARGS[@]} train.py --lr 1".replace(
            "srun -l \"${ARGS[@]}\" true\n", ""
        ),
        "HEAD=`hostname`\nPYTHONUNBUFFERED=1 time srun torchrun --nnodes=${SLURM_JOB_NUM_NODES} "
        "--nproc-per-node=$((4 * 2)) --node-rank=$SLURM_NODEID --master-addr=$HEAD train.py --lr 1",
        "CMD='torchrun'\nsrun bash -c \"$CMD --nnodes=2 --nproc_per_node=8 "
        "--node_rank=\\$SLURM_PROCID --master_addr=$(hostname) train.py --lr 1\"",
        "srun torchrun --nnodes=2 --nproc_per_node=$SLURM_GPUS_ON_NODE --rdzv_backend=c10d "
        "--rdzv_endpoint=$(scontrol show hostname ${SLURM_NODELIST} | head -n 1):29400 \\\n"
        "  train.py --lr=1 > log.txt 2>&1",
    ],
)  # fmt: skip
def test_the_ways_to_start_torchrun_are_one(body: str, tmp_path: Path) -> None:
    made = spec(tmp_path, TWO_NODES, body)
    assert made["entrypoint"] == {"script": "train.py"}
    assert (made["launcher"], made["nodes"], made["flags"]) == ("torchrun", 2, {"lr": 1})
    assert made["resources"]["gpu"] == 8 if "pool" in made else True


def test_tasks_of_srun_are_processes(tmp_path: Path) -> None:
    headers = "-N 2\n--ntasks-per-node=4\n--gres=gpu:a100:4\n--cpus-per-task=6"
    made = spec(tmp_path, headers, "srun python3 -u ddp.py --x 1")
    assert (made["launcher"], made["nodes"]) == ("torchrun", 2)
    assert "24" in str(made["resources"]), "6 for each of the 4 tasks"


@pytest.mark.parametrize(
    ("headers", "options", "nodes"),
    [
        ("-N 4\n--gpus-per-node=8", "", 4),
        ("-N 4\n--gpus-per-node=8", " --nodes=2", 2),
        ("-N 4\n--gpus-per-node=8", " --ntasks=2", 2),  # as srun says, it takes no more nodes
        ("-N 4\n--gpus-per-node=8", " --ntasks=8", 4),
        ("--ntasks=8\n--ntasks-per-node=4\n--gpus-per-node=4", "", 2),
        ("--ntasks=9\n--ntasks-per-node=4\n--gpus-per-node=4", "", 3),
    ],
)
def test_a_step_has_no_more_nodes_than_processes(
    headers: str, options: str, nodes: int, tmp_path: Path
) -> None:
    assert spec(tmp_path, headers, f"srun{options} python train.py")["nodes"] == nodes


AMOUNTS = [
    ("--mem=200G", "memory", "200Gi"),
    ("--mem=4000", "memory", "4000Mi"),
    ("--cpus-per-task=4\n--mem-per-cpu=2G", "memory", "8Gi"),
    ("--gres=gpu:1\n--mem-per-gpu=64G", "memory", "64Gi"),
    ("-c 16", "cpu", "16"),
]


@pytest.mark.parametrize(("headers", "name", "amount"), AMOUNTS)
def test_amounts_are_of_a_node(headers: str, name: str, amount: str, tmp_path: Path) -> None:
    made = spec(tmp_path, headers, "python train.py")
    assert made["resources"][name] == amount


@pytest.mark.parametrize(
    ("time", "duration"),
    [
        ("30", "30m"),
        ("90:00", "1h30m"),
        ("02:00:00", "2h"),
        ("1-12", "36h"),
        ("2-00:30:00", "48h30m"),
    ],
)
def test_a_limit_of_time(time: str, duration: str, tmp_path: Path) -> None:
    assert spec(tmp_path, f"--time={time}", "python train.py")["maxDuration"] == duration


@pytest.mark.parametrize(
    ("image", "repository", "tag"),
    [
        ("nvcr.io#nvidia/pytorch:24.10-py3", "nvcr.io/nvidia/pytorch", "24.10-py3"),
        ("docker://a.example.com/b:2", "a.example.com/b", "2"),
        ("a.example.com/b:2", "a.example.com/b", "2"),
    ],
)
def test_an_image_of_pyxis(image: str, repository: str, tag: str, tmp_path: Path) -> None:
    for headers, words in ((f"--container-image={image}", ""), ("-N 1", f"--container-image {image} ")):  # fmt: skip
        made = spec(tmp_path, headers, f"srun {words}python train.py", image="")
        assert (made["image"]["repository"], made["image"]["tag"]) == (repository, tag)


def test_mounts_and_the_folder_of_pyxis(tmp_path: Path) -> None:
    options = "--container-mounts=/lustre/data:/data:ro,/out --container-workdir=/work"
    made = spec(tmp_path, "-N 1", f"srun {options} python train.py")
    mounts = {volume["mountPath"]: volume for volume in made["volumes"].values()}
    assert mounts["/data"]["hostPath"]["path"] == "/lustre/data"
    assert mounts["/data"]["readOnly"] is True
    assert mounts["/out"]["hostPath"]["path"] == "/out"
    assert mounts["/dev/shm"]["emptyDir"] == {"medium": "Memory"}
    assert made["workingDir"] == "/work"


def test_shared_memory_is_half_of_what_the_script_asks_for(tmp_path: Path) -> None:
    made = spec(tmp_path, "-N 1\n--mem=64G", "srun python train.py")
    assert "shm" not in made  # auto
    assert "volumes" not in made


def test_the_number_of_a_rendezvous_is_not_carried_over(tmp_path: Path) -> None:
    words = f"{ARGUMENTS} --rdzv_id $RANDOM --rdzv_endpoint $head_node_ip:29500"
    made = spec(tmp_path, TWO_NODES, f"{HEAD_NODE}srun torchrun {words} train.py")
    assert "rdzv-id" not in made.get("launcherOptions", {})


@pytest.mark.parametrize("name", ["apptainer", "singularity", "srun /usr/bin/apptainer"])
def test_a_program_in_a_container_of_apptainer(name: str, tmp_path: Path) -> None:
    options = "--nv -B /scratch:/data:ro,/out --bind=/home --env A=1,B=2 --pwd /work"
    image = "docker://pytorch/pytorch:2.5.1"
    made = spec(tmp_path, "-N 1", f"{name} exec {options} {image} python t.py --lr 1", image="")
    assert (made["image"]["repository"], made["image"]["tag"]) == ("pytorch/pytorch", "2.5.1")
    mounts = {v["mountPath"]: v.get("hostPath", {}).get("path") for v in made["volumes"].values()}
    assert mounts == {"/data": "/scratch", "/out": "/out", "/home": "/home", "/dev/shm": None}
    assert (made["env"], made["workingDir"]) == ({"A": "1", "B": "2"}, "/work")
    assert (made["entrypoint"], made["flags"]) == ({"script": "t.py"}, {"lr": 1})


def test_other_options_of_apptainer_are_named(tmp_path: Path) -> None:
    options = "--nv -e --mount type=bind,src=/a,dst=/b --env-file .env -H /home/me --fakeroot"
    body = f"apptainer exec {options} docker://a.example.com/a:1 python t.py"
    (one,) = imported(tmp_path, "-N 1", body, image="").imported
    behaviour = {left.field for left in one.left if left.severity is Loss.BEHAVIOUR}
    assert behaviour >= {"--mount", "--env-file", "--home", "--fakeroot"}
    assert not {left.field for left in one.left} & {"--nv", "--cleanenv"}
    assert [left.value for left in one.left if left.field == "--fakeroot"] == [""]


def test_an_option_of_a_site_is_read_behind_one_whose_value_may_be_left_out(tmp_path: Path) -> None:
    (one,) = imported(tmp_path, "-N 1", "srun -K --site=a torchrun t.py").imported
    assert {"--site", "--kill-on-bad-exit"} <= {left.field for left in one.left}


def test_what_only_starts_the_program_is_left_out(tmp_path: Path) -> None:
    """As the managers of environments are, and conda's set-up, which an image brings."""
    body = (
        'eval "$(conda shell.bash hook)"\ncd $SLURM_SUBMIT_DIR\n'
        "export MASTER_PORT=$(expr 10000 + $(echo -n $SLURM_JOBID | tail -c 4))\n"
        f"{HEAD_NODE}srun bash -c 'uv run torchrun --nnodes=$SLURM_NNODES --nproc_per_node=8 "
        "--node_rank=$SLURM_NODEID --master_addr=$head_node_ip --master_port=$MASTER_PORT t.py'"
    )
    made = spec(tmp_path, TWO_NODES, body.replace("head_node_ip=", "export head_node_ip="))
    assert (made["entrypoint"], made["launcher"]) == ({"script": "t.py"}, "torchrun")
    (one,) = imported(tmp_path, TWO_NODES, body.replace("head_node_ip=", "export head_node_ip=")).imported  # fmt: skip
    assert {left.field for left in one.left if left.severity is Loss.BEHAVIOUR} >= {
        "eval", "cd", "uv run",
    }  # fmt: skip


def test_a_launcher_that_needs_ssh_cannot_run(tmp_path: Path) -> None:
    body = "srun deepspeed --hostfile /h --num_gpus 8 train.py"
    (one,) = imported(tmp_path, TWO_NODES, body).imported
    assert "by ssh" in "".join(str(left) for left in one.left if left.severity is Loss.CANNOT_RUN)
    (one,) = imported(tmp_path, "-N 1 --gpus=8", body).imported
    assert "by ssh" not in "".join(str(left) for left in one.left)


def test_exported_variables_are_the_runs(tmp_path: Path) -> None:
    body = (
        "export NCCL_DEBUG=INFO\nLOCAL=1\nexport MASTER_PORT=29500 WORLD_SIZE=$SLURM_NTASKS\n"
        "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\nexport LOCAL\nHF_HUB_OFFLINE=1 srun python a.py"
    )
    made = spec(tmp_path, "-N 1\n-c 14", body)
    assert made["env"] == {
        "NCCL_DEBUG": "INFO",
        "OMP_NUM_THREADS": "14",
        "LOCAL": "1",
        "HF_HUB_OFFLINE": "1",
    }


REFUSED = {
    "--array 1-4 starts many jobs": ("--array=1-4", "python a.py"),
    "starts 2 programs (lines 4, 5)": ("-N 1", "srun python a.py\nsrun python b.py"),
    "stands in a loop": ("-N 1", "for i in 1 2; do\n  srun python a.py --seed $i\ndone"),
    "neither srun nor": ("-N 1", "if [ -n \"$X\" ]; then srun python a.py; fi"),
    "neither srun nor a program of Python": ("-N 1", "echo hello"),
    "--nodes is many": ("--nodes=many", "python a.py"),
    "has no image": ("-N 1", "srun --container-image=/x/a.sqsh python a.py"),
    "srun starts nothing": ("-N 1", "srun --label"),
    "a heterogeneous job has groups": ("-N 1\nhetjob\n-N 2", "srun python a.py"),
    "a job spec has one: make a script": ("-N 1", "srun --het-group=0 python a.py : python b.py"),
    "apptainer exec starts nothing": ("-N 1", "srun apptainer exec --nv a.sif"),
    "No such option '--foo'": ("--foo 1", "python a.py"),
}  # fmt: skip


@pytest.mark.parametrize("file", ["a.sif", "a.simg", "pytorch-sandbox", "library://a/b:1", "$SIF"])
def test_files_of_apptainer_are_no_images(file: str, tmp_path: Path) -> None:
    done = imported(tmp_path, "-N 1", f"srun apptainer exec --nv {file} python a.py", image="")
    assert done.imported == ()
    assert "has no image: its programs are those of the nodes" in done.problems[0]


@pytest.mark.parametrize(
    ("options", "lost"),
    [("--nnodes=4 --node_rank=3 --master_addr=10.2.14.191", 1), ("--nnodes 1", 0), ("", 0)],
)
def test_the_program_of_an_old_launcher_stays_behind_its_switches(
    options: str, lost: int, tmp_path: Path
) -> None:
    line = f"python -m torch.distributed.launch --nproc_per_node=4 {options} --use_env a.py --lr 1"
    (one,) = imported(tmp_path, "-N 1\n--gres=gpu:4", line).imported
    assert one.spec["entrypoint"]["argv"] == line.split()
    assert len([left for left in one.left if left.severity is Loss.CANNOT_RUN]) == lost


@pytest.mark.parametrize("value", ["x,rdzv=$A:$B,c=$A/$B", "/x/$A-$B.$A^$B", "$A@$B+$A%$B"])
def test_variables_within_a_word_that_is_not_quoted(value: str, tmp_path: Path) -> None:
    body = f'A=one\nB=two\nexport ALL="--all "{value}" --last"\nsrun python a.py $ALL'
    (one,) = imported(tmp_path, "-N 1", body).imported
    assert one.spec["flags"] == {
        "all": value.replace("$A", "one").replace("$B", "two"),
        "last": True,
    }


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_no_single_training_is_refused(message: str, tmp_path: Path) -> None:
    headers, body = REFUSED[message]
    done = imported(tmp_path, headers, body, image="")
    assert done.imported == ()
    assert message in done.problems[0]
    assert "finetune.sbatch:" in done.problems[0]


CANNOT_RUN = {
    "pip install": "pip install -r requirements.txt\nsrun python a.py",
    "cp -r": "cp -r /data /tmp/data\nsrun python a.py",
    "$HOME/data": "srun python a.py --data $HOME/data",
    "${RUN_DIR}": "srun python a.py --out ${RUN_DIR}/x",
    "$(git": "srun python a.py --name run-$(git rev-parse HEAD)",
    "/s/${{ run.name }}:/s": "srun --container-mounts=/s/$SLURM_JOB_ID:/s python a.py",
    "cd /s/${{ run.name }}": "cd /s/$SLURM_JOB_ID\nsrun python a.py",
    "apptainer: a pod is the container": "srun apptainer run --nv a.sif",
}


@pytest.mark.parametrize("text", CANNOT_RUN)
def test_what_only_the_script_does_or_knows_cannot_run(text: str, tmp_path: Path) -> None:
    (one,) = imported(tmp_path, "-N 1", CANNOT_RUN[text]).imported
    lost = [str(left) for left in one.left if left.severity is Loss.CANNOT_RUN]
    assert len(lost) == 1
    assert text in lost[0]


@pytest.mark.parametrize(
    "own", ["$SLURM_JOB_ID", "${SLURM_JOBID}", "$$", "$(date +%F)", "`uuidgen | cut -c 1-8`"]
)
def test_what_each_job_has_of_its_own_is_the_name_of_the_run(own: str, tmp_path: Path) -> None:
    body = (
        f"OUT=/out/{own}\nexport WANDB_RUN_ID={own}\n"
        f"srun torchrun --nnodes 2 --nproc_per_node 8 --rdzv_id {own} --rdzv_backend c10d "
        f"--rdzv_endpoint $(hostname):29500 train.py --out $OUT --run_name sft-{own} --lr 1"
    )
    (one,) = imported(tmp_path, TWO_NODES, body).imported
    name = "${{ run.name }}"
    assert one.spec["flags"] == {"lr": 1, "out": f"/out/{name}", "run_name": f"sft-{name}"}
    assert one.spec["env"] == {"WANDB_RUN_ID": name}
    named = {left.field: left.severity for left in one.left if "name of the run" in left.why}
    texts = (f"/out/{name}", f"sft-{name}", f"WANDB_RUN_ID={name}")
    assert named == dict.fromkeys(texts, Loss.BEHAVIOUR)
    assert not [str(each) for each in one.differing if name in str(each) or "/out" in str(each)]


def test_the_rest_is_named(tmp_path: Path) -> None:
    headers = (
        "-N 1\n--qos=high\n--constraint=a100\n--mail-type=END\n--signal=B:USR1@60\n--site-plugin=x"
    )
    (one,) = imported(tmp_path, headers, "module load cuda\nconda activate x\nsrun python a.py").imported  # fmt: skip
    named = {left.field: left.severity for left in one.left}
    behaviour = {"--qos", "--constraint", "--signal", "module", "conda"}
    assert {field for field, severity in named.items() if severity is Loss.BEHAVIOUR} == behaviour
    assert {"--mail-type", "--site-plugin"} <= named.keys()
    assert not [field for field in named if field.startswith("/")], "which nobody wrote"


def test_eight_launchers_per_node_are_one(tmp_path: Path) -> None:
    headers = "-N 1\n--ntasks-per-node=8\n--gpus-per-node=8"
    (one,) = imported(tmp_path, headers, "srun torchrun --nproc_per_node=8 a.py").imported
    assert any("8 times per node" in left.why for left in one.left)


def test_a_partition_is_the_pool_of_its_name(tmp_path: Path) -> None:
    made = spec(tmp_path, "-N 1\n--gres=gpu:2\n-p any-gpu", "python a.py")
    assert made["pool"] == "any-gpu"


def test_scripts_of_a_folder(tmp_path: Path) -> None:
    for name in ("a.sh", "b.slurm", "sub/c.sbatch"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n#SBATCH -J {path.stem}\npython a.py\n", encoding="utf-8")
    (tmp_path / "other.sh").write_text("rm -rf /\n", encoding="utf-8")
    found = ImportInput()
    found.files((str(tmp_path),))
    assert sorted(source.name for source in found.sources) == ["a", "b", "c"]
    assert found.problems == []


# --- the shell -----------------------------------------------------------------------------------


def words(script: str, **variables: str) -> tuple[str, ...]:
    return shell.commands(script, variables, lambda _: None)[-1].words


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("A=1\nx $A ${A}b \"$A c\" '$A'", ("x", "1", "1b", "1 c", "$A")),
        ("A='1 2'\nx $A \"$A\"", ("x", "1", "2", "1 2")),
        ("x ${A:-d} ${A-d} ${A:+e}", ("x", "d", "d")),
        (": ${A:=d}\nx $A", ("x", "d")),
        ("A=(1 '2 3')\nx \"${A[@]}\" ${A[1]}", ("x", "1", "2 3", "2", "3")),
        ("A=(1)\nA+=(2 3)\nx ${A[@]}", ("x", "1", "2", "3")),
        ("A=a\nA+=b\nx $A", ("x", "ab")),
        ("N=4\nx $((N * 2 + 1)) $(( $N - 1 ))", ("x", "9", "3")),
        ("A=1\nB='2 3'\nC=\"$A $B ${A} $N\"\nx $C", ("x", "1", "2", "3", "1", "$N")),
        ("J=llm-7b\nx $((10000 + J % 1000)) $((A$(date)))", ("x", "10000", "$((A$(date)))")),
        ("x $UNKNOWN ${UNKNOWN}/a $(cat f)", ("x", "$UNKNOWN", "${UNKNOWN}/a", "$(cat f)")),
        ("x \"a\\\"b\" \"\\$A\" a\\ b", ("x", 'a"b', "$A", "a b")),
        ("x $1 \"$@\" $*", ("x", "$1")),
        ("A=\" \\\n --a $B \\\n \"\nx $A", ("x", "--a", "$B")),
        ("x $B/a_$C,$D", ("x", "$B/a_${C},${D}")),
        ("A=$(date +%s | tail -c 2)\nx $A b", ("x", "$(date +%s | tail -c 2)", "b")),
        ("f() { x $1 $#; }\nf 1", ("x", "1", "$#")),
        ("if [ -z \"$A\" ]; then A=1; elif y; then A=2; fi\nx $A", ("x", "1")),
        ("A=1\nif [[ $A == 2 || -n \"$B\" ]]; then A=3; else A=4; fi\nx $A", ("x", "4")),
        ("A=1\nif [ -f b ]; then A=2; fi\nx $A ${A:-3}", ("x", "$A", "${A:-3}")),
        ("A=1\nif [ -f b ]; then A=1; fi\nx $A", ("x", "1")),
        ("A=1\nwhile [ $# -gt 0 ]; do A=$1; done\nx $A", ("x", "1")),
        ("while getopts a: o; do A=$OPTARG; done\nx ${A:-2}", ("x", "2")),
        ("for A in 1 2; do B=$A; done\nx $A $B", ("x", "$A", "$B")),
        ("for A in \"$@\"; do B=$A; done\nx ${B:-1}", ("x", "1")),
        ("[ -n \"$A\" ] && B=1\n[ 2 -gt 1 ] && C=1 || C=2\nx ${B:-0} $C", ("x", "0", "1")),
        ("mkdir a && B=1 || exit 1\nx $B", ("x", "1")),
        ("case $A in a) B=1;; esac\nx $B", ("x", "$B")),
        ("read A B <<< \"1 2\"\nx $A $B", ("x", "$A", "$B")),
        ("A=(1 2)\nx ${#A[@]} $A ${B[@]}", ("x", "2", "1")),
        ("x $((SLURM_X + 1)) $((Y + 1))", ("x", "$((SLURM_X + 1))", "1")),
        ("x $(pwd)/a `pwd`", ("x", "$PWD/a", "$PWD")),
        ("x a \\\n  b", ("x", "a", "b")),
        ("A=1; unset A; x", ("x",)),
        ("x $((2**999999999))", ("x", "$((2**999999999))")),
    ],
)  # fmt: skip
def test_words_of_a_command(script: str, expected: tuple[str, ...]) -> None:
    assert words(script) == expected


@pytest.mark.parametrize("text", ["", "\0", "(((((", "if", "x <<EOF", "${", "$((", "`", "\"", "é" * 9, "a=(" * 500, "$(" * 500])  # fmt: skip
def test_a_broken_script_is_no_crash(text: str) -> None:
    shell.commands(text, {}, lambda _: None)


def test_nothing_of_a_script_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    script = f"A=$(touch {mark})\n`touch {mark}`\ntouch {mark}\nsrun python $(touch {mark}).py"
    imported(tmp_path, "-N 1", script)
    assert not mark.exists()


def test_options_are_reported_where_and_as_they_are_written(tmp_path: Path) -> None:
    headers = ("-N 4", "--output=logs/%j.out", "--requeue", "--mail-type END")
    lines = "".join(f"#SBATCH {header}\n" for header in headers)
    found = ImportInput()
    (tmp_path / "a.sbatch").write_text(
        f"#!/bin/bash\n{lines}\nsrun --mpi=pmix --label torchrun a.py\n"
    )
    found.files((str(tmp_path / "a.sbatch"),))
    options = ImportOptions(environment="lab", write=False, image="a.example.com/a:1")
    root = environment(tmp_path, "trainjob: {version: '2.3'}")
    (one,) = run(root, found, options).imported
    reported = {left.field: (left.place.line, left.value) for left in one.left}
    assert reported["--output"] == (3, "logs/%j.out")
    assert reported["--requeue"] == (4, "")
    assert reported["--mail-type"] == (5, "END")
    assert (reported["--mpi"], reported["--label"]) == ((7, "pmix"), (7, ""))


@pytest.mark.parametrize("header", ["--array=0-9", "--nodes=many", "--gpus=x", "--foo 1"])
def test_an_option_is_refused_at_its_line(header: str, tmp_path: Path) -> None:
    (problem,) = imported(tmp_path, f"-J a\n{header}", "python a.py").problems
    assert "finetune.sbatch:3:1: sbatch: " in problem


# --- how many nodes torchrun starts on, and where they meet ----------------------------------------


def of_shell(line: str, root: Path = HERE) -> Imported:
    found = ImportInput()
    found.commands("--command", line)
    options = ImportOptions(environment="lab", write=False, image="a.example.com/a:1")
    (one,) = run(root, found, options).imported
    return one


@pytest.mark.parametrize(
    ("options", "listed"),
    [
        ("--nnodes=2", "--nnodes 2"),
        ("--nnodes 2:2", "--nnodes 2:2"),
        ("--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node0:29400", "--rdzv-endpoint node0:29400"),
        ("--nnodes=2 --rdzv_backend c10d --rdzv_endpoint $HOST:1", "--rdzv-endpoint $HOST:1"),
        ("--nnodes=2 --master-addr=10.0.0.1 --master-port=1", "--master-addr 10.0.0.1"),
    ],
)  # fmt: skip
def test_a_command_line_of_two_nodes_is_two_nodes(options: str, listed: str) -> None:
    one = of_shell(f"torchrun {options} --nproc-per-node=8 train.py --nnodes=3")
    assert (one.spec["nodes"], one.spec["flags"]) == (2, {"nnodes": 3})
    assert "rdzv-endpoint" not in one.spec.get("launcherOptions", {})
    assert one.severity is not Loss.CANNOT_RUN, [str(left) for left in one.left]
    assert [left for left in one.left if f"{listed}: " in str(left)]


def test_the_same_line_in_a_batch_script(tmp_path: Path) -> None:
    line = (
        "srun torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=n7:1 t.py"
    )
    made = spec(tmp_path, TWO_NODES, line)
    assert (made["nodes"], made["launcherOptions"]) == (2, {"rdzv-backend": "c10d"})


def test_one_node_among_several_stays_what_it_is() -> None:
    one = of_shell("torchrun --nnodes=2 --node_rank=0 --master_addr=10.0.0.1 train.py")
    assert one.severity is Loss.CANNOT_RUN


ELASTIC = "torchrun --nnodes=2:4 --nproc-per-node=8 --rdzv-backend=c10d --rdzv-endpoint=n:1 -m a.b"


@pytest.mark.parametrize("target", ["pytorchjob: {version: '1.9'}", "trainingjob: {}"])
def test_a_range_of_nodes_is_elastic_where_the_target_is(target: str, tmp_path: Path) -> None:
    one = of_shell(ELASTIC, environment(tmp_path, target))
    assert one.spec["elastic"] == {"minNodes": 2, "maxNodes": 4}
    assert one.severity is not Loss.CANNOT_RUN, [str(left) for left in one.left]


@pytest.mark.parametrize("line", [ELASTIC, f"docker run a:1 {ELASTIC}"])
def test_a_range_of_nodes_cannot_run_elsewhere(line: str, tmp_path: Path) -> None:
    one = of_shell(line, environment(tmp_path, "jobset: {version: '0.8'}"))
    assert one.severity is Loss.CANNOT_RUN
    assert [left for left in one.left if "--nnodes 2:4: an elastic run, which" in str(left)]


def environment(root: Path, target: str) -> Path:
    file = root / "environments/lab/environment.yaml"
    file.parent.mkdir(parents=True)
    name = target.partition(":")[0]
    file.write_text(
        "apiVersion: trainwright.io/v1alpha1\nkind: Environment\nnamespace: lab\n"
        f"kubernetes: {{version: '1.34'}}\ntargets: {{{target}}}\n"
        f"defaults: {{target: {name}}}\n"
        "pools: {a: {resource: nvidia.com/gpu, gpusPerNode: 8}}\n",
        encoding="utf-8",
    )
    return root


def test_findings_are_where_people_wrote_what_they_are_about(tmp_path: Path) -> None:
    """Never all of them at srun."""
    headers = f"{TWO_NODES}\n--mem=240GiB\n--gres=gpu:8,nvme:1\n--container-env=A"
    body = "export MASTER_ADDR=a\nexport WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567\nexport OUT=/a/$USER\nB=/b/$USER srun python a.py"
    (one,) = imported(tmp_path, headers, body).imported
    lines = {left.field: (left.place.line, left.why) for left in one.left}
    unknown = "only the running script knows it: write its value, or import it with --set USER=…"
    assert lines["MASTER_ADDR"] == (9, "the launcher and the target set it")
    assert lines["export"][0] == 10
    assert lines["/a/${USER}"] == (11, unknown)
    assert lines["/b/${USER}"] == (12, unknown)
    assert lines["--mem"] == (5, "use resources.memory")
    assert lines["--gres"][0] == 6
    assert lines["--container-env"][0] == 7
    assert "--nodes" not in lines


@pytest.mark.parametrize(
    "line",
    [
        "torchrun --standalone --nproc-per-node=gpu a.py",
        "accelerate launch --multi_gpu a.py",
        "deepspeed --include localhost:0,1 a.py",
        "#SBATCH --nodes=1\nsrun torchrun --nproc-per-node=gpu a.py",
    ],
)
def test_a_process_for_each_gpu_cannot_run_without_any(line: str) -> None:
    inputs = ImportInput()
    inputs.commands("a.sh", f"#!/bin/bash\n{line}\n")
    done = run(HERE, inputs, ImportOptions(environment="lab", write=False, image="a/b:1"))
    (one,) = done.imported
    (why,) = [left.why for left in one.left if left.severity is Loss.CANNOT_RUN]
    assert why.endswith("and it starts one process for each: write resources.gpu")


def test_more_nodes_than_the_pool_has_are_said_once(tmp_path: Path) -> None:
    done = imported(
        tmp_path, "--nodes=2000\n--gpus-per-node=8\n--partition=h100", "srun python a.py"
    )
    assert done.imported == ()
    (problem,) = done.problems
    assert "nodes is 2000, it must be at most 1000" in problem
