"""Train a tiny GPT-2, made at random, with the Trainer: huggingface_program.py OUTPUT [SECONDS]

Prints "step N loss" after each step, which takes at least SECONDS.
"""

from __future__ import annotations

import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

from trainwright_runtime.huggingface import GracefulStop, last_checkpoint

STEPS = 30


class Report(TrainerCallback):
    def __init__(self, pause: float) -> None:
        self.pause = pause

    def on_step_begin(self, *_: object, **__: object) -> None:
        time.sleep(self.pause)

    def on_log(self, _arguments, state, _control, logs, **_: object) -> None:
        if "loss" in logs:
            print(f"step {state.global_step} {logs['loss']!r}", flush=True)


def main(output: str, pause: str = "0") -> None:
    torch.set_num_threads(1)
    arguments = TrainingArguments(
        output_dir=output,
        max_steps=STEPS,
        per_device_train_batch_size=4,
        logging_steps=1,
        save_steps=10,
        save_total_limit=2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=3,
    )
    torch.manual_seed(0)
    words = torch.randint(64, (40, 12))  # three epochs in 30 steps
    sizes = {"vocab_size": 64, "n_positions": 12, "n_embd": 16, "n_layer": 1, "n_head": 2}
    trainer = Trainer(
        model=GPT2LMHeadModel(GPT2Config(**sizes)),  # with dropout, so that random numbers matter
        args=arguments,
        train_dataset=[{"input_ids": line, "labels": line} for line in words],
        callbacks=[GracefulStop(), Report(float(pause))],
    )
    trainer.train(resume_from_checkpoint=last_checkpoint(output))
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
