"""Programs that people have, unchanged, under the entrypoint: the table of docs/programs.md."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from containers import Entrypoint

PROGRAMS = Path(__file__).parent / "programs"
PAGE = Path(__file__).parents[2] / "docs/programs.md"
NEEDS = {
    "accelerated": "accelerate",
    "hf_trainer": "transformers",
    "lightning_fit": "lightning",
}
PROCESSES = {"mesh": 4, "hsdp": 4}


@pytest.mark.slow
@pytest.mark.parametrize("program", ["hsdp", *NEEDS])
def test_live_recovery_refuses_what_trains_in_a_fixed_world(
    program: str, entrypoint: Entrypoint
) -> None:
    if (package := NEEDS.get(program)) and not importlib.util.find_spec(package):
        pytest.skip(f"{package} is not installed")
    done = entrypoint.run(
        "--recovery=live", "--backend=gloo", "--nproc-per-node=2", "--",
        str(PROGRAMS / f"{program}.py"),
    )  # fmt: skip
    assert done.returncode == 2, "it is refused before torch or a library misses its variables"
    last = done.stderr.splitlines()[-1]
    assert "requests a process group of all workers" in last
    assert "use trainwright_runtime.elastic, or --recovery=restart" in last
    assert "Traceback" not in done.stderr


ELASTIC = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from trainwright_runtime import elastic

class Tokens(torch.utils.data.Dataset):
    def __len__(self): return 16
    def __getitem__(self, index):
        tokens = (torch.arange(8) + index) % 17
        return {"input_ids": tokens, "labels": tokens}

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=17, n_positions=8, n_embd=8, n_layer=1, n_head=2))
optimizer = torch.optim.AdamW(model.parameters())
with elastic.training(model, optimizer, Tokens(), batch_size=8) as run:
    for _ in run.epochs():
        for batch in run.batches():
            run.backward(model(**batch).loss)
print("steps", run.step)
"""


@pytest.mark.slow
def test_a_model_of_hugging_face_trains_elastically(entrypoint: Entrypoint) -> None:
    pytest.importorskip("transformers")
    script = entrypoint.script("train.py", ELASTIC)
    done = entrypoint.run("--recovery=live", "--backend=gloo", "--nproc-per-node=2", "--", script)
    assert done.returncode == 0, done.stderr
    assert "steps 2" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("program", sorted(path.stem for path in PROGRAMS.glob("*.py")))
def test_a_program_trains_unchanged(program: str, entrypoint: Entrypoint) -> None:
    if (package := NEEDS.get(program)) and not importlib.util.find_spec(package):
        pytest.skip(f"{package} is not installed")
    processes = PROCESSES.get(program, 2)
    done = entrypoint.run(
        "--backend=gloo", f"--nproc-per-node={processes}", "--", str(PROGRAMS / f"{program}.py"),
        env={"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = re.findall(r"^\[rank (\d)\] trained (\S+)$", done.stdout, re.MULTILINE)
    assert sorted(int(rank) for rank, _ in results) == list(range(processes)), done.stdout
    assert len({result for _, result in results}) == 1, done.stdout  # they trained together


def test_the_page_has_each_program() -> None:
    named = set(re.findall(r"\.\./tests/runtime/programs/(\w+)\.py", PAGE.read_text()))
    assert named == {path.stem for path in PROGRAMS.glob("*.py")}
