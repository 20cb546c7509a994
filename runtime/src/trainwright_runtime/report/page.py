"""The report as one HTML file that loads nothing and runs no script.

The Content-Security-Policy allows its own styles, by their hash, and the picture in it.
https://developer.mozilla.org/en-US/docs/Web/HTTP/Guides/CSP
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from importlib.resources import files

from trainwright_runtime.observe.goodput import PARTS
from trainwright_runtime.report import picture
from trainwright_runtime.report.job import Job, ReportError
from trainwright_runtime.report.text import duration, plural, summary
from trainwright_runtime.report.timeline import timeline

_DPI = 200  # sharp on screens with two pixels per point

# Colours of timeline rows that cost time; the row's word means the same.
_TONES = {"killed": "danger", "failure": "danger", "restart": "warning", "resize": "warning"}

_NAMES = 8  # of workers that a row shows; a job may have thousands

_MEANING = {
    "scheduling": "nothing ran: the queue, the image, replacement of a pod",
    "start": "from the first start of the container to the first batch",
    "recovery": "starting again, and steps that were trained again or not committed",
    "checkpoint": "training stood still for one",
    "stall": "steps waited for their batches",
    "training": "steps whose result was kept",
    "other": "evaluation, and whatever else is between steps",
}


def html(job: Job, command: str) -> str:
    """Return the page, the same bytes for the same files; `command` prints the same as data.

    Raise ReportError without the extra `report`.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ImportError as error:
        raise ReportError(
            "no page: jinja2 is not installed; pip install 'trainwright-runtime[report]'"
        ) from error

    image = base64.b64encode(picture.png(job, _DPI)).decode("ascii")
    style = _asset("page.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    template = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(_asset("page.html"))
    return template.render(
        title=f"{job.run or 'Run'}: goodput {job.goodput:.3f}, ETTR {job.split.ettr:.3f}",
        duration=duration,
        plural=plural,
        moment=_moment,
        names=_names,
        tone=lambda name: _TONES.get(name, ""),
        command=command,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        style=style,
        image=image,
        job=job,
        summary=[(name, value) for name, value in summary(job) if not name.startswith(" ")],
        parts=[(name, getattr(job.split, name), _MEANING[name]) for name in PARTS],
        rows=list(timeline(job)),
    )


def _asset(name: str) -> str:
    return (files("trainwright_runtime.report") / name).read_text(encoding="utf-8")


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _names(workers: tuple[str, ...]) -> str:
    more = len(workers) - _NAMES
    shown = ", ".join(workers[:_NAMES])
    return f"{shown} and {plural(more, 'other')}" if more > 0 else shown
