"""The command of a RayJob, as one text: what Ray's submitter makes of it is the command again.

KubeRay writes the text into a script of its submitter, which calls `ray job submit` with its words;
Ray joins these by Python's `list2cmdline`, for Windows, and a shell on the head reads the result.
Kubernetes replaces references in the script before.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from trainwright.objects.pods.command import SHELL_SAFE

# What shells do not take as it is, in a line that someone else wrote.
_FOR_SHELLS = re.compile(r"[;&|<>$`(){}*?~#!\n]")
_PART = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)"""
    r"""|(?P<blank>\s+)|(?P<plain>[^\s'"\\]+)""",
    re.DOTALL,
)
_ESCAPED = re.compile(r'\\([$`"\\])')


def text(words: Sequence[str]) -> str:
    """Return the entrypoint by which the program is started with exactly these words."""
    return " ".join(map(_word, words)).replace("$", "$$")


def words(entrypoint: str) -> tuple[str, ...]:
    """Return the words of an entrypoint; what is no plain command is a line of a shell."""
    submitted = _split(entrypoint.replace("$$", "$"))
    started = _split(" ".join(map(_for_windows, submitted))) if submitted else None
    if started and (text(started) == entrypoint or not _FOR_SHELLS.search(entrypoint)):
        return tuple(started)
    return ("/bin/sh", "-c", entrypoint)


def _split(line: str) -> list[str] | None:
    """Return the words of a line as a shell reads them, or None if a quote is not closed.

    `shlex` keeps some backslashes between double quotes that shells take away.
    """
    words: list[str] = []
    at, inside = 0, False
    while at < len(line):
        match = _PART.match(line, at)
        if match is None:
            return None
        at = match.end()
        if match["blank"]:
            inside = False
            continue
        part = match["single"] or match["escaped"] or match["plain"] or ""
        part += _ESCAPED.sub(r"\1", match["double"] or "")
        words = [*words[:-1], words[-1] + part] if inside else [*words, part]
        inside = True
    return words


def _word(word: str) -> str:
    if SHELL_SAFE.fullmatch(word):
        return word
    return shlex.quote(_in_double_quotes(word) if _is_quoted(word) else _apart(word))


def _is_quoted(word: str) -> bool:
    """Whether list2cmdline puts a word into double quotes."""
    return not word or " " in word or "\t" in word


def _for_windows(word: str) -> str:
    """Return a word as list2cmdline writes it."""
    quoted = _is_quoted(word)

    def escaped(match: re.Match[str]) -> str:
        run, quote = match.groups()
        if quote:
            return f'{run}{run}\\"'
        return run * 2 if quoted and match.end() == len(word) else run

    written = re.sub(r'(\\*+)("?)', escaped, word)
    return f'"{written}"' if quoted else written


def _in_double_quotes(word: str) -> str:
    """Return a word that list2cmdline quotes, for between its double quotes.

    It escapes these, and doubles backslashes in front of them and at the end.
    """

    def escaped(match: re.Match[str]) -> str:
        if match[0][0] != "\\":
            return f"\\{match[0]}"
        doubled = word[match.end() : match.end() + 1] in ('"', "")
        return match[0] if doubled else match[0] * 2

    return re.sub(r"\\++|[$`]", escaped, word)


def _apart(word: str) -> str:
    """Return a word that list2cmdline does not quote; it only escapes double quotes."""
    parts = re.findall(r"""["']|[^"']+""", word)
    return "".join(
        part if part == '"' else r"\'" if part == "'" else shlex.quote(part) for part in parts
    )
