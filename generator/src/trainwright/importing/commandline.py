"""Command lines from scripts and from what people paste, as words."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.importing.programs import unwrapped
from trainwright.importing.source import Source
from trainwright.kinds.reading import ImportingError, Loss, NotImported, shown

_SHELL = re.compile(r"\$(?:\{|\(|[A-Za-z_])|`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One command as words, the place where it begins, and what of it is left out of them."""

    words: tuple[str, ...]
    place: Location
    left: tuple[NotImported, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReader:
    """A command that starts training: its first words, and the function that reads the line."""

    begins: tuple[str, ...]
    read: Callable[[Line], Source]


def lines(file: str, text: str) -> Iterator[Line]:
    """Yield the commands of a text, without comments, redirections and here-documents.

    Raise ImportingError where a quote is not closed.
    """
    breaks = [match.start() for match in re.finditer("\n", text)]

    def placed(at: int) -> Location:
        row = bisect_left(breaks, at)
        return Location(file, row + 1, at - (breaks[row - 1] if row else -1))

    words: list[str] = []
    redirected: list[str] = []
    documents: list[str] = []  # the words that end the here-documents of this line
    place = Location(file, 1)
    at, sign = 0, ""
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ImportingError(
                f"{placed(at)}: {text[at]} is not closed, and nothing behind it is read: close it"
            )
        kind, written = str(token.lastgroup), token.group()
        if kind == "word" and sign:
            (documents if sign in _HERE else redirected).append(_unquoted(written))
            sign = ""
        elif kind == "word":
            place = place if words else placed(at)
            words.append(_unquoted(written))
        elif kind == "redirect":
            sign = "" if written[-1].isdigit() else written.lstrip("0123456789")
        at = token.end()
        if kind == "end":
            yield from _line(words, redirected, place)
            words, redirected, sign = [], [], ""
        if written == "\n":
            for document in documents:
                at = _behind(document, text, at)
            documents = []
    yield from _line(words, redirected, place)


_TOKEN = re.compile(
    r"""
    (?P<blank>(?:[ \t\r]|\\[ \t]*\n)++)
    | (?P<comment>\#[^\n]*)
    | (?P<redirect>(?:[0-9]*+|&)
        (?:>>|>\||<<-|<<<|<<|>|<(?![A-Za-z](?:[^<>\n]*[^<>\s])?>))(?:&[0-9]*)?)
    | (?P<end>\n|&&|\|\||[;&|()])
    | (?P<word>(?:
        \\. | '[^']*' | "(?:\\.|[^"\\])*" | `[^`]*`
        | \$\((?:[^()]|\([^()]*\))*\)
        | <[A-Za-z](?:[^<>\n]*[^<>\s])?>
        | [^\s;&|()<>'"`\\]
      )++)
    """,
    re.VERBOSE | re.DOTALL,
)
_HERE = ("<<", "<<-")


def _behind(document: str, text: str, at: int) -> int:
    """Return where the line that ends a here-document ends, or the text if none does."""
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        if text[at:end].strip("\t\r") == document:
            return end
        at = end + 1
    return at


_OF_CLIENT = "a container has it by -e alone: write it under env if the program reads it"
LOGGED = "the log of the container has what it prints"
_PIECE = re.compile(r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)""", re.DOTALL)
_ESCAPED = re.compile(r"\\([\"\\$`\n])")


def _unquoted(word: str) -> str:
    def plain(piece: re.Match[str]) -> str:
        single, double, escaped = piece.groups()
        if double is not None:
            return _ESCAPED.sub(lambda match: match[1].strip("\n"), double)
        return str((single if escaped is None else escaped.strip("\n")) or "")

    return _PIECE.sub(plain, word)


def _line(words: Sequence[str], redirected: Sequence[str], place: Location) -> Iterator[Line]:
    """Yield a command without the programs in front of it, which are left."""
    if not words:
        return
    inner = unwrapped(tuple(words))
    files = (file for file in redirected if file != "/dev/null")
    left = [NotImported(">", place, shown("", file), LOGGED, Loss.COSMETIC) for file in files]
    for name, value in inner.variables.items():
        left.append(NotImported(name, place, shown(name, value), _OF_CLIENT))
    given = inner.words or tuple(words)  # variables alone
    yield Line(words=given, place=place, left=(*inner.left(place), *left))


def taken_literally(line: Line, words: tuple[str, ...]) -> Iterator[NotImported]:
    """Yield a loss for each word that a shell would have expanded: here none has."""
    for word in words:
        if _SHELL.search(word):
            why = "no shell has replaced what begins with $: it is taken as it is written"
            yield NotImported(shown("", word), line.place, "", why, Loss.CANNOT_RUN)


def call(names: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that maps a pointer to the option that wrote it or its nearest parent."""

    def called(pointer: str) -> str:
        inside = pointer
        while inside and inside not in names:
            inside = inside.rpartition("/")[0]
        below = (name for path, name in names.items() if path.startswith(f"{pointer}/"))
        return names.get(inside) or next(below, pointer)

    return called
