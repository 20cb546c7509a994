"""Commands as people paste them: behind prompts, between what they printed, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

# "$ ", "> ", and what shells print in front of them: "(venv) ", "me@host:~/code", "[me@host ~]".
_PROMPT = re.compile(
    r"[ \t]*(?:\([\w.-]+\)[ \t]+)?(?:\[[^\]\n]{1,99}\]|[\w.-]+@[\w.-]+(?::\S{0,99})?)?"
    r"(?:[$%]|>(?!>))[ \t]+"
)
_FENCE = re.compile(r"[ \t>]*(?P<marks>`{3,}|~{3,})[ \t]*(?P<language>[\w+-]*)")
_OF_SHELLS = frozenset({"", "bash", "sh", "shell", "console", "zsh", "shell-session", "terminal"})


def commands_of(text: str) -> str:
    """Return a text with blanks in place of all that is no command: positions stay as they are."""
    lines = text.split("\n")
    if any(map(_FENCE.match, lines)):
        lines = list(_inside_fences(lines))
    first = next(filter(str.strip, lines), "")
    return "\n".join(_behind_prompts(lines) if _PROMPT.match(first) else lines)


def _inside_fences(lines: list[str]) -> Iterator[str]:
    """Yield the lines of code blocks for a shell, and an empty one for each other line."""
    fence = language = ""
    for line in lines:
        mark = _FENCE.match(line)
        if mark and not fence:
            fence, language = mark["marks"], mark["language"].lower()
        elif mark and mark["marks"].startswith(fence) and not mark["language"]:
            fence = ""
        elif fence and language in _OF_SHELLS:
            yield line
            continue
        yield ""


def _behind_prompts(lines: list[str]) -> Iterator[str]:
    """Yield the lines that are typed behind a prompt, and an empty one for each that is printed."""
    continues = False
    for line in lines:
        prompt = _PROMPT.match(line)
        typed = f"{' ' * prompt.end()}{line[prompt.end() :]}" if prompt else line
        kept = typed if prompt or continues else ""
        continues = kept.rstrip().endswith("\\")
        yield kept
