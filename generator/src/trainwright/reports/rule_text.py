"""A rule in the terminal, with what its documentation page has."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from itertools import zip_longest
from typing import TYPE_CHECKING

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SelectionError
from trainwright.datatypes.finding import Severity
from trainwright.documents.yamlio import dump
from trainwright.findings.diagnostics import Diagnostic
from trainwright.kinds import SERVED
from trainwright.reports.report import every_rule, help_uri
from trainwright.rule_model.edit import EditRule, EditSample
from trainwright.rule_model.edit_row import IMMUTABLE
from trainwright.rule_model.rule import Rule, Sample
from trainwright.rule_model.rule_file import Documented
from trainwright.rule_model.spec_sample import ENVIRONMENT, SpecSample, spec_sample
from trainwright.rule_model.upstream import upstream
from trainwright.rules.edits.table import reported_by as edits_of
from trainwright.rules.policy import waivable

if TYPE_CHECKING:
    from trainwright.reports.report import AnyRule

_WIDTH, _LABEL = 100, 14
_SELDOM = {
    Severity.ERROR: "Only where your cluster differs from what the rule knows, as with a newer "
    "operator: a waiver changes nothing about what the cluster refuses.",
    Severity.WARNING: "Where its effect is accepted, or your cluster prevents it.",
    Severity.NOTE: "Where what it notes is meant.",
}

_ID = re.compile(r"TW\d\w*", re.IGNORECASE)


def named(word: str) -> AnyRule | None:
    """Return the rule with an id or a name, or None if the word cannot be an id."""
    rules = every_rule()
    names = {rule.name: key for key, rule in rules.items()}
    match = rules.get(names.get(word.lower(), word.upper()))
    if match is None and _ID.fullmatch(word):
        near = sorted(rules, key=lambda key: _differing(key, word.upper()))[:3]
        shown = ", ".join(f"{key} ({rules[key].name})" for key in near)
        raise SelectionError(f'there is no rule "{word}". The nearest are {shown}')
    return match


def _differing(word: str, other: str) -> int:
    return sum(a != b for a, b in zip_longest(word, other))


def text(rule: AnyRule) -> str:
    """Return a rule's description, specs and manifests that fail and pass, and its source."""
    lines = [f"{rule.id}: {rule.name} ({rule.severity.value})", "", *_wrapped(rule.summary), ""]
    lines += [line for label, words in _facts(rule) for line in _labelled(label, words)]
    if sample := spec_sample(rule.id):
        lines += _specs(sample)
    if isinstance(rule, Rule):
        lines += _samples(rule.failing, rule.passing)
    if isinstance(rule, EditRule):
        lines += _edit(f"A change that is reported as {rule.verdict.value}", rule.failing)
        lines += _edit("A change that is not", rule.passing)
    return "\n".join([*lines, "", *_labelled("Page", help_uri(rule.id)), ""])


def item(rule: AnyRule) -> Data:
    """Return a rule's description and the samples of its spec as data."""
    fields = (
        "id",
        "name",
        "severity",
        "summary",
        "effect",
        "remedy",
        "symptom",
        "by_hand",
        "waive",
        "source",
    )
    words = {name: str(getattr(rule, name, "")) for name in fields}
    words["byHand"] = words.pop("by_hand")
    specs = spec_sample(rule.id)
    shown: Data = {}
    if specs:
        shown = {"fails": specs.fails, "passes": specs.passes}
        shown["mistakes"] = [asdict(mistake) for mistake in specs.mistakes]
    return {**words, **({"spec": shown} if shown else {}), "page": help_uri(rule.id)}


def _facts(rule: AnyRule) -> Iterator[tuple[str, str]]:
    yield "Effect", rule.effect
    yield "Remedy", rule.remedy
    if isinstance(rule, Rule):
        yield "In manifests", rule.by_hand
    yield "Symptom", rule.symptom
    yield "Reported by", reported_by(rule).replace("`", "")
    yield "Checks", checks(rule)
    if isinstance(rule, Rule) and (field := rule.spec.dotted):
        yield "Field", f"{field}, see `trainwright explain job {field}`"
    if not isinstance(rule, Diagnostic):
        yield "Applies from", since(rule)
    yield "Waiver", _waiver(rule)
    if not isinstance(rule, Diagnostic):
        yield "Source", rule.source


def reported_by(rule: AnyRule) -> str:
    """Return the commands that report a rule."""
    if isinstance(rule, Diagnostic):
        return rule.reported_by
    if isinstance(rule, EditRule):
        of_specs = "`check`, `render`, `plan`, `validate --against` and editors"
        return of_specs if rule.id == IMMUTABLE else "`plan`, and `validate --against`"
    return "`check`, `render`, `plan`, `validate` and editors"


def checks(rule: AnyRule) -> str:
    """Return the objects that a rule looks at; empty if it looks at files."""
    if isinstance(rule, Diagnostic):
        return ""
    if isinstance(rule, EditRule):
        kinds = sorted({str(kind) for edit in edits_of(rule.id) for kind in edit.kinds})
        return f"changes of {', '.join(kinds) or 'any object'}"
    of_pods = rule.id.startswith("TW7")
    return ", ".join(map(str, rule.kinds)) or ("pods of any object" if of_pods else "any object")


def waiving(rule: AnyRule) -> str:
    """Return when a finding may be accepted, or that it may not."""
    if rule.id not in waivable():
        blocks = rule.severity is Severity.ERROR and "`render`" in reported_by(rule)
        return f"It cannot be waived{': nothing is rendered until it is corrected' * blocks}."
    return rule.waive or _SELDOM[rule.severity]


def is_of_jobs(rule: AnyRule) -> bool:
    """Whether jobs may have what a rule finds, so that their specs may waive it: not where it is
    about kinds such as Application or ClusterQueue, of whose API groups no run has objects.
    """
    kinds = rule.kinds if isinstance(rule, Rule) else ()
    groups = {"", *(group for group, _ in SERVED)}
    return not kinds or any(group in groups for group, _ in kinds)


def _waiver(rule: AnyRule) -> str:
    when = waiving(rule)
    if rule.id not in waivable():
        return when
    job = f"waivers: {{{rule.id}: {{reason: why it is accepted, until: 2027-06-30}}}}"
    everywhere = f"or an environment, in its file, `severities: {{{rule.id}: off}}`."
    if not is_of_jobs(rule):
        return f"{when} F{everywhere}"
    return f"{when} For a job, in its spec, `{job}`; f{everywhere}"


def since(rule: Documented) -> str:
    """Return the version of another project since which a rule holds; empty if it always did."""
    row = upstream(rule.words.upstream) if rule.words.upstream else None
    return f"{row.project} {row.since}" if row and row.since else ""


def _labelled(label: str, words: str) -> list[str]:
    indent = " " * _LABEL
    return _wrapped(words, initial=f"{label:<{_LABEL}}", rest=indent) if words else []


def _wrapped(words: str, initial: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=initial,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _specs(sample: SpecSample) -> Iterator[str]:
    whole = sample.files(sample.fails)[sample.file]
    yield from _indented(f"{sample.title}, {sample.file}", whole)
    if sample.environment:
        yield from _indented(f"with these lines in {ENVIRONMENT}", sample.environment)
    yield from _indented("With these lines instead it passes", sample.passes)
    for mistake in sample.mistakes:
        yield from _indented(mistake.of, mistake.fails)
        yield from _indented("is reported as", mistake.reported)
        yield from _indented("and passes as", mistake.passes)


def _indented(title: str, lines: str) -> Iterator[str]:
    yield from ("", f"{title}:", "", textwrap.indent(lines, "  ").rstrip())


def _samples(failing: Sample, passing: Sample) -> Iterator[str]:
    yield from _documents("A manifest that fails", failing.objects)
    if failing.environment:
        yield from _documents("in an environment with", (failing.environment,))
    yield from _documents("A manifest that passes", passing.objects)
    if passing.environment != failing.environment:
        yield from _documents("in an environment with", (passing.environment,))


def _edit(title: str, sample: EditSample) -> Iterator[str]:
    yield from _documents(title, (sample.before,))
    if sample.after:
        yield from _documents("becomes", (sample.after,))
    else:
        yield from ("", "is removed from git.")


def _documents(title: str, documents: tuple[Data, ...]) -> Iterator[str]:
    yield from ("", f"{title}:", "")
    yield textwrap.indent("---\n".join(map(dump, documents)), "  ").rstrip()
