"""Command lines as people paste them, and files that only look as if they were some."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.importing import ImportInput, pasted
from trainwright.importing.batch import ImportBatch, ImportOptions, run
from trainwright.importing.commandline import lines
from trainwright.kinds.reading import ImportingError

HERE = Path(__file__).parent
CONTAINER = {"name": "pytorch", "image": "a.example.com/a:1", "command": ["torchrun", "train.py"]}
MANIFEST = {
    "kind": "PyTorchJob",
    "apiVersion": "kubeflow.org/v1",
    "metadata": {"name": "torchrun-bert"},
    "spec": {"pytorchReplicaSpecs": {"Master": {"template": {"spec": {"containers": [CONTAINER]}}}}},
}  # fmt: skip
TORCHRUN = "torchrun --nproc-per-node 2 train.py"


def imported(folder: Path, name: str, text: str) -> tuple[ImportInput, ImportBatch]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    options = ImportOptions(environment="lab", write=False, image="a.example.com/a:1")
    return found, run(HERE, found, options)


def spec(folder: Path, name: str, text: str) -> dict[str, Any]:
    found, done = imported(folder, name, text)
    assert (found.problems, found.findings, done.problems) == ([], [], ())
    (one,) = done.imported
    return dict(one.spec)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(MANIFEST),
        json.dumps({"metadata": MANIFEST["metadata"], **MANIFEST}),
        yaml.safe_dump(MANIFEST, default_flow_style=True, width=9999),
        f"# {TORCHRUN}\n{yaml.safe_dump(MANIFEST)}",
        yaml.safe_dump({**MANIFEST, "metadata": {"annotations": {"a": f"```\n{TORCHRUN}\n```\n"}, "name": "torchrun-bert"}}, default_style="|"),
    ],
    ids=["json", "name-first", "flow", "comment", "fence"],
)  # fmt: skip
def test_a_manifest_that_names_torchrun_is_no_command(text: str, tmp_path: Path) -> None:
    assert spec(tmp_path, "job.yaml", text)["name"] == "torchrun-bert"


def test_a_broken_manifest_that_names_torchrun_is_one(tmp_path: Path) -> None:
    found = ImportInput()
    path = tmp_path / "job.json"
    path.write_text(json.dumps(MANIFEST).replace('", "', '" "', 1), encoding="utf-8")
    found.files((str(path),))
    assert [finding.rule for finding in found.findings] == ["TW001"]
    assert found.sources == []


@pytest.mark.parametrize(
    "text",
    [
        f"$ {TORCHRUN}",
        f"$ {TORCHRUN}\nepoch 1: loss 0.5\ndone in 3 s",
        f"(venv) $ {TORCHRUN}",
        f"me@host:~/code$ {TORCHRUN}",
        f"[me@host code]$ {TORCHRUN}",
        "$ torchrun \\\n    --nproc-per-node 2 \\\n    train.py",
        f"sudo {TORCHRUN}",
        f"sudo -E -u trainer {TORCHRUN}",
        f"time {TORCHRUN}",
        f"nohup {TORCHRUN} > log.txt 2>&1 &",
        f"timeout -k 10 3h {TORCHRUN}",
        f"taskset -c 0-7 nice -n 10 {TORCHRUN}",
        f"CUDA_VISIBLE_DEVICES=0,1 {TORCHRUN}",
        f"cd /code && {TORCHRUN} && echo done",
        f"uv run {TORCHRUN}",
        f"bash -c '{TORCHRUN}'",
        f"# Train\n\nIt's easy:\n\n```bash\n{TORCHRUN}\n```\n\n```yaml\nkind: Pod\n```\n",
        f"```console\n$ {TORCHRUN}\n```",
        f"#!/bin/bash\ncat > a.txt <<EOF\nit's torchrun\nEOF\n{TORCHRUN}",
    ],
)
def test_what_people_paste_is_their_command(text: str, tmp_path: Path) -> None:
    made = spec(tmp_path, "train", text)
    assert (made["launcher"], made["entrypoint"]) == ("torchrun", {"script": "train.py"})
    assert made["resources"] == {"gpu": 2}
    assert "flags" not in made


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("sudo torchrun a.py", "sudo: the user of the image runs it"),
        ("time torchrun a.py", "time: it decides how the run is watched"),
        ("timeout 3h torchrun a.py", "timeout 3h: use maxDuration"),
        ("torchrun a.py > log.txt", "> log.txt: the log of the container has what it prints"),
        ("CUDA_VISIBLE_DEVICES=6,7 python a.py", "CUDA_VISIBLE_DEVICES 6,7: 2 GPUs are requested"),
        ("docker run a:1 python a.py >> log.txt", "> log.txt: the log of the container"),
        ("NCCL_DEBUG=INFO docker run a:1 python a.py", "NCCL_DEBUG INFO: a container has it by -e"),
    ],
)  # fmt: skip
def test_what_stands_around_it_is_named(text: str, left: str, tmp_path: Path) -> None:
    _, done = imported(tmp_path, "train", text)
    (one,) = done.imported
    assert any(left in str(entry) for entry in one.left), list(map(str, one.left))


def test_the_gpus_that_a_shell_selects_are_those_of_the_pod(tmp_path: Path) -> None:
    made = spec(tmp_path, "train", "CUDA_VISIBLE_DEVICES=6,7 python train.py")
    assert made["resources"] == {"gpu": 2}
    assert "env" not in made


def test_variables_of_env_are_the_runs(tmp_path: Path) -> None:
    assert spec(tmp_path, "train", f"env NCCL_DEBUG=INFO {TORCHRUN}")["env"] == {
        "NCCL_DEBUG": "INFO"
    }


def test_output_and_other_commands_are_no_arguments(tmp_path: Path) -> None:
    text = "docker run a:1 python train.py --lr=1 2>&1 | tee log.txt && echo done &"
    found, done = imported(tmp_path, "run.txt", text)
    (one,) = done.imported
    assert (one.spec["entrypoint"], one.spec["flags"]) == ({"script": "train.py"}, {"lr": 1})
    assert [left.field for left in found.beside] == ["tee", "echo"]


@pytest.mark.parametrize("name", ["run.sh", "run.txt"])
def test_what_stands_above_an_open_quote_is_imported(name: str, tmp_path: Path) -> None:
    text = "docker run a:1 python train.py\ndocker run a:1 python eval.py --name 'x\n"
    found, done = imported(tmp_path, name, text)
    assert [one.spec["entrypoint"] for one in done.imported] == [{"script": "train.py"}]
    (problem,) = found.problems
    assert f"{name}:2:38: ' is not closed" in problem


def test_a_script_that_trains_nothing_itself(tmp_path: Path) -> None:
    text = "#!/bin/bash\nkubectl apply -f - <<EOF\nkind: A\nspec: |\n  torchrun train.py\nEOF\n"
    found = ImportInput()
    (tmp_path / "apply.sh").write_text(text, encoding="utf-8")
    found.files((str(tmp_path / "apply.sh"),))
    assert (found.findings, found.sources) == ([], [])
    assert "apply.sh:1: no command in it starts a training" in found.problems[0]


@pytest.mark.parametrize(
    "line", ["cat restrain.py torchrunner", "vim accelerate.md", "ls deepspeed"]
)
def test_a_program_is_not_known_by_a_part_of_a_word(line: str, tmp_path: Path) -> None:
    found = ImportInput()
    (tmp_path / "a.sh").write_text(line, encoding="utf-8")
    found.files((str(tmp_path / "a.sh"),))
    assert found.sources == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("""a "b c" 'd e' f\\ g""", ("a", "b c", "d e", "f g")),
        ("a b#c # d", ("a", "b#c")),
        ('a "" "\\$b \\x"', ("a", "", "$b \\x")),
        ("a \\\n  b", ("a", "b")),
        ("a -v $(pwd):/b $(cat c d)", ("a", "-v", "$(pwd):/b", "$(cat c d)")),
        ("a <in >out 2>/dev/null b", ("a", "b")),
        ("a --b <NAME> 'c>d'", ("a", "--b", "<NAME>", "c>d")),
        ("a --b='c;d' e|f", ("a", "--b=c;d", "e")),
    ],
)
def test_words_of_a_line(text: str, words: tuple[str, ...]) -> None:
    assert next(lines("", text)).words == words


def test_positions_are_those_of_what_was_pasted() -> None:
    text = pasted.commands_of("Run:\n\n```sh\n$ a; b \\\n  'c d' && e\n```\n")
    places = [(line.place.line, line.place.column) for line in lines("", text)]
    assert places == [(4, 3), (4, 6), (5, 12)]


def test_any_text_has_lines_or_an_open_quote() -> None:
    signs = ["'", '"', "`", "$(", "(", ")", "<a", "<<", ">", "\\", "\n", "a", " ", "#", "&", "```"]
    for number in range(4096):
        text = "".join(signs[(number >> shift) % 16] for shift in (0, 4, 8))
        with suppress(ImportingError):
            list(lines("", pasted.commands_of(text)))


def test_only_what_a_terminal_printed_is_left_out_of_a_block(tmp_path: Path) -> None:
    text = (
        "# Model\n\n```bash\npip install -e .\n```\n\n```bash\n$ torchrun --nproc-per-node 2 \\\n"
        "    train.py\nloss: 1\n```\n\n```python\ntorchrun(x)\n```\n\n```\npython eval.py\n```\n"
    )
    _, done = imported(tmp_path, "README.md", text)
    (one,) = done.imported
    assert (one.spec["name"], one.spec["entrypoint"]) == ("train", {"script": "train.py"})
    fields = [entry.field for entry in one.left]
    assert fields.count("pip") == fields.count("python") == 1
    assert "loss:" not in fields


@pytest.mark.parametrize(
    "text",
    [
        "!torchrun --nproc-per-node 2 train.py",
        "PS C:\\Users\\me> torchrun --nproc-per-node 2 train.py",
        "conda activate x\npip install -e .\ntorchrun --nproc-per-node 2 train.py\n",
        "torchrun --nproc-per-node 2 train.py\r\n",
    ],
)
def test_other_places_that_people_copy_from(text: str, tmp_path: Path) -> None:
    _, done = imported(tmp_path, "train.txt", text)
    (one,) = done.imported
    assert (one.spec["launcher"], one.spec["resources"]) == ("torchrun", {"gpu": 2})


@pytest.mark.parametrize(
    "command",
    [
        "python -m torch.distributed.launch --nproc_per_node=8 train.py",
        "accelerate launch --num_processes 8 train.py",
        "deepspeed --num_gpus=8 train.py",
    ],
)
def test_the_gpus_of_any_launcher_are_its_processes(command: str, tmp_path: Path) -> None:
    made = spec(tmp_path, "train", command)
    assert made["resources"] == {"extended": {"nvidia.com/gpu": 8}}


def test_all_gpus_are_those_of_the_pool_that_has_as_many(tmp_path: Path) -> None:
    environment = tmp_path / "environments/lab/environment.yaml"
    environment.parent.mkdir(parents=True)
    environment.write_text(
        "apiVersion: trainwright.io/v1alpha1\nkind: Environment\nnamespace: lab\n"
        "kubernetes: {version: '1.34'}\ntargets: {job: {}}\npools:\n"
        "  small: {resource: nvidia.com/gpu, gpusPerNode: 2}\n"
        "  large: {resource: nvidia.com/gpu, gpusPerNode: 8}\n",
        encoding="utf-8",
    )
    found = ImportInput()
    found.commands("a", "docker run --gpus all a:1 torchrun --nproc_per_node=8 train.py")
    (one,) = run(tmp_path, found, ImportOptions(environment="lab", write=False)).imported
    assert (one.spec["pool"], one.spec["resources"]) == ("large", {"gpu": 8})


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("Pod", "Write its spec under spec.template of a Job, and import that"),
        ("CronJob", "Write its jobTemplate as a Job, and import that"),
        ("MPIJob", "such as a JobSet that starts torchrun"),
    ],
)
def test_a_kind_that_is_not_read_is_told_what_to_become(
    kind: str, remedy: str, tmp_path: Path
) -> None:
    pod = {"spec": {"containers": [{**CONTAINER, "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
    bodies = {
        "Pod": {"apiVersion": "v1", **pod},
        "CronJob": {
            "apiVersion": "batch/v1",
            "spec": {"jobTemplate": {"spec": {"template": pod}}},
        },
        "MPIJob": {
            "apiVersion": "kubeflow.org/v2beta1",
            "spec": {"mpiReplicaSpecs": {"Launcher": {"template": pod}}},
        },
    }
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({"kind": kind, **bodies[kind]}), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    assert remedy in found.problems[0]


def test_a_file_of_no_known_kind_is_told_how_its_command_is_imported(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("num_nodes: 2\nrun: torchrun train.py\n", encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    assert "import the command that it starts with --command" in found.beside[0].why
