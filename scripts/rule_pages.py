"""Write docs/rules.md and a page a rule below docs/rules/ from the registries.

python scripts/rule_pages.py [--check]
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import generated
import yaml

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Severity
from trainwright.findings.diagnostics import DIAGNOSTICS, Diagnostic
from trainwright.reports.rule_text import since
from trainwright.rule_model.edit import EditRule, EditSample
from trainwright.rule_model.rule import Rule, Sample
from trainwright.rule_model.spec_sample import SpecSample, spec_sample
from trainwright.rules.edits.outcomes import EDIT_RULES
from trainwright.rules.edits.table import reported_by
from trainwright.rules.policy import waivable
from trainwright.rules.registry import RULES

DOCS = generated.ROOT / "docs"
COMMAND = "python scripts/rule_pages.py"
Any = Diagnostic | Rule | EditRule
_GENERATED = f"<!-- Generated from the rules by `{COMMAND}`. Do not edit. -->"
_FAMILIES = {
    "0": "What people write, and how files override each other",
    "1": "PyTorchJob",
    "2": "TrainJob and training runtimes",
    "3": "JobSet and Job",
    "4": "BreezeML TrainingJob",
    "5": "GitOps",
    "6": "Kueue",
    "7": "Pods",
    "8": "RayJob",
}


def pages() -> dict[Path, str]:
    """Every page by its path: the index, and one a rule."""
    every: list[Any] = [*DIAGNOSTICS.values(), *RULES.values(), *EDIT_RULES.values()]
    every.sort(key=lambda rule: rule.id)
    rule_pages = {DOCS / "rules" / f"{rule.id}.md": page(rule) for rule in every}
    return {DOCS / "rules.md": contents(every), **rule_pages}


def contents(every: list[Any]) -> str:
    """The index: one table per family."""
    lines = [
        _GENERATED,
        "# Rules",
        "",
        "Most rules look at what is rendered; TW0xx look at what people write, and those marked",
        "with a verdict look at an edit of a live object. Unless a rule states that it",
        "cannot be waived, its severity is set in environment.yaml (`severities`), and it is",
        "waived there or in a job spec (`waivers`), with a reason and a date. A severity of",
        "`required` is an error that no job spec may waive.",
        "`trainwright explain TW718` prints a page of these in the terminal.",
        "",
    ]
    for digit, title in _FAMILIES.items():
        lines += [f"## {title}", "", "| id | severity | name | what holds |", "|---|---|---|---|"]
        for rule in every:
            if rule.id[2] == digit:
                weight = rule.severity.value
                if isinstance(rule, EditRule):
                    weight += f", {rule.verdict.value}"
                link = f"[{rule.id}](rules/{rule.id}.md)"
                lines.append(f"| {link} | {weight} | {rule.name} | {rule.summary} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def page(rule: Any) -> str:
    """One rule: what holds, why, samples, what to do, how to waive it, where it was read."""
    parts = [_GENERATED, f"# {rule.id}: {rule.name}", "", *_facts(rule), "", rule.summary, ""]
    parts += ["## Why", "", rule.effect, "", "## How to see it", "", rule.symptom, ""]
    if sample := spec_sample(rule.id):
        parts += [*_specs(sample), "## What to do", "", rule.remedy, ""]
    if isinstance(rule, Rule):
        parts += [*_sample("A manifest that fails", rule.failing)]
        parts += _samples("Manifests that fail as well", rule.variants)
        parts += [*_sample("A manifest that passes", rule.passing)]
        parts += _samples("Manifests that pass as well", rule.near_misses)
    if isinstance(rule, EditRule):
        title = f"Is {rule.verdict.value}"
        parts += [*_step(title, rule.failing), *_step("Is not", rule.passing)]
    if not sample:
        parts += ["## What to do", "", rule.remedy, ""]
    if isinstance(rule, Rule) and rule.by_hand:
        parts += [f"In a manifest without a job spec: {rule.by_hand}", ""]
    parts += _waiving(rule)
    sources = dict.fromkeys(_sources(rule))
    if sources:
        parts += ["## Source", "", *(f"* {source}" for source in sources), ""]
    return "\n".join(parts).rstrip() + "\n"


def _facts(rule: Any) -> Iterator[str]:
    yield f"* Severity: {rule.severity.value}"
    if not isinstance(rule, Diagnostic) and (version := since(rule)):
        yield f"* Since: {version}"
    if isinstance(rule, EditRule):
        yield f"* Verdict: {rule.verdict.value}"
        kinds = sorted({str(kind) for edit in reported_by(rule.id) for kind in edit.kinds})
        yield f"* Looks at changes of: {', '.join(kinds) or 'any object'}"
        yield "* Fields, and how it is known: [the table of edits](../edits.md)"
    elif isinstance(rule, Rule):
        yield f"* Looks at: {', '.join(map(str, rule.kinds)) or 'any object'}"
        if rule.spec:
            yield f"* Set by: `{rule.spec.dotted}` of a job spec"


def _specs(sample: SpecSample) -> Iterator[str]:
    """The lines of job specs, as people write them."""
    yield from ("## A job spec that fails", "", "```yaml", sample.fails.rstrip(), "```", "")
    if sample.environment:
        yield from ("in an environment with", "", "```yaml", sample.environment.rstrip(), "```", "")
    yield from ("## A job spec that passes", "", "```yaml", sample.passes.rstrip(), "```", "")
    for mistake in sample.mistakes:
        yield from (f"## {mistake.of}", "", "```yaml", mistake.fails.rstrip(), "```", "")
        yield from ("is reported as", "", "```text", mistake.reported, "```", "")
        yield from ("and passes as", "", "```yaml", mistake.passes.rstrip(), "```", "")


def _sample(title: str, sample: Sample) -> Iterator[str]:
    yield from (f"## {title}", "", *_yaml(*sample.objects))
    if sample.environment:
        yield from ("in an environment with", "", *_yaml(sample.environment))


def _samples(title: str, samples: tuple[Sample, ...]) -> Iterator[str]:
    if samples:
        yield from (f"## {title}", "")
    for sample in samples:
        yield from _yaml(*sample.objects)


def _yaml(*documents: Data) -> Iterator[str]:
    yield "```yaml"
    yield yaml.safe_dump_all(documents, sort_keys=False, width=100).rstrip()
    yield from ("```", "")


def _step(title: str, step: EditSample) -> Iterator[str]:
    yield from (f"## {title}", "", *_yaml(step.before))
    if step.after:
        yield from ("becomes", "", *_yaml(step.after))
    else:
        yield from ("is removed from git.", "")


def _waiving(rule: Any) -> Iterator[str]:
    yield from ("## How to waive it", "")
    if rule.id not in waivable():
        why = ": without it nothing is rendered" if rule.severity is Severity.ERROR else ""
        yield from (f"It cannot be waived{why}.", "")
        return
    yield "For one job, in its spec:"
    yield from ("", "```yaml", "waivers:", f"  {rule.id}:")
    yield from ('    reason: "why it is accepted"', '    until: "2027-06-30"', "```", "")
    yield "For a whole environment, in environment.yaml:"
    yield from (
        "",
        "```yaml",
        f"severities: {{{rule.id}: off}} # or note, warning, error; required: no job may waive it",
        "```",
        "",
    )


def _sources(rule: Any) -> Iterator[str]:
    if isinstance(rule, Rule | EditRule) and rule.source:
        yield rule.source
    if isinstance(rule, EditRule):
        yield from (edit.source for edit in reported_by(rule.id))


if __name__ == "__main__":
    generated.pages(__doc__, DOCS / "rules", pages(), COMMAND)
