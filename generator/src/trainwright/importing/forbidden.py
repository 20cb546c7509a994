"""What an environment forbids of an object that runs already: waived by its job, or not adopted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, timedelta

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Finding, Severity
from trainwright.datatypes.layout import JobFile
from trainwright.helm import engines
from trainwright.render import job as render
from trainwright.rules.deception import deceptive_text
from trainwright.rules.policy import JobFindings, apply_policy, waivable
from trainwright.rules.secrets import CREDENTIAL
from trainwright.runs.workspace import Workspace

_DAYS = 90  # that a waiver holds, in which a long training ends or its image gets a digest
_NOT_IN_GIT = (CREDENTIAL, deceptive_text.id)  # in no file, whatever runs


def errors(workspace: Workspace, file: JobFile, today: str, *, over: bool) -> tuple[Finding, ...]:
    """Return what would keep a job from being rendered that adopts an object in a workspace.

    Of one that is `over` nothing is rendered, and only what may be in no file is an error.
    """
    context = render.Context(engine=engines.engine(), check_next_runs=False)
    done = render.alone(workspace.resolve(file), context)
    found = JobFindings(file.name, done.findings, done.waivers)
    remaining = apply_policy(workspace.environment(file.environment), [found], today, whole=False)
    return tuple(
        finding
        for finding in remaining
        if finding.severity is Severity.ERROR and finding.subject == str(file)
        if not over or finding.rule in _NOT_IN_GIT
    )


def waivers(findings: Iterable[Finding], title: str, today: str) -> dict[str, Data]:
    """Return the waivers of these findings as a job has them, by rule."""
    until = (date.fromisoformat(today) + timedelta(days=_DAYS)).isoformat()
    reason = f"{title} was in the cluster before it was adopted"
    return {
        rule: {"reason": reason, "until": until}
        for rule in sorted({finding.rule for finding in findings})
    }


def refusals(findings: Iterable[Finding], environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield why no waiver of the job can let it pass, with the pointer into the object."""
    for finding in findings:
        if finding.rule in _NOT_IN_GIT or finding.rule not in waivable():
            way = f"{finding.remedy} For its next run, `trainwright import` its manifest"
        elif environment.requires(finding.rule):
            place = environment.severities[finding.rule].place
            way = (
                f"{place} lets no job waive {finding.rule}: let who keeps that file waive it there "
                "for this job, or adopt nothing and `trainwright import` it for its next run"
            )
        else:
            continue
        yield finding.pointer, f"{finding.message} [{finding.rule}]. {way}"
