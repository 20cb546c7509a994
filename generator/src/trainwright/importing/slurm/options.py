"""Options of sbatch and srun: which were given, and where."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.importing.commandline import Line
from trainwright.importing.options import Option, options_of, parse
from trainwright.kinds.reading import Loss, shown

_HEADER = re.compile(r"^#SBATCH[ \t]+(.*)$", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s)#.*")

_OPTIONS = options_of("slurm")
_VALUED = {s for option in _OPTIONS.values() if option.takes == "value" for s in option.spellings}


# One of a site's plug-ins.
_OF_SITE = Option(spellings=(), takes="value", loss=Loss.COSMETIC, why=_OPTIONS["--output"].why)


def option(name: str) -> Option:
    """Return the row of an option, or that of any other which a site has."""
    return _OPTIONS.get(name, _OF_SITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Options by name, with the place of each; one that is not given has the place of the script's
    own command.
    """

    values: Mapping[str, Data]
    places: Mapping[str, Location]
    otherwise: Location

    def place(self, name: str) -> Location:
        return self.places.get(name, self.otherwise)

    @property
    def texts(self) -> dict[str, str]:
        """The values of the options as they are written; that of a switch is empty."""
        return {
            name: "" if value is True else shown(name, value) for name, value in self.values.items()
        }

    def then(self, given: Mapping[str, Data], place: Location) -> Given:
        """Return these options and others, which are given at one place and go before."""
        places = {**self.places, **dict.fromkeys(given, place)}
        return Given(values={**self.values, **given}, places=places, otherwise=place)


def headers(file: str, text: str) -> Given:
    """Return the options that a script has in its `#SBATCH` lines. Raise ImportingError."""
    given = Given(values={}, places={}, otherwise=Location(file, 1))
    head = _head(text)
    for header in _HEADER.finditer(head):
        place = Location(file, head.count("\n", 0, header.start()) + 1)
        given = given.then(options(place, "sbatch", _split(header[1]))[0], place)
    return replace(given, otherwise=Location(file, 1))


def _head(text: str) -> str:
    """Return the lines up to the first command, behind which sbatch reads no options."""
    command = re.search(r"^(?![ \t]*(?:#|$))", text, re.MULTILINE)
    return text[: command.start()] if command else text


def exported(given: Mapping[str, Data]) -> dict[str, str]:
    """Return the variables of `--export=ALL,NAME=VALUE`."""
    pairs = (item.partition("=") for item in str(given.get("--export", "")).split(","))
    return {name: value for name, equals, value in pairs if equals}


def _split(header: str) -> list[str]:
    text = _COMMENT.sub("", header)
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def options(
    place: Location, command: str, words: Sequence[str]
) -> tuple[dict[str, Data], tuple[str, ...]]:
    """Return the options before a program, by name, and the words that follow them. Those of a
    site's plug-ins are kept by their names.
    """
    option_words: list[str] = []
    of_site: dict[str, Data] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].partition("=")
        if name in _OPTIONS and _OPTIONS[name].takes == "optional":
            option_words.append(name)
        elif equals and name.startswith("--") and name not in _VALUED:
            of_site[name] = value
        else:
            takes = name in _VALUED and not equals
            option_words += words[at : at + 1 + takes]
            at += takes
        at += 1
    line = Line(words=(command, *option_words, *words[at:]), place=place)
    given, rest = parse(line, 1, _OPTIONS)
    return {**given, **of_site}, rest
