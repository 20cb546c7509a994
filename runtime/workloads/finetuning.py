"""Fine-tune a language model with the Trainer of transformers: what bert_mrpc and distilgpt2 share.

Downloads go to HF_HOME and results to --output; both belong on a volume. HF_HUB_OFFLINE=1 forbids
downloads (https://huggingface.co/docs/transformers/installation#offline-mode).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import (
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.utils import logging

from trainwright_runtime.huggingface import GracefulStop, last_checkpoint
from trainwright_runtime.metrics import Metrics
from workloads.distributed import left_in_the_end

Item = dict[str, Any]


def parser(
    *, name: str, description: str, model: str, dataset: str, output: str, lr: float
) -> argparse.ArgumentParser:
    """The flags of a fine-tuning; the arguments are their defaults."""
    flags = argparse.ArgumentParser(prog=f"workloads.{name}", description=description)
    source = "on the Hugging Face Hub, or a folder (%(default)s)"
    flags.add_argument("--model", default=model, help=source)
    flags.add_argument("--dataset", default=dataset, help=source)
    flags.add_argument("--output", type=Path, default=Path(output), help="folder (%(default)s)")
    flags.add_argument("--epochs", type=float, default=3)
    flags.add_argument("--batch-size", type=int, default=8, help="of each process")
    flags.add_argument("--lr", type=float, default=lr, help="learning rate")
    flags.add_argument("--weight-decay", type=float, default=0.0)
    flags.add_argument("--seed", type=int, default=0)
    flags.add_argument(
        "--tiny", action="store_true", help="a small random model on Python's own text: no download"
    )
    return flags


def arguments(options: argparse.Namespace) -> TrainingArguments:
    """The Trainer's settings, for the process group of whatever launched this process."""
    cuda = torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(options.output),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=options.batch_size,
        per_device_eval_batch_size=options.batch_size,
        learning_rate=options.lr,
        weight_decay=options.weight_decay,
        seed=options.seed,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=2,
        logging_strategy="epoch",
        report_to="none",
        disable_tqdm=True,
        use_cpu=not cuda,
        bf16=cuda and torch.cuda.is_bf16_supported(),
        ddp_backend=os.environ.get("TRAINWRIGHT_BACKEND"),
        ddp_find_unused_parameters=False,
        dataloader_pin_memory=cuda,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A model and what it is to learn: items as `collate` makes batches of them."""

    tokenizer: PreTrainedTokenizerBase
    model: PreTrainedModel
    train: Sequence[Item]
    test: Sequence[Item]
    collate: Callable[[list[Any]], dict[str, Any]]


def run(
    options: argparse.Namespace,
    prepare: Callable[[], Task],
    *,
    score: Callable[[EvalPrediction], dict[str, float]] | None = None,
    summary: Callable[[Mapping[str, float]], str],
) -> None:
    """Train from the newest checkpoint in the output folder, if any; save the model, evaluate it.

    `summary` makes one line of the Trainer's figures, such as `eval_loss`.
    """
    logging.disable_progress_bar()
    settings = arguments(options)
    # The first process downloads; the others find everything in the cache.
    with settings.main_process_first(local=False):
        task = _prepared(prepare, options)
    # Trainer itself posts the status of a TrainJob.
    own = Metrics.from_environment(rank=settings.process_index, reports_status=False)
    with left_in_the_end(), own as metrics:
        trainer = Trainer(
            model=task.model,
            args=settings,
            train_dataset=task.train,
            eval_dataset=task.test,
            processing_class=task.tokenizer,
            data_collator=task.collate,
            compute_metrics=score,
            callbacks=[GracefulStop(), MetricsCallback(metrics)],
        )
        trainer.train(resume_from_checkpoint=last_checkpoint(options.output))
        trainer.save_model()
        figures = trainer.evaluate()
        if settings.process_index == 0:
            print(summary(figures), flush=True)


def _prepared(prepare: Callable[[], Task], options: argparse.Namespace) -> Task:
    try:
        return prepare()
    except ImportError as error:
        sys.exit(f"error: {error}; pip install 'trainwright-runtime[workloads]'")
    except (OSError, ValueError) as error:  # what transformers and datasets raise
        cause = str(error).partition("\n")[0]
        sys.exit(
            f"error: cannot get {options.model} and {options.dataset}: {cause}; without a network "
            "give folders to --model and --dataset, or try --tiny"
        )


class MetricsCallback(TrainerCallback):
    """Reports to `Metrics` what a Trainer does.

    Trainer fetches the batch before `on_step_begin`, and logs, evaluates and saves in that order
    after `on_step_end`; each of them calls back when it is done.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._began = self._free = time.perf_counter()

    def on_step_begin(self, *_: object, **__: object) -> None:
        self._began = time.perf_counter()

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: object,
    ) -> None:
        now = time.perf_counter()
        self._metrics.step(
            step=state.global_step,
            samples=args.train_batch_size * args.gradient_accumulation_steps,
            seconds=now - self._began,
            data_wait=self._began - self._free,
            world_size=args.world_size,
        )
        self._free = now

    def on_save(self, *_: object, **__: object) -> None:
        now = time.perf_counter()
        self._metrics.checkpoint(stall=now - self._free)
        self._free = now

    def _now_free(self, *_: object, **__: object) -> None:
        self._free = time.perf_counter()

    on_train_begin = on_log = on_evaluate = _now_free
