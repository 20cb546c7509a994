"""The report as one file for a browser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from datetime import timedelta
from urllib.parse import urlencode

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.listing import plural
from trainwright.kinds import TARGETS
from trainwright.overview.goodput import PARTS, RunGoodput, total_ettr
from trainwright.overview.model import EnvironmentOverview, JobOverview, Overview
from trainwright.overview.timeline import timeline
from trainwright.overview.trouble import Trouble, troubles
from trainwright.plan import words
from trainwright.plan.html import cause_data
from trainwright.plan.model import Cause
from trainwright.plan.table import columns
from trainwright.reports.page import AuthoredLines, document, finding_data
from trainwright.reports.report import by_weight

_NAMED = 3  # of each kind of trouble, with what is wrong; the list has all


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """`command` gives the same report again; `link` is an address that paths are added to.

    `written` is when, for people.
    """

    command: str
    link: str = ""
    commit: str = ""
    written: str = ""


def render(found: Overview, style: Style) -> str:
    """The page, the same bytes for the same repository and time."""
    lines = AuthoredLines(found.sources)
    teams = {str(one.file): _team(one) for one in found.jobs}
    errors = sum(finding.severity is Severity.ERROR for finding in found.findings)
    trouble = troubles(found)
    needs = _needs(trouble)
    unread = {one.environment for one in found.unread}
    data = {
        "link": style.link if style.link.startswith(("https://", "http://")) else "",
        "environments": [one.name for one in found.environments],
        "hours": max((job.demand.hours.high for job in found.jobs), default=0),
        "jobs": [
            {
                **_job(job, one.currency, needs, lines),
                "live": _live(job, unread=one.name in unread),
            }
            for one in found.environments
            for job in one.jobs
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
            for event in found.events
        ],
        "findings": [finding_data(one, lines, teams) for one in by_weight(found.findings)],
    }
    return document(
        "report",
        "Report of training jobs",
        data,
        verdict=_verdict(found, errors),
        tone="danger" if errors else "",
        facts=[
            (name, value)
            for name, value in (("commit", style.commit[:10]), ("written", style.written))
            if value
        ],
        trouble=[_trouble(one) for one in trouble],
        environments=_environments(found, needs),
        timeline=timeline(found),
        command=style.command,
    )


def _verdict(found: Overview, errors: int) -> str:
    states = Counter(job.run.state.value for job in found.jobs)
    held = sum(bool(job.run.held) for job in found.jobs)
    parts = [f"{len(found.environments):,} environments, {len(found.jobs):,} jobs"]
    parts += [f"{count:,} {state}" for state, count in sorted(states.items())]
    parts += [f"{held:,} outdated"] if held else []
    parts += [plural(errors, "error")] if errors else []
    return " · ".join(parts)


def _needs(trouble: tuple[Trouble, ...]) -> Mapping[str, tuple[str, ...]]:
    """The kinds of trouble that each job has, by its name."""
    found: dict[str, tuple[str, ...]] = {}
    for one in trouble:
        for item in one.items if one.of_jobs else ():
            found[item.name] = (*found.get(item.name, ()), one.kind)
    return found


def _trouble(one: Trouble) -> Data:
    more = len(one.items) - _NAMED
    return {
        "kind": one.kind,
        "tone": one.tone,
        "count": f"{len(one.items):,}",
        "link": f"#{urlencode({'state': one.kind})}" if one.of_jobs else "",
        "named": [{"name": it.name, "why": it.why} for it in one.items[:_NAMED]],
        "more": f"{more:,}" if more > 0 else "",
    }


def _environments(found: Overview, needs: Mapping[str, tuple[str, ...]]) -> Data:
    """The table of environments, without columns in which nothing is."""
    heads, rows = columns(
        _HEADS, [tuple(_environment(one, needs.keys())) for one in found.environments]
    )
    return {"heads": heads, "rows": rows}


_HEADS = ("environment", "jobs", "need attention", "GPUs", "GPU-hours", "cost", "ETTR", "limits")


def _environment(one: EnvironmentOverview, needing: Set[str]) -> Iterator[Data]:
    """The cells of a row; empty ones are None."""
    yield _cell(one.name, one.name)
    yield _cell(f"{len(one.jobs):,}", len(one.jobs))
    needs = sum(str(job.file) in needing for job in one.jobs)
    yield _cell(f"{needs:,}", needs) if needs else None
    for asked in (one.active.gpus, one.active.hours):
        yield _cell(words.span(asked), asked.high) if asked else None
    cost = one.active.cost
    yield _cell(words.money(cost, one.currency), cost.high) if cost else None
    reports = [report for job in one.jobs for report in job.goodput]
    ettr = total_ettr(reports)
    runs = plural(len(reports), "run")
    yield _cell(f"{ettr:.3f} of {runs}", ettr) if ettr is not None else None
    fullest = max((fit.need / fit.has if fit.has else 0 for fit in one.fits), default=0)
    yield _cell("", fullest, [words.bar(fit) for fit in one.fits]) if one.fits else None


def _cell(text: str, sort: Data, bars: Data = ()) -> Data:
    """A text, or bars, with what its column is sorted by."""
    return {"text": text, "sort": sort, "bars": bars}


def _goodput(one: RunGoodput) -> Data:
    """A run's goodput, and its parts that took any time as shares of all."""
    shares = [(part, one.split[part] / one.wall) for part in PARTS if one.split[part] > 0]
    return {
        "object": one.object,
        "goodput": f"{one.goodput:.3f}",
        "ettr": f"{one.ettr:.3f}",
        "mpg": "" if one.mpg is None else f"{one.mpg:.3f}",
        "time": str(timedelta(seconds=round(one.seconds))),
        "restarts": one.restarts,
        "parts": [
            {"name": part, "width": round(100 * share, 2), "share": f"{share:.1%}"}
            for part, share in shares
        ],
        "failures": list(one.failures),
    }


def _job(
    one: JobOverview, currency: str, needs: Mapping[str, tuple[str, ...]], lines: AuthoredLines
) -> Data:
    job = one.job
    return {
        "job": str(one.file),
        "environment": one.file.environment,
        "file": one.file.path,
        "state": one.run.state.value,
        "status": one.run.status,
        "object": one.run.object,
        "target": one.run.target,
        "image": job.image.reference if job else "",
        "pool": job.pool.name if job and job.pool else "",
        "queue": job.queue if job else "",
        "asked": ", ".join(words.asked(one.demand, currency)),
        "hours": one.demand.hours.high,
        "needs": needs.get(str(one.file), ()),
        "held": [
            cause_data(Cause(held.path, held.before, held.after, held.place), lines)
            for held in one.run.held
        ],
        "finished": [
            {
                "object": entry.object,
                "outcome": entry.outcome,
                "date": entry.finished,
                "reason": " ".join(filter(None, (entry.reason, entry.note))),
            }
            for entry in one.finished
        ],
        "goodput": [_goodput(report) for report in one.goodput],
        "roles": list(_roles(one)),
    }


def _roles(one: JobOverview) -> Iterator[Data]:
    """Yield the roles of a job; how many of their pods are ready where the cluster was read."""
    for role in one.job.roles if one.job else ():
        assert role.role is not None
        pods = [pod for pod in (one.live.pods if one.live else ()) if pod.role == role.role.name]
        yield {
            "role": role.role.name,
            "nodes": f"{role.nodes:,}",
            "gpus": f"{role.nodes * role.resources.gpu:,}",
            "pool": role.pool.name if role.pool else "",
            "image": role.image.reference,
            "ready": f"{sum(pod.ready for pod in pods)}/{role.nodes}" if pods else "",
        }


def _team(one: JobOverview) -> str:
    """Whose job it is: as its label `team` has it, or else its queue."""
    return (one.job.labels.get("team") or one.job.queue or "") if one.job else ""


def _live(one: JobOverview, *, unread: bool) -> Data:
    """How the cluster has it: None where it was not asked, or has nothing of such a job."""
    if one.live is None:
        target = TARGETS.get(one.run.target)
        wanted = unread and target is not None and not target.envelope
        return {"phase": "not read", "reason": "", "message": ""} if wanted else None
    state = one.live.state
    return {"phase": state.phase.value, "reason": state.reason, "message": state.message}
