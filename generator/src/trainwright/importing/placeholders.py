"""Placeholders in what is imported: filled in by --set, or named all at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data, digits, mapping, sequence
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer, lookup, mapped, scalars
from trainwright.importing.kept_names import is_variable
from trainwright.importing.source import Source
from trainwright.kinds import TARGETS
from trainwright.kinds.reading import ImportingError, SourceObject
from trainwright.objects.placeholders import PLACEHOLDER, is_unfilled, of_shell
from trainwright.objects.pods.launching import SHELLS

_OF_PROGRAMS = frozenset({"command", "args", "env", "data", "lifecycle"})


def filled(part: SourceObject, values: Mapping[str, str]) -> SourceObject:
    """Return the object with its placeholders replaced by the values of that name, if any."""

    def value(match: re.Match[str]) -> str:
        return values.get(_name(match), match[0])

    def with_values(scalar: Data) -> Data:
        if not isinstance(scalar, str):
            return scalar
        whole = PLACEHOLDER.fullmatch(scalar)
        if whole and _name(whole) in values:
            given = values[_name(whole)]
            number = digits(given)
            return given if number is None else number
        return PLACEHOLDER.sub(value, scalar)

    return replace(part, body=mapped(part.body, with_values)) if values else part


def _name(match: re.Match[str]) -> str:
    return str(next(filter(None, match.groups())))


def is_placeholder(value: Data) -> bool:
    """Whether a value is a placeholder, and nothing else."""
    return isinstance(value, str) and PLACEHOLDER.fullmatch(value) is not None


def refuse_unfilled(source: Source) -> None:
    """Raise ImportingError for placeholders that nothing has filled in, all of them at once.

    If they are all in variables, the run starts: their effect on the program is reported instead.
    """
    placeholders = list(_unfilled(source))
    if all(placeholder.of_variable for placeholder in placeholders):
        return
    unfilled = {placeholder.text: placeholder for placeholder in placeholders}
    listed = ", ".join(
        f"{placeholder.field} is {placeholder.text}" for placeholder in unfilled.values()
    )
    options = " ".join(f"--set {_quoted(placeholder.name)}=…" for placeholder in unfilled.values())
    by_shell = any(map(of_shell, unfilled))
    print_it = " `envsubst < FILE | trainwright import -` reads the shell's." if by_shell else ""
    raise ImportingError(
        f"{source.place}: {source.title} has placeholders: {listed}. Fill them in with {options}."
        f"{print_it}"
    )


def _quoted(name: str) -> str:
    return f"'{name}'" if " " in name else name


def unfilled_variables(source: Source) -> Iterator[str]:
    """Yield a note if variables have placeholders as values; it lists each placeholder once."""
    texts = dict.fromkeys(
        placeholder.text for placeholder in _unfilled(source) if placeholder.of_variable
    )
    if texts:
        listed = ", ".join(texts)
        yield f"not filled in: {listed}, which variables have as their value; --set does"


@dataclass(frozen=True, slots=True)
class _Unfilled:
    """A placeholder, its name, and the field that has it."""

    text: str
    name: str
    field: str
    of_variable: bool


def _unfilled(source: Source) -> Iterator[_Unfilled]:
    """Yield each placeholder that no shell fills in."""
    if TARGETS[source.target].envelope:  # Compose has variables of its own
        return
    for part in source.parts:
        for pointer, value in scalars(part.body):
            if not isinstance(value, str) or _is_read_by_shell(part.body, pointer, value):
                continue
            for match in PLACEHOLDER.finditer(value):
                if source.is_made and of_shell(match[0]):
                    continue  # a variable of the script, which is named with all others
                field = part.called(pointer)
                yield _Unfilled(match[0], _name(match), field, is_variable(pointer))


def _is_read_by_shell(body: Mapping[str, Data], pointer: Pointer, value: str) -> bool:
    """Whether a shell or a program may replace what is written as a placeholder."""
    parts = pointer.parts
    if _OF_PROGRAMS.isdisjoint(parts):
        return parts[0] == "status" or parts[-2:-1] == ("annotations",)
    if is_variable(pointer):
        return not is_unfilled(value)
    if parts[-2] not in ("command", "args") or not value.startswith("-"):
        return True
    container = mapping(lookup(body, pointer.parent.parent))
    words = [str(word) for key in ("command", "args") for word in sequence(container.get(key))]
    return not words or any(map(SHELLS.fullmatch, words)) or "<" in value
