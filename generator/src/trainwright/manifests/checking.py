"""Checks of one text of manifests: syntax, schemas, CEL and every rule."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from typing import NamedTuple

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Finding, Location, Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import IDENTIFYING, Manifest
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents.validation import kubernetes_schemas
from trainwright.documents.validation.violation import Violation
from trainwright.documents.yamlio import Document
from trainwright.findings import diagnostics as dx
from trainwright.kinds.subjects import subject_of
from trainwright.manifests import reading, webhooks
from trainwright.manifests.catalog import Catalog, KnownKind
from trainwright.manifests.reading import Chunk, Object
from trainwright.objects.bundle import Bundle
from trainwright.rule_model.subject import Subject
from trainwright.rules import families
from trainwright.rules.gitops import duplicate_object
from trainwright.rules.plain import is_plain
from trainwright.rules.pods import REPEATED_NAME

_NOWHERE = Location("")
_SECRET = re.compile(r"/(?:data|stringData)/")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """What manifests are checked against; `around` are objects that they may refer to."""

    environment: Environment
    catalog: Catalog
    around: Bundle = field(default_factory=Bundle)


# Tuples, since there is one for each object and they go from process to process.
class ObjectLocation(NamedTuple):
    """A pointer into one of the documents of a text."""

    document: int
    pointer: str


class CheckedObject(NamedTuple):
    """An object that was looked at: its identity, and where it is."""

    identity: tuple[str, str, str, str]
    at: ObjectLocation


class UnknownKind(NamedTuple):
    """A kind that there is no schema for, or a rule of a kind that could not be evaluated."""

    api_version: str
    kind: str
    at: ObjectLocation
    rule: str = ""
    reason: str = ""


class CheckedText(NamedTuple):
    """The result of checking one text: findings, objects, and what could not be checked."""

    findings: list[Finding]
    seen: list[CheckedObject]
    unknown: list[UnknownKind]


@dataclass(frozen=True, slots=True)
class _Remark:
    """A finding that has no position yet: the pointer it is about, or the key there."""

    finding: Finding
    pointer: str
    key: bool = False


def check_text(chunk: Chunk, setting: CheckContext) -> CheckedText:
    """Check a text. Positions, which are slow to read, are read only if there are findings."""
    glanced = reading.glance(chunk)
    if glanced is None:
        return check_text_exactly(chunk, setting)
    result = CheckedText([], [], [])
    remarks = tuple(_remarks(glanced[0], 0, chunk, setting, result))
    if remarks:
        document, *more = reading.documents(chunk)
        if more or not isinstance(document, Document) or document.data != glanced[0]:
            return check_text_exactly(chunk, setting)
        result.findings.extend(_placed(remark, document) for remark in remarks)
    return result


def check_text_exactly(chunk: Chunk, setting: CheckContext) -> CheckedText:
    """Check a text like `check_text`, with the position of everything read along."""
    result = CheckedText([], [], [])
    for index, document in enumerate(reading.documents(chunk)):
        if isinstance(document, tuple):
            result.findings.extend(document)
        else:
            for remark in _remarks(document.data, index, chunk, setting, result):
                result.findings.append(_placed(remark, document))
    return result


def place(chunk: Chunk, at: ObjectLocation) -> Location:
    """Return the position of something in a text, which is read again for it."""
    for index, document in enumerate(reading.documents(chunk)):
        if index == at.document and isinstance(document, Document):
            return document.place(at.pointer)
    return Location(chunk.file, chunk.above + 1)


def _placed(remark: _Remark, document: Document) -> Finding:
    find = document.key_place if remark.key else document.place
    return replace(remark.finding, place=find(remark.pointer))


def _remarks(
    data: Data, index: int, chunk: Chunk, setting: CheckContext, result: CheckedText
) -> Iterator[_Remark]:
    if chunk.found and isinstance(data, Mapping) and data.keys().isdisjoint(IDENTIFYING):
        message = "not a manifest: it has neither apiVersion nor kind"
        yield _Remark(dx.SHAPE.at(_NOWHERE, message, severity=Severity.NOTE), "")
        return
    for item in reading.objects(data):
        yield from _about(item, ObjectLocation(index, item.prefix), setting, result)


def _about(
    item: Object, at: ObjectLocation, setting: CheckContext, result: CheckedText
) -> Iterator[_Remark]:
    body = item.body
    problem = _shapeless(body)
    if problem:
        yield _Remark(dx.SHAPE.at(_NOWHERE, problem, remedy=_SHAPE_REMEDY), item.prefix)
        return
    manifest = Manifest(body=body)
    if manifest.api_version.partition("/")[0] in FOR_TOOLS:
        result.unknown.append(UnknownKind(manifest.api_version, manifest.kind, at))
        return
    result.seen.append(CheckedObject(manifest.identity, at))
    definition = setting.catalog.find(manifest.api_version, manifest.kind)
    if definition is None:
        remarks = [*_unknown_kind(manifest, at, setting, result)]
        if not remarks and not get_close_matches("metadata", body):
            return  # a program's configuration, such as kind's
    else:
        remarks = [*_against(manifest, definition, at, result)]
    subject = subject_of(manifest, setting.environment, None, setting.around)
    ruled = [*_ruled(subject)]
    if definition is not None:
        remarks += _repeated(subject, definition, ruled)
    for remark in (*remarks, *ruled):
        title = f"{manifest.kind}/{reading.name_of(body)}"
        finding = replace(remark.finding, manifest=title, pointer=remark.pointer)
        yield replace(remark, finding=finding, pointer=item.prefix + remark.pointer)


# Files that no cluster ever sees; `builtin` are the transformers of kustomize itself.
FOR_TOOLS = ("kustomize.config.k8s.io", "builtin", "trainwright.io")
_SHAPE_REMEDY = "Name Kubernetes manifests only, and start each with both."


def _shapeless(body: Data) -> str:
    if not isinstance(body, Mapping):
        return f"expected an object, found {'a list' if isinstance(body, list) else 'one value'}"
    if isinstance(body.get("apiVersion"), str) and isinstance(body.get("kind"), str):
        return ""
    absent = [key for key in IDENTIFYING if not isinstance(body.get(key), str)]
    return f"{' and '.join(absent)} must say what this is"


# --- schema and CEL ------------------------------------------------------------------------------


def _unknown_kind(
    manifest: Manifest, at: ObjectLocation, setting: CheckContext, result: CheckedText
) -> Iterator[_Remark]:
    catalog = setting.catalog
    api_version, kind = manifest.api_version, manifest.kind
    when = kubernetes_schemas.when_kind(api_version, kind, catalog.kubernetes)
    if not when and not catalog.serves_group(api_version):
        result.unknown.append(UnknownKind(api_version, kind, at))
        return
    message = f"Kubernetes {catalog.kubernetes} has no {kind} of {api_version}"
    remedy = "Write an apiVersion that it serves, or name its version with --kubernetes-version."
    near = "" if when else catalog.nearest(api_version, kind)
    if near:
        remedy = f'Did you mean "{near}"?'
    elif others := catalog.versions(kind):
        remedy = f"{kind} is of {' and '.join(others)}."
    finding = dx.RENDERED_SCHEMA.at(
        _NOWHERE, f"{message}: {when}" if when else message, remedy=remedy
    )
    yield _Remark(finding, "/kind" if near else "/apiVersion")


def _against(
    manifest: Manifest, definition: KnownKind, at: ObjectLocation, result: CheckedText
) -> Iterator[_Remark]:
    violations = definition.violations(manifest.body)
    if definition.unchecked:
        rule = "the patterns of its schema"
        result.unknown.append(
            UnknownKind(manifest.api_version, manifest.kind, at, rule, definition.unchecked)
        )
    for violation in violations:
        yield _violation(manifest, violation)
    if definition.crd is None or violations:  # the server, too, asks CEL last
        return
    from trainwright.manifests import cel  # 15 ms, and only CRDs have such rules

    for outcome in cel.creation(definition.crd, manifest.body):
        if isinstance(outcome, cel.Broken):
            finding = dx.CEL.at(_NOWHERE, outcome.message)
            pointer, rule = outcome.pointer, outcome.rule
            awaited = webhooks.awaited(manifest.group_kind, manifest.body, pointer, rule)
            yield _Remark(webhooks.unless(finding) if awaited else finding, outcome.pointer)
        else:
            unknown = UnknownKind(
                manifest.api_version, manifest.kind, at, outcome.rule, outcome.reason
            )
            result.unknown.append(unknown)


def _repeated(
    subject: Subject, definition: KnownKind, ruled: Sequence[_Remark]
) -> Iterator[_Remark]:
    """Yield items that occur twice in a list, unless a rule reports that for the list."""
    reported = (remark for remark in ruled if remark.finding.rule == REPEATED_NAME)
    lists = {Pointer(remark.pointer).parent for remark in reported}
    pods = {id(template.body) for template in subject.pod_templates if is_plain(subject)}
    for violation in definition.repeated(subject.body, pods):  # of which plain pods have none
        if violation.pointer.parent not in lists:
            yield _violation(subject.manifest, violation)


def _violation(manifest: Manifest, violation: Violation) -> _Remark:
    message, remedy = violation.message, violation.remedy
    if manifest.kind == "Secret" and _SECRET.match(violation.pointer):
        message, remedy = message.partition(", found")[0], ""  # the rest would show the value
    finding = dx.RENDERED_SCHEMA.at(_NOWHERE, message, remedy=remedy)
    absent = Pointer(violation.pointer) / violation.missing
    if violation.missing and webhooks.fills(manifest.group_kind, absent):
        finding = webhooks.unless(finding)
    return _Remark(finding, violation.pointer, bool(violation.key))


# --- rules ---------------------------------------------------------------------------------------


def _ruled(subject: Subject) -> Iterator[_Remark]:
    manifest = subject.manifest
    for rule, hit in families.run(subject):
        if rule.id == duplicate_object.id:  # reported where all manifests of a run are known
            continue
        finding = rule.at(
            _NOWHERE,
            hit.message,
            remedy=rule.by_hand,
            effect=rule.effect_of(hit, subject.kind),
            note=hit.note,
        )
        absent = lookup(manifest.body, hit.pointer) is None
        if absent and webhooks.fills(manifest.group_kind, hit.pointer):
            finding = webhooks.unless(finding)
        yield _Remark(finding, hit.pointer)
