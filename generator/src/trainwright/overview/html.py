"""The report as a single HTML file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import timedelta

from trainwright.datatypes.data import Data
from trainwright.datatypes.listing import plural
from trainwright.kinds import TARGETS
from trainwright.overview.goodput import PARTS, RunGoodput, total_ettr
from trainwright.overview.limits import limits
from trainwright.overview.model import EnvironmentOverview, JobOverview, Overview
from trainwright.overview.timeline import timeline
from trainwright.overview.trouble import troubles
from trainwright.plan import words
from trainwright.plan.html import cause_data, requests
from trainwright.plan.table import columns
from trainwright.reports.attention import Attention, by_job, shown
from trainwright.reports.page import AuthoredLines, document, finding_data, rows
from trainwright.reports.report import by_weight
from trainwright.reports.style import Style


def render(overview: Overview, style: Style) -> str:
    """The page, the same bytes for the same repository and time."""
    lines = AuthoredLines(overview.sources)
    teams = {str(item.file): item.job.team for item in overview.jobs if item.job}
    trouble = troubles(overview)
    needs = by_job(trouble)
    unread = {item.environment for item in overview.unread}
    jobs = [
        {
            **_job(job, item, needs.get(str(job.file), ()), lines),
            "live": _live(job, unread=item.name in unread),
        }
        for item, job in _worst_first(overview, needs)
    ]
    data = {
        "environments": [item.title for item in overview.environments],
        "teams": sorted({*teams.values()} - {""}),
        "needs": [item.kind for item in trouble if item.of_jobs],
        "jobs": jobs,
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
        verdict=_verdict(overview, trouble),
        tone=next((item.concern.tone for item in trouble), ""),
        summary=_states(overview),
        facts=[
            (name, value)
            for name, value in (("commit", overview.commit[:10]), ("written", overview.written))
            if value
        ],
        attention=shown(trouble, "state"),
        limits=limits(overview),
        environments=_environments(overview, needs),
        timeline=timeline(overview),
        **rows(jobs, "status", "tone", "job", "team", "asked", "why", "object"),
    )


def _verdict(overview: Overview, trouble: Sequence[Attention]) -> str:
    needs = [f"{len(item.items):,} {item.kind}" for item in trouble] or ["Nothing needs attention"]
    jobs = len(overview.jobs)
    environments = sum(not item.removed for item in overview.environments)
    return " · ".join((*needs, f"{plural(jobs, 'job')} in {plural(environments, 'environment')}"))


def _states(overview: Overview) -> str:
    states = Counter(job.run.state.value for job in overview.jobs)
    return " · ".join(f"{count:,} {state}" for state, count in states.most_common())


def _worst_first(
    overview: Overview, needs: Mapping[str, Sequence[Attention]]
) -> Sequence[tuple[EnvironmentOverview, JobOverview]]:
    """Return all jobs with their environments, in the order of what they need."""
    ranks = {name: rank for rank, name in enumerate(needs)}
    jobs = [(environment, job) for environment in overview.environments for job in environment.rows]
    return sorted(jobs, key=lambda it: ranks.get(str(it[1].file), len(ranks)))


def _environments(overview: Overview, needs: Mapping[str, Sequence[Attention]]) -> Data:
    """Return the table of environments, without empty columns."""
    heads, rows = columns(
        _HEADS,
        [tuple(_environment(environment, needs.keys())) for environment in overview.environments],
    )
    return {"heads": heads, "rows": rows}


_HEADS = ("environment", "jobs", "need attention", "GPUs", "GPU-hours", "cost", "ETTR")


def _environment(environment: EnvironmentOverview, needing: Set[str]) -> Iterator[Data]:
    """Yield the cells of an environment's row; None for an empty one."""
    yield _cell(environment.title, environment.name)
    yield _cell(f"{len(environment.jobs):,}", len(environment.jobs))
    needs = sum(str(job.file) in needing for job in environment.rows)
    yield _cell(f"{needs:,}", needs) if needs else None
    for demand in (environment.active.gpus, environment.active.hours):
        yield _cell(words.span(demand), demand.high) if demand else None
    cost = environment.active.cost
    yield _cell(words.money(cost, environment.currency), cost.high) if cost else None
    reports = [report for job in environment.jobs for report in job.goodput]
    ettr = total_ettr(reports)
    runs = plural(len(reports), "run")
    yield _cell(f"{ettr:.3f} of {runs}", ettr) if ettr is not None else None


def _cell(text: str, sort: Data) -> Data:
    """Return a table cell: a text, and the value by which its column is sorted."""
    return {"text": text, "sort": sort}


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
    environment: EnvironmentOverview,
    needs: Sequence[Attention],
    lines: AuthoredLines,
) -> dict[str, Data]:
    job = job_overview.job
    return {
        "job": str(job_overview.file),
        "environment": environment.title,
        "file": job_overview.file.path,
        "state": job_overview.run.state.value,
        "status": job_overview.status,
        "object": job_overview.run.object,
        "target": job_overview.run.target,
        "image": job.image.reference if job else "",
        "pool": job.pool.name if job and job.pool else "",
        "queue": job.queue if job else "",
        "team": job.team if job else "",
        "asked": requests(
            job_overview.held, environment.currency if job_overview.held.cost else ""
        ),
        "gpus": job_overview.held.gpus.high,
        "hours": job_overview.held.hours.high,
        "needs": [item.kind for item in needs],
        "tone": next((item.concern.tone for item in needs), ""),
        "why": [
            ": ".join(filter(None, (kind.kind, item.why))) for kind in needs for item in kind.items
        ],
        "commands": [run.command for run in job_overview.left],
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


def _live(job_overview: JobOverview, *, unread: bool) -> Data:
    """Return the job's state in the cluster; None if it was not asked or has nothing of the job."""
    if job_overview.live is None:
        target = TARGETS.get(job_overview.run.target)
        wanted = unread and target is not None and target.of.is_served
        return {"phase": "not read", "reason": "", "message": ""} if wanted else None
    state = job_overview.live.state
    return {"phase": state.phase.value, "reason": state.reason, "message": state.message}
