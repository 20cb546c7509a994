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
from trainwright.documents.yamlio import dump
from trainwright.findings.diagnostics import Diagnostic
from trainwright.reports.report import every_rule, help_uri
from trainwright.rule_model.edit import EditRule, EditSample
from trainwright.rule_model.rule import Rule, Sample
from trainwright.rule_model.rule_file import Documented
from trainwright.rule_model.spec_sample import SpecSample, spec_sample
from trainwright.rules.policy import waivable
from trainwright.specs.upstream import upstream

if TYPE_CHECKING:
    from trainwright.reports.report import AnyRule

_WIDTH, _LABEL = 100, 12


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
        lines += ["", "In a manifest:"] if sample else []
        lines += _samples(rule.failing, rule.passing)
    if isinstance(rule, EditRule):
        lines += [*_edit(f"Is {rule.verdict.value}", rule.failing), *_edit("Is not", rule.passing)]
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
    yield "Otherwise", rule.effect
    yield "What to do", rule.remedy
    yield "To see it", rule.symptom
    yield "To waive it", _waiving(rule)
    if isinstance(rule, Rule):
        yield "By hand", rule.by_hand
        yield "Set by", rule.spec.dotted
    if not isinstance(rule, Diagnostic):
        yield "Since", since(rule)
        yield "Source", rule.source


def _waiving(rule: AnyRule) -> str:
    if rule.id not in waivable():
        return "It cannot be waived."
    job = f"waivers: {{{rule.id}: {{reason: why it is accepted, until: 2027-06-30}}}}"
    severity = f"severities: {{{rule.id}: off}}"
    return f"For one job, in its spec, `{job}`; for an environment, in its file, `{severity}`."


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
    parts = {"In a job spec, this fails": sample.fails, "and this passes": sample.passes}
    parts |= {"in an environment with": sample.environment} if sample.environment else {}
    for title, lines in parts.items():
        yield from _indented(title, lines)
    for mistake in sample.mistakes:
        yield from _indented(mistake.of, mistake.fails)
        yield from _indented("is reported as", mistake.reported)
        yield from _indented("and passes as", mistake.passes)


def _indented(title: str, lines: str) -> Iterator[str]:
    yield from ("", f"{title}:", "", textwrap.indent(lines, "  ").rstrip())


def _samples(failing: Sample, passing: Sample) -> Iterator[str]:
    yield from _documents("Fails", failing.objects)
    if failing.environment:
        yield from _documents("in an environment with", (failing.environment,))
    yield from _documents("Passes", passing.objects)
    if passing.environment != failing.environment:
        yield from _documents("in an environment with", (passing.environment,))


def _edit(title: str, sample: EditSample) -> Iterator[str]:
    yield from _documents(title, (sample.before,))
    if sample.after:
        yield from _documents("becomes", (sample.after,))
    else:
        yield from ("", "is removed from git")


def _documents(title: str, documents: tuple[Data, ...]) -> Iterator[str]:
    yield from ("", f"{title}:", "")
    yield textwrap.indent("---\n".join(map(dump, documents)), "  ").rstrip()
