"""The report as a single HTML file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from datetime import timedelta
from urllib.parse import urlencode

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Severity
from trainwright.datatypes.listing import plural
from trainwright.kinds import TARGETS
from trainwright.overview.goodput import PARTS, RunGoodput, total_ettr
from trainwright.overview.model import EnvironmentOverview, JobOverview, Overview
from trainwright.overview.timeline import timeline
from trainwright.overview.trouble import Trouble, troubles
from trainwright.plan import words
from trainwright.plan.html import cause_data
from trainwright.plan.table import columns
from trainwright.reports.page import AuthoredLines, document, finding_data
from trainwright.reports.report import by_weight
from trainwright.reports.style import Style

_NAMED = 3  # of each kind of trouble, with what is wrong; the list has all


def render(overview: Overview, style: Style) -> str:
    """The page, the same bytes for the same repository and time."""
    lines = AuthoredLines(overview.sources)
    teams = {str(item.file): _team(item) for item in overview.jobs}
    errors = sum(finding.severity is Severity.ERROR for finding in overview.findings)
    trouble = troubles(overview)
    needs = _needs(trouble)
    unread = {item.environment for item in overview.unread}
    data = {
        "environments": [item.name for item in overview.environments],
        "hours": max((job.demand.hours.high for job in overview.jobs), default=0),
        "jobs": [
            {
                **_job(job, item.currency, needs, lines),
                "live": _live(job, unread=item.name in unread),
            }
            for item in overview.environments
            for job in item.jobs
        ],
        "events": [
            {
                "commit": event.commit,
                "when": event.when,
                "subject": event.subject,
                "job": str(event.file),
                "object": event.object,
                "what": event.what,
            }
            for event in overview.events
        ],
        "findings": [finding_data(item, lines, teams) for item in by_weight(overview.findings)],
    }
    return document(
        "report",
        "Report of training jobs",
        style,
        data,
        verdict=_verdict(overview, errors),
        tone="danger" if errors else "",
        facts=[
            (name, value)
            for name, value in (("commit", overview.commit[:10]), ("written", overview.written))
            if value
        ],
        trouble=[_trouble(item) for item in trouble],
        environments=_environments(overview, needs),
        timeline=timeline(overview),
    )


def _verdict(overview: Overview, errors: int) -> str:
    states = Counter(job.run.state.value for job in overview.jobs)
    held = sum(bool(job.run.held) for job in overview.jobs)
    parts = [f"{len(overview.environments):,} environments, {len(overview.jobs):,} jobs"]
    parts += [f"{count:,} {state}" for state, count in sorted(states.items())]
    parts += [f"{held:,} outdated"] if held else []
    parts += [plural(errors, "error")] if errors else []
    return " · ".join(parts)


def _needs(trouble: tuple[Trouble, ...]) -> Mapping[str, tuple[str, ...]]:
    """The kinds of trouble that each job has, by its name."""
    kinds_by_job: dict[str, tuple[str, ...]] = {}
    for problem in trouble:
        for item in problem.items if problem.of_jobs else ():
            kinds_by_job[item.name] = (*kinds_by_job.get(item.name, ()), problem.kind)
    return kinds_by_job


def _trouble(problem: Trouble) -> Data:
    more = len(problem.items) - _NAMED
    return {
        "kind": problem.kind,
        "tone": problem.tone,
        "count": f"{len(problem.items):,}",
        "link": f"#{urlencode({'state': problem.kind})}" if problem.of_jobs else "",
        "named": [{"name": it.name, "why": it.why} for it in problem.items[:_NAMED]],
        "more": f"{more:,}" if more > 0 else "",
    }


def _environments(overview: Overview, needs: Mapping[str, tuple[str, ...]]) -> Data:
    """Return the table of environments, without empty columns."""
    heads, rows = columns(
        _HEADS,
        [tuple(_environment(environment, needs.keys())) for environment in overview.environments],
    )
    return {"heads": heads, "rows": rows}


_HEADS = ("environment", "jobs", "need attention", "GPUs", "GPU-hours", "cost", "ETTR", "limits")


def _environment(environment: EnvironmentOverview, needing: Set[str]) -> Iterator[Data]:
    """Yield the cells of an environment's row; None for an empty one."""
    yield _cell(environment.name, environment.name)
    yield _cell(f"{len(environment.jobs):,}", len(environment.jobs))
    needs = sum(str(job.file) in needing for job in environment.jobs)
    yield _cell(f"{needs:,}", needs) if needs else None
    for demand in (environment.active.gpus, environment.active.hours):
        yield _cell(words.span(demand), demand.high) if demand else None
    cost = environment.active.cost
    yield _cell(words.money(cost, environment.currency), cost.high) if cost else None
    reports = [report for job in environment.jobs for report in job.goodput]
    ettr = total_ettr(reports)
    runs = plural(len(reports), "run")
    yield _cell(f"{ettr:.3f} of {runs}", ettr) if ettr is not None else None
    fullest = max((fit.need / fit.has if fit.has else 0 for fit in environment.fits), default=0)
    yield (
        _cell("", fullest, [words.bar(fit) for fit in environment.fits])
        if environment.fits
        else None
    )


def _cell(text: str, sort: Data, bars: Data = ()) -> Data:
    """Return a table cell: a text or bars, and the value by which its column is sorted."""
    return {"text": text, "sort": sort, "bars": bars}


def _goodput(report: RunGoodput) -> Data:
    """A run's goodput, and its parts that took any time as shares of all."""
    shares = [(part, report.split[part] / report.wall) for part in PARTS if report.split[part] > 0]
    return {
        "object": report.object,
        "goodput": f"{report.goodput:.3f}",
        "ettr": f"{report.ettr:.3f}",
        "mpg": "" if report.mpg is None else f"{report.mpg:.3f}",
        "time": str(timedelta(seconds=round(report.seconds))),
        "restarts": report.restarts,
        "parts": [
            {"name": part, "width": round(100 * share, 2), "share": f"{share:.1%}"}
            for part, share in shares
        ],
        "failures": list(report.failures),
    }


def _job(
    job_overview: JobOverview,
    currency: str,
    needs: Mapping[str, tuple[str, ...]],
    lines: AuthoredLines,
) -> Data:
    job = job_overview.job
    return {
        "job": str(job_overview.file),
        "environment": job_overview.file.environment,
        "file": job_overview.file.path,
        "state": job_overview.run.state.value,
        "status": job_overview.run.status,
        "object": job_overview.run.object,
        "target": job_overview.run.target,
        "image": job.image.reference if job else "",
        "pool": job.pool.name if job and job.pool else "",
        "queue": job.queue if job else "",
        "asked": ", ".join(words.asked(job_overview.demand, currency)),
        "hours": job_overview.demand.hours.high,
        "needs": needs.get(str(job_overview.file), ()),
        "held": [cause_data(held, lines) for held in job_overview.run.held],
        "finished": [
            {
                "object": entry.object,
                "outcome": entry.outcome,
                "date": entry.finished,
                "reason": " ".join(filter(None, (entry.reason, entry.note))),
            }
            for entry in job_overview.finished
        ],
        "goodput": [_goodput(report) for report in job_overview.goodput],
        "roles": list(_roles(job_overview)),
    }


def _roles(job_overview: JobOverview) -> Iterator[Data]:
    """Yield the roles of a job; how many of their pods are ready where the cluster was read."""
    for role in job_overview.job.roles if job_overview.job else ():
        assert role.role is not None
        pods = [
            pod
            for pod in (job_overview.live.pods if job_overview.live else ())
            if pod.role == role.role.name
        ]
        yield {
            "role": role.role.name,
            "nodes": f"{role.nodes:,}",
            "gpus": f"{role.nodes * role.resources.gpu:,}",
            "pool": role.pool.name if role.pool else "",
            "image": role.image.reference,
            "ready": f"{sum(pod.ready for pod in pods)}/{role.nodes}" if pods else "",
        }


def _team(job_overview: JobOverview) -> str:
    """Return the team that a job belongs to: its label `team`, or else its queue."""
    return (
        (job_overview.job.labels.get("team") or job_overview.job.queue or "")
        if job_overview.job
        else ""
    )


def _live(job_overview: JobOverview, *, unread: bool) -> Data:
    """Return the job's state in the cluster; None if it was not asked or has nothing of the job."""
    if job_overview.live is None:
        target = TARGETS.get(job_overview.run.target)
        wanted = unread and target is not None and target.of.is_served
        return {"phase": "not read", "reason": "", "message": ""} if wanted else None
    state = job_overview.live.state
    return {"phase": state.phase.value, "reason": state.reason, "message": state.message}
