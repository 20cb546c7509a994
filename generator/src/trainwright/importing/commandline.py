"""Command lines from scripts, parsed with click, which tells options from other words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping

import click

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.importing.source import Source
from trainwright.kinds.reading import ImportingError, Loss, NotImported, shown

_PROMPT = re.compile(r"^\s*(?:[$>]\s+)?(?:sudo\s+)?")
_WORDS = "words"
_CONTINUED = re.compile(r"\\[ \t]*\n")
_SHELL = re.compile(r"\$(?:\{|\(|[A-Za-z_])|`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One command as words, and the place where it begins."""

    words: tuple[str, ...]
    place: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReader:
    """A command that starts training: its first words, and the function that reads the line."""

    begins: tuple[str, ...]
    read: Callable[[Line], Source]


def lines(file: str, text: str) -> Iterator[Line]:
    """Yield the commands of a text: one per line, or per lines joined by a final backslash.

    Prompts, `sudo` and comments are left out. Raise ImportingError if quotes do not match.
    """
    joined = _CONTINUED.sub(lambda match: f"{' ' * (len(match.group()) - 1)}\0", text)
    above = 1
    for line in _quotes_closed(joined.split("\n")):
        plain = _PROMPT.sub("", line.replace("\0", " "))
        indent = len(line) - len(plain)
        try:
            words = tuple(shlex.split(plain, comments=True))
        except ValueError as error:
            raise ImportingError(f"{file}:{above}: {error}".lower()) from error
        if words:
            yield Line(words=words, place=Location(file, above, indent + 1))
        above += 1 + line.count("\0") + line.count("\n")


def _quotes_closed(written: list[str]) -> Iterator[str]:
    """Yield lines; those between which a quote is open as one."""
    waiting: list[str] = []
    quote = ""
    for line in written:
        waiting.append(line)
        quote = _open_quote(line, quote)
        if not quote:
            yield "\n".join(waiting)
            waiting = []
    if waiting:
        yield "\n".join(waiting)


_OPENS = re.compile(r"\\.|(?P<comment>(?:^|(?<=\s))#)|(?P<quote>['\"])", re.DOTALL)
_ESCAPED_OR_CLOSED = re.compile(r'\\.|"', re.DOTALL)


def _open_quote(line: str, quote: str) -> str:
    """Return the quote that is open at the end of a line, if one is; `quote` is open before it."""
    at = 0
    while True:
        if quote:
            closed = _closed(line, quote, at)
            if closed < 0:
                return quote
            at = closed + 1
        opening = _OPENS.search(line, at)
        while opening and not opening["quote"] and not opening["comment"]:
            opening = _OPENS.search(line, opening.end())
        if opening is None or opening["comment"]:
            return ""
        quote, at = opening["quote"], opening.end()


def _closed(line: str, quote: str, start: int) -> int:
    """Return where an open quote closes, or -1."""
    if quote == "'":
        return line.find(quote, start)
    ends = (
        match.start() for match in _ESCAPED_OR_CLOSED.finditer(line, start) if match[0] == quote
    )
    return next(ends, -1)


def parse(
    line: Line, skip: int, parameters: list[click.Parameter], *, strict: bool
) -> tuple[dict[str, Data], tuple[str, ...]]:
    """Return the values of the options that were given, and the words that no parameter takes.

    Options end at the first other word. With `strict`, an unknown option is an ImportingError:
    whether it takes a value is unknown too, so the rest could not be read.
    """
    name = " ".join(line.words[:skip])
    words = click.Argument([_WORDS], nargs=-1, type=click.UNPROCESSED)
    command = click.Command(
        name,
        params=[*parameters, words],
        add_help_option=False,
        context_settings={
            "allow_interspersed_args": False,
            "ignore_unknown_options": not strict,
        },
    )
    try:
        context = command.make_context(name, list(line.words[skip:]), resilient_parsing=False)
    except click.UsageError as error:
        raise ImportingError(f"{line.place}: {name}: {error.format_message()}") from error
    given = {key: value for key, value in context.params.items() if value not in (None, (), False)}
    return given, tuple(given.pop(_WORDS, ()))


def parameter(declared: str, *, multiple: bool = False, is_flag: bool = False) -> click.Option:
    """Return an option by its spellings ("--nodes,-N"); its value is given under the first."""
    names = declared.split(",")
    made = click.Option(names, multiple=multiple, is_flag=is_flag)
    made.name = names[0]
    return made


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
