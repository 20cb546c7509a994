"""Hugging Face's Trainer with a tiny model, trained by elastic training's loop."""

import os
import time
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from trainwright_runtime.elastic import huggingface

PAUSE = float(os.environ.get("PAUSE", "0"))  # seconds per record, for a test that disturbs it


class Tokens(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 42

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        time.sleep(0 if Path("hurry").exists() else PAUSE)
        tokens = (torch.arange(8) + index) % 17
        return {"input_ids": tokens, "labels": tokens}


set_seed(0)
trainer = Trainer(
    model=GPT2LMHeadModel(
        GPT2Config(
            vocab_size=17, n_positions=8, n_embd=8, n_layer=1, n_head=2,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
    ),
    args=TrainingArguments(
        output_dir="out", num_train_epochs=3, per_device_train_batch_size=4, learning_rate=0.01,
        eval_strategy="epoch", save_strategy="no", logging_steps=5, report_to=[], use_cpu=True,
    ),
    train_dataset=Tokens(),
    eval_dataset=torch.utils.data.Subset(Tokens(), range(2)),
)  # fmt: skip
run = huggingface.train(trainer, batch_size=8)
trainer.save_model()
if trainer.is_world_process_zero():
    print("saved")
assert run.step == 18, run.step
print("trained", f"{sum(float(p.detach().double().sum()) for p in trainer.model.parameters()):.6f}")
