"""The arguments of a program, written and read: flags in the form that its parser expects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import TypeAlias

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import FlagStyle

PLAIN = "k=v"  # of Hydra and OmegaConf: https://hydra.cc/docs/advanced/override_grammar/basic/
# What an item of `flags` may be instead of a value, for a flag with a form of its own.
LISTS = ("repeat", "words", "comma", "brackets")
# Names that mean something in an override of Hydra only, which can begin with them.
_OVERRIDE = re.compile(r"^(?:\+\+?|~)|[/@:]")

# What word processors and web pages make of a hyphen: dashes, and the sign of a subtraction.
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"

# What one occurrence of a flag gives it: one word, or several after the flag.
Mention: TypeAlias = str | tuple[str, ...]


def flag_arguments(flags: Mapping[str, Data], style: FlagStyle = FlagStyle()) -> list[str]:  # noqa: B008 - it is frozen
    """Return flags as arguments, sorted by name: the order they are written in changes nothing."""
    return [word for name in sorted(flags) for word in flag_words(name, flags[name], style)]


def flag_words(name: str, value: Data, style: FlagStyle) -> Iterator[str]:
    """Yield the arguments of one flag."""
    form, value = _form(value, style)
    if form in LISTS:
        yield from _list(name, form, [_word(item) for item in value], style)
    elif isinstance(value, bool) and form != "value":
        yield from _boolean(name, value, style)
    else:
        yield from _one(name, _scalar(value, style), style)


def is_ambiguous(value: Data, style: FlagStyle) -> bool:
    """Whether a list leaves open how the program's parser reads it."""
    return isinstance(value, list) and len(value) > 1 and not style.lists and style.form != PLAIN


def misplaced(name: str, value: Data, style: FlagStyle) -> str:
    """Return why a flag cannot be written in this style; empty if it can."""
    form, items = _form(value, style)
    if style.form != PLAIN and _OVERRIDE.search(name):
        return "a name with +, ~, /, @ or : is an override of Hydra"
    if style.form == PLAIN and form == "words":
        return f"words follow an option, and {PLAIN} has none"
    if style.form == PLAIN and form == "switch" and not name.startswith("~"):
        return f"a switch has no value, and every override of {PLAIN} has one"
    if style.form != PLAIN and form == "brackets":
        return f"brackets are those of {PLAIN}"
    return _with_comma(form, items, style)


def _with_comma(form: str, items: Data, style: FlagStyle) -> str:
    words = map(_word, items) if form == "comma" and style.form != PLAIN else ()
    split = next((word for word in words if "," in word), "")
    return f'the item "{split}" has a comma, and would be read as several' if split else ""


def unfit_style(style: FlagStyle) -> str:
    """Return why booleans cannot be passed in this style, or "" if they can."""
    if style.form != PLAIN or style.booleans in ("", "value"):
        return ""
    words = {"switch": "k", "negated": "k and no-k"}[style.booleans]
    return f"booleans: {style.booleans} writes {words}, and an override of {PLAIN} has a value"


def _form(value: Data, style: FlagStyle) -> tuple[str, Data]:
    """Return the form in which a value is written, and the value itself."""
    if isinstance(value, Mapping):
        return next(iter(value.items()))
    if isinstance(value, list):
        return style.lists or ("brackets" if style.form == PLAIN else "repeat"), value
    by_value = (style.booleans or ("value" if style.form == PLAIN else "switch")) == "value"
    return "value" if by_value else "", value


def _boolean(name: str, value: bool, style: FlagStyle) -> Iterator[str]:
    dashes = "" if style.form == PLAIN else style.form.partition("k")[0]
    if value:
        yield f"{dashes}{name}"
    elif style.booleans == "negated":
        yield f"{dashes}no-{name}"


def _list(name: str, form: str, items: list[str], style: FlagStyle) -> Iterator[str]:
    """Yield the words for a flag with a list, in the form that its parser expects."""
    if form == "words":
        yield f"{style.form.partition('k')[0]}{name}"
        yield from items
    elif form == "repeat":
        for item in items:
            yield from _one(name, _scalar(item, style), style)
    elif form == "comma":
        joined = ",".join(map(_quoted, items) if style.form == PLAIN else items)
        yield from _one(name, joined, style)
    else:
        yield from _one(name, f"[{','.join(map(_quoted, items))}]", style)


def _one(name: str, word: str, style: FlagStyle) -> Iterator[str]:
    if style.form == PLAIN and name.startswith("~") and word == "true":
        yield name  # removes it, whatever its value
    elif style.form.endswith(" v"):
        yield from (style.form.replace("k v", name), word)
    else:
        yield f"{style.form.replace('k=v', name)}={word}"


# Items of a list that need no quotes.
# https://hydra.cc/docs/advanced/override_grammar/basic/#grammar
_ITEM = re.compile(r"[A-Za-z0-9_/+.$%*@?|-]+")

# The patterns below are that grammar, for a value in which `"` stands for an element that is read
# already, `$` for an interpolation of OmegaConf, and `/` for what is always part of a word: an
# escaped character, or a Kubernetes variable.
_TOKEN = re.compile(
    r"""(?P<quoted>'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*") | (?P<interpolated>\$\{[^}]{1,500}+\})
    | (?P<word>\$\([A-Za-z_]\w*\) | \\[\\()\[\]{}:=,\ \t] | [\\$]) | (?P<open>['"].*)""",
    re.ASCII | re.DOTALL | re.VERBOSE,
)
_DEEPEST = 50  # of lists in lists
_TOKENS = {"quoted": '"', "interpolated": "$", "word": "/", "open": "'"}
_WORD = r"[A-Za-z0-9_/+.%*@?|-]"
_KEY = rf"[ \t]*{_WORD}(?:{_WORD}|[ \t])*"
_ELEMENT = rf'[ \t]*(?:"[ \t]*|(?:{_WORD}|[:$])(?:{_WORD}|[:$ \t])*)'
_ARGUMENT = rf"(?:[ \t]*[A-Za-z_][A-Za-z0-9_-]*[ \t]*=)?{_ELEMENT}"
_FUNCTION = "bool|choice|extend_list|float|glob|int|interval|json_str|range|shuffle|sort|str|tag"
_CONTAINER = rf"""\[(?:[\ \t]*|{_ELEMENT}(?:,{_ELEMENT})*)\]
    | \{{(?:[\ \t]*|{_KEY}:{_ELEMENT}(?:,{_KEY}:{_ELEMENT})*)\}}
    | (?:{_FUNCTION})[\ \t]*\((?:[\ \t]*|{_ARGUMENT}(?:,{_ARGUMENT})*)\)"""
_VALUE = re.compile(rf"(?![ \t])(?:{_ELEMENT}(?:,{_ELEMENT})*)?(?<![ \t])")


@cache
def _container() -> re.Pattern[str]:
    return re.compile(_CONTAINER, re.VERBOSE)  # a millisecond, and only Hydra has such words


def _override(word: str) -> str:
    """Return a value for Hydra: as it is written, or in quotes if its grammar has no such text."""
    if _is_of_hydra(word):
        return word
    # OmegaConf reads YAML, where no quote is escaped
    return _in_quotes(word, '"' if "'" in word and '"' not in word else "'")


def _is_of_hydra(word: str) -> bool:
    """Whether the whole value is of Hydra's grammar, with no blanks around it to be dropped.

    Lists, dictionaries and calls of functions are read from the inside out.
    """
    rest = _TOKEN.sub(lambda token: _TOKENS[token.lastgroup or ""], word)
    for _ in range(_DEEPEST):
        rest, replacements = _container().subn('"', rest)
        if not replacements:
            break
    return bool(_VALUE.fullmatch(rest))


def _quoted(item: str) -> str:
    return item if _ITEM.fullmatch(item) else _in_quotes(item)


def _in_quotes(text: str, quote: str = "'") -> str:
    """Return a text in Hydra's quotes: a backslash is escaped only in front of a quote.

    https://hydra.cc/docs/advanced/override_grammar/basic/#quoted-values
    """
    escaped = re.sub(
        rf"(?<!\\)(\\*+)({quote}|\Z)", lambda m: m[1] * 2 + (f"\\{quote}" if m[2] else ""), text
    )
    return f"{quote}{escaped}{quote}"


def _scalar(value: Data, style: FlagStyle) -> str:
    return _override(_word(value)) if style.form == PLAIN else _word(value)


def _word(value: Data) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_DECIMAL = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d{1,3})?")
_EXACT = 25  # characters of a number that Decimal does not round


def spelled_as(flags: Mapping[str, Data], others: Mapping[str, Data]) -> dict[str, Data]:
    """Return the flags, each decimal number spelled as in `others` if that is the same number.

    0.0001 becomes 1e-4. Whole numbers keep their spelling: 1e3 is not an int to a program.
    """
    return {name: _spelled_as(value, others.get(name)) for name, value in flags.items()}


def _spelled_as(value: Data, other: Data) -> Data:
    """Return a value with its decimal numbers as another value writes them."""
    if isinstance(other, Mapping):
        other = next(iter(other.values()), None)
    if isinstance(value, Mapping):
        return {form: _spelled_as(given, other) for form, given in value.items()}
    own, others = (given if isinstance(given, list) else [given] for given in (value, other))
    if len(own) != len(others):
        return value
    pairs = zip(own, others, strict=True)
    spelled = [
        elsewhere if _is_same_decimal(here, elsewhere) else here for here, elsewhere in pairs
    ]
    return spelled if isinstance(value, list) else spelled[0]


def _is_same_decimal(one: Data, other: Data) -> bool:
    number = _decimal(one)
    return number is not None and number == _decimal(other)


def _decimal(value: Data) -> Decimal | None:
    """Return the decimal number that a flag has, or None if it is whole, or a text.

    A spec has a number as text if Python would spell it differently. Text that Python would spell
    the same was quoted on purpose, and is no number: "3.1" may be a version.
    """
    text = str(value)
    if not isinstance(value, str | float) or len(text) > _EXACT or not _DECIMAL.fullmatch(text):
        return None
    return None if isinstance(value, str) and text == str(float(text)) else Decimal(text)


# --- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arguments:
    """A program's arguments: words, then flags by name with the value of every mention.

    A name is written as its form is: `lr` for --lr, `-n` for -n, `lr=` for lr=0.1. Two lists of
    arguments with equal flags are the same to any parser that has such flags.
    """

    words: tuple[str, ...]
    flags: Mapping[str, tuple[Mention, ...]]


_WRITTEN = re.compile(
    r"(?P<dashes>--?)(?P<name>[A-Za-z0-9_][A-Za-z0-9._-]*)(?:=(?P<value>.*))?", re.DOTALL
)
_PLAIN = re.compile(r"(?P<name>(?:\+\+?|~)?[A-Za-z_][A-Za-z0-9._/@-]*)=(?P<value>.*)", re.DOTALL)
_NEGATIVE = re.compile(r"-\d.*|-\.\d.*")


def parse_arguments(words: Sequence[str]) -> Arguments:
    """Split arguments into words and flags; they are all words if one after the flags belongs to
    none. `--lr 0.1` and `--lr=0.1` are the same to every parser that has such flags.
    """
    start = next((i for i, word in enumerate(words) if _is_flag(word)), len(words))
    flags: dict[str, tuple[Mention, ...]] = {}
    at = start
    while at < len(words):
        if not _is_flag(words[at]):
            return Arguments(tuple(words), {})
        name, value = _mention(words[at])
        at += 1
        given = [] if value is None else [value]
        while value is None and at < len(words) and _is_value(words[at]):
            if _PLAIN.fullmatch(words[at]):  # its value, or an override behind a switch
                return Arguments(tuple(words), {})
            given.append(words[at])
            at += 1
        mention: tuple[Mention, ...] = (tuple(given),) if len(given) > 1 else tuple(given)
        if name in flags and not (mention and flags[name]):  # a switch that counts: -v -v
            return Arguments(tuple(words), {})
        flags[name] = (*flags.get(name, ()), *mention)
    return Arguments(tuple(words[:start]), dict(sorted(flags.items())))


def _is_flag(word: str) -> bool:
    if not _NEGATIVE.fullmatch(word) and _WRITTEN.fullmatch(word):
        return True
    plain = _PLAIN.fullmatch(word)  # of a program that is not Hydra's, if its value needs quotes
    return plain is not None and _override(plain["value"]) == plain["value"]


def _is_value(word: str) -> bool:
    return not word.startswith("-") or bool(_NEGATIVE.fullmatch(word))


def _mention(word: str) -> tuple[str, str | None]:
    match = _WRITTEN.fullmatch(word)
    if match is None:
        name, _, value = word.partition("=")
        return f"{name}=", value
    name = match["name"] if match["dashes"] == "--" else f"-{match['name']}"
    return name, match["value"]
