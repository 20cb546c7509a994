"""Write docs/rules.md from the registries of rules and diagnostics.

python scripts/rule_pages.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trainwright.diagnostics import DIAGNOSTICS, Diagnostic
from trainwright.rules import RULES
from trainwright.rules.rule import Rule, Sample

PAGE = Path(__file__).resolve().parents[1] / "docs" / "rules.md"
COMMAND = "python scripts/rule_pages.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="fail when the page is out of date")
    check = parser.parse_args().check
    wanted = page()
    if not check:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(wanted, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted:
        sys.exit(f"docs/rules.md is out of date: run {COMMAND}")


def page() -> str:
    """The whole page: a table of everything, then a section each."""
    every: list[Diagnostic | Rule] = [*DIAGNOSTICS.values(), *RULES.values()]
    rows = [
        f"| [{r.id}](#{r.id.lower()}) | {r.severity.value} | {r.name} | {r.summary} |"
        for r in every
    ]
    parts = [
        f"<!-- Generated from the rules by `{COMMAND}`. Do not edit. -->",
        "# Rules",
        "",
        "TW0xx are about what people write; they cannot be waived. The others are about what is",
        "rendered: their severity is set in environment.yaml (`severities`), and they are waived",
        "there or in a job spec (`waivers`), with a reason and a date.",
        "",
        "| id | severity | name | what holds |",
        "|---|---|---|---|",
        *rows,
        "",
    ]
    parts += [section(rule) for rule in every]
    return "\n".join(parts).rstrip() + "\n"


def section(rule: Diagnostic | Rule) -> str:
    """One rule: what holds, what happens otherwise, what to do, and both samples."""
    lines = [f"## {rule.id}", "", f"**{rule.name}** ({rule.severity.value}). {rule.summary}", ""]
    if rule.effect:
        lines += [f"Otherwise: {rule.effect}", ""]
    lines += [f"What to do: {rule.remedy}", ""]
    if isinstance(rule, Rule):
        lines += [*_sample("Fails", rule.failing), *_sample("Passes", rule.passing)]
        lines += [f"Source: {rule.source}", ""] if rule.source else []
    return "\n".join(lines)


def _sample(title: str, sample: Sample) -> list[str]:
    lines = [f"{title}:", "", "```yaml", sample.manifest]
    if sample.environment:
        lines += ["# environment.yaml", sample.environment]
    return [*lines, "```", ""]


if __name__ == "__main__":
    main()
