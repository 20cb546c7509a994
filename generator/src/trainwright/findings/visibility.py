"""Text that is safe to show: characters that hide, reorder, command or imitate are spelled out.

https://www.unicode.org/reports/tr36/ and https://trojansource.codes
"""

from __future__ import annotations

import re

# Control, invisible and direction characters, and those that UTF-8 or XML cannot encode. Joiners
# are not among them: Persian and emoji are written with them.
UNSEEN = (
    r"\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"
    r"\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# The runners of GitHub and Azure obey `##[` and `##vso[` anywhere in a line of a log.
# https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
LOG_COMMAND = r"#(?=#(?:vso)?\[)"
_CONTROL = re.compile(rf"[\x00-\x08\x0a-\x1f{UNSEEN}]|{LOG_COMMAND}")
_HIDDEN = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f{UNSEEN}]|\r(?!\n)")  # in a file of lines
# Cyrillic and Greek letters that look like Latin ones.
# https://www.unicode.org/Public/security/latest/confusables.txt
_ALIKE = "аеорсухіјѕԁһԛԝӏАВЕКМНОРСТХІЈЅоαινορυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"  # noqa: RUF001
_LOOKS_LATIN = re.compile(rf"[{_ALIKE}]")
_WORD = re.compile(r"[^\W_]+")


def visible(text: str) -> str:
    """Return text from people's files with all that hides, commands or deceives spelled out.

    A terminal or a log must show what is in a file, never obey it.
    """
    shown = _CONTROL.sub(lambda match: spelled(match.group()), text)
    return shown if shown.isascii() else _WORD.sub(_without_look_alikes, shown)


def _without_look_alikes(match: re.Match[str]) -> str:
    word = match.group()
    return _LOOKS_LATIN.sub(lambda m: spelled(m.group()), word) if _is_mixed(word) else word


def _is_mixed(word: str) -> bool:
    """Whether a word mixes Latin letters with characters that look like Latin letters."""
    return bool(_LOOKS_LATIN.search(word)) and any("a" <= c <= "z" or "A" <= c <= "Z" for c in word)


def spelled(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def hidden(text: str) -> str:
    """Return the first character that is invisible or looks like another one; empty if none."""
    if text.isascii() and text.isprintable():  # as nearly all are
        return ""
    if first := _HIDDEN.search(text):
        return first.group()
    for match in _WORD.finditer(text) if not text.isascii() else ():
        if _is_mixed(match.group()):
            return _LOOKS_LATIN.search(match.group())[0]  # type: ignore[index]
    return ""
