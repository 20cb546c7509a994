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
    "hf_trainer_elastic": "transformers",
    "lightning_fit": "lightning",
}
PROCESSES = {"mesh": 4, "hsdp": 4}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "replica", "why"),
    [
        ("hsdp", "process", "requests a process group of all workers"),
        ("lightning_fit", "process", "requests a process group of all workers"),
        ("accelerated", "process", "takes an optimizer step outside of elastic.training()"),
        ("hf_trainer", "process", "takes an optimizer step outside of elastic.training()"),
        ("pipeline", "node", "takes an optimizer step outside of elastic.training()"),
    ],
)
def test_live_recovery_refuses_what_trains_in_a_fixed_world(
    program: str, replica: str, why: str, entrypoint: Entrypoint
) -> None:
    if (package := NEEDS.get(program)) and not importlib.util.find_spec(package):
        pytest.skip(f"{package} is not installed")
    done = entrypoint.run(
        "--recovery=live", f"--replica={replica}", "--backend=gloo", "--nproc-per-node=2", "--",
        str(PROGRAMS / f"{program}.py"),
    )  # fmt: skip
    assert done.returncode == 2, "it is refused before torch or a library misses its variables"
    last = done.stderr.splitlines()[-1]
    assert why in last
    assert "use trainwright_runtime.elastic, or --recovery=restart" in last
    assert "Traceback" not in done.stderr


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
