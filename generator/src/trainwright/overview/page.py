"""The report as one file for a browser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.model import Data, Severity
from trainwright.overview.collect import outcomes
from trainwright.overview.goodput import PARTS, RunGoodput, total_ettr
from trainwright.overview.model import EnvironmentOverview, JobOverview, Overview
from trainwright.plan import words
from trainwright.plan.html import cause_data
from trainwright.plan.model import Cause
from trainwright.reports.page import AuthoredLines, document, finding_data
from trainwright.reports.report import by_weight
from trainwright.reports.terminal import plural

_WEEKS = 52
_KINDS = ("began", "succeeded", "failed", "over")
_OVER = frozenset({"cancelled", "removed", "replaced"})
_WIDTH = 10  # of a week in the picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """`command` gives the same report again; `link` is an address that paths are added to."""

    command: str
    link: str = ""
    commit: str = ""


def render(found: Overview, style: Style) -> str:
    """The page, the same bytes for the same repository."""
    lines = AuthoredLines(found.sources)
    teams = {str(one.file): _team(one) for one in found.jobs}
    errors = sum(finding.severity is Severity.ERROR for finding in found.findings)
    data = {
        "link": style.link if style.link.startswith(("https://", "http://")) else "",
        "environments": [one.name for one in found.environments],
        "hours": max((job.demand.hours.high for job in found.jobs), default=0),
        "jobs": [_job(job, one.currency, lines) for one in found.environments for job in one.jobs],
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
        facts=[("commit", style.commit[:10])] if style.commit else [],
        environments=[_environment(one) for one in found.environments],
        weeks=_timeline(found),
        command=style.command,
    )


def _verdict(found: Overview, errors: int) -> str:
    states = Counter(job.run.state.value for job in found.jobs)
    held = sum(bool(job.run.held) for job in found.jobs)
    parts = [f"{len(found.environments):,} environments, {len(found.jobs):,} jobs"]
    parts += [f"{count:,} {state}" for state, count in sorted(states.items())]
    parts += [f"{held:,} behind what is written"] if held else []
    parts += [f"{errors:,} error{'' if errors == 1 else 's'}"] if errors else []
    return " · ".join(parts)


def _environment(one: EnvironmentOverview) -> Data:
    return {
        "name": one.name,
        "jobs": " · ".join(_counts(one)),
        "asked": ", ".join(words.asked(one.active, one.currency)),
        "bars": [words.bar(fit) for fit in one.fits],
    }


def _counts(one: EnvironmentOverview) -> Iterator[str]:
    yield plural(len(one.jobs), "job")
    reports = [report for job in one.jobs for report in job.goodput]
    ettr = total_ettr(reports)
    if ettr is not None:
        yield f"ETTR {ettr:.3f} of {plural(len(reports), 'run')}"


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


def _job(one: JobOverview, currency: str, lines: AuthoredLines) -> Data:
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
        "live": _live(one),
    }


def _team(one: JobOverview) -> str:
    """Whose job it is: as its label `team` has it, or else its queue."""
    return (one.job.labels.get("team") or one.job.queue or "") if one.job else ""


def _live(one: JobOverview) -> Data:
    if one.live is None:
        return None
    state = one.live.state
    return {"phase": state.phase.value, "reason": state.reason, "message": state.message}


def _timeline(found: Overview) -> Data:
    """Runs that began and ended per week, as bars; up to the newest event, whatever day it is."""
    happened = [(_monday(date), kind) for date, kind in _happened(found)]
    if not happened:
        return {"bars": [], "width": 0, "label": "", "count": 0}
    last = max(week for week, _ in happened)
    first = max(min(week for week, _ in happened), last - timedelta(weeks=_WEEKS - 1))
    counts = Counter(one for one in happened if one[0] >= first)
    weeks = [first + timedelta(weeks=n) for n in range((last - first).days // 7 + 1)]
    highest = max(sum(counts[week, kind] for kind in _KINDS) for week in weeks)
    began = sum(count for (_, kind), count in counts.items() if kind == "began")
    return {
        "bars": list(_bars(weeks, counts, highest)),
        "width": max(len(weeks), 12) * _WIDTH,
        "label": f"{began:,} runs began between {first} and {last + timedelta(days=6)}",
        "count": len(found.events),
    }


def _bars(
    weeks: list[date], counts: Mapping[tuple[date, str], int], highest: int
) -> Iterator[Mapping[str, Data]]:
    for position, week in enumerate(weeks):
        top = 100.0
        for kind in _KINDS:
            if count := counts.get((week, kind), 0):
                height = 96 * count / highest
                top -= height
                yield {
                    "kind": kind,
                    "x": position * _WIDTH + 1,
                    "y": round(top, 2),
                    "height": round(height, 2),
                    "label": f"week of {week}: {count:,} {kind}",
                }


def _happened(found: Overview) -> Iterator[tuple[date, str]]:
    for event in found.events:
        day = datetime.fromisoformat(event.when).date()
        if event.what in _OVER:
            yield day, "over"
        elif event.what == "began":
            yield day, "began"
    for _, entry in outcomes(found):
        if entry.finished:
            yield date.fromisoformat(entry.finished), entry.outcome


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())
