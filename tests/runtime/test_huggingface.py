"""The Trainer under a real SIGTERM, and what it goes on from."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
from pathlib import Path

import pytest
from preloaded import Script

# Found and not imported, which takes a second: tests that need it import it.
if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed", allow_module_level=True)

PROGRAM = Path(__file__).with_name("huggingface_program.py")
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
TIMEOUT = 300  # seconds; only against hanging for ever


def start(output: Path, log: Path, pause: float = 0) -> Script:
    arguments = [str(output), str(pause)]
    return Script(PROGRAM, arguments, cwd=log.parent, env={**os.environ, **ENVIRONMENT}, log=log)


def losses(lines: str) -> list[str]:
    return [line for line in lines.splitlines() if line.startswith("step ")]


@pytest.mark.long
@pytest.mark.slow
def test_sigterm_saves_and_the_run_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    whole = start(tmp_path / "whole", tmp_path / "whole.log")
    stopped = start(tmp_path / "stopped", tmp_path / "stopped.log", pause=0.05)
    stopped.wait_for("step 13 ", TIMEOUT)
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait(TIMEOUT) == 143, stopped.printed()
    assert "done" not in stopped.printed()
    last = len(losses(stopped.printed()))
    assert 13 <= last < 30
    assert (tmp_path / "stopped" / f"checkpoint-{last}" / "trainer_state.json").exists()

    resumed = start(tmp_path / "stopped", tmp_path / "resumed.log")
    assert resumed.wait(TIMEOUT) == 0, resumed.printed()
    assert whole.wait(TIMEOUT) == 0, whole.printed()
    assert len(losses(whole.printed())) == 30
    assert losses(stopped.printed() + resumed.printed()) == losses(whole.printed())
    _only_whole_ones_are_taken(tmp_path / "stopped")


def _only_whole_ones_are_taken(output: Path) -> None:
    from trainwright_runtime.huggingface import last_checkpoint

    newest, before = (
        str(output / f"checkpoint-{step}")
        for step in sorted(int(p.name.split("-")[1]) for p in output.glob("checkpoint-*"))[:-3:-1]
    )
    assert last_checkpoint(output) == newest
    files = [path for path in Path(newest).iterdir() if path.suffix != ".json"]
    assert {path.name for path in files} >= {"model.safetensors", "optimizer.pt", "scheduler.pt"}
    for path in [*files, Path(newest) / "trainer_state.json"]:
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
        assert last_checkpoint(output) == before, f"{path.name} is cut in half"
        path.write_bytes(content)
    assert last_checkpoint(output) == newest
    (Path(newest) / "trainer_state.json").unlink()
    assert last_checkpoint(output) == before


def test_no_whole_checkpoint_means_from_the_beginning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from trainwright_runtime.huggingface import last_checkpoint

    assert last_checkpoint(tmp_path / "absent") is None
    (tmp_path / "checkpoint-5").mkdir()
    (tmp_path / "checkpoint-6").mkdir()
    (tmp_path / "checkpoint-6" / "trainer_state.json").write_text("{}")
    (tmp_path / "checkpoint-tmp").mkdir()
    with caplog.at_level(logging.WARNING):
        assert last_checkpoint(tmp_path) is None
    assert "checkpoint-6: it holds no weights" in caplog.text
    assert "checkpoint-5: trainer_state.json is missing" in caplog.text
