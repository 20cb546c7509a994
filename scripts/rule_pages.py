"""Write docs/rules.md and a page per rule below docs/rules/ from the registries.

python scripts/rule_pages.py [--check]
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

import generated
import yaml
from rule_guides import guide
from rule_samples import hits, reported

from trainwright.datatypes.data import Data
from trainwright.findings.diagnostics import DIAGNOSTICS, Diagnostic
from trainwright.reports.rule_text import checks, is_of_jobs, reported_by, since, waiving
from trainwright.rule_model.edit import EditRule, EditSample
from trainwright.rule_model.rule import Rule
from trainwright.rule_model.spec_sample import (
    ENVIRONMENT,
    JOB,
    SpecSample,
    environment_with,
    spec_sample,
)
from trainwright.rules.edits.outcomes import EDIT_RULES
from trainwright.rules.edits.table import reported_by as edits_of
from trainwright.rules.policy import waivable
from trainwright.rules.registry import RULES

DOCS = generated.ROOT / "docs"
COMMAND = "python scripts/rule_pages.py"
Any = Diagnostic | Rule | EditRule
_GENERATED = f"<!-- Generated from the rules by `{COMMAND}`. Do not edit. -->"
_FAMILIES = {
    "0": "Job specs, environments and rendered files",
    "1": "PyTorchJob",
    "2": "TrainJob and training runtimes",
    "3": "JobSet and Job",
    "4": "BreezeML TrainingJob",
    "5": "GitOps",
    "6": "Kueue",
    "7": "Pods",
    "8": "RayJob",
}
_HEAD = """\
What `trainwright check`, `render`, `plan` and `validate` report, by its id. `trainwright explain TW718` prints a page of these in the terminal.

![A finding in the terminal: the line, the value that it contradicts, the effect and the remedy](images/finding.svg)

TW0xx are about the files that you write and those that are rendered; all others look at Kubernetes objects, whether rendered from a job spec or written by hand. Rules with an outcome, such as `ignored`, are about a change of an object that is in the cluster already; `plan` and `validate --against` report them.

## Severities and waivers

| severity | means |
|---|---|
| `error` | nothing is rendered, and `check` exits with 1 |
| `warning` | it is rendered, and most likely fails or wastes accelerators; `--fail-on warning` lets it fail CI |
| `note` | worth a look |
| `off` | the rule is not applied |
| `required` | an error that no job spec may waive |

An environment sets the severity of a rule for all of its jobs, in environment.yaml: `severities: {TW718: error}`. A waiver accepts a finding of one job until a date, with a reason: `waivers` of its job spec, or of environment.yaml. Rules without which nothing can be rendered have neither, as their pages state.

## Samples

Each page has what the rule reports. Of a manifest there is only what the rule reads. A job spec is whole, `environments/prod/jobs/train.yaml`; its environment is this one, with the lines that the page has in place of those of the same keys:
"""  # noqa: E501 - a paragraph is a line, as on the other pages


def pages() -> dict[Path, str]:
    """Every page by its path: the index, and one per rule."""
    every: list[Any] = [*DIAGNOSTICS.values(), *RULES.values(), *EDIT_RULES.values()]
    every.sort(key=lambda rule: rule.id)
    rule_pages = {DOCS / "rules" / f"{rule.id}.md": page(rule) for rule in every}
    return {DOCS / "rules.md": contents(every), **rule_pages}


def contents(every: list[Any]) -> str:
    """The index: one table per family."""
    lines = [_GENERATED, "# Rules", "", _HEAD, *_block("yaml", environment_with(""))]
    for digit, title in _FAMILIES.items():
        head = "| id | severity | name | what must hold |"
        lines += [f"## {title}", "", head, "|---|---|---|---|"]
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
    """One rule: what must hold, what to do, samples, the symptom, waivers, where it was read."""
    parts = [_GENERATED, f"# {rule.id}: {rule.name}", "", rule.summary, "", *_facts(rule), ""]
    parts += ["## Effect", "", rule.effect, "", *_remedy(rule)]
    if sample := spec_sample(rule.id):
        parts += _specs(rule.id, sample)
    if isinstance(rule, Rule):
        parts += _manifests(rule)
    if isinstance(rule, EditRule):
        parts += _step(f"A change that is reported as {rule.verdict.value}", rule.failing)
        parts += _step("A change that is not", rule.passing)
    parts += ["## Symptom", "", rule.symptom, "", *_waiving(rule)]
    sources = dict.fromkeys(map(_link, _sources(rule)))
    if sources:
        parts += ["## Source", "", *(f"* {source}" for source in sources), ""]
    return "\n".join(parts).rstrip() + "\n"


def _facts(rule: Any) -> Iterator[str]:
    yield f"* Severity: [{rule.severity.value}](../rules.md#severities-and-waivers)"
    yield f"* Reported by: {reported_by(rule)}"
    if about := checks(rule):
        yield f"* Checks: {about}"
    if isinstance(rule, EditRule):
        yield f"* Outcome: [{rule.verdict.value}](../edits.md)"
    elif isinstance(rule, Rule) and rule.spec:
        field = rule.spec.dotted
        yield f"* Field of the job spec: [`{field}`](../schema.md#job-{field})"
    if not isinstance(rule, Diagnostic) and (version := since(rule)):
        yield f"* Applies from: {version}"
    yield f"* Guide: {guide(rule)}"


def _remedy(rule: Any) -> Iterator[str]:
    yield from ("## Remedy", "", rule.remedy, "")
    if isinstance(rule, Rule) and rule.by_hand:
        yield from (f"In a manifest without a job spec: {rule.by_hand}", "")


def _specs(key: str, sample: SpecSample) -> Iterator[str]:
    """A whole job spec that fails, what is reported, and the lines that pass instead."""
    yield from (f"## {sample.title}", "")
    place = ", in [this environment](../rules.md#samples)" if sample.file == JOB else ""
    language = "yaml" if sample.file.endswith(".yaml") else "text"
    whole = sample.files(sample.fails)[sample.file]
    yield from (f"`{sample.file}`{place}:", "", *_block(language, whole))
    if sample.environment:
        yield f"Lines of `{ENVIRONMENT}`:"
        yield from ("", *_block("yaml", sample.environment))
    yield from ("`trainwright check` reports:", "", *_block("text", reported(key, sample)))
    yield from ("With these lines instead it passes:", "", *_block(language, sample.passes))
    for mistake in sample.mistakes:
        yield from (f"### {mistake.of}", "", *_block("yaml", mistake.fails))
        yield from ("is reported as", "", *_block("text", mistake.reported))
        yield from ("and passes as", "", *_block("yaml", mistake.passes))


def _manifests(rule: Rule) -> Iterator[str]:
    fails, passes = rule.failing, rule.passing
    yield from ("## A manifest that fails", "", *_yaml(*fails.objects))
    if fails.environment:
        yield from ("in an environment with", "", *_yaml(fails.environment))
    yield from ("is reported as", "", *_block("text", _message(rule)))
    yield from ("and passes as", "", *_yaml(*passes.objects))
    if passes.environment != fails.environment:
        yield from ("in an environment with", "", *_yaml(passes.environment))


def _message(rule: Rule) -> str:
    subject, hit = hits(rule, rule.failing)[0]
    at = f"\n  = in: {subject.manifest.kind} {hit.pointer}" if hit.pointer else ""
    effect = rule.effect_of(hit, subject.kind) or rule.effect
    lines = f"  = effect: {effect}\n  = help: {rule.by_hand or rule.remedy}"
    return f"{rule.severity.value}[{rule.id}]: {hit.message}{at}\n{lines}"


def _block(language: str, text: str) -> Iterator[str]:
    language = "text" if "\t" in text else language  # no tab is YAML, and a page may show one
    yield from (f"```{language}", text.rstrip(), "```", "")


def _yaml(*documents: Data) -> Iterator[str]:
    yield from _block("yaml", _dumped(*documents))


def _dumped(*documents: Data) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False, width=100)


def _step(title: str, step: EditSample) -> Iterator[str]:
    yield from (f"## {title}", "")
    if step.after:
        old, new = (_dumped(one).splitlines() for one in (step.before, step.after))
        changes = list(difflib.unified_diff(old, new, n=100, lineterm=""))[3:]
        yield from _block("diff", "\n".join(changes))
    else:
        yield from ("This object is removed from git:", "", *_yaml(step.before))


def _waiving(rule: Any) -> Iterator[str]:
    yield from ("## When to waive it", "")
    if rule.id not in waivable():
        yield from (waiving(rule), "")
        return
    yield from (waiving(rule), "")
    if is_of_jobs(rule):
        yield from ("For one job, in its spec:", "")
        until = 'reason: "why it is accepted"\n    until: "2027-06-30"'
        yield from _block("yaml", f"waivers:\n  {rule.id}:\n    {until}")
    every = "all jobs of an environment" if is_of_jobs(rule) else "an environment"
    yield from (f"For {every}, in environment.yaml:", "")
    weights = "or note, warning, error" + "; required: no job may waive it" * is_of_jobs(rule)
    yield from _block("yaml", f"severities: {{{rule.id}: off}} # {weights}")


def _sources(rule: Any) -> Iterator[str]:
    if isinstance(rule, Rule | EditRule) and rule.source:
        yield rule.source
    if isinstance(rule, EditRule):
        yield from (edit.source for edit in edits_of(rule.id))


def _link(source: str) -> str:
    """A file of a repository at a tag, as owner/name@tag:path, as a link; others as they are."""
    place, _, path = source.partition(":")
    repository, _, tag = place.partition("@")
    return f"[{source}](https://github.com/{repository}/blob/{tag}/{path})" if tag else source


if __name__ == "__main__":
    generated.pages(__doc__, DOCS / "rules", pages(), COMMAND)
