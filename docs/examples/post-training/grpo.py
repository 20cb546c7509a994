"""A language model of letters that learns by TRL's GRPO what a judge likes, on every rank alike."""

from __future__ import annotations

import json
import string
import urllib.request
from dataclasses import dataclass  # noqa: TID251 - what TRL reads options by
from typing import Any

from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig, GRPOTrainer, TrlParser

WORDS = ("<pad>", "<eos>", *string.ascii_lowercase)


@dataclass
class Judged:
    """What is added to the options of TRL."""

    judge: str


def tokenizer() -> PreTrainedTokenizerFast:
    """Each letter is a word."""
    numbers = {word: number for number, word in enumerate(WORDS)}
    letters = Tokenizer(models.WordLevel(numbers, unk_token="<pad>"))  # noqa: S106 - a word
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    letters.decoder = decoders.Fuse()
    special = {"pad_token": "<pad>", "eos_token": "<eos>"}
    return PreTrainedTokenizerFast(tokenizer_object=letters, **special)


def policy() -> LlamaForCausalLM:
    """A model that has learned nothing yet."""
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    ends = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(WORDS), **size, **heads, **ends))


def main() -> None:
    """Train, and print how the reward rose."""
    own, training = TrlParser((Judged, GRPOConfig)).parse_args_and_config()
    set_seed(training.seed)

    def score(completions: list[str], **_: Any) -> list[float]:
        body = json.dumps([text or " " for text in completions]).encode()
        with urllib.request.urlopen(f"{own.judge}/score", body, timeout=60) as answer:  # noqa: S310
            scores: list[float] = json.load(answer)
        return scores

    trainer = GRPOTrainer(
        model=policy(),
        processing_class=tokenizer(),
        args=training,
        reward_funcs=score,
        train_dataset=Dataset.from_dict({"prompt": [*"abcd"] * 16}),
    )
    trainer.train()
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    if trainer.accelerator.is_main_process:
        ranks = trainer.accelerator.num_processes
        print(f"reward {rewards[0]:.2f} to {rewards[-1]:.2f}, {ranks} ranks", flush=True)


if __name__ == "__main__":
    main()
