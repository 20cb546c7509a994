"""Runs that began and ended, as bars: a day each for the last weeks, or else a week each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta

from trainwright.datatypes.data import Data
from trainwright.datatypes.listing import plural
from trainwright.overview.collect import outcomes
from trainwright.overview.model import Overview

_KINDS = ("began", "succeeded", "failed", "over")
_OVER = frozenset({"cancelled", "removed", "replaced"})
_DAYS = 28  # a longer history has a bar for each week
_MOST, _LEAST = 52, 12  # bars
_TICKS = 4  # that a phone has room for
_WIDTH = 10  # of one in the picture


def timeline(overview: Overview) -> Data:
    """Return bars up to the newest event (not up to today), with the ends of both axes."""
    happened = list(_happened(overview))
    if not happened:
        return {"bars": [], "label": "", "count": 0}
    last = max(day for day, _ in happened)
    daily = (last - min(day for day, _ in happened)).days < _DAYS
    step = timedelta(days=1 if daily else 7)
    end = last if daily else _monday(last)
    oldest = min(day for day, _ in happened)
    needed = (end - (oldest if daily else _monday(oldest))) // step + 1
    bars = min(_MOST, max(_LEAST, needed))
    starts = [end - step * back for back in reversed(range(bars))]
    shown = [(day, kind) for day, kind in happened if day >= starts[0]]
    counts = Counter((day if daily else _monday(day), kind) for day, kind in shown)
    highest = max(sum(counts[start, kind] for kind in _KINDS) for start in starts)
    return {
        "bars": list(_bars(starts, counts, highest, "" if daily else "week of ")),
        "width": bars * _WIDTH,
        "label": _label(shown),
        "highest": highest,
        "ticks": [_tick(starts, index) for index in range(bars)],
        "step": "day" if daily else "week",
        "count": len(overview.events),
    }


def _tick(starts: Sequence[date], index: int) -> str:
    """Return the day that ends below a bar: the last one, and some at equal distances before it,
    each where there is room for it.
    """
    left, step = len(starts) - 1 - index, -(-len(starts) // _TICKS)
    return "" if left % step or index + 1 < step else str(starts[index])


def _label(shown: Sequence[tuple[date, str]]) -> str:
    """Return how many runs began, with the days on which the first and the last of them did."""
    began = [day for day, kind in shown if kind == "began"]
    if not began:
        return "No run began"
    first, last = min(began), max(began)
    when = f"on {first}" if first == last else f"between {first} and {last}"
    return f"{plural(len(began), 'run')} began {when}"


def _bars(
    starts: Sequence[date], counts: Mapping[tuple[date, str], int], highest: int, of: str
) -> Iterator[Mapping[str, Data]]:
    for position, start in enumerate(starts):
        top = 100.0
        for kind in _KINDS:
            if count := counts.get((start, kind), 0):
                height = 96 * count / highest
                top -= height
                yield {
                    "kind": kind,
                    "x": position * _WIDTH + 1,
                    "y": round(top, 2),
                    "height": round(height, 2),
                    "label": f"{of}{start}: {count:,} {kind}",
                }


def _happened(overview: Overview) -> Iterator[tuple[date, str]]:
    """Yield the day and the kind of each event. What left git and goes on is not over."""
    goes_on = {run.object for environment in overview.environments for run in environment.left}
    for event in overview.events:
        day = datetime.fromisoformat(event.when).date()
        if event.what in _OVER and event.object not in goes_on:
            yield day, "over"
        elif event.what == "began":
            yield day, "began"
    for _, entry in outcomes(overview):
        if entry.finished:
            known = entry.outcome in _KINDS
            yield date.fromisoformat(entry.finished), entry.outcome if known else "over"


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())
