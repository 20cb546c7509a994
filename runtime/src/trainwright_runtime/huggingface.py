"""A Hugging Face Trainer that survives SIGTERM: it saves, exits for a retry, and resumes there.

trainer = Trainer(..., callbacks=[GracefulStop()])
trainer.train(resume_from_checkpoint=last_checkpoint(arguments.output_dir))
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import zipfile
from pathlib import Path

from safetensors import SafetensorError, safe_open
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from trainwright_runtime.checkpoint import STOPPED, StopSignal
from trainwright_runtime.checkpoint.directory import in_words, sync_tree

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")  # transformers.trainer_utils.PREFIX_CHECKPOINT_DIR
_LAST_WRITTEN = "trainer_state.json"  # by Trainer._save_checkpoint, before it removes older ones

_log = logging.getLogger(__name__)


class GracefulStop(TrainerCallback):
    """On SIGTERM the Trainer finishes its step, saves, and the process exits 143.

    All ranks stop at the same step; with `every` above 1 they agree only at every `every`-th step.
    Checkpoints are also synced to the disk, which the Trainer leaves to the kernel.
    """

    def __init__(self, *, every: int = 1) -> None:
        self._every = every
        self._stop: StopSignal | None = None
        self._stopping = False

    def on_train_begin(self, *_arguments: object, **_options: object) -> None:
        self._stop = StopSignal(every=self._every)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        if self._stop is not None and self._stop.agreed():
            self._stopping = True
            control.should_save = control.should_training_stop = True

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        if args.should_save and args.output_dir:
            sync_tree(Path(args.output_dir) / f"checkpoint-{state.global_step}")

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: object,
    ) -> None:
        if self._stop is not None:
            self._stop.close()
            self._stop = None
        if self._stopping:
            _log.info("stopped by SIGTERM after saving step %d", state.global_step)
            sys.exit(STOPPED)


def last_checkpoint(output_dir: str | os.PathLike[str]) -> str | None:
    """Return a Trainer's newest complete checkpoint, for `resume_from_checkpoint`, or None.

    `transformers.trainer_utils.get_last_checkpoint` takes the newest folder, which a Trainer that
    was killed may have left half written.
    """
    folder = Path(output_dir)
    by_step = {
        int(match[1]): path
        for path in (folder.iterdir() if folder.is_dir() else ())
        if (match := _CHECKPOINT.fullmatch(path.name))
    }
    for _step, path in sorted(by_step.items(), reverse=True):
        problem = _defect(path)
        if problem is None:
            return str(path)
        _log.warning("%s: %s: passing over this checkpoint for the one before", path, problem)
    return None


def _defect(checkpoint: Path) -> str | None:
    """Return in words what is wrong with a checkpoint, or None; the Trainer keeps no digests."""
    return in_words(lambda: _check(checkpoint))


def _check(checkpoint: Path) -> None:
    """Raise ValueError or OSError if a file of a checkpoint is missing or damaged."""
    for path in (checkpoint / _LAST_WRITTEN, *checkpoint.glob("*.index.json")):
        try:
            listed = json.loads(path.read_bytes()).get("weight_map", {})
        except ValueError as error:
            raise ValueError(f"{path.name} is damaged") from error
        for name in sorted(set(listed.values())):
            (checkpoint / name).stat()
    files = sorted(path for path in checkpoint.rglob("*") if path.suffix in _WHOLE)
    if not files:
        raise ValueError("it holds no weights")
    for path in files:
        if not _WHOLE[path.suffix](path):
            raise ValueError(f"{path.name} is damaged")


def _safetensors_whole(path: Path) -> bool:
    try:
        with safe_open(path, framework="pt"):  # holds the header against the size of the file
            return True
    except SafetensorError:
        return False


def _archive_whole(path: Path) -> bool:
    """Whether a file of torch.save is intact: a zip archive, with a checksum of each part."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except zipfile.BadZipFile:
        return False


_WHOLE = {
    ".safetensors": _safetensors_whole,
    ".bin": _archive_whole,
    ".pt": _archive_whole,
    ".pth": _archive_whole,
}
