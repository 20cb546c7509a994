"""DistilGPT2 fine-tuned to go on with articles (WikiText-2).

torchrun --nproc-per-node=2 -m workloads.distilgpt2 --tiny --output=/tmp/distilgpt2
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from functools import partial
from itertools import chain

from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    default_data_collator,
)

from workloads import finetuning, tiny
from workloads.finetuning import Item, Task

# Tokens that the model reads at once.
BLOCK = 128


def parser() -> argparse.ArgumentParser:
    """Return a parser of this workload's flags."""
    flags = finetuning.parser(
        name="distilgpt2",
        description="Fine-tune DistilGPT2 on WikiText-2.",
        model="distilbert/distilgpt2",
        dataset="Salesforce/wikitext",
        output="/volume/distilgpt2-finetuned-wikitext2",
        lr=2e-5,
    )
    flags.set_defaults(weight_decay=0.01)
    return flags


def published(model: str, dataset: str) -> Task:
    """Return the published model and text, from the Hub, its cache or folders."""
    from datasets import load_dataset

    lines = load_dataset(dataset, "wikitext-2-raw-v1")
    train, test = ([row["text"] for row in lines[split]] for split in ("train", "validation"))
    network = AutoModelForCausalLM.from_pretrained(model)
    return task(AutoTokenizer.from_pretrained(model), network, train, test)


def small() -> Task:
    """Return a tiny, untrained model and a task for it, without a download."""
    lines = tiny.paragraphs()
    tokenizer, network = tiny.gpt2(lines, BLOCK)
    train = len(lines) * 4 // 5
    return task(tokenizer, network, lines[:train], lines[train:])


def task(
    tokenizer: PreTrainedTokenizerBase,
    model: PreTrainedModel,
    train: Sequence[str],
    test: Sequence[str],
) -> Task:
    """Return the task with all lines as one row of tokens, cut into blocks; the rest is dropped."""

    def items(lines: Sequence[str]) -> list[Item]:
        tokens = list(chain.from_iterable(tokenizer(list(lines))["input_ids"]))
        blocks = (tokens[i : i + BLOCK] for i in range(0, len(tokens) - BLOCK + 1, BLOCK))
        # The model itself compares each token with the one before it.
        return [{"input_ids": block, "labels": block} for block in blocks]

    return Task(
        tokenizer=tokenizer,
        model=model,
        train=items(train),
        test=items(test),
        collate=default_data_collator,
    )


def main(argv: Sequence[str] | None = None) -> None:
    options = parser().parse_args(argv)
    finetuning.run(
        options,
        small if options.tiny else partial(published, options.model, options.dataset),
        summary=lambda figures: f"perplexity {math.exp(figures['eval_loss']):.2f}",
    )


if __name__ == "__main__":
    main()
