"""Text and models small enough for a test, without any download.

The text is Python's own reference, which is part of every Python.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import BertProcessing
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

_BERT_TOKENS = {
    "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
}  # fmt: skip
_GPT2_TOKEN = "<|endoftext|>"  # noqa: S105 - it is no password


def paragraphs() -> list[str]:
    """Return about a thousand paragraphs of prose, each on one line."""
    from pydoc_data.topics import topics

    blocks = (" ".join(b.split()) for topic in sorted(topics) for b in topics[topic].split("\n\n"))
    return [block for block in blocks if block[:1].isupper() and block.endswith(".")]


def pairs(seed: int = 0) -> list[tuple[str, str, int]]:
    """Return pairs of sentences, with 1 if the second affirms the first and 0 if it denies it."""
    mixed = random.Random(seed)  # noqa: S311 - no secret
    short = [s for p in paragraphs() for s in p.split(". ") if 4 <= len(s.split()) <= 12]
    labels = [mixed.randrange(2) for _ in short]
    openings = ("it is wrong that", "it is right that")
    return [(s, f"{openings[label]} {s}", label) for s, label in zip(short, labels, strict=True)]


def bert(text: Iterable[str]) -> tuple[PreTrainedTokenizerFast, BertForSequenceClassification]:
    """A tokenizer made from the text, and a model of 0.1 million weights drawn at random."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=_BERT_TOKENS["unk_token"]))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = list(_BERT_TOKENS.values())
    tokenizer.train_from_iterator(
        text,
        trainers.WordPieceTrainer(vocab_size=1000, special_tokens=special, show_progress=False),
    )
    # Special tokens come first in a vocabulary, in the order given.
    ends = {token: number for number, token in enumerate(special)}
    sep, cls = _BERT_TOKENS["sep_token"], _BERT_TOKENS["cls_token"]
    tokenizer.post_processor = BertProcessing((sep, ends[sep]), (cls, ends[cls]))
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=128,
    )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=128,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **_BERT_TOKENS,
    )
    return wrapped, BertForSequenceClassification(config)


def gpt2(text: Iterable[str], block: int) -> tuple[PreTrainedTokenizerFast, GPT2LMHeadModel]:
    """A tokenizer made from the text, and a model of 0.2 million weights drawn at random."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        text,
        trainers.BpeTrainer(
            vocab_size=1000,
            special_tokens=[_GPT2_TOKEN],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    end = tokenizer.token_to_id(_GPT2_TOKEN)
    config = GPT2Config(
        vocab_size=tokenizer.get_vocab_size(),
        n_positions=block,
        n_embd=64,
        n_layer=2,
        n_head=2,
        bos_token_id=end,
        eos_token_id=end,
    )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=_GPT2_TOKEN,
        eos_token=_GPT2_TOKEN,
        unk_token=_GPT2_TOKEN,
    )
    return wrapped, GPT2LMHeadModel(config)
