"""The fields of a file in the terminal: each with the first sentence of what its schema says."""

from __future__ import annotations

import textwrap

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SelectionError
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.validation import schema_errors
from trainwright.documents.yamlio import inline
from trainwright.specs.fields import Field, field

KINDS = ("job", "environment", "defaults")  # of files that people write
_WIDTH = 100


def named(kind: str, path: str) -> Field:
    """The field of a kind of file at a dotted path. Raises SelectionError for one it lacks."""
    pointer = Pointer()
    for key in filter(None, path.split(".")):
        above, pointer = field(kind, pointer), pointer / key
        if not field(kind, pointer).parts:
            where = f"{pointer.parent.dotted} of " if pointer.parent else ""
            near = schema_errors.known_keys(key, _keys(above), Pointer(), kind)
            raise SelectionError(f'there is no field "{key}" in {where}{kind}. {near}')
    return field(kind, pointer)


def has(kind: str, path: str) -> bool:
    """Whether a kind of file has a field at a dotted path."""
    try:
        named(kind, path)
    except SelectionError:
        return False
    return True


def _keys(parent: Field) -> dict[str, Field]:
    return {key: below for key, below in parent.keys.items() if key not in parent.refused}


def text(kind: str, path: str) -> str:
    """What a field is, how it is written, and the fields in it."""
    described = named(kind, path)
    lines = textwrap.wrap(described.description, _WIDTH)
    if described.choices:
        lines.append(f"One of: {', '.join(map(inline, described.choices))}")
    lines += [f"Example: {inline(example)}" for example in described.examples[:1]]
    names = _listed(described)
    room = max(map(len, names), default=0) + 2
    lines += ["", *(line for key in names for line in _line(key.ljust(room), names[key]))]
    return "\n".join(lines).strip("\n") + "\n"


def _listed(parent: Field) -> dict[str, Field]:
    """Return the fields in a field, or, if its keys are free names, those in each entry."""
    fields = _keys(parent) or _keys(parent.below("<name>"))
    return dict(sorted(fields.items()))


def _line(name: str, below: Field) -> list[str]:
    first = below.description.split(". ")[0].rstrip(".") or below.title
    return textwrap.wrap(f"{name}{first}", _WIDTH, subsequent_indent=" " * len(name))


def items(kind: str, path: str) -> list[Data]:
    """The same as data."""
    fields = _listed(named(kind, path))
    return [
        {"field": key, "description": below.description, "examples": list(below.examples)}
        for key, below in fields.items()
    ]
