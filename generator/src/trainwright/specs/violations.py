"""What is wrong with merged specs by their schemas, at the lines that wrote the values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.listing import listed
from trainwright.datatypes.pointer import Pointer, lookup, without_value
from trainwright.documents.validation import schema
from trainwright.documents.validation.violation import Violation, show
from trainwright.documents.yamlio import Document, parse
from trainwright.findings import diagnostics as dx
from trainwright.findings.credentials import HIDDEN
from trainwright.specs import layers
from trainwright.specs.merge import BUILT_IN, Layered, merge, without_nulls
from trainwright.specs.other_tools import MAX_SHOWN, WRITE_FIELD


def violations(against: schema.Schema, spec: Layered, subject: str) -> tuple[Finding, ...]:
    """Return the schema's findings about merged data, each at the line that wrote the value."""
    findings = []
    for violation in against.explain(spec.data):
        pointer = violation.pointer
        # A null is what removes a required value.
        value = pointer / violation.missing if violation.missing else pointer
        at = spec.key_origin(value) if violation.key else spec.origin(value)
        if at.file == BUILT_IN:
            at = spec.authored(pointer)
        message, remedy = _quoting(spec, violation)
        setters = {spec.setter(pointer / key).label for key in mapping(lookup(spec.data, pointer))}
        if len(setters) == 1:  # nothing is inherited
            remedy = remedy.replace("; write null to remove an inherited one", "")
        if violation.missing and len([*spec.history(value)]) > 1:
            message = f"{value.dotted} is null, and cannot be without a value"
            remedy = "Remove this line, and the inherited value stays."
        remedy = _merged(spec, violation, remedy)
        effect = _NOT_READ if violation.key else _LACKING if violation.missing else ""
        found = dx.SCHEMA.at(at, message, remedy=remedy, subject=subject, path=pointer)
        findings.append(replace(found, effect=effect))
    return tuple(findings)


def _merged(spec: Layered, violation: Violation, remedy: str) -> str:
    """Return a remedy; where it writes a field that the file has already, with what is in that:
    else who does as it says writes a key twice, or loses the rest of a mapping.
    """
    told = WRITE_FIELD.fullmatch(remedy)
    wanted = parse("remedy", told[1].encode()) if told else None
    if not isinstance(wanted, Document) or len(wanted.data) != 1:
        return remedy
    from trainwright.documents.validation import translation  # only mistakes need it

    ((name, value),) = wanted.data.items()
    pointer, layer = violation.pointer, spec.setter(violation.pointer)
    around = pointer.parent
    beside = mapping(lookup(layer.data, around))
    if around and name not in beside and translation.belongs(around, wanted.data, {}):
        return remedy
    nested = pointer if violation.key else None  # of the same name as the field at the top
    while around and (around / name == nested or name not in mapping(lookup(layer.data, around))):
        around = around.parent
    field = around / name
    if field == "/entrypoint" and value.keys() == {"args"} and not lookup(spec.data, field):
        return translation.written({name: {"script": "…", **value}})
    if field == pointer or not layer.wrote(field):
        return remedy
    rest = lookup(without_value(layer.data, pointer, prune=True), field)
    line = layer.key_place(field).line
    if field.parent == pointer.parent and not isinstance(rest, Mapping | list | None):
        meant, there = (translation.shown({name: each}) for each in (value, rest))
        other = f"Keep one: `{there}` on line {line}, or `{meant}` there."
        return other if meant != there else f"Remove it: line {line} has `{there}`."
    if isinstance(rest, Mapping) and isinstance(value, Mapping):
        with_rest = merge(rest, value) if violation.key else merge(value, rest)
        value = _with_arguments(rest, value) if name == "entrypoint" else with_rest
    full = translation.written({name: value})
    full = full if len(full) <= MAX_SHOWN and HIDDEN not in full else remedy
    return (
        full
        if pointer.within(field)
        else f"{full.removesuffix('.')} in place of that on line {line}."
    )


def _with_arguments(entrypoint: Mapping[str, Data], meant: Mapping[str, Data]) -> Data:
    """Return an entrypoint with the arguments that are meant for it, or what is meant in place of
    it: another command, with the arguments that are left.
    """
    if meant.keys() != {"args"}:
        meant = {**{key: one for key, one in entrypoint.items() if key not in _STARTED}, **meant}
        given = {"args": entrypoint.get("args", [])}
        return _with_arguments(meant, given) if given["args"] else meant
    of_command = next((key for key in ("argv", "args") if entrypoint.get(key)), "args")
    return {**entrypoint, of_command: [*entrypoint.get(of_command, ()), *meant["args"]]}


_STARTED = frozenset({"module", "script", "argv", "inline", "image", "args"})
_NOT_READ = "It would be ignored, and the run would be without it."
_LACKING = "Nothing can be rendered without it."


def job_violations(spec: Layered, subject: str) -> tuple[Finding, ...]:
    """Return the schema's findings about a merged job or, if there are none, about its roles."""
    plain = replace(spec, data=without_nulls(spec.data))
    findings = violations(schema.effective_job(), plain, subject)
    roles = () if findings else spec.data.get("roles", {})
    return (*findings, *(finding for name in roles for finding in _of_role(spec, name, subject)))


def with_valid_name(known: Mapping[Pointer, Sequence[str]], finding: Finding) -> Finding:
    """Return a finding about a name that is not valid, with the one that exists in its remedy."""
    names, value = known.get(Pointer(finding.path), ()), _NOT_A_NAME.search(finding.message)
    if finding.path == "/name":
        return replace(finding, remedy=f"Write `name: {names[0]}`, as the file is called.")
    if not names or value is None:
        return finding
    if value[1].lower() in names:
        return replace(finding, remedy=f"Write `{finding.path[1:]}: {value[1].lower()}`.")
    near = get_close_matches(value[1].lower(), names, n=1, cutoff=_NEAR_NAME)
    there = f"Did you mean {near[0]}?" if near else f"There are: {listed(names, MOST_NAMES)}."
    return replace(finding, remedy=there)


_NOT_A_NAME = re.compile(r'is "([^"]*)", which is not a valid')
_NEAR_NAME = 0.7  # h10O is near to h100
MOST_NAMES = 8


def _of_role(spec: Layered, name: str, subject: str) -> Iterator[Finding]:
    """Yield what is wrong with a role's merged spec; what it lacks, at the start of the role."""
    at = Pointer.of("roles", name)
    for finding in violations(schema.effective_job(), layers.of_role(spec, name), subject):
        if finding.path:
            yield finding
        else:
            message = f"roles.{name}: {finding.message}"
            yield replace(finding, place=spec.key_origin(at), message=message, path=at)


def _quoting(spec: Layered, violation: Violation) -> tuple[str, str]:
    """Return a violation's message and remedy, with a number at its end as it was written."""
    message, remedy = violation.message, violation.remedy
    layer = spec.setter(violation.pointer)
    written = layer.document.written.get(layer.root + violation.pointer)
    shown = show(lookup(spec.data, violation.pointer))
    if written is None or not message.endswith(f": {shown}"):
        return message, remedy
    return message.removesuffix(shown) + written, remedy.replace(f': "{shown}"', f': "{written}"')
