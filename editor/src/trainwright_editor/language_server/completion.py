"""What may be written at the cursor, with its documentation from the schemas and the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Literal

from trainwright.authoring import names
from trainwright.authoring.place import Place, job_at, kind_of, spec_root
from trainwright.authoring.text import Position, Span, read
from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import job_of
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents import yamlio
from trainwright.documents.validation.other_names import other_names
from trainwright.documents.validation.violation import show
from trainwright.specs.fields import Field, field
from trainwright_editor.language_server.availability import availability

_MARK = "zzcursorzz"  # what is put where the cursor is, so that the parser finds its place
_MOST = 200  # suggestions at once; more are left out until more is typed
_PARTIAL = re.compile(r"(?:(?<=[\s,\[\]{}:#])|\A)[^\s,\[\]{}:#]*+\Z")
_CLOSED_BY = {"{": "}", "[": "]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One thing that may be written."""

    text: str
    label: str
    what: Literal["key", "value", "name"]
    detail: str = ""
    documentation: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """Everything that may be written, and the span of the text that it replaces."""

    suggestions: tuple[Suggestion, ...]
    span: Span
    whole: bool = True  # whether nothing was left out


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Where the cursor is in the data: a key of `pointer`, or its value."""

    pointer: Pointer
    key: bool
    taken: frozenset[str]
    indent: str


def complete(place: Place) -> Completion:
    """Return what may be written at a position, also in a file that cannot be parsed yet."""
    line = place.text.line(place.at.line)[: place.at.column]
    match = _PARTIAL.search(line)
    start = match.start() if match else len(line)
    span = Span(Position(place.at.line, start), place.at)
    cursor = _cursor(place, start) if place.kind else None
    if cursor is None or _is_comment(line):
        return Completion((), span)
    typed = place.text.written(span).lower()
    suggested = _keys(place, cursor, typed) if cursor.key else _values(place, cursor.pointer)
    fitting = tuple(
        islice(
            (suggestion for suggestion in suggested if typed in suggestion.label.lower()), _MOST + 1
        )
    )
    return Completion(fitting[:_MOST], span, len(fitting) <= _MOST)


def _is_comment(line: str) -> bool:
    return bool(re.search(r"(^|\s)#", line))


def _cursor(place: Place, start: int) -> _Cursor | None:
    """Return the cursor's place in the data: a mark is put there, and found by parsing."""
    head = place.text.line(place.at.line)[:start]
    tries = (f"{_MARK}: {_MARK}", _MARK) if _expects_key(head) else (_MARK, f"{_MARK}: {_MARK}")
    for written in tries:
        lines = list(place.text.lines)
        lines[place.at.line : place.at.line + 1] = [f"{head}{written}{_closing(head)}"]
        marked = read(place.path, "\n".join(lines).encode("utf-8", "replace"))
        for entry in marked.entries:
            if entry.pointer.last == _MARK or _says_mark(marked.document, entry.pointer):
                key = entry.pointer.last == _MARK
                above = entry.pointer.parent if key else entry.pointer
                siblings = {e.pointer.last for e in marked.entries if e.pointer.parent == above}
                return _Cursor(
                    above,
                    key,
                    frozenset(siblings - {_MARK}),
                    " " * (len(head) - len(head.lstrip())),
                )
    return None


def _says_mark(document: Data, pointer: Pointer) -> bool:
    return document is not None and lookup(document.data, pointer) == _MARK


def _expects_key(head: str) -> bool:
    """Whether a key, and not a value, follows `head`, the text before the cursor."""
    before = head.rstrip()
    in_list = head.rfind("[") > head.rfind("]")
    behind_key = before.endswith(":") or before.rstrip("[{").rstrip().endswith(":")
    return before.endswith(("{", ",")) or not (in_list or behind_key)


def _closing(head: str) -> str:
    """The brackets that are open before the cursor, closed."""
    opened: list[str] = []
    quote = ""
    for character in head:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _CLOSED_BY:
            opened.append(_CLOSED_BY[character])
        elif opened and character == opened[-1]:
            opened.pop()
    return "".join(reversed(opened))


def _keys(place: Place, cursor: _Cursor, typed: str) -> Iterator[Suggestion]:
    """Yield the keys that are not there yet, also for the names that other tools give them."""
    above = field(kind_of(place.path), cursor.pointer)
    for key, inner in above.keys.items():
        if key not in cursor.taken and key not in above.refused:
            yield Suggestion(
                text=f"{key}:{_opening(inner)}",
                label=key,
                what="key",
                detail=inner.title,
                documentation=_documentation(place, inner, cursor.pointer / key),
            )
    for name in names.possible_keys(cursor.pointer):
        if name.text not in cursor.taken:
            yield Suggestion(
                text=f"{name.text}: ", label=name.text, what="name", documentation=name.about
            )

    if typed and spec_root(place.path, cursor.pointer) == cursor.pointer:
        yield from _other_names(place, cursor, typed)


def _other_names(place: Place, cursor: _Cursor, typed: str) -> Iterator[Suggestion]:
    """Yield fields by their names in Kubernetes, Helm, Slurm or Compose, to be written as here."""
    for row in (row for row in other_names() if not row.within):
        top, *inner = row.field.split(".")
        if not top or not row.name.lower().startswith(typed) or top in cursor.taken | {row.name}:
            continue
        at = Pointer.of(top, *inner)
        text = f"{top}:"
        for depth, key in enumerate(inner, 1):
            text += f"\n{cursor.indent}{'  ' * depth}{key}:"
        target = field(kind_of(place.path), Pointer(cursor.pointer + at))
        yield Suggestion(
            text=text + _opening(target),
            label=row.name,
            what="key",
            detail=f"{row.field}, as {row.tool} calls it",
            documentation=_documentation(place, target, Pointer(cursor.pointer + at)),
        )


def _opening(written: Field) -> str:
    return " " if written.shape == "" else ""


def _documentation(place: Place, described: Field, pointer: Pointer) -> str:
    """Return a field's description, with its value in the open job, or else its default."""
    lines = [described.description]
    spec = job_at(place)
    if spec is not None and (value := lookup(spec.data, pointer)) is not None:
        layer = spec.setter(pointer)
        if not isinstance(value, Mapping):
            lines.append(f"Now `{show(value)}`, set by {layer.label}.")
    elif described.default is not None:
        lines.append(f"Default: `{show(described.default)}`")
    if described.examples:
        lines.append(f"For example `{show(described.examples[0])}`")
    return "\n\n".join(line for line in lines if line)


def _values(place: Place, pointer: Pointer) -> Iterator[Suggestion]:
    """The values that a field may have, and the names that it may refer to."""
    root = spec_root(place.path, pointer)
    in_spec = None if root is None else Pointer(pointer.removeprefix(root))
    named = names.possible(place, pointer, in_spec)
    facts = availability(
        place.session, place.environment, names.declared_as(in_spec), job_of(place.path)
    )
    for name in named:
        yield Suggestion(
            text=yamlio.inline(name.text),
            label=name.text,
            what="name",
            detail=facts.get(name.text, ""),
            documentation=name.about,
        )
    value_field = field(place.kind, pointer)
    if named:
        return
    for choice in value_field.choices:
        yield Suggestion(
            text=yamlio.inline(choice),
            label=str(choice) if isinstance(choice, str) else show(choice),
            what="value",
            documentation=value_field.meanings.get(str(choice), value_field.description),
        )
