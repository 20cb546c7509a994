"""The fields of a file in the terminal: each with the first sentence of what its schema says."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

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
    if described.meanings:
        lines += ["", *_described(described.meanings)]
    lines += ["", *_described({key: _first(below) for key, below in _listed(described).items()})]
    return "\n".join(lines).strip("\n") + "\n"


def _listed(parent: Field) -> dict[str, Field]:
    """Return the fields in a field, or, if its keys are free names, those in each entry."""
    fields = _keys(parent) or _keys(parent.below("<name>"))
    return dict(sorted(fields.items()))


def _first(below: Field) -> str:
    """Return the first sentence of a field's description."""
    return below.description.split(". ")[0].rstrip(".") or below.title


def _described(names: Mapping[str, str]) -> Iterator[str]:
    """Yield lines with names and what each of them is, in two columns."""
    written = {inline(name): what.rstrip(".") for name, what in names.items()}
    room = max(map(len, written), default=0) + 2
    for name, what in written.items():
        yield from textwrap.wrap(name.ljust(room) + what, _WIDTH, subsequent_indent=" " * room)


def about(kind: str, path: str) -> dict[str, Data]:
    """Return what a field is and how it is written, as data."""
    described = named(kind, path)
    return {
        "path": path,
        "description": described.description,
        "choices": list(described.choices),
        "examples": list(described.examples),
    }


def items(kind: str, path: str) -> list[Data]:
    """Return as data what stands below that: the values that it may have, and the fields in it."""
    described = named(kind, path)
    values = described.meanings.items()
    fields = _listed(described)
    return [
        *({"value": value, "description": meaning} for value, meaning in values),
        *(
            {"field": key, "description": below.description, "examples": list(below.examples)}
            for key, below in fields.items()
        ),
    ]
