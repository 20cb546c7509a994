"""Automatic fixes of findings, as edits of texts; nothing is written here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from difflib import get_close_matches
from typing import TYPE_CHECKING

from trainwright.authoring import names
from trainwright.authoring.place import Place, kind_of, spec_root
from trainwright.authoring.text import Entry, Position, Span, offset
from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile, job_of
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.suggestion import suggestion
from trainwright.documents import editing, yamlio
from trainwright.findings import diagnostics as dx
from trainwright.findings.credentials import HIDDEN
from trainwright.specs.fields import field as field_of

if TYPE_CHECKING:
    from trainwright.authoring.session import Session

_REMOVED = frozenset(
    d.id for d in (dx.SAME_AS_INHERITED, dx.UNREAD, dx.WAIVER_EXPIRED, dx.WAIVER_UNUSED)
)
_FORMED = frozenset({dx.SCHEMA.id, dx.EXTENDS.id})
_MEANT = re.compile(r'[Dd]id you mean "([^"]+)"\?')
_WRITE = re.compile(r"Write `([^`…]+)`\.")
_FIELDS = re.compile(
    r"^Write `([^`…]+)`"
    + r"(?: and `([^`…]+)`)?" * 3
    + r"(?: in place of that on line \d+| at the top: [^`]+|, as the file is called)?\."
)
_UNITS = re.compile(r"^Write the unit: ")
# What a remedy of broken YAML changes: spaces, colons, equals signs, dashes and quotes.
_PACKED = re.compile("[\\s:=\"'\u2018-\u201e\u00ab\u00bb-]")
_CODE = re.compile(r"`([^`…]+)`")
_SET = re.compile(r"`([a-z][A-Za-z]*): ([^`…{}\[\]]+)`")
_REMOVE = re.compile(r"^(?:Remove|Leave)\b")
_OTHERWISE = re.compile(r"^(?:Keep|Set|Move|Leave)\b")  # what a person decides, or moves
_NEAREST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something to do: new bytes by path, and the finding that it does away with."""

    title: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    finding: Finding | None = None
    preferred: bool = False


def remedies(session: Session, finding: Finding) -> Iterator[Action]:
    """Yield the actions that fix a finding, marked as preferred where the fix is beyond doubt."""
    flaw = _Flaw(session, finding)
    for remedy in _REMEDIES:
        with suppress(editing.EditError):
            yield from remedy(flaw)


class _Flaw:
    """A finding, with the text that it points into."""

    def __init__(self, session: Session, finding: Finding):
        self.session = session
        self.finding = finding
        self.path = finding.place.file
        self.start = Position(finding.place.line - 1, finding.place.column - 1)
        self.text = session.text(self.path)
        self.raw = session.raw(self.path)
        self.entry = self._entry()

    def _entry(self) -> Entry | None:
        """Return the entry that starts where the finding points, or None."""
        at, text = self.start, self.text
        entry = text.at(at) or next((e for e in text.entries if e.value.start == at), None)
        starts = entry is not None and at in ((entry.key or entry.value).start, entry.value.start)
        return entry if starts else None

    def fixed(self, title: str, raw: bytes, *, preferred: bool) -> Action:
        """Return the action that gives the file other bytes."""
        files = {self.path: raw}
        return Action(title=title, files=files, finding=self.finding, preferred=preferred)

    def replaced(self, span: Span, text: str) -> bytes:
        """Return the file with another text in a span."""
        raw = self.raw.decode("utf-8", "replace")
        start, end = (offset(raw, at) for at in (span.start, span.end))
        return (raw[:start] + text + raw[end:]).encode()

    def without(self, pointer: Pointer) -> bytes:
        """Return the file without a value, and the mappings that would be empty without it."""
        above = pointer.parent
        if above and sum(entry.pointer.parent == above for entry in self.text.entries) == 1:
            return self.without(above)
        return editing.drop(self.path, self.raw, pointer)


def _removed(flaw: _Flaw) -> Iterator[Action]:
    """Yield an edit that removes a key which has no effect, or which the remedy says to remove."""
    finding, entry = flaw.finding, flaw.entry
    redundant = finding.rule in _REMOVED and not _OTHERWISE.match(finding.remedy)
    removes = redundant or (_REMOVE.match(finding.remedy) and finding.path)
    if entry is None or not removes or entry.key is None:
        return
    if redundant or _is_of(flaw.path, entry, finding):
        title = f"Remove {entry.pointer.dotted}"
        sure = redundant or finding.message.startswith("unknown key")
        yield flaw.fixed(title, flaw.without(entry.pointer), preferred=sure)


def _is_of(path: str, entry: Entry, finding: Finding) -> bool:
    """Whether an entry is the value that a finding is about, and not one around it."""
    return entry.pointer == (spec_root(path, entry.pointer) or Pointer()) + finding.path


def _meant(flaw: _Flaw) -> Iterator[Action]:
    """Yield an edit that replaces a name with the one that the finding suggests."""
    match = _MEANT.search(flaw.finding.remedy) or _MEANT.search(flaw.finding.message)
    if match and flaw.entry is not None:
        yield from _replaced(flaw, flaw.entry, match[1], preferred=True)


def _named(flaw: _Flaw) -> Iterator[Action]:
    """Yield edits that replace an undeclared name with a similar one of the environment's.

    None of them is beyond doubt where the name is known elsewhere: it is not misspelt, and another
    pool or target would train otherwise.
    """
    entry = flaw.entry
    if flaw.finding.rule != dx.REFERENCE.id or entry is None or entry.key is None:
        return
    value = flaw.text.value(entry.pointer)
    place = Place(flaw.session, flaw.path, entry.value.start)
    possible = [option.text for option in names.possible(place, entry.pointer, place.in_spec)]
    if not value or value in possible:
        return  # it is there, and does not suit
    meant = "" if names.is_known(place, str(value)) else suggestion(str(value), possible)
    for name in get_close_matches(str(value), possible, n=_NEAREST, cutoff=0):
        yield from _replaced(flaw, entry, name, preferred=name == meant)


def _replaced(flaw: _Flaw, entry: Entry, name: str, *, preferred: bool) -> Iterator[Action]:
    on_key = entry.key is not None and entry.key.start == flaw.start
    if on_key and any(e.pointer == entry.pointer.parent / name for e in flaw.text.entries):
        return  # the same key twice
    span = entry.key if on_key and entry.key else entry.value
    if entry.shape == "scalar" or on_key:
        raw = flaw.replaced(span, yamlio.inline(name))
        yield flaw.fixed(f"Replace {flaw.text.written(span)} by {name}", raw, preferred=preferred)


def _written(flaw: _Flaw) -> Iterator[Action]:
    """Yield an edit to the line as the remedy of broken YAML writes it."""
    match = _WRITE.search(flaw.finding.remedy)
    if flaw.finding.rule != dx.SYNTAX.id or match is None:
        return
    number = flaw.start.line
    line = flaw.text.line(number)
    wanted = match[1]
    packed = _PACKED.sub("", wanted)
    for start, end in (*_words(line), _token(line, flaw.start.column)):
        if _PACKED.sub("", line[start:end]) == packed:
            span = Span(Position(number, start), Position(number, end))
            yield flaw.fixed(f"Write {wanted}", flaw.replaced(span, wanted), preferred=True)
            return


def _fields(flaw: _Flaw) -> Iterator[Action]:
    """Yield edits that replace what is written with the fields that the remedy spells out."""
    finding, entry = flaw.finding, flaw.entry
    together, either = _FIELDS.match(finding.remedy), _UNITS.match(finding.remedy)
    if finding.rule not in _FORMED or entry is None or HIDDEN in finding.remedy:
        return
    texts = ["\n".join(line for line in together.groups() if line)] if together else []
    texts += _CODE.findall(finding.remedy) if either else []
    for text in texts:
        with suppress(editing.EditError, _TakenError):
            raw = _with_fields(flaw, entry, text)
            title = f"Write {text.replace(chr(10), ' and ')}"
            yield flaw.fixed(title, raw, preferred=together is not None)


def _with_fields(flaw: _Flaw, entry: Entry, text: str) -> bytes:
    """Return a file with an entry replaced by other fields. Raise EditError or _TakenError."""
    if entry.key is None and entry.pointer.last.isdecimal():
        return flaw.replaced(entry.value, text)
    if entry.key and entry.pointer.parent.last.isdecimal() and "\n" not in text:  # of a list's item
        return flaw.replaced(Span(entry.key.start, entry.value.end), text)
    written = yamlio.parse(flaw.path, text.encode())
    if not isinstance(written, yamlio.Document):
        raise _TakenError
    leaves = dict(_leaves(flaw, entry, written.data))
    kept = any(at.within(entry.pointer) for at in leaves)
    raw = flaw.raw if kept else flaw.without(entry.pointer)
    for at, value in leaves.items():
        raw = editing.put(flaw.path, raw, at, value)
    return raw


class _TakenError(Exception):
    """Something else is written where a remedy writes."""


def _leaves(
    flaw: _Flaw, entry: Entry, fields: Mapping[str, Data]
) -> Iterator[tuple[Pointer, Data]]:
    """Yield each value to set, with its pointer in the file. Raise _TakenError if something else is
    already written there.
    """
    above, root = entry.pointer.parent, spec_root(flaw.path, entry.pointer) or Pointer()
    first, kind = next(iter(fields)), kind_of(flaw.path)
    here = field_of(kind, above)
    is_allowed_here = (
        bool(here.below(first).parts) if first == entry.pointer.last else first in here.keys
    )
    inside = is_allowed_here or first not in field_of(kind, root).keys
    for key, value in fields.items():
        at = (above if inside else root) / key
        yield from _unset(flaw.text.value(at), at, value, entry)


def _unset(present: Data, at: Pointer, value: Data, entry: Entry) -> Iterator[tuple[Pointer, Data]]:
    if present is None or at.within(entry.pointer):
        yield at, value
    elif isinstance(present, Mapping) and isinstance(value, Mapping):
        for key, item in value.items():
            yield from _unset(present.get(key), at / key, item, entry)
    elif present != value:
        raise _TakenError


def _words(line: str) -> Iterator[tuple[int, int]]:
    """Yield the column range of a line without indent and comment, and that after its dash."""
    stop = len(line.partition(" #")[0].rstrip())
    start = len(line) - len(line.lstrip())
    yield start, stop
    if line[start : start + 2] == "- ":
        yield start + 2, stop


def _token(line: str, start: int) -> tuple[int, int]:
    """Return the column range of an entry of a flow mapping that begins at a column."""
    return start, start + len(re.split(r"[,}\]]|\s#", line[start:], maxsplit=1)[0].rstrip())


def _set(flaw: _Flaw) -> Iterator[Action]:
    """Yield an edit to the value that a remedy names: `retries: 3`."""
    file = job_of_finding(flaw.session, flaw.finding)
    if file is None or flaw.finding.rule == dx.SCHEMA.id:
        return
    for key, text in _SET.findall(flaw.finding.remedy):
        document = yamlio.parse(file.path, f"{key}: {text}".encode())
        if not isinstance(document, yamlio.Document):
            continue
        with suppress(editing.EditError):
            value = document.data[key]
            raw = editing.put(file.path, flaw.session.raw(file.path), Pointer.of(key), value)
            files = {file.path: raw}  # the finding may be in another one
            yield Action(title=f"Set {key}: {text}", files=files, finding=flaw.finding)


def _lifted(flaw: _Flaw) -> Iterator[Action]:
    """Yield an edit with the fields of `spec` at the top, and the name and labels of `metadata`."""
    data, raw = flaw.text.value(""), flaw.raw
    misplaced = flaw.finding.path == "/spec" and flaw.finding.rule == dx.SCHEMA.id
    if not misplaced or not isinstance(data, Mapping):
        return
    keys = [key for key in ("metadata", "spec") if key in data]
    if kind_of(flaw.path) != "job":
        keys = ["spec"]  # an environment has the name of its folder
    elif mapping(data.get("metadata")).keys() - _OF_METADATA:
        return
    for key in keys:
        raw = editing.lift(flaw.path, raw, key)
    yield flaw.fixed("Write the fields of spec at the top", raw, preferred=True)


_OF_METADATA = frozenset({"name", "labels", "annotations"})  # that jobs have as well


def _name(flaw: _Flaw) -> Iterator[Action]:
    """Yield an edit that writes the name of the file into it."""
    name = job_of(flaw.path).name
    if flaw.finding.rule == dx.NAME.id and not name[0].isdigit():
        raw = editing.put(flaw.path, flaw.raw, "/name", name)
        yield flaw.fixed(f"Set name: {name}", raw, preferred=True)


_REMEDIES: tuple[Callable[[_Flaw], Iterator[Action]], ...] = (
    _removed,
    _meant,
    _named,
    _written,
    _fields,
    _set,
    _lifted,
    _name,
)


def job_of_finding(session: Session, finding: Finding) -> JobFile | None:
    """Return the job that a finding is about, or None."""
    environment, slash, name = finding.subject.partition("/")
    file = JobFile(environment, name)
    return file if slash and session.workspace.has(file) else None
