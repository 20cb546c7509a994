"""Runs that go on in a pool that became too small for them, and whose next run would not fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from trainwright.datatypes.finding import Finding, Related, Severity
from trainwright.datatypes.pointer import Pointer
from trainwright.findings.diagnostics import CAPACITY
from trainwright.runs.decision import Decision, Sources, Step
from trainwright.specs import capacity

_OF_SIZE = frozenset({"elastic", "nodes", "pool", "resources"})
_TOGETHER = "TW722"  # what CAPACITY says, of the rendered object
_RULES = frozenset({_TOGETHER, "TW728", "TW729"})  # that a node, or a pool, is large enough


def goes_on(decision: Decision) -> bool:
    """Whether a run goes on as it began, asking for as much: then only its pool became smaller."""
    if decision.record is None or decision.step not in (Step.KEEP, Step.ADJUST):
        return False
    resumed = decision.state == "active" != decision.record.state
    return not resumed and not any(_is_of_size(held.path) for held in decision.held)


def _is_of_size(path: Pointer) -> bool:
    parts = path.parts[2:] if path.parts[0] == "roles" else path.parts
    return not parts or parts[0] in _OF_SIZE


def of_spec(errors: Iterable[Finding], sources: Sources, decision: Decision) -> Iterator[Finding]:
    """Yield the errors that a pool is too small as warnings at its lines."""
    shortages = [it for group in sources.job.groups for it in capacity.shortages(group)]
    for error, short in zip(errors, shortages, strict=True):
        yield _warning(error, sources, decision, Pointer.of("pools", short.pool, short.field))


def of_rules(
    findings: Iterable[Finding], sources: Sources, decision: Decision
) -> Iterator[Finding]:
    """Yield the findings of rules, of which those about the size of a pool are warnings."""
    groups = sources.job.groups
    said = any(True for group in groups for _ in capacity.shortages(group))
    pools = {group.pool.name for group in groups if group.pool}
    at = Pointer.of("pools", *(pools if len(pools) == 1 else ()))
    for finding in findings:
        if finding.rule not in _RULES or finding.severity is not Severity.ERROR:
            yield finding
        elif not (said and finding.rule == _TOGETHER):
            yield _warning(finding, sources, decision, at)


def _warning(error: Finding, sources: Sources, decision: Decision, at: Pointer) -> Finding:
    job = f"{sources.job.environment}/{sources.job.name}"
    what = error.message if error.rule == CAPACITY.id else f"would not fit: {error.message}"
    place = sources.document.place(at)
    others = (related for related in error.related if related.place != place)
    return replace(
        error,
        severity=Severity.WARNING,
        place=place,
        path=at,
        message=f"the next run of {job} {what}",
        effect=f"{decision.name} goes on as it is. The pods of another run would stay Pending.",
        remedy="Give the pool what it had, or request less before another run begins.",
        related=(Related("from", f"{job} requests it", error.place), *others),
    )
