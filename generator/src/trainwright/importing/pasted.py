"""Commands as people paste them: behind prompts, between what they printed, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

# "$ ", "> ", what shells print in front of them ("(venv) ", "me@host:~/code", "[me@host ~]",
# "PS C:\\code"), and the "!" of a notebook.
_PROMPT = re.compile(
    r"\A[ \t]*(?:\([\w.-]+\)[ \t]+)?"
    r"(?:\[[^\]\n]{1,99}\]|[\w.-]+@[\w.-]+(?::\S{0,99})?|(?:PS )?[A-Za-z]:\\[^>\n]{0,99})?"
    r"(?:(?:[$%]|>(?!>))[ \t]+|!(?=\w))"
)
_FENCE = re.compile(r"\A[ \t>]*(?P<marks>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)")
_OF_SHELLS = frozenset({"", "bash", "sh", "shell", "console", "zsh", "shell-session", "terminal"})


def commands_of(text: str) -> str:
    """Return a text with blanks in place of all that is no command: positions stay as they are."""
    lines = text.split("\n")
    fences = [(at, mark) for at, line in enumerate(lines) if (mark := _FENCE.match(line))]
    if not fences:
        return "\n".join(_typed(lines))
    kept = [""] * len(lines)
    for start, end in _blocks(fences, len(lines)):
        kept[start:end] = _typed(lines[start:end])
    return "\n".join(kept)


def _blocks(fences: list[tuple[int, re.Match[str]]], end: int) -> Iterator[tuple[int, int]]:
    """Yield the lines of each block of code for a shell, as its first and the one behind it."""
    opened: tuple[int, re.Match[str]] | None = None
    for at, mark in (*fences, (end, None)):
        if opened is None:
            opened = (at, mark) if mark else None
        elif mark is None or (mark["marks"].startswith(opened[1]["marks"]) and not mark[2]):
            if opened[1]["language"].lower() in _OF_SHELLS:
                yield opened[0] + 1, at
            opened = None


def _typed(lines: list[str]) -> list[str]:
    """Return lines without what a terminal printed, if there is a prompt in front of the first."""
    first = next(filter(str.strip, lines), "")
    return [*_behind_prompts(lines)] if _PROMPT.match(first) else lines


def _behind_prompts(lines: list[str]) -> Iterator[str]:
    """Yield the lines that are typed behind a prompt, and an empty one for each that is printed."""
    continues = False
    for line in lines:
        prompt = _PROMPT.match(line)
        typed = f"{' ' * prompt.end()}{line[prompt.end() :]}" if prompt else line
        kept = typed if prompt or continues else ""
        continues = kept.rstrip().endswith("\\")
        yield kept
