"""Hugging Face's Trainer with a tiny model of its own making."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


class Tokens(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = (torch.arange(8) + index) % 17
        return {"input_ids": tokens, "labels": tokens}


set_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=17, n_positions=8, n_embd=8, n_layer=1, n_head=2))
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="out", max_steps=4, per_device_train_batch_size=4, report_to=[], use_cpu=True,
        save_steps=4, logging_steps=2, disable_tqdm=True,
    ),
    train_dataset=Tokens(),
)  # fmt: skip
trainer.train()
assert trainer.args.world_size == 2, trainer.args.world_size
print("trained", f"{sum(float(p.double().sum()) for p in model.parameters()):.6f}", flush=True)
