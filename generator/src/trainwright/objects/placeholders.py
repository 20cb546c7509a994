"""Placeholders in a manifest, for values that a tool or a person fills in before it is applied.

`${NAME}` and `$NAME` are for envsubst and Flux's substitution; `<NAME>`, `V_NAME`, `YOUR_NAME` and
`gs://NAME` for people who edit a file by hand. In the text of a shell script the first two are
variables of the shell.
"""

from __future__ import annotations

import re

PLACEHOLDER = re.compile(
    r"\$\{(?P<braced>[A-Za-z_]\w{0,63})(?::?[-=][^{}]{0,200})?\}"
    r"|\$(?P<bare>[A-Z_][A-Z0-9_]{0,63})"
    r"|<(?P<angled>[A-Za-z][\w .-]{0,63})>"
    r"|\b(?P<prefixed>V_[A-Z0-9_]{1,63})\b"
    r"|\b(?P<yours>YOUR_[A-Z0-9_]{1,63}|[A-Z0-9_]{0,63}PLACEHOLDER)\b"
    # Names of buckets are in small letters.
    r"|(?<=(?:gs|s3)://)(?P<bucket>[A-Z][A-Z0-9_]{0,63})(?![\w.-])"
)


def of_shell(placeholder: str) -> bool:
    """Whether envsubst fills it in."""
    return placeholder.startswith("$")


# Special tokens of tokenizers, which are ordinary values in spite of their angle brackets.
_OF_TOKENIZERS = frozenset("<bos> <cls> <eos> <image> <mask> <pad> <s> <sep> <unk>".split())


def is_unfilled(variable: str) -> bool:
    """Whether the value of a variable is a placeholder: no shell reads it."""
    return PLACEHOLDER.fullmatch(variable) is not None and variable not in _OF_TOKENIZERS
