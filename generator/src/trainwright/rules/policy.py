"""The findings that remain after an environment's severities and people's waivers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache

from trainwright.datatypes.environment import Environment, Waiver
from trainwright.datatypes.finding import Finding, Related, Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.findings import diagnostics as dx


@cache
def waivable() -> frozenset[str]:
    """Return the IDs that may be waived or given another severity: all but those of mistakes that
    keep anything from being rendered.

    Asked only where something is waived or weighted: every rule there is costs 80 ms to import.
    """
    from trainwright.rules.edits.outcomes import EDIT_RULES
    from trainwright.rules.registry import RULES

    diagnostics = (d.id for d in dx.DIAGNOSTICS.values() if d.waivable)
    return frozenset((*RULES, *EDIT_RULES, *diagnostics))


@dataclass(frozen=True, slots=True)
class JobFindings:
    """One job's findings with the waivers from its own spec."""

    job: str
    findings: tuple[Finding, ...]
    waivers: tuple[Waiver, ...]


def apply_policy(
    environment: Environment, jobs: Iterable[JobFindings], today: str, *, whole: bool
) -> tuple[Finding, ...]:
    """Return the findings that remain, and those about the waivers themselves.

    `today` is an ISO date. Waivers in environment.yaml are only reported as unused if the
    `whole` environment was checked.
    """
    used: set[Waiver] = set()
    findings: list[Finding] = []
    for job in jobs:
        own, refused = _permitted(environment, job.waivers)
        waivers = (*own, *applying(environment.waivers, job.job))
        findings.extend(_remaining(job.findings, environment, waivers, today, used))
        subject = f"{environment.name}/{job.job}"
        findings.extend(_about(_by_rule(own), today, used, subject))
        findings.extend(_refused(environment, _by_rule(refused), subject))
    shared = {Pointer.of("waivers", index): it for index, it in enumerate(environment.waivers)}
    meant = used if whole else used | set(environment.waivers)
    about = _about(shared, today, meant, environment.name)
    return (*findings, *about, *_unknown_severities(environment))


def _by_rule(waivers: tuple[Waiver, ...]) -> dict[Pointer, Waiver]:
    """Return the waivers of a job spec by where they are in it."""
    return {Pointer.of("waivers", waiver.rule): waiver for waiver in waivers}


def waived(environment: Environment, job: JobFindings, today: str) -> tuple[Waiver, ...]:
    """Return the waivers of a job's own spec that waive a finding of it."""
    used: set[Waiver] = set()
    own, _ = _permitted(environment, job.waivers)
    for _ in _remaining(job.findings, environment, own, today, used):
        pass
    return tuple(waiver for waiver in own if waiver in used and waiver.holds(today))


def _permitted(
    environment: Environment, waivers: tuple[Waiver, ...]
) -> tuple[tuple[Waiver, ...], tuple[Waiver, ...]]:
    """Return the waivers of a job spec that its environment permits, and those that it does not."""
    refused = tuple(waiver for waiver in waivers if environment.requires(waiver.rule))
    return tuple(waiver for waiver in waivers if waiver not in refused), refused


def _refused(
    environment: Environment, waivers: Mapping[Pointer, Waiver], subject: str
) -> Iterator[Finding]:
    """Yield a finding for each waiver of a rule that the environment requires."""
    for path, waiver in waivers.items():
        if waiver.rule in waivable():
            required = environment.severities[waiver.rule].place
            yield dx.UNKNOWN_RULE.at(
                waiver.place,
                f"no job of {environment.name} may waive {waiver.rule}, which {required} requires",
                subject=subject,
                path=path,
                remedy="Mend the finding, or ask who keeps environment.yaml to waive it there.",
                related=(Related("requires", waiver.rule, required),),
            )


def applying(waivers: tuple[Waiver, ...], job: str) -> Iterator[Waiver]:
    """Return the waivers of an environment that are meant for a job."""
    return (waiver for waiver in waivers if fnmatchcase(job, waiver.job))


def _remaining(
    findings: tuple[Finding, ...],
    environment: Environment,
    waivers: tuple[Waiver, ...],
    today: str,
    used: set[Waiver],
) -> Iterator[Finding]:
    """Yield findings that are not waived, with the severities of the environment."""
    for finding in findings:
        matching = [w for w in waivers if w.rule == finding.rule and finding.rule in waivable()]
        used.update(matching)
        if any(waiver.holds(today) for waiver in matching):
            continue
        weight = environment.severities.get(finding.rule)
        if weight is None or finding.rule not in waivable():
            yield finding
        elif weight.severity is not Severity.OFF:
            yield replace(finding, severity=weight.severity)


def _about(
    waivers: Mapping[Pointer, Waiver], today: str, used: set[Waiver], subject: str
) -> Iterator[Finding]:
    """Yield a finding for each waiver that expired, waives nothing, or is of no waivable rule."""
    for path, waiver in waivers.items():
        if waiver.rule not in waivable():
            message = f"{waiver.rule} is not a rule that can be waived"
            yield dx.UNKNOWN_RULE.at(waiver.place, message, subject=subject, path=path)
        elif not waiver.holds(today):
            message = f"the waiver of {waiver.rule} expired on {waiver.until}"
            yield dx.WAIVER_EXPIRED.at(waiver.place, message, subject=subject, path=path)
        elif waiver not in used:
            message = f"the waiver of {waiver.rule} waives nothing"
            yield dx.WAIVER_UNUSED.at(waiver.place, message, subject=subject, path=path)


def _unknown_severities(environment: Environment) -> Iterator[Finding]:
    for rule, weight in environment.severities.items():
        if rule not in waivable():
            message = f"{rule} is not a rule whose severity can be set"
            yield dx.UNKNOWN_RULE.at(weight.place, message, subject=environment.name)
