"""BERT fine-tuned to decide whether two sentences mean the same (MRPC, a task of GLUE).

torchrun --nproc-per-node=2 -m workloads.bert_mrpc --tiny --output=/tmp/bert
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

import numpy as np
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from workloads import finetuning, tiny
from workloads.finetuning import Item, Task

# Two sentences, and 1 when they mean the same.
Pair = tuple[str, str, int]


def parser() -> argparse.ArgumentParser:
    """Return a parser of this workload's flags."""
    return finetuning.parser(
        name="bert_mrpc",
        description="Fine-tune BERT on MRPC.",
        model="google-bert/bert-base-uncased",
        dataset="nyu-mll/glue",
        output="/volume/bert-base-uncased",
        lr=5e-5,
    )


def published(model: str, dataset: str) -> Task:
    """Return the published model and task, from the Hub, its cache or folders."""
    from datasets import load_dataset

    pairs = load_dataset(dataset, "mrpc")
    train, test = (
        [(row["sentence1"], row["sentence2"], row["label"]) for row in pairs[split]]
        for split in ("train", "validation")
    )
    network = AutoModelForSequenceClassification.from_pretrained(model, num_labels=2)
    return task(AutoTokenizer.from_pretrained(model), network, train, test)


def small() -> Task:
    """Return a tiny, untrained model and a task for it, without a download."""
    pairs = tiny.pairs()
    tokenizer, network = tiny.bert(tiny.paragraphs())
    train = len(pairs) * 4 // 5
    return task(tokenizer, network, pairs[:train], pairs[train:])


def task(
    tokenizer: PreTrainedTokenizerBase,
    model: PreTrainedModel,
    train: Sequence[Pair],
    test: Sequence[Pair],
) -> Task:
    """Return the task with its pairs as tokens."""

    def items(pairs: Sequence[Pair]) -> list[Item]:
        firsts, seconds, labels = map(list, zip(*pairs, strict=True))
        columns = {**tokenizer(firsts, seconds, truncation=True), "labels": labels}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    return Task(
        tokenizer=tokenizer,
        model=model,
        train=items(train),
        test=items(test),
        collate=DataCollatorWithPadding(tokenizer),
    )


def score(prediction: EvalPrediction) -> dict[str, float]:
    """Return accuracy and F1, the two measures of MRPC in GLUE."""
    predicted = np.argmax(prediction.predictions, axis=-1) == 1
    true = np.equal(prediction.label_ids, 1)
    right = np.sum(predicted & true)
    return {
        "accuracy": float(np.mean(predicted == true)),
        "f1": float(2 * right / max(np.sum(predicted) + np.sum(true), 1)),
    }


def main(argv: Sequence[str] | None = None) -> None:
    options = parser().parse_args(argv)
    finetuning.run(
        options,
        small if options.tiny else partial(published, options.model, options.dataset),
        score=score,
        summary=lambda figures: (
            f"accuracy {figures['eval_accuracy']:.4f}, F1 {figures['eval_f1']:.4f}"
        ),
    )


if __name__ == "__main__":
    main()
