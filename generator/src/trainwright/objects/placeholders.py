"""What stands in a manifest for a value that a tool or a person fills in before it is applied.

`${NAME}` and `$NAME` are those of envsubst and of Flux's substitution, `<NAME>` and `V_NAME` those
of instructions to edit a file by hand. In a shell's text the first two are variables of the shell.
"""

from __future__ import annotations

import re

PLACEHOLDER = re.compile(
    r"\$\{(?P<braced>[A-Za-z_]\w{0,63})(?::?[-=][^{}]{0,200})?\}"
    r"|\$(?P<bare>[A-Z_][A-Z0-9_]{0,63})"
    r"|<(?P<angled>[A-Za-z][\w .-]{0,63})>"
    r"|\b(?P<prefixed>V_[A-Z0-9_]{1,63})\b"
)


def of_shell(placeholder: str) -> bool:
    """Whether envsubst fills it in."""
    return placeholder.startswith("$")


# What tokenizers have between angles, which is a value like any other.
_OF_TOKENIZERS = frozenset("<bos> <cls> <eos> <image> <mask> <pad> <s> <sep> <unk>".split())


def is_unfilled(variable: str) -> bool:
    """Whether the value of a variable is a placeholder: no shell reads it."""
    return PLACEHOLDER.fullmatch(variable) is not None and variable not in _OF_TOKENIZERS
