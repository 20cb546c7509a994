"""Text that says something other than what people see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from trainwright.datatypes.data import Data, text
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.groupkind import SECRET
from trainwright.datatypes.pointer import Pointer, scalars
from trainwright.findings.visibility import hidden, spelled, visible
from trainwright.rule_model.rule import defined_in, error
from trainwright.rule_model.subject import Hit, Subject

_SHOWN = 60  # characters of a value
_UNRENDERED = frozenset({"description", "files", "waivers"})


@error("TW780", spec=Pointer("/env"))
def deceptive_text(subject: Subject) -> Iterator[Hit]:
    if subject.kind == SECRET or not hidden(" ".join(subject.words)):
        return
    for pointer, value in scalars(subject.body):
        for said in (value, pointer):
            if isinstance(said, str) and (message := deceives(said)):
                yield Hit(pointer, message, spec=_written_at(subject, pointer))
                break


def deceives(said: str) -> str:
    """Return a message about a hidden or misleading character in a text; empty if it has none."""
    if not (character := hidden(said)):
        return ""
    begin = max(0, said.index(character) - _SHOWN // 2)
    shown = visible(said[begin : begin + _SHOWN].replace("\n", " ").strip())
    return f'a text has the character "{spelled(character)}": {shown}'


def in_lines(lines: Iterable[tuple[Location, str]], subject: str = "") -> Iterator[Finding]:
    """Yield a finding for each given line, comments too: all have text that people do not see."""
    for place, line in lines:
        yield deceptive_text.at(place, deceives(line), subject=subject)


def elsewhere(
    lines: Iterable[tuple[Location, str]], findings: Iterable[Finding], subject: str = ""
) -> Iterator[Finding]:
    """Yield findings in deceptive lines, except in those with a finding about a value already."""
    said = {(f.place.file, f.place.line) for f in findings if f.rule == deceptive_text.id}
    left = (line for line in lines if (line[0].file, line[0].line) not in said)
    return in_lines(left, subject)


def in_spec(data: Mapping[str, Data]) -> Iterator[Hit]:
    """Yield deceptive text in what is in no object: description, reasons of waivers, file names."""
    for pointer, value in scalars({key: data[key] for key in _UNRENDERED & data.keys()}):
        shown = pointer.parts[:1] != ("files",) or pointer.parts[-1] == "from"
        if shown and isinstance(value, str) and (message := deceives(value)):
            yield Hit("", message, spec=pointer)


def _written_at(subject: Subject, pointer: Pointer) -> Pointer:
    """Return the job spec's field that sets what is at a pointer; empty if that does not tell."""
    *above, field, key = ("", "", *pointer.parts)
    if field in ("annotations", "labels"):
        return Pointer.of(field, key)
    for container in subject.containers if above[-1] == "env" else ():
        for index, entry in enumerate(container.env):
            if pointer.within(f"{container.pointer}/env/{index}"):
                return Pointer.of("env", text(entry.get("name")))
    return Pointer("/flags") if "args" in (field, above[-1]) else Pointer()


RULES = defined_in(globals())
