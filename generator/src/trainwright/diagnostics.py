"""Findings about what people wrote: files, schema, references, waivers.

Rules about rendered objects live in `rules/`; these cannot be, since there is no object yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.model import Finding, Place, Related, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One kind of mistake; `remedy` is used when the finding has nothing more precise to say."""

    id: str
    name: str
    summary: str
    remedy: str
    effect: str = ""
    severity: Severity = Severity.ERROR

    def at(
        self,
        place: Place,
        message: str,
        *,
        remedy: str = "",
        subject: str = "",
        path: str = "",
        note: str = "",
        related: tuple[Related, ...] = (),
    ) -> Finding:
        """A finding of this kind at a place."""
        return Finding(
            rule=self.id,
            severity=self.severity,
            place=place,
            message=message,
            remedy=remedy or self.remedy,
            subject=subject,
            path=path,
            note=note,
            effect=self.effect,
            related=related,
        )


SYNTAX = Diagnostic(
    id="TW001",
    name="yaml-syntax",
    summary="The file is YAML.",
    remedy="Fix the syntax at this position.",
)
DUPLICATE_KEY = Diagnostic(
    id="TW002",
    name="duplicate-key",
    summary="No mapping has the same key twice.",
    effect="YAML readers keep the last value and drop the first without a word.",
    remedy="Keep one of the two.",
)
UNSAFE = Diagnostic(
    id="TW003",
    name="unsafe-yaml",
    summary="No custom tags, no unbounded anchors, no extreme nesting or size.",
    remedy="Write plain YAML: mappings, lists, strings, numbers and booleans.",
)
ENCODING = Diagnostic(
    id="TW004",
    name="encoding",
    summary="The file is UTF-8 text.",
    remedy="Save the file as UTF-8.",
)
SHAPE = Diagnostic(
    id="TW005",
    name="document-shape",
    summary="The file holds exactly one document, and it is a mapping.",
    remedy="Write one mapping, starting with apiVersion and kind.",
)
EXTENDS = Diagnostic(
    id="TW006",
    name="extends",
    summary="`extends` names another job spec under environments/, without a cycle.",
    remedy='Write `extends: <folder>/<job>`, for example "base/mnist".',
)
NAME = Diagnostic(
    id="TW007",
    name="name-mismatch",
    summary="A job's name is the name of its file.",
    effect="A reviewer looking for the job by name would not find its file.",
    remedy="Rename the file or the job, so that both agree.",
)
LAYOUT = Diagnostic(
    id="TW008",
    name="layout",
    summary="environments/ holds <env>/environment.yaml and <env>/jobs/<job>.yaml, as real files.",
    remedy="Move or rename the file to environments/<env>/jobs/<job>.yaml.",
)
SCHEMA = Diagnostic(
    id="TW010",
    name="schema",
    summary="The file follows its JSON Schema.",
    remedy="Correct the value; `trainwright explain` shows where it comes from.",
)
RENDERED_SCHEMA = Diagnostic(
    id="TW011",
    name="rendered-schema",
    summary="The rendered object follows the schema of its kind and Kubernetes version.",
    effect="The API server refuses the object.",
    remedy="Correct the field that sets this value.",
)
CHART = Diagnostic(
    id="TW012",
    name="chart",
    summary="The chart accepts the values.",
    remedy="Correct the field that sets this value.",
)
REFERENCE = Diagnostic(
    id="TW020",
    name="unknown-reference",
    summary="Pools, queues, targets and volumes that a job names exist.",
    remedy="Use a name that exists, or declare it in environment.yaml.",
)
UNSUPPORTED = Diagnostic(
    id="TW021",
    name="unsupported-by-target",
    summary="The target can express everything the job asks for.",
    effect="Rendered all the same it would be ignored, or refused by the API server.",
    remedy="Choose a target that supports it, or remove the field.",
)
CONTRADICTION = Diagnostic(
    id="TW022",
    name="contradiction",
    summary="The fields of a job agree with each other.",
    remedy="Change one of the two fields.",
)
CAPACITY = Diagnostic(
    id="TW023",
    name="pool-capacity",
    summary="A job fits the pool it asks for.",
    effect="The pods stay Pending for ever.",
    remedy="Ask for less, or choose a larger pool.",
)
NAME_LENGTH = Diagnostic(
    id="TW024",
    name="name-too-long",
    summary="Every pod and service name that the job leads to fits 63 characters.",
    effect="The pods start, their services are refused, and the ranks never meet.",
    remedy="Shorten the job's name.",
)
WAIVER_EXPIRED = Diagnostic(
    id="TW030",
    name="waiver-expired",
    summary="Waivers are used before their date.",
    remedy="Fix the finding, or extend the waiver with a fresh reason.",
)
WAIVER_UNUSED = Diagnostic(
    id="TW031",
    name="waiver-unused",
    summary="Every waiver waives something.",
    remedy="Delete the waiver.",
    severity=Severity.WARNING,
)
UNKNOWN_RULE = Diagnostic(
    id="TW032",
    name="unknown-rule",
    summary="Severities and waivers name rules that exist and may be waived.",
    remedy="Run `trainwright list rules` for the ids.",
)

DIAGNOSTICS: dict[str, Diagnostic] = {
    d.id: d
    for d in (
        SYNTAX,
        DUPLICATE_KEY,
        UNSAFE,
        ENCODING,
        SHAPE,
        EXTENDS,
        NAME,
        LAYOUT,
        SCHEMA,
        RENDERED_SCHEMA,
        CHART,
        REFERENCE,
        UNSUPPORTED,
        CONTRADICTION,
        CAPACITY,
        NAME_LENGTH,
        WAIVER_EXPIRED,
        WAIVER_UNUSED,
        UNKNOWN_RULE,
    )
}
