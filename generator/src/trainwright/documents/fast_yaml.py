"""A fast reader for unambiguous YAML documents, some ten times faster than libyaml.

yaml-rs is a strict reader of YAML 1.2 that builds data without positions. Text that YAML 1.1, the
Go library or libyaml could read differently is left to the careful reader: this module only reads
what both agree on, which tests check with mutated documents.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from trainwright.datatypes.data import Data
from trainwright.documents import yamlio
from trainwright.documents.dialect import number

_loads: Any
try:
    from yaml_rs import loads as _loads
except ImportError:  # no wheel for this platform: everything is read carefully
    _loads = None

# The characters of plain ASCII text. Readers disagree on tabs, carriage returns and Unicode's line
# separators.
_USUAL = bytes([0x0A, *range(0x20, 0x7F)])
_UNUSUAL = re.compile("[^\n -~\u00a1-\u167f\u1681-\u1fff\u2070-\ud7ff\uf900-\ufefe\uff00-\uffef]")
_MOST_BRACKETS = 400  # no deeper nesting than libyaml and our limit allow
_DEEP = " " * 60

_BOOLEAN = "[yY](?:[eE][sS])?|[nN][oO]?|[oO](?:[nN]|[fF]{2})"  # of YAML 1.1 alone, and then some
_NOT_KEYS = f"{_BOOLEAN}|[tT][rR][uU][eE]|[fF][aA][lL][sS][eE]|[nN][uU][lL][lL]|~"
_END = r"(?=[ ]{0,60}(?:$|[,\]}#]|:(?:[ ]|$)))"
# Numbers that every reader takes for the same one, and texts with several dots.
_SURE = rf"(?:-?(?:0|[1-9][0-9]{{0,17}})(?:\.[0-9]*[1-9])?|[0-9]+(?:\.[0-9]+){{2,}}){_END}"
_TOKENS = rf"""
      (?: [&*!%@`][^ ] | <<{_END} | \?                #   anchors, tags, merge and complex keys
        | (?:{_BOOLEAN}){_END}
        | (?!{_SURE})[-+._]*[0-9][0-9a-fA-F_xXoO.+-]*{_END}  #   numbers
        | [-+]?\.(?:inf|Inf|INF|nan|NaN|NAN){_END}
        | (?:-?[0-9][0-9.]*|{_NOT_KEYS})?[ ]*:(?:[ ]|$) #   keys other than strings
      )
    | -[ ]-[ ]-                                       # lists in lists in lists
    | ^(?:---|\.\.\.|%)                               # ends of documents, directives
"""
_DOUBT = re.compile(rf"(?:^|[:-][ ])[ ]{{0,60}}{_TOKENS}", re.VERBOSE)
_OPENS = re.compile(r"(?:^|[:-] ) *[\[{]")
_DOUBT_IN_BRACKETS = re.compile(
    rf"""
    (?:^|[:-][ ]|[\[{{,]|["']:)[ ]{{0,60}}{_TOKENS}
    | [|>][-+0-9]*[ ]*[,\]}}:]                         # where libyaml allows no block scalar
    | [\[{{,][ ]*: | :[,\]}}]                          # keys or values that are not there
    | [\]}}][ ]*:                                     # lists and mappings as keys
    """,
    re.VERBOSE,
)
_HEADER = re.compile(r"[|>][-+0-9]*[ ]*(?:#|$)")


def read(raw: bytes) -> tuple[Data] | None:
    """Return the data of one document, or None if only the slower parser, `yamlio`, can decide."""
    try:
        text = raw.decode()
        if text.lstrip(" \n").startswith("{"):
            return _json(text)
        if _loads is None or not _certain(raw, text):
            return None
        return (_loads(text, parse_datetime=False),)
    except (ValueError, RecursionError):  # the careful reader knows where it is wrong
        return None


def rendered(text: str) -> list[dict[str, Data]]:
    """Return the objects of a file that Helm rendered: mostly a single one, read fast."""
    single = read(text.encode())
    if single and isinstance(single[0], dict):
        return [single[0]]
    return yamlio.load_rendered(text)


def _json(text: str) -> tuple[Data] | None:
    """Return JSON data; parsers differ in duplicate keys and broken escapes only."""
    if "\\ud" in text.lower():
        return None
    return (json.loads(text, object_pairs_hook=_unique, parse_float=number, parse_constant=_no),)


def _unique(pairs: list[tuple[str, Data]]) -> dict[str, Data]:
    """Return entries as a mapping. Raise ValueError if two have the same key."""
    data = dict(pairs)
    if len(data) != len(pairs):
        raise ValueError("a key is here twice")
    return data


def _no(constant: str) -> Data:
    raise ValueError(f"{constant} is not JSON")


def _certain(raw: bytes, text: str) -> bool:
    if raw.translate(None, _USUAL) and (text.isascii() or _UNUSUAL.search(text)):
        return False
    if raw.count(b"[") + raw.count(b"{") > _MOST_BRACKETS or _DEEP in text:
        return False
    lines = text.split("\n")
    return all(map(_sure, lines)) and not _open_end(text, lines)


# Most lines match this at once: a key or a dash, and a word that can only be a string.
_SIMPLE = re.compile(
    rf"""
    [ ]* (?:-[ ])?
    (?: (?!(?:{_NOT_KEYS}):) [A-Za-z][A-Za-z0-9_./-]* : (?:[ ](?!$)|$) )?
    (?: "[^"\\]*" | '[^']*' | {_SURE}
      | [1-9][0-9]*(?:[KMGTP]i|[kMGTPmsh])
      | (?!(?:{_BOOLEAN})$) (?:--?)?[A-Za-z/][A-Za-z0-9_./=+-]*(?::[A-Za-z0-9_./=+-]+)*
    )?
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=100_000)  # manifests are made of the same lines again and again
def _sure(line: str) -> bool:
    """Whether a line can be read in one way only, whatever its context.

    Text in brackets has rules of its own, and must end on the line where it begins.
    """
    if _SIMPLE.fullmatch(line) or line.lstrip().startswith("#"):
        return True
    if not _OPENS.search(line):
        return not _DOUBT.search(line)
    closed = line.count("[") + line.count("{") == line.count("]") + line.count("}")
    return closed and not _DOUBT_IN_BRACKETS.search(line)


def _open_end(text: str, lines: list[str]) -> bool:
    """Whether a block scalar ends with the text: readers differ about its last line break."""
    if not text.endswith("\n") and ("|" in text or ">" in text):
        return True
    lines_back = (
        line for line in reversed(lines) if line.strip() and not line.lstrip().startswith("#")
    )
    return _HEADER.search(next(lines_back, "")) is not None
