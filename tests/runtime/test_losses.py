"""Numeric goldens: the losses of a fixed seed, in one and two processes, and after a SIGTERM."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path

import pytest
from preloaded import Script

from trainwright_runtime.launch.machine import free_port

# Found and not imported, which takes a second: the programs import it.
if importlib.util.find_spec("sklearn") is None:
    pytest.skip("scikit-learn is not installed", allow_module_level=True)

LOSSES = Path(__file__).with_name("losses")
TIMEOUT = 300  # seconds; only against hanging for ever
STEPS = 60

# Kernels differ with the vector width of the processor and the build of torch, in the last bits
# of each sum; 60 steps of training multiply that. Seen between torch's AVX2 and its scalar kernels
# (ATEN_CPU_CAPABILITY=default): 3e-7 of the loss. A wrong seed, order, learning rate, reduction or
# number of processes changes the second digit.
TOLERANCE = 1e-4


def start(folder: Path, world: int, *arguments: object, **environment: str) -> list[Script]:
    """The ranks of one run, as the entrypoint would start them but for their imports."""
    folder.mkdir()
    common = {**os.environ, **environment}
    if world > 1:
        common |= {
            "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
        }
    return [
        Script(
            LOSSES / "digits.py",
            [*map(str, arguments)],
            cwd=folder,
            env=common | ({"RANK": str(rank)} if world > 1 else {}),
            log=folder / f"{rank}.log",
        )
        for rank in range(world)
    ]


def finish(ranks: list[Script], code: int = 0) -> dict[int, float]:
    """What rank 0 has reported, once all ranks have ended with this code."""
    try:
        codes = [rank.wait(TIMEOUT) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert codes == [code] * len(ranks), ranks[0].printed()
    return losses(ranks[0].printed())


def losses(text: str) -> dict[int, float]:
    lines = (line.split() for line in text.splitlines() if line.startswith("step "))
    return {int(step): float(loss) for _, step, loss in lines}


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 2])
def test_the_losses_of_a_fixed_seed_are_what_they_were(
    world: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    found = finish(start(tmp_path / "run", world, STEPS))
    golden = LOSSES / f"digits-{world}.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text("".join(f"step {step} {loss!r}\n" for step, loss in found.items()))
    expected = losses(golden.read_text())
    assert found == pytest.approx(expected, rel=TOLERANCE)
    assert expected[STEPS] < expected[1] / 5, "it has learned something"


def test_two_processes_train_what_one_does() -> None:
    """The same global batch, so the same losses, but for the order in which floats are added."""
    one, two = (losses((LOSSES / f"digits-{world}.txt").read_text()) for world in (1, 2))
    assert one == pytest.approx(two, rel=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 2])
def test_a_run_that_was_stopped_goes_on_with_the_very_same_losses(
    world: int, tmp_path: Path
) -> None:
    """With dropout, so that random numbers matter too; to the last bit, on one machine."""
    undisturbed = finish(start(tmp_path / "undisturbed", world, STEPS, 0.3))
    saving = {
        "TRAINWRIGHT_CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "TRAINWRIGHT_CHECKPOINT_EVERY": "7",
    }
    ranks = start(tmp_path / "stopped", world, STEPS, 0.3, 18, **saving)
    ranks[0].wait_for("step 17 ", TIMEOUT)
    ranks[-1].send_signal(signal.SIGTERM)
    (tmp_path / "stopped/go-on").touch()
    stopped = finish(ranks, 143)
    assert 17 <= max(stopped) < STEPS
    resumed = finish(start(tmp_path / "resumed", world, STEPS, 0.3, **saving))
    assert min(resumed) == max(stopped) + 1
    assert stopped | resumed == undisturbed
