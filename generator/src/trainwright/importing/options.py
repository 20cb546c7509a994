"""The options of commands that start training: the table options.yaml, which click reads by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import click

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer, lookup, with_value
from trainwright.importing.commandline import Line
from trainwright.kinds.reading import ImportingError, Loss, NotImported, shown, table

_WORDS = "words"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One row of the table for one option: what it takes, and where it goes or why it is left."""

    spellings: tuple[str, ...]
    takes: str
    read: str = ""
    loss: str = Loss.BEHAVIOUR
    why: str = "a job spec has no field for it"


Options = Mapping[str, Option]


_TABLE = table(__file__, "options.yaml")


def options_of(command: str) -> Options:
    """Return the options of a command by their names."""
    rows = (option for row in _TABLE[command] for option in _options(**row))
    return {option.spellings[0]: option for option in rows}


def _options(**row: Data) -> Iterator[Option]:
    """Yield the options of a row, whose first key is what they take."""
    takes, declared = next(iter(row.items()))
    del row[takes]
    for spellings in declared.split():
        yield Option(spellings=tuple(spellings.split(",")), takes=takes, **row)


def parse(
    line: Line, skip: int, options: Options, *, strict: bool = True
) -> tuple[dict[str, Data], tuple[str, ...]]:
    """Return the values of the options that were given, and the words that no option takes.

    Options end at the first other word. With `strict`, an unknown option is an ImportingError:
    whether it takes a value is unknown too, so the rest could not be read.
    """
    name = " ".join(line.words[:skip])
    words = click.Argument([_WORDS], nargs=-1, type=click.UNPROCESSED)
    command = click.Command(
        name,
        params=[*(_parameter(option) for option in options.values()), words],
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
    for key, value in context.params.items():
        if isinstance(value, tuple) and None in value:
            raise ImportingError(f"{line.place}: {name}: {key} has no value: write it behind =")
    given = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in context.params.items()
        if value not in (None, (), False)
    }
    return given, tuple(given.pop(_WORDS, ()))


def _parameter(option: Option) -> click.Option:
    is_flag = option.takes in ("switch", "optional")
    made = click.Option(option.spellings, multiple=option.takes == "several", is_flag=is_flag)
    made.name = option.spellings[0]
    return made


def carried(
    options: Options,
    given: Mapping[str, Data],
    body: Data,
    values: Mapping[str, Callable[[Data], Data]],
) -> tuple[Data, dict[str, str]]:
    """Return an object with the options that are read at a pointer, and the option of each pointer.

    `values` are how what is written for some becomes the value there.
    """
    names: dict[str, str] = {}
    for name, option in options.items():
        if name in given and option.read.startswith("/"):
            at = Pointer(option.read)
            value = values[name](given[name]) if name in values else given[name]
            before = lookup(body, at)
            value = [*before, *value] if isinstance(before, list) else value
            body = with_value(body, at, value)
            names[at] = name
    return body, names


def left(options: Options, given: Mapping[str, Data], place: Location) -> Iterator[NotImported]:
    """Yield the given options that are not read, each with the reason."""
    for name, option in options.items():
        if name in given and not option.read:
            for value in given[name] if option.takes == "several" else [given[name]]:
                said = "" if value is True else shown(name, value)
                yield NotImported(name, place, said, option.why, Loss(option.loss))
