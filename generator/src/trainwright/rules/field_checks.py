"""Functions that make checks of a mapping: what its fields hold, and which exclude each other.

A value of a wrong type, and a required field that is missing, are left to the schema.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, integer, sequence, text
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.objects import forms
from trainwright.objects.forms import Form, is_template, key_problem
from trainwright.rule_model.upstream import numbers, upstream

Problem = tuple[Pointer, str]  # where in the mapping, and what is wrong there
Check = Callable[[Mapping[str, Data]], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class FieldCheck:
    """A check that finds nothing in a mapping with none of `fields`."""

    fields: tuple[str, ...]
    check: Check

    def __call__(self, body: Mapping[str, Data]) -> Iterator[Problem]:
        return self.check(body)


def about(*fields: str) -> Callable[[Check], Check]:
    """Mark a check as one that concerns only these fields."""
    return lambda check: FieldCheck(fields, check)


def is_about(check: Check, body: Mapping[str, Data]) -> bool:
    """Whether a check may find something in a mapping, by the fields that are there."""
    return not isinstance(check, FieldCheck) or any(field in body for field in check.fields)


def unwrapped(check: Check) -> Check:
    """Return the bare check, for use where its fields are known to be there."""
    return check.check if isinstance(check, FieldCheck) else check


def between(field: str, low: int, high: int | None = None) -> Check:
    """A whole number in a range."""
    most = f"{low} or more" if high is None else f"{low} to {high}"

    @about(field)
    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        number = integer(body.get(field))
        if number is not None and (number < low or (high is not None and number > high)):
            yield Pointer.of(field), f"{field} is {number}, and can be {most}"

    return check


def each_between(field: str, low: int, high: int) -> Check:
    """Whole numbers of a list in a range."""

    @about(field)
    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        for index, item in enumerate(sequence(body.get(field))):
            number = integer(item)
            if number is not None and not low <= number <= high:
                yield (
                    Pointer.of(field, index),
                    f"{field} has {number}, and can have {low} to {high}",
                )

    return check


def formed(field: str, form: Form) -> Check:
    """Check that a text has a form; an empty one is left to `filled`."""
    return _each(field, form.problem)


def label_key(field: str) -> Check:
    """The key of a label, with a domain or without."""
    return _each(field, key_problem)


def _each(field: str, problem: Callable[[str], str]) -> Check:
    """The text of a field, or each in its list."""

    @about(field)
    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        for value, *at in _texts(body.get(field)):
            if value and (said := problem(value)):
                yield Pointer.of(field, *at), f'{field}: "{value}" {said}'

    return check


def _texts(value: Data) -> Sequence[tuple[str] | tuple[str, int]]:
    """A text, or each in a list with its index."""
    if isinstance(value, str):
        return ((value,),)
    return [(item, index) for index, item in enumerate(sequence(value)) if isinstance(item, str)]


def one_word(field: str, words: str, *, empty: bool = True) -> Check:
    """Return a check that a string field has one of a few values; `empty` allows "" as well."""

    allowed = frozenset((*words.split(), *([""] if empty else [])))

    @about(field)
    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        for value, *at in _texts(body.get(field)):
            if value not in allowed and not is_template(value):
                yield Pointer.of(field, *at), f'{field}: "{value}" {_words(words)}'

    return check


def _words(words: str) -> str:
    *front, last = words.split()
    return f"is not one of {', '.join(front)} and {last}" if front else f"can only be {last}"


def filled(*fields: str) -> Check:
    """Check that fields are not empty if they are there."""
    empty = _with("is empty", lambda body, field: field in body and _is_empty(body[field]), fields)
    return about(*fields)(empty)


def needed(*fields: str) -> Check:
    """Fields that have to be there, where the schema does not require them."""
    return _with("is missing", lambda body, field: _is_empty(body.get(field)), fields)


def _is_empty(value: Data) -> bool:
    return value is None or value in ("", [], {})


def _with(
    problem: str, has_problem: Callable[[Mapping[str, Data], str], bool], fields: tuple[str, ...]
) -> Check:
    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        for field in fields:
            if has_problem(body, field):
                yield Pointer.of(field) if field in body else Pointer(), f"{field} {problem}"

    return check


def exactly_one(*fields: str) -> Check:
    """Return a check that a mapping has exactly one of several fields."""

    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        there = _there(body, fields)
        if len(there) != 1:
            present = " and ".join(there) or "none of them"
            yield Pointer(), f"needs one of {', '.join(fields)}, and has {present}"

    return check


def at_most_one(*fields: str) -> Check:
    """Check that at most one of the fields is there."""

    @about(*fields)
    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        if len(there := _there(body, fields)) > 1:
            yield Pointer.of(there[-1]), f"{' and '.join(there)} exclude each other"

    return check


def _there(body: Mapping[str, Data], fields: tuple[str, ...]) -> list[str]:
    return [field for field in fields if body.get(field) not in (None, "", [])]


def only_where(field: str, other: str, *values: Data, needed: bool = False) -> Check:
    """Check that a field is there only with some values of another, and always if `needed`."""
    wanted = " or ".join(map(_shown, values))

    @about(field, other)
    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        there, value = body.get(field) is not None, body.get(other)
        if there and value not in values:
            yield Pointer.of(field), f"{field} needs {other}: {wanted}"
        elif needed and not there and value in values:
            yield Pointer.of(other), f"{other} is {_shown(value)}, and there is no {field}"

    return check


def _shown(value: Data) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def relative(field: str) -> Check:
    """A path inside something: relative, and without a step upwards."""

    def problem(path: str) -> str:
        return "is not a relative path" if path.startswith("/") else _upwards(path)

    return _each(field, problem)


def file_inside(field: str) -> Check:
    """Check that a path is relative, and does not begin as the folders of the kubelet do."""

    def problem(path: str) -> str:
        if path.startswith("/"):
            return "is not a relative path"
        return _upwards(path) or ("starts with two dots" if path.startswith("..") else "")

    return _each(field, problem)


def trimmed(field: str) -> Check:
    """A text without white space around it."""
    return _each(field, lambda value: "" if value == value.strip() else "has white space around it")


def absolute(field: str) -> Check:
    """A path from the root."""
    return _each(field, lambda path: "" if path[:1] == "/" else "is not absolute")


def not_upwards(field: str) -> Check:
    """Any path without a step upwards."""
    return _each(field, _upwards)


def _upwards(path: str) -> str:
    return "has a step upwards (..)" if ".." in path.split("/") else ""


def addresses(field: str, *others: str) -> Callable[[int], Check]:
    """Check IP addresses, one or a list, for a minor version: earlier ones accept leading zeros."""

    def check(minor: int) -> Check:
        def problem(value: str) -> str:
            accepted = value in others or _is_address(
                value if minor >= _STRICT else _unpadded(value)
            )
            return "" if accepted else "is not an IP address"

        return _each(field, problem)

    return check


_STRICT = numbers(upstream("kubernetes/strict-addresses").since)[1]


def _unpadded(address: str) -> str:
    return re.sub(r"(?<![0-9a-fA-F:])0+(?=[0-9])", "", address)


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return is_template(value)
    return "%" not in value  # no zone, as in fe80::1%eth0


def at_most(field: str, longest: int) -> Check:
    """A list of so many items."""

    @about(field)
    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        number = len(sequence(body.get(field)))
        if number > longest:
            yield Pointer.of(field), f"{field} has {number} items, and can have {longest}"

    return check


def not_negative(field: str) -> Check:
    """Check that an amount is not negative."""

    @about(field)
    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        amount = quantity.read(body.get(field))
        if amount is not None and amount < 0:
            yield Pointer.of(field), f"{field} is {body[field]}, and cannot be negative"

    return check


def distinct(field: str, key: str) -> Check:
    """A list in which no two items have the same text under a key."""

    @about(field)
    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        seen = set()
        for index, item in enumerate(sequence(body.get(field))):
            value = text(item.get(key)) if isinstance(item, dict) else ""
            if value and value in seen:
                yield Pointer.of(field, index, key), f'{field} has the {key} "{value}" twice'
            seen.add(value)

    return check


_MAKERS: Mapping[str, Callable[..., Check]] = {
    "needed_where": partial(only_where, needed=True),
    "one_word": partial(one_word, empty=False),
    "one_word_or_none": one_word,
    "formed": lambda field, form: formed(field, getattr(forms, form)),
    **{
        make.__name__: make
        for make in (
            *(absolute, at_most, at_most_one, between, distinct, each_between, exactly_one),
            *(file_inside, filled, label_key, needed, not_negative, not_upwards, only_where),
            *(relative, trimmed),
        )
    },
}


def made(row: Sequence[Data]) -> Check:
    """Return the check of a row of data: the kind of check, a field, and further arguments."""
    kind, *arguments = row
    return _MAKERS[kind](*arguments)
