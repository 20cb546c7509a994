"""The Trainer under a real SIGTERM, and what it goes on from."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from containers import Entrypoint, finish
from preloaded import Script

from trainwright_runtime.elastic import audit
from trainwright_runtime.failures.errors import UsageError

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


# --- with workers that come and go ---------------------------------------------------------------


@pytest.mark.slow
def test_a_trainer_trains_on_when_a_worker_is_killed(entrypoint: Entrypoint) -> None:
    folder = entrypoint.folder / "audit"
    job = entrypoint.start(
        "--recovery=live", "--backend=gloo", "--nproc-per-node=2", "--",
        str(Path(__file__).parent / "programs/hf_trainer_elastic.py"),
        env={**ENVIRONMENT, "TRAINWRIGHT_AUDIT_DIR": str(folder), "PAUSE": "1", "HOSTNAME": "n"},
    )  # fmt: skip
    lives = _together(job, folder, 2)
    os.kill(int(lives["n-0"]), signal.SIGKILL)
    _together(job, folder, 3)
    (entrypoint.folder / "hurry").touch()
    done = finish(job)
    assert done.returncode == 0, done.stderr
    verdict = audit.verify(folder)
    assert (verdict.problems, verdict.epochs, verdict.records) == ([], {"train": 3}, 3 * 42)
    trained = re.findall(r"^\[replica n-\d\] trained (\S+)$", done.stdout, re.MULTILINE)
    assert len(trained) == 2
    assert trained[0] == trained[1]
    assert done.stdout.count("] saved\n") == 1
    assert done.stdout.count("'eval_loss'") == 3
    assert (entrypoint.folder / "out/model.safetensors").exists()


def _together(job: Any, folder: Path, lives: int) -> dict[str, str]:
    """Wait until so many processes were members and two have taken a step together; the process
    of each worker that began last."""
    deadline = time.monotonic() + TIMEOUT
    while job.poll() is None:
        paths = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_ctime)
        shared = [path for path in paths if b'"world":2' in path.read_bytes()]
        if len(shared) >= lives:
            return {path.name[:3]: path.name.split("-")[2] for path in shared}
        assert time.monotonic() < deadline
        time.sleep(0.05)
    raise AssertionError(finish(job).stderr)


def _trainer(output: Path, **arguments: Any) -> Any:
    from transformers import Trainer, TrainingArguments, set_seed

    class Subclass(Trainer):
        def training_step(self, *parts: Any, **options: Any) -> torch.Tensor:
            self.trained = getattr(self, "trained", 0) + 1
            return super().training_step(*parts, **options)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            scores = self.layer(inputs)
            return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}

    set_seed(0)
    samples = [{"inputs": torch.randn(4), "labels": torch.tensor(n % 3)} for n in range(12)]
    given = {"save_strategy": "no", "report_to": [], "use_cpu": True, "learning_rate": 0.1}
    given |= {"num_train_epochs": 4, "per_device_train_batch_size": 12, "logging_steps": 2}
    options = TrainingArguments(str(output), **given | arguments)
    return Subclass(Model(), options, train_dataset=samples)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_trainer_learns_the_same_in_either_loop(tmp_path: Path) -> None:
    from trainwright_runtime.elastic import huggingface

    options = {"weight_decay": 0.1, "max_grad_norm": 0.2}
    own, elastic, in_pieces = (_trainer(tmp_path, **options) for _ in range(3))
    own.train()
    huggingface.train(elastic, batch_size=12)
    in_pieces.args.per_device_train_batch_size = 5
    huggingface.train(in_pieces, batch_size=12)
    for trainer in (elastic, in_pieces):
        torch.testing.assert_close(trainer.model.state_dict(), own.model.state_dict())
        assert trainer.state.global_step == own.state.global_step == 4
    assert [t.trained for t in (own, elastic, in_pieces)] == [4, 4, 4 * 3]
    lines = [
        [(line["step"], line["loss"]) for line in trainer.state.log_history if "loss" in line]
        for trainer in (own, elastic)
    ]
    assert lines[0] == [(step, pytest.approx(loss, rel=1e-3)) for step, loss in lines[1]]


@pytest.mark.slow
def test_what_elastic_training_would_leave_out_of_a_trainer_is_refused(tmp_path: Path) -> None:
    from transformers import EarlyStoppingCallback

    from trainwright_runtime.elastic import huggingface

    trainer = _trainer(
        tmp_path, max_steps=5, save_strategy="steps", num_train_epochs=1.5, torch_compile=False,
        gradient_accumulation_steps=2, dataloader_drop_last=True,
    )  # fmt: skip
    trainer.add_callback(EarlyStoppingCallback())
    type(trainer).get_train_dataloader = lambda self: None
    with pytest.raises(UsageError) as refused:
        huggingface.train(trainer, batch_size=12)
    for part in (
        "max_steps=5", "gradient_accumulation_steps=2", "dataloader_drop_last=True",
        "num_train_epochs=1.5 (whole epochs)", 'save_strategy (set it to "no"',
        "EarlyStoppingCallback", "get_train_dataloader of Subclass (the order",
    ):  # fmt: skip
        assert part in str(refused.value)
    assert "compile" not in str(refused.value)
