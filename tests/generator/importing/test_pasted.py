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
